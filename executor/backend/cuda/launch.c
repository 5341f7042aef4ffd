#include "executor/backend/cuda/driver.h"
#include "executor/backend/cuda/fatbins.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A block has 48 KiB without asking, of which what the kernel declares itself is taken. Source: CUDA C++ Programming
 * Guide, shared memory of 7.x and newer. */
enum { SHARED_UNASKED_BYTES = 32 * 1024 };

typedef struct kernel {
    char *name;
    CUfunction function;
    uint32_t shared_bytes; /* that were asked for */
} kernel;

struct redcoi_kernels {
    pthread_mutex_t lock; /* of kernels: a kernel is looked for when it is first launched */
    CUmodule *modules;
    size_t module_count;
    kernel *kernels; /* a hash table: open addressing, at most half full */
    size_t kernel_count, room;
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

static redco_status look_for(const redcoi_device *device, const char *name, CUfunction *function_out, redco_error *err)
{
    for (size_t i = 0; i < device->kernels->module_count; i++) {
        const CUresult result = device->driver->module_get_function(function_out, device->kernels->modules[i], name);
        if (result != CUDA_ERROR_NOT_FOUND) {
            return redcoi_cuda_check(device, result, name, "cuModuleGetFunction", err);
        }
    }
    return redco_fail(err, REDCO_ESYSTEM, name, "is in none of the %zu fat binaries", device->kernels->module_count);
}

static redco_status find_kernel(const redcoi_device *device, const char *name, kernel **kernel_out, redco_error *err)
{
    redcoi_kernels *const k = device->kernels;
    CUfunction function = NULL;
    redco_status st = make_room(k, err);
    if (st != REDCO_OK) { return st; }
    kernel *const slot = slot_of(k->kernels, k->room, name);
    *kernel_out = slot;
    if (slot->name != NULL) { return REDCO_OK; }
    if ((st = look_for(device, name, &function, err)) != REDCO_OK) { return st; }
    char *const copy = strdup(name);
    if (copy == NULL) { return no_memory(err); }
    *slot = (kernel){.name = copy, .function = function};
    k->kernel_count++;
    return REDCO_OK;
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

redco_status redcoi_kernel_launch(redcoi_cuda *cuda, redco_queue *queue, const char *kernel_name,
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
    for (int i = 0; i < 3; i++) { blocks[i] = grid->blocks[i] > 0 ? grid->blocks[i] : 1; }
    const CUresult result = device->driver->launch_kernel(function, blocks[0], blocks[1], blocks[2], grid->threads, 1,
                                                          1, grid->shared_bytes, queue->stream, arguments, NULL);
    if (result == CUDA_SUCCESS) { return REDCO_OK; }
    (void)snprintf(what, sizeof what, "cuLaunchKernel of %s, %u x %u x %u blocks of %u threads", kernel_name, blocks[0],
                   blocks[1], blocks[2], grid->threads);
    return redcoi_cuda_check(device, result, place, what, err);
}

redco_status redcoi_kernels_open(redcoi_device *device, redco_error *err)
{
    redcoi_kernels *const k = calloc(1, sizeof *k);
    if (k == NULL || pthread_mutex_init(&k->lock, NULL) != 0) {
        free(k);
        return no_memory(err);
    }
    device->kernels = k;
    CUmodule *const modules = calloc(redcoi_fatbin_count, sizeof *modules);
    redco_status st = modules == NULL ? no_memory(err) : REDCO_OK;
    k->modules = modules;
    for (size_t i = 0; modules != NULL && i < redcoi_fatbin_count && st == REDCO_OK; i++) {
        st = redcoi_cuda_check(device, device->driver->module_load_data(&modules[i], redcoi_fatbins[i].image),
                               redcoi_fatbins[i].name, "cuModuleLoadData of its fat binary", err);
        if (st == REDCO_OK) { k->module_count++; }
    }
    if (st != REDCO_OK) { redcoi_kernels_close(device); }
    return st;
}

void redcoi_kernels_close(redcoi_device *device)
{
    redcoi_kernels *const k = device->kernels;
    if (k == NULL) { return; }
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
