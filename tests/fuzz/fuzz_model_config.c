/* A HuggingFace config.json: whatever is accepted has sums that agree and stays below the limits. */
#include "costmodel/models/model.h"

#include <stdlib.h>

static void check(const redco_model *model)
{
    const redco_layer_class *classes = NULL;
    const redco_param *params = NULL;
    const size_t class_count = redco_model_classes(model, &classes);
    const size_t count = redco_model_tensors(model, &params);
    const redco_model_dims *dims = redco_model_get_dims(model);
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t elements = params[i].count;
        for (uint32_t d = 0; d < params[i].rank; d++) {
            if (!redco_mul_u64(elements, params[i].shape[d], &elements) || elements == 0) { abort(); }
        }
        total += elements;
    }
    if (total != redco_model_params(model) || total > 1000000000000000) { abort(); }
    for (size_t i = 0; i < class_count; i++) {
        if (classes[i].layers == 0 || classes[i].modules > classes[i].tensors) { abort(); }
    }
    if (dims->heads == 0 || dims->kv_heads == 0 || dims->heads % dims->kv_heads != 0 || dims->head_dim == 0) {
        abort();
    }
    if (dims->hidden == 0 || dims->ffn == 0 || dims->layers == 0 || dims->vocab == 0) { abort(); }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redco_json *document = NULL;
    redco_model *model = NULL;
    if (redco_json_parse((const char *)data, size, "config.json", &document, NULL) != REDCO_OK) { return 0; }
    const redco_json_value root = redco_json_root(document);
    if (redco_model_from_json(&root, NULL, &model, NULL) == REDCO_OK) { check(model); }
    redco_model_free(model);
    redco_json_close(document);
    return 0;
}
