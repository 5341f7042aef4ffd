/* The closed form of a step: against the paper's equations written out, against its own header's formula, and against
 * properties that hold for any constants. */
#include "cost_fixture.h"
#include "costmodel/closed_form/closed_form_internal.h"
#include "tests/unit/recomputed.h"

#include <math.h>

static const redco_mesh one = {1, 1};

/* Seconds of one collective alone, on a group typed in by hand. */
static double alone_s(const struct fixture *b, redco_collective op, double bytes, redco_group group)
{
    const redco_comm_time time = redco_comm_price(b->comm, op, bytes, group);
    return time.latency_s + time.wire_s;
}

/* AMSP section IV-C for p = 4x1, g = 4x1, os = 8x1 on 8 nodes, two micro-batches, U = 1 GiB:
 *   T_p    = M sum over modules [2 t(AG, 2 Phi_i, 4x1) + t(RS, 2 Phi_i, 4x1)]
 *   T_os0  = 2 Phi / (U 4) t(AR, U, (8/4) x 8)
 *   T_os1  = 8/4 t(BC, 2 Phi / 8, (8/4) x 1)
 * GPUs of a parameter group are neighbours; a gradient group takes GPU 0 and 4 (1 and 5, ...) of every node. */
static void paper_equations(void **state)
{
    (void)state;
    struct fixture b;
    fixture_open(&b, "llama-7b", a800_machine(8), plain_workload(128));
    const redco_parallelism parallelism = plain_setting(&b, 1);
    const redco_shards shards = {{4, 1}, {4, 1}, {8, 1}};
    const redco_prediction p = uniform_step(&b, &parallelism, shards, REDCO_RECOMPUTE_NONE);
    const redco_group gather = {.mesh = {4, 1}, .stride = 1, .groups_per_node = 2};
    const redco_group reduce = {.mesh = {2, 8}, .stride = 4, .groups_per_node = 4};
    const redco_group sync = {.mesh = {2, 1}, .stride = 4, .groups_per_node = 4};
    const redco_layer_class *classes = NULL;
    const size_t count = redco_model_classes(b.model, &classes);
    double gather_s = 0.0, scatter_s = 0.0;
    for (size_t i = 0; i < count; i++) {
        const double module_bytes = 2.0 * (double)classes[i].params / classes[i].modules;
        const double modules = 2.0 * classes[i].layers * classes[i].modules; /* in both micro-batches */
        gather_s += modules * 2.0 * alone_s(&b, REDCO_ALL_GATHER, module_bytes, gather);
        scatter_s += modules * alone_s(&b, REDCO_REDUCE_SCATTER, module_bytes, gather);
    }
    const double phi = 6738415616.0, bucket = 1073741824.0;
    const double reduce_s = 2.0 * phi / (bucket * 4.0) * alone_s(&b, REDCO_ALL_REDUCE, bucket, reduce);
    const double sync_s = 2.0 * alone_s(&b, REDCO_BROADCAST, 2.0 * phi / 8.0, sync);
    check_near(p.gather_s, gather_s, 1e-9);
    check_near(p.reduce_scatter_s, scatter_s, 1e-9);
    check_near(p.grad_reduce_s, reduce_s, 1e-9);
    check_near(p.broadcast_s, sync_s, 1e-9);
    check_near(p.grad_shard_s, 0.0, 0.0);
    check_near(p.amsp_total_s, gather_s + scatter_s + reduce_s + sync_s, 1e-9);
    fixture_close(&b);
}

/* T_g = (M - 1) 2 Phi / U t(AR, U, 8x1): gradients of four micro-batches cut over a node, parameters whole. */
static void paper_gradient_shards(void **state)
{
    (void)state;
    struct fixture b;
    fixture_open(&b, "llama-7b", a800_machine(2), plain_workload(64));
    const redco_parallelism parallelism = plain_setting(&b, 1);
    const redco_shards shards = {one, {8, 1}, {8, 1}};
    const redco_prediction p = uniform_step(&b, &parallelism, shards, REDCO_RECOMPUTE_NONE);
    const redco_group part = {.mesh = {8, 1}, .stride = 1, .groups_per_node = 1};
    const double want_s = 3.0 * 2.0 * 6738415616.0 / 1073741824.0 * alone_s(&b, REDCO_ALL_REDUCE, 1073741824.0, part);
    check_near(p.grad_shard_s, want_s, 1e-9);
    check_near(p.gather_s, 0.0, 0.0);
    fixture_close(&b);
}

/* 6 N + 12 L h s: 6 x 6,738,415,616 + 12 x 32 x 4096 x 4096 = 46.872944640e9 per token; causal counts half of the
 * second. One step of 64 x 4096 tokens on 64 GPUs. */
static void flops_and_throughput(void **state)
{
    (void)state;
    struct fixture b;
    fixture_open(&b, "llama-7b", a800_machine(8), plain_workload(64));
    const redco_parallelism parallelism = plain_setting(&b, 1);
    const redco_shards shards = {one, one, {8, 1}};
    redco_prediction p = uniform_step(&b, &parallelism, shards, REDCO_RECOMPUTE_NONE);
    check_near(p.model_flops_per_token, 6.0 * 6738415616.0 + 6442450944.0, 1.0);
    check_near(p.tokens_per_s_per_gpu, 4096.0 / p.step_s, 1e-9);
    check_near(p.mfu, 4096.0 / p.step_s * p.model_flops_per_token / 312e12, 1e-12);
    b.workload.mfu_causal = true;
    fixture_costs(&b);
    p = uniform_step(&b, &parallelism, shards, REDCO_RECOMPUTE_NONE);
    check_near(p.model_flops_per_token, 6.0 * 6738415616.0 + 3221225472.0, 1.0);
    fixture_close(&b);
}

/* closed_form.h's formula, summed here from single layers, for layers that differ in meshes and recomputation: what a
 * linear program over the coefficients computes is what redco_cost_step() returns. */
static void step_is_the_sum_of_its_layers(void **state)
{
    (void)state;
    struct fixture b;
    fixture_open(&b, "llama-7b", a800_machine(8), plain_workload(256));
    const redco_parallelism parallelism = plain_setting(&b, 2);
    const redco_assignment parts[] = {
        {class_of(&b, "embedding"), 1, {{one, one, {8, 8}}, REDCO_RECOMPUTE_NONE}},
        {class_of(&b, "block"), 10, {{{8, 1}, {8, 1}, {8, 8}}, REDCO_RECOMPUTE_FULL}},
        {class_of(&b, "block"), 15, {{{2, 1}, {8, 1}, {8, 1}}, REDCO_RECOMPUTE_CORE_ATTN}},
        {class_of(&b, "block"), 7, {{one, one, {4, 1}}, REDCO_RECOMPUTE_NONE}},
        {class_of(&b, "head"), 1, {{{8, 8}, {8, 8}, {8, 8}}, REDCO_RECOMPUTE_NONE}}};
    enum { PARTS = sizeof parts / sizeof parts[0] };
    for (uint32_t overlap = REDCO_OVERLAP_NONE; overlap <= REDCO_OVERLAP_ALL; overlap++) {
        b.workload.overlap = overlap;
        fixture_costs(&b);
        const redco_fixed_cost fixed = redco_cost_fixed(b.costs, &parallelism);
        double sum_s = fixed.fixed_s, x[2] = {0.0, 0.0}, c[2] = {0.0, 0.0};
        uint64_t bytes = fixed.fixed_bytes, transient[REDCO_TRANSIENT_COUNT] = {0};
        for (int i = 0; i < PARTS; i++) {
            const redco_layer_cost cost =
                redco_cost_layer(b.costs, &parallelism, parts[i].class_index, &parts[i].config);
            const double n = parts[i].layers;
            sum_s += n * (cost.compute_s + cost.exposed_s + cost.optimizer_s);
            x[0] += n * cost.grad_comm_s;
            c[0] += n * cost.grad_window_s;
            x[1] += n * cost.param_sync_comm_s;
            c[1] += n * cost.param_sync_window_s;
            bytes += parts[i].layers *
                     (cost.parameter_bytes + cost.gradient_bytes + cost.optimizer_bytes + cost.activation_bytes);
            for (int k = 0; k < REDCO_TRANSIENT_COUNT; k++) {
                if (cost.transient_bytes[k] > transient[k]) { transient[k] = cost.transient_bytes[k]; }
            }
            check_near(cost.compute_s, cost.forward_s + cost.backward_s + cost.recompute_s, 1e-12);
        }
        for (int k = 0; k < REDCO_TRANSIENT_COUNT; k++) { bytes += transient[k]; }
        static const uint32_t bits[2] = {REDCO_OVERLAP_AR, REDCO_OVERLAP_BC};
        for (int w = 0; w < 2; w++) {
            const double hidden_s = fmax(fixed.window_hidden_factor * x[w], x[w] - fixed.window_use * c[w]);
            sum_s += (overlap & bits[w]) != 0 ? hidden_s : x[w];
        }
        const redco_prediction p = redco_cost_step(b.costs, &parallelism, parts, PARTS);
        check_near(p.step_s, fixed.scale * sum_s + fixed.overhead_s, 1e-9);
        check_near(p.step_s, p.compute_s + p.exposed_comm_s + p.optimizer_s + p.other_s, 1e-9);
        assert_int_equal(p.total_bytes, bytes);
    }
    fixture_close(&b);
}

/* All mesh triples of AMSP's rules on 4 nodes with few sizes, as the planner enumerates them. */
static const redco_mesh options[] = {{1, 1}, {2, 1}, {4, 1}, {8, 1}, {8, 2}, {8, 4}};
enum { OPTIONS = sizeof options / sizeof options[0], TRIPLES_MAX = 64 };

static int triples(redco_shards out[TRIPLES_MAX])
{
    int count = 0;
    for (int p = 0; p < OPTIONS; p++) {
        for (int os = p; os < OPTIONS; os++) {
            out[count++] = (redco_shards){options[p], options[p], options[os]};
            if (os > p) { out[count++] = (redco_shards){options[p], options[os], options[os]}; }
        }
    }
    assert_true(count <= TRIPLES_MAX);
    return count;
}

static void more_sharding_never_holds_more_state(void **state)
{
    (void)state;
    struct fixture b;
    redco_shards all[TRIPLES_MAX];
    const int count = triples(all);
    fixture_open(&b, "llama-13b", a800_machine(4), plain_workload(64));
    for (int scheme = 0; scheme < 2; scheme++) {
        redco_parallelism parallelism = plain_setting(&b, 1);
        parallelism.scheme = scheme == 0 ? REDCO_INTER_TENSOR : REDCO_INTRA_TENSOR;
        for (int i = 0; i < count; i++) {
            const redco_prediction x = uniform_step(&b, &parallelism, all[i], REDCO_RECOMPUTE_NONE);
            for (int j = 0; j < count; j++) {
                const redco_shards *const s = &all[i], *const t = &all[j];
                if (redco_mesh_ranks(t->parameters) < redco_mesh_ranks(s->parameters) ||
                    redco_mesh_ranks(t->gradients) < redco_mesh_ranks(s->gradients) ||
                    redco_mesh_ranks(t->optimizer) < redco_mesh_ranks(s->optimizer)) {
                    continue;
                }
                const redco_prediction y = uniform_step(&b, &parallelism, *t, REDCO_RECOMPUTE_NONE);
                assert_true(y.parameter_bytes <= x.parameter_bytes);
                assert_true(y.gradient_bytes <= x.gradient_bytes);
                assert_true(y.optimizer_bytes <= x.optimizer_bytes);
            }
        }
    }
    fixture_close(&b);
}

static void a_faster_machine_is_never_slower(void **state)
{
    (void)state;
    redco_shards all[TRIPLES_MAX];
    const int count = triples(all);
    struct fixture slow, fast[3];
    fixture_open(&slow, "llama-7b", a800_machine(4), plain_workload(128));
    for (int i = 0; i < 3; i++) {
        redco_machine machine = a800_machine(4);
        if (i == 0) { /* twice the network */
            machine.nic_bytes_per_s *= 2.0;
            machine.node_network_bytes_per_s *= 2.0;
        } else if (i == 1) { /* twice the NVLinks */
            machine.gpu.link_count *= 2;
            machine.gpu.scale_up_bytes_per_s *= 2.0;
            machine.scale_up_bytes_per_s *= 2.0;
        } else {
            machine.gpu.bf16_flops_per_s *= 1.1;
        }
        fixture_open(&fast[i], "llama-7b", machine, plain_workload(128));
    }
    for (int i = 0; i < count; i++) {
        const redco_parallelism parallelism = plain_setting(&slow, 2);
        const double before_s = uniform_step(&slow, &parallelism, all[i], REDCO_RECOMPUTE_NONE).step_s;
        for (int j = 0; j < 3; j++) {
            assert_true(uniform_step(&fast[j], &parallelism, all[i], REDCO_RECOMPUTE_NONE).step_s <= before_s * 1.0001);
        }
        assert_true(redco_cost_bound(slow.costs, &parallelism) <= before_s);
    }
    for (int i = 0; i < 3; i++) { fixture_close(&fast[i]); }
    fixture_close(&slow);
}

static void overlap_never_hurts(void **state)
{
    (void)state;
    redco_shards all[TRIPLES_MAX];
    const int count = triples(all);
    struct fixture b;
    fixture_open(&b, "llama-7b", a800_machine(4), plain_workload(128));
    const redco_parallelism parallelism = plain_setting(&b, 2);
    for (int i = 0; i < count; i++) {
        double step_s[REDCO_OVERLAP_ALL + 1];
        for (uint32_t bits = 0; bits <= REDCO_OVERLAP_ALL; bits++) {
            b.workload.overlap = bits;
            fixture_costs(&b);
            step_s[bits] = uniform_step(&b, &parallelism, all[i], REDCO_RECOMPUTE_NONE).step_s;
            assert_true(step_s[bits] <= step_s[0] + 1e-12);
        }
        assert_true(step_s[REDCO_OVERLAP_ALL] <= step_s[REDCO_OVERLAP_AR] + 1e-12);
    }
    fixture_close(&b);
}

/* Half of the layers under one configuration and half under another cost no more than the mean of both: the windows are
 * convex, so a linear program may split layers. */
static void windows_are_convex(void **state)
{
    (void)state;
    redco_shards all[TRIPLES_MAX];
    const int count = triples(all);
    struct fixture b;
    fixture_open(&b, "llama-7b", a800_machine(4), plain_workload(32));
    const redco_parallelism parallelism = plain_setting(&b, 1);
    const redco_layer_config whole = {{one, one, one}, REDCO_RECOMPUTE_NONE};
    const redco_assignment ends[2] = {{class_of(&b, "embedding"), 1, whole}, {class_of(&b, "head"), 1, whole}};
    const uint32_t block = class_of(&b, "block");
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < i; j++) {
            const redco_layer_config x = {all[i], REDCO_RECOMPUTE_NONE}, y = {all[j], REDCO_RECOMPUTE_FULL};
            const redco_assignment only_x[] = {ends[0], {block, 32, x}, ends[1]};
            const redco_assignment only_y[] = {ends[0], {block, 32, y}, ends[1]};
            const redco_assignment both[] = {ends[0], {block, 16, x}, {block, 16, y}, ends[1]};
            const double mean_s = (redco_cost_step(b.costs, &parallelism, only_x, 3).step_s +
                                   redco_cost_step(b.costs, &parallelism, only_y, 3).step_s) /
                                  2.0;
            assert_true(redco_cost_step(b.costs, &parallelism, both, 4).step_s <= mean_s + 1e-9);
        }
    }
    fixture_close(&b);
}

/* Without overlap a block of 9 modules (7 matrices, 2 norms) is gathered twice and scattered once: 32 x 27 calls wait
 * for 16 ranks over two nodes; the head's norm and matrix 6 more, the embedding, not gathered again, 2. In one node
 * nobody waits. */
static void waits_are_between_nodes(void **state)
{
    (void)state;
    struct fixture b;
    redco_workload workload = plain_workload(16);
    workload.overlap = 0;
    fixture_open(&b, "llama-7b", a800_machine(2), workload);
    const redco_parallelism parallelism = plain_setting(&b, 1);
    const redco_shards shards[] = {{{8, 1}, {8, 1}, {8, 1}}, {{8, 2}, {8, 2}, {8, 2}}};
    for (int i = 0; i < 2; i++) {
        b.calibration.sync_s = 0.0;
        fixture_costs(&b);
        const redco_prediction none = uniform_step(&b, &parallelism, shards[i], REDCO_RECOMPUTE_NONE);
        b.calibration.sync_s = 1e-3;
        fixture_costs(&b);
        const redco_prediction some = uniform_step(&b, &parallelism, shards[i], REDCO_RECOMPUTE_NONE);
        const double waits = (some.layer_exposed_s - none.layer_exposed_s) / (16.0 * 1e-3);
        check_near(waits, i == 0 ? 0.0 : 32.0 * 27.0 + 6.0 + 2.0, 1e-6);
    }
    fixture_close(&b);
}

/* Parameters of two parts that lie alike cost what they do as one: states, gathers and scatters of each module,
 * traffic once a step but for the buckets, of which each part has its own. */
static void parts_add_up(void **state)
{
    (void)state;
    redco_workload workload = plain_workload(16);
    workload.overlap = 0;
    const redco_shards shards[] = {{{8, 2}, {8, 2}, {8, 2}}, {{1, 1}, {1, 1}, {8, 2}}};
    for (int i = 0; i < 2; i++) {
        redco_prediction found[2];
        for (int several = 0; several < 2; several++) {
            struct fixture b;
            const redco_param *params = NULL;
            fixture_open(&b, "llama-7b", a800_machine(2), workload);
            const size_t count = redco_model_tensors(b.model, &params);
            for (size_t t = 0; t < count && several; t++) {
                const bool ffn = params[t].use >= REDCO_USE_GATE && params[t].use <= REDCO_USE_DOWN;
                ((redco_param *)(uintptr_t)&params[t])->part = ffn ? REDCO_PART_EXPERTS : REDCO_PART_DENSE;
            }
            redco_parallelism parallelism = plain_setting(&b, 1);
            parallelism.scheme = REDCO_INTRA_TENSOR;
            found[several] = uniform_step(&b, &parallelism, shards[i], REDCO_RECOMPUTE_NONE);
            fixture_close(&b);
        }
        const redco_prediction *const one_part = &found[0], *const two = &found[1];
        check_near(two->compute_s, one_part->compute_s, 0.0);
        check_near(two->optimizer_s / one_part->optimizer_s, 1.0, 1e-6);
        check_near((double)two->parameter_bytes / (double)one_part->parameter_bytes, 1.0, 1e-6);
        check_near((double)two->optimizer_bytes / (double)one_part->optimizer_bytes, 1.0, 1e-6);
        check_near(two->step_s / one_part->step_s, 1.0, 0.01);
        if (i == 0) { check_near(two->layer_exposed_s / one_part->layer_exposed_s, 1.0, 1e-9); }
        assert_true(two->parameter_bytes >= one_part->parameter_bytes);
    }
}

/* Mistral's 4096 keys of 8192: of attention's pairs, all of which are counted, 1 - (1 - 1/2)^2 = 3/4 are seen. */
static void model_flops_count_the_window(void **state)
{
    (void)state;
    struct fixture b;
    redco_workload workload = plain_workload(16);
    workload.seq_len = 8192;
    fixture_open(&b, "mistral-7b", a800_machine(2), workload);
    const redco_parallelism parallelism = plain_setting(&b, 1);
    const redco_prediction p = uniform_step(&b, &parallelism, (redco_shards){one, one, one}, REDCO_RECOMPUTE_FULL);
    check_near(p.model_flops_per_token, 6.0 * 7241732096.0 + 12.0 * 32.0 * 4096.0 * 8192.0 * 0.75, 1.0);
    fixture_close(&b);
}

static void recomputation_trades_time_for_memory(void **state)
{
    (void)state;
    struct fixture b;
    fixture_open(&b, "llama-7b", a800_machine(1), plain_workload(8));
    const redco_parallelism parallelism = plain_setting(&b, 1);
    const redco_shards shards = {one, one, {8, 1}};
    const redco_prediction none = uniform_step(&b, &parallelism, shards, REDCO_RECOMPUTE_NONE);
    const redco_prediction selective = uniform_step(&b, &parallelism, shards, REDCO_RECOMPUTE_CORE_ATTN);
    const redco_prediction full = uniform_step(&b, &parallelism, shards, REDCO_RECOMPUTE_FULL);
    assert_true(none.step_s < selective.step_s && selective.step_s < full.step_s);
    assert_true(none.total_bytes > selective.total_bytes && selective.total_bytes > full.total_bytes);
    const redco_layer_config config = {shards, REDCO_RECOMPUTE_NONE};
    const redco_layer_cost block = redco_cost_layer(b.costs, &parallelism, class_of(&b, "block"), &config);
    check_near(full.recompute_s, 32.0 * block.forward_s, 1e-12); /* one more forward of each block */
    fixture_close(&b);
}

/* ZeRO++ keeps a copy of the parameters over the node: backward gathers leave the network, memory grows. */
static void secondary_shards(void **state)
{
    (void)state;
    struct fixture b;
    fixture_open(&b, "llama-7b", a800_machine(16), plain_workload(128));
    redco_parallelism parallelism = plain_setting(&b, 1);
    parallelism.scheme = REDCO_INTRA_TENSOR;
    const redco_shards zero3 = {{8, 16}, {8, 16}, {8, 16}};
    const redco_prediction without = uniform_step(&b, &parallelism, zero3, REDCO_RECOMPUTE_NONE);
    parallelism.secondary = (redco_mesh){8, 1};
    const redco_prediction with = uniform_step(&b, &parallelism, zero3, REDCO_RECOMPUTE_NONE);
    assert_true(with.step_s < without.step_s);
    /* Each layer's eighth, rounded up: 32 x 25,297,920 + 16,384,000 + 16,384,512 parameters of 2 bytes. */
    assert_int_equal(with.parameter_bytes - without.parameter_bytes, 2 * (32 * 25297920 + 16384000 + 16384512));
    fixture_close(&b);
}

/* 1F1B on 4 stages, 32 blocks, 8 micro-batches: the blocks take (8 + 4 - 1) x 8 block times, the head (the longer of
 * the two ends) 8 of its own, and a rank holds 8 blocks with 4 micro-batches in flight. */
static void pipeline(void **state)
{
    (void)state;
    struct fixture b;
    fixture_open(&b, "llama-7b", a800_machine(4), plain_workload(64));
    const redco_parallelism flat = {.tp = 1, .pp = 1, .cp = 1, .micro_batch = 1, .micro_batches = 2, .dp = {8, 4}};
    const redco_parallelism staged = {.tp = 1, .pp = 4, .cp = 1, .micro_batch = 1, .micro_batches = 8, .dp = {8, 1}};
    redco_error err = {.status = REDCO_OK};
    check_ok(redco_parallelism_check(b.costs, &flat, &err), &err);
    check_ok(redco_parallelism_check(b.costs, &staged, &err), &err);
    const redco_layer_config whole = {{one, one, one}, REDCO_RECOMPUTE_NONE};
    const uint32_t block = class_of(&b, "block"), head = class_of(&b, "head"), table = class_of(&b, "embedding");
    const redco_layer_cost one_block = redco_cost_layer(b.costs, &flat, block, &whole);
    const redco_layer_cost one_head = redco_cost_layer(b.costs, &flat, head, &whole);
    const redco_layer_cost cost = redco_cost_layer(b.costs, &staged, block, &whole);
    check_near(32.0 * cost.compute_s, 88.0 * one_block.compute_s / 2.0, 1e-9);
    check_near(redco_cost_layer(b.costs, &staged, head, &whole).compute_s, 8.0 * one_head.compute_s / 2.0, 1e-9);
    check_near(redco_cost_layer(b.costs, &staged, table, &whole).compute_s, 0.0, 0.0);
    assert_int_equal(32 * cost.parameter_bytes, 8 * one_block.parameter_bytes);
    assert_int_equal(cost.activation_bytes, one_block.activation_bytes); /* 4 in flight, a quarter of the layers */
    assert_true(redco_cost_fixed(b.costs, &staged).fixed_s > 14.0 * 12e-6);
    check_near(redco_cost_fixed(b.costs, &flat).fixed_s, 0.0, 0.0);
    fixture_close(&b);
}

/* Costs that were asked about other layers, meshes and stages before give what new ones do, to the last bit, and the
 * bytes alone are those of the step. */
static void costs_remember_nothing_else(void **state)
{
    (void)state;
    const redco_parallelism parallelisms[] = {
        {.tp = 1, .pp = 1, .cp = 1, .micro_batch = 1, .micro_batches = 2, .dp = {8, 4}},
        {.tp = 1, .pp = 4, .cp = 1, .micro_batch = 1, .micro_batches = 8, .dp = {8, 1}, .scheme = REDCO_INTRA_TENSOR},
        {.tp = 2, .pp = 4, .cp = 1, .chunks = 2, .micro_batch = 1, .micro_batches = 16, .dp = {4, 1}},
        {.tp = 1, .pp = 1, .cp = 1, .micro_batch = 1, .micro_batches = 2, .dp = {8, 4}, .secondary = {8, 1}}};
    const redco_shards shards[] = {{one, one, one}, {{4, 1}, {4, 1}, {4, 1}}, {one, {4, 1}, {4, 1}}};
    struct fixture used;
    fixture_open(&used, "llama-7b", a800_machine(4), plain_workload(64));
    const redco_layer_class *classes = NULL;
    const uint32_t count = (uint32_t)redco_model_classes(used.model, &classes);
    for (int i = 0; i < 2 * 4 * 3 * RECOMPUTED; i++) {
        const redco_parallelism *const p = &parallelisms[i % 4];
        const redco_layer_config config = {shards[i / 4 % 3], recomputed[i / 12 % RECOMPUTED]};
        redco_assignment all[8];
        struct fixture fresh;
        fixture_open(&fresh, "llama-7b", a800_machine(4), plain_workload(64));
        for (uint32_t c = 0; c < count; c++) {
            const redco_layer_cost a = redco_cost_layer(used.costs, p, c, &config);
            const redco_layer_cost b = redco_cost_layer(fresh.costs, p, c, &config);
            const redco_layer_cost step = redco_cost_layer_step(used.costs, p, c, &config);
            all[c] = (redco_assignment){c, classes[c].layers, config};
            assert_memory_equal(&a, &b, sizeof a);
            assert_true(step.compute_s == a.compute_s && step.exposed_s == a.exposed_s && step.amsp_s == 0.0);
        }
        const redco_prediction whole = redco_cost_step(fresh.costs, p, all, count);
        assert_int_equal(redco_cost_bytes(used.costs, p, all, count), whole.total_bytes);
        assert_true(redco_cost_step(used.costs, p, all, count).step_s == whole.step_s);
        fixture_close(&fresh);
    }
    fixture_close(&used);
}

static void bad_settings_are_named(void **state)
{
    (void)state;
    struct fixture b;
    fixture_open(&b, "llama-7b", a800_machine(8), plain_workload(1024));
    const redco_parallelism good = plain_setting(&b, 1);
    redco_error err = {.status = REDCO_OK};
    check_ok(redco_parallelism_check(b.costs, &good, &err), &err);
    static const struct {
        redco_parallelism parallelism;
        const char *place, *text;
    } rows[] = {{{.tp = 3, .pp = 1, .cp = 1, .micro_batch = 1, .micro_batches = 16, .dp = {8, 8}},
                 "tp",
                 "3 does not divide the 32 attention heads of LLaMA-7B"},
                {{.tp = 16, .pp = 1, .cp = 1, .micro_batch = 1, .micro_batches = 256, .dp = {1, 4}},
                 "tp",
                 "16 does not divide the 8 GPUs of a node of a800-hdr"},
                {{.tp = 1, .pp = 1, .cp = 3, .micro_batch = 1, .micro_batches = 16, .dp = {8, 8}},
                 "cp",
                 "3 does not divide the sequence of 4096 tokens"},
                {{.tp = 2, .pp = 1, .cp = 1, .micro_batch = 1, .micro_batches = 16, .dp = {8, 8}},
                 "dp",
                 "8x8 is 64 ranks; 64 GPUs leave 32"},
                {{.tp = 2, .pp = 1, .cp = 1, .micro_batch = 1, .micro_batches = 32, .dp = {2, 16}},
                 "dp",
                 "2 ranks in a node; 4 fit beside tp x cp = 2 in 8 GPUs"},
                {{.tp = 1, .pp = 1, .cp = 1, .micro_batch = 3, .micro_batches = 5, .dp = {8, 8}},
                 "batch",
                 "1024 sequences are not micro-batch 3 x 5 micro-batches x 64 data-parallel ranks"},
                {{.tp = 1, .pp = 64, .cp = 1, .micro_batch = 1, .micro_batches = 1024, .dp = {1, 1}},
                 "pp",
                 "64 stages are more than the 32 layers of LLaMA-7B"},
                {{.tp = 1, .pp = 1, .cp = 1, .micro_batch = 0, .micro_batches = 1, .dp = {8, 8}},
                 "parallelism",
                 "tp, pp, cp, dp, micro-batch and their number are at least 1"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redco_error why = {.status = REDCO_OK};
        assert_int_equal(redco_parallelism_check(b.costs, &rows[i].parallelism, &why), REDCO_EVALUE);
        assert_string_equal(why.place, rows[i].place);
        assert_string_equal(why.text, rows[i].text);
    }
    fixture_close(&b);
    fixture_open(&b, "gpt2", a800_machine(8), plain_workload(64)); /* learns 1024 positions, is asked for 4096 */
    const redco_parallelism long_sequence = plain_setting(&b, 1);
    assert_int_equal(redco_parallelism_check(b.costs, &long_sequence, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "4096 is more than the 1024 positions"));
    fixture_close(&b);
}

static void bad_workloads_are_named(void **state)
{
    (void)state;
    struct fixture b;
    fixture_open(&b, "llama-7b", a800_machine(8), plain_workload(1024));
    for (int i = 0; i < 4; i++) {
        redco_error err = {.status = REDCO_OK};
        redco_costs *costs = NULL;
        redco_workload workload = b.workload;
        redco_machine machine = b.machine;
        if (i == 0) { workload.seq_len = 0; }
        if (i == 1) { workload.global_batch = 0; }
        if (i == 2) { workload.bucket_bytes = 0; }
        if (i == 3) { machine.gpu.bf16_flops_per_s = 0.0; }
        assert_int_equal(redco_costs_create(&machine, b.model, &workload, &b.calibration, b.comm, &costs, &err),
                         REDCO_EVALUE);
        assert_null(costs);
        assert_true(err.text[0] != '\0');
    }
    fixture_close(&b);
}

/* Profiles are taken as they are: the factors that turn NCCL's model into what a training step gets do not apply. */
static void measured_times_are_not_corrected(void **state)
{
    static const char *const profile[] = {REDCO_TEST_DATA "/profiles/own.csv"}; /* all-reduce and all-gather */
    redco_error err = {.status = REDCO_OK};
    struct fixture b;
    (void)state;
    fixture_open(&b, "llama-7b", a800_machine(8), plain_workload(1024));
    redco_comm_free(b.comm);
    check_ok(redco_comm_create(&b.machine, profile, 1, &b.comm, &err), &err);
    fixture_costs(&b);
    bool network = false;
    const redco_group whole = {.mesh = {8, 8}, .stride = 1, .groups_per_node = 1};
    const double before_s = redcoi_comm_s(b.costs, REDCO_ALL_REDUCE, 1e9, whole, &network);
    assert_true(redco_comm_price(b.comm, REDCO_ALL_REDUCE, 1e9, whole).measured);
    assert_true(network);
    b.calibration.network_efficiency /= 2.0;
    b.calibration.nvlink_efficiency /= 2.0;
    b.calibration.latency_factor *= 2.0;
    fixture_costs(&b);
    check_near(redcoi_comm_s(b.costs, REDCO_ALL_REDUCE, 1e9, whole, &network), before_s, 0.0);
    fixture_close(&b);
}

/* Where norms are in the kernels of products, recomputing them is no recomputation; without experts theirs is none
 * either. A set with them is as one without, and the first of two alike stays. Megatron's own norms free 2 bytes of two
 * planes. */
static void beaten_sets_are_not_tried(void **state)
{
    static const redco_recompute_list sets = {{REDCO_RECOMPUTE_NONE, REDCO_RECOMPUTE_LAYERNORM, REDCO_RECOMPUTE_MLP,
                                               REDCO_RECOMPUTE_MLP | REDCO_RECOMPUTE_MOE_ACT, REDCO_RECOMPUTE_MOE,
                                               REDCO_RECOMPUTE_FULL},
                                              6};
    (void)state;
    for (int te = 0; te < 2; te++) {
        struct fixture b;
        redco_workload workload = plain_workload(64);
        workload.engine.memory = REDCO_MEMORY_MEGATRON;
        workload.engine.software = te == 1 ? REDCO_SOFTWARE_TE_XLA : REDCO_SOFTWARE_MEGATRON;
        fixture_open(&b, "llama-7b", a800_machine(1), workload);
        const redco_parallelism parallelism = plain_setting(&b, 1);
        assert_int_equal(redco_costs_recompute_tried(b.costs, &parallelism, &sets), te == 1 ? 0x25 : 0x27);
        fixture_close(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(paper_equations),
                                       cmocka_unit_test(paper_gradient_shards),
                                       cmocka_unit_test(flops_and_throughput),
                                       cmocka_unit_test(step_is_the_sum_of_its_layers),
                                       cmocka_unit_test(more_sharding_never_holds_more_state),
                                       cmocka_unit_test(a_faster_machine_is_never_slower),
                                       cmocka_unit_test(overlap_never_hurts),
                                       cmocka_unit_test(windows_are_convex),
                                       cmocka_unit_test(waits_are_between_nodes),
                                       cmocka_unit_test(parts_add_up),
                                       cmocka_unit_test(model_flops_count_the_window),
                                       cmocka_unit_test(recomputation_trades_time_for_memory),
                                       cmocka_unit_test(secondary_shards),
                                       cmocka_unit_test(pipeline),
                                       cmocka_unit_test(measured_times_are_not_corrected),
                                       cmocka_unit_test(costs_remember_nothing_else),
                                       cmocka_unit_test(bad_settings_are_named),
                                       cmocka_unit_test(beaten_sets_are_not_tried),
                                       cmocka_unit_test(bad_workloads_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
