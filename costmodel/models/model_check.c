/* A model's tensors against those of a safetensors file. Names are compared without the wrapper's prefix, which depends
 * on the class that saved the file (a head model has it, its inner model not). */
#include "costmodel/models/family.h"
#include "costmodel/models/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHAPE_SIZE = 128 };

/* Wrappers of transformers' model classes. */
static const char *const wrappers[] = {"model.", "transformer.", "gpt_neox.", NULL};

static const char *without_prefix(const char *name)
{
    for (size_t i = 0; wrappers[i] != NULL; i++) {
        const size_t length = strlen(wrappers[i]);
        if (strncmp(name, wrappers[i], length) == 0) { return name + length; }
    }
    return name;
}

/* Where transformers' saving keeps another name of the shared table than the first. The encoder-decoder models share
 * their table between both stacks, tied head or not. */
const char *redco_model_table_copy(const redco_model *model, size_t index)
{
    static const char *const heads[] = {"lm_head.weight", "embed_out.weight", "output.weight"};
    static const char *const stacks[] = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"};
    enum { HEADS = sizeof heads / sizeof heads[0], STACKS = sizeof stacks / sizeof stacks[0] };
    const redco_model_dims *const dims = redco_model_get_dims(model);
    const size_t tied = dims->tied ? HEADS : 0;
    if (index < tied) { return heads[index]; }
    return dims->encoder_layers > 0 && index - tied < STACKS ? stacks[index - tied] : NULL;
}

const redco_safetensor *redco_safetensors_find_wrapped(const redco_safetensors *tensors, const char *name)
{
    const redco_safetensor *tensor = redco_safetensors_find(tensors, name);
    for (size_t i = 0; wrappers[i] != NULL && tensor == NULL; i++) {
        char longer[REDCOI_MODEL_NAME_SIZE];
        const size_t length = strlen(wrappers[i]);
        (void)snprintf(longer, sizeof longer, "%s%s", wrappers[i], name);
        tensor = redco_safetensors_find(tensors, longer);
        if (tensor == NULL && strncmp(name, wrappers[i], length) == 0) {
            tensor = redco_safetensors_find(tensors, name + length);
        }
    }
    return tensor;
}

/* A tensor of the file, found by its name without prefix. */
struct entry {
    const char *name;
    const redco_safetensor *tensor;
    bool used;
};

struct check {
    const redco_model *model;
    const char *path;
    struct entry *entries;
    size_t count;
    redco_error *err;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

static struct entry *find(const struct check *check, const char *name)
{
    const struct entry key = {.name = without_prefix(name)};
    return bsearch(&key, check->entries, check->count, sizeof key, by_name);
}

static const char *shape_text(const uint64_t *shape, uint32_t rank, char buffer[SHAPE_SIZE])
{
    size_t used = 0;
    buffer[0] = '\0';
    for (uint32_t i = 0; i < rank && used < SHAPE_SIZE; i++) {
        used += (size_t)snprintf(buffer + used, SHAPE_SIZE - used, "%s%llu", i > 0 ? ", " : "",
                                 (unsigned long long)shape[i]);
    }
    return buffer;
}

static redco_status compare_shape(const struct check *check, const redco_safetensor *tensor, const redco_param *param)
{
    char in_file[SHAPE_SIZE];
    char in_model[SHAPE_SIZE];
    const bool folded = param->part == REDCO_PART_EXPERTS && param->rank == 3 && tensor->rank == 2 &&
                        tensor->shape[0] == param->shape[0] * param->shape[1] && tensor->shape[1] == param->shape[2];
    if (!tensor->has_shape || folded ||
        (tensor->rank == param->rank &&
         memcmp(tensor->shape, param->shape, param->rank * sizeof param->shape[0]) == 0)) {
        return REDCO_OK;
    }
    return redco_fail(check->err, REDCO_EVALUE, check->path, "%s has shape [%s]; the config of %s says [%s]",
                      tensor->name, shape_text(tensor->shape, tensor->rank, in_file), redco_model_name(check->model),
                      shape_text(param->shape, param->rank, in_model));
}

static struct entry *find_copy(const struct check *check)
{
    const char *copy = NULL;
    for (size_t i = 0; (copy = redco_model_table_copy(check->model, i)) != NULL; i++) {
        struct entry *const entry = find(check, copy);
        if (entry != NULL) { return entry; }
    }
    return NULL;
}

/* Experts have one tensor each, "experts.{}.up_proj.weight", or one for all: without their number, or, as transformers
 * 5 keeps them, gate and up together, "experts.gate_up_proj". */
static redco_status compare_experts(const struct check *check, const redco_param *param,
                                    const char name[REDCOI_MODEL_NAME_SIZE])
{
    const char *const brace = strstr(name, "{}"), *const rest = brace + 3; /* "up_proj.weight" */
    const int before = (int)(brace - name), module = (int)(strrchr(rest, '.') - rest);
    const bool joint = param->use == REDCO_USE_EXPERT_GATE || param->use == REDCO_USE_EXPERT_UP;
    char other[REDCOI_MODEL_NAME_SIZE];
    redco_param one = *param;
    for (uint32_t d = 1; d < param->rank; d++) { one.shape[d - 1] = param->shape[d]; }
    one.rank--;
    for (uint64_t expert = 0; expert < param->shape[0]; expert++) {
        (void)snprintf(other, sizeof other, "%.*s%llu.%s", before, name, (unsigned long long)expert, rest);
        struct entry *const entry = find(check, other);
        if (entry == NULL && expert == 0) { break; }
        if (entry == NULL) {
            return redco_fail(check->err, REDCO_EVALUE, check->path,
                              "has no tensor %s, which the config of %s asks for", other,
                              redco_model_name(check->model));
        }
        entry->used = true;
        const redco_status st = compare_shape(check, entry->tensor, &one);
        if (st != REDCO_OK || expert + 1 == param->shape[0]) { return st; }
    }
    redco_param all = *param;
    (void)snprintf(other, sizeof other, "%.*s%.*s", before, name, module, rest);
    struct entry *entry = find(check, other);
    if (entry == NULL && joint) {
        (void)snprintf(other, sizeof other, "%.*sgate_up_proj", before, name);
        all.shape[1] *= 2;
        entry = find(check, other);
    }
    if (entry == NULL) {
        return redco_fail(check->err, REDCO_EVALUE, check->path,
                          "has neither a tensor of each expert nor one of all for %s, which the config of %s asks for",
                          name, redco_model_name(check->model));
    }
    entry->used = true;
    return compare_shape(check, entry->tensor, &all);
}

static redco_status compare_tensor(const struct check *check, const redco_param *param, bool is_table, uint32_t layer)
{
    char name[REDCOI_MODEL_NAME_SIZE];
    if (strstr(redcoi_param_name(param, layer, name), "{}") != NULL) { return compare_experts(check, param, name); }
    struct entry *entry = find(check, name);
    if (entry == NULL && is_table) { entry = find_copy(check); }
    if (entry == NULL) {
        return redco_fail(check->err, REDCO_EVALUE, check->path, "has no tensor %s, which the config of %s asks for",
                          name, redco_model_name(check->model));
    }
    entry->used = true;
    return compare_shape(check, entry->tensor, param);
}

static redco_status compare_wanted(const struct check *check)
{
    const redco_param *params = NULL;
    const redco_layer_run *runs = NULL;
    const size_t count = redco_model_tensors(check->model, &params), run_count = redco_model_order(check->model, &runs);
    for (size_t i = 0; i < count; i++) {
        for (size_t r = 0; r < run_count; r++) {
            for (uint32_t at = 0; at < runs[r].layers && runs[r].class_index == params[i].class_index; at++) {
                const redco_status st = compare_tensor(check, &params[i], i == 0, runs[r].index + at);
                if (st != REDCO_OK) { return st; }
            }
        }
    }
    return REDCO_OK;
}

/* Masks, rotary frequencies and the like: constants that older versions of transformers saved. */
static bool is_buffer(const char *name)
{
    static const char *const endings[] = {
        ".attn.bias",        ".attn.masked_bias",        ".attention.bias",      ".attention.masked_bias", ".inv_freq",
        "final_logits_bias", ".e_score_correction_bias", ".embed_positions.sin", ".embed_positions.cos"};
    const size_t length = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        const size_t ending = strlen(endings[i]);
        if (length >= ending && strcmp(name + length - ending, endings[i]) == 0) { return true; }
    }
    return false;
}

/* Looks at tensors of the file beyond the model. @p extra_out: there are some */
static redco_status compare_rest(const struct check *check, bool *extra_out)
{
    const redco_param *params = NULL;
    (void)redco_model_tensors(check->model, &params);
    *extra_out = false;
    for (size_t i = 0; i < check->count; i++) {
        const struct entry *entry = &check->entries[i];
        bool known = entry->used;
        if (!known) { *extra_out = true; }
        const char *copy = NULL;
        for (size_t j = 0; !known && (copy = redco_model_table_copy(check->model, j)) != NULL; j++) {
            known = strcmp(copy, entry->name) == 0;
            if (known) {
                const redco_status st = compare_shape(check, entry->tensor, &params[0]);
                if (st != REDCO_OK) { return st; }
            }
        }
        if (!known && !is_buffer(entry->name)) {
            return redco_fail(check->err, REDCO_EVALUE, check->path,
                              "has a tensor %s, which the config of %s does not know", entry->tensor->name,
                              redco_model_name(check->model));
        }
    }
    return REDCO_OK;
}

/* With nothing beyond the model in the files, each parameter has 1 byte (FP8) to 8 (FP64). */
static redco_status compare_bytes(const struct check *check, uint64_t bytes)
{
    const uint64_t params = redco_model_params(check->model);
    if (bytes == 0 || (bytes >= params && bytes / 8 <= params)) { return REDCO_OK; }
    return redco_fail(check->err, REDCO_EVALUE, check->path,
                      "metadata.total_size is %llu bytes; the %llu parameters of %s need 1 to 8 each",
                      (unsigned long long)bytes, (unsigned long long)params, redco_model_name(check->model));
}

static redco_status fill_entries(struct check *check, const redco_safetensors *tensors)
{
    const redco_safetensor *list = NULL;
    check->count = redco_safetensors_list(tensors, &list);
    check->entries = calloc(check->count + 1, sizeof *check->entries);
    if (check->entries == NULL) { return redco_fail(check->err, REDCO_ENOMEM, check->path, "out of memory"); }
    for (size_t i = 0; i < check->count; i++) {
        check->entries[i] = (struct entry){.name = without_prefix(list[i].name), .tensor = &list[i]};
    }
    qsort(check->entries, check->count, sizeof *check->entries, by_name);
    for (size_t i = 1; i < check->count; i++) {
        if (strcmp(check->entries[i - 1].name, check->entries[i].name) == 0) {
            return redco_fail(check->err, REDCO_EVALUE, check->path, "has both %s and %s",
                              check->entries[i - 1].tensor->name, check->entries[i].tensor->name);
        }
    }
    return REDCO_OK;
}

redco_status redco_model_check_safetensors(const redco_model *model, const char *path, redco_error *err)
{
    redco_safetensors *tensors = NULL;
    struct check check = {.model = model, .path = path, .err = err};
    bool extra = false;
    redco_status st = redco_safetensors_open(path, &tensors, err);
    if (st == REDCO_OK) { st = fill_entries(&check, tensors); }
    if (st == REDCO_OK) { st = compare_wanted(&check); }
    if (st == REDCO_OK) { st = compare_rest(&check, &extra); }
    if (st == REDCO_OK && !extra) { st = compare_bytes(&check, redco_safetensors_total_bytes(tensors)); }
    free(check.entries);
    redco_safetensors_free(tensors);
    return st;
}
