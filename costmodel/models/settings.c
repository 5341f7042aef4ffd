/* Keys of a config.json. */
#include "costmodel/models/family.h"
#include "topology/base/word.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool redcoi_building(const redcoi_build *build)
{
    return build->status == REDCO_OK;
}

void redcoi_build_fail(redcoi_build *build, const char *key, const char *format, ...)
{
    char text[512];
    va_list args;
    if (!redcoi_building(build)) { return; }
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    build->status = redco_json_fail(&build->config, key, build->err, "%s", text);
}

/* Keys of the outer config are noted; readers ask for fewer than there is room for. */
static void note_asked(redcoi_build *build, const char *key, bool absent)
{
    if (build->asked_count == REDCOI_MODEL_KEYS) { return; }
    build->asked[build->asked_count] = key;
    build->absent[build->asked_count++] = absent;
}

/* @return whether there is something to read */
static bool asks(redcoi_build *build, const char *key)
{
    if (!redcoi_building(build)) { return false; }
    const bool there = redco_json_has(&build->config, key);
    note_asked(build, key, !there);
    return there;
}

const char *redcoi_config_string(redcoi_build *build, const char *key)
{
    const char *text = NULL;
    if (asks(build, key)) { build->status = redco_json_string(&build->config, key, &text, build->err); }
    return text;
}

void redcoi_config_warn(redcoi_build *build, char *text)
{
    size_t i = 0;
    while (build->model->warnings[i] != NULL) { i++; }
    build->model->warnings[i] = text;
    if (text == NULL) { build->status = redco_fail(build->err, REDCO_ENOMEM, build->config.name, "out of memory"); }
}

void redcoi_config_spelling(redcoi_build *build)
{
    enum { LONG = 8, SHORT = 5 }; /* letters: shorter keys are alike by chance */
    enum { MOST_KEYS = 1000 };    /* no config has as many: a hostile one costs no more */
    const char *key = NULL;
    json_t *value = NULL;
    if (!redcoi_building(build)) { return; }
    if (json_object_size(build->config.json) > MOST_KEYS) { return; }
    json_object_foreach((json_t *)(uintptr_t)build->config.json, key, value)
    {
        const char *meant = NULL;
        bool known = false;
        for (size_t i = 0; i < build->asked_count && !known; i++) {
            const char *const asked = build->asked[i];
            const size_t length = strlen(asked);
            known = strcmp(key, asked) == 0;
            if (build->absent[i] && length >= SHORT && redco_word_distance(key, asked) <= (length >= LONG ? 2 : 1)) {
                meant = asked;
            }
        }
        if (known || meant == NULL) { continue; }
        char place[120];
        char text[320];
        (void)snprintf(text, sizeof text,
                       "%s: is not known here, and there is no \"%s\", whose default is taken: is it misspelt?",
                       redco_json_place(&build->config, key, place, sizeof place), meant);
        redcoi_config_warn(build, strdup(text));
        return;
    }
}

void redcoi_config_defaults(redcoi_build *build)
{
    const redco_model *const model = build->model;
    char place[512];
    char text[1536];
    const char *key = NULL;
    json_t *value = NULL;
    size_t used = 0;
    if (!redcoi_building(build) || json_object_size(model->defaults) == 0) { return; }
    used = (size_t)snprintf(text, sizeof text, "%s: leaves sizes out; the defaults of %s are taken:",
                            redco_json_place(&build->config, NULL, place, sizeof place), model->family->type);
    json_object_foreach(model->defaults, key, value)
    {
        if (used >= sizeof text) { break; } /* no family has as many keys */
        used += (size_t)snprintf(text + used, sizeof text - used, "%s %s = %" JSON_INTEGER_FORMAT,
                                 value == json_object_iter_value(json_object_iter(model->defaults)) ? "" : ",", key,
                                 json_integer_value(value));
    }
    redcoi_config_warn(build, strdup(text));
}

/* @param given_out  whether the config has it */
static uint32_t read_u32(redcoi_build *build, const char *key, const char *alias, uint32_t fallback, uint32_t max,
                         bool *given_out)
{
    uint32_t value = fallback;
    *given_out = true;
    if (!redcoi_building(build)) { return fallback; }
    const char *found = alias != NULL && redco_json_has(&build->config, alias) ? alias : key;
    const bool absent = !redco_json_has(&build->config, found);
    note_asked(build, key, absent);
    if (alias != NULL) { note_asked(build, alias, absent); }
    if (!absent) { build->status = redco_json_u32(&build->config, found, 1, max, &value, build->err); }
    *given_out = !absent;
    return value;
}

uint32_t redcoi_config_derived(redcoi_build *build, const char *key, const char *alias, uint32_t fallback, uint32_t max)
{
    bool given = false;
    return read_u32(build, key, alias, fallback, max, &given);
}

uint32_t redcoi_config_u32(redcoi_build *build, const char *key, const char *alias, uint32_t fallback, uint32_t max)
{
    bool given = false;
    const uint32_t value = read_u32(build, key, alias, fallback, max, &given);
    if (!given && json_object_set_new(build->model->defaults, key, json_integer(value)) != 0) {
        build->status = redco_fail(build->err, REDCO_ENOMEM, build->config.name, "out of memory");
    }
    return value;
}

double redcoi_config_number(redcoi_build *build, const char *key, double fallback, double min, double max)
{
    double value = fallback;
    if (asks(build, key)) { build->status = redco_json_number(&build->config, key, min, max, &value, build->err); }
    return value;
}

bool redcoi_config_bool(redcoi_build *build, const char *key, bool fallback)
{
    bool value = fallback;
    if (asks(build, key)) { build->status = redco_json_bool(&build->config, key, &value, build->err); }
    return value;
}

uint64_t redcoi_config_count(redcoi_build *build, const char *key, uint64_t fallback, uint64_t max)
{
    uint64_t value = fallback;
    if (asks(build, key)) { build->status = redco_json_u64(&build->config, key, 0, max, &value, build->err); }
    return value;
}

bool redcoi_config_dropout(redcoi_build *build, const char *key, double fallback)
{
    return redcoi_config_number(build, key, fallback, 0.0, 1.0) > 0.0;
}

uint64_t redcoi_config_window(redcoi_build *build, uint64_t fallback)
{
    static const char key[] = "sliding_window";
    const bool null = json_is_null(json_object_get(build->config.json, key));
    return redcoi_config_count(build, key, null ? 0 : fallback, UINT32_MAX);
}

void redcoi_config_divides(redcoi_build *build, const char *key, uint32_t divisor, const char *value_name,
                           uint32_t value)
{
    if (redcoi_building(build) && value % divisor != 0) {
        redcoi_build_fail(build, key, "%s = %u must divide %s = %u", key, divisor, value_name, value);
    }
}

/* Names of transformers' activations (ACT2FN). "gelu_fast" is "gelu_new" with its constant cut to ten digits. */
static const struct {
    const char *name;
    redcoi_activation activation;
} activations[] = {
    {"silu", REDCOI_ACTIVATION_SILU},           {"swish", REDCOI_ACTIVATION_SILU},
    {"gelu", REDCOI_ACTIVATION_GELU},           {"gelu_new", REDCOI_ACTIVATION_GELU_TANH},
    {"gelu_fast", REDCOI_ACTIVATION_GELU_TANH}, {"gelu_pytorch_tanh", REDCOI_ACTIVATION_GELU_TANH},
    {"relu", REDCOI_ACTIVATION_RELU},           {"relu2", REDCOI_ACTIVATION_RELU_SQUARED},
};

redcoi_activation redcoi_config_activation(redcoi_build *build, const char *key, redcoi_activation fallback)
{
    const char *name = NULL;
    if (!asks(build, key)) { return fallback; }
    build->status = redco_json_string(&build->config, key, &name, build->err);
    return build->status == REDCO_OK ? redcoi_activation_of(build, key, name, fallback) : fallback;
}

redcoi_activation redcoi_activation_of(redcoi_build *build, const char *key, const char *name,
                                       redcoi_activation fallback)
{
    for (size_t i = 0; i < sizeof activations / sizeof activations[0]; i++) {
        if (strcmp(activations[i].name, name) == 0) { return activations[i].activation; }
    }
    build->status =
        redco_json_fail(&build->config, key, build->err,
                        "\"%.40s\" is not an activation that the executor has: silu, swish, gelu, gelu_new, "
                        "gelu_fast, gelu_pytorch_tanh, relu, relu2",
                        name);
    return fallback;
}

bool redcoi_config_asks(redcoi_build *build, const char *key)
{
    return asks(build, key);
}

static int32_t token(redcoi_build *build, const char *key, int32_t fallback)
{
    if (json_is_null(json_object_get(build->config.json, key))) { return fallback; }
    return (int32_t)redcoi_config_count(build, key, (uint64_t)fallback, INT32_MAX);
}

void redcoi_config_decoder_tokens(redcoi_build *build, redcoi_settings *settings, int32_t pad, int32_t start)
{
    settings->pad_token = token(build, "pad_token_id", pad);
    settings->start_token = token(build, "decoder_start_token_id", start);
}

/* Scaling factors are 1 or more; no model is scaled beyond this. */
static const double factor_max = 1e6;

static void read_llama3(redcoi_build *scaling, redcoi_rope *rope)
{
    rope->kind = REDCOI_ROPE_LLAMA3;
    rope->low = redcoi_config_number(scaling, "low_freq_factor", 1.0, 1e-3, factor_max);
    rope->high = redcoi_config_number(scaling, "high_freq_factor", 4.0, 1e-3, factor_max);
    rope->old_positions = redcoi_config_number(scaling, "original_max_position_embeddings", 8192.0, 1.0, 1e9);
    if (rope->high <= rope->low) { redcoi_build_fail(scaling, "high_freq_factor", "must be above low_freq_factor"); }
}

/* The number of the wave, from the shortest, that turns so many times within the old length. */
static double wave_of(const redcoi_rope *rope, double turns)
{
    static const double two_pi = 6.28318530717958647693;
    return (double)rope->size * log(rope->old_positions / (turns * two_pi)) / (2.0 * log(rope->theta));
}

static void read_yarn(redcoi_build *scaling, redcoi_rope *rope)
{
    const double most = (double)rope->size - 1.0;
    rope->kind = REDCOI_ROPE_YARN;
    rope->factor = redcoi_config_number(scaling, "factor", 1.0, 1.0, factor_max);
    const double usual = 0.1 * log(rope->factor) + 1.0;
    const double fast = redcoi_config_number(scaling, "beta_fast", 32.0, 1e-3, factor_max);
    const double slow = redcoi_config_number(scaling, "beta_slow", 1.0, 1e-3, factor_max);
    const double own = redcoi_config_number(scaling, "mscale", 0.0, 0.0, factor_max);
    const double all = redcoi_config_number(scaling, "mscale_all_dim", 0.0, 0.0, factor_max);
    const double given =
        own > 0.0 && all > 0.0 ? (0.1 * own * log(rope->factor) + 1.0) / (0.1 * all * log(rope->factor) + 1.0) : usual;
    rope->old_positions =
        redcoi_config_number(scaling, "original_max_position_embeddings", rope->old_positions, 1.0, 1e9);
    rope->amplitude = redcoi_config_number(scaling, "attention_factor", given, 1e-6, factor_max);
    const bool whole = redcoi_config_bool(scaling, "truncate", true);
    const double first = wave_of(rope, fast), last = wave_of(rope, slow);
    rope->low = fmax(whole ? floor(first) : first, 0.0);
    rope->high = fmin(whole ? ceil(last) : last, most);
    if (rope->high <= rope->low) { rope->high = rope->low + 0.001; } /* as transformers has it */
}

/* transformers 5 writes base, scaling and the rotated share of a head into "rope_parameters", by kind of layer where a
 * model has several; before, "rope_scaling" had the scaling alone. @param layers  "full_attention" or
 * "sliding_attention". @return false: the config has neither */
static bool find_rope(redcoi_build *build, const char *layers, redcoi_build *rope)
{
    const bool scaling = asks(build, "rope_scaling"), parameters = asks(build, "rope_parameters");
    const char *const key = parameters ? "rope_parameters" : "rope_scaling";
    *rope = (redcoi_build){.err = build->err};
    if (!redcoi_building(build) || (!scaling && !parameters)) { return false; }
    if (scaling && parameters) {
        redcoi_build_fail(build, "rope_scaling", "stands beside \"rope_parameters\"; one of them is needed");
        return false;
    }
    build->status = redco_json_object(&build->config, key, &rope->config, build->err);
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)(uintptr_t)rope->config.json, name, value)
    {
        const bool known = strcmp(name, "full_attention") == 0 || strcmp(name, "sliding_attention") == 0;
        if (known || !json_is_object(value) || !redcoi_building(build)) { continue; }
        redcoi_build_fail(build, key, "has \"%.40s\", rotary positions of layers of a kind that redco does not know",
                          name);
    }
    if (redcoi_building(build) && json_is_object(json_object_get(rope->config.json, layers))) {
        redco_json_value of_layers;
        build->status = redco_json_object(&rope->config, layers, &of_layers, build->err);
        rope->config = of_layers;
    }
    return redcoi_building(build);
}

double redcoi_config_rotary_share(redcoi_build *build, const char *key, double fallback)
{
    static const char inner[] = "partial_rotary_factor";
    redcoi_build rope;
    const double share = redcoi_config_number(build, key, fallback, 0.0, 1.0);
    if (!find_rope(build, "full_attention", &rope) || !redco_json_has(&rope.config, inner)) { return share; }
    const double own = redcoi_config_number(&rope, inner, share, 0.0, 1.0);
    build->status = rope.status;
    return own;
}

/* Which layers "layer_types" names. @return false where the config has none, or on error */
static bool read_layer_types(redcoi_build *build, bool *windowed)
{
    static const char key[] = "layer_types";
    const uint32_t layers = build->model->dims.layers;
    redco_json_value list;
    size_t count = 0;
    if (!asks(build, key)) { return false; }
    build->status = redco_json_array(&build->config, key, &list, &count, build->err);
    if (redcoi_building(build) && count != layers) {
        redcoi_build_fail(build, key, "has %zu layers; the model has %u", count, layers);
    }
    for (size_t i = 0; redcoi_building(build) && i < count; i++) {
        const char *const type = json_string_value(json_array_get(list.json, i));
        windowed[i] = type != NULL && strcmp(type, "sliding_attention") == 0;
        if (type == NULL || (!windowed[i] && strcmp(type, "full_attention") != 0)) {
            redcoi_build_fail(build, key, "layer %zu is \"%.40s\"; full_attention or sliding_attention is needed", i,
                              type != NULL ? type : "no text");
        }
    }
    return redcoi_building(build);
}

/* @param every  0: all layers from @p first on; else those but each so-many-th */
static void choose_windows(redcoi_build *build, uint64_t window, uint32_t first, uint32_t every)
{
    if (!redcoi_building(build)) { return; }
    const uint32_t layers = build->model->dims.layers;
    bool *const windowed = calloc(layers, sizeof *windowed);
    if (windowed == NULL) {
        build->status = redco_fail(build->err, REDCO_ENOMEM, build->config.name, "out of memory");
        return;
    }
    if (!read_layer_types(build, windowed)) {
        for (uint32_t i = first; i < layers; i++) { windowed[i] = every == 0 || (i + 1) % every != 0; }
    }
    build->window = window;
    build->windowed = windowed;
}

void redcoi_config_windows(redcoi_build *build, uint64_t window, uint32_t first)
{
    choose_windows(build, window, first, 0);
}

void redcoi_config_window_every(redcoi_build *build, uint64_t window, uint32_t every)
{
    choose_windows(build, window, 0, every);
}

void redcoi_config_full_unrotated(redcoi_build *build)
{
    if (!redcoi_building(build) || build->windowed == NULL || build->window == 0) { return; }
    const uint32_t layers = build->model->dims.layers;
    build->unrotated = calloc(layers, sizeof *build->unrotated);
    if (build->unrotated == NULL) {
        build->status = redco_fail(build->err, REDCO_ENOMEM, build->config.name, "out of memory");
        return;
    }
    for (uint32_t i = 0; i < layers; i++) { build->unrotated[i] = !build->windowed[i]; }
}

void redcoi_config_unrotated(redcoi_build *build, const char *key, uint32_t every)
{
    const bool listed = asks(build, key);
    redco_json_value list = build->config;
    size_t count = 0;
    if (!redcoi_building(build)) { return; }
    const uint32_t layers = build->model->dims.layers;
    if (listed) { build->status = redco_json_array(&build->config, key, &list, &count, build->err); }
    if (listed && redcoi_building(build) && count != layers) {
        redcoi_build_fail(build, key, "has %zu layers; the model has %u", count, layers);
    }
    build->unrotated = redcoi_building(build) ? calloc(layers, sizeof *build->unrotated) : NULL;
    for (uint32_t i = 0; build->unrotated != NULL && i < layers; i++) {
        const json_t *const rotated = listed ? json_array_get(list.json, i) : NULL;
        build->unrotated[i] = listed ? json_integer_value(rotated) == 0 : every > 0 && (i + 1) % every == 0;
        if (listed && !json_is_integer(rotated)) { redcoi_build_fail(build, key, "layer %u is no whole number", i); }
    }
    if (redcoi_building(build) && build->unrotated == NULL) {
        build->status = redco_fail(build->err, REDCO_ENOMEM, build->config.name, "out of memory");
    }
}

/* Keys that change nothing of such a rotation, or are not known, are named; those of layers with a window, too. */
static void name_unknown(redcoi_build *build, const char *layers, const json_t *rope)
{
    static const char *const plain[] = {
        "rope_theta", "partial_rotary_factor", "rope_type",        "type",
        "factor",     "low_freq_factor",       "high_freq_factor", "original_max_position_embeddings",
        NULL};
    static const char *const yarn[] = {"beta_fast",        "beta_slow", "mscale", "mscale_all_dim",
                                       "attention_factor", "truncate",  NULL};
    static const char *const kinds[] = {"full_attention", "sliding_attention", NULL};
    static const char *const none[] = {NULL};
    const char *const key = redco_json_has(&build->config, "rope_parameters") ? "rope_parameters" : "rope_scaling";
    const json_t *const outer = json_object_get(build->config.json, key);
    const json_t *const type = json_object_get(rope, json_object_get(rope, "rope_type") != NULL ? "rope_type" : "type");
    const bool is_yarn = json_is_string(type) && strcmp(json_string_value(type), "yarn") == 0;
    const char *const place = outer == rope                              ? key
                              : strcmp(layers, "sliding_attention") == 0 ? "rope_parameters/sliding_attention"
                                                                         : "rope_parameters/full_attention";
    if (outer != rope) { redcoi_config_inner(build, key, outer, kinds, none); }
    redcoi_config_inner(build, place, rope, plain, is_yarn ? yarn : none);
}

/* Scaling: default, linear, llama3, yarn, dynamic; others are refused. */
static void read_rope(redcoi_build *build, const char *layers, redcoi_rope *rope)
{
    const char *kind = NULL;
    redcoi_build scaling;
    rope->kind = REDCOI_ROPE_PLAIN;
    if (!find_rope(build, layers, &scaling)) { return; }
    name_unknown(build, layers, scaling.config.json);
    rope->theta = redcoi_config_number(&scaling, "rope_theta", rope->theta, 1.0, 1e12);
    if (!redcoi_building(&scaling)) {
        build->status = scaling.status;
        return;
    }
    const char *const key = redco_json_has(&scaling.config, "rope_type") ? "rope_type" : "type"; /* its older name */
    build->status = redco_json_string(&scaling.config, key, &kind, build->err);
    if (build->status != REDCO_OK || strcmp(kind, "default") == 0) { return; }
    rope->old_positions = redcoi_config_number(build, "max_position_embeddings", 4096.0, 1.0, 1e9);
    if (strcmp(kind, "linear") == 0) {
        rope->kind = REDCOI_ROPE_LINEAR;
    } else if (strcmp(kind, "llama3") == 0) {
        read_llama3(&scaling, rope);
    } else if (strcmp(kind, "yarn") == 0) {
        read_yarn(&scaling, rope);
    } else if (strcmp(kind, "dynamic") == 0) {
        rope->kind = REDCOI_ROPE_DYNAMIC;
    } else {
        build->status = redco_json_fail(
            &scaling.config, key, build->err,
            "\"%.40s\" is not a scaling that the executor has: default, linear, llama3, yarn, dynamic", kind);
        return;
    }
    if (!redco_json_has(&scaling.config, "factor")) { redcoi_build_fail(&scaling, "factor", "is missing"); }
    rope->factor = redcoi_config_number(&scaling, "factor", 1.0, 1.0, factor_max);
    if (redcoi_building(build)) { build->status = scaling.status; }
}

/* @return whether layers with a window have a rotation of their own in "rope_parameters" */
static bool has_window_rope(redcoi_build *config)
{
    const json_t *const parameters = json_object_get(config->config.json, "rope_parameters");
    return json_is_object(json_object_get(parameters, "sliding_attention"));
}

void redcoi_config_rotary_part(redcoi_build *config, const char *key, double fallback, const redco_model_dims *dims,
                               redcoi_settings *settings)
{
    settings->rope.size = (uint64_t)((double)dims->head_dim * redcoi_config_rotary_share(config, key, fallback));
    if (settings->rope.size < 2) { redcoi_build_fail(config, key, "must leave two elements of a head"); }
}

static double number(redcoi_build *config, const redcoi_number *n, double min, double max)
{
    return n->key != NULL ? redcoi_config_number(config, n->key, n->fallback, min, max) : n->fallback;
}

void redcoi_settings_read(redcoi_build *config, const redcoi_family *family, const redco_model_dims *dims,
                          redcoi_settings *settings)
{
    redcoi_settings *const s = settings;
    s->norm_epsilon = number(config, &family->epsilon, 0.0, 1.0);
    s->deviation = number(config, &family->deviation, 0.0, 1e3);
    s->activation = family->active.fallback;
    if (family->active.key != NULL) {
        s->activation = redcoi_config_activation(config, family->active.key, family->active.fallback);
    }
    if (dims->positions == REDCO_POSITIONS_ROTARY) {
        s->rope.size = dims->head_dim;
        s->rope.theta = number(config, &family->theta, 1.0, 1e12);
        if (family->theta.key != NULL) { read_rope(config, "full_attention", &s->rope); }
        if (has_window_rope(config)) {
            s->window_rope = (redcoi_rope){.size = s->rope.size, .theta = s->rope.theta};
            read_rope(config, "sliding_attention", &s->window_rope);
        }
    }
    if (family->read_settings != NULL) { family->read_settings(config, dims, s); }
}
