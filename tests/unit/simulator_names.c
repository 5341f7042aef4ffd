#include "simulator_names.h"

#include "costmodel/operators/compute.h"

#include <stdio.h>

static size_t add(char names[SIMULATOR_NAMES][SIMULATOR_NAME_SIZE], size_t count, const char *pass, const char *class,
                  uint32_t layer, const char *what, const char *side)
{
    if (count < SIMULATOR_NAMES) {
        (void)snprintf(names[count], SIMULATOR_NAME_SIZE, "%s/%s.%u/%s%s", pass, class, layer, what, side);
    }
    return count + 1;
}

size_t simulator_names(const redco_model *model, char names[SIMULATOR_NAMES][SIMULATOR_NAME_SIZE])
{
    const redco_shape shape = {.seq_len = 12, .micro_batch = 2, .tp = 1, .cp = 1, .precision = REDCO_FP32};
    const redco_layer_class *classes = NULL;
    const size_t class_count = redco_model_classes(model, &classes);
    size_t count = 0;
    for (uint32_t c = 0; c < class_count; c++) {
        redco_operator ops[REDCO_OPERATORS_MAX];
        const uint32_t op_count = redco_layer_operators(model, c, &shape, ops);
        for (uint32_t layer = 0; layer < classes[c].layers; layer++) {
            for (uint32_t i = 0; i < op_count; i++) {
                const bool matrix = ops[i].kind == REDCO_OPERATOR_GEMM; /* as in step_pass.c */
                count = add(names, count, "fwd", classes[c].name, layer, redco_op_role_name(ops[i].role), "");
                count = add(names, count, "bwd", classes[c].name, layer, redco_op_role_name(ops[i].role),
                            matrix ? "/input" : "");
                if (matrix) {
                    count =
                        add(names, count, "bwd", classes[c].name, layer, redco_op_role_name(ops[i].role), "/weight");
                }
            }
        }
    }
    return count;
}
