/* Tables of operators from a JSON profile: whatever is accepted answers with times above 0, between sizes and far
 * outside. */
#include "costmodel/operators/compute_profile.h"

#include <math.h>
#include <stdlib.h>

static void check(const redco_compute_profile *profile, const redco_operator *op, redco_precision precision)
{
    for (int pass = 0; pass < 3; pass++) {
        double seconds = -1.0;
        if (!redco_compute_profile_s(profile, op, (redco_pass)pass, precision, &seconds)) { continue; }
        if (isnan(seconds) || seconds < 0.0) { abort(); }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint64_t sizes[] = {1, 100, 5000, UINT64_C(1) << 40};
    redco_profile *file = NULL;
    redco_compute_profile *profile = NULL;
    redco_error err = {0};
    redco_status st = redco_profile_parse((const char *)data, size, "fuzz", &file, &err);
    if (st == REDCO_OK) { st = redco_compute_profile_add(&profile, file, "fuzz", &err); }
    if (st == REDCO_OK) { st = redco_compute_profile_finish(profile, &err); }
    if (st != REDCO_OK && err.text[0] == '\0') { abort(); }
    for (int i = 0; i < 4 && st == REDCO_OK; i++) {
        const redco_operator gemm = {.kind = REDCO_OPERATOR_GEMM, .m = sizes[i], .n = sizes[3 - i], .k = sizes[i]};
        const redco_operator attention = {.kind = REDCO_OPERATOR_ATTENTION,
                                          .keys = (uint32_t)sizes[i % 3],
                                          .head_dim = 64,
                                          .causal = true,
                                          .flops = 1e9};
        const redco_operator norm = {
            .kind = REDCO_OPERATOR_MEMORY, .measured_as = "rms_norm", .elements = (double)sizes[i]};
        check(profile, &gemm, i % 2 == 0 ? REDCO_FP32 : REDCO_BF16);
        check(profile, &attention, REDCO_FP32);
        check(profile, &norm, REDCO_FP32);
    }
    redco_compute_profile_free(profile);
    redco_profile_free(file);
    return 0;
}
