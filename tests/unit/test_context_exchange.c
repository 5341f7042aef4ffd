/* Context parallelism by each exchange: seconds and bytes by hand from measured collectives, limits, and what must hold
 * for all of them. */
#include "cost_fixture.h"
#include "costmodel/closed_form/closed_form_internal.h"
#include "costmodel/closed_form/memory_saved.h"
#include "tests/unit/recomputed.h"
#include "topology/base/file.h"

#include <math.h>
#include <unistd.h>

/* llama-7b, 4096 tokens: keys of all tokens are 4096 x 32 heads x 128 x 2 bytes = 32 MiB, as are values and queries.
 * llama-3-8b has 8 key-value heads: 8 MiB. An all-to-all exchanges what one of two ranks has: half. */
static const char profile[] = "collective,group_size,size_MiB,time_ms\n"
                              "all_gather,2,8,0.3\nall_gather,2,32,1.0\nall_gather,2,64,1.8\n"
                              "reduce_scatter,2,8,0.28\nreduce_scatter,2,32,1.1\n"
                              "all_to_all,2,4,0.1\nall_to_all,2,16,0.6\n";

static void open_measured(struct fixture *b, const char *model, const char *path)
{
    redco_error err = {.status = REDCO_OK};
    *b = (struct fixture){.machine = a800_machine(1), .workload = plain_workload(64)};
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(profile, file) >= 0 && fclose(file) == 0);
    check_ok(redco_model_read(model, &b->model, &err), &err);
    check_ok(redco_calibration_read(NULL, &b->machine, &b->calibration, &err), &err);
    check_ok(redco_comm_create(&b->machine, &path, 1, &b->comm, &err), &err);
    b->calibration.cp_exposed_ratio = 0.25;
    b->calibration.overlap_window_ratio = 0.8;
    fixture_costs(b);
}

static redco_parallelism two_ranks(redco_cp_type type)
{
    return (redco_parallelism){.tp = 1,
                               .pp = 1,
                               .cp = 2,
                               .cp_type = type,
                               .micro_batch = 1,
                               .micro_batches = 16,
                               .dp = {4, 1},
                               .scheme = REDCO_INTRA_TENSOR};
}

static redcoi_tp_times times_of(struct fixture *b, const redco_parallelism *parallelism, double forward_s,
                                double backward_s)
{
    const redco_shape shape = redcoi_shape_of(b->costs, parallelism);
    return redcoi_context_times(b->costs, &shape, forward_s, backward_s);
}

static void check_times(redcoi_tp_times got, double a_ms, double b_ms, double c_ms, double d_ms)
{
    check_near(got.forward_before_s, 1e-3 * a_ms, 1e-9);
    check_near(got.forward_after_s, 1e-3 * b_ms, 1e-9);
    check_near(got.backward_before_s, 1e-3 * c_ms, 1e-9);
    check_near(got.backward_after_s, 1e-3 * d_ms, 1e-9);
}

static void seconds_by_hand(void **state)
{
    (void)state;
    char path[] = "/tmp/redco-context-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)close(fd);
    struct fixture b;
    open_measured(&b, "llama-7b", path);
    const redco_parallelism ring = two_ranks(REDCO_CP_P2P), gather = two_ranks(REDCO_CP_ALL_GATHER),
                            heads = two_ranks(REDCO_CP_ALL_TO_ALL);
    /* Ring: X = 1.8 ms forward, 3.6 backward. Attention of 2 ms has a window of (2 - 1)/2 of it, of which 0.8 is used
     * and 1 - 0.25 of that hides: X - 0.6 ms per ms of window. Long attention: a quarter is left. */
    check_times(times_of(&b, &ring, 0.0, 0.0), 1.8, 0.0, 3.6, 0.0);
    check_times(times_of(&b, &ring, 2e-3, 5e-3), 1.8 - 0.6, 0.0, 3.6 - 1.5, 0.0);
    check_times(times_of(&b, &ring, 1.0, 1.0), 0.45, 0.0, 0.9, 0.0);
    /* Keys, then values; backward both again, and their gradients; whatever attention takes. */
    check_times(times_of(&b, &gather, 1.0, 1.0), 2.0, 0.0, 2.0, 2.2);
    /* q, k and v before, the output behind; backward the other way around. */
    check_times(times_of(&b, &heads, 1.0, 1.0), 1.8, 0.6, 0.6, 1.8);
    fixture_close(&b);
    open_measured(&b, "llama-3-8b", path);
    check_times(times_of(&b, &gather, 1.0, 1.0), 0.6, 0.0, 0.6, 0.56);
    check_times(times_of(&b, &heads, 1.0, 1.0), 0.6 + 0.1 + 0.1, 0.6, 0.6, 0.8);
    fixture_close(&b);
    (void)unlink(path);
}

/* The whole traffic of a pass is no less for more tokens, none for one rank, and longer attention hides no less. */
static void exposed_seconds_grow_with_bytes(void **state)
{
    (void)state;
    struct fixture b;
    fixture_open(&b, "llama-3-8b", a800_machine(4), plain_workload(64));
    for (int type = 0; type < REDCO_CP_TYPES; type++) {
        for (uint32_t cp = 1; cp <= 8; cp *= 2) {
            double before_s = 0.0;
            for (uint32_t micro_batch = 1; micro_batch <= 64; micro_batch *= 2) {
                redco_parallelism s = two_ranks((redco_cp_type)type);
                s.cp = cp;
                s.micro_batch = micro_batch;
                const redcoi_tp_times less = times_of(&b, &s, 1e-3, 1e-3), more = times_of(&b, &s, 2e-3, 2e-3);
                const double now_s =
                    less.forward_before_s + less.forward_after_s + less.backward_before_s + less.backward_after_s;
                assert_true(cp == 1 ? now_s <= 0.0 : now_s > before_s);
                assert_true(more.forward_before_s <= less.forward_before_s &&
                            more.backward_before_s <= less.backward_before_s);
                before_s = now_s;
            }
        }
    }
    fixture_close(&b);
}

/* Transformer Engine keeps the output before it is exchanged, 2 bytes of 32 x 128 for each of 2048 tokens. Gathered
 * keys and values and their gradients are 8 bytes of 8 x 128 for 131,072 tokens: 1 GiB beside the residual gradient. */
static void bytes_by_hand(void **state)
{
    (void)state;
    struct fixture b;
    fixture_open(&b, "llama-3-8b", a800_machine(1), plain_workload(64));
    b.workload.engine.memory = REDCO_MEMORY_MEGATRON;
    b.workload.engine.software = REDCO_SOFTWARE_TE_XLA;
    fixture_costs(&b);
    const uint32_t block = class_of(&b, "block");
    uint64_t kept[REDCO_CP_TYPES];
    for (int type = 0; type < REDCO_CP_TYPES; type++) {
        const redco_parallelism s = two_ranks((redco_cp_type)type);
        const redco_shape shape = redcoi_shape_of(b.costs, &s);
        kept[type] = redco_layer_bytes_of(b.model, block, &shape, &not_recomputed).kept[0];
    }
    assert_int_equal(kept[REDCO_CP_ALL_GATHER], kept[REDCO_CP_P2P]);
    assert_int_equal(kept[REDCO_CP_ALL_TO_ALL] - kept[REDCO_CP_P2P], 2ULL * 32 * 128 * 2048);
    b.workload.seq_len = 131072;
    fixture_costs(&b);
    redco_parallelism s = two_ranks(REDCO_CP_ALL_GATHER);
    s.cp = 16;
    const redco_shape shape = redcoi_shape_of(b.costs, &s);
    assert_int_equal(redco_backward_working_bytes(b.model, block, &shape), 2ULL * 4096 * 8192 + (1ULL << 30));
    fixture_close(&b);
}

/* Where a rank's tokens are one piece, the last of 4 computes 2 - 1/4 as much attention; by all-to-all all alike. */
static void the_last_piece_has_most(void **state)
{
    (void)state;
    struct fixture b;
    fixture_open(&b, "llama-7b", a800_machine(1), plain_workload(64));
    for (int type = 0; type < REDCO_CP_TYPES; type++) {
        redco_parallelism s = two_ranks((redco_cp_type)type);
        redco_operator ops[REDCO_OPERATORS_MAX];
        double flops[2] = {0.0, 0.0};
        s.cp = 4;
        for (int contiguous = 0; contiguous < 2; contiguous++) {
            redco_shape shape = redcoi_shape_of(b.costs, &s);
            shape.engine.contiguous_context = contiguous == 1;
            const uint32_t count = redco_layer_operators(b.model, class_of(&b, "block"), &shape, ops);
            for (uint32_t i = 0; i < count; i++) {
                flops[contiguous] += ops[i].kind == REDCO_OPERATOR_ATTENTION ? ops[i].flops : 0.0;
            }
        }
        check_near(flops[0], 4.0 * 1024 * 4096 * 4096 / 2.0, 1.0);
        check_near(flops[1] / flops[0], type == REDCO_CP_ALL_TO_ALL ? 1.0 : 1.75, 1e-12);
    }
    fixture_close(&b);
}

/* A way that is left out is never better than all that are kept, with any meshes and recomputation. */
static void left_out_is_no_better(void **state)
{
    (void)state;
    static const char *const models[] = {"llama-7b", "llama-3-8b", "llama-30b"};
    static const redco_mesh one = {1, 1};
    unsigned dropped = 0, limited = 0;
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        struct fixture b;
        fixture_open(&b, models[m], a800_machine(4), plain_workload(64));
        for (int engine = 0; engine < 2; engine++) {
            b.workload.engine.memory = engine == 0 ? REDCO_MEMORY_FORMULAS : REDCO_MEMORY_MEGATRON;
            b.workload.engine.software = REDCO_SOFTWARE_TE_XLA;
            fixture_costs(&b);
            for (uint32_t cp = 2; cp <= 16; cp *= 2) {
                const redco_mesh dp = {8 / cp > 0 ? 8 / cp : 1, cp > 8 ? 2 : 4};
                redco_parallelism s = two_ranks(REDCO_CP_P2P);
                s.cp = cp;
                s.dp = dp;
                s.micro_batches = 64 / redco_mesh_ranks(dp);
                const uint32_t all = (1U << REDCO_CP_TYPES) - 1, kept = redco_costs_cp_types(b.costs, &s, all);
                const redco_shards shards[] = {{one, one, one}, {one, one, dp}, {dp, dp, dp}};
                assert_true(kept != 0);
                for (int type = 0; type < REDCO_CP_TYPES; type++) {
                    s.cp_type = (redco_cp_type)type;
                    if (redco_parallelism_check(b.costs, &s, NULL) != REDCO_OK) {
                        assert_true((kept >> type & 1) == 0);
                        limited++;
                        continue;
                    }
                    if ((kept >> type & 1) != 0) { continue; }
                    dropped++;
                    for (size_t i = 0; i < 3 * RECOMPUTED; i++) {
                        const redco_recompute policy = recomputed[i / 3];
                        bool beaten = false;
                        s.cp_type = (redco_cp_type)type;
                        const redco_prediction p = uniform_step(&b, &s, shards[i % 3], policy);
                        for (int other = 0; other < REDCO_CP_TYPES; other++) {
                            s.cp_type = (redco_cp_type)other;
                            if ((kept >> other & 1) == 0) { continue; }
                            const redco_prediction q = uniform_step(&b, &s, shards[i % 3], policy);
                            beaten = beaten || (q.step_s <= p.step_s * (1.0 + 1e-12) && q.total_bytes <= p.total_bytes);
                        }
                        assert_true(beaten);
                    }
                }
            }
        }
        fixture_close(&b);
    }
    assert_true(dropped > 0 && limited > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(seconds_by_hand),
                                       cmocka_unit_test(exposed_seconds_grow_with_bytes),
                                       cmocka_unit_test(bytes_by_hand), cmocka_unit_test(the_last_piece_has_most),
                                       cmocka_unit_test(left_out_is_no_better)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
