#include "topology/discovery/topology.h"

#include <math.h>
#include <stdlib.h>

/* A file that is accepted is in range. */
static void check(const redco_gpu *gpu)
{
    const double rates[] = {gpu->fp16_flops_per_s,
                            gpu->bf16_flops_per_s,
                            gpu->fp8_flops_per_s,
                            gpu->fp4_flops_per_s,
                            gpu->tf32_flops_per_s,
                            gpu->fp32_flops_per_s,
                            gpu->memory_bandwidth_bytes_per_s,
                            gpu->pcie_bytes_per_s,
                            gpu->scale_up_bytes_per_s,
                            gpu->tdp_w};
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        if (!isfinite(rates[i]) || rates[i] < 0.0) { abort(); }
    }
    if (gpu->memory_bytes == 0 || gpu->name[0] == '\0') { abort(); }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redco_json *document = NULL;
    redco_error err = {0};
    redco_gpu gpu;
    if (redco_json_parse((const char *)data, size, "fuzz", &document, &err) != REDCO_OK) { return 0; }
    const redco_json_value root = redco_json_root(document);
    if (redco_gpu_from_json(&root, &gpu, &err) == REDCO_OK) { check(&gpu); }
    redco_json_close(document);
    return 0;
}
