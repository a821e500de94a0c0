"""The map of a message inside the body of a batch send.

This module is never compiled; ``inner.pxd`` has the same names for compiled modules, and
``test_maps.py`` compares the two.  Such a message has no topic, queue or host of its own: size,
magic and checksum (both zero), flag, body with a 4-byte length, properties with a 2-byte length.
"""

from __future__ import annotations

SIZE_AT = 0
MAGIC_AT = 4
BODY_CRC_AT = 8
FLAG_AT = 12
BODY_LENGTH_AT = 16
BODY_AT = 20
PROPERTIES_HEAD = 2  # the length in front of the properties
SIZE_MIN = 22
