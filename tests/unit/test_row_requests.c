/* Every measured row of traces/data as two requests: the one that redco-validate prices, built from the row, and the
 * one that redco-plan prices, read from the words and files of the command that redco-validate --command prints. They
 * must be equal field by field, and closed form and simulation must give the same doubles for both: then what is said
 * of the former's error holds for the latter. In the quick tier every eighth row, in the deep one all. */
#include "costmodel/engines/bands.h"
#include "costmodel/evaluation/row_cluster.h"
#include "costmodel/evaluation/row_command.h"
#include "planner/answer/priced.h"
#include "tests/unit/full.h"
#include "tools/plan/plan_args.h"
#include "topology/base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_SHOWN = 20, FEW = 8 };

struct fixture {
    char folder[64], model[80], cluster[80];
    size_t every; /* n-th row only */
    size_t priced, compared, different;
};

/* Names the first field that differs. */
struct difference {
    char text[160];
};

static void say(struct difference *difference, const char *field, double row, double command)
{
    if (difference->text[0] != '\0') { return; }
    (void)snprintf(difference->text, sizeof difference->text, "%s is %.17g of the row, %.17g of its command", field,
                   row, command);
}

/* Integers, enumerations, flags: exact as doubles up to 2^53. */
#define SAME(member)                                                                                                   \
    do {                                                                                                               \
        if (a->member != b->member) { say(difference, #member, (double)a->member, (double)b->member); }                \
    } while (0)
#define SAME_DOUBLE(member)                                                                                            \
    do {                                                                                                               \
        if (memcmp(&a->member, &b->member, sizeof a->member) != 0) { say(difference, #member, a->member, b->member); } \
    } while (0)
#define SAME_TEXT(member)                                                                                              \
    do {                                                                                                               \
        if (strcmp(a->member, b->member) != 0) { say(difference, #member, 0.0, 0.0); }                                 \
    } while (0)

static void compare_gpus(const redco_gpu *a, const redco_gpu *b, struct difference *difference)
{
    SAME_TEXT(name);
    SAME_TEXT(arch);
    SAME(compute_capability);
    SAME_DOUBLE(fp16_flops_per_s);
    SAME_DOUBLE(bf16_flops_per_s);
    SAME_DOUBLE(fp8_flops_per_s);
    SAME_DOUBLE(fp4_flops_per_s);
    SAME_DOUBLE(tf32_flops_per_s);
    SAME_DOUBLE(fp32_flops_per_s);
    SAME(memory_bytes);
    SAME_DOUBLE(memory_bandwidth_bytes_per_s);
    SAME_TEXT(link);
    SAME(link_count);
    SAME_DOUBLE(scale_up_bytes_per_s);
    SAME_DOUBLE(pcie_bytes_per_s);
    SAME(pcie_gen);
    SAME_DOUBLE(tdp_w);
}

static void compare_machines(const redco_machine *a, const redco_machine *b, struct difference *difference)
{
    compare_gpus(&a->gpu, &b->gpu, difference);
    SAME(cpu);
    SAME(nodes);
    SAME(gpus_per_node);
    SAME(node_gpus_physical);
    SAME(hosts_per_node);
    SAME(fabric);
    SAME(link_group_gpus);
    SAME_DOUBLE(scale_up_bytes_per_s);
    SAME_DOUBLE(peer_bytes_per_s);
    SAME(nics_per_node);
    SAME_DOUBLE(nic_bytes_per_s);
    SAME_DOUBLE(node_network_bytes_per_s);
    SAME(nodes_per_leaf);
    SAME_DOUBLE(oversubscription_ratio);
    SAME(whole_node_gpus);
    SAME(most_nodes);
    SAME_DOUBLE(network_latency_s);
    SAME(order_count);
}

static void compare_params(const redco_param *a, const redco_param *b, struct difference *difference)
{
    SAME_TEXT(name);
    SAME(role);
    SAME(rank);
    for (uint32_t i = 0; i < a->rank; i++) { SAME(shape[i]); }
    SAME(class_index);
    SAME(count);
}

static void compare_dims(const redco_model_dims *a, const redco_model_dims *b, struct difference *difference)
{
    SAME(hidden);
    SAME(ffn);
    SAME(layers);
    SAME(encoder_layers);
    SAME(heads);
    SAME(kv_heads);
    SAME(head_dim);
    SAME(vocab);
    SAME(max_positions);
    SAME(gated);
    SAME(tied);
    SAME(positions);
    SAME(parallel_block);
    SAME(post_norm);
    SAME(no_final_norm);
    SAME(dropout);
}

static void compare_models(const redco_model *row, const redco_model *command, struct difference *difference)
{
    const redco_param *row_params = NULL, *command_params = NULL;
    const size_t count = redco_model_tensors(row, &row_params);
    const size_t others = redco_model_tensors(command, &command_params);
    compare_dims(redco_model_get_dims(row), redco_model_get_dims(command), difference);
    if (count != others) { say(difference, "tensors", (double)count, (double)others); }
    for (size_t i = 0; i < count && i < others; i++) { compare_params(&row_params[i], &command_params[i], difference); }
}

/* Whatever a set holds is in its description. */
static void compare_calibrations(const redco_calibration *a, const redco_calibration *b, struct difference *difference)
{
    json_t *const row = redco_calibration_describe(a);
    json_t *const command = redco_calibration_describe(b);
    assert_true(row != NULL && command != NULL);
    const char *key = NULL;
    const json_t *value = NULL;
    json_object_foreach(row, key, value)
    {
        const json_t *const other = json_object_get(command, key);
        if (other == NULL || !json_equal(value, other)) {
            say(difference, key, json_number_value(value), json_number_value(other));
        }
    }
    if (json_object_size(row) != json_object_size(command)) { say(difference, "calibration", 0.0, 0.0); }
    json_decref(row);
    json_decref(command);
}

static void compare_engines(const redco_engine *a, const redco_engine *b, struct difference *difference)
{
    SAME(software);
    SAME(attention);
    SAME(gemm_format);
    SAME(plain_norm);
    SAME(compiled);
    SAME(fused_loss);
    SAME(logits_gathered);
    SAME(async_tp);
    SAME(partial_recompute);
    SAME(layer_units);
    SAME(tp_layout);
    SAME(planned_memory);
    SAME(made_again);
    SAME(widens);
    SAME(workspace_bytes);
    SAME(cuda_graphs);
    SAME(shard_over_cp);
    SAME(gradient_bytes);
}

static void compare_workloads(const redco_workload *a, const redco_workload *b, struct difference *difference)
{
    SAME(seq_len);
    SAME(global_batch);
    SAME(precision);
    SAME(overlap);
    SAME(mfu_causal);
    SAME(bucket_bytes);
    compare_engines(&a->engine, &b->engine, difference);
}

static void compare_settings(const redco_parallelism *a, const redco_parallelism *b, struct difference *difference)
{
    SAME(tp);
    SAME(pp);
    SAME(cp);
    SAME(sequence_parallel);
    if (redco_parallelism_chunks(a) != redco_parallelism_chunks(b)) { say(difference, "chunks", a->chunks, b->chunks); }
    SAME(micro_batch);
    SAME(micro_batches);
    SAME(dp.gpus);
    SAME(dp.nodes);
    SAME(scheme);
    SAME(secondary.gpus);
    SAME(secondary.nodes);
}

/* Tables and heads are not computed again, whatever the policy. */
static bool recomputes(redco_class_kind kind)
{
    return kind == REDCO_CLASS_BLOCK || kind == REDCO_CLASS_CROSS;
}

static void compare_assignments(const redco_layer_class *class, const redco_assignment *a, const redco_assignment *b,
                                struct difference *difference)
{
    SAME(class_index);
    SAME(layers);
    SAME(config.shards.parameters.gpus);
    SAME(config.shards.parameters.nodes);
    SAME(config.shards.gradients.gpus);
    SAME(config.shards.gradients.nodes);
    SAME(config.shards.optimizer.gpus);
    SAME(config.shards.optimizer.nodes);
    if (recomputes(class->kind)) { SAME(config.recompute); }
}

/* All members are eight bytes wide: there is nothing between them. */
static void compare_predictions(const char *whose, const redco_prediction *a, const redco_prediction *b,
                                struct difference *difference)
{
    SAME_DOUBLE(step_s);
    SAME_DOUBLE(tokens_per_s_per_gpu);
    SAME(total_bytes);
    SAME(allocated_bytes);
    if (memcmp(a, b, sizeof *a) != 0) { say(difference, whose, a->step_s, b->step_s); }
}

static void must(redco_status st, const redco_error *err, const char *what)
{
    if (st != REDCO_OK) { fail_msg("%s: %s: %s", what, err->place, err->text); }
}

static void write_json(const json_t *json, const char *path)
{
    size_t size = 0;
    char *const text = redco_json_text(json, 17, &size);
    assert_non_null(text);
    assert_int_equal(redco_file_write(path, text, size, NULL), REDCO_OK);
    free(text);
}

/* Does with the words what redco-plan does, up to the answer. */
static void plan(char *const *words, size_t count, struct plan_args *args, redco_inputs *inputs,
                 redco_search_result **result_out, const char *where)
{
    redco_error err = {.status = REDCO_OK};
    char *copy[64];
    assert_true(count < sizeof copy / sizeof copy[0]);
    memcpy(copy, words, (count + 1) * sizeof copy[0]); /* argp orders them */
    assert_int_equal(plan_args_parse((int)count, copy, NULL, args), CLI_RUN);
    must(redco_question_read(&args->question, inputs, &err), &err, where);
    redco_inputs_use_engine(inputs, &args->question.options);
    must(redco_search_priced(inputs, &args->question.options, result_out, &err), &err, where);
}

static void compare(const redco_request *request, const redco_calibration *calibration, const redco_price *price,
                    const struct plan_args *args, const redco_inputs *inputs, const redco_search_result *result,
                    struct difference *difference)
{
    const redco_candidate *const only = result->ranked_count > 0 ? &result->ranked[0] : &result->shortfall.leanest;
    const redco_layer_class *classes = NULL;
    (void)redco_model_classes(request->model, &classes);
    compare_machines(&request->machine, &inputs->machine, difference);
    compare_models(request->model, inputs->model, difference);
    compare_calibrations(calibration, &inputs->calibration, difference);
    compare_workloads(&request->workload, &args->question.options.workload, difference);
    compare_settings(&request->parallelism, &only->parallelism, difference);
    if (request->assignment_count != only->assignment_count) {
        say(difference, "assignments", request->assignment_count, only->assignment_count);
        return;
    }
    for (uint32_t i = 0; i < only->assignment_count; i++) {
        compare_assignments(&classes[request->assignments[i].class_index], &request->assignments[i],
                            &only->assignments[i], difference);
    }
    compare_predictions("closed form", &price->closed_form, &only->closed_form, difference);
    compare_predictions("prediction", &price->predicted, &only->prediction, difference);
}

/* An answer's band, made from the row: a shipped set has that of a source that no fit saw, or wider. */
static void set_band(const redco_request *request, redco_calibration *calibration)
{
    const bool mixture = redco_model_get_dims(request->model)->experts > 0;
    const redco_band_question question = {.engine = request->workload.engine.name,
                                          .gpu = request->machine.gpu.name,
                                          .architecture = request->machine.gpu.arch,
                                          .software = request->workload.engine.software};
    redco_bands bands;
    assert_int_equal(redco_bands_read(mixture ? "mixtures" : "dense", &bands, NULL), REDCO_OK);
    calibration->band = redco_bands_at(&bands, redco_bands_unseen(&bands, &question));
    calibration->band_ratio = redco_band_half_ratio(&calibration->band);
}

static void compare_row(struct fixture *f, const char *where, const redco_measured_run *run,
                        redco_evaluations *evaluations, size_t index)
{
    const redco_request *const request = redco_evaluations_request(evaluations, index);
    const redco_row_files files = {.model = f->model, .cluster = f->cluster};
    struct difference difference = {""};
    struct plan_args args;
    redco_inputs inputs = {0};
    redco_search_result *result = NULL;
    redco_row_command *command = NULL;
    redco_calibration calibration;
    redco_price price;
    redco_error err = {.status = REDCO_OK};
    char *const *words = NULL;
    json_t *cluster = NULL;
    must(redco_row_command_create(run, request, &files, &command, &err), &err, where);
    must(redco_row_cluster(run, &cluster, &err), &err, where);
    write_json(cluster, f->cluster);
    write_json(redco_model_config(request->model), f->model);
    json_decref(cluster);
    must(redco_calibration_read(redco_evaluations_set(evaluations, index), &request->machine, &calibration, &err), &err,
         where);
    must(redco_evaluations_price(evaluations, index, &calibration, &price, &err), &err, where);
    set_band(request, &calibration);
    const size_t count = redco_row_command_words(command, &words);
    plan(words, count, &args, &inputs, &result, where);
    compare(request, &calibration, &price, &args, &inputs, result, &difference);
    if (difference.text[0] != '\0' && f->different++ < MOST_SHOWN) { print_error("%s: %s\n", where, difference.text); }
    f->compared++;
    redco_search_result_free(result);
    redco_inputs_free(&inputs);
    redco_row_command_free(command);
}

static void compare_table(struct fixture *f, const char *path)
{
    redco_measured *table = NULL;
    const redco_measured_run *runs = NULL;
    assert_int_equal(redco_measured_read(path, &table, NULL), REDCO_OK);
    const size_t count = redco_measured_runs(table, &runs);
    for (size_t i = 0; i < count; i++) {
        const redco_measured_run *const run = &runs[i];
        redco_evaluations *evaluations = NULL;
        char where[600];
        (void)snprintf(where, sizeof where, "%s:%u", path, run->line);
        if (redco_measured_skip(run) != NULL || f->priced++ % f->every != 0) { continue; }
        assert_int_equal(redco_evaluations_create(&run, 1, &evaluations, NULL), REDCO_OK);
        if (redco_evaluations_skip(evaluations, 0) == NULL) { compare_row(f, where, run, evaluations, 0); }
        redco_evaluations_free(evaluations);
    }
    redco_measured_free(table);
}

static void a_row_and_its_command_are_one_request(void **state)
{
    static const char folder[] = REDCO_TEST_DATA "/../../traces/data";
    struct fixture *const f = *state;
    DIR *const listing = opendir(folder);
    assert_non_null(listing);
    for (const struct dirent *item = readdir(listing); item != NULL; item = readdir(listing)) {
        char path[512];
        if (strstr(item->d_name, ".csv") == NULL) { continue; }
        (void)snprintf(path, sizeof path, "%s/%s", folder, item->d_name);
        compare_table(f, path);
    }
    (void)closedir(listing);
    print_message("%zu rows compared, %zu different\n", f->compared, f->different);
    assert_int_equal(f->different, 0);
    assert_true(f->compared >= 1600 / f->every);
}

int main(void)
{
    struct fixture fixture = {.folder = "/tmp/redco_row_requests_XXXXXX", .every = test_full() ? 1 : FEW};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(a_row_and_its_command_are_one_request, &fixture),
    };
    if (mkdtemp(fixture.folder) == NULL) { return 2; }
    (void)snprintf(fixture.model, sizeof fixture.model, "%s/model.json", fixture.folder);
    (void)snprintf(fixture.cluster, sizeof fixture.cluster, "%s/cluster.json", fixture.folder);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(fixture.model);
    (void)unlink(fixture.cluster);
    (void)rmdir(fixture.folder);
    return failed;
}
