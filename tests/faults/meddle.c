/* A libcuda.so.1 that stands before the driver's own and spoils what passes through it, for tests on a real GPU:

   MEDDLE_PTX    "OLD=>NEW": every OLD in PTX that is loaded becomes NEW, which must not be longer: a kernel then computes or writes wrongly
   MEDDLE_FLIP   N: one bit of every copy of at least N bytes from the device is another one when it arrives

   cc -shared -fPIC -o libcuda.so.1 meddle.c -Wl,-soname,libcuda.so.1 -Wl,--no-as-needed /path/of/the/real/libcuda.so.NNN

   The real library is a dependency: what is not defined here is found there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define REAL(name) dlsym(RTLD_NEXT, name)

static const void *spoiled(const void *image)
{
    const char *rule = getenv("MEDDLE_PTX"), *arrow = rule ? strstr(rule, "=>") : NULL;
    if (!arrow || memcmp(image, "\177ELF", 4) == 0 || *(const uint32_t *)image == 0xBA55ED50)
        return image;
    size_t before = arrow - rule, after = strlen(arrow + 2);
    char *text = strdup(image), old[256] = {0};
    if (before >= sizeof old || after > before)
        abort();
    memcpy(old, rule, before);
    for (char *at = text; (at = strstr(at, old)) != NULL; at += before) {
        memset(at, ' ', before);
        memcpy(at, arrow + 2, after);
    }
    return text;
}

static int arrived(int result, void *host, size_t size)
{
    const char *least = getenv("MEDDLE_FLIP");
    if (result == 0 && least && size >= strtoull(least, NULL, 10))
        ((unsigned char *)host)[size / 2] ^= 4;
    return result;
}

int cuModuleLoadDataEx(void **module, const void *image, unsigned count, void *options, void *values)
{
    return ((int (*)(void **, const void *, unsigned, void *, void *))REAL("cuModuleLoadDataEx"))(module, spoiled(image), count, options, values);
}

int cuModuleLoadData(void **module, const void *image)
{
    return ((int (*)(void **, const void *))REAL("cuModuleLoadData"))(module, spoiled(image));
}

int cuMemcpyDtoH_v2(void *host, uint64_t device, size_t size)
{
    return arrived(((int (*)(void *, uint64_t, size_t))REAL("cuMemcpyDtoH_v2"))(host, device, size), host, size);
}

int cuMemcpyDtoHAsync_v2(void *host, uint64_t device, size_t size, void *stream)
{
    int result = ((int (*)(void *, uint64_t, size_t, void *))REAL("cuMemcpyDtoHAsync_v2"))(host, device, size, stream);
    if (result == 0 && getenv("MEDDLE_FLIP"))
        result = ((int (*)(void *))REAL("cuStreamSynchronize"))(stream);
    return arrived(result, host, size);
}

static void *ours(const char *name)
{
    if (strcmp(name, "cuModuleLoadDataEx") == 0) return cuModuleLoadDataEx;
    if (strcmp(name, "cuModuleLoadData") == 0) return cuModuleLoadData;
    if (strcmp(name, "cuMemcpyDtoH") == 0) return cuMemcpyDtoH_v2;
    if (strcmp(name, "cuMemcpyDtoHAsync") == 0) return cuMemcpyDtoHAsync_v2;
    return NULL;
}

/* Programs that ask the driver for its functions get these too. */
int cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags, void *status)
{
    int result = ((int (*)(const char *, void **, int, uint64_t, void *))REAL("cuGetProcAddress_v2"))(name, found, version, flags, status);
    if (result == 0 && strcmp(name, "cuGetProcAddress") == 0)
        *found = cuGetProcAddress_v2;
    else if (result == 0 && ours(name))
        *found = ours(name);
    return result;
}
