#include "planner/read/changes.h"

#include "planner/search/strategy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A gain that is worth a line: less is within what a step varies by. */
static const double least_gain_ratio = 0.005;

/* An option moved to another value. */
struct move {
    const char *option; /* redco-plan's */
    char value[REDCO_RECOMPUTE_TEXT];
    uint32_t number; /* degrees */
};

struct tried {
    redco_change change;
    struct move move;
};

struct explorer {
    const redco_reading *reading;
    const redco_question *question;
    const redco_inputs *inputs;
    bool (*beside)(const void *context, const char *option);
    const void *context;
    double step_s; /* the file's own; INFINITY: it does not fit */
    uint64_t gpus;
    struct tried *tried;
    uint32_t count;
    redco_error *err;
};

/* Where a file says no "AxB" of parameters or optimizer, shards follow a name: degrees may move. */
static bool meshes_given(const redco_search_options *o)
{
    return o->fix.parameters.gpus > 0 || o->fix.gradients.gpus > 0 || o->fix.optimizer.gpus > 0;
}

static uint32_t *degree_in(redco_search_options *o, const char *option)
{
    for (const redco_dimension *d = redco_dimensions; d->key != NULL; d++) {
        if (d->option != NULL && strcmp(d->option, option) == 0 && d->kind == REDCO_DIMENSION_NUMBER) {
            return redco_dimension_in(&o->given, d);
        }
    }
    return NULL;
}

/* Stages of other numbers have equal shares, in the order that their number of chunks has. */
static void restage(redco_search_options *o)
{
    o->given.split = NULL;
    o->equal_stages = true;
    o->given.group = 0;
    if (o->given.pp <= 1) { o->given.chunks = 1; }
    o->given.schedule = o->given.chunks > 1 ? REDCO_PIPELINE_INTERLEAVED : REDCO_PIPELINE_1F1B;
}

static redco_strategy strategy_of(const char *word)
{
    int i = REDCO_STRATEGY_DDP;
    while (i < REDCO_STRATEGY_COUNT && strcmp(redco_strategies[i].word, word) != 0) { i++; }
    return (redco_strategy)i;
}

static void apply(const struct move *move, redco_search_options *o)
{
    uint32_t *const degree = degree_in(o, move->option);
    if (degree != NULL) {
        *degree = move->number;
        const bool stages = strcmp(move->option, "pp") == 0 || strcmp(move->option, "pp-chunks") == 0;
        if (stages) { restage(o); }
        if (strcmp(move->option, "tp") == 0 && move->number == 1) { o->sequence_parallel = REDCO_OFF; }
    } else if (strcmp(move->option, "recompute") == 0) {
        bool half = false;
        (void)redco_recompute_parse(move->value, &o->recompute, &half);
        o->modules = false;
        o->workload.engine.partial_recompute = half;
    } else if (strcmp(move->option, "strategy") == 0) {
        o->strategy = strategy_of(move->value);
        o->fix = (redco_shards){{0, 0}, {0, 0}, {0, 0}};
        o->given.secondary = (redco_mesh){0, 0};
    } else if (strcmp(move->option, "sequence-parallel") == 0) {
        o->sequence_parallel = strcmp(move->value, "on") == 0 ? REDCO_ON : REDCO_OFF;
    } else { /* one kind of traffic more is hidden */
        o->workload.overlap |= move->number;
    }
}

/* The price of the file's question with some moves. @return REDCO_OK also where it cannot be: change->feasible says */
static redco_status ask(struct explorer *x, const struct move *const *moves, uint32_t count, redco_change *change)
{
    redco_search_options o = x->question->options;
    redco_search_result *result = NULL;
    redco_error why = {.status = REDCO_OK};
    size_t lacking = 0;
    o.verify = false;
    o.top = 1;
    for (uint32_t i = 0; i < count; i++) { apply(moves[i], &o); }
    const char *lacks[REDCO_MOST_LACKS];
    const redco_status st = redco_question_ask(x->question, x->inputs, x->gpus, &o, &lacking, &result, &why);
    change->feasible = false;
    if (st == REDCO_EVALUE) { return REDCO_OK; }
    if (st != REDCO_OK) { return redco_fail(x->err, st, why.place, "%s", why.text); }
    if (result->ranked_count > 0 && lacking <= redco_options_lack(&x->question->options, x->inputs, lacks)) {
        const redco_prediction *const p = &result->ranked[0].prediction;
        change->feasible = true;
        change->step_s = p->step_s;
        change->total_bytes = p->total_bytes;
        change->gain_ratio = isinf(x->step_s) ? 0.0 : x->step_s / p->step_s - 1.0;
    } else {
        change->short_bytes = result->shortfall.short_bytes;
    }
    redco_search_result_free(result);
    return REDCO_OK;
}

/* "--micro-batch", "2", "4": of an option that the command line gives. */
static void option_words(const struct explorer *x, const struct move *move, redco_words *out)
{
    redco_search_options now = x->question->options;
    const uint32_t *const degree = degree_in(&now, move->option);
    char set[REDCO_RECOMPUTE_TEXT];
    (void)redco_recompute_text(now.recompute, now.workload.engine.partial_recompute, set, sizeof set);
    (void)snprintf(out->key, sizeof out->key, "--%s", move->option);
    (void)snprintf(out->to, sizeof out->to, "%s", move->value);
    if (degree != NULL) {
        (void)snprintf(out->from, sizeof out->from, "%u", *degree);
    } else if (strcmp(move->option, "recompute") == 0) {
        (void)snprintf(out->from, sizeof out->from, "%s", set);
    } else if (strcmp(move->option, "strategy") == 0) {
        (void)snprintf(out->from, sizeof out->from, "%s", redco_strategies[now.strategy].word);
    } else { /* sequence parallelism, which has no third value */
        (void)snprintf(out->from, sizeof out->from, "%s", strcmp(move->value, "on") == 0 ? "off" : "on");
    }
}

/* Adds a move that the file's words can say. @param targets  options or facts whose key says it; NULL-terminated */
static redco_status try_move(struct explorer *x, const struct move *move, const char *const *targets)
{
    if (x->count == REDCO_MOST_CHANGES) { return REDCO_OK; }
    struct tried *const tried = &x->tried[x->count];
    *tried = (struct tried){.move = *move};
    bool said = false; /* then those alone: a trainer's other keys are for another engine */
    for (size_t i = 0; targets[i] != NULL; i++) { said = said || redco_reading_said(x->reading, targets[i]); }
    const bool beside = strcmp(move->option, "overlap") != 0 && x->beside(x->context, move->option);
    if (beside) {
        option_words(x, move, &tried->change.edits[0]);
        tried->change.edit_count = 1;
    }
    for (size_t i = 0; targets[i] != NULL && !beside; i++) {
        if (said != redco_reading_said(x->reading, targets[i]) || (!said && i > 0)) { continue; }
        if (!redco_reading_words(x->reading, targets[i], move->value, &tried->change.edits[0])) { continue; }
        tried->change.edit_count = 1;
        break;
    }
    if (tried->change.edit_count == 0) { return REDCO_OK; }
    const struct move *const moves[] = {move};
    const redco_status st = ask(x, moves, 1, &tried->change);
    if (st == REDCO_OK && tried->change.feasible) { x->count++; }
    return st;
}

/* A micro-batch goes with the number of them where the file says that; where it says that alone, in its place. */
static void edit_accumulation(const struct explorer *x, struct tried *tried, uint64_t before, uint32_t now)
{
    redco_words words;
    char text[32], *end = NULL;
    if (!redco_reading_said(x->reading, ".accumulation") ||
        !redco_reading_words(x->reading, ".accumulation", "1", &words)) {
        return;
    }
    const unsigned long long steps = strtoull(words.from, &end, 10);
    if (end == words.from || (steps * before) % now != 0) { return; }
    (void)snprintf(text, sizeof text, "%llu", steps * before / now);
    (void)snprintf(words.to, sizeof words.to, "%s", text);
    if (!redco_reading_said(x->reading, "micro-batch")) { tried->change.edit_count = 0; }
    tried->change.edits[tried->change.edit_count++] = words;
}

static redco_status try_degrees(struct explorer *x)
{
    static const char *const options[] = {"tp", "pp", "cp", "ep", "pp-chunks", "micro-batch"};
    redco_search_options now = x->question->options;
    redco_status st = REDCO_OK;
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        const uint32_t degree = *degree_in(&now, options[i]);
        const bool micro = strcmp(options[i], "micro-batch") == 0;
        if (degree == 0 || redco_degree_is_free(degree) || (meshes_given(&now) && !micro)) { continue; }
        if (strcmp(options[i], "pp-chunks") == 0 && now.given.pp <= 1) { continue; }
        for (int step = -2; step <= 2 && st == REDCO_OK; step++) {
            const uint32_t factor = step == -2 || step == 2 ? 4 : 2;
            struct move move = {.option = options[i]};
            if (step == 0 || (step < 0 && degree % factor != 0) || (step > 0 && degree > (1U << 20))) { continue; }
            move.number = step < 0 ? degree / factor : degree * factor;
            (void)snprintf(move.value, sizeof move.value, "%u", move.number);
            const char *const targets[] = {options[i], NULL};
            const uint32_t before = x->count;
            st = try_move(x, &move, targets);
            if (micro && x->count > before) { edit_accumulation(x, &x->tried[before], degree, move.number); }
        }
    }
    return st;
}

static redco_status try_words(struct explorer *x)
{
    static const char *const strategies[] = {"ddp", "zero1", "zero2", "zero3"};
    static const char *const policies[] = {"none", "selective", "half", "full"};
    static const char *const shard_keys[] = {".zero", ".fsdp", ".optimizer-shards", NULL};
    static const char *const recompute_keys[] = {".checkpointing", ".recompute", NULL}, *const module_keys[] = {
                                                                                            ".recompute-modules", NULL};
    static const char *const sequence_keys[] = {"sequence-parallel", NULL};
    const redco_search_options *const o = &x->question->options;
    redco_status st = REDCO_OK;
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0] && st == REDCO_OK; i++) {
        struct move move = {.option = "strategy"};
        if (o->strategy == strategy_of(strategies[i])) { continue; }
        (void)snprintf(move.value, sizeof move.value, "%s", strategies[i]);
        st = try_move(x, &move, shard_keys);
    }
    for (size_t i = 0; i < sizeof policies / sizeof policies[0] && st == REDCO_OK; i++) {
        redco_recompute set = 0;
        bool half = false;
        struct move move = {.option = "recompute"};
        (void)redco_recompute_parse(policies[i], &set, &half);
        const bool same =
            o->recompute == set && (set != REDCO_RECOMPUTE_FULL || half == o->workload.engine.partial_recompute);
        if (same || o->recompute == REDCO_RECOMPUTE_FREE) { continue; }
        (void)snprintf(move.value, sizeof move.value, "%s", policies[i]);
        const bool modules =
            strcmp(policies[i], "selective") == 0 && redco_reading_said(x->reading, ".recompute-modules");
        if (modules) { (void)snprintf(move.value, sizeof move.value, "core_attn"); }
        st = try_move(x, &move, modules ? module_keys : recompute_keys);
    }
    if (o->given.tp > 1 && st == REDCO_OK) {
        struct move move = {.option = "sequence-parallel"};
        (void)snprintf(move.value, sizeof move.value, "%s", o->sequence_parallel == REDCO_ON ? "off" : "on");
        st = try_move(x, &move, sequence_keys);
    }
    return st;
}

/* Traffic that a file's flags leave in sight. */
static redco_status try_overlap(struct explorer *x)
{
    static const struct {
        uint32_t bit;
        const char *target;
    } kinds[] = {
        {REDCO_OVERLAP_AR, ".overlap-ar"}, {REDCO_OVERLAP_BC, ".overlap-bc"}, {REDCO_OVERLAP_TP, ".overlap-tp"}};
    const redco_search_options *const o = &x->question->options;
    redco_status st = REDCO_OK;
    if (!o->overlap_fixed) { return REDCO_OK; }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && st == REDCO_OK; i++) {
        struct move move = {.option = "overlap", .value = "yes", .number = kinds[i].bit};
        const char *const targets[] = {kinds[i].target, NULL};
        if ((o->workload.overlap & kinds[i].bit) != 0) { continue; }
        st = try_move(x, &move, targets);
    }
    return st;
}

static int by_step(const void *a, const void *b)
{
    const double x = ((const struct tried *)a)->change.step_s, y = ((const struct tried *)b)->change.step_s;
    return x < y ? -1 : x > y;
}

/* The best first; each further one joins if it makes the step shorter with those that have. */
static redco_status join(struct explorer *x, redco_changes *out)
{
    const struct move *moves[REDCO_MOST_CHANGES];
    redco_change best = out->alone[0];
    redco_status st = REDCO_OK;
    if (out->count == 0) { return REDCO_OK; }
    moves[0] = &x->tried[0].move;
    out->joined[0] = 0;
    out->joined_count = 1;
    for (uint32_t i = 1; i < out->count && st == REDCO_OK; i++) {
        bool moved = false;
        for (uint32_t k = 0; k < out->joined_count; k++) {
            moved = moved || (strcmp(moves[k]->option, x->tried[i].move.option) == 0 && moves[k]->value[0] != 'y');
        }
        if (moved) { continue; }
        redco_change change = {.edit_count = 0};
        moves[out->joined_count] = &x->tried[i].move;
        st = ask(x, moves, out->joined_count + 1, &change);
        if (st != REDCO_OK || !change.feasible || change.step_s > best.step_s * (1.0 - least_gain_ratio)) { continue; }
        out->joined[out->joined_count++] = i;
        best = change;
    }
    out->together = best;
    return st;
}

redco_status redco_changes_find(const redco_reading *reading, const redco_question *question,
                                const redco_inputs *inputs, const redco_candidate *found,
                                bool (*beside)(const void *context, const char *option), const void *context,
                                redco_changes *changes_out, redco_error *err)
{
    struct tried tried[REDCO_MOST_CHANGES];
    struct explorer x = {.reading = reading,
                         .question = question,
                         .inputs = inputs,
                         .beside = beside,
                         .context = context,
                         .step_s = found != NULL ? found->prediction.step_s : (double)INFINITY,
                         .gpus = (uint64_t)inputs->machine.nodes * inputs->machine.gpus_per_node,
                         .tried = tried,
                         .err = err};
    *changes_out = (redco_changes){.count = 0};
    redco_status st = try_degrees(&x);
    if (st == REDCO_OK) { st = try_words(&x); }
    if (st == REDCO_OK) { st = try_overlap(&x); }
    if (st != REDCO_OK) { return st; }
    qsort(tried, x.count, sizeof *tried, by_step);
    for (uint32_t i = 0; i < x.count; i++) {
        const bool pays = isinf(x.step_s) || tried[i].change.gain_ratio >= least_gain_ratio;
        if (pays) { changes_out->alone[changes_out->count++] = tried[i].change; }
    }
    return join(&x, changes_out);
}

static json_t *change_json(const redco_change *change)
{
    json_t *const edits = json_array();
    for (uint32_t i = 0; i < change->edit_count; i++) {
        const redco_words *const edit = &change->edits[i];
        (void)json_array_append_new(edits,
                                    json_pack("{s:s,s:s,s:s}", "key", edit->key, "from", edit->from, "to", edit->to));
    }
    return json_pack("{s:o,s:f,s:f,s:I}", "edits", edits, "step_s", change->step_s, "gain_ratio", change->gain_ratio,
                     "memory_bytes", (json_int_t)change->total_bytes);
}

json_t *redco_changes_json(const redco_changes *changes)
{
    json_t *const alone = json_array(), *const joined = json_array();
    for (uint32_t i = 0; i < changes->count; i++) {
        (void)json_array_append_new(alone, change_json(&changes->alone[i]));
    }
    for (uint32_t i = 0; i < changes->joined_count && changes->joined_count > 1; i++) {
        (void)json_array_append_new(joined, json_integer(changes->joined[i]));
    }
    json_t *const together =
        changes->joined_count > 1
            ? json_pack("{s:o,s:f,s:f,s:I}", "changes", joined, "step_s", changes->together.step_s, "gain_ratio",
                        changes->together.gain_ratio, "memory_bytes", (json_int_t)changes->together.total_bytes)
            : (json_decref(joined), json_null());
    return json_pack("{s:o,s:o}", "alone", alone, "together", together);
}
