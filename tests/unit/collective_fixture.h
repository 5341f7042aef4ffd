/* Machines filled in by hand from vendor data sheets, and helpers of the collective tests. */
#ifndef COLLECTIVE_FIXTURE_H
#define COLLECTIVE_FIXTURE_H

#include "costmodel/collectives/collective.h"
#include "costmodel/collectives/collective_nccl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* |got - wanted| <= tolerance; CMocka 1.1 has no doubles. */
#define assert_close(got, wanted, tolerance) close_at((got), (wanted), (tolerance), __FILE__, __LINE__)
static inline void close_at(double got, double wanted, double tolerance, const char *file, int line)
{
    if (fabs(got - wanted) <= tolerance) { return; }
    print_error("%.12g is not %.12g to %.3g\n", got, wanted, tolerance);
    _fail(file, line);
}

/* One way per GPU; 0 NICs: one node. */
static inline redco_machine machine_of(const char *gpu, uint32_t capability, redco_cpu_vendor cpu, double links,
                                       double pcie, uint32_t nodes, uint32_t gpus, uint32_t nics, double nic)
{
    redco_machine machine = {
        .cpu = cpu,
        .nodes = nodes,
        .gpus_per_node = gpus,
        .node_gpus_physical = gpus,
        .hosts_per_node = 1,
        .fabric = links > 0.0 ? REDCO_FABRIC_SWITCH : REDCO_FABRIC_PCIE,
        .link_group_gpus = links > 0.0 ? gpus : 1,
        .scale_up_bytes_per_s = links,
        .peer_bytes_per_s = pcie,
        .nics_per_node = nics,
        .nic_bytes_per_s = nic,
        .node_network_bytes_per_s = nics * nic,
        .oversubscription_ratio = 1.0,
    };
    machine.gpu.compute_capability = capability;
    machine.gpu.scale_up_bytes_per_s = links;
    machine.gpu.pcie_bytes_per_s = pcie;
    (void)snprintf(machine.gpu.name, sizeof machine.gpu.name, "%s", gpu);
    (void)snprintf(machine.gpu.vendor, sizeof machine.gpu.vendor, "%s", capability > 0 ? "NVIDIA" : "AMD");
    machine.gpu.maker = capability > 0 ? REDCO_GPU_NVIDIA : REDCO_GPU_AMD;
    return machine;
}

static inline redco_machine dgx_a100(uint32_t nodes)
{
    return machine_of("A100-SXM4-80GB", 80, REDCO_CPU_AMD, 300e9, 31.5e9, nodes, 8, 8, 25e9);
}
static inline redco_machine a800(uint32_t nodes)
{
    return machine_of("A800-SXM4-80GB", 80, REDCO_CPU_AMD, 200e9, 31.5e9, nodes, 8, 4, 25e9);
}
static inline redco_machine dgx_h100(uint32_t nodes)
{
    return machine_of("H100-SXM5-80GB", 90, REDCO_CPU_INTEL, 450e9, 63e9, nodes, 8, 8, 50e9);
}

static inline redco_group group_of(uint32_t gpus, uint32_t nodes)
{
    return (redco_group){.mesh = {.gpus = gpus, .nodes = nodes}, .stride = 1, .groups_per_node = 1};
}

static inline redco_comm *comm_of(const redco_machine *machine, const char *profile)
{
    redco_comm *comm = NULL;
    redco_error err = {0};
    const redco_status st = redco_comm_create(machine, &profile, profile != NULL ? 1 : 0, &comm, &err);
    if (st != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    return comm;
}

static inline double total_s(const redco_comm *comm, redco_collective op, double bytes, redco_group group)
{
    const redco_comm_time time = redco_comm_price(comm, op, bytes, group);
    return time.latency_s + time.wire_s;
}

static inline bool have_shared(void)
{
    struct stat info;
    if (stat(REDCO_SHARED_DIR "/profiles", &info) == 0) { return true; }
    print_message("skipped: no measured profiles in %s\n", REDCO_SHARED_DIR "/profiles");
    return false;
}

#endif
