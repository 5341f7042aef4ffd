/* The graph of embedding and head: tables split by vocabulary (padded to a multiple of the ranks) or by width. */
#include "costmodel/closed_form/memory_model.h"
#include "planner/tensor_parallel/build_internal.h"

#include <string.h>

/* Bytes of a logit: two 16-bit and two 32-bit copies (costmodel/README.md, section 5). */
static const uint64_t logit_bytes = 12;

/* An engine that plans its memory: the gradient lies over the logits. */
static bool plans_memory(const struct redcoi_tp_builder *b)
{
    return b->base->shape.engine.planned_memory;
}

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0 ? 1 : 0);
}

static const struct redcoi_tp_seconds no_seconds = {0.0, 0.0};

static const redco_param *weight(const struct redcoi_tp_builder *b, redcoi_tp_role role)
{
    return b->layer->weights[b->slot].param[role];
}

/* Every rank looks up what it has: rows of others count as zero. A width is split by rules alone: what
 * frameworks run is split by vocabulary. @return the node */
static uint32_t add_table(struct redcoi_tp_builder *b, redcoi_tp_role role, struct redcoi_tp_seconds seconds)
{
    const redco_param *const param = weight(b, role);
    const uint64_t rows = param->shape[0], width = param->shape[1], ranks = b->ranks;
    const uint64_t tables = b->layer->weights[b->slot].count[role];
    const uint32_t at = redcoi_tp_add_node(b, redcoi_tp_role_names[role], (double)width, 0, NULL);
    b->layer->node[b->slot][role] = at;
    redcoi_tp_option *option = redcoi_tp_add_option(b, at, REDCOI_TP_WHOLE, REDCOI_TP_PARTIAL, seconds);
    option->split = REDCOI_TP_COLUMN;
    option->params = tables * ceil_div(rows, ranks) * width;
    option->reference = true;
    if (width % ranks == 0) {
        option = redcoi_tp_add_option(b, at, REDCOI_TP_WHOLE, REDCOI_TP_SPLIT, seconds);
        option->split = REDCOI_TP_ROW;
        option->legal = false;
        option->params = tables * rows * (width / ranks);
    }
    option = redcoi_tp_add_option(b, at, REDCOI_TP_WHOLE, REDCOI_TP_WHOLE, seconds);
    option->split = REDCOI_TP_REPLICATE;
    option->params = tables * rows * width;
    if (b->rows) {
        option = redcoi_tp_add_option(b, at, REDCOI_TP_ROWS, REDCOI_TP_ROWS, seconds);
        option->split = REDCOI_TP_REPLICATE;
        option->params = tables * rows * width;
        redcoi_tp_sum_gradient(b, tables * rows * width, option);
    }
    return at;
}

/* T5's bias per bucket and head. Cut by bucket, all of it has to be gathered; by head, a rank has what it needs. */
static void add_relative(struct redcoi_tp_builder *b)
{
    const redco_param *const param = weight(b, REDCOI_TP_RELATIVE);
    const uint64_t size = param->shape[0] * param->shape[1];
    const uint64_t tables = b->layer->weights[b->slot].count[REDCOI_TP_RELATIVE];
    const double bytes = (double)size * b->element_bytes;
    const redcoi_tp_prices *const prices = &b->base->prices;
    const uint32_t at = redcoi_tp_add_node(b, redcoi_tp_role_names[REDCOI_TP_RELATIVE], 0.0, 0, NULL);
    b->layer->node[b->slot][REDCOI_TP_RELATIVE] = at;
    redcoi_tp_option *option = redcoi_tp_add_option(b, at, REDCOI_TP_WHOLE, REDCOI_TP_WHOLE, no_seconds);
    option->split = REDCOI_TP_ROW;
    option->params = tables * param->shape[0] * ceil_div(param->shape[1], b->ranks);
    option->reference = true;
    option = redcoi_tp_add_option(b, at, REDCOI_TP_WHOLE, REDCOI_TP_WHOLE, no_seconds);
    option->split = REDCOI_TP_COLUMN;
    option->params = tables * ceil_div(param->shape[0], b->ranks) * param->shape[1];
    option->tp_forward_s = (double)tables * prices->seconds(prices->context, REDCO_ALL_GATHER, bytes);
    option->tp_backward_s = (double)tables * prices->seconds(prices->context, REDCO_REDUCE_SCATTER, bytes);
    option->tp_bytes = 2.0 * (double)tables * bytes * (b->ranks - 1.0) / b->ranks;
    option = redcoi_tp_add_option(b, at, REDCOI_TP_WHOLE, REDCOI_TP_WHOLE, no_seconds);
    option->split = REDCOI_TP_REPLICATE; /* every rank has gradients for its heads only */
    option->params = tables * size;
    option->tp_backward_s = (double)tables * prices->seconds(prices->context, REDCO_ALL_REDUCE, bytes);
    option->tp_bytes = 2.0 * (double)tables * bytes * (b->ranks - 1.0) / b->ranks;
}

static redco_status add_embedding(struct redcoi_tp_builder *b, uint32_t class_index, redco_error *err)
{
    static const redcoi_tp_role needed[] = {REDCOI_TP_TOKENS};
    redcoi_tp_layer *const layer = b->layer;
    b->slot = 0;
    layer->classes[0] = class_index;
    redcoi_tp_weights_find(b->base->model, b->base->roles, class_index, &layer->weights[0]);
    const redco_status st = redcoi_tp_check_weights(b, needed, 1, err);
    if (st != REDCO_OK) { return st; }
    redcoi_tp_operators(b, class_index);
    const uint64_t h = b->dims->hidden, ranks = b->ranks;
    uint32_t at = add_table(b, REDCOI_TP_TOKENS, redcoi_tp_op_seconds(b, REDCOI_TP_OPS_SPLIT, REDCO_OP_ROLE_EMBEDDING));
    const redco_param *const project = weight(b, REDCOI_TP_PROJECT_IN);
    if (project != NULL) {
        const uint64_t in = project->shape[1];
        const struct redcoi_tp_linear linear = {h, ceil_div(h, ranks), in, ceil_div(in, ranks), true, true};
        at = redcoi_tp_add_linear(b, REDCOI_TP_PROJECT_IN, REDCO_OP_ROLE_NONE, &linear, at);
    }
    uint32_t parts[2] = {at, 0};
    uint32_t count = 1;
    if (weight(b, REDCOI_TP_POSITIONS) != NULL) { parts[count++] = add_table(b, REDCOI_TP_POSITIONS, no_seconds); }
    redcoi_tp_add_residual(b, redcoi_tp_add_sum(b, "sum", (double)h, count, parts));
    if (weight(b, REDCOI_TP_RELATIVE) != NULL) { add_relative(b); }
    return REDCO_OK;
}

/* Softmax and cross entropy where the logits are. Three sums of one number per token are left out, as in the closed
 * form. */
static void add_loss(struct redcoi_tp_builder *b, uint32_t logits)
{
    const uint64_t vocab = b->dims->vocab, ranks = b->ranks;
    const uint32_t at = redcoi_tp_add_node(b, "loss", 0.0, 1, &logits);
    const struct {
        redcoi_tp_form form;
        int size;
        uint64_t held;
    } sizes[] = {{REDCOI_TP_SPLIT, REDCOI_TP_OPS_SPLIT, redco_share_up(b->tokens, ceil_div(vocab, ranks), 1)},
                 {REDCOI_TP_WHOLE, REDCOI_TP_OPS_WHOLE, redco_share_up(b->tokens, vocab, 1)},
                 {REDCOI_TP_ROWS, REDCOI_TP_OPS_ROWS, redco_share_up(ceil_div(b->tokens, ranks), vocab, 1)}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (sizes[i].form == REDCOI_TP_ROWS && !b->rows) { continue; }
        redcoi_tp_option *const option = redcoi_tp_add_option(
            b, at, sizes[i].form, sizes[i].form, redcoi_tp_op_seconds(b, sizes[i].size, REDCO_OP_ROLE_LOSS));
        option->reference = i == 0;
        option->bytes = (plans_memory(b) ? (uint64_t)b->element_bytes : logit_bytes) * sizes[i].held;
    }
}

/* The products of a tied head read the embedding's table: no parameters of its own, the same split. */
static void tie_head(struct redcoi_tp_builder *b, uint32_t head, uint32_t tokens)
{
    redcoi_tp_node *const node = &b->graph->nodes[head];
    node->tied = tokens;
    for (uint32_t o = 0; o < node->option_count; o++) { node->options[o].params = 0; }
    for (uint32_t i = 0; i < REDCOI_TP_ROLES; i++) {
        if (b->layer->node[b->slot][i] == head) { b->layer->node[b->slot][i] = REDCOI_TP_NONE; }
    }
}

static redco_status add_head(struct redcoi_tp_builder *b, uint32_t class_index, uint32_t tokens, redco_error *err)
{
    static const redcoi_tp_role needed[] = {REDCOI_TP_HEAD};
    redcoi_tp_layer *const layer = b->layer;
    const bool tied = b->dims->tied && tokens != REDCOI_TP_NONE;
    b->slot = 1;
    layer->classes[1] = class_index;
    redcoi_tp_weights_find(b->base->model, b->base->roles, class_index, &layer->weights[1]);
    const redco_status st = redcoi_tp_check_weights(b, needed, tied ? 0 : 1, err);
    if (st != REDCO_OK) { return st; }
    redcoi_tp_operators(b, class_index);
    const uint64_t vocab = b->dims->vocab, h = b->dims->hidden, ranks = b->ranks;
    uint64_t in = h;
    uint32_t at = redcoi_tp_add_source(b, REDCO_OP_ROLE_FINAL_NORM, (double)h);
    const redco_param *const project = weight(b, REDCOI_TP_PROJECT_OUT);
    if (project != NULL) {
        in = project->shape[0];
        const struct redcoi_tp_linear linear = {in, ceil_div(in, ranks), h, ceil_div(h, ranks), true, true};
        at = redcoi_tp_add_linear(b, REDCOI_TP_PROJECT_OUT, REDCO_OP_ROLE_NONE, &linear, at);
    }
    const struct redcoi_tp_linear linear = {vocab, ceil_div(vocab, ranks), in, ceil_div(in, ranks), true, true};
    const uint32_t head = redcoi_tp_add_linear(b, REDCOI_TP_HEAD, REDCO_OP_ROLE_HEAD, &linear, at);
    /* Partial sums are there at full width. What plans its memory reduces them where they are; of that, the loss has
     * its own part. */
    const uint64_t own = plans_memory(b) ? redco_share_up(b->tokens, ceil_div(vocab, ranks), 1) : 0;
    for (uint32_t o = 0; o < b->graph->nodes[head].option_count; o++) {
        redcoi_tp_option *const option = &b->graph->nodes[head].options[o];
        if (option->split != REDCOI_TP_ROW) { continue; }
        option->legal = false;
        option->bytes = (uint64_t)b->element_bytes * (redco_share_up(b->tokens, vocab, 1) - own);
    }
    add_loss(b, head);
    if (tied) { tie_head(b, head, tokens); }
    return REDCO_OK;
}

redco_status redcoi_tp_build_edges(const redcoi_tp_base *base, uint32_t embedding, uint32_t head,
                                   redcoi_tp_layer *layer_out, redco_error *err)
{
    struct redcoi_tp_builder b;
    redco_status st = REDCO_OK;
    redcoi_tp_open(&b, base, layer_out);
    if (embedding != UINT32_MAX) { st = add_embedding(&b, embedding, err); }
    if (st == REDCO_OK && head != UINT32_MAX) { st = add_head(&b, head, layer_out->node[0][REDCOI_TP_TOKENS], err); }
    return st == REDCO_OK ? redcoi_tp_price(&layer_out->graph, err) : st;
}
