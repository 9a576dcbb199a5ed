/* The clocks of a process that a test moves: loaded before libc (LD_PRELOAD), it answers for it.
 *
 * The file that MOVED_CLOCK names holds three numbers of 64 bits, which the test changes at any time:
 *
 *   0  nanoseconds for which the machine has slept: the wall clock and the one since boot went on,
 *      the monotonic one stood still, as clock_gettime(2) says of a suspended machine
 *   1  nanoseconds by which the wall clock was set
 *   2  what adjtimex(2) returns: TIME_OK, or TIME_ERROR where nothing keeps the clock
 *
 * The machine's own clocks are asked and never set.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

enum { SLEPT_NS, SET_NS, CLOCK_STATE, NUMBERS };
static const int64_t SECOND_NS = 1000000000;

static volatile int64_t *moved;
static int (*libc_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    libc_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("MOVED_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (!libc_gettime || file < 0) abort();
    void *shared = mmap(NULL, NUMBERS * sizeof *moved, PROT_READ, MAP_SHARED, file, 0);
    if (shared == MAP_FAILED) abort();
    close(file);
    moved = shared;
}

static int64_t ahead_ns(clockid_t clock) {
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)
        return moved[SLEPT_NS] + moved[SET_NS];
    return clock == CLOCK_BOOTTIME ? moved[SLEPT_NS] : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (!moved) begin(); /* another library's constructor asks first */
    int failed = libc_gettime(clock, now);
    if (!failed) {
        int64_t ns = now->tv_sec * SECOND_NS + now->tv_nsec + ahead_ns(clock);
        now->tv_sec = ns / SECOND_NS;
        now->tv_nsec = ns % SECOND_NS;
    }
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec exact;
    int failed = clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *now) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now) *now = exact.tv_sec;
    return exact.tv_sec;
}

int adjtimex(struct timex *told) {
    if (!moved) begin();
    memset(told, 0, sizeof *told);
    if (moved[CLOCK_STATE] == TIME_ERROR) told->status = STA_UNSYNC;
    return (int)moved[CLOCK_STATE];
}
