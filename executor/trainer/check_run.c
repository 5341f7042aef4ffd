/* Finds the differences between a run and the same training on one rank. */
#include "executor/trainer/trainer_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* On rounding that is passed on from step to step; what rounding of gradients does directly is the baseline's drift. */
static const double bound_f32 = 1e-3, bound_f64 = 1e-10, bound_16 = 1e-2;

/* Weights as ranks have them. */
struct collected {
    uint32_t modules;
    void **of;     /* [module] of each tensor-parallel rank's first replica, one after the other */
    double *apart; /* [rank][tensor] how far the rank's elements are from those of its first replica */
};

struct compare {
    const redco_trainer *t;
    const redco_baseline *baseline;
    const struct collected *weights;
    redco_trainer_verdict *verdict;
    unsigned char *room; /* for a part of a tensor */
    double *drift;       /* likewise */
    double *worst;       /* [tensor-parallel rank] of a tensor */
};

static double value_at(redco_dtype dtype, const void *data, uint64_t i)
{
    return dtype == REDCO_F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

static bool wide(const redco_trainer *t)
{
    return t->options.dtype == REDCO_F64 || t->options.dtype == REDCO_F32;
}

/* A value that is no number is far from any. */
static double distance(double got, double want)
{
    return isfinite(got) && isfinite(want) ? fabs(got - want) : HUGE_VAL;
}

static redco_status no_memory(const redco_trainer *t, redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, t->place, "no memory to compare weights");
}

/* Tensors of a module follow each other. */
static void measure_replica(const redco_trainer *t, uint32_t module, const void *own, const void *first, double *apart)
{
    const redco_layout *const layout = redco_states_layout(t->states);
    const redco_state_module *const m = &t->modules.modules[module];
    for (uint32_t i = m->first_tensor; i < m->first_tensor + m->tensor_count; i++) {
        const uint64_t at = redco_layout_tensor_at(layout, i);
        apart[i] = 0.0;
        for (uint64_t e = at; e < at + t->modules.tensors[i].elements; e++) {
            apart[i] =
                fmax(apart[i], distance(value_at(t->options.dtype, own, e), value_at(t->options.dtype, first, e)));
        }
    }
}

/* @param own, room  for a module each */
static redco_status collect_module(redco_trainer *t, uint32_t module, void *own, void *room, struct collected *w,
                                   redco_error *err)
{
    const redco_dtype dtype = t->options.dtype;
    const uint64_t count = redco_layout_module(redco_states_layout(t->states), module)->whole;
    double *const apart = w->apart + (size_t)redco_world_rank(t->world) * t->modules.model.tensor_count;
    w->of[module] = malloc(count * redco_dtype_bytes(dtype) * t->mesh.tp);
    if (w->of[module] == NULL) { return no_memory(t, err); }
    redco_status st = redcoi_weights_read(t, module, own, err);
    if (st != REDCO_OK) { return st; }
    memcpy(room, own, count * redco_dtype_bytes(dtype));
    st = redco_broadcast(t->replicas, dtype, room, count, 0, "check/weights", err);
    if (st != REDCO_OK) { return st; }
    measure_replica(t, module, own, room, apart);
    return redco_all_gather(t->tp_host, dtype, room, w->of[module], count, "check/weights", err);
}

static redco_status share_apart(redco_trainer *t, double *apart, redco_error *err)
{
    const uint32_t tensors = t->modules.model.tensor_count;
    uint32_t *const colours = calloc(redco_world_size(t->world), sizeof *colours);
    redco_communicator *all = NULL;
    if (colours == NULL) { return no_memory(t, err); }
    redco_status st = redco_communicator_split(t->world, colours, "all ranks", &all, err);
    if (st == REDCO_OK) {
        const double *const own = apart + (size_t)redco_world_rank(t->world) * tensors;
        st = redco_all_gather(all, REDCO_F64, own, apart, tensors, "check/weights", err);
    }
    redco_communicator_free(all);
    free(colours);
    return st;
}

static redco_status collect(redco_trainer *t, struct collected *w, redco_error *err)
{
    const uint32_t tensors = t->modules.model.tensor_count, ranks = redco_world_size(t->world);
    const size_t most_bytes =
        redco_layout_sizes(redco_states_layout(t->states)).whole * redco_dtype_bytes(t->options.dtype);
    redco_status st = redcoi_weights_gather(t, err);
    if (st != REDCO_OK) { return st; }
    void *const own = malloc(most_bytes + 1), *const room = malloc(most_bytes + 1);
    w->modules = t->modules.model.module_count;
    w->of = calloc((size_t)w->modules + 1, sizeof *w->of);
    w->apart = calloc((size_t)ranks * tensors + 1, sizeof *w->apart);
    if (w->of == NULL || w->apart == NULL || own == NULL || room == NULL) { st = no_memory(t, err); }
    for (uint32_t m = 0; m < w->modules && st == REDCO_OK; m++) { st = collect_module(t, m, own, room, w, err); }
    if (st == REDCO_OK) { st = share_apart(t, w->apart, err); }
    free(own);
    free(room);
    return st;
}

static void free_collected(struct collected *w)
{
    for (uint32_t m = 0; w->of != NULL && m < w->modules; m++) { free(w->of[m]); }
    free(w->of);
    free(w->apart);
}

static double relative(double got, double want)
{
    return distance(got, want) / fmax(fabs(want), 1e-30);
}

/* @param before  steps whose losses nobody has here */
static void compare_steps(const struct compare *c, const redco_trainer_step *steps, uint64_t before)
{
    redco_trainer_verdict *const v = c->verdict;
    uint64_t count = 0;
    const redco_trainer_step *const want = redco_baseline_steps(c->baseline, &count);
    for (uint64_t s = before; s < count; s++) {
        const double loss = relative(steps[s - before].loss, want[s].loss);
        const double norm = relative(steps[s - before].gradient_norm, want[s].gradient_norm);
        v->loss_error = fmax(v->loss_error, loss);
        v->norm_error = fmax(v->norm_error, norm);
        const double judged = wide(c->t) ? fmax(loss, norm) : loss;
        if (judged > v->bound && v->differs_step == 0) { v->differs_step = s + 1; }
    }
}

static double largest_of(redco_dtype dtype, const void *data, uint64_t count)
{
    double largest = 0.0;
    for (uint64_t i = 0; i < count; i++) { largest = fmax(largest, fabs(value_at(dtype, data, i))); }
    return fmax(largest, 1e-30);
}

/* Parts of one tensor, of the first replica of each tensor-parallel rank. What may differ by bound × largest + drift
 * has an error of the bound. */
static void compare_parts(const struct compare *c, uint32_t tensor, double largest)
{
    const redco_trainer *const t = c->t;
    const redco_layout *const layout = redco_states_layout(t->states);
    const redco_dtype dtype = t->options.dtype;
    const redco_tp_layout part = t->layouts[tensor];
    const redco_tensor_type type = redco_task_parameter_type(&t->task->parameters[tensor], dtype);
    const redco_tensor_type part_type = redco_tp_local(part, &type, t->mesh.tp);
    const redco_tensor_type drift_type = redco_task_parameter_type(&t->task->parameters[tensor], REDCO_F64);
    const uint32_t module = redco_layout_module_of(layout, tensor);
    const uint64_t whole = redco_layout_module(layout, module)->whole, count = redco_type_elements(&part_type);
    for (uint32_t rank = 0; rank < t->mesh.tp; rank++) {
        const uint64_t at = rank * whole + redco_layout_tensor_at(layout, tensor);
        double worst = 0.0;
        redcoi_part_take(part, &type, t->mesh.tp, rank, redco_reference_master(c->baseline->reference, tensor),
                         c->room);
        redcoi_part_take(part, &drift_type, t->mesh.tp, rank, c->baseline->drift[tensor], c->drift);
        for (uint64_t i = 0; i < count; i++) {
            const double got = value_at(dtype, c->weights->of[module], at + i);
            const double scale = largest + c->drift[i] / c->verdict->bound;
            worst = fmax(worst, distance(got, value_at(dtype, c->room, i)) / scale);
            c->verdict->loose += scale > 2.0 * largest ? 1 : 0;
        }
        c->verdict->compared += count;
        c->worst[rank] = worst;
    }
}

/* Replicas hold the same bits, unless something is wrong: what one is apart from its first is added to that one's
 * error. */
static void compare_tensor(const struct compare *c, uint32_t tensor)
{
    const redco_trainer *const t = c->t;
    const redco_tensor_type type = redco_task_parameter_type(&t->task->parameters[tensor], t->options.dtype);
    const double largest = largest_of(t->options.dtype, redco_reference_master(c->baseline->reference, tensor),
                                      redco_type_elements(&type));
    redco_trainer_verdict *const v = c->verdict;
    compare_parts(c, tensor, largest);
    for (uint32_t rank = 0; rank < redco_world_size(t->world); rank++) {
        const double apart = c->weights->apart[(size_t)rank * t->modules.model.tensor_count + tensor];
        const double error = c->worst[redco_place_of(t->mesh, rank).tp] + apart / largest;
        v->weight_error = fmax(v->weight_error, error);
        if (error > v->bound && v->tensor[0] == '\0') {
            (void)snprintf(v->tensor, sizeof v->tensor, "%s", t->task->parameters[tensor].name);
            v->rank = rank;
        }
    }
}

static redco_status compare_weights(struct compare *c, redco_error *err)
{
    const redco_trainer *const t = c->t;
    uint64_t most = 1;
    for (size_t i = 0; i < t->task->parameter_count; i++) {
        const redco_tensor_type type = redco_task_parameter_type(&t->task->parameters[i], t->options.dtype);
        if (redco_type_elements(&type) > most) { most = redco_type_elements(&type); }
    }
    c->room = malloc(most * redco_dtype_bytes(t->options.dtype));
    c->drift = calloc(most, sizeof *c->drift);
    c->worst = calloc(t->mesh.tp, sizeof *c->worst);
    const redco_status st = c->room == NULL || c->drift == NULL || c->worst == NULL ? no_memory(t, err) : REDCO_OK;
    for (uint32_t i = 0; i < t->task->parameter_count && st == REDCO_OK; i++) { compare_tensor(c, i); }
    free(c->room);
    free(c->drift);
    free(c->worst);
    return st;
}

/* @return whether it is the same training. */
static redco_status check_baseline(const redco_trainer *t, const redco_baseline *b, uint64_t step_count,
                                   redco_error *err)
{
    const uint64_t sequences = t->plan->parallelism.micro_batches * redco_mesh_ranks(t->plan->parallelism.dp) *
                               t->plan->parallelism.micro_batch;
    const redco_task *const task = b->subject.task;
    if (b->step_count != step_count) {
        return redco_fail(err, REDCO_EVALUE, "check", "%llu steps were run here, %llu on one rank",
                          (unsigned long long)step_count, (unsigned long long)b->step_count);
    }
    bool same = b->seq_len == t->plan->seq_len && b->sequences == sequences && b->options.dtype == t->options.dtype &&
                b->options.seed == t->options.seed && task->parameter_count == t->task->parameter_count;
    for (size_t i = 0; same && i < task->parameter_count; i++) {
        same = redco_task_find(task, t->task->parameters[i].name) == &task->parameters[i] &&
               memcmp(task->parameters[i].dim, t->task->parameters[i].dim, sizeof task->parameters[i].dim) == 0;
    }
    if (same) { return REDCO_OK; }
    return redco_fail(err, REDCO_EVALUE, "check", "what was trained on one rank is not what %s trains", t->place);
}

static redco_status judge(redco_trainer *t, const redco_baseline *baseline, const struct collected *weights,
                          const redco_trainer_step *steps, uint64_t step_count, redco_trainer_verdict *verdict_out,
                          redco_error *err)
{
    const redco_dtype dtype = t->options.dtype;
    redco_trainer_verdict verdict = {.bound = dtype == REDCO_F64   ? bound_f64
                                              : dtype == REDCO_F32 ? bound_f32
                                                                   : bound_16};
    struct compare c = {.t = t, .baseline = baseline, .weights = weights, .verdict = &verdict};
    redco_status st = check_baseline(t, baseline, t->step, err);
    if (st != REDCO_OK) { return st; }
    compare_steps(&c, steps, t->step - step_count);
    if (weights->of != NULL) { st = compare_weights(&c, err); }
    verdict.same = verdict.differs_step == 0 && verdict.tensor[0] == '\0';
    *verdict_out = verdict;
    return st;
}

redco_status redco_trainer_compare(redco_trainer *t, const redco_baseline *baseline, const redco_trainer_step *steps,
                                   uint64_t step_count, redco_trainer_verdict *verdict_out, redco_error *err)
{
    struct collected weights = {.modules = 0};
    redco_baseline *own = NULL;
    /* Collected first: the others need not wait until one rank has trained alone. */
    redco_status st = redcoi_trainer_real(t, "a comparison", err);
    if (st == REDCO_OK && wide(t)) { st = collect(t, &weights, err); }
    if (st == REDCO_OK && redco_world_rank(t->world) == 0) {
        if (baseline == NULL) { st = redco_baseline_train(t->plan, t->place, &t->options, t->step, &own, err); }
        const redco_baseline *const alone = baseline != NULL ? baseline : own;
        if (st == REDCO_OK && alone != NULL) { st = judge(t, alone, &weights, steps, step_count, verdict_out, err); }
    }
    redco_baseline_free(own);
    free_collected(&weights);
    return st;
}
