/* The tables that ship, as their README counts them, and the reader on sound, contradictory and hostile input. */
#include "traces/measured.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLES REDCO_TEST_DATA "/../../traces/data/"

static redco_measured *open_table(const char *file)
{
    char path[1024];
    redco_measured *table = NULL;
    redco_error err = {0};
    (void)snprintf(path, sizeof path, "%s%s.csv", TABLES, file);
    if (redco_measured_read(path, &table, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    return table;
}

static bool knows(const redco_measured_run *run, redco_measured_column column)
{
    return redco_measured_knows(run, column);
}

static bool is(double got, double wanted)
{
    return got > wanted * (1 - 1e-12) && got < wanted * (1 + 1e-12);
}

static void tables_hold_what_their_readme_counts(void **state)
{
    static const struct {
        const char *file;
        size_t rows, speed, memory, no;
    } wanted[] = {
        {"amsp", 23, 19, 0, 4},
        {"llm_foundry", 107, 105, 0, 2},
        {"hagemann_2311.05610", 242, 242, 242, 0},
        {"hagemann_2311.05610_oom", 281, 0, 261, 20},
        {"dgxc_benchmarking", 135, 135, 0, 0},
        {"megatron_bridge", 166, 53, 0, 113},
        {"torchao", 8, 8, 8, 0},
        {"gcp_gpu_recipes", 2, 2, 0, 0},
        {"aws_torchtitan", 1, 1, 1, 0},
        {"vocab_parallel_2411.05288", 8, 5, 5, 3},
        {"simumax_b200", 31, 31, 31, 0},
        {"nemo", 23, 3, 0, 20},
        {"korthikanti_2022", 10, 10, 0, 0},
        {"megatron_a100_narayanan_2021", 11, 11, 0, 0},
        {"megatron_h100", 17, 0, 0, 17},
        {"llama3_paper", 3, 0, 0, 3},
        {"vtrain_multi", 109, 109, 0, 0},
        {"vtrain_single", 730, 730, 0, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        const redco_measured_run *runs = NULL;
        redco_measured *table = open_table(wanted[i].file);
        const size_t count = redco_measured_runs(table, &runs);
        size_t speed = 0, memory = 0, no = 0;
        for (size_t k = 0; k < count; k++) {
            const redco_measured_run *const run = &runs[k];
            assert_string_equal(run->source, wanted[i].file);
            assert_true(run->line >= k + 2); /* no cell holds a line end */
            speed += (run->use & REDCO_USE_SPEED) != 0;
            memory += (run->use & REDCO_USE_MEMORY) != 0;
            no += run->use == REDCO_USE_NOTHING;
            if (run->use == REDCO_USE_NOTHING) {
                assert_string_equal(redco_measured_skip(run), run->no_reason);
            } else if (redco_measured_skip(run) != NULL) {
                fail_msg("%s:%u: %s", wanted[i].file, run->line, redco_measured_skip(run));
            }
        }
        assert_int_equal(count, wanted[i].rows);
        assert_int_equal(runs[count - 1].line, count + 1);
        assert_int_equal(speed, wanted[i].speed);
        assert_int_equal(memory, wanted[i].memory);
        assert_int_equal(no, wanted[i].no);
        redco_measured_free(table);
    }
}

/* Line 2 of amsp.csv, read by eye. */
static void amsp_row_is_read_cell_by_cell(void **state)
{
    const redco_measured_run *r = NULL;
    redco_measured *table = open_table("amsp");
    (void)state;
    assert_int_equal(redco_measured_runs(table, &r), 23);
    assert_int_equal(r->line, 2);
    assert_string_equal(r->location, "Table V");
    assert_int_equal(r->use, REDCO_USE_SPEED);
    assert_string_equal(r->no_reason, "");
    assert_string_equal(r->fault, "");
    assert_string_equal(r->model, "LLaMA-7B");
    assert_string_equal(r->gpu, "A800-SXM4-80GB");
    assert_string_equal(r->framework, "amsp");
    assert_string_equal(r->notes, "");
    const uint32_t dims[] = {r->layers, r->hidden, r->ffn_hidden, r->heads, r->kv_heads, r->head_dim, r->seq_len};
    const uint32_t wanted_dims[] = {32, 4096, 11008, 32, 32, 128, 4096};
    assert_memory_equal(dims, wanted_dims, sizeof dims);
    assert_int_equal(r->vocab, 32000);
    assert_true(r->ffn_gated && !r->tied_embeddings && knows(r, REDCO_COLUMN_TIED_EMBEDDINGS));
    assert_true(r->experts == 0 && knows(r, REDCO_COLUMN_EXPERTS));
    const uint32_t sizes[] = {r->n_gpus, r->gpus_per_node, r->dp, r->tp, r->pp, r->virtual_pp, r->cp, r->ep};
    const uint32_t wanted_sizes[] = {64, 8, 64, 1, 1, 1, 1, 1};
    assert_memory_equal(sizes, wanted_sizes, sizeof sizes);
    assert_true(is(r->node_network_bytes_per_s, 100e9));
    assert_int_equal(r->software, REDCO_SOFTWARE_EAGER);
    assert_true(redco_shards_equal(r->shards, (redco_shards){{1, 1}, {1, 1}, {8, 1}}));
    assert_true(redco_mesh_ranks(r->p_secondary) == 0 && !knows(r, REDCO_COLUMN_P_SHARD_SECONDARY));
    assert_int_equal(r->scheme, REDCO_MEASURED_SCHEME_INTER);
    assert_true(!r->sequence_parallel && r->fused_norm && !r->compiled && !r->logits_gathered);
    assert_int_equal(r->micro_batch, 1);
    assert_int_equal(r->grad_accum, 1);
    assert_int_equal(r->global_batch, 64);
    assert_int_equal(r->recompute, REDCO_MEASURED_RECOMPUTE_NONE);
    assert_int_equal(r->precision, REDCO_MEASURED_BF16);
    assert_int_equal(r->grad_reduce_bytes, 2);
    assert_int_equal(r->attention, REDCO_MEASURED_FLASH2);
    assert_int_equal(r->overlap, REDCO_OVERLAP_ALL);
    assert_int_equal(r->outcome, REDCO_OUTCOME_OK);
    assert_true(is(r->tokens_per_s_per_gpu, 3525) && is(r->printed_mfu_ratio, 0.57));
    assert_true(r->step_s == 0 && r->mem_bytes == 0 && r->printed_flops_per_s == 0);
    assert_int_equal(r->inferred[0], (uint64_t)1 << REDCO_COLUMN_FUSED_NORM);
    assert_int_equal(r->inferred[1], 0);
    assert_int_equal(r[20].line, 22); /* ZeRO++, 1024 GPUs */
    assert_true(redco_mesh_equal(r[20].shards.parameters, (redco_mesh){8, 128}));
    assert_true(redco_mesh_equal(r[20].p_secondary, (redco_mesh){8, 1}));
    assert_string_equal(redco_measured_skip(&r[20]), "MFU has one digit, bound by message count");
    redco_measured_free(table);
}

/* Line 2 of dgxc_benchmarking.csv: quotes, a list in inferred, pipeline and context parallel. */
static void dgxc_row_is_read_cell_by_cell(void **state)
{
    const redco_measured_run *r = NULL;
    redco_measured *table = open_table("dgxc_benchmarking");
    (void)state;
    assert_int_equal(redco_measured_runs(table, &r), 135);
    assert_string_equal(r->location, "llama3.1/README_405b.md@v24.11.1 L52 BF16");
    assert_string_equal(r->notes,
                        "release v24.11.1; recipe uses 16 KV groups, the public 405B 8; PROXY with 21 layers; "
                        "step time printed as \"8.7  5\"");
    const uint32_t sizes[] = {r->n_gpus, r->dp, r->tp, r->pp, r->virtual_pp, r->cp, r->kv_heads};
    const uint32_t wanted_sizes[] = {96, 2, 8, 3, 7, 2, 16};
    assert_memory_equal(sizes, wanted_sizes, sizeof sizes);
    assert_int_equal(r->software, REDCO_SOFTWARE_TE_XLA);
    assert_int_equal(r->scheme, REDCO_MEASURED_SCHEME_INTRA);
    assert_int_equal(r->attention, REDCO_MEASURED_FLASH3);
    assert_true(redco_shards_equal(r->shards, (redco_shards){{1, 1}, {1, 1}, {1, 2}}));
    assert_int_equal(r->overlap, REDCO_OVERLAP_AR | REDCO_OVERLAP_BC | REDCO_OVERLAP_TP);
    assert_true(r->sequence_parallel && is(r->step_s, 8.75) && is(r->tokens_per_s_per_gpu, 1228.8));
    assert_true(redco_measured_is_inferred(r, REDCO_COLUMN_ATTENTION));
    assert_true(redco_measured_is_inferred(r, REDCO_COLUMN_NODE_NETWORK_GBPS));
    assert_false(redco_measured_is_inferred(r, REDCO_COLUMN_OVERLAP));
    redco_measured_free(table);
}

/* The first out-of-memory run on 13B (trial 132173) and the first run that failed otherwise. */
static void failed_runs_tell_how(void **state)
{
    const redco_measured_run *runs = NULL;
    redco_measured *table = open_table("hagemann_2311.05610_oom");
    const size_t count = redco_measured_runs(table, &runs);
    (void)state;
    assert_int_equal(runs[0].use, REDCO_USE_MEMORY);
    assert_int_equal(runs[0].outcome, REDCO_OUTCOME_OOM);
    assert_true(runs[0].tokens_per_s_per_gpu == 0 && runs[0].logits_gathered);
    size_t otherwise = 0;
    for (size_t i = 0; i < count; i++) {
        otherwise += runs[i].outcome == REDCO_OUTCOME_UNKNOWN;
        assert_int_equal(runs[i].outcome == REDCO_OUTCOME_UNKNOWN, redco_measured_skip(&runs[i]) != NULL);
    }
    assert_int_equal(otherwise, 20);
    redco_measured_free(table);
}

static void groups_are_source_model_gpu_and_number(void **state)
{
    const char text[] = "source,use,model,seq_len,gpu,n_gpus\n"
                        "b,speed,m,1,g,8\na,speed,m,1,g,8\nb,speed,m,2,g,8\nb,speed,m,1,g,16\nb,speed,m,1,h,8\n"
                        "b,speed,n,1,g,8\na,speed,m,1,g,8\n";
    const size_t wanted[] = {0, 1, 0, 2, 3, 4, 1}; /* seq_len does not part them */
    const redco_measured_run *runs = NULL;
    const redco_measured_run *picked[7];
    redco_measured *table = NULL;
    size_t groups[7];
    (void)state;
    assert_int_equal(redco_measured_parse(text, strlen(text), "t.csv", &table, NULL), REDCO_OK);
    assert_int_equal(redco_measured_runs(table, &runs), 7);
    for (size_t i = 0; i < 7; i++) { picked[i] = &runs[i]; }
    assert_int_equal(redco_measured_groups(picked, 7, groups, NULL), REDCO_OK);
    assert_memory_equal(groups, wanted, sizeof wanted);
    redco_measured_free(table);
}

/* A sound row, of which a test changes one cell. */
static const char *const sound[][2] = {
    {"source", "s"},
    {"location", "here"},
    {"use", "speed+memory"},
    {"model", "m"},
    {"layers", "32"},
    {"hidden", "4096"},
    {"ffn_hidden", "11008"},
    {"ffn_gated", "1"},
    {"heads", "32"},
    {"kv_heads", "8"},
    {"vocab", "32000"},
    {"tied_embeddings", "0"},
    {"seq_len", "2048"},
    {"gpu", "g"},
    {"n_gpus", "64"},
    {"gpus_per_node", "8"},
    {"node_network_GBps", "100"},
    {"software", "eager"},
    {"dp", "8"},
    {"tp", "2"},
    {"pp", "2"},
    {"virtual_pp", "1"},
    {"cp", "2"},
    {"p_shard", "1x1"},
    {"g_shard", "2x1"},
    {"os_shard", "2x4"},
    {"micro_batch", "2"},
    {"grad_accum", "4"},
    {"global_batch", "64"},
    {"recompute", "none"},
    {"precision", "bf16"},
    {"outcome", "ok"},
    {"tokens_per_s_per_gpu", "1000"},
    {"step_s", "2.048"},
    {"mem_GB", "60.5"},
    {"inferred", ""},
    {"p_shard_secondary", ""},
    {"overlap", "none"},
    {"printed_mfu", "0.5"},
    {"grad_reduce_bytes", "4"},
    {"experts", "0"},
};
enum { CELLS = sizeof sound / sizeof sound[0] };

/* Header and one row with @p column changed to @p value; two columns where joined by '|'. */
static redco_status parse_changed(const char *change, const char *value, redco_measured **table_out, redco_error *err)
{
    char text[4096] = "";
    size_t used = 0;
    const char *const second = strchr(change, '|');
    for (size_t i = 0; i < CELLS; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i > 0 ? "," : "", sound[i][0]);
    }
    used += (size_t)snprintf(text + used, sizeof text - used, "\n");
    for (size_t i = 0; i < CELLS; i++) {
        const size_t length = strlen(sound[i][0]);
        const bool is_first =
            strncmp(change, sound[i][0], length) == 0 && (change[length] == '\0' || change[length] == '|');
        const bool is_second = second != NULL && strcmp(second + 1, sound[i][0]) == 0;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i > 0 ? "," : "",
                                 is_first    ? value
                                 : is_second ? ""
                                             : sound[i][1]);
    }
    assert_true(used < sizeof text - 1);
    return redco_measured_parse(text, used, "t.csv", table_out, err);
}

static void sound_row_is_usable(void **state)
{
    const redco_measured_run *run = NULL;
    redco_measured *table = NULL;
    (void)state;
    assert_int_equal(parse_changed("", "", &table, NULL), REDCO_OK);
    assert_int_equal(redco_measured_runs(table, &run), 1);
    assert_null(redco_measured_skip(run));
    assert_int_equal(run->use, REDCO_USE_SPEED | REDCO_USE_MEMORY);
    assert_int_equal(run->mem_bytes, 60500000000);
    assert_true(run->overlap == 0 && knows(run, REDCO_COLUMN_OVERLAP));
    redco_measured_free(table);
    assert_int_equal(parse_changed("use", "speed+held_out", &table, NULL), REDCO_OK);
    (void)redco_measured_runs(table, &run);
    assert_int_equal(run->use, REDCO_USE_SPEED | REDCO_USE_HELD_OUT);
    assert_null(redco_measured_skip(run));
    redco_measured_free(table);
    /* 64 sequences of 2048 in 2.048 s on 64 GPUs are 1000 tokens/s each */
    assert_int_equal(parse_changed("tokens_per_s_per_gpu", "", &table, NULL), REDCO_OK);
    (void)redco_measured_runs(table, &run);
    assert_true(is(run->tokens_per_s_per_gpu, 1000.0) && !knows(run, REDCO_COLUMN_TOKENS_PER_S_PER_GPU));
    assert_null(redco_measured_skip(run));
    redco_measured_free(table);
}

static void rows_that_cannot_be_used_say_why(void **state)
{
    static const struct {
        const char *column, *value, *reason;
    } rows[] = {
        {"use", "no: outlier", "outlier"},
        {"layers", "", "layers is unknown"},
        {"recompute", "", "recompute is unknown"},
        {"virtual_pp", "", "virtual_pp is unknown"},
        {"node_network_GBps", "", "node_network_GBps is unknown"},
        {"p_shard", "", "p_shard is unknown"},
        {"dp", "4", "dp x tp x pp x cp = 4 x 2 x 2 x 2 is not n_gpus = 64"},
        {"dp", "4294967295", "dp x tp x pp x cp = 4294967295 x 2 x 2 x 2 is not n_gpus = 64"},
        {"gpus_per_node", "6", "n_gpus = 64 is not a whole number of nodes of 6"},
        {"grad_accum", "18446744073709551615",
         "micro_batch x grad_accum x dp = 2 x 18446744073709551615 x 8 is not global_batch = 64"},
        {"kv_heads", "5", "kv_heads = 5 does not divide heads = 32"},
        {"heads", "33", "kv_heads = 8 does not divide heads = 33"},
        {"layers", "1", "pp = 2 is more than layers = 1"},
        {"os_shard", "2x3", "os_shard = 2x3 does not divide dp = 8"},
        {"os_shard", "8x1", "os_shard = 8x1, but a node holds 2 data-parallel rank(s)"},
        {"p_shard_secondary", "4x1", "p_shard_secondary = 4x1, but a node holds 2 data-parallel rank(s)"},
        {"p_shard", "2x2", "p_shard, g_shard, os_shard = 2x2, 2x1, 2x4 must not shrink"},
        {"tokens_per_s_per_gpu", "1100", "tokens_per_s_per_gpu is 1100, but step_s gives 1000"},
        {"tokens_per_s_per_gpu|step_s", "", "use says speed, but tokens_per_s_per_gpu and step_s are unknown"},
        {"mem_GB|outcome", "", "use says memory, but mem_GB and outcome are unknown"},
        {"outcome", "oom", "outcome is oom, but the run has a throughput"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const redco_measured_run *run = NULL;
        redco_measured *table = NULL;
        redco_error err = {0};
        if (parse_changed(rows[i].column, rows[i].value, &table, &err) != REDCO_OK) {
            fail_msg("%s: %s", err.place, err.text);
        }
        (void)redco_measured_runs(table, &run);
        assert_non_null(redco_measured_skip(run));
        assert_string_equal(redco_measured_skip(run), rows[i].reason);
        redco_measured_free(table);
    }
}

static void cells_that_cannot_be_read_are_errors(void **state)
{
    static const struct {
        const char *column, *value, *text;
    } rows[] = {
        {"use", "fast",
         "\"fast\" is not speed, memory, speed+memory, one of these with +held_out or +odd, or no: with a reason"},
        {"use", "held_out", "is not speed, memory"},
        {"use", "no", "\"no\" is not speed"},
        {"use", "no: ", "\"no: \" is not complete: a reason is needed behind \"no:\""},
        {"use", "speed+speed", "is not speed, memory"},
        {"use", "", "cannot be empty"},
        {"model", "", "cannot be empty"},
        {"layers", "0", "\"0\" is not a whole number of 1 or more in digits"},
        {"layers", "-3", "is not a whole number"},
        {"layers", "3.5", "is not a whole number"},
        {"layers", "1e3", "is not a whole number"},
        {"layers", " 3", "is not a whole number"},
        {"layers", "4294967296", "is not a whole number"},
        {"grad_accum", "18446744073709551616", "is not a whole number"},
        {"grad_accum", "99999999999999999999999", "is not a whole number"},
        {"experts", "-1", "\"-1\" is not a whole number in digits"},
        {"ffn_gated", "yes", "\"yes\" is not 0 or 1"},
        {"ffn_gated", "10", "\"10\" is not 0 or 1"},
        {"software", "torch", "\"torch\" is not eager, megatron or te_xla"},
        {"recompute", "some", "\"some\" is not none, selective, half, full or modules"},
        {"precision", "fp32", "\"fp32\" is not bf16, fp16, fp8, mxfp8 or nvfp4"},
        {"grad_reduce_bytes", "3", "\"3\" is not 2 or 4"},
        {"outcome", "OK", "\"OK\" is not ok or oom"},
        {"overlap", "ar+dp", "\"ar+dp\" is not none, or joined by +: ag_rs, ar, bc or tp"},
        {"overlap", "ar+", "is not none, or joined by +"},
        {"overlap", "none+ar", "is not none, or joined by +"},
        {"p_shard", "8", "\"8\" is not a mesh AxB"},
        {"p_shard", "8x", "is not a mesh AxB"},
        {"p_shard", "0x1", "is not a mesh AxB"},
        {"p_shard", "2x2x2", "is not a mesh AxB"},
        {"p_shard", "4294967296x1", "is not a mesh AxB"},
        {"step_s", "nan", "\"nan\" is not a decimal number above 0"},
        {"step_s", "inf", "is not a decimal number"},
        {"step_s", "-1", "is not a decimal number"},
        {"step_s", "0", "is not a decimal number"},
        {"step_s", "0x10", "is not a decimal number"},
        {"step_s", "1e999", "is not a decimal number"},
        {"step_s", "1e-999", "is not a decimal number"},
        {"step_s", "1e-300", "is not a decimal number"},
        {"step_s", "1.2.3", "is not a decimal number"},
        {"step_s", "\"1,5\"", "is not a decimal number"},
        {"mem_GB", "1e12", "is not a decimal number"},
        {"printed_mfu", "57", "\"57\" is not a fraction of at most 1"},
        {"inferred", "dp;layer", "there is no \"layer\"; did you mean \"layers\"?"},
        {"inferred", "dp;", "there is no \"\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char place[64];
        redco_measured *table = NULL;
        redco_error err = {0};
        (void)snprintf(place, sizeof place, "t.csv:2:%s", rows[i].column);
        assert_int_equal(parse_changed(rows[i].column, rows[i].value, &table, &err), REDCO_EVALUE);
        assert_null(table);
        assert_string_equal(err.place, place);
        if (strstr(err.text, rows[i].text) == NULL) { fail_msg("%s, not: %s", err.text, rows[i].text); }
    }
}

#define IDS "source,use,model,seq_len,gpu,n_gpus"

static void tables_that_are_no_tables_are_errors(void **state)
{
    static const struct {
        const char *text;
        size_t size; /* 0: strlen */
        const char *place, *what;
    } rows[] = {
        {"", 0, "t.csv", "is empty; a header line is needed"},
        {"\n\n", 0, "t.csv", "is empty"},
        {"source,use,modle,seq_len,gpu,n_gpus\n", 0, "t.csv:1",
         "there is no column \"modle\"; did you mean \"model\"?"},
        {"\nsource,use,model,seq_len,gpu\n", 0, "t.csv:2", "column n_gpus is missing"},
        {IDS ",tp,tp\n", 0, "t.csv:1", "column tp stands twice"},
        {IDS "\na,speed,m,1,g\n", 0, "t.csv:2", "has 5 cells, the header 6"},
        {IDS "\na,speed,m,1,g,8,9\n", 0, "t.csv:2", "has 7 cells, the header 6"},
        {IDS "\na,speed,m,1,g,8,9,10\n", 0, "t.csv:2", "has more than 7 cells"},
        {IDS "\na,speed,\"m,1,g,8\n", 0, "t.csv:2:9", "this quote is never closed"},
        {IDS "\na,speed,\"m\"x,1,g,8\n", 0, "t.csv:2:12", "text behind a closing quote"},
        {IDS "\na,speed,\"m\nn\"x,1,g,8\n", 0, "t.csv:3:3", "text behind a closing quote"},
        {IDS "\na,speed,5\" disk,1,g,8\n", 0, "t.csv:2:10", "a quote inside a bare cell"},
        {IDS "\na,speed,m\x1b[2J,1,g,8\n", 0, "t.csv:2:10", "a control character"},
        {IDS "\na,speed,m,1,g,8\r", 0, "t.csv:2:16", "a control character"},
        {IDS "\na,\0peed,m,1,g,8\n", sizeof IDS + 16, "t.csv:2:3", "a 0 byte: this is not a text file"},
        {IDS "\na,speed,m\xff,1,g,8\n", 0, "t.csv:2:10", "not UTF-8 text"},
        {IDS "\na,speed,\xc0\xaf,1,g,8\n", 0, "t.csv:2:9", "not UTF-8 text"},
        {IDS "\na,speed,\xed\xa0\x80,1,g,8\n", 0, "t.csv:2:9", "not UTF-8 text"},
        {IDS "\na,speed,m,1,g,\xf0\x9f\x98", 0, "t.csv:2:15", "not UTF-8 text"},
        {IDS "\n\na,speed,m,0,g,8\n", 0, "t.csv:3:seq_len", "\"0\" is not a whole number of 1 or more"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redco_measured *table = NULL;
        redco_error err = {0};
        const size_t size = rows[i].size > 0 ? rows[i].size : strlen(rows[i].text);
        assert_int_equal(redco_measured_parse(rows[i].text, size, "t.csv", &table, &err), REDCO_EVALUE);
        assert_null(table);
        assert_string_equal(err.place, rows[i].place);
        if (strstr(err.text, rows[i].what) == NULL) { fail_msg("%s, not: %s", err.text, rows[i].what); }
    }
    redco_measured *table = NULL;
    redco_error err = {0};
    assert_int_equal(redco_measured_read(REDCO_TEST_DATA "/none.csv", &table, &err), REDCO_EIO);
    redco_measured_free(NULL);
}

/* Byte-order mark, CR LF, columns in another order, quotes, a cell over two lines, an empty line, no last line end. */
static void csv_is_read_as_the_standard_has_it(void **state)
{
    const char text[] = "\xef\xbb\xbfn_gpus,gpu,notes,seq_len,model,use,source\r\n"
                        "8,\"g\",\"one\r\n\"\"two\"\", three\",1,m,speed,s\r\n"
                        "\r\n"
                        "16,\"g,h\",\"\",2,\xc3\xa9t\xc3\xa9,no: because,s";
    const redco_measured_run *runs = NULL;
    redco_measured *table = NULL;
    redco_error err = {0};
    (void)state;
    if (redco_measured_parse(text, strlen(text), "t.csv", &table, &err) != REDCO_OK) { fail_msg("%s", err.text); }
    assert_int_equal(redco_measured_runs(table, &runs), 2);
    assert_int_equal(runs[0].line, 2);
    assert_string_equal(runs[0].notes, "one\r\n\"two\", three");
    assert_int_equal(runs[0].n_gpus, 8);
    assert_string_equal(runs[0].source, "s");
    assert_int_equal(runs[1].line, 5);
    assert_string_equal(runs[1].gpu, "g,h");
    assert_string_equal(runs[1].model, "\xc3\xa9t\xc3\xa9");
    assert_string_equal(runs[1].location, "");
    assert_false(knows(&runs[1], REDCO_COLUMN_NOTES));
    assert_string_equal(redco_measured_skip(&runs[1]), "because");
    redco_measured_free(table);
}

static void too_many_rows_are_refused(void **state)
{
    static const char row[] = "s,speed,m,1,g,8\n";
    enum { ROWS = 100001 };
    const size_t header = strlen(IDS "\n");
    const size_t size = header + ROWS * (sizeof row - 1);
    char *text = malloc(size);
    redco_measured *table = NULL;
    redco_error err = {0};
    (void)state;
    assert_non_null(text);
    memcpy(text, IDS "\n", header);
    for (size_t i = 0; i < ROWS; i++) { memcpy(text + header + i * (sizeof row - 1), row, sizeof row - 1); }
    assert_int_equal(redco_measured_parse(text, size, "t.csv", &table, &err), REDCO_EVALUE);
    assert_string_equal(err.text, "has more than 100000 rows, the most that are read");
    assert_int_equal(redco_measured_parse(text, size - (sizeof row - 1), "t.csv", &table, NULL), REDCO_OK);
    redco_measured_free(table);
    free(text);
}

/* Columns of mixtures lie behind the 64th: bits of a second word. */
static void mixtures_have_columns_of_their_own(void **state)
{
    static const char text[] =
        "source,use,model,layers,hidden,ffn_gated,heads,kv_heads,vocab,tied_embeddings,experts,seq_len,gpu,n_gpus,"
        "gpus_per_node,software,dp,tp,pp,cp,ep,p_shard,g_shard,os_shard,micro_batch,recompute,grad_accum,global_batch,"
        "precision,tokens_per_s_per_gpu,etp,edp,topk,expert_ffn,moe_layers,recompute_modules,dispatcher,release,"
        "inferred\n"
        "s,speed,m,2,8,1,2,2,16,0,4,64,A100-SXM4-80GB,8,8,te_xla,8,1,1,1,4,1x1,1x1,8x1,1,modules,1,8,bf16,1,1,2,2,3,2,"
        "layernorm+moe_act,alltoall,26.02,release;etp\n"
        "s,speed,m,2,8,1,2,2,16,0,4,64,A100-SXM4-80GB,8,8,te_xla,8,1,1,1,4,1x1,1x1,8x1,1,none,1,8,bf16,1,1,4,2,3,2,,,,"
        "\n"
        "s,speed,m,2,8,1,2,2,16,0,4,64,A100-SXM4-80GB,8,8,te_xla,8,1,1,1,4,1x1,1x1,8x1,1,none,1,8,bf16,1,1,2,5,3,2,,,,"
        "\n"
        "s,speed,m,2,8,1,2,2,16,0,4,64,A100-SXM4-80GB,8,8,te_xla,8,1,1,1,4,1x1,1x1,8x1,1,none,1,8,bf16,1,1,2,,3,2,,,,"
        "\n";
    const redco_measured_run *runs = NULL;
    redco_measured *table = NULL;
    redco_error err = {0};
    (void)state;
    if (redco_measured_parse(text, sizeof text - 1, "m.csv", &table, &err) != REDCO_OK) {
        fail_msg("%s: %s", err.place, err.text);
    }
    assert_int_equal(redco_measured_runs(table, &runs), 4);
    assert_null(redco_measured_skip(&runs[0]));
    assert_int_equal(runs[0].etp * 1000 + runs[0].edp * 100 + runs[0].topk * 10 + runs[0].expert_ffn, 1223);
    assert_int_equal(runs[0].recompute, REDCO_MEASURED_RECOMPUTE_MODULES);
    assert_int_equal(runs[0].recompute_modules, REDCO_RECOMPUTE_LAYERNORM | REDCO_RECOMPUTE_MOE_ACT);
    assert_string_equal(runs[0].dispatcher, "alltoall");
    assert_string_equal(runs[0].release, "26.02");
    assert_string_equal(runs[1].release, "");
    assert_true(knows(&runs[0], REDCO_COLUMN_RELEASE) && !knows(&runs[1], REDCO_COLUMN_RELEASE));
    assert_true(redco_measured_is_inferred(&runs[0], REDCO_COLUMN_RELEASE));
    assert_true(redco_measured_is_inferred(&runs[0], REDCO_COLUMN_ETP));
    assert_false(redco_measured_is_inferred(&runs[0], REDCO_COLUMN_EDP));
    assert_string_equal(redco_measured_skip(&runs[1]), "etp x ep x edp x pp = 1 x 4 x 4 x 1 is not n_gpus = 8");
    assert_string_equal(redco_measured_skip(&runs[2]), "topk = 5 is more than experts = 4");
    assert_string_equal(redco_measured_skip(&runs[3]), "topk is unknown");
    redco_measured_free(table);
    static const char whole[] =
        "source,use,model,seq_len,gpu,n_gpus,recompute_modules\ns,speed,m,1,A100-SXM4-80GB,1,full\n";
    assert_int_equal(redco_measured_parse(whole, sizeof whole - 1, "m.csv", &table, &err), REDCO_EVALUE);
    assert_string_equal(err.place, "m.csv:2:recompute_modules");
    assert_non_null(strstr(err.text, "\"full\" is not modules joined by +: core_attn, "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_hold_what_their_readme_counts),
        cmocka_unit_test(amsp_row_is_read_cell_by_cell),
        cmocka_unit_test(dgxc_row_is_read_cell_by_cell),
        cmocka_unit_test(mixtures_have_columns_of_their_own),
        cmocka_unit_test(failed_runs_tell_how),
        cmocka_unit_test(groups_are_source_model_gpu_and_number),
        cmocka_unit_test(sound_row_is_usable),
        cmocka_unit_test(rows_that_cannot_be_used_say_why),
        cmocka_unit_test(cells_that_cannot_be_read_are_errors),
        cmocka_unit_test(tables_that_are_no_tables_are_errors),
        cmocka_unit_test(csv_is_read_as_the_standard_has_it),
        cmocka_unit_test(too_many_rows_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
