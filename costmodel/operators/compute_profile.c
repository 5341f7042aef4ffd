#include "costmodel/operators/compute_profile.h"

#include "topology/base/preset.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { AXES = 3, MOST_VALUES = 48, KEY_BYTES = 64 };

/* A measured time: where, and the logarithm of seconds per unit of work. */
struct point {
    char key[KEY_BYTES];
    double x[AXES]; /* logarithms of the sizes; 0 of an axis that the kind does not have */
    double log_rate;
};

/* All combinations of the sizes that any point of a kind has. */
struct grid {
    char key[KEY_BYTES];
    double axis[AXES][MOST_VALUES];
    uint32_t count[AXES];
    double *log_rate; /* [count[0]][count[1]][count[2]], in cells */
};

struct redco_compute_profile {
    char place[256]; /* name of the newest file */
    redco_profile_measured how;
    bool fused; /* on a CUDA device, sums and biases are part of the products before them */
    double contention_ratio, overlap_ratio;
    struct point *points;
    size_t point_count, point_capacity;
    struct grid *grids;
    size_t grid_count;
    double *cells;
};

static redco_status add_point(redco_compute_profile *profile, const char *key, const double size[AXES], double rate,
                              redco_error *err)
{
    if (profile->point_count == profile->point_capacity) {
        const size_t wanted = profile->point_capacity > 0 ? profile->point_capacity * 2 : 256;
        struct point *larger = realloc(profile->points, wanted * sizeof *larger);
        if (larger == NULL) { return redco_fail(err, REDCO_ENOMEM, profile->place, "out of memory"); }
        profile->points = larger;
        profile->point_capacity = wanted;
    }
    struct point *point = &profile->points[profile->point_count++];
    *point = (struct point){.log_rate = log(rate)};
    (void)snprintf(point->key, sizeof point->key, "%s", key);
    for (int a = 0; a < AXES; a++) { point->x[a] = log(size[a]); }
    return REDCO_OK;
}

static const char *gemm_key(char key[KEY_BYTES], const char *type, bool transpose_a, bool transpose_b)
{
    (void)snprintf(key, KEY_BYTES, "gemm %s %d%d", type, transpose_a, transpose_b);
    return key;
}

static const char *attention_key(char key[KEY_BYTES], const char *type, bool causal, bool backward)
{
    (void)snprintf(key, KEY_BYTES, "attention %s %s %s", type, causal ? "causal" : "full",
                   backward ? "backward" : "forward");
    return key;
}

/* Norms of one width are a kind; 0: the file does not say. */
static const char *other_key(char key[KEY_BYTES], const char *name, const char *type, bool backward, uint32_t columns)
{
    (void)snprintf(key, KEY_BYTES, "%.31s %.7s %s %u", name, type, backward ? "backward" : "forward", columns);
    return key;
}

static redco_status add_gemms(redco_compute_profile *profile, const redco_profile *file, redco_error *err)
{
    const redco_profile_gemm *rows = NULL;
    const size_t count = redco_profile_gemms(file, &rows);
    redco_status st = REDCO_OK;
    char key[KEY_BYTES];
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        const double size[AXES] = {rows[i].m, rows[i].n, rows[i].k};
        st = add_point(profile, gemm_key(key, rows[i].type, rows[i].transpose_a, rows[i].transpose_b), size,
                       rows[i].time_s / (2.0 * size[0] * size[1] * size[2]), err);
    }
    return st;
}

/* Work is the full square, 4 b a s^2 d FLOP, causal or not; heads that share keys cost what others do. How many there
 * are matters where they are too few to keep a device busy. */
static redco_status add_attentions(redco_compute_profile *profile, const redco_profile *file, redco_error *err)
{
    const redco_profile_attention *rows = NULL;
    const size_t count = redco_profile_attentions(file, &rows);
    redco_status st = REDCO_OK;
    char key[KEY_BYTES];
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        const redco_profile_attention *row = &rows[i];
        const double size[AXES] = {row->sequence, row->head_dim, (double)row->batch * row->heads};
        const double work = 4.0 * size[2] * size[0] * size[0] * size[1];
        st = add_point(profile, attention_key(key, row->type, row->causal, false), size, row->forward_s / work, err);
        if (st == REDCO_OK) {
            st =
                add_point(profile, attention_key(key, row->type, row->causal, true), size, row->backward_s / work, err);
        }
    }
    return st;
}

static redco_status add_others(redco_compute_profile *profile, const redco_profile *file, redco_error *err)
{
    const redco_profile_operator *rows = NULL;
    const size_t count = redco_profile_operators(file, &rows);
    redco_status st = REDCO_OK;
    char key[KEY_BYTES];
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        const redco_profile_operator *row = &rows[i];
        const double size[AXES] = {(double)row->elements, 1.0, 1.0};
        st = add_point(profile, other_key(key, row->name, row->type, false, row->columns), size,
                       row->forward_s / size[0], err);
        if (st == REDCO_OK && row->backward_s > 0.0) {
            st = add_point(profile, other_key(key, row->name, row->type, true, row->columns), size,
                           row->backward_s / size[0], err);
        }
    }
    return st;
}

redco_status redco_compute_profile_add(redco_compute_profile **profile_io, const redco_profile *file, const char *place,
                                       redco_error *err)
{
    if (*profile_io == NULL) { *profile_io = calloc(1, sizeof **profile_io); }
    redco_compute_profile *const profile = *profile_io;
    if (profile == NULL) { return redco_fail(err, REDCO_ENOMEM, place, "out of memory"); }
    (void)snprintf(profile->place, sizeof profile->place, "%.255s", place);
    profile->how = *redco_profile_how(file);
    if (!(profile->how.product_j_per_flop > 0.0)) {
        const redco_profile_power *powers = NULL;
        const redco_profile_gemm *bursts = NULL;
        const size_t power_count = redco_profile_powers(file, &powers),
                     burst_count = redco_profile_gemms(file, &bursts);
        (void)redco_power_fit(powers, power_count, bursts, burst_count, &profile->how);
    }
    profile->fused = strcmp(profile->how.backend, "cuda") == 0;
    if (redco_profile_how(file)->overlap_ratio > 0.0) {
        profile->contention_ratio = redco_profile_how(file)->contention_ratio;
        profile->overlap_ratio = redco_profile_how(file)->overlap_ratio;
    }
    redco_status st = add_gemms(profile, file, err);
    if (st == REDCO_OK) { st = add_attentions(profile, file, err); }
    return st == REDCO_OK ? add_others(profile, file, err) : st;
}

static int compare_points(const void *left, const void *right)
{
    const struct point *a = left, *b = right;
    const int order = strcmp(a->key, b->key);
    if (order != 0) { return order; }
    for (int i = 0; i < AXES; i++) {
        if (a->x[i] != b->x[i]) { return a->x[i] < b->x[i] ? -1 : 1; }
    }
    return (a->log_rate > b->log_rate) - (a->log_rate < b->log_rate);
}

/* Inserts a size into an ascending axis. @return false when it is full */
static bool add_value(double *axis, uint32_t *count, double x)
{
    uint32_t at = 0;
    while (at < *count && axis[at] < x) { at++; }
    if (at < *count && axis[at] == x) { return true; }
    if (*count == MOST_VALUES) { return false; }
    memmove(axis + at + 1, axis + at, (*count - at) * sizeof *axis);
    axis[at] = x;
    (*count)++;
    return true;
}

static size_t cell_count(const struct grid *grid)
{
    return (size_t)grid->count[0] * grid->count[1] * grid->count[2];
}

static uint32_t index_of(const double *axis, uint32_t count, double x)
{
    uint32_t at = 0;
    while (at + 1 < count && axis[at] < x) { at++; }
    return at;
}

/* One line of cells along an axis: a cell takes its neighbour's rate where that was measured nearer by. */
static void spread_line(double *rate, double *distance, const double *axis, uint32_t count, size_t stride)
{
    for (uint32_t i = 1; i < count; i++) {
        const double through = distance[(i - 1) * stride] + axis[i] - axis[i - 1];
        if (through < distance[i * stride]) {
            distance[i * stride] = through;
            rate[i * stride] = rate[(i - 1) * stride];
        }
    }
    for (uint32_t i = count - 1; i-- > 0;) {
        const double through = distance[(i + 1) * stride] + axis[i + 1] - axis[i];
        if (through < distance[i * stride]) {
            distance[i * stride] = through;
            rate[i * stride] = rate[(i + 1) * stride];
        }
    }
}

/* Every cell gets the rate of the nearest point by the sum of distances along the axes, which can be found axis by axis
 * (as in the distance transforms of Felzenszwalb and Huttenlocher, Theory of Computing 8, 2012). */
static void spread(struct grid *grid, double *distance)
{
    for (int a = 0; a < AXES; a++) {
        const size_t stride = a == 0 ? (size_t)grid->count[1] * grid->count[2] : a == 1 ? grid->count[2] : 1;
        for (size_t cell = 0; cell < cell_count(grid); cell++) {
            if (cell / stride % grid->count[a] != 0) { continue; }
            spread_line(grid->log_rate + cell, distance + cell, grid->axis[a], grid->count[a], stride);
        }
    }
}

/* @param distance  room for all cells */
static void fill(struct grid *grid, const struct point *points, size_t count, double *distance)
{
    for (size_t cell = 0; cell < cell_count(grid); cell++) { distance[cell] = INFINITY; }
    for (size_t p = 0; p < count; p++) {
        size_t cell = 0;
        for (int a = 0; a < AXES; a++) {
            cell = cell * grid->count[a] + index_of(grid->axis[a], grid->count[a], points[p].x[a]);
        }
        grid->log_rate[cell] = points[p].log_rate;
        distance[cell] = 0.0;
    }
    spread(grid, distance);
}

static bool same_place(const struct point *a, const struct point *b)
{
    return strcmp(a->key, b->key) == 0 && a->x[0] == b->x[0] && a->x[1] == b->x[1] && a->x[2] == b->x[2];
}

/* Keeps the fastest of the points of each size; they are sorted. */
static size_t drop_repeats(struct point *points, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || !same_place(&points[kept - 1], &points[i])) { points[kept++] = points[i]; }
    }
    return kept;
}

static size_t end_of_kind(const redco_compute_profile *profile, size_t first)
{
    size_t end = first;
    while (end < profile->point_count && strcmp(profile->points[end].key, profile->points[first].key) == 0) { end++; }
    return end;
}

static redco_status find_axes(const redco_compute_profile *profile, struct grid *grid, size_t first, size_t end,
                              redco_error *err)
{
    (void)snprintf(grid->key, sizeof grid->key, "%s", profile->points[first].key);
    for (size_t p = first; p < end; p++) {
        for (int a = 0; a < AXES; a++) {
            if (!add_value(grid->axis[a], &grid->count[a], profile->points[p].x[a])) {
                return redco_fail(err, REDCO_EVALUE, profile->place,
                                  "more than %d different sizes of \"%s\" in one dimension", MOST_VALUES, grid->key);
            }
        }
    }
    return REDCO_OK;
}

redco_status redco_compute_profile_finish(redco_compute_profile *profile, redco_error *err)
{
    size_t kinds = 0, cells = 0, first = 0, most = 0;
    redco_status st = REDCO_OK;
    if (profile->point_count == 0) { return REDCO_OK; }
    qsort(profile->points, profile->point_count, sizeof *profile->points, compare_points);
    profile->point_count = drop_repeats(profile->points, profile->point_count);
    for (size_t p = 0; p < profile->point_count; p = end_of_kind(profile, p)) { kinds++; }
    profile->grids = calloc(kinds, sizeof *profile->grids);
    if (profile->grids == NULL) { return redco_fail(err, REDCO_ENOMEM, profile->place, "out of memory"); }
    for (size_t p = 0; p < profile->point_count && st == REDCO_OK; p = end_of_kind(profile, p)) {
        struct grid *grid = &profile->grids[profile->grid_count++];
        st = find_axes(profile, grid, p, end_of_kind(profile, p), err);
        cells += cell_count(grid);
        most = cell_count(grid) > most ? cell_count(grid) : most;
    }
    if (st != REDCO_OK) { return st; }
    profile->cells = calloc(cells, sizeof *profile->cells);
    double *const distance = malloc(most * sizeof *distance);
    if (profile->cells == NULL || distance == NULL) {
        free(distance);
        return redco_fail(err, REDCO_ENOMEM, profile->place, "out of memory");
    }
    cells = 0;
    for (size_t g = 0; g < profile->grid_count; g++) {
        const size_t end = end_of_kind(profile, first);
        profile->grids[g].log_rate = profile->cells + cells;
        cells += cell_count(&profile->grids[g]);
        fill(&profile->grids[g], profile->points + first, end - first, distance);
        first = end;
    }
    free(distance);
    return REDCO_OK;
}

void redco_compute_profile_free(redco_compute_profile *profile)
{
    if (profile == NULL) { return; }
    free(profile->points);
    free(profile->grids);
    free(profile->cells);
    free(profile);
}

static const struct grid *find(const redco_compute_profile *profile, const char *key)
{
    size_t low = 0, high = profile != NULL ? profile->grid_count : 0;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const int order = strcmp(key, profile->grids[middle].key);
        if (order == 0) { return &profile->grids[middle]; }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NULL;
}

/* The interval of an axis that holds x, and how far x is in it, held to [0, 1]. */
static uint32_t interval(const double *axis, uint32_t count, double x, double *part_out)
{
    uint32_t low = 0;
    *part_out = 0.0;
    if (count < 2) { return 0; }
    while (low + 2 < count && axis[low + 1] <= x) { low++; }
    *part_out = fmin(1.0, fmax(0.0, (x - axis[low]) / (axis[low + 1] - axis[low])));
    return low;
}

/* Seconds of @p work at these sizes; outside the rate of the edge. Corners of weight 0 need not exist. */
static double at_rate(const struct grid *grid, const double size[AXES], double work)
{
    uint32_t low[AXES];
    double part[AXES], sum = 0.0;
    for (int a = 0; a < AXES; a++) { low[a] = interval(grid->axis[a], grid->count[a], log(size[a]), &part[a]); }
    for (uint32_t corner = 0; corner < 1u << AXES; corner++) {
        double weight = 1.0;
        size_t cell = 0;
        for (uint32_t a = 0; a < AXES; a++) {
            const uint32_t up = corner >> a & 1;
            weight *= up != 0 ? part[a] : 1.0 - part[a];
            cell = cell * grid->count[a] + low[a] + up;
        }
        if (weight > 0.0) { sum += weight * grid->log_rate[cell]; }
    }
    return exp(sum) * work;
}

/* Outside the sizes of a kind with one axis, that work is proportional to, seconds go on along the line through the
 * last two: a start's cost and the rest by size. It is at most as steep as the edge's rate and at least half as steep,
 * since two measurements that lie close together say little. */
static double on_line(const struct grid *grid, double size)
{
    static const double least_slope_ratio = 0.5;
    const uint32_t last = grid->count[0] - 1;
    const bool above = log(size) > grid->axis[0][last];
    if (last == 0 || (!above && log(size) >= grid->axis[0][0])) {
        return at_rate(grid, (const double[AXES]){size, 1.0, 1.0}, size);
    }
    const uint32_t edge = above ? last : 0, inner = above ? last - 1 : 1;
    const double edge_size = exp(grid->axis[0][edge]), inner_size = exp(grid->axis[0][inner]);
    const double rate = exp(grid->log_rate[edge]), edge_s = rate * edge_size;
    const double inner_s = exp(grid->log_rate[inner]) * inner_size;
    const double slope = fmin(rate, fmax(least_slope_ratio * rate, (edge_s - inner_s) / (edge_size - inner_size)));
    return edge_s + slope * (size - edge_size);
}

static const char *type_name(redco_precision precision)
{
    return precision == REDCO_FP32 ? "fp32" : precision == REDCO_FP16 ? "fp16" : "bf16";
}

bool redco_compute_profile_gemm_s(const redco_compute_profile *profile, uint64_t m, uint64_t n, uint64_t k,
                                  redco_pass pass, redco_precision precision, double *time_s_out)
{
    /* Forward X W, gradient of the input dY W^T, of the weight X^T dY; what was not measured that way is taken from a
     * layout that was. */
    static const bool layouts[3][2] = {{false, false}, {false, true}, {true, false}};
    const double size[AXES] = {(double)m, (double)n, (double)k};
    const struct grid *grid = NULL;
    char key[KEY_BYTES];
    for (int i = 0; i < 3 && grid == NULL; i++) {
        const bool *layout = layouts[((int)pass + i) % 3];
        grid = find(profile, gemm_key(key, type_name(precision), layout[0], layout[1]));
    }
    if (grid == NULL || m == 0 || n == 0 || k == 0) { return false; }
    *time_s_out = at_rate(grid, size, 2.0 * size[0] * size[1] * size[2]);
    return true;
}

static bool attention_s(const redco_compute_profile *profile, const redco_operator *op, bool backward,
                        redco_precision precision, double *time_s_out)
{
    char key[KEY_BYTES];
    const struct grid *grid = find(profile, attention_key(key, type_name(precision), op->causal, backward));
    const double work = op->causal ? 2.0 * op->flops : op->flops;
    if (grid == NULL || op->keys == 0 || op->head_dim == 0 || !(work > 0.0)) { return false; }
    const double heads = work / (4.0 * op->keys * (double)op->keys * op->head_dim);
    const double size[AXES] = {op->keys, op->head_dim, heads};
    *time_s_out = at_rate(grid, size, work);
    return true;
}

/* The kind whose width is nearest; one that does not tell its width where there is no other. */
static const struct grid *find_other(const redco_compute_profile *profile, const char *name, redco_precision precision,
                                     bool backward, uint32_t columns)
{
    char key[KEY_BYTES];
    const struct grid *nearest = find(profile, other_key(key, name, type_name(precision), backward, 0));
    double least = INFINITY;
    if (columns == 0) { return nearest; }
    const size_t prefix = strlen(key) - 1;
    for (size_t g = 0; g < profile->grid_count; g++) {
        if (strncmp(profile->grids[g].key, key, prefix) != 0) { continue; }
        const unsigned long of = strtoul(profile->grids[g].key + prefix, NULL, 10);
        const double distance = fabs(log((double)of / (double)columns));
        if (of > 0 && distance < least) {
            least = distance;
            nearest = &profile->grids[g];
        }
    }
    return nearest;
}

static bool wide_s(const redco_compute_profile *profile, const char *name, double elements, uint32_t columns,
                   bool backward, redco_precision precision, double *time_s_out)
{
    if (profile == NULL || !(elements > 0.0)) { return false; }
    const struct grid *grid = find_other(profile, name, precision, backward, columns);
    if (grid == NULL) { return false; }
    *time_s_out = on_line(grid, elements);
    return true;
}

static bool other_s(const redco_compute_profile *profile, const char *name, double elements, bool backward,
                    redco_precision precision, double *time_s_out)
{
    return wide_s(profile, name, elements, 0, backward, precision, time_s_out);
}

/* All of a table's gradient is written, however few of its rows are looked up. */
static bool embedding_s(const redco_compute_profile *profile, const redco_operator *op, bool backward,
                        redco_precision precision, double *time_s_out)
{
    double table_s = 0.0, sum_s = 0.0;
    if (op->measured_as == NULL || !other_s(profile, op->measured_as, op->elements, backward, precision, time_s_out)) {
        return false;
    }
    if (!backward || !other_s(profile, "embedding_table", op->table_elements, true, precision, &table_s)) {
        return true;
    }
    if (op->table_shared) { (void)other_s(profile, "accumulate", op->table_elements, false, precision, &sum_s); }
    *time_s_out += table_s + sum_s;
    return true;
}

static bool product_s(const redco_compute_profile *profile, const redco_operator *op, uint64_t n, redco_pass pass,
                      redco_precision precision, double *time_s_out)
{
    switch (pass) {
    case REDCO_PASS_FORWARD: return redco_compute_profile_gemm_s(profile, op->m, n, op->k, pass, precision, time_s_out);
    case REDCO_PASS_GRAD_INPUT:
        return redco_compute_profile_gemm_s(profile, op->m, op->k, n, pass, precision, time_s_out);
    case REDCO_PASS_GRAD_WEIGHT:
        return redco_compute_profile_gemm_s(profile, op->k, n, op->m, pass, precision, time_s_out);
    }
    return false;
}

/* A sum of a product and something else. On GPUs it is part of the product (costmodel/graph/fuse_matmul.h), which reads
 * the other summand besides: half of what copying as much takes. On processors it is an operator of its own. */
static double summed_s(const redco_compute_profile *profile, double elements, redco_precision precision)
{
    double seconds = 0.0;
    (void)other_s(profile, profile->fused ? "copy" : "accumulate", elements, false, precision, &seconds);
    return profile->fused ? 0.5 * seconds : seconds;
}

/* By each weight that the input meets; the gradients that they give the input are added up. */
static bool products_s(const redco_compute_profile *profile, const redco_operator *op, redco_pass pass,
                       redco_precision precision, double *time_s_out)
{
    if (op->experts > 1) { return false; } /* profiles have none of many matrices */
    const uint64_t whole[1] = {op->n};
    const uint64_t *const widths = op->part_count > 0 ? op->parts : whole;
    const uint32_t count = op->part_count > 0 ? op->part_count : 1;
    double sum_s = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        double part_s = 0.0;
        if (!product_s(profile, op, widths[i], pass, precision, &part_s)) { return false; }
        sum_s += part_s;
    }
    if (pass == REDCO_PASS_GRAD_INPUT && count > 1) {
        sum_s += (count - 1) * summed_s(profile, (double)op->m * (double)op->k, precision);
    }
    /* Norms of processors are measured with the sum before them. */
    if (pass == REDCO_PASS_FORWARD && op->adds && profile->fused) {
        sum_s += summed_s(profile, (double)op->m * (double)op->n, precision);
    }
    *time_s_out = sum_s;
    return true;
}

bool redco_compute_profile_s(const redco_compute_profile *profile, const redco_operator *op, redco_pass pass,
                             redco_precision precision, double *time_s_out)
{
    if (profile == NULL) { return false; }
    const bool backward = pass == REDCO_PASS_GRAD_INPUT;
    if (op->kind == REDCO_OPERATOR_GEMM) { return products_s(profile, op, pass, precision, time_s_out); }
    if (pass == REDCO_PASS_GRAD_WEIGHT) {
        *time_s_out = 0.0;
        return true;
    }
    switch (op->kind) {
    case REDCO_OPERATOR_EMBEDDING: return embedding_s(profile, op, backward, precision, time_s_out);
    case REDCO_OPERATOR_ATTENTION: return attention_s(profile, op, backward, precision, time_s_out);
    case REDCO_OPERATOR_MEMORY:
        if (op->measured_as != NULL && strcmp(op->measured_as, "relu") == 0 &&
            !other_s(profile, op->measured_as, op->elements, backward, precision, time_s_out)) {
            return other_s(profile, "activation", op->elements, backward, precision, time_s_out); /* older files */
        }
        return op->measured_as != NULL &&
               wide_s(profile, op->measured_as, op->elements, op->columns, backward, precision, time_s_out);
    case REDCO_OPERATOR_LOSS:
        return op->measured_as != NULL &&
               other_s(profile, op->measured_as, op->elements, backward, precision, time_s_out);
    default: return false; /* kernels of engines that no profile speaks of */
    }
}

bool redco_compute_profile_optimizer_s(const redco_compute_profile *profile, double params, redco_precision precision,
                                       double *time_s_out)
{
    return profile != NULL && other_s(profile, "optimizer", params, false, precision, time_s_out);
}

bool redco_compute_profile_keep_s(const redco_compute_profile *profile, double params, bool add,
                                  redco_precision precision, double *time_s_out)
{
    return profile != NULL && other_s(profile, add ? "accumulate" : "copy", params, false, precision, time_s_out);
}

const redco_profile_measured *redco_compute_profile_how(const redco_compute_profile *profile)
{
    return profile != NULL ? &profile->how : NULL;
}

bool redco_compute_profile_contention(const redco_compute_profile *profile, double *contention_ratio_out,
                                      double *overlap_ratio_out)
{
    if (profile == NULL || !(profile->overlap_ratio > 0.0)) { return false; }
    *contention_ratio_out = profile->contention_ratio;
    *overlap_ratio_out = profile->overlap_ratio;
    return true;
}

void redco_compute_profile_calibrate(const redco_compute_profile *profile, const redco_engine *engine,
                                     redco_calibration *calibration_io)
{
    static const double most_contention_ratio = 0.95; /* as calibrations have it */
    double contention_ratio = 0.0, overlap_ratio = 0.0;
    if (redco_compute_profile_contention(profile, &contention_ratio, &overlap_ratio)) {
        calibration_io->contention_ratio = fmin(contention_ratio, most_contention_ratio);
        calibration_io->overlap_window_ratio = fmin(overlap_ratio, 1.0);
    }
    if (!engine->planned_memory || profile == NULL || !profile->fused) { return; }
    if (profile->how.reserve_bytes > 0) { calibration_io->reserve_bytes = (double)profile->how.reserve_bytes; }
    const redco_profile_measured *const how = &profile->how;
    calibration_io->host_forward_s = engine->cuda_graphs ? how->graph_launch_s : how->host_forward_s;
    calibration_io->host_backward_s = engine->cuda_graphs ? how->graph_launch_s : how->host_backward_s;
}

const char *redco_compute_profile_shipped(const char *gpu)
{
    const redco_preset *preset = NULL;
    for (size_t i = 0; (preset = redco_preset_at("profiles", i)) != NULL; i++) {
        redco_profile *profile = NULL;
        if (redco_profile_parse(preset->text, preset->size, preset->name, &profile, NULL) != REDCO_OK) { continue; }
        const bool same = strcasecmp(redco_profile_how(profile)->device, gpu) == 0;
        redco_profile_free(profile);
        if (same) { return preset->name; }
    }
    return NULL;
}
