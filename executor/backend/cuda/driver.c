#include "executor/backend/cuda/driver.h"

#define NAME_OF(name) #name
#define VERSIONED(name) NAME_OF(name) /* cuda.h renames by macros */

redco_status redcoi_driver_check(const redcoi_driver *driver, CUresult result, const char *place, const char *what,
                                 redco_error *err)
{
    const char *name = NULL, *text = NULL;
    if (result == CUDA_SUCCESS) { return REDCO_OK; }
    /* Both leave NULL for a code that they do not know; the toolkit's stub driver does so for its own. */
    if (driver->get_error_name(result, &name) != CUDA_SUCCESS || name == NULL) { name = "unknown error"; }
    if (driver->get_error_string(result, &text) != CUDA_SUCCESS || text == NULL) { text = "no description"; }
    return redco_fail(err, result == CUDA_ERROR_OUT_OF_MEMORY ? REDCO_ENOMEM : REDCO_ESYSTEM, place, "%s: %s (%d: %s)",
                      what, name, (int)result, text);
}

/* Why there is no device: what a person can do about it. */
static redco_status no_device(redco_error *err, const redcoi_driver *driver, CUresult result)
{
    const char *why = NULL;
    redco_error driver_err = {.status = REDCO_OK};
    switch ((int)result) {
    case CUDA_ERROR_STUB_LIBRARY:
        why = "libcuda.so.1 is the toolkit's stub; take its folder out of LD_LIBRARY_PATH, or install NVIDIA's driver";
        break;
    case 35: /* cudaErrorInsufficientDriver: not one of the driver's own, but some wrappers hand it on */
        why = "the driver is older than this CUDA; install a newer one";
        break;
    case CUDA_ERROR_NO_DEVICE:
        why = "the driver sees none; is one installed, and is it in CUDA_VISIBLE_DEVICES?";
        break;
    default:
        (void)redcoi_driver_check(driver, result, "", "cuInit", &driver_err);
        return redco_fail(err, REDCO_ESYSTEM, "cuda", "no CUDA device: %s; does nvidia-smi work?", driver_err.text);
    }
    return redco_fail(err, REDCO_ESYSTEM, "cuda", "no CUDA device: %s", why);
}

enum {
#define INDEX(member, name) INDEX_##member,
    REDCOI_DRIVER_CALLS(INDEX) CALL_COUNT
};

static redco_status load(redcoi_driver *driver, redco_error *err)
{
    /* All pointers to functions have one representation here (POSIX). */
#define ENTRY(member, name) {VERSIONED(name), (void (**)(void))(void *)&driver->member},
    const redcoi_symbol symbols[CALL_COUNT] = {REDCOI_DRIVER_CALLS(ENTRY)};
    redco_error library_err = {.status = REDCO_OK};
    if (redcoi_library_open("libcuda.so.1", symbols, CALL_COUNT, &driver->library, &library_err) == REDCO_OK) {
        return REDCO_OK;
    }
    driver->library = NULL;
    return redco_fail(err, REDCO_ESYSTEM, "cuda",
                      "no CUDA device: %s: %s; install NVIDIA's driver, 580 or newer, or use the host backend",
                      library_err.place, library_err.text);
}

redco_status redcoi_driver_open(redcoi_driver *driver, int *device_count_out, redco_error *err)
{
    int count = 0, version = 0;
    *driver = (redcoi_driver){.library = NULL};
    redco_status st = load(driver, err);
    if (st != REDCO_OK) { return st; }
    CUresult result = driver->init(0);
    if (result == CUDA_SUCCESS) { result = driver->driver_get_version(&version); }
    if (result == CUDA_SUCCESS) { result = driver->device_get_count(&count); }
    if (result == CUDA_SUCCESS && count <= 0) { result = CUDA_ERROR_NO_DEVICE; }
    if (result != CUDA_SUCCESS) {
        st = no_device(err, driver, result);
    } else if (version / 1000 < CUDA_VERSION / 1000) {
        st = redco_fail(
            err, REDCO_ESYSTEM, "cuda",
            "no CUDA device: the driver is for CUDA %d.%d, redco was built for %d.%d; install a newer driver",
            version / 1000, version % 1000 / 10, CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
    }
    if (st != REDCO_OK) {
        redcoi_driver_close(driver);
        return st;
    }
    *device_count_out = count;
    return REDCO_OK;
}

void redcoi_driver_close(redcoi_driver *driver)
{
    redcoi_library_close(driver->library);
    driver->library = NULL;
}

redco_status redcoi_cuda_check(const redcoi_device *device, CUresult result, const char *place, const char *what,
                               redco_error *err)
{
    return result == CUDA_SUCCESS ? REDCO_OK : redcoi_driver_check(device->driver, result, place, what, err);
}

redco_status redcoi_cuda_enter(const redcoi_cuda *cuda, redco_error *err)
{
    const redcoi_device *const device = cuda->device;
    return redcoi_cuda_check(device, device->driver->ctx_set_current(device->context), "cuda", "cuCtxSetCurrent", err);
}

void redcoi_cuda_count_call(const redcoi_cuda *cuda)
{
    (void)__atomic_fetch_add(&cuda->device->calls_made, 1, __ATOMIC_RELAXED);
}
