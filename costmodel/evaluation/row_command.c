#include "costmodel/evaluation/row_command.h"

#include "costmodel/operators/compute_profile.h"
#include "costmodel/schedules/stages.h"
#include "topology/base/preset.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WORDS = 48 };

struct redco_row_command {
    char *words[MOST_WORDS + 1];
    size_t count;
    char remark[160]; /* "" = none */
};

/* Any framework that has no engine of its own shards flat units, as most do today. */
static const char other_engine[] = "fsdp";

/* After a failure words are missing, which the caller sees by their number. */
__attribute__((format(printf, 2, 3))) static bool add(redco_row_command *command, const char *format, ...)
{
    va_list args;
    char *word = NULL;
    if (command->count == MOST_WORDS) { return false; }
    va_start(args, format);
    const int length = vasprintf(&word, format, args);
    va_end(args);
    if (length < 0) { return false; }
    command->words[command->count++] = word;
    return true;
}

static bool add_option(redco_row_command *command, const char *option, const char *value)
{
    return add(command, "%s", option) && add(command, "%s", value);
}

static bool add_number(redco_row_command *command, const char *option, uint64_t value)
{
    return add(command, "%s", option) && add(command, "%" PRIu64, value);
}

static bool add_meshes(redco_row_command *command, const redco_request *request)
{
    const redco_shards *const shards = &request->assignments[0].config.shards; /* every layer's */
    const redco_mesh p = shards->parameters, g = shards->gradients, os = shards->optimizer;
    const redco_mesh p2 = request->parallelism.secondary;
    char secondary[40] = "";
    if (redco_mesh_ranks(p2) > 0) { (void)snprintf(secondary, sizeof secondary, ",p2=%ux%u", p2.gpus, p2.nodes); }
    return add(command, "--fix") &&
           add(command, "p=%ux%u,g=%ux%u,os=%ux%u%s", p.gpus, p.nodes, g.gpus, g.nodes, os.gpus, os.nodes, secondary);
}

static const char *precision_word(redco_measured_precision precision)
{
    switch (precision) {
    case REDCO_MEASURED_FP16: return "fp16";
    case REDCO_MEASURED_FP8: return "fp8";
    case REDCO_MEASURED_MXFP8: return "mxfp8";
    case REDCO_MEASURED_NVFP4: return "nvfp4";
    case REDCO_MEASURED_BF16:
    case REDCO_MEASURED_PRECISION_UNKNOWN: break;
    }
    return "bf16";
}

static bool add_overlap(redco_row_command *command, const redco_measured_run *run)
{
    static const struct {
        unsigned bit;
        const char *word;
    } kinds[] = {
        {REDCO_OVERLAP_AG_RS, "ag_rs"}, {REDCO_OVERLAP_AR, "ar"}, {REDCO_OVERLAP_BC, "bc"}, {REDCO_OVERLAP_TP, "tp"}};
    char list[32] = "";
    size_t used = 0;
    if (!redco_measured_knows(run, REDCO_COLUMN_OVERLAP)) { return true; }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if ((run->overlap & kinds[i].bit) == 0) { continue; }
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used > 0 ? "," : "", kinds[i].word);
    }
    return add_option(command, "--overlap", used > 0 ? list : "none");
}

static const char *attention_word(redco_measured_attention attention)
{
    switch (attention) {
    case REDCO_MEASURED_FLASH1: return "flash1";
    case REDCO_MEASURED_FLASH2: return "flash2";
    case REDCO_MEASURED_FLASH3: return "flash3";
    case REDCO_MEASURED_FUSED: return "fused";
    case REDCO_MEASURED_UNFUSED: return "unfused";
    case REDCO_MEASURED_ATTENTION_UNKNOWN: break;
    }
    return "";
}

static const char *software_word(redco_software software)
{
    switch (software) {
    case REDCO_SOFTWARE_EAGER: return "eager";
    case REDCO_SOFTWARE_MEGATRON: return "megatron";
    case REDCO_SOFTWARE_TE_XLA: return "te_xla";
    case REDCO_SOFTWARE_UNKNOWN: break;
    }
    return "";
}

/* The engine and the traits that the row's columns state, by the columns' names. */
static bool add_engine(redco_row_command *command, const redco_measured_run *run, const redco_request *request)
{
    const redco_engine_choice choice = {.engine = request->workload.engine};
    redco_engine_file file;
    const redco_preset *const preset = redco_preset_find("engines", redco_measured_engine(run));
    const char *const width = run->grad_reduce_bytes == 4 ? "4" : "2";
    const struct {
        redco_measured_column column;
        const char *value;
    } traits[] = {
        {REDCO_COLUMN_ATTENTION, attention_word(run->attention)},
        {REDCO_COLUMN_FUSED_NORM, run->fused_norm ? "1" : "0"},
        {REDCO_COLUMN_COMPILED, run->compiled ? "1" : "0"},
        {REDCO_COLUMN_LOGITS_GATHERED, run->logits_gathered ? "1" : "0"},
        {REDCO_COLUMN_GRAD_REDUCE_BYTES, width},
        {REDCO_COLUMN_CUDA_GRAPHS, run->cuda_graphs ? "1" : "0"},
        {REDCO_COLUMN_SOFTWARE, software_word(run->software)},
    };
    char text[512];
    int used = snprintf(text, sizeof text, "%s", preset != NULL ? preset->name : other_engine);
    for (size_t i = 0; i < sizeof traits / sizeof traits[0]; i++) {
        if (!redco_measured_knows(run, traits[i].column) || used < 0 || (size_t)used >= sizeof text) { continue; }
        used += snprintf(text + used, sizeof text - (size_t)used, ",%s=%s",
                         redco_measured_column_name(traits[i].column), traits[i].value);
    }
    for (int t = 0; t < REDCO_TRAIT_COUNT; t++) {
        char value[32];
        const bool said = run->experts > 0 && (choice.engine.stated >> t & 1) != 0;
        const bool here = redco_trait_of_experts((redco_trait)t) || t == REDCO_TRAIT_CUDA_GRAPHS;
        if (!said || !here || used < 0 || (size_t)used >= sizeof text) { continue; }
        used += snprintf(text + used, sizeof text - (size_t)used, ",%s=%s", redco_trait_words[t],
                         redco_engine_trait(&choice, REDCO_BF16, (redco_trait)t, value, sizeof value));
    }
    const bool drops =
        preset != NULL && redco_engine_file_read(preset->name, &file, NULL) == REDCO_OK && file.engine.dropout;
    if (drops && used > 0 && (size_t)used < sizeof text) {
        used += snprintf(text + used, sizeof text - (size_t)used, ",dropout=0");
    }
    if (preset == NULL) {
        (void)snprintf(command->remark, sizeof command->remark, "the row's framework is %s; its engine is taken for %s",
                       run->framework[0] == '\0' ? "not known" : "no engine that redco knows", other_engine);
    }
    return used > 0 && (size_t)used < sizeof text && add_option(command, "--engine", text);
}

/* Operators that redco-profile measured, where a shipped profile has the GPU's (evaluate.c). */
static bool add_profile(redco_row_command *command, const redco_request *request)
{
    const char *const shipped =
        request->workload.engine.planned_memory ? redco_compute_profile_shipped(request->machine.gpu.name) : NULL;
    return shipped == NULL || add_option(command, "--profile", shipped);
}

static bool add_split(redco_row_command *command, const redco_pipeline *p, const uint32_t *split)
{
    char text[8 * REDCO_SPLIT_POSITIONS_MAX];
    size_t used = 0;
    if (split == NULL) { return add_option(command, "--pp-layout", "equal"); }
    const uint32_t positions = redco_pipeline_positions(p->kind, p->stages, p->chunks);
    for (uint32_t i = 0; i < positions && used < sizeof text; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%u", i > 0 ? "," : "", split[i]);
    }
    return used < sizeof text && add_option(command, "--pp-layout", text);
}

/* All that the search could choose otherwise. */
static bool add_stages(redco_row_command *command, const redco_measured_run *run, const redco_request *request)
{
    const redco_pipeline p = redco_parallelism_pipeline(&request->parallelism);
    if (!add_number(command, "--pp", run->pp) || run->pp <= 1) { return run->pp <= 1; }
    return add_number(command, "--pp-chunks", p.chunks) &&
           add_option(command, "--pp-schedule", redco_pipeline_words[p.kind]) &&
           (p.kind != REDCO_PIPELINE_INTERLEAVED || add_number(command, "--pp-group", p.group)) &&
           add_split(command, &p, request->parallelism.split);
}

static bool add_all(redco_row_command *command, const redco_measured_run *run, const redco_request *request,
                    const redco_row_files *files)
{
    const redco_parallelism *const s = &request->parallelism;
    char recompute[REDCO_RECOMPUTE_TEXT];
    (void)redco_recompute_text(request->assignments[0].config.recompute, request->workload.engine.partial_recompute,
                               recompute, sizeof recompute);
    return add(command, "redco-plan") && add_number(command, "--gpus", run->n_gpus) &&
           add_option(command, "--cluster", files->cluster) && add_option(command, "--model", files->model) &&
           add_number(command, "--seq", run->seq_len) && add_number(command, "--global-batch", run->global_batch) &&
           add_number(command, "--micro-batch", run->micro_batch) && add_number(command, "--tp", run->tp) &&
           add_stages(command, run, request) && add_number(command, "--cp", run->cp) &&
           (run->cp <= 1 || add_option(command, "--cp-type", redco_cp_type_words[s->cp_type])) &&
           (run->experts == 0 || (add_number(command, "--ep", run->ep) && add_number(command, "--etp", run->etp))) &&
           add_meshes(command, request) &&
           add_option(command, "--scheme", s->scheme == REDCO_INTER_TENSOR ? "inter-tensor" : "intra-tensor") &&
           add_option(command, "--recompute", recompute) &&
           add_option(command, "--precision", precision_word(run->precision)) && add_overlap(command, run) &&
           add(command, "--sequence-parallel=%s", run->sequence_parallel ? "on" : "off") &&
           add_engine(command, run, request) && add_profile(command, request) &&
           (files->calibration == NULL || add_option(command, "--calibration", files->calibration)) &&
           add(command, "--json");
}

redco_status redco_row_command_create(const redco_measured_run *run, const redco_request *request,
                                      const redco_row_files *files, redco_row_command **command_out, redco_error *err)
{
    redco_row_command *const command = calloc(1, sizeof *command);
    if (command == NULL || !add_all(command, run, request, files)) {
        redco_row_command_free(command);
        return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    }
    *command_out = command;
    return REDCO_OK;
}

void redco_row_command_free(redco_row_command *command)
{
    if (command == NULL) { return; }
    for (size_t i = 0; i < command->count; i++) { free(command->words[i]); }
    free(command);
}

size_t redco_row_command_words(const redco_row_command *command, char *const **words_out)
{
    *words_out = command->words;
    return command->count;
}

const char *redco_row_command_remark(const redco_row_command *command)
{
    return command->remark[0] != '\0' ? command->remark : NULL;
}
