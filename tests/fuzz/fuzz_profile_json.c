/* JSON profiles: whatever is accepted has only sane rows, and a refusal says why. */
#include "tests/fuzz/profile_checks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redco_profile *profile = NULL;
    redco_error err = {0};
    const redco_status st = redco_profile_parse((const char *)data, size, "fuzz_allgather", &profile, &err);
    check_profile(st, profile, &err);
    redco_profile_free(profile);
    return 0;
}
