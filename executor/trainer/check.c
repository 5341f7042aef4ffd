/* The same training on one rank, and what differs. */
#include "executor/data/initial.h"
#include "executor/reference/reference.h"
#include "executor/trainer/trainer_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sums of other orders differ in the last bits, which AdamW passes on divided by the size of the gradient. */
static const double bound_f32 = 1e-3, bound_f64 = 1e-10;
/* Rounding of a gradient's element, as part of the length of all gradients together. */
static const double rounding_f32 = 1e-6, rounding_f64 = 1e-14;

struct compare {
    redco_trainer *t;
    redco_reference *reference;
    redco_trainer_verdict *verdict;
    double least; /* size of a gradient's element that is more than rounding */
};

static double value_at(redco_dtype dtype, const void *data, uint64_t i)
{
    return dtype == REDCO_F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

/* What is no number is far from any. */
static double distance(double got, double want)
{
    return isfinite(got) && isfinite(want) ? fabs(got - want) : HUGE_VAL;
}

static redco_status train(struct compare *c, const redco_trainer_step *steps, uint64_t step_count, redco_error *err)
{
    const redco_trainer *const t = c->t;
    const uint64_t micro_batches = t->plan->micro_batches * redco_mesh_ranks(t->mesh.dp);
    const size_t ids = (size_t)t->plan->micro_batch * t->plan->seq_len;
    int32_t *const tokens = calloc(2 * ids * micro_batches, sizeof *tokens);
    const void **const inputs = calloc(2 * micro_batches, sizeof *inputs);
    redco_reference_step last = {0};
    redco_status st = tokens == NULL || inputs == NULL
                          ? redco_fail(err, REDCO_ENOMEM, t->place, "no memory to train it on one rank")
                          : REDCO_OK;
    for (uint64_t s = 0; s < step_count && st == REDCO_OK; s++) {
        for (uint64_t m = 0; m < micro_batches && st == REDCO_OK; m++) {
            const redco_batch_place place = {.step = s,
                                             .micro_batch = m,
                                             .dp_ranks = 1,
                                             .micro_batches = micro_batches,
                                             .sequences = t->plan->micro_batch};
            int32_t *const first = tokens + 2 * ids * m;
            inputs[2 * m] = first;
            inputs[2 * m + 1] = first + ids;
            st = redco_tokens_batch(t->tokens, &place, first, first + ids, err);
        }
        if (st == REDCO_OK) {
            st = redco_reference_train(c->reference, inputs, NULL, t->options.learning_rate, &last, err);
        }
        if (st != REDCO_OK) { break; }
        const double error = fabs(steps[s].loss - last.loss) / fmax(fabs(last.loss), 1e-30);
        c->verdict->loss_error = fmax(c->verdict->loss_error, error);
        if (error > c->verdict->bound && c->verdict->differs_step == 0) { c->verdict->differs_step = s + 1; }
    }
    const double clip = t->options.optimizer.clip_norm;
    const double norm = clip > 0.0 ? fmin(clip, last.gradient_norm) : last.gradient_norm;
    c->least = norm * (t->options.dtype == REDCO_F64 ? rounding_f64 : rounding_f32);
    free(tokens);
    free((void *)(uintptr_t)inputs);
    return st;
}

static redco_status start(struct compare *c, redco_error *err)
{
    const redco_trainer *const t = c->t;
    const redco_dtype dtype = t->options.dtype;
    const uint64_t micro_batches = t->plan->micro_batches * redco_mesh_ranks(t->mesh.dp);
    if (micro_batches > UINT32_MAX) {
        return redco_fail(err, REDCO_EVALUE, t->place, "%llu micro-batches are too many for one rank",
                          (unsigned long long)micro_batches);
    }
    const redco_reference_options options = {dtype, dtype, dtype, (uint32_t)micro_batches, t->options.optimizer};
    redco_status st = redco_reference_create(t->backend, t->task, &options, &c->reference, err);
    for (size_t i = 0; i < t->task->parameter_count && st == REDCO_OK; i++) {
        st = redco_initial_fill(t->backend, &t->task->parameters[i], NULL, t->options.seed, dtype,
                                redco_reference_master(c->reference, i), err);
    }
    return st;
}

/* Element by element the largest and the smallest that any replica has; only rank 0 looks at them. */
static redco_status extremes(redco_trainer *t, uint32_t module, void *largest, void *negated, void *gathered[2],
                             redco_error *err)
{
    const redco_dtype dtype = t->options.dtype;
    const uint64_t count = redco_layout_module(redco_states_layout(t->states), module)->whole;
    const void *const weights = redcoi_weights_of(t, module);
    memcpy(largest, weights, count * redco_dtype_bytes(dtype));
    for (uint64_t i = 0; i < count; i++) {
        if (dtype == REDCO_F64) {
            ((double *)negated)[i] = -((const double *)weights)[i];
        } else {
            ((float *)negated)[i] = -((const float *)weights)[i];
        }
    }
    redco_status st = redco_all_reduce(t->replicas, dtype, REDCO_REDUCE_MAX, largest, count, "check/weights", err);
    if (st == REDCO_OK) {
        st = redco_all_reduce(t->replicas, dtype, REDCO_REDUCE_MAX, negated, count, "check/weights", err);
    }
    if (st == REDCO_OK) { st = redco_all_gather(t->tp, dtype, largest, gathered[0], count, "check/weights", err); }
    if (st == REDCO_OK) { st = redco_all_gather(t->tp, dtype, negated, gathered[1], count, "check/weights", err); }
    return st;
}

/* Parts of one tensor, of tensor-parallel ranks one after the other. @param room  for two whole tensors */
static void compare_tensor(const struct compare *c, uint32_t tensor, void *const gathered[2], unsigned char *room)
{
    const redco_trainer *const t = c->t;
    const redco_layout *const layout = redco_states_layout(t->states);
    const redco_dtype dtype = t->options.dtype;
    const redco_tensor_type type = redco_task_parameter_type(&t->task->parameters[tensor], dtype);
    const redco_tensor_type part_type = redco_tp_local(t->layouts[tensor], &type, t->mesh.tp);
    const uint64_t whole = redco_layout_module(layout, redco_layout_module_of(layout, tensor))->whole;
    const uint64_t all = redco_type_elements(&type), count = redco_type_elements(&part_type);
    const void *const weights = redco_reference_master(c->reference, tensor);
    const double spread = 1.0 - pow(t->options.optimizer.beta2, (double)t->step);
    unsigned char *const squares = room + redco_type_bytes(&type);
    double scale = 0.0, worst = 0.0;
    for (uint64_t i = 0; i < all; i++) { scale = fmax(scale, fabs(value_at(dtype, weights, i))); }
    for (uint32_t rank = 0; rank < t->mesh.tp; rank++) {
        const uint64_t at = rank * whole + redco_layout_tensor_at(layout, tensor);
        redcoi_part_take(t->layouts[tensor], &type, t->mesh.tp, rank, weights, room);
        redcoi_part_take(t->layouts[tensor], &type, t->mesh.tp, rank, redco_reference_state(c->reference, tensor, 1),
                         squares);
        for (uint64_t i = 0; i < count; i++) {
            const double want = value_at(dtype, room, i), seen = sqrt(value_at(dtype, squares, i) / spread);
            if (seen > 0.0 && seen < c->least) {
                c->verdict->left_out++;
                continue;
            }
            c->verdict->compared++;
            worst = fmax(worst, distance(value_at(dtype, gathered[0], at + i), want));
            worst = fmax(worst, distance(-value_at(dtype, gathered[1], at + i), want));
        }
    }
    worst /= fmax(scale, 1e-30);
    c->verdict->weight_error = fmax(c->verdict->weight_error, worst);
    if (worst > c->verdict->bound && c->verdict->tensor[0] == '\0') {
        (void)snprintf(c->verdict->tensor, sizeof c->verdict->tensor, "%s", t->task->parameters[tensor].name);
    }
}

/* Of all modules, kept until the other ranks are gone: one rank's training may take longer than they would wait. */
struct collected {
    void *(*of)[2];
    uint32_t count;
};

static void free_collected(struct collected *w)
{
    for (uint32_t m = 0; m < w->count; m++) {
        free(w->of[m][0]);
        free(w->of[m][1]);
    }
    free(w->of);
}

static redco_status collect(redco_trainer *t, struct collected *w, redco_error *err)
{
    const redco_layout *const layout = redco_states_layout(t->states);
    const size_t element_bytes = redco_dtype_bytes(t->options.dtype);
    const size_t largest_bytes = redco_layout_sizes(layout).whole * element_bytes;
    void *const largest = malloc(largest_bytes), *const negated = malloc(largest_bytes);
    redco_status st = redcoi_weights_gather(t, err);
    w->of = calloc((size_t)t->modules.model.module_count + 1, sizeof *w->of);
    if (w->of == NULL || largest == NULL || negated == NULL) { goto failed; }
    w->count = t->modules.model.module_count;
    for (uint32_t m = 0; m < w->count && st == REDCO_OK; m++) {
        const size_t bytes = redco_layout_module(layout, m)->whole * element_bytes * t->mesh.tp;
        w->of[m][0] = malloc(bytes);
        w->of[m][1] = malloc(bytes);
        if (w->of[m][0] == NULL || w->of[m][1] == NULL) { goto failed; }
        st = extremes(t, m, largest, negated, w->of[m], err);
    }
    free(largest);
    free(negated);
    return st;
failed:
    free(largest);
    free(negated);
    return redco_fail(err, REDCO_ENOMEM, t->place, "no memory to compare weights");
}

static redco_status compare_weights(const struct compare *c, const struct collected *w, redco_error *err)
{
    const redco_trainer *const t = c->t;
    const redco_layout *const layout = redco_states_layout(t->states);
    size_t most_bytes = 1;
    for (size_t i = 0; i < t->task->parameter_count; i++) {
        const redco_tensor_type type = redco_task_parameter_type(&t->task->parameters[i], t->options.dtype);
        if (redco_type_bytes(&type) > most_bytes) { most_bytes = redco_type_bytes(&type); }
    }
    unsigned char *const room = malloc(2 * most_bytes);
    if (room == NULL) { return redco_fail(err, REDCO_ENOMEM, t->place, "no memory to compare weights"); }
    for (uint32_t i = 0; i < t->task->parameter_count; i++) {
        compare_tensor(c, i, w->of[redco_layout_module_of(layout, i)], room);
    }
    free(room);
    return REDCO_OK;
}

redco_status redco_trainer_compare(redco_trainer *t, const redco_trainer_step *steps, uint64_t step_count,
                                   redco_trainer_verdict *verdict_out, redco_error *err)
{
    const bool wide = t->options.dtype == REDCO_F64;
    redco_trainer_verdict verdict = {.bound = wide ? bound_f64 : bound_f32};
    struct compare c = {.t = t, .verdict = &verdict};
    struct collected weights = {.count = 0};
    if ((!wide && t->options.dtype != REDCO_F32) || t->options.optimizer.kind != REDCO_ADAMW) {
        return redco_fail(err, REDCO_EVALUE, "check", "weights must be f32 or f64, and the optimizer AdamW, not %s",
                          redco_dtype_name(t->options.dtype));
    }
    redco_status st = collect(t, &weights, err);
    if (st == REDCO_OK && redco_world_rank(t->world) == 0) {
        st = start(&c, err);
        if (st == REDCO_OK) { st = train(&c, steps, step_count, err); }
        if (st == REDCO_OK) { st = compare_weights(&c, &weights, err); }
        verdict.same = st == REDCO_OK && verdict.differs_step == 0 && verdict.tensor[0] == '\0';
        *verdict_out = verdict;
    }
    redco_reference_free(c.reference);
    free_collected(&weights);
    return st;
}
