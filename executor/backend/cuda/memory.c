#include "executor/backend/cuda/driver.h"

#include <stdlib.h>

/* The driver does not say how large what is freed was, and another handle may free it. */
struct redcoi_allocation {
    const void *memory;
    uint64_t size_bytes;
    redcoi_cuda *owner;
};

/* An address of device memory is one of the driver's; with unified addressing it is no host address. */
static CUdeviceptr address_of(const void *memory)
{
    return (CUdeviceptr)(uintptr_t)memory;
}

/* Counts the bytes, and makes room for the entry, before memory is taken. */
static redco_status reserve(redcoi_cuda *cuda, uint64_t size_bytes, redco_error *err)
{
    redcoi_device *const d = cuda->device;
    const uint64_t limit_bytes = d->options.memory_limit_bytes;
    redco_status st = REDCO_OK;
    (void)pthread_mutex_lock(&d->lock);
    if (limit_bytes > 0 && (size_bytes > limit_bytes || d->live_bytes > limit_bytes - size_bytes)) {
        st = redco_fail(err, REDCO_ENOMEM, "cuda", "no room for %llu bytes: %llu of %llu are in use",
                        (unsigned long long)size_bytes, (unsigned long long)d->live_bytes,
                        (unsigned long long)limit_bytes);
    } else if (d->allocation_count == d->allocation_room) {
        const size_t room = d->allocation_room * 2 + 16;
        struct redcoi_allocation *const more = realloc(d->allocations, room * sizeof *more);
        if (more == NULL) {
            st = redco_fail(err, REDCO_ENOMEM, "cuda", "the list of allocations");
        } else {
            d->allocations = more;
            d->allocation_room = room;
        }
    }
    if (st == REDCO_OK) {
        d->allocations[d->allocation_count++] = (struct redcoi_allocation){NULL, size_bytes, cuda};
        d->live_bytes += size_bytes;
        cuda->live_bytes += size_bytes;
        if (cuda->live_bytes > cuda->peak_bytes) { cuda->peak_bytes = cuda->live_bytes; }
    }
    (void)pthread_mutex_unlock(&d->lock);
    return st;
}

/* Finds an allocation of an owner, NULL for any. Its entry is called with the lock held. */
static size_t find(const redcoi_device *d, const void *memory, const redcoi_cuda *owner)
{
    size_t i = d->allocation_count;
    while (i-- > 0) {
        if (d->allocations[i].memory == memory && (owner == NULL || d->allocations[i].owner == owner)) { return i; }
    }
    return SIZE_MAX;
}

static void note(redcoi_cuda *cuda, const void *memory)
{
    redcoi_device *const d = cuda->device;
    (void)pthread_mutex_lock(&d->lock);
    d->allocations[find(d, NULL, cuda)].memory = memory;
    (void)pthread_mutex_unlock(&d->lock);
}

static void forget(redcoi_device *d, const void *memory, const redcoi_cuda *owner)
{
    (void)pthread_mutex_lock(&d->lock);
    const size_t at = find(d, memory, owner);
    if (at != SIZE_MAX) {
        const struct redcoi_allocation gone = d->allocations[at];
        d->allocations[at] = d->allocations[--d->allocation_count];
        d->live_bytes -= gone.size_bytes;
        gone.owner->live_bytes -= gone.size_bytes;
    }
    (void)pthread_mutex_unlock(&d->lock);
}

static redco_status allocate_host(const redcoi_device *d, uint64_t size_bytes, void **memory_out, redco_error *err)
{
    const CUresult result = d->driver->mem_host_alloc(memory_out, size_bytes, CU_MEMHOSTALLOC_PORTABLE);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        return redco_fail(err, REDCO_ENOMEM, "cuda", "no page-locked memory for %llu bytes",
                          (unsigned long long)size_bytes);
    }
    return redcoi_cuda_check(d, result, "cuda", "cuMemHostAlloc", err);
}

static redco_status allocate_device(redcoi_cuda *cuda, uint64_t size_bytes, void **memory_out, redco_error *err)
{
    const redcoi_driver *const driver = cuda->device->driver;
    CUdeviceptr address = 0;
    size_t free_bytes = 0, total_bytes = 0;
    redco_status st = reserve(cuda, size_bytes, err);
    if (st != REDCO_OK) { return st; }
    const CUresult result = driver->mem_alloc(&address, size_bytes);
    if (result == CUDA_SUCCESS) {
        *memory_out = (void *)(uintptr_t)address;
        note(cuda, *memory_out);
        return REDCO_OK;
    }
    forget(cuda->device, NULL, cuda);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && driver->mem_get_info(&free_bytes, &total_bytes) == CUDA_SUCCESS) {
        return redco_fail(err, REDCO_ENOMEM, "cuda", "no room for %llu bytes: %zu of %zu are free on device %u",
                          (unsigned long long)size_bytes, free_bytes, total_bytes, cuda->device->options.device);
    }
    return redcoi_cuda_check(cuda->device, result, "cuda", "cuMemAlloc", err);
}

redco_status redcoi_cuda_allocate(redco_backend *backend, redco_memory where, uint64_t size_bytes, void **memory_out,
                                  redco_error *err)
{
    redcoi_cuda *const cuda = (redcoi_cuda *)backend;
    const uint64_t bytes = size_bytes > 0 ? size_bytes : 1; /* the driver refuses none */
    const redco_status st = redcoi_cuda_enter(cuda, err);
    if (st != REDCO_OK) { return st; }
    return where == REDCO_MEMORY_HOST ? allocate_host(cuda->device, bytes, memory_out, err)
                                      : allocate_device(cuda, bytes, memory_out, err);
}

void redcoi_cuda_release(redco_backend *backend, redco_memory where, void *memory)
{
    redcoi_cuda *const cuda = (redcoi_cuda *)backend;
    const redcoi_driver *const driver = cuda->device->driver;
    if (memory == NULL) { return; }
    (void)redcoi_cuda_enter(cuda, NULL);
    if (where == REDCO_MEMORY_HOST) {
        (void)driver->mem_free_host(memory);
        return;
    }
    forget(cuda->device, memory, NULL); /* first: the address may be given again as soon as it is freed */
    (void)driver->mem_free(address_of(memory));
}

void redcoi_cuda_memory_use(const redco_backend *backend, uint64_t *live_bytes_out, uint64_t *peak_bytes_out)
{
    const redcoi_cuda *const cuda = (const redcoi_cuda *)backend;
    (void)pthread_mutex_lock(&cuda->device->lock);
    *live_bytes_out = cuda->live_bytes;
    *peak_bytes_out = cuda->peak_bytes;
    (void)pthread_mutex_unlock(&cuda->device->lock);
}

redco_status redcoi_cuda_copy(redco_backend *backend, redco_device_stream *stream, void *to, const void *from,
                              uint64_t size_bytes, redco_error *err)
{
    const redcoi_cuda *const cuda = (redcoi_cuda *)backend;
    const redcoi_device *const d = cuda->device;
    if (size_bytes == 0) { return REDCO_OK; }
    const redco_status st = redcoi_cuda_enter(cuda, err);
    if (st != REDCO_OK) { return st; }
    if (!stream->recording) { redcoi_cuda_count_call(cuda); }
    return redcoi_cuda_check(d, d->driver->memcpy_async(address_of(to), address_of(from), size_bytes, stream->handle),
                             "cuda", "cuMemcpyAsync", err);
}

redco_status redcoi_cuda_fill_zero(redco_backend *backend, redco_device_stream *stream, void *to, uint64_t size_bytes,
                                   redco_error *err)
{
    const redcoi_cuda *const cuda = (redcoi_cuda *)backend;
    const redcoi_device *const d = cuda->device;
    if (size_bytes == 0) { return REDCO_OK; }
    const redco_status st = redcoi_cuda_enter(cuda, err);
    if (st != REDCO_OK) { return st; }
    if (!stream->recording) { redcoi_cuda_count_call(cuda); }
    return redcoi_cuda_check(d, d->driver->memset_d8_async(address_of(to), 0, size_bytes, stream->handle), "cuda",
                             "cuMemsetD8Async", err);
}
