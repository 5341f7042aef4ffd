/* Trainers' files in sh: no command runs, no file is read. */
#include "tests/fuzz/trainer_form.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return trainer_form(data, size, "fuzzed/file", redcoi_shell_settings);
}
