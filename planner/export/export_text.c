/* Shared by the writers of all frameworks. */
#include "planner/export/internal.h"
#include "topology/base/hostlist.h"
#include "topology/base/text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char *redcoi_mesh_text(redco_mesh mesh, char *buffer, size_t size)
{
    (void)snprintf(buffer, size, "%ux%u", mesh.gpus, mesh.nodes);
    return buffer;
}

void redcoi_write_comment(FILE *stream, const char *prefix, const char *text)
{
    (void)fputs(prefix, stream);
    redco_text_write(stream, text);
    (void)fputc('\n', stream);
}

void redcoi_write_header(const redcoi_context *context, const char *prefix, const char *title, FILE *stream)
{
    const redco_plan *plan = context->plan;
    char line[400];
    (void)snprintf(line, sizeof line, "%s for %.80s on %llu GPUs of %.80s, written by redco-plan", title,
                   plan->model_name, (unsigned long long)redco_plan_gpus(plan), plan->cluster_name);
    redcoi_write_comment(stream, prefix, line);
    if (context->summary != NULL) { redcoi_write_comment(stream, prefix, context->summary); }
}

redco_parallelism redcoi_sharded(const redco_plan *plan, const redco_parallelism *parallelism,
                                 const redco_engine *engine)
{
    const redco_parallel p = {.gpus_per_node = plan->gpus_per_node,
                              .tp = parallelism->tp,
                              .cp = parallelism->cp,
                              .dp = parallelism->dp,
                              .states_over_cp = engine->shard_over_cp};
    redco_parallelism sharded = *parallelism;
    sharded.dp = redco_parallel_state_grid(&p);
    return sharded;
}

redco_mesh redcoi_regrid(const redco_plan *plan, redco_mesh mesh, redco_mesh grid)
{
    return plan->parallelism.cp > 1 && redco_mesh_ranks(mesh) > 1 && redco_mesh_equal(mesh, redco_plan_grid(plan))
               ? grid
               : mesh;
}

redco_parallelism redcoi_offer_sharded(const redcoi_context *context)
{
    return redcoi_sharded(context->plan, &context->offer->parallelism, &context->offer->engine);
}

uint32_t redcoi_traffic(const redco_parallelism *parallelism, const redco_shards *shards)
{
    const uint64_t p = redco_mesh_ranks(shards->parameters);
    uint32_t traffic = 0;
    if (p > 1) { traffic |= REDCO_OVERLAP_AG_RS; }
    if (redco_mesh_ranks(parallelism->dp) > p) { traffic |= REDCO_OVERLAP_AR; }
    if (redco_mesh_ranks(shards->optimizer) > p) { traffic |= REDCO_OVERLAP_BC; }
    if (redcoi_only_experts_repeat(parallelism)) { traffic |= REDCO_OVERLAP_AR | REDCO_OVERLAP_BC; }
    return traffic;
}

bool redcoi_only_experts_repeat(const redco_parallelism *parallelism)
{
    const uint64_t ranks = redco_mesh_ranks(parallelism->dp) * parallelism->tp;
    return redco_mesh_ranks(parallelism->dp) == 1 &&
           ranks > (uint64_t)redco_parallelism_etp(parallelism) * redco_parallelism_ep(parallelism);
}

redco_status redcoi_write_json(const redcoi_context *context, const json_t *config, FILE *stream, redco_error *err)
{
    size_t size = 0;
    char *text = redco_json_text(config, REDCO_PLAN_DIGITS, &size);
    (void)context;
    if (text == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    (void)fwrite(text, 1, size, stream);
    free(text);
    return REDCO_OK;
}

const redco_plan_layers *redcoi_main_layers(const redco_plan_layers *layers, uint32_t count)
{
    const redco_plan_layers *most = &layers[0];
    for (uint32_t i = 1; i < count; i++) {
        if (layers[i].last_layer - layers[i].first_layer > most->last_layer - most->first_layer) { most = &layers[i]; }
    }
    return most;
}

bool redcoi_is_block(const redco_model *model, const char *class_name)
{
    const redco_layer_class *classes = NULL;
    const size_t count = redco_model_classes(model, &classes);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(classes[i].name, class_name) == 0) { return redco_class_is_block(classes[i].kind); }
    }
    return false;
}

uint32_t redcoi_count_recompute(const redcoi_context *context, redco_recompute policy)
{
    uint32_t layers = 0;
    for (uint32_t i = 0; i < context->offer->count; i++) {
        const redco_plan_layers *row = &context->offer->layers[i];
        if (row->recompute == policy && redcoi_is_block(context->reopened->inputs.model, row->class_name)) {
            layers += row->last_layer - row->first_layer + 1;
        }
    }
    return layers;
}

redco_recompute redcoi_modules_recomputed(const redcoi_context *context)
{
    redco_recompute modules = REDCO_RECOMPUTE_NONE;
    for (uint32_t i = 0; i < context->offer->count; i++) { modules |= context->offer->layers[i].recompute; }
    return modules & (redco_recompute)(REDCO_RECOMPUTE_FULL - 1);
}

uint32_t redcoi_positions(const redco_parallelism *parallelism)
{
    const redco_pipeline pipeline = redco_parallelism_pipeline(parallelism);
    return parallelism->pp > 1 ? redco_pipeline_positions(pipeline.kind, pipeline.stages, pipeline.chunks) : 1;
}

uint32_t redcoi_position_layers(const redcoi_context *context, uint32_t position)
{
    const redco_parallelism *parallelism = &context->offer->parallelism;
    return parallelism->split != NULL
               ? parallelism->split[position]
               : redco_stage_blocks(context->plan->model_layers, redcoi_positions(parallelism), position);
}

/* PyTorch cuts the micro-batches of an interleaved step in rounds of pp or more, all alike. */
const char *redcoi_torch_schedule(const redco_pipeline *pipeline)
{
    const uint32_t m = pipeline->micro_batches, rounds = m > pipeline->stages ? m / pipeline->stages : 1;
    switch (pipeline->kind) {
    case REDCO_PIPELINE_1F1B: return "1F1B";
    case REDCO_PIPELINE_GPIPE: return "GPipe";
    case REDCO_PIPELINE_DUALPIPE_V: return "DualPipeV";
    case REDCO_PIPELINE_INTERLEAVED: return m % rounds == 0 && pipeline->group == m / rounds ? "Interleaved1F1B" : NULL;
    case REDCO_PIPELINE_ZB_H1:
    case REDCO_PIPELINE_DUALPIPE:
    case REDCO_PIPELINE_COUNT: break;
    }
    return NULL;
}

redco_precision redcoi_base_precision(const redco_plan *plan)
{
    return plan->precision == REDCO_FP16 || plan->precision == REDCO_FP32 ? plan->precision : REDCO_BF16;
}

uint32_t redcoi_gradient_bytes(const redco_plan *plan, const redco_engine *engine)
{
    if (engine->gradient_bytes > 0) { return engine->gradient_bytes; }
    return plan->precision == REDCO_FP32 ? 4 : 2;
}

bool redcoi_flash_attention(const redco_engine *engine)
{
    return engine->attention != REDCO_ATTENTION_FUSED && engine->attention != REDCO_ATTENTION_UNFUSED;
}

uint64_t redcoi_bucket_elements(const redco_plan *plan)
{
    const uint64_t elements = plan->bucket_bytes / (plan->precision == REDCO_FP32 ? 4 : 2);
    return elements > 0 ? elements : 1;
}

uint32_t redcoi_gpus_per_host(const redco_plan *plan)
{
    const uint32_t hosts = plan->hosts_per_node > 0 ? plan->hosts_per_node : 1;
    return plan->gpus_per_node >= hosts ? plan->gpus_per_node / hosts : 1;
}

uint32_t redcoi_hosts(const redco_plan *plan)
{
    return (uint32_t)(redco_plan_gpus(plan) / redcoi_gpus_per_host(plan));
}

char *redcoi_gpu_order_text(const redco_plan *plan)
{
    const uint32_t each = redcoi_gpus_per_host(plan);
    const bool many = plan->hosts_per_node > 1;
    char *text = NULL;
    size_t size = 0;
    if (plan->gpu_order == NULL) { return NULL; }
    for (uint32_t i = 0; many && i < plan->gpus_per_node; i++) {
        const uint32_t gpu = plan->gpu_order[i];
        if (gpu / each != i / each || gpu % each != plan->gpu_order[i % each]) { return NULL; }
    }
    FILE *stream = open_memstream(&text, &size);
    if (stream == NULL) { return NULL; }
    for (uint32_t i = 0; i < (many ? each : plan->gpus_per_node); i++) {
        (void)fprintf(stream, "%s%u", i > 0 ? "," : "", plan->gpu_order[i]);
    }
    if (fclose(stream) == 0) { return text; }
    free(text);
    return NULL;
}

void redcoi_note(const redcoi_context *context, const char *format, ...)
{
    char text[900];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)json_array_append_new(context->notes, json_string(text));
}

void redcoi_note_placement(const redcoi_context *context, const char *launcher)
{
    const redco_plan *plan = context->plan;
    char *order = redcoi_gpu_order_text(plan);
    if (plan->hosts_count > 0) {
        char *list = redco_hostlist_compact((const char *const *)plan->hosts, plan->hosts_count);
        redcoi_note(context,
                    "starts no ranks: start them on the hosts in this order: %.600s; in another, more than %u sharding "
                    "groups may span leaf switches, which is not priced",
                    list != NULL ? list : plan->hosts[0], plan->spanning_groups);
        free(list);
    }
    if (order != NULL) {
        redcoi_note(context,
                    "starts no ranks: set CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=%s and start them with %s "
                    "for the planned order of GPUs",
                    order, launcher);
    }
    free(order);
}

void redcoi_write_hosts(const redco_plan *plan, const char *separator, FILE *stream)
{
    for (uint32_t i = 0; i < plan->hosts_count; i++) {
        (void)fprintf(stream, "%s'", separator);
        for (const char *c = plan->hosts[i]; *c != '\0'; c++) {
            if (*c == '\'') {
                (void)fputs("'\\''", stream);
            } else {
                (void)fputc(*c, stream);
            }
        }
        (void)fputc('\'', stream);
    }
}

static bool plain_host(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    if (name[0] == '\0' || strchr(letters, name[0]) == NULL) { return false; }
    for (; *name != '\0'; name++) {
        if (strchr(letters, *name) == NULL && strchr("._-", *name) == NULL) { return false; }
    }
    return true;
}

redco_status redcoi_check_hosts(const redco_plan *plan, redco_error *err)
{
    for (uint32_t i = 0; i < plan->hosts_count; i++) {
        if (plain_host(plan->hosts[i])) { continue; }
        return redco_fail(
            err, REDCO_EVALUE, "/placement/hosts",
            "\"%.60s\" cannot stand in a script: a host's name is of letters, digits, \".\", \"_\", \"-\" "
            "and begins with a letter or digit",
            plan->hosts[i]);
    }
    return REDCO_OK;
}
