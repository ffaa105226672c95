/* Moves the wall clock of a process it is preloaded into.
 *
 *   cc -O2 -shared -fPIC -o clock.so clock.c
 *   LD_PRELOAD=./clock.so CLOCK_OFFSET=/path/to/file program
 *
 * The file holds a number of seconds, which may be negative, and is read at every look at the
 * wall clock. Without it the clock is right. Other clocks are left alone.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long offset(void) {
    const char *path = getenv("CLOCK_OFFSET");
    char text[32] = "";
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    return length > 0 ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += offset();
    return result;
}

/* PostgreSQL looks at the wall clock in this older way. */
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec fine;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &fine) != 0)
        return -1;
    now->tv_sec = fine.tv_sec;
    now->tv_usec = fine.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *seconds) {
    struct timespec fine;
    if (clock_gettime(CLOCK_REALTIME, &fine) != 0)
        return (time_t)-1;
    if (seconds)
        *seconds = fine.tv_sec;
    return fine.tv_sec;
}
