/* redco-plan from outside: the JSON document against the contract (every key, its type), plan files against --check. */
#include "costmodel/schedules/strategies.h"
#include "planner/plan/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs the tool; standard error is dropped. @return its exit code */
static int run(const char *arguments, char **output_out)
{
    char command[1200];
    size_t size = 0;
    size_t capacity = 1 << 16;
    char *output = malloc(capacity);
    (void)snprintf(command, sizeof command, "'%s' %s 2>/dev/null", REDCO_PLAN_TOOL, arguments);
    FILE *pipe = popen(command, "r"); /* NOLINT(cert-env33-c): the tool under test */
    assert_non_null(pipe);
    assert_non_null(output);
    for (size_t got = 1; got > 0;) {
        if (size + 4096 > capacity) {
            capacity *= 2;
            output = realloc(output, capacity);
            assert_non_null(output);
        }
        got = fread(output + size, 1, 4095, pipe);
        size += got;
    }
    output[size] = '\0';
    const int status = pclose(pipe);
    if (output_out != NULL) {
        *output_out = output;
    } else {
        free(output);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static json_t *run_json(const char *arguments, int exit_code)
{
    char *output = NULL;
    json_error_t why;
    assert_int_equal(run(arguments, &output), exit_code);
    json_t *json = json_loads(output, JSON_REJECT_DUPLICATES, &why); /* refuses text behind the document, too */
    if (json == NULL) { fail_msg("%s: %s in: %.200s", arguments, why.text, output); }
    free(output);
    return json;
}

static json_t *at(json_t *root, const char *pointer)
{
    char path[200];
    char *save = NULL;
    (void)snprintf(path, sizeof path, "%s", pointer);
    for (char *key = strtok_r(path, "/", &save); key != NULL && root != NULL; key = strtok_r(NULL, "/", &save)) {
        root = json_is_array(root) ? json_array_get(root, strtoul(key, NULL, 10)) : json_object_get(root, key);
    }
    return root;
}

/* Keys of plan.schema.json. s string, i whole number, r number, a array, o object. */
static const struct {
    const char *pointer;
    char type;
} contract[] = {
    {"/format", 's'},
    {"/version", 'i'},
    {"/model/name", 's'},
    {"/model/type", 's'},
    {"/model/params", 'i'},
    {"/model/layers", 'i'},
    {"/cluster/name", 's'},
    {"/cluster/nodes", 'i'},
    {"/cluster/gpus_per_node", 'i'},
    {"/cluster/gpu", 's'},
    {"/workload/seq_len", 'i'},
    {"/workload/global_batch", 'i'},
    {"/workload/micro_batch", 'i'},
    {"/workload/micro_batches", 'i'},
    {"/workload/precision", 's'},
    {"/mesh/tp", 'i'},
    {"/mesh/pp", 'i'},
    {"/mesh/cp", 'i'},
    {"/mesh/dp/gpus", 'i'},
    {"/mesh/dp/nodes", 'i'},
    {"/sharding", 'a'},
    {"/sharding/0/class", 's'},
    {"/sharding/0/layers/0", 'i'},
    {"/sharding/0/layers/1", 'i'},
    {"/sharding/0/parameters/gpus", 'i'},
    {"/sharding/0/parameters/nodes", 'i'},
    {"/sharding/0/gradients/gpus", 'i'},
    {"/sharding/0/gradients/nodes", 'i'},
    {"/sharding/0/optimizer/gpus", 'i'},
    {"/sharding/0/optimizer/nodes", 'i'},
    {"/sharding/0/recompute", 's'},
    {"/tensor_parallel/placement", 's'},
    {"/tensor_parallel/rules", 'a'},
    {"/placement/hosts", 'a'},
    {"/placement/rank_order", 's'},
    {"/placement/spanning_groups", 'i'},
    {"/predicted/step_s", 'r'},
    {"/predicted/tokens_per_s_per_gpu", 'r'},
    {"/predicted/mfu", 'r'},
    {"/predicted/model_flops_per_token", 'r'},
    {"/predicted/compute_s", 'r'},
    {"/predicted/exposed_comm_s", 'r'},
    {"/predicted/comm/gather_s", 'r'},
    {"/predicted/comm/reduce_scatter_s", 'r'},
    {"/predicted/comm/grad_reduce_s", 'r'},
    {"/predicted/comm/grad_shard_s", 'r'},
    {"/predicted/comm/broadcast_s", 'r'},
    {"/predicted/comm/tp_s", 'r'},
    {"/predicted/comm/amsp_total_s", 'r'},
    {"/predicted/memory_bytes/parameters", 'i'},
    {"/predicted/memory_bytes/gradients", 'i'},
    {"/predicted/memory_bytes/optimizer", 'i'},
    {"/predicted/memory_bytes/activations", 'i'},
    {"/predicted/memory_bytes/transient", 'i'},
    {"/predicted/memory_bytes/total", 'i'},
    {"/predicted/memory_bytes/capacity", 'i'},
    {"/solver/name", 's'},
    {"/solver/status", 's'},
    {"/solver/objective", 'r'},
    {"/solver/gap", 'r'},
    {"/solver/seconds", 'r'},
    {"/solver/candidates", 'i'},
    {"/inputs/model_sha256", 's'},
    {"/inputs/cluster_sha256", 's'},
    {"/inputs/profile_sha256", 's'},
    {"/inputs/redco_version", 's'},
};

static void assert_contract(json_t *plan)
{
    for (size_t i = 0; i < sizeof contract / sizeof contract[0]; i++) {
        const json_t *value = at(plan, contract[i].pointer);
        const char type = contract[i].type;
        const bool right = (type == 's' && json_is_string(value)) || (type == 'i' && json_is_integer(value)) ||
                           (type == 'r' && json_is_real(value)) || (type == 'a' && json_is_array(value));
        if (!right) { fail_msg("%s is missing or not of type %c", contract[i].pointer, type); }
    }
    assert_string_equal(json_string_value(at(plan, "/format")), "redco-plan");
    assert_int_equal(json_integer_value(at(plan, "/version")), REDCO_PLAN_VERSION);
}

static void plan_has_every_key_of_the_contract(void **state)
{
    (void)state;
    json_t *plan = run_json("--gpus 64 --json", 0);
    assert_contract(plan);
    assert_int_equal(json_integer_value(at(plan, "/model/params")), 6738415616); /* LLaMA-7B, published weights */
    assert_int_equal(json_integer_value(at(plan, "/workload/seq_len")), 4096);
    assert_int_equal(json_integer_value(at(plan, "/workload/global_batch")), 1024);
    assert_int_equal(
        json_integer_value(at(plan, "/cluster/nodes")) * json_integer_value(at(plan, "/cluster/gpus_per_node")), 64);
    json_decref(plan);
}

static void rules_stand_in_a_tensor_parallel_plan(void **state)
{
    (void)state;
    json_t *plan = run_json("--gpus 16 --tp 8 --json", 0);
    assert_int_equal(json_integer_value(at(plan, "/mesh/tp")), 8);
    const json_t *rules = at(plan, "/tensor_parallel/rules");
    assert_true(json_array_size(rules) > 5);
    bool down = false;
    size_t i = 0;
    const json_t *rule = NULL;
    json_array_foreach(rules, i, rule)
    {
        const json_t *dim = json_object_get(rule, "dim");
        assert_true(json_is_null(dim) || json_is_integer(dim));
        if (strcmp(json_string_value(json_object_get(rule, "match")), "down_proj/kernel") == 0) {
            down = json_integer_value(dim) == 0; /* row-parallel: reference/golden of RedCoast for LLaMA-7B */
        }
    }
    assert_true(down);
    json_decref(plan);
}

static void compare_holds_the_named_strategies_in_order(void **state)
{
    (void)state;
    json_t *list = run_json("--gpus 64 --model llama-65b --compare --json", 0);
    assert_int_equal(json_array_size(at(list, "/plans")), 8);
    const double best = json_number_value(at(list, "/optimum/predicted/step_s"));
    bool some_does_not_fit = false;
    for (size_t i = 0; i < 8; i++) {
        json_t *plan = json_array_get(at(list, "/plans"), i);
        assert_string_equal(json_string_value(at(plan, "/strategy")), redco_strategies[i + 1].word);
        if (json_is_false(at(plan, "/feasible"))) {
            some_does_not_fit = true;
            assert_true(json_integer_value(at(plan, "/short_bytes")) > 0);
            assert_true(strlen(json_string_value(at(plan, "/reason"))) > 10);
            continue;
        }
        assert_contract(plan);
        assert_true(json_number_value(at(plan, "/predicted/step_s")) >= best * (1 - 0.0005));
    }
    assert_true(some_does_not_fit); /* DDP with tp 8: 65.3e9 x 16 / 8 bytes = 131 GB of states */
    json_decref(list);
}

static void top_is_ordered_and_sweep_keeps_its_order(void **state)
{
    (void)state;
    json_t *list = run_json("--gpus 64 --top 5 --json", 0);
    assert_int_equal(json_array_size(at(list, "/plans")), 5);
    for (size_t i = 1; i < 5; i++) {
        const json_t *plans = at(list, "/plans");
        const double before = json_number_value(at(json_array_get(plans, i - 1), "/predicted/step_s"));
        const double after = json_number_value(at(json_array_get(plans, i), "/predicted/step_s"));
        assert_true(before > 0.0);
        assert_true(after >= before * (1 - 1e-8)); /* files hold 10 digits */
    }
    json_decref(list);
    list = run_json("--sweep gpus=64,13,8 --json", 0);
    assert_int_equal(json_array_size(at(list, "/plans")), 3);
    assert_int_equal(json_integer_value(at(list, "/plans/0/gpus")), 64);
    assert_contract(at(list, "/plans/0"));
    assert_true(json_is_false(at(list, "/plans/1/feasible"))); /* 13 GPUs do not fill nodes of 8 */
    assert_int_equal(json_integer_value(at(list, "/plans/2/gpus")), 8);
    json_decref(list);
}

static void infeasible_says_by_how_much(void **state)
{
    (void)state;
    json_t *json = run_json("--gpus 8 --model llama-65b --json", 1);
    assert_string_equal(json_string_value(at(json, "/format")), "redco-plan");
    assert_true(json_is_false(at(json, "/feasible")));
    assert_true(json_is_string(at(json, "/reason")));
    assert_true(json_integer_value(at(json, "/short_bytes")) > 0);
    json_decref(json);
}

struct folder {
    char path[64];
};

static int make_folder(void **state)
{
    static const char name[] = "/tmp/redco_plan_tool_XXXXXX";
    struct folder *folder = calloc(1, sizeof *folder);
    if (folder == NULL) { return -1; }
    memcpy(folder->path, name, sizeof name);
    *state = folder;
    return mkdtemp(folder->path) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[128];
    struct folder *folder = *state;
    (void)snprintf(command, sizeof command, "rm -rf '%s'", folder->path);
    const int rc = system(command); /* NOLINT(cert-env33-c): a scratch folder of our own */
    free(folder);
    return rc;
}

static json_t *load(const struct folder *folder, const char *name)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/%s", folder->path, name);
    json_t *json = json_load_file(path, 0, NULL);
    assert_non_null(json);
    return json;
}

static void plan_file_is_the_document_and_the_same_every_time(void **state)
{
    const struct folder *folder = *state;
    char arguments[300];
    (void)snprintf(arguments, sizeof arguments, "--gpus 128 --model llama-13b -o %s/a.json --json", folder->path);
    json_t *shown = run_json(arguments, 0);
    (void)snprintf(arguments, sizeof arguments, "--gpus 128 --model llama-13b -o %s/b.json", folder->path);
    assert_int_equal(run(arguments, NULL), 0);
    (void)snprintf(arguments, sizeof arguments, "cmp -s %s/a.json %s/b.json", folder->path, folder->path);
    assert_int_equal(system(arguments), 0); /* NOLINT(cert-env33-c) */
    json_t *written = load(folder, "a.json");
    (void)json_object_set_new(at(shown, "/solver"), "seconds", json_real(0.0));
    assert_true(json_is_object(at(shown, "/evidence")));
    assert_true(json_equal(shown, written));
    json_decref(shown);
    json_decref(written);
}

/* Scales a number, or steps a whole number, that stands at a pointer. */
static void spoil(json_t *root, const char *pointer)
{
    json_t *value = at(root, pointer);
    if (value == NULL && strcmp(pointer, "/predicted/memory_bytes/host") == 0) { /* absent: nothing is there */
        (void)json_object_set_new(at(root, "/predicted/memory_bytes"), "host", json_integer(1));
        return;
    }
    assert_non_null(value);
    if (json_is_integer(value)) {
        (void)json_integer_set(value, json_integer_value(value) + 1);
    } else {
        (void)json_real_set(value, json_real_value(value) * 1.0001 + 1e-9);
    }
}

static void check_refuses_every_number_that_contradicts(void **state)
{
    const struct folder *folder = *state;
    char arguments[300];
    char pointers[48][80];
    size_t count = 0;
    const redco_plan_field *fields = redco_plan_fields(&count);
    static const char *const others[] = {"/model/params",          "/workload/seq_len", "/workload/global_batch",
                                         "/workload/bucket_bytes", "/mesh/tp",          "/solver/objective",
                                         "/closed_form/step_s"};
    assert_true(count + 7 <= 48);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(pointers[i], sizeof pointers[i], "/predicted/%s%s%s", fields[i].group ? fields[i].group : "",
                       fields[i].group ? "/" : "", fields[i].key);
    }
    for (size_t i = 0; i < 7; i++) { (void)snprintf(pointers[count++], sizeof pointers[0], "%s", others[i]); }
    /* Sharded parameters, so that bucket, gathers and broadcast all matter. */
    (void)snprintf(arguments, sizeof arguments, "--gpus 64 --model llama-13b --tp 2 -o %s/plan.json", folder->path);
    assert_int_equal(run(arguments, NULL), 0);
    (void)snprintf(arguments, sizeof arguments, "--check %s/plan.json", folder->path);
    assert_int_equal(run(arguments, NULL), 0);
    (void)snprintf(arguments, sizeof arguments, "--check %s/spoilt.json", folder->path);
    for (size_t i = 0; i < count; i++) {
        char path[128];
        json_t *json = load(folder, "plan.json");
        spoil(json, pointers[i]);
        (void)snprintf(path, sizeof path, "%s/spoilt.json", folder->path);
        assert_int_equal(json_dump_file(json, path, JSON_REAL_PRECISION(17)), 0);
        const int rc = run(arguments, NULL);
        if (rc != 2) { fail_msg("%s may be changed: exit %d", pointers[i], rc); }
        json_decref(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_has_every_key_of_the_contract),
        cmocka_unit_test(rules_stand_in_a_tensor_parallel_plan),
        cmocka_unit_test(compare_holds_the_named_strategies_in_order),
        cmocka_unit_test(top_is_ordered_and_sweep_keeps_its_order),
        cmocka_unit_test(infeasible_says_by_how_much),
        cmocka_unit_test_setup_teardown(plan_file_is_the_document_and_the_same_every_time, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(check_refuses_every_number_that_contradicts, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
