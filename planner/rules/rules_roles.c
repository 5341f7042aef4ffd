/* Roles of parameters. The names are those of the modules of HuggingFace transformers 4.48, torch and Flax. */
#include "planner/rules/rules_roles.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A part of a path; not 0-terminated. */
struct span {
    const char *text;
    size_t length;
};

/* A path taken apart. */
struct parsed {
    struct span leaf;      /* last name */
    struct span module;    /* the name before; empty when there is none */
    struct span parent;    /* the name before that */
    const char *layer_end; /* after the last layer index that is not the module itself; the path where there is none */
    struct span attention; /* the first name after the layer index that speaks of attention; may be the module */
};

struct known {
    const char *name;
    redco_role role;
};

static const struct known attention_modules[] = {
    {"q", REDCO_ROLE_QUERY},
    {"k", REDCO_ROLE_KEY},
    {"v", REDCO_ROLE_VALUE},
    {"o", REDCO_ROLE_ATTENTION_OUT},
    {"q_proj", REDCO_ROLE_QUERY},
    {"k_proj", REDCO_ROLE_KEY},
    {"v_proj", REDCO_ROLE_VALUE},
    {"o_proj", REDCO_ROLE_ATTENTION_OUT},
    {"query", REDCO_ROLE_QUERY},
    {"key", REDCO_ROLE_KEY},
    {"value", REDCO_ROLE_VALUE},
    {"out", REDCO_ROLE_ATTENTION_OUT},
    {"wq", REDCO_ROLE_QUERY},
    {"wk", REDCO_ROLE_KEY},
    {"wv", REDCO_ROLE_VALUE},
    {"wo", REDCO_ROLE_ATTENTION_OUT},
    {"q_lin", REDCO_ROLE_QUERY},
    {"k_lin", REDCO_ROLE_KEY},
    {"v_lin", REDCO_ROLE_VALUE},
    {"out_lin", REDCO_ROLE_ATTENTION_OUT},
    {"q_attn", REDCO_ROLE_QUERY},
    {"out_proj", REDCO_ROLE_ATTENTION_OUT},
    {"dense", REDCO_ROLE_ATTENTION_OUT},
    {"c_proj", REDCO_ROLE_ATTENTION_OUT},
    {"c_attn", REDCO_ROLE_QKV},
    {"query_key_value", REDCO_ROLE_QKV},
    {"wqkv", REDCO_ROLE_QKV},
    {"Wqkv", REDCO_ROLE_QKV},
    {"qkv_proj", REDCO_ROLE_QKV},
    {"qkv", REDCO_ROLE_QKV},
};

static const struct known other_modules[] = {
    {"gate_proj", REDCO_ROLE_FFN_IN},
    {"up_proj", REDCO_ROLE_FFN_IN},
    {"gate_up_proj", REDCO_ROLE_FFN_IN},
    {"fc1", REDCO_ROLE_FFN_IN},
    {"fc_in", REDCO_ROLE_FFN_IN},
    {"c_fc", REDCO_ROLE_FFN_IN},
    {"wi", REDCO_ROLE_FFN_IN},
    {"wi_0", REDCO_ROLE_FFN_IN},
    {"wi_1", REDCO_ROLE_FFN_IN},
    {"w1", REDCO_ROLE_FFN_IN},
    {"w3", REDCO_ROLE_FFN_IN},
    {"lin1", REDCO_ROLE_FFN_IN},
    {"dense_h_to_4h", REDCO_ROLE_FFN_IN},
    {"down_proj", REDCO_ROLE_FFN_OUT},
    {"fc2", REDCO_ROLE_FFN_OUT},
    {"fc_out", REDCO_ROLE_FFN_OUT},
    {"c_proj", REDCO_ROLE_FFN_OUT},
    {"wo", REDCO_ROLE_FFN_OUT},
    {"w2", REDCO_ROLE_FFN_OUT},
    {"lin2", REDCO_ROLE_FFN_OUT},
    {"dense_4h_to_h", REDCO_ROLE_FFN_OUT},
    {"lm_head", REDCO_ROLE_HEAD},
    {"embed_out", REDCO_ROLE_HEAD},
};

static const struct known tables[] = {
    {"embed_tokens", REDCO_ROLE_VOCABULARY},
    {"wte", REDCO_ROLE_VOCABULARY},
    {"word_embeddings", REDCO_ROLE_VOCABULARY},
    {"shared", REDCO_ROLE_VOCABULARY},
    {"tok_embeddings", REDCO_ROLE_VOCABULARY},
    {"embed_in", REDCO_ROLE_VOCABULARY},
    {"wpe", REDCO_ROLE_POSITIONS},
    {"embed_positions", REDCO_ROLE_POSITIONS},
    {"position_embeddings", REDCO_ROLE_POSITIONS},
    {"token_type_embeddings", REDCO_ROLE_TOKEN_TYPES},
    {"relative_attention_bias", REDCO_ROLE_RELATIVE_BIAS},
};

static bool is(struct span span, const char *text)
{
    return span.length == strlen(text) && memcmp(span.text, text, span.length) == 0;
}

/* Ignores case. */
static bool holds(struct span span, const char *text)
{
    const size_t length = strlen(text);
    for (size_t i = 0; i + length <= span.length; i++) {
        if (strncasecmp(span.text + i, text, length) == 0) { return true; }
    }
    return false;
}

static redco_role find(const struct known *list, size_t count, struct span name)
{
    for (size_t i = 0; i < count; i++) {
        if (is(name, list[i].name)) { return list[i].role; }
    }
    return REDCO_ROLE_OTHER;
}

static bool names_attention(struct span name)
{
    return holds(name, "attention") || holds(name, "attn");
}

/* "7", "layers_7": the index of a layer. */
static bool is_index(struct span name)
{
    size_t digits = 0;
    while (digits < name.length && name.text[name.length - 1 - digits] >= '0' &&
           name.text[name.length - 1 - digits] <= '9') {
        digits++;
    }
    return digits > 0 && (digits == name.length || name.text[name.length - 1 - digits] == '_');
}

static struct span name_at(const char *start)
{
    return (struct span){start, strcspn(start, "/")};
}

static struct parsed parse(const char *path)
{
    struct parsed parsed = {.leaf = {path, 0}, .module = {path, 0}, .parent = {path, 0}, .layer_end = path};
    for (const char *start = path;;) {
        parsed.parent = parsed.module;
        parsed.module = parsed.leaf;
        parsed.leaf = name_at(start);
        if (is_index(parsed.parent)) {
            parsed.layer_end = parsed.module.text;
            parsed.attention.length = 0;
        }
        if (parsed.attention.length == 0 && names_attention(parsed.module)) { parsed.attention = parsed.module; }
        if (start[parsed.leaf.length] == '\0') { return parsed; }
        start += parsed.leaf.length + 1;
    }
}

static redco_role linear_role(const struct parsed *path)
{
    if (path->attention.length > 0) {
        return find(attention_modules, sizeof attention_modules / sizeof attention_modules[0], path->module);
    }
    if (is(path->module, "dense") && is(path->parent, "intermediate")) { return REDCO_ROLE_FFN_IN; }
    if (is(path->module, "dense") && is(path->parent, "output")) { return REDCO_ROLE_FFN_OUT; }
    /* The decoder of BERT's masked language model; InternLM2's head stands alone at the top. */
    if (is(path->module, "decoder") && is(path->parent, "predictions")) { return REDCO_ROLE_HEAD; }
    if (is(path->module, "output") && path->parent.length == 0) { return REDCO_ROLE_HEAD; }
    return find(other_modules, sizeof other_modules / sizeof other_modules[0], path->module);
}

static redco_role role_of(const struct parsed *path, uint32_t rank)
{
    if (is(path->leaf, "kernel")) { return linear_role(path); }
    if (is(path->leaf, "embedding")) { return find(tables, sizeof tables / sizeof tables[0], path->module); }
    if (is(path->leaf, "bias") || is(path->leaf, "final_logits_bias")) { return REDCO_ROLE_BIAS; }
    if (is(path->leaf, "scale") || (is(path->leaf, "weight") && rank == 1)) { return REDCO_ROLE_NORM; }
    return REDCO_ROLE_OTHER;
}

static redco_qkv_order qkv_order(struct span module)
{
    if (is(module, "query_key_value")) { return REDCO_QKV_BY_HEAD; }
    if (is(module, "wqkv")) { return REDCO_QKV_BY_GROUP; }
    return REDCO_QKV_BLOCKS;
}

/* GPT-2's Flax class stores (out, in): its fused matrix then has three times as many rows as columns. */
static bool is_transposed_fusion(const redco_rules_param *param, struct span module)
{
    return param->rank == 2 && is(module, "c_attn") && param->shape[1] > 0 && param->shape[0] % 3 == 0 &&
           param->shape[0] / 3 == param->shape[1];
}

static bool is_conv1d(struct span module)
{
    return is(module, "c_attn") || is(module, "q_attn") || is(module, "c_fc") || is(module, "c_proj");
}

/* A path up to what its kernels have in common: one attention, or the FFN of one layer. */
struct unit {
    struct span prefix;
    bool attention;
    size_t index;
};

static int compare_units(const void *a, const void *b)
{
    const struct unit *first = a;
    const struct unit *second = b;
    const size_t shorter = first->prefix.length < second->prefix.length ? first->prefix.length : second->prefix.length;
    const int order = memcmp(first->prefix.text, second->prefix.text, shorter);
    if (order != 0) { return order; }
    if (first->prefix.length != second->prefix.length) { return first->prefix.length < second->prefix.length ? -1 : 1; }
    if (first->attention != second->attention) { return first->attention ? -1 : 1; }
    return first->index < second->index ? -1 : first->index > second->index;
}

static bool is_ffn(redco_role role)
{
    return role == REDCO_ROLE_FFN_IN || role == REDCO_ROLE_FFN_OUT;
}

static bool is_attention(redco_role role)
{
    return role >= REDCO_ROLE_QUERY && role <= REDCO_ROLE_ATTENTION_OUT;
}

static struct unit unit_of(const char *path, const struct parsed *parsed, redco_role role, size_t index)
{
    const bool attention = is_attention(role);
    const char *end = attention ? parsed->attention.text + parsed->attention.length : parsed->layer_end;
    /* A module that itself speaks of attention ("h/0/c_attn") belongs to the attention of its layer. */
    if (attention && parsed->attention.text == parsed->module.text) { end = parsed->module.text; }
    return (struct unit){.prefix = {path, (size_t)(end - path)}, .attention = attention, .index = index};
}

static void number_units(struct unit *units, size_t count, redco_rules_part *parts)
{
    uint32_t number = 0;
    qsort(units, count, sizeof *units, compare_units);
    for (size_t i = 0; i < count; i++) {
        if (i > 0) {
            struct unit before = units[i - 1];
            before.index = units[i].index;
            number += compare_units(&before, &units[i]) != 0;
        }
        parts[units[i].index].unit = number;
    }
}

/* A kernel or bias by its module: the path without its leaf. */
struct module {
    struct span path;
    size_t index;
    bool bias;
};

static int compare_modules(const void *a, const void *b)
{
    const struct module *first = a;
    const struct module *second = b;
    const size_t shorter = first->path.length < second->path.length ? first->path.length : second->path.length;
    const int order = memcmp(first->path.text, second->path.text, shorter);
    if (order != 0) { return order; }
    if (first->path.length != second->path.length) { return first->path.length < second->path.length ? -1 : 1; }
    return (int)first->bias - (int)second->bias; /* a module's kernel stands before its bias */
}

static void find_owners(struct module *modules, size_t count, redco_rules_part *parts)
{
    qsort(modules, count, sizeof *modules, compare_modules);
    for (size_t i = 1; i < count; i++) {
        struct module kernel = modules[i];
        kernel.bias = false;
        if (modules[i].bias && !modules[i - 1].bias && compare_modules(&modules[i - 1], &kernel) == 0) {
            parts[modules[i].index].owner = (uint32_t)modules[i - 1].index;
        }
    }
}

static void fill_part(redco_rules_part *part, const redco_rules_param *param, const struct parsed *path)
{
    *part = (redco_rules_part){.role = role_of(path, param->rank), .unit = REDCO_PART_NONE, .owner = REDCO_PART_NONE};
    if (param->rank >= 2) {
        part->input_dim = param->rank - 2;
        part->output_dim = param->rank - 1;
    }
    if (is(path->leaf, "kernel")) { part->leaf = REDCO_PART_LEAF_KERNEL; }
    if (is(path->leaf, "embedding")) { part->leaf = REDCO_PART_LEAF_TABLE; }
    if (part->role == REDCO_ROLE_QKV) { part->qkv = qkv_order(path->module); }
    part->cross =
        holds(path->attention, "cross") || holds(path->attention, "encoder_attn") || holds(path->attention, "encdec");
}

static void turn_conv1d(const redco_rules_param *params, size_t count, redco_rules_part *parts)
{
    for (size_t i = 0; i < count; i++) {
        const struct parsed path = parse(params[i].path);
        if (params[i].rank == 2 && is(path.leaf, "kernel") && is_conv1d(path.module)) {
            parts[i].input_dim = 1;
            parts[i].output_dim = 0;
        }
    }
}

static void fill_parts(const redco_rules_param *params, size_t count, redco_rules_part *parts, struct unit *units,
                       struct module *modules)
{
    size_t unit_count = 0;
    size_t module_count = 0;
    bool transposed = false;
    for (size_t i = 0; i < count; i++) {
        const struct parsed path = parse(params[i].path);
        fill_part(&parts[i], &params[i], &path);
        const bool kernel = is(path.leaf, "kernel");
        transposed = transposed || (kernel && is_transposed_fusion(&params[i], path.module));
        if (is_attention(parts[i].role) || is_ffn(parts[i].role)) {
            units[unit_count++] = unit_of(params[i].path, &path, parts[i].role, i);
        }
        if ((kernel || is(path.leaf, "bias")) && path.module.length > 0) {
            const size_t length = (size_t)(path.leaf.text - params[i].path);
            modules[module_count++] = (struct module){{params[i].path, length}, i, !kernel};
        }
    }
    number_units(units, unit_count, parts);
    find_owners(modules, module_count, parts);
    if (transposed) { turn_conv1d(params, count, parts); }
}

redco_status redco_rules_parts(const redco_rules_param *params, size_t count, redco_rules_part **parts_out,
                               redco_error *err)
{
    redco_status st = REDCO_OK;
    redco_rules_part *parts = calloc(count + 1, sizeof *parts);
    struct unit *units = calloc(count + 1, sizeof *units);
    struct module *modules = calloc(count + 1, sizeof *modules);
    if (parts == NULL || units == NULL || modules == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "rules", "out of memory");
        free(parts);
        goto out;
    }
    fill_parts(params, count, parts, units, modules);
    *parts_out = parts;
out:
    free(units);
    free(modules);
    return st;
}

const char *redco_role_name(redco_role role)
{
    static const char *const names[] = {"other",         "query",         "key",     "value",      "qkv",
                                        "attention-out", "ffn-in",        "ffn-out", "vocabulary", "positions",
                                        "token-types",   "relative-bias", "head",    "norm",       "bias"};
    return (size_t)role < sizeof names / sizeof names[0] ? names[role] : "other";
}
