/* Let calls of the system fail for files below one folder, as a disk does that fails for a moment.

   Loaded with LD_PRELOAD. Settings come from the environment: FAIL_BELOW is the folder, FAIL_FROM the number
   of the first call that fails, FAIL_CALLS how many fail in a row, FAIL_ERRNO the error they report, and
   FAIL_COUNT a file that receives the number of calls when the process ends. A program that tries one place
   after the other calls `fail_from`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define MOST_FILES 65536

static const char *folder;
static long first = -1, how_many, error = EIO;
static atomic_long calls;
static char is_below[MOST_FILES];

__attribute__((constructor)) static void read_settings(void) {
    folder = getenv("FAIL_BELOW");
    if (getenv("FAIL_FROM")) first = atol(getenv("FAIL_FROM"));
    if (getenv("FAIL_CALLS")) how_many = atol(getenv("FAIL_CALLS"));
    if (getenv("FAIL_ERRNO")) error = atol(getenv("FAIL_ERRNO"));
}

__attribute__((destructor)) static void write_count(void) {
    const char *path = getenv("FAIL_COUNT");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file) {
        fprintf(file, "%ld", (long)calls);
        fclose(file);
    }
}

/* Count calls anew, and let so many fail from this number on; return how many there were until now. */
long fail_from(long number, long count) {
    first = number;
    how_many = count;
    return atomic_exchange(&calls, 0);
}

static int fails(void) {
    long number = atomic_fetch_add(&calls, 1);
    if (first < 0 || number < first || number >= first + how_many) return 0;
    errno = error;
    return 1;
}

static int path_fails(const char *path) {
    return folder && path && !strncmp(path, folder, strlen(folder)) && fails();
}

static int file_fails(int file) { return file >= 0 && file < MOST_FILES && is_below[file] && fails(); }

static int keep(int file, const char *path) {
    if (file >= 0 && file < MOST_FILES) is_below[file] = folder && !strncmp(path, folder, strlen(folder));
    return file;
}

#define NEXT(name) __typeof__(name) *next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)
#define OPEN(name)                                                     \
    int name(const char *path, int flags, ...) {                       \
        NEXT(name);                                                    \
        va_list rest;                                                  \
        va_start(rest, flags);                                         \
        mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;      \
        va_end(rest);                                                  \
        return path_fails(path) ? -1 : keep(next(path, flags, mode), path); \
    }
#define ON_FILE(type, name, parameters, arguments) \
    type name parameters {                         \
        NEXT(name);                                \
        return file_fails(file) ? -1 : next arguments; \
    }
#define ON_PATH(name, parameters, arguments) \
    int name parameters {                    \
        NEXT(name);                          \
        return path_fails(path) ? -1 : next arguments; \
    }

OPEN(open)
OPEN(open64)
ON_FILE(ssize_t, write, (int file, const void *data, size_t size), (file, data, size))
ON_FILE(ssize_t, pwrite, (int file, const void *data, size_t size, off_t at), (file, data, size, at))
ON_FILE(ssize_t, pwrite64, (int file, const void *data, size_t size, off64_t at), (file, data, size, at))
ON_FILE(ssize_t, read, (int file, void *data, size_t size), (file, data, size))
ON_FILE(ssize_t, pread, (int file, void *data, size_t size, off_t at), (file, data, size, at))
ON_FILE(ssize_t, pread64, (int file, void *data, size_t size, off64_t at), (file, data, size, at))
ON_FILE(int, fsync, (int file), (file))
ON_FILE(int, fdatasync, (int file), (file))
ON_FILE(int, ftruncate, (int file, off_t size), (file, size))
ON_FILE(int, ftruncate64, (int file, off64_t size), (file, size))
ON_PATH(unlink, (const char *path), (path))
ON_PATH(rename, (const char *path, const char *to), (path, to))

int close(int file) {
    NEXT(close);
    if (file >= 0 && file < MOST_FILES) is_below[file] = 0;
    return next(file);
}
