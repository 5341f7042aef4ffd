/* A config.json as a language model: what is accepted can be built, if it is small. */
#include "costmodel/models/language_model.h"

#include <stdlib.h>

enum { PARAMETERS_MAX = 100, STRING_MAX = 1 << 16 };

static void build(const redco_model *model)
{
    static const redco_task_options options = {REDCO_F32, REDCO_F32, true, true, 1};
    redco_language_model *lm = NULL;
    redco_task_graph built = {.graph = NULL};
    if (redco_language_model_create(model, 1, 4, &lm, NULL) != REDCO_OK) { return; }
    const redco_task *task = redco_language_model_task(lm);
    if (task->parameter_count == 0) { abort(); }
    if (task->parameter_count <= PARAMETERS_MAX) {
        redco_error err = {0};
        /* Tensors of 2^48 elements are refused by the graph; nothing else may be. */
        if (redco_task_build(task, &options, &built, &err) != REDCO_OK && err.status != REDCO_EVALUE) { abort(); }
        redco_task_graph_free(&built);
    }
    redco_language_model_free(lm);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redco_json *document = NULL;
    redco_model *model = NULL;
    if (size > STRING_MAX) { return 0; }
    if (redco_json_parse((const char *)data, size, "fuzz.json", &document, NULL) != REDCO_OK) { return 0; }
    const redco_json_value root = redco_json_root(document);
    if (redco_model_from_json(&root, NULL, &model, NULL) == REDCO_OK) { build(model); }
    redco_model_free(model);
    redco_json_close(document);
    return 0;
}
