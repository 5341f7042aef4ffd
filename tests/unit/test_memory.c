/* Bytes per GPU against sums worked out by hand. LLaMA-7B: 32 blocks of 4 x 4096^2 + 3 x 4096 x 11008 + 2 x 4096 =
 * 202,383,360 parameters, embedding 32000 x 4096 = 131,072,000, head the same + 4096; in all 6,738,415,616. */
#include "cost_fixture.h"

#include "costmodel/closed_form/memory_model.h"
#include "costmodel/closed_form/nccl_buffers.h"
#include "costmodel/record/graph_work.h"
#include "costmodel/simulator/simulate.h"

#include <math.h>

static redco_shape shape_of(uint32_t tp, bool sequence_parallel)
{
    return (redco_shape){.seq_len = 4096,
                         .micro_batch = 1,
                         .tp = tp,
                         .cp = 1,
                         .sequence_parallel = sequence_parallel,
                         .precision = REDCO_BF16};
}

/* On 64 GPUs every layer divides evenly: 202,383,360 / 64 = 3,162,240; 131,072,000 / 64 = 2,048,000; head 2,048,064;
 * the whole model 105,287,744. */
static void zero_stages(void **state)
{
    (void)state;
    static const uint64_t whole = UINT64_C(6738415616), part = UINT64_C(105287744);
    static const struct {
        redco_shards shards;
        uint64_t parameter_bytes, gradient_bytes, optimizer_bytes;
    } rows[] = {{{{1, 1}, {1, 1}, {1, 1}}, 2 * whole, 2 * whole, 12 * whole},
                {{{1, 1}, {1, 1}, {8, 8}}, 2 * whole, 2 * whole, 12 * part},
                {{{1, 1}, {8, 8}, {8, 8}}, 2 * whole, 2 * part, 12 * part},
                {{{8, 8}, {8, 8}, {8, 8}}, 2 * part, 2 * part, 12 * part}};
    struct fixture b;
    fixture_open(&b, "llama-7b", a800_machine(8), plain_workload(64));
    redco_parallelism parallelism = plain_setting(&b, 1);
    parallelism.scheme = REDCO_INTRA_TENSOR;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const redco_prediction p = uniform_step(&b, &parallelism, rows[i].shards, REDCO_RECOMPUTE_NONE);
        assert_int_equal(p.parameter_bytes, rows[i].parameter_bytes);
        assert_int_equal(p.gradient_bytes, rows[i].gradient_bytes);
        assert_int_equal(p.optimizer_bytes, rows[i].optimizer_bytes);
        assert_int_equal(p.total_bytes, p.parameter_bytes + p.gradient_bytes + p.optimizer_bytes + p.activation_bytes +
                                            p.transient_bytes + p.nccl_bytes);
    }
    fixture_close(&b);
}

/* ZeRO-Offload: 12 bytes a parameter of states and 2 of sharded gradients leave the GPU; with parameters 2 more. An
 * update is 6,738,415,616 parameters of the host at 1.8e9 a second, and copies over 0.8 of PCIe: 2 bytes each way of
 * an eighth. */
static void states_on_the_host(void **state)
{
    static const uint64_t whole = UINT64_C(6738415616), part = UINT64_C(6738415616) / 8;
    static const redco_shards zero3 = {{8, 1}, {8, 1}, {8, 1}};
    static const struct {
        redco_offload offload;
        redco_shards shards;
        uint64_t parameters, gradients, optimizer, host;
    } rows[] = {
        {REDCO_OFFLOAD_NONE, {{1, 1}, {8, 1}, {8, 1}}, 2 * whole, 2 * part, 12 * part, 0},
        {REDCO_OFFLOAD_OPTIMIZER, {{1, 1}, {8, 1}, {8, 1}}, 2 * whole, 0, 0, 14 * part},
        {REDCO_OFFLOAD_OPTIMIZER, {{1, 1}, {1, 1}, {8, 1}}, 2 * whole, 2 * whole, 0, 12 * part},
        {REDCO_OFFLOAD_PARAMETERS, {{1, 1}, {8, 1}, {8, 1}}, 2 * whole, 0, 0, 14 * part},
        {REDCO_OFFLOAD_PARAMETERS, {{8, 1}, {8, 1}, {8, 1}}, 0, 0, 0, 16 * part},
    };
    double exposed_s[3] = {0.0, 0.0, 0.0};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redco_workload workload = plain_workload(64);
        struct fixture b;
        workload.engine.offload = rows[i].offload;
        fixture_open(&b, "llama-7b", a800_machine(1), workload);
        redco_parallelism parallelism = plain_setting(&b, 1);
        parallelism.scheme = REDCO_INTRA_TENSOR;
        const redco_prediction p = uniform_step(&b, &parallelism, rows[i].shards, REDCO_RECOMPUTE_NONE);
        assert_int_equal(p.parameter_bytes, rows[i].parameters);
        assert_int_equal(p.gradient_bytes, rows[i].gradients);
        assert_int_equal(p.optimizer_bytes, rows[i].optimizer);
        assert_int_equal(p.host_bytes, rows[i].host);
        if (rows[i].offload != REDCO_OFFLOAD_NONE) {
            const double rate = 0.8 * b.machine.gpu.pcie_bytes_per_s;
            check_near(p.optimizer_s / ((double)whole / 1.8e9 + 4.0 * (double)part / rate), 1.0, 1e-9);
        }
        fixture_close(&b);
    }
    for (int offload = REDCO_OFFLOAD_OPTIMIZER; offload <= REDCO_OFFLOAD_PARAMETERS; offload++) {
        redco_workload workload = plain_workload(64);
        struct fixture b;
        workload.engine.offload = (redco_offload)offload;
        workload.overlap = 0; /* gathers are seen whole */
        fixture_open(&b, "llama-7b", a800_machine(1), workload);
        redco_parallelism parallelism = plain_setting(&b, 1);
        parallelism.scheme = REDCO_INTRA_TENSOR;
        exposed_s[offload] = uniform_step(&b, &parallelism, zero3, REDCO_RECOMPUTE_NONE).layer_exposed_s;
        if (offload == REDCO_OFFLOAD_PARAMETERS) {
            /* forward and backward fetch each shard, but for the table's in backward */
            const double bytes = 2.0 * (2.0 * (double)whole - 131072000.0) / 8.0;
            const double copied_s = (double)parallelism.micro_batches * bytes / (0.8 * b.machine.gpu.pcie_bytes_per_s);
            check_near((exposed_s[offload] - exposed_s[REDCO_OFFLOAD_OPTIMIZER]) / copied_s, 1.0, 0.05);
        }
        fixture_close(&b);
    }
}

/* Qwen2-7B's head of 152,064 x 3584 (and a norm) has a gradient of 1,089,994,752 bytes, more than a bucket of 256 MiB:
 * when it is to be cut, it is there once more in the bucket. The simulator finds the same peak. */
static void a_large_gradient_fills_the_bucket(void **state)
{
    (void)state;
    static const uint64_t head = UINT64_C(2) * 152064 * 3584, bucket = UINT64_C(1) << 28;
    const redco_shards shards = {{1, 1}, {8, 3}, {8, 3}};
    const redco_layer_class *classes = NULL;
    redco_workload workload = plain_workload(48);
    redco_assignment all[8];
    redco_simulation s;
    redco_error err = {.status = REDCO_OK};
    struct fixture b;
    workload.bucket_bytes = bucket;
    fixture_open(&b, "qwen2-7b", a800_machine(3), workload);
    redco_parallelism parallelism = plain_setting(&b, 1);
    parallelism.scheme = REDCO_INTRA_TENSOR;
    const uint32_t count = (uint32_t)redco_model_classes(b.model, &classes);
    for (uint32_t i = 0; i < count; i++) {
        const bool block = classes[i].kind == REDCO_CLASS_BLOCK;
        all[i] =
            (redco_assignment){i, classes[i].layers, {shards, block ? REDCO_RECOMPUTE_FULL : REDCO_RECOMPUTE_NONE}};
        if (classes[i].kind != REDCO_CLASS_HEAD) { continue; }
        const redco_layer_cost cost = redco_cost_layer(b.costs, &parallelism, i, &all[i].config);
        assert_int_equal(cost.transient_bytes[REDCO_TRANSIENT_GRADIENT], 2 * head - bucket);
    }
    check_ok(redco_simulate(b.costs, &parallelism, all, count, NULL, &s, &err), &err);
    const redco_prediction p = redco_cost_step(b.costs, &parallelism, all, count);
    check_near((double)p.total_bytes / (double)s.peak.bytes, 1.0, 0.001);
    fixture_close(&b);
}

/* LLaMA-7B in 4 stages of 8 blocks, one GPU each, 8 micro-batches. The first keeps 4 micro-batches of activations, the
 * last one and the logits; gathered logits (20 bytes each) can make the last the fuller one. */
static void a_pipeline_needs_its_fuller_end(void **state)
{
    (void)state;
    struct fixture b;
    redco_machine machine = a800_machine(1);
    machine.gpus_per_node = 4;
    machine.node_gpus_physical = 4;
    machine.link_group_gpus = 4;
    fixture_open(&b, "llama-7b", machine, plain_workload(8));
    redco_parallelism parallelism = plain_setting(&b, 1);
    parallelism.pp = 4;
    parallelism.dp = (redco_mesh){1, 1};
    parallelism.micro_batches = 8;
    const redco_shards whole = {{1, 1}, {1, 1}, {1, 1}};
    const uint64_t blocks = 8 * UINT64_C(202383360), table = 131072000;
    const uint64_t block_activations = 712192820, plane = 2 * 4096 * 4096; /* see activations() */
    redco_prediction p = uniform_step(&b, &parallelism, whole, REDCO_RECOMPUTE_NONE);
    assert_int_equal(p.parameter_bytes, 2 * (blocks + table)); /* first: embedding, no head */
    assert_int_equal(p.activation_bytes, 4 * (8 * block_activations + plane));
    assert_int_equal(p.transient_bytes, (uint64_t)ceil(b.calibration.reserve_bytes));
    b.workload.seq_len = 256;
    b.workload.engine = (redco_engine){.logits_gathered = true};
    parallelism.micro_batch = 64;
    parallelism.micro_batches = 1;
    b.workload.global_batch = 64;
    fixture_costs(&b);
    p = uniform_step(&b, &parallelism, whole, REDCO_RECOMPUTE_FULL);
    assert_int_equal(p.parameter_bytes, 2 * (blocks + table + 4096)); /* last: head and its norm */
    assert_true(p.transient_bytes >= UINT64_C(20) * 64 * 256 * 32000);
    fixture_close(&b);
}

static void full_precision_states(void **state)
{
    (void)state;
    struct fixture b;
    redco_workload workload = plain_workload(64);
    workload.precision = REDCO_FP32;
    fixture_open(&b, "llama-7b", a800_machine(8), workload);
    const redco_parallelism parallelism = plain_setting(&b, 1);
    const redco_shards shards = {{1, 1}, {1, 1}, {1, 1}};
    const redco_prediction p = uniform_step(&b, &parallelism, shards, REDCO_RECOMPUTE_NONE);
    assert_int_equal(p.parameter_bytes, 4 * UINT64_C(6738415616));
    assert_int_equal(p.gradient_bytes, 4 * UINT64_C(6738415616));
    assert_int_equal(p.optimizer_bytes, 8 * UINT64_C(6738415616));
    fixture_close(&b);
}

/* 32-bit weights and two moments of 16 bits: 4 + 2 + 2; gradients of 32 bits as the engine says. */
static void sixteen_bit_moments(void **state)
{
    (void)state;
    struct fixture b;
    redco_workload workload = plain_workload(64);
    workload.engine.moment_bytes = 2;
    workload.engine.gradient_bytes = 4;
    fixture_open(&b, "llama-7b", a800_machine(8), workload);
    const redco_parallelism parallelism = plain_setting(&b, 1);
    const redco_shards shards = {{1, 1}, {1, 1}, {1, 1}};
    const redco_prediction p = uniform_step(&b, &parallelism, shards, REDCO_RECOMPUTE_NONE);
    assert_int_equal(p.gradient_bytes, 4 * UINT64_C(6738415616));
    assert_int_equal(p.optimizer_bytes, 8 * UINT64_C(6738415616));
    fixture_close(&b);
}

static uint64_t kept_of(const redco_model *model, uint32_t class_index, const redco_shape *shape, redco_recompute set)
{
    const redco_recompute_list one = {{set}, 1};
    return redco_layer_bytes_of(model, class_index, shape, &one).kept[0];
}

static uint64_t again_of(const redco_model *model, uint32_t class_index, const redco_shape *shape, redco_recompute set)
{
    const redco_recompute_list one = {{set}, 1};
    return redco_layer_bytes_of(model, class_index, shape, &one).again[0];
}

static void activations(void **state)
{
    (void)state;
    struct fixture b;
    fixture_open(&b, "llama-7b", a800_machine(1), plain_workload(8));
    const uint32_t block = class_of(&b, "block");
    const redco_shape shape = shape_of(1, false);
    /* T h 10 = 167,772,160; 1.1 T (8 h + 8 f) = 1.1 x 494,927,872 = 544,420,659.2, rounded up. */
    assert_int_equal(kept_of(b.model, block, &shape, REDCO_RECOMPUTE_NONE), 167772160 + 544420660);
    assert_int_equal(kept_of(b.model, block, &shape, REDCO_RECOMPUTE_FULL), 2 * 4096 * 4096);
    /* The attention core's output, 2 T h, and 4 bytes for each of 32 heads and token. */
    assert_int_equal(kept_of(b.model, block, &shape, REDCO_RECOMPUTE_CORE_ATTN), 712192820 - 4096 * 32 * (256 + 4));
    assert_int_equal(again_of(b.model, block, &shape, REDCO_RECOMPUTE_FULL), 712192820);
    assert_int_equal(again_of(b.model, block, &shape, REDCO_RECOMPUTE_NONE), 0);
    assert_int_equal(redco_logits_bytes(b.model, &shape), UINT64_C(12) * 4096 * 32000);
    /* tp 8 cuts the second part; with sequence parallelism the first too. 544,420,659.2 / 8 = 68,052,582.4 */
    const redco_shape split = shape_of(8, false), sequence = shape_of(8, true);
    assert_int_equal(kept_of(b.model, block, &split, REDCO_RECOMPUTE_NONE), 167772160 + 68052583);
    assert_int_equal(kept_of(b.model, block, &sequence, REDCO_RECOMPUTE_NONE), 20971520 + 68052583);
    assert_int_equal(kept_of(b.model, block, &sequence, REDCO_RECOMPUTE_FULL), 2 * 4096 * 512);
    assert_int_equal(redco_logits_bytes(b.model, &split), UINT64_C(12) * 4096 * 4000);
    fixture_close(&b);
}

/* One block of Llama-3.1-405B as Megatron keeps it with Transformer Engine, tp 1: 8 h + 4 (a + k) d + 6 f + 4 a + 8 =
 * 131,072 + 65,536 + 4,096 + 319,488 + 512 + 8 = 520,712 bytes a token with 8 KV heads; LLaMA-7B in the other columns
 * by the sums of closed_form/MEMORY.md. */
static void tensors_that_frameworks_keep(void **state)
{
    static const struct {
        const char *model;
        redco_memory_kind memory;
        redco_software software;
        bool compiled, half;
        uint64_t token_bytes;
    } rows[] = {{"llama-3.1-405b", REDCO_MEMORY_MEGATRON, REDCO_SOFTWARE_TE_XLA, false, false, 520712},
                {"llama-7b", REDCO_MEMORY_MEGATRON, REDCO_SOFTWARE_TE_XLA, false, false, 131720},
                {"llama-7b", REDCO_MEMORY_MEGATRON, REDCO_SOFTWARE_MEGATRON, false, false, 161928},
                {"llama-7b", REDCO_MEMORY_PYTORCH, REDCO_SOFTWARE_EAGER, false, false, 153736},
                {"llama-7b", REDCO_MEMORY_PYTORCH, REDCO_SOFTWARE_EAGER, true, false, 131720},
                {"llama-7b", REDCO_MEMORY_PYTORCH, REDCO_SOFTWARE_EAGER, false, true, 63104},
                {"llama-7b", REDCO_MEMORY_EAGER, REDCO_SOFTWARE_EAGER, false, false, 153736},
                {"llama-7b", REDCO_MEMORY_XLA, REDCO_SOFTWARE_TE_XLA, false, false, 93320},
                {"llama-7b", REDCO_MEMORY_XLA, REDCO_SOFTWARE_TE_XLA, false, true, 32768},
                {"llama-7b", REDCO_MEMORY_COPIES, REDCO_SOFTWARE_EAGER, false, false, 161928}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fixture b;
        fixture_open(&b, rows[i].model, a800_machine(1), plain_workload(8));
        redco_shape shape = shape_of(1, false);
        shape.engine = (redco_engine){.memory = rows[i].memory,
                                      .software = rows[i].software,
                                      .compiled = rows[i].compiled,
                                      .partial_recompute = rows[i].half};
        const redco_recompute policy = rows[i].half ? REDCO_RECOMPUTE_FULL : REDCO_RECOMPUTE_NONE;
        assert_int_equal(kept_of(b.model, class_of(&b, "block"), &shape, policy), 4096 * rows[i].token_bytes);
        fixture_close(&b);
    }
}

/* LLaMA-7B of transformers 5.24 in torch 2.15, two blocks and three on fake tensors, sdpa, bytes a token that a block
 * adds to what saved_tensors_hooks see, its mask and weights aside: 45.53 h with weights in 16 bits (8 h of them 32-bit
 * copies of norms' inputs), 55.53 h under autocast, of h = 4096; statistics of norms and softmax are 136 bytes. */
static void eager_code_keeps_what_torch_counts(void **state)
{
    struct fixture b;
    redco_shape shape = shape_of(1, false);
    (void)state;
    fixture_open(&b, "llama-7b", a800_machine(1), plain_workload(8));
    shape.engine = (redco_engine){.memory = REDCO_MEMORY_EAGER, .software = REDCO_SOFTWARE_EAGER, .plain_norm = true};
    const uint32_t block = class_of(&b, "block");
    assert_int_equal(kept_of(b.model, block, &shape, REDCO_RECOMPUTE_NONE), 4096 * (45 * 4096 + 2048 + 136));
    assert_int_equal(kept_of(b.model, block, &shape, REDCO_RECOMPUTE_FULL), 4096 * 2 * 4096);
    shape.engine.autocast = true;
    assert_int_equal(kept_of(b.model, block, &shape, REDCO_RECOMPUTE_NONE), 4096 * (55 * 4096 + 2048 + 136));
    assert_int_equal(kept_of(b.model, block, &shape, REDCO_RECOMPUTE_FULL), 4096 * 4 * 4096);
    fixture_close(&b);
}

/* By hand, of 4096 tokens: logits 4 * 32,000 bytes a token; keys and values of 32 layers 32 * 2 * 2 * 4096. A program
 * that frees its outputs, and software whose memory is no script's, hold none. */
static void scripts_hold_outputs(void **state)
{
    struct fixture b;
    redco_shape shape = shape_of(1, false);
    (void)state;
    fixture_open(&b, "llama-7b", a800_machine(1), plain_workload(8));
    shape.engine = (redco_engine){.memory = REDCO_MEMORY_EAGER, .software = REDCO_SOFTWARE_EAGER, .plain_norm = true};
    const uint64_t none = redco_logits_bytes(b.model, &shape);
    shape.engine.held_outputs = REDCO_HELD_LOGITS;
    assert_int_equal(redco_logits_bytes(b.model, &shape) - none, 4096 * UINT64_C(128000));
    shape.engine.held_outputs = REDCO_HELD_CACHE;
    assert_int_equal(redco_logits_bytes(b.model, &shape) - none, 4096 * UINT64_C(652288));
    assert_int_equal(redco_key_value_bytes(b.model, &shape), 4096 * 16384);
    shape.engine.memory = REDCO_MEMORY_PYTORCH;
    assert_int_equal(redco_held_logits_bytes(b.model, &shape), 0);
    fixture_close(&b);
}

/* Bytes a parameter, counted by hand: 16-bit training with Adam keeps a copy in 32 bits and two moments (4 + 8), Lion
 * one (4 + 4), bitsandbytes' two of a byte (4 + 2), SGD and Adafactor none; without copies of weights 4 less; 32-bit
 * weights, autocast's among them, have no copy. */
static void optimizers_keep_states(void **state)
{
    static const struct {
        redco_precision precision;
        redco_engine engine;
        uint32_t moments, optimizer, master;
    } rows[] = {{REDCO_BF16, {.optimizer = REDCO_OPTIMIZER_ADAMW}, 2, 12, 4},
                {REDCO_BF16, {.optimizer = REDCO_OPTIMIZER_ADAMW, .moment_bytes = 2}, 2, 8, 4},
                {REDCO_BF16, {.optimizer = REDCO_OPTIMIZER_ADAMW, .moment_bytes = 2, .no_masters = true}, 2, 4, 0},
                {REDCO_BF16, {.optimizer = REDCO_OPTIMIZER_ADAMW, .autocast = true}, 2, 8, 0},
                {REDCO_BF16, {.optimizer = REDCO_OPTIMIZER_ADAMW}, 1, 8, 4},
                {REDCO_FP32, {.optimizer = REDCO_OPTIMIZER_ADAMW, .no_masters = true}, 2, 8, 0},
                {REDCO_FP16, {.optimizer = REDCO_OPTIMIZER_ADAMW_8BIT}, 2, 6, 4},
                {REDCO_FP16, {.optimizer = REDCO_OPTIMIZER_LION}, 2, 8, 4},
                {REDCO_FP32, {.optimizer = REDCO_OPTIMIZER_MOMENTUM}, 2, 4, 0},
                {REDCO_BF16, {.optimizer = REDCO_OPTIMIZER_SGD}, 2, 4, 4},
                {REDCO_BF16, {.optimizer = REDCO_OPTIMIZER_ADAFACTOR, .no_masters = true}, 2, 0, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const redco_state_bytes bytes = redco_state_bytes_of(rows[i].precision, &rows[i].engine, rows[i].moments);
        assert_int_equal(bytes.optimizer, rows[i].optimizer);
        assert_int_equal(bytes.master, rows[i].master);
        assert_int_equal(bytes.parameter, rows[i].precision == REDCO_FP32 || rows[i].engine.autocast ? 4 : 2);
    }
}

/* Recomputing the FFN of LLaMA-7B drops, of each token, gate and input (4 f = 44,032 bytes) and the last product's
 * operand (2 f = 22,016); where Transformer Engine fuses the norm into the first product, its output too (2 h = 8,192).
 * tp cuts the first two, sequence parallelism the third. With the activated gate, by Megatron's own kernels and by
 * formulas: 8 f = 88,064. */
static void the_ffn_is_recomputed(void **state)
{
    static const struct {
        redco_memory_kind memory;
        redco_software software;
        uint32_t tp;
        bool sequence_parallel;
        uint64_t dropped_token_bytes;
    } rows[] = {{REDCO_MEMORY_MEGATRON, REDCO_SOFTWARE_TE_XLA, 1, false, 74240},
                {REDCO_MEMORY_MEGATRON, REDCO_SOFTWARE_TE_XLA, 4, false, 24704},
                {REDCO_MEMORY_MEGATRON, REDCO_SOFTWARE_TE_XLA, 4, true, 18560},
                {REDCO_MEMORY_MEGATRON, REDCO_SOFTWARE_MEGATRON, 1, false, 88064},
                {REDCO_MEMORY_FORMULAS, REDCO_SOFTWARE_EAGER, 1, false, 88064}};
    (void)state;
    struct fixture b;
    fixture_open(&b, "llama-7b", a800_machine(1), plain_workload(8));
    const uint32_t block = class_of(&b, "block");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redco_shape shape = shape_of(rows[i].tp, rows[i].sequence_parallel);
        shape.engine = (redco_engine){.memory = rows[i].memory, .software = rows[i].software};
        assert_int_equal(kept_of(b.model, block, &shape, REDCO_RECOMPUTE_NONE) -
                             kept_of(b.model, block, &shape, REDCO_RECOMPUTE_MLP),
                         4096 * rows[i].dropped_token_bytes);
        assert_int_equal(again_of(b.model, block, &shape, REDCO_RECOMPUTE_MLP) -
                             again_of(b.model, block, &shape, REDCO_RECOMPUTE_NONE),
                         4096 * rows[i].dropped_token_bytes);
    }
    fixture_close(&b);
}

/* Stage 1 of 4 with 2 chunks keeps 2 x 3 + 4 + 1 = 11 passes over a chunk of 4 blocks; LLaMA-7B, Transformer Engine. */
static void chunks_in_flight(void **state)
{
    (void)state;
    struct fixture b;
    redco_machine machine = a800_machine(1);
    machine.gpus_per_node = machine.node_gpus_physical = machine.link_group_gpus = 4;
    fixture_open(&b, "llama-7b", machine, plain_workload(8));
    b.workload.engine = (redco_engine){.memory = REDCO_MEMORY_MEGATRON, .software = REDCO_SOFTWARE_TE_XLA};
    fixture_costs(&b);
    redco_parallelism parallelism = plain_setting(&b, 1);
    parallelism.pp = 4;
    parallelism.chunks = 2;
    parallelism.dp = (redco_mesh){1, 1};
    parallelism.micro_batches = 8;
    const redco_shards whole = {{1, 1}, {1, 1}, {1, 1}};
    const redco_prediction p = uniform_step(&b, &parallelism, whole, REDCO_RECOMPUTE_NONE);
    assert_int_equal(p.activation_bytes, UINT64_C(11) * 4 * 4096 * 131720);
    fixture_close(&b);
}

static void tensor_parallel_ranks(void **state)
{
    (void)state;
    struct fixture b;
    fixture_open(&b, "llama-7b", a800_machine(1), plain_workload(8));
    /* 202,375,168 / 8 + two norms of 4096, which every rank holds */
    assert_int_equal(redco_rank_params(b.model, class_of(&b, "block"), REDCO_PART_DENSE, 8), 25296896 + 8192);
    assert_int_equal(redco_rank_params(b.model, class_of(&b, "embedding"), REDCO_PART_DENSE, 8), 131072000 / 8);
    fixture_close(&b);
    /* Llama-3-8B, tp 16, 8 KV heads: q and out 2 x 4096 x 256, k and v one whole head each 2 x 4096 x 128, FFN
     * 3 x 4096 x 896, norms 8192. */
    fixture_open(&b, "llama-3-8b", a800_machine(1), plain_workload(8));
    assert_int_equal(redco_rank_params(b.model, class_of(&b, "block"), REDCO_PART_DENSE, 16),
                     2097152 + 1048576 + 11010048 + 8192);
    fixture_close(&b);
}

static void whole_tensors_are_dealt(void **state)
{
    (void)state;
    struct fixture b;
    fixture_open(&b, "llama-7b", a800_machine(1), plain_workload(8));
    const uint64_t total = UINT64_C(6738415616), largest = 131072000;
    assert_int_equal(redco_fullest_owner_params(b.model, REDCO_PART_DENSE, 1, 1, false), total);
    /* 2 tables of 131,072,000, 96 FFN matrices of 45,088,768, 128 attention matrices of 16,777,216, 65 norms of 4096.
     * Two owners, largest first: a table, 48 + 64 matrices and at most 33 norms each. */
    assert_int_equal(redco_fullest_owner_params(b.model, REDCO_PART_DENSE, 1, 2, false),
                     largest + UINT64_C(48) * 45088768 + 64 * 16777216 + 33 * 4096);
    assert_int_equal(redco_fullest_owner_params(b.model, REDCO_PART_DENSE, 1, 291, false),
                     largest); /* one tensor each */
    assert_int_equal(redco_fullest_owner_params(b.model, REDCO_PART_DENSE, 1, 1024, false),
                     largest); /* most own nothing */
    uint64_t before = total;
    for (uint64_t owners = 2; owners <= 512; owners *= 2) {
        const uint64_t fullest = redco_fullest_owner_params(b.model, REDCO_PART_DENSE, 1, owners, false);
        assert_true(fullest <= before);
        assert_true(fullest >= largest && fullest * owners >= total);
        assert_true(fullest <= total / owners + largest); /* Graham 1969 */
        before = fullest;
    }
    fixture_close(&b);
}

/* Each tensor, largest first, to the emptiest owner, one at a time. The tensors by hand: hidden size 64, FFN 176, 4
 * heads of 16 with 2 for keys and values, a vocabulary of 1000, 600 layers. */
static void many_tensors_are_dealt_as_one_by_one(void **state)
{
    static const char config[] = "{\"model_type\":\"llama\",\"vocab_size\":1000,\"hidden_size\":64,"
                                 "\"intermediate_size\":176,\"num_hidden_layers\":600,\"num_attention_heads\":4,"
                                 "\"num_key_value_heads\":2,\"tie_word_embeddings\":false}";
    static const struct {
        uint64_t params, count;
    } kinds[] = {{64000, 2}, {11264, 3 * 600}, {4096, 2 * 600}, {2048, 2 * 600}, {64, 2 * 600 + 1}};
    static const uint64_t owners[] = {2, 3, 7, 64, 100, 601, 1000, 3000};
    redco_error err = {0};
    redco_json *document = NULL;
    redco_model *model = NULL;
    (void)state;
    check_ok(redco_json_parse(config, sizeof config - 1, "config.json", &document, &err), &err);
    const redco_json_value root = redco_json_root(document);
    check_ok(redco_model_from_json(&root, "many", &model, &err), &err);
    for (size_t i = 0; i < sizeof owners / sizeof owners[0]; i++) {
        uint64_t load[3000] = {0};
        uint64_t fullest = 0;
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            for (uint64_t n = 0; n < kinds[k].count; n++) {
                size_t emptiest = 0;
                for (size_t o = 1; o < owners[i]; o++) { emptiest = load[o] < load[emptiest] ? o : emptiest; }
                load[emptiest] += kinds[k].params;
                fullest = load[emptiest] > fullest ? load[emptiest] : fullest;
            }
        }
        assert_int_equal(redco_fullest_owner_params(model, REDCO_PART_DENSE, 1, owners[i], false), fullest);
    }
    redco_model_free(model);
    redco_json_close(document);
}

static void capacity(void **state)
{
    (void)state;
    const redco_gpu gpu = a800_gpu();
    const redco_calibration calibration = {.usable_memory_ratio = 0.94};
    /* 85,899,345,920 x 0.99 x 0.94 = 79,937,931,313.15 */
    assert_in_range(redco_usable_memory_bytes(&gpu, &calibration), 79937931312, 79937931314);
    /* 1343 MiB = 1,408,237,568 of kernels, and of the other 2,591,762,432 an eighth on 10 GiB, half on 40, all from 80
     */
    const redco_calibration reserves = {.reserve_bytes = 4e9};
    const redco_calibration little = {.reserve_bytes = 1e9};
    const uint64_t gib[] = {10, 40, 80, 180}, wanted[] = {1732207872, 2704118784, 4000000000, 4000000000};
    for (size_t i = 0; i < sizeof gib / sizeof gib[0]; i++) {
        const redco_gpu part = {.memory_bytes = gib[i] << 30};
        assert_int_equal(redco_reserve_bytes(&part, &reserves), wanted[i]);
        assert_int_equal(redco_reserve_bytes(&part, &little), 1000000000);
    }
    assert_int_equal(redco_share_up(7, 3, 2), 11);                         /* 10.5 */
    assert_int_equal(redco_share_up(UINT64_MAX, 1, 1), UINT64_C(1) << 53); /* saturates */
    assert_int_equal(redco_share_up(UINT64_C(1) << 50, UINT64_C(1) << 50, UINT64_C(1) << 60), UINT64_C(1) << 40);
}

/* AMSP's own choices (Table IV) ran on 80 GB GPUs: 7B and 13B without recomputation, 30B with. */
static void table_4_fits(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        redco_shards shards;
        redco_recompute recompute;
    } rows[] = {{"llama-7b", {{1, 1}, {1, 1}, {8, 1}}, REDCO_RECOMPUTE_NONE},
                {"llama-13b", {{4, 1}, {4, 1}, {8, 1}}, REDCO_RECOMPUTE_NONE},
                {"amsp-30b", {{8, 1}, {8, 1}, {8, 4}}, REDCO_RECOMPUTE_FULL}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fixture b;
        fixture_open(&b, rows[i].model, a800_machine(128), plain_workload(1024));
        const redco_parallelism parallelism = plain_setting(&b, 1);
        const redco_prediction p = uniform_step(&b, &parallelism, rows[i].shards, rows[i].recompute);
        print_message("%-10s %5.1f of %5.1f GB\n", rows[i].model, (double)p.total_bytes / 1e9,
                      (double)p.capacity_bytes / 1e9);
        assert_true(p.total_bytes <= p.capacity_bytes);
        assert_true(p.total_bytes > p.capacity_bytes / 4);
        fixture_close(&b);
    }
    struct fixture b; /* and 13B replicated needs 16 x 13.0e9 bytes of states alone */
    fixture_open(&b, "llama-13b", a800_machine(128), plain_workload(1024));
    const redco_parallelism parallelism = plain_setting(&b, 1);
    const redco_shards ddp = {{1, 1}, {1, 1}, {1, 1}};
    const redco_prediction p = uniform_step(&b, &parallelism, ddp, REDCO_RECOMPUTE_FULL);
    assert_true(p.total_bytes > p.capacity_bytes);
    fixture_close(&b);
}

/* In MiB, from sizes of NCCL 2.30.7: a connection inside a node has 2 at the sender and 10 (0.5 + 4.6875 + 4 and flags)
 * at the receiver, as its allocation log names them (NVIDIA/nccl issue 1685: 2097152 and 10485760 bytes); one over the
 * network 10 (without the 0.5) and 10.
 * NVIDIA/nccl issue 964 measures 544 MiB for an A100's communicator of two ranks and 688 for one of four: 24 channels x
 * 12 are 288, at rank 0, the end of the tree's chain, 24 x 6 more; and 256 that versions before 2.22 had at once for
 * sends over the network (32 channels x 16 steps x 0.5). A rank inside the chain has 24 x 12 more. */
static void nccl_connections(void **state)
{
    (void)state;
    enum { RING = REDCOI_NCCL_RING, TREE = REDCOI_NCCL_TREE, NVLS = REDCOI_NCCL_NVLS };
    enum { NVLS_TREE = REDCOI_NCCL_NVLS_TREE, SEND_RECV = REDCOI_NCCL_SEND_RECV };
    static const struct {
        redco_mesh mesh;
        redcoi_nccl_connections c;
        uint64_t mib;
    } rows[] = {
        {{1, 1}, {24, 16, 8, RING | TREE | NVLS | SEND_RECV}, 0},
        {{2, 1}, {24, 0, 0, RING}, 288},
        {{2, 1}, {24, 0, 0, TREE}, 288},
        {{2, 1}, {24, 0, 0, RING | TREE}, 288},       /* 544 - 256 */
        {{4, 1}, {24, 0, 0, RING | TREE}, 288 + 288}, /* rank 0: 688 - 256 = 288 + 144 */
        {{8, 1}, {24, 16, 8, NVLS}, 256},             /* 16 x 8 heads x 2 directions x 1 */
        {{8, 4}, {16, 0, 0, RING}, 14 * 12 + 2 * 20}, /* 2 of 16 rings leave the node at each GPU */
        {{1, 8}, {16, 0, 0, RING}, 16 * 20},          /* all of them */
        {{8, 2}, {16, 0, 0, RING | TREE}, 208 + 192 + 2 * 20},
        {{8, 4}, {16, 0, 0, RING | TREE}, 208 + 192 + 2 * 2 * 20},
        {{8, 4}, {16, 16, 8, NVLS | NVLS_TREE}, 256 + 16 * 2 * 20},
        {{2, 1}, {32, 0, 0, SEND_RECV}, 32 * 12},
        {{4, 1}, {32, 0, 0, SEND_RECV}, 2 * 32 * 12},
        {{1, 4}, {16, 0, 0, SEND_RECV}, 2 * 16 * 2}, /* 16 steps of 128 KiB, shared by all peers */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(redcoi_nccl_connected_bytes(rows[i].mesh, &rows[i].c), rows[i].mib << 20);
    }
}

/* Nodes of 8 A800 and four NICs: between nodes NCCL finds 4 channels, a NIC each, of which it makes 8; inside 4 of 40
 * GB/s, split and doubled to 16. */
static void nccl_channels(void **state)
{
    (void)state;
    const redco_machine machine = a800_machine(8);
    redcoi_nccl_communicator c = {.group = {.mesh = {8, 8}, .stride = 1}, .most_channels = 64};
    assert_int_equal(redcoi_nccl_connect(&machine, &c).channels, 8);
    c.group.mesh = (redco_mesh){8, 1};
    assert_int_equal(redcoi_nccl_connect(&machine, &c).channels, 16);
    c.most_channels = 6;
    assert_int_equal(redcoi_nccl_connect(&machine, &c).channels, 6);
    c.calls = 1u << REDCO_ALL_GATHER;
    assert_int_equal(redcoi_nccl_connect(&machine, &c).uses, REDCOI_NCCL_RING);
    c.calls = 1u << REDCO_SEND_RECV;
    assert_int_equal(redcoi_nccl_connect(&machine, &c).uses, REDCOI_NCCL_SEND_RECV);
}

/* 64 GPUs, dp 8x8 where tp is 1, by hand. A framework has one communicator for the same ranks, redco-exec one for each
 * of gathers, reductions and updates. */
static void nccl_communicators(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        uint32_t tp, pp, cp;
        redco_shards shards;
        uint32_t outer, framework, exec;
    } rows[] = {
        {"ddp: all-reduce", 1, 1, 1, {{1, 1}, {1, 1}, {1, 1}}, 0, 1, 1},
        {"zero1: reduce-scatter; update", 1, 1, 1, {{1, 1}, {1, 1}, {8, 8}}, 0, 1, 2},
        {"zero3: gathers", 1, 1, 1, {{8, 8}, {8, 8}, {8, 8}}, 0, 1, 1},
        {"hsdp: gathers in a node, sums over 8", 1, 1, 1, {{8, 1}, {8, 1}, {8, 1}}, 0, 2, 2},
        {"amsp: gathers of 2, sums of 32, gradients of 2, updates of 4", 1, 1, 1, {{2, 1}, {4, 1}, {8, 1}}, 0, 4, 4},
        {"tp 2", 2, 1, 1, {{1, 1}, {1, 1}, {1, 1}}, 1, 1, 1},
        {"tp 2, cp 2, pp 2", 2, 2, 2, {{1, 1}, {1, 1}, {1, 1}}, 3, 1, 1},
    };
    struct fixture b;
    fixture_open(&b, "llama-7b", a800_machine(8), plain_workload(64));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int exec = 0; exec < 2; exec++) {
            redcoi_nccl_communicator found[REDCOI_NCCL_COMMUNICATORS_MAX];
            b.workload.engine.planned_memory = exec != 0;
            fixture_costs(&b);
            redco_parallelism parallelism = plain_setting(&b, 1);
            parallelism.tp = rows[i].tp;
            parallelism.pp = rows[i].pp;
            parallelism.cp = rows[i].cp;
            parallelism.dp.gpus /= parallelism.tp * parallelism.cp;
            parallelism.dp.nodes /= parallelism.pp;
            parallelism.scheme = REDCO_INTRA_TENSOR;
            const redco_layer_config config = {.shards = rows[i].shards};
            const redcoi_job job = redcoi_job_of(b.costs, &parallelism, 1, 0, &config);
            assert_int_equal(redcoi_nccl_outer(b.costs, &parallelism, found), rows[i].outer);
            assert_int_equal(redcoi_nccl_sharded(&job, found), exec != 0 ? rows[i].exec : rows[i].framework);
        }
    }
    fixture_close(&b);
}

/* DDP on 64 GPUs: 8 channels, of which one leaves the node at each GPU. Rings 7 x 12 + 20 MiB; the gradients' norm, one
 * number, goes through trees: 8 x 12 of the chain and 2 x 20. It is no part of what an allocator holds. One GPU has
 * none. */
static void nccl_is_counted(void **state)
{
    (void)state;
    struct fixture b;
    const redco_shards ddp = {{1, 1}, {1, 1}, {1, 1}};
    fixture_open(&b, "llama-7b", a800_machine(8), plain_workload(64));
    redco_parallelism parallelism = plain_setting(&b, 1);
    redco_prediction p = uniform_step(&b, &parallelism, ddp, REDCO_RECOMPUTE_NONE);
    assert_int_equal(p.nccl_bytes, (UINT64_C(7) * 12 + 20 + 8 * 12 + 2 * 20) << 20);
    assert_int_equal(p.allocated_bytes, p.total_bytes - p.nccl_bytes - (uint64_t)ceil(b.calibration.reserve_bytes));
    fixture_close(&b);
    redco_machine one = a800_machine(1);
    one.gpus_per_node = 1;
    fixture_open(&b, "llama-7b", one, plain_workload(1));
    parallelism = plain_setting(&b, 1);
    p = uniform_step(&b, &parallelism, ddp, REDCO_RECOMPUTE_NONE);
    assert_int_equal(p.nccl_bytes, 0);
    fixture_close(&b);
}

/* Values of a user's graph by who computes it; where a graph was not planned so, as devices have it, or in 32 bits. */
static void values_by_type(void **state)
{
    (void)state;
    redco_graph_values values[] = {{1.0, {{25600.0}}}, {1.0, {{12800.0}}}, {1.0, {{20480.0}}}};
    redco_graph_moment moments[] = {{.computed = REDCO_COMPUTED_32, .values = &values[0], .value_count = 1},
                                    {.computed = REDCO_COMPUTED_16, .values = &values[1], .value_count = 1},
                                    {.computed = REDCO_COMPUTED_16_WIDENED, .values = &values[2], .value_count = 1}};
    static const uint64_t wanted[3][3] = {{25600, 25600, 25600}, {25600, 12800, 12800}, {25600, 12800, 20480}};
    for (uint32_t planned = 0; planned < 3; planned++) {
        const redco_degree_work degree = {.moments = moments, .moment_count = planned + 1};
        for (int by = 0; by < 3; by++) {
            assert_int_equal(redco_degree_value_bytes(&degree, false, (redco_computed)by, 7), wanted[planned][by]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(zero_stages),
                                       cmocka_unit_test(states_on_the_host),
                                       cmocka_unit_test(a_large_gradient_fills_the_bucket),
                                       cmocka_unit_test(a_pipeline_needs_its_fuller_end),
                                       cmocka_unit_test(full_precision_states),
                                       cmocka_unit_test(sixteen_bit_moments),
                                       cmocka_unit_test(values_by_type),
                                       cmocka_unit_test(activations),
                                       cmocka_unit_test(tensors_that_frameworks_keep),
                                       cmocka_unit_test(eager_code_keeps_what_torch_counts),
                                       cmocka_unit_test(scripts_hold_outputs),
                                       cmocka_unit_test(optimizers_keep_states),
                                       cmocka_unit_test(the_ffn_is_recomputed),
                                       cmocka_unit_test(chunks_in_flight),
                                       cmocka_unit_test(tensor_parallel_ranks),
                                       cmocka_unit_test(whole_tensors_are_dealt),
                                       cmocka_unit_test(many_tensors_are_dealt_as_one_by_one),
                                       cmocka_unit_test(capacity),
                                       cmocka_unit_test(table_4_fits),
                                       cmocka_unit_test(nccl_connections),
                                       cmocka_unit_test(nccl_channels),
                                       cmocka_unit_test(nccl_communicators),
                                       cmocka_unit_test(nccl_is_counted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
