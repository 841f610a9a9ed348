/* Loaded into every process of a test: the calendar is SHIFT_SECONDS ahead, and the surroundings
 * are not those of the host.  Clocks that only count up are left alone.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *at) {
    int failed = (int)syscall(SYS_clock_gettime, clock, at);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI))
        at->tv_sec += SHIFT_SECONDS;
    return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    (void)zone;
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}

int timespec_get(struct timespec *at, int base) {
    return clock_gettime(CLOCK_REALTIME, at) == 0 ? base : 0;
}

__attribute__((constructor)) static void surroundings(void) {
    setenv("TZ", "ELSEWHERE-13:45", 1);
    setenv("LC_ALL", "tr_TR.UTF-8", 1);
    setenv("LANG", "de_DE.ISO-8859-1", 1);
}
