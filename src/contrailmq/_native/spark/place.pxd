# inline module: C for the modules that cimport it; never compiled by itself
# The C side of place.py: the same names.
cdef enum:
    RECORD = 0
    BODY = 1
    BODY_END = 2
    TOPIC = 3
    TOPIC_END = 4
    STORE_MS = 5
    PLACE_WIDTH = 6

    NAME = 0
    VALUE = 1
    VALUE_END = 2
    PAIR_WIDTH = 3

    HIT_WIDTH = 2
