/* Makes system calls fail; preloaded into the tested program.

   Only calls on files below one folder are counted. The n-th call of a kind fails, or
   that call and all later ones. A failing call has no effect. Calls that fail because
   a disk is full are counted as well. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, SYNC = 2, OPEN = 4, NAME = 8 };

static char root_folder[4096];
static int kinds, left, is_lasting, reason, passed, failed, full;

void fail_at(const char *folder, int which, int at, int lasts, int error_number) {
    strncpy(root_folder, folder, sizeof root_folder - 1);
    kinds = which; left = at; is_lasting = lasts; reason = error_number;
    passed = failed = full = 0;
}

int calls_passed(void) { return passed; }
int calls_failed(void) { return failed; }
int calls_without_room(void) { return full; }

static int is_below(const char *path) {
    return root_folder[0] && path && strncmp(path, root_folder, strlen(root_folder)) == 0;
}

static ssize_t count_if_full(ssize_t result) {
    if (result < 0 && errno == ENOSPC) __atomic_add_fetch(&full, 1, __ATOMIC_SEQ_CST);
    return result;
}

static int is_open_below(int handle) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size <= 0) return 0;
    path[size] = 0;
    return is_below(path);
}

static int fails(int kind, int counts) {
    if (!(kinds & kind) || !counts) return 0;
    __atomic_add_fetch(&passed, 1, __ATOMIC_SEQ_CST);
    int now = __atomic_sub_fetch(&left, 1, __ATOMIC_SEQ_CST);
    if (now > 0 || (now < 0 && !is_lasting)) return 0;
    __atomic_add_fetch(&failed, 1, __ATOMIC_SEQ_CST);
    errno = reason;
    return 1;
}

/* Whether a path is below the folder; a relative path starts at an open folder. */
static int is_path_below(int folder, const char *path) {
    return path && path[0] != '/' ? is_open_below(folder) : is_below(path);
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name);

#define WRITES(name, args, passing, ...) \
    ssize_t name args { \
        REAL(ssize_t, #name, __VA_ARGS__) \
        int counts = root_folder[0] && is_open_below(handle); \
        if (fails(WRITE, counts)) return -1; \
        return counts ? count_if_full(real passing) : real passing; \
    }
WRITES(write, (int handle, const void *raw, size_t size), (handle, raw, size),
       int, const void *, size_t)
WRITES(pwrite, (int handle, const void *raw, size_t size, off_t at),
       (handle, raw, size, at), int, const void *, size_t, off_t)
WRITES(pwrite64, (int handle, const void *raw, size_t size, off64_t at),
       (handle, raw, size, at), int, const void *, size_t, off64_t)
WRITES(writev, (int handle, const struct iovec *parts, int count),
       (handle, parts, count), int, const struct iovec *, int)

#define SYNCS(name) \
    int name(int handle) { \
        REAL(int, #name, int) \
        return fails(SYNC, kinds && is_open_below(handle)) ? -1 : real(handle); \
    }
SYNCS(fsync)
SYNCS(fdatasync)

#define OPENS(name) \
    int name(const char *path, int flags, ...) { \
        REAL(int, #name, const char *, int, mode_t) \
        va_list more; va_start(more, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more); \
        if (fails(OPEN, is_below(path))) return -1; \
        int found = real(path, flags, mode); \
        return is_below(path) ? (int)count_if_full(found) : found; \
    }
OPENS(open)
OPENS(open64)

#define OPENS_AT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        REAL(int, #name, int, const char *, int, mode_t) \
        va_list more; va_start(more, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more); \
        return fails(OPEN, is_path_below(folder, path)) \
            ? -1 : real(folder, path, flags, mode); \
    }
OPENS_AT(openat)
OPENS_AT(openat64)

int rename(const char *from, const char *to) {
    REAL(int, "rename", const char *, const char *)
    return fails(NAME, is_below(to)) ? -1 : real(from, to);
}
int link(const char *from, const char *to) {
    REAL(int, "link", const char *, const char *)
    return fails(NAME, is_below(to)) ? -1 : real(from, to);
}
int unlink(const char *path) {
    REAL(int, "unlink", const char *)
    return fails(NAME, is_below(path)) ? -1 : real(path);
}
int unlinkat(int folder, const char *path, int flags) {
    REAL(int, "unlinkat", int, const char *, int)
    return fails(NAME, is_path_below(folder, path)) ? -1 : real(folder, path, flags);
}
int rmdir(const char *path) {
    REAL(int, "rmdir", const char *)
    return fails(NAME, is_below(path)) ? -1 : real(path);
}
int mkdir(const char *path, mode_t mode) {
    REAL(int, "mkdir", const char *, mode_t)
    return fails(NAME, is_below(path)) ? -1 : count_if_full(real(path, mode));
}
int ftruncate(int handle, off_t size) {
    REAL(int, "ftruncate", int, off_t)
    return fails(WRITE, kinds && is_open_below(handle)) ? -1 : real(handle, size);
}
int ftruncate64(int handle, off64_t size) {
    REAL(int, "ftruncate64", int, off64_t)
    return fails(WRITE, kinds && is_open_below(handle)) ? -1 : real(handle, size);
}
