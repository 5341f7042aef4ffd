#include "tools/launch/share_gpu.h"

#include <stddef.h>
#include <stdlib.h>

bool share_gpu(void)
{
    static const char *const settings[][2] = {
        {"NCCL_MULTI_RANK_GPU_ENABLE", "1"}, {"NCCL_MAX_CTAS", "1"}, {"NCCL_NVLS_ENABLE", "0"}};
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        if (setenv(settings[i][0], settings[i][1], 1) != 0) { return false; }
    }
    return true;
}
