"""The map of a frame: two lengths, a header (JSON or binary), a body.

This module is never compiled; ``frame.pxd`` has the same names for compiled modules, and
``test_maps.py`` compares the two.  Places of the binary header (``BINARY_*_AT``) are from its own
beginning, which is ``HEADER_AT`` of the frame.
"""

from __future__ import annotations

LENGTH_AT = 0  # of everything after it
LENGTH_SIZE = 4
MARK_AT = 4  # the header's kind in the first byte, its size in the other three
HEADER_AT = 8
KIND_SHIFT = 24
HEADER_SIZE_MASK = 0xFFFFFF
SIZE_MAX = 16777216

JSON = 0
BINARY = 1

BINARY_CODE_AT = 0
BINARY_LANGUAGE_AT = 2
BINARY_VERSION_AT = 3
BINARY_OPAQUE_AT = 5
BINARY_FLAG_AT = 9
BINARY_REMARK_LENGTH_AT = 13
BINARY_FIELDS_LENGTH_AT = 17  # without a remark
BINARY_SIZE_MIN = 21
BINARY_NAME_HEAD = 2  # the length in front of a field's name
BINARY_VALUE_HEAD = 4  # the length in front of a field's value

RESPONSE = 1  # bits of the flag
ONEWAY = 2
