"""The map of a survey: what it notes of a record, of a pair and of a hit, in 64-bit numbers.

This module is never compiled; ``place.pxd`` has the same names for compiled modules, and
``test_maps.py`` compares the two.  A *place* is where the parts of one record are, a *pair* where
one property is, a *hit* where the value of a wanted name is.
"""

from __future__ import annotations

RECORD = 0  # numbers of a place
BODY = 1
BODY_END = 2
TOPIC = 3
TOPIC_END = 4
STORE_MS = 5
PLACE_WIDTH = 6

NAME = 0  # numbers of a pair; a name ends one byte before its value
VALUE = 1
VALUE_END = 2
PAIR_WIDTH = 3

HIT_WIDTH = 2  # the value's beginning and end
