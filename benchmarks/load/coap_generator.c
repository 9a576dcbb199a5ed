/* Puts a load of CoAP requests (RFC 7252) on a server of this machine and counts its answers.
 *
 * Each client has a socket of its own and one request in flight; an answer in blocks (RFC 7959) is
 * fetched whole before it counts. A client that is asked for an Echo (RFC 9175) repeats the request
 * with it. With --psk-identity and --psk all goes over DTLS. */

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    CON = 0, NON = 1, ACK = 2, RST = 3, GET = 1, CONTENT = 69, UNAUTHORIZED = 129,
    URI_PATH = 11, FORMAT = 12, URI_QUERY = 15, BLOCK2 = 23, ECHO_OPTION = 252,
    MAX_BYTES = 65536, MAX_SAMPLES = 4 << 20, HANDSHAKES = 16, LINK_FORMAT = 40,
};
static const uint64_t RESEND_NS = 2000000000ull, HANDSHAKE_LIMIT_NS = 30000000000ull;

struct client {
    int fd;
    SSL *ssl;
    bool ready;
    uint16_t id;
    uint32_t block;
    size_t bytes;
    uint64_t number, started_ns, sent_ns;
    uint8_t echo[40], echo_len;
};

static unsigned port, clients = 1, method = GET, expected, warm_up_ms = 200, measure_ms = 1000;
static unsigned first, modulo, count;
static const char *uri = "/", *payload = "", *identity, *key;
static struct client *all;
static uint64_t next_number, started, answered, measured, resent, echoes, refused, wrong;
static uint64_t from_ns, until_ns;
static uint32_t *samples;
static size_t sampled;
static unsigned last_refusal;
static bool is_over;

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static double cpu_s(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static void die(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(70);
}

static size_t put_option(uint8_t *at, unsigned *last, unsigned number, const void *value, size_t len) {
    unsigned delta = number - *last;
    size_t n = 1;
    *last = number;
    at[0] = (uint8_t)((delta < 13 ? delta : 13) << 4 | (len < 13 ? len : 13));
    if (delta >= 13) at[n++] = (uint8_t)(delta - 13);
    if (len >= 13) at[n++] = (uint8_t)(len - 13);
    memcpy(at + n, value, len);
    return n + len;
}

/* The parts of `uri` between `from` and `to`, as options; a # is the request's number. */
static size_t put_parts(uint8_t *at, unsigned *last, unsigned option, const char *from, const char *to,
                        char separator, uint64_t number) {
    size_t n = 0;
    while (from < to) {
        char part[256];
        size_t len = 0;
        for (; from < to && *from != separator && len < 200; from++) {
            if (*from == '#') len += (size_t)sprintf(part + len, "%llu", (unsigned long long)number);
            else part[len++] = *from;
        }
        n += put_option(at + n, last, option, part, len);
        if (from < to && ++from == to) n += put_option(at + n, last, option, "", 0);
    }
    return n;
}

static bool write_datagram(struct client *client, const uint8_t *bytes, size_t len) {
    if (client->ssl == NULL) return send(client->fd, bytes, len, 0) == (ssize_t)len;
    return SSL_write(client->ssl, bytes, (int)len) == (int)len;
}

static void send_request(struct client *client) {
    uint8_t bytes[4096] = {CON << 4 | 1 << 6 | 4, (uint8_t)method, (uint8_t)(client->id >> 8),
                           (uint8_t)client->id};
    unsigned last = 0;
    size_t n = 8, payload_len = strlen(payload);
    uint32_t token = htonl((uint32_t)(client - all));
    const char *end = uri + strlen(uri), *query = strchr(uri, '?');
    memcpy(bytes + 4, &token, 4);
    n += put_parts(bytes + n, &last, URI_PATH, uri + 1, query ? query : end, '/', client->number);
    if (payload_len) {
        uint8_t format = LINK_FORMAT;
        n += put_option(bytes + n, &last, FORMAT, &format, 1);
    }
    if (query) n += put_parts(bytes + n, &last, URI_QUERY, query + 1, end, '&', client->number);
    if (client->block) {
        uint32_t value = htonl(client->block << 4 | 6);
        n += put_option(bytes + n, &last, BLOCK2, (uint8_t *)&value + 1, 3);
    }
    if (client->echo_len) n += put_option(bytes + n, &last, ECHO_OPTION, client->echo, client->echo_len);
    if (payload_len) {
        bytes[n++] = 0xFF;
        memcpy(bytes + n, payload, payload_len);
        n += payload_len;
    }
    client->sent_ns = now_ns();
    write_datagram(client, bytes, n);
}

static void start_request(struct client *client) {
    if (count && started >= count) return;
    started++;
    client->number = first + (modulo ? next_number % modulo : next_number);
    next_number++;
    client->block = 0;
    client->bytes = 0;
    client->echo_len = 0;
    client->id++;
    client->started_ns = now_ns();
    send_request(client);
}

static void finish_request(struct client *client, uint64_t now) {
    answered++;
    if (expected && client->bytes != expected) wrong++;
    if (now >= from_ns && now < until_ns) {
        measured++;
        if (sampled < MAX_SAMPLES) samples[sampled++] = (uint32_t)((now - client->started_ns) / 1000);
    }
    if (count && answered >= count) is_over = true;
    start_request(client);
}

/* Reads the options that matter; false if the message is none. */
static bool read_options(const uint8_t *at, const uint8_t *end, const uint8_t **body, int64_t *block,
                         const uint8_t **echo, size_t *echo_len) {
    unsigned number = 0;
    *block = -1;
    *echo_len = 0;
    while (at < end && *at != 0xFF) {
        unsigned parts[2] = {*at >> 4, *at & 15};
        at++;
        for (int i = 0; i < 2; i++) {
            if (parts[i] == 15 || at + (parts[i] > 12) + (parts[i] > 13) > end) return false;
            if (parts[i] == 13) parts[i] = 13u + *at++;
            else if (parts[i] == 14) { parts[i] = 269u + (unsigned)(at[0] << 8 | at[1]); at += 2; }
        }
        number += parts[0];
        if (parts[1] > (size_t)(end - at)) return false;
        if (number == BLOCK2) {
            *block = 0;
            for (unsigned i = 0; i < parts[1] && i < 3; i++) *block = *block << 8 | at[i];
        }
        if (number == ECHO_OPTION && parts[1] <= 40) { *echo = at; *echo_len = parts[1]; }
        at += parts[1];
    }
    *body = at < end ? at + 1 : end;
    return true;
}

static void receive(struct client *client, const uint8_t *bytes, size_t len) {
    uint32_t token = htonl((uint32_t)(client - all));
    if (len < 4 || bytes[0] >> 6 != 1) return;
    unsigned type = bytes[0] >> 4 & 3, code = bytes[1];
    uint16_t id = (uint16_t)(bytes[2] << 8 | bytes[3]);
    if (type == RST && id == client->id) {
        refused++;
        finish_request(client, now_ns());
        return;
    }
    if (code < 64) return;
    if (type == CON) {
        uint8_t ack[4] = {ACK << 4 | 1 << 6, 0, bytes[2], bytes[3]};
        write_datagram(client, ack, 4);
    }
    if ((type == ACK && id != client->id) || (bytes[0] & 15) != 4 || len < 8 || memcmp(bytes + 4, &token, 4))
        return;
    const uint8_t *body, *echo = NULL;
    size_t echo_len;
    int64_t block;
    if (!read_options(bytes + 8, bytes + len, &body, &block, &echo, &echo_len)) {
        wrong++;
        return;
    }
    if (code == UNAUTHORIZED && echo_len && !client->echo_len) {
        echoes++;
        memcpy(client->echo, echo, echo_len);
        client->echo_len = (uint8_t)echo_len;
        client->id++;
        send_request(client);
        return;
    }
    if (code >> 5 != 2) {
        refused++;
        last_refusal = code;
    } else {
        if (block >= 0 && (uint32_t)(block >> 4) != client->block) return; /* an older block again */
        client->bytes += (size_t)(bytes + len - body);
        if (block >= 0 && block & 8) {
            client->block++;
            client->id++;
            send_request(client);
            return;
        }
    }
    finish_request(client, now_ns());
}

static void read_all(struct client *client) {
    static uint8_t bytes[MAX_BYTES];
    for (;;) {
        ssize_t len = client->ssl ? SSL_read(client->ssl, bytes, sizeof bytes)
                                  : recv(client->fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (len <= 0) return;
        receive(client, bytes, (size_t)len);
        if (client->ssl == NULL) return; /* one request in flight: rarely is there more */
    }
}

static unsigned give_key(SSL *ssl, const char *hint, char *name, unsigned name_room, unsigned char *secret,
                         unsigned secret_room) {
    (void)ssl, (void)hint;
    snprintf(name, name_room, "%s", identity);
    size_t len = strlen(key);
    if (len > secret_room) return 0;
    memcpy(secret, key, len);
    return (unsigned)len;
}

static void open_client(struct client *client, unsigned number, SSL_CTX *context, int epoll) {
    struct sockaddr_in server = {.sin_family = AF_INET};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    server.sin_port = htons((uint16_t)port);
    client->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    client->id = (uint16_t)(number * 251);
    if (client->fd < 0 || connect(client->fd, (struct sockaddr *)&server, sizeof server) ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, client->fd, &event))
        die("socket");
    if (context == NULL) return;
    BIO *bio = BIO_new_dgram(client->fd, BIO_NOCLOSE);
    BIO_ctrl(bio, BIO_CTRL_DGRAM_SET_CONNECTED, 0, &server);
    client->ssl = SSL_new(context);
    SSL_set_bio(client->ssl, bio, bio);
    SSL_set_mtu(client->ssl, 1400);
    SSL_set_options(client->ssl, SSL_OP_NO_QUERY_MTU);
}

/* Handshakes with few at a time; returns how many clients have none after the limit. */
static unsigned shake_hands(int epoll) {
    unsigned begun = 0, done = 0;
    uint64_t limit_ns = now_ns() + HANDSHAKE_LIMIT_NS, looked_ns = now_ns();
    while (done < clients && now_ns() < limit_ns) {
        while (begun < clients && begun < done + HANDSHAKES) SSL_connect(all[begun++].ssl);
        struct epoll_event events[64];
        int found = epoll_wait(epoll, events, 64, 100);
        for (int i = 0; i < found; i++) {
            struct client *client = events[i].data.ptr;
            if (!client->ready && SSL_connect(client->ssl) == 1) {
                client->ready = true;
                done++;
            }
        }
        if (now_ns() - looked_ns < RESEND_NS / 20) continue;
        looked_ns = now_ns();
        for (unsigned i = 0; i < begun; i++)
            if (!all[i].ready) DTLSv1_handle_timeout(all[i].ssl);
    }
    return clients - done;
}

static int by_size(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static unsigned percentile(unsigned percent) {
    return sampled ? samples[(sampled - 1) * percent / 100] : 0;
}

static void parse_options(int argc, char **argv) {
    struct { const char *name; unsigned *number; const char **text; } known[] = {
        {"port", &port, NULL}, {"clients", &clients, NULL}, {"method", &method, NULL},
        {"expected", &expected, NULL}, {"warm-up-ms", &warm_up_ms, NULL}, {"measure-ms", &measure_ms, NULL},
        {"first", &first, NULL}, {"modulo", &modulo, NULL}, {"count", &count, NULL}, {"uri", NULL, &uri},
        {"payload", NULL, &payload}, {"psk-identity", NULL, &identity}, {"psk", NULL, &key},
    };
    enum { KNOWN = sizeof known / sizeof known[0] };
    struct option options[KNOWN + 1] = {{0}};
    for (int i = 0; i < KNOWN; i++) options[i] = (struct option){known[i].name, required_argument, NULL, i};
    int which;
    while ((which = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (which == '?') exit(64);
        if (known[which].text) *known[which].text = optarg;
        else *known[which].number = (unsigned)strtoul(optarg, NULL, 10);
    }
    if (!port || port > 65535 || !clients || clients > 10000 || uri[0] != '/' || strlen(uri) > 500 ||
        strlen(payload) > 1024 || !identity != !key || optind != argc) {
        fputs("coap_generator: an option is missing or out of range\n", stderr);
        exit(64);
    }
}

int main(int argc, char **argv) {
    parse_options(argc, argv);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    SSL_CTX *context = NULL;
    all = calloc(clients, sizeof *all);
    samples = malloc(MAX_SAMPLES * sizeof *samples);
    if (epoll < 0 || all == NULL || samples == NULL) die("start");
    if (identity) {
        context = SSL_CTX_new(DTLS_client_method());
        SSL_CTX_set_security_level(context, 0); /* CCM_8, which RFC 7252 makes mandatory */
        SSL_CTX_set_cipher_list(context, "PSK-AES128-CCM8");
        SSL_CTX_set_psk_client_callback(context, give_key);
    }
    for (unsigned i = 0; i < clients; i++) open_client(&all[i], i, context, epoll);
    unsigned missing = context ? shake_hands(epoll) : 0;
    double cpu_before = 0;
    uint64_t now = now_ns(), looked_ns = now;
    from_ns = now + (count ? 0 : (uint64_t)warm_up_ms * 1000000);
    until_ns = count ? UINT64_MAX : from_ns + (uint64_t)measure_ms * 1000000;
    if (missing) is_over = true;
    else for (unsigned i = 0; i < clients; i++) start_request(&all[i]);
    bool is_measuring = false;
    uint64_t begun_ns = now;
    while (!is_over && now < until_ns) {
        struct epoll_event events[256];
        int found = epoll_wait(epoll, events, 256, 100);
        for (int i = 0; i < found; i++) read_all(events[i].data.ptr);
        now = now_ns();
        if (!is_measuring && now >= from_ns) {
            is_measuring = true;
            begun_ns = now;
            cpu_before = cpu_s();
        }
        if (now - looked_ns < RESEND_NS / 20) continue;
        looked_ns = now;
        if (count && !answered && now - from_ns > HANDSHAKE_LIMIT_NS) break;
        for (unsigned i = 0; i < clients; i++)
            if (all[i].sent_ns && now - all[i].sent_ns > RESEND_NS) {
                resent++;
                send_request(&all[i]);
            }
    }
    double cpu = cpu_s() - cpu_before, measured_s = 1e-9 * (double)(now - begun_ns);
    qsort(samples, sampled, sizeof *samples, by_size);
    printf("{\"no_handshake\": %u, \"answered\": %llu, \"measured\": %llu, \"measured_s\": %.6f, "
           "\"generator_cpu_s\": %.6f, \"resent\": %llu, \"echoes\": %llu, \"refused\": %llu, "
           "\"last_refusal\": %u, \"wrong\": %llu, \"p50_us\": %u, \"p99_us\": %u}\n",
           missing, (unsigned long long)answered, (unsigned long long)measured, measured_s, cpu,
           (unsigned long long)resent, (unsigned long long)echoes, (unsigned long long)refused,
           last_refusal / 32 * 100 + last_refusal % 32, (unsigned long long)wrong, percentile(50),
           percentile(99));
    for (unsigned i = 0; i < clients; i++)
        if (all[i].ssl) SSL_shutdown(all[i].ssl); /* or the server keeps the association */
    return 0;
}
