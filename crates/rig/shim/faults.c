/* Makes chosen calls on files below one folder fail, in a process it is preloaded into.
 *
 *   cc -O2 -shared -fPIC -o faults.so faults.c -ldl
 *   LD_PRELOAD=./faults.so FAULTS_BELOW=/path FAULTS=write:ENOSPC:12:3 program
 *
 * FAULTS is KIND:ERROR:FROM:COUNT. The calls of that kind are counted from 0; those numbered FROM
 * to FROM + COUNT - 1 fail with ERROR (ENOSPC, EIO or EMFILE). Kinds: write (write, pwrite,
 * ftruncate), sync (fsync, fdatasync), open (open, openat). A call that failed is noted by
 * creating the file named in FAULTS_NOTE, so that a test knows that its fault struck. If FAULTS_WHEN
 * names a file, calls are counted only while it exists.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static char kind[16], below[4096], note[4096], when[4096];
static int error_number;
static long from, count;
static atomic_long calls;

__attribute__((constructor)) static void read_orders(void) {
    char name[16] = "";
    const char *orders = getenv("FAULTS"), *folder = getenv("FAULTS_BELOW");
    const char *mark = getenv("FAULTS_NOTE"), *start = getenv("FAULTS_WHEN");
    if (!orders || !folder)
        return;
    if (sscanf(orders, "%15[a-z]:%15[A-Z]:%ld:%ld", kind, name, &from, &count) != 4)
        kind[0] = 0;
    error_number = strcmp(name, "ENOSPC") == 0 ? ENOSPC : strcmp(name, "EMFILE") == 0 ? EMFILE : EIO;
    snprintf(below, sizeof below, "%s", folder);
    snprintf(note, sizeof note, "%s", mark ? mark : "");
    snprintf(when, sizeof when, "%s", start ? start : "");
}

/* Whether this call fails; path is what it is about. */
static int fails(const char *which, const char *path) {
    if (!kind[0] || strcmp(kind, which) != 0 || strncmp(path, below, strlen(below)) != 0)
        return 0;
    if (when[0] && access(when, F_OK) != 0)
        return 0;
    long number = atomic_fetch_add(&calls, 1);
    if (number < from || number >= from + count)
        return 0;
    if (note[0]) {
        int fd = syscall(SYS_openat, AT_FDCWD, note, O_CREAT | O_WRONLY, 0600);
        if (fd >= 0)
            syscall(SYS_close, fd);
    }
    errno = error_number;
    return 1;
}

static int fails_at(const char *which, int fd) {
    char link[64], path[4096];
    if (!kind[0] || strcmp(kind, which) != 0)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    if (len < 0)
        return 0;
    path[len] = 0;
    return fails(which, path);
}

ssize_t write(int fd, const void *bytes, size_t len) {
    return fails_at("write", fd) ? -1 : syscall(SYS_write, fd, bytes, len);
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off64_t at) {
    return fails_at("write", fd) ? -1 : syscall(SYS_pwrite64, fd, bytes, len, at);
}

int ftruncate64(int fd, off64_t len) {
    return fails_at("write", fd) ? -1 : (int)syscall(SYS_ftruncate, fd, len);
}

int fsync(int fd) { return fails_at("sync", fd) ? -1 : (int)syscall(SYS_fsync, fd); }

int fdatasync(int fd) { return fails_at("sync", fd) ? -1 : (int)syscall(SYS_fdatasync, fd); }

static mode_t mode_of(int flags, va_list rest) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
}

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = mode_of(flags, rest);
    va_end(rest);
    return fails("open", path) ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = mode_of(flags, rest);
    va_end(rest);
    return fails("open", path) ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
