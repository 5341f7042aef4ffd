#include "costmodel/evaluation/row_model.h"

#include "costmodel/schedules/stages.h"
#include "topology/base/preset.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static redco_model_dims dims_of(const redco_measured_run *run)
{
    const uint32_t inner = run->experts == 0 ? run->ffn_hidden : run->dense_ffn > 0 ? run->dense_ffn : run->expert_ffn;
    return (redco_model_dims){.hidden = run->hidden,
                              .ffn = inner,
                              .experts = run->experts,
                              .choices = run->topk,
                              .expert_ffn = run->expert_ffn,
                              .shared_ffn = run->shared_ffn,
                              .dense_first = run->experts > 0 ? run->layers - run->moe_layers : 0,
                              .predictions = run->mtp_layers,
                              .layers = run->layers,
                              .heads = run->heads,
                              .kv_heads = run->kv_heads,
                              .head_dim = run->head_dim,
                              .vocab = run->vocab,
                              .gated = run->ffn_gated,
                              .tied = run->tied_embeddings};
}

/* The preset with the longest name that the model's begins with, up to its end or a hyphen. */
static const redco_preset *preset_of(const char *name)
{
    const redco_preset *found = NULL;
    size_t most = 0;
    for (size_t i = 0; redco_preset_at("models", i) != NULL; i++) {
        const redco_preset *const preset = redco_preset_at("models", i);
        const size_t length = strlen(preset->name);
        if (length <= most || strncasecmp(preset->name, name, length) != 0) { continue; }
        if (isalnum((unsigned char)name[length]) != 0) { continue; }
        found = preset;
        most = length;
    }
    return found;
}

static bool set_number(json_t *config, const char *key, uint64_t value)
{
    return json_object_set_new(config, key, json_integer((json_int_t)value)) == 0;
}

/* The preset as the row has it: fewer layers, another vocabulary. */
static json_t *config_like(const redco_measured_run *run, const json_t *preset)
{
    static const char dense_first[] = "first_k_dense_replace";
    json_t *const config = json_deep_copy(preset);
    bool good = config != NULL && json_object_set_new(config, "_name", json_string(run->model)) == 0 &&
                set_number(config, "num_hidden_layers", run->layers) && set_number(config, "vocab_size", run->vocab) &&
                json_object_set_new(config, "tie_word_embeddings", json_boolean(run->tied_embeddings)) == 0;
    if (good && json_object_get(config, dense_first) != NULL) {
        good = set_number(config, dense_first, run->layers - run->moe_layers) &&
               set_number(config, "num_nextn_predict_layers", run->mtp_layers);
    }
    if (good) { return config; }
    json_decref(config);
    return NULL;
}

static bool same_widths(const redco_measured_run *run, const redco_model_dims *dims)
{
    return dims->hidden == run->hidden && dims->layers == run->layers && dims->heads == run->heads &&
           dims->vocab == run->vocab && dims->experts == run->experts && dims->choices == run->topk &&
           dims->expert_ffn == run->expert_ffn && dims->shared_ffn == run->shared_ffn &&
           dims->predictions == run->mtp_layers && (run->kv_heads == 0 || dims->kv_heads == run->kv_heads) &&
           (run->head_dim == 0 || dims->head_dim == run->head_dim);
}

/* *model_out stays NULL where no preset of that name has these widths. */
static redco_status named(const redco_measured_run *run, redco_model **model_out, redco_error *err)
{
    const redco_preset *const preset = preset_of(run->model);
    redco_json *document = NULL;
    redco_model *model = NULL;
    if (preset == NULL) { return REDCO_OK; }
    const redco_status st = redco_preset_open("models", "a model", preset->name, &document, err);
    if (st != REDCO_OK) { return st; }
    json_t *const config = config_like(run, redco_json_root(document).json);
    redco_json_close(document);
    if (config == NULL) { return redco_fail(err, REDCO_EVALUE, "model", "its name is no UTF-8 text"); }
    const redco_json_value value = redco_json_wrap(config, run->model);
    const redco_status read = redco_model_from_json(&value, run->model, &model, NULL);
    json_decref(config);
    if (read == REDCO_OK && same_widths(run, redco_model_get_dims(model))) {
        *model_out = model;
    } else {
        redco_model_free(model);
    }
    return REDCO_OK;
}

redco_status redco_row_model(const redco_measured_run *run, redco_model **model_out, redco_error *err)
{
    redco_model *model = NULL;
    redco_status st = run->experts > 0 ? named(run, &model, err) : REDCO_OK;
    if (st == REDCO_OK && model == NULL && run->kv_heads == 0) {
        st = redco_fail(err, REDCO_EVALUE, "kv_heads", "is unknown, and no preset is called %.60s and has its widths",
                        run->model);
    }
    if (st == REDCO_OK && model == NULL) {
        const redco_model_dims dims = dims_of(run);
        st = redco_model_from_dims(&dims, run->model, &model, err);
    }
    if (st == REDCO_OK) { *model_out = model; }
    return st;
}

/* Full chunks, and behind them what is left; the loss's position may have none. Where others would have none, shares
 * that differ by one. */
static void full_first(uint32_t layers, uint32_t predictions, uint32_t positions, uint32_t *split)
{
    const uint32_t full = (layers + positions - 1) / positions;
    const bool full_fit = (uint64_t)full * (positions - 2) < layers;
    uint32_t left = layers;
    for (uint32_t i = 0; i < positions; i++) {
        split[i] = !full_fit ? redco_stage_blocks(layers, positions, i) : left < full ? left : full;
        left -= split[i];
    }
    split[positions - 1] += predictions;
}

redco_status redco_row_split(const redco_measured_run *run, uint32_t **split_out, redco_error *err)
{
    const uint32_t chunks = run->virtual_pp > 1 ? run->virtual_pp : 1, blocks = run->layers + run->mtp_layers;
    const uint64_t positions = (uint64_t)run->pp * chunks;
    const bool said = run->pp_layout[0] != '\0';
    uint32_t found = 0;
    redco_status st = REDCO_OK;
    *split_out = NULL;
    if (run->pp <= 1 || run->experts == 0 || positions > REDCO_SPLIT_POSITIONS_MAX) { return REDCO_OK; }
    const bool even = run->layers % positions == 0 || redco_stage_edges_count(run->layers, positions);
    if (!said && even && run->mtp_layers == 0) { return REDCO_OK; }
    uint32_t *const split = calloc(REDCO_SPLIT_POSITIONS_MAX, sizeof *split);
    if (split == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    if (said) {
        st = redco_split_read(run->pp_layout, blocks, run->pp, chunks, split, &found, err);
    } else {
        full_first(run->layers, run->mtp_layers, (uint32_t)positions, split);
        st = redco_split_check(split, (uint32_t)positions, blocks, err);
    }
    if (st == REDCO_OK && redco_stages_divide(REDCO_PIPELINE_INTERLEAVED, blocks, positions) &&
        redco_split_is_equal(REDCO_PIPELINE_INTERLEAVED, split, (uint32_t)positions, blocks)) {
        free(split);
        return REDCO_OK;
    }
    if (st == REDCO_OK) {
        *split_out = split;
    } else {
        free(split);
    }
    return st;
}
