#include "planner/rules/rules_params.h"

#include "topology/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PARAMS = 1000000, MAX_PATH_BYTES = REDCO_RULES_PATH_BYTES };

struct redco_rules_tree {
    redco_rules_param *params;
    size_t *tensors;  /* where each comes from in its model */
    uint32_t *layers; /* and the number in its stack */
    size_t count, capacity;
    bool from_model;
    redco_model_dims dims; /* dimensions of that model */
};

static redco_status out_of_memory(const char *name, redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, name, "out of memory");
}

static bool grow(redco_rules_tree *tree)
{
    const size_t capacity = tree->capacity == 0 ? 64 : 2 * tree->capacity;
    redco_rules_param *params = realloc(tree->params, capacity * sizeof *params);
    if (params == NULL) { return false; }
    tree->params = params;
    size_t *tensors = realloc(tree->tensors, capacity * sizeof *tensors);
    if (tensors == NULL) { return false; }
    tree->tensors = tensors;
    uint32_t *layers = realloc(tree->layers, capacity * sizeof *layers);
    if (layers == NULL) { return false; }
    tree->layers = layers;
    tree->capacity = capacity;
    return true;
}

/* Takes a copy of the path. */
static bool append(redco_rules_tree *tree, const redco_rules_param *param, size_t tensor, uint32_t layer)
{
    if (tree->count == tree->capacity && !grow(tree)) { return false; }
    char *path = strdup(param->path);
    if (path == NULL) { return false; }
    tree->tensors[tree->count] = tensor;
    tree->layers[tree->count] = layer;
    tree->params[tree->count] = *param;
    tree->params[tree->count++].path = path;
    return true;
}

/* Hands the finished tree over, or frees it. */
static redco_status finish(redco_status st, redco_rules_tree *tree, redco_rules_tree **tree_out)
{
    if (st != REDCO_OK) {
        redco_rules_tree_free(tree);
        return st;
    }
    *tree_out = tree;
    return REDCO_OK;
}

/* The dimensions in Flax order: torch keeps the output first, Flax last; images and kernels lead. For tables nothing
 * moves. GPT-2's [in, out] turns round, too: FlaxConv1D keeps (out, in). */
static void set_flax_shape(redco_rules_param *param, const uint64_t *shape, uint32_t rank, bool turn)
{
    param->rank = rank;
    for (uint32_t i = 0; i < rank; i++) { param->shape[i] = shape[i]; }
    if (!turn || rank < 2) { return; }
    for (uint32_t i = 2; i < rank; i++) { param->shape[i - 2] = shape[i]; }
    param->shape[rank - 2] = shape[1];
    param->shape[rank - 1] = shape[0];
}

static const char *flax_leaf(redco_param_role role)
{
    switch (role) {
    case REDCO_PARAM_LINEAR:
    case REDCO_PARAM_CONV1D: return "kernel";
    case REDCO_PARAM_TABLE: return "embedding";
    case REDCO_PARAM_LAYER_NORM: return "scale";
    case REDCO_PARAM_RMS_NORM: return "weight";
    case REDCO_PARAM_BIAS: return "bias";
    case REDCO_PARAM_KERNEL: return "kernel";
    }
    return "weight";
}

/* "a.b.weight" to "a/b/LEAF"; a NULL leaf keeps the last name. */
static void write_path(char *path, size_t size, const char *name, const char *leaf)
{
    (void)snprintf(path, size, "%s", name);
    for (char *c = path; *c != '\0'; c++) {
        if (*c == '.') { *c = '/'; }
    }
    const char *last = strrchr(path, '/');
    const size_t used = last != NULL ? (size_t)(last - path) + 1 : 0;
    if (leaf != NULL) { (void)snprintf(path + used, size - used, "%s", leaf); }
}

const char *redco_rules_pipeline_path(const char *name, redco_param_role role, char *path)
{
    static const char weight[] = "weight";
    const bool matrix = role == REDCO_PARAM_KERNEL || role == REDCO_PARAM_TABLE;
    write_path(path, REDCO_RULES_PATH_BYTES, name, NULL);
    const char *const slash = strrchr(path, '/'), *const last = slash != NULL ? slash + 1 : path;
    const size_t used = strlen(path), kept = strcmp(last, weight) == 0 ? (size_t)(last - path) : used;
    if (!matrix) { return path; }
    (void)snprintf(path + kept, REDCO_RULES_PATH_BYTES - kept, "%s%s", kept == used ? "/" : "", flax_leaf(role));
    return path;
}

/* "a.{}.b" to "a.7.b". */
static void write_name(char *name, size_t size, const char *pattern, uint32_t layer)
{
    const char *brace = strstr(pattern, "{}");
    if (brace != NULL) {
        (void)snprintf(name, size, "%.*s%u%s", (int)(brace - pattern), pattern, layer, brace + 2);
    } else {
        (void)snprintf(name, size, "%s", pattern);
    }
}

static redco_status add_model_layer(redco_rules_tree *tree, const redco_model *model, uint32_t class_index,
                                    uint32_t layer, redco_error *err)
{
    char name[MAX_PATH_BYTES];
    char path[MAX_PATH_BYTES];
    const redco_param *params = NULL;
    const size_t count = redco_model_tensors(model, &params);
    for (size_t i = 0; i < count; i++) {
        redco_rules_param param = {.path = path};
        if (params[i].class_index != class_index) { continue; }
        write_name(name, sizeof name, params[i].name, layer);
        if (redco_model_graph_work(model) != NULL) {
            (void)redco_rules_pipeline_path(name, params[i].role, path);
        } else {
            write_path(path, sizeof path, name, flax_leaf(params[i].role));
        }
        set_flax_shape(&param, params[i].shape, params[i].rank,
                       params[i].role == REDCO_PARAM_LINEAR || params[i].role == REDCO_PARAM_CONV1D);
        if (tree->count >= MAX_PARAMS) {
            return redco_fail(err, REDCO_EVALUE, redco_model_name(model),
                              "has more than %d tensors, the most that are read", MAX_PARAMS);
        }
        if (!append(tree, &param, i, layer)) { return out_of_memory(redco_model_name(model), err); }
    }
    return REDCO_OK;
}

redco_status redco_rules_tree_from_model(const redco_model *model, bool every_layer, redco_rules_tree **tree_out,
                                         redco_error *err)
{
    const redco_layer_run *runs = NULL;
    const size_t run_count = redco_model_order(model, &runs);
    redco_status st = REDCO_OK;
    redco_rules_tree *tree = calloc(1, sizeof *tree);
    if (tree == NULL) { return out_of_memory(redco_model_name(model), err); }
    tree->from_model = true;
    tree->dims = *redco_model_get_dims(model);
    for (size_t r = 0; r < run_count && st == REDCO_OK; r++) {
        const uint32_t layers = every_layer ? runs[r].layers : runs[r].first == 0 ? 1 : 0;
        for (uint32_t at = 0; at < layers && st == REDCO_OK; at++) {
            st = add_model_layer(tree, model, runs[r].class_index, runs[r].index + at, err);
        }
    }
    /* A buffer in torch, a parameter in Flax. */
    if (st == REDCO_OK && strcmp(redco_model_type(model), "bart") == 0) {
        const redco_rules_param bias = {
            .path = "final_logits_bias", .rank = 2, .shape = {1, redco_model_get_dims(model)->vocab}};
        if (!append(tree, &bias, REDCO_RULES_NO_TENSOR, 0)) { st = out_of_memory(redco_model_name(model), err); }
    }
    return finish(st, tree, tree_out);
}

static redco_status read_shape(const redco_json_value *entry, redco_rules_param *param, redco_error *err)
{
    redco_json_value shape;
    size_t rank = 0;
    const redco_status st = redco_json_array(entry, "shape", &shape, &rank, err);
    if (st != REDCO_OK) { return st; }
    if (rank > REDCO_RULES_RANK_MAX) {
        return redco_json_fail(entry, "shape", err, "has %zu dimensions; at most %d are possible", rank,
                               REDCO_RULES_RANK_MAX);
    }
    param->rank = (uint32_t)rank;
    for (size_t i = 0; i < rank; i++) {
        const json_t *size = json_array_get(shape.json, i);
        if (!json_is_integer(size) || json_integer_value(size) < 1) {
            return redco_json_fail(entry, "shape", err, "must hold positive whole numbers");
        }
        param->shape[i] = (uint64_t)json_integer_value(size);
    }
    return REDCO_OK;
}

static redco_status read_path(const redco_json_value *entry, redco_rules_param *param, redco_error *err)
{
    const redco_status st = redco_json_string(entry, "path", &param->path, err);
    if (st != REDCO_OK) { return st; }
    const size_t length = strlen(param->path);
    if (length == 0 || param->path[0] == '/' || param->path[length - 1] == '/' || strstr(param->path, "//") != NULL) {
        return redco_json_fail(entry, "path", err,
                               "is \"%.80s\"; names joined with '/', none of them empty, are needed", param->path);
    }
    if (!redco_text_is_plain(param->path)) { /* names reach terminals */
        return redco_json_fail(entry, "path", err, "is \"%.80s\", which has a control character", param->path);
    }
    if (length >= MAX_PATH_BYTES) {
        return redco_json_fail(entry, "path", err, "has %zu bytes; less than %d are read", length, MAX_PATH_BYTES);
    }
    return REDCO_OK;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A path twice would be two parameters with one spec. */
static redco_status check_unique(const redco_rules_tree *tree, const char *place, redco_error *err)
{
    redco_status st = REDCO_OK;
    const char **paths = calloc(tree->count + 1, sizeof *paths);
    if (paths == NULL) { return out_of_memory(place, err); }
    for (size_t i = 0; i < tree->count; i++) { paths[i] = tree->params[i].path; }
    qsort(paths, tree->count, sizeof *paths, by_path);
    for (size_t i = 1; i < tree->count && st == REDCO_OK; i++) {
        if (strcmp(paths[i - 1], paths[i]) == 0) {
            st = redco_fail(err, REDCO_EVALUE, place, "the parameter %s is there twice", paths[i]);
        }
    }
    free(paths);
    return st;
}

redco_status redco_rules_tree_from_json(const redco_json_value *root, redco_rules_tree **tree_out, redco_error *err)
{
    char place[512];
    redco_json_value list;
    size_t count = 0;
    redco_status st = redco_json_array(root, "params", &list, &count, err);
    if (st != REDCO_OK) { return st; }
    if (count == 0 || count > MAX_PARAMS) {
        return redco_json_fail(root, "params", err, "has %zu entries; 1 to %d are needed", count, MAX_PARAMS);
    }
    redco_rules_tree *tree = calloc(1, sizeof *tree);
    if (tree == NULL) { return out_of_memory(root->name, err); }
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        redco_json_value entry;
        redco_rules_param param = {.rank = 0};
        st = redco_json_element(&list, i, &entry, err);
        if (st == REDCO_OK) { st = read_path(&entry, &param, err); }
        if (st == REDCO_OK) { st = read_shape(&entry, &param, err); }
        if (st == REDCO_OK && !append(tree, &param, REDCO_RULES_NO_TENSOR, 0)) { st = out_of_memory(root->name, err); }
    }
    if (st == REDCO_OK) { st = check_unique(tree, redco_json_place(root, "params", place, sizeof place), err); }
    return finish(st, tree, tree_out);
}

/* The name of the module that a tensor "a.b.weight" belongs to: "b". */
static void module_of(const char *name, const char *leaf, const char **start_out, size_t *length_out)
{
    const char *end = leaf > name ? leaf - 1 : name;
    const char *start = end;
    while (start > name && start[-1] != '.') { start--; }
    *start_out = start;
    *length_out = (size_t)(end - start);
}

static bool holds(const char *text, size_t length, const char *part)
{
    return memmem(text, length, part, strlen(part)) != NULL;
}

/* A file does not say which matrices are tables: the names that transformers gives to embeddings do. Linears whose name
 * is like these: GPT-NeoX's head, and the projections behind the tables of ELECTRA and ALBERT. */
static bool names_table(const char *module, size_t length)
{
    static const char *const tables[] = {"wte", "wpe", "shared", "relative_attention_bias"};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        if (length == strlen(tables[i]) && memcmp(module, tables[i], length) == 0) { return true; }
    }
    if ((length == 3 || (length > 3 && module[length - 4] == '_')) && memcmp(module + length - 3, "emb", 3) == 0) {
        return true;
    }
    return holds(module, length, "embed") && !holds(module, length, "embed_out") && !holds(module, length, "proj") &&
           !holds(module, length, "mapping");
}

static bool has_bias(const redco_safetensors *tensors, const char *name, const char *leaf)
{
    char bias[MAX_PATH_BYTES];
    (void)snprintf(bias, sizeof bias, "%.*sbias", (int)(leaf - name), name);
    return redco_safetensors_find(tensors, bias) != NULL;
}

/* @return NULL to keep the name as it is */
static const char *leaf_of(const redco_safetensors *tensors, const redco_safetensor *tensor, bool *turn_out)
{
    const char *module = NULL;
    size_t length = 0;
    const char *dot = strrchr(tensor->name, '.');
    const char *leaf = dot != NULL ? dot + 1 : tensor->name;
    *turn_out = false;
    if (strcmp(leaf, "weight") != 0) { return NULL; }
    if (tensor->rank < 2) { return has_bias(tensors, tensor->name, leaf) ? "scale" : NULL; }
    module_of(tensor->name, leaf, &module, &length);
    if (tensor->rank == 2 && names_table(module, length)) { return "embedding"; }
    *turn_out = true;
    return "kernel";
}

static redco_status add_tensor(redco_rules_tree *tree, const redco_safetensors *tensors, const redco_safetensor *tensor,
                               const char *file, redco_error *err)
{
    char path[MAX_PATH_BYTES + 16];
    redco_rules_param param = {.path = path};
    bool turn = false;
    if (!tensor->has_shape) {
        return redco_fail(err, REDCO_EIO, file, "names %s, which holds the shape of %s, but it cannot be opened",
                          tensor->file, tensor->name);
    }
    if (strlen(tensor->name) >= MAX_PATH_BYTES) {
        return redco_fail(err, REDCO_EVALUE, file, "the name %.40s... has %zu bytes; less than %d are read",
                          tensor->name, strlen(tensor->name), MAX_PATH_BYTES);
    }
    if (!redco_text_is_plain(tensor->name)) {
        return redco_fail(err, REDCO_EVALUE, file, "the name %.80s has a control character", tensor->name);
    }
    const char *leaf = leaf_of(tensors, tensor, &turn);
    write_path(path, sizeof path, tensor->name, leaf);
    set_flax_shape(&param, tensor->shape, tensor->rank, turn);
    return append(tree, &param, REDCO_RULES_NO_TENSOR, 0) ? REDCO_OK : out_of_memory(file, err);
}

redco_status redco_rules_tree_from_safetensors(const redco_safetensors *tensors, const char *name,
                                               redco_rules_tree **tree_out, redco_error *err)
{
    const redco_safetensor *list = NULL;
    const size_t count = redco_safetensors_list(tensors, &list);
    redco_status st = REDCO_OK;
    if (count == 0 || count > MAX_PARAMS) {
        return redco_fail(err, REDCO_EVALUE, name, "has %zu tensors; 1 to %d are needed", count, MAX_PARAMS);
    }
    redco_rules_tree *tree = calloc(1, sizeof *tree);
    if (tree == NULL) { return out_of_memory(name, err); }
    for (size_t i = 0; i < count && st == REDCO_OK; i++) { st = add_tensor(tree, tensors, &list[i], name, err); }
    if (st == REDCO_OK) { st = check_unique(tree, name, err); }
    return finish(st, tree, tree_out);
}

static redco_status read_safetensors(const char *path, redco_rules_tree **tree_out, redco_error *err)
{
    redco_safetensors *tensors = NULL;
    redco_status st = redco_safetensors_open(path, &tensors, err);
    if (st == REDCO_OK) { st = redco_rules_tree_from_safetensors(tensors, path, tree_out, err); }
    redco_safetensors_free(tensors);
    return st;
}

static redco_status read_config(const redco_json_value *root, redco_rules_tree **tree_out, redco_model **model_out,
                                redco_error *err)
{
    redco_model *model = NULL;
    redco_status st = redco_model_from_json(root, NULL, &model, err);
    if (st == REDCO_OK) { st = redco_rules_tree_from_model(model, true, tree_out, err); }
    if (st == REDCO_OK) {
        *model_out = model;
    } else {
        redco_model_free(model);
    }
    return st;
}

static redco_status read_json(const char *path, redco_rules_tree **tree_out, redco_model **model_out, redco_error *err)
{
    redco_json *document = NULL;
    bool index = false;
    redco_status st = redco_json_open(path, &document, err);
    if (st != REDCO_OK) { return st; }
    const redco_json_value root = redco_json_root(document);
    if (redco_json_has(&root, "model_type")) {
        st = read_config(&root, tree_out, model_out, err);
    } else if (redco_json_has(&root, "weight_map")) {
        index = true;
    } else {
        st = redco_rules_tree_from_json(&root, tree_out, err);
    }
    redco_json_close(document);
    return index ? read_safetensors(path, tree_out, err) : st;
}

/* By its name or, for other names, its first bytes. */
static bool is_safetensors(const char *path)
{
    static const char ending[] = ".safetensors";
    unsigned char start[9];
    const size_t length = strlen(path);
    if (length >= sizeof ending - 1 && strcmp(path + length - (sizeof ending - 1), ending) == 0) { return true; }
    FILE *stream = strcmp(path, "-") != 0 ? fopen(path, "re") : NULL;
    if (stream == NULL) { return false; }
    const size_t got = fread(start, 1, sizeof start, stream);
    (void)fclose(stream);
    return redco_safetensors_like(start, got);
}

redco_status redco_rules_tree_read(const char *path, redco_rules_tree **tree_out, redco_model **model_out,
                                   redco_error *err)
{
    *model_out = NULL;
    return is_safetensors(path) ? read_safetensors(path, tree_out, err) : read_json(path, tree_out, model_out, err);
}

void redco_rules_tree_free(redco_rules_tree *tree)
{
    if (tree == NULL) { return; }
    for (size_t i = 0; i < tree->count; i++) { free((char *)(uintptr_t)tree->params[i].path); }
    free(tree->params);
    free(tree->tensors);
    free(tree->layers);
    free(tree);
}

size_t redco_rules_tree_params(const redco_rules_tree *tree, const redco_rules_param **params_out)
{
    *params_out = tree->params;
    return tree->count;
}

size_t redco_rules_tree_tensor(const redco_rules_tree *tree, size_t index)
{
    return tree->tensors[index];
}

const char *redco_rules_tree_name(const redco_rules_tree *tree, const redco_model *model, size_t index, char *name)
{
    const redco_param *params = NULL;
    (void)redco_model_tensors(model, &params);
    if (tree->tensors[index] == REDCO_RULES_NO_TENSOR) { return NULL; }
    write_name(name, MAX_PATH_BYTES, params[tree->tensors[index]].name, tree->layers[index]);
    return name;
}

const redco_model_dims *redco_rules_tree_dims(const redco_rules_tree *tree)
{
    return tree->from_model ? &tree->dims : NULL;
}
