import cython

from contrailmq._native cimport index as text
from contrailmq._native cimport raw
from contrailmq._native.index cimport IndexWriter, java_hash, key_hash

cdef unsigned int _SIGN
cdef long long _TWO_32
cdef unsigned int _MAGIC_V1, _MAGIC_V2, _BLANK_MAGIC
cdef int _HEAD_SIZE
cdef unsigned int _TRAN_MASK, _TRAN_PREPARED, _TRAN_ROLLBACK, _INNER_BATCH
cdef int _NAME_END, _VALUE_END, _LIMIT, _BLANK
cdef long long _UNIQ_KEY
cdef unsigned int _TAGS, _KEYS, _ELAY


@cython.final
cdef class QueueWriter:
    cdef readonly object owner
    cdef readonly bytes topic
    cdef const unsigned char[::1] topic_view
    cdef const unsigned char* topic_address
    cdef readonly Py_ssize_t topic_size
    cdef readonly unsigned int queue_id
    cdef public long long next_offset
    cdef public long long max_offset
    cdef public long long log_end
    cdef public long long floor
    cdef public bint is_floorless
    cdef unsigned char[::1] buffer
    cdef unsigned char* address
    cdef public Py_ssize_t position
    cdef public Py_ssize_t limit
    cdef public long long batch

    @cython.locals(at=cython.Py_ssize_t)
    cpdef int put(self, long long log_offset, long long size, long long code) except -1


@cython.final
cdef class TopicQueues:
    cdef readonly bytes topic
    cdef const unsigned char[::1] topic_view
    cdef const unsigned char* topic_address
    cdef Py_ssize_t topic_size
    cdef readonly bint is_schedule
    cdef readonly unsigned int hash_start
    cdef public dict queues
    cdef public QueueWriter last


@cython.final
cdef class Deriver:
    cdef object host
    cdef public dict topics
    cdef list touched
    cdef public IndexWriter index
    cdef public bint has_ext
    cdef long long batch
    cdef public long long store_ms
    cdef public long long count
    cdef public int ended
    cdef const unsigned char[::1] data
    cdef Py_ssize_t data_size
    cdef const unsigned char* address
    cdef readonly long long base
    cdef readonly Py_ssize_t position
    cdef TopicQueues _last
    cdef Py_ssize_t tags, tags_size, keys, keys_size, unique, unique_size, delay, delay_size

    cpdef list take_touched(self)

    @cython.locals(entry=TopicQueues)
    cpdef QueueWriter find(self, bytes topic, unsigned int queue_id)

    cpdef Py_ssize_t run(self, const unsigned char[::1] data, long long base, Py_ssize_t position, Py_ssize_t limit) except -1

    @cython.locals(address="const unsigned char*", size=cython.longlong, magic=cython.uint)
    cpdef Py_ssize_t run_on(self, Py_ssize_t position, Py_ssize_t limit) except -1

    @cython.locals(
        sys_flag=cython.uint, at=cython.Py_ssize_t, times=cython.Py_ssize_t, end=cython.Py_ssize_t,
        body_size=cython.longlong, topic_size=cython.Py_ssize_t, properties=cython.Py_ssize_t,
        properties_size=cython.Py_ssize_t, entry=TopicQueues, store_ms=cython.longlong,
        tran=cython.uint,
    )
    cdef int _derive(self, Py_ssize_t position, Py_ssize_t size, int topic_head) except -1

    @cython.locals(last=TopicQueues, topic=bytes, entry=TopicQueues)
    cdef TopicQueues _topic(self, Py_ssize_t at, Py_ssize_t size)

    @cython.locals(
        stop=cython.Py_ssize_t, middle=cython.Py_ssize_t, size=cython.Py_ssize_t,
        value_size=cython.Py_ssize_t, data="const unsigned char*", name=cython.uint,
    )
    cdef int _scan_properties(self, Py_ssize_t at, Py_ssize_t end) except -1

    @cython.locals(
        queue_id=cython.uint, queue=QueueWriter, offset=cython.longlong,
        queue_offset=cython.longlong, code=cython.longlong,
    )
    cdef int _put_unit(self, Py_ssize_t position, Py_ssize_t size, TopicQueues entry, long long store_ms) except -1

    @cython.locals(index=IndexWriter, at=cython.Py_ssize_t, end=cython.Py_ssize_t, stop=cython.Py_ssize_t)
    cdef int _put_keys(self, long long offset, unsigned int hash_start, long long store_ms) except -1

    @cython.locals(index=IndexWriter)
    cdef int _put_key(self, unsigned int value, long long offset, long long store_ms) except -1
