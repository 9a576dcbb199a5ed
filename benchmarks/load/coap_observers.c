/* Observes one resource of a server of this machine with many clients (RFC 7641), changes it, and
 * measures the time until all have been told.
 *
 * A # in the change's path, query or payload is the number of the change; an observer has been told
 * when a notification comes that holds `bench-NUMBER-`. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "coap_wire.h"
#include "known_options.h"

enum { MAX_CHANGES = 1000 };
static const uint64_t TELL_LIMIT_NS = 10000000000ull, PAUSE_NS = 200000000ull;

struct observer {
    int fd;
    uint16_t id;
    bool observes;
    unsigned told;
    uint64_t sent_ns;
    uint8_t echo[40], echo_len;
};

static unsigned port, clients = 1, changes = 1, method = PUT;
static const char *uri = "/", *change_uri = "/", *payload = "";
static struct observer *all, writer;
static unsigned registered, current, told, refused;
static bool is_changing, is_over;

static void open_socket(struct observer *one, int epoll) {
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = one};
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    one->id = (uint16_t)rand(); /* an earlier run may have had this port: not its ids again */
    one->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (one->fd < 0 || connect(one->fd, (struct sockaddr *)&server, sizeof server) ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, one->fd, &event))
        die("socket");
}

static void send_request(struct observer *one) {
    bool is_change = one == &writer;
    uint8_t bytes[4096] = {CON << 4 | 1 << 6 | 4, (uint8_t)(is_change ? method : GET)};
    const char *target = is_change ? change_uri : uri, *end = target + strlen(target), *query = strchr(target, '?');
    unsigned last = 0;
    size_t n = 8;
    uint32_t token = htonl((uint32_t)(is_change ? clients : (unsigned)(one - all)));
    one->id++;
    bytes[2] = (uint8_t)(one->id >> 8);
    bytes[3] = (uint8_t)one->id;
    memcpy(bytes + 4, &token, 4);
    if (!is_change) n += put_option(bytes + n, &last, OBSERVE, "\1", is_over ? 1 : 0);
    n += put_parts(bytes + n, &last, URI_PATH, target + 1, query ? query : end, '/', current);
    if (query) n += put_parts(bytes + n, &last, URI_QUERY, query + 1, end, '&', current);
    if (one->echo_len) n += put_option(bytes + n, &last, ECHO_OPTION, one->echo, one->echo_len);
    if (is_change && *payload) {
        bytes[n++] = 0xFF;
        for (const char *at = payload; *at && n < 4000; at++) {
            if (*at == '#') n += (size_t)sprintf((char *)bytes + n, "%u", current);
            else bytes[n++] = (uint8_t)*at;
        }
    }
    one->sent_ns = now_ns();
    if (send(one->fd, bytes, n, 0) != (ssize_t)n) one->sent_ns = 0; /* again when it is looked at */
}

static void receive(struct observer *one, const uint8_t *bytes, size_t len) {
    struct options_read found;
    char wanted[32];
    if (len < 8 || bytes[0] >> 6 != 1 || bytes[1] < 64 || (bytes[0] & 15) != 4) return;
    if ((bytes[0] >> 4 & 3) == CON) {
        uint8_t ack[4] = {ACK << 4 | 1 << 6, 0, bytes[2], bytes[3]};
        send(one->fd, ack, 4, 0);
    }
    if (!read_options(bytes + 8, bytes + len, &found)) return;
    if (bytes[1] == UNAUTHORIZED && found.echo_len) {
        memcpy(one->echo, found.echo, found.echo_len);
        one->echo_len = (uint8_t)found.echo_len;
        send_request(one);
        return;
    }
    if (bytes[1] >> 5 != 2) {
        refused++;
        return;
    }
    if (one == &writer) one->observes = true;
    if (found.observe < 0) return; /* an observer asks again */
    if (!one->observes) registered++;
    one->observes = true;
    size_t wanted_len = (size_t)sprintf(wanted, "bench-%u-", current);
    if (is_changing && one->told != current &&
        memmem(found.body, (size_t)(bytes + len - found.body), wanted, wanted_len)) {
        one->told = current;
        told++;
    }
}

static void wait_and_read(int epoll, int wait_ms) {
    static uint8_t bytes[MAX_BYTES];
    struct epoll_event events[256];
    int found = epoll_wait(epoll, events, 256, wait_ms);
    for (int i = 0; i < found; i++) {
        struct observer *one = events[i].data.ptr;
        ssize_t len = recv(one->fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (len > 0) receive(one, bytes, (size_t)len);
    }
}

/* Some at a time, so that no request is lost in the server's socket. */
static void observe(int epoll) {
    uint64_t limit_ns = now_ns() + TELL_LIMIT_NS;
    for (unsigned begun = 0; registered < clients && now_ns() < limit_ns;) {
        while (begun < clients && begun < registered + 16) send_request(&all[begun++]);
        wait_and_read(epoll, 20);
        for (unsigned i = 0; i < begun; i++)
            if (!all[i].observes && now_ns() - all[i].sent_ns > RESEND_NS / 4) send_request(&all[i]);
    }
}

/* Returns the time in us until all were told. */
static uint32_t change(int epoll) {
    uint64_t pause_ends_ns = now_ns() + PAUSE_NS;
    while (now_ns() < pause_ends_ns) wait_and_read(epoll, 20); /* what is late of the last one */
    current++;
    is_changing = true;
    told = 0;
    uint64_t begun_ns = now_ns();
    writer.observes = false;
    send_request(&writer);
    while (told < registered && now_ns() - begun_ns < TELL_LIMIT_NS) {
        wait_and_read(epoll, 20);
        if (!writer.observes && now_ns() - writer.sent_ns > RESEND_NS) send_request(&writer);
    }
    return (uint32_t)((now_ns() - begun_ns) / 1000);
}

static void parse_options(int argc, char **argv) {
    const struct known known[] = {
        {"port", &port, NULL}, {"clients", &clients, NULL}, {"changes", &changes, NULL},
        {"method", &method, NULL}, {"uri", NULL, &uri}, {"change-uri", NULL, &change_uri},
        {"payload", NULL, &payload},
    };
    read_known(argc, argv, known, sizeof known / sizeof known[0]);
    if (!port || port > 65535 || !clients || clients > 10000 || !changes || changes > MAX_CHANGES ||
        uri[0] != '/' || change_uri[0] != '/' || optind != argc) {
        fputs("coap_observers: an option is missing or out of range\n", stderr);
        exit(64);
    }
}

int main(int argc, char **argv) {
    static uint32_t times_us[MAX_CHANGES];
    unsigned done = 0, missed = 0;
    parse_options(argc, argv);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    all = calloc(clients, sizeof *all);
    if (epoll < 0 || all == NULL) die("start");
    srand((unsigned)now_ns());
    current = (unsigned)(now_ns() / 1000000) % 1000000 * 1000; /* no change that an earlier run made */
    open_socket(&writer, epoll);
    for (unsigned i = 0; i < clients; i++) open_socket(&all[i], epoll);
    observe(epoll);
    double cpu_before = cpu_s();
    uint64_t begun_ns = now_ns();
    while (registered == clients && done < changes && !missed) {
        times_us[done++] = change(epoll);
        missed = registered - told;
    }
    double measured_s = 1e-9 * (double)(now_ns() - begun_ns), cpu = (cpu_s() - cpu_before) / measured_s;
    is_over = true;
    for (unsigned i = 0; i < clients; i++) { /* or the next run shares the server with these */
        send_request(&all[i]);
        if (i % 16 == 15) wait_and_read(epoll, 20);
    }
    qsort(times_us, done, sizeof *times_us, by_size);
    printf("{\"registered\": %u, \"changes\": %u, \"missed\": %u, \"refused\": %u, \"p50_us\": %u, "
           "\"max_us\": %u, \"generator_cpu\": %.4f}\n",
           registered, done, missed, refused, done ? times_us[(done - 1) / 2] : 0, done ? times_us[done - 1] : 0, cpu);
    return 0;
}
