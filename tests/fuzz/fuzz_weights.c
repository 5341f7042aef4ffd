/* Weights of a task from the bytes of a safetensors file: what is accepted can be read, whole and in parts. */
#include "executor/data/weights.h"
#include "tests/unit/memory_file.h"

#include <math.h>
#include <stdlib.h>

static const redco_task_parameter parameters[3] = {
    {.name = "a.weight", .layer = "a.0", .rank = 2, .dim = {2, 3}, .transposed = true},
    {.name = "a.bias", .layer = "a.0", .rank = 1, .dim = {3}},
    {.name = "s", .layer = "a.0"},
};
static const redco_task task = {.name = "fuzz", .parameters = parameters, .parameter_count = 3};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const redco_box boxes[3] = {{{1, 1}, {1, 2}}, {{2}, {1}}, {{0}, {0}}};
    redco_weights *weights = NULL;
    char path[MEMORY_FILE_PATH_BYTES];
    FILE *const file = memory_file(data, size, path);
    if (redco_weights_open(path, &task, NULL, &weights, NULL) != REDCO_OK) { goto out; }
    for (size_t p = 0; p < 3; p++) {
        double whole[6] = {0}, part[6] = {0};
        const redco_status st = redco_weights_read(weights, p, NULL, REDCO_F64, whole, NULL);
        if (st != REDCO_OK) { continue; }
        for (size_t i = 0; i < 6; i++) {
            if (!isfinite(whole[i])) { abort(); }
        }
        if (redco_weights_read(weights, p, &boxes[p], REDCO_F64, part, NULL) != REDCO_OK) { abort(); }
        if (part[0] != whole[p == 0 ? 4 : p == 1 ? 2 : 0]) { abort(); }
    }
out:
    redco_weights_close(weights);
    (void)fclose(file);
    return 0;
}
