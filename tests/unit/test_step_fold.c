/* Passes that repeat one before, laid out as few operators, against every operator of every micro-batch. */
#include "cost_fixture.h"
#include "costmodel/simulator/simulate.h"
#include "tests/unit/recomputed.h"

#include <math.h>
#include <stdio.h>

static const redco_mesh one = {1, 1};

struct totals {
    unsigned runs, fewer; /* laid out with less than half of the operators */
    unsigned named;       /* where all waits are for the same */
    uint64_t operators, all_operators;
    uint64_t micro_batches; /* laid out of the last */
};

static void check_shares(const double few[REDCO_WORK_COUNT], const double full[REDCO_WORK_COUNT], double step_s,
                         double tolerance)
{
    for (int i = 0; i < REDCO_WORK_COUNT; i++) { check_near(few[i], full[i], tolerance * step_s); }
}

/* Where two things end at the same time either may be what was waited for: as long in all. @return whether it is the
 * same everywhere */
static bool check_waits(const double few[REDCO_WORK_COUNT], const double full[REDCO_WORK_COUNT], double step_s)
{
    double few_s = 0.0, full_s = 0.0;
    bool equal = true;
    for (int i = 0; i < REDCO_WORK_COUNT; i++) {
        few_s += few[i];
        full_s += full[i];
        equal = equal && fabs(few[i] - full[i]) <= 1e-8 * step_s;
    }
    check_near(few_s, full_s, 1e-8 * step_s);
    check_shares(few, full, step_s, 1e-3);
    return equal;
}

/* Times, accounts, the critical path and memory: equal to rounding. */
static void same(const struct fixture *b, const redco_parallelism *parallelism, redco_shards shards,
                 redco_recompute recompute, struct totals *totals)
{
    const redco_layer_class *classes = NULL;
    const uint32_t count = (uint32_t)redco_model_classes(b->model, &classes);
    const redco_step_options part = {.steps = 1}, whole = {.micro_batches = parallelism->micro_batches};
    redco_assignment all[8];
    redco_simulation few, full;
    redco_error err = {.status = REDCO_OK};
    for (uint32_t i = 0; i < count; i++) { all[i] = (redco_assignment){i, classes[i].layers, {shards, recompute}}; }
    check_ok(redco_simulate(b->costs, parallelism, all, count, &part, &few, &err), &err);
    check_ok(redco_simulate(b->costs, parallelism, all, count, &whole, &full, &err), &err);
    check_near(few.step_s, full.step_s, 1e-9 * full.step_s);
    check_shares(few.account.busy_s, full.account.busy_s, full.step_s, 1e-8);
    bool named = check_waits(few.account.waiting_s, full.account.waiting_s, full.step_s);
    check_near(few.account.contention_s, full.account.contention_s, 1e-8 * full.step_s);
    assert_int_equal(few.rank, full.rank);
    assert_int_equal(few.peak_rank, full.peak_rank);
    assert_int_equal(few.peak.bytes, full.peak.bytes);
    assert_string_equal(few.peak_name, full.peak_name);
    for (int h = 0; h < REDCO_CATEGORY_COUNT; h++) {
        assert_int_equal(few.peak.held_bytes[h], full.peak.held_bytes[h]);
    }
    if (few.simulated_micro_batches == parallelism->micro_batches) { /* no extrapolation: the same path and instant */
        named = check_waits(few.critical_s, full.critical_s, full.step_s) && named;
        check_near(few.peak.time_s, full.peak.time_s, 1e-9 * full.step_s);
    }
    totals->runs++;
    totals->named += named ? 1 : 0;
    totals->fewer += 2 * few.operators < full.operators ? 1 : 0;
    totals->operators += few.operators;
    totals->micro_batches = few.simulated_micro_batches;
    totals->all_operators += full.operators;
}

static void same_for_all(struct fixture *b, uint32_t tp, uint32_t pp, uint32_t chunks, bool rows, struct totals *totals)
{
    redco_parallelism parallelism = plain_setting(b, 1);
    const uint32_t dp = 16 / (tp * pp);
    parallelism.tp = tp;
    parallelism.pp = pp;
    parallelism.chunks = chunks;
    parallelism.sequence_parallel = rows;
    parallelism.dp = (redco_mesh){dp < 8 / tp ? dp : 8 / tp, dp < 8 / tp ? 1 : dp / (8 / tp)};
    parallelism.micro_batches = b->workload.global_batch / dp;
    const redco_mesh all = parallelism.dp;
    const redco_shards shards[] = {{one, one, one}, {one, one, all}, {one, all, all}, {all, all, all}};
    for (size_t s = 0; s < sizeof shards / sizeof shards[0]; s++) {
        for (int recompute = 0; recompute < RECOMPUTED; recompute++) {
            for (int scheme = 0; scheme < 2; scheme++) {
                parallelism.scheme = scheme == 0 ? REDCO_INTER_TENSOR : REDCO_INTRA_TENSOR;
                same(b, &parallelism, shards[s], recomputed[recompute], totals);
            }
        }
    }
}

static void print_totals(const struct totals *totals)
{
    print_message("%u steps, %llu operators for %llu; %u with less than half of them, %u with the same names\n",
                  totals->runs, (unsigned long long)totals->operators, (unsigned long long)totals->all_operators,
                  totals->fewer, totals->named);
}

static void folded_is_full(void **state)
{
    (void)state;
    static const uint32_t overlaps[] = {REDCO_OVERLAP_ALL, REDCO_OVERLAP_NONE, REDCO_OVERLAP_AR};
    struct totals totals = {.runs = 0};
    for (size_t o = 0; o < sizeof overlaps / sizeof overlaps[0]; o++) {
        struct fixture b;
        redco_workload workload = plain_workload(48);
        workload.overlap = overlaps[o];
        workload.seq_len = 1024;
        workload.bucket_bytes = (uint64_t)(o == 1 ? 64 : 300) << 20; /* full within a pass, or not */
        fixture_open(&b, "llama-7b", a800_machine(2), workload);
        same_for_all(&b, 1, 4, 1, o == 2, &totals);
        same_for_all(&b, 4, 2, 1, o == 2, &totals);
        same_for_all(&b, 2, 8, 1, o == 2,
                     &totals); /* 48 micro-batches on 8 stages, the last one slower: it settles late */
        same_for_all(&b, 2, 4, 2, o == 2, &totals);
        fixture_close(&b);
    }
    print_totals(&totals);
    assert_true(totals.fewer == totals.runs);
    assert_true(10 * totals.named >= 9 * totals.runs);
}

/* Other things that happen in passes: whole layers gathered at once, a secondary mesh, keys and values of other ranks,
 * partial recomputation; each overlap alone; contention or none; hosts that take no time to launch. */
static const struct variant {
    uint32_t overlap, cp;
    bool hpz, sequence_parallel, no_contention, no_launch;
    redco_engine engine;
} variants[] = {
    {REDCO_OVERLAP_ALL, 1, false, false, false, false, {.layer_units = true}},
    {REDCO_OVERLAP_NONE, 1, false, true, false, false, {.layer_units = true, .partial_recompute = true}},
    {REDCO_OVERLAP_ALL, 1, true, true, false, false, {.gradient_bytes = 4}},
    {REDCO_OVERLAP_NONE, 1, true, false, false, false, {.gradient_bytes = 4}},
    {REDCO_OVERLAP_ALL, 2, false, false, false, false, {.shard_over_cp = true}},
    {REDCO_OVERLAP_AG_RS, 2, false, true, false, false, {.logits_gathered = true}},
    {REDCO_OVERLAP_AR, 1, false, true, false, false, {.gradient_bytes = 0}},
    {REDCO_OVERLAP_BC, 1, false, false, false, false, {.gradient_bytes = 0}},
    {REDCO_OVERLAP_AG_RS | REDCO_OVERLAP_BC, 1, true, false, true, false, {.partial_recompute = true}},
    {REDCO_OVERLAP_AG_RS | REDCO_OVERLAP_AR, 1, false, false, true, false, {.gradient_bytes = 0}},
    {REDCO_OVERLAP_ALL, 1, false, true, false, true, {.gradient_bytes = 0}},
};

static void same_for_variant(struct fixture *b, const struct variant *v, uint32_t tp, uint32_t pp, uint32_t chunks,
                             struct totals *totals)
{
    redco_parallelism parallelism = plain_setting(b, 1);
    const uint32_t dp = 32 / (tp * pp * v->cp), local = dp < 8 / tp ? dp : 8 / tp;
    parallelism.tp = tp;
    parallelism.pp = pp;
    parallelism.cp = v->cp;
    parallelism.chunks = chunks;
    parallelism.sequence_parallel = v->sequence_parallel;
    parallelism.dp = (redco_mesh){local, dp / local};
    parallelism.micro_batches = b->workload.global_batch / dp;
    const redco_mesh all = parallelism.dp, node = {local, 1}, some = {local > 1 ? local / 2 : 1, 1};
    const redco_shards shards[] = {{all, all, all}, {node, node, all}, {some, node, all}, {one, all, all}};
    if (v->hpz && all.nodes > 1) { parallelism.secondary = node; }
    for (size_t s = 0; s < sizeof shards / sizeof shards[0]; s++) {
        for (int recompute = 0; recompute < RECOMPUTED; recompute++) {
            parallelism.scheme = (s + (size_t)recompute) % 2 == 0 ? REDCO_INTER_TENSOR : REDCO_INTRA_TENSOR;
            if (v->hpz && s > 0) { continue; } /* a second copy is of parameters that all ranks share */
            same(b, &parallelism, shards[s], recomputed[recompute], totals);
        }
    }
}

static void folded_variants(void **state)
{
    (void)state;
    struct totals totals = {.runs = 0};
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        const struct variant *const v = &variants[i];
        struct fixture b;
        redco_workload workload = plain_workload(96);
        workload.overlap = v->overlap;
        workload.seq_len = 512;
        workload.engine = v->engine;
        fixture_open(&b, "llama-7b", a800_machine(4), workload);
        if (v->no_contention) { b.calibration.contention_ratio = 0.0; }
        if (v->no_launch) { b.calibration.launch_s = b.calibration.sync_s = 0.0; }
        fixture_costs(&b);
        same_for_variant(&b, v, 1, 2, 1, &totals);
        same_for_variant(&b, v, 2, 4, 2, &totals);
        fixture_close(&b);
    }
    print_totals(&totals);
    assert_true(4 * totals.fewer >= 3 * totals.runs);
    assert_true(10 * totals.named >= 7 * totals.runs);
}

/* Without overlap a bucket that is full when a pass ends holds up what follows, the transfer to the stage before, too:
 * 4 blocks of LLaMA-30B are 4 x 541 million parameters of 2 bytes, on 4 tensor-parallel ranks a little more than 1 GiB.
 */
static void bucket_full_at_the_end(void **state)
{
    (void)state;
    struct totals totals = {.runs = 0};
    struct fixture b;
    redco_workload workload = plain_workload(128);
    workload.overlap = REDCO_OVERLAP_NONE;
    fixture_open(&b, "llama-30b", a800_machine(32), workload);
    redco_parallelism parallelism = plain_setting(&b, 1);
    parallelism.tp = 4;
    parallelism.pp = 16;
    parallelism.dp = (redco_mesh){2, 2};
    parallelism.micro_batches = 32;
    for (int scheme = 0; scheme < 2; scheme++) {
        parallelism.scheme = scheme == 0 ? REDCO_INTER_TENSOR : REDCO_INTRA_TENSOR;
        same(&b, &parallelism, (redco_shards){one, {2, 1}, {2, 1}}, REDCO_RECOMPUTE_NONE, &totals);
    }
    assert_true(totals.fewer > 0);
    fixture_close(&b);
}

/* A network so slow that a transfer outlasts whole passes: nothing may be folded that it runs beside. */
static void slow_transfers(void **state)
{
    (void)state;
    struct totals totals = {.runs = 0};
    redco_machine machine = a800_machine(2);
    machine.node_network_bytes_per_s = 2e7;
    machine.nic_bytes_per_s = 5e6;
    struct fixture b;
    redco_workload workload = plain_workload(16);
    workload.seq_len = 256;
    fixture_open(&b, "opt-125m", machine, workload);
    redco_parallelism parallelism = plain_setting(&b, 1);
    parallelism.pp = 2;
    parallelism.dp = (redco_mesh){8, 1};
    parallelism.micro_batches = 2;
    workload.global_batch = 16;
    same(&b, &parallelism, (redco_shards){one, one, one}, REDCO_RECOMPUTE_NONE, &totals);
    parallelism.tp = 4;
    parallelism.dp = (redco_mesh){2, 1};
    parallelism.micro_batches = 8;
    same(&b, &parallelism, (redco_shards){one, one, {2, 1}}, REDCO_RECOMPUTE_FULL, &totals);
    parallelism.chunks = 2;
    same(&b, &parallelism, (redco_shards){one, one, {2, 1}}, REDCO_RECOMPUTE_FULL, &totals);
    fixture_close(&b);
}

/* Hundreds of layers on a stage, whose updated parameters are still on their way when the first pass repeats. */
static void many_updates_under_way(void **state)
{
    (void)state;
    static const char path[] = "llama-512-layers.json";
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs("{\"model_type\": \"llama\", \"num_hidden_layers\": 512, \"hidden_size\": 1024, "
                      "\"intermediate_size\": 4096, \"num_attention_heads\": 16, \"vocab_size\": 32000}",
                      file) >= 0);
    assert_int_equal(fclose(file), 0);
    struct totals totals = {.runs = 0};
    struct fixture b;
    redco_workload workload = plain_workload(144);
    workload.seq_len = 512;
    workload.engine.gradient_bytes = 4;
    fixture_open(&b, path, a800_machine(2), workload);
    redco_parallelism parallelism = plain_setting(&b, 1);
    parallelism.pp = 2;
    parallelism.chunks = 8;
    parallelism.dp = (redco_mesh){8, 1};
    parallelism.micro_batches = 18;
    parallelism.scheme = REDCO_INTRA_TENSOR;
    same(&b, &parallelism, (redco_shards){one, one, {8, 1}}, REDCO_RECOMPUTE_NONE, &totals);
    print_totals(&totals);
    assert_int_equal(totals.fewer, 1);
    fixture_close(&b);
    assert_int_equal(remove(path), 0);
}

/* A transfer that outlasts what a stage does meanwhile: a wait goes round the stages, and p - 2 micro-batches repeat
 * those before them. Few are laid out, of which all others are multiples. */
static void waits_go_round(void **state)
{
    (void)state;
    struct totals totals = {.runs = 0};
    redco_machine machine = a800_machine(8);
    machine.nic_bytes_per_s /= 10.0;
    machine.node_network_bytes_per_s /= 10.0;
    struct fixture b;
    fixture_open(&b, "llama-7b", machine, plain_workload(255));
    redco_parallelism parallelism = plain_setting(&b, 1);
    parallelism.tp = 8;
    parallelism.pp = 8;
    parallelism.dp = one;
    for (parallelism.micro_batches = 255; parallelism.micro_batches <= 257; parallelism.micro_batches++) {
        same(&b, &parallelism, (redco_shards){one, one, one}, REDCO_RECOMPUTE_NONE, &totals);
        assert_true(totals.micro_batches < 64);
    }
    fixture_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(folded_is_full),         cmocka_unit_test(folded_variants),
                                       cmocka_unit_test(bucket_full_at_the_end), cmocka_unit_test(slow_transfers),
                                       cmocka_unit_test(many_updates_under_way), cmocka_unit_test(waits_go_round)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
