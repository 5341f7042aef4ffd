/* The collectives that a split costs. A linear y = x W is "column" when W is split by output features (each shard has
 * its part of y; dx is a sum over the shards) and "row" when split by input features (y is a sum, dx is split). */
#include "planner/rules/rules_costs.h"

#include <stdlib.h>

/* Facts that the kernels of one attention or FFN share. */
struct unit {
    bool inner_split;   /* queries, or the FFN's inner activations, are split over the shards */
    uint32_t input_sum; /* first column kernel on the unit's input: carries the sum of its gradient */
};

struct context {
    const redco_rules_param *params;
    const redco_rules_part *parts;
    const int32_t *dims;
    size_t count;
    const redco_rules_setting *setting;
    struct unit *units;
    uint32_t memory_sum; /* first column kernel on the encoder's output, which all cross attentions read */
    uint32_t vocabulary; /* the first such table, or REDCO_PART_NONE */
};

static bool is_kernel_role(redco_role role)
{
    return role >= REDCO_ROLE_QUERY && role <= REDCO_ROLE_FFN_OUT;
}

static bool is_column(const struct context *context, size_t i)
{
    return context->params[i].rank >= 2 && context->dims[i] == (int32_t)context->parts[i].output_dim;
}

static bool is_row(const struct context *context, size_t i)
{
    return context->params[i].rank >= 2 && context->dims[i] == (int32_t)context->parts[i].input_dim;
}

static double input_features(const struct context *context, size_t i)
{
    return (double)context->params[i].shape[context->parts[i].input_dim];
}

static double output_features(const struct context *context, size_t i)
{
    return (double)context->params[i].shape[context->parts[i].output_dim];
}

static double elements_of(const redco_rules_param *param)
{
    double elements = 1.0;
    for (uint32_t i = 0; i < param->rank; i++) { elements *= (double)param->shape[i]; }
    return elements;
}

static void forward(redco_rules_cost *cost, redco_collective kind, double elements_per_token)
{
    cost->forward[cost->forward_count++] = (redco_transfer){kind, 1, elements_per_token, 0.0};
}

static void backward(redco_rules_cost *cost, redco_collective kind, double elements_per_token)
{
    cost->backward[cost->backward_count++] = (redco_transfer){kind, 1, elements_per_token, 0.0};
}

/* A split that no product can use: the parameter itself is gathered, its gradient scattered. */
static void gather_parameter(redco_rules_cost *cost, const redco_rules_param *param)
{
    const double elements = elements_of(param);
    cost->forward[cost->forward_count++] = (redco_transfer){REDCO_ALL_GATHER, 1, 0.0, elements};
    cost->backward[cost->backward_count++] = (redco_transfer){REDCO_REDUCE_SCATTER, 1, 0.0, elements};
}

static bool heads_cut(const struct context *context, size_t i)
{
    const redco_rules_setting *setting = context->setting;
    const bool queries = setting->heads % setting->shards != 0;
    const bool keys = setting->kv_heads % setting->shards != 0;
    switch (context->parts[i].role) {
    case REDCO_ROLE_QUERY: return queries;
    case REDCO_ROLE_KEY:
    case REDCO_ROLE_VALUE: return keys;
    case REDCO_ROLE_QKV: break;
    default: return false;
    }
    switch (context->parts[i].qkv) {
    case REDCO_QKV_BY_HEAD: return queries;
    case REDCO_QKV_BY_GROUP: return keys;
    default: return true; /* the first shard has queries, the last has values */
    }
}

static bool reads_memory(const redco_rules_part *part)
{
    return part->cross && (part->role == REDCO_ROLE_KEY || part->role == REDCO_ROLE_VALUE);
}

/* A column kernel whose input is whole: the gradient of that input is summed once for all that read it. */
static void sum_input_gradient(const struct context *context, size_t i, redco_rules_cost *cost)
{
    const redco_rules_part *part = &context->parts[i];
    uint32_t first = (uint32_t)i;
    if (part->unit != REDCO_PART_NONE && part->role != REDCO_ROLE_FFN_OUT && part->role != REDCO_ROLE_ATTENTION_OUT) {
        first = reads_memory(part) ? context->memory_sum : context->units[part->unit].input_sum;
    }
    if (first == (uint32_t)i) {
        backward(cost, REDCO_ALL_REDUCE, input_features(context, i));
    } else {
        cost->shares = first;
    }
}

/* Row with a whole input: each shard takes its slice of x. */
static void add_row(const struct context *context, size_t i, redco_rules_cost *cost)
{
    forward(cost, REDCO_ALL_REDUCE, output_features(context, i));
    if (cost->input == REDCO_INPUT_WHOLE) { backward(cost, REDCO_ALL_GATHER, input_features(context, i)); }
}

/* Queries, keys, values and FFN inputs: what follows wants the result split. */
static void add_inner_column(const struct context *context, size_t i, redco_rules_cost *cost)
{
    const redco_rules_part *part = &context->parts[i];
    cost->heads_cut = heads_cut(context, i);
    if (cost->heads_cut || !context->units[part->unit].inner_split) {
        forward(cost, REDCO_ALL_GATHER, output_features(context, i));
    }
    if (cost->heads_cut) { backward(cost, REDCO_REDUCE_SCATTER, output_features(context, i)); }
    sum_input_gradient(context, i, cost);
}

/* The next operator wants the result whole: a norm, a residual sum, or something unknown. */
static void add_outer_column(const struct context *context, size_t i, redco_rules_cost *cost)
{
    if (cost->input == REDCO_INPUT_SPLIT) {
        forward(cost, REDCO_ALL_GATHER, input_features(context, i));
        forward(cost, REDCO_ALL_GATHER, output_features(context, i));
        backward(cost, REDCO_REDUCE_SCATTER, input_features(context, i));
    } else {
        forward(cost, REDCO_ALL_GATHER, output_features(context, i));
        sum_input_gradient(context, i, cost);
    }
}

static void add_linear(const struct context *context, size_t i, redco_rules_cost *cost)
{
    const redco_rules_part *part = &context->parts[i];
    const bool outer = part->role == REDCO_ROLE_ATTENTION_OUT || part->role == REDCO_ROLE_FFN_OUT;
    if (outer && context->units[part->unit].inner_split) { cost->input = REDCO_INPUT_SPLIT; }
    if (is_column(context, i)) {
        if (outer || part->role == REDCO_ROLE_OTHER) {
            add_outer_column(context, i, cost);
        } else {
            add_inner_column(context, i, cost);
        }
    } else if (is_row(context, i)) {
        add_row(context, i, cost);
    } else if (context->dims[i] >= 0) {
        gather_parameter(cost, &context->params[i]);
    } else if (cost->input == REDCO_INPUT_SPLIT) {
        forward(cost, REDCO_ALL_GATHER, input_features(context, i)); /* each shard then has all of dx */
    }
}

/* Each shard has the logits of its part of the vocabulary. */
static void add_split_logits(redco_rules_cost *cost, double width)
{
    cost->forward[cost->forward_count++] = (redco_transfer){REDCO_ALL_REDUCE, 3, 3.0, 0.0};
    backward(cost, REDCO_ALL_REDUCE, width);
}

/* Each shard has a part of every logit's sum. */
static void add_summed_logits(redco_rules_cost *cost, double width, double vocabulary)
{
    forward(cost, REDCO_ALL_REDUCE, vocabulary);
    backward(cost, REDCO_ALL_GATHER, width);
}

static void add_head(const struct context *context, size_t i, redco_rules_cost *cost)
{
    if (is_column(context, i)) {
        add_split_logits(cost, input_features(context, i));
    } else if (is_row(context, i)) {
        add_summed_logits(cost, input_features(context, i), output_features(context, i));
    } else if (context->dims[i] >= 0) {
        gather_parameter(cost, &context->params[i]);
    }
}

static bool is_input_table(redco_role role)
{
    return role == REDCO_ROLE_VOCABULARY || role == REDCO_ROLE_POSITIONS || role == REDCO_ROLE_TOKEN_TYPES;
}

/* Rows: shards look up what they have, zero elsewhere. Width: each has a part of every vector. Tables that are split
 * alike are added first. */
static void add_table(const struct context *context, size_t i, redco_rules_cost *cost)
{
    const redco_rules_param *param = &context->params[i];
    const uint32_t first = context->vocabulary;
    const int32_t dim = context->dims[i];
    if (dim < 0) { return; }
    if (param->rank != 2) {
        gather_parameter(cost, param);
        return;
    }
    if (is_input_table(context->parts[i].role) && first != REDCO_PART_NONE && first != i &&
        context->dims[first] == dim) {
        cost->shares = first;
    } else {
        forward(cost, dim == 0 ? REDCO_ALL_REDUCE : REDCO_ALL_GATHER, (double)param->shape[1]);
    }
    if (i == first && context->setting->tied) {
        if (dim == 0) {
            add_split_logits(cost, (double)param->shape[1]);
        } else {
            add_summed_logits(cost, (double)param->shape[1], (double)param->shape[0]);
        }
    }
}

/* Whole beside a column kernel: each shard adds its slice, and its gradient is gathered. Beside a row kernel it is
 * added once, after the sum. */
static void add_bias(const struct context *context, size_t i, redco_rules_cost *cost)
{
    const uint32_t owner = context->parts[i].owner;
    const bool column = owner != REDCO_PART_NONE && is_column(context, owner);
    if (context->dims[i] >= 0 && !column) {
        gather_parameter(cost, &context->params[i]);
    } else if (context->dims[i] < 0 && column) {
        cost->backward[cost->backward_count++] =
            (redco_transfer){REDCO_ALL_GATHER, 1, 0.0, elements_of(&context->params[i])};
    }
}

static void add_parameter(const struct context *context, size_t i, redco_rules_cost *cost)
{
    const redco_rules_param *param = &context->params[i];
    switch (context->parts[i].role) {
    case REDCO_ROLE_VOCABULARY:
    case REDCO_ROLE_POSITIONS:
    case REDCO_ROLE_TOKEN_TYPES: add_table(context, i, cost); return;
    case REDCO_ROLE_RELATIVE_BIAS:
        if (context->dims[i] == 0) { gather_parameter(cost, param); } /* by heads: each shard has its own */
        return;
    case REDCO_ROLE_HEAD: add_head(context, i, cost); return;
    case REDCO_ROLE_BIAS: add_bias(context, i, cost); return;
    case REDCO_ROLE_NORM:
        if (context->dims[i] >= 0) { gather_parameter(cost, param); }
        return;
    case REDCO_ROLE_OTHER:
        if (context->parts[i].leaf == REDCO_PART_LEAF_TABLE) {
            add_table(context, i, cost);
            return;
        }
        break;
    default: break;
    }
    if (param->rank >= 2 && context->parts[i].leaf == REDCO_PART_LEAF_KERNEL) {
        add_linear(context, i, cost);
    } else if (context->dims[i] >= 0) {
        gather_parameter(cost, param);
    }
}

/* Which kernels split the inner activations, and who sums the gradients of inputs. */
static void fill_units(struct context *context, size_t unit_count)
{
    for (size_t i = 0; i < unit_count; i++) { context->units[i] = (struct unit){false, REDCO_PART_NONE}; }
    for (size_t i = 0; i < context->count; i++) {
        const redco_rules_part *part = &context->parts[i];
        if (part->unit == REDCO_PART_NONE || !is_kernel_role(part->role) || part->role == REDCO_ROLE_FFN_OUT ||
            part->role == REDCO_ROLE_ATTENTION_OUT || !is_column(context, i)) {
            continue;
        }
        struct unit *unit = &context->units[part->unit];
        uint32_t *first = reads_memory(part) ? &context->memory_sum : &unit->input_sum;
        if (*first == REDCO_PART_NONE) { *first = (uint32_t)i; }
        if (part->role != REDCO_ROLE_KEY && part->role != REDCO_ROLE_VALUE) { unit->inner_split = true; }
    }
}

redco_status redco_rules_costs(const redco_rules_param *params, const redco_rules_part *parts, const int32_t *dims,
                               size_t count, const redco_rules_setting *setting, redco_rules_cost *costs_out,
                               redco_error *err)
{
    struct context context = {params, parts, dims, count, setting, NULL, REDCO_PART_NONE, REDCO_PART_NONE};
    size_t unit_count = 0;
    if (setting->shards == 0) { return redco_fail(err, REDCO_EVALUE, "shards", "must be at least 1"); }
    for (size_t i = count; i-- > 0;) {
        if (parts[i].unit != REDCO_PART_NONE && parts[i].unit >= unit_count) { unit_count = (size_t)parts[i].unit + 1; }
        if (parts[i].role == REDCO_ROLE_VOCABULARY) { context.vocabulary = (uint32_t)i; }
    }
    context.units = calloc(unit_count + 1, sizeof *context.units);
    if (context.units == NULL) { return redco_fail(err, REDCO_ENOMEM, "rules", "out of memory"); }
    fill_units(&context, unit_count);
    for (size_t i = 0; i < count; i++) {
        costs_out[i] = (redco_rules_cost){.shares = REDCO_PART_NONE};
        if (setting->shards > 1) { add_parameter(&context, i, &costs_out[i]); }
    }
    free(context.units);
    return REDCO_OK;
}

bool redco_rules_seem_tied(const redco_rules_param *params, const redco_rules_part *parts, size_t count)
{
    bool vocabulary = false;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].role == REDCO_ROLE_HEAD) { return false; }
        if (parts[i].role == REDCO_ROLE_OTHER && parts[i].leaf == REDCO_PART_LEAF_KERNEL && params[i].rank == 2) {
            return false;
        }
        vocabulary = vocabulary || parts[i].role == REDCO_ROLE_VOCABULARY;
    }
    return vocabulary;
}
