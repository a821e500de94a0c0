# inline module: C for the modules that cimport it; never compiled by itself
# The C side of index_file.py: the same names.
cdef enum:
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

cdef inline Py_ssize_t slot_at(Py_ssize_t slot) noexcept nogil:
    return HEAD_SIZE + SLOT_SIZE * slot

cdef inline Py_ssize_t entry_at(Py_ssize_t slots, Py_ssize_t number) noexcept nogil:
    return HEAD_SIZE + SLOT_SIZE * slots + ENTRY_SIZE * number
