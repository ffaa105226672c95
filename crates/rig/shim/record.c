/* Records what a process does to the files below one folder, in one total order.
 *
 *   cc -O2 -shared -fPIC -o record.so record.c -lpthread
 *   LD_PRELOAD=./record.so RECORD_BELOW=/folder RECORD_LOG=/log program
 *
 * The log lies outside of the folder and is appended to, one event per call and under one lock:
 *
 *   u32 length of the data | u8 kind | 3 unused | u64 inode | u64 number | data
 *
 *   c  a file was created     data: path below the folder
 *   m  a folder was created   data: path
 *   l  a link was made        data: path
 *   u  a name was removed     data: path
 *   r  a name was changed     data: old path, NUL, new path
 *   x  two names were swapped data: both paths, NUL between
 *   w  bytes were written     number: offset; data: the bytes
 *   t  the size was set       number: size
 *   s  a sync began           number: its ticket
 *   e  a sync ended well      number: its ticket; all that was there at its beginning is durable
 *   !  a line on stdout       data: the line, which goes nowhere else
 *
 * Changes are made and noted under the lock. Syncs are not made under it, so that others write
 * meanwhile as they would. Calls that copy between files fail, and programs read and write then.
 * What bypasses the C library is not seen: compare the log with the folder to find out.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

struct event {
    uint32_t len;
    char kind, unused[3];
    uint64_t inode, number;
};

static char below[4096];
static size_t below_len;
static int record = -1;
static uint64_t tickets;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void begin(void) {
    const char *folder = getenv("RECORD_BELOW"), *path = getenv("RECORD_LOG");
    if (!folder || !path || strlen(folder) >= sizeof below)
        return;
    strcpy(below, folder);
    below_len = strlen(below);
    record = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (record < 0)
        abort();
    /* Tickets of several processes in one log must not meet. */
    tickets = (uint64_t)getpid() << 32;
}

static void note(char kind, uint64_t inode, uint64_t number, const struct iovec *data, int parts) {
    struct event event = {.kind = kind, .inode = inode, .number = number};
    struct iovec all[20] = {{&event, sizeof event}};
    size_t total = sizeof event;
    if (parts > 18)
        abort();
    for (int i = 0; i < parts; i++) {
        all[i + 1] = data[i];
        total += data[i].iov_len;
    }
    event.len = total - sizeof event;
    /* A log that lacks something would prove what is not true. */
    if (syscall(SYS_writev, record, all, parts + 1) != (ssize_t)total)
        abort();
}

static void note_path(char kind, uint64_t inode, const char *path) {
    struct iovec data = {(char *)path, strlen(path)};
    note(kind, inode, 0, &data, 1);
}

static void note_paths(char kind, const char *old, const char *new) {
    struct iovec data[2] = {{(char *)old, strlen(old) + 1}, {(char *)new, strlen(new)}};
    note(kind, 0, 0, data, 2);
}

/* The part of a path below the folder, or NULL if it is elsewhere. */
static const char *part(int dir, const char *path, char *buffer) {
    if (record < 0)
        return NULL;
    if (path[0] != '/') {
        char link[64];
        if (dir == AT_FDCWD)
            strcpy(link, "/proc/self/cwd");
        else
            snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
        ssize_t len = readlink(link, buffer, 4095);
        if (len < 0 || len + strlen(path) + 2 > 8192)
            return NULL;
        buffer[len] = '/';
        strcpy(buffer + len + 1, path);
        path = buffer;
    }
    if (strncmp(path, below, below_len) != 0 || path[below_len] != '/')
        return NULL;
    return path + below_len + 1;
}

/* The inode behind a descriptor of something below the folder, or 0. */
static uint64_t inode(int fd) {
    char link[64], path[4096];
    struct stat stat;
    if (record < 0)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    if (len < (ssize_t)below_len || strncmp(path, below, below_len) != 0)
        return 0;
    /* The folder itself, or something in it. */
    if (len > (ssize_t)below_len && path[below_len] != '/')
        return 0;
    return fstat(fd, &stat) == 0 ? stat.st_ino : 0;
}

static uint64_t inode_at(int dir, const char *path) {
    struct stat stat;
    return fstatat(dir, path, &stat, AT_SYMLINK_NOFOLLOW) == 0 ? stat.st_ino : 0;
}

/* Files. */

static int opened(int dir, const char *path, int flags, mode_t mode) {
    char buffer[8192];
    const char *name = flags & (O_CREAT | O_TRUNC) ? part(dir, path, buffer) : NULL;
    if (!name)
        return syscall(SYS_openat, dir, path, flags, mode);
    pthread_mutex_lock(&lock);
    uint64_t was = inode_at(dir, path);
    int fd = syscall(SYS_openat, dir, path, flags, mode);
    int error = errno;
    if (fd >= 0 && !was)
        note_path('c', inode(fd), name);
    else if (fd >= 0 && flags & O_TRUNC)
        note('t', inode(fd), 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return fd;
}

static mode_t mode_of(int flags, va_list rest) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
}

#define OPEN(NAME)                                                                                 \
    int NAME(const char *path, int flags, ...) {                                                   \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        mode_t mode = mode_of(flags, rest);                                                        \
        va_end(rest);                                                                              \
        return opened(AT_FDCWD, path, flags, mode);                                                \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(NAME)                                                                               \
    int NAME(int dir, const char *path, int flags, ...) {                                          \
        va_list rest;                                                                              \
        va_start(rest, flags);                                                                     \
        mode_t mode = mode_of(flags, rest);                                                        \
        va_end(rest);                                                                              \
        return opened(dir, path, flags, mode);                                                     \
    }
OPENAT(openat)
OPENAT(openat64)

int creat(const char *path, mode_t mode) {
    return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int creat64(const char *path, mode_t mode) { return creat(path, mode); }

/* Notes as many bytes as were written, at `at`; -1 is where the descriptor stands now. */
static void wrote(int fd, uint64_t file, const struct iovec *data, int parts, ssize_t len, off_t at) {
    struct iovec part[16];
    size_t left = len;
    int n = 0;
    if (at < 0)
        at = lseek(fd, 0, SEEK_CUR) - len;
    if (parts > 16)
        abort();
    for (; n < parts && left; n++) {
        part[n] = data[n];
        if (part[n].iov_len > left)
            part[n].iov_len = left;
        left -= part[n].iov_len;
    }
    note('w', file, at, part, n);
}

static ssize_t written(int fd, const struct iovec *data, int parts, off_t at) {
    if (parts > 16)
        parts = 16;
    if (record >= 0 && fd == 1) {
        size_t total = 0;
        pthread_mutex_lock(&lock);
        note('!', 0, 0, data, parts);
        pthread_mutex_unlock(&lock);
        for (int i = 0; i < parts; i++)
            total += data[i].iov_len;
        return total;
    }
    uint64_t file = inode(fd);
    if (file)
        pthread_mutex_lock(&lock);
    /* The kernel takes the offset in two halves. */
    ssize_t len = at < 0 ? syscall(SYS_writev, fd, data, parts)
                         : syscall(SYS_pwritev, fd, data, parts, at, 0);
    int error = errno;
    if (file) {
        if (len > 0)
            wrote(fd, file, data, parts, len, at);
        pthread_mutex_unlock(&lock);
    }
    errno = error;
    return len;
}

ssize_t write(int fd, const void *bytes, size_t len) {
    struct iovec data = {(void *)bytes, len};
    return written(fd, &data, 1, -1);
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t at) {
    struct iovec data = {(void *)bytes, len};
    return written(fd, &data, 1, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off64_t at) {
    return pwrite(fd, bytes, len, at);
}

ssize_t writev(int fd, const struct iovec *data, int parts) { return written(fd, data, parts, -1); }

ssize_t pwritev(int fd, const struct iovec *data, int parts, off_t at) {
    return written(fd, data, parts, at);
}

ssize_t pwritev64(int fd, const struct iovec *data, int parts, off64_t at) {
    return written(fd, data, parts, at);
}

int ftruncate(int fd, off_t len) {
    uint64_t file = inode(fd);
    pthread_mutex_lock(&lock);
    int result = syscall(SYS_ftruncate, fd, len);
    int error = errno;
    if (file && result == 0)
        note('t', file, len, NULL, 0);
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

int ftruncate64(int fd, off64_t len) { return ftruncate(fd, len); }

int truncate(const char *path, off_t len) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int result = ftruncate(fd, len), error = errno;
    syscall(SYS_close, fd);
    errno = error;
    return result;
}

int truncate64(const char *path, off64_t len) { return truncate(path, len); }

/* Not used by what is recorded; refused, so that it cannot happen unseen. */
static int refused(int error) {
    errno = error;
    return -1;
}

int fallocate(int fd, int mode, off_t at, off_t len) {
    return inode(fd) ? refused(EOPNOTSUPP) : (int)syscall(SYS_fallocate, fd, mode, at, len);
}

int fallocate64(int fd, int mode, off64_t at, off64_t len) { return fallocate(fd, mode, at, len); }

ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *to_at, size_t len, unsigned flags) {
    (void)from, (void)at, (void)to, (void)to_at, (void)len, (void)flags;
    return refused(ENOSYS);
}

ssize_t sendfile(int to, int from, off_t *at, size_t len) {
    (void)to, (void)from, (void)at, (void)len;
    return refused(ENOSYS);
}

ssize_t sendfile64(int to, int from, off64_t *at, size_t len) {
    (void)to, (void)from, (void)at, (void)len;
    return refused(ENOSYS);
}

/* Syncs. */

static int synced(long call, int fd) {
    uint64_t file = inode(fd), ticket = 0;
    if (file) {
        pthread_mutex_lock(&lock);
        ticket = ++tickets;
        note('s', file, ticket, NULL, 0);
        pthread_mutex_unlock(&lock);
    }
    int result = syscall(call, fd), error = errno;
    if (file && result == 0) {
        pthread_mutex_lock(&lock);
        note('e', file, ticket, NULL, 0);
        pthread_mutex_unlock(&lock);
    }
    errno = error;
    return result;
}

int fsync(int fd) { return synced(SYS_fsync, fd); }

int fdatasync(int fd) { return synced(SYS_fdatasync, fd); }

/* Names. */

int mkdirat(int dir, const char *path, mode_t mode) {
    char buffer[8192];
    const char *name = part(dir, path, buffer);
    pthread_mutex_lock(&lock);
    int result = syscall(SYS_mkdirat, dir, path, mode), error = errno;
    if (name && result == 0)
        note_path('m', inode_at(dir, path), name);
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

int unlinkat(int dir, const char *path, int flags) {
    char buffer[8192];
    const char *name = part(dir, path, buffer);
    pthread_mutex_lock(&lock);
    int result = syscall(SYS_unlinkat, dir, path, flags), error = errno;
    if (name && result == 0)
        note_path('u', 0, name);
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }

int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int linkat(int from, const char *old, int to, const char *new, int flags) {
    char buffer[8192];
    const char *name = part(to, new, buffer);
    pthread_mutex_lock(&lock);
    int result = syscall(SYS_linkat, from, old, to, new, flags), error = errno;
    if (name && result == 0)
        note_path('l', inode_at(to, new), name);
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

int link(const char *old, const char *new) { return linkat(AT_FDCWD, old, AT_FDCWD, new, 0); }

int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
    char buffers[2][8192];
    const char *was = part(from, old, buffers[0]), *is = part(to, new, buffers[1]);
    pthread_mutex_lock(&lock);
    /* One that crosses the border of the folder cannot be told. */
    if (!was != !is)
        abort();
    int result = syscall(SYS_renameat2, from, old, to, new, flags), error = errno;
    if (was && result == 0)
        note_paths(flags & RENAME_EXCHANGE ? 'x' : 'r', was, is);
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

int renameat(int from, const char *old, int to, const char *new) {
    return renameat2(from, old, to, new, 0);
}

int rename(const char *old, const char *new) { return renameat2(AT_FDCWD, old, AT_FDCWD, new, 0); }
