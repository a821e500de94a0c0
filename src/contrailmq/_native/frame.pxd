# inline module: C for the modules that cimport it; never compiled by itself
# The C side of frame.py: the same names.
cdef enum:
    LENGTH_AT = 0
    LENGTH_SIZE = 4
    MARK_AT = 4
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
    BINARY_FIELDS_LENGTH_AT = 17
    BINARY_SIZE_MIN = 21
    BINARY_NAME_HEAD = 2
    BINARY_VALUE_HEAD = 4

    RESPONSE = 1
    ONEWAY = 2
