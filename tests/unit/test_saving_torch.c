/* Bytes that PyTorch keeps of one block for backward, counted by torch itself (tests/saved_tensors.py wrote
 * data/saving/torch.csv), against the rules of PyTorch: tensor by tensor, equal but for the differences that
 * data/saving/differences.csv names. */
#include "costmodel/closed_form/memory_saved.h"
#include "costmodel/models/model.h"
#include "tests/unit/recomputed.h"
#include "topology/base/file.h"
#include "traces/csv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BATCH = 2, LENGTH = 32, COLUMNS = 6, RUNS = 40, NO_SITE = REDCO_SITE_COUNT };

/* Both tables begin with these. */
enum { MODEL, CODE, ATTENTION, TENSOR, BYTES, WHY };

/* One model under one code: bytes a token of each site, and of tensors that are none. */
struct run {
    char *cells[COLUMNS];
    int64_t torch[REDCO_SITE_COUNT + 1], differs[REDCO_SITE_COUNT + 1];
};

struct tables {
    char *torch_text, *differences_text;
    struct run runs[RUNS];
    size_t count;
};

static int site_of(const char *word)
{
    int site = 0;
    while (site < REDCO_SITE_COUNT && strcmp(redco_site_words[site], word) != 0) { site++; }
    if (site == REDCO_SITE_COUNT && word[0] != '\0') { fail_msg("%s is no tensor of layer_work.h", word); }
    return site;
}

static struct run *find_run(struct tables *tables, char *const *cells)
{
    for (size_t r = 0; r < tables->count; r++) {
        struct run *const run = &tables->runs[r];
        bool same = true;
        for (int c = MODEL; c <= ATTENTION; c++) { same = same && strcmp(run->cells[c], cells[c]) == 0; }
        if (same) { return run; }
    }
    return NULL;
}

/* @param add  called with each record behind the line of provenance and the names of the columns */
static char *read_table(const char *path, struct tables *tables, void (*add)(struct tables *, char *const *))
{
    char *text = NULL, *cells[COLUMNS];
    size_t size = 0, count = 0;
    uint32_t line = 0;
    redcoi_csv csv;
    assert_int_equal(redco_file_read(path, 1 << 20, &text, &size, NULL), REDCO_OK);
    assert_int_equal(redcoi_csv_start(text, size, path, &csv, NULL), REDCO_OK);
    for (uint32_t records = 0;; records++) {
        assert_int_equal(redcoi_csv_next(&csv, cells, COLUMNS, &count, &line, NULL), REDCO_OK);
        if (count == 0) { return text; }
        if (records < 2) { continue; }
        assert_int_equal(count, COLUMNS);
        add(tables, cells);
    }
}

static void add_counted(struct tables *tables, char *const *cells)
{
    struct run *run = find_run(tables, cells);
    if (run == NULL) {
        assert_true(tables->count < RUNS);
        run = &tables->runs[tables->count++];
        memcpy(run->cells, cells, sizeof run->cells);
    }
    run->torch[site_of(cells[TENSOR])] += strtoll(cells[BYTES], NULL, 10);
}

static void add_difference(struct tables *tables, char *const *cells)
{
    struct run *const run = find_run(tables, cells);
    if (run == NULL) {
        fail_msg("no row of torch.csv is of %s, %s, %s", cells[MODEL], cells[CODE], cells[ATTENTION]);
        return;
    }
    assert_true(cells[WHY][0] != '\0');
    run->differs[site_of(cells[TENSOR])] += strtoll(cells[BYTES], NULL, 10);
}

/* Scores that are written: softmax of 32 bits is of several kernels; GPT-2 and T5 take it in the width of the rest. */
static redco_attention written_scores(const redco_model *model)
{
    const char *const type = redco_model_type(model);
    return strcmp(type, "gpt2") == 0 || strcmp(type, "t5") == 0 ? REDCO_ATTENTION_FUSED : REDCO_ATTENTION_UNFUSED;
}

static uint32_t last_block(const redco_model *model)
{
    const redco_layer_class *classes = NULL;
    uint32_t c = (uint32_t)redco_model_classes(model, &classes) - 1;
    while (!redco_class_is_block(classes[c].kind)) { c--; }
    return c;
}

static void check_run(const struct run *run)
{
    char path[256];
    redco_model *model = NULL;
    redco_shape shape = {.seq_len = LENGTH, .micro_batch = BATCH, .tp = 1, .cp = 1, .precision = REDCO_BF16};
    (void)snprintf(path, sizeof path, "%s/saving/%s.json", REDCO_TEST_DATA, run->cells[MODEL]);
    assert_int_equal(redco_model_read(path, &model, NULL), REDCO_OK);
    const bool rms = redco_model_get_dims(model)->norm == REDCO_NORM_RMS;
    shape.engine.memory = REDCO_MEMORY_PYTORCH;
    shape.engine.compiled = strstr(run->cells[CODE], "compiled") != NULL;
    shape.engine.plain_norm = rms && strcmp(run->cells[CODE], "transformers") == 0;
    if (strcmp(run->cells[ATTENTION], "eager") == 0) { shape.engine.attention = written_scores(model); }

    const bool selective = strstr(run->cells[CODE], "selective") != NULL;
    shape.engine.partial_recompute = selective;
    const redco_saver saver = redco_saver_of(&shape.engine, selective ? REDCO_RECOMPUTE_FULL : REDCO_RECOMPUTE_NONE);
    const redco_saving_set *const set = redco_saving_set_of(saver);
    const uint32_t block = last_block(model);
    const redco_layer_work *const work = redco_model_work(model, block);
    uint64_t sizes[REDCO_AXIS_COUNT];
    const redco_saving_case rank = redco_saving_case_of(model, &shape, sizes);
    int64_t rules[REDCO_SITE_COUNT + 1] = {0}, sum = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        rules[set->rules[i].site] +=
            (int64_t)redco_saving_rule_bytes(&set->rules[i], work->sites, work->site_count, &rank);
    }
    for (int s = 0; s <= NO_SITE; s++) {
        const int64_t wanted = (run->torch[s] - run->differs[s]) * BATCH * LENGTH;
        sum += wanted;
        if (rules[s] == wanted) { continue; }
        fail_msg("%s, %s, %s: %s: by rules %lld bytes a token, counted %lld of which differ %lld", run->cells[MODEL],
                 run->cells[CODE], run->cells[ATTENTION], s < NO_SITE ? redco_site_words[s] : "no site",
                 (long long)(rules[s] / (BATCH * LENGTH)), (long long)run->torch[s], (long long)run->differs[s]);
    }
    assert_int_equal(redco_saved_of(model, block, &shape, saver, &not_recomputed).kept, sum);
    redco_model_free(model);
}

static void rules_are_what_torch_keeps(void **state)
{
    static struct tables tables;
    (void)state;
    tables.torch_text = read_table(REDCO_TEST_DATA "/saving/torch.csv", &tables, add_counted);
    tables.differences_text = read_table(REDCO_TEST_DATA "/saving/differences.csv", &tables, add_difference);
    assert_int_equal(tables.count, 4 + 8 * 2);
    for (size_t r = 0; r < tables.count; r++) { check_run(&tables.runs[r]); }
    free(tables.torch_text);
    free(tables.differences_text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rules_are_what_torch_keeps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
