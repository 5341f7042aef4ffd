/* Operators of engines that do things their own way: against the closed form where it is a sum, and by name and group.
 */
#include "cost_fixture.h"
#include "costmodel/simulator/simulate.h"

static const redco_mesh one = {1, 1};

static uint32_t uniform(const struct fixture *b, redco_shards shards, redco_recompute recompute,
                        redco_assignment all[8])
{
    const redco_layer_class *classes = NULL;
    const uint32_t count = (uint32_t)redco_model_classes(b->model, &classes);
    for (uint32_t i = 0; i < count; i++) { all[i] = (redco_assignment){i, classes[i].layers, {shards, recompute}}; }
    return count;
}

/* Nothing overlaps: whatever the engine does, the step is the sum that the closed form says, and the norm's reduction.
 */
static void without_overlap_engines_are_a_sum(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        redco_engine engine;
        uint32_t tp, cp;
        redco_shards shards;
        redco_recompute recompute;
    } cases[] = {
        {"flat units", {.layer_units = true}, 1, 1, {{8, 1}, {8, 1}, {8, 1}}, REDCO_RECOMPUTE_NONE},
        {"flat units, recomputed", {.layer_units = true}, 1, 1, {{8, 2}, {8, 2}, {8, 2}}, REDCO_RECOMPUTE_FULL},
        {"half", {.partial_recompute = true}, 2, 1, {{1, 1}, {1, 1}, {4, 1}}, REDCO_RECOMPUTE_FULL},
        {"half, flat units",
         {.partial_recompute = true, .layer_units = true},
         1,
         2,
         {{4, 2}, {4, 2}, {4, 2}},
         REDCO_RECOMPUTE_FULL},
        {"gathered logits", {.logits_gathered = true}, 4, 1, {{1, 1}, {1, 1}, {2, 2}}, REDCO_RECOMPUTE_NONE},
        {"shards over cp",
         {.shard_over_cp = true, .layer_units = true},
         2,
         2,
         {{4, 2}, {4, 2}, {4, 2}},
         REDCO_RECOMPUTE_NONE},
        {"optimizer over cp", {.shard_over_cp = true}, 1, 4, {{1, 1}, {1, 1}, {8, 2}}, REDCO_RECOMPUTE_CORE_ATTN},
        {"wide gradients",
         {.gradient_bytes = 4, .layer_units = true},
         1,
         1,
         {{4, 1}, {4, 1}, {8, 1}},
         REDCO_RECOMPUTE_NONE},
        {"scores written out",
         {.attention = REDCO_ATTENTION_FUSED},
         2,
         1,
         {{1, 1}, {1, 1}, {4, 2}},
         REDCO_RECOMPUTE_CORE_ATTN},
        {"plain norms, compiled",
         {.plain_norm = true, .compiled = true},
         1,
         1,
         {{1, 1}, {1, 1}, {8, 2}},
         REDCO_RECOMPUTE_NONE},
        {"asynchronous tp", {.async_tp = true}, 8, 1, {{1, 1}, {1, 1}, {1, 2}}, REDCO_RECOMPUTE_FULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture b;
        redco_workload workload = plain_workload(64);
        workload.overlap = REDCO_OVERLAP_NONE;
        workload.engine = cases[i].engine;
        fixture_open(&b, "llama-7b", a800_machine(2), workload);
        redco_parallelism parallelism = plain_setting(&b, 1);
        parallelism.tp = cases[i].tp;
        parallelism.cp = cases[i].cp;
        parallelism.dp.gpus = 8 / (cases[i].tp * cases[i].cp);
        parallelism.micro_batches = 64 / redco_mesh_ranks(parallelism.dp);
        redco_assignment all[8];
        redco_simulation s;
        redco_error err = {.status = REDCO_OK};
        const uint32_t count = uniform(&b, cases[i].shards, cases[i].recompute, all);
        check_ok(redco_simulate(b.costs, &parallelism, all, count, NULL, &s, &err), &err);
        const redco_prediction p = redco_cost_step(b.costs, &parallelism, all, count);
        const double step_s = s.step_s - s.account.busy_s[REDCO_WORK_NORM_REDUCE];
        print_message("%-24s %.6f s, %+.1e\n", cases[i].what, step_s, step_s / p.step_s - 1.0);
        check_near(step_s, p.step_s, 1e-9 * p.step_s);
        fixture_close(&b);
    }
}

/* Operators whose name is @p name; the last of them. */
static uint32_t named(const redco_step *step, const char *name, const redco_step_op **op_out, uint32_t *index_out)
{
    uint32_t operators = 0, found = 0;
    const redco_step_op *const ops = redco_step_ops(step, &operators);
    for (uint32_t i = 0; i < operators; i++) {
        char own[96];
        if (strcmp(redco_step_name(step, i, own, sizeof own), name) != 0) { continue; }
        *op_out = &ops[i];
        *index_out = i;
        found++;
    }
    return found;
}

static void expect(const redco_step *step, const char *name, uint32_t times)
{
    const redco_step_op *op = NULL;
    uint32_t index = 0;
    const uint32_t found = named(step, name, &op, &index);
    if (found != times) { fail_msg("%s is there %u times, not %u", name, found, times); }
}

static redco_step *build(const struct fixture *b, const redco_parallelism *parallelism, redco_shards shards,
                         redco_recompute recompute, const redco_step_options *options)
{
    redco_assignment all[8];
    redco_step *step = NULL;
    redco_error err = {.status = REDCO_OK};
    const uint32_t count = uniform(b, shards, recompute, all);
    check_ok(redco_step_build(b->costs, parallelism, all, count, options, &step, &err), &err);
    return step;
}

/* One micro-batch of LLaMA-7B. Flat units: a gather a layer forward and one more backward, whether recomputed or not,
 * and a scatter. Half: products and norms again, no attention, no tensor-parallel traffic. */
static void operators_of_engines(void **state)
{
    (void)state;
    struct fixture b;
    redco_workload workload = plain_workload(8);
    workload.engine = (redco_engine){.layer_units = true, .partial_recompute = true, .logits_gathered = true};
    fixture_open(&b, "llama-7b", a800_machine(2), workload);
    redco_parallelism parallelism = plain_setting(&b, 1);
    parallelism.tp = 2;
    parallelism.dp = (redco_mesh){4, 2};
    parallelism.micro_batches = 1;
    redco_step *const step =
        build(&b, &parallelism, (redco_shards){{4, 2}, {4, 2}, {4, 2}}, REDCO_RECOMPUTE_FULL, NULL);
    expect(step, "fwd/block.12/flat_param/gather", 1);
    expect(step, "bwd/block.12/flat_param/gather", 1);
    expect(step, "bwd/block.12/flat_param/scatter", 1);
    expect(step, "fwd/block.12/q_proj/gather", 0);
    expect(step, "bwd/embedding.0/flat_param/gather", 0);
    expect(step, "re/block.12/ffn_in", 1);
    expect(step, "re/block.12/attention", 0);
    expect(step, "re/block.12/out/reduce", 0);
    expect(step, "fwd/block.12/out/reduce", 1);
    expect(step, "fwd/head.0/head/tp_gather", 1);
    expect(step, "bwd/head.0/head/tp_scatter", 1);
    redco_step_free(step);
    fixture_close(&b);
}

/* Sharded over data- and context-parallel ranks alike: 2 x 2 data-parallel times 2 context-parallel ranks are 8. What
 * is not sharded is reduced over all of them. */
static void groups_span_context_parallel_ranks(void **state)
{
    (void)state;
    struct fixture b;
    redco_workload workload = plain_workload(4);
    workload.engine = (redco_engine){.layer_units = true, .shard_over_cp = true};
    fixture_open(&b, "llama-7b", a800_machine(2), workload);
    redco_parallelism parallelism = plain_setting(&b, 1);
    parallelism.tp = 2;
    parallelism.cp = 2;
    parallelism.dp = (redco_mesh){2, 2};
    parallelism.micro_batches = 1;
    const redco_step_op *op = NULL;
    uint32_t index = 0;
    redco_step *step = build(&b, &parallelism, (redco_shards){{4, 2}, {4, 2}, {4, 2}}, REDCO_RECOMPUTE_NONE, NULL);
    assert_int_equal(named(step, "fwd/block.3/flat_param/gather", &op, &index), 1);
    assert_int_equal(redco_mesh_ranks(redco_step_traffic_of(step, index)->group.mesh), 8);
    assert_int_equal(named(step, "bwd/block.3/flat_param/scatter", &op, &index), 1);
    assert_int_equal(redco_mesh_ranks(redco_step_traffic_of(step, index)->group.mesh), 8);
    expect(step, "bwd/gradients/bucket.0", 0);
    redco_step_free(step);
    step = build(&b, &parallelism, (redco_shards){one, one, {4, 2}}, REDCO_RECOMPUTE_NONE, NULL);
    assert_int_equal(named(step, "fwd/block.3/update", &op, &index), 1);
    assert_int_equal(redco_mesh_ranks(redco_step_traffic_of(step, index)->group.mesh), 8);
    assert_int_equal(named(step, "bwd/gradients/bucket.0", &op, &index), 1);
    assert_int_equal(redco_mesh_ranks(redco_step_traffic_of(step, index)->group.mesh), 8);
    redco_step_free(step);
    fixture_close(&b);
}

/* Without overlap stages reduce when they have handed all gradients of activations on: no reduction of a stage starts
 * before its last backward has ended, and the first stage is not held up by those of later ones. */
static void stages_reduce_last(void **state)
{
    (void)state;
    struct fixture b;
    redco_error err = {.status = REDCO_OK};
    redco_workload workload = plain_workload(16);
    workload.overlap = REDCO_OVERLAP_NONE;
    workload.bucket_bytes = (uint64_t)100 << 20;
    fixture_open(&b, "llama-7b", a800_machine(2), workload);
    redco_parallelism parallelism = plain_setting(&b, 1);
    parallelism.pp = 4;
    parallelism.dp = (redco_mesh){4, 1};
    parallelism.micro_batches = 4;
    redco_timeline *timeline = NULL;
    redco_step *const step = build(&b, &parallelism, (redco_shards){one, one, one}, REDCO_RECOMPUTE_NONE, NULL);
    check_ok(redco_timeline_create(step, &timeline, &err), &err);
    check_ok(redco_timeline_check(timeline, &err), &err);
    uint32_t operators = 0;
    const redco_step_op *const ops = redco_step_ops(step, &operators);
    double last_s[4] = {0.0}, first_reduced_s = 1e9;
    unsigned buckets = 0;
    for (uint32_t i = 0; i < operators; i++) {
        if (ops[i].work == REDCO_WORK_BACKWARD) { last_s[ops[i].rank] = timeline->end_s[i]; }
    }
    for (uint32_t i = 0; i < operators; i++) {
        if (ops[i].work != REDCO_WORK_REDUCE) { continue; }
        assert_true(timeline->start_s[i] >= last_s[ops[i].rank]);
        if (timeline->start_s[i] < first_reduced_s) { first_reduced_s = timeline->start_s[i]; }
        buckets++;
    }
    assert_true(buckets >= 4 * 30); /* 3.4 GB of gradients on a stage of 1.7 billion parameters */
    assert_true(first_reduced_s < last_s[0]);
    redco_timeline_free(timeline);
    redco_step_free(step);
    fixture_close(&b);
}

/* ZB-H1 needs no more memory than 1F1B (arXiv 2401.10241, table 1), but for the logits of the last stage, which wait
 * for the head's weights: neither what backward works with nor whole gradients pile up until gradients of weights are
 * made.
 */
static void halves_of_backward_pile_nothing_up(void **state)
{
    (void)state;
    static const redco_shards shards[] = {{{1, 1}, {1, 1}, {4, 1}}, {{4, 1}, {4, 1}, {4, 1}}};
    static const redco_recompute policies[] = {REDCO_RECOMPUTE_NONE, REDCO_RECOMPUTE_CORE_ATTN};
    static const redco_engine engines[] = {{.memory = REDCO_MEMORY_MEGATRON, .attention = REDCO_ATTENTION_FUSED},
                                           {.memory = REDCO_MEMORY_PYTORCH, .layer_units = true}};
    for (unsigned i = 0; i < 2 * 2 * 2; i++) {
        redco_assignment all[8];
        redco_error err = {.status = REDCO_OK};
        uint64_t bytes[2] = {0, 0};
        struct fixture b;
        redco_workload workload = plain_workload(96);
        workload.engine = engines[i % 2];
        fixture_open(&b, "llama-7b", a800_machine(2), workload);
        redco_parallelism parallelism = plain_setting(&b, 1);
        parallelism.pp = 4;
        parallelism.dp = (redco_mesh){4, 1};
        parallelism.micro_batches = 24;
        const uint32_t count = uniform(&b, shards[i / 2 % 2], policies[i / 4], all);
        for (int k = 0; k < 2; k++) {
            redco_simulation s;
            parallelism.schedule = k == 0 ? REDCO_PIPELINE_1F1B : REDCO_PIPELINE_ZB_H1;
            check_ok(redco_simulate(b.costs, &parallelism, all, count, NULL, &s, &err), &err);
            bytes[k] = s.peak.bytes - s.peak.held_bytes[REDCO_CATEGORY_LOGITS];
        }
        assert_true(bytes[0] > 0);
        assert_true((double)bytes[1] <= 1.03 * (double)bytes[0]);
        fixture_close(&b);
    }
}

/* 12 blocks on 14 chunks: embedding and head take a block's place each, so every chunk but the first and the last has
 * one block. */
static void edges_take_a_place(void **state)
{
    (void)state;
    struct fixture b;
    redco_error err = {.status = REDCO_OK};
    redco_workload workload = plain_workload(32);
    workload.seq_len = 512;
    fixture_open(&b, "opt-125m", a800_machine(1), workload);
    redco_parallelism parallelism = plain_setting(&b, 1);
    parallelism.pp = 2;
    parallelism.chunks = 7;
    parallelism.dp = (redco_mesh){4, 1};
    parallelism.micro_batches = 8;
    redco_step *step = build(&b, &parallelism, (redco_shards){one, one, one}, REDCO_RECOMPUTE_NONE, NULL);
    uint32_t operators = 0, blocks[2] = {0, 0};
    const redco_step_op *const ops = redco_step_ops(step, &operators);
    for (uint32_t i = 0; i < operators; i++) {
        char name[96];
        (void)redco_step_name(step, i, name, sizeof name);
        if (ops[i].micro_batch != 0 || strstr(name, "/qkv") == NULL || strncmp(name, "fwd/", 4) != 0) { continue; }
        blocks[ops[i].rank]++;
        /* Block l is on chunk l + 1 of 14, which is stage (l + 1) mod 2. */
        assert_int_equal(ops[i].rank, (strtoul(name + strlen("fwd/block."), NULL, 10) + 1) % 2);
    }
    assert_int_equal(blocks[0], 6);
    assert_int_equal(blocks[1], 6);
    redco_step_free(step);
    parallelism.chunks = 8; /* 16 in all */
    redco_assignment all[8];
    const uint32_t count = uniform(&b, (redco_shards){one, one, one}, REDCO_RECOMPUTE_NONE, all);
    assert_int_equal(redco_step_build(b.costs, &parallelism, all, count, NULL, &step, &err), REDCO_EVALUE);
    /* 12 blocks, or 14 places, in equal chunks on 2 stages: 2, 3 and 6 a stage, or 7. */
    for (uint32_t chunks = 1; chunks <= 8; chunks++) {
        const bool equal = chunks <= 3 || chunks == 6 || chunks == 7;
        redco_error_clear(&err);
        parallelism.chunks = chunks;
        assert_int_equal(redco_step_chunks_check(b.costs, &parallelism, &err), equal ? REDCO_OK : REDCO_EVALUE);
    }
    fixture_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_overlap_engines_are_a_sum),  cmocka_unit_test(operators_of_engines),
        cmocka_unit_test(groups_span_context_parallel_ranks), cmocka_unit_test(stages_reduce_last),
        cmocka_unit_test(halves_of_backward_pile_nothing_up), cmocka_unit_test(edges_take_a_place)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
