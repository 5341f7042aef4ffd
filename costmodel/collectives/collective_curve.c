#include "costmodel/collectives/collective_curve.h"

#include "costmodel/operators/compute_profile.h"
#include "topology/base/file.h"
#include "topology/base/preset.h"
#include "traces/profile.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const size_t max_file_bytes = (size_t)64 << 20;
/* A measurement may tell that a network is slower than NCCL expects, however much (its links are down, or TCP carries
 * it), and faster by a part; not that links have several times the rate of their data sheet. Since 1; source: assumed
 * (COLLECTIVES.md, "From profiles"). */
static const double least_ratio = 0.25;

struct point {
    redco_collective op;
    redco_group group;
    bool bandwidth_only;
    double size_bytes, time_s;
};

struct points {
    struct point *items;
    size_t count, capacity;
};

redco_group redcoi_group_normal(const redco_machine *machine, redco_group group)
{
    const bool alone_does_not_matter = group.mesh.nodes <= 1;
    if (group.stride == 0 || group.mesh.gpus == 1) { group.stride = 1; }
    if (group.groups_per_node == 0 || alone_does_not_matter) { group.groups_per_node = 1; }
    if (machine->fabric == REDCO_FABRIC_SWITCH &&
        (group.mesh.nodes <= 1 || machine->nics_per_node >= machine->node_gpus_physical)) {
        group.stride = 1;
    }
    return group;
}

static int compare_groups(const redco_group *a, const redco_group *b)
{
    if (a->mesh.nodes != b->mesh.nodes) { return a->mesh.nodes < b->mesh.nodes ? -1 : 1; }
    if (a->mesh.gpus != b->mesh.gpus) { return a->mesh.gpus < b->mesh.gpus ? -1 : 1; }
    if (a->stride != b->stride) { return a->stride < b->stride ? -1 : 1; }
    if (a->groups_per_node != b->groups_per_node) { return a->groups_per_node < b->groups_per_node ? -1 : 1; }
    return 0;
}

static int compare_curves(const struct point *a, const struct point *b)
{
    if (a->op != b->op) { return a->op < b->op ? -1 : 1; }
    if (a->bandwidth_only != b->bandwidth_only) { return a->bandwidth_only ? 1 : -1; }
    return compare_groups(&a->group, &b->group);
}

static int compare_points(const void *left, const void *right)
{
    const struct point *a = left;
    const struct point *b = right;
    const int order = compare_curves(a, b);
    if (order != 0) { return order; }
    if (a->size_bytes != b->size_bytes) { return a->size_bytes < b->size_bytes ? -1 : 1; }
    return (a->time_s > b->time_s) - (a->time_s < b->time_s);
}

static redco_status add_point(struct points *points, const struct point *point, redco_error *err)
{
    if (points->count == points->capacity) {
        const size_t wanted = points->capacity > 0 ? points->capacity * 2 : 256;
        struct point *larger = realloc(points->items, wanted * sizeof *larger);
        if (larger == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
        points->items = larger;
        points->capacity = wanted;
    }
    points->items[points->count++] = *point;
    return REDCO_OK;
}

/* Says whether @p text speaks of a GPU: "H200" of "H200-SXM-141GB". */
static bool names_gpu(const char *text, const char *gpu_name)
{
    const size_t length = strcspn(gpu_name, "-");
    return length > 0 && memmem(text, strlen(text), gpu_name, length) != NULL;
}

/* Says whether @p text speaks of a GPU that redco knows, and not of @p gpu_name. */
static bool names_other_gpu(const char *text, const char *gpu_name)
{
    if (names_gpu(text, gpu_name)) { return false; }
    for (size_t i = 0; redco_preset_at("gpus", i) != NULL; i++) {
        if (names_gpu(text, redco_preset_at("gpus", i)->name)) { return true; }
    }
    return false;
}

/* Some tables hold several machines. */
static bool is_mixed(const redco_profile_run *runs, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (strcmp(runs[i].hardware, runs[0].hardware) != 0) { return true; }
    }
    return false;
}

/* The run's ranks on this machine's nodes. A profile counts hosts; a node of ours may be many (NVL72). */
static bool place_run(const redco_machine *machine, const redco_profile_run *run, redco_group *group_out)
{
    const uint32_t whole = machine->node_gpus_physical > 0 ? machine->node_gpus_physical : machine->gpus_per_node;
    uint32_t nodes = run->nodes;
    if (whole == 0) { return false; }
    if (nodes == 0 || machine->hosts_per_node > 1) { nodes = (run->ranks + whole - 1) / whole; }
    if (run->ranks % nodes != 0 || run->ranks / nodes > whole) { return false; }
    const redco_group group = {.mesh = {.gpus = run->ranks / nodes, .nodes = nodes},
                               .stride = run->stride,
                               .groups_per_node = run->groups_per_node};
    *group_out = redcoi_group_normal(machine, group);
    return true;
}

static redco_status take_profile(const redco_machine *machine, const redco_profile *profile, struct points *points,
                                 redco_error *err)
{
    const redco_profile_run *runs = NULL;
    const size_t count = redco_profile_runs(profile, &runs);
    const bool mixed = is_mixed(runs, count);
    for (size_t r = 0; r < count; r++) {
        struct point point = {.op = runs[r].op, .bandwidth_only = runs[r].bandwidth_only};
        if ((mixed && !names_gpu(runs[r].hardware, machine->gpu.name)) || !place_run(machine, &runs[r], &point.group)) {
            continue;
        }
        for (size_t i = 0; i < runs[r].row_count; i++) {
            const redco_profile_row *row = &runs[r].rows[i];
            if (row->size_bytes == 0) { continue; }
            const double in_place_s = row->time_s[REDCO_IN_PLACE];
            point.size_bytes = (double)row->size_bytes;
            point.time_s = in_place_s > 0.0 ? in_place_s : row->time_s[REDCO_OUT_OF_PLACE];
            const redco_status st = add_point(points, &point, err);
            if (st != REDCO_OK) { return st; }
        }
    }
    return REDCO_OK;
}

/* Times of other GPUs are taken, for nobody else may have any; it is said. */
static void look_at_hardware(const redco_machine *machine, const redco_profile *profile, const char *path,
                             redcoi_curves *curves)
{
    const redco_profile_run *runs = NULL;
    const size_t count = redco_profile_runs(profile, &runs);
    if (curves->warning[0] != '\0' || is_mixed(runs, count) || count == 0) { return; }
    if (!names_other_gpu(runs[0].hardware, machine->gpu.name)) { return; }
    (void)snprintf(curves->warning, sizeof curves->warning,
                   "%.200s: measured on \"%.120s\", taken for the %.40s of this cluster", path, runs[0].hardware,
                   machine->gpu.name);
}

/* Operators count only where they were measured on the GPU of this machine: a processor's say nothing of another's. */
static redco_status take_operators(const redco_machine *machine, const redco_profile *profile, const char *path,
                                   redcoi_curves *curves, bool *taken_out, redco_error *err)
{
    const char *const device = redco_profile_how(profile)->device;
    *taken_out = device[0] != '\0' && strcasecmp(device, machine->gpu.name) == 0;
    if (device[0] != '\0' && !*taken_out && curves->warning[0] == '\0') {
        (void)snprintf(
            curves->warning, sizeof curves->warning,
            "%.200s: its operators were measured on \"%.47s\" and are not used for the %.47s of this cluster", path,
            device, machine->gpu.name);
    }
    return *taken_out ? redco_compute_profile_add(&curves->compute, profile, path, err) : REDCO_OK;
}

/* Sorted points of one curve and size become one, their median. @return new count */
static size_t merge_sizes(struct point *items, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count;) {
        size_t end = i;
        while (end < count && compare_curves(&items[i], &items[end]) == 0 &&
               items[i].size_bytes == items[end].size_bytes) {
            end++;
        }
        const size_t middle = i + (end - i) / 2;
        struct point merged = items[middle];
        if ((end - i) % 2 == 0) { merged.time_s = 0.5 * (items[middle - 1].time_s + items[middle].time_s); }
        items[kept++] = merged;
        i = end;
    }
    return kept;
}

static redco_status build(struct points *points, redcoi_curves *curves, redco_error *err)
{
    const size_t count = merge_sizes(points->items, points->count);
    curves->curves = calloc(count, sizeof *curves->curves);
    curves->log_size = calloc(count, 3 * sizeof *curves->log_size);
    if (curves->curves == NULL || curves->log_size == NULL) {
        return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    }
    curves->log_time = curves->log_size + count;
    curves->log_ratio = curves->log_time + count;
    for (size_t i = 0; i < count; i++) {
        const struct point *point = &points->items[i];
        curves->log_size[i] = log(point->size_bytes);
        curves->log_time[i] = log(point->time_s);
        if (i == 0 || compare_curves(point, &points->items[i - 1]) != 0) {
            curves->curves[curves->count++] = (redcoi_curve){
                .op = point->op,
                .group = point->group,
                .first = i,
                .bandwidth_only = point->bandwidth_only,
                .log_gpus = log2(point->group.mesh.gpus),
                .log_nodes = log2(point->group.mesh.nodes),
            };
        }
        curves->curves[curves->count - 1].count++;
    }
    return REDCO_OK;
}

/* Appends a file's bytes, so that the digest is that of all files in a row. */
static redco_status append(char **all, size_t *used, const char *text, size_t size, redco_error *err)
{
    char *larger = realloc(*all, *used + size + 1);
    if (larger == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    memcpy(larger + *used, text, size);
    *all = larger;
    *used += size;
    return REDCO_OK;
}

redco_status redcoi_curves_read(const redco_machine *machine, const char *const *paths, uint32_t path_count,
                                redcoi_curves *curves_out, char *sha256_out, redco_error *err)
{
    struct points points = {0};
    char *all = NULL;
    size_t used = 0;
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < path_count && st == REDCO_OK; i++) {
        redco_profile *profile = NULL;
        char *text = NULL;
        size_t size = 0;
        const size_t before = points.count;
        st = redco_preset_text("profiles", "a profile", paths[i], max_file_bytes, &text, &size, err);
        if (st == REDCO_OK) { st = append(&all, &used, text, size, err); }
        if (st == REDCO_OK) { st = redco_profile_parse(text, size, paths[i], &profile, err); }
        if (st == REDCO_OK) { st = take_profile(machine, profile, &points, err); }
        if (st == REDCO_OK && points.count > before) { look_at_hardware(machine, profile, paths[i], curves_out); }
        bool operators = false;
        if (st == REDCO_OK) { st = take_operators(machine, profile, paths[i], curves_out, &operators, err); }
        if (st == REDCO_OK && !operators && points.count == before && redco_profile_row_count(profile) > 0) {
            st = redco_fail(err, REDCO_EVALUE, paths[i], "nothing in it was measured on nodes of %u x %s like these",
                            machine->node_gpus_physical, machine->gpu.name);
        }
        redco_profile_free(profile);
        free(text);
    }
    if (st == REDCO_OK && path_count > 0) { redco_sha256_hex(all, used, sha256_out); }
    if (st == REDCO_OK && points.count > 0) {
        qsort(points.items, points.count, sizeof *points.items, compare_points);
        st = build(&points, curves_out, err);
    }
    if (st == REDCO_OK && curves_out->compute != NULL) { st = redco_compute_profile_finish(curves_out->compute, err); }
    free(points.items);
    free(all);
    return st;
}

void redcoi_curves_free(redcoi_curves *curves)
{
    free(curves->curves);
    free(curves->log_size);
    redco_compute_profile_free(curves->compute);
}

void redcoi_curves_compare(redcoi_curves *curves, const redco_comm *comm, redcoi_time_model model)
{
    for (size_t c = 0; c < curves->count; c++) {
        redcoi_curve *curve = &curves->curves[c];
        for (size_t i = curve->first; i < curve->first + curve->count; i++) {
            const redcoi_model_time expected = model(comm, curve->op, exp(curves->log_size[i]), curve->group);
            const double measured_s = exp(curves->log_time[i]);
            curves->log_ratio[i] = log(fmax(measured_s / (expected.latency_s + expected.wire_s), least_ratio));
            curve->wire_ratio = fmax(measured_s / expected.wire_s, least_ratio);
        }
    }
}

/* The distance between two collectives whose bandwidths predict one another; < 0: they do not. */
static double op_distance(redco_collective wanted, redco_collective measured)
{
    static const int family[REDCO_COLLECTIVE_COUNT] = {0, 1, 1, 2, 2, 3, 4};
    if (wanted == measured) { return 0.0; }
    if (family[wanted] >= 3 || family[measured] >= 3) { return -1.0; }
    return family[wanted] == family[measured] ? 1.0 : 2.0;
}

const redcoi_curve *redcoi_curves_find(const redcoi_curves *curves, redco_collective op, redco_group group,
                                       bool *exact_out)
{
    const redcoi_curve *best = NULL;
    double least = INFINITY;
    double log_gpus = -1.0;
    double log_nodes = -1.0;
    *exact_out = false;
    for (size_t c = 0; c < curves->count; c++) {
        const redcoi_curve *curve = &curves->curves[c];
        const double by_op = op_distance(op, curve->op);
        /* A group in one node has another limit than one over the network. */
        if (by_op < 0.0 || (curve->group.mesh.nodes > 1) != (group.mesh.nodes > 1)) { continue; }
        const bool same_group = compare_groups(&group, &curve->group) == 0;
        if (by_op == 0.0 && same_group && !curve->bandwidth_only) {
            *exact_out = true;
            return curve;
        }
        if (log_gpus < 0.0) {
            log_gpus = log2(group.mesh.gpus);
            log_nodes = log2(group.mesh.nodes);
        }
        double distance = by_op + fabs(curve->log_gpus - log_gpus) + fabs(curve->log_nodes - log_nodes);
        if (curve->group.stride != group.stride) { distance += 0.25; }
        if (curve->group.groups_per_node != group.groups_per_node) { distance += 0.25; }
        if (curve->bandwidth_only) { distance += 0.25; }
        if (distance < least) {
            least = distance;
            best = curve;
        }
    }
    return best;
}

static double interpolate(const double *x, const double *y, size_t count, double at)
{
    size_t low = 0;
    size_t high = count - 1;
    if (at <= x[0]) { return y[0]; }
    if (at >= x[high]) { return y[high]; }
    while (high - low > 1) {
        const size_t middle = (low + high) / 2;
        if (x[middle] <= at) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return y[low] + (y[high] - y[low]) * (at - x[low]) / (x[high] - x[low]);
}

double redcoi_curve_ratio(const redcoi_curves *curves, const redcoi_curve *curve, double size_bytes)
{
    return exp(
        interpolate(curves->log_size + curve->first, curves->log_ratio + curve->first, curve->count, log(size_bytes)));
}

double redcoi_curve_time(const redcoi_curves *curves, const redcoi_curve *curve, double size_bytes)
{
    const double at = log(size_bytes);
    const size_t last = curve->first + curve->count - 1;
    const double log_time =
        interpolate(curves->log_size + curve->first, curves->log_time + curve->first, curve->count, at);
    /* Beyond the largest size the bandwidth stays. */
    return exp(log_time + fmax(0.0, at - curves->log_size[last]));
}

double redcoi_curve_smallest_bytes(const redcoi_curves *curves, const redcoi_curve *curve)
{
    return exp(curves->log_size[curve->first]);
}

double redcoi_curve_smallest_s(const redcoi_curves *curves, const redcoi_curve *curve)
{
    return exp(curves->log_time[curve->first]);
}
