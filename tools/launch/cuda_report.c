#include "tools/launch/cuda_report.h"

#include <stdio.h>

/* Nobody else has attention of 32 and 64 bits. */
static const char *reason(const redco_cuda_attention *used)
{
    return used->slow_launches > 0 ? used->why : "of 32 or 64 bits, which cuDNN has not";
}

void cuda_attention_text(const redco_backend *backend, char *text, size_t size)
{
    redco_cuda_attention used;
    redco_cuda_device device;
    int length = 0;
    text[0] = '\0';
    redco_cuda_attention_used(backend, &used);
    if (used.dnn_launches > 0 && redco_cuda_describe(backend, &device, NULL) == REDCO_OK) {
        length = snprintf(text, size, "cuDNN %u.%u.%u (%s)", device.dnn_version / 10000, device.dnn_version / 100 % 100,
                          device.dnn_version % 100, device.dnn_path);
    }
    if (used.own_launches == 0 || (length > 0 && used.slow_launches == 0) || length < 0 || (size_t)length >= size) {
        return;
    }
    (void)snprintf(text + length, size - (size_t)length, "%sown kernels: %s", length > 0 ? ", " : "", reason(&used));
}

/* Measured on an H200 with models of 1 to 7 billion parameters: MFU 0.13 to 0.24 with own kernels, 0.56 to 0.61 with
 * cuDNN. */
bool cuda_attention_warning(const redco_backend *backend, char *text, size_t size)
{
    redco_cuda_attention used;
    redco_cuda_attention_used(backend, &used);
    if (used.slow_launches == 0) { return false; }
    (void)snprintf(text, size,
                   "attention runs on redco's own kernels: %s; steps take two to five times as long as with cuDNN; its "
                   "folder can be named in LD_LIBRARY_PATH or REDCO_CUDA_FOLDERS",
                   used.why);
    return true;
}
