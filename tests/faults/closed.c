/* For LD_PRELOAD: /dev/nvidia-uvm cannot be opened, as under a sandbox that hooks the C library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>

static int closed(const char *path) { return path && strstr(path, "/dev/nvidia-uvm"); }

#define HOOK(name)                                                            \
    int name(const char *path, int flags, ...) {                              \
        va_list list;                                                         \
        va_start(list, flags);                                                \
        int mode = va_arg(list, int);                                         \
        va_end(list);                                                         \
        if (closed(path)) { errno = EACCES; return -1; }                      \
        int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, #name);        \
        return real(path, flags, mode);                                       \
    }

HOOK(open)
HOOK(open64)
