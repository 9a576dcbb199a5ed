/* Options of a load program that are a number or a text each. */

#ifndef KNOWN_OPTIONS_H
#define KNOWN_OPTIONS_H

#include <getopt.h>
#include <stdlib.h>

struct known { const char *name; unsigned *number; const char **text; };

enum { MAX_KNOWN = 32 };

/* Ends the program with 64 where one is not known or has no value. */
static void read_known(int argc, char **argv, const struct known *known, int count) {
    struct option options[MAX_KNOWN + 1] = {{0}};
    for (int i = 0; i < count; i++) options[i] = (struct option){known[i].name, required_argument, NULL, i};
    int which;
    while ((which = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (which == '?') exit(64);
        if (known[which].text) *known[which].text = optarg;
        else *known[which].number = (unsigned)strtoul(optarg, NULL, 10);
    }
}

#endif
