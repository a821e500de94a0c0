# inline module: C for the modules that cimport it; never compiled by itself
# The C side of record.py: the same names, as constants and inline functions. Bounds are the caller's.
from contrailmq._native cimport raw

cdef enum:
    SIZE_AT = 0
    MAGIC_AT = 4
    BODY_CRC_AT = 8
    QUEUE_ID_AT = 12
    FLAG_AT = 16
    QUEUE_OFFSET_AT = 20
    LOG_OFFSET_AT = 28
    SYS_FLAG_AT = 36
    BORN_MS_AT = 40
    BORN_HOST_AT = 48
    STORE_MS_AT = 56
    STORE_HOST_AT = 64
    RECONSUME_TIMES_AT = 72
    PREPARED_OFFSET_AT = 76
    BODY_LENGTH_AT = 84
    BODY_AT = 88

    HOST_SIZE = 8
    HOST_SIZE_V6 = 20
    PORT_SIZE = 4
    IPV6_EXTRA = 12
    START_SIZE = 8
    SIZE_MIN = 91
    SIZE_MAX = 0x7FFFFFFF
    PROPERTIES_HEAD = 2
    TOPIC_SIZE_MAX_V1 = 127
    TOPIC_SIZE_MAX = 32767
    PROPERTIES_SIZE_MAX = 32767
    CRC_MASK = 0x7FFFFFFF

    COMPRESSED = 0x1
    TRANSACTION_MASK = 0xC
    TRANSACTION_PREPARED = 0x4
    TRANSACTION_ROLLBACK = 0xC
    BORN_HOST_V6 = 0x10
    STORE_HOST_V6 = 0x20
    INNER_BATCH = 0x80
    COMPRESSION_MASK = 0x700

    END = 0
    EMPTY = 1
    BLANK = 2
    BAD_MAGIC = 3
    BAD_SIZE = 4
    BAD_PLACE = 5
    BAD_FIELDS = 6
    BAD_CRC = 7
    LOST_PAGE = 8
    FULL = 9
    CUT = 10

# Above INT_MAX, so not in the enum: a C enumerator is an int.
cdef extern from *:
    """
    #define CONTRAIL_MAGIC_V1 0xDAA320A7u
    #define CONTRAIL_MAGIC_V2 0xDAA320ABu
    #define CONTRAIL_MAGIC_BLANK 0xCBD43194u
    """
    const unsigned int MAGIC_V1 "CONTRAIL_MAGIC_V1"
    const unsigned int MAGIC_V2 "CONTRAIL_MAGIC_V2"
    const unsigned int MAGIC_BLANK "CONTRAIL_MAGIC_BLANK"

cdef struct Spans:
    Py_ssize_t size, body, body_size, topic, topic_size, properties, properties_size, end

cdef inline unsigned int size_of(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    return raw.get_u32(data, at + SIZE_AT)

cdef inline unsigned int magic(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    return raw.get_u32(data, at + MAGIC_AT)

cdef inline bint is_record(unsigned int magic) noexcept nogil:
    return magic == MAGIC_V1 or magic == MAGIC_V2

cdef inline unsigned int body_crc(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    return raw.get_u32(data, at + BODY_CRC_AT)

cdef inline unsigned int queue_id(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    return raw.get_u32(data, at + QUEUE_ID_AT)

cdef inline long long queue_offset(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    return raw.get_i64(data, at + QUEUE_OFFSET_AT)

cdef inline long long log_offset(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    return raw.get_i64(data, at + LOG_OFFSET_AT)

cdef inline unsigned int sys_flag(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    return raw.get_u32(data, at + SYS_FLAG_AT)

cdef inline Py_ssize_t born_host_size(unsigned int flag) noexcept nogil:
    return HOST_SIZE_V6 if flag & BORN_HOST_V6 else HOST_SIZE

cdef inline Py_ssize_t store_host_size(unsigned int flag) noexcept nogil:
    return HOST_SIZE_V6 if flag & STORE_HOST_V6 else HOST_SIZE

cdef inline Py_ssize_t moved(unsigned int flag) noexcept nogil:
    return born_host_size(flag) + store_host_size(flag) - 2 * HOST_SIZE

cdef inline Py_ssize_t store_ms_at(unsigned int flag) noexcept nogil:
    return BORN_HOST_AT + born_host_size(flag)

cdef inline long long store_ms(const unsigned char* data, Py_ssize_t at) noexcept nogil:
    return raw.get_i64(data, at + store_ms_at(sys_flag(data, at)))

cdef inline Py_ssize_t topic_head(Py_ssize_t topic_size) noexcept nogil:
    return 2 if topic_size > TOPIC_SIZE_MAX_V1 else 1

cdef inline Py_ssize_t size_with(Py_ssize_t body_size, Py_ssize_t topic_size, Py_ssize_t properties_size, unsigned int flag) noexcept nogil:
    cdef Py_ssize_t size = SIZE_MIN - 1 + topic_head(topic_size) + moved(flag)
    return size + body_size + topic_size + properties_size

cdef inline bint has_queue_offset(unsigned int flag) noexcept nogil:
    return flag & TRANSACTION_MASK != TRANSACTION_PREPARED and flag & TRANSACTION_MASK != TRANSACTION_ROLLBACK

cdef inline Spans no_record(int reason) noexcept nogil:
    return Spans(-reason, 0, 0, 0, 0, 0, 0, 0)

cdef inline Spans locate(const unsigned char* data, Py_ssize_t at, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t end = at + size
    cdef Py_ssize_t body = at + BODY_AT + moved(sys_flag(data, at))
    cdef Py_ssize_t head = 1 if magic(data, at) == MAGIC_V1 else 2
    cdef Py_ssize_t body_size, topic, topic_size, properties, properties_size, stop
    if body + head + PROPERTIES_HEAD > end:
        return no_record(BAD_FIELDS)
    body_size = raw.get_u32(data, body - BODY_AT + BODY_LENGTH_AT)
    if body_size > end - body - head - PROPERTIES_HEAD:
        return no_record(BAD_FIELDS)
    topic = body + body_size + head
    topic_size = data[topic - 1] if head == 1 else raw.get_u16(data, topic - 2)
    if topic_size > end - topic - PROPERTIES_HEAD:
        return no_record(BAD_FIELDS)
    properties = topic + topic_size + PROPERTIES_HEAD
    properties_size = raw.get_u16(data, properties - PROPERTIES_HEAD)
    stop = properties + properties_size
    if stop > end:
        return no_record(BAD_FIELDS)
    return Spans(size, body, body_size, topic, topic_size, properties, properties_size, stop)
