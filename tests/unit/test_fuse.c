/* Graphs whose elementwise operators were fused against the graphs as they were: not one bit of a result differs. What
 * the pass promises (fuse.h) on models of all families and on random graphs. REDCO_TEST_ROUNDS, REDCO_TEST_SEED: more,
 * or other, random graphs. */
#include "evaluate_planned.h"
#include "language_fixture.h"
#include "random_elementwise.h"

#include "costmodel/graph/build_calls.h"
#include "costmodel/graph/differentiate.h"
#include "costmodel/graph/fuse.h"
#include "costmodel/graph/fuse_matmul.h"
#include "costmodel/graph/pointwise_program.h"
#include "costmodel/graph/transform.h"
#include "costmodel/kept/recompute.h"
#include "executor/backend/host/host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static redco_backend *host(void **state)
{
    return *state;
}

static void must(redco_status st, const redco_error *err)
{
    if (st != REDCO_OK) { fail_msg("%s: %s", err->place, err->text); }
}

/* Models */

enum { SEQUENCES = 2, LENGTH = 12, POLICIES = 3, NAME_BYTES = 200 };

static const char *const configs[] = {"llama", "llama-scaled", "mistral", "qwen2",    "qwen3",
                                      "gpt2",  "gpt2-variant", "gptj",    "gpt_neox", "gpt_neox-sequential",
                                      "opt",   "opt-post-norm"};
enum { CONFIGS = sizeof configs / sizeof configs[0] };

static redco_recompute policy_of(void *context, const char *layer)
{
    return strncmp(layer, "block.", 6) == 0 ? *(const redco_recompute *)context : REDCO_RECOMPUTE_NONE;
}

/** The graph that a rank runs, before it is fused. */
static redco_graph *rank_graph(const language *l, redco_recompute policy, bool sequence_parallel, redco_value *outputs)
{
    const redco_recompute_options options = {policy_of, &policy, sequence_parallel};
    redco_graph *graph = NULL;
    redco_error err = {0};
    must(redco_recompute_graph(l->graph, l->outputs, l->output_count, &options, &graph, outputs, &err), &err);
    return graph;
}

static bool has_name(const redco_graph *graph, const char *name)
{
    char other[NAME_BYTES];
    for (uint32_t i = 0; i < redco_graph_op_count(graph); i++) {
        if (strcmp(redco_op_name(graph, redco_graph_op(graph, i), other, sizeof other), name) == 0) { return true; }
    }
    return false;
}

/** @return the number of operators of one kind; for REDCO_OP_COUNT, of those that are no elementwise ones, constants or
 * views. */
static uint32_t count_kind(const redco_graph *graph, redco_op_kind kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < redco_graph_op_count(graph); i++) {
        const redco_op *const op = redco_graph_op(graph, i);
        const bool other = redco_op_kind_class(op->kind) != REDCO_CLASS_ELEMENTWISE && op->kind != REDCO_OP_CONSTANT &&
                           !redco_op_is_view(op->kind);
        count += (kind == REDCO_OP_COUNT ? other : op->kind == kind) ? 1 : 0;
    }
    return count;
}

static bool same_graph(const redco_graph *a, const redco_graph *b)
{
    if (redco_graph_op_count(a) != redco_graph_op_count(b)) { return false; }
    for (uint32_t i = 0; i < redco_graph_op_count(a); i++) {
        const redco_op *const x = redco_graph_op(a, i), *const y = redco_graph_op(b, i);
        char of_x[NAME_BYTES], of_y[NAME_BYTES];
        if (x->kind != y->kind || x->input_count != y->input_count || x->output_count != y->output_count ||
            x->copy != y->copy || x->order != y->order || x->origin != y->origin || x->toward != y->toward ||
            memcmp(&x->attributes, &y->attributes, sizeof x->attributes) != 0 ||
            (x->input_count > 0 && memcmp(x->inputs, y->inputs, x->input_count * sizeof *x->inputs) != 0) ||
            strcmp(redco_op_name(a, x, of_x, sizeof of_x), redco_op_name(b, y, of_y, sizeof of_y)) != 0) {
            return false;
        }
    }
    return true;
}

/** Nothing is there for nobody. */
static void check_live(const redco_graph *graph, const redco_value *outputs, uint32_t count)
{
    bool *const live = calloc((size_t)redco_graph_op_count(graph) + 1, sizeof *live);
    assert_non_null(live);
    redco_graph_live(graph, outputs, count, live);
    for (uint32_t i = 0; i < redco_graph_op_count(graph); i++) { assert_true(live[i]); }
    for (uint32_t i = 0; i < redco_graph_op_count(graph); i++) { /* nor is a result of a program */
        const redco_op *const op = redco_graph_op(graph, i);
        for (uint32_t k = 0; op->kind == REDCO_OP_POINTWISE && k < op->output_count; k++) {
            bool read = false;
            for (uint32_t n = i + 1; n < redco_graph_op_count(graph) && !read; n++) {
                const redco_op *const reader = redco_graph_op(graph, n);
                for (uint32_t m = 0; m < reader->input_count; m++) {
                    read = read || reader->inputs[m] == op->first_output + k;
                }
            }
            for (uint32_t n = 0; n < count && !read; n++) { read = outputs[n] == op->first_output + k; }
            assert_true(read);
        }
    }
    free(live);
}

static bool decompose_programs(const redco_op *op, void *context)
{
    (void)context;
    return op->kind == REDCO_OP_POINTWISE;
}

/** The pass's promises. @p outputs  of both graphs. */
static void check_promises(const redco_graph *before, const redco_value *outputs, const redco_graph *after,
                           const redco_value *after_outputs, uint32_t count, const redco_fuse_options *options)
{
    redco_graph *again = NULL, *plain = NULL;
    redco_error err = {0};
    char name[NAME_BYTES];
    const uint64_t had = redco_graph_elementwise_bytes(before, outputs, count, NULL, NULL);
    const uint64_t has = redco_graph_elementwise_bytes(after, after_outputs, count, NULL, NULL);
    assert_true(has <= had);
    check_live(after, after_outputs, count);
    for (uint32_t i = 0; i < redco_graph_op_count(after); i++) {
        const redco_op *const op = redco_graph_op(after, i);
        for (uint32_t k = 0; k < op->input_count; k++) { assert_true(op->inputs[k] < op->first_output); }
        if (op->origin != REDCO_NO_OP) { assert_true(op->origin < op->id); }
        if (op->operator_name[0] == '\0') { continue; } /* it is called after its kind */
        assert_true(has_name(before, redco_op_name(after, op, name, sizeof name)));
    }
    redco_value *const values = calloc((size_t)count + redco_graph_value_count(after) + 1, sizeof *values);
    assert_non_null(values);
    must(redco_graph_fuse(after, after_outputs, count, options, &again, values, &err), &err);
    assert_true(same_graph(after, again));
    /* Taken apart it is made of the operators that there were, some of them twice. */
    must(redco_graph_extract(after, after_outputs, count, decompose_programs, NULL, &plain, values, &err), &err);
    assert_int_equal(count_kind(plain, REDCO_OP_POINTWISE), 0);
    assert_int_equal(count_kind(plain, REDCO_OP_COUNT), count_kind(after, REDCO_OP_COUNT));
    free(values);
    redco_graph_free(again);
    redco_graph_free(plain);
}

typedef struct outcome {
    redco_result results[LANGUAGE_PARAMETERS_MAX + 1];
    uint32_t count;
    uint64_t arena_bytes;
} outcome;

/* Run from an arena whose freed parts are filled with not-a-number. */
static void run(redco_backend *backend, const language *l, const redco_graph *graph, const redco_value *outputs,
                outcome *o)
{
    static redco_binding bindings[LANGUAGE_PARAMETERS_MAX + 3];
    const redco_lifetimes_options lifetimes = {.order = NULL};
    redco_memory_plan plan;
    redco_error err = {0};
    o->count = l->output_count;
    for (uint32_t i = 0; i < o->count; i++) {
        o->results[i] = (redco_result){outputs[i], malloc(redco_type_bytes(redco_value_type(graph, outputs[i])) + 1)};
    }
    const uint32_t bound = language_rebind(l, graph, bindings);
    must(redco_evaluate_planned(backend, NULL, graph, &lifetimes, bindings, bound, o->results, o->count, true, &plan,
                                &err),
         &err);
    o->arena_bytes = plan.arena.live_bytes;
    redco_memory_plan_free(&plan);
}

static void discard(outcome *o)
{
    for (uint32_t i = 0; i < o->count; i++) { free(o->results[i].data); }
}

static void check_model(redco_backend *backend, const language *l, redco_recompute policy, bool keep_all)
{
    static redco_value outputs[LANGUAGE_PARAMETERS_MAX + 1], fused_outputs[LANGUAGE_PARAMETERS_MAX + 1];
    const redco_fuse_options options = {.keep_all = keep_all};
    redco_graph *const graph = rank_graph(l, policy, false, outputs), *fused = NULL;
    outcome want, have;
    redco_error err = {0};
    must(redco_graph_fuse(graph, outputs, l->output_count, &options, &fused, fused_outputs, &err), &err);
    assert_true(count_kind(fused, REDCO_OP_POINTWISE) > 0);
    check_promises(graph, outputs, fused, fused_outputs, l->output_count, &options);
    run(backend, l, graph, outputs, &want);
    run(backend, l, fused, fused_outputs, &have);
    for (uint32_t i = 0; i < l->output_count; i++) {
        const size_t bytes = redco_type_bytes(redco_value_type(graph, outputs[i]));
        if (memcmp(have.results[i].data, want.results[i].data, bytes) != 0) {
            fail_msg("%s differs", i == 0 ? "the loss" : l->task->parameters[i - 1].name);
        }
    }
    if (have.arena_bytes > want.arena_bytes)
        printf("%s %u %d %lu > %lu\n", l->task->parameters[5].name, policy, keep_all, have.arena_bytes,
               want.arena_bytes);
    discard(&want);
    discard(&have);
    redco_graph_free(graph);
    redco_graph_free(fused);
}

static void models_are_the_same(void **state)
{
    static const redco_dtype dtypes[] = {REDCO_F32, REDCO_F64, REDCO_BFLOAT16};
    for (uint32_t c = 0; c < CONFIGS; c++) {
        char path[512];
        (void)snprintf(path, sizeof path, "%s/models/oracle/%s.json", REDCO_TEST_DATA, configs[c]);
        for (uint32_t d = 0; d < 3; d++) {
            const language_shape shape = {dtypes[d], SEQUENCES, LENGTH, 1, 0, false, NULL, NULL};
            language l;
            language_open(&l, path, &shape);
            language_data(&l);
            for (uint32_t p = 0; p < POLICIES; p++) {
                check_model(host(state), &l, executed_policy(p), false);
                check_model(host(state), &l, executed_policy(p), true);
            }
            language_close(&l);
        }
    }
}

/* The promises alone, where results need other ranks. */
static void graphs_of_ranks_keep_the_promises(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < CONFIGS; c++) {
        char path[512];
        (void)snprintf(path, sizeof path, "%s/models/oracle/%s.json", REDCO_TEST_DATA, configs[c]);
        for (uint32_t ranks = 2; ranks <= 4; ranks += 2) {
            for (uint32_t p = 0; p < POLICIES; p++) {
                static redco_value outputs[LANGUAGE_PARAMETERS_MAX + 1], fused_outputs[LANGUAGE_PARAMETERS_MAX + 1];
                const bool split = p % 2 == 0;
                const language_shape shape = {REDCO_BFLOAT16, SEQUENCES, LENGTH, ranks, 1, split, NULL, NULL};
                redco_graph *fused = NULL;
                redco_error err = {0};
                language l;
                language_open(&l, path, &shape);
                redco_graph *const graph = rank_graph(&l, executed_policy(p), split, outputs);
                must(redco_graph_fuse(graph, outputs, l.output_count, NULL, &fused, fused_outputs, &err), &err);
                check_promises(graph, outputs, fused, fused_outputs, l.output_count, NULL);
                redco_graph_free(graph);
                redco_graph_free(fused);
                language_close(&l);
            }
        }
    }
}

/* In published models: what elementwise operators of a block move per token, forward and backward, and how long that
 * takes an H200 at 4.8 TB/s (vendor data sheet), beside products at 60 % of its 989 TFLOP/s: an estimate, not measured.
 */

static bool is_of_block(void *context, const redco_op *op)
{
    (void)context;
    return strcmp(op->layer, "block.1") == 0;
}

static bool everything(void *context, const redco_op *op, const redco_tensor_type *inputs,
                       const redco_tensor_type *outputs)
{
    (void)context;
    (void)op;
    (void)inputs;
    (void)outputs;
    return true;
}

typedef struct block_moves {
    uint64_t before, kept, after;   /**< operator by operator; fused, with and without values that are made again */
    uint64_t products, of_products; /**< where products have taken along what they can: before, after */
} block_moves;

static uint64_t fused_bytes(const language *l, const redco_graph *graph, const redco_value *outputs, bool keep_all)
{
    static redco_value fused_outputs[LANGUAGE_PARAMETERS_MAX + 1];
    const redco_fuse_options options = {.keep_all = keep_all};
    redco_graph *fused = NULL;
    redco_error err = {0};
    must(redco_graph_fuse(graph, outputs, l->output_count, &options, &fused, fused_outputs, &err), &err);
    const uint64_t bytes = redco_graph_elementwise_bytes(fused, fused_outputs, l->output_count, is_of_block, NULL);
    redco_graph_free(fused);
    return bytes;
}

static block_moves moves_of(const char *model, redco_recompute policy)
{
    static redco_value outputs[LANGUAGE_PARAMETERS_MAX + 1], product_outputs[LANGUAGE_PARAMETERS_MAX + 1];
    const language_shape shape = {REDCO_BFLOAT16, 1, 1024, 1, 0, false, NULL, NULL};
    const redco_fuse_choice all = {everything, NULL};
    redco_graph *products = NULL;
    redco_error err = {0};
    language l;
    language_open(&l, model, &shape);
    redco_graph *const graph = rank_graph(&l, policy, false, outputs);
    must(redco_graph_fuse_matmul(graph, outputs, l.output_count, &all, &products, product_outputs, &err), &err);
    const block_moves m = {
        .before = redco_graph_elementwise_bytes(graph, outputs, l.output_count, is_of_block, NULL),
        .kept = fused_bytes(&l, graph, outputs, true),
        .after = fused_bytes(&l, graph, outputs, false),
        .products = redco_graph_elementwise_bytes(products, product_outputs, l.output_count, is_of_block, NULL),
        .of_products = fused_bytes(&l, products, product_outputs, false)};
    redco_graph_free(graph);
    redco_graph_free(products);
    language_close(&l);
    return m;
}

static void bytes_of_models(void **state)
{
    static const char *const models[] = {"llama-7b", "mistral-7b", "qwen2-7b",    "gpt2-xl",
                                         "opt-13b",  "gpt-j-6b",   "gpt-neox-20b"};
    const uint64_t tokens = 1024, d = 4096, f = 11008;
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        redco_model *model = NULL;
        redco_error err = {0};
        must(redco_model_read(models[i], &model, &err), &err);
        const double parameters = (double)redco_model_params(model), layers = redco_model_get_dims(model)->layers;
        redco_model_free(model);
        for (uint32_t policy = 0; policy < POLICIES; policy += 2) {
            const block_moves m = moves_of(models[i], executed_policy(policy));
            const double a_token = 1e-3 / (double)tokens;
            const double saved_s = layers * (double)(m.products - m.of_products) / (double)tokens / 4.8e12;
            const double step_s = 6 * parameters / (0.6 * 989e12);
            printf(
                "%-12s %-4s a block moves %7.1f kB a token, fused %7.1f, with gates made again %7.1f | where products "
                "take along %7.1f, fused %7.1f: all blocks %5.2f us less, %4.1f %% of the products\n",
                models[i], policy == 0 ? "none" : "full", (double)m.before * a_token, (double)m.kept * a_token,
                (double)m.after * a_token, (double)m.products * a_token, (double)m.of_products * a_token, saved_s * 1e6,
                100 * saved_s / step_s);
            assert_true(m.after <= m.kept && m.kept <= m.before && m.of_products <= m.products);
            /* Seven sums of three tensors; the gate's forward of 5 and backward of 9, 4 and 6, 3 and 5. */
            if (i == 0 && policy == 0) {
                assert_int_equal(m.before, 2 * tokens * (21 * d + 14 * f));
                assert_int_equal(m.kept, 2 * tokens * (21 * d + 10 * f));
                assert_int_equal(m.after, 2 * tokens * (21 * d + 8 * f));
            }
        }
    }
}

/* By hand */

typedef struct small {
    redco_graph *g;
    redco_tensor_type row; /**< bf16[4,64] */
} small;

static small small_open(void)
{
    small s = {.g = redco_graph_create(), .row = redco_type(REDCO_BFLOAT16, 2, (uint64_t[]){4, 64})};
    assert_non_null(s.g);
    redco_graph_set_layer(s.g, "block.0");
    redco_graph_set_operator(s.g, "activation");
    return s;
}

static redco_graph *fuse(const small *s, const redco_value *outputs, uint32_t count, redco_value *outputs_out,
                         const redco_fuse_options *options)
{
    redco_graph *fused = NULL;
    redco_error err = {0};
    must(redco_graph_fuse(s->g, outputs, count, options, &fused, outputs_out, &err), &err);
    check_promises(s->g, outputs, fused, outputs_out, count, options);
    return fused;
}

/* Forward writes the product, not the activated gate; backward makes the gate again. Tensors of 512 bytes: forward
 * moved 2 + 3 and moves 3, backward 3 + 3 + 3 and 5; keeping the gate, 4 and 6. */
static void a_gate_is_made_again(void **state)
{
    small s = small_open();
    redco_value kept[3];
    (void)state;
    const redco_value x = redco_parameter(s.g, "x", &s.row), y = redco_parameter(s.g, "y", &s.row);
    const redco_value product = redco_mul(s.g, redco_silu(s.g, x), y);
    const redco_value seed = redco_input(s.g, "seed", &s.row);
    redco_value results[3] = {product, 0, 0};
    redco_vector_jacobian(s.g, &product, &seed, 1, (redco_value[]){x, y}, 2, results + 1);
    assert_int_equal(redco_graph_elementwise_bytes(s.g, results, 3, NULL, NULL), (5 + 9) * 512);
    redco_graph *const fused = fuse(&s, results, 3, kept, NULL);
    assert_int_equal(count_kind(fused, REDCO_OP_POINTWISE), 2);
    assert_int_equal(redco_graph_elementwise_bytes(fused, kept, 3, NULL, NULL), (3 + 5) * 512);
    const redco_op *const forward = redco_value_op(fused, kept[0]), *const backward = redco_value_op(fused, kept[1]);
    assert_int_equal(forward->output_count, 1);
    assert_int_equal(backward->output_count, 2);
    assert_int_equal(backward->order, 1);
    redco_graph_free(fused);

    const redco_fuse_options keep = {.keep_all = true};
    redco_graph *const keeping = fuse(&s, results, 3, kept, &keep);
    assert_int_equal(redco_graph_elementwise_bytes(keeping, kept, 3, NULL, NULL), (4 + 6) * 512);
    redco_graph_free(keeping);
    redco_graph_free(s.g);
}

static bool nothing(void *context, const redco_op *op, const redco_tensor_type *inputs,
                    const redco_tensor_type *outputs)
{
    (void)inputs;
    (void)outputs;
    ++*(uint32_t *)context;
    assert_int_equal(op->kind, REDCO_OP_POINTWISE);
    return false;
}

static void a_device_may_decline(void **state)
{
    small s = small_open();
    uint32_t asked = 0;
    const redco_fuse_options options = {.choice = {nothing, &asked}};
    redco_value out;
    (void)state;
    const redco_value x = redco_input(s.g, "x", &s.row), y = redco_exp(s.g, redco_neg(s.g, x));
    redco_graph *const fused = fuse(&s, &y, 1, &out, &options);
    assert_true(same_graph(s.g, fused));
    assert_true(asked > 0);
    redco_graph_free(fused);
    redco_graph_free(s.g);
}

/* Two operators of the step, two layers, two copies, forward and gradient: never one. */
static void names_stay(void **state)
{
    (void)state;
    for (uint32_t what = 0; what < 4; what++) {
        small s = small_open();
        const redco_value x = redco_input(s.g, "x", &s.row), y = redco_exp(s.g, x);
        redco_value out;
        if (what == 1) { redco_graph_set_layer(s.g, "block.1"); }
        if (what == 2) { redco_graph_set_operator(s.g, "out"); }
        if (what == 3) { redco_graph_set_copy(s.g, 1); }
        const redco_value z = redco_neg(s.g, y);
        /* A cheap value may be made again elsewhere, but that is not what this is about. */
        redco_graph *const fused = fuse(&s, &z, 1, &out, &(redco_fuse_options){.keep_all = true});
        assert_int_equal(count_kind(fused, REDCO_OP_POINTWISE), what == 0 ? 1 : 0);
        redco_graph_free(fused);
        redco_graph_free(s.g);
    }
}

/* A product between two parts reads the first: they cannot both stand behind it. */
static void what_is_read_before_stays(void **state)
{
    small s = small_open();
    redco_value out;
    (void)state;
    const redco_value x = redco_input(s.g, "x", &s.row), y = redco_exp(s.g, x);
    const redco_value z = redco_add(s.g, y, redco_matmul(s.g, redco_matmul(s.g, y, y, false, true), y, false, false));
    redco_graph *const fused = fuse(&s, &z, 1, &out, NULL);
    assert_int_equal(count_kind(fused, REDCO_OP_POINTWISE), 0);
    redco_graph_free(fused);
    redco_graph_free(s.g);
}

/* A sum of two that waits for a third product would keep both beside it: one tensor more. A sum of one would not. */
static void memory_is_not_held_longer(void **state)
{
    (void)state;
    for (uint32_t summands = 1; summands <= 2; summands++) {
        small s = small_open();
        const redco_value x = redco_input(s.g, "x", &s.row), w = redco_matmul(s.g, x, x, true, false);
        redco_value part = redco_matmul(s.g, x, w, false, false), out;
        part = summands == 1
                   ? redco_neg(s.g, part)
                   : redco_add(s.g, part, redco_matmul(s.g, x, redco_matmul(s.g, w, w, false, false), false, false));
        const redco_value z =
            redco_add(s.g, part, redco_matmul(s.g, x, redco_matmul(s.g, w, w, true, false), false, false));
        redco_graph *const fused = fuse(&s, &z, 1, &out, NULL);
        assert_int_equal(count_kind(fused, REDCO_OP_POINTWISE), summands == 1 ? 1 : 0);
        redco_graph_free(fused);
        redco_graph_free(s.g);
    }
}

/* Operators that share an input are one with two results; constants become part of it. */
static void readers_of_one_value_share_it(void **state)
{
    small s = small_open();
    redco_value out[2];
    (void)state;
    const redco_value x = redco_input(s.g, "x", &s.row);
    const redco_value results[2] = {redco_scale(s.g, x, 3), redco_pow(s.g, x, 2.5)};
    redco_graph *const fused = fuse(&s, results, 2, out, NULL);
    assert_int_equal(count_kind(fused, REDCO_OP_POINTWISE), 1);
    assert_int_equal(count_kind(fused, REDCO_OP_CONSTANT), 0);
    const redco_op *const op = redco_value_op(fused, out[0]);
    assert_int_equal(op->output_count, 2);
    assert_int_equal(op->input_count, 1);
    redco_graph_free(fused);
    redco_graph_free(s.g);
}

/* Programs */

static redco_pointwise sample_program(void)
{
    redco_pointwise p;
    memset(&p, 0, sizeof p);
    p.input_count = 2;
    p.steps[0] = (redco_pointwise_step){REDCO_OP_ADD, {0, 1, 0}};
    p.steps[1] = (redco_pointwise_step){REDCO_OP_CONSTANT, {0, REDCO_F32, 0}};
    p.steps[2] = (redco_pointwise_step){REDCO_OP_LT, {2, 3, 0}};
    p.steps[3] = (redco_pointwise_step){REDCO_OP_SELECT, {4, 0, 1}};
    p.step_count = 4;
    p.constants[0] = 0.5;
    p.constant_count = 1;
    p.outputs[0] = 5;
    p.outputs[1] = 4;
    p.output_count = 2;
    return p;
}

static void programs_come_back(void **state)
{
    const redco_pointwise p = sample_program();
    redco_pointwise q;
    redco_attributes attributes;
    (void)state;
    redco_pointwise_pack(&p, &attributes);
    assert_true(redco_pointwise_unpack(&attributes, 2, &q));
    assert_memory_equal(&p, &q, sizeof p);
    const redco_tensor_type inputs[2] = {redco_type(REDCO_F32, 2, (uint64_t[]){3, 5}),
                                         redco_type(REDCO_F32, 2, (uint64_t[]){1, 5})};
    redco_tensor_type types[REDCO_POINTWISE_OPERANDS_MAX];
    redco_error err = {0};
    must(redco_pointwise_types(&p, inputs, "here", types, &err), &err);
    assert_int_equal(types[4].dtype, REDCO_BOOL);
    assert_true(redco_type_equal(&types[5], &inputs[0]));
    /* Inputs have registers 0 and 1. The sum is the first of three values that are alive while both are read again; the
     * constant needs a fourth; the comparison takes the sum's, the choice an input's. */
    uint8_t at[REDCO_POINTWISE_OPERANDS_MAX];
    assert_int_equal(redco_pointwise_registers(&p, at), 4);
    assert_int_equal(at[2], 2);
    assert_int_equal(at[3], 3);
    assert_int_equal(at[4], 2);
    assert_int_equal(at[5], 0);
}

/* Attributes of any bytes: no program, or one whose parts may be looked at. */
static void hostile_programs_are_refused(void **state)
{
    uint64_t random = 77;
    uint32_t sound = 0;
    (void)state;
    for (uint32_t n = 0; n < 200000; n++) {
        redco_attributes attributes;
        redco_pointwise p = sample_program();
        redco_pointwise_pack(&p, &attributes);
        unsigned char *const bytes = (unsigned char *)&attributes;
        for (uint32_t k = 0; k < 1 + n % 4; k++) {
            random = random * 6364136223846793005U + 1442695040888963407U;
            bytes[(random >> 33) % sizeof attributes] = (unsigned char)(random >> 20);
        }
        const uint32_t inputs = n % 11;
        if (!redco_pointwise_unpack(&attributes, inputs, &p)) { continue; }
        sound++;
        assert_true(p.step_count <= REDCO_POINTWISE_STEPS_MAX && p.output_count <= REDCO_OUTPUTS_MAX);
        const redco_tensor_type type = redco_type(REDCO_F32, 1, (uint64_t[]){4});
        redco_tensor_type in[REDCO_POINTWISE_INPUTS_MAX], types[REDCO_POINTWISE_OPERANDS_MAX];
        uint8_t at[REDCO_POINTWISE_OPERANDS_MAX];
        for (uint32_t i = 0; i < inputs; i++) { in[i] = type; }
        redco_error err = {0};
        (void)redco_pointwise_types(&p, in, "here", types, &err);
        assert_true(redco_pointwise_registers(&p, at) <= REDCO_POINTWISE_OPERANDS_MAX);
    }
    assert_true(sound > 1000);
    redco_graph *const g = redco_graph_create();
    const redco_tensor_type type = redco_type(REDCO_F32, 1, (uint64_t[]){4});
    const redco_value x = redco_input(g, "x", &type);
    redco_value out[REDCO_OUTPUTS_MAX];
    redco_error err = {0};
    redco_graph_apply(g, REDCO_OP_POINTWISE, &x, 1, NULL, out);
    assert_int_equal(redco_graph_status(g, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "no program"));
    redco_graph_free(g);
}

/* Random graphs */

/** Programs of at most so many steps, of some types: what the pass does must not depend on a device that has all. */
static bool some(void *context, const redco_op *op, const redco_tensor_type *inputs, const redco_tensor_type *outputs)
{
    const uint32_t limit = *(const uint32_t *)context;
    redco_pointwise p;
    assert_true(redco_pointwise_unpack(&op->attributes, op->input_count, &p));
    for (uint32_t i = 0; i < op->input_count && limit % 3 == 0; i++) {
        if (inputs[i].dtype == REDCO_F64) { return false; }
    }
    (void)outputs;
    return p.step_count <= limit;
}

typedef struct tally {
    uint64_t graphs, operators, programs, steps, made_again, results;
    uint64_t bytes_before, bytes_after;
} tally;

static void check_random(redco_backend *backend, uint64_t seed, tally *t)
{
    static const redco_dtype dtypes[] = {REDCO_F32, REDCO_BFLOAT16, REDCO_F16, REDCO_F64, REDCO_I32, REDCO_BOOL};
    static elementwise_graph m;
    redco_binding rebound[ELEMENTWISE_INPUTS];
    redco_result want[ELEMENTWISE_RESULTS], have[ELEMENTWISE_RESULTS];
    redco_value fused_outputs[ELEMENTWISE_RESULTS];
    redco_graph *fused = NULL;
    redco_error err = {0};
    elementwise_make(&m, seed, dtypes, 6);
    must(redco_graph_status(m.g, &err), &err);
    const uint32_t results = m.output_count;
    const redco_value *const outputs = m.outputs;
    uint32_t limit = 1 + elementwise_below(&m, 40);
    const redco_fuse_options options = {.choice = {elementwise_below(&m, 3) == 0 ? some : NULL, &limit},
                                        .keep_all = elementwise_below(&m, 4) == 0};
    must(redco_graph_fuse(m.g, outputs, results, &options, &fused, fused_outputs, &err), &err);
    check_promises(m.g, outputs, fused, fused_outputs, results, &options);
    const uint32_t bound = elementwise_rebind(&m, fused, rebound);
    for (uint32_t i = 0; i < results; i++) {
        const size_t bytes = redco_type_bytes(redco_value_type(m.g, outputs[i]));
        want[i] = (redco_result){outputs[i], malloc(bytes)};
        have[i] = (redco_result){fused_outputs[i], malloc(bytes)};
    }
    const redco_lifetimes_options lifetimes = {.order = NULL};
    must(redco_evaluate(backend, m.g, m.bindings, ELEMENTWISE_INPUTS, want, results, &err), &err);
    must(redco_evaluate_planned(backend, NULL, fused, &lifetimes, rebound, bound, have, results, true, NULL, &err),
         &err);
    for (uint32_t i = 0; i < results; i++) {
        const size_t bytes = redco_type_bytes(redco_value_type(m.g, outputs[i]));
        if (memcmp(want[i].data, have[i].data, bytes) != 0) {
            fail_msg("seed %llu: result %u differs", (unsigned long long)seed, i);
        }
        free(want[i].data);
        free(have[i].data);
    }
    t->graphs++;
    t->operators += redco_graph_op_count(m.g);
    t->bytes_before += redco_graph_elementwise_bytes(m.g, outputs, results, NULL, NULL);
    t->bytes_after += redco_graph_elementwise_bytes(fused, fused_outputs, results, NULL, NULL);
    for (uint32_t i = 0; i < redco_graph_op_count(fused); i++) {
        const redco_op *const op = redco_graph_op(fused, i);
        redco_pointwise p;
        if (op->kind != REDCO_OP_POINTWISE || !redco_pointwise_unpack(&op->attributes, op->input_count, &p)) {
            continue;
        }
        t->programs++;
        t->steps += p.step_count;
        t->results += p.output_count;
    }
    redco_graph_free(m.g);
    redco_graph_free(fused);
}

static void random_graphs_are_the_same(void **state)
{
    const char *const rounds = getenv("REDCO_TEST_ROUNDS"), *const seed = getenv("REDCO_TEST_SEED");
    const uint64_t count = rounds == NULL ? 2000 : strtoull(rounds, NULL, 10);
    const uint64_t first = seed == NULL ? 1 : strtoull(seed, NULL, 10);
    tally t = {0};
    for (uint64_t i = 0; i < count; i++) { check_random(host(state), first + i, &t); }
    printf("%llu random graphs of %llu operators: %llu programs of %llu steps and %llu results; bytes moved %llu, "
           "now %llu\n",
           (unsigned long long)t.graphs, (unsigned long long)t.operators, (unsigned long long)t.programs,
           (unsigned long long)t.steps, (unsigned long long)t.results, (unsigned long long)t.bytes_before,
           (unsigned long long)t.bytes_after);
    assert_true(t.programs > t.graphs && t.steps > 2 * t.programs && t.results > t.programs);
    assert_true(t.bytes_after < t.bytes_before);
}

static int open_host(void **state)
{
    redco_backend *backend = NULL;
    redco_error err = {0};
    if (redco_host_open(NULL, &backend, &err) != REDCO_OK) { return 1; }
    *state = backend;
    return 0;
}

static int close_host(void **state)
{
    redco_backend_close(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_gate_is_made_again),
                                       cmocka_unit_test(a_device_may_decline),
                                       cmocka_unit_test(names_stay),
                                       cmocka_unit_test(what_is_read_before_stays),
                                       cmocka_unit_test(memory_is_not_held_longer),
                                       cmocka_unit_test(readers_of_one_value_share_it),
                                       cmocka_unit_test(programs_come_back),
                                       cmocka_unit_test(hostile_programs_are_refused),
                                       cmocka_unit_test(random_graphs_are_the_same),
                                       cmocka_unit_test(models_are_the_same),
                                       cmocka_unit_test(graphs_of_ranks_keep_the_promises),
                                       cmocka_unit_test(bytes_of_models)};
    return cmocka_run_group_tests_name("fusion", tests, open_host, close_host);
}
