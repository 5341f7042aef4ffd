/* Measured rows as evaluations, and the closed form's errors on the shipped tables, by the shipped constants: no larger
 * than README.md says of the simulator's. Tables: traces/data, whose README names the sources. */
#include "costmodel/closed_form/memory_model.h"
#include "costmodel/evaluation/measured_runs.h"
#include "tests/unit/readme_figures.h"
#include "traces/statistics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLES REDCO_TEST_DATA "/../../traces/data/"

static const char head[] =
    "source,use,model,layers,hidden,ffn_hidden,heads,kv_heads,head_dim,vocab,ffn_gated,tied_embeddings,experts,seq_len,"
    "gpu,"
    "n_gpus,gpus_per_node,node_network_GBps,framework,software,dp,tp,pp,virtual_pp,cp,ep,p_shard,g_shard,os_shard,"
    "optimizer_scheme,sequence_parallel,micro_batch,grad_accum,global_batch,recompute,precision,grad_reduce_bytes,"
    "attention,"
    "fused_norm,compiled,overlap,logits_gathered,outcome,tokens_per_s_per_gpu\n";

static redco_measured *parse(const char *rows)
{
    char text[4096];
    redco_measured *table = NULL;
    redco_error err = {.status = REDCO_OK};
    (void)snprintf(text, sizeof text, "%s%s", head, rows);
    if (redco_measured_parse(text, strlen(text), "rows.csv", &table, &err) != REDCO_OK) {
        fail_msg("%s: %s", err.place, err.text);
    }
    return table;
}

/* The request of one row, by its evaluation. @return to be freed */
static redco_evaluations *evaluate(const redco_measured_run *run, redco_request *request_out)
{
    redco_evaluations *all = NULL;
    redco_error err = {.status = REDCO_OK};
    if (redco_evaluations_create(&run, 1, &all, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    if (redco_evaluations_skip(all, 0) != NULL) { fail_msg("%s", redco_evaluations_skip(all, 0)); }
    *request_out = *redco_evaluations_request(all, 0);
    return all;
}

/* 128 GB200 are 32 hosts of 4; the largest equal parts of them that a rack of 18 hosts holds are 16 hosts: 64 GPUs.
 * With tp 2 and cp 2 a domain holds 16 data-parallel ranks, so 32 ranks are 16 x 2; NeMo shards
 * over context-parallel ranks, too: 32 x 2. */
static void a_row_becomes_a_plan(void **state)
{
    (void)state;
    redco_measured *const table = parse("s,speed,m,32,4096,14336,32,8,128,128256,1,0,0,8192,GB200-per-GPU,128,4,200,"
                                        "nemo,te_xla,32,2,1,1,2,1,1x1,1x1,1x32,"
                                        "intra,1,1,4,128,half,fp8,4,flash3,1,0,ar+tp,0,ok,10000\n");
    const redco_measured_run *runs = NULL;
    redco_request in;
    assert_int_equal(redco_measured_runs(table, &runs), 1);
    redco_evaluations *const all = evaluate(runs, &in);
    const redco_layer_config config = in.assignments[0].config;
    assert_int_equal(in.machine.nodes, 2);
    assert_int_equal(in.machine.gpus_per_node, 64);
    assert_true(fabs(in.machine.node_network_bytes_per_s - 16 * 200e9) < 1.0);
    assert_int_equal(in.parallelism.dp.gpus, 16);
    assert_int_equal(in.parallelism.dp.nodes, 2);
    assert_int_equal(config.shards.optimizer.gpus, 32);
    assert_int_equal(config.shards.optimizer.nodes, 2);
    assert_int_equal(config.recompute, REDCO_RECOMPUTE_FULL);
    assert_int_equal(in.workload.overlap, REDCO_OVERLAP_AR | REDCO_OVERLAP_TP);
    const redco_engine *const e = &in.workload.engine;
    assert_true(e->partial_recompute && e->shard_over_cp && e->layer_units);
    assert_false(e->plain_norm || e->compiled || e->logits_gathered);
    assert_int_equal(e->gemm_format, REDCO_GEMM_FP8);
    assert_int_equal(e->gradient_bytes, 4);
    redco_evaluations_free(all);
    redco_measured_free(table);
}

/* 100 GB/s beside eight A800 are four ports of 200 Gb/s; 200 GB/s eight; 400 GB/s beside Hopper eight of 400 Gb/s; a
 * node of two GPUs has no more than two. DeepSpeed and AMSP's engine fetch modules, others flat units. */
static void a_row_has_ports_and_an_engine(void **state)
{
    (void)state;
    static const struct {
        const char *gpu, *framework;
        unsigned gpus, network, ports;
        bool layer_units;
    } rows[] = {{"A800-SXM4-80GB", "amsp", 8, 100, 4, false},       {"A800-SXM4-80GB", "deepspeed", 8, 100, 4, false},
                {"A100-SXM4-80GB", "llm-foundry", 8, 200, 8, true}, {"H100-SXM5-80GB", "nemo", 8, 400, 8, true},
                {"A100-SXM4-80GB", "x", 2, 100, 2, true},           {"A100-SXM4-80GB", "x", 8, 2, 1, true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[512];
        const redco_measured_run *run = NULL;
        redco_request in;
        (void)snprintf(text, sizeof text,
                       "s,speed,m,24,4096,16384,32,32,128,51200,0,1,0,2048,%s,16,%u,%u,%s,eager,16,1,1,1,1,1,1x1,1x1,"
                       "1x1,intra,0,1,1,16,none,bf16,2,flash2,1,0,none,0,ok,100\n",
                       rows[i].gpu, rows[i].gpus, rows[i].network, rows[i].framework);
        redco_measured *const table = parse(text);
        assert_int_equal(redco_measured_runs(table, &run), 1);
        redco_evaluations *const all = evaluate(run, &in);
        assert_int_equal(in.machine.nics_per_node, rows[i].ports);
        assert_true(fabs(in.machine.nic_bytes_per_s * rows[i].ports - rows[i].network * 1e9) < 1.0);
        assert_int_equal(in.workload.engine.layer_units, rows[i].layer_units);
        redco_evaluations_free(all);
        redco_measured_free(table);
    }
}

static void rows_that_cannot_be_expressed_say_why(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"s,speed,m,24,4096,16384,32,32,128,51200,0,1,0,2048,A100-SXM4-80GB,64,8,200,x,megatron,4,16,1,1,1,1,1x1,1x1,"
         "1x1,intra,0,"
         "1,4,16,none,bf16,2,flash2,1,0,none,0,ok,100\n",
         "16"},
        {"s,no: told "
         "so,m,24,4096,16384,32,32,128,51200,0,1,0,2048,A100-SXM4-80GB,8,8,200,x,eager,8,1,1,1,1,1,1x1,1x1,1x1,intra,"
         "0,1,1,8,none,bf16,2,flash2,1,0,none,0,ok,100\n",
         "told so"},
        {"s,speed,m,24,4096,16384,32,32,128,51200,0,1,0,2048,Z9000,8,8,200,x,eager,8,1,1,1,1,1,1x1,1x1,1x1,intra,0,1,1,"
         "8,none,"
         "bf16,2,flash2,1,0,none,0,ok,100\n",
         "Z9000"},
        {"s,speed,m,24,4096,16384,32,32,128,51200,0,1,0,2048,A100-SXM4-80GB,8,8,200,x,eager,8,1,1,1,1,1,1x1,1x1,1x1,"
         "intra,0,1,1,"
         "8,none,fp8,2,flash2,1,0,none,0,ok,100\n",
         "8-bit"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redco_measured *const table = parse(rows[i][0]);
        const redco_measured_run *run = NULL;
        redco_evaluations *all = NULL;
        redco_error err = {.status = REDCO_OK};
        assert_int_equal(redco_measured_runs(table, &run), 1);
        assert_int_equal(redco_evaluations_create(&run, 1, &all, &err), REDCO_OK);
        const char *const reason = redco_evaluations_skip(all, 0);
        assert_non_null(reason);
        if (strstr(reason, rows[i][1]) == NULL) { fail_msg("\"%s\" does not say \"%s\"", reason, rows[i][1]); }
        redco_evaluations_free(all);
        redco_measured_free(table);
    }
}

/* All shipped tables, predicted by the shipped sets. */
struct shipped {
    redco_measured *tables[32];
    const redco_measured_run *runs[2000];
    redco_prediction predictions[2000]; /* step_s 0: skipped */
    size_t tables_count, count;
};

static void predict(struct shipped *s)
{
    redco_evaluations *all = NULL;
    redco_error err = {.status = REDCO_OK};
    assert_int_equal(redco_evaluations_create(s->runs, s->count, &all, &err), REDCO_OK);
    for (size_t i = 0; i < s->count; i++) {
        redco_calibration set;
        s->predictions[i] = (redco_prediction){.step_s = 0.0};
        if (redco_evaluations_skip(all, i) != NULL) { continue; }
        const char *const name = redco_evaluations_set(all, i);
        assert_int_equal(redco_calibration_read(name, NULL, &set, &err), REDCO_OK);
        s->predictions[i] = redco_evaluations_predict(all, i, &set);
        assert_true(isfinite(s->predictions[i].step_s) && s->predictions[i].step_s > 0.0);
    }
    redco_evaluations_free(all);
}

static int open_tables(void **state)
{
    struct shipped *const s = calloc(1, sizeof *s);
    DIR *const folder = opendir(TABLES);
    redco_error err = {.status = REDCO_OK};
    assert_non_null(s);
    assert_non_null(folder);
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        char path[512];
        const redco_measured_run *runs = NULL;
        if (strstr(entry->d_name, ".csv") == NULL) { continue; }
        (void)snprintf(path, sizeof path, "%s%.200s", TABLES, entry->d_name);
        assert_true(s->tables_count < 32);
        assert_int_equal(redco_measured_read(path, &s->tables[s->tables_count], &err), REDCO_OK);
        const size_t count = redco_measured_runs(s->tables[s->tables_count++], &runs);
        assert_true(s->count + count <= 2000);
        for (size_t i = 0; i < count; i++) { s->runs[s->count++] = &runs[i]; }
    }
    (void)closedir(folder);
    predict(s);
    *state = s;
    return 0;
}

static int close_tables(void **state)
{
    struct shipped *const s = *state;
    for (size_t i = 0; i < s->tables_count; i++) { redco_measured_free(s->tables[i]); }
    free(s);
    return 0;
}

/* The closed form's error, in percent of a ratio, may be above the figure of README.md, the simulator's, by 0.1. */
static void check_at_most(const char *what, double ratio, double percent)
{
    if (100.0 * ratio > percent + 0.1) {
        fail_msg("%s: %.2f %%, README.md says %.1f %%", what, 100.0 * ratio, percent);
    }
}

static bool has_speed(const struct shipped *s, size_t i)
{
    return s->predictions[i].step_s > 0.0 && (s->runs[i]->use & REDCO_USE_SPEED) != 0;
}

static void errors_are_those_of_the_readme(void **state)
{
    struct shipped *const s = *state;
    static double measured[2000], predicted[2000];
    static const redco_measured_run *runs[2000];
    static size_t groups[2000];
    size_t count = 0;
    redco_error_summary errors;
    redco_choice_loss loss;
    for (size_t i = 0; i < s->count; i++) {
        if (!has_speed(s, i)) { continue; }
        measured[count] = s->runs[i]->tokens_per_s_per_gpu;
        predicted[count] = s->predictions[i].tokens_per_s_per_gpu;
        runs[count++] = s->runs[i];
    }
    double rows = 0.0, mean = 0.0, median = 0.0, loses = 0.0;
    const char *const errors_text = readme_behind("The mean error of tokens/s over");
    assert_int_equal(sscanf(errors_text, " %lf runs is %lf %%, the median %lf %%", &rows, &mean, &median), 3);
    assert_int_equal(sscanf(readme_behind("best-predicted layout of a group loses"), " %lf %%", &loses), 1);
    assert_int_equal(count, (size_t)rows); /* the three that are held out of every fit are among them */
    assert_int_equal(redco_error_summarise(measured, predicted, count, &errors, NULL), REDCO_OK);
    assert_int_equal(redco_measured_groups(runs, count, groups, NULL), REDCO_OK);
    assert_int_equal(redco_choice_assess(measured, predicted, groups, count, &loss, NULL), REDCO_OK);
    print_message("%zu rows: MAPE %.2f %%, median %.2f %%, choice loses %.2f %%\n", count, 100.0 * errors.mape_ratio,
                  100.0 * errors.median_ape_ratio, 100.0 * loss.mean_loss_ratio);
    check_at_most("mean error", errors.mape_ratio, mean);
    check_at_most("median error", errors.median_ape_ratio, median);
    check_at_most("choice loses", loss.mean_loss_ratio, loses);
}

static void memory_is_that_of_the_readme(void **state)
{
    struct shipped *const s = *state;
    redco_memory_table table = {0};
    for (size_t i = 0; i < s->count; i++) {
        const redco_prediction *const p = &s->predictions[i];
        if (!(p->step_s > 0.0) || (s->runs[i]->use & REDCO_USE_MEMORY) == 0) { continue; }
        if (s->runs[i]->outcome == REDCO_OUTCOME_UNKNOWN) { continue; }
        redco_memory_table_add(&table, s->runs[i]->outcome == REDCO_OUTCOME_OK,
                               (redco_said)redco_memory_judge(p->total_bytes, p->capacity_bytes, p->uncertain_bytes));
    }
    print_message("memory: %.1f %% right, %.1f %% of those told to fit fail\n",
                  100.0 * redco_memory_table_right_ratio(&table), 100.0 * redco_memory_table_failed_ratio(&table));
    assert_int_equal(table.fits_said_fits + table.fits_said_oom + table.fits_unclear, 256);
    assert_int_equal(table.oom_said_fits + table.oom_said_oom + table.oom_unclear, 261);
    double rows = 0.0, right = 0.0, unclear = 0.0;
    assert_int_equal(sscanf(readme_behind("**Memory.** Of"), " %lf published runs", &rows), 1);
    assert_int_equal(sscanf(readme_behind("arXiv 2311.05610)"), " %lf %% are classified correctly", &right), 1);
    assert_int_equal(sscanf(readme_behind("as fitting or out of memory ("), "%lf %%", &unclear), 1);
    assert_int_equal(256 + 261, (size_t)rows);
    check_at_most("classified wrongly", 1.0 - redco_memory_table_right_ratio(&table), 100.0 - right);
    check_at_most("may not fit", redco_memory_table_unclear_ratio(&table), unclear);
    assert_true(redco_memory_table_kind_ratio(&table, true) >= 0.93);
    assert_true(redco_memory_table_kind_ratio(&table, false) >= 0.93);
    assert_true(redco_memory_table_failed_ratio(&table) <= 0.04);
}

/* Rows that say what was allocated; nothing is fitted to these rows. */
static void allocated_peaks_are_within_the_readme(void **state)
{
    struct shipped *const s = *state;
    double errors[64], rows = 0.0, within = 0.0;
    size_t count = 0;
    const char *const text = readme_behind("allocated peaks of");
    assert_int_equal(sscanf(text, " %lf runs of Megatron on B200 are within %lf %%", &rows, &within), 2);
    for (size_t i = 0; i < s->count; i++) {
        const redco_measured_run *const run = s->runs[i];
        const redco_prediction *const p = &s->predictions[i];
        if (!(p->step_s > 0.0) || (run->use & REDCO_USE_MEMORY) == 0 || run->mem_bytes == 0) { continue; }
        if (run->mem_kind != REDCO_MEM_ALLOCATED) { continue; }
        assert_true(count < 64);
        errors[count] = fabs((double)p->allocated_bytes / (double)run->mem_bytes - 1.0);
        assert_true(100.0 * errors[count++] <= within);
    }
    assert_int_equal(count, (size_t)rows);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y ? 1 : 0;
}

static void amsps_own_rows_meet_the_bar(void **state)
{
    struct shipped *const s = *state;
    double errors[32], sum = 0.0;
    size_t count = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (!has_speed(s, i) || strcmp(s->runs[i]->source, "amsp") != 0 || strcmp(s->runs[i]->framework, "amsp") != 0) {
            continue;
        }
        assert_true(count < 32);
        errors[count] = fabs(s->predictions[i].tokens_per_s_per_gpu / s->runs[i]->tokens_per_s_per_gpu - 1.0);
        sum += errors[count++];
    }
    assert_int_equal(count, 12);
    qsort(errors, count, sizeof errors[0], ascending);
    print_message("AMSP's engine: MAPE %.2f %%, median %.2f %%\n", 100.0 * sum / 12.0, 50.0 * (errors[5] + errors[6]));
    assert_true(sum / 12.0 <= 0.040);
    assert_true(0.5 * (errors[5] + errors[6]) <= 0.035);
}

/* Under one engine AMSP's degrees beat MiCS's by 1.30, 1.10 and 1.13 (arXiv 2311.00257, section VI). No constant is
 * fitted to MiCS's three rows (CALIBRATION.md). */
static void amsp_beats_mics_blindly(void **state)
{
    struct shipped *const s = *state;
    static const struct {
        const char *model;
        double ratio, bound;
    } wanted[] = {{"LLaMA-7B", 1.30, 0.12}, {"LLaMA-13B", 1.10, 0.12}, {"AMSP-30B", 1.13, 0.12}};
    for (size_t w = 0; w < 3; w++) {
        double amsp_s = 0.0, mics_s = 0.0;
        for (size_t i = 0; i < s->count; i++) {
            const redco_measured_run *const run = s->runs[i];
            if (run->n_gpus != 1024 || strcmp(run->model, wanted[w].model) != 0 ||
                strcmp(run->framework, "amsp") != 0) {
                continue;
            }
            assert_int_equal((run->use & REDCO_USE_HELD_OUT) != 0, strcmp(run->source, "amsp_engine") == 0);
            *(strcmp(run->source, "amsp") == 0 ? &amsp_s : &mics_s) = s->predictions[i].step_s;
        }
        assert_true(amsp_s > 0.0);
        print_message("%s: %.2f measured %.2f predicted\n", wanted[w].model, wanted[w].ratio, mics_s / amsp_s);
        assert_true(mics_s > amsp_s);
        assert_true(fabs(mics_s / amsp_s - wanted[w].ratio) <= wanted[w].bound);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_row_becomes_a_plan),
                                       cmocka_unit_test(a_row_has_ports_and_an_engine),
                                       cmocka_unit_test(rows_that_cannot_be_expressed_say_why)};
    const struct CMUnitTest bars[] = {
        cmocka_unit_test(errors_are_those_of_the_readme), cmocka_unit_test(memory_is_that_of_the_readme),
        cmocka_unit_test(allocated_peaks_are_within_the_readme), cmocka_unit_test(amsps_own_rows_meet_the_bar),
        cmocka_unit_test(amsp_beats_mics_blindly)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + cmocka_run_group_tests(bars, open_tables, close_tables);
}
