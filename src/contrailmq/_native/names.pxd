# inline module: C for the modules that cimport it; never compiled by itself
# The C side of names.py: the same names, as constants and an inline function.
from contrailmq._native cimport raw

cdef enum:
    SIZE_MAX = 255
    SPREAD = 31

    UNKNOWN = 0

    UNIQUE_KEY = 1
    WAIT = 2
    ACTED_ON = 3

    GROUP = 1
    TOPIC = 2
    QUEUE_ID = 3
    SYS_FLAG = 4
    BORN_MS = 5
    FLAG = 6
    PROPERTIES = 7
    RECONSUME_TIMES = 8
    UNIT_MODE = 9
    BATCH = 10
    QUEUE_OFFSET = 11
    COUNT = 12
    COMMIT_OFFSET = 13
    SUBSCRIPTION = 14
    SUB_VERSION = 15
    EXPRESSION_TYPE = 16
    NEXT_OFFSET = 17
    MIN_OFFSET = 18
    MAX_OFFSET = 19
    TRANSACTION_ID = 20
    MESSAGE_IDS = 21
    OPAQUE = 22
    FIELDS_SIZE = 23
    END = 24
    MEANINGS = 25

cdef inline int find(const unsigned char* table, const unsigned char* text, Py_ssize_t at, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t place
    if size == 0:
        return UNKNOWN
    place = raw.get_u16(table, 2 * ((text[at] + SPREAD * size) & 255))
    while table[place] != 0:
        if table[place] == size and table[place + 2] == text[at]:
            if size == 1 or raw.contrail_same(table + place + 2, text + at, size):
                return table[place + 1]
        place += 2 + table[place]
    return UNKNOWN
