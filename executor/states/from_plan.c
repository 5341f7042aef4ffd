#include "executor/states/from_plan.h"

#include <stdlib.h>
#include <string.h>

redco_layout_options redco_layout_options_from_plan(const redco_plan *plan)
{
    return (redco_layout_options){.mesh = {plan->parallelism.tp, plan->parallelism.dp},
                                  .secondary = plan->parallelism.secondary,
                                  .scheme = plan->parallelism.scheme};
}

redco_status redco_plan_layer(const redco_plan *plan, const char *layer, const redco_plan_layers **row_out,
                              redco_error *err)
{
    const char *const dot = strrchr(layer, '.');
    const size_t length = dot != NULL ? (size_t)(dot - layer) : 0;
    char *end = NULL;
    const unsigned long index = dot != NULL ? strtoul(dot + 1, &end, 10) : 0;
    const bool number = dot != NULL && dot[1] >= '0' && dot[1] <= '9' && *end == '\0';
    for (uint32_t i = 0; i < plan->layers_count && number; i++) {
        const redco_plan_layers *const row = &plan->layers[i];
        const bool same = strlen(row->class_name) == length && strncmp(row->class_name, layer, length) == 0;
        if (same && index >= row->first_layer && index <= row->last_layer) {
            *row_out = row;
            return REDCO_OK;
        }
    }
    return redco_fail(err, REDCO_EVALUE, layer, "the plan's sharding list has no such layer");
}
