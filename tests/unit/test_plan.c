/* The plan file alone: data/plans/v2.json was written by hand, so that every relation in it can be followed:
 * 2 nodes x 8 GPUs = tp 2 x dp 4x2; 4 micro-batches x 2 x 8 ranks = 64 sequences; 64 x 128 tokens / 16 GPUs / 0.25 s =
 * 2048 tokens/s/GPU; memory 1000 + 1000 + 500 + 2000 + 300 + 50 = 4850; T_comm 0.02 + 0.01 + 0.02 + 0 + 0.005 = 0.055.
 */
#include "planner/plan/plan.h"
#include "topology/base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char sample[] = REDCO_TEST_DATA "/plans/v2.json";

static json_t *load(void)
{
    json_t *json = json_load_file(sample, 0, NULL);
    assert_non_null(json);
    return json;
}

/* Replaces the value at a JSON pointer; "(none)" removes it. Keys without ~ only. */
static void put(json_t *root, const char *pointer, const char *value)
{
    char path[200];
    char *save = NULL;
    json_t *at = root;
    (void)snprintf(path, sizeof path, "%s", pointer);
    char *key = strtok_r(path, "/", &save);
    for (char *next = strtok_r(NULL, "/", &save); next != NULL; key = next, next = strtok_r(NULL, "/", &save)) {
        at = json_is_array(at) ? json_array_get(at, strtoul(key, NULL, 10)) : json_object_get(at, key);
        assert_non_null(at);
    }
    if (strcmp(value, "(none)") == 0) {
        assert_int_equal(json_object_del(at, key), 0);
        return;
    }
    json_t *json = json_loads(value, JSON_DECODE_ANY, NULL);
    assert_non_null(json);
    assert_int_equal(json_is_array(at) ? json_array_set_new(at, strtoul(key, NULL, 10), json)
                                       : json_object_set_new(at, key, json),
                     0);
}

static redco_status parse(const json_t *json, redco_plan **plan_out, redco_error *err)
{
    const redco_json_value root = redco_json_wrap(json, "plan.json");
    return redco_plan_from_json(&root, plan_out, err);
}

static void sample_is_read(void **state)
{
    redco_plan *plan = NULL;
    redco_error err = {0};
    (void)state;
    assert_int_equal(redco_plan_read(sample, &plan, &err), REDCO_OK);
    assert_string_equal(plan->model_name, "sample");
    assert_int_equal(plan->params, 330432);
    assert_int_equal(redco_plan_gpus(plan), 16);
    assert_int_equal(plan->overlap, REDCO_OVERLAP_ALL);
    assert_int_equal(plan->precision, REDCO_BF16);
    assert_int_equal(plan->parallelism.scheme, REDCO_INTER_TENSOR);
    assert_int_equal(plan->parallelism.tp, 2);
    assert_int_equal(plan->parallelism.secondary.gpus, 0);
    assert_int_equal(plan->layers_count, 4);
    assert_string_equal(plan->layers[2].class_name, "block");
    assert_int_equal(plan->layers[2].last_layer, 3);
    assert_int_equal(plan->layers[1].recompute, REDCO_RECOMPUTE_FULL);
    assert_int_equal(plan->layers[2].recompute, REDCO_RECOMPUTE_LAYERNORM | REDCO_RECOMPUTE_MLP);
    assert_int_equal(plan->layers[1].shards.optimizer.nodes, 2);
    assert_int_equal(plan->rules_count, 3);
    assert_int_equal(plan->rules[1].dim, 1);
    assert_int_equal(plan->rules[2].dim, -1);
    assert_string_equal(plan->hosts[1], "node2");
    assert_int_equal(plan->predicted.transient_bytes, 300);
    assert_true(plan->predicted.amsp_total_s == 0.055);
    assert_true(plan->predicted.tokens_per_s_per_gpu_band == 0.0);
    assert_int_equal(plan->solver_candidates, 318);
    assert_string_equal(plan->engine.name, "llm-foundry");
    assert_true(plan->engine.layer_units && plan->engine.tp_layout == REDCO_ENGINE_PAIRED);
    assert_int_equal(plan->engine.gradient_bytes, 4);
    assert_int_equal(plan->engine.stated, 1U << REDCO_TRAIT_ATTENTION);
    assert_int_equal(plan->predicted.nccl_bytes, 50);
    assert_int_equal(plan->predicted.allocated_bytes, 4700);
    assert_true(plan->closed_form.step_s == 0.25);
    assert_string_equal(json_string_value(json_object_get(plan->evidence, "beyond")), "tp 2 (measured up to 1)");
    redco_plan_free(plan);
}

/* A plan of before engines were kept: AMSP's, whose prediction is the closed form's. */
static void older_sample_is_read(void **state)
{
    redco_plan *plan = NULL;
    redco_error err = {0};
    (void)state;
    assert_int_equal(redco_plan_read(REDCO_TEST_DATA "/plans/v1-without-engine.json", &plan, &err), REDCO_OK);
    assert_string_equal(plan->engine.name, "amsp");
    assert_false(plan->engine.layer_units || plan->engine.plain_norm || plan->engine.stated != 0);
    assert_true(plan->closed_form.step_s == 0.0 && plan->predicted.step_s == 0.25);
    assert_null(plan->evidence);
    redco_plan_free(plan);
    /* Version 1 had words for whole policies alone. */
    assert_int_equal(redco_plan_read(REDCO_TEST_DATA "/plans/v1.json", &plan, &err), REDCO_OK);
    assert_int_equal(plan->layers[1].recompute, REDCO_RECOMPUTE_FULL);
    assert_int_equal(plan->layers[2].recompute, REDCO_RECOMPUTE_NONE);
    redco_plan_free(plan);
    /* A plan written before the mesh named model chunks, sequence parallelism and the grid of experts, and all stages
     * were listed.
     */
    assert_int_equal(redco_plan_read(REDCO_TEST_DATA "/plans/v1-without-stages.json", &plan, &err), REDCO_OK);
    assert_int_equal(plan->parallelism.chunks, 1);
    assert_null(plan->split);
    redco_plan_free(plan);
}

/* Meshes lie over data- and context-parallel ranks together where the engine shards so: 2 x 2 of them beside tp 2 and
 * cp 2 make a node of 4 and 2 nodes; one that only shards over data-parallel ranks has 2 x 2. */
static void meshes_lie_over_context_ranks(void **state)
{
    (void)state;
    redco_plan *plan = redco_plan_new();
    plan->gpus_per_node = 8;
    plan->parallelism.tp = plan->parallelism.cp = 2;
    plan->parallelism.dp = (redco_mesh){2, 2};
    assert_true(redco_mesh_equal(redco_plan_grid(plan), plan->parallelism.dp));
    plan->engine.shard_over_cp = true;
    assert_true(redco_mesh_equal(redco_plan_grid(plan), (redco_mesh){4, 2}));
    plan->parallelism.tp = 1; /* 16 context-parallel ranks fill 2 nodes */
    plan->parallelism.cp = 16;
    plan->parallelism.dp = (redco_mesh){1, 3};
    assert_true(redco_mesh_equal(redco_plan_grid(plan), (redco_mesh){8, 6}));
    redco_plan_free(plan);
}

/* Reading and writing again gives the same document, member for member and in the same order. */
static void round_trip_keeps_every_byte(void **state)
{
    redco_plan *plan = NULL;
    char *before = NULL;
    char *after = NULL;
    size_t before_size = 0;
    size_t after_size = 0;
    char path[] = "/tmp/redco_test_plan_XXXXXX";
    redco_error err = {0};
    (void)state;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_int_equal(redco_plan_read(sample, &plan, &err), REDCO_OK);
    plan->solver_seconds = 0.123; /* the file says 0: how long the search took is not a result */
    assert_int_equal(redco_plan_write(plan, path, &err), REDCO_OK);
    assert_int_equal(redco_file_read(path, 1 << 20, &after, &after_size, &err), REDCO_OK);
    json_t *json = load();
    before = redco_json_text(json, REDCO_PLAN_DIGITS, &before_size);
    assert_int_equal(before_size, after_size);
    assert_string_equal(before, after);
    json_t *shown = redco_plan_to_json(plan);
    assert_true(json_real_value(json_object_get(json_object_get(shown, "solver"), "seconds")) == 0.123);
    json_decref(shown);
    assert_true(plan->solver_within < 0.0); /* a plan of before the search's work was counted */
    plan->solver_within = 0.0625;
    plan->solver_counts = (redco_plan_counts){1809, 1695, 114, 123, 4};
    assert_int_equal(redco_plan_write(plan, path, &err), REDCO_OK);
    redco_plan_free(plan);
    assert_int_equal(redco_plan_read(path, &plan, &err), REDCO_OK);
    assert_true(plan->solver_within == 0.0625);
    assert_memory_equal(&plan->solver_counts, &((redco_plan_counts){1809, 1695, 114, 123, 4}),
                        sizeof plan->solver_counts);
    json_decref(json);
    free(before);
    free(after);
    redco_plan_free(plan);
    (void)unlink(path);
}

struct row {
    const char *pointer; /* the member that is changed */
    const char *value;   /* to what */
    const char *place;   /* where the error is seen */
    const char *text;    /* part of the message */
};

static const struct row contradictions[] = {
    {"/format", "\"redco-trace\"", "/format", "\"redco-plan\" is needed"},
    {"/version", "3", "/version", "a newer redco is needed"},
    {"/version", "0", "/version", "from 1"},
    {"/feasible", "false", "/feasible", "no plan was found"},
    {"/model", "(none)", "/model", "is missing"},
    {"/model/params", "0", "/model/params", "from 1"},
    {"/model/params", "1.5", "/model/params", "a whole number is needed"},
    {"/model/layers", "5", "/pipeline/stages", "1 positions have 4 layers; the model has 5"},
    {"/pipeline/stages/0/layers", "[0, 2]", "/pipeline/stages", "1 positions have 3 layers; the model has 4"},
    {"/mesh/etp", "4", "/mesh/etp", "is 4"},
    {"/mesh/edp/nodes", "3", "/mesh/edp", "is 8x3; tp, cp, dp, etp and ep make it 8x2"},
    {"/mesh/sequence_parallel", "true", "/mesh/sequence_parallel", "workload.sequence_parallel is not"},
    {"/model/name", "\"\"", "/model/name", "is empty"},
    {"/model/config/hidden_size", "128", "/inputs/model_sha256", "but what the plan embeds has"},
    {"/model/config", "[]", "/model/config", "is an array; an object is needed"},
    {"/cluster/nodes", "4", "/mesh", "make 16 ranks, but the cluster has 4 x 8 = 32 GPUs"},
    {"/cluster/nodes", "-2", "/cluster/nodes", "is -2"},
    {"/cluster/nodes", "1e30", "/cluster/nodes", "a whole number is needed"},
    {"/cluster/hosts_per_node", "2", "/placement/hosts", "has 2 hosts, but 2 nodes of 2 hosts need 4"},
    {"/cluster/description/name", "\"other\"", "/inputs/cluster_sha256", "but what the plan embeds has"},
    {"/workload/micro_batches", "5", "/workload/micro_batches", "= 80, but global_batch is 64"},
    {"/workload/micro_batch", "4", "/workload/micro_batches", "= 128, but global_batch is 64"},
    {"/workload/micro_batches", "9007199254740992", "/workload/micro_batches", "but global_batch is 64"},
    {"/workload/global_batch", "0", "/workload/global_batch", "from 1"},
    {"/workload/seq_len", "256", "/predicted/tokens_per_s_per_gpu", "is 2048, but 4096 follows"},
    {"/workload/precision", "\"int4\"", "/workload/precision", "one of bf16, fp16, fp32"},
    {"/engine/name", "7", "/engine/name", "a string is needed"},
    {"/engine/gather", "\"tensor\"", "/engine/gather", "not one of: module, layer"},
    {"/engine/compiled", "\"yes\"", "/engine/compiled", "true or false"},
    {"/engine/grad_reduce_bytes", "3", "/engine/grad_reduce_bytes", "not 2 or 4"},
    {"/engine/bucket_bytes", "4096", "/engine/bucket_bytes", "but the workload says"},
    {"/engine/stated", "[\"speed\"]", "/engine/stated/0", "no trait of an engine"},
    {"/engine/attention", "(none)", "/engine/attention", "is missing"},
    {"/closed_form/step_s", "0.5", "/solver/objective", "follows from /closed_form/step_s"},
    {"/closed_form/mfu", "(none)", "/closed_form/mfu", "is missing"},
    {"/workload/scheme", "7", "/workload/scheme", "a string is needed"},
    {"/workload/overlap", "[\"ar\",\"ar\"]", "/workload/overlap/1", "each at most once"},
    {"/workload/overlap", "[\"all\"]", "/workload/overlap/0", "one of ag_rs, ar, bc"},
    {"/workload/mfu_convention", "\"half\"", "/workload/mfu_convention", "one of full, causal"},
    {"/workload/sequence_parallel", "1", "/workload/sequence_parallel", "true or false"},
    {"/mesh/tp", "4", "/mesh", "make 32 ranks, but the cluster has 2 x 8 = 16 GPUs"},
    {"/mesh/tp", "0", "/mesh/tp", "from 1"},
    {"/mesh/ep", "2", "/mesh/edp", "is 8x2; tp, cp, dp, etp and ep make it 4x2"},
    {"/mesh/dp", "{\"gpus\":8,\"nodes\":1}", "/mesh/dp/gpus", "must divide the 8 GPUs of a node"},
    {"/mesh/dp/nodes", "268435457", "/mesh/dp/nodes", "is 268435457"},
    {"/mesh/secondary", "{\"gpus\":3,\"nodes\":1}", "/mesh/secondary", "does not divide dp 4x2"},
    {"/sharding", "[]", "/sharding", "has 0 elements"},
    {"/sharding/1/parameters", "{\"gpus\":4,\"nodes\":1}", "/sharding/1/parameters", "does not divide gradients 2x1"},
    {"/sharding/2/gradients", "{\"gpus\":4,\"nodes\":2}", "", ""},
    {"/sharding/2/optimizer", "{\"gpus\":1,\"nodes\":1}", "/sharding/2/gradients", "does not divide optimizer 1x1"},
    {"/sharding/0/optimizer", "{\"gpus\":8,\"nodes\":2}", "/sharding/0/optimizer", "does not divide dp 4x2"},
    {"/sharding/0/optimizer/gpus", "0", "/sharding/0/optimizer/gpus", "from 1"},
    {"/sharding/2/layers", "[2,3]", "/sharding/2/layers", "begins at 2, but \"block\" went on to 0"},
    {"/sharding/2/layers", "[0,2]", "/sharding/2/layers", "begins at 0, but \"block\" went on to 0"},
    {"/sharding/2/layers", "[1,2]", "/sharding", "covers 3 layers, but the model has 4"},
    {"/sharding/2/layers", "[3,1]", "/sharding/2/layers", "first <= last"},
    {"/sharding/2/layers", "[1]", "/sharding/2/layers", "[first, last]"},
    {"/sharding/1/layers", "[1,1]", "/sharding/1/layers", "\"block\" begins at 1, not at 0"},
    {"/sharding/3/class", "\"embedding\"", "/sharding", "stands in two places"},
    {"/sharding/3/class", "\"a_class_with_a_name_too_long\"", "/sharding/3/class", "longer than 23"},
    {"/sharding/3/recompute", "\"some\"", "/sharding/3/recompute", "one of none, selective, half, full, or modules"},
    {"/tensor_parallel/rules/0/dim", "4", "/tensor_parallel/rules/0/dim", "from 0 to 3"},
    {"/tensor_parallel/rules/0/match", "(none)", "/tensor_parallel/rules/0/match", "is missing"},
    {"/tensor_parallel/rules/0/dim", "(none)", "/tensor_parallel/rules/0/dim", "is missing"},
    {"/placement/hosts", "[\"node1\"]", "/placement/hosts", "has 1 hosts, but 2 nodes of 1 hosts need 2"},
    {"/placement/hosts/1", "\"node1\"", "/placement/hosts", "names node1 twice"},
    {"/placement/hosts/1", "\"node 1; rm\"", "/placement/hosts/1", "is not a host name"},
    {"/placement/spanning_groups", "-1", "/placement/spanning_groups", "is -1"},
    {"/predicted/step_s", "0", "/predicted/step_s", "is 0"},
    {"/predicted/step_s", "0.5", "/predicted/tokens_per_s_per_gpu", "is 2048, but 1024 follows"},
    {"/predicted/mfu", "-1", "/predicted/mfu", "is -1"},
    {"/predicted/mfu", "\"0.5\"", "/predicted/mfu", "a number is needed"},
    {"/predicted/mfu", "1e300", "/predicted/mfu", "is 1e+300"},
    {"/predicted/compute_s", "0.26", "/predicted/compute_s", "longer than the step"},
    {"/predicted/exposed_comm_s", "0.26", "/predicted/exposed_comm_s", "longer than the step"},
    {"/predicted/time/other_s", "(none)", "/predicted/time/other_s", "is missing"},
    {"/predicted/comm/gather_s", "0.03", "/predicted/comm/amsp_total_s", "is 0.055, but 0.065 follows"},
    {"/predicted/comm/amsp_total_s", "0.05501", "/predicted/comm/amsp_total_s", "is 0.05501, but 0.055 follows"},
    {"/predicted/memory_bytes/total", "4851", "/predicted/memory_bytes/total", "but its parts sum to 4850"},
    {"/predicted/memory_bytes/optimizer", "501", "/predicted/memory_bytes/total", "is 4850, but its parts sum to 4851"},
    {"/predicted/memory_bytes/capacity", "4849", "/predicted/memory_bytes/total", "more than the capacity 4849"},
    {"/solver/objective", "0.3", "/solver/objective", "is 0.3, but 0.25 follows from /closed_form/step_s"},
    {"/solver/minimises", "\"comm\"", "/solver/objective", "but 0.055 follows from /predicted/comm/amsp_total_s"},
    {"/solver/gap", "2", "/solver/gap", "from 0 to 1"},
    {"/solver/status", "null", "/solver/status", "is null"},
    {"/calibration", "(none)", "/calibration", "is missing"},
    {"/evidence", "(none)", "", ""},
    {"/evidence", "[]", "/evidence", "an object is needed"},
    {"/evidence/set", "1", "/evidence/set", "a string is needed"},
    {"/evidence/layouts", "0", "/evidence/layouts", "is 0"},
    {"/evidence/extrapolated", "false", "/evidence/beyond", "names a dimension, but extrapolated is false"},
    {"/evidence/beyond", "\"\"", "/evidence/beyond", "is empty, but extrapolated is true"},
    {"/evidence/nearest", "(none)", "/evidence/nearest", "is missing"},
    {"/evidence/inside", "(none)", "", ""},
    {"/evidence/inside", "3", "/evidence/inside", "an object is needed"},
    {"/inputs/model_sha256", "\"abc\"", "/inputs/model_sha256", "64 digits"},
    {"/inputs/cluster_sha256", "\"\"", "/inputs/cluster_sha256", "64 digits"},
    {"/inputs/profile_sha256", "\"x\"", "/inputs/profile_sha256", "64 digits"},
};

static void each_contradiction_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof contradictions / sizeof contradictions[0]; i++) {
        const struct row *row = &contradictions[i];
        redco_plan *plan = NULL;
        redco_error err = {0};
        char place[200];
        json_t *json = load();
        put(json, row->pointer, row->value);
        const redco_status st = parse(json, &plan, &err);
        if (row->text[0] == '\0') { /* a change that is sound */
            assert_int_equal(st, REDCO_OK);
            redco_plan_free(plan);
        } else {
            (void)snprintf(place, sizeof place, "plan.json:%s", row->place);
            if (st != REDCO_EVALUE || strcmp(err.place, place) != 0 || strstr(err.text, row->text) == NULL) {
                fail_msg("%s = %s: got status %d, \"%s: %s\"", row->pointer, row->value, st, err.place, err.text);
            }
        }
        json_decref(json);
    }
}

/* Whatever single member is missing or turned into something else, the reader answers and leaks nothing. */
static void spoil_each(json_t *root, json_t *at, uint32_t *spoilt)
{
    const char *key = NULL;
    json_t *value = NULL;
    void *next = NULL;
    if (json_is_array(at)) {
        for (size_t i = 0; i < json_array_size(at); i++) { spoil_each(root, json_array_get(at, i), spoilt); }
    }
    json_object_foreach_safe(at, next, key, value)
    {
        static const char *const others[] = {"null", "-1", "1e308", "\"x\"", "[]", "{}", "true", "4294967296"};
        json_incref(value);
        for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
            redco_plan *plan = NULL;
            (void)json_object_set_new(at, key, json_loads(others[i], JSON_DECODE_ANY, NULL));
            if (parse(root, &plan, NULL) == REDCO_OK) { redco_plan_free(plan); }
            (*spoilt)++;
        }
        (void)json_object_set(at, key, value);
        spoil_each(root, value, spoilt);
        json_decref(value);
    }
}

static void spoilt_plans_are_survived(void **state)
{
    uint32_t spoilt = 0;
    json_t *json = load();
    redco_plan *plan = NULL;
    (void)state;
    spoil_each(json, json, &spoilt);
    assert_true(spoilt > 800);
    assert_int_equal(parse(json, &plan, NULL), REDCO_OK); /* all was put back */
    redco_plan_free(plan);
    json_decref(json);
}

static void missing_and_broken_files_are_named(void **state)
{
    redco_plan *plan = NULL;
    redco_error err = {0};
    (void)state;
    assert_int_equal(redco_plan_read("/nowhere/plan.json", &plan, &err), REDCO_EIO);
    assert_string_equal(err.place, "/nowhere/plan.json");
    redco_error_clear(&err);
    assert_int_equal(redco_plan_read(REDCO_TEST_DATA "/plans/truncated.json", &plan, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.place, "truncated.json:4:"));
}

static void writing_fails_cleanly(void **state)
{
    redco_plan *plan = NULL;
    redco_error err = {0};
    (void)state;
    assert_int_equal(redco_plan_read(sample, &plan, &err), REDCO_OK);
    assert_int_equal(redco_plan_write(plan, "/nowhere/plan.json", &err), REDCO_EIO);
    assert_string_equal(err.place, "/nowhere/plan.json");
    redco_plan_free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sample_is_read),
        cmocka_unit_test(older_sample_is_read),
        cmocka_unit_test(meshes_lie_over_context_ranks),
        cmocka_unit_test(round_trip_keeps_every_byte),
        cmocka_unit_test(each_contradiction_is_named),
        cmocka_unit_test(spoilt_plans_are_survived),
        cmocka_unit_test(missing_and_broken_files_are_named),
        cmocka_unit_test(writing_fails_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
