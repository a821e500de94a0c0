import cython

from contrailmq._native cimport hashing, raw, record, text, unit
from contrailmq._native.store.index cimport IndexWriter, key_hash

cdef int _LIMIT, _BLANK


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
    cdef public bint has_lights
    cdef public bint is_batch
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
    cdef public bint takes_parts
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
        spans=record.Spans, sys_flag=cython.uint, store_ms=cython.longlong, entry=TopicQueues,
        transaction=cython.uint,
    )
    cdef int _derive(self, Py_ssize_t position, Py_ssize_t size) except -1

    @cython.locals(last=TopicQueues, topic=bytes, entry=TopicQueues)
    cdef TopicQueues _topic(self, Py_ssize_t at, Py_ssize_t size)

    @cython.locals(data="const unsigned char*", pair=text.Pair)
    cdef int _scan_properties(self, Py_ssize_t at, Py_ssize_t end) except -1

    @cython.locals(queue=QueueWriter)
    cdef QueueWriter _queue(self, TopicQueues entry, unsigned int queue_id)

    cdef bint _is_next(self, QueueWriter queue, long long queue_offset, long long log_end) except -1

    cdef long long _code(self) noexcept

    cdef int _touch(self, QueueWriter queue) except -1

    @cython.locals(
        names=cython.Py_ssize_t, offsets=cython.Py_ssize_t, names_size=cython.Py_ssize_t,
        offsets_size=cython.Py_ssize_t, data="const unsigned char*", pair=text.Pair,
        offset=cython.longlong, code=cython.longlong,
    )
    cdef int _put_lights(self, Py_ssize_t position, Py_ssize_t size, Py_ssize_t at, Py_ssize_t end) except -1

    cdef int _put_light(self, QueueWriter queue, long long queue_offset, long long offset, long long size, long long code) except -1

    @cython.locals(queue=QueueWriter, offset=cython.longlong, found=record.Spans)
    cdef int _put_batch_unit(self, Py_ssize_t position, Py_ssize_t size, TopicQueues entry, long long store_ms) except -1

    @cython.locals(queue=QueueWriter, offset=cython.longlong, code=cython.longlong)
    cdef int _put_unit(self, Py_ssize_t position, Py_ssize_t size, TopicQueues entry, long long store_ms) except -1

    @cython.locals(index=IndexWriter, at=cython.Py_ssize_t, end=cython.Py_ssize_t, stop=cython.Py_ssize_t)
    cdef int _put_keys(self, long long offset, unsigned int hash_start, long long store_ms) except -1

    @cython.locals(index=IndexWriter)
    cdef int _put_key(self, unsigned int value, long long offset, long long store_ms) except -1
