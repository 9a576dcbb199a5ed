/* What the load generator and the null broker share: the buffers of one connection, and the
 * framing of MQTT 3.1.1 packets (section 2.2). */

#ifndef WIRE_H
#define WIRE_H

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    IN_BYTES = 256 * 1024, /* one read; also the largest packet */
    CONNECT = 0x10, CONNACK = 0x20, PUBLISH = 0x30, PUBACK = 0x40, PUBREC = 0x50, PUBREL = 0x62,
    PUBCOMP = 0x70, SUBSCRIBE = 0x82, SUBACK = 0x90, DISCONNECT = 0xE0,
};

/* One connection. Bytes of `out` before `out_at` are written already. */
struct link {
    int fd;
    bool waits_to_write;
    bool closed;
    uint8_t *in, *out;
    size_t in_len, out_at, out_len, out_room;
};

static inline void *must(void *memory) {
    if (memory == NULL) {
        fputs("out of memory\n", stderr);
        exit(70);
    }
    return memory;
}

static inline uint16_t get16(const uint8_t *at) { return (uint16_t)(at[0] << 8 | at[1]); }

static inline void put16(uint8_t *at, unsigned value) {
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

/* Length of the packet at `at`, 0 if it is not whole yet, SIZE_MAX if it can't be one. `body` is
 * the offset of its variable header. */
static inline size_t packet_length(const uint8_t *at, size_t len, size_t *body) {
    size_t value = 0;
    for (size_t i = 0; i < 4; i++) {
        if (i + 1 >= len) return 0;
        value |= (size_t)(at[1 + i] & 0x7F) << (7 * i);
        if (at[1 + i] < 0x80) {
            *body = i + 2;
            if (*body + value > IN_BYTES) return SIZE_MAX;
            return *body + value <= len ? *body + value : 0;
        }
    }
    return SIZE_MAX;
}

/* Writes a remaining length and returns how many bytes it took. */
static inline size_t put_length(uint8_t *at, size_t value) {
    size_t n = 0;
    do {
        at[n] = (uint8_t)(value & 0x7F);
        value >>= 7;
        if (value) at[n] |= 0x80;
        n++;
    } while (value);
    return n;
}

static inline void link_open(struct link *link, int fd, int epoll, void *owner) {
    int on = 1;
    memset(link, 0, sizeof *link);
    link->fd = fd;
    link->in = must(malloc(IN_BYTES));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = owner};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
        perror("epoll_ctl");
        exit(70);
    }
}

static inline void link_close(struct link *link) {
    if (link->closed) return;
    close(link->fd);
    free(link->in);
    free(link->out);
    link->in = link->out = NULL;
    link->in_len = link->out_at = link->out_len = link->out_room = 0;
    link->closed = true;
}

/* Room for `n` more bytes to send. */
static inline uint8_t *link_reserve(struct link *link, size_t n) {
    if (link->out_len + n > link->out_room) {
        if (link->out_at) {
            memmove(link->out, link->out + link->out_at, link->out_len - link->out_at);
            link->out_len -= link->out_at;
            link->out_at = 0;
        }
        if (link->out_len + n > link->out_room) {
            link->out_room = 2 * (link->out_len + n);
            link->out = must(realloc(link->out, link->out_room));
        }
    }
    uint8_t *at = link->out + link->out_len;
    link->out_len += n;
    return at;
}

static inline size_t link_unsent(const struct link *link) { return link->out_len - link->out_at; }

/* Writes what is buffered; the rest waits for EPOLLOUT. False if the peer is gone. */
static inline bool link_flush(struct link *link, int epoll, void *owner) {
    while (link_unsent(link)) {
        ssize_t n = send(link->fd, link->out + link->out_at, link_unsent(link), MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno != EAGAIN) return false;
        if (n < 0) break;
        link->out_at += (size_t)n;
    }
    bool rest = link_unsent(link) > 0;
    if (!rest) link->out_at = link->out_len = 0;
    if (rest != link->waits_to_write) {
        struct epoll_event event = {.events = rest ? EPOLLIN | EPOLLOUT : EPOLLIN,
                                    .data.ptr = owner};
        epoll_ctl(epoll, EPOLL_CTL_MOD, link->fd, &event);
        link->waits_to_write = rest;
    }
    return true;
}

/* Reads once. False if the peer is gone. */
static inline bool link_read(struct link *link) {
    ssize_t n = recv(link->fd, link->in + link->in_len, IN_BYTES - link->in_len, MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    link->in_len += (size_t)n;
    return n > 0;
}

/* Forgets the first `n` bytes of what was read. */
static inline void link_consume(struct link *link, size_t n) {
    link->in_len -= n;
    if (n && link->in_len) memmove(link->in, link->in + n, link->in_len);
}

#endif
