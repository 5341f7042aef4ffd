/* An engine's file: each value with its source. */
#include "costmodel/engines/engine.h"
#include "costmodel/schedules/strategies.h"
#include "topology/base/preset.h"
#include "topology/base/text.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char format_name[] = "redco-engine";
static const uint32_t newest_version = 1;
static const uint32_t most_percent = 100;

enum { MOST_WORDS = 16 };

struct bit {
    const char *word; /* NULL ends a list */
    uint32_t bit;
};

static const char *const export_words[] = {"megatron", "megatron-bridge", "torchtitan", "deepspeed",
                                           "fsdp",     "internevo",       NULL};

/* {"value": ..., "source": "..."} */
static redco_status open_sourced(const redco_json_value *file, const char *key, redco_json_value *out, char *source,
                                 redco_error *err)
{
    static const char *const keys[] = {"value", "source", NULL};
    const char *text = NULL;
    redco_status st = redco_json_object(file, key, out, err);
    if (st != REDCO_OK || (st = redco_json_only(out, keys, err)) != REDCO_OK ||
        (st = redco_json_string(out, "source", &text, err)) != REDCO_OK) {
        return st;
    }
    if (text[0] == '\0') { return redco_json_fail(out, "source", err, "is empty; say where the value is from"); }
    if (source != NULL) {
        (void)snprintf(source, sizeof((redco_engine_file *)0)->sources[0], "%s", text);
        redco_text_clean(source); /* cut, it may end within a character */
    }
    return REDCO_OK;
}

static redco_status read_bits(const redco_json_value *file, const char *key, const struct bit *known,
                              uint32_t *bits_out, redco_error *err)
{
    redco_json_value sourced, array;
    size_t count = 0;
    redco_status st = open_sourced(file, key, &sourced, NULL, err);
    if (st == REDCO_OK) { st = redco_json_array(&sourced, "value", &array, &count, err); }
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        redco_json_value entry;
        if ((st = redco_json_element(&array, i, &entry, err)) != REDCO_OK) { return st; }
        const char *const text = json_is_string(entry.json) ? json_string_value(entry.json) : "";
        size_t at = 0;
        while (known[at].word != NULL && strcmp(known[at].word, text) != 0) { at++; }
        if (known[at].word == NULL || (*bits_out & known[at].bit) != 0) {
            return redco_json_fail(&entry, NULL, err, "is \"%.40s\", unknown or named twice", text);
        }
        *bits_out |= known[at].bit;
    }
    return st;
}

/* Words by bit number. */
static redco_status read_words(const redco_json_value *file, const char *key, const char *const *words,
                               uint32_t *bits_out, redco_error *err)
{
    struct bit known[MOST_WORDS + 1] = {{NULL, 0}};
    for (size_t i = 0; i < MOST_WORDS && words[i] != NULL; i++) { known[i] = (struct bit){words[i], 1U << i}; }
    return read_bits(file, key, known, bits_out, err);
}

/* An engine that does nothing of a kind cannot train; no limit is no empty list. */
static redco_status read_some(const redco_json_value *file, const char *key, const char *const *words,
                              uint32_t *bits_out, redco_error *err)
{
    const redco_status st = read_words(file, key, words, bits_out, err);
    if (st == REDCO_OK && *bits_out == 0) { return redco_json_fail(file, key, err, "has no value; one is needed"); }
    return st;
}

/* Strategies that are meshes, which AMSP's planner, the last, is not, and "any". */
static redco_status read_states(const redco_json_value *file, uint32_t *bits_out, redco_error *err)
{
    const char *words[REDCO_STRATEGY_COUNT + 1] = {NULL};
    for (int i = 0; i < REDCO_STRATEGY_AMSP; i++) { words[i] = redco_strategies[i].word; }
    return read_some(file, "states", words, bits_out, err);
}

static redco_status read_dimensions(const redco_json_value *file, uint32_t *bits_out, redco_error *err)
{
    struct bit known[REDCO_DIMENSIONS + 2] = {{"rounds", REDCO_HAS_ROUNDS}};
    size_t count = 1;
    for (const redco_dimension *d = redco_dimensions; d->key != NULL; d++) {
        if (d->word != NULL) { known[count++] = (struct bit){d->word, d->bit}; }
    }
    return read_bits(file, "dimensions", known, bits_out, err);
}

static redco_status read_recompute(const redco_json_value *file, redco_recompute_list *list, redco_error *err)
{
    redco_json_value sourced, array;
    size_t count = 0;
    redco_status st = open_sourced(file, "recompute", &sourced, NULL, err);
    if (st == REDCO_OK) { st = redco_json_array(&sourced, "value", &array, &count, err); }
    if (st == REDCO_OK && count == 0) { return redco_json_fail(file, "recompute", err, "has no value; one is needed"); }
    if (st == REDCO_OK && count > REDCO_RECOMPUTE_SETS - 2) {
        return redco_json_fail(&sourced, "value", err, "has %zu values; at most %d are possible", count,
                               REDCO_RECOMPUTE_SETS - 2);
    }
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        redco_json_value entry;
        redco_recompute set = REDCO_RECOMPUTE_NONE;
        bool half = false;
        if ((st = redco_json_element(&array, i, &entry, err)) != REDCO_OK) { return st; }
        const char *const text = json_is_string(entry.json) ? json_string_value(entry.json) : "";
        const bool known = redco_recompute_parse(text, &set, &half);
        if (half) { set = REDCO_RECOMPUTE_HALF; }
        if (!known || redco_recompute_has(list, set)) {
            return redco_json_fail(&entry, NULL, err, "is \"%.40s\", unknown or named twice", text);
        }
        (void)redco_recompute_add(list, set);
    }
    return st;
}

/* Words of --engine and of files are the same: a trait is read by stating it. */
static redco_status read_trait(const redco_json_value *file, redco_trait trait, redco_engine_file *out,
                               redco_engine_choice *choice, redco_error *err)
{
    const char *const key = redco_trait_words[trait];
    redco_json_value sourced;
    const char *text = NULL;
    char place[256];
    if (redco_trait_may_lack(trait) && !redco_json_has(file, key)) {
        (void)snprintf(out->sources[trait], sizeof out->sources[0], "%s",
                       trait == REDCO_TRAIT_CUDA_GRAPHS      ? "not known to be used"
                       : trait == REDCO_TRAIT_MOMENT_BYTES   ? "Adam in 32 bits"
                       : trait == REDCO_TRAIT_DROPOUT        ? "none, unless the model has some"
                       : trait == REDCO_TRAIT_AUTOCAST       ? "weights and activations in the precision of training"
                       : trait == REDCO_TRAIT_HELD_OUTPUTS   ? "outputs are freed when a step ends"
                       : trait == REDCO_TRAIT_OPTIMIZER      ? "what language models are trained with"
                       : trait == REDCO_TRAIT_MASTER_WEIGHTS ? "16-bit training keeps weights in 32 bits, too"
                       : trait == REDCO_TRAIT_OFFLOAD        ? "states stay on the GPU"
                       : trait == REDCO_TRAIT_CP_BALANCE     ? "as every framework with context parallelism has it"
                       : trait == REDCO_TRAIT_FP8_ACTIVATION_INPUT ? "16 bits, unless 8 are asked for"
                       : redco_trait_of_experts(trait)             ? "not known of this engine"
                                                                   : "part of the calibration's reserve");
        return REDCO_OK;
    }
    redco_status st = open_sourced(file, key, &sourced, out->sources[trait], err);
    if (st != REDCO_OK) { return st; }
    if (trait == REDCO_TRAIT_MOMENT_BYTES) {
        return redco_json_u32(&sourced, "value", 2, 4, &choice->engine.moment_bytes, err);
    }
    if (trait == REDCO_TRAIT_FRAGMENTATION_PERCENT) {
        return redco_json_u32(&sourced, "value", 0, 100, &choice->engine.fragmentation_percent, err);
    }
    if (redco_trait_of_experts(trait) && json_is_number(json_object_get(sourced.json, "value"))) {
        return redco_engine_read_number(&sourced, "value", trait, &choice->engine, err);
    }
    if (json_is_boolean(json_object_get(sourced.json, "value"))) {
        text = json_is_true(json_object_get(sourced.json, "value")) ? "1" : "0";
    } else if ((st = redco_json_string(&sourced, "value", &text, err)) != REDCO_OK) {
        return st;
    }
    if (trait == REDCO_TRAIT_MEMORY) {
        if (redco_engine_set_memory(&choice->engine, text)) { return REDCO_OK; }
        return redco_json_fail(
            &sourced, "value", err,
            "is \"%.40s\"; formulas, planned, megatron, pytorch, xla, pytorch-copies, eager and zero are "
            "known",
            text);
    }
    return redco_engine_state(choice, key, text, redco_json_place(&sourced, "value", place, sizeof place), err);
}

/* {"bf16": 4, "fp16": 2}: a precision that is not named has its own width. */
static redco_status read_widths(const redco_json_value *file, redco_engine_file *out, redco_error *err)
{
    static const char *const precisions[] = {"bf16", "fp16", "fp32", NULL};
    redco_json_value sourced, widths;
    redco_status st = open_sourced(file, redco_trait_words[REDCO_TRAIT_GRAD_REDUCE_BYTES], &sourced,
                                   out->sources[REDCO_TRAIT_GRAD_REDUCE_BYTES], err);
    if (st != REDCO_OK || (st = redco_json_object(&sourced, "value", &widths, err)) != REDCO_OK ||
        (st = redco_json_only(&widths, precisions, err)) != REDCO_OK) {
        return st;
    }
    for (int i = 0; precisions[i] != NULL && st == REDCO_OK; i++) {
        if (!redco_json_has(&widths, precisions[i])) { continue; }
        st = redco_json_u32(&widths, precisions[i], 2, 4, &out->gradient_bytes[i], err);
        if (st == REDCO_OK && out->gradient_bytes[i] == 3) {
            return redco_json_fail(&widths, precisions[i], err, "is 3, not 2 or 4");
        }
    }
    return st;
}

/* "fused", or by precision: {"bf16": "fused"}; optional. */
static redco_status read_loss(const redco_json_value *file, redco_engine_file *out, redco_error *err)
{
    static const char *const precisions[] = {"bf16", "fp16", "fp32", NULL};
    const char *const key = redco_trait_words[REDCO_TRAIT_CROSS_ENTROPY];
    redco_json_value sourced, by;
    if (!redco_json_has(file, key)) {
        (void)snprintf(out->sources[REDCO_TRAIT_CROSS_ENTROPY], sizeof out->sources[0], "not known to be fused");
        return REDCO_OK;
    }
    redco_status st = open_sourced(file, key, &sourced, out->sources[REDCO_TRAIT_CROSS_ENTROPY], err);
    if (st != REDCO_OK) { return st; }
    const bool single = json_is_string(json_object_get(sourced.json, "value"));
    by = sourced;
    if (!single && ((st = redco_json_object(&sourced, "value", &by, err)) != REDCO_OK ||
                    (st = redco_json_only(&by, precisions, err)) != REDCO_OK)) {
        return st;
    }
    for (int i = 0; precisions[i] != NULL && st == REDCO_OK; i++) {
        const char *const member = single ? "value" : precisions[i];
        const char *text = NULL;
        if (!redco_json_has(&by, member)) { continue; }
        if ((st = redco_json_string(&by, member, &text, err)) != REDCO_OK) { return st; }
        out->fused_loss[i] = strcmp(text, "fused") == 0;
        if (!out->fused_loss[i] && strcmp(text, "unfused") != 0) {
            return redco_json_fail(&by, member, err, "is \"%.40s\"; fused and unfused are known", text);
        }
    }
    return st;
}

static redco_status read_export(const redco_json_value *file, redco_engine_file *out, redco_error *err)
{
    redco_json_value sourced;
    const redco_status st = open_sourced(file, "export", &sourced, NULL, err);
    if (st != REDCO_OK || json_is_null(json_object_get(sourced.json, "value"))) { return st; }
    const char *const text = json_string_value(json_object_get(sourced.json, "value"));
    for (int i = 0; text != NULL && export_words[i] != NULL; i++) {
        if (strcmp(text, export_words[i]) != 0) { continue; }
        (void)snprintf(out->export_to, sizeof out->export_to, "%s", text);
        return REDCO_OK;
    }
    return redco_json_fail(
        &sourced, "value", err,
        "is neither null nor one of: megatron, megatron-bridge, torchtitan, deepspeed, fsdp, internevo");
}

static redco_status read_measured(const redco_json_value *file, redco_engine_file *out, redco_error *err)
{
    redco_json_value array;
    size_t count = 0;
    redco_status st = redco_json_array(file, "measured_on", &array, &count, err);
    if (st == REDCO_OK && count > REDCO_ENGINE_GPUS) {
        return redco_json_fail(file, "measured_on", err, "names more than %d GPUs", REDCO_ENGINE_GPUS);
    }
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        redco_json_value entry;
        if ((st = redco_json_element(&array, i, &entry, err)) != REDCO_OK) { return st; }
        if (!json_is_string(entry.json) || strlen(json_string_value(entry.json)) >= sizeof out->measured_on[0]) {
            return redco_json_fail(&entry, NULL, err, "is not the name of a GPU");
        }
        (void)snprintf(out->measured_on[out->measured_count++], sizeof out->measured_on[0], "%s",
                       json_string_value(entry.json));
    }
    return st;
}

/* {"A800": "a800-amsp"}: optional. */
static redco_status read_calibrations(const redco_json_value *file, redco_engine_file *out, redco_error *err)
{
    redco_json_value sourced, sets;
    const char *gpu = NULL;
    json_t *name = NULL;
    if (!redco_json_has(file, "calibrations")) { return REDCO_OK; }
    redco_status st = open_sourced(file, "calibrations", &sourced, NULL, err);
    if (st != REDCO_OK || (st = redco_json_object(&sourced, "value", &sets, err)) != REDCO_OK) { return st; }
    json_object_foreach((json_t *)(uintptr_t)sets.json, gpu, name)
    {
        const uint32_t at = out->calibration_count;
        if (at == REDCO_ENGINE_SETS || strlen(gpu) >= sizeof out->calibrations[0].gpu || !json_is_string(name) ||
            strlen(json_string_value(name)) >= sizeof out->calibrations[0].set) {
            return redco_json_fail(&sets, gpu, err, "is not one of at most %d names of calibration sets",
                                   REDCO_ENGINE_SETS);
        }
        (void)snprintf(out->calibrations[at].gpu, sizeof out->calibrations[at].gpu, "%s", gpu);
        (void)snprintf(out->calibrations[at].set, sizeof out->calibrations[at].set, "%s", json_string_value(name));
        out->calibration_count++;
    }
    return REDCO_OK;
}

bool redco_engine_measured_on(const redco_engine_file *file, const char *gpu)
{
    for (uint32_t i = 0; i < file->measured_count; i++) {
        if (strcasecmp(file->measured_on[i], gpu) == 0) { return true; }
    }
    return false;
}

bool redco_engine_measured_like(const redco_engine_file *file, const redco_gpu *gpu)
{
    redco_gpu measured;
    if (redco_engine_measured_on(file, gpu->name)) { return true; }
    for (uint32_t i = 0; i < file->measured_count && gpu->compute_capability > 0; i++) {
        if (redco_gpu_find(file->measured_on[i], &measured, NULL) == REDCO_OK &&
            measured.compute_capability == gpu->compute_capability) {
            return true;
        }
    }
    return false;
}

/* Optional: 1F1B, and interleaved where stages hold several chunks. */
static redco_status read_schedules(const redco_json_value *file, redco_engine_file *out, redco_error *err)
{
    if (redco_json_has(file, "schedules")) {
        return read_some(file, "schedules", redco_pipeline_words, &out->schedules, err);
    }
    out->schedules = (out->dimensions & REDCO_HAS_PP) != 0 ? 1U << REDCO_PIPELINE_1F1B : 0;
    if ((out->dimensions & REDCO_HAS_CHUNKS) != 0) { out->schedules |= 1U << REDCO_PIPELINE_INTERLEAVED; }
    return REDCO_OK;
}

/* Optional: p2p where it has context parallelism. */
static redco_status read_cp_types(const redco_json_value *file, redco_engine_file *out, redco_error *err)
{
    const bool has = (out->dimensions & REDCO_HAS_CP) != 0;
    if (!redco_json_has(file, "cp_types")) {
        out->cp_types = has ? 1U << REDCO_CP_P2P : 0;
        return REDCO_OK;
    }
    if (!has) { return redco_json_fail(file, "cp_types", err, "is stated, but \"dimensions\" has no cp"); }
    const redco_status st = read_some(file, "cp_types", redco_cp_type_words, &out->cp_types, err);
    if (st != REDCO_OK) { return st; }
    const json_t *const words = json_object_get(json_object_get(file->json, "cp_types"), "value");
    const char *const first = json_string_value(json_array_get(words, 0));
    while (strcmp(redco_cp_type_words[out->cp_type], first) != 0) { out->cp_type++; }
    return REDCO_OK;
}

/* {"value": 3, "source": "..."}: optional. */
static redco_status read_peak_error(const redco_json_value *file, redco_engine *engine, redco_error *err)
{
    redco_json_value sourced;
    if (!redco_json_has(file, "peak_error_percent")) { return REDCO_OK; }
    const redco_status st = open_sourced(file, "peak_error_percent", &sourced, NULL, err);
    return st != REDCO_OK ? st : redco_json_u32(&sourced, "value", 1, most_percent, &engine->peak_error_percent, err);
}

static redco_status only_known(const redco_json_value *file, redco_error *err)
{
    static const char *const others[] = {"format",      "version",      "name",       "title",    "overlap",
                                         "recompute",   "scheme",       "dimensions", "states",   "export",
                                         "measured_on", "calibrations", "schedules",  "cp_types", "peak_error_percent"};
    const char *keys[sizeof others / sizeof others[0] + REDCO_TRAIT_COUNT + 1] = {NULL};
    size_t count = 0;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) { keys[count++] = others[i]; }
    for (int t = 0; t < REDCO_TRAIT_COUNT; t++) { keys[count++] = redco_trait_words[t]; }
    return redco_json_only(file, keys, err);
}

redco_status redco_engine_file_from_json(const redco_json_value *value, redco_engine_file *file_out, redco_error *err)
{
    redco_engine_file file = {.bucket_bytes = 0};
    redco_engine_choice choice = {.bucket_bytes = 0};
    uint32_t version = 0, schemes = 0;
    redco_status st = redco_json_format(value, format_name, newest_version, &version, err);
    if (st != REDCO_OK || (st = only_known(value, err)) != REDCO_OK ||
        (st = redco_json_label(value, "name", choice.engine.name, sizeof choice.engine.name, err)) != REDCO_OK ||
        (st = redco_json_label(value, "title", file.title, sizeof file.title, err)) != REDCO_OK) {
        return st;
    }
    for (int t = 0; t < REDCO_TRAIT_COUNT && st == REDCO_OK; t++) {
        st = t == REDCO_TRAIT_GRAD_REDUCE_BYTES ? read_widths(value, &file, err)
             : t == REDCO_TRAIT_CROSS_ENTROPY   ? read_loss(value, &file, err)
                                                : read_trait(value, (redco_trait)t, &file, &choice, err);
    }
    if (st != REDCO_OK || (st = read_words(value, "overlap", redco_overlap_words, &file.overlap, err)) != REDCO_OK ||
        (st = read_recompute(value, &file.recompute, err)) != REDCO_OK ||
        (st = read_some(value, "scheme", redco_scheme_words, &schemes, err)) != REDCO_OK ||
        (st = read_dimensions(value, &file.dimensions, err)) != REDCO_OK ||
        (st = read_schedules(value, &file, err)) != REDCO_OK || (st = read_cp_types(value, &file, err)) != REDCO_OK ||
        (st = read_states(value, &file.states, err)) != REDCO_OK || (st = read_export(value, &file, err)) != REDCO_OK ||
        (st = read_calibrations(value, &file, err)) != REDCO_OK ||
        (st = read_measured(value, &file, err)) != REDCO_OK ||
        (st = read_peak_error(value, &choice.engine, err)) != REDCO_OK) {
        return st;
    }
    file.engine = choice.engine;
    file.engine.stated = 0; /* by runs, not by the file */
    file.bucket_bytes = choice.bucket_bytes;
    file.dimensions |= REDCO_HAS_DP;
    file.inter_tensor = (schemes & 1) != 0;
    file.intra_tensor = (schemes & 2) != 0;
    *file_out = file;
    return REDCO_OK;
}

redco_status redco_engine_file_read(const char *name_or_path, redco_engine_file *file_out, redco_error *err)
{
    redco_json *document = NULL;
    redco_status st = redco_preset_open("engines", "an engine", name_or_path, &document, err);
    if (st != REDCO_OK) { return st; }
    const redco_json_value root = redco_json_root(document);
    st = redco_engine_file_from_json(&root, file_out, err);
    redco_json_close(document);
    return st;
}
