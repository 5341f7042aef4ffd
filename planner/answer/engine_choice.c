/* Whose steps are planned where nobody names an engine, and with --engine auto. */
#include "planner/answer/priced.h"
#include "planner/answer/question.h"
#include "planner/answer/several.h"
#include "topology/base/preset.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_RIVALS = 16 };

/* A brief search may miss the best layout by this: within it an engine is asked in full. */
static const double brief_ratio = 0.05;
/* Sums of the same numbers in another order differ by less. */
static const double rounding_ratio = 1e-9;

/* The fastest of those whose band lies above the default's. */
static const redco_answer_row *pick_row(const redco_answer_list *list)
{
    const redco_answer_row *const usual = &list->rows[0];
    const redco_answer_row *chosen = usual;
    for (uint32_t i = 1; i < list->count; i++) {
        const redco_answer_row *const other = &list->rows[i];
        if (redco_answer_tokens(other) <= redco_answer_tokens(chosen)) { continue; }
        const double band = other->inputs->calibration.band_ratio, usual_band = usual->inputs->calibration.band_ratio;
        const double least = redco_answer_tokens(other) * (1.0 - band);
        const double most = redco_answer_tokens(usual) * (1.0 + usual_band);
        /* A set without a band tells nothing apart. */
        const bool bands = band > 0.0 && usual_band > 0.0;
        if (least > most && (bands || redco_answer_tokens(usual) <= 0.0)) { chosen = other; }
    }
    return chosen;
}

static redco_status pick_engine(redco_question *question, const redco_inputs *inputs, redco_engine_pick *pick,
                                redco_error *err)
{
    redco_answer_list *list = NULL;
    const redco_status st = redco_answer_engines(question, inputs, false, &list, err);
    if (st != REDCO_OK) { return st; }
    const redco_answer_row *const usual = &list->rows[0], *const chosen = pick_row(list);
    const double usual_tokens = redco_answer_tokens(usual);
    *pick = (redco_engine_pick){.tried = true, .others = list->count - 1, .another = chosen != usual};
    (void)snprintf(pick->usual, sizeof pick->usual, "%s", usual->name);
    pick->usual_fits = usual_tokens > 0.0;
    if (pick->usual_fits) { pick->gain_ratio = redco_answer_tokens(chosen) / usual_tokens - 1.0; }
    pick->usual_bad = usual->bad;
    if (usual->result != NULL) {
        pick->usual_short_bytes = usual->result->shortfall.short_bytes;
        pick->usual_largest = usual->result->shortfall.largest;
    }
    if (pick->another) { question->names.engine = redco_preset_find("engines", chosen->name)->name; /* static */ }
    redco_answer_list_free(list);
    return REDCO_OK;
}

static redco_status read_again(redco_question *question, redco_inputs *inputs, redco_error *err)
{
    redco_inputs other;
    const redco_status st = redco_question_read(question, &other, err);
    if (st != REDCO_OK) { return st; }
    redco_inputs_free(inputs);
    *inputs = other;
    return REDCO_OK;
}

/* Lists the engines that may take the default's place: measured on the GPU, and with an exporter. */
static redco_status list_rivals(const redco_inputs *inputs, const char *names_out[MOST_RIVALS], uint32_t *count_out,
                                redco_error *err)
{
    *count_out = 0;
    for (size_t i = 0; redco_preset_at("engines", i) != NULL && *count_out < MOST_RIVALS; i++) {
        redco_engine_file file;
        const char *const name = redco_preset_at("engines", i)->name;
        const redco_status st = redco_engine_file_read(name, &file, err);
        if (st != REDCO_OK) { return st; }
        if (file.export_to[0] == '\0' || !redco_engine_measured_on(&file, inputs->machine.gpu.name) ||
            strcmp(name, inputs->engine.engine.name) == 0) {
            continue;
        }
        names_out[(*count_out)++] = name; /* static */
    }
    return REDCO_OK;
}

/* What an engine answers to a question. */
struct offer {
    const char *name;
    double objective; /* s; INFINITY: it has no plan, or none within the limit */
    size_t lacks;     /* choices that were given and that it does not have */
};

/* @param limit_s  0, or slower plans are of no interest, and the search is brief */
static redco_status ask_engine(const redco_question *question, const char *name, double limit_s, struct offer *offer,
                               redco_error *err)
{
    redco_question one = *question;
    redco_inputs inputs = {0};
    redco_search_result *found = NULL;
    redco_error why = {.status = REDCO_OK};
    const char *lacks[REDCO_MOST_LACKS];
    one.names.engine = name;
    *offer = (struct offer){.name = name, .objective = (double)INFINITY};
    redco_status st = redco_question_read(&one, &inputs, &why);
    if (st == REDCO_OK) {
        redco_search_options *const o = &one.options;
        redco_inputs_use_engine(&inputs, o);
        offer->lacks = redco_options_lack(o, &inputs, lacks);
        o->verify = false;
        o->top = 1;
        o->brief = o->brief || limit_s > 0.0;
        if (limit_s > 0.0 && o->objective == REDCO_OBJECTIVE_STEP_TIME && o->strategy != REDCO_STRATEGY_AMSP) {
            o->limit_s = limit_s;
        }
        st = redco_search_answer(&inputs, o, &found, &why);
        redco_inputs_free(&inputs);
    }
    if (st == REDCO_EVALUE) { return REDCO_OK; } /* machine or model rule it out */
    if (st != REDCO_OK) { return redco_fail(err, st, why.place, "%s", why.text); }
    if (found->ranked_count > 0) {
        const redco_candidate *const best = &found->ranked[0];
        offer->objective = one.options.objective == REDCO_OBJECTIVE_COMM ? best->objective : best->prediction.step_s;
    }
    redco_search_result_free(found);
    return REDCO_OK;
}

static bool is_better(const struct offer *offer, const struct offer *best)
{
    if (isinf(offer->objective)) { return false; }
    if (isinf(best->objective) || offer->lacks != best->lacks) {
        return isinf(best->objective) ? offer->lacks <= best->lacks : offer->lacks < best->lacks;
    }
    return offer->objective < best->objective * (1.0 - rounding_ratio);
}

/* The fastest plan decides, of equal ones the default. What is priced can be run: of several engines each keeps to what
 * it has. The default is asked in full, and so is an engine that may be about as fast as the best so far. */
static redco_status choose_fastest(redco_question *question, redco_inputs *inputs, redco_engine_pick *pick,
                                   redco_error *err)
{
    const char *rivals[MOST_RIVALS];
    char usual_name[REDCO_ENGINE_NAME], reason[sizeof inputs->engine_reason];
    uint32_t count = 0;
    struct offer usual, best;
    redco_status st = list_rivals(inputs, rivals, &count, err);
    if (st != REDCO_OK || count == 0) { return st; }
    (void)snprintf(usual_name, sizeof usual_name, "%s", inputs->engine.engine.name);
    (void)snprintf(reason, sizeof reason, "%s", inputs->engine_reason);
    const redco_preset *const preset = redco_preset_find("engines", usual_name);
    if (preset == NULL) { return REDCO_OK; }
    const char *const usual_preset = preset->name;
    if ((st = ask_engine(question, usual_preset, 0.0, &usual, err)) != REDCO_OK) { return st; }
    best = usual;
    for (uint32_t i = 0; i < count; i++) {
        struct offer offer;
        const double limit_s = isinf(best.objective) ? 0.0 : best.objective * (1.0 + brief_ratio);
        if ((st = ask_engine(question, rivals[i], limit_s, &offer, err)) != REDCO_OK) { return st; }
        const bool close = limit_s > 0.0 && offer.objective >= best.objective * (1.0 - brief_ratio);
        if (close && !isinf(offer.objective) && (st = ask_engine(question, rivals[i], 0.0, &offer, err)) != REDCO_OK) {
            return st;
        }
        if (is_better(&offer, &best)) { best = offer; }
    }
    inputs->engine_limits = true;
    if (best.name == usual_preset) { return REDCO_OK; }
    question->names.engine = best.name;
    if ((st = read_again(question, inputs, err)) != REDCO_OK) { return st; }
    pick->replaced = true;
    (void)snprintf(pick->usual, sizeof pick->usual, "%s", usual_name);
    if (isinf(usual.objective)) {
        (void)snprintf(inputs->engine_reason, sizeof inputs->engine_reason,
                       "measured on this GPU; its default, %s, has no plan that fits", usual_name);
    } else if (usual.lacks > best.lacks) {
        (void)snprintf(inputs->engine_reason, sizeof inputs->engine_reason,
                       "measured on this GPU; its default, %s, lacks what is asked for", usual_name);
    } else {
        (void)snprintf(inputs->engine_reason, sizeof inputs->engine_reason,
                       "%.1f %% faster than this GPU's default, %s", 100.0 * (usual.objective / best.objective - 1.0),
                       usual_name);
    }
    return REDCO_OK;
}

redco_status redco_question_settle(redco_question *question, redco_inputs *inputs, redco_engine_pick *pick_out,
                                   redco_error *err)
{
    const bool chosen = question->names.engine != NULL || question->names.calibration != NULL ||
                        question->names.profile_count > 0 || inputs->engine_limits;
    *pick_out = (redco_engine_pick){.tried = false};
    redco_status st = question->try_engines ? pick_engine(question, inputs, pick_out, err) : REDCO_OK;
    if (st == REDCO_OK && pick_out->another) { st = read_again(question, inputs, err); }
    if (st == REDCO_OK && !question->try_engines && !chosen) { st = choose_fastest(question, inputs, pick_out, err); }
    if (st == REDCO_OK) { redco_inputs_use_engine(inputs, &question->options); }
    return st;
}
