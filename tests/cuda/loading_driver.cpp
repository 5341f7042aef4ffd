// A libcuda.so.1 that takes any machine code and runs none: all that the real cuDNN needs to make plans for a GPU that
// is only described (test_dnn_engines). Written from what it asks for.
#include <cstddef>

static int anything;

extern "C" {

#define GIVES(name, ...)                                                                                               \
    int name(void **out __VA_ARGS__)                                                                                   \
    {                                                                                                                  \
        *out = &anything;                                                                                              \
        return 0;                                                                                                      \
    }
#define DOES(name)                                                                                                     \
    int name()                                                                                                         \
    {                                                                                                                  \
        return 0;                                                                                                      \
    }
#define REFUSES(name)                                                                                                  \
    int name()                                                                                                         \
    {                                                                                                                  \
        return 100;                                                                                                    \
    } // CUDA_ERROR_NO_DEVICE

GIVES(cuLibraryLoadData, , const void *, void *, void **, unsigned, void *, void **, unsigned)
GIVES(cuLibraryGetKernel, , void *, const char *)
GIVES(cuLibraryGetModule, , void *)
GIVES(cuKernelGetFunction, , void *)
GIVES(cuModuleGetFunction, , void *, const char *)
DOES(cuLibraryUnload)
DOES(cuKernelSetAttribute)
DOES(cuFuncSetAttribute)

int cuLibraryGetKernelCount(unsigned *count, void *)
{
    *count = 1;
    return 0;
}

int cuLibraryEnumerateKernels(void **kernels, unsigned count, void *)
{
    for (unsigned i = 0; i < count; i++) { kernels[i] = &anything; }
    return 0;
}

int cuLibraryGetGlobal(void **address, size_t *bytes, void *, const char *)
{
    *address = &anything;
    *bytes = sizeof anything;
    return 0;
}

int cuKernelGetAttribute(int *value, int, void *, int)
{
    *value = 0;
    return 0;
}

int cuFuncGetAttribute(int *value, int, void *)
{
    *value = 0;
    return 0;
}

int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return 0;
}

int cuGetErrorName(int, const char **text)
{
    *text = "an error";
    return 0;
}

int cuGetErrorString(int, const char **text)
{
    *text = "an error";
    return 0;
}

REFUSES(cuCtxGetCurrent)
REFUSES(cuCtxGetLimit)
REFUSES(cuCtxPopCurrent)
REFUSES(cuCtxPushCurrent)
REFUSES(cuStreamGetCtx)
REFUSES(cuLinkCreate)
REFUSES(cuLinkAddData)
REFUSES(cuLinkComplete)
REFUSES(cuLinkDestroy)
REFUSES(cuLaunchKernel)
REFUSES(cuLaunchKernelEx)
REFUSES(cuLaunchCooperativeKernel)
REFUSES(cuDeviceGetCount)
REFUSES(cuDeviceGet)
REFUSES(cuLibraryLoadFromFile)
REFUSES(cuOccupancyMaxPotentialClusterSize)

} // extern "C"
