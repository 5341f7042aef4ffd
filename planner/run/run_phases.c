#include "planner/run/run_phases.h"

#include "planner/answer/answer.h"
#include "planner/run/run_json.h"
#include "planner/run/run_step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct redco_phases {
    redco_json *document;
    uint32_t count;
    redco_phase rows[REDCO_MOST_PHASES];
};

void redco_phases_free(redco_phases *phases)
{
    if (phases == NULL) { return; }
    redco_json_close(phases->document);
    free(phases);
}

uint32_t redco_phases_count(const redco_phases *phases)
{
    return phases->count;
}

static redco_status read_u32(const redco_json_value *row, const char *key, uint32_t *out, redco_error *err)
{
    return redco_json_has(row, key) ? redco_json_u32(row, key, 1, 1U << 30, out, err) : REDCO_OK;
}

static redco_status read_phase(const redco_json_value *row, redco_phase *out, redco_error *err)
{
    static const char *const keys[] = {"name", "tokens", "gpus",        "global_batch", "seq", "tp",
                                       "pp",   "cp",     "micro_batch", "source",       NULL};
    const char *tokens = NULL;
    char place[256];
    redco_status st = redco_json_only(row, keys, err);
    if (st == REDCO_OK) { st = redco_json_string(row, "name", &out->name, err); }
    if (st == REDCO_OK) { st = redco_json_string(row, "tokens", &tokens, err); }
    if (st == REDCO_OK) {
        st = redco_run_parse(tokens, REDCO_RUN_TOKENS, redco_json_place(row, "tokens", place, sizeof place),
                             &out->tokens, err);
    }
    if (st == REDCO_OK && !(out->tokens >= 1.0 && out->tokens <= 1e18)) {
        st = redco_json_fail(row, "tokens", err, "\"%.40s\" is not from 1 to 1e18 tokens", tokens);
    }
    if (st == REDCO_OK && redco_json_has(row, "gpus")) {
        st = redco_json_u64(row, "gpus", 1, (uint64_t)1 << 24, &out->gpus, err);
    }
    if (st == REDCO_OK && redco_json_has(row, "global_batch")) {
        st = redco_json_u64(row, "global_batch", 1, (uint64_t)1 << 40, &out->global_batch, err);
    }
    if (st == REDCO_OK) { st = read_u32(row, "seq", &out->seq_len, err); }
    if (st == REDCO_OK) { st = read_u32(row, "tp", &out->tp, err); }
    if (st == REDCO_OK) { st = read_u32(row, "pp", &out->pp, err); }
    if (st == REDCO_OK) { st = read_u32(row, "cp", &out->cp, err); }
    return st == REDCO_OK ? read_u32(row, "micro_batch", &out->micro_batch, err) : st;
}

/* An error about a value of the file names the value's place, and behind it the place that the library names, such as
 * that of another file. */
static redco_status fail_at(const redco_json_value *object, const char *key, const char *text, const redco_error *why,
                            redco_error *err)
{
    char place[256], file[256];
    (void)redco_json_place(object, key, place, sizeof place);
    (void)redco_json_place(object, NULL, file, sizeof file);
    const size_t length = strcspn(file, ":");
    if (strncmp(why->place, file, length) == 0 && why->place[length] == ':') {
        return redco_fail(err, why->status, why->place, "%s", why->text);
    }
    if (why->place[0] == '\0' || strcmp(why->place, key) == 0) {
        return redco_fail(err, why->status, place, "%s", why->text);
    }
    const bool is_value = text != NULL && strcmp(why->place, text) == 0;
    return redco_fail(err, why->status, place, is_value ? "\"%.200s\" %s" : "%.200s: %s", why->place, why->text);
}

/* Terms of the file are taken first into defaults of their own; what the command line said lies over them. */
static redco_status read_terms(const redco_json_value *root, redco_run_words *words, redco_error *err)
{
    for (size_t i = 1; redco_run_keys[i] != NULL; i++) { /* the first is tokens */
        const char *text = NULL;
        char place[256];
        if (!redco_json_has(root, redco_run_keys[i])) { continue; }
        redco_status st = redco_json_string(root, redco_run_keys[i], &text, err);
        if (st == REDCO_OK && redco_run_words_said(words, redco_run_keys[i])) { continue; }
        redco_error why = {.status = REDCO_OK};
        if (st == REDCO_OK) {
            st = redco_run_words_take(words, redco_run_keys[i], text,
                                      redco_json_place(root, redco_run_keys[i], place, sizeof place), &why);
            if (st != REDCO_OK) { st = fail_at(root, redco_run_keys[i], text, &why, err); }
        }
        if (st != REDCO_OK) { return st; }
    }
    return REDCO_OK;
}

static redco_status read_names(const redco_json_value *root, redco_input_names *names, redco_error *err)
{
    const struct {
        const char *key;
        const char **out;
    } texts[] = {{"model", &names->model}, {"cluster", &names->cluster}, {"engine", &names->engine}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const char *text = NULL;
        if (!redco_json_has(root, texts[i].key)) { continue; }
        const redco_status st = redco_json_string(root, texts[i].key, &text, err);
        if (st != REDCO_OK) { return st; }
        if (*texts[i].out == NULL) { *texts[i].out = text; } /* places of errors are this very text: blame() */
    }
    return REDCO_OK;
}

static redco_status read_rows(const redco_json_value *root, redco_phases *phases, redco_error *err)
{
    redco_json_value list, row;
    size_t count = 0;
    redco_status st = redco_json_array(root, "phases", &list, &count, err);
    if (st == REDCO_OK && (count == 0 || count > REDCO_MOST_PHASES)) {
        st = redco_json_fail(root, "phases", err, "holds %zu phases, not 1 to %d", count, REDCO_MOST_PHASES);
    }
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        st = redco_json_element(&list, i, &row, err);
        if (st == REDCO_OK) { st = read_phase(&row, &phases->rows[i], err); }
    }
    phases->count = (uint32_t)count;
    return st;
}

redco_status redco_phases_from_json(redco_json *document, redco_run_words *words, redco_input_names *names,
                                    redco_phases **phases_out, redco_error *err)
{
    static const char *const own[] = {"format", "version", "name",   "about", "source",
                                      "model",  "cluster", "engine", "phases"};
    enum { OWN = sizeof own / sizeof own[0], MOST_KEYS = 40 };
    const char *keys[MOST_KEYS] = {NULL};
    const redco_json_value root = redco_json_root(document);
    uint32_t version = 0;
    size_t count = 0;
    redco_phases *phases = calloc(1, sizeof *phases);
    if (phases == NULL) {
        redco_json_close(document);
        return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    }
    phases->document = document;
    for (; count < OWN; count++) { keys[count] = own[count]; }
    for (size_t i = 1; redco_run_keys[i] != NULL && count + 1 < MOST_KEYS; i++) { keys[count++] = redco_run_keys[i]; }
    redco_status st = redco_json_format(&root, "redco-run", 1, &version, err);
    if (st == REDCO_OK) { st = redco_json_only(&root, keys, err); }
    if (st == REDCO_OK) { st = read_terms(&root, words, err); }
    if (st == REDCO_OK) { st = read_names(&root, names, err); }
    if (st == REDCO_OK) { st = read_rows(&root, phases, err); }
    if (st != REDCO_OK) {
        redco_phases_free(phases);
        return st;
    }
    *phases_out = phases;
    return REDCO_OK;
}

redco_status redco_phases_read(const char *path, redco_run_words *words, redco_input_names *names,
                               redco_phases **phases_out, redco_error *err)
{
    redco_json *document = NULL;
    const redco_status st = redco_json_open(path, &document, err);
    return st == REDCO_OK ? redco_phases_from_json(document, words, names, phases_out, err) : st;
}

/* The plan of a phase, as far as its tokens do not matter. */
struct planned {
    redco_phase_answer answer;
    redco_run_terms terms;
    redco_run_step step;
};

static redco_status plan_phase(const redco_phase *phase, const redco_question *question, const redco_run_words *words,
                               struct planned *out, redco_error *err)
{
    redco_question one = *question;
    redco_search_options *const o = &one.options;
    redco_inputs inputs = {0};
    redco_answer answer = {.plan = NULL};
    if (phase->gpus != 0) { one.gpus = phase->gpus; }
    if (phase->global_batch != 0) { o->workload.global_batch = phase->global_batch; }
    if (phase->seq_len != 0) { o->workload.seq_len = phase->seq_len; }
    if (phase->tp != 0) { o->given.tp = phase->tp; }
    if (phase->pp != 0) { o->given.pp = phase->pp; }
    if (phase->cp != 0) { o->given.cp = phase->cp; }
    if (phase->micro_batch != 0) { o->given.micro_batch = phase->micro_batch; }
    redco_status st = redco_question_read(&one, &inputs, err);
    if (st != REDCO_OK) { return st; }
    if ((st = redco_question_settle(&one, &inputs, err)) != REDCO_OK ||
        (st = redco_answer_find(&one, &inputs, 0, &answer, err)) != REDCO_OK) {
        goto out;
    }
    if (answer.plan == NULL) {
        st = redco_fail(err, REDCO_EINFEASIBLE, "", "no strategy fits: %.3g GB too much on every GPU",
                        (double)answer.result->shortfall.short_bytes / 1e9);
        goto out;
    }
    out->answer = (redco_phase_answer){.gpus = redco_plan_gpus(answer.plan),
                                       .global_batch = o->workload.global_batch,
                                       .seq_len = o->workload.seq_len,
                                       .parallelism = answer.result->ranked[0].parallelism,
                                       .mfu = answer.result->ranked[0].prediction.mfu};
    out->step = redco_run_step_of(&inputs, &answer.options, &answer.result->ranked[0]);
    st = redco_run_words_finish(words, inputs.machine.gpu.name, &out->terms, NULL, err);
out:
    redco_answer_free(&answer);
    redco_inputs_free(&inputs);
    return st;
}

static bool same_question(const redco_phase *a, const redco_phase *b)
{
    return a->gpus == b->gpus && a->global_batch == b->global_batch && a->seq_len == b->seq_len && a->tp == b->tp &&
           a->pp == b->pp && a->cp == b->cp && a->micro_batch == b->micro_batch;
}

/* Phases that differ by name and tokens alone have the same plan. @param plans  of the phases before, and of this one
 */
static redco_status answer_phase(const redco_phases *phases, uint32_t at, const redco_question *question,
                                 const redco_run_words *words, struct planned *plans, redco_phase_answer *out,
                                 redco_error *err)
{
    const redco_phase *const phase = &phases->rows[at];
    redco_status st = REDCO_OK;
    uint32_t same = 0;
    while (!same_question(&phases->rows[same], phase)) { same++; }
    if (same < at) {
        plans[at] = plans[same];
    } else if ((st = plan_phase(phase, question, words, &plans[at], err)) != REDCO_OK) {
        return st;
    }
    *out = plans[at].answer;
    out->name = phase->name;
    plans[at].terms.tokens = phase->tokens;
    return redco_run_estimate_of(&plans[at].terms, &plans[at].step, &out->run, err);
}

/* The value of the file that an error of a phase is about: a degree or size that the phase gives, or the name of a
 * model, cluster or engine; else the phase. */
static redco_status blame(const redco_phases *phases, uint32_t at, const redco_input_names *names,
                          const redco_error *why, redco_error *err)
{
    static const struct {
        const char *quantity, *key;
    } quantities[] = {{"gpus", "gpus"},
                      {"dp", "gpus"},
                      {"gpus", "tp"}, /* degrees do not divide the GPUs of the command line */
                      {"gpus", "pp"},
                      {"gpus", "cp"},
                      {"batch", "global_batch"},
                      {"global batch", "global_batch"},
                      {"sequence length", "seq"},
                      {"tp", "tp"},
                      {"pp", "pp"},
                      {"cp", "cp"},
                      {"micro-batch", "micro_batch"}};
    const struct {
        const char *key, *text;
    } texts[] = {{"model", names->model}, {"cluster", names->cluster}, {"engine", names->engine}};
    const redco_json_value root = redco_json_root(phases->document);
    redco_json_value list, row;
    size_t count = 0;
    char place[256];
    redco_status st = redco_json_array(&root, "phases", &list, &count, err);
    if (st == REDCO_OK) { st = redco_json_element(&list, at, &row, err); }
    if (st != REDCO_OK) { return st; }
    for (size_t i = 0; i < sizeof quantities / sizeof quantities[0]; i++) {
        if (strcmp(why->place, quantities[i].quantity) == 0 && redco_json_has(&row, quantities[i].key)) {
            return redco_fail(err, why->status, redco_json_place(&row, quantities[i].key, place, sizeof place), "%s",
                              why->text);
        }
    }
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const char *text = NULL;
        if (texts[i].text == NULL || strncmp(why->place, texts[i].text, strlen(texts[i].text)) != 0 ||
            !redco_json_has(&root, texts[i].key) || redco_json_string(&root, texts[i].key, &text, NULL) != REDCO_OK ||
            text != texts[i].text) {
            continue;
        }
        return fail_at(&root, texts[i].key, text, why, err);
    }
    if (why->place[0] == '\0') {
        return redco_fail(err, why->status, redco_json_place(&row, NULL, place, sizeof place), "%s", why->text);
    }
    return redco_fail(err, why->status, why->place, "phase %u, %.60s: %s", at + 1, phases->rows[at].name, why->text);
}

redco_status redco_phases_plan(const redco_phases *phases, const redco_question *question, const redco_run_words *words,
                               redco_phase_answer *answers_out, redco_run_estimate *total_out, redco_error *err)
{
    redco_run_estimate *const runs = calloc(phases->count, sizeof *runs);
    struct planned *const plans = calloc(phases->count, sizeof *plans);
    const bool room = runs != NULL && plans != NULL;
    redco_status st = room ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    for (uint32_t i = 0; i < phases->count && st == REDCO_OK; i++) {
        redco_error why = {.status = REDCO_OK};
        st = answer_phase(phases, i, question, words, plans, &answers_out[i], &why);
        if (st != REDCO_OK) { st = blame(phases, i, &question->names, &why, err); }
        if (st == REDCO_OK) { runs[i] = answers_out[i].run; }
    }
    if (st == REDCO_OK) { redco_run_total(runs, phases->count, total_out); }
    free(runs);
    free(plans);
    return st;
}

json_t *redco_phases_to_json(const redco_phase_answer *answers, uint32_t count, const redco_run_estimate *total)
{
    json_t *const rows = json_array();
    uint64_t most = 0;
    for (uint32_t i = 0; i < count; i++) {
        const redco_phase_answer *const a = &answers[i];
        most = a->gpus > most ? a->gpus : most;
        (void)json_array_append_new(rows, json_pack("{s:s,s:I,s:I,s:I,s:{s:I,s:I,s:I,s:I,s:f},s:o}", "name", a->name,
                                                    "gpus", (json_int_t)a->gpus, "global_batch",
                                                    (json_int_t)a->global_batch, "seq_len", (json_int_t)a->seq_len,
                                                    "plan", "tp", (json_int_t)a->parallelism.tp, "pp",
                                                    (json_int_t)a->parallelism.pp, "cp", (json_int_t)a->parallelism.cp,
                                                    "micro_batch", (json_int_t)a->parallelism.micro_batch, "mfu",
                                                    a->mfu, "run", redco_run_to_json(&a->run, a->gpus)));
    }
    return json_pack("{s:s,s:i,s:o,s:o}", "format", "redco-run-phases", "version", 1, "phases", rows, "total",
                     redco_run_to_json(total, most));
}
