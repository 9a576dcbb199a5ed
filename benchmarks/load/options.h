/* The load generator's options: how many clients, how they publish, and for how long. */

#ifndef OPTIONS_H
#define OPTIONS_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "wire.h"

enum { MIN_PAYLOAD = 20 /* time, number, publisher */ };

static unsigned option_port, option_subscribe_port, option_publishers = 1, option_subscribers = 1, option_qos;
static unsigned option_payload = 79, option_window = 1, option_rate;
static unsigned option_warm_up_ms = 200, option_measure_ms = 1000;
static uint64_t option_count = 100 * 1000 * 1000;
static int option_idle;

static void parse_options(int argc, char **argv) {
    struct { const char *name; unsigned *value; } numbers[] = {
        {"port", &option_port}, {"subscribe-port", &option_subscribe_port}, {"publishers", &option_publishers},
        {"subscribers", &option_subscribers}, {"qos", &option_qos}, {"payload", &option_payload},
        {"window", &option_window}, {"rate", &option_rate}, {"warm-up-ms", &option_warm_up_ms},
        {"measure-ms", &option_measure_ms},
    };
    enum { NUMBERS = sizeof numbers / sizeof numbers[0] };
    struct option options[NUMBERS + 3] = {{0}};
    for (int i = 0; i < NUMBERS; i++)
        options[i] = (struct option){numbers[i].name, required_argument, NULL, i};
    options[NUMBERS] = (struct option){"count", required_argument, NULL, NUMBERS};
    options[NUMBERS + 1] = (struct option){"idle", no_argument, &option_idle, 1};
    int which;
    while ((which = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (which == '?') exit(64);
        if (which == 0 && optarg == NULL) continue;
        if (which == NUMBERS) option_count = strtoull(optarg, NULL, 10);
        else *numbers[which].value = (unsigned)strtoul(optarg, NULL, 10);
    }
    if (option_idle) option_publishers = 0;
    if (!option_subscribe_port) option_subscribe_port = option_port;
    bool pairs_up = option_idle || (option_publishers && option_subscribers &&
                                    option_subscribers % option_publishers == 0);
    if (!option_port || option_port > 65535 || option_subscribe_port > 65535 || option_qos > 2 || !option_window || !pairs_up ||
        option_window > 60000 || option_rate > 100000 || option_payload < MIN_PAYLOAD ||
        option_payload > IN_BYTES / 2 || optind != argc) {
        fputs("generator: an option is missing or out of range\n", stderr);
        exit(64);
    }
}

#endif
