#include "costmodel/engines/engine.h"

#include "topology/base/text.h"
#include "topology/base/units.h"
#include "topology/base/word.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const redco_trait_words[] = {
    [REDCO_TRAIT_SOFTWARE] = "software",
    [REDCO_TRAIT_GATHER] = "gather",
    [REDCO_TRAIT_SHARD_OVER] = "shard_over",
    [REDCO_TRAIT_BUCKET_BYTES] = "bucket_bytes",
    [REDCO_TRAIT_TP_LAYOUT] = "tp_layout",
    [REDCO_TRAIT_ATTENTION] = "attention",
    [REDCO_TRAIT_FUSED_NORM] = "fused_norm",
    [REDCO_TRAIT_COMPILED] = "compiled",
    [REDCO_TRAIT_LOGITS_GATHERED] = "logits_gathered",
    [REDCO_TRAIT_CROSS_ENTROPY] = "cross_entropy",
    [REDCO_TRAIT_GRAD_REDUCE_BYTES] = "grad_reduce_bytes",
    [REDCO_TRAIT_CUDA_GRAPHS] = "cuda_graphs",
    [REDCO_TRAIT_MOMENT_BYTES] = "moment_bytes",
    [REDCO_TRAIT_FRAGMENTATION_PERCENT] = "fragmentation_percent",
    [REDCO_TRAIT_MEMORY] = "memory",
    [REDCO_TRAIT_CP_BALANCE] = "cp_balance",
    [REDCO_TRAIT_AUTOCAST] = "autocast",
    [REDCO_TRAIT_DROPOUT] = "dropout",
    [REDCO_TRAIT_HELD_OUTPUTS] = "held_outputs",
    [REDCO_TRAIT_OPTIMIZER] = "optimizer",
    [REDCO_TRAIT_MASTER_WEIGHTS] = "master_weights",
    [REDCO_TRAIT_OFFLOAD] = "offload",
    [REDCO_TRAIT_FP8_ACTIVATION_INPUT] = "fp8_activation_input",
    [REDCO_TRAIT_DISPATCHER] = "dispatcher",
    [REDCO_TRAIT_EP_OVERLAP] = "ep_overlap",
    [REDCO_TRAIT_EXPERT_IMBALANCE] = "expert_imbalance",
    [REDCO_TRAIT_CAPACITY_FACTOR] = "capacity_factor",
    [REDCO_TRAIT_MNNVL] = "mnnvl",
    [REDCO_TRAIT_RELEASE] = "release",
    [REDCO_TRAIT_COUNT] = NULL,
};

/* Words of traits that have some, indexed by their values. */
static const char *const software_words[] = {"", "eager", "megatron", "te_xla", NULL};
static const char *const gather_words[] = {"module", "layer", NULL};
static const char *const shard_over_words[] = {"dp", "dp_cp", NULL};
static const char *const tp_layout_words[] = {"rules", "paired", NULL};
static const char *const attention_words[] = {"auto", "flash1", "flash2", "flash3", "fused", "unfused", NULL};
static const char *const balance_words[] = {"zigzag", "none", NULL};
static const char *const flag_words[] = {"0", "1", NULL};
static const char *const graph_words[] = {"none", "all", "attention", "router", "shared", NULL};
static const char *const dispatcher_words[] = {"alltoall", "deepep", "hybridep", "ncclep", NULL};
static const char *const held_words[] = {"none", "logits", "cache", NULL};
static const char *const optimizer_words[] = {"adamw", "adamw-8bit", "adafactor", "lion", "momentum", "sgd", NULL};
static const char *const master_words[] = {"fp32", "none", NULL};
static const char *const offload_words[] = {"none", "optimizer", "parameters", NULL};
static const char *const loss_words[] = {"unfused", "fused", NULL};
static const char *const memory_words[] = {"formulas",       "planned", "megatron", "pytorch", "xla",
                                           "pytorch-copies", "eager",   "zero",     NULL};

static const unsigned most_percent = 100;
static const uint32_t old_peak_error = 1; /* the margin of plans that do not state theirs */
static const double first_year = 2017.0, last_year = 2100.0;
static const double least_ratio = 0.1, most_ratio = 10.0;
static const double least_bucket_bytes = 1024.0, most_bucket_bytes = 1e15;

/* A trait's words; NULL: a number. */
static const char *const *words_of(redco_trait trait)
{
    switch (trait) {
    case REDCO_TRAIT_SOFTWARE: return software_words;
    case REDCO_TRAIT_GATHER: return gather_words;
    case REDCO_TRAIT_SHARD_OVER: return shard_over_words;
    case REDCO_TRAIT_TP_LAYOUT: return tp_layout_words;
    case REDCO_TRAIT_ATTENTION: return attention_words;
    case REDCO_TRAIT_FUSED_NORM:
    case REDCO_TRAIT_COMPILED:
    case REDCO_TRAIT_LOGITS_GATHERED:
    case REDCO_TRAIT_DROPOUT:
    case REDCO_TRAIT_AUTOCAST:
    case REDCO_TRAIT_FP8_ACTIVATION_INPUT:
    case REDCO_TRAIT_EP_OVERLAP:
    case REDCO_TRAIT_MNNVL: return flag_words;
    case REDCO_TRAIT_CUDA_GRAPHS: return graph_words;
    case REDCO_TRAIT_DISPATCHER: return dispatcher_words;
    case REDCO_TRAIT_CROSS_ENTROPY: return loss_words;
    case REDCO_TRAIT_HELD_OUTPUTS: return held_words;
    case REDCO_TRAIT_OPTIMIZER: return optimizer_words;
    case REDCO_TRAIT_MASTER_WEIGHTS: return master_words;
    case REDCO_TRAIT_OFFLOAD: return offload_words;
    case REDCO_TRAIT_MEMORY: return memory_words;
    case REDCO_TRAIT_CP_BALANCE: return balance_words;
    default: return NULL;
    }
}

static unsigned value_of(const redco_engine *engine, redco_trait trait)
{
    switch (trait) {
    case REDCO_TRAIT_SOFTWARE: return engine->software;
    case REDCO_TRAIT_GATHER: return engine->layer_units;
    case REDCO_TRAIT_SHARD_OVER: return engine->shard_over_cp;
    case REDCO_TRAIT_TP_LAYOUT: return engine->tp_layout;
    case REDCO_TRAIT_ATTENTION: return engine->attention;
    case REDCO_TRAIT_FUSED_NORM: return !engine->plain_norm;
    case REDCO_TRAIT_COMPILED: return engine->compiled;
    case REDCO_TRAIT_LOGITS_GATHERED: return engine->logits_gathered;
    case REDCO_TRAIT_CROSS_ENTROPY: return engine->fused_loss;
    case REDCO_TRAIT_GRAD_REDUCE_BYTES: return engine->gradient_bytes;
    case REDCO_TRAIT_CUDA_GRAPHS: return engine->cuda_graphs ? REDCO_GRAPHS_ALL : engine->graphs;
    case REDCO_TRAIT_DISPATCHER: return engine->dispatcher;
    case REDCO_TRAIT_FP8_ACTIVATION_INPUT: return engine->fp8_activation_input;
    case REDCO_TRAIT_EP_OVERLAP: return engine->ep_overlap;
    case REDCO_TRAIT_MNNVL: return !engine->no_mnnvl;
    case REDCO_TRAIT_EXPERT_IMBALANCE: return engine->imbalance_percent;
    case REDCO_TRAIT_CAPACITY_FACTOR: return engine->capacity_percent;
    case REDCO_TRAIT_RELEASE: return engine->release;
    case REDCO_TRAIT_MOMENT_BYTES: return engine->moment_bytes;
    case REDCO_TRAIT_FRAGMENTATION_PERCENT: return engine->fragmentation_percent;
    case REDCO_TRAIT_CP_BALANCE: return engine->contiguous_context;
    case REDCO_TRAIT_AUTOCAST: return engine->autocast;
    case REDCO_TRAIT_DROPOUT: return engine->dropout;
    case REDCO_TRAIT_HELD_OUTPUTS: return engine->held_outputs;
    case REDCO_TRAIT_OPTIMIZER: return engine->optimizer;
    case REDCO_TRAIT_MASTER_WEIGHTS: return engine->no_masters;
    case REDCO_TRAIT_OFFLOAD: return engine->offload;
    case REDCO_TRAIT_MEMORY: return engine->planned_memory ? 1 : engine->memory > 0 ? (unsigned)engine->memory + 1 : 0;
    default: return 0;
    }
}

static void set_value(redco_engine *engine, redco_trait trait, unsigned value)
{
    switch (trait) {
    case REDCO_TRAIT_SOFTWARE: engine->software = (redco_software)value; break;
    case REDCO_TRAIT_GATHER: engine->layer_units = value != 0; break;
    case REDCO_TRAIT_SHARD_OVER: engine->shard_over_cp = value != 0; break;
    case REDCO_TRAIT_CP_BALANCE: engine->contiguous_context = value != 0; break;
    case REDCO_TRAIT_TP_LAYOUT: engine->tp_layout = (redco_engine_layout)value; break;
    case REDCO_TRAIT_ATTENTION: engine->attention = (redco_attention)value; break;
    case REDCO_TRAIT_FUSED_NORM: engine->plain_norm = value == 0; break;
    case REDCO_TRAIT_COMPILED: engine->compiled = value != 0; break;
    case REDCO_TRAIT_LOGITS_GATHERED: engine->logits_gathered = value != 0; break;
    case REDCO_TRAIT_CROSS_ENTROPY: engine->fused_loss = value != 0; break;
    case REDCO_TRAIT_GRAD_REDUCE_BYTES: engine->gradient_bytes = value; break;
    case REDCO_TRAIT_AUTOCAST: engine->autocast = value != 0; break;
    case REDCO_TRAIT_DROPOUT: engine->dropout = value != 0; break;
    case REDCO_TRAIT_HELD_OUTPUTS: engine->held_outputs = (redco_held_outputs)value; break;
    case REDCO_TRAIT_OPTIMIZER: engine->optimizer = (redco_engine_optimizer)value; break;
    case REDCO_TRAIT_MASTER_WEIGHTS: engine->no_masters = value != 0; break;
    case REDCO_TRAIT_OFFLOAD: engine->offload = (redco_offload)value; break;
    case REDCO_TRAIT_CUDA_GRAPHS:
        engine->graphs = (redco_graph_scope)value;
        engine->cuda_graphs = value == REDCO_GRAPHS_ALL;
        break;
    case REDCO_TRAIT_DISPATCHER: engine->dispatcher = (redco_dispatcher)value; break;
    case REDCO_TRAIT_FP8_ACTIVATION_INPUT: engine->fp8_activation_input = value != 0; break;
    case REDCO_TRAIT_EP_OVERLAP: engine->ep_overlap = value != 0; break;
    case REDCO_TRAIT_MNNVL: engine->no_mnnvl = value == 0; break;
    case REDCO_TRAIT_EXPERT_IMBALANCE: engine->imbalance_percent = value; break;
    case REDCO_TRAIT_CAPACITY_FACTOR: engine->capacity_percent = value; break;
    case REDCO_TRAIT_RELEASE: engine->release = value; break;
    case REDCO_TRAIT_MEMORY:
        engine->planned_memory = value == 1;
        engine->memory = value > 1 ? (redco_memory_kind)(value - 1) : REDCO_MEMORY_FORMULAS;
        break;
    default: break;
    }
}

bool redco_engine_set_memory(redco_engine *engine, const char *word)
{
    for (unsigned i = 0; memory_words[i] != NULL; i++) {
        if (strcmp(memory_words[i], word) != 0) { continue; }
        set_value(engine, REDCO_TRAIT_MEMORY, i);
        return true;
    }
    return false;
}

static const char *list(const char *const *words, char *buffer, size_t size)
{
    size_t used = 0;
    buffer[0] = '\0';
    for (size_t i = 0; words[i] != NULL && used < size; i++) {
        if (words[i][0] == '\0') { continue; }
        used += (size_t)snprintf(buffer + used, size - used, "%s%s", used > 0 ? ", " : "", words[i]);
    }
    return buffer;
}

/* @return the index of @p text, or -1 */
static int find(const char *const *words, const char *text)
{
    for (int i = 0; words[i] != NULL; i++) {
        if (words[i][0] != '\0' && strcmp(words[i], text) == 0) { return i; }
    }
    return -1;
}

bool redco_trait_may_lack(redco_trait trait)
{
    return trait == REDCO_TRAIT_CUDA_GRAPHS || trait == REDCO_TRAIT_MOMENT_BYTES ||
           trait == REDCO_TRAIT_FRAGMENTATION_PERCENT || trait == REDCO_TRAIT_CP_BALANCE ||
           trait == REDCO_TRAIT_AUTOCAST || trait == REDCO_TRAIT_DROPOUT || trait == REDCO_TRAIT_HELD_OUTPUTS ||
           trait == REDCO_TRAIT_OPTIMIZER || trait == REDCO_TRAIT_MASTER_WEIGHTS || trait == REDCO_TRAIT_OFFLOAD ||
           trait == REDCO_TRAIT_FP8_ACTIVATION_INPUT || redco_trait_of_experts(trait);
}

bool redco_trait_of_experts(redco_trait trait)
{
    return trait >= REDCO_TRAIT_DISPATCHER && trait < REDCO_TRAIT_COUNT;
}

/* Written as 1.03, kept as 103. */
static bool is_ratio(redco_trait trait)
{
    return trait == REDCO_TRAIT_EXPERT_IMBALANCE || trait == REDCO_TRAIT_CAPACITY_FACTOR;
}

/* Likewise a release: its year, or with its month 2025.11. */
static bool is_hundredths(redco_trait trait)
{
    return is_ratio(trait) || trait == REDCO_TRAIT_RELEASE;
}

/* Numbers of files and plans. @return false: out of range */
static bool set_number(redco_engine *engine, redco_trait trait, double number)
{
    if (number == 0.0) { /* as if nothing were said */
        set_value(engine, trait, 0);
        return true;
    }
    if (is_ratio(trait)) {
        if (!(number >= least_ratio && number <= most_ratio)) { return false; }
        set_value(engine, trait, (unsigned)lround(100.0 * number));
        return true;
    }
    if (!(number >= first_year && number <= last_year)) { return false; }
    set_value(engine, trait, (unsigned)lround(100.0 * number));
    return true;
}

/* A graph's scope, which was a flag once. */
static const char *scope_word(const char *text)
{
    if (strcmp(text, "0") == 0 || strcmp(text, "false") == 0) { return graph_words[REDCO_GRAPHS_NONE]; }
    return strcmp(text, "1") == 0 || strcmp(text, "true") == 0 ? graph_words[REDCO_GRAPHS_ALL] : text;
}

static bool may_state(redco_trait trait)
{
    return trait != REDCO_TRAIT_MEMORY;
}

static redco_status unknown_trait(const char *trait, const char *place, redco_error *err)
{
    const char *known[REDCO_TRAIT_COUNT + 1] = {NULL};
    char names[400];
    size_t count = 0;
    for (int t = 0; t < REDCO_TRAIT_COUNT; t++) {
        if (may_state((redco_trait)t)) { known[count++] = redco_trait_words[t]; }
    }
    return redco_fail(err, REDCO_EVALUE, place, "\"%.40s\" is no trait of an engine; known: %s", trait,
                      list(known, names, sizeof names));
}

redco_status redco_engine_state(redco_engine_choice *choice, const char *trait, const char *value, const char *place,
                                redco_error *err)
{
    char known[128];
    const int t = find(redco_trait_words, trait);
    if (t < 0 || !may_state((redco_trait)t)) { return unknown_trait(trait, place, err); }
    const char *const *const words = words_of((redco_trait)t);
    if (words != NULL) {
        const bool flag = words == flag_words;
        const int at = find(words, words == graph_words          ? scope_word(value)
                                   : !flag                       ? value
                                   : strcmp(value, "true") == 0  ? "1"
                                   : strcmp(value, "false") == 0 ? "0"
                                                                 : value);
        if (at < 0) {
            return redco_fail(err, REDCO_EVALUE, place, "%s=\"%.40s\" is not one of: %s", trait, value,
                              list(words, known, sizeof known));
        }
        set_value(&choice->engine, (redco_trait)t, (unsigned)at);
    } else if (redco_trait_of_experts((redco_trait)t)) {
        char *end = NULL;
        const double number = strtod(value, &end);
        if (value[0] < '0' || value[0] > '9' || *end != '\0' || !set_number(&choice->engine, (redco_trait)t, number)) {
            return redco_fail(err, REDCO_EVALUE, place, "%s=\"%.40s\" is not 0 (not known) or from %g to %g", trait,
                              value, is_ratio((redco_trait)t) ? least_ratio : first_year,
                              is_ratio((redco_trait)t) ? most_ratio : last_year);
        }
    } else if (t == REDCO_TRAIT_FRAGMENTATION_PERCENT) {
        char *end = NULL;
        const unsigned long percent = strtoul(value, &end, 10);
        if (value[0] < '0' || value[0] > '9' || *end != '\0' || percent > most_percent) {
            return redco_fail(err, REDCO_EVALUE, place, "%s=\"%.40s\" is not from 0 to %u", trait, value, most_percent);
        }
        choice->engine.fragmentation_percent = (uint32_t)percent;
    } else if (t == REDCO_TRAIT_GRAD_REDUCE_BYTES || t == REDCO_TRAIT_MOMENT_BYTES) {
        const bool moments = t == REDCO_TRAIT_MOMENT_BYTES;
        if (strcmp(value, "2") != 0 && strcmp(value, "4") != 0) {
            return redco_fail(err, REDCO_EVALUE, place, "%s=\"%.40s\" is not 2 or 4", trait, value);
        }
        *(moments ? &choice->engine.moment_bytes : &choice->engine.gradient_bytes) = (uint32_t)(value[0] - '0');
    } else {
        double bytes = 0.0;
        const redco_status st = redco_unit_parse(value, REDCO_UNIT_BYTES, place, &bytes, err);
        if (st != REDCO_OK) { return st; }
        if (!(bytes >= least_bucket_bytes && bytes <= most_bucket_bytes)) {
            return redco_fail(err, REDCO_EVALUE, place, "%s=\"%.40s\" is not from 1 KiB to 1 PB", trait, value);
        }
        choice->bucket_bytes = (uint64_t)bytes;
    }
    choice->engine.stated |= 1U << t;
    return REDCO_OK;
}

static uint32_t own_width(redco_precision precision)
{
    return precision == REDCO_FP32 ? 4 : 2;
}

const char *redco_engine_trait(const redco_engine_choice *choice, redco_precision precision, redco_trait trait,
                               char *buffer, size_t size)
{
    const unsigned value = value_of(&choice->engine, trait);
    const char *const *words = words_of(trait);
    if (words == graph_words && value <= REDCO_GRAPHS_ALL) { words = flag_words; }
    if (words != NULL) {
        (void)snprintf(buffer, size, "%s", words[value]);
    } else if (trait == REDCO_TRAIT_BUCKET_BYTES) {
        (void)snprintf(buffer, size, "%llu B", (unsigned long long)choice->bucket_bytes);
    } else if (is_hundredths(trait)) {
        (void)snprintf(buffer, size, "%g", value / 100.0);
    } else if (trait == REDCO_TRAIT_FRAGMENTATION_PERCENT) {
        (void)snprintf(buffer, size, "%u", value);
    } else if (trait == REDCO_TRAIT_MOMENT_BYTES) {
        (void)snprintf(buffer, size, "%u", value != 0 ? value : 4);
    } else {
        (void)snprintf(buffer, size, "%u", value != 0 ? value : own_width(precision));
    }
    return buffer;
}

/* Files and plans that do not say them have none. */
static bool is_described(const redco_engine *engine, redco_trait trait)
{
    const unsigned usual = trait == REDCO_TRAIT_MNNVL ? 1 : 0;
    return !redco_trait_may_lack(trait) || value_of(engine, trait) != usual || (engine->stated >> trait & 1) != 0;
}

json_t *redco_engine_describe(const redco_engine_choice *choice, redco_precision precision)
{
    json_t *const json = json_object();
    json_t *const stated = json_array();
    int failed = json == NULL || stated == NULL;
    failed |= json_object_set_new(json, "name", json_string(choice->engine.name));
    for (int t = 0; t < REDCO_TRAIT_COUNT; t++) {
        char text[32];
        if (!is_described(&choice->engine, (redco_trait)t)) { continue; }
        (void)redco_engine_trait(choice, precision, (redco_trait)t, text, sizeof text);
        const char *const *const words = words_of((redco_trait)t);
        const bool flag = words == flag_words ||
                          (words == graph_words && value_of(&choice->engine, (redco_trait)t) <= REDCO_GRAPHS_ALL);
        json_t *const value = flag ? json_boolean(value_of(&choice->engine, (redco_trait)t) == 1)
                              : is_hundredths((redco_trait)t) ? json_real(strtod(text, NULL))
                              : words == NULL                 ? json_integer((json_int_t)strtoll(text, NULL, 10))
                                                              : json_string(text);
        failed |= json_object_set_new(json, redco_trait_words[t], value);
        if ((choice->engine.stated >> t & 1) != 0) {
            failed |= json_array_append_new(stated, json_string(redco_trait_words[t]));
        }
    }
    failed |= json_object_set_new(json, "stated", stated);
    const uint32_t peak_error = redco_engine_peak_error(&choice->engine);
    if (peak_error != old_peak_error) {
        failed |= json_object_set_new(json, "peak_error_percent", json_integer(peak_error));
    }
    if (failed) {
        json_decref(json);
        return NULL;
    }
    return json;
}

redco_status redco_engine_read_number(const redco_json_value *value, const char *key, redco_trait trait,
                                      redco_engine *engine, redco_error *err)
{
    double number = 0.0;
    const double least = is_ratio(trait) ? least_ratio : first_year, most = is_ratio(trait) ? most_ratio : last_year;
    const redco_status st = redco_json_number(value, key, 0.0, most, &number, err);
    if (st != REDCO_OK || set_number(engine, trait, number)) { return st; }
    return redco_json_fail(value, key, err, "is %g, not 0 (not known) or from %g to %g", number, least, most);
}

/* A word or flag of an engine's JSON. */
static redco_status read_word(const redco_json_value *value, redco_trait trait, redco_engine *engine, redco_error *err)
{
    char known[128];
    const char *const key = redco_trait_words[trait];
    const char *const *const words = words_of(trait);
    const char *text = NULL;
    if (words == flag_words || json_is_boolean(json_object_get(value->json, key))) {
        bool flag = false;
        const redco_status st = redco_json_bool(value, key, &flag, err);
        if (st == REDCO_OK) { set_value(engine, trait, flag); }
        return st;
    }
    const redco_status st = redco_json_string(value, key, &text, err);
    if (st != REDCO_OK) { return st; }
    if (trait == REDCO_TRAIT_SOFTWARE && text[0] == '\0') { return REDCO_OK; }
    const int at = find(words, text);
    if (at < 0) {
        return redco_json_fail(value, key, err, "is \"%.40s\", not one of: %s", text, list(words, known, sizeof known));
    }
    set_value(engine, trait, (unsigned)at);
    return REDCO_OK;
}

static redco_status read_stated(const redco_json_value *value, uint32_t *stated_out, redco_error *err)
{
    redco_json_value array;
    size_t count = 0;
    redco_status st = redco_json_array(value, "stated", &array, &count, err);
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        redco_json_value entry;
        if ((st = redco_json_element(&array, i, &entry, err)) != REDCO_OK) { return st; }
        const int t = json_is_string(entry.json) ? find(redco_trait_words, json_string_value(entry.json)) : -1;
        if (t < 0) { return redco_json_fail(&entry, NULL, err, "is no trait of an engine"); }
        *stated_out |= 1U << t;
    }
    return st;
}

redco_status redco_engine_from_json(const redco_json_value *value, redco_engine_choice *choice_out, redco_error *err)
{
    redco_engine_choice choice = {.bucket_bytes = 0};
    const char *name = NULL;
    uint32_t width = 0;
    redco_status st = redco_json_string(value, "name", &name, err);
    if (st != REDCO_OK) { return st; }
    if (strlen(name) >= sizeof choice.engine.name) {
        return redco_json_fail(value, "name", err, "is longer than %zu bytes", sizeof choice.engine.name - 1);
    }
    (void)snprintf(choice.engine.name, sizeof choice.engine.name, "%s", name);
    redco_text_clean(choice.engine.name);
    for (int t = 0; t < REDCO_TRAIT_COUNT && st == REDCO_OK; t++) {
        if (redco_trait_may_lack((redco_trait)t) && !redco_json_has(value, redco_trait_words[t])) { continue; }
        if (t == REDCO_TRAIT_MOMENT_BYTES) {
            st = redco_json_u32(value, redco_trait_words[t], 2, 4, &choice.engine.moment_bytes, err);
        } else if (t == REDCO_TRAIT_FRAGMENTATION_PERCENT) {
            st =
                redco_json_u32(value, redco_trait_words[t], 0, most_percent, &choice.engine.fragmentation_percent, err);
        }
        if (redco_trait_of_experts((redco_trait)t) && words_of((redco_trait)t) == NULL) {
            st = redco_engine_read_number(value, redco_trait_words[t], (redco_trait)t, &choice.engine, err);
        }
        if (words_of((redco_trait)t) != NULL) { st = read_word(value, (redco_trait)t, &choice.engine, err); }
    }
    if (st != REDCO_OK ||
        (st = redco_json_u64(value, "bucket_bytes", (uint64_t)least_bucket_bytes, (uint64_t)most_bucket_bytes,
                             &choice.bucket_bytes, err)) != REDCO_OK ||
        (st = redco_json_u32(value, "grad_reduce_bytes", 2, 4, &width, err)) != REDCO_OK ||
        (st = read_stated(value, &choice.engine.stated, err)) != REDCO_OK) {
        return st;
    }
    choice.engine.peak_error_percent = old_peak_error;
    if (redco_json_has(value, "peak_error_percent") &&
        (st = redco_json_u32(value, "peak_error_percent", 1, most_percent, &choice.engine.peak_error_percent, err)) !=
            REDCO_OK) {
        return st;
    }
    if (width == 3) { return redco_json_fail(value, "grad_reduce_bytes", err, "is 3, not 2 or 4"); }
    choice.engine.gradient_bytes = width;
    *choice_out = choice;
    return REDCO_OK;
}

redco_engine_choice redco_engine_choose(const redco_engine_file *file, redco_precision precision)
{
    redco_engine_choice choice = {.engine = file->engine, .bucket_bytes = file->bucket_bytes};
    choice.engine.gradient_bytes = file->gradient_bytes[precision];
    choice.engine.fused_loss = file->fused_loss[precision];
    return choice;
}
