/* The measured side of redco-profile --check. */
#include "executor/backend/host/host.h"
#include "executor/measure/measure.h"
#include "tools/profile/profile_check.h"

#include <math.h>
#include <stdio.h>

enum { ROUNDS = 3 };

/* Every time of @p step that is less than before; graphs are the same, and so are the names' places. */
static void keep_faster(redco_measure_step *known, const redco_measure_step *step)
{
    if (known->count == 0) {
        *known = *step;
        return;
    }
    known->total_s = 0.0;
    known->wall_s = fmin(known->wall_s, step->wall_s);
    for (uint32_t i = 0; i < known->count; i++) {
        redco_measure_name *name = &known->names[i];
        name->forward_s = fmin(name->forward_s, step->names[i].forward_s);
        name->backward_s = fmin(name->backward_s, step->names[i].backward_s);
        known->total_s += name->forward_s + name->backward_s;
    }
}

void profile_kernels(char *text, size_t size)
{
    (void)snprintf(text, size, "OpenBLAS %s", redco_host_core_name());
}

redco_status profile_steps(const struct profile_model *models, uint32_t count, redco_measure_step *steps_out,
                           redco_error *err)
{
    const redco_measure_options options = {.processor_time = true, .case_s = 0.3, .runs = 5};
    redco_backend *backend = NULL;
    redco_measurer *measurer = NULL;
    redco_status st = redco_host_open(NULL, &backend, err);
    if (st == REDCO_OK) { st = redco_measurer_create(backend, &options, &measurer, err); }
    for (uint32_t i = 0; i < count; i++) { steps_out[i].count = 0; }
    for (uint32_t i = 0; i < ROUNDS * count && st == REDCO_OK; i++) {
        redco_measure_step step;
        const struct profile_model *const m = &models[i % count];
        redco_model *model = NULL;
        st = redco_measure_llama(&m->dims, &model, err);
        if (st == REDCO_OK) { st = redco_measure_model_step(measurer, model, &m->shape, &step, err); }
        redco_model_free(model);
        if (st == REDCO_OK) { keep_faster(&steps_out[i % count], &step); }
    }
    redco_measurer_free(measurer);
    redco_backend_close(backend);
    return st;
}
