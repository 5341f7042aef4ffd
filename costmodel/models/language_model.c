#include "costmodel/models/language_model.h"

#include "costmodel/graph/differentiate.h"
#include "costmodel/models/family.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ids of tokens are i32, and a layer's index is part of a name. */
static const uint64_t vocabulary_max = INT32_MAX;

static redco_status not_built(const redco_model *model, redco_error *err)
{
    char known[REDCOI_FAMILY_NAMES_SIZE];
    if (model->dims.adapter_rank > 0) {
        return redco_fail(err, REDCO_EVALUE, redco_model_name(model),
                          "has adapters, which the executor does not build; plan with --trainable all");
    }
    return redco_fail(err, REDCO_EVALUE, redco_model_name(model),
                      "is of type \"%s\", which the executor does not build; it builds %s", redco_model_type(model),
                      redcoi_family_names(true, known));
}

static redco_initial initial_of(const redco_language_model *lm, const redco_param *param)
{
    switch (param->role) {
    case REDCO_PARAM_KERNEL:
    case REDCO_PARAM_BIAS: return (redco_initial){.kind = REDCO_INITIAL_ZERO};
    case REDCO_PARAM_LAYER_NORM:
    case REDCO_PARAM_RMS_NORM:
        return (redco_initial){.kind = lm->family->gain_is_added ? REDCO_INITIAL_ZERO : REDCO_INITIAL_ONE};
    case REDCO_PARAM_CONV1D: /* GPT-2: less where sums of residuals grow with depth */
        if (param->use == REDCO_USE_OUTPUT || param->use == REDCO_USE_DOWN) {
            return (redco_initial){REDCO_INITIAL_NORMAL, lm->set.deviation / sqrt(2.0 * lm->dims->layers)};
        }
        break;
    case REDCO_PARAM_LINEAR:
    case REDCO_PARAM_TABLE:
        if (lm->family->deviation_of == NULL) { break; }
        return (redco_initial){REDCO_INITIAL_NORMAL, lm->family->deviation_of(lm, param->use)};
    }
    return (redco_initial){REDCO_INITIAL_NORMAL, lm->set.deviation};
}

/* @param at  a layer of the run, from 0 */
static bool add_parameter(redco_language_model *lm, const redco_layer_run *run, const redco_param *param, uint32_t at)
{
    char name[REDCOI_MODEL_NAME_SIZE], place[40];
    redco_task_parameter *const p = &lm->parameters[lm->task.parameter_count++];
    (void)snprintf(place, sizeof place, "%s.%u", lm->model->classes[run->class_index].name, run->first + at);
    *p = (redco_task_parameter){.name = strdup(redcoi_param_name(param, run->index + at, name)),
                                .layer = strdup(place),
                                .rank = param->rank,
                                .transposed = param->role == REDCO_PARAM_LINEAR,
                                .blocks = redcoi_use_blocks(lm->model, param->use),
                                .initial = initial_of(lm, param)};
    for (uint32_t i = 0; i < param->rank; i++) { p->dim[i] = param->shape[p->transposed ? param->rank - 1 - i : i]; }
    return p->name != NULL && p->layer != NULL;
}

/* Layer by layer: the order in which they are used. */
static redco_status list_parameters(redco_language_model *lm, redco_error *err)
{
    const redco_layer_run *runs = NULL;
    const redco_param *params = NULL;
    const size_t run_count = redco_model_order(lm->model, &runs);
    const size_t param_count = redco_model_tensors(lm->model, &params);
    size_t count = 0;
    for (size_t i = 0; i < param_count; i++) { count += params[i].count; }
    lm->parameters = calloc(count + 1, sizeof *lm->parameters);
    bool kept = lm->parameters != NULL;
    for (size_t r = 0; r < run_count; r++) {
        for (uint32_t at = 0; at < runs[r].layers && kept; at++) {
            for (size_t i = 0; i < param_count && kept; i++) {
                if (params[i].class_index == runs[r].class_index) {
                    kept = add_parameter(lm, &runs[r], &params[i], at);
                }
            }
        }
    }
    return kept ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, redco_model_name(lm->model), "no memory for its parameters");
}

static redco_status check_shape(const redco_language_model *lm, uint32_t micro_batch, uint32_t seq_len,
                                redco_error *err)
{
    const redco_model_dims *const d = lm->dims;
    const char *const name = redco_model_name(lm->model);
    if (micro_batch == 0 || seq_len == 0) {
        return redco_fail(err, REDCO_EVALUE, name, "a micro-batch of %u sequences of %u tokens is empty", micro_batch,
                          seq_len);
    }
    if (d->max_positions > 0 && seq_len > d->max_positions) {
        return redco_fail(err, REDCO_EVALUE, name, "sequences of %u tokens; its table has %u positions", seq_len,
                          d->max_positions);
    }
    if (d->vocab > vocabulary_max) {
        return redco_fail(err, REDCO_EVALUE, name, "a vocabulary of %llu; ids of tokens are below %llu",
                          (unsigned long long)d->vocab, (unsigned long long)vocabulary_max);
    }
    const int32_t start = lm->set.start_token, pad = lm->set.pad_token;
    if ((uint64_t)start >= d->vocab || (uint64_t)pad >= d->vocab) {
        return redco_fail(err, REDCO_EVALUE, name,
                          "decoder_start_token_id is %d and pad_token_id %d; ids of tokens are below vocab_size = %llu",
                          start, pad, (unsigned long long)d->vocab);
    }
    if (lm->set.rope.kind == REDCOI_ROPE_DYNAMIC && (double)seq_len > lm->set.rope.old_positions) {
        return redco_fail(err, REDCO_EVALUE, name,
                          "sequences of %u tokens; from %.0f on its rotary positions depend on the length (dynamic), "
                          "which the executor does not build",
                          seq_len, lm->set.rope.old_positions);
    }
    if (lm->set.rope.size % 2 != 0) {
        return redco_fail(err, REDCO_EVALUE, name, "heads of %u elements; rotary positions need an even number",
                          d->head_dim);
    }
    return REDCO_OK;
}

redcoi_pass redcoi_lm_pass_begin(redco_scope *scope, const redco_language_model *lm, uint64_t batch, uint64_t length)
{
    return (redcoi_pass){.scope = scope,
                         .g = scope->graph,
                         .lm = lm,
                         .set = &lm->set,
                         .dims = lm->dims,
                         .batch = batch,
                         .length = length,
                         .tokens = REDCO_NO_VALUE,
                         .cosines = REDCO_NO_VALUE,
                         .sines = REDCO_NO_VALUE,
                         .window_cosines = REDCO_NO_VALUE,
                         .window_sines = REDCO_NO_VALUE,
                         .encoded = REDCO_NO_VALUE,
                         .bias = REDCO_NO_VALUE,
                         .positions = REDCO_NO_VALUE,
                         .source_lengths = REDCO_NO_VALUE};
}

redco_value redcoi_lm_stack(redcoi_pass *p, redco_class_kind kind, redco_value (*block)(redcoi_pass *p, redco_value x),
                            redco_value x)
{
    const redco_layer_run *runs = NULL;
    char layer[40];
    const size_t count = redco_model_order(p->lm->model, &runs);
    for (size_t r = 0; r < count; r++) {
        const redco_layer_class *const class = &p->lm->model->classes[runs[r].class_index];
        p->class_index = runs[r].class_index;
        for (uint32_t at = 0; at < runs[r].layers && class->kind == kind; at++) {
            (void)snprintf(layer, sizeof layer, "%s.%u", class->name, runs[r].first + at);
            redco_graph_set_layer(p->g, layer);
            p->layer = runs[r].index + at;
            x = block(p, x);
        }
    }
    return x;
}

/* Tokens as the stack takes them, and the bias of scores that its layers share. */
static redco_value embedded(redcoi_pass *p, redco_value tokens, bool source)
{
    const redco_value x = redcoi_lm_embed(p, tokens, source);
    redcoi_lm_score_bias(p, source);
    return x;
}

redco_value redcoi_lm_encode(redcoi_pass *p, redco_value source)
{
    redco_value x = redcoi_lm_stack(p, REDCO_CLASS_BLOCK, redcoi_lm_block, embedded(p, source, true));
    if (redcoi_model_has(p->lm->model, REDCO_USE_ENCODER_FINAL_NORM)) {
        x = redcoi_lm_norm(p, REDCO_USE_ENCODER_FINAL_NORM, x);
    }
    p->class_index = 0;
    redco_graph_set_layer(p->g, "embedding.0");
    return x;
}

redco_value redcoi_lm_decode(redcoi_pass *p, redco_value tokens)
{
    const redco_class_kind kind = p->dims->encoder_layers > 0 ? REDCO_CLASS_CROSS : REDCO_CLASS_BLOCK;
    redco_value x = embedded(p, tokens, false);
    redcoi_lm_rotary_tables(p);
    x = redcoi_lm_stack(p, kind, redcoi_lm_block, x);
    redco_graph_set_layer(p->g, "head.0");
    return x;
}

/* @param source  tokens of the encoder, REDCO_NO_VALUE without one */
static redco_value logits_of(redco_scope *scope, const redco_language_model *lm, redco_value tokens, redco_value source)
{
    if (tokens >= redco_graph_value_count(scope->graph)) { return REDCO_NO_VALUE; }
    const redco_tensor_type *const type = redco_value_type(scope->graph, tokens);
    redcoi_pass p = redcoi_lm_pass_begin(scope, lm, type->dim[0], type->dim[1]);
    redco_graph_set_layer(p.g, "embedding.0");
    if (redco_scope_has(scope, "lengths")) { p.source_lengths = redco_scope_value(scope, "lengths"); }
    if (lm->dims->encoder_layers > 0) { p.encoded = redcoi_lm_encode(&p, source); }
    return redcoi_lm_head(&p, redcoi_lm_decode(&p, tokens));
}

redco_value redco_language_model_logits(redco_scope *scope, const redco_language_model *lm, redco_value tokens)
{
    const bool known = tokens < redco_graph_value_count(scope->graph);
    const uint32_t rank = known ? redco_value_type(scope->graph, tokens)->rank : 2;
    if (rank == 2 && lm->dims->encoder_layers == 0) { return logits_of(scope, lm, tokens, REDCO_NO_VALUE); }
    if (rank != 2) {
        (void)redco_fail(&scope->error, REDCO_EVALUE, lm->task.name, "tokens have %u dimensions; 2 are needed", rank);
    } else {
        (void)redco_fail(&scope->error, REDCO_EVALUE, lm->task.name,
                         "is an encoder-decoder model, whose logits need a source as well");
    }
    return REDCO_NO_VALUE;
}

/* The decoder's input: the targets, each one place later, behind the start token; what is not asked for is padding. */
static redco_value shifted(redco_scope *scope, const redco_language_model *lm, redco_value targets)
{
    redco_graph *const g = scope->graph;
    if (targets >= redco_graph_value_count(g)) { return REDCO_NO_VALUE; }
    redco_tensor_type type = *redco_value_type(g, targets);
    const uint64_t length = type.dim[1];
    redco_graph_set_layer(g, "embedding.0");
    redco_graph_set_role(g, REDCO_OP_ROLE_EMBEDDING);
    type.dim[1] = 1;
    const redco_value start = redco_constant(g, &type, (double)lm->set.start_token);
    if (length == 1) { return start; }
    const redco_value zero = redco_scalar(g, REDCO_I32, 0.0);
    const redco_value pad = redco_scalar(g, REDCO_I32, (double)lm->set.pad_token);
    const redco_value before = redco_slice_axis(g, targets, 1, 0, length - 1);
    const redco_value parts[2] = {start, redco_select(g, redco_less(g, before, zero), pad, before)};
    return redco_concat(g, parts, 2, 1);
}

/* Targets below 0 count in neither sum; of a micro-batch without any other the loss is 0. */
static redco_value loss_of(redco_scope *scope, const void *context)
{
    redco_graph *const g = scope->graph;
    const redco_language_model *const lm = context;
    const redco_value tokens = redco_scope_value(scope, "tokens"), targets = redco_scope_value(scope, "targets");
    const redco_value logits = lm->dims->encoder_layers > 0 ? logits_of(scope, lm, shifted(scope, lm, targets), tokens)
                                                            : logits_of(scope, lm, tokens, REDCO_NO_VALUE);
    redco_graph_set_role(g, REDCO_OP_ROLE_LOSS);
    return redco_cross_entropy_mean(g, logits, targets);
}

/* The number that the first layer of a class has in its stack. */
static uint32_t first_index(const redco_model *model, uint32_t class_index)
{
    size_t r = 0;
    while (model->runs[r].class_index != class_index) { r++; }
    return model->runs[r].index;
}

static void declare_params(const redco_language_model *lm, redco_graph *g, redco_value *params_out)
{
    char name[REDCOI_MODEL_NAME_SIZE];
    const redco_param *params = NULL;
    const size_t count = redco_model_tensors(lm->model, &params);
    for (size_t i = 0; i < count; i++) {
        const redco_param *const p = &params[i];
        params_out[i] = REDCO_NO_VALUE; /* an adapter's products are in records, not in graphs */
        if (p->adapter != REDCO_ADAPTER_NONE) { continue; }
        redco_tensor_type type = redco_type(REDCO_BFLOAT16, p->rank, p->shape);
        if (p->role == REDCO_PARAM_LINEAR) { /* [out, in], or one for each expert, to [in, out] */
            type.dim[p->rank - 1] = p->shape[p->rank - 2];
            type.dim[p->rank - 2] = p->shape[p->rank - 1];
        }
        params_out[i] = redco_parameter(g, redcoi_param_name(p, first_index(lm->model, p->class_index), name), &type);
    }
}

/* Adds the gradients of the layer's weights, the table among them, which the head may use, and of its input. */
static void add_gradients(const redco_language_model *lm, uint32_t class_index, redcoi_class_values *values,
                          redco_graph *g)
{
    const redco_value seed = redco_input(g, "gradient", redco_value_type(g, values->result));
    values->wanted[values->wanted_count++] = values->input;
    for (size_t i = 0; i < lm->model->param_count && values->wanted_count < REDCOI_CLASS_PARAMS; i++) {
        const redco_param *const p = &lm->model->params[i];
        const bool own = p->class_index == class_index || p->use == REDCO_USE_TABLE;
        if (own && p->adapter == REDCO_ADAPTER_NONE) { values->wanted[values->wanted_count++] = values->params[i]; }
    }
    redco_vector_jacobian(g, &values->result, &seed, 1, values->wanted, values->wanted_count, values->gradients);
}

/* Biases of scores that the embedding makes for all layers: ALiBi's of numbers alone, T5's of a table. */
static void declare_bias(redcoi_pass *p)
{
    const uint64_t heads = p->dims->heads;
    const redco_tensor_type type = redco_type(REDCO_F32, 4, (const uint64_t[]){1, heads, p->length, p->length});
    if (p->dims->positions == REDCO_POSITIONS_ALIBI) { redcoi_lm_score_bias(p, false); }
    if (p->dims->positions == REDCO_POSITIONS_RELATIVE) { p->bias = redco_input(p->g, "bias", &type); }
}

redco_status redcoi_class_graph(const redco_language_model *lm, uint32_t class_index, uint64_t batch, uint64_t length,
                                redcoi_class_values *values, redco_graph *graph, redco_error *err)
{
    redco_scope scope = {.graph = graph, .compute = REDCO_BFLOAT16, .training = true, .key = REDCO_NO_VALUE};
    redcoi_pass p = redcoi_lm_pass_begin(&scope, lm, batch, length);
    const redco_tensor_type ids = redco_type(REDCO_I32, 2, (const uint64_t[]){batch, length});
    const redco_tensor_type hidden = redco_type(REDCO_BFLOAT16, 3, (const uint64_t[]){batch, length, lm->dims->hidden});
    declare_params(lm, graph, values->params);
    const redco_value tokens = redco_input(graph, "tokens", &ids), x = redco_input(graph, "x", &hidden);
    values->input = x;
    values->wanted_count = 0;
    const redco_class_kind kind = lm->model->classes[class_index].kind;
    p.class_index = class_index;
    p.layer = first_index(lm->model, class_index);
    p.tokens = tokens;
    p.encoded = values->encoded = redco_input(graph, "encoded", &hidden);
    if (redco_class_is_block(kind)) {
        redcoi_lm_rotary_tables(&p);
        declare_bias(&p);
    }
    values->first_op = redco_graph_op_count(graph);
    switch (kind) {
    case REDCO_CLASS_EMBEDDING:
        values->result = embedded(&p, tokens, false);
        if (lm->dims->encoder_layers > 0) { (void)embedded(&p, tokens, true); }
        break;
    case REDCO_CLASS_BLOCK:
    case REDCO_CLASS_CROSS: values->result = redcoi_lm_block(&p, x); break;
    case REDCO_CLASS_HEAD: {
        const redco_value logits = redcoi_lm_head(&p, x);
        redco_graph_set_role(graph, REDCO_OP_ROLE_LOSS);
        values->result = redco_cross_entropy(graph, logits, tokens, true);
        break;
    }
    }
    values->end_op = redco_graph_op_count(graph);
    if (scope.error.status != REDCO_OK) {
        return redco_fail(err, scope.error.status, scope.error.place, "%s", scope.error.text);
    }
    add_gradients(lm, class_index, values, graph);
    return redco_graph_status(graph, err);
}

static void describe_task(redco_language_model *lm, uint32_t micro_batch, uint32_t seq_len)
{
    const redco_tensor_type batch = redco_type(REDCO_I32, 2, (const uint64_t[]){micro_batch, seq_len});
    lm->inputs[0] = (redco_task_input){"tokens", batch};
    lm->inputs[1] = (redco_task_input){"targets", batch};
    lm->task.name = redco_model_name(lm->model);
    lm->task.parameters = lm->parameters;
    lm->task.inputs = lm->inputs;
    lm->task.input_count = 2;
    lm->task.loss = loss_of;
    lm->task.context = lm;
}

redco_status redco_language_model_create(const redco_model *model, uint32_t micro_batch, uint32_t seq_len,
                                         redco_language_model **language_model_out, redco_error *err)
{
    const redcoi_family *const family = model->family;
    if (family->untrained || redco_model_is_paired(model)) { return not_built(model, err); }
    redco_language_model *lm = calloc(1, sizeof *lm);
    if (lm == NULL) { return redco_fail(err, REDCO_ENOMEM, redco_model_name(model), "no memory for it"); }
    *lm = (redco_language_model){
        .model = model, .dims = redco_model_get_dims(model), .family = family, .qkv = family->qkv};
    redcoi_build reader = {.config = redco_json_wrap(redco_model_config(model), redco_model_name(model)), .err = err};
    redcoi_settings_read(&reader, family, lm->dims, &lm->set);
    redco_status st = reader.status;
    if (st == REDCO_OK) { st = check_shape(lm, micro_batch, seq_len, err); }
    if (st == REDCO_OK) { st = list_parameters(lm, err); }
    if (st == REDCO_OK) {
        describe_task(lm, micro_batch, seq_len);
        *language_model_out = lm;
        lm = NULL;
    }
    redco_language_model_free(lm);
    return st;
}

void redco_language_model_free(redco_language_model *lm)
{
    if (lm == NULL) { return; }
    for (size_t i = 0; i < lm->task.parameter_count; i++) {
        free((char *)(uintptr_t)lm->parameters[i].name);
        free((char *)(uintptr_t)lm->parameters[i].layer);
    }
    free(lm->parameters);
    free(lm->prefix);
    free(lm);
}

redco_status redco_language_model_rename(redco_language_model *lm, const char *prefix, redco_error *err)
{
    const size_t length = strlen(prefix);
    if (length > REDCO_PREFIX_MAX || lm->prefix != NULL) {
        return redco_fail(err, REDCO_EVALUE, lm->task.name, "\"%.80s\": one prefix of at most %d bytes is possible",
                          prefix, REDCO_PREFIX_MAX);
    }
    lm->prefix = strdup(prefix);
    bool enough = lm->prefix != NULL;
    for (size_t i = 0; i < lm->task.parameter_count && enough; i++) {
        char *const old = (char *)(uintptr_t)lm->parameters[i].name, *const name = malloc(length + strlen(old) + 1);
        enough = name != NULL;
        if (!enough) { break; }
        memcpy(name, prefix, length);
        memcpy(name + length, old, strlen(old) + 1);
        lm->parameters[i].name = name;
        free(old);
    }
    return enough ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, lm->task.name, "no memory for its names");
}

const redco_model *redco_language_model_of(const redco_language_model *lm)
{
    return lm->model;
}

const redco_task *redco_language_model_task(const redco_language_model *lm)
{
    return &lm->task;
}
