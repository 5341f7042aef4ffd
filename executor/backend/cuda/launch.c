#include "executor/backend/cuda/driver.h"
#include "executor/backend/cuda/fatbins.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A block has 48 KiB without asking, of which what the kernel declares itself is taken. Source: CUDA C++ Programming
 * Guide, shared memory of 7.x and newer. */
enum { SHARED_UNASKED_BYTES = 32 * 1024 };

typedef struct kernel {
    char *name; /* its own copy */
    CUfunction function;
    uint32_t shared_bytes; /* that were asked for */
} kernel;

struct redcoi_kernels {
    pthread_mutex_t lock; /* guards shared_bytes: handles of several threads launch */
    CUmodule *modules;
    size_t module_count;
    kernel *kernels; /* a hash table: open addressing, at most half full */
    size_t kernel_count, room;
    pthread_t loader; /* loads while the libraries are opened */
    bool loading;
    redco_status status; /* status of loading */
    redco_error error;
};

static redco_status no_memory(redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, "cuda", "the list of kernels");
}

/* FNV-1a, 64 bits. */
static uint64_t hash_of(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325U;
    for (; *text != '\0'; text++) { hash = (hash ^ (unsigned char)*text) * 0x100000001b3U; }
    return hash;
}

/* Where the kernel is, or would be. */
static kernel *slot_of(kernel *kernels, size_t room, const char *name)
{
    size_t at = (size_t)hash_of(name) & (room - 1);
    while (kernels[at].name != NULL && strcmp(kernels[at].name, name) != 0) { at = (at + 1) & (room - 1); }
    return &kernels[at];
}

static redco_status make_room(redcoi_kernels *k, redco_error *err)
{
    if (2 * (k->kernel_count + 1) <= k->room) { return REDCO_OK; }
    const size_t room = k->room == 0 ? 64 : 2 * k->room;
    kernel *const more = calloc(room, sizeof *more);
    if (more == NULL) { return no_memory(err); }
    for (size_t i = 0; i < k->room; i++) {
        if (k->kernels[i].name != NULL) { *slot_of(more, room, k->kernels[i].name) = k->kernels[i]; }
    }
    free(k->kernels);
    k->kernels = more;
    k->room = room;
    return REDCO_OK;
}

static redco_status add_kernel(redcoi_kernels *k, const char *name, CUfunction function, redco_error *err)
{
    const redco_status st = make_room(k, err);
    if (st != REDCO_OK) { return st; }
    kernel *const slot = slot_of(k->kernels, k->room, name);
    if (slot->name != NULL) { return REDCO_OK; }
    char *const copy = strdup(name);
    if (copy == NULL) { return no_memory(err); }
    *slot = (kernel){.name = copy, .function = function};
    k->kernel_count++;
    return REDCO_OK;
}

/* All that a module has: asking modules for names that they may lack would be an error of the driver each time. */
static redco_status add_module(const redcoi_device *device, CUmodule module, const char *place, redco_error *err)
{
    const redcoi_driver *const driver = device->driver;
    unsigned count = 0;
    redco_status st = redcoi_cuda_check(device, driver->module_function_count(&count, module), place,
                                        "cuModuleGetFunctionCount", err);
    if (st != REDCO_OK || count == 0) { return st; }
    CUfunction *const functions = calloc(count, sizeof *functions);
    if (functions == NULL) { return no_memory(err); }
    st = redcoi_cuda_check(device, driver->module_functions(functions, count, module), place,
                           "cuModuleEnumerateFunctions", err);
    for (unsigned i = 0; i < count && st == REDCO_OK; i++) {
        const char *name = NULL;
        st = redcoi_cuda_check(device, driver->func_get_name(&name, functions[i]), place, "cuFuncGetName", err);
        if (st == REDCO_OK) { st = add_kernel(device->kernels, name, functions[i], err); }
    }
    free(functions);
    return st;
}

static redco_status find_kernel(const redcoi_device *device, const char *name, kernel **kernel_out, redco_error *err)
{
    redcoi_kernels *const k = device->kernels;
    *kernel_out = k->room == 0 ? NULL : slot_of(k->kernels, k->room, name);
    if (*kernel_out != NULL && (*kernel_out)->name != NULL) { return REDCO_OK; }
    return redco_fail(err, REDCO_ESYSTEM, name, "is in none of the %zu fat binaries", k->module_count);
}

/* More shared memory than usual is allowed per kernel, once. */
static redco_status allow_shared(const redcoi_device *device, kernel *wanted, uint32_t shared_bytes, redco_error *err)
{
    if (shared_bytes <= SHARED_UNASKED_BYTES || shared_bytes <= wanted->shared_bytes) { return REDCO_OK; }
    if (shared_bytes > device->shared_bytes_max) {
        return redco_fail(err, REDCO_ESYSTEM, wanted->name,
                          "wants %u bytes of shared memory, the device has %llu a block", shared_bytes,
                          (unsigned long long)device->shared_bytes_max);
    }
    const redco_status st =
        redcoi_cuda_check(device,
                          device->driver->func_set_attribute(
                              wanted->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared_bytes),
                          wanted->name, "cuFuncSetAttribute", err);
    if (st == REDCO_OK) { wanted->shared_bytes = shared_bytes; }
    return st;
}

redco_status redcoi_kernel_launch(redcoi_cuda *cuda, redco_device_stream *stream, const char *kernel_name,
                                  const redcoi_grid *grid, const void *parameters, const char *place, redco_error *err)
{
    const redcoi_device *const device = cuda->device;
    void *arguments[] = {(void *)(uintptr_t)parameters};
    uint32_t blocks[3];
    char what[160];
    kernel *found = NULL;
    redco_status st = redcoi_cuda_enter(cuda, err);
    if (st != REDCO_OK) { return st; }
    (void)pthread_mutex_lock(&device->kernels->lock);
    st = find_kernel(device, kernel_name, &found, err);
    if (st == REDCO_OK) { st = allow_shared(device, found, grid->shared_bytes, err); }
    const CUfunction function = st == REDCO_OK ? found->function : NULL;
    (void)pthread_mutex_unlock(&device->kernels->lock);
    if (st != REDCO_OK) { return st; }
    if (!stream->recording) { redcoi_cuda_count_call(cuda); }
    for (int i = 0; i < 3; i++) { blocks[i] = grid->blocks[i] > 0 ? grid->blocks[i] : 1; }
    const CUresult result = device->driver->launch_kernel(function, blocks[0], blocks[1], blocks[2], grid->threads, 1,
                                                          1, grid->shared_bytes, stream->handle, arguments, NULL);
    if (result == CUDA_SUCCESS) { return REDCO_OK; }
    (void)snprintf(what, sizeof what, "cuLaunchKernel of %s, %u x %u x %u blocks of %u threads", kernel_name, blocks[0],
                   blocks[1], blocks[2], grid->threads);
    return redcoi_cuda_check(device, result, place, what, err);
}

static void *load(void *context)
{
    redcoi_device *const device = context;
    redcoi_kernels *const k = device->kernels;
    redco_status st = redcoi_cuda_check(device, device->driver->ctx_set_current(device->context), "cuda",
                                        "cuCtxSetCurrent", &k->error);
    for (size_t i = 0; i < redcoi_fatbin_count && st == REDCO_OK; i++) {
        st = redcoi_cuda_check(device, device->driver->module_load_data(&k->modules[i], redcoi_fatbins[i].image),
                               redcoi_fatbins[i].name, "cuModuleLoadData of its fat binary", &k->error);
        if (st != REDCO_OK) { break; }
        k->module_count++;
        st = add_module(device, k->modules[i], redcoi_fatbins[i].name, &k->error);
    }
    k->status = st;
    return NULL;
}

redco_status redcoi_kernels_open(redcoi_device *device, redco_error *err)
{
    redcoi_kernels *const k = calloc(1, sizeof *k);
    if (k == NULL || pthread_mutex_init(&k->lock, NULL) != 0) {
        free(k);
        return no_memory(err);
    }
    device->kernels = k;
    k->modules = calloc(redcoi_fatbin_count, sizeof *k->modules);
    if (k->modules == NULL) { return no_memory(err); }
    k->loading = pthread_create(&k->loader, NULL, load, device) == 0;
    return k->loading ? REDCO_OK : redco_fail(err, REDCO_ESYSTEM, "cuda", "no thread to load kernels");
}

redco_status redcoi_kernels_await(redcoi_device *device, redco_error *err)
{
    redcoi_kernels *const k = device->kernels;
    if (k->loading) { (void)pthread_join(k->loader, NULL); }
    k->loading = false;
    return k->status == REDCO_OK ? REDCO_OK : redco_fail(err, k->status, k->error.place, "%s", k->error.text);
}

void redcoi_kernels_close(redcoi_device *device)
{
    redcoi_kernels *const k = device->kernels;
    if (k == NULL) { return; }
    (void)redcoi_kernels_await(device, NULL);
    for (size_t i = 0; k->modules != NULL && i < k->module_count; i++) {
        (void)device->driver->module_unload(k->modules[i]);
    }
    for (size_t i = 0; i < k->room; i++) { free(k->kernels[i].name); }
    (void)pthread_mutex_destroy(&k->lock);
    free(k->modules);
    free(k->kernels);
    free(k);
    device->kernels = NULL;
}
