/* Shifts the clock by SHIFT seconds; loaded with LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static time_t shift(void)
{
    const char *seconds = getenv("SHIFT");
    return seconds ? (time_t)atoll(seconds) : 0;
}

int clock_gettime(clockid_t id, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, now);
    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)
        now->tv_sec += shift();
    return result;
}

int gettimeofday(struct timeval *now, void *zone)
{
    struct timespec shifted;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &shifted);
    now->tv_sec = shifted.tv_sec;
    now->tv_usec = shifted.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result)
{
    struct timespec shifted;
    clock_gettime(CLOCK_REALTIME, &shifted);
    if (result)
        *result = shifted.tv_sec;
    return shifted.tv_sec;
}
