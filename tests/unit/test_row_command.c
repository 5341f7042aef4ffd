/* Rows of measured runs as redco-plan commands. The words are written out by hand from the rows; for every row of
 * traces/data what they say is compared with the row, and the files that they name with what prices it. */
#include "costmodel/evaluation/row_cluster.h"
#include "costmodel/evaluation/row_command.h"
#include "topology/discovery/cluster.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const redco_row_files files = {.model = "m.json", .cluster = "c d.json"};

/* The words, one space between two. */
static void command_of(const redco_measured_run *run, const redco_request *request, const redco_row_files *with,
                       char *text, size_t size, bool *remark_out)
{
    redco_row_command *command = NULL;
    char *const *words = NULL;
    assert_int_equal(redco_row_command_create(run, request, with, &command, NULL), REDCO_OK);
    const size_t count = redco_row_command_words(command, &words);
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? " " : "", words[i]);
    }
    assert_true(used < size);
    assert_null(words[count]);
    if (remark_out != NULL) { *remark_out = redco_row_command_remark(command) != NULL; }
    redco_row_command_free(command);
}

static const char head[] =
    "source,use,model,layers,hidden,ffn_hidden,heads,kv_heads,head_dim,vocab,ffn_gated,tied_embeddings,seq_len,gpu,"
    "n_gpus,gpus_per_node,node_network_GBps,framework,software,dp,tp,pp,virtual_pp,cp,p_shard,g_shard,os_shard,"
    "p_shard_secondary,optimizer_scheme,sequence_parallel,micro_batch,grad_accum,global_batch,recompute,precision,"
    "grad_reduce_bytes,attention,fused_norm,compiled,overlap,logits_gathered,tokens_per_s_per_gpu\n"
    "s,speed,m,32,4096,16384,32,32,128,50432,0,1,";

static const struct {
    const char *row, *words;
    bool remark;
    const char *calibration;
} rows[] = {
    /* MPT-7B of LLM Foundry on 256 H100, sharded over all */
    {"2048,H100-SXM5-80GB,256,8,400,llm-foundry,eager,256,1,1,1,1,8x32,8x32,8x32,,intra,0,6,1,1536,none,bf16,4,flash2,"
     "1,0,ag_rs,0,10119\n",
     "redco-plan --gpus 256 --cluster c d.json --model m.json --seq 2048 --global-batch 1536 --micro-batch 6 --tp 1 "
     "--pp 1 --cp 1 --fix p=8x32,g=8x32,os=8x32 --scheme intra-tensor --recompute none --precision bf16 --overlap "
     "ag_rs "
     "--sequence-parallel=off --engine "
     "llm-foundry,attention=flash2,fused_norm=1,compiled=0,logits_gathered=0,grad_reduce_bytes=4,software=eager --json",
     false, NULL},
    /* ZeRO++'s second copy; owners of whole tensors; a calibration of one's own */
    {"4096,A800-SXM4-80GB,64,8,100,amsp,eager,64,1,1,1,1,8x8,8x8,8x8,8x1,inter,0,1,2,128,full,fp16,2,flash1,0,1,"
     "ag_rs+ar+bc,0,100\n",
     "redco-plan --gpus 64 --cluster c d.json --model m.json --seq 4096 --global-batch 128 --micro-batch 1 --tp 1 --pp "
     "1 "
     "--cp 1 --fix p=8x8,g=8x8,os=8x8,p2=8x1 --scheme inter-tensor --recompute full --precision fp16 --overlap "
     "ag_rs,ar,bc --sequence-parallel=off --engine "
     "amsp,attention=flash1,fused_norm=0,compiled=1,logits_gathered=0,grad_reduce_bytes=2,software=eager --calibration "
     "own.json --json",
     false, "own.json"},
    /* A node holds tp x cp = 8 of one data-parallel rank: 16 nodes of them are 2 x 16 of dp x cp. */
    {"8192,H100-SXM5-80GB,128,8,400,nemo,te_xla,16,4,1,1,2,1x1,1x1,1x16,,intra,1,1,2,32,none,fp8,2,flash3,1,0,ar+bc+tp,"
     "0,100\n",
     "redco-plan --gpus 128 --cluster c d.json --model m.json --seq 8192 --global-batch 32 --micro-batch 1 --tp 4 --pp "
     "1 "
     "--cp 2 --cp-type p2p --fix p=1x1,g=1x1,os=2x16 --scheme intra-tensor --recompute none --precision fp8 --overlap "
     "ar,bc,tp "
     "--sequence-parallel=on --engine "
     "nemo,attention=flash3,fused_norm=1,compiled=0,logits_gathered=0,grad_reduce_bytes=2,software=te_xla --json",
     false, NULL},
    /* tp 8 leaves a node no room for cp 2: 1 x 4 data-parallel ranks are 1 x 8. Stages of several chunks. */
    {"8192,B200-SXM-180GB,128,8,400,nemo,te_xla,4,8,2,4,2,1x1,1x1,1x4,,intra,1,1,8,32,half,nvfp4,2,flash3,1,0,none,0,"
     "100\n",
     "redco-plan --gpus 128 --cluster c d.json --model m.json --seq 8192 --global-batch 32 --micro-batch 1 --tp 8 --pp "
     "2 "
     "--pp-chunks 4 --cp 2 --cp-type p2p --fix p=1x1,g=1x1,os=1x8 --scheme intra-tensor --recompute half --precision "
     "nvfp4 --overlap "
     "none --sequence-parallel=on --engine "
     "nemo,attention=flash3,fused_norm=1,compiled=0,logits_gathered=0,grad_reduce_bytes=2,software=te_xla --json",
     false, NULL},
    /* 128 GB200 are two racks of 64: with tp 2 and cp 2 each holds 16 of 32 data-parallel ranks, 32 of dp x cp. */
    {"8192,GB200-per-GPU,128,4,200,megatron-bridge,te_xla,32,2,1,1,2,1x1,1x1,1x32,,intra,1,1,4,128,none,mxfp8,4,flash3,"
     "1,0,ar,0,100\n",
     "redco-plan --gpus 128 --cluster c d.json --model m.json --seq 8192 --global-batch 128 --micro-batch 1 --tp 2 "
     "--pp "
     "1 --cp 2 --cp-type p2p --fix p=1x1,g=1x1,os=32x2 --scheme intra-tensor --recompute none --precision mxfp8 "
     "--overlap ar "
     "--sequence-parallel=on --engine "
     "megatron-bridge,attention=flash3,fused_norm=1,compiled=0,logits_gathered=0,grad_reduce_bytes=4,software=te_xla "
     "--json",
     false, NULL},
    /* Part of all data-parallel ranks is over these alone. Selective recomputation has scores to drop without flash. */
    {"8192,H100-SXM5-80GB,64,8,400,nemo,te_xla,16,2,1,1,2,1x1,1x1,2x2,,intra,0,1,2,32,selective,bf16,2,fused,1,0,ar,1,"
     "100\n",
     "redco-plan --gpus 64 --cluster c d.json --model m.json --seq 8192 --global-batch 32 --micro-batch 1 --tp 2 --pp "
     "1 "
     "--cp 2 --cp-type p2p --fix p=1x1,g=1x1,os=2x2 --scheme intra-tensor --recompute selective --precision bf16 "
     "--overlap ar "
     "--sequence-parallel=off --engine "
     "nemo,attention=fused,fused_norm=1,compiled=0,logits_gathered=1,grad_reduce_bytes=2,software=te_xla --json",
     false, NULL},
    /* Empty cells are the engine's; selective recomputation has nothing to drop beside flash attention. */
    {"2048,A100-SXM4-80GB,8,8,,,eager,8,1,1,,1,8x1,8x1,8x1,,,,1,1,8,selective,bf16,,,,,,,100\n",
     "redco-plan --gpus 8 --cluster c d.json --model m.json --seq 2048 --global-batch 8 --micro-batch 1 --tp 1 --pp 1 "
     "--cp 1 --fix p=8x1,g=8x1,os=8x1 --scheme intra-tensor --recompute none --precision bf16 --sequence-parallel=off "
     "--engine fsdp,software=eager --json",
     true, NULL},
    {"2048,A100-SXM4-80GB,8,8,200,home-made,eager,8,1,1,1,1,8x1,8x1,8x1,,intra,0,1,1,8,none,bf16,2,unfused,0,0,ar,0,"
     "100\n",
     "redco-plan --gpus 8 --cluster c d.json --model m.json --seq 2048 --global-batch 8 --micro-batch 1 --tp 1 --pp 1 "
     "--cp 1 --fix p=8x1,g=8x1,os=8x1 --scheme intra-tensor --recompute none --precision bf16 --overlap ar "
     "--sequence-parallel=off --engine "
     "fsdp,attention=unfused,fused_norm=0,compiled=0,logits_gathered=0,grad_reduce_bytes=2,software=eager --json",
     true, NULL},
};

static void a_row_is_a_command(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[2048], command[1024];
        redco_measured *table = NULL;
        const redco_measured_run *run = NULL;
        redco_evaluations *evaluations = NULL;
        redco_error err = {.status = REDCO_OK};
        redco_row_files with = files;
        bool remark = false;
        (void)snprintf(text, sizeof text, "%s%s", head, rows[i].row);
        if (redco_measured_parse(text, strlen(text), "rows.csv", &table, &err) != REDCO_OK) {
            fail_msg("%s: %s", err.place, err.text);
        }
        assert_int_equal(redco_measured_runs(table, &run), 1);
        with.calibration = rows[i].calibration;
        assert_int_equal(redco_evaluations_create(&run, 1, &evaluations, NULL), REDCO_OK);
        const char *const reason = redco_evaluations_skip(evaluations, 0);
        if (reason != NULL) { fail_msg("%s", reason); }
        command_of(run, redco_evaluations_request(evaluations, 0), &with, command, sizeof command, &remark);
        assert_string_equal(command, rows[i].words);
        assert_int_equal(remark, rows[i].remark);
        redco_evaluations_free(evaluations);
        redco_measured_free(table);
    }
}

/* The value behind an option of a command, as a number. */
static unsigned long number_of(const char *command, const char *option)
{
    const char *const at = strstr(command, option);
    assert_non_null(at);
    return strtoul(at + strlen(option), NULL, 10);
}

static void mesh_of(const char *command, const char *key, unsigned *gpus, unsigned *nodes)
{
    const char *const at = strstr(command, key);
    assert_non_null(at);
    assert_int_equal(sscanf(at + strlen(key), "%ux%u", gpus, nodes), 2);
}

/* Ranks of a mesh of the row: of those over all data-parallel ranks, and only of those, times cp; of Megatron's
 * optimizer states also where that is one. */
static void compare_mesh(const char *command, const char *key, const redco_measured_run *run, redco_mesh wanted,
                         const redco_machine *machine)
{
    unsigned gpus = 0, nodes = 0;
    const unsigned long ranks = redco_mesh_ranks(wanted);
    mesh_of(command, key, &gpus, &nodes);
    const bool all = ranks == run->dp && (ranks > 1 || (run->cp > 1 && strcmp(key, ",os=") == 0));
    assert_int_equal((unsigned long)gpus * nodes, all ? ranks * run->cp : ranks);
    assert_true(gpus * run->tp <= machine->gpus_per_node || gpus == 1);
    assert_true(nodes <= machine->nodes);
}

/* The config and the cluster, through what files hold. */
static void compare_files(const redco_measured_run *run, const redco_request *request)
{
    const redco_model *const model = request->model;
    redco_model *again = NULL;
    json_t *json = NULL;
    redco_cluster *cluster = NULL;
    redco_machine machine;
    const redco_json_value config = redco_json_wrap(redco_model_config(model), "model.json");
    assert_int_equal(redco_model_from_json(&config, NULL, &again, NULL), REDCO_OK);
    assert_string_equal(redco_model_name(again), redco_model_name(model));
    assert_memory_equal(redco_model_get_dims(again), redco_model_get_dims(model), sizeof(redco_model_dims));
    assert_int_equal(redco_row_cluster(run, &json, NULL), REDCO_OK);
    const redco_json_value root = redco_json_wrap(json, "cluster.json");
    assert_int_equal(redco_cluster_from_json(&root, &cluster, NULL), REDCO_OK);
    assert_int_equal(redco_cluster_machine(cluster, run->n_gpus, &machine, NULL), REDCO_OK);
    assert_string_equal(machine.name, request->machine.name);
    assert_int_equal(machine.nodes, request->machine.nodes);
    assert_int_equal(machine.gpus_per_node, request->machine.gpus_per_node);
    assert_true(machine.nic_bytes_per_s <= request->machine.nic_bytes_per_s &&
                machine.nic_bytes_per_s >= request->machine.nic_bytes_per_s);
    redco_cluster_free(cluster);
    json_decref(json);
    redco_model_free(again);
}

static void compare_row(const redco_measured_run *run, const redco_request *request)
{
    char command[1024];
    bool remark = true;
    command_of(run, request, &files, command, sizeof command, &remark);
    assert_false(remark); /* every framework of these tables is an engine */
    const unsigned long dp = number_of(command, "--gpus ") / number_of(command, "--tp ") / number_of(command, "--pp ") /
                             number_of(command, "--cp ");
    assert_int_equal(dp, run->dp);
    assert_int_equal(number_of(command, "--global-batch ") / dp / number_of(command, "--micro-batch "),
                     run->grad_accum);
    compare_mesh(command, "p=", run, run->shards.parameters, &request->machine);
    compare_mesh(command, ",g=", run, run->shards.gradients, &request->machine);
    compare_mesh(command, ",os=", run, run->shards.optimizer, &request->machine);
    compare_files(run, request);
}

static size_t compare_table(const char *path)
{
    redco_measured *table = NULL;
    const redco_measured_run *runs = NULL;
    redco_evaluations *evaluations = NULL;
    size_t compared = 0;
    assert_int_equal(redco_measured_read(path, &table, NULL), REDCO_OK);
    const size_t count = redco_measured_runs(table, &runs);
    const redco_measured_run **const each = calloc(count + 1, sizeof *each);
    assert_non_null(each);
    for (size_t i = 0; i < count; i++) { each[i] = &runs[i]; }
    assert_int_equal(redco_evaluations_create(each, count, &evaluations, NULL), REDCO_OK);
    for (size_t i = 0; i < count; i++) {
        if (redco_evaluations_skip(evaluations, i) != NULL) { continue; }
        compare_row(each[i], redco_evaluations_request(evaluations, i));
        compared++;
    }
    free(each);
    redco_evaluations_free(evaluations);
    redco_measured_free(table);
    return compared;
}

static void every_row_says_what_it_said(void **state)
{
    const char *const folder = REDCO_TEST_DATA "/../../traces/data";
    DIR *const listing = opendir(folder);
    size_t compared = 0;
    (void)state;
    assert_non_null(listing);
    for (const struct dirent *item = readdir(listing); item != NULL; item = readdir(listing)) {
        char path[512];
        if (strstr(item->d_name, ".csv") == NULL) { continue; }
        (void)snprintf(path, sizeof path, "%s/%s", folder, item->d_name);
        compared += compare_table(path);
    }
    (void)closedir(listing);
    assert_true(compared >= 1600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_a_command),
        cmocka_unit_test(every_row_says_what_it_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
