# The C side of system.py.
# The wait for work, the fsync and the word that it is done: all without the interpreter lock.
cdef extern from *:
    """
    #include <errno.h>
    #include <stdint.h>
    #include <unistd.h>
    static int contrail_eventfd(int fd, int is_write) {
        uint64_t value = 1;
        ssize_t done;
        do {
            done = is_write ? write(fd, &value, 8) : read(fd, &value, 8);
        } while (done < 0 && errno == EINTR);
        return done == 8;
    }
    static void contrail_serve_syncs(int wake_fd, int done_fd, volatile int32_t *order) {
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
    static PyObject *contrail_step(PyObject *coroutine) {
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
