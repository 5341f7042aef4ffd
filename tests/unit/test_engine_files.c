/* Engines as data against the runs that were measured with them: costmodel/presets/engines and traces/data. A file must
 * offer whatever a run in use did, since the run is priced as that engine; where most runs differ from a default, that
 * is printed. */
#include "topology/base/json.h"
#include "traces/measured.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOT REDCO_TEST_DATA "/../../"
#define ENGINES ROOT "costmodel/presets/engines/"
#define TABLES ROOT "traces/data/"

enum { ENGINES_WANTED = 23, TABLES_MAX = 64, GPUS_MAX = 16 };

struct fixture {
    redco_json *engines[ENGINES_WANTED];
    char names[ENGINES_WANTED][32]; /* files without .json */
    size_t engine_count;
    redco_measured *tables[TABLES_MAX];
    size_t table_count;
};

typedef void (*visit_run)(const redco_measured_run *run, void *context);

static void for_each_run(const struct fixture *f, visit_run visit, void *context)
{
    for (size_t t = 0; t < f->table_count; t++) {
        const redco_measured_run *runs = NULL;
        const size_t count = redco_measured_runs(f->tables[t], &runs);
        for (size_t i = 0; i < count; i++) { visit(&runs[i], context); }
    }
}

static bool ends_in(const char *text, const char *end)
{
    return strlen(text) > strlen(end) && strcmp(text + strlen(text) - strlen(end), end) == 0;
}

static void open_engine(struct fixture *f, const char *file)
{
    char path[1024];
    redco_error err = {0};
    assert_true(f->engine_count < ENGINES_WANTED);
    const size_t at = f->engine_count++;
    assert_true(strlen(file) < sizeof f->names[0] + strlen(".json"));
    (void)snprintf(path, sizeof path, "%s%s", ENGINES, file);
    (void)snprintf(f->names[at], sizeof f->names[at], "%.*s", (int)(strlen(file) - strlen(".json")), file);
    if (redco_json_open(path, &f->engines[at], &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
}

static void open_table(struct fixture *f, const char *file)
{
    char path[1024];
    redco_error err = {0};
    assert_true(f->table_count < TABLES_MAX);
    (void)snprintf(path, sizeof path, "%s%s", TABLES, file);
    if (redco_measured_read(path, &f->tables[f->table_count++], &err) != REDCO_OK) {
        fail_msg("%s: %s", err.place, err.text);
    }
}

static void open_all(struct fixture *f, const char *folder, const char *end,
                     void (*open)(struct fixture *, const char *))
{
    DIR *const entries = opendir(folder);
    assert_non_null(entries);
    for (const struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
        if (ends_in(entry->d_name, end)) { open(f, entry->d_name); }
    }
    (void)closedir(entries);
}

static int open_files(void **state)
{
    struct fixture *const f = calloc(1, sizeof *f);
    assert_non_null(f);
    open_all(f, ENGINES, ".json", open_engine);
    open_all(f, TABLES, ".csv", open_table);
    *state = f;
    return 0;
}

static int close_files(void **state)
{
    struct fixture *const f = *state;
    for (size_t i = 0; i < f->engine_count; i++) { redco_json_close(f->engines[i]); }
    for (size_t i = 0; i < f->table_count; i++) { redco_measured_free(f->tables[i]); }
    free(f);
    return 0;
}

static const json_t *engine_at(const struct fixture *f, size_t index)
{
    return redco_json_root(f->engines[index]).json;
}

static const json_t *value_of(const json_t *engine, const char *key)
{
    const json_t *const value = json_object_get(json_object_get(engine, key), "value");
    if (value == NULL) { fail_msg("%s has no value", key); }
    return value;
}

static const char *text_of(const json_t *engine, const char *key)
{
    return json_string_value(value_of(engine, key));
}

static const char *name_of(const json_t *engine)
{
    return json_string_value(json_object_get(engine, "name"));
}

static bool lists(const json_t *array, const char *word)
{
    const json_t *entry = NULL;
    size_t i = 0;
    json_array_foreach((json_t *)(uintptr_t)array, i, entry)
    {
        if (strcmp(json_string_value(entry), word) == 0) { return true; }
    }
    return false;
}

static bool offers(const json_t *engine, const char *key, const char *word)
{
    return lists(value_of(engine, key), word);
}

/* A user reads the source of every trait in --explain. */
static void every_value_names_its_source(void **state)
{
    static const char *const traits[] = {
        "software",   "gather",  "shard_over", "bucket_bytes", "tp_layout",         "attention",
        "memory",     "overlap", "recompute",  "scheme",       "grad_reduce_bytes", "states",
        "fused_norm", "export",  "compiled",   "dimensions",   "logits_gathered"};
    const struct fixture *const f = *state;
    assert_int_equal(f->engine_count, ENGINES_WANTED);
    for (size_t e = 0; e < f->engine_count; e++) {
        const json_t *const engine = engine_at(f, e);
        assert_string_equal(name_of(engine), f->names[e]);
        for (size_t t = 0; t < sizeof traits / sizeof traits[0]; t++) {
            const char *const source = json_string_value(json_object_get(json_object_get(engine, traits[t]), "source"));
            if (source == NULL || source[0] == '\0') { fail_msg("%s: %s names no source", f->names[e], traits[t]); }
            assert_non_null(value_of(engine, traits[t]));
        }
    }
}

/* @return whether text has a file of a commit or version, with its line: src/a.py@1a2b3c4:12 */
static bool names_a_line(const char *text)
{
    for (const char *at = strchr(text, '@'); at != NULL; at = strchr(at + 1, '@')) {
        const size_t version = strspn(at + 1, "0123456789abcdefghijklmnopqrstuvwxyz.");
        const char *const line = at + 1 + version;
        if (at > text && at[-1] != ' ' && version > 3 && line[0] == ':' && line[1] >= '1' && line[1] <= '9') {
            return true;
        }
    }
    return false;
}

/* Engines whose files are older say the version, or the section of a paper; a new one says the line. */
static void new_engines_name_lines(void **state)
{
    static const char *const older = " aleph-alpha amsp deepspeed fms-fsdp fsdp fsdp2 internevo llm-foundry maxtext "
                                     "megatron-bridge megatron-deepspeed megatron-lm megatron-lm-2022 meta-4d nemo pax "
                                     "redco-exec torchtitan ";
    const struct fixture *const f = *state;
    for (size_t e = 0; e < f->engine_count; e++) {
        char word[40];
        const char *key = NULL;
        json_t *trait = NULL;
        (void)snprintf(word, sizeof word, " %s ", f->names[e]);
        if (strstr(older, word) != NULL) { continue; }
        json_object_foreach((json_t *)(uintptr_t)engine_at(f, e), key, trait)
        {
            const char *const source = json_string_value(json_object_get(trait, "source"));
            if (source == NULL || strcmp(key, "export") == 0) { continue; }
            if (!names_a_line(source)) { fail_msg("%s: %s: no file@commit:line in \"%s\"", f->names[e], key, source); }
        }
    }
}

struct gpus {
    const char *framework;
    const char *names[GPUS_MAX];
    size_t count;
};

static void note_gpu(const redco_measured_run *run, void *context)
{
    struct gpus *const gpus = context;
    if (redco_measured_skip(run) != NULL || strcmp(redco_measured_engine(run), gpus->framework) != 0) { return; }
    if ((run->use & REDCO_USE_SPEED) == 0) { return; }
    for (size_t i = 0; i < gpus->count; i++) {
        if (strcmp(gpus->names[i], run->gpu) == 0) { return; }
    }
    assert_true(gpus->count < GPUS_MAX);
    gpus->names[gpus->count++] = run->gpu;
}

static void measured_on_is_what_the_tables_hold(void **state)
{
    const struct fixture *const f = *state;
    for (size_t e = 0; e < f->engine_count; e++) {
        const json_t *const stated = json_object_get(engine_at(f, e), "measured_on");
        struct gpus gpus = {.framework = f->names[e]};
        for_each_run(f, note_gpu, &gpus);
        for (size_t i = 0; i < gpus.count; i++) {
            if (!lists(stated, gpus.names[i])) { fail_msg("%s lacks %s", f->names[e], gpus.names[i]); }
        }
        if (json_array_size(stated) != gpus.count) { fail_msg("%s names GPUs without runs", f->names[e]); }
    }
}

static const json_t *engine_of(const struct fixture *f, const char *framework)
{
    for (size_t e = 0; e < f->engine_count; e++) {
        if (strcmp(f->names[e], framework) == 0) { return engine_at(f, e); }
    }
    return NULL;
}

static void expect_engine(const redco_measured_run *run, void *context)
{
    const struct fixture *const f = context;
    if (engine_of(f, redco_measured_engine(run)) != NULL) { return; }
    fail_msg("%s:%u: no file describes %s", run->source, run->line, run->framework);
}

static bool page_names(const char *path, const char *what)
{
    char line[1024];
    bool found = false;
    FILE *const page = fopen(path, "r");
    assert_non_null(page);
    while (!found && fgets(line, sizeof line, page) != NULL) { found = strstr(line, what) != NULL; }
    (void)fclose(page);
    return found;
}

static void every_framework_has_a_file(void **state)
{
    struct fixture *const f = *state;
    for_each_run(f, expect_engine, f);
    for (size_t e = 0; e < f->engine_count; e++) {
        assert_true(page_names(ROOT "costmodel/engines/ENGINES.md", f->names[e]));
    }
}

/* The planner's word for a run's meshes: planner/search/strategy.c. NULL: no named strategy. */
static const char *states_of(const redco_measured_run *run)
{
    const uint64_t p = redco_mesh_ranks(run->shards.parameters), g = redco_mesh_ranks(run->shards.gradients);
    const uint64_t os = redco_mesh_ranks(run->shards.optimizer), dp = run->dp;
    if (redco_mesh_ranks(run->p_secondary) > 0) { return "zeropp"; }
    if (os == 1) { return "ddp"; }
    if (p == g && g == os) { return os == dp ? "zero3" : "mics"; }
    if (p > 1 || os != dp) { return NULL; }
    return g == 1 ? "zero1" : g == dp ? "zero2" : NULL;
}

static const char *recompute_of(const redco_measured_run *run)
{
    const bool keeps_scores = run->attention == REDCO_MEASURED_FUSED || run->attention == REDCO_MEASURED_UNFUSED;
    switch (run->recompute) {
    case REDCO_MEASURED_RECOMPUTE_FULL: return "full";
    case REDCO_MEASURED_RECOMPUTE_HALF: return "half";
    case REDCO_MEASURED_RECOMPUTE_SELECTIVE: /* without scores there is nothing to recompute: priced as none */
        return keeps_scores ? "selective" : "none";
    case REDCO_MEASURED_RECOMPUTE_MODULES: /* no shipped table has any */
    case REDCO_MEASURED_RECOMPUTE_NONE:
    case REDCO_MEASURED_RECOMPUTE_UNKNOWN: break;
    }
    return "none";
}

static void expect_offer(const redco_measured_run *run, const json_t *engine, const char *key, const char *word)
{
    if (!offers(engine, key, word)) {
        fail_msg("%s:%u: %s is not among the %s of %s", run->source, run->line, word, key, run->framework);
    }
}

static void expect_abilities(const redco_measured_run *run, void *context)
{
    static const char *const software[] = {"", "eager", "megatron", "te_xla"};
    const struct {
        const char *word;
        bool used;
    } degrees[] = {{"tp", run->tp > 1},
                   {"sp", run->sequence_parallel && run->tp > 1},
                   {"pp", run->pp > 1},
                   {"chunks", run->virtual_pp > 1},
                   {"cp", run->cp > 1}};
    if (redco_measured_skip(run) != NULL) { return; }
    const json_t *const engine = engine_of(context, redco_measured_engine(run));
    assert_non_null(engine);
    if ((run->use & REDCO_USE_SPEED) != 0) {
        assert_string_equal(text_of(engine, "software"), software[run->software]);
    }
    for (size_t i = 0; i < sizeof degrees / sizeof degrees[0]; i++) {
        if (degrees[i].used) { expect_offer(run, engine, "dimensions", degrees[i].word); }
    }
    if (run->cp > 1) { assert_string_equal(text_of(engine, "shard_over"), "dp_cp"); }
    expect_offer(run, engine, "recompute", recompute_of(run));
    expect_offer(run, engine, "scheme", run->scheme == REDCO_MEASURED_SCHEME_INTER ? "inter-tensor" : "intra-tensor");
    const char *const states = states_of(run);
    if (!offers(engine, "states", "any")) { expect_offer(run, engine, "states", states != NULL ? states : "any"); }
    /* An empty cell takes the default, which must be the two bytes that such runs were priced with. */
    const char *const precision = run->precision == REDCO_MEASURED_FP16 ? "fp16" : "bf16";
    const json_t *const width = json_object_get(value_of(engine, "grad_reduce_bytes"), precision);
    if (!redco_measured_knows(run, REDCO_COLUMN_GRAD_REDUCE_BYTES) && width != NULL) {
        assert_int_equal(json_integer_value(width), 2);
    }
}

static void engines_offer_what_their_runs_did(void **state)
{
    struct fixture *const f = *state;
    for_each_run(f, expect_abilities, f);
}

/* Runs whose cell differs from the default. */
struct difference {
    const json_t *engine;
    size_t runs, attention, fused_norm, compiled, logits_gathered, width, overlap;
};

static unsigned overlap_of(const json_t *engine)
{
    static const char *const words[] = {"ag_rs", "ar", "bc", "tp"}; /* by bit, as redco_measured_run has them */
    unsigned bits = 0;
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (offers(engine, "overlap", words[i])) { bits |= 1U << i; }
    }
    return bits;
}

static const char *attention_word(const redco_measured_run *run)
{
    static const char *const words[] = {"", "flash1", "flash2", "flash3", "fused", "unfused"};
    return words[run->attention];
}

static void count_differences(const redco_measured_run *run, void *context)
{
    struct difference *const d = context;
    if (redco_measured_skip(run) != NULL || strcmp(redco_measured_engine(run), name_of(d->engine)) != 0) { return; }
    const char *const attention = text_of(d->engine, "attention");
    const char *const precision = run->precision == REDCO_MEASURED_FP16 ? "fp16" : "bf16";
    const json_t *const width = json_object_get(value_of(d->engine, "grad_reduce_bytes"), precision);
    const uint32_t bytes = width != NULL ? (uint32_t)json_integer_value(width) : 2;
    const unsigned overlap = overlap_of(d->engine);
    d->runs++;
    d->attention += strcmp(strcmp(attention, "auto") == 0 ? "flash2" : attention, attention_word(run)) != 0;
    d->fused_norm += run->fused_norm != json_is_true(value_of(d->engine, "fused_norm"));
    d->compiled += run->compiled != json_is_true(value_of(d->engine, "compiled"));
    d->logits_gathered += run->logits_gathered != json_is_true(value_of(d->engine, "logits_gathered"));
    d->width += redco_measured_knows(run, REDCO_COLUMN_GRAD_REDUCE_BYTES) && run->grad_reduce_bytes != bytes;
    d->overlap += (run->overlap & ~overlap) != 0 || (overlap != 0 && run->overlap == 0);
}

/* For information: a default is what users get who say nothing, not an average of experiments. */
static void majorities_that_differ_are_printed(void **state)
{
    const struct fixture *const f = *state;
    for (size_t e = 0; e < f->engine_count; e++) {
        struct difference d = {.engine = engine_at(f, e)};
        for_each_run(f, count_differences, &d);
        const struct {
            const char *trait;
            size_t runs;
        } counts[] = {{"attention", d.attention},     {"fused_norm", d.fused_norm},
                      {"compiled", d.compiled},       {"logits_gathered", d.logits_gathered},
                      {"grad_reduce_bytes", d.width}, {"overlap", d.overlap}};
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            if (2 * counts[i].runs <= d.runs) { continue; }
            print_message("%s: %s of %zu of %zu runs is not the default\n", f->names[e], counts[i].trait,
                          counts[i].runs, d.runs);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_names_its_source),        cmocka_unit_test(new_engines_name_lines),
        cmocka_unit_test(measured_on_is_what_the_tables_hold), cmocka_unit_test(every_framework_has_a_file),
        cmocka_unit_test(engines_offer_what_their_runs_did),   cmocka_unit_test(majorities_that_differ_are_printed),
    };
    return cmocka_run_group_tests(tests, open_files, close_files);
}
