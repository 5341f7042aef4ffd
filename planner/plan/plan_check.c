/* The members of a plan must agree. Each check names the member that contradicts, its value, and the value that follows
 * from the others. */
#include "planner/plan/plan_internal.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct check {
    const redco_plan *plan;
    const char *name;
    redco_error *err;
};

__attribute__((format(printf, 3, 4))) static redco_status refuse(const struct check *check, const char *pointer,
                                                                 const char *format, ...)
{
    char place[512];
    char text[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)snprintf(place, sizeof place, "%s:%s", check->name, pointer);
    return redco_fail(check->err, REDCO_EVALUE, place, "%s", text);
}

/* Saturates: a product of hostile factors equals no sound count. */
static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product = 0;
    return redco_mul_u64(a, b, &product) ? product : UINT64_MAX;
}

static redco_status check_mesh(const struct check *check)
{
    const redco_plan *plan = check->plan;
    const uint64_t gpus = redco_plan_gpus(plan);
    const uint64_t model = times(times(plan->parallelism.tp, plan->parallelism.pp), plan->parallelism.cp);
    const uint64_t ranks = times(model, redco_mesh_ranks(plan->parallelism.dp));
    if (ranks != gpus) {
        return refuse(check, "/mesh",
                      "tp %u x pp %u x cp %u x dp %ux%u make %llu ranks, but the cluster has %u x %u = %llu GPUs",
                      plan->parallelism.tp, plan->parallelism.pp, plan->parallelism.cp, plan->parallelism.dp.gpus,
                      plan->parallelism.dp.nodes, (unsigned long long)ranks, plan->nodes, plan->gpus_per_node,
                      (unsigned long long)gpus);
    }
    const redco_parallel p = redco_plan_parallel(plan);
    const redco_node_fit fit = redco_parallel_node_fit(&p);
    if (fit != REDCO_FITS_NODES && times(plan->parallelism.tp, plan->parallelism.cp) > plan->gpus_per_node) {
        return refuse(check, "/mesh/cp", "tp %u x cp %u must be whole nodes of %u GPUs, one data-parallel rank in each",
                      plan->parallelism.tp, plan->parallelism.cp, plan->gpus_per_node);
    }
    if (fit != REDCO_FITS_NODES && plan->parallelism.cp > 1) {
        return refuse(check, "/mesh/dp/gpus", "tp %u x cp %u x %u data-parallel GPUs must divide the %u GPUs of a node",
                      plan->parallelism.tp, plan->parallelism.cp, plan->parallelism.dp.gpus, plan->gpus_per_node);
    }
    if (fit != REDCO_FITS_NODES || plan->gpus_per_node % plan->parallelism.tp != 0) {
        return refuse(check, "/mesh/dp/gpus", "tp %u x %u data-parallel GPUs must divide the %u GPUs of a node",
                      plan->parallelism.tp, plan->parallelism.dp.gpus, plan->gpus_per_node);
    }
    if (plan->parallelism.pp > plan->model_layers) {
        return refuse(check, "/mesh/pp", "%u stages are more than the %u layers of the model", plan->parallelism.pp,
                      plan->model_layers);
    }
    const char *pointer = NULL;
    redco_error why = {.status = REDCO_OK};
    if (redcoi_plan_check_pipeline(plan, &pointer, &why) != REDCO_OK) {
        return refuse(check, pointer, "%s: %s", why.place, why.text);
    }
    if (plan->seq_len % plan->parallelism.cp != 0) {
        return refuse(check, "/mesh/cp", "%u does not divide the sequence of %u tokens", plan->parallelism.cp,
                      plan->seq_len);
    }
    const redco_mesh second = plan->parallelism.secondary;
    const redco_mesh grid = redco_plan_grid(plan);
    if (second.gpus != 0 && !redco_mesh_nests(second, grid)) {
        return refuse(check, "/mesh/secondary", "%ux%u does not divide dp %ux%u", second.gpus, second.nodes, grid.gpus,
                      grid.nodes);
    }
    return REDCO_OK;
}

static redco_status check_batch(const struct check *check)
{
    const redco_plan *plan = check->plan;
    const uint64_t ranks = redco_mesh_ranks(plan->parallelism.dp);
    const uint64_t made = times(times(plan->parallelism.micro_batches, plan->parallelism.micro_batch), ranks);
    if (made == plan->global_batch) { return REDCO_OK; }
    return refuse(check, "/workload/micro_batches",
                  "%llu micro-batches x %u sequences x %llu data-parallel ranks = %llu, but global_batch is %llu",
                  (unsigned long long)plan->parallelism.micro_batches, plan->parallelism.micro_batch,
                  (unsigned long long)ranks, (unsigned long long)made, (unsigned long long)plan->global_batch);
}

/* AMSP (arXiv 2311.00257), section IV-B: a rank holds gradients and optimizer states of parameters that it holds. */
static redco_status check_shards(const struct check *check, uint32_t index)
{
    static const char *const names[] = {"parameters", "gradients", "optimizer", "dp"};
    const redco_shards *shards = &check->plan->layers[index].shards;
    const redco_mesh chain[] = {shards->parameters, shards->gradients, shards->optimizer, redco_plan_grid(check->plan)};
    for (int i = 2; i >= 0; i--) {
        char pointer[64];
        if (redco_mesh_nests(chain[i], chain[i + 1])) { continue; }
        (void)snprintf(pointer, sizeof pointer, "/sharding/%u/%s", index, names[i]);
        return refuse(check, pointer,
                      "%ux%u does not divide %s %ux%u (parameters, gradients, optimizer and dp must nest)",
                      chain[i].gpus, chain[i].nodes, names[i + 1], chain[i + 1].gpus, chain[i + 1].nodes);
    }
    return REDCO_OK;
}

/* Layers with experts have them alike. */
static redco_status check_experts(const struct check *check, uint32_t index)
{
    const redco_shards *const experts = &check->plan->layers[index].experts, *const first =
                                                                                 &check->plan->parallelism.experts;
    const redco_shards none = {.parameters = {0, 0}};
    char pointer[64];
    if (redco_shards_equal(*experts, none) || redco_shards_equal(*experts, *first)) { return REDCO_OK; }
    (void)snprintf(pointer, sizeof pointer, "/sharding/%u/experts", index);
    return refuse(check, pointer, "has other meshes than the experts of layers before");
}

static bool is_block(const redco_plan_layers *row)
{
    return strcmp(row->class_name, "embedding") != 0 && strcmp(row->class_name, "head") != 0;
}

static redco_status check_layers(const struct check *check)
{
    const redco_plan *plan = check->plan;
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < plan->layers_count; i++) {
        const redco_plan_layers *row = &plan->layers[i];
        const bool goes_on = i > 0 && strcmp(row->class_name, row[-1].class_name) == 0;
        char pointer[64];
        (void)snprintf(pointer, sizeof pointer, "/sharding/%u/layers", i);
        if (goes_on && row->first_layer != row[-1].last_layer + 1) {
            return refuse(check, pointer, "begins at %u, but \"%s\" went on to %u: every layer once, in order",
                          row->first_layer, row->class_name, row[-1].last_layer);
        }
        if (!goes_on && row->first_layer != 0) {
            return refuse(check, pointer, "\"%s\" begins at %u, not at 0", row->class_name, row->first_layer);
        }
        if (is_block(row)) { blocks += row->last_layer - row->first_layer + 1; }
    }
    if (blocks == plan->model_layers) { return REDCO_OK; }
    return refuse(check, "/sharding", "covers %llu layers, but the model has %u", (unsigned long long)blocks,
                  plan->model_layers);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A class that comes back after another one would cover layers twice. */
static redco_status check_classes_once(const struct check *check)
{
    const redco_plan *plan = check->plan;
    uint32_t count = 0;
    redco_status st = REDCO_OK;
    const char **names = calloc(plan->layers_count + (size_t)1, sizeof *names);
    if (names == NULL) { return redco_fail(check->err, REDCO_ENOMEM, check->name, "out of memory"); }
    for (uint32_t i = 0; i < plan->layers_count; i++) {
        if (i == 0 || strcmp(plan->layers[i].class_name, plan->layers[i - 1].class_name) != 0) {
            names[count++] = plan->layers[i].class_name;
        }
    }
    qsort(names, count, sizeof *names, compare_names);
    for (uint32_t i = 1; i < count && st == REDCO_OK; i++) {
        if (strcmp(names[i], names[i - 1]) == 0) {
            st = refuse(check, "/sharding", "class \"%s\" stands in two places", names[i]);
        }
    }
    free(names);
    return st;
}

static redco_status check_hosts(const struct check *check)
{
    const redco_plan *plan = check->plan;
    const uint64_t wanted = times(plan->nodes, plan->hosts_per_node);
    redco_status st = REDCO_OK;
    if (plan->hosts_count == 0) { return REDCO_OK; }
    if (plan->hosts_count != wanted) {
        return refuse(check, "/placement/hosts", "has %u hosts, but %u nodes of %u hosts need %llu", plan->hosts_count,
                      plan->nodes, plan->hosts_per_node, (unsigned long long)wanted);
    }
    const char **names = malloc(plan->hosts_count * sizeof *names);
    if (names == NULL) { return redco_fail(check->err, REDCO_ENOMEM, check->name, "out of memory"); }
    memcpy(names, plan->hosts, plan->hosts_count * sizeof *names);
    qsort(names, plan->hosts_count, sizeof *names, compare_names);
    for (uint32_t i = 1; i < plan->hosts_count && st == REDCO_OK; i++) {
        if (strcmp(names[i], names[i - 1]) == 0) {
            st = refuse(check, "/placement/hosts", "names %.80s twice", names[i]);
        }
    }
    free(names);
    return st;
}

static redco_status check_memory(const struct check *check)
{
    const redco_plan_predicted *p = &check->plan->predicted;
    const uint64_t sum = p->parameter_bytes + p->gradient_bytes + p->optimizer_bytes + p->activation_bytes +
                         p->transient_bytes + p->nccl_bytes;
    if (sum != p->total_bytes) {
        return refuse(check, "/predicted/memory_bytes/total", "is %llu, but its parts sum to %llu",
                      (unsigned long long)p->total_bytes, (unsigned long long)sum);
    }
    if (p->total_bytes > p->capacity_bytes) {
        return refuse(check, "/predicted/memory_bytes/total", "is %llu, more than the capacity %llu",
                      (unsigned long long)p->total_bytes, (unsigned long long)p->capacity_bytes);
    }
    return REDCO_OK;
}

static redco_status check_number(const struct check *check, const char *pointer, double stated, double follows,
                                 const char *from)
{
    if (redcoi_plan_close(stated, follows)) { return REDCO_OK; }
    return refuse(check, pointer, "is %.10g, but %.10g follows from %s", stated, follows, from);
}

static redco_status check_times(const struct check *check)
{
    const redco_plan *plan = check->plan;
    const redco_plan_predicted *p = &plan->predicted;
    if (!(p->step_s > 0.0)) { return refuse(check, "/predicted/step_s", "is 0; a step takes time"); }
    const double tokens = (double)plan->global_batch * plan->seq_len / (double)redco_plan_gpus(plan);
    const double amsp_s = p->gather_s + p->reduce_scatter_s + p->grad_reduce_s + p->grad_shard_s + p->broadcast_s;
    redco_status st = REDCO_OK;
    if ((st = check_number(check, "/predicted/tokens_per_s_per_gpu", p->tokens_per_s_per_gpu, tokens / p->step_s,
                           "the batch, the step time and the GPUs")) != REDCO_OK ||
        (st = check_number(check, "/predicted/comm/amsp_total_s", p->amsp_total_s, amsp_s, "the sum of its parts")) !=
            REDCO_OK) {
        return st;
    }
    if (p->exposed_comm_s > p->step_s || p->compute_s > p->step_s) {
        return refuse(check, p->compute_s > p->step_s ? "/predicted/compute_s" : "/predicted/exposed_comm_s",
                      "is longer than the step");
    }
    return check_number(check, "/solver/objective", plan->solver_objective,
                        plan->objective_comm             ? p->amsp_total_s
                        : plan->closed_form.step_s > 0.0 ? plan->closed_form.step_s
                                                         : p->step_s,
                        plan->objective_comm             ? "/predicted/comm/amsp_total_s"
                        : plan->closed_form.step_s > 0.0 ? "/closed_form/step_s"
                                                         : "/predicted/step_s");
}

static redco_status check_digest(const struct check *check, const char *pointer, const json_t *value,
                                 const char *stated)
{
    char hex[65];
    if (!redco_plan_digest(value, hex)) { return redco_fail(check->err, REDCO_ENOMEM, check->name, "out of memory"); }
    if (strcmp(hex, stated) == 0) { return REDCO_OK; }
    return refuse(check, pointer, "is %.12s..., but what the plan embeds has %.12s...", stated, hex);
}

redco_status redcoi_plan_consistent(const redco_plan *plan, const char *name, redco_error *err)
{
    const struct check check = {.plan = plan, .name = name, .err = err};
    redco_status st = REDCO_OK;
    if ((st = check_mesh(&check)) != REDCO_OK || (st = check_batch(&check)) != REDCO_OK) { return st; }
    for (uint32_t i = 0; i < plan->layers_count; i++) {
        if ((st = check_shards(&check, i)) != REDCO_OK || (st = check_experts(&check, i)) != REDCO_OK) { return st; }
    }
    if ((st = check_layers(&check)) != REDCO_OK || (st = check_classes_once(&check)) != REDCO_OK ||
        (st = check_hosts(&check)) != REDCO_OK || (st = check_memory(&check)) != REDCO_OK ||
        (st = check_times(&check)) != REDCO_OK ||
        (st = check_digest(&check, "/inputs/model_sha256", plan->model_config, plan->model_sha256)) != REDCO_OK) {
        return st;
    }
    return check_digest(&check, "/inputs/cluster_sha256", plan->cluster_description, plan->cluster_sha256);
}
