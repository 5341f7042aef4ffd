/* The grid of experts: which degrees there are, the states that a rank has, rows that go to other ranks and come back.
 */
#include "cost_fixture.h"
#include "costmodel/closed_form/closed_form_internal.h"
#include "costmodel/closed_form/memory_saved.h"
#include "costmodel/closed_form/nccl_buffers.h"
#include "costmodel/collectives/expert_exchange.h"
#include "costmodel/simulator/simulate.h"

#include <math.h>

static const redco_mesh one = {1, 1};

static void open_mixture(struct fixture *b, const char *name, redco_machine machine)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/models/mixtures/%s.json", REDCO_TEST_DATA, name);
    fixture_open(b, path, machine, plain_workload(64));
}

/* 2740 parameters outside of experts, 3 x 288 of these (test_mixtures.c); on 8 GPUs each expert group of 4 has two
 * replicas. Optimizer states of layers over 8 ranks, those of a quarter of the experts over 2, rounded up: embedding
 * 16, dense 71, two of 63 + 36, prediction 114 + 36, head 17. */
static void experts_are_sharded_over_their_replicas(void **state)
{
    struct fixture b;
    (void)state;
    open_mixture(&b, "deepseek-v3", a800_machine(1));
    redco_parallelism s = plain_setting(&b, 1);
    s.scheme = REDCO_INTRA_TENSOR;
    s.ep = 4;
    const redco_prediction p = uniform_step(&b, &s, (redco_shards){one, one, {8, 1}}, REDCO_RECOMPUTE_NONE);
    assert_int_equal(p.parameter_bytes, 2 * (2740 + 3 * 288 / 4));
    assert_int_equal(p.gradient_bytes, 2 * (2740 + 3 * 288 / 4));
    assert_int_equal(p.optimizer_bytes, 12 * (16 + 71 + 2 * (63 + 36) + 114 + 36 + 17));
    /* All ranks of one group: nothing is left to shard over. */
    s.ep = 1;
    const redco_prediction whole = uniform_step(&b, &s, (redco_shards){one, one, {8, 1}}, REDCO_RECOMPUTE_NONE);
    assert_int_equal(whole.parameter_bytes, 2 * 3604);
    fixture_close(&b);
}

/* Two tensor-parallel ranks with whole experts, so that these have twice as many replicas as the dense part: parameters
 * that nothing shards are whole on both grids. A half of the experts is twice a quarter. */
static void experts_with_more_replicas_are_whole(void **state)
{
    struct fixture b;
    uint64_t bytes[3];
    (void)state;
    open_mixture(&b, "deepseek-v3", a800_machine(1));
    redco_parallelism s = plain_setting(&b, 1);
    s.tp = 2;
    s.dp = (redco_mesh){4, 1};
    s.micro_batches = 16;
    s.etp = 1;
    for (uint32_t i = 0; i < 3; i++) {
        s.ep = 1U << i;
        bytes[i] = uniform_step(&b, &s, (redco_shards){one, one, s.dp}, REDCO_RECOMPUTE_NONE).parameter_bytes;
    }
    assert_int_equal(bytes[0] - bytes[1], 2 * 3 * 288 / 2);
    assert_int_equal(bytes[1] - bytes[2], 2 * 3 * 288 / 4);
    fixture_close(&b);
}

static uint32_t index_of(const struct fixture *b, uint32_t class_index, const redco_shape *shape, redco_op_role role)
{
    redco_operator ops[REDCO_OPERATORS_MAX];
    const uint32_t count = redco_layer_operators(b->model, class_index, shape, ops);
    uint32_t i = 0;
    while (i < count && ops[i].role != role) { i++; }
    assert_true(i < count);
    return i;
}

/* 4096 tokens of two choices, rows of 8 numbers of 2 bytes, in groups of 4 neighbours: there before the experts' first
 * product, back behind the last, and gradients the other way. */
static void rows_go_there_and_back(void **state)
{
    struct fixture b;
    (void)state;
    open_mixture(&b, "deepseek-v3", a800_machine(1));
    redco_parallelism s = plain_setting(&b, 1);
    s.ep = 4;
    const redco_shape shape = redco_costs_shape(b.costs, &s);
    const uint32_t moe = class_of(&b, "moe");
    const uint32_t in = index_of(&b, moe, &shape, REDCO_OP_ROLE_EXPERT_IN);
    const uint32_t out = index_of(&b, moe, &shape, REDCO_OP_ROLE_EXPERT_OUT);
    const redco_group group = {.mesh = {4, 1}, .stride = 1, .groups_per_node = 2, .tp = 1};
    const double exposed = b.costs->calibration.tp_exposed_ratio;
    const redco_exchange exchange = {.machine = &b.costs->machine,
                                     .constants = &b.costs->calibration.experts,
                                     .group = group,
                                     .experts = b.costs->dims->experts,
                                     .choices = 2,
                                     .tokens = 4096.0,
                                     .row_bytes = 8.0 * 2.0,
                                     .load = redco_shape_load(&shape)};
    const double want_s = redco_exchange_s(&exchange);
    assert_true(want_s > 0.0);
    const redcoi_times *const times = redcoi_times_of(redcoi_rank_find(b.costs, &s), moe, 0);
    check_near(exposed * times->tp[in].forward_before_s, want_s, 1e-15);
    check_near(exposed * times->tp[out].forward_after_s, want_s, 1e-15);
    check_near(exposed * times->tp[out].backward_before_s, want_s, 1e-15);
    check_near(exposed * times->tp[in].backward_after_s, want_s, 1e-15);
    check_near(exposed * times->tp_forward_s, 2.0 * want_s, 1e-15);
    /* Nobody to exchange with. */
    s.ep = 1;
    const redcoi_times *const alone = redcoi_times_of(redcoi_rank_find(b.costs, &s), moe, 0);
    check_near(alone->tp_forward_s + alone->tp_backward_s, 0.0, 0.0);
    fixture_close(&b);
}

/* Two tensor-parallel ranks that share a sequence: with experts cut, each has all 4096 x 2 rows of 8 numbers; with
 * whole experts half of them. Of everything else both keep as much: experts' width is even. */
static void whole_experts_have_rows_of_their_own(void **state)
{
    struct fixture b;
    (void)state;
    open_mixture(&b, "qwen2-moe", a800_machine(1));
    const uint32_t moe = class_of(&b, "moe");
    redco_parallelism s = plain_setting(&b, 1);
    s.tp = 2;
    s.dp = (redco_mesh){4, 1};
    s.sequence_parallel = true;
    const redco_recompute_list none = {.count = 0};
    uint64_t kept[2];
    double flops[2];
    for (uint32_t etp = 1; etp <= 2; etp++) {
        s.etp = etp;
        const redco_shape shape = redco_costs_shape(b.costs, &s);
        redco_operator ops[REDCO_OPERATORS_MAX];
        (void)redco_layer_operators(b.model, moe, &shape, ops);
        kept[etp - 1] = redco_saved_of(b.model, moe, &shape, REDCO_SAVER_TE, &none).kept;
        flops[etp - 1] = ops[index_of(&b, moe, &shape, REDCO_OP_ROLE_EXPERT_IN)].flops;
    }
    assert_int_equal(kept[1] - kept[0], 4096 * 2 * 8 * 2 / 2);
    /* gate and up of half of the work, of the fullest rank's rows */
    const double rows[2] = {ceil(1.3 * 4096.0), ceil(1.3 * 4096.0 * 2)};
    check_near(flops[0], rows[0] * 2 * 8 * 12, 1e-6);
    check_near(flops[1], rows[1] * 2 * 8 * 12 / 2, 1e-6);
    fixture_close(&b);
}

/* Caches know grids apart: on one set of costs each question has the answer that it has on costs of its own. */
static void kept_results_are_of_one_grid(void **state)
{
    static const uint32_t ep[] = {1, 4, 1, 2, 4};
    (void)state;
    for (uint32_t pp = 1; pp <= 2; pp++) {
        struct fixture kept;
        open_mixture(&kept, "deepseek-v3", a800_machine(1));
        for (size_t i = 0; i < sizeof ep / sizeof ep[0]; i++) {
            struct fixture b;
            open_mixture(&b, "deepseek-v3", a800_machine(1));
            redco_parallelism s = plain_setting(&b, 1);
            s.pp = pp;
            s.dp.gpus = 8 / pp;
            s.micro_batches = 64 / s.dp.gpus;
            s.ep = ep[i];
            const redco_shards shards = {one, one, s.dp};
            const redco_prediction got = uniform_step(&kept, &s, shards, REDCO_RECOMPUTE_NONE);
            const redco_prediction want = uniform_step(&b, &s, shards, REDCO_RECOMPUTE_NONE);
            assert_true(got.step_s == want.step_s);
            assert_int_equal(got.total_bytes, want.total_bytes);
            fixture_close(&b);
        }
        fixture_close(&kept);
    }
}

/* Without a grid of their own experts are sharded by the communicators of the other parameters. */
static void one_grid_has_one_set_of_communicators(void **state)
{
    struct fixture b;
    (void)state;
    open_mixture(&b, "deepseek-v3", a800_machine(1));
    const redco_parallelism s = plain_setting(&b, 1);
    const redco_layer_config config = {{one, one, {8, 1}}, REDCO_RECOMPUTE_NONE};
    const redcoi_job job = redcoi_job_of(b.costs, &s, class_of(&b, "moe"), 0, &config);
    const uint64_t want = redcoi_nccl_outer_bytes(b.costs, &s) + redcoi_nccl_sharded_bytes(&job);
    assert_int_equal(uniform_step(&b, &s, config.shards, REDCO_RECOMPUTE_NONE).nccl_bytes, want);
    fixture_close(&b);
}

static void impossible_grids_say_why(void **state)
{
    static const struct {
        uint32_t tp, ep, etp;
        bool rows;
        const char *place, *text;
    } bad[] = {
        {1, 3, 1, false, "ep", "etp x ep = 1 x 3 does not divide tp x cp x dp = 1 x 1 x 8"},
        {1, 8, 1, false, "ep", "8 does not divide the 4 experts of a layer"},
        {2, 2, 1, false, "ep",
         "ep = 2 and etp = 1 with tp = 2 need sequence parallelism, by which ranks have tokens of "
         "their own"},
        {1, 2, 2, false, "etp", "2: experts are cut by tp = 1 or not at all"},
    };
    struct fixture b;
    (void)state;
    open_mixture(&b, "deepseek-v3", a800_machine(1));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        redco_error err = {0};
        redco_parallelism s = plain_setting(&b, 1);
        s.tp = bad[i].tp;
        s.dp = (redco_mesh){8 / bad[i].tp, 1};
        s.ep = bad[i].ep;
        s.etp = bad[i].etp;
        s.sequence_parallel = bad[i].rows;
        assert_int_equal(redco_parallelism_check(b.costs, &s, &err), REDCO_EVALUE);
        assert_string_equal(err.place, bad[i].place);
        assert_string_equal(err.text, bad[i].text);
    }
    fixture_close(&b);
}

/* FSDP's units, experts gathered over a grid of their own: what backward has gathered goes with the layer, so that more
 * micro-batches need no more memory. */
static void gathered_experts_are_given_back(void **state)
{
    const redco_shards shards = {{8, 1}, {8, 1}, {8, 1}};
    const redco_layer_class *classes = NULL;
    redco_error err = {.status = REDCO_OK};
    uint64_t peak[2];
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct fixture b;
        redco_assignment all[8];
        redco_simulation s;
        redco_workload workload = plain_workload(i == 0 ? 16 : 32);
        workload.engine.layer_units = true;
        fixture_open(&b, "deepseek-v2-lite", a800_machine(1), workload);
        redco_parallelism parallelism = plain_setting(&b, 1);
        parallelism.ep = 4;
        const uint32_t count = (uint32_t)redco_model_classes(b.model, &classes);
        for (uint32_t c = 0; c < count; c++) {
            all[c] = (redco_assignment){c, classes[c].layers, {shards, REDCO_RECOMPUTE_NONE}};
        }
        check_ok(redco_simulate(b.costs, &parallelism, all, count, NULL, &s, &err), &err);
        peak[i] = s.peak.bytes;
        fixture_close(&b);
    }
    assert_int_equal(peak[0], peak[1]);
}

/* Rows of experts have a stream and an account of their own: with tp 1 nothing else is waited for beside a layer, and
 * the exposed share of what the closed form calls its traffic is all of it. */
static void exchanges_have_an_account_of_their_own(void **state)
{
    (void)state;
    for (uint32_t ep = 1; ep <= 4; ep *= 4) {
        struct fixture b;
        redco_assignment all[8];
        const redco_layer_class *classes = NULL;
        redco_simulation simulation;
        redco_error err = {.status = REDCO_OK};
        open_mixture(&b, "deepseek-v3", a800_machine(1));
        redco_parallelism s = plain_setting(&b, 1);
        s.ep = ep;
        const uint32_t count = (uint32_t)redco_model_classes(b.model, &classes);
        for (uint32_t i = 0; i < count; i++) {
            all[i] = (redco_assignment){i, classes[i].layers, {{one, one, one}, REDCO_RECOMPUTE_NONE}};
        }
        check_ok(redco_simulate(b.costs, &s, all, count, NULL, &simulation, &err), &err);
        const redco_prediction p = redco_cost_step(b.costs, &s, all, count);
        const double rows_s = redco_cost_fixed(b.costs, &s).scale * b.calibration.tp_exposed_ratio * p.tp_s;
        assert_true(ep == 1 ? rows_s <= 0.0 : rows_s > 0.0);
        check_near(simulation.account.waiting_s[REDCO_WORK_EXCHANGE], rows_s, 1e-9 * p.step_s);
        assert_true(simulation.account.waiting_s[REDCO_WORK_TENSOR] <= 0.0);
        fixture_close(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_are_sharded_over_their_replicas),
        cmocka_unit_test(exchanges_have_an_account_of_their_own),
        cmocka_unit_test(experts_with_more_replicas_are_whole),
        cmocka_unit_test(rows_go_there_and_back),
        cmocka_unit_test(whole_experts_have_rows_of_their_own),
        cmocka_unit_test(kept_results_are_of_one_grid),
        cmocka_unit_test(one_grid_has_one_set_of_communicators),
        cmocka_unit_test(gathered_experts_are_given_back),
        cmocka_unit_test(impossible_grids_say_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
