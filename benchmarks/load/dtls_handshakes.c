/* Shakes hands with a DTLS server of this machine, again and again, and counts.
 *
 * So many handshakes are under way at a time, each from a port of its own; a session that is there
 * is closed at once. With --psk-identity and --psk, or with --certificate and --key.
 * --resumed=1 goes on with a first session each time. --hold=N opens so many sessions, says so, and
 * keeps them until its input ends. */

#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "coap_wire.h"
#include "known_options.h"

enum { MAX_SAMPLES = 1 << 20, MAX_WIDTH = 64, MAX_HELD = 10000 };
static const uint64_t GIVEN_UP_NS = 5000000000ull;

struct client {
    int fd;
    SSL *ssl;
    uint64_t begun_ns;
    bool ready;
};

static unsigned port, width = 8, measure_ms = 1000, resumed, hold;
static const char *identity, *key, *certificate, *private_key;
static SSL_CTX *context;
static SSL_SESSION *session;
static int epoll;
static struct client *all;
static uint64_t done, failed, again, from_ns, until_ns, measured;
static uint32_t *samples;
static size_t sampled;

#include "dtls_client.h"

static void begin(struct client *client) {
    open_client(client, context, epoll);
    if (session) SSL_set_session(client->ssl, session);
    client->ready = false;
    client->begun_ns = now_ns();
}

static void end(struct client *client) {
    SSL_shutdown(client->ssl);
    SSL_free(client->ssl);
    close(client->fd);
}

static void begin_again(struct client *client) {
    end(client);
    begin(client);
    SSL_connect(client->ssl);
}

/* One step; whether the handshake is complete now. */
static bool step(struct client *client) {
    int result = SSL_connect(client->ssl);
    uint64_t now = now_ns();
    if (result == 1) {
        done++;
        again += (uint64_t)SSL_session_reused(client->ssl);
        if (now >= from_ns && now < until_ns) {
            measured++;
            if (sampled < MAX_SAMPLES) samples[sampled++] = (uint32_t)((now - client->begun_ns) / 1000);
        }
        return client->ready = true;
    }
    if (SSL_get_error(client->ssl, result) != SSL_ERROR_WANT_READ) {
        failed++;
        begin_again(client);
    }
    return false;
}

static void look_after(struct client *clients, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        if (clients[i].ready) continue;
        if (now_ns() - clients[i].begun_ns > GIVEN_UP_NS) {
            failed++;
            begin_again(&clients[i]);
        } else DTLSv1_handle_timeout(clients[i].ssl);
    }
}

/* Waits for what comes; what is complete is handed to `complete`. */
static void turn(struct client *clients, unsigned count, void (*complete)(struct client *)) {
    static uint64_t looked_ns;
    struct epoll_event events[64];
    int found = epoll_wait(epoll, events, 64, 100);
    for (int i = 0; i < found; i++) {
        struct client *client = events[i].data.ptr;
        if (!client->ready && step(client) && complete) complete(client);
    }
    if (now_ns() - looked_ns > 50000000) {
        looked_ns = now_ns();
        look_after(clients, count);
    }
}

static void open_all(unsigned count) {
    unsigned begun = 0;
    uint64_t limit_ns = now_ns() + 60000000000ull;
    while (done < count && now_ns() < limit_ns && failed < 100) {
        while (begun < count && begun < done + width) {
            begin(&all[begun]);
            step(&all[begun++]);
        }
        turn(all, begun, NULL);
    }
}

static double percentile(unsigned percent) {
    return sampled ? samples[(sampled - 1) * percent / 100] : 0;
}

static int by_sample(const void *one, const void *other) {
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    return (a > b) - (a < b);
}

static void parse_options(int argc, char **argv) {
    const struct known known[] = {
        {"port", &port, NULL}, {"width", &width, NULL}, {"measure-ms", &measure_ms, NULL},
        {"resumed", &resumed, NULL}, {"hold", &hold, NULL}, {"psk-identity", NULL, &identity},
        {"psk", NULL, &key}, {"certificate", NULL, &certificate}, {"key", NULL, &private_key},
    };
    read_known(argc, argv, known, sizeof known / sizeof known[0]);
    if (!port || port > 65535 || !width || width > MAX_WIDTH || hold > MAX_HELD || !identity != !key ||
        !identity == !certificate || !certificate != !private_key || optind != argc) {
        fputs("dtls_handshakes: an option is missing or out of range\n", stderr);
        exit(64);
    }
}

/* The server has to sign with the certificate's key. By whom the certificate is would cost this
 * program time of which it has none left: it takes nine tenths of a core with that. */
static int take_any(X509_STORE_CTX *shown, void *nothing) {
    (void)shown, (void)nothing;
    return 1;
}

static void make_context(void) {
    context = SSL_CTX_new(DTLS_client_method());
    SSL_CTX_set_security_level(context, 0); /* CCM_8, which RFC 7252 makes mandatory */
    if (identity) {
        SSL_CTX_set_cipher_list(context, "PSK-AES128-CCM8");
        SSL_CTX_set_psk_client_callback(context, give_key);
        return;
    }
    SSL_CTX_set_cipher_list(context, "ECDHE-ECDSA-AES128-CCM8");
    if (SSL_CTX_use_certificate_file(context, certificate, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_use_PrivateKey_file(context, private_key, SSL_FILETYPE_PEM) != 1)
        die("certificates");
    SSL_CTX_set_cert_verify_callback(context, take_any, NULL);
}

int main(int argc, char **argv) {
    parse_options(argc, argv);
    make_context();
    epoll = epoll_create1(EPOLL_CLOEXEC);
    all = calloc(MAX_HELD, sizeof *all);
    samples = malloc(MAX_SAMPLES * sizeof *samples);
    if (epoll < 0 || all == NULL || samples == NULL) die("start");
    if (hold) {
        open_all(hold);
        printf("{\"held\": %llu, \"failed\": %llu}\n", (unsigned long long)done, (unsigned long long)failed);
        fflush(stdout);
        while (getchar() != EOF) continue;
        for (unsigned i = 0; i < hold && all[i].ssl; i++) {
            end(&all[i]);
            if (i % 16 == 15) usleep(2000); /* alerts at once would overflow the server's socket */
        }
        return 0;
    }
    if (resumed) {
        open_all(1);
        session = all[0].ready ? SSL_get1_session(all[0].ssl) : NULL;
        end(&all[0]);
        done = again = 0;
    }
    from_ns = now_ns();
    until_ns = from_ns + (uint64_t)measure_ms * 1000000;
    double cpu_before = cpu_s();
    for (unsigned i = 0; i < width; i++) {
        begin(&all[i]);
        SSL_connect(all[i].ssl);
    }
    while (now_ns() < until_ns && failed < 100) turn(all, width, begin_again);
    double measured_s = 1e-9 * (double)(now_ns() - from_ns), cpu = cpu_s() - cpu_before;
    qsort(samples, sampled, sizeof *samples, by_sample);
    printf("{\"measured\": %llu, \"measured_s\": %.6f, \"resumed\": %llu, \"failed\": %llu, "
           "\"generator_cpu_s\": %.6f, \"p50_us\": %.0f, \"p99_us\": %.0f}\n",
           (unsigned long long)measured, measured_s, (unsigned long long)again, (unsigned long long)failed, cpu,
           percentile(50), percentile(99));
    /* What is under way is brought to its end: a server may hold a place for what is not. */
    uint64_t patience_ns = now_ns() + 500000000;
    for (unsigned left = width; left && now_ns() < patience_ns;) {
        turn(all, width, NULL);
        left = 0;
        for (unsigned i = 0; i < width; i++) left += !all[i].ready;
    }
    for (unsigned i = 0; i < width; i++) end(&all[i]);
    return 0;
}
