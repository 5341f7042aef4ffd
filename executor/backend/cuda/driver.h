/** @file driver.h  The CUDA driver's calls that are used. They are taken from libcuda.so.1 by the names that cuda.h
 * gives them, versions included (cuMemAlloc is cuMemAlloc_v2): struct members have the plain names. */
#ifndef REDCOI_CUDA_DRIVER_H
#define REDCOI_CUDA_DRIVER_H

#include "executor/backend/cuda/cuda_internal.h"

/* member of redcoi_driver, name in cuda.h */
#define REDCOI_DRIVER_CALLS(X)                                                                                         \
    X(init, cuInit)                                                                                                    \
    X(driver_get_version, cuDriverGetVersion)                                                                          \
    X(get_error_name, cuGetErrorName)                                                                                  \
    X(get_error_string, cuGetErrorString)                                                                              \
    X(device_get_count, cuDeviceGetCount)                                                                              \
    X(device_get, cuDeviceGet)                                                                                         \
    X(device_get_name, cuDeviceGetName)                                                                                \
    X(device_get_uuid, cuDeviceGetUuid)                                                                                \
    X(device_get_attribute, cuDeviceGetAttribute)                                                                      \
    X(device_total_mem, cuDeviceTotalMem)                                                                              \
    X(primary_retain, cuDevicePrimaryCtxRetain)                                                                        \
    X(primary_release, cuDevicePrimaryCtxRelease)                                                                      \
    X(ctx_set_current, cuCtxSetCurrent)                                                                                \
    X(mem_get_info, cuMemGetInfo)                                                                                      \
    X(mem_alloc, cuMemAlloc)                                                                                           \
    X(mem_free, cuMemFree)                                                                                             \
    X(mem_host_alloc, cuMemHostAlloc)                                                                                  \
    X(mem_free_host, cuMemFreeHost)                                                                                    \
    X(memcpy_async, cuMemcpyAsync)                                                                                     \
    X(memset_d8_async, cuMemsetD8Async)                                                                                \
    X(stream_priority_range, cuCtxGetStreamPriorityRange)                                                              \
    X(stream_create, cuStreamCreateWithPriority)                                                                       \
    X(stream_destroy, cuStreamDestroy)                                                                                 \
    X(stream_synchronize, cuStreamSynchronize)                                                                         \
    X(stream_wait_event, cuStreamWaitEvent)                                                                            \
    X(event_create, cuEventCreate)                                                                                     \
    X(event_destroy, cuEventDestroy)                                                                                   \
    X(event_record, cuEventRecord)                                                                                     \
    X(event_synchronize, cuEventSynchronize)                                                                           \
    X(event_elapsed_time, cuEventElapsedTime)                                                                          \
    X(module_load_data, cuModuleLoadData)                                                                              \
    X(module_unload, cuModuleUnload)                                                                                   \
    X(module_function_count, cuModuleGetFunctionCount)                                                                 \
    X(module_functions, cuModuleEnumerateFunctions)                                                                    \
    X(func_get_name, cuFuncGetName)                                                                                    \
    X(func_set_attribute, cuFuncSetAttribute)                                                                          \
    X(func_get_attribute, cuFuncGetAttribute)                                                                          \
    X(launch_kernel, cuLaunchKernel)                                                                                   \
    X(event_record_with_flags, cuEventRecordWithFlags)                                                                 \
    X(stream_begin_capture, cuStreamBeginCapture)                                                                      \
    X(stream_end_capture, cuStreamEndCapture)                                                                          \
    X(graph_instantiate, cuGraphInstantiateWithFlags)                                                                  \
    X(graph_destroy, cuGraphDestroy)                                                                                   \
    X(graph_exec_destroy, cuGraphExecDestroy)                                                                          \
    X(graph_launch, cuGraphLaunch)

struct redcoi_driver {
    void *library;
#define REDCOI_MEMBER(member, name) __typeof__ (&(name))(member);
    REDCOI_DRIVER_CALLS(REDCOI_MEMBER)
#undef REDCOI_MEMBER
};

/** Loads and initialises the driver.
 *  @return REDCO_ESYSTEM "no CUDA device: ..." where there is none, it is too old, or it has no device */
redco_status redcoi_driver_open(redcoi_driver *driver, int *device_count_out, redco_error *err);
void redcoi_driver_close(redcoi_driver *driver); /**< one that was not opened is accepted */

/** An error of what a call returned; REDCO_OK for success. */
redco_status redcoi_driver_check(const redcoi_driver *driver, CUresult result, const char *place, const char *what,
                                 redco_error *err);

#endif
