#include "tests/unit/collective_fixture.h"
#include "traces/profile.h"

#include <unistd.h>

static const redco_collective all_ops[] = {REDCO_ALL_REDUCE, REDCO_ALL_GATHER, REDCO_REDUCE_SCATTER, REDCO_BROADCAST,
                                           REDCO_REDUCE,     REDCO_ALL_TO_ALL, REDCO_SEND_RECV};

static void trivial_groups_are_free(void **state)
{
    (void)state;
    const redco_machine machine = dgx_a100(4);
    redco_comm *comm = comm_of(&machine, NULL);
    for (size_t i = 0; i < sizeof all_ops / sizeof all_ops[0]; i++) {
        assert_close(total_s(comm, all_ops[i], 1e9, group_of(1, 1)), 0.0, 0.0);
        assert_close(total_s(comm, all_ops[i], 0.0, group_of(8, 4)), 0.0, 0.0);
        assert_close(total_s(comm, all_ops[i], (double)NAN, group_of(8, 4)), 0.0, 0.0);
        assert_close(total_s(comm, all_ops[i], 1e9, group_of(0, 0)), 0.0, 0.0);
    }
    assert_string_equal(redco_comm_profile_sha256(comm), "");
    redco_comm_free(comm);
}

/* From the reference vectors' formulas by hand: DGX A100, 1 GiB, Ring Simple:
 * one node all-gather  B = 240 x 8/7 = 274.29, L = 8.4 + 7 x 3.4 = 32.2 us -> 3946.8 us;
 * 2 nodes all-reduce   B = 192 x 16/30 = 102.4, L = 1.4 x (8.4 + 28 x 6 + 2 x 14) = 286.16 us -> 10771.9 us. */
static void model_by_hand(void **state)
{
    (void)state;
    const redco_machine machine = dgx_a100(2);
    redco_comm *comm = comm_of(&machine, NULL);
    redco_comm_time time = redco_comm_price(comm, REDCO_ALL_GATHER, 1073741824.0, group_of(8, 1));
    assert_close(time.latency_s, 32.2e-6, 1e-10);
    assert_close(time.wire_s, 1073741824.0 / (240e9 * 8.0 / 7.0), 1e-9);
    assert_false(time.network);
    assert_false(time.measured);
    time = redco_comm_price(comm, REDCO_ALL_REDUCE, 1073741824.0, group_of(8, 2));
    assert_close(time.latency_s + time.wire_s, 10771.92e-6, 1e-8);
    assert_true(time.network);
    redco_comm_free(comm);
}

/* Eight groups of one GPU on 128 nodes share 8 NICs of 24: 8 x 24 / 8 each. Four NICs: half of that. Bandwidth of an
 * all-gather from two sizes: dS / dt = B x n/(n-1). */
static double gather_rate(const redco_machine *machine, redco_group group)
{
    redco_comm *comm = comm_of(machine, NULL);
    const double small = 1e12; /* large enough for Simple in any group */
    const double large = 2e12;
    const double n = (double)redco_mesh_ranks(group.mesh);
    const double dt = total_s(comm, REDCO_ALL_GATHER, large, group) - total_s(comm, REDCO_ALL_GATHER, small, group);
    redco_comm_free(comm);
    return (large - small) / dt * (n - 1.0) / n;
}

static redco_group sharing(uint32_t gpus, uint32_t nodes, uint32_t stride, uint32_t groups)
{
    return (redco_group){.mesh = {.gpus = gpus, .nodes = nodes}, .stride = stride, .groups_per_node = groups};
}

static void groups_share_nics(void **state)
{
    (void)state;
    const redco_machine eight = dgx_a100(128);
    const redco_machine four = a800(128); /* 4 x 25 GB/s */
    /* Whole node: 8 x 24. One GPU with its own NIC, alone or beside 7 others: 24 each. */
    assert_close(gather_rate(&eight, sharing(8, 128, 1, 1)), 192e9, 1e6);
    assert_close(gather_rate(&eight, sharing(1, 128, 1, 1)), 24e9, 1e6);
    assert_close(gather_rate(&eight, sharing(1, 128, 1, 8)), 24e9, 1e6);
    assert_close(gather_rate(&eight, sharing(4, 128, 1, 2)), 96e9, 1e6);
    /* Four NICs for 8 GPUs: alone one GPU has a NIC of 24; with all 8 at work half of one. */
    assert_close(gather_rate(&four, sharing(8, 128, 1, 1)), 96e9, 1e6);
    assert_close(gather_rate(&four, sharing(1, 128, 1, 1)), 24e9, 1e6);
    assert_close(gather_rate(&four, sharing(1, 128, 1, 8)), 12e9, 1e6);
    /* Two neighbours share a NIC, two GPUs four apart have one each. */
    assert_close(gather_rate(&four, sharing(2, 128, 1, 1)), 24e9, 1e6);
    assert_close(gather_rate(&four, sharing(2, 128, 4, 1)), 48e9, 1e6);
    assert_close(gather_rate(&four, sharing(2, 128, 4, 4)), 24e9, 1e6);
}

static redco_group apart(redco_group group, uint32_t node_stride)
{
    group.node_stride = node_stride;
    return group;
}

/* 16 nodes of 200 GB/s under a leaf, whose up-links carry 16 * 200 / 2 = 1600 in each direction: 8 rings of a node's
 * full rate. Rings run in node order, so one of adjacent nodes leaves the leaf from one of them; of groups that have a
 * node in each leaf all 16 do. NCCL gives 24 of a port's 25 GB/s. */
static void leaves_limit_long_groups(void **state)
{
    (void)state;
    redco_machine machine = dgx_a100(128);
    machine.nodes_per_leaf = 16;
    machine.oversubscription_ratio = 2.0;
    assert_close(gather_rate(&machine, sharing(8, 16, 1, 1)), 192e9, 1e6);
    assert_close(gather_rate(&machine, sharing(8, 32, 1, 1)), 192e9, 1e6);
    assert_close(gather_rate(&machine, sharing(1, 32, 1, 8)), 24e9, 1e6);
    /* One node a leaf, or fewer: 16 rings share 1600, or 16 * 8. */
    assert_close(gather_rate(&machine, apart(sharing(8, 8, 1, 1), 16)), 96e9, 1e6);
    assert_close(gather_rate(&machine, apart(sharing(8, 2, 1, 1), 64)), 96e9, 1e6);
    assert_close(gather_rate(&machine, apart(sharing(1, 8, 1, 8), 16)), 12e9, 1e6);
    /* A quarter of the NICs is not limited by half of the up-links. */
    assert_close(gather_rate(&machine, apart(sharing(2, 8, 1, 1), 16)), 48e9, 1e6);
    /* Four nodes a leaf: 4 rings. Inside a leaf nothing is shared. */
    assert_close(gather_rate(&machine, apart(sharing(8, 8, 1, 1), 4)), 192e9, 1e6);
    machine.oversubscription_ratio = 32.0; /* 100 for one ring, 25 for four */
    assert_close(gather_rate(&machine, sharing(8, 32, 1, 1)), 96e9, 1e6);
    assert_close(gather_rate(&machine, apart(sharing(8, 8, 1, 1), 4)), 24e9, 1e6);
    assert_close(gather_rate(&machine, apart(sharing(8, 4, 1, 1), 4)), 192e9, 1e6);
}

/* Fabrics without a switch. */
static void other_fabrics(void **state)
{
    (void)state;
    /* Four PCIe Gen4 cards in bridged pairs: a pair 240 (12 links x 20), more through PCIe: 24. */
    redco_machine bridged = machine_of("A100-PCIe-80GB", 80, REDCO_CPU_AMD, 300e9, 31.5e9, 1, 4, 1, 25e9);
    bridged.fabric = REDCO_FABRIC_DIRECT;
    bridged.link_group_gpus = 2;
    assert_close(gather_rate(&bridged, sharing(2, 1, 1, 1)), 240e9, 1e6);
    assert_close(gather_rate(&bridged, sharing(2, 1, 2, 1)), 24e9, 1e6);
    assert_close(gather_rate(&bridged, sharing(4, 1, 1, 1)), 24e9, 1e6);
    /* MI300X: RCCL's 48 GB/s on each of 7 links; a pair has one of them. 336 -> 7 x 48 by list: 5 x 60 = 300, 6 x 50,
     * 8 x 40 = 320, 11 x 30 = 330, 14 x 24 = 336. */
    redco_machine mi300x = machine_of("MI300X", 0, REDCO_CPU_INTEL, 448e9, 63e9, 1, 8, 8, 50e9);
    mi300x.fabric = REDCO_FABRIC_DIRECT;
    mi300x.gpu.fp8_flops_per_s = 2.6e15;
    assert_close(gather_rate(&mi300x, sharing(2, 1, 1, 1)), 48e9, 1e6);
    assert_close(gather_rate(&mi300x, sharing(8, 1, 1, 1)), 330e9, 7e9);
    /* PCIe box over the network: the slot carries links and NIC. */
    const redco_machine box = machine_of("L40S", 89, REDCO_CPU_AMD, 0.0, 31.5e9, 4, 8, 4, 25e9);
    assert_close(gather_rate(&box, sharing(8, 4, 1, 1)), 24e9, 1e6);
    /* Neither links, nor PCIe, nor NICs are known: still a finite, positive time (10 Gb/s as NCCL assumes). */
    const redco_machine blank = machine_of("?", 80, REDCO_CPU_UNKNOWN, 0.0, 0.0, 4, 8, 0, 0.0);
    assert_close(gather_rate(&blank, sharing(8, 4, 1, 1)), 1.2e9, 1e6);
}

/* All-to-all, 1 GiB a rank: one node 7/8 of it at 240; 2 nodes: 8 GPUs send half of theirs through 8 x 25 x 0.96. */
static void point_to_point(void **state)
{
    (void)state;
    const redco_machine machine = dgx_a100(2);
    redco_comm *comm = comm_of(&machine, NULL);
    const double size = 1073741824.0;
    redco_comm_time time = redco_comm_price(comm, REDCO_ALL_TO_ALL, size, group_of(8, 1));
    assert_close(time.wire_s, size * 7.0 / 8.0 / 240e9, 1e-9);
    assert_close(time.latency_s, 8.4e-6 + 3.4e-6, 1e-12);
    time = redco_comm_price(comm, REDCO_ALL_TO_ALL, size, group_of(8, 2));
    assert_close(time.wire_s, 8.0 * size / 2.0 / 192e9, 1e-9);
    assert_close(time.latency_s, 8.4e-6 + 2 * 14e-6, 1e-12);
    time = redco_comm_price(comm, REDCO_SEND_RECV, size, group_of(2, 1));
    assert_close(time.wire_s, size / 240e9, 1e-9);
    time = redco_comm_price(comm, REDCO_SEND_RECV, size, group_of(1, 2));
    assert_close(time.wire_s, size / 24e9, 1e-9);
    redco_comm_free(comm);
}

/* A broadcast's ring has ranks - 1 hops: 128 x 8 H100, LL: 6.6 + 1 hop of 2.7 + 126 x 2.7 + 896 x 0.6 us. */
static void broadcast_fills_its_chain(void **state)
{
    (void)state;
    const redco_machine machine = dgx_h100(128);
    redco_comm *comm = comm_of(&machine, NULL);
    const redco_comm_time time = redco_comm_price(comm, REDCO_BROADCAST, 1024.0, group_of(8, 128));
    assert_close(time.latency_s, (6.6 + 127 * 2.7 + 896 * 0.6) * 1e-6, 1e-10);
    redco_comm_free(comm);
}

/* No time falls when a message grows tenfold, a group grows, or a rate falls. */
static void model_is_monotone(void **state)
{
    (void)state;
    const redco_machine fast = dgx_h100(1024);
    redco_machine slow = fast;
    slow.nic_bytes_per_s /= 2.0;
    slow.node_network_bytes_per_s /= 2.0;
    redco_comm *a = comm_of(&fast, NULL);
    redco_comm *b = comm_of(&slow, NULL);
    for (size_t op = 0; op < sizeof all_ops / sizeof all_ops[0]; op++) {
        for (uint32_t nodes = 2; nodes <= 1024; nodes *= 2) {
            double last = 0.0;
            double size = 8.0;
            for (uint32_t decade = 0; decade < 11; decade++, size *= 10.0) { /* 8 B to 80 GB */
                const double t = total_s(a, all_ops[op], size, group_of(8, nodes));
                assert_true(isfinite(t) && t > 0.0 && t >= last);
                /* NCCL chooses a chain's protocol without looking at its length, so a slower one may be filled sooner.
                 */
                const bool chain = all_ops[op] == REDCO_BROADCAST || all_ops[op] == REDCO_REDUCE;
                if (!chain && total_s(b, all_ops[op], size, group_of(8, nodes)) < t * (1.0 - 1e-12)) {
                    fail_msg("%s, %u nodes, %g bytes", redco_collective_name(all_ops[op]), nodes, size);
                }
                assert_true(total_s(a, all_ops[op], size, sharing(4, nodes, 1, 2)) > 0.0);
                last = t;
            }
        }
    }
    redco_comm_free(a);
    redco_comm_free(b);
}

static char *write_profile(const char *text)
{
    char *path = strdup("/tmp/redco-profile-XXXXXX");
    assert_non_null(path);
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    (void)close(fd);
    return path;
}

static redco_comm *comm_with(const redco_machine *machine, const char *text)
{
    char *path = write_profile(text);
    redco_comm *comm = comm_of(machine, path);
    (void)unlink(path);
    free(path);
    return comm;
}

#define HEAD "op,gpus_per_node,nodes,size_bytes,in_place,time_s\n"

static void measured_points_are_met(void **state)
{
    (void)state;
    const redco_machine machine = dgx_a100(2);
    const redco_group group = group_of(8, 2);
    redco_comm *comm = comm_with(&machine, HEAD "all_reduce,8,2,1024,1,3e-5\n"
                                                "all_reduce,8,2,65536,1,4e-5\n"
                                                "all_reduce,8,2,16777216,1,4e-4\n");
    assert_close(total_s(comm, REDCO_ALL_REDUCE, 1024.0, group), 3e-5, 1e-17);
    assert_close(total_s(comm, REDCO_ALL_REDUCE, 65536.0, group), 4e-5, 1e-17);
    assert_close(total_s(comm, REDCO_ALL_REDUCE, 16777216.0, group), 4e-4, 1e-16);
    /* Halfway in log size (2^20) lies the geometric mean of the times. */
    assert_close(total_s(comm, REDCO_ALL_REDUCE, 1048576.0, group), sqrt(4e-5 * 4e-4), 1e-15);
    /* Below the smallest its time, above the largest its bandwidth. */
    assert_close(total_s(comm, REDCO_ALL_REDUCE, 8.0, group), 3e-5, 1e-17);
    assert_close(total_s(comm, REDCO_ALL_REDUCE, 4.0 * 16777216.0, group), 16e-4, 1e-15);
    const redco_comm_time time = redco_comm_price(comm, REDCO_ALL_REDUCE, 16777216.0, group);
    assert_true(time.measured);
    assert_close(time.latency_s, 3e-5, 1e-17);
    double last = 0.0;
    double size = 1.0;
    for (uint32_t step = 0; step < 106; step++, size *= 1.3) { /* to 1.3^105 = 9e11 bytes */
        const double t = total_s(comm, REDCO_ALL_REDUCE, size, group);
        assert_true(t >= last);
        last = t;
    }
    redco_comm_free(comm);
}

static void repeats_become_their_median(void **state)
{
    (void)state;
    const redco_machine machine = dgx_a100(1);
    redco_comm *comm = comm_with(&machine, HEAD "all_gather,8,1,1024,1,9e-5\nall_gather,8,1,1024,1,1e-5\n"
                                                "all_gather,8,1,1024,1,2e-5\nall_gather,8,1,4096,1,3e-5\n"
                                                "all_gather,8,1,4096,0,5e-5\n");
    assert_close(total_s(comm, REDCO_ALL_GATHER, 1024.0, group_of(8, 1)), 2e-5, 1e-17);
    assert_close(total_s(comm, REDCO_ALL_GATHER, 4096.0, group_of(8, 1)), 4e-5, 1e-17);
    redco_comm_free(comm);
}

/* A factor by which measurements are slower than the model holds elsewhere, too: other meshes over the network, other
 * ring collectives, groups that share NICs; one-node groups, all-to-all and send/recv are not touched. */
static void ratios_are_transferred(void **state)
{
    (void)state;
    const redco_machine machine = dgx_a100(64);
    redco_comm *model = comm_of(&machine, NULL);
    const double size = 268435456.0;
    const double twice_s = 2.0 * total_s(model, REDCO_ALL_REDUCE, size, group_of(8, 4));
    char text[256];
    (void)snprintf(text, sizeof text, HEAD "all_reduce,8,4,%.0f,1,%.12g\n", size, twice_s);
    redco_comm *comm = comm_with(&machine, text);
    const redco_group groups[] = {group_of(8, 4), group_of(8, 16), group_of(4, 64), sharing(1, 8, 1, 8)};
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        for (size_t op = 0; op < 5; op++) {
            const redco_comm_time time = redco_comm_price(comm, all_ops[op], size, groups[i]);
            assert_close(time.latency_s + time.wire_s, 2.0 * total_s(model, all_ops[op], size, groups[i]),
                         1e-9 * twice_s);
            assert_true(time.measured);
        }
    }
    assert_close(total_s(comm, REDCO_ALL_REDUCE, size, group_of(8, 1)),
                 total_s(model, REDCO_ALL_REDUCE, size, group_of(8, 1)), 0.0);
    assert_close(total_s(comm, REDCO_ALL_TO_ALL, size, group_of(8, 4)),
                 total_s(model, REDCO_ALL_TO_ALL, size, group_of(8, 4)), 0.0);
    /* The only point is large: small messages follow the model, not its 5 ms. */
    assert_close(total_s(comm, REDCO_ALL_REDUCE, 1024.0, group_of(8, 4)),
                 2.0 * total_s(model, REDCO_ALL_REDUCE, 1024.0, group_of(8, 4)), 1e-12);
    redco_comm_free(comm);
    redco_comm_free(model);
}

/* However slow; faster than the data sheet's rates by four at most. */
static void slow_networks_are_believed(void **state)
{
    (void)state;
    const redco_machine machine = dgx_a100(64);
    redco_comm *model = comm_of(&machine, NULL);
    redco_comm *slow = comm_with(&machine, HEAD "all_reduce,8,4,1048576,1,10\n");
    redco_comm *fast = comm_with(&machine, HEAD "all_reduce,8,4,1048576,1,1e-6\n");
    const double ratio = 10.0 / total_s(model, REDCO_ALL_REDUCE, 1048576.0, group_of(8, 4));
    assert_close(total_s(slow, REDCO_ALL_REDUCE, 1048576.0, group_of(8, 8)),
                 ratio * total_s(model, REDCO_ALL_REDUCE, 1048576.0, group_of(8, 8)), 1e-9);
    assert_close(total_s(fast, REDCO_ALL_REDUCE, 1048576.0, group_of(8, 8)),
                 0.25 * total_s(model, REDCO_ALL_REDUCE, 1048576.0, group_of(8, 8)), 1e-12);
    redco_comm_free(slow);
    redco_comm_free(fast);
    redco_comm_free(model);
}

static void nearest_mesh_counts(void **state)
{
    (void)state;
    const redco_machine machine = dgx_a100(64);
    redco_comm *model = comm_of(&machine, NULL);
    char text[512];
    const double size = 268435456.0;
    (void)snprintf(text, sizeof text, HEAD "all_reduce,8,2,%.0f,1,%.12g\nall_reduce,8,16,%.0f,1,%.12g\n", size,
                   1.5 * total_s(model, REDCO_ALL_REDUCE, size, group_of(8, 2)), size,
                   3.0 * total_s(model, REDCO_ALL_REDUCE, size, group_of(8, 16)));
    redco_comm *comm = comm_with(&machine, text);
    assert_close(total_s(comm, REDCO_ALL_REDUCE, size, group_of(8, 32)) /
                     total_s(model, REDCO_ALL_REDUCE, size, group_of(8, 32)),
                 3.0, 1e-9);
    assert_close(total_s(comm, REDCO_ALL_REDUCE, size, group_of(4, 2)) /
                     total_s(model, REDCO_ALL_REDUCE, size, group_of(4, 2)),
                 1.5, 1e-9);
    redco_comm_free(comm);
    redco_comm_free(model);
}

/* A rack of 18 hosts with 4 GPUs is one node of 72. */
static void hosts_of_a_domain_are_one_node(void **state)
{
    (void)state;
    redco_machine machine = machine_of("GB200", 100, REDCO_CPU_ARM, 900e9, 63e9, 2, 72, 72, 50e9);
    machine.hosts_per_node = 18;
    redco_comm *comm = comm_with(&machine, HEAD "all_reduce,4,18,65536,1,1e-4\nall_reduce,4,36,65536,1,2e-4\n");
    assert_close(total_s(comm, REDCO_ALL_REDUCE, 65536.0, group_of(72, 1)), 1e-4, 1e-16);
    assert_close(total_s(comm, REDCO_ALL_REDUCE, 65536.0, group_of(72, 2)), 2e-4, 1e-16);
    redco_comm_free(comm);
}

static void bad_profiles_are_refused(void **state)
{
    (void)state;
    const redco_machine machine = dgx_a100(2);
    redco_comm *comm = NULL;
    redco_error err = {0};
    const char *const missing = "/nowhere/profile.txt";
    assert_int_equal(redco_comm_create(&machine, &missing, 1, &comm, &err), REDCO_EIO);
    assert_string_equal(err.place, missing);
    redco_error_clear(&err);
    char *path = write_profile(HEAD "all_reduce,16,1,1024,1,1e-5\n");
    const char *const too_wide = path;
    assert_int_equal(redco_comm_create(&machine, &too_wide, 1, &comm, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "nodes of 8 x A100"));
    (void)unlink(path);
    free(path);
    assert_null(comm);
}

/* cat a b | sha256sum, by coreutils. */
static void digest_is_that_of_the_files(void **state)
{
    (void)state;
    const redco_machine machine = dgx_a100(2);
    redco_comm *comm = NULL;
    redco_error err = {0};
    char *a = write_profile(HEAD "all_reduce,8,1,1024,1,1e-5\n");
    char *b = write_profile(HEAD "all_gather,8,1,1024,1,1e-5\n");
    const char *const both[] = {a, b};
    assert_int_equal(redco_comm_create(&machine, both, 2, &comm, &err), REDCO_OK);
    assert_string_equal(redco_comm_profile_sha256(comm),
                        "d6577e001ae3f06c39190008824dc7c117340b10627cae06f924d75378939443");
    redco_comm_free(comm);
    (void)unlink(a);
    (void)unlink(b);
    free(a);
    free(b);
}

struct peak_row {
    const char *file;
    redco_machine machine;
    redco_collective op;
    uint32_t gpus, nodes;
    double measured; /* GB/s, the file's largest busbw */
    double tolerance;
};

/* Peak bus bandwidth at 8 GiB against the saved logs. Tolerances: 5 %, and 20 % for the two sites with 4 and 8 nodes
 * whose fabric stays behind its neighbours'. */
static void peaks_are_those_measured(void **state)
{
    (void)state;
    redco_machine oci = dgx_a100(2);
    redco_machine p4de = dgx_a100(2);
    redco_machine p5 = dgx_h100(2);
    redco_machine mega = dgx_h100(2);
    redco_machine mi300x = machine_of("MI300X", 0, REDCO_CPU_INTEL, 448e9, 63e9, 2, 8, 8, 50e9);
    redco_machine kestrel = machine_of("H100", 90, REDCO_CPU_AMD, 450e9, 63e9, 16, 4, 2, 25e9);
    const redco_machine h800 = machine_of("H800", 90, REDCO_CPU_INTEL, 200e9, 63e9, 1, 8, 8, 50e9);
    oci.nics_per_node = 16;
    oci.nic_bytes_per_s = 12.5e9;
    p4de.nics_per_node = 4;
    p4de.nic_bytes_per_s = 12.5e9;
    p4de.node_network_bytes_per_s = 50e9;
    p5.nics_per_node = 32;
    p5.nic_bytes_per_s = 12.5e9;
    mega.nic_bytes_per_s = 25e9;
    mega.node_network_bytes_per_s = 200e9;
    mi300x.fabric = kestrel.fabric = REDCO_FABRIC_DIRECT;
    mi300x.gpu.fp8_flops_per_s = 2.6e15;
    const struct peak_row rows[] = {
        {"dgx h100", dgx_h100(1), REDCO_ALL_REDUCE, 8, 1, 479.99, 0.05},
        {"a100 allreduce", dgx_a100(1), REDCO_ALL_REDUCE, 8, 1, 235.26, 0.05},
        {"a100 allgather", dgx_a100(1), REDCO_ALL_GATHER, 8, 1, 230.07, 0.05},
        {"a100 reducescatter", dgx_a100(1), REDCO_REDUCE_SCATTER, 8, 1, 231.52, 0.05},
        {"a100 broadcast", dgx_a100(1), REDCO_BROADCAST, 8, 1, 234.70, 0.05},
        {"a100 alltoall", dgx_a100(1), REDCO_ALL_TO_ALL, 8, 1, 226.16, 0.07},
        {"h800 broadcast", h800, REDCO_BROADCAST, 8, 1, 165.02, 0.05},
        {"oci a100", oci, REDCO_ALL_REDUCE, 8, 2, 189.60, 0.05},
        {"p4de", p4de, REDCO_ALL_REDUCE, 8, 2, 78.33, 0.06},
        {"h100 2 nodes ndr", dgx_h100(2), REDCO_ALL_REDUCE, 8, 2, 469.21, 0.05},
        {"p5", p5, REDCO_ALL_REDUCE, 8, 2, 487.26, 0.06},
        {"a3 mega allreduce", mega, REDCO_ALL_REDUCE, 8, 2, 338.82, 0.09},
        {"a3 mega allgather", mega, REDCO_ALL_GATHER, 8, 2, 188.90, 0.05},
        {"h100 4 nodes ndr", dgx_h100(4), REDCO_ALL_REDUCE, 8, 4, 365.84, 0.05},
        {"h100 4 nodes, other site", dgx_h100(4), REDCO_ALL_REDUCE, 8, 4, 325.86, 0.20},
        {"h100 8 nodes", dgx_h100(8), REDCO_ALL_REDUCE, 8, 8, 321.03, 0.20},
        {"h100 8 nodes, more channels", dgx_h100(8), REDCO_ALL_REDUCE, 8, 8, 391.37, 0.05},
        {"kestrel allreduce", kestrel, REDCO_ALL_REDUCE, 4, 16, 45.72, 0.06},
        {"kestrel allgather", kestrel, REDCO_ALL_GATHER, 4, 16, 45.65, 0.06},
        {"mi300x", mi300x, REDCO_ALL_REDUCE, 8, 2, 358.37, 0.08},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct peak_row *r = &rows[i];
        redco_comm *comm = comm_of(&r->machine, NULL);
        const double size = 17179869184.0;
        const double bus = redco_collective_bus_factor(r->op, r->gpus * r->nodes) * size /
                           total_s(comm, r->op, size, group_of(r->gpus, r->nodes)) * 1e-9;
        if (fabs(bus / r->measured - 1.0) > r->tolerance) { fail_msg("%s: %g for %g GB/s", r->file, bus, r->measured); }
        redco_comm_free(comm);
    }
}

/* Every saved log prices its own machine's group exactly at its sizes. */
static void a_saved_log_is_its_own_prediction(void **state)
{
    (void)state;
    if (!have_shared()) { skip(); }
    const char *const path = REDCO_SHARED_DIR "/profiles/nccl-tests_h100-sxm-80gb_4node_32gpu_allreduce_ib-ndr.txt";
    const redco_machine machine = dgx_h100(4);
    const redco_profile_run *runs = NULL;
    redco_profile *profile = NULL;
    redco_comm *comm = comm_of(&machine, path);
    assert_int_equal(redco_profile_read(path, &profile, NULL), REDCO_OK);
    assert_int_equal(redco_profile_runs(profile, &runs), 1);
    for (size_t i = 0; i < runs[0].row_count; i++) {
        const redco_profile_row *row = &runs[0].rows[i];
        assert_close(total_s(comm, REDCO_ALL_REDUCE, (double)row->size_bytes, group_of(8, 4)),
                     row->time_s[REDCO_IN_PLACE], 1e-12 + 1e-12 * row->time_s[REDCO_IN_PLACE]);
    }
    redco_profile_free(profile);
    redco_comm_free(comm);
}

/* Four ranks on processors in each of four nodes, links of 25 MB/s, a card of 3 MB/s: rings at those rates, by hand.
 * All groups at once share the card; on two nodes NCCL would price a tree at twice the card's rate. */
static void ranks_on_processors_are_rings(void **state)
{
    (void)state;
    const redco_machine machine = {.gpu = {.name = "rank", .vendor = "host", .pcie_bytes_per_s = 1e9},
                                   .cpu = REDCO_CPU_INTEL,
                                   .nodes = 4,
                                   .gpus_per_node = 4,
                                   .node_gpus_physical = 4,
                                   .hosts_per_node = 1,
                                   .fabric = REDCO_FABRIC_SWITCH,
                                   .link_group_gpus = 4,
                                   .scale_up_bytes_per_s = 25e6,
                                   .nics_per_node = 1,
                                   .nic_bytes_per_s = 3e6,
                                   .node_network_bytes_per_s = 3e6,
                                   .oversubscription_ratio = 1.0};
    redco_comm *comm = comm_of(&machine, NULL);
    assert_close(redco_comm_price(comm, REDCO_ALL_REDUCE, 1e6, group_of(4, 1)).wire_s, 2.0 * 3.0 / 4.0 * 1e6 / 25e6,
                 1e-9);
    assert_close(redco_comm_price(comm, REDCO_ALL_GATHER, 1e6, group_of(4, 4)).wire_s, 15.0 / 16.0 * 1e6 / 3e6, 1e-9);
    assert_close(redco_comm_price(comm, REDCO_ALL_REDUCE, 1e6, sharing(1, 2, 1, 4)).wire_s, 1e6 / (3e6 / 4.0), 1e-9);
    assert_close(redco_comm_price(comm, REDCO_ALL_REDUCE, 1e6, sharing(2, 2, 2, 2)).wire_s,
                 2.0 * 3.0 / 4.0 * 1e6 / (3e6 / 2.0), 1e-9);
    assert_close(redco_comm_price(comm, REDCO_BROADCAST, 1e6, sharing(1, 4, 1, 4)).wire_s, 1e6 / (3e6 / 4.0), 1e-9);
    redco_comm_free(comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trivial_groups_are_free),
        cmocka_unit_test(model_by_hand),
        cmocka_unit_test(groups_share_nics),
        cmocka_unit_test(leaves_limit_long_groups),
        cmocka_unit_test(other_fabrics),
        cmocka_unit_test(point_to_point),
        cmocka_unit_test(ranks_on_processors_are_rings),
        cmocka_unit_test(broadcast_fills_its_chain),
        cmocka_unit_test(model_is_monotone),
        cmocka_unit_test(measured_points_are_met),
        cmocka_unit_test(repeats_become_their_median),
        cmocka_unit_test(ratios_are_transferred),
        cmocka_unit_test(slow_networks_are_believed),
        cmocka_unit_test(nearest_mesh_counts),
        cmocka_unit_test(hosts_of_a_domain_are_one_node),
        cmocka_unit_test(bad_profiles_are_refused),
        cmocka_unit_test(digest_is_that_of_the_files),
        cmocka_unit_test(peaks_are_those_measured),
        cmocka_unit_test(a_saved_log_is_its_own_prediction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
