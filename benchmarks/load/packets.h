/* The MQTT 3.1.1 packets that the load generator sends (sections 3.1, 3.3, 3.4 to 3.8). */

#ifndef PACKETS_H
#define PACKETS_H

#include "wire.h"

enum { TOPIC_ROOM = 64 };

static inline size_t topic_name(char *into, unsigned topic) {
    return (size_t)snprintf(into, TOPIC_ROOM, "campus/north/load/%u", topic);
}

/* A clean session whose keep-alive of an hour never needs a ping. */
static inline void write_connect(struct link *link, unsigned client) {
    char id[32];
    size_t id_len = (size_t)snprintf(id, sizeof id, "load-%d-%u", (int)getpid(), client);
    uint8_t *at = link_reserve(link, 14 + id_len);
    memcpy(at, "\x10\x00\x00\x04MQTT\x04\x02\x0e\x10", 12);
    at[1] = (uint8_t)(12 + id_len);
    put16(at + 12, (unsigned)id_len);
    memcpy(at + 14, id, id_len);
}

static inline void write_subscribe(struct link *link, unsigned topic, unsigned qos) {
    char name[TOPIC_ROOM];
    size_t len = topic_name(name, topic);
    uint8_t *at = link_reserve(link, 7 + len);
    at[0] = SUBSCRIBE;
    at[1] = (uint8_t)(5 + len);
    put16(at + 2, 1);
    put16(at + 4, (unsigned)len);
    memcpy(at + 6, name, len);
    at[6 + len] = (uint8_t)qos;
}

static inline void write_acknowledgement(struct link *link, unsigned type,
                                         const uint8_t *packet_id) {
    uint8_t *at = link_reserve(link, 4);
    at[0] = (uint8_t)type;
    at[1] = 2;
    memcpy(at + 2, packet_id, 2);
}

/* Room that one PUBLISH takes at most. */
static inline size_t publish_room(size_t payload) { return 5 + 2 + TOPIC_ROOM + 2 + payload; }

/* Writes a PUBLISH but for its packet id, which stands right before the payload, and its payload.
 * Returns its length. */
static inline size_t encode_publish(uint8_t *packet, unsigned topic, unsigned qos,
                                    size_t payload) {
    char name[TOPIC_ROOM];
    size_t topic_len = topic_name(name, topic);
    size_t body = 2 + topic_len + (qos ? 2 : 0) + payload;
    packet[0] = (uint8_t)(PUBLISH | qos << 1);
    size_t at = 1 + put_length(packet + 1, body);
    put16(packet + at, (unsigned)topic_len);
    memcpy(packet + at + 2, name, topic_len);
    return at + body;
}

#endif
