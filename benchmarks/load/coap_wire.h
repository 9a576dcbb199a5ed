/* What the CoAP load programs share: the clock, options, and the reading of answers (RFC 7252). */

#ifndef COAP_WIRE_H
#define COAP_WIRE_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum {
    CON = 0, NON = 1, ACK = 2, RST = 3, GET = 1, PUT = 3, CONTENT = 69, CREATED = 65, UNAUTHORIZED = 129,
    OBSERVE = 6, LOCATION_PATH = 8, URI_PATH = 11, FORMAT = 12, URI_QUERY = 15, BLOCK2 = 23,
    ECHO_OPTION = 252, LINK_FORMAT = 40, MAX_BYTES = 65536,
};
static const uint64_t RESEND_NS = 2000000000ull;

struct options_read {
    const uint8_t *body, *echo;
    size_t echo_len;
    int64_t block, observe; /* -1: none */
    char location[128];
};

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static inline double cpu_s(void) {
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

/* Reads the options that matter; false if the message is none. */
static bool read_options(const uint8_t *at, const uint8_t *end, struct options_read *found) {
    unsigned number = 0;
    size_t path_len = 0;
    *found = (struct options_read){.block = -1, .observe = -1};
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
            found->block = 0;
            for (unsigned i = 0; i < parts[1] && i < 3; i++) found->block = found->block << 8 | at[i];
        }
        if (number == OBSERVE) {
            found->observe = 0;
            for (unsigned i = 0; i < parts[1] && i < 3; i++) found->observe = found->observe << 8 | at[i];
        }
        if (number == ECHO_OPTION && parts[1] <= 40) { found->echo = at; found->echo_len = parts[1]; }
        if (number == LOCATION_PATH && path_len + parts[1] + 2 < sizeof found->location) {
            found->location[path_len++] = '/';
            memcpy(found->location + path_len, at, parts[1]);
            path_len += parts[1];
        }
        at += parts[1];
    }
    found->body = at < end ? at + 1 : end;
    return true;
}

static inline int by_size(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

#endif
