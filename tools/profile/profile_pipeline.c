#include "tools/profile/profile_pipeline.h"

#include "executor/data/tokens.h"
#include "executor/pipeline/pipeline_work.h"
#include "executor/pipeline/records.h"
#include "tools/cli/cli.h"

#include <stdlib.h>

struct profile_source {
    struct profile_source *next;
    struct profile_pipelines *pipelines;
    redco_user_pipeline_file *file;
    redco_records *records; /* NULL without data */
};

/* Micro-batches of one size. */
struct profile_batches {
    struct profile_batches *next;
    const redco_records *records;
    redco_task task;
    const char **inputs;
    uint64_t *input_bytes, *numbers;
    uint64_t examples; /* so far */
};

static redco_status short_memory(const char *path, redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, path, "out of memory");
}

/* The examples that a run takes, in its order. */
static redco_status next_batch(void *context, uint32_t examples, void *const *data, redco_error *err)
{
    struct profile_batches *const b = context;
    const uint64_t count = redco_records_count(b->records);
    for (uint32_t i = 0; i < examples; i++, b->examples++) {
        b->numbers[i] = redco_tokens_order(1, count, b->examples / count, b->examples % count);
    }
    return redco_records_collate(b->records, b->numbers, examples, data, err);
}

static redco_status add_batches(struct profile_source *source, uint32_t examples, struct profile_batches **batches_out,
                                redco_error *err)
{
    struct profile_batches *const b = calloc(1, sizeof *b);
    const char *const path = redco_user_pipeline_path(source->file);
    if (b == NULL) { return short_memory(path, err); }
    b->next = source->pipelines->batches;
    source->pipelines->batches = b;
    b->records = source->records;
    const redco_status st = redco_user_pipeline_task(source->file, examples, &b->task, err);
    if (st != REDCO_OK) { return st; }
    b->inputs = calloc(b->task.input_count + 1, sizeof *b->inputs);
    b->input_bytes = calloc(b->task.input_count + 1, sizeof *b->input_bytes);
    b->numbers = calloc(examples, sizeof *b->numbers);
    if (b->inputs == NULL || b->input_bytes == NULL || b->numbers == NULL) { return short_memory(path, err); }
    for (size_t i = 0; i < b->task.input_count; i++) {
        b->inputs[i] = b->task.inputs[i].name;
        b->input_bytes[i] = redco_type_bytes(&b->task.inputs[i].type);
    }
    *batches_out = b;
    return REDCO_OK;
}

static redco_status see(void *context, redco_pipeline_graph *graph, redco_error *err)
{
    struct profile_source *const source = context;
    struct profile_batches *batches = NULL;
    const redco_status st = source->records != NULL ? add_batches(source, graph->examples, &batches, err) : REDCO_OK;
    if (st != REDCO_OK) { return st; }
    redco_measure_graph_of of = {.graph = graph->graph,
                                 .order = graph->order,
                                 .order_count = graph->order_count,
                                 .outputs = graph->outputs,
                                 .output_count = graph->output_count,
                                 .measured_as = graph->measured_as,
                                 .examples = graph->examples};
    if (batches != NULL) {
        of.next = next_batch;
        of.context = batches;
        of.inputs = batches->inputs;
        of.input_bytes = batches->input_bytes;
        of.input_count = (uint32_t)batches->task.input_count;
        of.batch_measured_as = graph->batch_measured_as;
    }
    graph->graph = NULL;
    return redco_measure_ops_add(&source->pipelines->ops, &of, err);
}

redco_status profile_pipeline_add(struct profile_pipelines *pipelines, const struct profile_pipeline *of,
                                  redco_error *err)
{
    struct profile_source *const source = calloc(1, sizeof *source);
    if (source == NULL) { return short_memory(of->path, err); }
    source->next = pipelines->sources;
    source->pipelines = pipelines;
    pipelines->sources = source;
    redco_status st = redco_user_pipeline_open(of->path, of->call, &source->file, err);
    if (st == REDCO_OK && of->data != NULL) {
        st = redco_records_open(of->data, source->file, (redco_records_options){.skip_bad = false}, &source->records,
                                err);
    }
    for (uint32_t i = 0; st == REDCO_OK && (i == 0 || i < of->micro_batch_count); i++) {
        const redco_pipeline_work_options options = {.most_tp = of->most_tp,
                                                     .micro_batch =
                                                         of->micro_batch_count > 0 ? of->micro_batches[i] : 0,
                                                     .see = see,
                                                     .context = source};
        json_t *config = NULL;
        st = redco_pipeline_model(source->file, &options, &config, err);
        json_decref(config);
    }
    return st;
}

void profile_pipelines_free(struct profile_pipelines *pipelines)
{
    redco_measure_ops_free(&pipelines->ops);
    for (struct profile_batches *b = pipelines->batches, *next = NULL; b != NULL; b = next) {
        next = b->next;
        redco_user_pipeline_task_free(&b->task);
        free((void *)b->inputs);
        free(b->input_bytes);
        free(b->numbers);
        free(b);
    }
    for (struct profile_source *s = pipelines->sources, *next = NULL; s != NULL; s = next) {
        next = s->next;
        redco_records_close(s->records);
        redco_user_pipeline_close(s->file);
        free(s);
    }
    *pipelines = (struct profile_pipelines){.sources = NULL};
}
