/* Plans as the planner makes them. */
#include "tests/parity/parity.h"

#include "costmodel/simulator/step.h"
#include "planner/assemble/assemble.h"
#include "planner/executable/executable.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A vocabulary, and OPT's table of positions (two more than it says), that can be split; no ReLU where rounding is
 * coarse: which side of 0 a number falls on, and its gradient with it, is then left to rounding once in a few
 * trainings. */
static redco_status change(const struct parity_case *c, json_t *config, const char *path, redco_error *err)
{
    const char *const activation = json_string_value(json_object_get(config, "activation_function"));
    const bool smooth = c->dtype != REDCO_F64 && activation != NULL && strcmp(activation, "relu") == 0;
    const bool positions = c->placed && json_object_get(config, "do_layer_norm_before") != NULL;
    if (config == NULL || (c->placed && json_object_set_new(config, "vocab_size", json_integer(64)) != 0) ||
        (positions && json_object_set_new(config, "max_position_embeddings", json_integer(14)) != 0) ||
        (smooth && json_object_set_new(config, "activation_function", json_string("gelu")) != 0)) {
        return redco_fail(err, REDCO_ENOMEM, path, "out of memory");
    }
    return REDCO_OK;
}

static redco_status read_model(const struct parity_case *c, const char *data, redco_model **model_out, redco_error *err)
{
    char path[4096];
    redco_model *plain = NULL;
    (void)snprintf(path, sizeof path, "%s/models/oracle/%s.json", data != NULL ? data : REDCO_TEST_DATA,
                   parity_models[c->model]);
    redco_status st = redco_model_read(path, &plain, err);
    if (st != REDCO_OK) { return st; }
    json_t *const config = json_deep_copy(redco_model_config(plain));
    st = change(c, config, path, err);
    if (st == REDCO_OK) {
        const redco_json_value root = redco_json_wrap(config, path);
        st = redco_model_from_json(&root, parity_models[c->model], model_out, err);
    }
    json_decref(config);
    redco_model_free(plain);
    return st;
}

static redco_status read_cluster(uint32_t gpus, uint32_t nodes, redco_cluster **cluster_out, redco_error *err)
{
    json_t *const json = json_pack("{s:s, s:i, s:s, s:i, s:{s:s, s:{s:s, s:s}, s:i, s:s, s:i, s:s, s:s}}", "format",
                                   "redco-cluster", "version", 1, "name", "made up", "nodes", (int)nodes, "node",
                                   "name", "made up", "gpu", "value", "A100-SXM4-80GB", "source", "made up", "gpus",
                                   (int)gpus, "fabric", "direct", "nics", 1, "nic_rate", "100 Gb/s", "cpu", "intel");
    if (json == NULL) { return redco_fail(err, REDCO_ENOMEM, "cluster", "out of memory"); }
    const redco_json_value root = redco_json_wrap(json, "cluster");
    const redco_status st = redco_cluster_from_json(&root, cluster_out, err);
    json_decref(json);
    return st;
}

static redco_status open_planner(struct parity_planner *p, const struct parity_case *c, redco_error *err)
{
    const uint32_t gpus = c->tp * c->dp.gpus;
    redco_inputs *const in = &p->inputs;
    if (p->open && p->model == c->model && p->dtype == c->dtype && p->placed == c->placed && p->gpus == gpus &&
        p->nodes == c->dp.nodes * c->pp) {
        return REDCO_OK;
    }
    parity_planner_close(p);
    *p = (struct parity_planner){.data = p->data,
                                 .model = c->model,
                                 .dtype = c->dtype,
                                 .placed = c->placed,
                                 .gpus = gpus,
                                 .nodes = c->dp.nodes * c->pp};
    redco_status st = read_model(c, p->data, &in->model, err);
    if (st == REDCO_OK) { st = read_cluster(gpus, c->dp.nodes * c->pp, &in->cluster, err); }
    if (st == REDCO_OK) { st = redco_cluster_machine(in->cluster, 0, &in->machine, err); }
    if (st == REDCO_OK) { st = redco_calibration_read(NULL, &in->machine, &in->calibration, err); }
    if (st == REDCO_OK) { st = redco_comm_create(&in->machine, NULL, 0, &in->comm, err); }
    p->open = st == REDCO_OK;
    if (st != REDCO_OK) { redco_inputs_free(in); }
    return st;
}

void parity_planner_close(struct parity_planner *p)
{
    if (p->open) { redco_inputs_free(&p->inputs); }
    p->open = false;
}

static redco_search_options question(const struct parity_case *c)
{
    redco_search_options o = {
        .workload = {.seq_len = PARITY_SEQ_LEN,
                     .global_batch = (uint64_t)PARITY_BATCH * c->accumulation,
                     .precision = REDCO_FP32,
                     .overlap = c->overlap,
                     .bucket_bytes = c->small_buckets ? 4096 : UINT64_C(1) << 30},
        .given.tp = c->tp,
        .given.pp = c->pp,
        .sequence_parallel = c->sequence_parallel ? REDCO_ON : REDCO_OFF,
        .given.micro_batch = PARITY_BATCH / (uint32_t)redco_mesh_ranks(c->dp),
        .tp_placement = c->placed && c->tp > 1 ? REDCO_TP_MILP : REDCO_TP_RULES,
        .recompute = c->recompute,
        .stated = REDCO_STATES(REDCO_OF_SCHEME),
        .given.scheme = c->scheme,
        .strategy = REDCO_STRATEGY_ANY,
        .top = 1,
        .pass.gap_ratio = 5e-4,
    };
    if (c->row == REDCO_STRATEGY_ZEROPP || c->row == ROW_AMSP) {
        o.strategy = (redco_strategy)c->row;
    } else if (c->row == ROW_MIXED) {
        o.fix = (redco_shards){{1, 1}, {1, 1}, {1, 1}};
    } else if (c->row != ROW_OPTIMUM) {
        o.fix = c->shards;
    }
    return o;
}

/* Each layer under another triple of the mesh, blocks under other recomputation, too. */
static redco_status mix(const struct parity_case *c, const redco_model *model, redco_plan *plan, redco_error *err)
{
    const redco_layer_class *classes = NULL;
    const size_t class_count = redco_model_classes(model, &classes);
    const redco_shards free_choice = {{0, 0}, {0, 0}, {0, 0}};
    redco_shards *triples = NULL;
    size_t triple_count = 0, rows = 0, at = 0;
    redco_status st = redco_strategy_triples(c->dp, REDCO_STRATEGY_ANY, &free_choice, &triples, &triple_count, err);
    if (st != REDCO_OK) { return st; }
    for (size_t i = 0; i < class_count; i++) { rows += classes[i].layers; }
    redco_plan_layers *const list = calloc(rows, sizeof *list);
    if (list == NULL) {
        free(triples);
        return redco_fail(err, REDCO_ENOMEM, "mixed layers", "out of memory");
    }
    for (size_t i = 0; i < class_count; i++) {
        for (uint32_t l = 0; l < classes[i].layers; l++, at++) {
            redco_plan_layers *const row = &list[at];
            (void)snprintf(row->class_name, sizeof row->class_name, "%s", classes[i].name);
            row->first_layer = row->last_layer = l;
            /* Steps that are prime to counts of triples, which are squares of 2, 3 and 4. */
            row->shards = triples[(c->pattern * 5 + 3 + at * (c->pattern == 1 ? 7 : 5)) % triple_count];
            /* A tied head reads the table where that is: as the embedding, which comes first, has it. */
            if (classes[i].kind == REDCO_CLASS_HEAD && redco_model_get_dims(model)->tied) {
                row->shards = list[0].shards;
            }
            row->recompute = plan->layers[0].recompute;
            if (classes[i].layers > 1) {
                static const redco_recompute next[] = {[REDCO_RECOMPUTE_NONE] = REDCO_RECOMPUTE_CORE_ATTN,
                                                       [REDCO_RECOMPUTE_CORE_ATTN] = REDCO_RECOMPUTE_FULL,
                                                       [REDCO_RECOMPUTE_FULL] = REDCO_RECOMPUTE_NONE};
                row->recompute = l == 0 ? c->recompute : next[row[-1].recompute];
            }
        }
    }
    free(triples);
    free(plan->layers);
    plan->layers = list;
    plan->layers_count = (uint32_t)rows;
    plan->parallelism.secondary = c->secondary;
    return REDCO_OK;
}

redco_status parity_plan(struct parity_planner *p, const struct parity_case *c, redco_plan **plan_out, redco_error *err)
{
    const redco_search_options options = question(c);
    redco_search_result *result = NULL;
    redco_assembler *assembler = NULL;
    redco_plan *plan = NULL;
    redco_status st = open_planner(p, c, err);
    const redco_inputs *const in = &p->inputs;
    if (st != REDCO_OK) { return st; }
    st = redco_search(&in->machine, in->model, &in->calibration, in->comm, &options, &result, err);
    if (st == REDCO_OK && result->ranked_count == 0) {
        st = redco_fail(err, REDCO_EINFEASIBLE, "planner", "nothing fits");
    }
    if (st == REDCO_OK) { st = redco_assembler_create(in, &options, "test", &assembler, err); }
    if (st == REDCO_OK) { st = redco_plan_assemble(assembler, result, &result->ranked[0], "test", &plan, err); }
    if (st == REDCO_OK && !redco_mesh_equal(plan->parallelism.dp, c->dp)) {
        st =
            redco_fail(err, REDCO_EVALUE, "planner", "dp %ux%u", plan->parallelism.dp.gpus, plan->parallelism.dp.nodes);
    }
    if (st == REDCO_OK && c->row == ROW_MIXED) { st = mix(c, in->model, plan, err); }
    if (st == REDCO_OK) {
        *plan_out = plan;
        plan = NULL;
    }
    redco_plan_free(plan);
    redco_assembler_free(assembler);
    redco_search_result_free(result);
    return st;
}

bool parity_is_executable(const struct parity_planner *p, const redco_plan *plan)
{
    redco_refusals refusals;
    return redco_plan_executable(plan, p->inputs.model, REDCO_EXECUTOR_HOST, &refusals, NULL) == REDCO_OK &&
           refusals.count == 0;
}

redco_status parity_steps(const redco_plan *plan, redco_step **steps_out, redco_error *err)
{
    redco_plan_case prices = {.costs = NULL};
    redco_status st = redco_plan_case_open(plan, "plan", NULL, 0, NULL, false, &prices, err);
    if (st == REDCO_OK) {
        st = redco_step_build(prices.costs, &prices.parallelism, prices.assignments, prices.assignment_count, NULL,
                              steps_out, err);
    }
    redco_plan_case_free(&prices);
    return st;
}

/* Near the median of a training's norms, which more sequences make smaller: main() checks that both sides occur. */
static const double clip_norms[PARITY_MODELS][2] = {{1.21, 0.75}, {1.42, 1.22}, {1.14, 1.03}};

redco_trainer_options parity_training(const struct parity_case *c)
{
    redco_trainer_options o = {
        .dtype = c->dtype, .optimizer = redco_optimizer_default(), .learning_rate = 3e-3, .seed = 7 + c->model};
    o.optimizer.clip_norm = clip_norms[c->model][c->accumulation > 1 ? 1 : 0];
    /* Every second way to do it: what is compared with is never fused. */
    o.fuse =
        (c->accumulation + (uint32_t)c->recompute + c->row) % 2 == 0 ? REDCO_TRAINER_FUSE_ON : REDCO_TRAINER_FUSE_OFF;
    return o;
}
