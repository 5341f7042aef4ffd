/* Rules of what training software keeps for backward against sums by hand, against what the gradients of each family's
 * graph read, and broken rule files. */
#include "costmodel/closed_form/memory_saved.h"
#include "costmodel/models/layer_probe.h"
#include "costmodel/models/model.h"
#include "tests/unit/recomputed.h"
#include "topology/base/preset.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { T = 128 /* tokens */, RANKS = 4 };

static redco_model *read_model(const char *preset)
{
    redco_model *model = NULL;
    redco_error err = {0};
    if (redco_model_read(preset, &model, &err) != REDCO_OK) { fail_msg("%s: %s", preset, err.text); }
    return model;
}

/* @param norms  plain: norms of several kernels */
static redco_shape shape_of(uint32_t tp, bool sequence_parallel, bool plain_norm)
{
    return (redco_shape){.seq_len = T,
                         .micro_batch = 1,
                         .tp = tp,
                         .cp = 1,
                         .sequence_parallel = sequence_parallel,
                         .precision = REDCO_BF16,
                         .engine = {.plain_norm = plain_norm}};
}

static uint64_t kept(const redco_model *model, uint32_t class_index, const redco_shape *shape, redco_saver saver)
{
    return redco_saved_of(model, class_index, shape, saver, &not_recomputed).kept;
}

/* Bytes a token, by hand from what each framework's functions save: h hidden, q and k the widths of queries and keys, f
 * that of the FFN, a heads. Of formulas, whose factor is 11/10: ten times the bytes. */
static void five_families_by_hand(void **state)
{
    enum { h7 = 4096, f7 = 11008, h2 = 768, f2 = 3072, h3 = 4096, k3 = 1024, f3 = 12288, hx = 6144, fx = 24576 };
    enum { ht = 1024, qt = 16384, ft = 65536 };
    static const struct {
        const char *preset;
        uint32_t class_index;
        uint64_t bytes[REDCO_SAVER_PLANNED]; /* te, local, eager, compiled, by-op, xla, remat, copies, 10 x formulas */
    } wanted[] = {
        /* RMSNorm, a gate, 32 heads */
        {"llama-7b",
         1,
         {8 * h7 + 8 * h7 + 6 * f7 + 4 * 32 + 8, 8 * h7 + 10 * h7 + 8 * f7 + 4 * 32 + 8,
          8 * h7 + 8 * h7 + 8 * f7 + 4 * 32 + 8, 8 * h7 + 8 * h7 + 6 * f7 + 4 * 32 + 8,
          4 * h7 + 6 * h7 + 2 * f7 + 4 * 32, 4 * h7 + 8 * h7 + 4 * f7 + 4 * 32 + 8, 2 * h7 + 6 * h7,
          8 * h7 + 10 * h7 + 8 * f7 + 4 * 32 + 8, 100 * h7 + 11 * (8 * h7 + 8 * f7)}},
        /* LayerNorm with means, no gate, dropout masks, 12 heads; by formulas masks take the place of the factor */
        {"gpt2",
         1,
         {10 * h2 + 8 * h2 + 4 * f2 + 4 * 12 + 16, 10 * h2 + 10 * h2 + 4 * f2 + 4 * 12 + 16,
          10 * h2 + 8 * h2 + 4 * f2 + 4 * 12 + 16, 10 * h2 + 8 * h2 + 4 * f2 + 4 * 12 + 16,
          4 * h2 + 6 * h2 + 2 * f2 + 4 * 12, 6 * h2 + 8 * h2 + 2 * f2 + 4 * 12 + 16, 2 * h2 + 6 * h2,
          10 * h2 + 10 * h2 + 4 * f2 + 4 * 12 + 16, 100 * h2 + 10 * (8 * h2 + 4 * f2)}},
        /* a norm of each head of queries (32) and keys (8): its input and a statistic */
        {"qwen3-8b",
         1,
         {8 * h3 + 6 * h3 + 6 * k3 + 6 * f3 + 4 * 32 + 8 + 4 * 40, 8 * h3 + 8 * h3 + 6 * k3 + 8 * f3 + 4 * 32 + 8 + 160,
          8 * h3 + 6 * h3 + 6 * k3 + 8 * f3 + 4 * 32 + 8 + 160, 8 * h3 + 6 * h3 + 6 * k3 + 6 * f3 + 4 * 32 + 8 + 160,
          4 * h3 + 4 * h3 + 2 * k3 + 2 * f3 + 4 * 32, 4 * h3 + 6 * h3 + 6 * k3 + 4 * f3 + 4 * 32 + 8 + 160,
          2 * h3 + 2 * h3 + 4 * k3, 8 * h3 + 8 * h3 + 6 * k3 + 8 * f3 + 4 * 32 + 8 + 160,
          100 * h3 + 11 * (6 * h3 + 6 * k3 + 8 * f3)}},
        /* two norms of one input */
        {"gpt-neox-20b",
         1,
         {6 * hx + 8 * hx + 4 * fx + 4 * 64 + 16, 6 * hx + 10 * hx + 4 * fx + 4 * 64 + 16,
          6 * hx + 8 * hx + 4 * fx + 4 * 64 + 16, 6 * hx + 8 * hx + 4 * fx + 4 * 64 + 16,
          4 * hx + 6 * hx + 2 * fx + 4 * 64, 2 * hx + 8 * hx + 2 * fx + 4 * 64 + 16, 2 * hx + 6 * hx,
          6 * hx + 10 * hx + 4 * fx + 4 * 64 + 16, 80 * hx + 11 * (8 * hx + 4 * fx)}},
        /* a decoder: three norms, two attentions of 128 heads, dropout, ReLU, of which eager PyTorch keeps the output
         * alone; the encoder's output is not its own */
        {"t5-11b",
         2,
         {15 * ht + 16 * qt + 4 * ft + 8 * 128 + 12, 15 * ht + 20 * qt + 4 * ft + 8 * 128 + 12,
          15 * ht + 16 * qt + 2 * ft + 8 * 128 + 12, 15 * ht + 16 * qt + 3 * ft + 8 * 128 + 12,
          4 * ht + 12 * qt + 2 * ft + 8 * 128, 9 * ht + 16 * qt + 2 * ft + 8 * 128 + 12, 2 * ht + 12 * qt,
          15 * ht + 20 * qt + 2 * ft + 8 * 128 + 12, 150 * ht + 10 * (16 * qt + 4 * ft)}},
    };
    const redco_shape shape = shape_of(1, false, false);
    (void)state;
    for (size_t w = 0; w < sizeof wanted / sizeof wanted[0]; w++) {
        redco_model *const model = read_model(wanted[w].preset);
        for (int s = 0; s < REDCO_SAVER_PLANNED; s++) {
            const uint64_t bytes = kept(model, wanted[w].class_index, &shape, (redco_saver)s);
            const uint64_t hand = T * wanted[w].bytes[s];
            const uint64_t rounded = s == REDCO_SAVER_FORMULAS ? (hand + 9) / 10 : hand;
            if (bytes != rounded) {
                fail_msg("%s, %s: %llu, by hand %llu", wanted[w].preset, redco_saver_words[s],
                         (unsigned long long)bytes, (unsigned long long)rounded);
            }
        }
        redco_model_free(model);
    }
}

/* Norms of several kernels keep 32-bit copies and what the weight multiplies. */
static void plain_norms(void **state)
{
    redco_model *const model = read_model("llama-7b");
    const uint64_t h = 4096, two[] = {8, 8, 8, 0}; /* te, local, eager: 4 + 2 in place of 2 of two norms; compiled: 2 */
    const redco_shape fused = shape_of(1, false, false), plain = shape_of(1, false, true);
    (void)state;
    for (int s = 0; s <= REDCO_SAVER_COMPILED; s++) {
        assert_int_equal(kept(model, 1, &plain, (redco_saver)s) - kept(model, 1, &fused, (redco_saver)s),
                         T * two[s] * h);
    }
    assert_int_equal(kept(model, 1, &plain, REDCO_SAVER_COPIES) - kept(model, 1, &fused, REDCO_SAVER_COPIES),
                     T * 12 * h);
    assert_int_equal(kept(model, 1, &plain, REDCO_SAVER_FORMULAS) - kept(model, 1, &fused, REDCO_SAVER_FORMULAS),
                     T * 14 * h);
    redco_model_free(model);
}

/* Tensor parallelism cuts heads and the FFN; ranks that share sequences split the rest, but for what PyTorch keeps as
 * it was gathered. */
static void ranks_hold_their_parts(void **state)
{
    redco_model *const model = read_model("llama-7b");
    const uint64_t h = 4096, f = 11008;
    const redco_shape alone = shape_of(RANKS, false, false), shared = shape_of(RANKS, true, false);
    const uint64_t cut = (8 * h + 6 * f + 4 * 32) / RANKS, whole = 8 * h + 8;
    (void)state;
    assert_int_equal(kept(model, 1, &alone, REDCO_SAVER_TE), T * (cut + whole));
    assert_int_equal(kept(model, 1, &shared, REDCO_SAVER_TE), T * (cut + whole / RANKS));
    const uint64_t eager = (8 * h + 8 * f + 4 * 32) / RANKS;
    assert_int_equal(kept(model, 1, &shared, REDCO_SAVER_EAGER), T * (eager + 4 * h + (4 * h + 8) / RANKS));
    redco_shape grouped = shape_of(16, false, false);
    redco_model *const few = read_model("qwen3-8b"); /* 8 KV heads: one of each rank of 16 */
    assert_int_equal(kept(few, 1, &grouped, REDCO_SAVER_TE),
                     T * (8 * h + 8 + (6 * h + 6 * 12288 + 4 * 32 + 4 * 32) / 16 + 6 * 128 + 4));
    redco_model_free(few);
    redco_model_free(model);
}

static redco_saved_bytes saved_of(const redco_model *model, const redco_shape *shape, redco_saver saver,
                                  redco_recompute set)
{
    const redco_recompute_list one = {{set}, 1};
    return redco_saved_of(model, 1, shape, saver, &one);
}

static void policies_free_their_tensors(void **state)
{
    redco_model *const model = read_model("llama-7b");
    const uint64_t h = 4096, f = 11008;
    redco_shape shape = shape_of(1, false, false);
    (void)state;
    redco_saved_bytes saved = saved_of(model, &shape, REDCO_SAVER_LOCAL, REDCO_RECOMPUTE_MLP);
    assert_int_equal(saved.freed[0], T * 8 * f); /* the activated gate, too */
    saved = saved_of(model, &shape, REDCO_SAVER_TE, REDCO_RECOMPUTE_MLP);
    assert_int_equal(saved.freed[0], T * (6 * f + 2 * h)); /* its norm is in the first product's kernel */
    saved = saved_of(model, &shape, REDCO_SAVER_LOCAL, REDCO_RECOMPUTE_CORE_ATTN);
    assert_int_equal(saved.freed[0], T * 4 * 32);
    saved = saved_of(model, &shape, REDCO_SAVER_FORMULAS, REDCO_RECOMPUTE_CORE_ATTN);
    assert_int_equal(saved.freed[0], T * (2 * h + 4 * 32));
    saved = saved_of(model, &shape, REDCO_SAVER_PLANNED, REDCO_RECOMPUTE_CORE_ATTN);
    assert_int_equal(saved.freed[0], T * (2 * h + 4 * 32));
    /* Two norms: what they make, 2 bytes, and a statistic of 4 a row. In the kernels of products they are no module. */
    const redco_recompute both = REDCO_RECOMPUTE_LAYERNORM | REDCO_RECOMPUTE_MLP;
    saved = saved_of(model, &shape, REDCO_SAVER_LOCAL, REDCO_RECOMPUTE_LAYERNORM);
    assert_int_equal(saved.freed[0], T * 2 * (2 * h + 4));
    saved = saved_of(model, &shape, REDCO_SAVER_LOCAL, both);
    assert_int_equal(saved.freed[0], T * (2 * (2 * h + 4) + 8 * f));
    saved = saved_of(model, &shape, REDCO_SAVER_TE, REDCO_RECOMPUTE_LAYERNORM);
    assert_int_equal(saved.freed[0], 0);
    saved = saved_of(model, &shape, REDCO_SAVER_TE, both); /* its norm once */
    assert_int_equal(saved.freed[0], T * (6 * f + 2 * h));
    saved = saved_of(model, &shape, REDCO_SAVER_LOCAL, REDCO_RECOMPUTE_MOE_ACT); /* there are none */
    assert_int_equal(saved.freed[0], 0);
    /* Scores that are written: 5 bytes of each with a fused softmax, and then no statistics. */
    shape.engine.attention = REDCO_ATTENTION_FUSED;
    saved = saved_of(model, &shape, REDCO_SAVER_LOCAL, REDCO_RECOMPUTE_CORE_ATTN);
    assert_int_equal(saved.freed[0], (uint64_t)T * T * 32 * 5);
    assert_int_equal(saved.kept, T * (16 * h + 8 * f + 8) + saved.freed[0]);
    saved = saved_of(model, &shape, REDCO_SAVER_FORMULAS, REDCO_RECOMPUTE_CORE_ATTN);
    assert_int_equal(saved.freed[0], (uint64_t)T * T * 32 * 5); /* beside the factor */
    redco_model_free(model);
}

/* 8-bit products keep 8-bit operands, and attention's output in both; training in 32 bits twice of all, but for
 * redco-exec's statistics, which have 32 bits in any. */
static void widths(void **state)
{
    redco_model *const model = read_model("llama-7b");
    const uint64_t h = 4096, f = 11008;
    redco_shape shape = shape_of(1, false, false);
    (void)state;
    shape.engine.gemm_format = REDCO_GEMM_FP8;
    assert_int_equal(kept(model, 1, &shape, REDCO_SAVER_TE), T * (6 * h + 9 * h + 5 * f + 4 * 32 + 8));
    shape = shape_of(1, false, false);
    shape.precision = REDCO_FP32;
    assert_int_equal(kept(model, 1, &shape, REDCO_SAVER_TE), T * 2 * (16 * h + 6 * f + 4 * 32 + 8));
    assert_int_equal(kept(model, 1, &shape, REDCO_SAVER_PLANNED), T * (4 * (8 * h + 4 * f) + 4 * 32 + 8));
    redco_model_free(model);
}

/* Sums what the gradients of a class's graph read of its forward pass, each tensor once: 16-bit elements and numbers of
 * 32 bits, at probe sizes. Without logits and what the loss keeps of them. */
static void read_by_gradients(const redcoi_probe *probe, uint64_t *elements_out, uint64_t *numbers_out)
{
    const redco_graph *const g = probe->g;
    bool *const seen = calloc((size_t)redco_graph_value_count(g) + 1, sizeof *seen);
    assert_non_null(seen);
    *elements_out = *numbers_out = 0;
    for (uint32_t o = probe->values.end_op; o < redco_graph_op_count(g); o++) {
        const redco_op *const op = redco_graph_op(g, o);
        for (uint32_t i = 0; op->order > 0 && !redco_op_is_view(op->kind) && i < op->input_count; i++) {
            redco_value value = op->inputs[i];
            const redco_op *maker = redco_value_op(g, value);
            for (; redco_op_is_view(maker->kind); maker = redco_value_op(g, value)) { value = maker->inputs[0]; }
            const redco_extent extent = redcoi_probe_elements(probe, value);
            const bool own = value == probe->values.input ||
                             (redcoi_probe_forward(probe, maker) && maker->kind != REDCO_OP_CONSTANT);
            if (seen[value] || !own || extent.power[REDCO_AXIS_BATCH] == 0 || extent.power[REDCO_AXIS_VOCAB] > 0 ||
                maker->role == REDCO_OP_ROLE_LOSS) {
                continue;
            }
            seen[value] = true;
            const redco_tensor_type *const type = redco_value_type(g, value);
            *(type->dtype == REDCO_F32 ? numbers_out : elements_out) += redco_type_elements(type);
        }
    }
    free(seen);
}

static void planned_rules_keep_what_gradients_read(void **state)
{
    uint32_t checked = 0;
    (void)state;
    for (size_t i = 0; redco_preset_at("models", i) != NULL; i++) {
        redco_model *const model = read_model(redco_preset_at("models", i)->name);
        if (redco_model_is_paired(model)) { /* mixtures: none is executed */
            redco_model_free(model);
            continue;
        }
        const redco_layer_class *classes = NULL;
        const size_t count = redco_model_classes(model, &classes);
        redcoi_probe probe = {.g = NULL};
        assert_int_equal(redcoi_probe_create(model, &probe, NULL), REDCO_OK);
        for (uint32_t c = 0; c < count; c++) {
            if (classes[c].kind == REDCO_CLASS_EMBEDDING) { continue; }
            const redco_saving_set *const set = redco_saving_set_of(REDCO_SAVER_PLANNED);
            const redco_saving_case rank = {.sizes = probe.sizes, .sequence_ranks = 1};
            const redco_layer_site *const sites = redco_model_work(model, c)->sites;
            const uint32_t site_count = redco_model_work(model, c)->site_count;
            uint64_t elements = 0, numbers = 0;
            assert_int_equal(redcoi_probe_class(&probe, c, NULL), REDCO_OK);
            read_by_gradients(&probe, &elements, &numbers);
            const uint64_t bytes = redco_saving_bytes(set, sites, site_count, &rank, &not_recomputed).kept;
            if (bytes != 2 * elements + 4 * numbers) {
                fail_msg("%s, class %u: by rules %llu bytes, gradients read %llu", redco_model_name(model), c,
                         (unsigned long long)bytes, (unsigned long long)(2 * elements + 4 * numbers));
            }
            checked++;
        }
        redcoi_probe_free(&probe);
        redco_model_free(model);
    }
    assert_true(checked > 60);
}

/* Elements that backward reads, by hand: T tokens, h hidden, q and k widths, f of the FFN, a heads. */
static void backward_reads(void **state)
{
    static const struct {
        const char *preset;
        uint32_t class_index;
        uint64_t values, statistics, activated_gate;
    } wanted[] = {
        /* inputs and outputs of two norms; q, k, v, result; gate, activated gate, up, product */
        {"llama-7b", 1, T * (4 * 4096 + 4 * 4096 + 4 * 11008), T * (2 + 32), T * 11008},
        {"llama-7b", 2, T * 2 * 4096, T, 0}, /* the norm's input and output */
        /* q and k before their norms, too */
        {"qwen3-8b", 1, T * (4 * 4096 + 3 * 4096 + 3 * 1024 + 4 * 12288), T * (2 + 32 + 8 + 32), T * 12288},
        /* two statistics a norm; before and behind the activation */
        {"gpt2", 1, T * (4 * 768 + 4 * 768 + 2 * 3072), T * (4 + 12), 0},
        /* one input of two norms */
        {"gpt-neox-20b", 1, T * (3 * 6144 + 4 * 6144 + 2 * 24576), T * (4 + 64), 0},
        {"gpt-j-6b", 1, T * (2 * 4096 + 4 * 4096 + 2 * 16384), T * (2 + 16), 0},
        {"gemma-7b", 1, T * (4 * 3072 + 4 * 4096 + 4 * 24576), T * (2 + 16), T * 24576},
        {"internlm2-7b", 1, T * (4 * 4096 + 2 * 4096 + 2 * 1024 + 4 * 14336), T * (2 + 32), T * 14336},
        {"phi-3-mini", 1, T * (4 * 3072 + 4 * 3072 + 4 * 8192), T * (2 + 32), T * 8192},
        {"phi-4", 1, T * (4 * 5120 + 2 * 5120 + 2 * 1280 + 4 * 17920), T * (2 + 40), T * 17920},
        {"bloom-7b1", 1, T * (4 * 4096 + 4 * 4096 + 2 * 16384), T * (4 + 32), 0},
        {"mpt-7b", 1, T * (4 * 4096 + 4 * 4096 + 2 * 16384), T * (4 + 32), 0},
        /* encoders, and decoders with a second attention and a third norm: the encoder's output is not a layer's own */
        {"t5-11b", 1, T * (4 * 1024 + 4 * 16384 + 2 * 65536), T * (2 + 128), 0},
        {"t5-11b", 2, T * (6 * 1024 + 8 * 16384 + 2 * 65536), T * (3 + 256), 0},
        {"bart-large", 1, T * (4 * 1024 + 4 * 1024 + 2 * 4096), T * (4 + 16), 0},
        {"bart-large", 2, T * (6 * 1024 + 8 * 1024 + 2 * 4096), T * (6 + 32), 0},
        {"bart-large", 3, T * 1024, 0, 0}, /* no final norm: the input of the product with the table */
    };
    const redco_shape shape = shape_of(1, false, false);
    redco_shape again = shape;
    (void)state;
    again.engine.made_again = true;
    for (size_t w = 0; w < sizeof wanted / sizeof wanted[0]; w++) {
        redco_model *const model = read_model(wanted[w].preset);
        const uint64_t bytes = kept(model, wanted[w].class_index, &shape, REDCO_SAVER_PLANNED);
        assert_int_equal(bytes, 2 * wanted[w].values + 4 * wanted[w].statistics);
        assert_int_equal(bytes - kept(model, wanted[w].class_index, &again, REDCO_SAVER_PLANNED),
                         2 * wanted[w].activated_gate);
        redco_model_free(model);
    }
}

/* Transformer Engine keeps what the gradients read, but for a norm's own copies: the lists hold each other. */
static void lists_of_frameworks_and_executor_agree(void **state)
{
    const redco_shape shape = shape_of(1, false, false);
    redco_shape again = shape;
    (void)state;
    again.engine.made_again = true; /* the activated gate is made again, as Megatron's kernel does */
    for (size_t i = 0; redco_preset_at("models", i) != NULL; i++) {
        redco_model *const model = read_model(redco_preset_at("models", i)->name);
        if (redco_model_is_paired(model)) { /* mixtures: none is executed */
            redco_model_free(model);
            continue;
        }
        const redco_layer_class *classes = NULL;
        const size_t count = redco_model_classes(model, &classes);
        const redco_model_dims *const dims = redco_model_get_dims(model);
        for (uint32_t c = 0; c < count; c++) {
            if (!redco_class_is_block(classes[c].kind)) { continue; }
            const uint64_t parts = classes[c].kind == REDCO_CLASS_CROSS ? 3 : 2;
            const uint64_t masks = dims->dropout ? T * parts * dims->hidden : 0;
            assert_int_equal(kept(model, c, &shape, REDCO_SAVER_TE),
                             kept(model, c, &again, REDCO_SAVER_PLANNED) + masks);
        }
        redco_model_free(model);
    }
}

static void broken_files_are_refused(void **state)
{
    static const char good[] =
        "{\"format\": \"redco-saving\", \"version\": 1, \"title\": \"t\", \"rules\": [{\"name\": "
        "\"n\", \"tensor\": \"norm.input\", \"bytes\": 2, \"source\": \"s\"}]}";
    static const struct {
        const char *from, *to, *place, *text;
    } changes[] = {
        {"norm.input", "norm.inputs", "rules/0/tensor", "\"norm.input\" is the nearest"},
        {"\"bytes\": 2", "\"bytes\": -1", "rules/0/bytes", ""},
        {"\"bytes\": 2", "\"byte\": 2", "rules/0", "bytes"},
        {", \"source\": \"s\"", "", "rules/0/source", "missing"},
        {"\"bytes\": 2", "\"bytes\": 2, \"when\": [\"plain\"]", "rules/0/when/0", "plain_norm"},
        {"\"bytes\": 2", "\"bytes\": 2, \"result\": 1", "rules/0/result", ""},
        {"\"bytes\": 2", "\"bytes\": 2, \"per\": 0", "rules/0/per", ""},
        {"\"version\": 1", "\"version\": 2", "version", "newer"},
        {"\"rules\"", "\"factor\": {\"times\": 11}, \"rules\"", "factor/per", "missing"},
    };
    (void)state;
    for (size_t i = 0; i <= sizeof changes / sizeof changes[0]; i++) {
        char text[400];
        redco_json *document = NULL;
        redco_saving_set set;
        redco_error err = {0};
        (void)snprintf(text, sizeof text, "%s", good);
        if (i > 0) {
            const char *const at = strstr(good, changes[i - 1].from);
            assert_non_null(at);
            (void)snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, changes[i - 1].to,
                           at + strlen(changes[i - 1].from));
        }
        assert_int_equal(redco_json_parse(text, strlen(text), "r.json", &document, &err), REDCO_OK);
        const redco_json_value root = redco_json_root(document);
        const redco_status st = redco_saving_set_read(&root, &set, &err);
        redco_json_close(document);
        if (i == 0) {
            assert_int_equal(st, REDCO_OK);
            continue;
        }
        assert_int_not_equal(st, REDCO_OK);
        if (strstr(err.place, changes[i - 1].place) == NULL || strstr(err.text, changes[i - 1].text) == NULL) {
            fail_msg("%s: %s: %s", changes[i - 1].to, err.place, err.text);
        }
    }
}

static void sets_ship(void **state)
{
    size_t files = 0;
    (void)state;
    while (redco_preset_at("saving", files) != NULL) { files++; }
    assert_int_equal(files, REDCO_SAVER_COUNT);
    for (int s = 0; s < REDCO_SAVER_COUNT; s++) { assert_non_null(redco_saving_set_of((redco_saver)s)); }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sets_ship),
                                       cmocka_unit_test(five_families_by_hand),
                                       cmocka_unit_test(plain_norms),
                                       cmocka_unit_test(ranks_hold_their_parts),
                                       cmocka_unit_test(policies_free_their_tensors),
                                       cmocka_unit_test(widths),
                                       cmocka_unit_test(backward_reads),
                                       cmocka_unit_test(planned_rules_keep_what_gradients_read),
                                       cmocka_unit_test(lists_of_frameworks_and_executor_agree),
                                       cmocka_unit_test(broken_files_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
