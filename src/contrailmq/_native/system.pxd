# inline module: C for the modules that cimport it; never compiled by itself
# The C side of system.py.
# The wait for work, the fsync and the word that it is done: all without the interpreter lock.
cdef extern from *:
    """
    #include <errno.h>
    #include <stdint.h>
    #include <unistd.h>
    static inline int contrail_eventfd(int fd, int is_write) {
        uint64_t value = 1;
        ssize_t done;
        do {
            done = is_write ? write(fd, &value, 8) : read(fd, &value, 8);
        } while (done < 0 && errno == EINTR);
        return done == 8;
    }
    static inline void contrail_serve_syncs(int wake_fd, int done_fd, volatile int32_t *order) {
        Py_BEGIN_ALLOW_THREADS
        while (contrail_eventfd(wake_fd, 0) && order[0] >= 0) {
            int32_t index, error = 0;
            for (index = 0; index < order[0] && !error; index++) {
                if (fdatasync(order[3 + index]) != 0) {
                    error = errno;
                    order[2] = index;
                }
            }
            order[1] = error;
            if (!contrail_eventfd(done_fd, 1))
                break;
        }
        Py_END_ALLOW_THREADS
    }
    """
    void contrail_serve_syncs(int wake_fd, int done_fd, int* order)

cdef inline void serve_syncs(int wake_fd, int done_fd, unsigned char* order) noexcept:
    contrail_serve_syncs(wake_fd, done_fd, <int*> order)

# A coroutine that ends at once costs no StopIteration here.
cdef extern from *:
    """
    static inline PyObject *contrail_step(PyObject *coroutine) {
        PyObject *value = NULL;
        switch (PyIter_Send(coroutine, Py_None, &value)) {
            case PYGEN_RETURN:
                Py_DECREF(value);
                return Py_NewRef(coroutine);
            case PYGEN_NEXT:
                return value;
            default:
                return NULL;
        }
    }
    """
    object contrail_step(object coroutine)

cdef inline object step(object coroutine):
    return contrail_step(coroutine)

# Where the kernel cannot bring pages in by itself (before 5.14) they are touched one by one.
cdef extern from *:
    """
    #include <errno.h>
    #include <poll.h>
    #include <stdint.h>
    #include <sys/mman.h>
    #include <unistd.h>
    static long long contrail_eventfd_take(int fd) {
        uint64_t value = 0;
        ssize_t done;
        do {
            done = read(fd, &value, 8);
        } while (done < 0 && errno == EINTR);
        return done == 8 ? (long long) value : -1;
    }
    static void contrail_bring_in(unsigned char *address, size_t size) {
        size_t at;
        if (madvise(address, size, 22) == 0 || errno != EINVAL)
            return;
        for (at = 0; at < size; at += 4096)
            (void) *(volatile unsigned char *) (address + at);
    }
    static void contrail_serve_loads(int wake_fd, int done_fd, volatile long long *orders, long long room) {
        long long given = 0, asked = 0, done = 0, more;
        struct pollfd wake = {wake_fd, POLLIN, 0};
        Py_BEGIN_ALLOW_THREADS
        for (;;) {
            if (done == given || poll(&wake, 1, 0) > 0) {
                more = contrail_eventfd_take(wake_fd);
                if (more < 0)
                    break;
                given += more;
            }
            if (orders[0] < 0)
                break;
            for (; asked < given; asked++)
                madvise((void *) orders[1 + 2 * (asked % room)], orders[2 + 2 * (asked % room)], MADV_WILLNEED);
            contrail_bring_in((unsigned char *) orders[1 + 2 * (done % room)], orders[2 + 2 * (done % room)]);
            done++;
            if (!contrail_eventfd(done_fd, 1))
                break;
        }
        Py_END_ALLOW_THREADS
    }
    """
    void contrail_serve_loads(int wake_fd, int done_fd, long long* orders, long long room)

cdef inline void serve_loads(int wake_fd, int done_fd, unsigned char* orders, long long room) noexcept:
    contrail_serve_loads(wake_fd, done_fd, <long long*> orders, room)

# All buffers with one call; nothing blocks, and a broken socket raises no signal.
cdef extern from *:
    """
    #include <string.h>
    #include <sys/socket.h>
    #include <sys/uio.h>
    #ifndef MSG_NOSIGNAL
    #define MSG_NOSIGNAL 0
    #endif
    #define CONTRAIL_PARTS 16
    static Py_ssize_t contrail_send_now(int fd, PyObject *buffers) {
        Py_buffer views[CONTRAIL_PARTS];
        struct iovec parts[CONTRAIL_PARTS];
        struct msghdr message;
        Py_ssize_t count = PyList_GET_SIZE(buffers), index, held = 0, left = 0;
        for (index = 0; index < count; index++) {
            Py_buffer view;
            if (PyObject_GetBuffer(PyList_GET_ITEM(buffers, index), &view, PyBUF_SIMPLE) != 0) {
                left = -1;
                break;
            }
            left += view.len;
            if (index < CONTRAIL_PARTS) {
                parts[held].iov_base = view.buf;
                parts[held].iov_len = (size_t) view.len;
                views[held++] = view;
            } else {
                PyBuffer_Release(&view);
            }
        }
        if (left > 0 && count == 1) {
            ssize_t sent = send(fd, parts[0].iov_base, parts[0].iov_len, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (sent > 0)
                left -= (Py_ssize_t) sent;
        } else if (left > 0) {
            ssize_t sent;
            memset(&message, 0, sizeof message);
            message.msg_iov = parts;
            message.msg_iovlen = (size_t) held;
            sent = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
            if (sent > 0)
                left -= (Py_ssize_t) sent;
        }
        for (index = 0; index < held; index++)
            PyBuffer_Release(&views[index]);
        return left;
    }
    """
    Py_ssize_t contrail_send_now(int fd, object buffers) except -1

cdef inline Py_ssize_t send_now(int fd, list buffers) except -1:
    return contrail_send_now(fd, buffers)

# Which sockets have something, and what they have: neither waits.
cdef extern from *:
    """
    #include <errno.h>
    #include <sys/socket.h>
    #ifdef __linux__
    #include <sys/epoll.h>
    #define CONTRAIL_READY_MAX 64
    static int contrail_ready(int fd, int *found, int room) {
        struct epoll_event events[CONTRAIL_READY_MAX];
        int count, index;
        if (room > CONTRAIL_READY_MAX)
            room = CONTRAIL_READY_MAX;
        count = epoll_wait(fd, events, room, 0);
        for (index = 0; index < count; index++)
            found[index] = events[index].data.fd;
        return count < 0 ? 0 : count;
    }
    #else
    static int contrail_ready(int fd, int *found, int room) { return 0; }
    #endif
    static Py_ssize_t contrail_receive(int fd, unsigned char *room, Py_ssize_t size) {
        ssize_t got = recv(fd, room, (size_t) size, MSG_DONTWAIT);
        if (got >= 0)
            return (Py_ssize_t) got;
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? -1 : 0;
    }
    """
    int contrail_ready(int fd, int* found, int room) noexcept
    Py_ssize_t contrail_receive(int fd, unsigned char* room, Py_ssize_t size) noexcept

cdef inline int ready(object epoll, int fd, unsigned char* found, int room) noexcept:
    return contrail_ready(fd, <int*> found, room)

cdef inline Py_ssize_t receive(int fd, unsigned char* room, Py_ssize_t size) noexcept:
    return contrail_receive(fd, room, size)

cdef extern from *:
    """
    #include <time.h>
    static long long contrail_wall_ms(void) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        return (long long) now.tv_sec * 1000 + now.tv_nsec / 1000000;
    }
    static long long contrail_monotonic_ns(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (long long) now.tv_sec * 1000000000 + now.tv_nsec;
    }
    """
    long long contrail_wall_ms() noexcept
    long long contrail_monotonic_ns() noexcept

cdef inline long long wall_ms() noexcept:
    return contrail_wall_ms()

cdef inline long long monotonic_ns() noexcept:
    return contrail_monotonic_ns()

cdef extern from *:
    """
    #include <sys/types.h>
    #include <unistd.h>
    static Py_ssize_t contrail_write_at(int fd, const unsigned char *data, Py_ssize_t size, long long position) {
        ssize_t done;
        Py_BEGIN_ALLOW_THREADS
        done = pwrite(fd, data, (size_t) size, (off_t) position);
        Py_END_ALLOW_THREADS
        return (Py_ssize_t) done;
    }
    """
    Py_ssize_t contrail_write_at(int fd, const unsigned char* data, Py_ssize_t size, long long position) noexcept

cdef inline Py_ssize_t write_at(int fd, const unsigned char* data, Py_ssize_t size, long long position) noexcept:
    return contrail_write_at(fd, data, size, position)
