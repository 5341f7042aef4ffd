/* RedCoast's settings (README of its repository: fp32, Adam, longest sequence): all fit, with nothing given but the
   number of devices; with half of them the answer says what is missing. */
#include "planner/search/search.h"
#include "topology/discovery/cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct row {
    const char *model, *cluster;
    uint32_t seq_len;
    uint64_t gpus;
    bool half_fits;
};

static const struct row rows[] = {
    {"bart-large", "box-2x3080", 1024, 2, true},   {"gpt2-large", "box-2x3080", 512, 2, false},
    {"gpt2-large", "box-2x1080ti", 512, 2, false}, {"gpt-j-6b", "a100-40-4x", 1024, 4, false},
    {"llama-7b", "a100-40-4x", 1024, 4, false},    {"t5-11b", "p3dn", 512, 8, false},
    {"opt-13b", "p3dn", 1024, 8, false},           {"opt-66b", "p3dn", 512, 64, false},
};

/* The answer of redco-plan with no more options than these. */
static redco_search_result *search(const struct row *row, uint64_t gpus, redco_machine *machine, uint64_t *params)
{
    redco_cluster *cluster = NULL;
    redco_model *model = NULL;
    redco_comm *comm = NULL;
    redco_calibration calibration;
    redco_search_result *result = NULL;
    redco_error err = {0};
    const redco_search_options options = {.workload = {.seq_len = row->seq_len,
                                                       .global_batch = 1024,
                                                       .precision = REDCO_FP32,
                                                       .overlap = REDCO_OVERLAP_ALL,
                                                       .bucket_bytes = UINT64_C(1) << 30},
                                          .recompute = REDCO_RECOMPUTE_FREE,
                                          .top = 1,
                                          .pass.gap_ratio = 5e-4};
    assert_int_equal(redco_cluster_read(row->cluster, NULL, NULL, NULL, &cluster, NULL), REDCO_OK);
    assert_int_equal(redco_cluster_machine(cluster, gpus, machine, NULL), REDCO_OK);
    assert_int_equal(redco_model_read(row->model, &model, NULL), REDCO_OK);
    assert_int_equal(redco_calibration_read(NULL, machine, &calibration, NULL), REDCO_OK);
    assert_int_equal(redco_comm_create(machine, NULL, 0, &comm, NULL), REDCO_OK);
    if (redco_search(machine, model, &calibration, comm, &options, &result, &err) != REDCO_OK) {
        fail_msg("%s: %s", err.place, err.text);
    }
    *params = redco_model_params(model);
    redco_comm_free(comm);
    redco_model_free(model);
    redco_cluster_free(cluster);
    return result;
}

/* 4 bytes of weight, 4 of gradient, 8 of Adam's moments a parameter; no second copy. Shards of all ranks hold all of
   it: vectors are replicated over tensor-parallel ranks, whole tensors dealt unevenly, and odd vocabularies rounded up.
 */
static void assert_states(const redco_candidate *c, uint64_t gpus, uint64_t params)
{
    const redco_prediction *p = &c->prediction;
    const redco_shards *s = &c->assignments[0].config.shards;
    const uint64_t ranks[3] = {redco_mesh_ranks(s->parameters), redco_mesh_ranks(s->gradients),
                               redco_mesh_ranks(s->optimizer)};
    const uint64_t bytes[3] = {p->parameter_bytes, p->gradient_bytes, p->optimizer_bytes};
    const uint64_t each[3] = {4, 4, 8};
    assert_true(ranks[0] * c->parallelism.tp <= gpus);
    for (int i = 0; i < 3; i++) {
        const double ratio = (double)bytes[i] * (double)ranks[i] * c->parallelism.tp / (double)(each[i] * params);
        if (!(ratio >= 1.0 - 1e-9 && ratio < 1.05)) {
            fail_msg("component %d: %g of what the parameters need", i, ratio);
        }
    }
}

static void every_setting_fits(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redco_machine machine;
        uint64_t params = 0;
        redco_search_result *result = search(&rows[i], rows[i].gpus, &machine, &params);
        if (result->ranked_count == 0) {
            fail_msg("%s on %s: %llu bytes short", rows[i].model, rows[i].cluster,
                     (unsigned long long)result->shortfall.short_bytes);
        }
        const redco_candidate *best = &result->ranked[0];
        assert_string_equal(result->status, "optimal");
        assert_true(best->prediction.total_bytes <= best->prediction.capacity_bytes);
        assert_true(best->prediction.capacity_bytes < machine.gpu.memory_bytes);
        assert_states(best, rows[i].gpus, params);
        redco_search_result_free(result);
    }
}

static void half_the_devices_say_what_is_missing(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redco_machine machine;
        uint64_t params = 0;
        redco_search_result *result = search(&rows[i], rows[i].gpus / 2, &machine, &params);
        const redco_shortfall *missing = &result->shortfall;
        if ((result->ranked_count > 0) != rows[i].half_fits) {
            fail_msg("%s on half of %s: %s", rows[i].model, rows[i].cluster, result->status);
        }
        if (!rows[i].half_fits) {
            const redco_prediction *p = &missing->leanest.prediction;
            assert_string_equal(result->status, "infeasible");
            assert_int_equal(missing->short_bytes, p->total_bytes - p->capacity_bytes);
            /* Nothing is leaner than the states spread over all devices. */
            const uint64_t states = 16 * (params / (rows[i].gpus / 2));
            assert_true(p->parameter_bytes + p->gradient_bytes + p->optimizer_bytes >= states);
            assert_string_equal(missing->largest, "optimizer");
            assert_non_null(strstr(missing->cheapest_change, " would fit"));
            assert_null(strstr(missing->cheapest_change, "no single change"));
        }
        redco_search_result_free(result);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_setting_fits),
        cmocka_unit_test(half_the_devices_say_what_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
