/* Trainers' files in YAML. */
#include "tests/fuzz/trainer_form.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return trainer_form(data, size, "fuzzed/file", redcoi_yaml_settings);
}
