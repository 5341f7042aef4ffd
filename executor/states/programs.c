/* The computations on states: sums of gradients, sums of squares, optimizers, rounding. */
#include "costmodel/graph/build_calls.h"
#include "executor/states/states_internal.h"

/* Working memory holds a chunk of every intermediate value. */
static const uint64_t staged_chunk_max = (uint64_t)1 << 20;

/* @param staged  values pass from operator to operator in working memory */
static redco_status begin(const redco_states *states, redcoi_program *program, bool staged, redco_error *err)
{
    const uint64_t chunk = states->options.chunk_elements;
    program->chunk = staged && chunk > staged_chunk_max ? staged_chunk_max : chunk;
    program->graph = redco_graph_create();
    return program->graph != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, "states", "a program");
}

/* Inputs: numbers, weights, gradient, both moments. Outputs: weights, moments, weights as ranks share them. */
static redco_status make_adamw(redco_states *states, redco_error *err)
{
    redcoi_program *const p = &states->update;
    redco_value in[3], out[4];
    redco_status st = begin(states, p, false, err);
    if (st != REDCO_OK) { return st; }
    const redco_value numbers = redcoi_program_numbers(p, "numbers", states->master, REDCO_ADAMW_COUNT);
    in[0] = redcoi_program_input(p, "weights", states->master, false);
    const redco_value gradient = redcoi_program_input(p, "gradient", states->options.dtype, false);
    for (uint32_t i = 0; i < 2; i++) {
        in[1 + i] =
            redcoi_program_input(p, redco_optimizer_state_name(&states->options.optimizer, i), states->master, false);
    }
    if (states->has_master) {
        redco_adamw_rounded(p->graph, in[0], in[1], in[2], gradient, numbers, out);
    } else {
        redco_adamw(p->graph, in[0], in[1], in[2], gradient, numbers, out);
    }
    redcoi_program_output(p, out[0], 1);
    redcoi_program_output(p, out[1], 3);
    redcoi_program_output(p, out[2], 4);
    if (states->has_master) { redcoi_program_output(p, out[3], REDCOI_PROGRAM_APART); }
    return redcoi_program_finish(p, states->backend, err);
}

/* Inputs: rate, gradient factor and decay, weights, gradient, momentum. Outputs as above. Decay is part of the
 * gradient. */
static redco_status make_sgd(redco_states *states, bool decayed, redco_error *err)
{
    redcoi_program *const p = decayed ? &states->update : &states->update_undecayed;
    redco_optimizer optimizer = states->options.optimizer;
    redco_value factors[REDCO_OPTIMIZER_FACTORS], before[REDCO_OPTIMIZER_STATES_MAX], after[REDCO_OPTIMIZER_STATES_MAX];
    redco_status st = begin(states, p, true, err);
    if (st != REDCO_OK) { return st; }
    optimizer.weight_decay = 0.0; /* comes as a number */
    const redco_value numbers = redcoi_program_numbers(p, "numbers", states->master, REDCO_ADAMW_COUNT);
    for (uint32_t i = 0; i < REDCO_OPTIMIZER_FACTORS; i++) {
        factors[i] = redcoi_program_number(p, numbers, REDCO_ADAMW_RATE);
    }
    const redco_value factor = redcoi_program_number(p, numbers, REDCO_ADAMW_GRADIENT_SCALE);
    const redco_value weights = redcoi_program_input(p, "weights", states->master, false);
    const redco_value gradient = redcoi_program_input(p, "gradient", states->options.dtype, false);
    for (uint32_t i = 0; i < states->state_count; i++) {
        before[i] = redcoi_program_input(p, redco_optimizer_state_name(&optimizer, i), states->master, false);
    }
    redco_value direction = redco_mul(p->graph, redco_cast(p->graph, gradient, states->master), factor);
    if (decayed) {
        const redco_value decay = redcoi_program_number(p, numbers, REDCO_ADAMW_DECAY);
        direction = redco_add(p->graph, direction, redco_mul(p->graph, weights, decay));
    }
    const redco_value updated =
        redco_optimizer_update(p->graph, &optimizer, factors, weights, direction, REDCO_NO_VALUE, before, after);
    redcoi_program_output(p, updated, 1);
    for (uint32_t i = 0; i < states->state_count; i++) { redcoi_program_output(p, after[i], 3 + i); }
    if (states->has_master) {
        redcoi_program_output(p, redco_cast(p->graph, updated, states->options.dtype), REDCOI_PROGRAM_APART);
    }
    return redcoi_program_finish(p, states->backend, err);
}

/* Inputs as above, without states: what assigned tensors become. */
static redco_status make_assign(redco_states *states, redco_error *err)
{
    redcoi_program *const p = &states->assign;
    if (!states->has_assigned) { return REDCO_OK; }
    redco_status st = begin(states, p, true, err);
    if (st != REDCO_OK) { return st; }
    const redco_value numbers = redcoi_program_numbers(p, "numbers", states->master, REDCO_ADAMW_COUNT);
    const redco_value factor = redcoi_program_number(p, numbers, REDCO_ADAMW_GRADIENT_SCALE);
    const redco_value weights = redcoi_program_input(p, "weights", states->master, false);
    const redco_value gradient = redcoi_program_input(p, "gradient", states->options.dtype, false);
    const redco_value difference = redco_mul(p->graph, redco_cast(p->graph, gradient, states->master), factor);
    const redco_value after = redco_sub(p->graph, weights, difference);
    redcoi_program_output(p, after, 1);
    if (states->has_master) {
        redcoi_program_output(p, redco_cast(p->graph, after, states->options.dtype), REDCOI_PROGRAM_APART);
    }
    return redcoi_program_finish(p, states->backend, err);
}

static redco_status make_update(redco_states *states, redco_error *err)
{
    if (states->options.optimizer.kind == REDCO_ADAFACTOR) { return REDCO_OK; }
    if (states->options.optimizer.kind == REDCO_ADAMW) { return make_adamw(states, err); }
    const redco_status st = make_sgd(states, true, err);
    return st == REDCO_OK ? make_sgd(states, false, err) : st;
}

static redco_status make_add(redco_states *states, redco_error *err)
{
    redcoi_program *const p = &states->add;
    const redco_dtype dtype = states->options.dtype;
    redco_status st = begin(states, p, false, err);
    if (st != REDCO_OK) { return st; }
    const redco_value target = redcoi_program_input(p, "target", dtype, false);
    const redco_value other = redcoi_program_input(p, "other", dtype, false);
    redcoi_program_output(p, redco_add(p->graph, target, other), 0);
    return redcoi_program_finish(p, states->backend, err);
}

static redco_status make_round(redco_states *states, redco_error *err)
{
    redcoi_program *const p = &states->round;
    redco_status st = begin(states, p, false, err);
    if (st != REDCO_OK) { return st; }
    const redco_value weights = redcoi_program_input(p, "weights", states->master, false);
    redcoi_program_output(p, redco_cast(p->graph, weights, states->options.dtype), REDCOI_PROGRAM_APART);
    return redcoi_program_finish(p, states->backend, err);
}

/* Frozen weights, which have no master weights. */
static redco_status make_widen(redco_states *states, redco_error *err)
{
    redcoi_program *const p = &states->widen;
    redco_status st = begin(states, p, false, err);
    if (st != REDCO_OK) { return st; }
    const redco_value weights = redcoi_program_input(p, "weights", states->options.dtype, false);
    redcoi_program_output(p, redco_cast(p->graph, weights, states->master), REDCOI_PROGRAM_APART);
    return redcoi_program_finish(p, states->backend, err);
}

static redco_status make_squares(redco_states *states, redco_error *err)
{
    redcoi_program *const p = &states->squares;
    redco_status st = begin(states, p, false, err);
    if (st != REDCO_OK) { return st; }
    const redco_value gradient = redcoi_program_input(p, "gradient", states->options.dtype, false);
    redcoi_program_output(p, redco_sum_of_squares(p->graph, &gradient, 1), REDCOI_PROGRAM_APART);
    return redcoi_program_finish(p, states->backend, err);
}

redco_status redcoi_programs_make(redco_states *states, redco_error *err)
{
    redco_status st = make_update(states, err);
    if (st == REDCO_OK) { st = make_assign(states, err); }
    if (st == REDCO_OK) { st = make_add(states, err); }
    if (st == REDCO_OK) { st = make_round(states, err); }
    if (st == REDCO_OK) { st = make_widen(states, err); }
    if (st == REDCO_OK) { st = make_squares(states, err); }
    return st;
}

void redcoi_programs_free(redco_states *states)
{
    redcoi_program_free(&states->update);
    redcoi_program_free(&states->update_undecayed);
    redcoi_program_free(&states->assign);
    redcoi_program_free(&states->add);
    redcoi_program_free(&states->round);
    redcoi_program_free(&states->widen);
    redcoi_program_free(&states->squares);
}

uint64_t redcoi_programs_bytes(const redco_states *states)
{
    const redcoi_program *const all[] = {
        &states->update, &states->update_undecayed, &states->assign, &states->add, &states->round,
        &states->widen,  &states->squares};
    uint64_t most = 0;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i]->work_bytes > most) { most = all[i]->work_bytes; }
    }
    return most;
}
