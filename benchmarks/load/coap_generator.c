/* Puts a load of CoAP requests (RFC 7252) on a server of this machine and counts its answers.
 *
 * Each client has a socket of its own and one request in flight; an answer in blocks (RFC 7959) is
 * fetched whole before it counts. A client that is asked for an Echo (RFC 9175) repeats the request
 * with it. With --psk-identity and --psk all goes over DTLS. --locations=FILE keeps the locations of
 * what was created, a line each; with --paths=FILE requests go to the paths of such a file. */

#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "coap_wire.h"
#include "known_options.h"

enum { MAX_SAMPLES = 4 << 20, HANDSHAKES = 16 };
static const uint64_t HANDSHAKE_LIMIT_NS = 30000000000ull;

struct client {
    int fd;
    SSL *ssl;
    bool ready;
    uint16_t id;
    uint32_t block;
    size_t bytes;
    uint64_t number, begun_ns, started_ns, sent_ns;
    uint8_t echo[40], echo_len;
};

static unsigned port, clients = 1, method = GET, expected, warm_up_ms = 200, measure_ms = 1000;
static unsigned first, modulo, count, limit_ms;
static const char *uri = "/", *payload = "", *identity, *key, *locations, *paths;
static FILE *locations_file;
static char **path_lines;
static size_t path_count;
static struct client *all;
static uint64_t next_number, started, answered, measured, resent, echoes, refused, wrong;
static uint64_t from_ns, until_ns;
static uint32_t *samples;
static size_t sampled;
static unsigned last_refusal;
static bool is_over;

#include "coap_dtls.h"

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
    const char *end = uri + strlen(uri), *query = strchr(uri, '?'), *path = uri, *path_end = query ? query : end;
    if (path_count) {
        path = path_lines[client->number % path_count];
        path_end = path + strlen(path);
    }
    memcpy(bytes + 4, &token, 4);
    n += put_parts(bytes + n, &last, URI_PATH, path + 1, path_end, '/', client->number);
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
    struct options_read found;
    if (!read_options(bytes + 8, bytes + len, &found)) {
        wrong++;
        return;
    }
    if (code == UNAUTHORIZED && found.echo_len && !client->echo_len) {
        echoes++;
        memcpy(client->echo, found.echo, found.echo_len);
        client->echo_len = (uint8_t)found.echo_len;
        client->id++;
        send_request(client);
        return;
    }
    if (code >> 5 != 2) {
        refused++;
        last_refusal = code;
    } else {
        if (found.block >= 0 && (uint32_t)(found.block >> 4) != client->block) return; /* an older block again */
        client->bytes += (size_t)(bytes + len - found.body);
        if (found.block >= 0 && found.block & 8) {
            client->block++;
            client->id++;
            send_request(client);
            return;
        }
        if (locations_file && code == CREATED) fprintf(locations_file, "%s\n", found.location);
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

static void read_paths(void) {
    FILE *file = fopen(paths, "r");
    char line[256];
    size_t room = 0;
    if (file == NULL) die(paths);
    while (fgets(line, sizeof line, file)) {
        if (path_count == room) path_lines = realloc(path_lines, (room = room * 2 + 1024) * sizeof *path_lines);
        line[strcspn(line, "\n")] = 0;
        if (path_lines == NULL || line[0] != '/' || (path_lines[path_count++] = strdup(line)) == NULL) die("paths");
    }
    fclose(file);
    if (!path_count) die("no path");
}

static unsigned percentile(unsigned percent) {
    return sampled ? samples[(sampled - 1) * percent / 100] : 0;
}

static void parse_options(int argc, char **argv) {
    const struct known known[] = {
        {"port", &port, NULL}, {"clients", &clients, NULL}, {"method", &method, NULL},
        {"expected", &expected, NULL}, {"warm-up-ms", &warm_up_ms, NULL}, {"measure-ms", &measure_ms, NULL},
        {"first", &first, NULL}, {"modulo", &modulo, NULL}, {"count", &count, NULL}, {"uri", NULL, &uri},
        {"payload", NULL, &payload}, {"psk-identity", NULL, &identity}, {"psk", NULL, &key},
        {"limit-ms", &limit_ms, NULL}, {"locations", NULL, &locations}, {"paths", NULL, &paths},
    };
    read_known(argc, argv, known, sizeof known / sizeof known[0]);
    if (!port || port > 65535 || !clients || clients > 10000 || (uri[0] != '/' && !paths) || strlen(uri) > 500 ||
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
    if (locations && (locations_file = fopen(locations, "w")) == NULL) die(locations);
    if (paths) read_paths();
    if (identity) {
        context = SSL_CTX_new(DTLS_client_method());
        SSL_CTX_set_security_level(context, 0); /* CCM_8, which RFC 7252 makes mandatory */
        SSL_CTX_set_cipher_list(context, "PSK-AES128-CCM8");
        SSL_CTX_set_psk_client_callback(context, give_key);
    }
    srand((unsigned)now_ns());
    for (unsigned i = 0; i < clients; i++) {
        all[i].id = (uint16_t)rand(); /* an earlier run may have had its port: not its ids again */
        open_client(&all[i], context, epoll);
    }
    unsigned missing = context ? shake_hands(context, epoll) : 0;
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
        if (limit_ms && now - from_ns > (uint64_t)limit_ms * 1000000) break;
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
           "\"last_refusal\": %u, \"wrong\": %llu, \"p50_us\": %u, \"p99_us\": %u, \"max_us\": %u}\n",
           missing, (unsigned long long)answered, (unsigned long long)measured, measured_s, cpu,
           (unsigned long long)resent, (unsigned long long)echoes, (unsigned long long)refused,
           last_refusal / 32 * 100 + last_refusal % 32, (unsigned long long)wrong, percentile(50),
           percentile(99), percentile(100));
    if (context) part();
    if (locations_file && fclose(locations_file)) die(locations);
    return 0;
}
