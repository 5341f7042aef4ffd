#include "language_fixture.h"

#include "costmodel/graph/differentiate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct module {
    const char *part; /**< part of a matrix's or table's name */
    uint32_t dim;
} module;

/** The first that stands in the name decides. */
static const module modules[] = {{"norm", 2},
                                 {"ln_", 2},
                                 {"wpe", 0},
                                 {"embed_positions", 0},
                                 {"wte", 0},
                                 {"embed_tokens", 0},
                                 {"embed_in", 0},
                                 {"lm_head", 1},
                                 {"embed_out", 1},
                                 {"attn.c_proj", 0},
                                 {"mlp.c_proj", 0},
                                 {"c_attn", 1},
                                 {"c_fc", 1},
                                 {"out_proj", 0},
                                 {"o_proj", 0},
                                 {"q_proj", 1},
                                 {"k_proj", 1},
                                 {"v_proj", 1},
                                 {"gate_proj", 1},
                                 {"up_proj", 1},
                                 {"down_proj", 0},
                                 {"fc_in", 1},
                                 {"fc_out", 0},
                                 {"fc1", 1},
                                 {"fc2", 0},
                                 {"query_key_value", 1},
                                 {"wqkv", 1},
                                 {"Wqkv", 1},
                                 {"attention.wo", 0},
                                 {"feed_forward.w2", 0},
                                 {"feed_forward.w", 1},
                                 {"self_attention.dense", 0},
                                 {"relative_attention_bias", 1},
                                 {"Attention.o", 0},
                                 {"Attention.", 1},
                                 {"DenseReluDense.wo", 0},
                                 {"DenseReluDense.wi", 1},
                                 {"shared", 0},
                                 {"word_embeddings", 0},
                                 {"tok_embeddings", 0},
                                 {"attention.dense", 0},
                                 {"4h_to_h", 0},
                                 {"h_to_4h", 1}};

redco_tp_layout language_layout(const redco_task_parameter *parameter, const redco_tensor_type *type, uint32_t ranks)
{
    for (size_t i = 0; i < sizeof modules / sizeof modules[0] && parameter->rank == 2; i++) {
        if (strstr(parameter->name, modules[i].part) == NULL) { continue; }
        redco_tp_layout layout = {REDCO_TP_SPLIT, modules[i].dim, 1};
        if (modules[i].dim == 1 && parameter->blocks > 1) { layout.blocks = parameter->blocks; }
        return redco_tp_fits(layout, type, ranks) ? layout : redco_tp_replicated();
    }
    return redco_tp_replicated();
}

static void must(redco_status st, const char *path, const redco_error *err)
{
    if (st != REDCO_OK) { fail_msg("%s: %s: %s", path, err->place, err->text); }
}

static redco_status partition(language *l, const redco_task_graph *built, const language_shape *shape, redco_error *err)
{
    static redco_partition_output wanted[LANGUAGE_PARAMETERS_MAX + 1];
    static redco_tp_input inputs[LANGUAGE_PARAMETERS_MAX];
    const uint64_t length = shape->length;
    const uint32_t count = (uint32_t)l->task->parameter_count;
    wanted[0] = (redco_partition_output){built->loss, NULL};
    for (uint32_t i = 0; i < count; i++) {
        const redco_task_parameter *const p = &l->task->parameters[i];
        const redco_tensor_type type = redco_task_parameter_type(p, shape->dtype);
        inputs[i] = (redco_tp_input){.name = p->name,
                                     .layout = shape->layout != NULL
                                                   ? shape->layout(shape->context, l->task, i, &type, shape->ranks)
                                                   : language_layout(p, &type, shape->ranks)};
        wanted[i + 1] = (redco_partition_output){built->gradients[i], p->name};
    }
    const redco_partition_options options = {.group = {0, shape->ranks},
                                             .rank = shape->rank,
                                             .inputs = inputs,
                                             .input_count = count,
                                             .sequence_parallel = shape->sequence_parallel,
                                             .batch = shape->sequences,
                                             .sequences = &length,
                                             .sequence_count = 1};
    return redco_partition(built->graph, wanted, count + 1, &options, &l->graph, l->outputs, err);
}

void language_open(language *l, const char *path, const language_shape *shape)
{
    const redco_task_options options = {shape->dtype, shape->dtype, true, true, 1};
    redco_task_graph built = {.graph = NULL};
    redco_error err = {0};
    *l = (language){.graph = NULL};
    must(redco_model_read(path, &l->model, &err), path, &err);
    must(redco_language_model_create(l->model, shape->sequences, shape->length, &l->lm, &err), path, &err);
    l->task = redco_language_model_task(l->lm);
    assert_true(l->task->parameter_count <= LANGUAGE_PARAMETERS_MAX);
    l->output_count = (uint32_t)l->task->parameter_count + 1;
    must(redco_task_build(l->task, &options, &built, &err), path, &err);
    if (shape->ranks > 1) {
        must(partition(l, &built, shape, &err), path, &err);
    } else {
        l->outputs[0] = built.loss;
        memcpy(l->outputs + 1, built.gradients, l->task->parameter_count * sizeof *l->outputs);
        l->graph = built.graph;
        built.graph = NULL;
    }
    redco_task_graph_free(&built);
}

static uint64_t mix(uint64_t seed, uint64_t i)
{
    uint64_t z = (seed + 1) * 0x9E3779B97F4A7C15 + (i + 1) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}

/* bf16 and f32 by their bits, so that this needs no backend. */
static void fill(void *data, const redco_tensor_type *type, uint64_t seed, uint64_t vocabulary)
{
    const uint64_t elements = redco_type_elements(type);
    for (uint64_t i = 0; i < elements; i++) {
        const uint64_t random = mix(seed, i);
        const float real = ((float)(random >> 40) * 0x1p-24F - 0.5F) * 0.25F;
        uint32_t bits;
        memcpy(&bits, &real, sizeof bits);
        switch (type->dtype) {
        case REDCO_F64: ((double *)data)[i] = (double)real; break;
        case REDCO_F32: ((float *)data)[i] = real; break;
        case REDCO_BFLOAT16: ((uint16_t *)data)[i] = (uint16_t)(bits >> 16); break;
        default: ((int32_t *)data)[i] = (int32_t)(random % vocabulary); break;
        }
    }
}

void language_data(language *l)
{
    const uint64_t vocabulary = redco_model_get_dims(l->model)->vocab;
    for (uint32_t i = 0; i < redco_graph_op_count(l->graph); i++) {
        const redco_op *const op = redco_graph_op(l->graph, i);
        if (op->kind != REDCO_OP_INPUT) { continue; }
        const redco_tensor_type *const type = redco_value_type(l->graph, op->first_output);
        const char *const name = redco_value_name(l->graph, op->first_output);
        uint64_t seed = 0;
        for (const char *at = name; *at != '\0'; at++) { seed = mix(seed, (uint64_t)*at); }
        void *const data = malloc(redco_type_bytes(type) + 1);
        assert_non_null(data);
        fill(data, type, seed, vocabulary);
        l->bindings[l->binding_count++] = (redco_binding){op->first_output, data};
    }
}

uint32_t language_rebind(const language *l, const redco_graph *graph, redco_binding *bindings_out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < l->binding_count; i++) {
        const redco_value value = redco_graph_find_input(graph, redco_value_name(l->graph, l->bindings[i].value));
        if (value != REDCO_NO_VALUE) { bindings_out[count++] = (redco_binding){value, l->bindings[i].data}; }
    }
    return count;
}

void language_close(language *l)
{
    for (uint32_t i = 0; i < l->binding_count; i++) { free((void *)(uintptr_t)l->bindings[i].data); }
    redco_graph_free(l->graph);
    redco_language_model_free(l->lm);
    redco_model_free(l->model);
    *l = (language){.graph = NULL};
}
