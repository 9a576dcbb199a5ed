/* A DTLS client of a load program: its key and its socket.
 *
 * Included once `struct client`, `port`, `identity` and `key` are declared. */

static unsigned give_key(SSL *ssl, const char *hint, char *name, unsigned name_room, unsigned char *secret,
                         unsigned secret_room) {
    (void)ssl, (void)hint;
    snprintf(name, name_room, "%s", identity);
    size_t len = strlen(key);
    if (len > secret_room) return 0;
    memcpy(secret, key, len);
    return (unsigned)len;
}

/* Its socket, and over it a session of a context that is not NULL. */
static void open_client(struct client *client, SSL_CTX *context, int epoll) {
    struct sockaddr_in server = {.sin_family = AF_INET};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    server.sin_port = htons((uint16_t)port);
    client->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
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
