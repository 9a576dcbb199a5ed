/* Loads an MQTT 3.1.1 broker on loopback, and checks what comes back.
 *
 * One thread, one epoll. Publisher i publishes to topic i; subscriber j subscribes to topic
 * j mod publishers. A publisher has at most --window messages that are not yet delivered to all of
 * its subscribers, or not yet acknowledged, and sends more when half of them are. Each payload carries when it was made, its number and
 * its publisher, so that loss, duplicates, order and stray messages are counted exactly.
 *
 * Phases: connect, warm up, measure, drain (send no more, wait for what is missing). The result is
 * one JSON object on stdout; its "status" is "ok" or says what ended the run.
 *
 * With --idle, subscribers connect, "ready" is printed, and all stay until stdin ends. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <time.h>

#include "options.h"
#include "packets.h"
#include "wire.h"

enum {
    OPENING_MAX = 32,      /* connections that wait for their CONNACK at a time */
    UNSENT_MAX = 256 * 1024,
    CONNECT_LIMIT_S = 30,
    STALL_S = 4,
    LATENCIES_MAX = 1 << 20,
};

enum phase { CONNECTING, WARMING, MEASURING, DRAINING, DONE };
enum state { OPENED, SUBSCRIBING, READY };

struct client {
    struct link link;
    bool publishes, dirty;
    enum state state;
    unsigned index, topic;
    /* A publisher's. */
    uint8_t *packet; /* pre-encoded; packet id, time and number are filled in */
    size_t packet_len, payload_at;
    uint64_t sent, acknowledged, delivered, allowed;
    unsigned packet_id;
    /* A subscriber's. */
    uint8_t *seen; /* a bit for each number */
    size_t seen_bytes;
    uint64_t next, unique;
};

static struct client *clients, **dirty;
static unsigned client_count, opened, ready, dirty_count, fan_out;
static int epoll_fd, timer_fd = -1;
static enum phase phase = CONNECTING;
static unsigned granted_qos = 2;
static uint64_t delivered, duplicated, disordered, stray;
static uint64_t measured_from_ns, measured_to_ns, measured_delivered, delivered_before;
static double cpu_before_s, cpu_s;
static uint64_t last_progress_ns;
static double *latencies_us;
static size_t latency_count;

static uint64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static double cpu_time_s(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static void finish(const char *status) {
    uint64_t sent = 0, lost = 0;
    for (unsigned i = 0; i < client_count; i++) {
        struct client *c = &clients[i];
        if (c->publishes) sent += c->sent;
        else if (option_publishers) lost += clients[option_subscribers + c->topic].sent - c->unique;
    }
    double measured_s = (double)(measured_to_ns - measured_from_ns) / 1e9;
    printf("{\"status\": \"%s\", \"granted_qos\": %u, \"sent\": %" PRIu64 ", \"delivered\": %" PRIu64
           ", \"lost\": %" PRIu64 ", \"duplicated\": %" PRIu64 ", \"disordered\": %" PRIu64
           ", \"stray\": %" PRIu64 ", \"measured_delivered\": %" PRIu64
           ", \"measured_s\": %.6f, \"generator_cpu_s\": %.6f, \"latencies_us\": [",
           status, granted_qos, sent, delivered, lost, duplicated, disordered, stray,
           measured_delivered, measured_s, cpu_s);
    for (size_t i = 0; i < latency_count; i++)
        printf(i ? ", %.1f" : "%.1f", latencies_us[i]);
    puts("]}");
    fflush(stdout);
    _exit(strcmp(status, "ok") == 0 ? 0 : 1);
}

static void mark_dirty(struct client *c) {
    if (!c->dirty) {
        c->dirty = true;
        dirty[dirty_count++] = c;
    }
}

/* -- packets out ------------------------------------------------------------------------------- */

static void answer(struct client *c, unsigned type, const uint8_t *packet_id) {
    write_acknowledgement(&c->link, type, packet_id);
    mark_dirty(c);
}

static bool may_publish(const struct client *c) {
    return c->sent < c->allowed && link_unsent(&c->link) < UNSENT_MAX &&
           c->sent * fan_out - c->delivered < (uint64_t)option_window * fan_out &&
           (option_qos == 0 || c->sent - c->acknowledged < option_window);
}

/* A window is refilled when half of it is free: to answer each delivery with one message would
 * make a broker that sends one at a time do so for ever, and the generator with it. */
static bool half_is_free(const struct client *c) {
    uint64_t half = option_window / 2;
    return c->sent * fan_out - c->delivered <= half * fan_out &&
           (option_qos == 0 || c->sent - c->acknowledged <= half);
}

static void publish(struct client *c) {
    if ((phase != WARMING && phase != MEASURING) || !half_is_free(c)) return;
    uint64_t now = clock_ns();
    while (may_publish(c)) {
        uint8_t *at = link_reserve(&c->link, c->packet_len);
        memcpy(at, c->packet, c->packet_len);
        if (option_qos) {
            c->packet_id = c->packet_id % 65535 + 1;
            put16(at + c->payload_at - 2, c->packet_id);
        }
        memcpy(at + c->payload_at, &now, 8);
        memcpy(at + c->payload_at + 8, &c->sent, 8);
        c->sent++;
    }
}

/* -- packets in -------------------------------------------------------------------------------- */

static void set_ready(struct client *c) {
    c->state = READY;
    ready++;
}

static void count_number(struct client *c, struct client *from, uint64_t number) {
    size_t byte = number / 8;
    uint8_t bit = (uint8_t)(1u << number % 8);
    if (byte >= c->seen_bytes) {
        size_t bytes = 2 * byte + 4096;
        c->seen = must(realloc(c->seen, bytes));
        memset(c->seen + c->seen_bytes, 0, bytes - c->seen_bytes);
        c->seen_bytes = bytes;
    }
    if (c->seen[byte] & bit) {
        duplicated++;
        return;
    }
    c->seen[byte] |= bit;
    if (number < c->next) disordered++;
    else c->next = number + 1;
    c->unique++;
    delivered++;
    from->delivered++;
    mark_dirty(from);
}

static void on_message(struct client *c, const uint8_t *packet, size_t body, size_t len,
                       uint64_t now) {
    unsigned qos = packet[0] >> 1 & 3;
    size_t payload_at = body + 2 + get16(packet + body) + (qos ? 2 : 0);
    struct client *from = &clients[option_subscribers + c->topic];
    uint64_t made_ns, number;
    uint32_t topic;
    if (option_publishers == 0 || qos != option_qos || payload_at + option_payload != len) {
        stray++;
    } else {
        memcpy(&made_ns, packet + payload_at, 8);
        memcpy(&number, packet + payload_at + 8, 8);
        memcpy(&topic, packet + payload_at + 16, 4);
        if (topic != c->topic || number >= from->sent) stray++;
        else {
            count_number(c, from, number);
            if (option_rate && phase == MEASURING && latency_count < LATENCIES_MAX)
                latencies_us[latency_count++] = (double)(now - made_ns) / 1e3;
        }
    }
    if (qos && payload_at <= len)
        answer(c, qos == 1 ? PUBACK : PUBREC, packet + payload_at - 2);
}

static void on_packet(struct client *c, const uint8_t *packet, size_t body, size_t len,
                      uint64_t now) {
    if ((packet[0] & 0xF0) == PUBLISH && len >= body + 2) {
        on_message(c, packet, body, len, now);
        return;
    }
    if (len < body + 2) return; /* nothing that is shorter matters here */
    switch (packet[0]) {
    case CONNACK:
        if (packet[body + 1] != 0) finish("connection refused");
        if (c->publishes) set_ready(c);
        else {
            write_subscribe(&c->link, c->topic, option_qos);
            c->state = SUBSCRIBING;
            mark_dirty(c);
        }
        break;
    case SUBACK:
        if (packet[len - 1] & 0x80) finish("subscription refused");
        if (packet[len - 1] < granted_qos) granted_qos = packet[len - 1];
        if (granted_qos < option_qos) finish("lower QoS granted");
        set_ready(c);
        break;
    case PUBREC:
        answer(c, PUBREL, packet + body);
        break;
    case PUBREL:
        answer(c, PUBCOMP, packet + body);
        break;
    case PUBACK:
    case PUBCOMP:
        c->acknowledged++;
        mark_dirty(c);
        break;
    }
}

static void receive(struct client *c) {
    bool open = link_read(&c->link);
    uint64_t now = clock_ns();
    size_t at = 0, body = 0, len;
    while ((len = packet_length(c->link.in + at, c->link.in_len - at, &body)) != 0) {
        if (len == SIZE_MAX) finish("malformed packet");
        on_packet(c, c->link.in + at, body, len, now);
        at += len;
    }
    link_consume(&c->link, at);
    if (at) last_progress_ns = now;
    if (!open) finish(c->state == OPENED ? "closed before CONNACK" : "closed by the broker");
}

/* -- phases ------------------------------------------------------------------------------------ */

static void open_clients(void) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    while (opened < client_count && opened - ready < OPENING_MAX) {
        struct client *c = &clients[opened];
        address.sin_port = htons((uint16_t)(c->publishes ? option_port : option_subscribe_port));
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
            finish("can't connect");
        fcntl(fd, F_SETFL, O_NONBLOCK);
        link_open(&c->link, fd, epoll_fd, c);
        write_connect(&c->link, c->index);
        mark_dirty(c);
        opened++;
    }
}

static void start_timer(void) {
    long interval_ns = 1000000000L / (long)option_rate;
    struct itimerspec every = {.it_interval = {interval_ns / 1000000000L, interval_ns % 1000000000L},
                               .it_value = {interval_ns / 1000000000L, interval_ns % 1000000000L}};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    timerfd_settime(timer_fd, 0, &every, NULL);
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer_fd, &event);
}

static void on_timer(void) {
    uint64_t expired;
    if (read(timer_fd, &expired, sizeof expired) != sizeof expired) return;
    for (unsigned i = option_subscribers; i < client_count; i++) {
        if (clients[i].allowed + expired <= option_count) clients[i].allowed += expired;
        mark_dirty(&clients[i]);
    }
}

static void start_load(void) {
    for (unsigned i = option_subscribers; i < client_count; i++) {
        clients[i].allowed = option_rate ? 0 : option_count;
        mark_dirty(&clients[i]);
    }
    if (option_rate) start_timer();
}

static bool drained(void) {
    for (unsigned i = option_subscribers; i < client_count; i++) {
        const struct client *c = &clients[i];
        if (c->delivered < c->sent * fan_out || (option_qos && c->acknowledged < c->sent))
            return false;
    }
    return true;
}

static void advance(uint64_t now, uint64_t started_ns) {
    static uint64_t warm_from_ns;
    if (phase == CONNECTING) {
        if (now - started_ns > CONNECT_LIMIT_S * 1000000000ull) finish("connecting took too long");
        open_clients();
        if (ready < client_count) return;
        if (option_idle) {
            phase = DONE;
            return;
        }
        phase = WARMING;
        warm_from_ns = last_progress_ns = now;
        start_load();
    }
    if (phase == WARMING && now - warm_from_ns >= option_warm_up_ms * 1000000ull) {
        phase = MEASURING;
        measured_from_ns = now;
        delivered_before = delivered;
        cpu_before_s = cpu_time_s();
    }
    if (phase == MEASURING && now - measured_from_ns >= option_measure_ms * 1000000ull) {
        phase = DRAINING;
        measured_to_ns = now;
        measured_delivered = delivered - delivered_before;
        cpu_s = cpu_time_s() - cpu_before_s;
    }
    if (phase == DRAINING && drained()) phase = DONE;
    if (now - last_progress_ns > STALL_S * 1000000000ull) finish("stalled");
}

static void flush_dirty(void) {
    for (unsigned i = 0; i < dirty_count; i++) {
        struct client *c = dirty[i];
        c->dirty = false;
        if (c->publishes) publish(c);
        if (!link_flush(&c->link, epoll_fd, c)) finish("closed by the broker");
    }
    dirty_count = 0;
}

static void set_up_publisher(struct client *c) {
    c->packet = must(calloc(1, publish_room(option_payload)));
    c->packet_len = encode_publish(c->packet, c->topic, option_qos, option_payload);
    c->payload_at = c->packet_len - option_payload;
    memset(c->packet + c->payload_at, '.', option_payload);
    memcpy(c->packet + c->payload_at + 16, &c->topic, 4);
}

static void set_up_clients(void) {
    client_count = option_subscribers + option_publishers;
    clients = must(calloc(client_count, sizeof *clients));
    dirty = must(calloc(client_count, sizeof(struct client *)));
    latencies_us = must(calloc(option_rate ? LATENCIES_MAX : 1, sizeof *latencies_us));
    fan_out = option_publishers ? option_subscribers / option_publishers : 1;
    for (unsigned i = 0; i < client_count; i++) {
        struct client *c = &clients[i];
        c->index = i;
        c->publishes = i >= option_subscribers;
        c->topic = c->publishes ? i - option_subscribers
                                : option_publishers ? i % option_publishers : i;
        if (c->publishes) set_up_publisher(c);
    }
}

static void leave(void) {
    for (unsigned i = 0; i < client_count; i++) {
        memcpy(link_reserve(&clients[i].link, 2), "\xe0\x00", 2);
        link_flush(&clients[i].link, epoll_fd, &clients[i]);
    }
}

int main(int argc, char **argv) {
    parse_options(argc, argv);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    set_up_clients();
    uint64_t started_ns = last_progress_ns = clock_ns();
    struct epoll_event events[256];
    while (true) {
        advance(clock_ns(), started_ns);
        if (phase == DONE) break;
        flush_dirty();
        int n = epoll_wait(epoll_fd, events, 256, 20);
        for (int i = 0; i < n; i++) {
            struct client *c = events[i].data.ptr;
            if (c == NULL) on_timer();
            else {
                if (events[i].events & EPOLLOUT) mark_dirty(c);
                if (events[i].events & ~(uint32_t)EPOLLOUT) receive(c);
            }
        }
    }
    if (option_idle) {
        puts("ready");
        fflush(stdout);
        while (getchar() != EOF) {}
    }
    leave();
    finish("ok");
}
