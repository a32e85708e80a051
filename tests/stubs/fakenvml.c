/* A libnvidia-ml.so.1 that answers as environment variables say, for tests on a machine without a GPU.
 *
 *   FAKE_NVML_ERR      code of nvmlInit            FAKE_NVML_GPUS   number of GPUs (1)
 *   FAKE_DRIVER        driver version              FAKE_NVML_LOST   index of a GPU whose handle cannot be had (code 15)
 *   FAKE_NVML_FAIL     names of functions, comma separated, that answer 999
 *   FAKE_NVML_OLD      no nvmlDeviceGetMemoryInfo_v2 (13)
 *   FAKE_NVML_PID      pid of one compute process on GPU 0 (1 GiB)
 *   FAKE_NVML_BUSY     percent of the time in which the GPU works (0)
 *   NVIDIA_FAKE_USE      a file with lines "GPU PID MIB": who computes where, read at each question
 *                        (a byte is added to FILE.looks each time: a test waits until it has been read)
 *   FAKE_NVML_NOISE    text printed to stdout by nvmlInit
 *   FAKE_NVML_SLEEP    seconds that nvmlInit takes
 *   FAKE_NVML_CRASH    nvmlDeviceGetName of GPU 0 aborts
 * Build: gcc -shared -fPIC -o libnvidia-ml.so.1 fakenvml.c -Wl,-soname,libnvidia-ml.so.1
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned int u32;
typedef unsigned long long u64;
typedef struct { char legacy[16]; u32 domain, bus, device, ids, subsystem; char bus_id[32]; } pci_t;
typedef struct { u64 total, free, used; } memory1_t;
typedef struct { u32 version; u64 total, reserved, free, used; } memory2_t;
typedef struct { u32 pid; u64 used; u32 gpu_instance, compute_instance; } process_t;
typedef struct { u32 id, scope; long long time, latency; u32 type; int code; union { double d; u32 u; u64 ull; } value; } field_t;

#define SAY(name) do { if (fails(name)) return 999; } while (0)
static const char *env(const char *name, const char *otherwise) { const char *s = getenv(name); return s ? s : otherwise; }
static int number(const char *name, int otherwise) { const char *s = getenv(name); return s ? atoi(s) : otherwise; }
static int fails(const char *name) {
    char list[512]; snprintf(list, sizeof list, ",%s,", env("FAKE_NVML_FAIL", ""));
    char wanted[128]; snprintf(wanted, sizeof wanted, ",%s,", name);
    return strstr(list, wanted) != NULL;
}
static int index_of(void *h) { return (int)(intptr_t)h - 1; }

int nvmlInit_v2(void) { const char *noise = getenv("FAKE_NVML_NOISE"); if (noise) { puts(noise); fflush(stdout); } sleep((unsigned)number("FAKE_NVML_SLEEP", 0)); return number("FAKE_NVML_ERR", 0); }
int nvmlInitWithFlags(u32 flags) { (void)flags; return nvmlInit_v2(); }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) {
    switch (code) {
    case 0: return "Success"; case 3: return "Not Supported"; case 4: return "Insufficient Permissions"; case 6: return "Not Found";
    case 9: return "Driver Not Loaded"; case 15: return "GPU is lost"; case 18: return "Driver/library version mismatch";
    default: return "Unknown Error";
    }
}
int nvmlSystemGetDriverVersion(char *b, u32 n) { SAY("nvmlSystemGetDriverVersion"); snprintf(b, n, "%s", env("FAKE_DRIVER", "535.129.03")); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *v) { SAY("nvmlSystemGetCudaDriverVersion_v2"); *v = 12020; return 0; }
int nvmlSystemGetProcessName(u32 pid, char *b, u32 n) { (void)pid; snprintf(b, n, "/usr/bin/train"); return 0; }
int nvmlDeviceGetCount_v2(u32 *c) { SAY("nvmlDeviceGetCount_v2"); *c = (u32)number("FAKE_NVML_GPUS", 1); return 0; }
int nvmlDeviceGetHandleByIndex_v2(u32 i, void **h) {
    if ((int)i == number("FAKE_NVML_LOST", -1)) return 15;
    *h = (void *)(intptr_t)(i + 1);
    return i < (u32)number("FAKE_NVML_GPUS", 1) ? 0 : 6;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **h) {
    unsigned domain, bus;
    return sscanf(id, "%x:%x", &domain, &bus) == 2 ? nvmlDeviceGetHandleByIndex_v2(bus - 0xC, h) : 2; /* the addresses of fakecuda.c */
}
int nvmlDeviceGetUtilizationRates(void *h, u32 *percent) { (void)h; percent[0] = percent[1] = (u32)number("FAKE_NVML_BUSY", 0); return 0; }
int nvmlDeviceGetName(void *h, char *b, u32 n) {
    if (index_of(h) == 0 && getenv("FAKE_NVML_CRASH")) abort();
    SAY("nvmlDeviceGetName"); snprintf(b, n, "NVIDIA GeForce RTX 3090"); return 0;
}
int nvmlDeviceGetUUID(void *h, char *b, u32 n) { snprintf(b, n, "GPU-00000000-1111-2222-3333-44444444444%d", index_of(h)); return 0; }
int nvmlDeviceGetPciInfo_v3(void *h, pci_t *p) {
    SAY("nvmlDeviceGetPciInfo_v3"); memset(p, 0, sizeof *p);
    snprintf(p->bus_id, sizeof p->bus_id, "00000000:%02X:00.0", 0x0A + index_of(h)); return 0;
}
static u32 users(int gpu, process_t *table, u32 room, u64 *bytes);
int nvmlDeviceGetMemoryInfo(void *h, memory1_t *m) {
    if (getenv("NVIDIA_FAKE_USE")) { process_t none; m->total = 25769803776ULL; users(index_of(h), &none, 0, &m->used); m->free = m->total - m->used; return 0; }
    m->total = 25769803776ULL; m->free = 25000000000ULL; m->used = 769803776ULL; return 0; }
int nvmlDeviceGetMemoryInfo_v2(void *h, memory2_t *m) {
    (void)h; if (getenv("FAKE_NVML_OLD")) return 13;
    if (m->version != (sizeof *m | 2u << 24)) return 25;
    m->total = 25769803776ULL; m->reserved = 469803776ULL; m->used = 300000000ULL; m->free = 25000000000ULL; return 0;
}
int nvmlDeviceGetCudaComputeCapability(void *h, int *major, int *minor) { (void)h; *major = 8; *minor = 6; return 0; }
int nvmlDeviceGetComputeMode(void *h, u32 *mode) { (void)h; *mode = 3; return 0; }
int nvmlDeviceGetPersistenceMode(void *h, u32 *mode) { (void)h; *mode = 1; return 0; }
int nvmlDeviceGetTemperature(void *h, u32 sensor, u32 *t) { (void)h; (void)sensor; *t = 28; return 0; }
int nvmlDeviceGetPowerUsage(void *h, u32 *mw) { (void)h; SAY("nvmlDeviceGetPowerUsage"); *mw = 100500; return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *h, u64 *mask) { (void)h; *mask = 0x4 | 0x40; return 0; }
int nvmlDeviceGetEccMode(void *h, u32 *now, u32 *next) { (void)h; *now = 1; *next = 1; return 0; }
int nvmlDeviceGetTotalEccErrors(void *h, u32 kind, u32 counter, u64 *n) { (void)h; *n = kind == 1 && counter == 0 ? 2 : 77; return 0; }
int nvmlDeviceGetRemappedRows(void *h, u32 *a, u32 *b, u32 *pending, u32 *failed) { (void)h; *a = 0; *b = 1; *pending = 1; *failed = 0; return 0; }
int nvmlDeviceGetCurrPcieLinkGeneration(void *h, u32 *v) { (void)h; *v = 1; return 0; }
int nvmlDeviceGetMaxPcieLinkGeneration(void *h, u32 *v) { (void)h; *v = 4; return 0; }
int nvmlDeviceGetCurrPcieLinkWidth(void *h, u32 *v) { (void)h; *v = 8; return 0; }
int nvmlDeviceGetMaxPcieLinkWidth(void *h, u32 *v) { (void)h; *v = 16; return 0; }
int nvmlDeviceGetClockInfo(void *h, u32 kind, u32 *v) { (void)h; *v = kind == 1 ? 210 : 405; return 0; }
int nvmlDeviceGetMaxClockInfo(void *h, u32 kind, u32 *v) { (void)h; *v = kind == 1 ? 2100 : 9751; return 0; }
int nvmlDeviceGetPowerSource(void *h, u32 *v) { (void)h; *v = (u32)number("FAKE_NVML_SOURCE", 0); return 0; }
int nvmlDeviceGetMemoryBusWidth(void *h, u32 *v) { (void)h; *v = 384; return 0; }
int nvmlDeviceGetMigMode(void *h, u32 *now, u32 *next) { (void)h; (void)now; (void)next; return 3; }
int nvmlDeviceGetNvLinkState(void *h, u32 link, u32 *state) { (void)h; if (link >= 4) return 2; *state = link != 3; return 0; }
int nvmlDeviceGetFieldValues(void *h, int n, field_t *f) { (void)h; for (int i = 0; i < n; i++) { f[i].code = f[i].id == 230 ? 0 : 3; f[i].value.u = 1; } return 0; }
static void looked(void) {
    char path[4096]; snprintf(path, sizeof path, "%s.looks", env("NVIDIA_FAKE_USE", ""));
    FILE *count = fopen(path, "a");
    if (count != NULL) { fputc('.', count); fclose(count); }
}
static u32 users(int gpu, process_t *table, u32 room, u64 *bytes) {
    FILE *file = fopen(env("NVIDIA_FAKE_USE", "/dev/null"), "r");
    u32 found = 0; int where; unsigned pid, mib; *bytes = 0;
    while (file != NULL && fscanf(file, "%d %u %u", &where, &pid, &mib) == 3) {
        if (where != gpu) continue;
        *bytes += (u64)mib << 20;
        if (pid != 0 && found < room) { table[found].pid = pid; table[found].used = (u64)mib << 20; found++; }
    }
    if (file != NULL) { fclose(file); looked(); }
    return found;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *h, u32 *n, process_t *table) {
    if (getenv("NVIDIA_FAKE_USE")) { u64 bytes; memset(table, 0, *n * sizeof *table); *n = users(index_of(h), table, *n, &bytes); return 0; }
    int pid = number("FAKE_NVML_PID", 0);
    if (pid == 0 || index_of(h) != 0) { *n = 0; return 0; }
    if (table == NULL || *n < 1) { *n = 1; return 7; }
    *n = 1; memset(table, 0, sizeof *table); table[0].pid = (u32)pid; table[0].used = 1ULL << 30; return 0;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *h, u32 *n, process_t *table) { return nvmlDeviceGetComputeRunningProcesses_v3(h, n, table); }
/* Health and place: FAKE_NVML_FABRIC the fabric's state (3 is completed), FAKE_NVML_CC the confidential-computing mode. */
typedef struct { u32 version; unsigned char cluster[16]; u32 status, clique, state, mask; } fabric_t;
typedef struct { u32 environment, feature, devtools; } confidential_t;
int nvmlDeviceGetRetiredPagesPendingStatus(void *h, u32 *v) { (void)h; SAY("nvmlDeviceGetRetiredPagesPendingStatus"); *v = 1; return 0; }
int nvmlDeviceGetTemperatureThreshold(void *h, u32 kind, u32 *v) { (void)h; *v = kind == 1 ? 93 : 98; return 0; }
int nvmlDeviceGetGpuMaxPcieLinkGeneration(void *h, u32 *v) { (void)h; *v = 5; return 0; }
int nvmlDeviceGetVirtualizationMode(void *h, u32 *v) { (void)h; *v = 1; return 0; }
int nvmlDeviceGetGpuFabricInfoV(void *h, fabric_t *f) { (void)h; SAY("nvmlDeviceGetGpuFabricInfoV"); f->state = (u32)number("FAKE_NVML_FABRIC", 0); f->status = 0; return 0; }
int nvmlSystemGetConfComputeState(confidential_t *c) { SAY("nvmlSystemGetConfComputeState"); c->environment = 2; c->feature = (u32)number("FAKE_NVML_CC", 0); c->devtools = 0; return 0; }
int nvmlSystemGetConfComputeGpusReadyState(u32 *v) { *v = 0; return 0; }
