/* The plan file, member by member. What one member alone must satisfy is checked here; what members say about one
 * another in plan_check.c. */
#include "planner/plan/plan_internal.h"

#include "topology/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_LAYERS = 1 << 20,
    MOST_RULES = 1 << 16,
    MOST_HOSTS = 1 << 22,
    MOST_NODE_GPUS = 1024,
    MOST_RANKS = 1 << 28,
    LONGEST_WORD = 1024,
    LONGEST_NAME = 23
};
static const uint64_t most_count = (uint64_t)1 << 53; /* a double still counts exactly up to here */
static const double most_number = 1e18;               /* seconds, tokens/s, FLOPs per token */

static redco_status read_text(const redco_json_value *object, const char *key, char **out, redco_error *err)
{
    const char *text = NULL;
    const redco_status st = redco_json_string(object, key, &text, err);
    if (st != REDCO_OK) { return st; }
    if (text[0] == '\0' || strlen(text) > LONGEST_WORD) {
        return redco_json_fail(object, key, err, "is empty or longer than %d bytes", LONGEST_WORD);
    }
    free(*out);
    *out = strdup(text);
    if (*out != NULL) { redco_text_clean(*out); }
    return *out != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, object->name, "out of memory");
}

static redco_status keep_object(const redco_json_value *object, const char *key, json_t **out, redco_error *err)
{
    redco_json_value value;
    const redco_status st = redco_json_object(object, key, &value, err);
    if (st == REDCO_OK) { *out = json_incref((json_t *)(uintptr_t)value.json); }
    return st;
}

static redco_status read_model(const redco_json_value *root, redco_plan *plan, redco_error *err)
{
    redco_json_value model;
    redco_status st = redco_json_object(root, "model", &model, err);
    if (st != REDCO_OK || (st = read_text(&model, "name", &plan->model_name, err)) != REDCO_OK ||
        (st = read_text(&model, "type", &plan->model_type, err)) != REDCO_OK ||
        (st = redco_json_u64(&model, "params", 1, most_count, &plan->params, err)) != REDCO_OK ||
        (redco_json_has(&model, "active_params") &&
         (st = redco_json_u64(&model, "active_params", 1, most_count, &plan->active_params, err)) != REDCO_OK) ||
        (redco_json_has(&model, "trained_params") &&
         (st = redco_json_u64(&model, "trained_params", 1, most_count, &plan->trained_params, err)) != REDCO_OK) ||
        (st = redco_json_u32(&model, "layers", 1, MOST_LAYERS, &plan->model_layers, err)) != REDCO_OK ||
        (redco_json_has(&model, "defaults") &&
         (st = keep_object(&model, "defaults", &plan->model_defaults, err)) != REDCO_OK)) {
        return st;
    }
    return keep_object(&model, "config", &plan->model_config, err);
}

static redco_status read_cluster(const redco_json_value *root, redco_plan *plan, redco_error *err)
{
    redco_json_value cluster;
    redco_status st = redco_json_object(root, "cluster", &cluster, err);
    if (st != REDCO_OK || (st = read_text(&cluster, "name", &plan->cluster_name, err)) != REDCO_OK ||
        (st = redco_json_u32(&cluster, "nodes", 1, MOST_RANKS, &plan->nodes, err)) != REDCO_OK ||
        (st = redco_json_u32(&cluster, "gpus_per_node", 1, MOST_RANKS, &plan->gpus_per_node, err)) != REDCO_OK ||
        (st = redco_json_u32(&cluster, "hosts_per_node", 1, MOST_HOSTS, &plan->hosts_per_node, err)) != REDCO_OK ||
        (st = read_text(&cluster, "gpu", &plan->gpu_name, err)) != REDCO_OK) {
        return st;
    }
    return keep_object(&cluster, "description", &plan->cluster_description, err);
}

static redco_status read_overlap(const redco_json_value *workload, uint32_t *overlap_out, redco_error *err)
{
    redco_json_value array;
    size_t count = 0;
    uint32_t overlap = 0;
    redco_status st = redco_json_array(workload, "overlap", &array, &count, err);
    if (st != REDCO_OK) { return st; }
    for (size_t i = 0; i < count; i++) {
        redco_json_value word;
        uint32_t bit = 0;
        if ((st = redco_json_element(&array, i, &word, err)) != REDCO_OK) { return st; }
        const char *text = json_string_value(word.json);
        while (text != NULL && redco_overlap_words[bit] != NULL && strcmp(redco_overlap_words[bit], text) != 0) {
            bit++;
        }
        if (text == NULL || redco_overlap_words[bit] == NULL || (overlap >> bit & 1) != 0) {
            return redco_json_fail(&word, NULL, err, "must be one of ag_rs, ar, bc, tp, each at most once");
        }
        overlap |= 1U << bit;
    }
    *overlap_out = overlap;
    return REDCO_OK;
}

/* A format of products alone is trained in bf16 otherwise. */
static redco_status read_precision(const redco_json_value *workload, redco_plan *plan, redco_error *err)
{
    const char *text = NULL;
    uint32_t precision = 0;
    redco_status st = redco_json_string(workload, "precision", &text, err);
    if (st != REDCO_OK) { return st; }
    for (uint32_t i = REDCO_GEMM_FP8; redco_gemm_format_words[i] != NULL; i++) {
        if (strcmp(text, redco_gemm_format_words[i]) != 0) { continue; }
        plan->engine.gemm_format = (redco_gemm_format)i;
        plan->precision = REDCO_BF16;
        return REDCO_OK;
    }
    st = redco_word_read(workload, "precision", redco_precision_words, &precision, err);
    plan->precision = (redco_precision)precision;
    return st;
}

/* Plans of before engines were kept are of AMSP's, or, as their calibration says, of redco-exec. */
static redco_status read_engine(const redco_json_value *root, redco_plan *plan, redco_error *err)
{
    redco_json_value value;
    redco_engine_choice choice;
    const char *reason = NULL;
    if (!redco_json_has(root, "engine")) {
        const json_t *const own = json_object_get(json_object_get(root->json, "calibration"), "engine");
        if (json_is_string(own) && strcmp(json_string_value(own), "redco-exec") == 0) {
            (void)snprintf(plan->engine.name, sizeof plan->engine.name, "redco-exec");
            plan->engine.planned_memory = true;
        }
        return REDCO_OK;
    }
    redco_status st = redco_json_object(root, "engine", &value, err);
    if (st != REDCO_OK || (st = redco_engine_from_json(&value, &choice, err)) != REDCO_OK) { return st; }
    if (choice.bucket_bytes != plan->bucket_bytes) {
        return redco_json_fail(&value, "bucket_bytes", err, "is %llu, but the workload says %llu",
                               (unsigned long long)choice.bucket_bytes, (unsigned long long)plan->bucket_bytes);
    }
    choice.engine.gemm_format = plan->engine.gemm_format;
    plan->engine = choice.engine;
    if (redco_json_has(&value, "source") && (st = redco_json_string(&value, "source", &reason, err)) == REDCO_OK) {
        (void)snprintf(plan->engine_reason, sizeof plan->engine_reason, "%s", reason);
        redco_text_clean(plan->engine_reason);
    }
    return st;
}

static redco_status read_workload(const redco_json_value *root, redco_plan *plan, redco_error *err)
{
    static const char *const conventions[] = {"full", "causal", NULL};
    redco_json_value workload;
    uint32_t convention = 0;
    redco_status st = redco_json_object(root, "workload", &workload, err);
    if (st != REDCO_OK || (st = redco_json_u32(&workload, "seq_len", 1, MOST_RANKS, &plan->seq_len, err)) != REDCO_OK ||
        (st = redco_json_u64(&workload, "global_batch", 1, most_count, &plan->global_batch, err)) != REDCO_OK ||
        (st = redco_parallelism_read(&workload, "micro_batch micro_batches", &plan->parallelism, err)) != REDCO_OK ||
        (st = read_precision(&workload, plan, err)) != REDCO_OK ||
        (st = redco_parallelism_read(&workload, "scheme", &plan->parallelism, err)) != REDCO_OK ||
        (st = read_overlap(&workload, &plan->overlap, err)) != REDCO_OK ||
        (st = redco_parallelism_read(&workload, "sequence_parallel", &plan->parallelism, err)) != REDCO_OK ||
        (st = redco_json_u64(&workload, "bucket_bytes", 1, most_count, &plan->bucket_bytes, err)) != REDCO_OK ||
        (st = redco_word_read(&workload, "mfu_convention", conventions, &convention, err)) != REDCO_OK) {
        return st;
    }
    plan->mfu_causal = convention == 1;
    return REDCO_OK;
}

static redco_status read_all_meshes(const redco_json_value *root, redco_plan *plan, redco_error *err)
{
    redco_json_value mesh;
    redco_status st = redco_json_object(root, "mesh", &mesh, err);
    if (st == REDCO_OK) { st = redco_parallelism_read(&mesh, "tp pp cp ep etp", &plan->parallelism, err); }
    if (st != REDCO_OK) { return st; }
    return redco_parallelism_read(&mesh, "dp pp_chunks + secondary", &plan->parallelism, err);
}

static redco_status read_layer_range(const redco_json_value *entry, redco_plan_layers *out, redco_error *err)
{
    redco_json_value range;
    size_t count = 0;
    const redco_status st = redco_json_array(entry, "layers", &range, &count, err);
    if (st != REDCO_OK) { return st; }
    const json_t *first = json_array_get(range.json, 0);
    const json_t *last = json_array_get(range.json, 1);
    if (count != 2 || !json_is_integer(first) || !json_is_integer(last) || json_integer_value(first) < 0 ||
        json_integer_value(last) >= MOST_LAYERS || json_integer_value(first) > json_integer_value(last)) {
        return redco_json_fail(&range, NULL, err, "must be [first, last], whole numbers from 0 to %d, first <= last",
                               MOST_LAYERS - 1);
    }
    out->first_layer = (uint32_t)json_integer_value(first);
    out->last_layer = (uint32_t)json_integer_value(last);
    return REDCO_OK;
}

/* "half" is full recomputation under an engine that repeats about half of the products. */
static redco_status read_recompute(const redco_json_value *entry, redco_engine *engine, redco_recompute *out,
                                   redco_error *err)
{
    const char *text = NULL;
    bool half = false;
    const redco_status st = redco_json_string(entry, "recompute", &text, err);
    if (st != REDCO_OK) { return st; }
    if (!redco_recompute_parse(text, out, &half)) {
        return redco_json_fail(entry, "recompute", err, "is \"%.60s\"; one of %s is needed", text,
                               redco_recompute_known);
    }
    if (*out == REDCO_RECOMPUTE_FULL && !half && engine->partial_recompute) {
        return redco_json_fail(entry, "recompute", err, "is full beside layers of half: an engine does one of them");
    }
    engine->partial_recompute = engine->partial_recompute || half;
    return REDCO_OK;
}

/* Those that are there; others follow the layer's. */
static redco_status read_experts(const redco_json_value *entry, redco_shards *out, redco_error *err)
{
    redco_json_value experts;
    const struct {
        const char *key;
        redco_mesh *mesh;
    } meshes[] = {{"parameters", &out->parameters}, {"gradients", &out->gradients}, {"optimizer", &out->optimizer}};
    if (!redco_json_has(entry, "experts")) { return REDCO_OK; }
    redco_status st = redco_json_object(entry, "experts", &experts, err);
    for (size_t i = 0; i < sizeof meshes / sizeof meshes[0] && st == REDCO_OK; i++) {
        if (redco_json_has(&experts, meshes[i].key)) {
            st = redco_mesh_read(&experts, meshes[i].key, meshes[i].mesh, err);
        }
    }
    return st;
}

static redco_status read_layers(const redco_json_value *entry, redco_engine *engine, redco_plan_layers *out,
                                redco_error *err)
{
    const char *name = NULL;
    redco_status st = redco_json_string(entry, "class", &name, err);
    if (st != REDCO_OK) { return st; }
    if (name[0] == '\0' || strlen(name) > LONGEST_NAME) {
        return redco_json_fail(entry, "class", err, "is empty or longer than %d bytes", LONGEST_NAME);
    }
    (void)snprintf(out->class_name, sizeof out->class_name, "%s", name);
    if ((st = read_layer_range(entry, out, err)) != REDCO_OK ||
        (st = redco_mesh_read(entry, "parameters", &out->shards.parameters, err)) != REDCO_OK ||
        (st = redco_mesh_read(entry, "gradients", &out->shards.gradients, err)) != REDCO_OK ||
        (st = redco_mesh_read(entry, "optimizer", &out->shards.optimizer, err)) != REDCO_OK ||
        (st = read_experts(entry, &out->experts, err)) != REDCO_OK ||
        (st = read_recompute(entry, engine, &out->recompute, err)) != REDCO_OK) {
        return st;
    }
    return REDCO_OK;
}

/* An array of @p size byte records for a JSON array of 1 (or @p least) to @p most elements. */
static redco_status open_array(const redco_json_value *object, const char *key, size_t least, size_t most, size_t size,
                               redco_json_value *array_out, uint32_t *count_out, void **records_out, redco_error *err)
{
    size_t count = 0;
    const redco_status st = redco_json_array(object, key, array_out, &count, err);
    if (st != REDCO_OK) { return st; }
    if (count < least || count > most) {
        return redco_json_fail(object, key, err, "has %zu elements; %zu to %zu are needed", count, least, most);
    }
    void *records = calloc(count > 0 ? count : 1, size);
    if (records == NULL) { return redco_fail(err, REDCO_ENOMEM, object->name, "out of memory"); }
    *records_out = records;
    *count_out = (uint32_t)count;
    return REDCO_OK;
}

static redco_status read_sharding(const redco_json_value *root, redco_plan *plan, redco_error *err)
{
    redco_json_value array;
    void *records = NULL;
    redco_status st =
        open_array(root, "sharding", 1, MOST_LAYERS, sizeof *plan->layers, &array, &plan->layers_count, &records, err);
    if (st != REDCO_OK) { return st; }
    plan->layers = records;
    for (uint32_t i = 0; i < plan->layers_count; i++) {
        redco_json_value entry;
        if ((st = redco_json_element(&array, i, &entry, err)) != REDCO_OK ||
            (st = read_layers(&entry, &plan->engine, &plan->layers[i], err)) != REDCO_OK) {
            return st;
        }
        if (!redco_parallelism_own_experts(&plan->parallelism)) { plan->parallelism.experts = plan->layers[i].experts; }
    }
    return REDCO_OK;
}

/* Absent: 1. */
static redco_status read_optional(const redco_json_value *entry, const char *key, uint32_t most, uint32_t *out,
                                  redco_error *err)
{
    *out = 1;
    return redco_json_has(entry, key) ? redco_json_u32(entry, key, 1, most, out, err) : REDCO_OK;
}

static redco_status read_rules(const redco_json_value *root, redco_plan *plan, redco_error *err)
{
    enum { HIGHEST_DIMENSION = 3, MOST_UNIT = 1 << 24, MOST_PARTS = 16 };
    redco_json_value parallel;
    redco_json_value array;
    void *records = NULL;
    redco_status st = redco_json_object(root, "tensor_parallel", &parallel, err);
    if (st != REDCO_OK || (st = read_text(&parallel, "placement", &plan->tp_placement, err)) != REDCO_OK ||
        (st = open_array(&parallel, "rules", 0, MOST_RULES, sizeof *plan->rules, &array, &plan->rules_count, &records,
                         err)) != REDCO_OK) {
        return st;
    }
    plan->rules = records;
    for (uint32_t i = 0; i < plan->rules_count; i++) {
        redco_json_value entry;
        uint32_t dimension = 0;
        if ((st = redco_json_element(&array, i, &entry, err)) != REDCO_OK ||
            (st = read_text(&entry, "match", &plan->rules[i].match, err)) != REDCO_OK) {
            return st;
        }
        if ((st = read_optional(&entry, "unit", MOST_UNIT, &plan->rules[i].unit, err)) != REDCO_OK ||
            (st = read_optional(&entry, "parts", MOST_PARTS, &plan->rules[i].parts, err)) != REDCO_OK) {
            return st;
        }
        plan->rules[i].dim = -1;
        if (json_is_null(json_object_get(entry.json, "dim"))) { continue; }
        if ((st = redco_json_u32(&entry, "dim", 0, HIGHEST_DIMENSION, &dimension, err)) != REDCO_OK) { return st; }
        plan->rules[i].dim = (int32_t)dimension;
    }
    return REDCO_OK;
}

/* Host names end up in launch scripts, so only characters that need no quoting there. */
static bool is_host_name(const char *text)
{
    const size_t length = strlen(text);
    return length > 0 && length <= LONGEST_WORD && text[0] != '-' &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:") == length;
}

/* Absent where every rank takes the GPU of its own number. */
static redco_status read_gpu_order(const redco_json_value *placement, redco_plan *plan, redco_error *err)
{
    redco_json_value array;
    void *records = NULL;
    uint32_t count = 0;
    if (!redco_json_has(placement, "gpu_order")) { return REDCO_OK; }
    redco_status st =
        open_array(placement, "gpu_order", 1, MOST_NODE_GPUS, sizeof *plan->gpu_order, &array, &count, &records, err);
    if (st != REDCO_OK) { return st; }
    plan->gpu_order = records;
    if (count != plan->gpus_per_node) {
        return redco_json_fail(placement, "gpu_order", err, "has %u GPUs, but %u of a node are in use", count,
                               plan->gpus_per_node);
    }
    for (uint32_t i = 0; i < count; i++) {
        redco_json_value entry;
        if ((st = redco_json_element(&array, i, &entry, err)) != REDCO_OK) { return st; }
        const json_int_t gpu = json_integer_value(entry.json);
        if (!json_is_integer(entry.json) || gpu < 0 || gpu >= MOST_NODE_GPUS) {
            return redco_json_fail(&entry, NULL, err, "must be the number of a GPU, from 0 to %d", MOST_NODE_GPUS - 1);
        }
        plan->gpu_order[i] = (uint32_t)gpu;
        for (uint32_t j = 0; j < i; j++) {
            if (plan->gpu_order[j] == plan->gpu_order[i]) {
                return redco_json_fail(&entry, NULL, err, "names GPU %u twice", plan->gpu_order[i]);
            }
        }
    }
    return REDCO_OK;
}

static redco_status read_placement(const redco_json_value *root, redco_plan *plan, redco_error *err)
{
    redco_json_value placement;
    redco_json_value array;
    void *records = NULL;
    redco_status st = redco_json_object(root, "placement", &placement, err);
    if (st != REDCO_OK || (st = open_array(&placement, "hosts", 0, MOST_HOSTS, sizeof *plan->hosts, &array,
                                           &plan->hosts_count, &records, err)) != REDCO_OK) {
        return st;
    }
    plan->hosts = records;
    for (uint32_t i = 0; i < plan->hosts_count; i++) {
        redco_json_value entry;
        if ((st = redco_json_element(&array, i, &entry, err)) != REDCO_OK) { return st; }
        if (!json_is_string(entry.json) || !is_host_name(json_string_value(entry.json))) {
            return redco_json_fail(&entry, NULL, err, "is not a host name");
        }
        plan->hosts[i] = strdup(json_string_value(entry.json));
        if (plan->hosts[i] == NULL) { return redco_fail(err, REDCO_ENOMEM, root->name, "out of memory"); }
    }
    if ((st = read_text(&placement, "rank_order", &plan->rank_order, err)) != REDCO_OK ||
        (st = read_gpu_order(&placement, plan, err)) != REDCO_OK) {
        return st;
    }
    return redco_json_u32(&placement, "spanning_groups", 0, UINT32_MAX, &plan->spanning_groups, err);
}

static redco_status read_field(const redco_json_value *predicted, const redco_plan_field *field,
                               redco_plan_predicted *out, redco_error *err)
{
    redco_json_value group = *predicted;
    redco_status st = REDCO_OK;
    char *at = (char *)out + field->offset;
    if (field->group != NULL && (st = redco_json_object(predicted, field->group, &group, err)) != REDCO_OK) {
        return st;
    }
    if (field->newer && !redco_json_has(&group, field->key)) { return REDCO_OK; }
    if (field->bytes) {
        uint64_t bytes = 0;
        st = redco_json_u64(&group, field->key, 0, most_count, &bytes, err);
        memcpy(at, &bytes, sizeof bytes);
    } else {
        double value = 0.0;
        st = redco_json_number(&group, field->key, 0.0, most_number, &value, err);
        memcpy(at, &value, sizeof value);
    }
    return st;
}

/* Ends of a band in tokens/s/GPU, as shares of the prediction. */
static redco_status read_ends(const redco_json_value *band, const char *share, double tokens, double *low_out,
                              double *high_out, redco_error *err)
{
    redco_json_value ends;
    size_t count = 0;
    redco_status st = redco_json_array(band, share, &ends, &count, err);
    if (st != REDCO_OK) { return st; }
    const double low = count == 2 ? json_number_value(json_array_get(ends.json, 0)) : 0.0;
    const double high = count == 2 ? json_number_value(json_array_get(ends.json, 1)) : 0.0;
    if (!(low > 0.0 && low <= tokens && high >= tokens && high <= most_number)) {
        return redco_json_fail(band, share, err, "is not two ends about tokens_per_s_per_gpu");
    }
    *low_out = low / tokens;
    *high_out = high / tokens;
    return REDCO_OK;
}

static redco_status read_band(const redco_json_value *predicted, redco_plan_predicted *out, redco_error *err)
{
    redco_json_value band;
    const char *unseen = NULL;
    if (!redco_json_has(predicted, "band")) { return REDCO_OK; }
    redco_status st = redco_json_object(predicted, "band", &band, err);
    if (st == REDCO_OK) {
        st = read_ends(&band, "68", out->tokens_per_s_per_gpu, &out->band.low_68, &out->band.high_68, err);
    }
    if (st == REDCO_OK) {
        st = read_ends(&band, "90", out->tokens_per_s_per_gpu, &out->band.low_90, &out->band.high_90, err);
    }
    if (st == REDCO_OK && redco_json_has(&band, "unseen")) {
        st = redco_json_string(&band, "unseen", &unseen, err);
        if (st == REDCO_OK) { (void)snprintf(out->unseen, sizeof out->unseen, "%s", unseen); }
    }
    return st;
}

static redco_status read_predicted(const redco_json_value *root, redco_plan *plan, redco_error *err)
{
    size_t count = 0;
    const redco_plan_field *fields = redco_plan_fields(&count);
    redco_json_value predicted;
    redco_status st = redco_json_object(root, "predicted", &predicted, err);
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        st = read_field(&predicted, &fields[i], &plan->predicted, err);
    }
    if (st == REDCO_OK && redco_json_has(&predicted, "tokens_per_s_per_gpu_band")) {
        st = redco_json_number(&predicted, "tokens_per_s_per_gpu_band", 0.0, most_number,
                               &plan->predicted.tokens_per_s_per_gpu_band, err);
    }
    if (st == REDCO_OK && redco_json_has(&predicted, "beyond_evidence")) {
        const char *beyond = NULL;
        st = redco_json_string(&predicted, "beyond_evidence", &beyond, err);
        if (st == REDCO_OK) {
            (void)snprintf(plan->predicted.beyond_mfu, sizeof plan->predicted.beyond_mfu, "%s", beyond);
        }
    }
    return st == REDCO_OK ? read_band(&predicted, &plan->predicted, err) : st;
}

static redco_status read_closed_form(const redco_json_value *root, redco_plan_closed_form *out, redco_error *err)
{
    redco_json_value form, memory;
    if (!redco_json_has(root, "closed_form")) { return REDCO_OK; }
    redco_status st = redco_json_object(root, "closed_form", &form, err);
    if (st != REDCO_OK || (st = redco_json_number(&form, "step_s", 0.0, most_number, &out->step_s, err)) != REDCO_OK ||
        (st = redco_json_number(&form, "tokens_per_s_per_gpu", 0.0, most_number, &out->tokens_per_s_per_gpu, err)) !=
            REDCO_OK ||
        (st = redco_json_number(&form, "mfu", 0.0, most_number, &out->mfu, err)) != REDCO_OK ||
        (st = redco_json_number(&form, "compute_s", 0.0, most_number, &out->compute_s, err)) != REDCO_OK ||
        (st = redco_json_number(&form, "exposed_comm_s", 0.0, most_number, &out->exposed_comm_s, err)) != REDCO_OK ||
        (st = redco_json_object(&form, "memory_bytes", &memory, err)) != REDCO_OK) {
        return st;
    }
    return redco_json_u64(&memory, "total", 0, most_count, &out->total_bytes, err);
}

/* Plans of before they were counted have none. */
static redco_status read_counts(const redco_json_value *solver, redco_plan *plan, redco_error *err)
{
    redco_plan_counts *const c = &plan->solver_counts;
    const struct {
        const char *key;
        uint64_t *to;
    } fields[] = {{"listed", &c->listed},
                  {"bounded", &c->bounded},
                  {"priced", &c->priced},
                  {"solved", &c->solved},
                  {"simulated", &c->simulated}};
    redco_json_value counts;
    redco_status st = REDCO_OK;
    plan->solver_within = -1.0;
    if (redco_json_has(solver, "within")) {
        st = redco_json_number(solver, "within", 0.0, 1.0, &plan->solver_within, err);
    }
    if (st != REDCO_OK || !redco_json_has(solver, "counts")) { return st; }
    st = redco_json_object(solver, "counts", &counts, err);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0] && st == REDCO_OK; i++) {
        st = redco_json_u64(&counts, fields[i].key, 0, most_count, fields[i].to, err);
    }
    return st;
}

static redco_status read_solver(const redco_json_value *root, redco_plan *plan, redco_error *err)
{
    static const char *const objectives[] = {"step-time", "comm", NULL};
    redco_json_value solver;
    uint32_t objective = 0;
    redco_status st = redco_json_object(root, "solver", &solver, err);
    if (st != REDCO_OK || (st = read_text(&solver, "name", &plan->solver_name, err)) != REDCO_OK ||
        (st = read_text(&solver, "status", &plan->solver_status, err)) != REDCO_OK ||
        (st = redco_word_read(&solver, "minimises", objectives, &objective, err)) != REDCO_OK ||
        (st = redco_json_number(&solver, "objective", 0.0, most_number, &plan->solver_objective, err)) != REDCO_OK ||
        (st = redco_json_number(&solver, "gap", 0.0, 1.0, &plan->solver_gap, err)) != REDCO_OK ||
        (st = redco_json_number(&solver, "seconds", 0.0, most_number, &plan->solver_seconds, err)) != REDCO_OK) {
        return st;
    }
    plan->objective_comm = objective == 1;
    st = redco_json_u64(&solver, "candidates", 0, most_count, &plan->solver_candidates, err);
    return st == REDCO_OK ? read_counts(&solver, plan, err) : st;
}

static redco_status read_digest(const redco_json_value *inputs, const char *key, bool optional, char *out,
                                redco_error *err)
{
    const char *text = NULL;
    const redco_status st = redco_json_string(inputs, key, &text, err);
    if (st != REDCO_OK) { return st; }
    if (!(optional && text[0] == '\0') && (strlen(text) != 64 || strspn(text, "0123456789abcdef") != 64)) {
        return redco_json_fail(inputs, key, err, "is not a SHA-256: 64 digits of 0-9, a-f");
    }
    (void)snprintf(out, 65, "%s", text);
    return REDCO_OK;
}

static redco_status read_inputs(const redco_json_value *root, redco_plan *plan, redco_error *err)
{
    redco_json_value inputs;
    redco_status st = redco_json_object(root, "inputs", &inputs, err);
    if (st != REDCO_OK || (st = read_digest(&inputs, "model_sha256", false, plan->model_sha256, err)) != REDCO_OK ||
        (st = read_digest(&inputs, "cluster_sha256", false, plan->cluster_sha256, err)) != REDCO_OK ||
        (st = read_digest(&inputs, "profile_sha256", true, plan->profile_sha256, err)) != REDCO_OK) {
        return st;
    }
    return read_text(&inputs, "redco_version", &plan->redco_version, err);
}

/* Members of the mesh that follow from others, which only programs that read the file need, agree with those. */
static redco_status check_expert_grid(const redco_json_value *mesh, const redco_plan *plan, redco_error *err)
{
    const redco_mesh expected = redcoi_plan_expert_replicas(plan);
    redco_mesh edp;
    const redco_parallelism *const p = &plan->parallelism;
    if (p->etp != 1 && p->etp != p->tp) {
        return redco_json_fail(mesh, "etp", err, "is %u; experts are whole or cut as tp = %u", p->etp, p->tp);
    }
    if (!redco_json_has(mesh, "edp")) { return REDCO_OK; }
    const redco_status st = redco_mesh_read(mesh, "edp", &edp, err);
    if (st != REDCO_OK) { return st; }
    if (edp.gpus == expected.gpus && edp.nodes == expected.nodes) { return REDCO_OK; }
    return redco_json_fail(mesh, "edp", err, "is %ux%u; tp, cp, dp, etp and ep make it %ux%u", edp.gpus, edp.nodes,
                           expected.gpus, expected.nodes);
}

static redco_status check_sequence_parallel(const redco_json_value *mesh, const redco_plan *plan, redco_error *err)
{
    bool here = plan->parallelism.sequence_parallel;
    if (!redco_json_has(mesh, "sequence_parallel")) { return REDCO_OK; }
    const redco_status st = redco_json_bool(mesh, "sequence_parallel", &here, err);
    if (st != REDCO_OK || here == plan->parallelism.sequence_parallel) { return st; }
    return redco_json_fail(mesh, "sequence_parallel", err, "is %s; workload.sequence_parallel is not",
                           here ? "true" : "false");
}

static redco_status check_derived(const redco_json_value *root, const redco_plan *plan, redco_error *err)
{
    redco_json_value mesh;
    redco_status st = redco_json_object(root, "mesh", &mesh, err);
    if (st != REDCO_OK || (st = check_expert_grid(&mesh, plan, err)) != REDCO_OK) { return st; }
    return check_sequence_parallel(&mesh, plan, err);
}

static redco_status read_plan(const redco_json_value *root, redco_plan *plan, redco_error *err)
{
    uint32_t version = 0;
    bool feasible = true;
    redco_status st = redco_json_format(root, "redco-plan", REDCO_PLAN_VERSION, &version, err);
    if (st != REDCO_OK) { return st; }
    if (redco_json_has(root, "feasible") && (st = redco_json_bool(root, "feasible", &feasible, err)) != REDCO_OK) {
        return st;
    }
    if (!feasible) {
        return redco_json_fail(root, "feasible", err, "is false: no plan was found, so there is none here");
    }
    if ((st = read_text(root, "strategy", &plan->strategy, err)) != REDCO_OK ||
        (st = read_model(root, plan, err)) != REDCO_OK || (st = read_cluster(root, plan, err)) != REDCO_OK ||
        (st = read_workload(root, plan, err)) != REDCO_OK || (st = read_engine(root, plan, err)) != REDCO_OK ||
        (st = read_all_meshes(root, plan, err)) != REDCO_OK ||
        (st = redcoi_plan_read_pipeline(root, plan, err)) != REDCO_OK ||
        (st = read_sharding(root, plan, err)) != REDCO_OK || (st = read_rules(root, plan, err)) != REDCO_OK ||
        (st = read_placement(root, plan, err)) != REDCO_OK || (st = read_predicted(root, plan, err)) != REDCO_OK ||
        (st = read_closed_form(root, &plan->closed_form, err)) != REDCO_OK ||
        (st = read_solver(root, plan, err)) != REDCO_OK ||
        (st = keep_object(root, "calibration", &plan->calibration, err)) != REDCO_OK ||
        (st = redcoi_plan_read_evidence(root, plan, err)) != REDCO_OK ||
        (st = redcoi_plan_read_execution(root, plan, err)) != REDCO_OK ||
        (st = read_inputs(root, plan, err)) != REDCO_OK) {
        return st;
    }
    if ((st = redcoi_plan_consistent(plan, root->name, err)) != REDCO_OK) { return st; }
    return check_derived(root, plan, err);
}

redco_status redco_plan_from_json(const redco_json_value *root, redco_plan **plan_out, redco_error *err)
{
    redco_plan *plan = redco_plan_new();
    if (plan == NULL) { return redco_fail(err, REDCO_ENOMEM, root->name, "out of memory"); }
    const redco_status st = read_plan(root, plan, err);
    if (st != REDCO_OK) {
        redco_plan_free(plan);
        return st;
    }
    *plan_out = plan;
    return REDCO_OK;
}

redco_status redco_plan_read(const char *path, redco_plan **plan_out, redco_error *err)
{
    redco_json *document = NULL;
    redco_status st = redco_json_open(path, &document, err);
    if (st != REDCO_OK) { return st; }
    const redco_json_value root = redco_json_root(document);
    st = redco_plan_from_json(&root, plan_out, err);
    redco_json_close(document);
    return st;
}
