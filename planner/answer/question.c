#include "planner/answer/question.h"

#include "planner/executable/executable.h"
#include "planner/search/strategy.h"

redco_question redco_question_default(void)
{
    return (redco_question){
        .options = {.workload = {.global_batch = 1024, .precision = REDCO_BF16, .overlap = REDCO_OVERLAP_ALL},
                    .given.pp = REDCO_DEGREE_MEASURED,
                    .given.cp = REDCO_DEGREE_MEASURED,
                    .given.chunks = REDCO_DEGREE_AUTO,
                    .sequence_parallel = REDCO_EITHER,
                    .recompute = REDCO_RECOMPUTE_FREE,
                    .pass.gap_ratio = 0.0005}};
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
    uint32_t blocks = 0, chunks = o->given.chunks == REDCO_DEGREE_AUTO ? 0 : o->given.chunks;
    if (question->split == NULL) { return REDCO_OK; }
    o->equal_stages = true;
    if (redco_split_says_equal(question->split)) { return REDCO_OK; }
    if (o->given.pp < 2 || redco_degree_is_free(o->given.pp)) {
        return redco_fail(err, REDCO_EVALUE, "split", "is for a given number of 2 pipeline stages or more");
    }
    for (size_t i = 0; i < count; i++) {
        if (redco_class_is_block(classes[i].kind)) { blocks += classes[i].layers; }
    }
    if (o->given.schedule != REDCO_PIPELINE_1F1B && o->given.schedule != REDCO_PIPELINE_INTERLEAVED) {
        chunks = o->given.schedule == REDCO_PIPELINE_DUALPIPE ? 1 : redco_pipeline_chunks(o->given.schedule, 1);
    }
    const redco_status st =
        redco_split_read(question->split, blocks, o->given.pp, chunks, question->positions, &chunks, err);
    if (st != REDCO_OK) { return st; }
    const uint32_t positions = redco_pipeline_positions(o->given.schedule, o->given.pp, chunks);
    const redco_pipeline_kind kind = redco_pipeline_of_chunks(o->given.schedule, chunks);
    o->given.split = redco_split_is_equal(kind, question->positions, positions, blocks) ? NULL : question->positions;
    if (o->given.schedule != REDCO_PIPELINE_DUALPIPE) { o->given.chunks = chunks; }
    return REDCO_OK;
}

/* Sequences of no given length are as long as the model has learned positions, where these are few. */
static void use_positions(redco_question *question, const redco_inputs *inputs)
{
    enum { DEFAULT_TOKENS = 4096 };
    const uint32_t learned = redco_model_get_dims(inputs->model)->max_positions;
    uint32_t *const seq_len = &question->options.workload.seq_len;
    const uint32_t usual = question->usual_tokens > 0 ? question->usual_tokens : DEFAULT_TOKENS;
    if (*seq_len == 0) { *seq_len = learned > 0 && learned < usual ? learned : usual; }
}

/* @param inputs  freed on failure */
static redco_status use_inputs(redco_question *question, redco_inputs *inputs, redco_error *err)
{
    use_rules(question, inputs);
    use_positions(question, inputs);
    const redco_status st = use_split(question, inputs, err);
    if (st != REDCO_OK) { redco_inputs_free(inputs); }
    return st;
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
    return use_inputs(question, inputs_out, err);
}

redco_status redco_question_read_like(redco_question *question, const redco_inputs *like, redco_inputs *inputs_out,
                                      redco_error *err)
{
    const redco_status st = redco_inputs_read_like(like, &question->names, question->gpus, inputs_out, err);
    return st == REDCO_OK ? use_inputs(question, inputs_out, err) : st;
}

/* Stages are given, or the search may choose some. */
static bool may_have_stages(const redco_search_options *o)
{
    return o->given.pp > 1 && (!redco_degree_is_free(o->given.pp) || o->allows.dimensions == 0 ||
                               (o->allows.dimensions & REDCO_HAS_PP) != 0);
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
    redco_parallelism p = *parallelism;
    uint32_t bits = (redco_parallelism_pipeline(&p).group > p.pp ? REDCO_HAS_GROUPS : 0U) |
                    (p.sequence_parallel ? REDCO_HAS_SP : 0U);
    p.chunks = redco_parallelism_chunks(&p);
    for (const redco_dimension *d = redco_dimensions; d->key != NULL; d++) {
        if (!redco_dimension_is_degree(d)) { continue; }
        bits |= *redco_dimension_in(&p, d) > 1 ? d->bit : 0;
    }
    return bits;
}

size_t redco_options_lack(const redco_search_options *options, const redco_inputs *inputs,
                          const char *lacks_out[REDCO_MOST_LACKS])
{
    const redco_search_options *const o = options;
    const redco_engine_file *const file = &inputs->engine;
    const bool full = o->recompute == REDCO_RECOMPUTE_FULL, half = o->workload.engine.partial_recompute;
    const redco_recompute again = o->recompute == REDCO_RECOMPUTE_FREE ? REDCO_RECOMPUTE_NONE : o->recompute;
    const redco_recompute modules = redco_recompute_union(&file->recompute);
    const uint32_t overlap = o->overlap_fixed ? o->workload.overlap & ~file->overlap : 0;
    const struct {
        const char *what;
        bool given;
        uint32_t bit, has;
    } limits[] = {
        {"such order of passes in its pipeline", may_have_stages(o) && redco_search_schedule(o) != 0,
         redco_search_schedule(o), file->schedules},
        {"groups of more micro-batches than stages", o->given.group > 0 && o->given.group != o->given.pp,
         REDCO_HAS_GROUPS, file->dimensions},
        {cp_type_lacked(o), o->given.cp > 1 && redco_search_states(o, REDCO_OF_CP_TYPE), o->cp_types, file->cp_types},
        {"sequence parallelism", o->sequence_parallel == REDCO_ON, REDCO_HAS_SP, file->dimensions},
        {"recomputation of modules", o->modules && modules == 0, 0, 0},
        {"recomputation of norms", (again & REDCO_RECOMPUTE_LAYERNORM) != 0, REDCO_RECOMPUTE_LAYERNORM, modules},
        {"recomputation of latent attention", (again & REDCO_RECOMPUTE_MLA_UP_PROJ) != 0, REDCO_RECOMPUTE_MLA_UP_PROJ,
         modules},
        {"recomputation of the FFN", (again & REDCO_RECOMPUTE_MLP) != 0, REDCO_RECOMPUTE_MLP, modules},
        {"recomputation of experts' activations", (again & REDCO_RECOMPUTE_MOE_ACT) != 0, REDCO_RECOMPUTE_MOE_ACT,
         modules},
        {"recomputation of experts", (again & REDCO_RECOMPUTE_MOE) != 0, REDCO_RECOMPUTE_MOE, modules},
        {"recomputation of shared experts", (again & REDCO_RECOMPUTE_SHARED_EXPERTS) != 0,
         REDCO_RECOMPUTE_SHARED_EXPERTS, modules},
        {"recomputation of exchanges that overlap",
         o->workload.engine.ep_overlap && (full || (again & REDCO_RECOMPUTE_MOE) != 0), 0, 0},
        {"half recomputation", full && half && !redco_recompute_has(&file->recompute, REDCO_RECOMPUTE_HALF), 0, 0},
        {"full recomputation", full && !half && !redco_recompute_has(&file->recompute, REDCO_RECOMPUTE_FULL), 0, 0},
        {"optimizer shards of whole tensors",
         redco_search_states(o, REDCO_OF_SCHEME) && o->given.scheme == REDCO_INTER_TENSOR, true, file->inter_tensor},
        {"even optimizer shards", redco_search_states(o, REDCO_OF_SCHEME) && o->given.scheme == REDCO_INTRA_TENSOR,
         true, file->intra_tensor},
        {"overlap of gathers and scatters", (overlap & REDCO_OVERLAP_AG_RS) != 0, 0, 0},
        {"overlap of gradient reduction", (overlap & REDCO_OVERLAP_AR) != 0, 0, 0},
        {"overlap of updated parameters", (overlap & REDCO_OVERLAP_BC) != 0, 0, 0},
        {"overlap of tensor-parallel traffic", (overlap & REDCO_OVERLAP_TP) != 0, 0, 0},
        {"second copy of the parameters",
         o->given.secondary.gpus > 0 && !redco_strategy_offered(file->states, REDCO_STRATEGY_ZEROPP), 0, 0},
        {"meshes of experts alone",
         redco_parallelism_own_experts(&o->given) && (file->states & REDCO_RUNS(REDCO_STRATEGY_ANY)) == 0, 0, 0},
        {redco_strategy_name(o->strategy),
         o->strategy != REDCO_STRATEGY_ANY && !redco_strategy_offered(file->states, o->strategy), 0, 0}};
    redco_parallelism given = o->given;
    size_t count = 0;
    for (const redco_dimension *d = redco_dimensions; d->key != NULL; d++) {
        if (!redco_dimension_is_degree(d)) { continue; }
        const uint32_t degree = *redco_dimension_in(&given, d);
        const bool several = degree > 1 && !redco_degree_is_free(degree);
        if (several && (file->dimensions & d->bit) == 0) { lacks_out[count++] = d->what; }
    }
    _Static_assert(sizeof limits / sizeof limits[0] + REDCO_DIMENSIONS <= REDCO_MOST_LACKS, "room for all of them");
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        if (limits[i].given && (limits[i].has & limits[i].bit) == 0) { lacks_out[count++] = limits[i].what; }
    }
    return count;
}

redco_status redco_options_executable(const redco_search_options *options, const redco_inputs *inputs, redco_error *err)
{
    const redco_executor executor = redco_inputs_executor(inputs);
    redco_refusals refusals = {.count = 0};
    redco_parallelism given = options->given;
    if (!options->workload.engine.planned_memory) { return REDCO_OK; }
    for (const redco_dimension *d = redco_dimensions; d->key != NULL; d++) {
        if (!redco_dimension_is_degree(d)) { continue; }
        uint32_t *const degree = redco_dimension_in(&given, d);
        if (redco_degree_is_free(*degree)) { *degree = 1; }
    }
    redco_layout_executable(&given, &options->workload.engine, options->recompute, executor, &refusals);
    return refusals.count == 0
               ? REDCO_OK
               : redco_fail(err, REDCO_EVALUE, "engine", "%s: %s", inputs->engine.engine.name, refusals.text[0]);
}

const char *redco_options_left_out(const redco_search_options *options, const redco_inputs *inputs)
{
    const redco_engine_file *const file = &inputs->engine;
    const bool limited = options->allows.own_kinds && options->strategy == REDCO_STRATEGY_ANY;
    const redco_parallelism *const given = &options->given;
    if (limited && redco_degree_is_free(given->pp) && (redco_search_schedule(options) & ~file->schedules) != 0) {
        return "such order of passes in a pipeline: planned without stages";
    }
    if (limited && redco_degree_is_free(given->cp) && redco_search_states(options, REDCO_OF_CP_TYPE) &&
        (options->cp_types & file->cp_types) == 0) {
        return "such exchange of context parallelism: planned without";
    }
    return NULL;
}

bool redco_options_give(const redco_search_options *options, redco_dimension_id id)
{
    const redco_dimension *const d = &redco_dimensions[id];
    redco_parallelism given = options->given;
    if (d->says == NULL) { return false; }
    switch (d->kind) {
    case REDCO_DIMENSION_SWITCH:
        return options->sequence_parallel == REDCO_OFF || options->sequence_parallel == REDCO_ON;
    case REDCO_DIMENSION_WORD: return redco_search_states(options, id) && !(d->of_context && given.cp == 1);
    case REDCO_DIMENSION_SPLIT: return options->equal_stages;
    case REDCO_DIMENSION_MESH: return given.secondary.gpus != 0;
    case REDCO_DIMENSION_NUMBER:
    case REDCO_DIMENSION_LARGE: break;
    }
    const uint32_t degree = *redco_dimension_in(&given, d);
    const bool left_out = !redco_dimension_is_degree(d) && (options->excluded & d->bit) != 0; /* ep, by --dims */
    return degree != 0 && !redco_degree_is_free(degree) && !left_out;
}

bool redco_options_fixed(const redco_search_options *options)
{
    for (int id = 0; id < REDCO_DIMENSIONS; id++) {
        if (redco_options_give(options, (redco_dimension_id)id)) { return true; }
    }
    return options->recompute != REDCO_RECOMPUTE_FREE || options->modules || options->strategy != REDCO_STRATEGY_ANY ||
           options->fix.parameters.gpus != 0 || options->fix.gradients.gpus != 0 || options->fix.optimizer.gpus != 0 ||
           redco_parallelism_own_experts(&options->given);
}

redco_search_options redco_options_freed(const redco_search_options *options)
{
    redco_question fresh = redco_question_default();
    redco_search_options freed = *options;
    for (int id = 0; id < REDCO_DIMENSIONS; id++) {
        const redco_dimension *const d = &redco_dimensions[id];
        if (d->kind != REDCO_DIMENSION_NUMBER || !redco_options_give(options, (redco_dimension_id)id)) { continue; }
        *redco_dimension_in(&freed.given, d) = *redco_dimension_in(&fresh.options.given, d);
    }
    if (redco_options_give(options, REDCO_OF_SEQUENCE_PARALLEL)) { freed.sequence_parallel = REDCO_EITHER; }
    freed.stated = 0;
    freed.given.schedule = REDCO_PIPELINE_1F1B;
    freed.given.split = NULL;
    freed.equal_stages = false;
    freed.given.secondary = (redco_mesh){0, 0};
    freed.given.experts = (redco_shards){0};
    freed.recompute = REDCO_RECOMPUTE_FREE;
    if (redco_recompute_has(&freed.allows.recompute, REDCO_RECOMPUTE_FULL)) {
        freed.workload.engine.partial_recompute = false;
    } /* tried, too */
    freed.modules = false;
    freed.strategy = REDCO_STRATEGY_ANY;
    freed.fix = (redco_shards){0};
    freed.verify = false;
    freed.top = 1;
    return freed;
}

const char *redco_question_name(const redco_search_options *options)
{
    if (options->strategy != REDCO_STRATEGY_ANY) { return redco_strategy_name(options->strategy); }
    return redco_options_fixed(options) ? "fixed" : "optimum";
}
