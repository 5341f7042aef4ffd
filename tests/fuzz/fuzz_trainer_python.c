/* Trainers' files in Python: nothing is run. */
#include "tests/fuzz/trainer_form.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return trainer_form(data, size, "fuzzed/file", redcoi_python_settings);
}
