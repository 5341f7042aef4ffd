/* Logs of nccl-tests: whatever is accepted has only sane rows, and a refusal says why. */
#include "tests/fuzz/profile_checks.h"
#include "traces/nccl_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redco_profile *profile = NULL;
    redco_error err = {0};
    const redco_status st = redco_nccl_log_parse((const char *)data, size, "fuzz_allgather", &profile, &err);
    check_profile(st, profile, &err);
    redco_profile_free(profile);
    return 0;
}
