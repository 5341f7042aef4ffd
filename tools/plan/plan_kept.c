#include "tools/plan/plan_kept.h"

#include "costmodel/closed_form/memory_saved.h"
#include "tools/cli/text_table.h"

#include <stdio.h>
#include <string.h>

enum { NAMES = 64, COLUMNS = REDCO_SAVER_COUNT };

/* One token of a block that no parallelism cuts, and the names of all rules in the order of a forward pass. */
struct kept {
    const redco_inputs *inputs;
    const redco_layer_site *sites;
    uint32_t site_count;
    const redco_saving_set *sets[COLUMNS];
    const char *names[NAMES], *sources[NAMES];
    uint32_t name_count;
};

static uint32_t find_name(const struct kept *kept, const char *name)
{
    uint32_t at = 0;
    while (at < kept->name_count && strcmp(kept->names[at], name) != 0) { at++; }
    return at;
}

/* Tensors of experts are rows of mixtures alone. */
static bool is_foreign(const struct kept *kept, redco_site site)
{
    bool there = site < REDCO_SITE_ROUTER_SCORES || site > REDCO_SITE_EXPERTS_OUTPUT;
    for (uint32_t i = 0; i < kept->site_count && !there; i++) { there = kept->sites[i].site == site; }
    return !there;
}

/* A name that is new stands behind the one before it in its set. */
static void add_names(struct kept *kept, const redco_saving_set *set)
{
    uint32_t behind = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        if (is_foreign(kept, set->rules[i].site)) { continue; }
        const uint32_t at = find_name(kept, set->rules[i].name);
        if (at < kept->name_count) {
            behind = at + 1;
            continue;
        }
        if (kept->name_count == NAMES) { return; }
        for (uint32_t n = kept->name_count++; n > behind; n--) {
            kept->names[n] = kept->names[n - 1];
            kept->sources[n] = kept->sources[n - 1];
        }
        kept->names[behind] = set->rules[i].name;
        kept->sources[behind++] = set->rules[i].source;
    }
}

static bool open_kept(const redco_inputs *inputs, struct kept *kept)
{
    const redco_layer_class *classes = NULL;
    const size_t count = redco_model_classes(inputs->model, &classes);
    *kept = (struct kept){.inputs = inputs};
    for (uint32_t c = 0; c < count; c++) { /* layers with experts before those with an FFN */
        const redco_layer_work *const work = redco_model_work(inputs->model, c);
        if (classes[c].kind == REDCO_CLASS_BLOCK && work->site_count > kept->site_count) {
            kept->sites = work->sites;
            kept->site_count = work->site_count;
        }
    }
    for (uint32_t s = 0; s < COLUMNS; s++) {
        if ((kept->sets[s] = redco_saving_set_of((redco_saver)s)) == NULL) { return false; }
        add_names(kept, kept->sets[s]);
    }
    return true;
}

/* @param name  of rules; NULL: of all */
static uint64_t bytes_of(const struct kept *kept, uint32_t column, const char *name)
{
    redco_shape shape = {.seq_len = 1,
                         .micro_batch = 1,
                         .tp = 1,
                         .cp = 1,
                         .precision = REDCO_BF16,
                         .engine = kept->inputs->choice.engine};
    if (column == REDCO_SAVER_PLANNED) { shape.engine = (redco_engine){.planned_memory = true, .made_again = true}; }
    uint64_t sizes[REDCO_AXIS_COUNT], bytes = 0;
    redco_saving_case rank = redco_saving_case_of(kept->inputs->model, &shape, sizes);
    const redco_saving_set *const set = kept->sets[column];
    static const redco_recompute_list none = {.count = 0};
    rank.keys = 0;
    if (name == NULL) { return redco_saving_bytes(set, kept->sites, kept->site_count, &rank, &none).kept; }
    for (uint32_t i = 0; i < set->count; i++) {
        if (strcmp(set->rules[i].name, name) != 0) { continue; }
        bytes += redco_saving_rule_bytes(&set->rules[i], kept->sites, kept->site_count, &rank);
    }
    return bytes;
}

static const char *column_word(uint32_t column)
{
    return column == REDCO_SAVER_PLANNED ? "redco-exec" : redco_saver_words[column];
}

static json_t *kept_json(const struct kept *kept)
{
    json_t *const rows = json_array(), *const sums = json_object();
    for (uint32_t n = 0; n < kept->name_count; n++) {
        json_t *const row = json_pack("{s:s,s:s}", "tensor", kept->names[n], "source", kept->sources[n]);
        for (uint32_t c = 0; c < COLUMNS; c++) {
            (void)json_object_set_new(row, column_word(c), json_integer((json_int_t)bytes_of(kept, c, kept->names[n])));
        }
        (void)json_array_append_new(rows, row);
    }
    for (uint32_t c = 0; c < COLUMNS; c++) {
        (void)json_object_set_new(sums, column_word(c), json_integer((json_int_t)bytes_of(kept, c, NULL)));
    }
    return json_pack("{s:s,s:i,s:s,s:o,s:o}", "format", "redco-kept", "version", 1, "model",
                     redco_model_name(kept->inputs->model), "tensors", rows, "bytes_per_token", sums);
}

static bool print_table(const struct kept *kept)
{
    struct table *const table = table_new("lrrrrrrrrrr");
    char text[32];
    if (table == NULL) { return false; }
    table_row(table);
    table_cell(table, "tensor");
    for (uint32_t c = 0; c < COLUMNS; c++) { table_cell(table, "%s", column_word(c)); }
    for (uint32_t n = 0; n <= kept->name_count; n++) {
        const char *const name = n < kept->name_count ? kept->names[n] : NULL;
        uint64_t most = 0;
        for (uint32_t c = 0; c < COLUMNS; c++) { most |= bytes_of(kept, c, name); }
        if (most == 0) { continue; }
        table_row(table);
        table_cell(table, "%s", name != NULL ? name : "all");
        for (uint32_t c = 0; c < COLUMNS; c++) {
            const uint64_t bytes = bytes_of(kept, c, name);
            table_cell(table, "%s", bytes > 0 ? format_count(bytes, text, sizeof text) : "-");
        }
    }
    printf("%s: bytes a token that one layer keeps for backward, 16 bits, no parallelism (costmodel/closed_form/"
           "MEMORY.md)\n",
           redco_model_name(kept->inputs->model));
    const bool printed = table_print(table, "  ", stdout);
    table_free(table);
    return printed;
}

int plan_kept(const struct plan_args *args, const redco_inputs *inputs)
{
    struct kept kept;
    redco_error err = {.status = REDCO_OK};
    const bool opened = open_kept(inputs, &kept);
    if (opened && args->cli.json) {
        json_t *const json = kept_json(&kept);
        const int code = cli_print_json(&args->cli, json);
        json_decref(json);
        return code;
    }
    if (opened && print_table(&kept)) { return 0; }
    (void)redco_fail(&err, REDCO_ENOMEM, "", "out of memory");
    return cli_fail(&args->cli, &err);
}
