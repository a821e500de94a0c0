# inline module: C for the modules that cimport it; never compiled by itself
# The C side of inner.py: the same names.
cdef enum:
    SIZE_AT = 0
    MAGIC_AT = 4
    BODY_CRC_AT = 8
    FLAG_AT = 12
    BODY_LENGTH_AT = 16
    BODY_AT = 20
    PROPERTIES_HEAD = 2
    SIZE_MIN = 22
