#include "executor/backend/cuda/driver.h"

#include <stdlib.h>
#include <string.h>

static redco_status attribute(const redcoi_device *device, CUdevice_attribute which, uint64_t *out, redco_error *err)
{
    int value = 0;
    const redco_status st = redcoi_cuda_check(device, device->driver->device_get_attribute(&value, which, device->id),
                                              "cuda", "cuDeviceGetAttribute", err);
    *out = value > 0 ? (uint64_t)value : 0;
    return st;
}

static redco_status look_at(redcoi_device *device, redco_error *err)
{
    const struct {
        CUdevice_attribute which;
        uint32_t *out;
    } wanted[] = {{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &device->major},
                  {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &device->minor},
                  {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &device->multiprocessors}};
    redco_status st =
        attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &device->shared_bytes_max, err);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0] && st == REDCO_OK; i++) {
        uint64_t value = 0;
        st = attribute(device, wanted[i].which, &value, err);
        *wanted[i].out = (uint32_t)value;
    }
    if (st == REDCO_OK && device->major < 8) {
        st =
            redco_fail(err, REDCO_ESYSTEM, "cuda",
                       "no CUDA device: device %u has compute capability %u.%u; kernels are compiled for 8.0 and newer",
                       device->options.device, device->major, device->minor);
    }
    return st;
}

static void free_device(redcoi_device *device)
{
    redcoi_driver *const driver = (redcoi_driver *)(uintptr_t)device->driver;
    if (device->context != NULL) {
        (void)driver->ctx_set_current(device->context);
        redcoi_kernels_close(device);
        redcoi_fault_close(device);
        (void)driver->ctx_set_current(NULL);
        (void)driver->primary_release(device->id);
    }
    redcoi_driver_close(driver);
    (void)pthread_mutex_destroy(&device->lock);
    free(device->allocations);
    free(driver);
    free(device);
}

static redco_status open_context(redcoi_device *device, int device_count, redco_error *err)
{
    const redcoi_driver *const driver = device->driver;
    const uint32_t wanted = device->options.device;
    if (wanted >= (uint32_t)device_count) {
        return redco_fail(err, REDCO_ESYSTEM, "cuda", "no CUDA device: device %u is wanted, the driver shows %d",
                          wanted, device_count);
    }
    redco_status st =
        redcoi_cuda_check(device, driver->device_get(&device->id, (int)wanted), "cuda", "cuDeviceGet", err);
    if (st == REDCO_OK) { st = look_at(device, err); }
    if (st != REDCO_OK) { return st; }
    CUcontext context = NULL;
    st = redcoi_cuda_check(device, driver->primary_retain(&context, device->id), "cuda", "cuDevicePrimaryCtxRetain",
                           err);
    if (st != REDCO_OK) { return st; }
    device->context = context;
    st = redcoi_cuda_check(device, driver->ctx_set_current(context), "cuda", "cuCtxSetCurrent", err);
    if (st == REDCO_OK) { st = redcoi_fault_open(device, err); }
    return st == REDCO_OK ? redcoi_kernels_open(device, err) : st;
}

static redco_status open_device(const redco_cuda_options *options, redcoi_device **device_out, redco_error *err)
{
    int count = 0;
    redcoi_device *const device = calloc(1, sizeof *device);
    redcoi_driver *const driver = calloc(1, sizeof *driver);
    if (device == NULL || driver == NULL || pthread_mutex_init(&device->lock, NULL) != 0) {
        free(device);
        free(driver);
        return redco_fail(err, REDCO_ENOMEM, "cuda", "no memory to open the device");
    }
    device->driver = driver;
    if (options != NULL) { device->options = *options; }
    redcoi_libraries_choose(device, device->options.library_folders); /* before the driver, which children have not */
    device->options.library_folders = NULL;
    redco_status st = redcoi_driver_open(driver, &count, err);
    if (st == REDCO_OK) { st = open_context(device, count, err); }
    if (st != REDCO_OK) {
        free_device(device);
        return st;
    }
    *device_out = device;
    return REDCO_OK;
}

static void free_handle(redcoi_cuda *cuda)
{
    (void)redcoi_cuda_enter(cuda, NULL);
    redcoi_dnn_close(cuda);
    redcoi_blas_close(cuda);
    free(cuda);
}

static void cuda_close(redco_backend *backend)
{
    redcoi_cuda *const cuda = (redcoi_cuda *)backend;
    redcoi_device *const device = cuda->device;
    free_handle(cuda);
    (void)pthread_mutex_lock(&device->lock);
    const bool last = --device->handles == 0;
    (void)pthread_mutex_unlock(&device->lock);
    if (last) { free_device(device); }
}

static redco_status new_handle(redcoi_device *device, redco_backend **backend_out, redco_error *err);

static redco_status cuda_share(redco_backend *backend, redco_backend **backend_out, redco_error *err)
{
    return new_handle(((redcoi_cuda *)backend)->device, backend_out, err);
}

static const redco_backend_calls cuda_calls = {
    .name = "cuda",
    .cuda = true,
    .fuses = true,
    .vector_elements = (uint64_t)1 << 26,      /* nothing has to fit a cache, and launches count */
    .clock_resolution_s = 0.5e-6,              /* cuEventElapsedTime()'s documentation, */
    .clock_resolution_ratio = 1.0 / (1 << 23), /* and it returns a float */
    .close = cuda_close,
    .share = cuda_share,
    .memory_use = redcoi_cuda_memory_use,
    .allocate = redcoi_cuda_allocate,
    .release = redcoi_cuda_release,
    .stream_create = redcoi_cuda_stream_create,
    .stream_free = redcoi_cuda_stream_free,
    .stream_finish = redcoi_cuda_stream_finish,
    .event_create = redcoi_cuda_event_create,
    .event_free = redcoi_cuda_event_free,
    .event_set = redcoi_cuda_event_set,
    .event_wait = redcoi_cuda_event_wait,
    .event_finish = redcoi_cuda_event_finish,
    .event_between = redcoi_cuda_event_between,
    .copy = redcoi_cuda_copy,
    .fill_zero = redcoi_cuda_fill_zero,
    .occupy = redcoi_cuda_occupy,
    .supports = redcoi_cuda_supports,
    .workspace_bytes = redcoi_cuda_workspace_bytes,
    .run = redcoi_cuda_run,
    .record_begin = redcoi_cuda_record_begin,
    .record_end = redcoi_cuda_record_end,
    .record_play = redcoi_cuda_record_play,
    .record_free = redcoi_cuda_record_free,
};

/* A library that is missing is reported like a device that is. */
static redco_status open_blas(redcoi_cuda *cuda, redco_error *err)
{
    redco_error blas_err = {.status = REDCO_OK};
    const redco_status st = redcoi_blas_open(cuda, &blas_err);
    if (st == REDCO_OK) { return REDCO_OK; }
    if (strncmp(blas_err.place, "lib", 3) != 0) { return redco_fail(err, st, blas_err.place, "%s", blas_err.text); }
    return redco_fail(err, st, "cuda", "no CUDA device: %s: %.600s; install cuBLAS of CUDA %d", blas_err.place,
                      blas_err.text, CUDA_VERSION / 1000);
}

static redco_status new_handle(redcoi_device *device, redco_backend **backend_out, redco_error *err)
{
    redcoi_cuda *const cuda = calloc(1, sizeof *cuda);
    if (cuda == NULL) { return redco_fail(err, REDCO_ENOMEM, "cuda", "the backend"); }
    cuda->base.calls = &cuda_calls;
    cuda->device = device;
    redco_status st = redcoi_cuda_enter(cuda, err);
    if (st == REDCO_OK) { st = open_blas(cuda, err); }
    if (st == REDCO_OK) { st = redcoi_dnn_open(cuda, err); }
    if (st != REDCO_OK) {
        free_handle(cuda);
        return st;
    }
    (void)pthread_mutex_lock(&device->lock);
    device->handles++;
    (void)pthread_mutex_unlock(&device->lock);
    *backend_out = &cuda->base;
    return REDCO_OK;
}

redco_status redco_cuda_open(const redco_cuda_options *options, redco_backend **backend_out, redco_error *err)
{
    redcoi_device *device = NULL;
    redco_status st = open_device(options, &device, err);
    if (st != REDCO_OK) { return st; }
    st = new_handle(device, backend_out, err);
    if (st != REDCO_OK) {
        free_device(device);
        return st;
    }
    st = redcoi_kernels_await(device, err); /* kernels were loaded while the libraries were */
    if (st != REDCO_OK) {
        cuda_close(*backend_out);
        *backend_out = NULL;
    }
    return st;
}

/* As the driver's tools write it: GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx. */
static void write_uuid(const CUuuid *uuid, char text[48])
{
    static const char digits[] = "0123456789abcdef";
    size_t at = 4;
    memcpy(text, "GPU-", 4);
    for (size_t i = 0; i < sizeof uuid->bytes; i++) {
        const unsigned byte = (unsigned char)uuid->bytes[i];
        if (i == 4 || i == 6 || i == 8 || i == 10) { text[at++] = '-'; }
        text[at++] = digits[byte >> 4];
        text[at++] = digits[byte & 15];
    }
    text[at] = '\0';
}

redco_status redco_cuda_describe(const redco_backend *backend, redco_cuda_device *device_out, redco_error *err)
{
    const redcoi_cuda *const cuda = (const redcoi_cuda *)backend;
    if (backend->calls != &cuda_calls) {
        return redco_fail(err, REDCO_EVALUE, "cuda", "the %s backend is no CUDA device", backend->calls->name);
    }
    const redcoi_device *const device = cuda->device;
    const redcoi_driver *const driver = device->driver;
    redco_cuda_device d = {.major = device->major,
                           .minor = device->minor,
                           .multiprocessors = device->multiprocessors,
                           .blas_version = redcoi_blas_version(cuda),
                           .dnn_version = cuda->dnn == NULL ? 0 : redcoi_dnn_version(cuda)};
    redcoi_dnn_path(cuda, d.dnn_path);
    CUuuid uuid = {.bytes = {0}};
    uint64_t clock_khz = 0, memory_clock_khz = 0, mps = 0;
    size_t free_bytes = 0, total_bytes = 0;
    int version = 0;
    redco_status st = redcoi_cuda_enter(cuda, err);
    if (st == REDCO_OK) {
        st = redcoi_cuda_check(device, driver->device_get_name(d.name, (int)sizeof d.name, device->id), "cuda",
                               "cuDeviceGetName", err);
    }
    if (st == REDCO_OK) {
        st = redcoi_cuda_check(device, driver->device_get_uuid(&uuid, device->id), "cuda", "cuDeviceGetUuid", err);
    }
    if (st == REDCO_OK) {
        st = redcoi_cuda_check(device, driver->mem_get_info(&free_bytes, &total_bytes), "cuda", "cuMemGetInfo", err);
    }
    if (st == REDCO_OK) {
        st = redcoi_cuda_check(device, driver->driver_get_version(&version), "cuda", "cuDriverGetVersion", err);
    }
    if (st == REDCO_OK) { st = attribute(device, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, &clock_khz, err); }
    if (st == REDCO_OK) { st = attribute(device, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, &memory_clock_khz, err); }
    if (st == REDCO_OK) { st = attribute(device, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, &mps, err); }
    if (st != REDCO_OK) { return st; }
    d.name[sizeof d.name - 1] = '\0';
    write_uuid(&uuid, d.uuid);
    d.memory_bytes = total_bytes;
    d.free_bytes = free_bytes;
    d.clock_hz = 1e3 * (double)clock_khz;
    d.memory_clock_hz = 1e3 * (double)memory_clock_khz;
    d.driver_version = (uint32_t)version;
    d.mps = mps != 0;
    *device_out = d;
    return REDCO_OK;
}

void redco_cuda_attention_used(const redco_backend *backend, redco_cuda_attention *used_out)
{
    *used_out = (redco_cuda_attention){.dnn_launches = 0};
    if (backend == NULL || backend->calls != &cuda_calls) { return; }
    redcoi_device *const device = ((const redcoi_cuda *)backend)->device;
    (void)pthread_mutex_lock(&device->lock);
    *used_out = device->attention;
    (void)pthread_mutex_unlock(&device->lock);
}

uint64_t redco_cuda_calls_made(const redco_backend *backend)
{
    if (backend == NULL || backend->calls != &cuda_calls) { return 0; }
    return __atomic_load_n(&((const redcoi_cuda *)backend)->device->calls_made, __ATOMIC_RELAXED);
}

uint32_t redco_cuda_count(void)
{
    redcoi_driver driver;
    int count = 0;
    if (redcoi_driver_open(&driver, &count, NULL) != REDCO_OK) { return 0; }
    redcoi_driver_close(&driver);
    return (uint32_t)count;
}
