/* What is computed on states: sums of gradients, sums of squares, optimizers, rounding. */
#include "executor/graph/build.h"
#include "executor/states/states_internal.h"

static const char *const factor_name = "gradient_factor";

static redco_status begin(const redco_states *states, redcoi_program *program, redco_error *err)
{
    program->chunk = states->options.chunk_elements;
    program->graph = redco_graph_create();
    return program->graph != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, "states", "a program");
}

/* Inputs: factors, gradient factor, weights, gradient, states. Outputs: weights, states. */
static redco_status make_update(redco_states *states, bool decayed, redco_error *err)
{
    redcoi_program *const p = &states->update[decayed ? 1 : 0];
    redco_optimizer optimizer = states->options.optimizer;
    redco_value factors[REDCO_OPTIMIZER_FACTORS], before[REDCO_OPTIMIZER_STATES_MAX], after[REDCO_OPTIMIZER_STATES_MAX];
    redco_status st = begin(states, p, err);
    if (st != REDCO_OK) { return st; }
    if (!decayed) { optimizer.weight_decay = 0.0; }
    redco_optimizer_inputs(p->graph, states->master, factors);
    for (uint32_t i = 0; i < REDCO_OPTIMIZER_FACTORS; i++) { p->inputs[p->input_count++] = factors[i]; }
    const redco_value factor = redcoi_program_input(p, factor_name, states->master, true);
    const redco_value weights = redcoi_program_input(p, "weights", states->master, false);
    const redco_value gradient = redcoi_program_input(p, "gradient", states->options.dtype, false);
    for (uint32_t i = 0; i < states->state_count; i++) {
        before[i] = redcoi_program_input(p, redco_optimizer_state_name(&optimizer, i), states->master, false);
    }
    redcoi_program_output(
        p, redco_optimizer_update(p->graph, &optimizer, factors, weights, gradient, factor, before, after));
    for (uint32_t i = 0; i < states->state_count; i++) { redcoi_program_output(p, after[i]); }
    return redcoi_program_finish(p, states->backend, err);
}

static redco_status make_add(redco_states *states, redco_error *err)
{
    redcoi_program *const p = &states->add;
    const redco_dtype dtype = states->options.dtype;
    redco_status st = begin(states, p, err);
    if (st != REDCO_OK) { return st; }
    const redco_value target = redcoi_program_input(p, "target", dtype, false);
    const redco_value other = redcoi_program_input(p, "other", dtype, false);
    redcoi_program_output(p, redco_add(p->graph, target, other));
    return redcoi_program_finish(p, states->backend, err);
}

static redco_status make_round(redco_states *states, redco_error *err)
{
    redcoi_program *const p = &states->round;
    redco_status st = begin(states, p, err);
    if (st != REDCO_OK) { return st; }
    const redco_value weights = redcoi_program_input(p, "weights", states->master, false);
    redcoi_program_output(p, redco_cast(p->graph, weights, states->options.dtype));
    return redcoi_program_finish(p, states->backend, err);
}

static redco_status make_squares(redco_states *states, redco_error *err)
{
    redcoi_program *const p = &states->squares;
    redco_status st = begin(states, p, err);
    if (st != REDCO_OK) { return st; }
    const redco_value gradient = redcoi_program_input(p, "gradient", states->options.dtype, false);
    redcoi_program_output(p, redco_sum_of_squares(p->graph, &gradient, 1));
    return redcoi_program_finish(p, states->backend, err);
}

redco_status redcoi_programs_make(redco_states *states, redco_error *err)
{
    redco_status st = make_update(states, false, err);
    if (st == REDCO_OK) { st = make_update(states, true, err); }
    if (st == REDCO_OK) { st = make_add(states, err); }
    if (st == REDCO_OK) { st = make_round(states, err); }
    if (st == REDCO_OK) { st = make_squares(states, err); }
    return st;
}

void redcoi_programs_free(redco_states *states)
{
    redcoi_program_free(&states->update[0]);
    redcoi_program_free(&states->update[1]);
    redcoi_program_free(&states->add);
    redcoi_program_free(&states->round);
    redcoi_program_free(&states->squares);
}

uint64_t redcoi_programs_bytes(const redco_states *states)
{
    const redcoi_program *const all[] = {&states->update[0], &states->update[1], &states->add, &states->round,
                                         &states->squares};
    uint64_t most = 0;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i]->work_bytes > most) { most = all[i]->work_bytes; }
    }
    return most;
}
