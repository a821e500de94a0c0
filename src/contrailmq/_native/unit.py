"""The map of a consume-queue unit: where a message is in the log, and the code of its tags.

This module is never compiled; ``unit.pxd`` has the same names for compiled modules, and
``test_maps.py`` compares the two.
"""

from __future__ import annotations

LOG_OFFSET_AT = 0
RECORD_SIZE_AT = 8
CODE_AT = 12
SIZE = 20
