/** @file cost_fixture.h  Shared by the tests of the cost model: AMSP's testbed (arXiv 2311.00257, section VI-A) typed
 * in by hand, so that these tests need no cluster presets, and a fixture of all inputs. */
#ifndef REDCO_TESTS_COST_FIXTURE_H
#define REDCO_TESTS_COST_FIXTURE_H

#include "costmodel/closed_form/closed_form.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline redco_gpu a800_gpu(void)
{
    return (redco_gpu){.name = "A800-SXM4-80GB",
                       .vendor = "NVIDIA",
                       .arch = "Ampere",
                       .compute_capability = 80,
                       .fp16_flops_per_s = 312e12,
                       .bf16_flops_per_s = 312e12,
                       .tf32_flops_per_s = 156e12,
                       .fp32_flops_per_s = 19.5e12,
                       .memory_bytes = (uint64_t)80 << 30,
                       .memory_bandwidth_bytes_per_s = 2039e9,
                       .link = "NVLink3",
                       .nvlink = true,
                       .link_count = 8,
                       .scale_up_bytes_per_s = 200e9,
                       .pcie_bytes_per_s = 31.5e9,
                       .pcie_gen = 4,
                       .tdp_w = 400.0};
}

/** @p nodes nodes of 8 A800 on NVSwitch with four 200 Gb/s NICs each. */
static inline redco_machine a800_machine(uint32_t nodes)
{
    return (redco_machine){.name = "a800-hdr",
                           .gpu = a800_gpu(),
                           .cpu = REDCO_CPU_AMD,
                           .nodes = nodes,
                           .gpus_per_node = 8,
                           .node_gpus_physical = 8,
                           .hosts_per_node = 1,
                           .fabric = REDCO_FABRIC_SWITCH,
                           .link_group_gpus = 8,
                           .scale_up_bytes_per_s = 200e9,
                           .peer_bytes_per_s = 31.5e9,
                           .nics_per_node = 4,
                           .nic_bytes_per_s = 25e9,
                           .node_network_bytes_per_s = 100e9,
                           .oversubscription_ratio = 1.0};
}

struct fixture {
    redco_machine machine;
    redco_model *model;
    redco_workload workload;
    redco_calibration calibration;
    redco_comm *comm;
    redco_costs *costs;
};

static inline redco_workload plain_workload(uint64_t global_batch)
{
    return (redco_workload){.seq_len = 4096,
                            .global_batch = global_batch,
                            .precision = REDCO_BF16,
                            .overlap = REDCO_OVERLAP_ALL,
                            .bucket_bytes = (uint64_t)1 << 30};
}

/** Every part must be readable; prints the error if not. */
static inline void check_ok(redco_status st, const redco_error *err)
{
    if (st != REDCO_OK) { print_error("%s: %s\n", err->place, err->text); }
    assert_int_equal(st, REDCO_OK);
}

/** CMocka compares floats in single precision only. */
static inline void check_near(double got, double want, double tolerance)
{
    if (!(got >= want - tolerance && got <= want + tolerance)) { fail_msg("%.17g is not %.17g", got, want); }
}

static inline void fixture_costs(struct fixture *b)
{
    redco_error err = {.status = REDCO_OK};
    redco_costs_free(b->costs);
    b->costs = NULL;
    check_ok(redco_costs_create(&b->machine, b->model, &b->workload, &b->calibration, b->comm, &b->costs, &err), &err);
}

static inline void fixture_open(struct fixture *b, const char *model, redco_machine machine, redco_workload workload)
{
    redco_error err = {.status = REDCO_OK};
    *b = (struct fixture){.machine = machine, .workload = workload};
    check_ok(redco_model_read(model, &b->model, &err), &err);
    check_ok(redco_calibration_read(NULL, &b->machine, &b->calibration, &err), &err);
    check_ok(redco_comm_create(&b->machine, NULL, 0, &b->comm, &err), &err);
    fixture_costs(b);
}

static inline void fixture_close(struct fixture *b)
{
    redco_costs_free(b->costs);
    redco_comm_free(b->comm);
    redco_model_free(b->model);
}

/** Every layer under one configuration. */
static inline redco_prediction uniform_step(const struct fixture *b, const redco_parallelism *parallelism,
                                            redco_shards shards, redco_recompute recompute)
{
    const redco_layer_class *classes = NULL;
    const uint32_t count = (uint32_t)redco_model_classes(b->model, &classes);
    redco_assignment all[8];
    assert_true(count <= 8);
    for (uint32_t i = 0; i < count; i++) { all[i] = (redco_assignment){i, classes[i].layers, {shards, recompute}}; }
    return redco_cost_step(b->costs, parallelism, all, count);
}

static inline uint32_t class_of(const struct fixture *b, const char *name)
{
    const redco_layer_class *classes = NULL;
    const size_t count = redco_model_classes(b->model, &classes);
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(classes[i].name, name) == 0) { return i; }
    }
    fail_msg("no class %s", name);
    return 0;
}

/** tp = pp = cp = 1 on all nodes of the machine. */
static inline redco_parallelism plain_setting(const struct fixture *b, uint32_t micro_batch)
{
    const uint64_t dp = (uint64_t)b->machine.nodes * b->machine.gpus_per_node;
    return (redco_parallelism){.tp = 1,
                               .pp = 1,
                               .cp = 1,
                               .micro_batch = micro_batch,
                               .micro_batches = b->workload.global_batch / dp / micro_batch,
                               .dp = {b->machine.gpus_per_node, b->machine.nodes},
                               .scheme = REDCO_INTER_TENSOR};
}

#endif
