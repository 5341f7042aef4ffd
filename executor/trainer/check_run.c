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
    size_t parameters;
    void **of;     /* [parameter] parts of the tensor-parallel ranks, one after the other, as the first replica of the
                      first stage that has them does; on rank 0 */
    double *apart; /* [rank][parameter] how far the rank's elements are from those */
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

/* Elements of a tensor-parallel rank's part of a parameter. */
static uint64_t part_elements(const redco_trainer *t, size_t parameter)
{
    const redco_tensor_type type = redco_task_parameter_type(&t->whole->parameters[parameter], t->options.dtype);
    const redco_tensor_type part = redco_tp_local(t->whole_layouts[parameter], &type, t->mesh.tp);
    return redco_type_elements(&part);
}

/* The tensor that is a parameter, or the count of tensors where the rank's stage has it not. */
static uint32_t tensor_of(const redco_trainer *t, size_t parameter)
{
    uint32_t i = 0;
    while (i < t->modules.model.tensor_count && t->modules.parameter_of[i] != parameter) { i++; }
    return i;
}

/* While weights are collected. */
struct collector {
    redco_trainer *t;
    struct collected *w;
    redco_communicator *all;
    unsigned char *own, *room; /* for a module each */
};

/* One tensor-parallel rank's part goes to all: rank 0 keeps it, those that have the same compare.
 *  @param own  this rank's; NULL: it has another part, or none */
static redco_status collect_part(struct collector *c, size_t parameter, uint32_t part, const unsigned char *own,
                                 redco_error *err)
{
    const redco_trainer *const t = c->t;
    const redco_dtype dtype = t->options.dtype;
    const uint64_t count = part_elements(t, parameter);
    const size_t bytes = count * redco_dtype_bytes(dtype);
    const uint32_t stage = t->stage.count > 1 ? redcoi_stage_at(&t->stage, t->stage.first_use[parameter]) : 0,
                   rank = redco_world_rank(t->world);
    if (own != NULL) { memcpy(c->room, own, bytes); }
    const redco_status st = redco_broadcast(c->all, dtype, c->room, count,
                                            stage * (uint32_t)redco_rank_count(t->mesh) + part, "check/weights", err);
    if (st != REDCO_OK) { return st; }
    if (rank == 0) { memcpy((unsigned char *)c->w->of[parameter] + part * bytes, c->room, bytes); }
    double *const apart = &c->w->apart[rank * c->w->parameters + parameter];
    for (uint64_t e = 0; own != NULL && e < count; e++) {
        *apart = fmax(*apart, distance(value_at(dtype, own, e), value_at(dtype, c->room, e)));
    }
    return REDCO_OK;
}

static redco_status collect_parameter(struct collector *c, size_t parameter, redco_error *err)
{
    redco_trainer *const t = c->t;
    const redco_layout *const layout = redco_states_layout(t->states);
    const uint32_t tensor = tensor_of(t, parameter);
    const bool has = tensor < t->modules.model.tensor_count;
    const size_t element_bytes = redco_dtype_bytes(t->options.dtype);
    redco_status st = REDCO_OK;
    if (redco_world_rank(t->world) == 0) {
        c->w->of[parameter] = malloc(part_elements(t, parameter) * element_bytes * t->mesh.tp);
        if (c->w->of[parameter] == NULL) { return no_memory(t, err); }
    }
    if (has) { st = redcoi_weights_read(t, redco_layout_module_of(layout, tensor), c->own, err); }
    for (uint32_t part = 0; part < t->mesh.tp && st == REDCO_OK; part++) {
        const bool own = has && t->at.tp == part;
        st = collect_part(c, parameter, part,
                          own ? c->own + redco_layout_tensor_at(layout, tensor) * element_bytes : NULL, err);
    }
    return st;
}

static redco_status collect(redco_trainer *t, struct collected *w, redco_error *err)
{
    const uint32_t ranks = redco_world_size(t->world);
    const size_t element_bytes = redco_dtype_bytes(t->options.dtype);
    uint64_t most = redco_layout_sizes(redco_states_layout(t->states)).whole;
    uint32_t *const colours = calloc(ranks, sizeof *colours);
    struct collector c = {.t = t, .w = w};
    redco_status st = redcoi_weights_gather(t, err);
    w->parameters = t->whole->parameter_count;
    for (size_t p = 0; p < w->parameters; p++) { most = part_elements(t, p) > most ? part_elements(t, p) : most; }
    c.own = malloc(most * element_bytes + 1);
    c.room = malloc(most * element_bytes + 1);
    w->of = calloc(w->parameters + 1, sizeof *w->of);
    w->apart = calloc(ranks * w->parameters + 1, sizeof *w->apart);
    if (st == REDCO_OK && (w->of == NULL || w->apart == NULL || c.own == NULL || c.room == NULL || colours == NULL)) {
        st = no_memory(t, err);
    }
    if (st == REDCO_OK) { st = redco_communicator_split(t->world, colours, "all ranks", &c.all, err); }
    for (size_t p = 0; p < w->parameters && st == REDCO_OK; p++) { st = collect_parameter(&c, p, err); }
    if (st == REDCO_OK) {
        const double *const own = w->apart + redco_world_rank(t->world) * w->parameters;
        st = redco_all_gather(c.all, REDCO_F64, own, w->apart, w->parameters, "check/weights", err);
    }
    redco_communicator_free(c.all);
    free(colours);
    free(c.own);
    free(c.room);
    return st;
}

static void free_collected(struct collected *w)
{
    for (size_t p = 0; w->of != NULL && p < w->parameters; p++) { free(w->of[p]); }
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
    const redco_dtype dtype = t->options.dtype;
    const redco_tp_layout part = t->whole_layouts[tensor];
    const redco_tensor_type type = redco_task_parameter_type(&t->whole->parameters[tensor], dtype);
    const redco_tensor_type drift_type = redco_task_parameter_type(&t->whole->parameters[tensor], REDCO_F64);
    const uint64_t count = part_elements(t, tensor);
    for (uint32_t rank = 0; rank < t->mesh.tp; rank++) {
        const uint64_t at = rank * count;
        double worst = 0.0;
        redcoi_part_take(part, &type, t->mesh.tp, rank, redco_reference_master(c->baseline->reference, tensor),
                         c->room);
        redcoi_part_take(part, &drift_type, t->mesh.tp, rank, c->baseline->drift[tensor], c->drift);
        for (uint64_t i = 0; i < count; i++) {
            const double got = value_at(dtype, c->weights->of[tensor], at + i);
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
    const redco_tensor_type type = redco_task_parameter_type(&t->whole->parameters[tensor], t->options.dtype);
    const double largest = largest_of(t->options.dtype, redco_reference_master(c->baseline->reference, tensor),
                                      redco_type_elements(&type));
    redco_trainer_verdict *const v = c->verdict;
    compare_parts(c, tensor, largest);
    const uint32_t each = (uint32_t)redco_rank_count(t->mesh);
    for (uint32_t rank = 0; rank < redco_world_size(t->world); rank++) {
        const double apart = c->weights->apart[rank * c->weights->parameters + tensor];
        const bool has = t->stage.count == 1 || redcoi_stage_at(&t->stage, t->stage.first_use[tensor]) == rank / each ||
                         redcoi_stage_at(&t->stage, t->stage.last_use[tensor]) == rank / each;
        if (!has) { continue; }
        const double error = c->worst[redco_place_of(t->mesh, rank % each).tp] + apart / largest;
        v->weight_error = fmax(v->weight_error, error);
        if (error > v->bound && v->tensor[0] == '\0') {
            (void)snprintf(v->tensor, sizeof v->tensor, "%s", t->whole->parameters[tensor].name);
            v->rank = rank;
        }
    }
}

static redco_status compare_weights(struct compare *c, redco_error *err)
{
    const redco_trainer *const t = c->t;
    uint64_t most = 1;
    for (size_t i = 0; i < t->whole->parameter_count; i++) {
        const redco_tensor_type type = redco_task_parameter_type(&t->whole->parameters[i], t->options.dtype);
        if (redco_type_elements(&type) > most) { most = redco_type_elements(&type); }
    }
    c->room = malloc(most * redco_dtype_bytes(t->options.dtype));
    c->drift = calloc(most, sizeof *c->drift);
    c->worst = calloc(t->mesh.tp, sizeof *c->worst);
    const redco_status st = c->room == NULL || c->drift == NULL || c->worst == NULL ? no_memory(t, err) : REDCO_OK;
    for (uint32_t i = 0; i < t->whole->parameter_count && st == REDCO_OK; i++) { compare_tensor(c, i); }
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
                b->options.seed == t->options.seed && task->parameter_count == t->whole->parameter_count;
    for (size_t i = 0; same && i < task->parameter_count; i++) {
        same = redco_task_find(task, t->whole->parameters[i].name) == &task->parameters[i] &&
               memcmp(task->parameters[i].dim, t->whole->parameters[i].dim, sizeof task->parameters[i].dim) == 0;
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
    struct collected weights = {.parameters = 0};
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
