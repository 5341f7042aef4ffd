/* The plan beside what a framework was given, and the file. */
#include "planner/export/internal.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char *const redco_framework_words[] = {
    [REDCO_FRAMEWORK_MEGATRON] = "megatron",
    [REDCO_FRAMEWORK_DEEPSPEED] = "deepspeed",
    [REDCO_FRAMEWORK_FSDP] = "fsdp",
    [REDCO_FRAMEWORK_INTERNEVO] = "internevo",
    [REDCO_FRAMEWORK_SBATCH] = "sbatch",
    [REDCO_FRAMEWORK_MEGATRON_BRIDGE] = "megatron-bridge",
    [REDCO_FRAMEWORK_TORCHTITAN] = "torchtitan",
    [REDCO_FRAMEWORK_COUNT] = NULL,
};

static const redcoi_ability *const abilities[REDCO_FRAMEWORK_COUNT] = {
    [REDCO_FRAMEWORK_MEGATRON] = &redcoi_megatron,
    [REDCO_FRAMEWORK_DEEPSPEED] = &redcoi_deepspeed,
    [REDCO_FRAMEWORK_FSDP] = &redcoi_fsdp,
    [REDCO_FRAMEWORK_INTERNEVO] = &redcoi_internevo,
    [REDCO_FRAMEWORK_SBATCH] = &redcoi_sbatch,
    [REDCO_FRAMEWORK_MEGATRON_BRIDGE] = &redcoi_megatron_bridge,
    [REDCO_FRAMEWORK_TORCHTITAN] = &redcoi_torchtitan,
};

/** Differences between the framework's run and the plan. */
struct differences {
    json_t *list;
    bool layout;  /**< degrees, meshes, scheme, recomputation, batch */
    bool overlap; /**< overlap is the only difference */
    char text[500];
};

__attribute__((format(printf, 5, 6))) static void differ(struct differences *d, const char *what, const char *plan,
                                                         bool layout, const char *format, ...)
{
    char exported[200];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(exported, sizeof exported, format, args);
    va_end(args);
    if (strcmp(plan, exported) == 0) { return; }
    const size_t used = strlen(d->text);
    (void)snprintf(d->text + used, sizeof d->text - used, "%s%s %s instead of %s", used > 0 ? ", " : "", what, exported,
                   plan);
    (void)json_array_append_new(d->list, json_pack("{s:s,s:s,s:s}", "what", what, "plan", plan, "exported", exported));
    d->overlap = strcmp(what, "overlap") == 0 && json_array_size(d->list) == 1;
    d->layout = d->layout || layout;
}

static void differ_number(struct differences *d, const char *what, uint64_t plan, uint64_t exported)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)plan);
    differ(d, what, text, true, "%llu", (unsigned long long)exported);
}

static void differ_mesh(struct differences *d, const char *what, redco_mesh plan, redco_mesh exported)
{
    char a[32];
    char b[32];
    const bool none[2] = {plan.gpus == 0, exported.gpus == 0};
    differ(d, what, none[0] ? "none" : redcoi_mesh_text(plan, a, sizeof a), true, "%s",
           none[1] ? "none" : redcoi_mesh_text(exported, b, sizeof b));
}

static const char *overlap_text(uint32_t overlap, char *buffer, size_t size)
{
    (void)snprintf(buffer, size, "%s", overlap == 0 ? "none" : "");
    for (int i = 0; redco_overlap_words[i] != NULL; i++) {
        if ((overlap & (1U << i)) == 0) { continue; }
        const size_t used = strlen(buffer);
        (void)snprintf(buffer + used, size - used, "%s%s", used > 0 ? "+" : "", redco_overlap_words[i]);
    }
    return buffer;
}

/* "full 13, selective 7", or "none"; larger sets lead. */
static const char *recompute_text(const redco_plan_layers *rows, uint32_t count, char *buffer, size_t size)
{
    redco_recompute_list sets = {.count = 0};
    (void)snprintf(buffer, size, "%s", "");
    for (uint32_t i = 0; i < count; i++) { (void)redco_recompute_add(&sets, rows[i].recompute); }
    for (uint32_t s = sets.count; s > 0 && sets.sets[s - 1] != REDCO_RECOMPUTE_NONE; s--) {
        char word[REDCO_RECOMPUTE_TEXT];
        uint32_t layers = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (rows[i].recompute == sets.sets[s - 1]) { layers += rows[i].last_layer - rows[i].first_layer + 1; }
        }
        const size_t used = strlen(buffer);
        (void)snprintf(buffer + used, size - used, "%s%u layers %s", used > 0 ? " and " : "", layers,
                       redco_recompute_text(sets.sets[s - 1], false, word, sizeof word));
    }
    if (buffer[0] == '\0') { (void)snprintf(buffer, size, "none"); }
    return buffer;
}

static bool uniform(const redco_plan *plan)
{
    for (uint32_t i = 1; i < plan->layers_count; i++) {
        if (!redco_shards_equal(plan->layers[i].shards, plan->layers[0].shards)) { return false; }
    }
    return true;
}

static void compare_meshes(struct differences *d, const redcoi_context *context)
{
    const redco_plan *plan = context->plan;
    const redcoi_offer *offer = context->offer;
    const redco_shards *planned = &redcoi_main_layers(plan->layers, plan->layers_count)->shards;
    const redco_shards *made = &redcoi_main_layers(offer->layers, offer->count)->shards;
    const bool same_rows = offer->count == plan->layers_count; /* an exact offer repeats the plan's rows */
    if (!uniform(plan) && !(same_rows && context->exact)) {
        differ(d, "meshes", "different by layer", true, "%s", "the same for all layers");
    }
    const redco_mesh grid = redcoi_offer_sharded(context).dp;
    differ_mesh(d, "parameters", redcoi_regrid(plan, planned->parameters, grid), made->parameters);
    differ_mesh(d, "gradients", redcoi_regrid(plan, planned->gradients, grid), made->gradients);
    differ_mesh(d, "optimizer", redcoi_regrid(plan, planned->optimizer, grid), made->optimizer);
    differ_mesh(d, "experts' parameters", plan->parallelism.experts.parameters, offer->parallelism.experts.parameters);
    differ_mesh(d, "experts' gradients", plan->parallelism.experts.gradients, offer->parallelism.experts.gradients);
    differ_mesh(d, "experts' optimizer", plan->parallelism.experts.optimizer, offer->parallelism.experts.optimizer);
    differ_mesh(d, "secondary copy", plan->parallelism.secondary, offer->parallelism.secondary);
    if (plan->parallelism.cp > 1 && redco_mesh_ranks(made->optimizer) > 1) {
        static const char *const over[] = {"over data-parallel ranks", "over data- and context-parallel ranks"};
        differ(d, "shards", over[context->reopened->workload.engine.shard_over_cp], true, "%s",
               over[offer->engine.shard_over_cp]);
    }
    if (!redco_mesh_equal(made->optimizer, made->parameters) ||
        !redco_mesh_equal(planned->optimizer, planned->parameters)) {
        differ(d, "scheme", redco_scheme_words[plan->parallelism.scheme], true, "%s",
               redco_scheme_words[offer->parallelism.scheme]);
    }
}

static void compare_overlap(struct differences *d, const redcoi_context *context)
{
    const redco_parallelism sharded = redcoi_offer_sharded(context);
    const redcoi_offer *offer = context->offer;
    uint32_t traffic = 0;
    char planned[64];
    char made[64];
    for (uint32_t i = 0; i < offer->count; i++) { traffic |= redcoi_traffic(&sharded, &offer->layers[i].shards); }
    differ(d, "overlap", overlap_text(context->plan->overlap & traffic, planned, sizeof planned), false, "%s",
           overlap_text(offer->overlap & traffic, made, sizeof made));
}

static void differ_flag(struct differences *d, const char *what, bool plan, bool exported)
{
    differ(d, what, plan ? "yes" : "no", false, "%s", exported ? "yes" : "no");
}

static unsigned memory_of(const redco_engine *engine)
{
    return engine->planned_memory ? 1 : engine->memory > 0 ? (unsigned)engine->memory + 1 : 0;
}

/* Traits of the plan's engine that the framework has no option for. */
static void compare_engine(struct differences *d, const redcoi_context *context)
{
    static const char *const attention[] = {"flash", "flash 1", "flash 2", "flash 3", "fused", "unfused"};
    static const char *const formats[] = {"as trained", "fp8", "mxfp8", "nvfp4"};
    static const char *const memory[] = {"by formulas",
                                         "planned",
                                         "Megatron's",
                                         "PyTorch's",
                                         "XLA's",
                                         "PyTorch's with copies",
                                         "PyTorch's around eager modelling",
                                         "DeepSpeed's"};
    _Static_assert(sizeof memory / sizeof memory[0] == REDCO_MEMORY_ZERO + 2, "a text for each way to keep memory");
    const redco_engine *plan = &context->reopened->workload.engine;
    const redco_engine *made = &context->offer->engine;
    char bytes[16];
    differ(d, "attention", attention[plan->attention], false, "%s", attention[made->attention]);
    differ(d, "matrix products", formats[plan->gemm_format], false, "%s", formats[made->gemm_format]);
    differ_flag(d, "fused norms", !plan->plain_norm, !made->plain_norm);
    differ_flag(d, "compiled", plan->compiled, made->compiled);
    differ_flag(d, "CUDA graphs", plan->cuda_graphs, made->cuda_graphs);
    differ_flag(d, "fused loss", plan->fused_loss, made->fused_loss);
    differ_flag(d, "gathered logits", plan->logits_gathered, made->logits_gathered);
    differ_flag(d, "overlapped tensor parallelism", plan->async_tp, made->async_tp);
    differ_flag(d, "half recomputation", plan->partial_recompute, made->partial_recompute);
    differ(d, "gathered at a time", plan->layer_units ? "layers" : "modules", false, "%s",
           made->layer_units ? "layers" : "modules");
    (void)snprintf(bytes, sizeof bytes, "%u", redcoi_gradient_bytes(context->plan, plan));
    differ(d, "bytes of a gradient", bytes, false, "%u", redcoi_gradient_bytes(context->plan, made));
    differ(d, "memory", memory[memory_of(plan)], false, "%s", memory[memory_of(made)]);
}

static void compare_gpu_order(struct differences *d, const redcoi_context *context)
{
    const redco_plan *plan = context->plan;
    char order[160];
    size_t used = 0;
    if (context->offer->gpu_order) { return; }
    for (uint32_t i = 0; i < plan->gpus_per_node && used < sizeof order; i++) {
        used += (size_t)snprintf(order + used, sizeof order - used, "%s%u", i > 0 ? "," : "", plan->gpu_order[i]);
    }
    differ(d, "order of GPUs", order, false, "%s", "0,1,2,...");
}

/* "8,9,9,6", or "equal". */
static char *split_text(const redco_parallelism *parallelism, char *buffer, size_t size)
{
    size_t used = 0;
    (void)snprintf(buffer, size, "equal");
    for (uint32_t i = 0; parallelism->split != NULL && i < redcoi_positions(parallelism) && used < size; i++) {
        used += (size_t)snprintf(buffer + used, size - used, "%s%u", i > 0 ? "," : "", parallelism->split[i]);
    }
    return buffer;
}

/* Interleaved is 1F1B of several chunks, which are a difference of their own. */
static const char *base_word(redco_pipeline_kind kind)
{
    return redco_pipeline_words[kind == REDCO_PIPELINE_INTERLEAVED ? REDCO_PIPELINE_1F1B : kind];
}

static void compare_pipelines(struct differences *d, const redcoi_context *context)
{
    const redco_parallelism *plan = &context->reopened->parallelism, *made = &context->offer->parallelism;
    const redco_pipeline planned = redco_parallelism_pipeline(plan), exported = redco_parallelism_pipeline(made);
    char texts[2][180];
    if (plan->pp > 1 && made->pp > 1) {
        differ(d, "schedule", base_word(planned.kind), true, "%s", base_word(exported.kind));
    }
    differ_number(d, "model chunks", planned.chunks, exported.chunks);
    if (planned.kind == REDCO_PIPELINE_INTERLEAVED && exported.kind == REDCO_PIPELINE_INTERLEAVED) {
        differ_number(d, "group of micro-batches", planned.group, exported.group);
    }
    differ(d, "layers of stages", split_text(plan, texts[0], sizeof texts[0]), true, "%s",
           split_text(made, texts[1], sizeof texts[1]));
}

static void compare(struct differences *d, const redcoi_context *context)
{
    const redco_plan *plan = context->plan;
    const redcoi_offer *offer = context->offer;
    char text[80];
    char made[80];
    redco_parallelism planned = plan->parallelism, exported = offer->parallelism;
    for (const redco_dimension *row = redco_dimensions; row->key != NULL; row++) {
        if (row->differs == NULL) { continue; }
        differ_number(d, row->differs, *redco_dimension_in(&planned, row), *redco_dimension_in(&exported, row));
    }
    compare_pipelines(d, context);
    if (plan->parallelism.cp > 1 && offer->parallelism.cp > 1) {
        differ(d, "exchange of context parallelism", redco_cp_type_words[plan->parallelism.cp_type], true, "%s",
               redco_cp_type_words[offer->parallelism.cp_type]);
    }
    if (plan->parallelism.tp > 1 || offer->parallelism.tp > 1) {
        differ(d, "sequence parallelism", plan->parallelism.sequence_parallel ? "on" : "off", true, "%s",
               offer->parallelism.sequence_parallel ? "on" : "off");
        differ(d, "tensor-parallel layout", redco_tp_placement_words[context->reopened->tp_placement], true, "%s",
               redco_tp_placement_words[offer->tp_placement]);
    }
    compare_meshes(d, context);
    differ(d, "recompute", recompute_text(plan->layers, plan->layers_count, text, sizeof text), true, "%s",
           recompute_text(offer->layers, offer->count, made, sizeof made));
    compare_overlap(d, context);
    compare_engine(d, context);
    if (plan->parallelism.cp > 1 && offer->parallelism.cp > 1) {
        differ_flag(d, "halves of sequences zigzag", !context->reopened->workload.engine.contiguous_context,
                    !offer->engine.contiguous_context);
    }
    compare_gpu_order(d, context);
}

static json_t *sharding_json(const redcoi_offer *offer)
{
    json_t *rows = json_array();
    for (uint32_t i = 0; i < offer->count; i++) {
        const redco_plan_layers *row = &offer->layers[i];
        char word[REDCO_RECOMPUTE_TEXT];
        (void)json_array_append_new(rows, json_pack("{s:s,s:[I,I],s:o,s:o,s:o,s:s}", "class", row->class_name, "layers",
                                                    (json_int_t)row->first_layer, (json_int_t)row->last_layer,
                                                    "parameters", redco_mesh_json(row->shards.parameters), "gradients",
                                                    redco_mesh_json(row->shards.gradients), "optimizer",
                                                    redco_mesh_json(row->shards.optimizer), "recompute",
                                                    redco_recompute_text(row->recompute, false, word, sizeof word)));
    }
    return rows;
}

static json_t *exported_json(const redcoi_offer *offer)
{
    const redco_parallelism *s = &offer->parallelism;
    const redco_prediction *p = &offer->prediction;
    json_t *overlap = json_array();
    for (int i = 0; redco_overlap_words[i] != NULL; i++) {
        if ((offer->overlap & (1U << i)) != 0) {
            (void)json_array_append_new(overlap, json_string(redco_overlap_words[i]));
        }
    }
    json_t *const json = json_object();
    (void)redco_parallelism_write(
        s, "tp pp pp_chunks cp ep etp micro_batch micro_batches dp secondary scheme sequence_parallel", json);
    (void)json_object_set_new(json, "overlap", overlap);
    (void)json_object_set_new(json, "sharding", sharding_json(offer));
    (void)redco_parallelism_write(s, "+", json);
    (void)json_object_set_new(json, "predicted",
                              json_pack("{s:f,s:f,s:I,s:I}", "step_s", p->step_s, "tokens_per_s_per_gpu",
                                        p->tokens_per_s_per_gpu, "memory_bytes", (json_int_t)p->total_bytes,
                                        "capacity_bytes", (json_int_t)p->capacity_bytes));
    return json;
}

/* Tokens/s lost; a plan that was fixed by hand can be beaten. */
static double loss_ratio(const redcoi_context *context)
{
    const double planned = context->plan->predicted.tokens_per_s_per_gpu;
    const double loss = planned > 0.0 ? 1.0 - context->offer->prediction.tokens_per_s_per_gpu / planned : 0.0;
    return fabs(loss) < 1e-9 ? 0.0 : loss; /* the plan's numbers come with REDCO_PLAN_DIGITS digits */
}

static char *summary_text(const redcoi_ability *ability, const redcoi_context *context, const struct differences *d)
{
    char text[1000];
    const redco_prediction *p = &context->offer->prediction;
    const double loss = loss_ratio(context);
    (void)snprintf(text, sizeof text, "%s %s: %s: %.3g s a step instead of %.3g s (tokens/s %+.1f %%), %.3g of %.3g GB",
                   ability->title,
                   d->layout    ? "cannot express all of the plan; nearest that it can"
                   : d->overlap ? "runs this layout, but overlaps otherwise"
                                : "runs this layout, but not as planned",
                   d->text, p->step_s, context->plan->predicted.step_s, -100.0 * loss, (double)p->total_bytes / 1e9,
                   (double)p->capacity_bytes / 1e9);
    return strdup(text);
}

static json_t *report_json(const redcoi_ability *ability, redco_framework framework, const redcoi_context *context,
                           const struct differences *d, json_t *as_run, json_t *config)
{
    const redco_plan_predicted *p = &context->plan->predicted;
    return json_pack("{s:s,s:i,s:s,s:s,s:b,s:b,s:O,s:O,s:f,s:{s:f,s:f,s:I},s:o,s:O,s:O}", "format", "redco-export",
                     "version", REDCO_EXPORT_VERSION, "framework", redco_framework_words[framework], "source",
                     ability->source, "exact", context->exact, "layout_exact", !d->layout, "differences", d->list,
                     "notes", context->notes, "loss_ratio", loss_ratio(context), "plan", "step_s", p->step_s,
                     "tokens_per_s_per_gpu", p->tokens_per_s_per_gpu, "memory_bytes", (json_int_t)p->total_bytes,
                     "exported", exported_json(context->offer), "as_run", as_run, "config", config);
}

/* The file in memory. */
static redco_status write_text(const redcoi_ability *ability, const redcoi_context *context, const json_t *config,
                               redco_export *made, redco_error *err)
{
    FILE *stream = open_memstream(&made->text, &made->text_size);
    if (stream == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    redco_status st = ability->write(context, config, stream, err);
    const bool lost = ferror(stream) != 0;
    if ((fclose(stream) != 0 || lost) && st == REDCO_OK) { st = redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    return st;
}

/* States that no key of an exported configuration says: the script makes the optimizer. */
static void note_states(const redcoi_context *context)
{
    const redco_engine *const engine = &context->reopened->workload.engine;
    const redco_engine_choice choice = {.engine = *engine};
    char name[32];
    if (engine->optimizer != REDCO_OPTIMIZER_ADAMW) {
        redcoi_note(context, "the optimizer is your script's: the plan counts with %s",
                    redco_engine_trait(&choice, REDCO_BF16, REDCO_TRAIT_OPTIMIZER, name, sizeof name));
    }
    const redco_model *const model = context->reopened->inputs.model;
    if (redco_model_get_dims(model)->adapter_rank > 0) {
        redcoi_note(context, "adapters are your script's: the plan counts with %s",
                    json_string_value(json_object_get(redco_model_config(model), "_trainable")));
    }
    if (engine->offload != REDCO_OFFLOAD_NONE) {
        redcoi_note(context,
                    "states on the host are your script's where no key says them: the plan counts with --offload %s",
                    redco_engine_trait(&choice, REDCO_BF16, REDCO_TRAIT_OFFLOAD, name, sizeof name));
    }
    if (engine->no_masters) {
        redcoi_note(context, "weights in 32 bits are your script's optimizer's: the plan counts with none");
    }
}

/* @p context holds the offer */
static redco_status describe(const redcoi_ability *ability, redcoi_context *context, bool expressed, redco_export *made,
                             redco_error *err)
{
    struct differences d = {.list = json_array()};
    json_t *config = NULL;
    json_t *as_run = NULL;
    redco_status st = REDCO_OK;
    context->notes = json_array();
    context->exact = expressed;
    if (d.list == NULL || context->notes == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    compare(&d, context);
    note_states(context);
    context->exact = json_array_size(d.list) == 0;
    if (!context->exact) {
        made->summary = summary_text(ability, context, &d);
        if (made->summary == NULL) {
            st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
            goto out;
        }
        context->summary = made->summary;
    }
    made->exact = context->exact;
    made->layout_exact = !d.layout;
    if ((st = redcoi_as_run(ability, redco_framework_words[made->framework], context, &as_run, err)) != REDCO_OK ||
        (st = ability->configure(context, &config, err)) != REDCO_OK ||
        (st = write_text(ability, context, config, made, err)) != REDCO_OK) {
        goto out;
    }
    made->report = report_json(ability, made->framework, context, &d, as_run, config);
    if (made->report == NULL) { st = redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
out:
    json_decref(config);
    json_decref(as_run);
    json_decref(context->notes);
    json_decref(d.list);
    return st;
}

redco_status redco_export_create(const redco_plan *plan, const redco_plan_case *reopened, redco_framework framework,
                                 redco_export **export_out, redco_error *err)
{
    const redcoi_ability *ability = abilities[framework];
    redcoi_offer offer = {.assignments = NULL};
    redcoi_context context = {.plan = plan, .reopened = reopened, .offer = &offer};
    redco_export *made = calloc(1, sizeof *made);
    bool expressed = false;
    redco_status st = REDCO_OK;
    if (made == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    made->framework = framework;
    if (redco_model_graph_work(reopened->inputs.model) != NULL && framework != REDCO_FRAMEWORK_SBATCH) {
        st = redco_fail(err, REDCO_EVALUE, redco_framework_words[framework],
                        "%s is a pipeline, which redco-exec alone trains: only sbatch is exported",
                        redco_model_name(reopened->inputs.model));
        goto out;
    }
    const redco_model_dims *const dims = redco_model_get_dims(reopened->inputs.model);
    const bool mixture = framework == REDCO_FRAMEWORK_MEGATRON || framework == REDCO_FRAMEWORK_MEGATRON_BRIDGE ||
                         framework == REDCO_FRAMEWORK_SBATCH;
    if ((dims->experts > 0 || dims->key_latent > 0) && !mixture) {
        st = redco_fail(err, REDCO_EVALUE, redco_framework_words[framework],
                        "%s has experts or latent attention, which are exported to megatron, megatron-bridge and "
                        "sbatch alone",
                        redco_model_name(reopened->inputs.model));
        goto out;
    }
    if ((st = redcoi_check_hosts(plan, err)) != REDCO_OK ||
        (st = redcoi_offer_plan(ability, plan, reopened, &expressed, &offer, err)) != REDCO_OK) {
        goto out;
    }
    if (!expressed && (st = redcoi_offer_nearest(ability, plan, reopened, &offer, err)) != REDCO_OK) { goto out; }
    if ((st = describe(ability, &context, expressed, made, err)) != REDCO_OK) { goto out; }
    *export_out = made;
    made = NULL;
out:
    redcoi_offer_free(&offer);
    redco_export_free(made);
    return st;
}

void redco_export_free(redco_export *made)
{
    if (made == NULL) { return; }
    free(made->text);
    free(made->summary);
    json_decref(made->report);
    free(made);
}
