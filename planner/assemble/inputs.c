#include "planner/assemble/inputs.h"

#include "costmodel/models/adapters/trainable.h"
#include "costmodel/operators/compute_profile.h"
#include "planner/assemble/step_memo.h"
#include "planner/executable/executable.h"
#include "topology/base/json.h"
#include "topology/base/preset.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char default_model[] = "llama-7b";
static const char default_cluster[] = "a800-hdr";

/* Looks at the first character of a file. @return '{' for JSON, '<' for XML, 'a' for other text, 0 where that is the
 * reader's to find out: no file, an empty one, or a pipe, which can be read only once */
static char sniff(const char *path)
{
    char start[512];
    size_t at = 0;
    struct stat what;
    FILE *stream = fopen(path, "re");
    if (stream == NULL) { return 0; }
    const bool plain = fstat(fileno(stream), &what) == 0 && S_ISREG(what.st_mode);
    const size_t size = plain ? fread(start, 1, sizeof start, stream) : 0;
    (void)fclose(stream);
    while (at < size && isspace((unsigned char)start[at])) { at++; }
    if (at == size) { return 0; }
    if (start[at] == '<') { return '<'; }
    return start[at] == '{' || start[at] == '[' ? '{' : 'a';
}

/* Says whether redco-topo wrote it; the cluster reader reports a file that cannot be read at all. */
static bool is_node_json(const char *path)
{
    redco_json *document = NULL;
    const char *format = "";
    if (redco_json_open(path, &document, NULL) != REDCO_OK) { return false; }
    const redco_json_value root = redco_json_root(document);
    const bool node =
        redco_json_string(&root, "format", &format, NULL) == REDCO_OK && strcmp(format, "redco-node") == 0;
    redco_json_close(document);
    return node;
}

/* Resolves the value of --cluster: a preset or cluster file stays, XML and redco-topo's JSON are a node, anything else
 * is a topology.conf. */
static redco_status tell_apart(redco_input_names *names, redco_error *err)
{
    if (names->cluster == NULL || redco_preset_find("clusters", names->cluster) != NULL) { return REDCO_OK; }
    const char kind = sniff(names->cluster);
    if (kind == 0 || (kind == '{' && !is_node_json(names->cluster))) { return REDCO_OK; }
    const bool node = kind != 'a';
    const char **replaced = node ? &names->node : &names->topology;
    if (*replaced != NULL) {
        return redco_fail(err, REDCO_EVALUE, names->cluster, "is %s, but one is given already",
                          node ? "a node" : "a topology.conf");
    }
    if (!node && names->node == NULL) {
        return redco_fail(
            err, REDCO_EVALUE, names->cluster,
            "is no cluster file; if it is a Slurm topology.conf, it tells nothing of the nodes: give it as "
            "--topology, beside --cluster or --node");
    }
    *replaced = names->cluster;
    names->cluster = NULL;
    return REDCO_OK;
}

static redco_status state_trait(redco_engine_choice *choice, char *text, redco_error *err)
{
    char *const value = strchr(text, '=');
    if (value == NULL || value == text) {
        return redco_fail(err, REDCO_EVALUE, "engine", "\"%.60s\" is not of the form TRAIT=VALUE", text);
    }
    *value = '\0';
    return redco_engine_state(choice, text, value + 1, "engine", err);
}

static redco_status state_traits(redco_engine_choice *choice, const char *traits, redco_error *err)
{
    redco_status st = REDCO_OK;
    char *const text = strdup(traits);
    if (text == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    char *rest = text;
    for (char *one = NULL; st == REDCO_OK && (one = strsep(&rest, ",")) != NULL;) {
        st = state_trait(choice, one, err);
    }
    free(text);
    return st;
}

/* NAME[,TRAIT=VALUE...]. @param traits  behind the first comma; NULL: no comma */
static redco_status read_engine(const redco_input_names *names, const char *name, const char *traits,
                                redco_inputs *inputs, redco_error *err)
{
    redco_status st = redco_engine_file_read(name, &inputs->engine, err);
    if (st != REDCO_OK) { return st; }
    inputs->choice = redco_engine_choose(&inputs->engine, REDCO_BF16);
    if (traits != NULL) { st = state_traits(&inputs->choice, traits, err); }
    if (st == REDCO_OK && names->optimizer != NULL) {
        st = redco_engine_state(&inputs->choice, "optimizer", names->optimizer, "--optimizer", err);
    }
    if (st == REDCO_OK && names->master_weights != NULL) {
        st = redco_engine_state(&inputs->choice, "master_weights", names->master_weights, "--master-weights", err);
    }
    if (st == REDCO_OK && names->offload != NULL) {
        const bool both = strcmp(names->offload, "optimizer,parameters") == 0;
        st = redco_engine_state(&inputs->choice, "offload", both ? "parameters" : names->offload, "--offload", err);
    }
    return st;
}

/* A profile of redco-exec's operators on a GPU, or a calibration of its steps, is of redco-exec, unless the user names
 * an engine; else the cluster or its GPU names one. */
static redco_status choose_engine(const redco_input_names *names, redco_inputs *inputs, redco_error *err)
{
    static const char own[] = "redco-exec", any[] = "framework";
    const redco_profile_measured *const how = redco_compute_profile_how(redco_comm_compute(inputs->comm));
    const bool host = redco_gpu_is_host(&inputs->machine.gpu);
    char name[256];
    const char *const traits = names->engine != NULL ? strchrnul(names->engine, ',') : "";
    const size_t length = names->engine != NULL ? (size_t)(traits - names->engine) : 0;
    if (length >= sizeof name) {
        return redco_fail(err, REDCO_EVALUE, "engine", "\"%.60s...\" is no engine", names->engine);
    }
    if (names->engine != NULL && length == 0) {
        return redco_fail(err, REDCO_EVALUE, "engine", "\"%.60s\" names no engine before its traits", names->engine);
    }
    (void)snprintf(name, sizeof name, "%.*s", (int)length, length > 0 ? names->engine : "");
    const bool framework = strcmp(name, any) == 0;
    if (names->engine != NULL && !framework) {
        inputs->engine_named = inputs->engine_limits = true;
        (void)snprintf(inputs->engine_reason, sizeof inputs->engine_reason, "--engine");
        return read_engine(names, name, traits[0] == ',' ? traits + 1 : NULL, inputs, err);
    }
    redco_default_engine engine;
    inputs->engine_of_cluster = redco_cluster_engine(inputs->cluster, &inputs->machine.gpu, &engine);
    if (framework && host) { engine = (redco_default_engine){"fsdp", "--engine framework"}; }
    if (!framework && names->calibration != NULL && inputs->calibration.planned_memory) {
        engine = (redco_default_engine){"redco-exec", "the calibration is of its steps"};
    } else if (!framework && redco_model_graph_work(inputs->model) != NULL) {
        engine = (redco_default_engine){"redco-exec", "it trains pipelines"};
    } else if (!framework && !host && names->calibration == NULL && how != NULL && strcmp(how->backend, "cuda") == 0) {
        engine = (redco_default_engine){"redco-exec", "the profile is of its operators"};
    }
    (void)snprintf(inputs->engine_reason, sizeof inputs->engine_reason, "%s", engine.reason);
    /* redco-exec runs what is planned for it, and nothing else is of use. */
    inputs->engine_named = strcmp(engine.name, own) == 0 && !framework;
    inputs->engine_limits = names->calibration == NULL || inputs->engine_named;
    return read_engine(names, engine.name, traits[0] == ',' ? traits + 1 : NULL, inputs, err);
}

/* A user's own set has the band of the runs that it was fitted to, as wide as a normal error's; the shipped ones that
 * of a source that no fit saw, or wider. redco-exec's and literature's claim none. */
static redco_status read_band(const redco_input_names *names, redco_inputs *inputs, redco_error *err)
{
    static const double normal_90_over_68 = 1.654;
    redco_calibration *const c = &inputs->calibration;
    const bool named = names->calibration != NULL;
    const bool own = named && redco_preset_find("calibrations", names->calibration) == NULL;
    redco_bands bands;
    inputs->unseen[0] = '\0';
    for (unsigned width = 0; width < REDCO_BAND_WIDTHS; width++) { inputs->most_mfu[width].of[0] = '\0'; }
    if (c->band.high_68 > 0.0 || (named && !(c->band_ratio > 0.0)) || inputs->choice.engine.planned_memory ||
        redco_gpu_is_host(&inputs->machine.gpu)) {
        return REDCO_OK;
    }
    if (own) {
        const double wide = fmin(0.95, normal_90_over_68 * c->band_ratio);
        c->band = (redco_band){1.0 - c->band_ratio, 1.0 + c->band_ratio, 1.0 - wide, 1.0 + wide};
        return REDCO_OK;
    }
    const bool mixture = redco_model_get_dims(inputs->model)->experts > 0;
    const redco_status st = redco_bands_read(mixture ? "mixtures" : "dense", &bands, err);
    if (st != REDCO_OK) { return st; }
    redco_band_question question = {.engine = inputs->choice.engine.name,
                                    .gpu = inputs->machine.gpu.name,
                                    .architecture = inputs->machine.gpu.arch,
                                    .software = inputs->choice.engine.software};
    const unsigned unseen = redco_bands_unseen(&bands, &question);
    c->band = redco_bands_at(&bands, unseen);
    c->band_ratio = redco_band_half_ratio(&c->band);
    (void)redco_band_say(unseen, &question, inputs->unseen, sizeof inputs->unseen);
    for (unsigned width = 0; width < REDCO_BAND_WIDTHS; width++) {
        question.width = (redco_band_width)width;
        const char *const of = redco_bands_most_mfu(&bands, &question, &inputs->most_mfu[width].ratio);
        (void)snprintf(inputs->most_mfu[width].of, sizeof inputs->most_mfu[width].of, "%s", of != NULL ? of : "");
    }
    return REDCO_OK;
}

const char *redco_inputs_beyond_mfu(const redco_inputs *inputs, const redco_workload *workload, double mfu,
                                    char *buffer, size_t size)
{
    const redco_band_width width = redco_band_width_of(workload->precision, workload->engine.gemm_format);
    return redco_band_say_mfu(mfu, inputs->most_mfu[width].of, inputs->most_mfu[width].ratio, buffer, size);
}

/* Two runs of one source: of 16 sources with five rows and more, each as heavy as another, the difference of their
 * logarithms of measured over predicted (tests/within-source.py has them from traces/data; about a source's mean rows
 * are within 0.046 and 0.124). */
static const double rescaled_68 = 0.062, rescaled_90 = 0.158;

void redco_inputs_rescale(redco_inputs *inputs, const redco_rescale *rescale)
{
    redco_calibration *const c = &inputs->calibration;
    if (!(rescale->ratio > 0.0) || strcmp(rescale->engine, inputs->choice.engine.name) != 0) { return; }
    c->rescale_ratio = rescale->ratio;
    c->band = (redco_band){exp(-rescaled_68), exp(rescaled_68), exp(-rescaled_90), exp(rescaled_90)};
    c->band_ratio = redco_band_half_ratio(&c->band);
    (void)snprintf(inputs->unseen, sizeof inputs->unseen,
                   "a step of %.4g s was measured, all times are moved by %+.1f %%", rescale->measured_s,
                   100.0 * (rescale->ratio - 1.0));
}

static redco_status read_experts(redco_inputs *inputs, redco_error *err)
{
    redco_expert_constants *const experts = &inputs->calibration.experts;
    if (redco_model_get_dims(inputs->model)->adapter_rank > 0) {
        (void)snprintf(inputs->constants_warning, sizeof inputs->constants_warning,
                       "%.120s: no measured step with adapters is known to the fit: their products are priced with "
                       "constants of full training",
                       redco_model_name(inputs->model));
    }
    if (redco_model_get_dims(inputs->model)->experts == 0) { return REDCO_OK; }
    const redco_status st = redco_expert_constants_read(redco_expert_constants_set(&inputs->machine.gpu), experts, err);
    if (st != REDCO_OK) { return st; }
    (void)snprintf(inputs->constants_warning, sizeof inputs->constants_warning,
                   "%.120s: constants of experts are fitted to %u runs of mixtures on %s GPUs, from which they are "
                   "%.1f %% off, and %.1f %% where the source of a run is left out",
                   redco_model_name(inputs->model), experts->fitted_rows, experts->name, 100.0 * experts->mape_ratio,
                   100.0 * experts->left_out_ratio);
    return REDCO_OK;
}

/* The calibration that is named is read first, as it may say whose steps it is of; else the engine's. */
static redco_status read_engine_and_calibration(const redco_input_names *names, redco_inputs *inputs, redco_error *err)
{
    redco_status st = REDCO_OK;
    if (names->calibration != NULL) {
        st = redco_calibration_read(names->calibration, &inputs->machine, &inputs->calibration, err);
    }
    if (st != REDCO_OK || (st = choose_engine(names, inputs, err)) != REDCO_OK) { return st; }
    if (inputs->choice.engine.planned_memory && redco_model_is_paired(inputs->model)) {
        return redco_fail(err, REDCO_EVALUE, redco_model_name(inputs->model),
                          "has experts, latent attention or adapters: redco plans it for other engines, redco-exec "
                          "trains none");
    }
    if (names->calibration == NULL) {
        const char *const set =
            redco_calibration_of_engine(&inputs->engine, &inputs->choice.engine, &inputs->machine.gpu);
        if ((st = redco_calibration_read(set, &inputs->machine, &inputs->calibration, err)) != REDCO_OK) { return st; }
        redco_engine engine = inputs->choice.engine;
        engine.planned_memory = engine.planned_memory && !redco_gpu_is_host(&inputs->machine.gpu);
        redco_compute_profile_calibrate(redco_comm_compute(inputs->comm), &engine, &inputs->calibration);
    }
    inputs->calibration.planned_memory = inputs->choice.engine.planned_memory;
    if (names->calibration == NULL && !inputs->choice.engine.planned_memory &&
        !redco_engine_measured_on(&inputs->engine, inputs->machine.gpu.name)) {
        const size_t used = strlen(inputs->engine_reason);
        (void)snprintf(inputs->engine_reason + used, sizeof inputs->engine_reason - used,
                       "; not calibrated here: no run of it on %s is known", inputs->machine.gpu.name);
    }
    if ((st = read_band(names, inputs, err)) != REDCO_OK) { return st; }
    redco_inputs_rescale(inputs, &names->rescale);
    return read_experts(inputs, err);
}

redco_status redco_inputs_read(const redco_input_names *given, uint64_t gpus, redco_inputs *inputs_out,
                               redco_error *err)
{
    redco_input_names names = *given;
    redco_inputs inputs = {0};
    redco_status st = tell_apart(&names, err);
    if (st != REDCO_OK) { goto out; }
    if (names.cluster == NULL && names.node == NULL) { names.cluster = default_cluster; }
    redco_trainable trainable;
    if (names.trainable != NULL &&
        (st = redco_trainable_read(names.trainable, "--trainable", &trainable, err)) != REDCO_OK) {
        goto out;
    }
    if ((st = redco_model_read_trained(names.model != NULL ? names.model : default_model, names.trainable,
                                       &inputs.model, err)) != REDCO_OK ||
        (st = redco_cluster_read(names.cluster, names.node, names.topology, names.hosts, &inputs.cluster, err)) !=
            REDCO_OK ||
        (st = redco_cluster_machine(inputs.cluster, gpus, &inputs.machine, err)) != REDCO_OK ||
        (st = redco_comm_create(&inputs.machine, names.profiles, names.profile_count, &inputs.comm, err)) != REDCO_OK ||
        (st = read_engine_and_calibration(&names, &inputs, err)) != REDCO_OK) {
        goto out;
    }
    if (names.safetensors != NULL &&
        (st = redco_model_check_safetensors(inputs.model, names.safetensors, err)) != REDCO_OK) {
        goto out;
    }
    if (names.tp_rules != NULL && (st = redco_user_rules_read(names.tp_rules, &inputs.tp_rules, err)) != REDCO_OK) {
        goto out;
    }
    inputs.step_memo = redco_step_memo_create(&inputs);
    *inputs_out = inputs;
    inputs = (redco_inputs){0};
out:
    redco_inputs_free(&inputs);
    return st;
}

redco_status redco_inputs_read_like(const redco_inputs *like, const redco_input_names *names, uint64_t gpus,
                                    redco_inputs *inputs_out, redco_error *err)
{
    redco_inputs inputs = {.cluster = like->cluster,
                           .model = like->model,
                           .machine = like->machine,
                           .comm = like->comm,
                           .tp_rules = like->tp_rules,
                           .step_memo = like->step_memo,
                           .borrowed = true,
                           .comm_borrowed = true};
    redco_status st = REDCO_OK;
    if (gpus != 0 && gpus != (uint64_t)like->machine.nodes * like->machine.gpus_per_node) {
        inputs.comm = NULL;
        inputs.comm_borrowed = false;
        inputs.step_memo = NULL;
        st = redco_cluster_machine(inputs.cluster, gpus, &inputs.machine, err);
        if (st == REDCO_OK) {
            st = redco_comm_create(&inputs.machine, names->profiles, names->profile_count, &inputs.comm, err);
        }
    }
    if (st == REDCO_OK) { st = read_engine_and_calibration(names, &inputs, err); }
    if (st != REDCO_OK) {
        redco_inputs_free(&inputs);
        return st;
    }
    if (!inputs.comm_borrowed) { inputs.step_memo = redco_step_memo_create(&inputs); }
    *inputs_out = inputs;
    return REDCO_OK;
}

/* Attention that keeps scores can drop them; without, an engine that only did that has nothing to drop. Modules that an
 * engine lacks are priced, and warned of. */
static void use_recomputation(const redco_engine_file *file, redco_search_options *options)
{
    redco_recompute_list *const offered = &options->allows.recompute;
    redco_engine *const engine = &options->workload.engine;
    *offered = file->recompute;
    if (redco_attention_keeps_scores(engine->attention)) {
        (void)redco_recompute_add(offered, REDCO_RECOMPUTE_CORE_ATTN);
    } else if (redco_attention_keeps_scores(file->engine.attention)) {
        redco_recompute_drop(offered, REDCO_RECOMPUTE_CORE_ATTN);
    }
    if (engine->ep_overlap) { /* exchanges that run again cannot hide (Megatron Core, transformer_config.py) */
        redco_recompute_drop(offered, REDCO_RECOMPUTE_FULL);
        redco_recompute_drop(offered, REDCO_RECOMPUTE_HALF);
        redco_recompute_drop(offered, REDCO_RECOMPUTE_MOE);
    }
    const redco_recompute modules = redco_recompute_union(offered);
    if (options->modules && modules == 0) { (void)redco_recompute_add(offered, REDCO_RECOMPUTE_MLP); }
    if (options->recompute != REDCO_RECOMPUTE_FREE && (modules & REDCO_RECOMPUTE_CORE_ATTN) == 0) {
        options->recompute &= ~(redco_recompute)REDCO_RECOMPUTE_CORE_ATTN;
    }
    if (options->recompute == REDCO_RECOMPUTE_FREE && !redco_recompute_has(offered, REDCO_RECOMPUTE_FULL)) {
        engine->partial_recompute = redco_recompute_has(offered, REDCO_RECOMPUTE_HALF);
    }
}

/* Dimensions whose given kind (an order of passes, how context parallelism exchanges) the engine lacks. */
static uint32_t dimensions_lacked(const redco_engine_file *file, const redco_search_options *options)
{
    const uint32_t order = redco_search_schedule(options);
    return ((order & ~file->schedules) != 0 ? REDCO_HAS_PP : 0U) |
           (redco_search_states(options, REDCO_OF_CP_TYPE) && (options->cp_types & file->cp_types) == 0 ? REDCO_HAS_CP
                                                                                                        : 0U);
}

redco_executor redco_inputs_executor(const redco_inputs *inputs)
{
    return redco_gpu_is_host(&inputs->machine.gpu) || inputs->calibration.processors ? REDCO_EXECUTOR_HOST
                                                                                     : REDCO_EXECUTOR_CUDA;
}

/* Dimensions that redco-exec does not run there. */
static uint32_t dimensions_not_run(const redco_inputs *inputs)
{
    const redco_executor executor = redco_inputs_executor(inputs);
    const redco_engine engine = {.optimizer = REDCO_OPTIMIZER_ADAMW}; /* its traits are no dimensions */
    uint32_t bits = 0;
    for (const redco_dimension *d = redco_dimensions; d->key != NULL; d++) {
        redco_parallelism two = {.tp = 1, .pp = 1, .cp = 1};
        redco_refusals refusals = {.count = 0};
        if (!redco_dimension_is_degree(d)) { continue; }
        *redco_dimension_in(&two, d) = 2;
        redco_layout_executable(&two, &engine, REDCO_RECOMPUTE_NONE, executor, &refusals);
        bits |= refusals.count > 0 ? d->bit : 0;
    }
    return bits;
}

void redco_inputs_use_engine(const redco_inputs *inputs, redco_search_options *options)
{
    const redco_engine_file *const file = &inputs->engine;
    redco_workload *const w = &options->workload;
    const redco_engine run = w->engine; /* traits that the run states itself */
    w->engine = inputs->choice.engine;
    if ((w->engine.stated >> REDCO_TRAIT_GRAD_REDUCE_BYTES & 1) == 0) {
        w->engine.gradient_bytes = file->gradient_bytes[w->precision];
    }
    if ((w->engine.stated >> REDCO_TRAIT_CROSS_ENTROPY & 1) == 0) {
        w->engine.fused_loss = file->fused_loss[w->precision];
    }
    /* Beside adapters weights are frozen in 16 bits: what they make is, too (LlamaFactory ff6d4d12, src/llamafactory/
     * hparams/parser.py: compute_dtype; litgpt 26857050, finetune/lora.py: bf16-true). */
    if (redco_model_get_dims(inputs->model)->adapter_rank > 0) { w->engine.autocast = false; }
    w->engine.gemm_format = run.gemm_format;
    w->engine.partial_recompute = run.partial_recompute;
    w->bucket_bytes = inputs->choice.bucket_bytes;
    if (!options->overlap_fixed) { w->overlap = file->overlap; }
    options->allows.schemes =
        (file->inter_tensor ? 1U << REDCO_INTER_TENSOR : 0) | (file->intra_tensor ? 1U << REDCO_INTRA_TENSOR : 0);
    if (!redco_search_states(options, REDCO_OF_CP_TYPE)) { options->cp_types = file->cp_types; }
    use_recomputation(file, options);
    /* redco-exec, whose memory is planned, runs what is planned for it, and CPUs have nothing else: its limits hold
     * also where nobody named it. */
    const bool by_us = w->engine.planned_memory || redco_gpu_is_host(&inputs->machine.gpu);
    options->allows.dimensions = inputs->engine_limits ? file->dimensions : by_us ? REDCO_HAS_TP | REDCO_HAS_SP : 0;
    if (w->engine.planned_memory) { options->allows.dimensions = file->dimensions & ~dimensions_not_run(inputs); }
    if (options->allows.dimensions != 0 && options->allows.own_kinds) {
        options->allows.dimensions &= ~dimensions_lacked(file, options);
    }
    options->allows.unequal_stages = (file->dimensions & REDCO_HAS_STAGES) != 0;
    /* GPipe takes as long as 1F1B and keeps more. */
    options->allows.schedules =
        file->schedules & ~(1U << REDCO_PIPELINE_1F1B | 1U << REDCO_PIPELINE_INTERLEAVED | 1U << REDCO_PIPELINE_GPIPE);
    options->allows.states = inputs->engine_limits ? file->states : 0;
    if (!options->tp_placement_fixed) {
        const bool paired = w->engine.tp_layout == REDCO_ENGINE_PAIRED || redco_model_is_paired(inputs->model);
        options->tp_placement = paired ? REDCO_TP_PAIRED : REDCO_TP_RULES;
    }
}
