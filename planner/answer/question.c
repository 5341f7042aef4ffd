#include "planner/answer/question.h"

#include "planner/answer/explain.h"
#include "planner/answer/priced.h"
#include "planner/answer/several.h"
#include "planner/search/strategy.h"
#include "topology/base/preset.h"

#include <stdio.h>

redco_question redco_question_default(void)
{
    return (redco_question){
        .options = {
            .workload = {.seq_len = 4096, .global_batch = 1024, .precision = REDCO_BF16, .overlap = REDCO_OVERLAP_ALL},
            .pp = REDCO_DEGREE_MEASURED,
            .cp = REDCO_DEGREE_MEASURED,
            .chunks = REDCO_DEGREE_AUTO,
            .sequence_parallel = REDCO_EITHER,
            .recompute = REDCO_RECOMPUTE_COUNT,
            .gap_ratio = 0.0005}};
}

/* They are the inputs' own. */
static void use_rules(redco_question *question, const redco_inputs *inputs)
{
    if (inputs->tp_rules == NULL) { return; }
    question->options.tp_placement = REDCO_TP_USER;
    question->options.tp_placement_fixed = true;
    question->options.tp_rules = inputs->tp_rules;
}

static redco_status use_split(redco_question *question, const redco_inputs *inputs, redco_error *err)
{
    redco_search_options *const o = &question->options;
    const redco_layer_class *classes = NULL;
    const size_t count = redco_model_classes(inputs->model, &classes);
    uint32_t blocks = 0, chunks = o->chunks == REDCO_DEGREE_AUTO ? 0 : o->chunks;
    if (question->split == NULL) { return REDCO_OK; }
    o->equal_stages = true;
    if (redco_split_says_equal(question->split)) { return REDCO_OK; }
    if (o->pp < 2 || redco_degree_is_free(o->pp)) {
        return redco_fail(err, REDCO_EVALUE, "split", "is for a given number of 2 pipeline stages or more");
    }
    for (size_t i = 0; i < count; i++) {
        if (redco_class_is_block(classes[i].kind)) { blocks += classes[i].layers; }
    }
    if (o->schedule != REDCO_PIPELINE_1F1B && o->schedule != REDCO_PIPELINE_INTERLEAVED) {
        chunks = o->schedule == REDCO_PIPELINE_DUALPIPE ? 1 : redco_pipeline_chunks(o->schedule, 1);
    }
    const redco_status st = redco_split_read(question->split, blocks, o->pp, chunks, question->positions, &chunks, err);
    if (st != REDCO_OK) { return st; }
    const uint32_t positions = redco_pipeline_positions(o->schedule, o->pp, chunks);
    const redco_pipeline_kind kind = redco_pipeline_of_chunks(o->schedule, chunks);
    o->split = redco_split_is_equal(kind, question->positions, positions, blocks) ? NULL : question->positions;
    if (o->schedule != REDCO_PIPELINE_DUALPIPE) { o->chunks = chunks; }
    return REDCO_OK;
}

redco_status redco_question_read(redco_question *question, redco_inputs *inputs_out, redco_error *err)
{
    redco_status st = REDCO_EVALUE;
    if (question->size_count == 0) { st = redco_inputs_read(&question->names, question->gpus, inputs_out, err); }
    for (uint32_t i = 0; i < question->size_count && st == REDCO_EVALUE; i++) {
        st = redco_inputs_read(&question->names, question->sizes[i], inputs_out, err);
    }
    if (st != REDCO_OK) { return st; }
    redco_error_clear(err);
    use_rules(question, inputs_out);
    st = use_split(question, inputs_out, err);
    if (st != REDCO_OK) { redco_inputs_free(inputs_out); }
    return st;
}

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

/* Dimensions of the best layout that the engine lacks; 0 also where there is none. */
static redco_status find_lacking(const redco_question *question, const redco_inputs *inputs, uint32_t *lacking_out,
                                 redco_error *err)
{
    redco_search_options options = question->options;
    redco_search_result *found = NULL;
    redco_error why = {0};
    *lacking_out = 0;
    redco_inputs_use_engine(inputs, &options);
    options.verify = false;
    options.brief = true;
    options.top = 1;
    const redco_status st = redco_search_priced(inputs, &options, &found, &why);
    if (st == REDCO_EVALUE) { return REDCO_OK; } /* the answer tells */
    if (st != REDCO_OK) { return redco_fail(err, st, why.place, "%s", why.text); }
    if (found->ranked_count > 0) {
        const redco_parallelism *const s = &found->ranked[0].parallelism;
        *lacking_out = redco_setting_dimensions(s) & ~inputs->engine.dimensions;
    }
    redco_search_result_free(found);
    return REDCO_OK;
}

static uint32_t count_bits(uint32_t bits)
{
    uint32_t count = 0;
    for (; bits != 0; bits &= bits - 1) { count++; }
    return count;
}

/* @return the engine with most dimensions among those that were measured on the GPU, have @p lacking and an exporter;
 * of equal ones the first by name. NULL: none. */
static redco_status find_mock(const redco_inputs *inputs, uint32_t lacking, const char **name_out, redco_error *err)
{
    uint32_t most = 0;
    *name_out = NULL;
    for (size_t i = 0; redco_preset_at("engines", i) != NULL; i++) {
        redco_engine_file file;
        const char *const name = redco_preset_at("engines", i)->name;
        const redco_status st = redco_engine_file_read(name, &file, err);
        if (st != REDCO_OK) { return st; }
        if ((lacking & ~file.dimensions) != 0 || file.export_to[0] == '\0' ||
            !redco_engine_measured_on(&file, inputs->machine.gpu.name) || count_bits(file.dimensions) <= most) {
            continue;
        }
        most = count_bits(file.dimensions);
        *name_out = name;
    }
    return REDCO_OK;
}

/* An engine that nobody named limits nothing. Where the answer has stages, say, that it lacks, one that has them takes
 * its place: what is priced can be run. */
static redco_status replace_engine(redco_question *question, redco_inputs *inputs, redco_engine_pick *pick,
                                   redco_error *err)
{
    static const struct {
        uint32_t bit;
        const char *name;
    } dimensions[] = {
        {REDCO_HAS_TP, "tensor parallelism"},  {REDCO_HAS_SP, "sequence parallelism"},
        {REDCO_HAS_PP, "pipeline stages"},     {REDCO_HAS_CHUNKS, "model chunks"},
        {REDCO_HAS_CP, "context parallelism"}, {REDCO_HAS_GROUPS, "groups of more micro-batches than stages"}};
    uint32_t lacking = 0;
    const char *mock = NULL;
    redco_status st = REDCO_OK;
    for (size_t i = 0; i < sizeof dimensions / sizeof dimensions[0] && st == REDCO_OK && mock == NULL; i++) {
        if ((inputs->engine.dimensions & dimensions[i].bit) == 0) {
            st = find_mock(inputs, dimensions[i].bit, &mock, err);
        }
    }
    if (st != REDCO_OK || mock == NULL) { return st; } /* none has more */
    st = find_lacking(question, inputs, &lacking, err);
    mock = NULL;
    if (st == REDCO_OK && lacking != 0) { st = find_mock(inputs, lacking, &mock, err); }
    if (st == REDCO_OK && mock == NULL && (lacking & ~(uint32_t)REDCO_HAS_GROUPS) != 0) {
        lacking &= ~(uint32_t)REDCO_HAS_GROUPS; /* which only hide transfers */
        st = find_mock(inputs, lacking, &mock, err);
    }
    if (st != REDCO_OK || mock == NULL) { return st; }
    (void)snprintf(pick->usual, sizeof pick->usual, "%s", inputs->engine.engine.name);
    question->names.engine = mock; /* static */
    if ((st = read_again(question, inputs, err)) != REDCO_OK) { return st; }
    pick->replaced = true;
    size_t used = (size_t)snprintf(inputs->engine_reason, sizeof inputs->engine_reason, "%s, this GPU's default, lacks",
                                   pick->usual);
    const char *between = " ";
    for (size_t i = 0; i < sizeof dimensions / sizeof dimensions[0] && used < sizeof inputs->engine_reason; i++) {
        if ((lacking & dimensions[i].bit) == 0) { continue; }
        used += (size_t)snprintf(inputs->engine_reason + used, sizeof inputs->engine_reason - used, "%s%s", between,
                                 dimensions[i].name);
        between = ", ";
    }
    return REDCO_OK;
}

redco_status redco_question_settle(redco_question *question, redco_inputs *inputs, redco_engine_pick *pick_out,
                                   redco_error *err)
{
    const bool chosen = question->names.engine != NULL || question->names.calibration != NULL ||
                        question->names.profile_count > 0 || inputs->engine_named;
    const uint32_t all =
        REDCO_HAS_TP | REDCO_HAS_SP | REDCO_HAS_PP | REDCO_HAS_CHUNKS | REDCO_HAS_CP | REDCO_HAS_GROUPS;
    *pick_out = (redco_engine_pick){.tried = false};
    redco_status st = question->try_engines ? pick_engine(question, inputs, pick_out, err) : REDCO_OK;
    if (st == REDCO_OK && pick_out->another) { st = read_again(question, inputs, err); }
    if (st == REDCO_OK && !question->try_engines && !chosen && (all & ~inputs->engine.dimensions) != 0) {
        st = replace_engine(question, inputs, pick_out, err);
    }
    if (st == REDCO_OK) { redco_inputs_use_engine(inputs, &question->options); }
    return st;
}

/* Bit of a schedule that is neither of what chunks say. */
static uint32_t given_schedule(const redco_search_options *o)
{
    return o->schedule != REDCO_PIPELINE_1F1B && o->schedule != REDCO_PIPELINE_INTERLEAVED ? 1U << o->schedule : 0;
}

static const char *cp_type_lacked(const redco_search_options *o)
{
    static const char *const names[REDCO_CP_TYPES] = {"ring of keys and values", "all-gather of keys and values",
                                                      "all-to-all of attention heads"};
    int type = REDCO_CP_P2P;
    while (type + 1 < REDCO_CP_TYPES && (o->cp_types >> type & 1) == 0) { type++; }
    return names[type];
}

uint32_t redco_setting_dimensions(const redco_parallelism *parallelism)
{
    return (parallelism->tp > 1 ? REDCO_HAS_TP : 0U) | (parallelism->pp > 1 ? REDCO_HAS_PP : 0U) |
           (parallelism->cp > 1 ? REDCO_HAS_CP : 0U) |
           (redco_parallelism_chunks(parallelism) > 1 ? REDCO_HAS_CHUNKS : 0U) |
           (redco_parallelism_pipeline(parallelism).group > parallelism->pp ? REDCO_HAS_GROUPS : 0U) |
           (parallelism->sequence_parallel ? REDCO_HAS_SP : 0U);
}

size_t redco_question_lacks(const redco_question *question, const redco_inputs *inputs,
                            const char *lacks_out[REDCO_MOST_LACKS])
{
    const redco_search_options *const o = &question->options;
    const redco_engine_file *const file = &inputs->engine;
    const bool full = o->recompute == REDCO_RECOMPUTE_FULL, half = o->workload.engine.partial_recompute;
    const uint32_t overlap = o->overlap_fixed ? o->workload.overlap & ~file->overlap : 0;
    const struct {
        const char *what;
        bool given;
        uint32_t bit, has;
    } limits[] = {
        {"tensor parallelism", o->tp > 1, REDCO_HAS_TP, file->dimensions},
        {"pipeline stages", o->pp > 1 && !redco_degree_is_free(o->pp), REDCO_HAS_PP, file->dimensions},
        {"model chunks", o->chunks > 1 && o->chunks != REDCO_DEGREE_AUTO, REDCO_HAS_CHUNKS, file->dimensions},
        {"such order of passes in its pipeline", !redco_degree_is_free(o->pp) && o->pp > 1 && given_schedule(o) != 0,
         given_schedule(o), file->schedules},
        {"groups of more micro-batches than stages", o->group > 0 && o->group != o->pp, REDCO_HAS_GROUPS,
         file->dimensions},
        {"context parallelism", o->cp > 1 && !redco_degree_is_free(o->cp), REDCO_HAS_CP, file->dimensions},
        {cp_type_lacked(o), o->cp > 1 && o->cp_type_fixed, o->cp_types, file->cp_types},
        {"sequence parallelism", o->sequence_parallel == REDCO_ON, REDCO_HAS_SP, file->dimensions},
        {"recomputation of modules", o->modules && (file->recompute & REDCO_OFFERS_SELECTIVE) == 0, REDCO_OFFERS_MLP,
         file->recompute},
        {"recomputation of the FFN", o->recompute == REDCO_RECOMPUTE_MLP, REDCO_OFFERS_MLP, file->recompute},
        {"half recomputation", full && half, REDCO_OFFERS_HALF, file->recompute},
        {"full recomputation", full && !half, REDCO_OFFERS_FULL, file->recompute},
        {"optimizer shards of whole tensors", o->scheme_fixed && o->scheme == REDCO_INTER_TENSOR, true,
         file->inter_tensor},
        {"even optimizer shards", o->scheme_fixed && o->scheme == REDCO_INTRA_TENSOR, true, file->intra_tensor},
        {"overlap of gathers and scatters", (overlap & REDCO_OVERLAP_AG_RS) != 0, 0, 0},
        {"overlap of gradient reduction", (overlap & REDCO_OVERLAP_AR) != 0, 0, 0},
        {"overlap of updated parameters", (overlap & REDCO_OVERLAP_BC) != 0, 0, 0},
        {"overlap of tensor-parallel traffic", (overlap & REDCO_OVERLAP_TP) != 0, 0, 0},
        {"second copy of the parameters",
         o->fix_secondary.gpus > 0 && !redco_strategy_offered(file->states, REDCO_STRATEGY_ZEROPP), 0, 0},
        {redco_strategy_name(o->strategy),
         o->strategy != REDCO_STRATEGY_ANY && o->strategy != REDCO_STRATEGY_AMSP &&
             !redco_strategy_offered(file->states, o->strategy),
         0, 0}};
    size_t count = 0;
    _Static_assert(sizeof limits / sizeof limits[0] <= REDCO_MOST_LACKS, "room for all of them");
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        if (limits[i].given && (limits[i].has & limits[i].bit) == 0) { lacks_out[count++] = limits[i].what; }
    }
    return count;
}

const char *redco_question_name(const redco_search_options *options)
{
    if (options->strategy != REDCO_STRATEGY_ANY) { return redco_strategy_name(options->strategy); }
    return redco_options_fixed(options) ? "fixed" : "optimum";
}
