/* The engine whose steps are planned where nobody names one, and with --engine auto. */
#include "planner/answer/explain.h"
#include "planner/answer/priced.h"
#include "planner/answer/pricing.h"
#include "planner/answer/question.h"
#include "planner/assemble/step_memo.h"
#include "topology/base/preset.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static uint64_t gpus_of(const redco_inputs *inputs)
{
    return (uint64_t)inputs->machine.nodes * inputs->machine.gpus_per_node;
}

/* The inputs of another engine in place of those that were read, whose objects they take over. */
static redco_status take_engine(redco_question *question, const char *name, redco_inputs *inputs, redco_error *err)
{
    redco_inputs other;
    question->names.engine = name;
    question->engine_chosen = true;
    const redco_status st = redco_inputs_read_like(inputs, &question->names, 0, &other, err);
    if (st != REDCO_OK) { return st; }
    other.borrowed = inputs->borrowed;
    other.comm_borrowed = inputs->comm_borrowed;
    other.engine_named = false;
    *inputs = other;
    return REDCO_OK;
}

redco_status redco_engine_rivals(const redco_inputs *inputs, bool any, const char *names_out[REDCO_MOST_RIVALS],
                                 uint32_t *count_out, redco_error *err)
{
    *count_out = 0;
    for (int like = 0; like < 2 && *count_out == 0; like++) {
        for (size_t i = 0; redco_preset_at("engines", i) != NULL && *count_out < REDCO_MOST_RIVALS; i++) {
            redco_engine_file file;
            const char *const name = redco_preset_at("engines", i)->name;
            const redco_status st = redco_engine_file_read(name, &file, err);
            if (st != REDCO_OK) { return st; }
            const bool measured = like != 0 ? redco_engine_measured_like(&file, &inputs->machine.gpu)
                                            : redco_engine_measured_on(&file, inputs->machine.gpu.name);
            if (!measured || (file.export_to[0] == '\0' && !any) || strcmp(name, inputs->engine.engine.name) == 0) {
                continue;
            }
            names_out[(*count_out)++] = name; /* static */
        }
    }
    return REDCO_OK;
}

/* The answer of one engine to a question. */
struct offer {
    const char *name;
    double objective;     /* s; INFINITY: it has no plan, or none within the limit */
    uint64_t short_bytes; /* then: what a GPU lacks */
    size_t lacks;         /* choices that were given and that it does not have */
    bool limited;         /* a search with a limit found it: one without may find a better one */
    bool own_kinds;       /* redco_search_allows.own_kinds */
};

/* The answer is the one of redco_answer_find(), which finds it again, where one is asked for and nothing is verified.
 * @param limit_s  0, or slower plans are of no interest */
static redco_status ask_engine(const redco_question *question, const redco_inputs *read, const char *name,
                               double limit_s, struct offer *offer, redco_error *err)
{
    redco_question one = *question;
    redco_inputs inputs = {0};
    redco_search_result *found = NULL;
    redco_error why = {.status = REDCO_OK};
    const char *lacks[REDCO_MOST_LACKS];
    one.names.engine = name;
    *offer = (struct offer){.name = name,
                            .objective = (double)INFINITY,
                            .short_bytes = UINT64_MAX,
                            .limited = limit_s > 0.0,
                            .own_kinds = question->options.allows.own_kinds};
    one.gpus = gpus_of(read);
    redco_status st = redco_question_read_like(&one, read, &inputs, err);
    if (st != REDCO_OK) { return st; }
    redco_search_options *const o = &one.options;
    redco_inputs_use_engine(&inputs, o);
    offer->lacks = redco_options_lack(o, &inputs, lacks);
    o->verify = false;
    o->pass.no_remedies = true;
    if (o->top > 1) { o->top = 1; }
    if (limit_s > 0.0 && o->objective == REDCO_OBJECTIVE_STEP_TIME && o->strategy != REDCO_STRATEGY_AMSP) {
        o->pass.limit_s = limit_s;
    }
    const redco_search_options asked = *o;
    st = redco_search_answer(&inputs, o, &found, &why);
    if (st != REDCO_OK) {
        redco_inputs_free(&inputs); /* if machine or model rule it out, it has none */
        return st == REDCO_EVALUE ? REDCO_OK : redco_fail(err, st, why.place, "%s", why.text);
    }
    if (found->ranked_count > 0) {
        const redco_candidate *const best = &found->ranked[0];
        offer->objective = one.options.objective == REDCO_OBJECTIVE_COMM ? best->objective : best->prediction.step_s;
    } else {
        offer->short_bytes = found->shortfall.short_bytes;
    }
    if (found->ranked_count > 0 && !offer->limited) {
        redco_known_answer_keep(&inputs, &asked, o, found, redco_search_result_free);
    } else {
        redco_search_result_free(found);
    }
    redco_inputs_free(&inputs);
    return REDCO_OK;
}

static uint32_t bits_of(uint32_t bits)
{
    uint32_t count = 0;
    for (; bits != 0; bits &= bits - 1) { count++; }
    return count;
}

/* So many choices does an engine leave. */
static uint32_t freedom_of(const redco_engine_file *file)
{
    return bits_of(file->dimensions) + bits_of(file->schedules) + bits_of(file->cp_types) + file->recompute.count;
}

/* Puts the rival that has most to choose from first, where the default has less: it is likely to be the fastest, and
 * the others are asked for what is faster than its plan alone.
 * @param any_out  it is first */
static redco_status order_rivals(const redco_inputs *inputs, const char **rivals, uint32_t count, bool *any_out,
                                 redco_error *err)
{
    uint32_t most = freedom_of(&inputs->engine), first = count;
    for (uint32_t i = 0; i < count; i++) {
        redco_engine_file file;
        const redco_status st = redco_engine_file_read(rivals[i], &file, err);
        if (st != REDCO_OK) { return st; }
        if (freedom_of(&file) <= most) { continue; }
        most = freedom_of(&file);
        first = i;
    }
    *any_out = first < count;
    if (!*any_out) { return REDCO_OK; }
    const char *const name = rivals[first];
    for (; first > 0; first--) { rivals[first] = rivals[first - 1]; }
    rivals[0] = name;
    return REDCO_OK;
}

static bool is_better(const struct offer *offer, const struct offer *best)
{
    if (isinf(offer->objective)) { /* the one that is nearest to fitting is told */
        return isinf(best->objective) && offer->lacks <= best->lacks && offer->short_bytes < best->short_bytes;
    }
    if (isinf(best->objective)) { return offer->lacks <= best->lacks || !offer->own_kinds; }
    if (offer->lacks != best->lacks) { return offer->lacks < best->lacks; }
    return offer->objective < best->objective * (1.0 - redcoi_rounding_ratio);
}

/* Says why another engine was taken. */
static void give_reason(const struct offer *usual, const struct offer *best, bool asked, redco_inputs *inputs)
{
    char *const reason = inputs->engine_reason;
    const size_t size = sizeof inputs->engine_reason;
    const char *const by = asked ? "auto: " : "";
    if (isinf(usual->objective)) {
        (void)snprintf(reason, size, "%sthis GPU's default, %s, has no plan that fits", by, usual->name);
    } else if (usual->lacks > best->lacks) {
        (void)snprintf(reason, size, "%sthis GPU's default, %s, lacks what is asked for", by, usual->name);
    } else {
        (void)snprintf(reason, size, "%s%.1f %% faster than this GPU's default, %s", by,
                       100.0 * (usual->objective / best->objective - 1.0), usual->name);
    }
}

/* One that may be about as fast as the best so far is asked in full.
 * @param told   it is no more than told of, if it is faster
 * @param whole  it is asked in full at once */
static redco_status ask_rival(const redco_question *question, const redco_inputs *inputs, const char *name, bool told,
                              bool whole, struct offer *best, struct offer *offer, redco_error *err)
{
    /* A plan that is priced as if its engine had what is asked for is no measure for one that has it. */
    const double limit_s =
        whole || isinf(best->objective) || best->lacks > 0 ? 0.0 : best->objective * (1.0 + redco_limited_ratio);
    redco_status st = ask_engine(question, inputs, name, limit_s, offer, err);
    if (st != REDCO_OK) { return st; }
    const bool close = limit_s > 0.0 && offer->objective >= best->objective * (1.0 - redco_limited_ratio) &&
                       !(told && offer->objective >= best->objective);
    if (close && !isinf(offer->objective)) { st = ask_engine(question, inputs, name, 0.0, offer, err); }
    if (st == REDCO_OK && is_better(offer, best)) { *best = *offer; }
    return st;
}

/* Rivals that had a limit when they were asked and came about as close to the best as a limit may miss by. */
static redco_status ask_close(const redco_question *question, const redco_inputs *inputs, const struct offer *offers,
                              uint32_t count, struct offer *best, redco_error *err)
{
    const double close_s = best->objective * (1.0 + 2.0 * redco_limited_ratio);
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
        struct offer offer;
        if (!offers[i].limited || !(offers[i].objective < close_s) || offers[i].name == best->name) { continue; }
        st = ask_engine(question, inputs, offers[i].name, 0.0, &offer, err);
        if (st == REDCO_OK && is_better(&offer, best)) { *best = offer; }
    }
    return st;
}

static bool is_among(const char *name, const char *const *names, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) { return true; }
    }
    return false;
}

/* Says that an engine without an exporter would be faster than the one that is taken: a question that leaves only it
 * (one policy of recomputation that no other has room for, say) has its plan for an answer. */
static void note_faster(const redco_question *question, const struct offer *faster, const struct offer *best,
                        redco_inputs *inputs)
{
    const size_t used = strlen(inputs->engine_reason), rest = sizeof inputs->engine_reason - used;
    if (!(faster->objective < best->objective * (1.0 - redcoi_tie_ratio))) { return; }
    (void)snprintf(inputs->engine_reason + used, rest,
                   "; %s, which no exporter writes, would take %.5g s%s, %.1f %% less", faster->name, faster->objective,
                   question->options.objective == REDCO_OBJECTIVE_COMM ? " of communication" : "",
                   100.0 * (1.0 - faster->objective / best->objective));
}

/* The engines' offers. */
struct choice {
    struct offer usual, best; /* the default's, and the one that is taken */
    struct offer other;       /* the fastest of all, also of those without an exporter */
    uint32_t rival_count;
    bool fits; /* the default or one of those with an exporter has a plan */
};

static redco_status compare_engines(const redco_question *question, const redco_inputs *inputs, const char *preset,
                                    struct choice *out, redco_error *err)
{
    const char *rivals[REDCO_MOST_RIVALS] = {NULL}, *all[REDCO_MOST_RIVALS] = {NULL};
    uint32_t all_count = 0;
    struct offer offers[REDCO_MOST_RIVALS], offer;
    redco_status st = redco_engine_rivals(inputs, question->try_engines, rivals, &out->rival_count, err);
    bool likely = false;
    if (st == REDCO_OK) { st = redco_engine_rivals(inputs, true, all, &all_count, err); }
    if (st == REDCO_OK) { st = order_rivals(inputs, rivals, out->rival_count, &likely, err); }
    if (st != REDCO_OK) { return st; }
    out->usual = (struct offer){.name = preset, .objective = (double)INFINITY, .short_bytes = UINT64_MAX};
    if (all_count > 0) { st = ask_engine(question, inputs, preset, 0.0, &out->usual, err); }
    out->best = out->usual;
    for (uint32_t i = 0; i < out->rival_count && st == REDCO_OK; i++) {
        st = ask_rival(question, inputs, rivals[i], false, likely && i == 0, &out->best, &offers[i], err);
    }
    if (st == REDCO_OK && !isinf(out->best.objective)) {
        st = ask_close(question, inputs, offers, out->rival_count, &out->best, err);
    }
    out->other = out->best;
    out->fits = !isinf(out->best.objective);
    for (uint32_t i = 0; i < all_count && !(out->fits && question->is_variant) && st == REDCO_OK; i++) {
        if (!is_among(all[i], rivals, out->rival_count)) {
            st = ask_rival(question, inputs, all[i], out->fits, false, &out->other, &offer, err);
        }
    }
    if (!out->fits && !isinf(out->other.objective)) { out->best = out->other; }
    return st;
}

/* The fastest plan decides, of equal ones the default, which is asked in full: each engine keeps to what it has, so
 * that what is priced can be run. Engines without an exporter are taken where nothing else fits, and given kinds of
 * stages that none has are priced as if where there is no plan without. */
static redco_status choose_fastest(redco_question *question, redco_inputs *inputs, redco_error *err)
{
    const bool kinds =
        redco_search_schedule(&question->options) != 0 || redco_search_states(&question->options, REDCO_OF_CP_TYPE);
    const redco_preset *const preset = redco_preset_find("engines", inputs->engine.engine.name);
    struct choice choice = {0};
    if (preset == NULL) { return REDCO_OK; }
    redco_status st = compare_engines(question, inputs, preset->name, &choice, err);
    if (st == REDCO_OK && kinds && isinf(choice.best.objective)) {
        question->options.allows.own_kinds = false;
        st = compare_engines(question, inputs, preset->name, &choice, err);
    }
    if (st != REDCO_OK) { return st; }
    const struct offer *const usual = &choice.usual, *const best = &choice.best;
    if (best->name == preset->name) {
        const size_t used = strlen(inputs->engine_reason), rest = sizeof inputs->engine_reason - used;
        if (question->try_engines && choice.rival_count == 0) {
            (void)snprintf(inputs->engine_reason + used, rest, "; auto: no other engine was measured on such GPUs");
        } else if (question->try_engines) {
            (void)snprintf(inputs->engine_reason + used, rest, "; auto: none of %u others measured here is faster",
                           choice.rival_count);
        }
    } else {
        if ((st = take_engine(question, best->name, inputs, err)) != REDCO_OK) { return st; }
        give_reason(usual, best, question->try_engines, inputs);
    }
    if (choice.fits) { note_faster(question, &choice.other, best, inputs); }
    return REDCO_OK;
}

redco_status redco_question_settle(redco_question *question, redco_inputs *inputs, redco_error *err)
{
    const bool chosen = question->names.engine != NULL || question->names.calibration != NULL || inputs->engine_named ||
                        (inputs->engine_of_cluster && !question->try_engines);
    question->options.allows.own_kinds = !chosen;
    const redco_status st = chosen ? REDCO_OK : choose_fastest(question, inputs, err);
    if (st == REDCO_OK) { redco_inputs_use_engine(inputs, &question->options); }
    return st;
}

redco_status redco_question_ask(const redco_question *question, const redco_inputs *inputs, uint64_t gpus,
                                redco_search_options *options, size_t *lacks_out, redco_search_result **result_out,
                                redco_error *err)
{
    const char *lacks[REDCO_MOST_LACKS];
    const bool named = question->names.engine != NULL && !question->engine_chosen;
    const redco_engine *const changed = &options->workload.engine, *const engine = &question->options.workload.engine;
    const bool traits = changed->moment_bytes != engine->moment_bytes ||
                        changed->gradient_bytes != engine->gradient_bytes || changed->dispatcher != engine->dispatcher;
    redco_question one = *question;
    redco_inputs there = {0};
    /* A trait that is changed is the engine's. */
    if (gpus == gpus_of(inputs) && (named || traits)) {
        if (lacks_out != NULL) { *lacks_out = redco_options_lack(options, inputs, lacks); }
        return redco_search_answer(inputs, options, result_out, err);
    }
    if (!named) { one.names.engine = NULL; }
    one.engine_chosen = false;
    one.is_variant = true;
    one.options = *options;
    one.gpus = gpus;
    one.size_count = 0;
    redco_status st = redco_question_read_like(&one, inputs, &there, err);
    if (st != REDCO_OK) { return st; }
    if ((st = redco_question_settle(&one, &there, err)) == REDCO_OK) {
        *options = one.options;
        if (lacks_out != NULL) { *lacks_out = redco_options_lack(options, &there, lacks); }
        st = redco_search_answer(&there, options, result_out, err);
        options->given.split = question->options.given.split;
        options->tp_rules = question->options.tp_rules;
    }
    redco_inputs_free(&there);
    return st;
}

const char *redco_question_other_engine(const redco_inputs *inputs, const redco_search_options *options)
{
    const char *const name = options->workload.engine.name;
    return strcmp(name, inputs->choice.engine.name) == 0 ? NULL : name;
}
