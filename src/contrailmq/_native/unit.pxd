# inline module: C for the modules that cimport it; never compiled by itself
# The C side of unit.py: the same names.
cdef enum:
    LOG_OFFSET_AT = 0
    RECORD_SIZE_AT = 8
    CODE_AT = 12
    SIZE = 20
