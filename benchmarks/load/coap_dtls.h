/* The DTLS clients of the CoAP load programs: handshakes with a pre-shared key, and their end.
 *
 * Included once `struct client`, `all`, `clients`, `port`, `identity` and `key` are declared. */

#include "dtls_client.h"

/* A first step that no answer was waited for can be the whole handshake: on a busy machine the
 * server answers each flight before this program looks for it. */
static bool step(struct client *client) {
    if (!client->begun_ns) client->begun_ns = now_ns();
    if (!client->ready) client->ready = SSL_connect(client->ssl) == 1;
    return client->ready;
}

/* From another port: the server may have an association with this one that an earlier run left. */
static void begin_again(struct client *client, SSL_CTX *context, int epoll) {
    SSL_free(client->ssl);
    close(client->fd);
    open_client(client, context, epoll);
    client->begun_ns = 0;
}

/* Handshakes with few at a time; returns how many clients have none after the limit. */
static unsigned shake_hands(SSL_CTX *context, int epoll) {
    unsigned begun = 0, done = 0;
    uint64_t limit_ns = now_ns() + HANDSHAKE_LIMIT_NS, looked_ns = now_ns();
    while (done < clients && now_ns() < limit_ns) {
        while (begun < clients && begun < done + HANDSHAKES) done += step(&all[begun++]);
        struct epoll_event events[64];
        int found = epoll_wait(epoll, events, 64, done < clients ? 100 : 0);
        for (int i = 0; i < found; i++) {
            struct client *client = events[i].data.ptr;
            if (!client->ready) done += step(client);
        }
        if (now_ns() - looked_ns < RESEND_NS / 20) continue;
        looked_ns = now_ns();
        for (unsigned i = 0; i < begun; i++) {
            if (all[i].ready) continue;
            if (looked_ns - all[i].begun_ns > RESEND_NS) {
                begin_again(&all[i], context, epoll);
                done += step(&all[i]);
            } else DTLSv1_handle_timeout(all[i].ssl);
        }
    }
    return clients - done;
}

/* Ends the associations, few at a time: a thousand alerts at once overflow a server's socket, and
 * those that are lost leave an association there. */
static void part(void) {
    for (unsigned first_of = 0; first_of < clients; first_of += HANDSHAKES) {
        unsigned end = first_of + HANDSHAKES < clients ? first_of + HANDSHAKES : clients;
        for (unsigned i = first_of; i < end; i++) SSL_shutdown(all[i].ssl);
        struct pollfd wait = {.fd = all[end - 1].fd, .events = POLLIN};
        poll(&wait, 1, 20);
    }
}
