/** @file tp_fixture.h  Shared by the tests of tensor-parallel layouts: a model on one node of AMSP's testbed, and its
 *  graphs at prices that can be added up by hand. */
#ifndef REDCO_TESTS_TP_FIXTURE_H
#define REDCO_TESTS_TP_FIXTURE_H

#include "planner/assemble/inputs.h"
#include "planner/tensor_parallel/placed.h"
#include "topology/base/preset.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t shards[] = {2, 4, 5, 7, 8};

/** Every preset, then models whose shapes no preset has: heads that 5 divides, narrow blocks, a few key heads. */
static inline const char *subject_model(size_t index)
{
    static const char *const files[] = {REDCO_TEST_DATA "/models/gpu/llama-125m.json",
                                        REDCO_TEST_DATA "/models/gpu/sheared-llama-2.7b.json",
                                        REDCO_TEST_DATA "/models/gpu/tinyllama-1.1b.json"};
    size_t presets = 0;
    while (redco_preset_at("models", presets) != NULL) { presets++; }
    if (index < presets) { return redco_preset_at("models", index)->name; }
    return index - presets < sizeof files / sizeof files[0] ? files[index - presets] : NULL;
}

/* A model on one node of AMSP's testbed. */
struct subject {
    redco_inputs inputs;
    redco_workload workload;
    redco_costs *costs;
    redco_parallelism parallelism;
};

/* @return false if tp does not divide the model's heads */
static inline bool subject_open(struct subject *s, const char *model, uint32_t tp, bool sequence_parallel)
{
    const redco_input_names names = {.model = model};
    redco_error err = {0};
    memset(s, 0, sizeof *s);
    if (redco_inputs_read(&names, 8, &s->inputs, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    s->workload = (redco_workload){.seq_len = 1024,
                                   .global_batch = 512,
                                   .precision = REDCO_BF16,
                                   .overlap = REDCO_OVERLAP_ALL,
                                   .bucket_bytes = (uint64_t)1 << 30};
    s->parallelism =
        (redco_parallelism){.tp = tp, .pp = 1, .cp = 1, .sequence_parallel = sequence_parallel, .micro_batch = 4};
    const uint32_t gpus = 8 % tp == 0 ? 8 : tp; /* 5 and 7 shards: a node of so many */
    s->inputs.machine.gpus_per_node = s->inputs.machine.link_group_gpus = gpus;
    s->parallelism.dp = (redco_mesh){gpus / tp, 1};
    s->parallelism.micro_batches = s->workload.global_batch / 4 / (gpus / tp);
    assert_int_equal(redco_costs_create(&s->inputs.machine, s->inputs.model, &s->workload, &s->inputs.calibration,
                                        s->inputs.comm, &s->costs, &err),
                     REDCO_OK);
    /* Mixtures and latent attention have one layout. */
    return !redco_model_is_paired(s->inputs.model) &&
           redco_parallelism_check(s->costs, &s->parallelism, NULL) == REDCO_OK;
}

static inline void subject_close(struct subject *s)
{
    redco_costs_free(s->costs);
    redco_inputs_free(&s->inputs);
}

/* ---- costs by hand: a byte of a collective takes a unit, of an all-reduce two; computation is dearer than both ----
 */

static const double unit_s = 1e-13;

static inline double unit_price(void *context, redco_collective op, double bytes)
{
    (void)context;
    return (op == REDCO_ALL_REDUCE ? 2.0 : 1.0) * bytes * unit_s;
}

/* Graphs of a model, collectives at the unit price. */
static inline redcoi_tp_base unit_base(const struct subject *s)
{
    return (redcoi_tp_base){.model = s->inputs.model,
                            .compute = redco_costs_compute(s->costs),
                            .shape = redco_costs_shape(s->costs, &s->parallelism),
                            .prices = {NULL, unit_price},
                            .exposed_ratio = 1.0,
                            .param_bytes = 16};
}

static inline redcoi_tp_layer *block_of(const struct subject *s, redco_class_kind kind)
{
    redcoi_tp_layer *layer = malloc(sizeof *layer);
    const redcoi_tp_base base = unit_base(s);
    const redco_layer_class *classes = NULL;
    const size_t count = redco_model_classes(s->inputs.model, &classes);
    redco_error err = {0};
    assert_non_null(layer);
    for (uint32_t c = 0; c < count; c++) {
        if (classes[c].kind != kind) { continue; }
        if (redcoi_tp_build(&base, (const uint32_t[]){c, UINT32_MAX}, layer, &err) != REDCO_OK) {
            fail_msg("%s: %s", err.place, err.text);
        }
        return layer;
    }
    fail_msg("no such class");
    return layer;
}

#endif
