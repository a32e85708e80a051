/* A libcuda.so.1 for tests on machines without a GPU. Its "devices" keep their memory in host memory and know the kernels by name.

   Build: gcc -shared -fPIC -o libcuda.so.1 fakecuda.c -Wl,-soname,libcuda.so.1 -ldl

   What it answers is said by environment variables:
   FAKE_CUDA_INIT      what cuInit returns (0), or "hang", or "crash"
   FAKE_CUDA_MUTE      set: cuGetErrorName and cuGetErrorString answer like the toolkit's stub, with an error of their own
   FAKE_CUDA_VERSION   cuDriverGetVersion (13000)
   FAKE_CUDA_DEVICES   number of devices (1)
   FAKE_CUDA_FAIL      calls that fail, comma separated: cuMemAlloc_v2=2 or, on one device, cuDevicePrimaryCtxRetain@0=46
   FAKE_CUDA_WRONG     "kernel": the kernel computes one element wrongly ("kernel once": the first time); "copy": a byte is lost on the way back;
                       "bench": the same, but only in copies larger than the memory rung's; the name of a kernel: its result is wrong
   FAKE_CUDA_FREE      MiB of device memory that are free (1024)
   FAKE_CUDA_LOG       what the driver's compiler writes into its error log
   FAKE_CUDA_SAY       printed by cuInit, on descriptor 1 through C's buffers
*/
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef uint64_t ptr;

static const struct { int code; const char *name, *text; } ERRORS[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {221, "CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "PTX JIT compiler library not found"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};
static __thread int current; /* the device whose context is current */

static int number(const char *name, int otherwise) {
    const char *value = getenv(name);
    return value && *value ? atoi(value) : otherwise;
}
static int is(const char *name, const char *wanted) {
    const char *value = getenv(name);
    return value && !strcmp(value, wanted);
}
/* The code that FAKE_CUDA_FAIL gives this call on this device, else 0. */
static int failing(const char *call, int device) {
    char list[512], *save = 0;
    const char *all = getenv("FAKE_CUDA_FAIL");
    if (!all) return 0;
    snprintf(list, sizeof list, "%s", all);
    for (char *part = strtok_r(list, ",", &save); part; part = strtok_r(0, ",", &save)) {
        char *code = strchr(part, '='), *at = strchr(part, '@');
        if (!code) continue;
        *code++ = 0;
        if (at) *at++ = 0;
        if (!strcmp(part, call) && (!at || atoi(at) == device)) return atoi(code);
    }
    return 0;
}
#define REFUSE(device) do { int code = failing(__func__, device); if (code) return code; } while (0)

static int find(int code, const char **out, int text) {
    *out = 0;
    if (getenv("FAKE_CUDA_MUTE")) return 34;
    for (unsigned i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
        if (ERRORS[i].code == code) { *out = text ? ERRORS[i].text : ERRORS[i].name; return 0; }
    return 1;
}
int cuGetErrorName(int code, const char **out) { return find(code, out, 0); }
int cuGetErrorString(int code, const char **out) { return find(code, out, 1); }

int cuInit(unsigned flags) {
    (void)flags;
    if (getenv("FAKE_CUDA_SAY")) printf("%s\n", getenv("FAKE_CUDA_SAY"));
    if (is("FAKE_CUDA_INIT", "hang")) for (;;) pause();
    if (is("FAKE_CUDA_INIT", "crash")) *(volatile int *)16 = 1;
    return number("FAKE_CUDA_INIT", 0);
}
int cuDriverGetVersion(int *version) { REFUSE(-1); *version = number("FAKE_CUDA_VERSION", 13000); return 0; }
int cuDeviceGetCount(int *count) { REFUSE(-1); *count = number("FAKE_CUDA_DEVICES", 1); return 0; }
int cuDeviceGet(int *device, int index) { REFUSE(index); *device = index; return 0; }
int cuDeviceGetName(char *name, int size, int device) { REFUSE(device); snprintf(name, size, "NVIDIA Fake %d", device); return 0; }
int cuDeviceGetPCIBusId(char *id, int size, int device) { REFUSE(device); snprintf(id, size, "00FA:%02X:00.0", device + 0xC); return 0; }
int cuDeviceTotalMem_v2(size_t *size, int device) { REFUSE(device); *size = 2ull << 30; return 0; }
static int uuid(unsigned char *out, int device) { for (int i = 0; i < 16; i++) out[i] = i * 17 + device; return 0; }
int cuDeviceGetUuid(unsigned char *out, int device) { REFUSE(device); return uuid(out, device); }
int cuDeviceGetUuid_v2(unsigned char *out, int device) { REFUSE(device); return uuid(out, device); }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    REFUSE(device);
    switch (attribute) {
    case 36: *value = 2619000; break; /* memory clock, kHz */
    case 37: *value = 5120; break;    /* bus width, bits */
    case 75: *value = 9; break;
    case 76: *value = 0; break;
    case 1: *value = 1024; break;     /* threads of a block */
    case 18: *value = 0; break;       /* integrated with the host */
    case 20: *value = number("FAKE_CUDA_MODE", 0); break; /* compute mode */
    default: *value = 1;
    }
    return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device) { REFUSE(device); *context = (void *)(intptr_t)(device + 1); return 0; }
int cuCtxSetCurrent(void *context) { current = (int)(intptr_t)context - 1; REFUSE(current); return 0; }
int cuCtxSynchronize(void) { REFUSE(current); return 0; }
int cuMemGetInfo_v2(size_t *available, size_t *total) { REFUSE(current); *available = (size_t)number("FAKE_CUDA_FREE", 1024) << 20; *total = 2ull << 30; return 0; }
int cuMemAlloc_v2(ptr *place, size_t size) { REFUSE(current); *place = (ptr)(uintptr_t)malloc(size); return *place ? 0 : 2; }
int cuMemFree_v2(ptr place) { free((void *)(uintptr_t)place); return 0; }
int cuMemHostAlloc(void **place, size_t size, unsigned flags) { (void)flags; REFUSE(current); *place = malloc(size); return *place ? 0 : 2; }
int cuMemFreeHost(void *place) { free(place); return 0; }

static void move(void *to, const void *from, size_t size, int back) {
    memcpy(to, from, size);
    if (back && (is("FAKE_CUDA_WRONG", "copy") || (is("FAKE_CUDA_WRONG", "bench") && size > 4u << 20))) ((char *)to)[1000] ^= 1;
}
#define AT(place) ((void *)(uintptr_t)(place))
int cuMemcpyHtoD_v2(ptr to, const void *from, size_t size) { REFUSE(current); move(AT(to), from, size, 0); return 0; }
int cuMemcpyDtoH_v2(void *to, ptr from, size_t size) { REFUSE(current); move(to, AT(from), size, 1); return 0; }
int cuMemcpyHtoDAsync_v2(ptr to, const void *from, size_t size, void *s) { (void)s; REFUSE(current); move(AT(to), from, size, 0); return 0; }
int cuMemcpyDtoHAsync_v2(void *to, ptr from, size_t size, void *s) { (void)s; REFUSE(current); move(to, AT(from), size, 1); return 0; }
int cuMemcpyDtoDAsync_v2(ptr to, ptr from, size_t size, void *s) { (void)s; REFUSE(current); move(AT(to), AT(from), size, 0); return 0; }

int cuStreamCreate(void **stream, unsigned flags) { (void)flags; REFUSE(current); *stream = (void *)8; return 0; }
int cuStreamDestroy_v2(void *stream) { (void)stream; return 0; }
int cuStreamSynchronize(void *stream) { (void)stream; REFUSE(current); return 0; }
int cuEventCreate(void **event, unsigned flags) { (void)flags; REFUSE(current); *event = calloc(1, sizeof(struct timespec)); return 0; }
int cuEventDestroy_v2(void *event) { free(event); return 0; }
int cuEventRecord(void *event, void *stream) { (void)stream; clock_gettime(CLOCK_MONOTONIC, event); return 0; }
int cuEventSynchronize(void *event) { (void)event; REFUSE(current); return 0; }
int cuEventElapsedTime(float *ms, struct timespec *a, struct timespec *b) {
    *ms = (b->tv_sec - a->tv_sec) * 1e3f + (b->tv_nsec - a->tv_nsec) / 1e6f;
    return 0;
}

int cuModuleLoadDataEx(void **module, const char *text, unsigned count, const int *options, void **values) {
    int code = failing(__func__, current);
    const char *log = getenv("FAKE_CUDA_LOG");
    for (unsigned i = 0; i < count; i++)
        if (options[i] == 5 && log) strcpy(values[i], log);
    if (!strstr(text, ".version 6.0\n.target sm_5") && !strstr(text, ".version 7.0\n.target sm_80")) return 218;
    *module = (void *)16;
    return code;
}
int cuModuleUnload(void *module) { (void)module; return 0; }
static const char *const KERNELS[] = {"fill", "nothing", "gate", "copy", "read", "chain", "chase", "add", "shared", "fp32", "fp64", "fp16", "bf16",
    "write", "verify", "reduce", "double", "half", "meet", "mix", 0};
int cuModuleGetFunction(void **function, void *module, const char *name) {
    (void)module;
    REFUSE(current);
    for (int i = 0; KERNELS[i]; i++)
        if (!strncmp(name, "cudadoctor_", 11) && !strcmp(name + 11, KERNELS[i])) { *function = (void *)KERNELS[i]; return 0; }
    return 500;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t shared) {
    (void)function, (void)threads, (void)shared;
    *blocks = 8;
    return 0;
}
#define P(number) AT(*(ptr *)arguments[number])
#define U(number) (*(uint32_t *)arguments[number])
#define Q(number) (*(uint64_t *)arguments[number])
static uint64_t pattern(uint64_t i, void **arguments) {
    uint64_t value = i * Q(2) + Q(3);
    return (value ^ value >> U(4)) ^ Q(5);
}
double sqrt(double); /* of the C library that Python itself has loaded */
static void work(const char *name, unsigned threads, void **arguments) {
    int wrong = is("FAKE_CUDA_WRONG", name);
    uint64_t *out;
    double *real;
    if (!strcmp(name, "fill")) {
        uint32_t *filled = P(0), count = U(1);
        static int launches;
        for (uint32_t i = 0; i < threads && i < count; i++) filled[i] = i * 2654435761u ^ i >> 3;
        if (is("FAKE_CUDA_WRONG", "kernel") || (is("FAKE_CUDA_WRONG", "kernel once") && !launches++)) filled[count - 1] += 1;
    } else if (!strcmp(name, "copy")) {
        memcpy(P(0), P(1), (size_t)U(2) * 256 * 16);
        if (wrong) ((char *)P(0))[7] ^= 1;
    } else if (!strcmp(name, "chase")) {
        out = P(2), out[0] = out[1] = U(1) * 16 * 500ull, out[2] = *(ptr *)arguments[0] - (wrong ? 1u << 30 : 0);
    } else if (!strcmp(name, "add")) {
        uint32_t *places = P(0), mask = U(1);
        for (uint32_t i = 0; i < threads; i++) places[i & mask] += U(2);
        if (wrong) places[0]++;
    } else if (!strcmp(name, "write")) {
        out = P(0);
        for (uint64_t i = 0; i < threads && i < Q(1); i++) out[i] = pattern(i, arguments);
        if (wrong || (is("FAKE_CUDA_WRONG", "memory") && Q(1) > 1024)) out[Q(1) / 2] ^= 1;
    } else if (!strcmp(name, "verify")) {
        out = P(6);
        for (uint64_t i = 0; i < threads && i < Q(1); i++)
            if (((uint64_t *)P(0))[i] != pattern(i, arguments)) { if (i < out[1]) out[1] = i; out[0]++; }
    } else if (!strcmp(name, "reduce")) {
        uint32_t sum = 0, *from = P(0);
        for (uint32_t i = 0; i < U(1); i++) sum += from[i];
        *(uint32_t *)P(2) += sum + (unsigned)wrong;
    } else if (!strcmp(name, "double")) {
        real = P(0);
        for (uint64_t i = 0; i < Q(1); i++) { double x = i + 1.0, root = sqrt(x); real[i] = root * x / 3.0 + root; }
    } else if (!strcmp(name, "half")) {
        real = P(0);
        for (uint64_t i = 0; i < Q(1); i++) real[i] = 3.0 * (i & 63) + 1.0 + wrong;
    } else if (!strcmp(name, "mix")) {
        uint32_t *to = P(0);
        static int runs;
        for (uint32_t i = 0; i < U(1); i += i < 256 ? 1 : 4096) { /* enough for what is compared */
            uint32_t v = i + U(3);
            for (uint32_t t = 0; t < U(2); t++) { v = v * 1664525u + 1013904223u; v ^= v >> 13; }
            to[i] = v;
        }
        if (wrong && ++runs % 7 == 0) to[4096] ^= 1;
    } else if (!strcmp(name, "shared") || !strncmp(name, "fp", 2) || !strcmp(name, "bf16")) {
        out = P(0), out[0] = U(1) * 17ull, out[1] = U(1) * 10ull, out[2] += (unsigned)wrong;
        nanosleep(&(struct timespec){0, U(1) * 10 > 900000000 ? 900000000 : U(1) * 10}, 0);
    }
}
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream,
                   void **arguments, void **extra) {
    (void)gy, (void)gz, (void)by, (void)bz, (void)shared, (void)stream, (void)extra;
    REFUSE(current);
    if (bx > 1024) return 1;
    work(function, gx * bx, arguments);
    return 0;
}
int cuLaunchCooperativeKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream,
                              void **arguments) {
    (void)function, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)stream;
    REFUSE(current);
    uint32_t sum = 0;
    for (uint32_t b = 0; b < gx; b++) sum += b * b + 1;
    for (uint32_t b = 0; b < gx; b++) ((uint32_t *)P(2))[b] = sum;
    return 0;
}
int cuMemsetD8_v2(ptr place, unsigned char value, size_t count) { REFUSE(current); memset(AT(place), value, count); return 0; }
int cuMemsetD32_v2(ptr place, unsigned value, size_t count) {
    REFUSE(current);
    for (size_t i = 0; i < count; i++) ((uint32_t *)AT(place))[i] = value;
    return 0;
}
int cuMemHostGetDevicePointer_v2(ptr *there, void *here, unsigned flags) { (void)flags; REFUSE(current); *there = (ptr)(uintptr_t)here; return 0; }
int cuCtxGetCurrent(void **context) { *context = (void *)(intptr_t)(current + 1); return 0; }
int cuDeviceCanAccessPeer(int *can, int device, int other) { (void)other; REFUSE(device); *can = 1; return 0; }
int cuCtxEnablePeerAccess(void *context, unsigned flags) { (void)context, (void)flags; REFUSE(current); return 0; }
int cuMemcpyPeerAsync(ptr to, void *there, ptr from, void *here, size_t size, void *stream) {
    (void)there, (void)here, (void)stream;
    REFUSE(current);
    memcpy(AT(to), AT(from), size);
    if (is("FAKE_CUDA_WRONG", "peer")) ((char *)AT(to))[99] ^= 1;
    return 0;
}
int cuStreamBeginCapture_v2(void *stream, int mode) { (void)stream, (void)mode; REFUSE(current); return 0; }
int cuStreamEndCapture(void *stream, void **graph) { (void)stream; *graph = (void *)32; return 0; }
int cuGraphInstantiateWithFlags(void **ready, void *graph, unsigned long long flags) { (void)graph, (void)flags; REFUSE(current); *ready = (void *)40; return 0; }
int cuGraphLaunch(void *ready, void *stream) { (void)ready, (void)stream; return 0; }
int cuGraphDestroy(void *graph) { (void)graph; return 0; }
int cuGraphExecDestroy(void *ready) { (void)ready; return 0; }

/* Bindings ask for every function by name; what is not here says that it is not initialised. */
int cudadoctor_absent(void) { return 3; }
int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags, void *status) {
    char wide[128];
    (void)version, (void)flags;
    snprintf(wide, sizeof wide, "%s_v2", name);
    *function = dlsym(RTLD_DEFAULT, wide);
    if (!*function) *function = dlsym(RTLD_DEFAULT, name);
    if (!*function) *function = (void *)cudadoctor_absent;
    if (status) *(int *)status = 0;
    return 0;
}
int cuGetProcAddress(const char *name, void **function, int version, unsigned long long flags) {
    return cuGetProcAddress_v2(name, function, version, flags, 0);
}
