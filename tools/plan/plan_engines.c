#include "tools/plan/plan_engines.h"

#include "planner/answer/priced.h"
#include "planner/assemble/assemble.h"
#include "tools/plan/plan_answer.h"
#include "tools/plan/plan_html.h"
#include "tools/plan/plan_report.h"
#include "topology/base/preset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ENGINES = 64 };

/* One engine's answer. */
struct entry {
    char name[REDCO_ENGINE_NAME];
    redco_error bad; /* what machine or model rules out: bad input, where it is so of every engine */
    redco_inputs inputs;
    redco_search_options options;
    redco_search_result *result; /* NULL: reason says why */
    char reason[400];
};

struct engines {
    struct entry entries[MOST_ENGINES];
    uint32_t count;
};

static void engines_free(struct engines *engines)
{
    for (uint32_t i = 0; engines != NULL && i < engines->count; i++) {
        redco_search_result_free(engines->entries[i].result);
        redco_inputs_free(&engines->entries[i].inputs);
    }
    free(engines);
}

static const redco_candidate *best_of(const struct entry *entry)
{
    return entry->result != NULL && entry->result->ranked_count > 0 ? &entry->result->ranked[0] : NULL;
}

/* What one engine cannot do is a line of the list, not the end of it.
 * @param engine  as --engine has it; NULL: the default */
static redco_status ask(const struct plan_args *args, const char *engine, const char *name, uint64_t gpus,
                        struct entry *entry, redco_error *err)
{
    redco_input_names names = args->names;
    redco_error why = {0};
    names.engine = engine;
    entry->options = args->options;
    (void)snprintf(entry->name, sizeof entry->name, "%s", name);
    redco_status st = redco_inputs_read(&names, gpus, &entry->inputs, err);
    if (st != REDCO_OK) { return st; }
    redco_inputs_use_engine(&entry->inputs, &entry->options);
    st = redco_search_priced(&entry->inputs, &entry->options, &entry->result, &why);
    if (st == REDCO_EVALUE) {
        (void)snprintf(entry->reason, sizeof entry->reason, "%.80s: %.300s", why.place, why.text);
        entry->bad = why;
        return REDCO_OK;
    }
    if (st != REDCO_OK) { return redco_fail(err, st, why.place, "%s", why.text); }
    if (entry->result->ranked_count == 0) { (void)report_reason(entry->result, entry->reason, sizeof entry->reason); }
    return REDCO_OK;
}

/* The engine that is asked for first, its traits as they are stated, else the default; then those that were measured on
 * this GPU. */
static redco_status ask_all(const struct plan_args *args, const redco_inputs *inputs, struct engines **engines_out,
                            redco_error *err)
{
    const uint64_t gpus = (uint64_t)inputs->machine.nodes * inputs->machine.gpus_per_node;
    struct engines *engines = calloc(1, sizeof *engines);
    redco_status st = engines != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    if (st == REDCO_OK) {
        st = ask(args, args->names.engine, inputs->engine.engine.name, gpus, &engines->entries[engines->count++], err);
    }
    for (size_t i = 0; st == REDCO_OK && redco_preset_at("engines", i) != NULL; i++) {
        const char *const name = redco_preset_at("engines", i)->name;
        redco_engine_file file;
        if (strcmp(name, inputs->engine.engine.name) == 0 || engines->count == MOST_ENGINES) { continue; }
        st = redco_engine_file_read(name, &file, err);
        if (st != REDCO_OK || !redco_engine_measured_on(&file, inputs->machine.gpu.name)) { continue; }
        st = ask(args, name, name, gpus, &engines->entries[engines->count++], err);
    }
    if (st != REDCO_OK) {
        engines_free(engines);
        return st;
    }
    *engines_out = engines;
    return REDCO_OK;
}

static double tokens_of(const struct entry *entry)
{
    const redco_candidate *const best = best_of(entry);
    return best != NULL ? best->prediction.tokens_per_s_per_gpu : 0.0;
}

static int compare_entries(const void *left, const void *right)
{
    const double a = tokens_of(left), b = tokens_of(right);
    return a > b ? -1 : a < b ? 1 : strcmp(((const struct entry *)left)->name, ((const struct entry *)right)->name);
}

redco_status plan_engines_choose(struct plan_args *args, const redco_inputs *inputs, char note[400], redco_error *err)
{
    struct engines *engines = NULL;
    redco_status st = ask_all(args, inputs, &engines, err);
    if (st != REDCO_OK) { return st; }
    const struct entry *const usual = &engines->entries[0];
    const struct entry *chosen = usual;
    for (uint32_t i = 1; i < engines->count; i++) {
        const struct entry *const other = &engines->entries[i];
        if (tokens_of(other) <= tokens_of(chosen)) { continue; }
        const double least = tokens_of(other) * (1.0 - other->inputs.calibration.band_ratio);
        const double most = tokens_of(usual) * (1.0 + usual->inputs.calibration.band_ratio);
        /* A set without a band tells nothing apart. */
        const bool bands = other->inputs.calibration.band_ratio > 0.0 && usual->inputs.calibration.band_ratio > 0.0;
        if (least > most && (bands || tokens_of(usual) <= 0.0)) { chosen = other; }
    }
    if (engines->count == 1) {
        (void)snprintf(note, 400, "auto: no other engine was measured on this GPU; %.300s",
                       usual->inputs.engine_reason);
    } else if (chosen == usual) {
        (void)snprintf(note, 400, "auto: none of the %u others measured on this GPU is faster outside both bands",
                       engines->count - 1);
    } else if (tokens_of(usual) > 0.0) {
        (void)snprintf(note, 400, "auto: %.1f %% faster than %s, outside both bands",
                       100.0 * (tokens_of(chosen) / tokens_of(usual) - 1.0), usual->name);
    } else {
        (void)snprintf(note, 400, "auto: %s has no plan: %.250s", usual->name, usual->reason);
    }
    if (chosen != usual) { args->names.engine = redco_preset_find("engines", chosen->name)->name; /* static */ }
    engines_free(engines);
    return REDCO_OK;
}

static json_t *entry_json(const struct entry *entry, redco_error *err)
{
    redco_assembler *assembler = NULL;
    redco_plan *plan = NULL;
    json_t *json = NULL;
    const redco_candidate *const best = best_of(entry);
    if (best == NULL) {
        json = answer_infeasible(&entry->inputs, answer_name(&entry->options), entry->reason, entry->result);
        if (json != NULL) { (void)json_object_set_new(json, "engine", json_pack("{s:s}", "name", entry->name)); }
        return json;
    }
    if (redco_assembler_create(&entry->inputs, &entry->options, REDCO_VERSION, &assembler, err) == REDCO_OK &&
        redco_plan_assemble(assembler, entry->result, best, answer_name(&entry->options), &plan, err) == REDCO_OK) {
        json = redco_plan_to_json(plan);
    }
    redco_plan_free(plan);
    redco_assembler_free(assembler);
    return json;
}

static int print_engines_json(const struct plan_args *args, const struct engines *engines)
{
    redco_error err = {0};
    json_t *const plans = json_array();
    for (uint32_t i = 0; i < engines->count; i++) {
        json_t *const json = entry_json(&engines->entries[i], &err);
        if (json == NULL) {
            json_decref(plans);
            if (err.status == REDCO_OK) { (void)redco_fail(&err, REDCO_ENOMEM, "", "out of memory"); }
            return cli_fail(&args->cli, &err);
        }
        (void)json_array_append_new(plans, json);
    }
    json_t *const document = json_pack("{s:o}", "plans", plans);
    const int rc = cli_print_json(&args->cli, document);
    json_decref(document);
    return rc;
}

static int print_engines(const struct plan_args *args, const redco_inputs *inputs, const struct engines *engines,
                         const char *usual)
{
    struct report_row rows[MOST_ENGINES];
    char note[800] = "";
    redco_error err = {0};
    const struct plan_html_list page = {.args = args,
                                        .inputs = inputs,
                                        .title = "Engines side by side",
                                        .column = "<engine",
                                        .rows = rows,
                                        .count = engines->count};
    const bool report = args->report != NULL && best_of(&engines->entries[0]) != NULL;
    for (uint32_t i = 0; i < engines->count; i++) {
        const struct entry *const entry = &engines->entries[i];
        rows[i] = (struct report_row){.name = entry->name,
                                      .marked = strcmp(entry->name, usual) == 0,
                                      .gpus = (uint64_t)inputs->machine.nodes * inputs->machine.gpus_per_node,
                                      .candidate = best_of(entry),
                                      .inputs = &entry->inputs};
        if (entry->result != NULL) { rows[i].short_bytes = entry->result->shortfall.short_bytes; }
        (void)snprintf(rows[i].reason, sizeof rows[i].reason, "%s", entry->reason);
    }
    if (report) {
        if (plan_html_list_write(&page, args->report, note, &err) != REDCO_OK) { return cli_fail(&args->cli, &err); }
        plan_html_warn(args, note);
    }
    if (args->cli.json) { return print_engines_json(args, engines); }
    report_header(args, inputs, NULL);
    if (!report_table(inputs, REPORT_STRATEGIES, rows, engines->count)) { return CLI_SYSTEM; }
    (void)printf("* %s is the %s: %s\n", usual, inputs->engine_named ? "one asked for" : "default here",
                 inputs->engine_reason);
    if (report) { cli_wrote(args->report); }
    return CLI_DONE;
}

int answer_engines(struct plan_args *args, const redco_inputs *inputs)
{
    struct engines *engines = NULL;
    redco_error err = {0};
    if (ask_all(args, inputs, &engines, &err) != REDCO_OK) { return answer_fail(&args->cli, &err); }
    qsort(engines->entries, engines->count, sizeof engines->entries[0], compare_entries);
    const bool any = best_of(&engines->entries[0]) != NULL;
    const redco_error *bad = &engines->entries[0].bad;
    for (uint32_t i = 0; i < engines->count; i++) {
        if (engines->entries[i].bad.status == REDCO_OK) { bad = NULL; }
    }
    int rc =
        bad != NULL ? answer_fail(&args->cli, bad) : print_engines(args, inputs, engines, inputs->engine.engine.name);
    if (rc == CLI_DONE) { rc = cli_finish(&args->cli, CLI_DONE); }
    if (rc == CLI_DONE && !any) {
        (void)redco_fail(&err, REDCO_EINFEASIBLE, "", "%s: %s", engines->entries[0].name, engines->entries[0].reason);
        rc = answer_fail(&args->cli, &err);
    }
    engines_free(engines);
    return rc;
}
