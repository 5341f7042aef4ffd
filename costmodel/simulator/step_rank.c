/* One stage of a step by itself. */
#include "costmodel/simulator/step_internal.h"

#include <stdlib.h>
#include <string.h>

struct taker {
    const redco_step *from;
    redco_step *to;
    uint32_t rank;
    uint32_t *own; /* by operator of the whole step: its number here, or of the receive that stands for it; or NONE */
};

/* A transfer from another stage, received when it is waited for first. */
static uint32_t receive(struct taker *t, uint32_t transfer)
{
    redco_step_op op = t->from->ops[transfer];
    if (t->own[transfer] == REDCO_STEP_NONE) {
        op.rank = (uint16_t)t->rank;
        op.suffix = REDCO_SUFFIX_RECEIVE;
        t->own[transfer] = redco_step_add(t->to, &op, NULL, 0);
    }
    return t->own[transfer];
}

static redco_status take(struct taker *t, uint32_t i, redco_error *err)
{
    const redco_step *const from = t->from;
    uint32_t inputs[REDCO_PIPELINE_STAGES_MAX], count = 0;
    for (uint32_t k = from->first_input[i]; k < from->first_input[i + 1]; k++) {
        const redco_step_op *const other = &from->ops[from->inputs[k]];
        uint32_t input = t->own[from->inputs[k]];
        if (other->rank != t->rank) {
            if (other->work != REDCO_WORK_PIPELINE && from->ops[i].work != REDCO_WORK_NORM_REDUCE) {
                char name[200];
                return redco_fail(err, REDCO_EVALUE, redco_step_name(from, i, name, sizeof name),
                                  "stage %u waits for stage %u, which sends it nothing", t->rank, other->rank);
            }
            if (other->work != REDCO_WORK_PIPELINE) { continue; }
            input = receive(t, from->inputs[k]);
        }
        if (input != REDCO_STEP_NONE && count < REDCO_PIPELINE_STAGES_MAX) { inputs[count++] = input; }
    }
    t->own[i] = redco_step_add(t->to, &from->ops[i], inputs, count);
    for (uint32_t m = from->first_memory[i]; m < from->first_memory[i + 1]; m++) {
        redco_step_add_memory(t->to, from->memories[m].category, from->memories[m].bytes);
    }
    return REDCO_OK;
}

redco_status redco_step_of_rank(const redco_step *step, uint32_t rank, redco_step **step_out, redco_error *err)
{
    struct taker t = {.from = step,
                      .to = redco_step_new_like(step),
                      .rank = rank,
                      .own = malloc(((size_t)step->op_count + 1) * sizeof *t.own)};
    redco_status st = REDCO_OK;
    if (t.to == NULL || t.own == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "step", "no memory for a stage of it");
        goto out;
    }
    memset(t.own, 0xff, ((size_t)step->op_count + 1) * sizeof *t.own);
    for (uint32_t i = 0; i < step->op_count && st == REDCO_OK; i++) {
        if (step->ops[i].rank == rank) { st = take(&t, i, err); }
    }
    if (st == REDCO_OK) { st = redco_step_finish(t.to, err); }
    if (st != REDCO_OK) { goto out; }
    *step_out = t.to;
    t.to = NULL;
out:
    redco_step_free(t.to);
    free(t.own);
    return st;
}
