#include "tests/unit/collective_fixture.h"
#include "traces/nccl_log.h"
#include "traces/profile.h"

struct file_row {
    const char *file;
    size_t runs;
    /* After the last run: */
    redco_collective op;
    uint32_t ranks, nodes;
    bool one_process;
    size_t rows;
    uint64_t last_bytes;
    double last_out_s, last_in_s; /* as printed in the file's last row */
    size_t skipped;
};

static redco_profile *read_profile(const char *folder, const char *file)
{
    char path[512];
    redco_profile *profile = NULL;
    redco_error err = {0};
    (void)snprintf(path, sizeof path, "%s/%s", folder, file);
    if (redco_profile_read(path, &profile, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    return profile;
}

static void own_files_read_as_written(void **state)
{
    (void)state;
    static const struct file_row rows[] = {
        {"allreduce_4gpu_2node_current.log", 1, REDCO_ALL_REDUCE, 4, 2, false, 5, 67108864, 3409.2e-6, 3375.44e-6, 0},
        /* Six with the size 0 row; one process for 8 GPUs. */
        {"old_layout_8gpu_oneprocess.log", 1, REDCO_ALL_GATHER, 8, 1, true, 6, 67108864, 3442.95e-6, 3375.44e-6, 0},
        {"two_runs_tagged.log", 2, REDCO_REDUCE_SCATTER, 8, 0, false, 5, 67108864, 2025.27e-6, 1991.51e-6, 0},
        /* 63/32 = 1.96875 -> 64 ranks; the row that was being written is left out. */
        {"allreduce_64gpu_cut.log", 1, REDCO_ALL_REDUCE, 64, 0, false, 4, 67108864, 3375.44e-6, 3375.44e-6, 1},
        {"broadcast_per_iteration.log", 1, REDCO_BROADCAST, 6, 0, false, 5, 67108864, 3375.44e-6, 3375.44e-6, 0},
        {"alltoall_table.txt", 1, REDCO_ALL_TO_ALL, 4, 1, false, 5, 67108864, 3375.44e-6, 3712.99e-6, 0},
        {"own.csv", 2, REDCO_ALL_GATHER, 2, 1, false, 5, 67108864, 1687.7216e-6, 0.0, 0},
        {"own.json", 1, REDCO_ALL_REDUCE, 2, 1, false, 2, 1048576, 0.0, 72e-6, 0},
        {"nccl_tests.json", 1, REDCO_REDUCE_SCATTER, 4, 2, false, 2, 1048576, 0.0, 72e-6, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct file_row *r = &rows[i];
        const redco_profile_run *runs = NULL;
        redco_profile *profile = read_profile(REDCO_TEST_DATA "/profiles", r->file);
        const size_t count = redco_profile_runs(profile, &runs);
        print_message("%s\n", r->file);
        assert_int_equal(count, r->runs);
        const redco_profile_run *run = &runs[count - 1];
        const redco_profile_row *last = &run->rows[run->row_count - 1];
        assert_int_equal(run->op, r->op);
        assert_int_equal(run->ranks, r->ranks);
        assert_int_equal(run->nodes, r->nodes);
        assert_int_equal(run->one_process, r->one_process);
        assert_int_equal(run->row_count, r->rows);
        assert_int_equal(last->size_bytes, r->last_bytes);
        assert_close(last->time_s[REDCO_OUT_OF_PLACE], r->last_out_s, 1e-9);
        assert_close(last->time_s[REDCO_IN_PLACE], r->last_in_s, 1e-9);
        assert_int_equal(redco_profile_skipped(profile), r->skipped);
        redco_profile_free(profile);
    }
}

static void header_texts_and_lines(void **state)
{
    (void)state;
    const redco_profile_run *runs = NULL;
    const redco_profile_gemm *gemms = NULL;
    redco_profile *profile = read_profile(REDCO_TEST_DATA "/profiles", "alltoall_table.txt");
    assert_int_equal(redco_profile_runs(profile, &runs), 1);
    assert_string_equal(runs[0].hardware, "4x Example GPU");
    assert_string_equal(runs[0].network, "none");
    assert_string_equal(runs[0].tool, "made up");
    assert_int_equal(runs[0].rows[0].line, 7);
    redco_profile_free(profile);
    profile = read_profile(REDCO_TEST_DATA "/profiles", "two_runs_tagged.log");
    assert_int_equal(redco_profile_runs(profile, &runs), 2);
    assert_int_equal(runs[0].op, REDCO_ALL_REDUCE);
    /* The third row's times stand two lines below its size: 20 us + 262144 B at 20 GB/s = 33.1 us. */
    assert_int_equal(runs[0].rows[2].size_bytes, 262144);
    assert_close(runs[0].rows[2].time_s[REDCO_OUT_OF_PLACE], 33.11e-6, 1e-9);
    redco_profile_free(profile);
    profile = read_profile(REDCO_TEST_DATA "/profiles", "own.json");
    assert_int_equal(redco_profile_gemms(profile, &gemms), 1);
    assert_int_equal(gemms[0].k, 4096);
    assert_string_equal(gemms[0].type, "bf16");
    redco_profile_free(profile);
}

/* A profile reads back as it was written. */
static void documents_come_back(void **state)
{
    (void)state;
    redco_profile *first = read_profile(REDCO_TEST_DATA "/profiles", "own-v2.json"), *second = NULL;
    redco_profile_content c = {.hardware = "2 x host Example CPU",
                               .network = "loopback",
                               .tool = "redco-profile 0.1.0",
                               .measured = redco_profile_how(first)};
    c.run_count = redco_profile_runs(first, &c.runs);
    c.gemm_count = redco_profile_gemms(first, &c.gemms);
    c.attention_count = redco_profile_attentions(first, &c.attentions);
    c.operator_count = redco_profile_operators(first, &c.operators);
    assert_int_equal(c.run_count, 4);
    assert_int_equal(c.attention_count, 8);
    assert_int_equal(c.operator_count, 40);
    assert_string_equal(c.measured->device, "host Example CPU");
    assert_close(c.measured->spread_ratio, 0.03, 1e-12);
    json_t *json = redco_profile_describe(&c);
    assert_non_null(json);
    char *text = json_dumps(json, JSON_REAL_PRECISION(17));
    redco_error err = {0};
    if (redco_profile_parse(text, strlen(text), "again", &second, &err) != REDCO_OK) { fail_msg("%s", err.text); }
    const redco_profile_run *runs = NULL;
    const redco_profile_gemm *gemms = NULL;
    const redco_profile_attention *attentions = NULL;
    const redco_profile_operator *operators = NULL;
    assert_int_equal(redco_profile_runs(second, &runs), c.run_count);
    assert_int_equal(redco_profile_gemms(second, &gemms), c.gemm_count);
    assert_int_equal(redco_profile_attentions(second, &attentions), c.attention_count);
    assert_int_equal(redco_profile_operators(second, &operators), c.operator_count);
    assert_memory_equal(redco_profile_how(second), c.measured, sizeof *c.measured);
    assert_memory_equal(gemms, c.gemms, c.gemm_count * sizeof *gemms);
    assert_memory_equal(attentions, c.attentions, c.attention_count * sizeof *attentions);
    assert_memory_equal(operators, c.operators, c.operator_count * sizeof *operators);
    for (size_t i = 0; i < c.run_count; i++) {
        assert_int_equal(runs[i].op, c.runs[i].op);
        assert_int_equal(runs[i].ranks, c.runs[i].ranks);
        assert_int_equal(runs[i].nodes, c.runs[i].nodes);
        assert_int_equal(runs[i].row_count, c.runs[i].row_count);
        for (size_t r = 0; r < runs[i].row_count; r++) {
            assert_int_equal(runs[i].rows[r].size_bytes, c.runs[i].rows[r].size_bytes);
            assert_true(runs[i].rows[r].time_s[REDCO_IN_PLACE] == c.runs[i].rows[r].time_s[REDCO_IN_PLACE]);
        }
    }
    free(text);
    json_decref(json);
    redco_profile_free(first);
    redco_profile_free(second);
}

struct count_row {
    const char *file;
    size_t runs, rows;
};

/* Data lines counted in each file; for CSVs with several groups, groups x sizes as their headers say. */
static void shared_profiles_have_every_row(void **state)
{
    (void)state;
    static const struct count_row rows[] = {
        {"nccl-tests_a100-sxm4-40gb_1node_8gpu_allgather.txt", 1, 34},
        {"nccl-tests_a100-sxm4-40gb_1node_8gpu_allreduce.txt", 1, 34},
        {"nccl-tests_a100-sxm4-40gb_1node_8gpu_allreduce_oci-10gib.txt", 1, 1},
        {"nccl-tests_a100-sxm4-40gb_1node_8gpu_alltoall.txt", 1, 34},
        {"nccl-tests_a100-sxm4-40gb_1node_8gpu_broadcast.txt", 1, 34},
        {"nccl-tests_a100-sxm4-40gb_1node_8gpu_reduce.txt", 1, 34},
        {"nccl-tests_a100-sxm4-40gb_1node_8gpu_reducescatter.txt", 1, 34},
        {"nccl-tests_a100-sxm4-40gb_2node_16gpu_allreduce_oci-10gib.txt", 1, 1},
        {"nccl-tests_a100-sxm4-40gb_2node_16gpu_allreduce_oci-roce.txt", 1, 4},
        {"nccl-tests_a100-sxm4-80gb_2node_16gpu_allreduce_aws-p4de-efa.txt", 1, 29},
        {"nccl-tests_a800-sxm4-80gb_12node_24gpu_allreduce_roce-kubeflow.txt", 1, 3},
        {"nccl-tests_gb200_20rack_1440gpu_allreduce_coreweave.txt", 1, 6},
        {"nccl-tests_gb200_2rack_128gpu_allreduce_coreweave.txt", 1, 6},
        {"nccl-tests_gb200_nvl72_72gpu_allreduce_coreweave.txt", 1, 5},
        {"nccl-tests_h100-sxm-80gb_128node_1024gpu_allreduce_ib_ring-ll128.txt", 1, 5},
        {"nccl-tests_h100-sxm-80gb_12node_96gpu_allreduce_coreweave-ib-sharp.txt", 1, 5},
        {"nccl-tests_h100-sxm-80gb_16node_64gpu_allgather_kestrel-slingshot.txt", 1, 30},
        {"nccl-tests_h100-sxm-80gb_16node_64gpu_allreduce_kestrel-slingshot.txt", 1, 30},
        {"nccl-tests_h100-sxm-80gb_1node_8gpu_allreduce_dgx.txt", 1, 32},
        {"nccl-tests_h100-sxm-80gb_2node_16gpu_allgather_gcp-a3high-tcpx.txt", 1, 10},
        {"nccl-tests_h100-sxm-80gb_2node_16gpu_allgather_gcp-a3mega.txt", 1, 31},
        {"nccl-tests_h100-sxm-80gb_2node_16gpu_allreduce_aws-p5-efa.txt", 1, 32},
        {"nccl-tests_h100-sxm-80gb_2node_16gpu_allreduce_gcp-a3mega.txt", 1, 31},
        {"nccl-tests_h100-sxm-80gb_2node_16gpu_allreduce_ib-ndr.txt", 1, 32},
        {"nccl-tests_h100-sxm-80gb_2node_16gpu_allreduce_ib-ndr_b.txt", 1, 14},
        {"nccl-tests_h100-sxm-80gb_2node_16gpu_allreduce_ib-ndr_ring.txt", 1, 14},
        {"nccl-tests_h100-sxm-80gb_4node_32gpu_allreduce_ib-ndr.txt", 1, 32},
        {"nccl-tests_h100-sxm-80gb_4node_32gpu_allreduce_ib-ndr_b.txt", 1, 14},
        {"nccl-tests_h100-sxm-80gb_8node_64gpu_allreduce_ib-ndr.txt", 1, 14},
        {"nccl-tests_h100-sxm-80gb_8node_64gpu_allreduce_ib-ndr_min-ctas24.txt", 1, 14},
        {"nccl-tests_h800-sxm_1node_8gpu_broadcast.txt", 1, 24},
        {"rccl-tests_mi300x_2node_16gpu_allreduce_oci-roce.txt", 1, 5},
        {"raw/aws-eks_h100_16gpu_allreduce_mpirun-tagged.log", 1, 7},
        {"raw/aws-p5_h100_16gpu_allreduce_srun-labelled.log", 1, 32},
        {"raw/dgx-h100_8gpu_allreduce.log", 1, 32},
        {"raw/gcp-a3mega_h100_16gpu_allreduce.log", 1, 31},
        {"raw/kestrel-h100_64gpu_allgather_no-header.log", 1, 30},
        {"raw/superbench_a100-sxm4-40gb_8gpu_allgather.log", 1, 34},
        {"raw/superbench_a100-sxm4-40gb_8gpu_allreduce.log", 1, 34},
        {"raw/superbench_a100-sxm4-40gb_8gpu_alltoall.log", 1, 34},
        {"raw/superbench_a100-sxm4-40gb_8gpu_broadcast.log", 1, 34},
        {"raw/superbench_a100-sxm4-40gb_8gpu_reduce.log", 1, 34},
        {"raw/superbench_a100-sxm4-40gb_8gpu_reducescatter.log", 1, 34},
        {"galvatron_a100_1node_8gpu_size_time.csv", 6, 66},
        {"galvatron_a100_bandwidth.csv", 24, 24},
        {"nccl-tests_a100-sxm_1node_8gpu_allreduce_mleng.csv", 1, 20},
        {"nccl-tests_h200_b200_1node_nvls_vs_ring_mleng.csv", 13, 13},
        /* 2 x 20 cells, two of them a busbw of 0.01 and 0.04. */
        {"torch_b200_1node_8gpu_and_4node_32gpu_allreduce_mleng.csv", 2, 38},
        {"torch_h200-sxm_1node_8gpu_allreduce_mleng.csv", 1, 20},
        {"vidur_a100_dgx_all_reduce.csv", 7, 588},
        {"vidur_a100_dgx_send_recv.csv", 2, 168},
        {"vidur_a100_pairwise_nvlink_all_reduce.csv", 2, 248},
        {"vidur_a100_pairwise_nvlink_send_recv.csv", 2, 168},
        {"vidur_h100_dgx_all_reduce.csv", 3, 252},
        {"vidur_h100_dgx_send_recv.csv", 2, 168},
        {"vidur_h100_pairwise_nvlink_all_reduce.csv", 2, 168},
        {"vtrain_a100_1node_allreduce_lut.csv", 7, 868},
        {"vtrain_v100_1node_allreduce_lut.csv", 7, 868},
    };
    if (!have_shared()) { skip(); }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const redco_profile_run *runs = NULL;
        redco_profile *profile = read_profile(REDCO_SHARED_DIR "/profiles", rows[i].file);
        if (redco_profile_runs(profile, &runs) != rows[i].runs || redco_profile_row_count(profile) != rows[i].rows) {
            fail_msg("%s: %zu runs, %zu rows", rows[i].file, redco_profile_runs(profile, &runs),
                     redco_profile_row_count(profile));
        }
        redco_profile_free(profile);
    }
}

/* The unmodified logs give the numbers of the tables that were made from them. */
static void raw_logs_equal_their_tables(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"raw/dgx-h100_8gpu_allreduce.log", "nccl-tests_h100-sxm-80gb_1node_8gpu_allreduce_dgx.txt"},
        {"raw/aws-p5_h100_16gpu_allreduce_srun-labelled.log",
         "nccl-tests_h100-sxm-80gb_2node_16gpu_allreduce_aws-p5-efa.txt"},
        {"raw/gcp-a3mega_h100_16gpu_allreduce.log", "nccl-tests_h100-sxm-80gb_2node_16gpu_allreduce_gcp-a3mega.txt"},
        {"raw/kestrel-h100_64gpu_allgather_no-header.log",
         "nccl-tests_h100-sxm-80gb_16node_64gpu_allgather_kestrel-slingshot.txt"},
        {"raw/superbench_a100-sxm4-40gb_8gpu_allgather.log", "nccl-tests_a100-sxm4-40gb_1node_8gpu_allgather.txt"},
        {"raw/superbench_a100-sxm4-40gb_8gpu_alltoall.log", "nccl-tests_a100-sxm4-40gb_1node_8gpu_alltoall.txt"},
        {"raw/superbench_a100-sxm4-40gb_8gpu_reduce.log", "nccl-tests_a100-sxm4-40gb_1node_8gpu_reduce.txt"},
        {"raw/superbench_a100-sxm4-40gb_8gpu_reducescatter.log",
         "nccl-tests_a100-sxm4-40gb_1node_8gpu_reducescatter.txt"},
    };
    if (!have_shared()) { skip(); }
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const redco_profile_run *raw = NULL;
        const redco_profile_run *table = NULL;
        redco_profile *a = read_profile(REDCO_SHARED_DIR "/profiles", pairs[i][0]);
        redco_profile *b = read_profile(REDCO_SHARED_DIR "/profiles", pairs[i][1]);
        (void)redco_profile_runs(a, &raw);
        (void)redco_profile_runs(b, &table);
        assert_int_equal(raw[0].op, table[0].op);
        assert_int_equal(raw[0].ranks, table[0].ranks);
        assert_int_equal(raw[0].row_count, table[0].row_count);
        for (size_t r = 0; r < raw[0].row_count; r++) {
            assert_int_equal(raw[0].rows[r].size_bytes, table[0].rows[r].size_bytes);
            assert_close(raw[0].rows[r].time_s[0], table[0].rows[r].time_s[0], 0.0);
            assert_close(raw[0].rows[r].time_s[1], table[0].rows[r].time_s[1], 0.0);
        }
        redco_profile_free(a);
        redco_profile_free(b);
    }
}

struct bad_row {
    const char *text;
    const char *place; /* the place's end */
    const char *what;  /* part of the sentence */
};

#define TWO "# ranks: 2\n"
#define HALF " 20.0 0.00 0.00 0"

static void bad_input_is_named(void **state)
{
    (void)state;
    static const struct bad_row rows[] = {
        {"", "x.txt", "no measured times"},
        {"hello\n", "x.txt", "no measured times"},
        {TWO "1024 256 float sum -1 nan 0 0 0" HALF "\n", "x.txt:2", "\"nan\" is not a time"},
        {TWO "1024 256 float sum -1 -3 0 0 0" HALF "\n", "x.txt:2", "\"-3\" is not a time"},
        {TWO "1024 256 float sum -1 0x10 0 0 0" HALF "\n", "x.txt:2", "\"0x10\" is not a time"},
        {TWO "1024 256 float sum -1 0.00 0 0 0" HALF "\n", "x.txt:2", "a time of 0"},
        {TWO "1024 256 float sum -1 1e300 0 0 0" HALF "\n", "x.txt:2", "a time of 1e+294 s"},
        {TWO "-1024 256 float sum -1" HALF HALF "\n", "x.txt:2", "\"-1024\" is not a size"},
        {TWO "99999999999999999999 256 float sum -1" HALF HALF "\n", "x.txt:2", "is not a size"},
        {TWO "9999999999999999 2499999999999999 float sum -1 1e9 1.0 0 0 1e9 1.0 0 0\n", "x.txt:2", ""},
        {TWO "2048 512 float sum -1" HALF HALF "\n1024 256 float sum -1" HALF HALF "\n", "x.txt:3",
         "size 1024 follows 2048"},
        {TWO "1073741824 268435456 float sum -1 0.01 0.0 0 0 0.01 0.0 0 0\n", "x.txt:2", "more than any GPU"},
        {TWO "1048576 262144 float sum -1 100.0 99.0 99.0 0 100.0 10.4 10.4 0\n", "x.txt:2",
         "contradicts size and time"},
        {"# ranks: 4\n1048576 262144 float sum -1 100.0 10.49 18.35 0 100.0 10.49 18.35 0\n", "x.txt:2",
         "lists 4 ranks, but busbw/algbw is that of 8"},
        {"# ranks: 4\n# collective: all_gather\n1048576 32768 float none -1 100.0 10.49 9.18 0 100.0 10.49 9.18 0\n",
         "x.txt:3", "lists 4 ranks, but size / count is that of 8"},
        {"1048576 262144 float none 0 100.0 10.49 10.49 0 100.0 10.49 10.49 0\n", "x.txt:1",
         "add a line \"# ranks: N\""},
        {"1048576 32768 float none -1 100.0 10.49 9.18 0 100.0 10.49 9.18 0\n", "x.txt:1", "which look alike"},
        {"1048576 32768 float none 0 100.0 10.49 9.18 0 100.0 10.49 9.18 0\n", "x.txt:1", "gather and scatter are not"},
        {"hypercube_perf -b 8\n" TWO "1024 256 float none -1" HALF HALF "\n", "x.txt:3", "hypercube is no collective"},
        {"# collective: broadcast\n" TWO "1024 256 float sum -1" HALF HALF "\n", "x.txt:3",
         "the header says broadcast"},
        {"# ranks: 1\n1024 256 float sum -1" HALF HALF "\n", "x.txt:2", "1 ranks"},
        {"# ranks: 2\n# nodes: 3 ranks: 2\n1024 256 float sum -1" HALF HALF "\n", "x.txt:3", "2 ranks cannot be on 3"},
        {TWO "1024 256 float sum -1 20.0 0.0 0.0\n# end\n1 2 3\n", "x.txt:2", "a row of 8 fields"},
        {"op,gpus_per_node,nodes,size_bytes,in_place,time_s\nall_reduce,2,1,8,1,nan\n", "x.txt:2",
         "column 6 is \"nan\""},
        {"op,gpus_per_node,nodes,size_bytes,in_place,time_s\nall_reduce,2,1,8,1,-1\n", "x.txt:2", "column 6 is \"-1\""},
        {"op,gpus_per_node,nodes,size_bytes,in_place,time_s\nall_reduce,2,1,8,1\n", "x.txt:2", "5 columns"},
        {"op,gpus_per_node,nodes,size_bytes,in_place,time_s\nall_to_some,2,1,8,1,1e-5\n", "x.txt:2", "column 1"},
        {"op,gpus_per_node,nodes,size_bytes,in_place,time_s\nall_reduce,0,1,8,1,1e-5\n", "x.txt:2", "column 2"},
        {"op,gpus_per_node,nodes,size_bytes,in_place,time_s\nall_reduce,1000000,1000000,8,1,1e-5\n", "x.txt:2",
         "ranks"},
        {"op,gpus_per_node,nodes,size_bytes,in_place,time_s\nall_reduce,2,1,16,1,1e-5\nall_reduce,2,1,8,1,1e-5\n",
         "x.txt:3", "size 8 follows 16"},
        {"size_B,time_us,algbw_GBs,busbw_GBs\n8,1,1,1\n", "x.txt:2", "needs the comment lines"},
        {"Size,1 Node(NVLinkx),2Node\n16777216,0.44,0.52\n", "x.txt", "SimAI table of bandwidth efficiencies"},
        {"config,collective,size_B,algo,proto,latency_us\n", "x.txt", "computed from NCCL's model"},
        {"{\"format\":\"redco-profile\",\"version\":4}", "x.txt:/version", ""},
        {"{\"format\":\"redco-profile\",\"version\":1}", "x.txt", "no measured times"},
        {"{\"format\":\"redco-profile\",\"version\":1,\"collectives\":[{\"op\":\"all_reduce\",\"gpus_per_node\":2,"
         "\"nodes\":1,\"rows\":[{\"size_bytes\":9,\"in_place_s\":1e-5},{\"size_bytes\":8,\"in_place_s\":1e-5}]}]}",
         "x.txt:/collectives/0/rows/1", "size 8 follows 9"},
        {"{\"format\":\"redco-profile\",\"version\":1,\"collectives\":[{\"op\":\"all_reduce\",\"gpus_per_node\":1,"
         "\"nodes\":1,\"rows\":[]}]}",
         "x.txt:/collectives/0", "1 ranks"},
        {"{\"format\":\"redco-profile\",\"version\":1,\"collectives\":[{\"op\":\"all_reduce\",\"gpus_per_node\":2,"
         "\"nodes\":1,\"rows\":[{\"size_bytes\":8,\"in_place_s\":-1}]}]}",
         "x.txt:/collectives/0/rows/0/in_place_s", "is -1"},
        {"{\"format\":\"redco-profile\",\"version\":1,\"gemm\":[{\"m\":1,\"n\":1,\"k\":1,\"type\":\"int3\","
         "\"time_s\":1}]}",
         "x.txt:/gemm/0/type", "int3"},
        {"{\"format\":\"redco-profile\",\"version\":2,\"gemm\":[{\"m\":1,\"n\":1,\"k\":1,\"type\":\"fp32\","
         "\"transposed\":\"c\",\"time_s\":1}]}",
         "x.txt:/gemm/0/transposed", "is \"c\"; none, a, b or both is needed"},
        {"{\"format\":\"redco-profile\",\"version\":2,\"attention\":[{\"batch\":1,\"heads\":4,\"kv_heads\":3,"
         "\"sequence\":8,\"head_dim\":8,\"causal\":true,\"type\":\"fp32\",\"forward_s\":1,\"backward_s\":1}]}",
         "x.txt:/attention/0/kv_heads", "3 does not divide 4 heads"},
        {"{\"format\":\"redco-profile\",\"version\":2,\"operators\":[{\"operator\":\"\",\"type\":\"fp32\","
         "\"elements\":1,\"forward_s\":1}]}",
         "x.txt:/operators/0/operator", "has 0 characters"},
        {"{\"format\":\"redco-profile\",\"version\":2,\"operators\":[{\"operator\":\"copy\",\"type\":\"fp32\","
         "\"elements\":1,\"forward_s\":0}]}",
         "x.txt:/operators/0/forward_s", ""},
        {"{\"format\":\"redco-profile\",\"version\":3,\"power\":[{\"operator\":\"gemm\",\"type\":\"bf16\","
         "\"numbers\":\"random\"}]}",
         "x.txt:/power/0/numbers", "is \"random\"; normal or zeros is needed"},
        {"{\"format\":\"redco-profile\",\"version\":3,\"power\":[{\"operator\":\"gemm\",\"type\":\"bf16\","
         "\"numbers\":\"normal\",\"pass\":\"forward\",\"counted_by\":\"device\",\"time_s\":1,\"energy_j\":-1}]}",
         "x.txt:/power/0/energy_j", "is -1"},
        {"{\"format\":\"redco-profile\",\"version\":2,\"measured\":{\"devise\":\"x\"}}", "x.txt:/measured/devise", ""},
        {"{\"format\":", "x.txt:1:10", "not valid JSON"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redco_profile *profile = NULL;
        redco_error err = {0};
        const redco_status st = redco_profile_parse(rows[i].text, strlen(rows[i].text), "x.txt", &profile, &err);
        if (st != REDCO_EVALUE || strcmp(err.place, rows[i].place) != 0 || strstr(err.text, rows[i].what) == NULL) {
            fail_msg("row %zu: %d %s: %s", i, (int)st, err.place, err.text);
        }
        assert_null(profile);
    }
}

struct csv_row {
    const char *text;
    redco_collective op;
    uint32_t ranks, nodes, stride, groups;
    bool bandwidth_only;
    uint64_t bytes;
    double out_s, in_s;
};

/* One row of each foreign table, converted by hand. */
static void foreign_tables_are_converted(void **state)
{
    (void)state;
    static const struct csv_row rows[] = {
        {"# "
         "vTrain\nngpus,size_B,oop_time_ns,oop_busbw_GBs,ip_time_ns,ip_busbw_GBs\n2,1048576,44210,23.72,45100,23.25\n",
         REDCO_ALL_REDUCE, 2, 1, 1, 1, false, 1048576, 44.21e-6, 45.1e-6},
        {"# Vidur network profile: send_recv, two\n"
         "num_workers,devices_per_node,size_B,min_ms,median_ms,mean_ms,max_ms\n2,1,2048,0.01,0.017,0.015,0.02\n",
         REDCO_SEND_RECV, 2, 2, 1, 1, false, 2048, 0.0, 17e-6},
        {"collective,group_size,size_MiB,time_ms\nall2all,4,2,0.11\n", REDCO_ALL_TO_ALL, 4, 1, 1, 1, false, 2097152,
         0.0, 110e-6},
        /* 16 ranks in groups of 8, every second rank: 4 of a node, two groups at once. 2 x 7/8 x 2^30 / 20e9 s */
        {"file,key,value_GBs\nallreduce_bandwidth_2nodes_8gpus_per_node,allreduce_size_8_consec_0,20\n",
         REDCO_ALL_REDUCE, 8, 2, 2, 2, true, 1073741824, 0.0, 0.0939524096},
        {"file,key,value_GBs\np2p_bandwidth_2nodes_8gpus_per_node,pp_size_2,8\n", REDCO_SEND_RECV, 2, 2, 8, 8, true,
         1073741824, 0.0, 0.134217728},
        /* 2 x 7/8 x 16 GiB / 480 GB/s */
        {"gpu,ngpus,collective,size_B,algo_chosen,busbw_GBs,busbw_nvls_off_GBs\n"
         "H200,8,all_reduce,17179869184,NVLS,480.0,367.2\n",
         REDCO_ALL_REDUCE, 8, 1, 1, 1, false, 17179869184u, 0.0, 0.06263493973333},
        {"# collective: allreduce; hardware: a\nsize_B,busbw_1node_8gpu_GBs,busbw_4node_32gpu_GBs\n1048576,0.02,3.1\n",
         REDCO_ALL_REDUCE, 32, 4, 1, 1, false, 1048576, 0.0, 1.9375 * 1048576 / 3.1e9},
        {"# collective: allreduce\n# nodes: 1 ranks: 8\nsize_B,busbw_GBs,algbw_GBs\n1048576,1.75,1\n", REDCO_ALL_REDUCE,
         8, 1, 1, 1, false, 1048576, 0.0, 1048576e-9},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const redco_profile_run *runs = NULL;
        redco_profile *profile = NULL;
        redco_error err = {0};
        const struct csv_row *r = &rows[i];
        if (redco_profile_parse(r->text, strlen(r->text), "x.csv", &profile, &err) != REDCO_OK) {
            fail_msg("%s: %s", err.place, err.text);
        }
        assert_int_equal(redco_profile_runs(profile, &runs), 1);
        assert_int_equal(runs[0].op, r->op);
        assert_int_equal(runs[0].ranks, r->ranks);
        assert_int_equal(runs[0].nodes, r->nodes);
        assert_int_equal(runs[0].stride, r->stride);
        assert_int_equal(runs[0].groups_per_node, r->groups);
        assert_int_equal(runs[0].bandwidth_only, r->bandwidth_only);
        assert_int_equal(runs[0].rows[0].size_bytes, r->bytes);
        assert_close(runs[0].rows[0].time_s[REDCO_OUT_OF_PLACE], r->out_s, 1e-9 * r->out_s);
        assert_close(runs[0].rows[0].time_s[REDCO_IN_PLACE], r->in_s, 1e-9 * r->in_s);
        redco_profile_free(profile);
    }
}

/* Version 3's description of a device, read, written and read again: all of it as the file has it. */
static void devices_are_described(void **state)
{
    (void)state;
    redco_profile *file = NULL, *again = NULL;
    redco_error err = {0};
    if (redco_profile_read(REDCO_TEST_DATA "/profiles/own-v3.json", &file, &err) != REDCO_OK) {
        fail_msg("%s: %s", err.place, err.text);
    }
    redco_profile_content content = {.tool = "x", .measured = redco_profile_how(file)};
    content.gemm_count = redco_profile_gemms(file, &content.gemms);
    content.attention_count = redco_profile_attentions(file, &content.attentions);
    content.operator_count = redco_profile_operators(file, &content.operators);
    content.power_count = redco_profile_powers(file, &content.powers);
    json_t *json = redco_profile_describe(&content);
    char *text = json_dumps(json, 0);
    assert_non_null(text);
    assert_int_equal(redco_profile_parse(text, strlen(text), "again", &again, &err), REDCO_OK);
    for (int i = 0; i < 2; i++) {
        const redco_profile_measured *how = redco_profile_how(i == 0 ? file : again);
        assert_string_equal(how->device, "H200-SXM-141GB");
        assert_string_equal(how->part, "NVIDIA H200");
        assert_string_equal(how->capability, "9.0");
        assert_string_equal(how->driver, "CUDA 13.0");
        assert_string_equal(how->kernels, "cuBLASLt 13.1.0, cuDNN 9.19.0");
        assert_true(how->clock_hz == 1.98e9 && how->clock_after_hz == 1.755e9 && how->memory_clock_hz == 3.201e9);
        assert_true(how->multiprocessors == 132 && how->memory_bytes == 150754820096 && how->left_out == 3);
        assert_true(how->budget_s == 90.0 && how->took_s == 88.5 && how->launch_s == 6e-6 && how->hot_ratio == 1.08);
        assert_true(how->host_forward_s == 9.6e-5 && how->host_backward_s == 2.1e-4);
        assert_true(how->reserve_bytes == 812646400 && how->workspace_bytes == 33554432);
        assert_true(how->contention_ratio == 0.12 && how->overlap_ratio == 1.0);
        assert_true(how->power_limit_w == 700.0 && how->idle_w == 129.0);
        const redco_profile_power *powers = NULL;
        assert_int_equal(redco_profile_powers(i == 0 ? file : again, &powers), 2);
        assert_string_equal(powers[0].name, "gemm");
        assert_true(powers[0].m == 8192 && powers[0].n == 4096 && powers[0].k == 2048 && powers[0].elements == 0);
        assert_true(powers[0].flops == 137438953472.0 && powers[0].time_s == 2.2e-4 && powers[0].energy_j == 0.15);
        assert_true(powers[0].watts == 690.0 && powers[0].clock_hz == 1.5e9 && powers[0].memory_clock_hz == 3.201e9);
        assert_true(powers[0].settle_s == 0.04 && powers[0].window_s == 1.01 && !powers[0].sampled);
        assert_string_equal(powers[0].numbers, "zeros");
        assert_string_equal(powers[1].name, "rms_norm");
        assert_true(powers[1].backward && powers[1].sampled && powers[1].elements == 67108864 && powers[1].m == 0);
    }
    free(text);
    json_decref(json);
    redco_profile_free(file);
    redco_profile_free(again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_files_read_as_written),    cmocka_unit_test(header_texts_and_lines),
        cmocka_unit_test(documents_come_back),          cmocka_unit_test(shared_profiles_have_every_row),
        cmocka_unit_test(raw_logs_equal_their_tables),  cmocka_unit_test(bad_input_is_named),
        cmocka_unit_test(foreign_tables_are_converted), cmocka_unit_test(devices_are_described),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
