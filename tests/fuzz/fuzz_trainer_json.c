/* Trainers' files in JSON. */
#include "tests/fuzz/trainer_form.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return trainer_form(data, size, "fuzzed/file", redcoi_json_settings);
}
