"""The map of an index file: its head, its slots, its entries.

This module is never compiled; ``index_file.pxd`` has the same names for compiled modules, and
``test_maps.py`` compares the two.  Places of the head are from the beginning of the file, those of
an entry (``ENTRY_*_AT``) from the beginning of the entry.
"""

from __future__ import annotations

BEGIN_MS_AT = 0
END_MS_AT = 8
BEGIN_OFFSET_AT = 16
END_OFFSET_AT = 24
SLOT_COUNT_AT = 32
COUNT_AT = 36
HEAD_SIZE = 40
SLOT_SIZE = 4

ENTRY_HASH_AT = 0
ENTRY_OFFSET_AT = 4
ENTRY_SECONDS_AT = 12
ENTRY_BEFORE_AT = 16
ENTRY_SIZE = 20


def slot_at(slot: int) -> int:
    """Return where a slot is."""
    return HEAD_SIZE + SLOT_SIZE * slot


def entry_at(slots: int, number: int) -> int:
    """Return where an entry is in a file of so many slots."""
    return HEAD_SIZE + SLOT_SIZE * slots + ENTRY_SIZE * number
