/* The DTLS clients of the CoAP load programs: handshakes with a pre-shared key, and their end.
 *
 * Included once `struct client`, `all`, `clients`, `port`, `identity` and `key` are declared. */

static unsigned give_key(SSL *ssl, const char *hint, char *name, unsigned name_room, unsigned char *secret,
                         unsigned secret_room) {
    (void)ssl, (void)hint;
    snprintf(name, name_room, "%s", identity);
    size_t len = strlen(key);
    if (len > secret_room) return 0;
    memcpy(secret, key, len);
    return (unsigned)len;
}

static void open_client(struct client *client, SSL_CTX *context, int epoll) {
    struct sockaddr_in server = {.sin_family = AF_INET};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    server.sin_port = htons((uint16_t)port);
    client->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (client->fd < 0 || connect(client->fd, (struct sockaddr *)&server, sizeof server) ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, client->fd, &event))
        die("socket");
    client->begun_ns = 0;
    if (context == NULL) return;
    BIO *bio = BIO_new_dgram(client->fd, BIO_NOCLOSE);
    BIO_ctrl(bio, BIO_CTRL_DGRAM_SET_CONNECTED, 0, &server);
    client->ssl = SSL_new(context);
    SSL_set_bio(client->ssl, bio, bio);
    SSL_set_mtu(client->ssl, 1400);
    SSL_set_options(client->ssl, SSL_OP_NO_QUERY_MTU);
}

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
