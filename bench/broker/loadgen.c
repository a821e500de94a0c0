/* loadgen: drive any RocketMQ remoting broker from one light thread, and print one JSON line.
 *
 *   loadgen create   -H host -P port -t topic -q queues [-T topics]
 *   loadgen send     -c connections -w in_flight -b body_bytes -s seconds [-r rate] [-N messages] [-x] [-n batch]
 *   loadgen pull     -c connections -w in_flight -m max_messages -s seconds [-f TAG:expr|SQL92:expr] [-o]
 *   loadgen latency  -r rate -b body_bytes -s seconds [-c readers]  (a producer and long-polling consumers)
 *
 * Without -r the loop is closed: each connection keeps -w requests in flight, and a latency is the
 * time from write to answer.  With -r it is open: requests are due at fixed moments whether or not
 * the broker keeps up, and a latency counts from the moment the request was due, so that a stall is
 * seen by every request it delays (no coordinated omission); the run ends when all that were due are
 * answered, and what is not answered ten seconds after the last was due counts as an error.
 *
 * -N ends a closed loop of sends when exactly so many messages are stored, for equal fills of two
 * brokers; a refused one is replaced.
 * -o pulls every queue once, to its end, instead of beginning again ("caught_up" says whether it did).
 *
 * -A key:secret signs sends and pulls; -S speaks TLS.  Both need a build with -DSECURE -lssl -lcrypto.  A signed
 * send of a queue is always the same but for its opaque, which no signature covers: signing costs nothing here.
 *
 * -x writes binary headers.  -T n spreads the load over n topics named topic-0 ... topic-(n-1).
 * Answers are matched to requests by their opaque, so they may come in any order.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#ifdef SECURE
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#endif
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define IN_SIZE (4u << 20)
#define BUCKETS 2400000 /* microseconds; what is slower is counted in the last one */
#define DRAIN_US 10000000
#define SPIN_US 40 /* the last stretch before a moment is spent asking, for a sleep ends late */

typedef struct {
    int fd, number, queue, free_count, *free_slots, want_write, done;
    uint64_t *started;
    char *out, *in;
    size_t out_size, out_sent, out_room, in_size;
    long *offsets; /* next offset to pull, by queue */
    int *slot_queue;
    void *tls;
} Connection;

static const char *host = "127.0.0.1", *topic = "bench", *mode;
static const char *filter_type = "TAG", *filter_text = "*";
static int port = 10911, connections = 1, window = 1, body_size = 128, queues = 4, topics = 1;
static int batch = 0, max_messages = 32, binary = 0, once = 0, readers_done = 0;
static double seconds = 5, rate = 0;
static char *account, *secret;
static int secure;
static uint64_t messages_max = 0, messages_issued = 0, born_ms;
static char *body;
static int payload_size;
static uint32_t *histogram;
static uint64_t answered, messages, bytes_read, errors, sequence, error_code_last;

static uint64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}
static void put32(char *at, uint32_t value) { value = htonl(value); memcpy(at, &value, 4); }
static uint32_t get32(const char *at) { uint32_t value; memcpy(&value, at, 4); return ntohl(value); }
/* What happens until a moment, to within microseconds: epoll_wait counts in milliseconds. */
static int wait_until(int epoll, struct epoll_event *events, int room, uint64_t due) {
    uint64_t now = now_us();
    if (due > now + SPIN_US) {
        uint64_t left = due - now - SPIN_US / 2;
        struct timespec timeout = {left / 1000000, left % 1000000 * 1000};
        struct pollfd waited = {.fd = epoll, .events = POLLIN};
        ppoll(&waited, 1, &timeout, 0);
    }
    return epoll_wait(epoll, events, room, 0);
}
static void die(const char *what) { perror(what); exit(1); }

static void note(uint64_t latency) { histogram[latency < BUCKETS ? latency : BUCKETS - 1]++; }

/* ---- headers ---- */
static char *number(char *at, uint64_t value) {
    char digits[20];
    int count = 0;
    do digits[count++] = '0' + value % 10; while (value /= 10);
    while (count) *at++ = digits[--count];
    return at;
}
static char *hex12(char *at, uint64_t value) {
    for (int shift = 44; shift >= 0; shift -= 4) *at++ = "0123456789ABCDEF"[value >> shift & 15];
    return at;
}
#define TEXT(at, text) (memcpy(at, text, sizeof text - 1), (at) + sizeof text - 1)

typedef struct { char *at; int binary; char *count_at; int first; } Writer;

static void field(Writer *w, const char *name, const char *value) {
    if (w->binary) {
        uint16_t key_size = htons(strlen(name));
        if (!*value) return;
        memcpy(w->at, &key_size, 2); w->at += 2;
        w->at = stpcpy(w->at, name);
        put32(w->at, strlen(value)); w->at += 4;
        w->at = stpcpy(w->at, value);
        return;
    }
    w->at += sprintf(w->at, "%s\"%s\":\"", w->first ? "" : ",", name);
    for (; *value; value++)
        if ((unsigned char)*value < 32) w->at += sprintf(w->at, "\\u%04x", *value);
        else *w->at++ = *value;
    *w->at++ = '"';
    w->first = 0;
}
static void field_number(Writer *w, const char *name, long value) {
    char text[24];
    sprintf(text, "%ld", value);
    field(w, name, text);
}
static Writer begin(char *frame, int code, uint32_t opaque) {
    Writer w = {frame + 8, binary, 0, 1};
    if (binary) {
        uint16_t c = htons(code), version = htons(407);
        memcpy(w.at, &c, 2); w.at[2] = 0; memcpy(w.at + 3, &version, 2);
        put32(w.at + 5, opaque); put32(w.at + 9, 0); put32(w.at + 13, 0);
        w.count_at = w.at + 17;
        w.at += 21;
    } else
        w.at += sprintf(w.at, "{\"code\":%d,\"extFields\":{", code);
    return w;
}
static size_t finish(Writer *w, char *frame, uint32_t opaque, const char *payload, int size) {
    if (binary) put32(w->count_at, w->at - w->count_at - 4);
    else {
        w->at = number(TEXT(w->at, "},\"flag\":0,\"language\":\"JAVA\",\"opaque\":"), opaque);
        w->at = TEXT(w->at, ",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":407}");
    }
    uint32_t header = w->at - frame - 8;
    put32(frame, 4 + header + size);
    put32(frame + 4, header | (binary ? 1u << 24 : 0));
    if (size) memcpy(w->at, payload, size);
    return 8 + header + size;
}
static const char *topic_name(uint64_t number) {
    static char name[256];
    if (topics == 1) return topic;
    snprintf(name, sizeof name, "%s-%d", topic, (int)(number % topics));
    return name;
}
/* The fields that sign a request whose content is these values and the body. */
static char *sign(char *at, const char *values, size_t size, const char *payload, int payload_size) {
#ifdef SECURE
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned digest_size;
    char *content = malloc(size + payload_size + 1);
    memcpy(content, values, size);
    if (payload_size) memcpy(content + size, payload, payload_size);
    HMAC(EVP_sha1(), secret, strlen(secret), (void *)content, size + payload_size, digest, &digest_size);
    free(content);
    at += sprintf(at, ",\"AccessKey\":\"%s\",\"Signature\":\"", account);
    at += EVP_EncodeBlock((void *)at, digest, digest_size);
    *at++ = '"';
#else
    (void)values; (void)size; (void)payload; (void)payload_size;
#endif
    return at;
}
static size_t make_signed_send(char *frame, uint32_t opaque, int queue, const char *payload, int size) {
    static char **made; /* by queue: the header up to the end of its fields */
    if (!made) made = calloc(queues, sizeof *made);
    if (!made[queue]) {
        char values[1024], properties[200], *text = made[queue] = malloc(2048);
        char born[24];
        sprintf(born, "%llu", (unsigned long long)born_ms);
        sprintf(properties, "UNIQ_KEY\0017F000001000018B4AAC2%012X\002WAIT\001true\002TAGS\001TagA\002", queue);
        int length = sprintf(values, "%sbench_producer%sTBW1024%d0%s0%s0falsefalse", account, topic_name(0), queue, born, properties);
        char *at = text + sprintf(text, "{\"code\":310,\"extFields\":{\"a\":\"bench_producer\",\"b\":\"%s\",\"c\":\"TBW102\",\"d\":\"4\",\"e\":\"%d\","
                                  "\"f\":\"0\",\"g\":\"%s\",\"h\":\"0\",\"i\":\"UNIQ_KEY\\u00017F000001000018B4AAC2%012X\\u0002WAIT\\u0001true"
                                  "\\u0002TAGS\\u0001TagA\\u0002\",\"j\":\"0\",\"k\":\"false\",\"m\":\"false\"", topic_name(0), queue, born, queue);
        *sign(at, values, length, payload, size) = 0;
    }
    Writer w = {stpcpy(frame + 8, made[queue]), 0, 0, 0};
    return finish(&w, frame, opaque, payload, size);
}
/* The same header as make_send's, without a formatter: it is made hundreds of thousands of times a second. */
static size_t make_json_send(char *frame, uint32_t opaque, int queue, const char *payload, int size, int many) {
    static char head[2][512];
    static int head_size[2];
    uint64_t id = sequence++;
    char *at = frame + 8;
    if (topics > 1 || !head_size[many]) /* what all requests begin with */
        head_size[many] = sprintf(head[many], "{\"code\":%d,\"extFields\":{\"a\":\"bench_producer\",\"b\":\"%s\","
                                  "\"c\":\"TBW102\",\"d\":\"4\",\"e\":\"", many ? 320 : 310, topic_name(id));
    memcpy(at, head[many], head_size[many]);
    at = number(at + head_size[many], queue);
    at = TEXT(at, "\",\"f\":\"0\",\"g\":\"");
    at = number(at, born_ms);
    at = TEXT(at, "\",\"h\":\"0\",\"i\":\"UNIQ_KEY\\u00017F000001000018B4AAC2");
    at = hex12(at, id);
    at = TEXT(at, "\\u0002WAIT\\u0001true\\u0002TAGS\\u0001Tag");
    *at++ = 'A' + id % 10;
    at = TEXT(at, "\\u0002\",\"j\":\"0\",\"k\":\"false\",\"m\":\"");
    at = many ? TEXT(at, "true") : TEXT(at, "false");
    *at++ = '"';
    Writer w = {at, 0, 0, 0};
    return finish(&w, frame, opaque, payload, size);
}
static size_t make_send(char *frame, uint32_t opaque, int queue, const char *payload, int size, int many) {
    if (account) return make_signed_send(frame, opaque, queue, payload, size);
    if (!binary) return make_json_send(frame, opaque, queue, payload, size, !!many);
    char properties[160], *at = properties;
    Writer w = begin(frame, many ? 320 : 310, opaque);
    uint64_t id = sequence++;
    at = TEXT(at, "UNIQ_KEY\0017F000001000018B4AAC2");
    at = hex12(at, id);
    at = TEXT(at, "\002WAIT\001true\002TAGS\001Tag");
    *at++ = 'A' + id % 10;
    memcpy(at, "\002", 2);
    field(&w, "a", "bench_producer"); field(&w, "b", topic_name(id)); field(&w, "c", "TBW102");
    field(&w, "d", "4"); field_number(&w, "e", queue); field(&w, "f", "0");
    field_number(&w, "g", born_ms); field(&w, "h", "0"); field(&w, "i", properties);
    field(&w, "j", "0"); field(&w, "k", "false"); field(&w, "m", many ? "true" : "false");
    return finish(&w, frame, opaque, payload, size);
}
static size_t make_json_pull(char *frame, uint32_t opaque, int queue, long offset, long suspend_ms) {
    static char head[512], tail[1024];
    static int head_size, tail_size;
    static long tail_suspend_ms = -1;
    char *at = frame + 8;
    if (tail_suspend_ms != suspend_ms) { /* what all pulls begin and end with */
        tail_suspend_ms = suspend_ms;
        head_size = snprintf(head, sizeof head, "{\"code\":11,\"extFields\":{\"consumerGroup\":\"bench_consumer\","
                             "\"topic\":\"%s\",\"queueId\":\"", topic_name(0));
        tail_size = snprintf(tail, sizeof tail, "\",\"maxMsgNums\":\"%d\",\"sysFlag\":\"%d\",\"commitOffset\":\"0\","
                             "\"suspendTimeoutMillis\":\"%ld\",\"subscription\":\"%s\",\"subVersion\":\"1\","
                             "\"expressionType\":\"%s\"", max_messages, suspend_ms ? 6 : 4, suspend_ms,
                             filter_text, filter_type);
        if (head_size >= (int)sizeof head || tail_size >= (int)sizeof tail) {
            fprintf(stderr, "the topic or the filter is too long\n");
            exit(2);
        }
    }
    memcpy(at, head, head_size);
    at = TEXT(number(at + head_size, queue), "\",\"queueOffset\":\"");
    at = number(at, offset < 0 ? 0 : offset);
    memcpy(at, tail, tail_size);
    if (account) { /* AccessKey, commitOffset, consumerGroup, expressionType, maxMsgNums, queueId, … */
        char values[2048];
        int length = snprintf(values, sizeof values, "%s0bench_consumer%s%d%d%ld1%s%ld%d%s", account, filter_type, max_messages,
                              queue, offset < 0 ? 0 : offset, filter_text, suspend_ms, suspend_ms ? 6 : 4, topic_name(0));
        Writer s = {sign(at + tail_size, values, length, 0, 0), 0, 0, 0};
        return finish(&s, frame, opaque, 0, 0);
    }
    Writer w = {at + tail_size, 0, 0, 0};
    return finish(&w, frame, opaque, 0, 0);
}
static size_t make_pull(char *frame, uint32_t opaque, int queue, long offset, long suspend_ms) {
    if (!binary) return make_json_pull(frame, opaque, queue, offset, suspend_ms);
    Writer w = begin(frame, 11, opaque);
    field(&w, "consumerGroup", "bench_consumer"); field(&w, "topic", topic_name(0));
    field_number(&w, "queueId", queue); field_number(&w, "queueOffset", offset);
    field_number(&w, "maxMsgNums", max_messages); field_number(&w, "sysFlag", suspend_ms ? 6 : 4);
    field(&w, "commitOffset", "0"); field_number(&w, "suspendTimeoutMillis", suspend_ms);
    field(&w, "subscription", filter_text); field(&w, "subVersion", "1");
    field(&w, "expressionType", filter_type);
    return finish(&w, frame, opaque, 0, 0);
}

/* ---- answers ---- */
static int answer_code(const char *frame, uint32_t header, int is_binary) {
    if (is_binary) return (int16_t)((unsigned char)frame[8] << 8 | (unsigned char)frame[9]);
    if (header > 9 && !memcmp(frame + 8, "{\"code\":", 8)) return atoi(frame + 16);
    const char *at = memmem(frame + 8, header, "\"code\":", 7);
    return at ? atoi(at + 7) : -1;
}
static uint32_t answer_opaque(const char *frame, uint32_t header, int is_binary) {
    if (is_binary) return get32(frame + 8 + 5);
    uint32_t tail = header < 96 ? header : 96; /* it stands near the end, as a rule */
    const char *at = memmem(frame + 8 + header - tail, tail, "\"opaque\":", 9);
    if (!at) at = memmem(frame + 8, header, "\"opaque\":", 9);
    return at ? (uint32_t)strtoul(at + 9, 0, 10) : 0xFFFFFFFF;
}
static long answer_field(const char *frame, uint32_t header, int is_binary, const char *name) {
    const char *at = memmem(frame + 8, header, name, strlen(name));
    if (!at) return -1;
    at += strlen(name);
    return is_binary ? strtol(at + 4, 0, 10) : strtol(at + 3, 0, 10); /* "name":"value" */
}

/* ---- connections ---- */
static int dial(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1) { fprintf(stderr, "bad host %s\n", host); exit(2); }
    if (connect(fd, (void *)&address, sizeof address)) die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}
static void *shake(int fd) {
#ifdef SECURE
    static SSL_CTX *context;
    if (!context) context = SSL_CTX_new(TLS_client_method());
    SSL *tls = SSL_new(context);
    SSL_set_fd(tls, fd);
    SSL_set_mode(tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    if (SSL_connect(tls) != 1) { fprintf(stderr, "no TLS\n"); exit(3); }
    return tls;
#else
    (void)fd;
    return 0;
#endif
}
static ssize_t put(Connection *c, const char *data, size_t size) {
#ifdef SECURE
    if (c->tls) {
        int n = SSL_write(c->tls, data, size > 1u << 20 ? 1 << 20 : (int)size);
        if (n <= 0) errno = SSL_get_error(c->tls, n) == SSL_ERROR_WANT_WRITE ? EAGAIN : EPIPE;
        return n <= 0 ? -1 : n;
    }
#endif
    return write(c->fd, data, size);
}
static ssize_t get(Connection *c, char *data, size_t size) {
#ifdef SECURE
    if (c->tls) {
        size_t total = 0; /* a record at a time: all that is there */
        int n = 0;
        while (total < size && (n = SSL_read(c->tls, data + total, size - total)) > 0) total += n;
        if (total) return total;
        int error = SSL_get_error(c->tls, n);
        if (error == SSL_ERROR_ZERO_RETURN) return 0;
        errno = error == SSL_ERROR_WANT_READ ? EAGAIN : EPIPE;
        return -1;
    }
#endif
    return read(c->fd, data, size);
}
static void open_connection(Connection *c, int number, int epoll) {
    c->number = number;
    c->queue = number % queues;
    c->fd = dial();
    if (secure) c->tls = shake(c->fd);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    c->out_room = (size_t)(window + 1) * (payload_size + 2048);
    c->out = malloc(c->out_room);
    c->in = malloc(IN_SIZE);
    c->started = calloc(window, 8);
    c->free_slots = calloc(window, sizeof(int));
    c->slot_queue = calloc(window, sizeof(int));
    c->offsets = calloc(queues, sizeof(long));
    for (int i = 0; i < window; i++) c->free_slots[c->free_count++] = i;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event)) die("epoll_ctl");
}
static void flush_out(Connection *c, int epoll) {
    while (c->out_sent < c->out_size) {
        ssize_t n = put(c, c->out + c->out_sent, c->out_size - c->out_sent);
        if (n < 0) {
            if (errno != EAGAIN) die("write");
            break;
        }
        c->out_sent += n;
    }
    int blocked = c->out_sent < c->out_size;
    if (!blocked) c->out_sent = c->out_size = 0;
    if (blocked != c->want_write) {
        struct epoll_event event = {.events = EPOLLIN | (blocked ? EPOLLOUT : 0), .data.ptr = c};
        epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &event);
        c->want_write = blocked;
    }
}
static int may_issue(const Connection *c) {
    return c->free_count && !c->done && (!messages_max || messages_issued < messages_max);
}
static void issue(Connection *c, uint64_t due) {
    int slot = c->free_slots[--c->free_count];
    uint32_t opaque = slot;
    if (c->out_sent) {
        memmove(c->out, c->out + c->out_sent, c->out_size - c->out_sent);
        c->out_size -= c->out_sent;
        c->out_sent = 0;
    }
    if (c->out_size + payload_size + 2048 > c->out_room) c->out = realloc(c->out, c->out_room *= 2);
    char *frame = c->out + c->out_size;
    c->started[slot] = due;
    if (*mode == 'p') {
        c->slot_queue[slot] = c->queue;
        c->out_size += make_pull(frame, opaque, c->queue, c->offsets[c->queue], 0);
    } else {
        c->out_size += make_send(frame, opaque, (c->queue++) % queues, body, payload_size, batch);
        messages_issued += batch ? batch : 1;
    }
}
static void queue_ended(Connection *c, int queue) {
    if (!once) {
        c->offsets[queue] = 0;
        c->queue = (queue + 1) % queues;
    } else if (!c->done && (c->queue = queue + connections) >= queues) {
        c->done = 1;
        readers_done++;
    }
}
static void handle(Connection *c, const char *frame, uint32_t size, uint64_t now) {
    uint32_t word = get32(frame + 4), header = word & 0xFFFFFF;
    int is_binary = word >> 24, code = answer_code(frame, header, is_binary);
    uint32_t slot = answer_opaque(frame, header, is_binary);
    if (slot >= (uint32_t)window) { errors++; return; }
    note(now - c->started[slot]);
    c->free_slots[c->free_count++] = slot;
    answered++;
    if (*mode != 'p') {
        if (code == 0) messages += batch ? batch : 1;
        else {
            errors++;
            error_code_last = code;
            messages_issued -= batch ? batch : 1; /* with -N: another takes its place */
        }
        return;
    }
    int queue = c->slot_queue[slot];
    if (code == 0) {
        const char *at = frame + 8 + header, *end = frame + 4 + size;
        bytes_read += end - at;
        while (at + 4 <= end) { messages++; at += get32(at); }
        c->offsets[queue] = answer_field(frame, header, is_binary, "nextBeginOffset");
    } else if (code == 19 || code == 21) {
        queue_ended(c, queue);
    } else if (code == 20) {
        c->offsets[queue] = answer_field(frame, header, is_binary, "nextBeginOffset");
    } else { errors++; error_code_last = code; }
}
static void read_in(Connection *c) {
    for (;;) {
        ssize_t n = get(c, c->in + c->in_size, IN_SIZE - c->in_size);
        if (n == 0) { fprintf(stderr, "the broker closed a connection\n"); exit(3); }
        if (n < 0) {
            if (errno == EAGAIN) return;
            die("read");
        }
        c->in_size += n;
        size_t at = 0;
        uint64_t now = now_us();
        while (c->in_size - at >= 8) {
            uint32_t size = get32(c->in + at);
            if (c->in_size - at - 4 < size) break;
            handle(c, c->in + at, size, now);
            at += 4 + size;
        }
        memmove(c->in, c->in + at, c->in_size - at);
        c->in_size -= at;
        if ((size_t)n < 65536) return;
    }
}

/* ---- the loops ---- */
static uint64_t percentile(double share) {
    uint64_t total = 0, seen = 0;
    for (int i = 0; i < BUCKETS; i++) total += histogram[i];
    for (int i = 0; i < BUCKETS; i++)
        if ((seen += histogram[i]) > total * share) return i;
    return 0;
}
static void report(double elapsed) {
    printf("{\"mode\":\"%s\",\"connections\":%d,\"in_flight\":%d,\"body\":%d,\"batch\":%d,\"binary\":%s,"
           "\"rate\":%.0f,\"seconds\":%.3f,\"requests\":%llu,\"messages\":%llu,\"messages_per_s\":%.0f,\"mb_per_s\":%.1f,"
           "\"caught_up\":%s,\"errors\":%llu,\"last_error\":%llu,\"p50_us\":%llu,\"p99_us\":%llu,\"p999_us\":%llu,\"max_us\":%llu}\n",
           mode, connections, window, body_size, batch, binary ? "true" : "false", rate, elapsed,
           (unsigned long long)answered, (unsigned long long)messages, messages / elapsed, bytes_read / elapsed / 1e6,
           once && readers_done == connections ? "true" : "false", (unsigned long long)errors, (unsigned long long)error_code_last,
           (unsigned long long)percentile(0.5), (unsigned long long)percentile(0.99),
           (unsigned long long)percentile(0.999), (unsigned long long)percentile(0.9999999));
}
static void run_load(void) {
    int epoll = epoll_create1(0);
    Connection *all = calloc(connections, sizeof(Connection));
    struct epoll_event events[512];
    for (int i = 0; i < connections; i++) open_connection(&all[i], i, epoll);
    uint64_t begin_at = now_us(), end_at = begin_at + (uint64_t)(seconds * 1e6), issued = 0;
    born_ms = (uint64_t)time(0) * 1000;
    uint64_t total = (uint64_t)(rate * seconds);
    double gap = rate > 0 ? 1e6 / rate : 0;
    if (gap) end_at += DRAIN_US;
    else
        for (int i = 0; i < connections; i++) {
            while (may_issue(&all[i])) issue(&all[i], now_us());
            flush_out(&all[i], epoll);
        }
    for (uint64_t now; (now = now_us()) < end_at;) {
        uint64_t next = now + 100000;
        born_ms = (uint64_t)time(0) * 1000;
        if (gap) { /* everything that is due by now, on the connections in turn */
            if (answered >= total) break;
            while (issued < total && begin_at + issued * gap <= now) {
                Connection *c = &all[issued % connections];
                if (!c->free_count) break; /* still counted from when it was due */
                issue(c, begin_at + (uint64_t)(issued * gap));
                issued++;
                flush_out(c, epoll);
            }
            if (issued < total && begin_at + issued * gap > now) next = begin_at + issued * gap;
        } else if ((messages_max && messages >= messages_max) || readers_done == connections)
            break;
        int n = gap ? wait_until(epoll, events, 512, next) : epoll_wait(epoll, events, 512, 100);
        for (int i = 0; i < n; i++) {
            Connection *c = events[i].data.ptr;
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) read_in(c);
            if (!gap && may_issue(c))
                for (now = now_us(); may_issue(c);) issue(c, now);
            flush_out(c, epoll);
        }
    }
    if (gap) errors += total - answered;
    report((now_us() - begin_at) / 1e6);
}
static uint32_t call(int fd, char *frame, size_t size) { /* one blocking round trip; the code */
    size_t got = 0;
    if (write(fd, frame, size) != (ssize_t)size) die("write");
    while (got < 8 || got < 4 + (size_t)get32(frame)) {
        ssize_t n = read(fd, frame + got, IN_SIZE - got);
        if (n <= 0) die("read");
        got += n;
    }
    return answer_code(frame, get32(frame + 4) & 0xFFFFFF, get32(frame + 4) >> 24);
}
static void run_create(void) {
    char *frame = malloc(IN_SIZE);
    int fd = dial();
    for (int i = 0; i < topics; i++) {
        Writer w = begin(frame, 17, 1);
        field(&w, "topic", topic_name(i)); field(&w, "defaultTopic", "TBW102");
        field_number(&w, "readQueueNums", queues); field_number(&w, "writeQueueNums", queues);
        field(&w, "perm", "6"); field(&w, "topicFilterType", "SINGLE_TAG");
        field(&w, "topicSysFlag", "0"); field(&w, "order", "false");
        size_t size = finish(&w, frame, 1, 0, 0);
        int code = call(fd, frame, size);
        if (code) { fprintf(stderr, "create %s: code %d\n", topic_name(i), code); exit(1); }
    }
    printf("{\"mode\":\"create\",\"topics\":%d}\n", topics);
}
typedef struct { int fd; long offset; size_t in_size; char *in; } Reader;

static void ask(Reader *r) {
    char pull[4096];
    size_t size = make_pull(pull, 7, 0, r->offset, 15000);
    if (write(r->fd, pull, size) != (ssize_t)size) die("write");
}
static void take(Reader *r) { /* what has come for one reader; a whole answer is followed by the next pull */
    ssize_t got = read(r->fd, r->in + r->in_size, IN_SIZE - r->in_size);
    if (got == 0) { fprintf(stderr, "the broker closed a connection\n"); exit(3); }
    if (got < 0) return;
    r->in_size += got;
    while (r->in_size >= 8 && r->in_size >= 4 + (size_t)get32(r->in)) {
        uint32_t frame_size = get32(r->in), header = get32(r->in + 4) & 0xFFFFFF;
        int is_binary = get32(r->in + 4) >> 24, code = answer_code(r->in, header, is_binary);
        uint64_t now = now_us(), due;
        if (code == 0) {
            char *at = r->in + 8 + header, *end = r->in + 4 + frame_size;
            for (; at + 96 <= end; at += get32(at)) {
                memcpy(&due, at + 88, 8); /* the body of a record with IPv4 hosts */
                note(now - due);
                messages++;
            }
        } else if (code != 19 && code != 20) { errors++; error_code_last = code; }
        long next = answer_field(r->in, header, is_binary, "nextBeginOffset");
        if (next >= 0) r->offset = next;
        memmove(r->in, r->in + 4 + frame_size, r->in_size - 4 - frame_size);
        r->in_size -= 4 + frame_size;
        ask(r);
    }
}
static void run_latency(void) {
    int sender = dial(), epoll = epoll_create1(0);
    char *out = malloc(IN_SIZE), *back = malloc(IN_SIZE);
    uint64_t total = (uint64_t)(rate * seconds), sent = 0, wanted = total * connections;
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = 0}, events[512];
    Writer w = begin(out, 30, 1); /* where the queue ends now */
    field(&w, "topic", topic_name(0)); field(&w, "queueId", "0");
    call(sender, out, finish(&w, out, 1, 0, 0));
    long offset = answer_field(out, get32(out + 4) & 0xFFFFFF, get32(out + 4) >> 24, "offset");
    fcntl(sender, F_SETFL, O_NONBLOCK);
    epoll_ctl(epoll, EPOLL_CTL_ADD, sender, &e);
    Reader *readers = calloc(connections, sizeof(Reader));
    for (int i = 0; i < connections; i++) {
        readers[i] = (Reader){dial(), offset, 0, malloc(IN_SIZE)};
        fcntl(readers[i].fd, F_SETFL, O_NONBLOCK);
        e.data.ptr = &readers[i];
        epoll_ctl(epoll, EPOLL_CTL_ADD, readers[i].fd, &e);
        ask(&readers[i]);
    }
    uint64_t begin_at = now_us() + 200000, give_up = begin_at + (uint64_t)(seconds * 1e6) + DRAIN_US;
    double gap = 1e6 / rate;
    while (messages < wanted && now_us() < give_up) {
        while (sent < total && begin_at + sent * gap <= now_us()) {
            uint64_t due = begin_at + (uint64_t)(sent * gap);
            born_ms = (uint64_t)time(0) * 1000;
            memcpy(body, &due, 8);
            size_t size = make_send(out, (uint32_t)sent, 0, body, body_size, 0);
            if (write(sender, out, size) != (ssize_t)size) die("write");
            sent++;
        }
        uint64_t next = sent < total ? begin_at + (uint64_t)(sent * gap) : now_us() + 100000;
        int n = wait_until(epoll, events, 512, next);
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr) take(events[i].data.ptr);
            else while (read(sender, back, IN_SIZE) > 0) {}
        }
    }
    answered = messages;
    errors += wanted - messages;
    report((now_us() - begin_at) / 1e6);
}
int main(int argc, char **argv) {
    int option;
    if (argc < 2) { fprintf(stderr, "loadgen create|send|pull|latency [options]; see the head of loadgen.c\n"); return 2; }
    mode = argv[1];
    optind = 2;
    while ((option = getopt(argc, argv, "H:P:t:q:T:c:w:b:s:r:N:xn:m:f:oA:S")) != -1) switch (option) {
        case 'H': host = optarg; break;
        case 'P': port = atoi(optarg); break;
        case 't': topic = optarg; break;
        case 'q': queues = atoi(optarg); break;
        case 'T': topics = atoi(optarg); break;
        case 'c': connections = atoi(optarg); break;
        case 'w': window = atoi(optarg); break;
        case 'b': body_size = atoi(optarg); break;
        case 's': seconds = atof(optarg); break;
        case 'r': rate = atof(optarg); break;
        case 'N': messages_max = strtoull(optarg, 0, 10); break;
        case 'x': binary = 1; break;
        case 'o': once = 1; break;
        case 'S': secure = 1; break;
        case 'A': account = strdup(optarg); secret = strchr(account, ':');
            if (!secret) { fprintf(stderr, "-A key:secret\n"); return 2; }
            *secret++ = 0; break;
        case 'n': batch = atoi(optarg); break;
        case 'm': max_messages = atoi(optarg); break;
        case 'f': filter_text = strchr(optarg, ':');
            if (!filter_text) { fprintf(stderr, "-f TAG:expression or SQL92:expression\n"); return 2; }
            filter_type = strndup(optarg, filter_text++ - optarg); break;
        default: return 2;
    }
    if (queues < 1 || connections < 1 || window < 1 || topics < 1 || body_size < 8) {
        fprintf(stderr, "queues, connections, window and topics must be at least 1, the body at least 8 bytes\n");
        return 2;
    }
#ifndef SECURE
    if (account || secure) { fprintf(stderr, "-A and -S need a build with -DSECURE -lssl -lcrypto\n"); return 2; }
#endif
    prctl(PR_SET_TIMERSLACK, 1);
    histogram = calloc(BUCKETS, 4);
    payload_size = *mode == 'p' ? 0 : body_size;
    body = malloc(body_size + 64);
    memset(body, 'x', body_size);
    if (batch) { /* size, magic, crc, flag, body size, body, properties size, properties */
        const char *properties = "UNIQ_KEY\0017F000001000018B4AAC2000000000001\002WAIT\001true\002TAGS\001TagA\002";
        int tail = strlen(properties), one = 22 + body_size + tail;
        payload_size = one * batch;
        free(body);
        body = calloc(1, payload_size);
        for (int i = 0; i < batch; i++) {
            char *at = body + (size_t)i * one;
            put32(at, one); put32(at + 16, body_size);
            memset(at + 20, 'x', body_size);
            at[20 + body_size] = tail >> 8; at[21 + body_size] = tail;
            memcpy(at + 22 + body_size, properties, tail);
        }
    }
    if (!strcmp(mode, "create")) run_create();
    else if (!strcmp(mode, "send") || !strcmp(mode, "pull")) run_load();
    else if (!strcmp(mode, "latency")) { if (rate <= 0) rate = 1000; run_latency(); }
    else { fprintf(stderr, "unknown mode %s\n", mode); return 2; }
    return 0;
}
