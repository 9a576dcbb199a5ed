/* The least that a broker can do, to find out how much load the generator can make.
 *
 * It hands each PUBLISH on as it came, packet id and all, to who subscribed to exactly that topic;
 * acknowledgements are answered without any memory of what they are for. That holds with one
 * publisher for each topic and the same QoS throughout, which is what the generator does. Topics
 * are told apart by their last number only.
 *
 * Prints its port, and ends when stdin does. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>

#include "wire.h"

enum { TOPICS_MAX = 1024, SUBSCRIBERS_MAX = 1024 };

struct client {
    struct link link;
    bool dirty, gone;
    struct client *next_dirty, *next_gone;
};

static struct { struct client *clients[SUBSCRIBERS_MAX]; unsigned count; } topics[TOPICS_MAX];
static struct client *dirty, *gone;
static int epoll_fd, listener;

static void mark_dirty(struct client *c) {
    if (c->dirty) return;
    c->dirty = true;
    c->next_dirty = dirty;
    dirty = c;
}

static void send_bytes(struct client *c, const uint8_t *bytes, size_t len) {
    memcpy(link_reserve(&c->link, len), bytes, len);
    mark_dirty(c);
}

static void answer(struct client *c, unsigned type, const uint8_t *packet_id) {
    uint8_t packet[4] = {(uint8_t)type, 2, packet_id[0], packet_id[1]};
    send_bytes(c, packet, sizeof packet);
}

static unsigned topic_number(const uint8_t *topic, size_t len) {
    unsigned value = 0, unit = 1;
    while (len && topic[len - 1] >= '0' && topic[len - 1] <= '9') {
        value += unit * (unsigned)(topic[--len] - '0');
        unit *= 10;
    }
    return value % TOPICS_MAX;
}

static void on_packet(struct client *c, const uint8_t *packet, size_t body, size_t len) {
    size_t topic_len = len >= body + 2 ? get16(packet + body) : 0;
    switch (packet[0] & 0xF0) {
    case CONNECT:
        send_bytes(c, (const uint8_t *)"\x20\x02\x00\x00", 4);
        break;
    case SUBSCRIBE & 0xF0: {
        uint8_t granted[5] = {SUBACK, 3, packet[body], packet[body + 1], packet[len - 1]};
        unsigned topic = topic_number(packet + body + 4, get16(packet + body + 2));
        if (topics[topic].count < SUBSCRIBERS_MAX)
            topics[topic].clients[topics[topic].count++] = c;
        send_bytes(c, granted, sizeof granted);
        break;
    }
    case PUBLISH: {
        unsigned qos = packet[0] >> 1 & 3, topic = topic_number(packet + body + 2, topic_len);
        if (qos) answer(c, qos == 1 ? PUBACK : PUBREC, packet + body + 2 + topic_len);
        for (unsigned i = 0; i < topics[topic].count; i++)
            send_bytes(topics[topic].clients[i], packet, len);
        break;
    }
    case PUBREC:
        answer(c, PUBREL, packet + body);
        break;
    case PUBREL & 0xF0:
        answer(c, PUBCOMP, packet + body);
        break;
    }
}

static void leave(struct client *c) {
    if (c->gone) return;
    for (unsigned t = 0; t < TOPICS_MAX; t++)
        for (unsigned i = 0; i < topics[t].count; i++)
            if (topics[t].clients[i] == c)
                topics[t].clients[i--] = topics[t].clients[--topics[t].count];
    c->gone = true;
    c->next_gone = gone; /* freed when nothing of this turn can point to it any more */
    gone = c;
}

static void receive(struct client *c) {
    bool open = link_read(&c->link);
    size_t at = 0, body = 0, len;
    while ((len = packet_length(c->link.in + at, c->link.in_len - at, &body)) != 0) {
        if (len == SIZE_MAX) {
            open = false;
            break;
        }
        on_packet(c, c->link.in + at, body, len);
        at += len;
    }
    link_consume(&c->link, at);
    if (!open) leave(c);
}

static void flush_dirty(void) {
    while (dirty != NULL) {
        struct client *c = dirty;
        dirty = c->next_dirty;
        c->dirty = false;
        if (!c->gone && !link_flush(&c->link, epoll_fd, c)) leave(c);
    }
}

static void free_gone(void) {
    while (gone != NULL) {
        struct client *c = gone;
        gone = c->next_gone;
        link_close(&c->link);
        free(c);
    }
}

static void listen_on_loopback(void) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&address, len) < 0 || listen(listener, 512) < 0) {
        perror("null_broker");
        exit(70);
    }
    getsockname(listener, (struct sockaddr *)&address, &len);
    printf("%u\n", ntohs(address.sin_port));
    fflush(stdout);
}

int main(void) {
    static char listener_mark, stdin_mark;
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    listen_on_loopback();
    struct epoll_event on_listener = {.events = EPOLLIN, .data.ptr = &listener_mark};
    struct epoll_event on_stdin = {.events = EPOLLIN, .data.ptr = &stdin_mark};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &on_listener);
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, STDIN_FILENO, &on_stdin);
    struct epoll_event events[256];
    while (true) {
        int n = epoll_wait(epoll_fd, events, 256, -1);
        for (int i = 0; i < n; i++) {
            void *owner = events[i].data.ptr;
            if (owner == &stdin_mark) {
                if (getchar() == EOF) return 0;
            } else if (owner == &listener_mark) {
                int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
                if (fd < 0) continue;
                struct client *c = must(calloc(1, sizeof *c));
                link_open(&c->link, fd, epoll_fd, c);
            } else {
                struct client *c = owner;
                if (c->gone) continue;
                if (events[i].events & EPOLLOUT) mark_dirty(c);
                if (events[i].events & ~(uint32_t)EPOLLOUT) receive(c);
            }
        }
        flush_dirty();
        free_gone();
    }
}
