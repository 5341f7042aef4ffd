#include "executor/states/adafactor.h"

#include "executor/backend/host/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 512 };

struct redcoi_adafactor {
    uint64_t *at;   /* by tensor: its rows begin there, its columns follow; one more than there are tensors */
    double *means;  /* means of squares, by row and column: the states */
    double *sums;   /* sums of a step, by row and column, then of squared weights by tensor */
    double *factor; /* by tensor: 1 / sqrt(v) is multiplied by the root of the mean of its rows */
    double *scale;  /* by tensor: sums of squared updates, then what updates are multiplied by */
    double *decay;  /* by tensor: what weights are multiplied by */
    double gradient_factor;
};

/* Consecutive elements of one row. */
struct span {
    uint64_t count, row, column; /* places of the row's number (unless it is a vector) and of the first column's */
    uint64_t matrix;
};

static uint64_t local_size(const redco_state_matrix *m, int axis)
{
    const uint64_t size = axis == 0 ? m->matrices : axis == 1 ? m->rows : m->columns;
    return m->split == axis ? size / m->ranks : size;
}

static uint64_t whole_index(const redco_state_matrix *m, int axis, uint64_t local)
{
    if (m->split != axis) { return local; }
    const uint64_t part = local_size(m, axis) / m->blocks;
    return (local / part * m->ranks + m->rank) * part + local % part;
}

static uint64_t row_count(const redco_state_matrix *m)
{
    return m->matrices * m->rows;
}

/* @param at  element of this rank's part of the tensor */
static struct span span_at(const redcoi_adafactor *a, const redco_state_matrix *m, uint32_t tensor, uint64_t at,
                           uint64_t left)
{
    const uint64_t columns = local_size(m, 2), rows = m->rows > 0 ? local_size(m, 1) : 1;
    const uint64_t column = at % columns, part = m->split == 2 ? columns / m->blocks : columns;
    const uint64_t matrix = whole_index(m, 0, at / columns / rows), first = a->at[tensor];
    struct span s = {.count = part - column % part, .matrix = matrix};
    if (s.count > left) { s.count = left; }
    if (s.count > BLOCK) { s.count = BLOCK; }
    if (m->rows > 0) { s.row = first + matrix * m->rows + whole_index(m, 1, at / columns % rows); }
    s.column = first + row_count(m) + matrix * m->columns + whole_index(m, 2, column);
    return s;
}

/* Frozen and assigned tensors have none. */
static bool has_means(const redco_states *states, uint32_t tensor)
{
    return !redcoi_model(states)->tensors[tensor].frozen && !redcoi_model(states)->tensors[tensor].assigned;
}

redco_status redcoi_adafactor_create(redco_states *states, redco_error *err)
{
    const uint32_t tensors = redcoi_model(states)->tensor_count;
    const redco_state_matrix *const matrices = states->options.matrices;
    if (states->options.optimizer.kind != REDCO_ADAFACTOR) { return REDCO_OK; }
    if (matrices == NULL) {
        return redco_fail(err, REDCO_EVALUE, "optimizer", "Adafactor runs on the host backend alone");
    }
    redcoi_adafactor *const a = calloc(1, sizeof *a);
    states->adafactor = a;
    if (a != NULL) { a->at = calloc((size_t)tensors + 1, sizeof *a->at); }
    if (a == NULL || a->at == NULL) { return redco_fail(err, REDCO_ENOMEM, "states", "Adafactor's means"); }
    for (uint32_t i = 0; i < tensors; i++) {
        const uint64_t means = row_count(&matrices[i]) + matrices[i].matrices * matrices[i].columns;
        a->at[i + 1] = a->at[i] + (has_means(states, i) ? means : 0);
    }
    const uint64_t count = a->at[tensors];
    a->means = calloc(count + 1, sizeof *a->means);
    a->sums = calloc(count + tensors + 1, sizeof *a->sums);
    a->factor = calloc(count + 1, sizeof *a->factor);
    a->scale = calloc((size_t)tensors + 1, sizeof *a->scale);
    a->decay = calloc((size_t)tensors + 1, sizeof *a->decay);
    states->size.optimizer_bytes += count * redco_dtype_bytes(states->master);
    states->size.work_bytes += (3 * count + 3 * (uint64_t)tensors) * sizeof(double);
    return a->means != NULL && a->sums != NULL && a->factor != NULL && a->scale != NULL && a->decay != NULL
               ? REDCO_OK
               : redco_fail(err, REDCO_ENOMEM, "states", "Adafactor's means");
}

void redcoi_adafactor_free(redco_states *states)
{
    redcoi_adafactor *const a = states->adafactor;
    if (a == NULL) { return; }
    free(a->at);
    free(a->means);
    free(a->sums);
    free(a->factor);
    free(a->scale);
    free(a->decay);
    free(a);
}

static unsigned char *master_of(const redco_states *states, uint32_t layer, const redco_shard_slice *run)
{
    return states->has_master ? states->owned[0] + (size_t)(states->owned_at[layer] + run->owned_at) *
                                                       redco_dtype_bytes(states->master)
                              : redcoi_parameter(states, layer, run->shard_at);
}

/* Gradients of a span, not yet clipped to the norm of all. */
static void load_gradients(const redco_states *states, uint32_t layer, const redco_shard_slice *run, uint64_t skip,
                           uint64_t count, double *to)
{
    redcoi_load_f64(states->options.dtype, redcoi_gradient(states, layer, run->gradient_at + skip), count, to);
    for (uint64_t i = 0; i < count; i++) { to[i] *= states->adafactor->gradient_factor; }
}

typedef void (*visit)(redco_states *states, uint32_t layer, const redco_shard_slice *run);

static void add_sums(redco_states *states, uint32_t layer, const redco_shard_slice *run)
{
    redcoi_adafactor *const a = states->adafactor;
    const redco_state_matrix *const m = &states->options.matrices[run->tensor];
    const uint32_t bytes = redco_dtype_bytes(states->master), tensors = redcoi_model(states)->tensor_count;
    double block[BLOCK], weight[BLOCK];
    for (uint64_t at = 0; at < run->count;) {
        const struct span s = span_at(a, m, run->tensor, run->begin + at, run->count - at);
        double row = 0.0, squares = 0.0;
        load_gradients(states, layer, run, at, s.count, block);
        redcoi_load_f64(states->master, master_of(states, layer, run) + (size_t)at * bytes, s.count, weight);
        for (uint64_t i = 0; i < s.count; i++) {
            const double square = block[i] * block[i];
            row += square;
            squares += weight[i] * weight[i];
            a->sums[s.column + i] += square;
        }
        if (m->rows > 0) { a->sums[s.row] += row; }
        a->sums[a->at[tensors] + run->tensor] += squares;
        at += s.count;
    }
}

/* Gradients of a span to directions: divided by the roots of their means of squares. */
static struct span direct(const redco_states *states, uint32_t layer, const redco_shard_slice *run, uint64_t at,
                          double *to)
{
    const redcoi_adafactor *const a = states->adafactor;
    const redco_state_matrix *const m = &states->options.matrices[run->tensor];
    const struct span s = span_at(a, m, run->tensor, run->begin + at, run->count - at);
    const double row = m->rows > 0 ? a->factor[s.row] : 1.0;
    load_gradients(states, layer, run, at, s.count, to);
    for (uint64_t i = 0; i < s.count; i++) { to[i] *= row * a->factor[s.column + i]; }
    return s;
}

static void add_updates(redco_states *states, uint32_t layer, const redco_shard_slice *run)
{
    double block[BLOCK];
    for (uint64_t at = 0; at < run->count;) {
        const struct span s = direct(states, layer, run, at, block);
        for (uint64_t i = 0; i < s.count; i++) { states->adafactor->scale[run->tensor] += block[i] * block[i]; }
        at += s.count;
    }
}

/* Visits what counts once in the world. */
static void walk(redco_states *states, visit see)
{
    for (uint32_t l = 0; l < redcoi_model(states)->layer_count; l++) {
        uint32_t count = 0;
        const redco_shard_slice *const slices = redco_layout_slices(states->layout, l, &count);
        for (uint32_t i = 0; i < count; i++) {
            if (redcoi_counts(states, l, &slices[i])) { see(states, l, &slices[i]); }
        }
    }
}

/* Sums to running means, rounded to the master type as files have them, and those to factors. */
static void take_means(redco_states *states, const redco_update *update, uint32_t tensor)
{
    redcoi_adafactor *const a = states->adafactor;
    const redco_optimizer *const o = &states->options.optimizer;
    const redco_state_matrix *const m = &states->options.matrices[tensor];
    const double keep = 1.0 - pow((double)update->step, -o->decay_power);
    const uint64_t first = a->at[tensor], columns_at = first + row_count(m);
    for (uint64_t i = first; i < a->at[tensor + 1]; i++) {
        const uint64_t of = i < columns_at ? m->columns : m->rows > 0 ? m->rows : 1;
        const double mean = keep * a->means[i] + (1.0 - keep) * (a->sums[i] / (double)of + o->epsilon);
        a->means[i] = states->master == REDCO_F64 ? mean : (double)(float)mean;
        a->factor[i] = 1.0 / sqrt(a->means[i]);
    }
    for (uint64_t k = 0; k < m->matrices && m->rows > 0; k++) {
        double sum = 0.0;
        for (uint64_t i = 0; i < m->rows; i++) { sum += a->means[first + k * m->rows + i]; }
        const double root = sqrt(sum / (double)m->rows);
        for (uint64_t i = 0; i < m->rows; i++) { a->factor[first + k * m->rows + i] *= root; }
    }
}

static void take_scale(redco_states *states, const redco_update *update, uint32_t tensor)
{
    redcoi_adafactor *const a = states->adafactor;
    const redco_optimizer *const o = &states->options.optimizer;
    const redco_state_matrix *const m = &states->options.matrices[tensor];
    const uint32_t tensors = redcoi_model(states)->tensor_count;
    const double elements = (double)(m->matrices * (m->rows > 0 ? m->rows : 1) * m->columns);
    const double size = sqrt(a->sums[a->at[tensors] + tensor] / elements);
    double rate = redco_optimizer_rate(o, update->learning_rate, update->step);
    const redcoi_setting *const setting = &states->settings[states->setting_of[tensor]];
    rate *= setting->rate_factor;
    if (o->scale_epsilon > 0.0) { rate *= fmax(o->scale_epsilon, size); }
    a->decay[tensor] = 1.0 - setting->optimizer.weight_decay * rate;
    a->scale[tensor] = rate / fmax(1.0, sqrt(a->scale[tensor] / elements) / o->update_clip);
}

/* As many as a sum takes at once. */
static redco_status add_up(redco_states *states, double *values, uint64_t count, redco_error *err)
{
    static const uint64_t most = (uint64_t)1 << 20;
    redco_status st = REDCO_OK;
    for (uint64_t at = 0; at < count && st == REDCO_OK; at += most) {
        st = redco_states_sum(states, values + at, (uint32_t)(count - at < most ? count - at : most), err);
    }
    return st;
}

redco_status redcoi_adafactor_begin(redco_states *states, const redco_update *update, redco_error *err)
{
    redcoi_adafactor *const a = states->adafactor;
    const uint32_t tensors = redcoi_model(states)->tensor_count;
    const uint64_t count = a->at[tensors] + tensors;
    a->gradient_factor = update->gradient_factor;
    memset(a->sums, 0, count * sizeof *a->sums);
    memset(a->scale, 0, tensors * sizeof *a->scale);
    walk(states, add_sums);
    redco_status st = add_up(states, a->sums, count, err);
    if (st != REDCO_OK) { return st; }
    for (uint32_t i = 0; i < tensors; i++) {
        if (has_means(states, i)) { take_means(states, update, i); }
    }
    walk(states, add_updates);
    st = add_up(states, a->scale, tensors, err);
    for (uint32_t i = 0; i < tensors && st == REDCO_OK; i++) {
        if (has_means(states, i)) { take_scale(states, update, i); }
    }
    return st;
}

void redcoi_adafactor_run(redco_states *states, uint32_t layer, const redco_shard_slice *run)
{
    const redcoi_adafactor *const a = states->adafactor;
    const uint32_t bytes = redco_dtype_bytes(states->master);
    const double keep = states->options.optimizer.beta1;
    double block[BLOCK], weight[BLOCK], mean[BLOCK];
    for (uint64_t at = 0; at < run->count;) {
        const struct span s = direct(states, layer, run, at, block);
        unsigned char *const master = master_of(states, layer, run) + (size_t)at * bytes;
        unsigned char *const momentum =
            states->state_count == 0
                ? NULL
                : states->owned[1] + (size_t)(states->owned_at[layer] + run->owned_at + at) * bytes;
        for (uint64_t i = 0; i < s.count; i++) { block[i] *= a->scale[run->tensor]; }
        if (momentum != NULL) {
            redcoi_load_f64(states->master, momentum, s.count, mean);
            for (uint64_t i = 0; i < s.count; i++) { block[i] = keep * mean[i] + (1.0 - keep) * block[i]; }
            redcoi_store_f64(states->master, block, s.count, momentum);
        }
        redcoi_load_f64(states->master, master, s.count, weight);
        for (uint64_t i = 0; i < s.count; i++) { weight[i] = a->decay[run->tensor] * weight[i] - block[i]; }
        redcoi_store_f64(states->master, weight, s.count, master);
        if (states->has_master) {
            redcoi_store_f64(states->options.dtype, weight, s.count,
                             redcoi_parameter(states, layer, run->shard_at + at));
        }
        at += s.count;
    }
}

redco_kept_means redco_states_means(const redco_states *states, uint32_t tensor)
{
    const redcoi_adafactor *const a = states->adafactor;
    if (a == NULL || !has_means(states, tensor)) { return (redco_kept_means){.rows = NULL}; }
    const redco_state_matrix *const m = &states->options.matrices[tensor];
    double *const first = a->means + a->at[tensor];
    return (redco_kept_means){m->rows > 0 ? first : NULL, first + row_count(m), row_count(m), m->matrices * m->columns};
}
