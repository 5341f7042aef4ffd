#include "costmodel/evaluation/measured_runs.h"

#include "costmodel/evaluation/row_cluster.h"
#include "costmodel/evaluation/row_model.h"
#include "costmodel/operators/compute_profile.h"
#include "costmodel/schedules/strategies.h"
#include "topology/base/preset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { CLASSES_MAX = 8 };

struct evaluation {
    char reason[256]; /* "" = can be predicted */
    char set[64];     /* name of shipped constants */
    redco_request request;
    redco_assignment assignments[CLASSES_MAX];
    redco_model *model;
    uint32_t *split; /* NULL: stages are equal */
    const redco_comm *comm;
    redco_costs *costs;
};

struct shared_comm {
    redco_machine machine;
    bool profiled; /* operators of the shipped profile of its GPU */
    redco_comm *comm;
};

struct redco_evaluations {
    struct evaluation *rows;
    size_t count;
    struct shared_comm *comms;
    size_t comm_count;
};

/* Engines of a table's frameworks, read once each. */
enum { ENGINES_CACHED = 32 };
struct engines {
    char frameworks[ENGINES_CACHED][REDCO_ENGINE_NAME];
    redco_engine_file files[ENGINES_CACHED];
    uint32_t count;
};

/* A framework without a file of its own is taken for flat FSDP. */
static const char unknown_framework[] = "fsdp";

static redco_status engine_of(struct engines *engines, const char *framework, const redco_engine_file **file_out,
                              redco_error *err)
{
    const char *const name = redco_preset_find("engines", framework) != NULL ? framework : unknown_framework;
    for (uint32_t i = 0; i < engines->count; i++) {
        if (strcmp(engines->frameworks[i], name) == 0) {
            *file_out = &engines->files[i];
            return REDCO_OK;
        }
    }
    const uint32_t at = engines->count < ENGINES_CACHED ? engines->count++ : ENGINES_CACHED - 1;
    (void)snprintf(engines->frameworks[at], sizeof engines->frameworks[at], "%s", name);
    *file_out = &engines->files[at];
    return redco_engine_file_read(name, &engines->files[at], err);
}

/* Tables mesh by hosts, TP and data-parallel ranks; the cost model by link domains and the ranks that an engine shards
 * over. With context parallelism a mesh of all data-parallel ranks stands for all of those (traces/data/README.md); a
 * larger one is stated over both. One such rank is all of them: then the engine's states decide (shard_one_rank). */
static redco_status remesh(redco_mesh given, redco_mesh dp, redco_mesh grid, const char *what, redco_mesh *mesh_out,
                           redco_error *err)
{
    const uint64_t all = redco_mesh_ranks(dp);
    uint64_t ranks = redco_mesh_ranks(given);
    if (ranks > 1 && ranks == all) { ranks = redco_mesh_ranks(grid); }
    const redco_mesh within = ranks > all ? grid : dp;
    if (redco_mesh_of_ranks(within, ranks, mesh_out)) { return REDCO_OK; }
    return redco_fail(err, REDCO_EVALUE, what, "%llu ranks are no part of a mesh of %ux%u", (unsigned long long)ranks,
                      within.gpus, within.nodes);
}

/* One data-parallel rank and several context-parallel ones: a table cannot tell replicated states from sharded ones.
 * Megatron's distributed optimizer cuts the optimizer's, FSDP all. */
static void shard_one_rank(const redco_engine_file *file, redco_mesh grid, redco_shards *shards)
{
    const bool optimizer = (file->states & (REDCO_RUNS(REDCO_STRATEGY_ZERO1) | REDCO_RUNS(REDCO_STRATEGY_ZERO3))) != 0;
    if (!optimizer || redco_mesh_ranks(shards->optimizer) > 1) { return; }
    shards->optimizer = grid;
    if ((file->states & REDCO_RUNS(REDCO_STRATEGY_ZERO1)) == 0) { shards->parameters = shards->gradients = grid; }
}

static redco_status setting_of(const redco_measured_run *run, const redco_engine_file *file, redco_request *request,
                               redco_layer_config *config, redco_error *err)
{
    redco_parallelism *const s = &request->parallelism;
    redco_mesh dp = {0, 0};
    redco_status st = redco_dp_mesh(request->machine.gpus_per_node, (uint64_t)run->tp * run->cp, run->dp, &dp, err);
    if (st != REDCO_OK) { return st; }
    const bool inter = run->scheme == REDCO_MEASURED_SCHEME_INTER ||
                       (run->scheme == REDCO_MEASURED_SCHEME_UNKNOWN && !file->intra_tensor);
    *s = (redco_parallelism){.tp = run->tp,
                             .pp = run->pp,
                             .cp = run->cp,
                             .cp_type = run->cp == 1                                      ? REDCO_CP_P2P
                                        : redco_measured_knows(run, REDCO_COLUMN_CP_TYPE) ? run->cp_type
                                                                                          : file->cp_type,
                             .chunks = run->pp > 1 ? run->virtual_pp : 1,
                             .sequence_parallel = run->sequence_parallel,
                             .micro_batch = run->micro_batch,
                             .micro_batches = run->grad_accum,
                             .dp = dp,
                             .ep = run->experts > 0 ? run->ep : 0,
                             .etp = run->experts > 0 ? run->etp : 0,
                             .scheme = inter ? REDCO_INTER_TENSOR : REDCO_INTRA_TENSOR};
    const redco_mesh grid = redco_shard_grid(&request->machine, &request->workload.engine, s);
    redco_shards *const shards = &config->shards;
    st = remesh(run->shards.parameters, s->dp, grid, "p_shard", &shards->parameters, err);
    if (st == REDCO_OK) { st = remesh(run->shards.gradients, s->dp, grid, "g_shard", &shards->gradients, err); }
    if (st == REDCO_OK) { st = remesh(run->shards.optimizer, s->dp, grid, "os_shard", &shards->optimizer, err); }
    if (st == REDCO_OK && run->dp == 1) { shard_one_rank(file, grid, shards); }
    if (st == REDCO_OK && redco_mesh_ranks(run->p_secondary) > 0) {
        st = remesh(run->p_secondary, s->dp, grid, "p_shard_secondary", &s->secondary, err);
    }
    return st;
}

static redco_gemm_format format_of(redco_measured_precision precision)
{
    switch (precision) {
    case REDCO_MEASURED_FP8: return REDCO_GEMM_FP8;
    case REDCO_MEASURED_MXFP8: return REDCO_GEMM_MXFP8;
    case REDCO_MEASURED_NVFP4: return REDCO_GEMM_NVFP4;
    case REDCO_MEASURED_BF16:
    case REDCO_MEASURED_FP16:
    case REDCO_MEASURED_PRECISION_UNKNOWN: break;
    }
    return REDCO_GEMM_SAME;
}

static redco_recompute recompute_of(const redco_measured_run *run, const redco_engine *engine)
{
    switch (run->recompute) {
    case REDCO_MEASURED_RECOMPUTE_FULL:
    case REDCO_MEASURED_RECOMPUTE_HALF: return REDCO_RECOMPUTE_FULL;
    case REDCO_MEASURED_RECOMPUTE_SELECTIVE: /* nothing to drop where flash attention keeps no scores; redco-exec runs
                                                it again */
        return engine->planned_memory || redco_attention_keeps_scores(engine->attention) ? REDCO_RECOMPUTE_CORE_ATTN
                                                                                         : REDCO_RECOMPUTE_NONE;
    case REDCO_MEASURED_RECOMPUTE_MODULES: return run->recompute_modules;
    case REDCO_MEASURED_RECOMPUTE_NONE:
    case REDCO_MEASURED_RECOMPUTE_UNKNOWN: break;
    }
    return REDCO_RECOMPUTE_NONE;
}

/* The names of a column's values as traits. */
static const char *const software_words[] = {"", "eager", "megatron", "te_xla"};
static const char *const attention_words[] = {"", "flash1", "flash2", "flash3", "fused", "unfused"};
static const char *const flag_words[] = {"0", "1"};
static const char *const width_words[] = {"", "", "2", "", "4"};

/* Scopes of Megatron's graphs: what holds attention and router is as good as all before the experts. */
static const char *graphs_of(const char *scope)
{
    const bool attention = strstr(scope, "attn") != NULL, routes = strstr(scope, "moe_router") != NULL;
    if (strstr(scope, "full_iteration") != NULL) { return "all"; }
    if (strstr(scope, "shared_expert") != NULL) { return "shared"; }
    if (attention != routes) { return "attention"; } /* about as many kernels */
    return attention || strstr(scope, "partial") != NULL ? "router" : "none";
}

static const char *imbalance_of(const char *routing)
{
    return strcmp(routing, "token_drop") == 0 ? "1" : strcmp(routing, "natural") == 0 ? "1.3" : "1.03";
}

/* Year and month, as releases are numbered or dated: "25.02", "2026-08", "main 2026-06". */
static bool date_of(const char *release, char date[16])
{
    unsigned year = 0, month = 0;
    const char *const at = release + strcspn(release, "0123456789");
    if (sscanf(at, "%4u%*1[.-]%2u", &year, &month) != 2 || month < 1 || month > 12) { return false; }
    year += year < 100 ? 2000 : 0;
    (void)snprintf(date, 16, "%u.%02u", year, month);
    return year >= 2017 && year < 2100;
}

/* Columns of mixtures as traits. */
static redco_status state_experts(const redco_measured_run *run, redco_engine_choice *choice, redco_error *err)
{
    char date[16] = "";
    const struct {
        redco_trait trait;
        const char *value;
        bool known;
    } traits[] = {
        {REDCO_TRAIT_DISPATCHER, run->dispatcher, run->dispatcher[0] != '\0'},
        {REDCO_TRAIT_EP_OVERLAP, run->ep_overlap ? "1" : "0", redco_measured_knows(run, REDCO_COLUMN_EP_OVERLAP)},
        {REDCO_TRAIT_CUDA_GRAPHS, graphs_of(run->cuda_graph), run->cuda_graph[0] != '\0'},
        {REDCO_TRAIT_EXPERT_IMBALANCE, imbalance_of(run->routing), run->routing[0] != '\0'},
        {REDCO_TRAIT_CAPACITY_FACTOR, "1", strcmp(run->routing, "token_drop") == 0},
        {REDCO_TRAIT_RELEASE, date, date_of(run->release, date)},
    };
    redco_status st = REDCO_OK;
    for (size_t i = 0; i < sizeof traits / sizeof traits[0] && st == REDCO_OK; i++) {
        if (!traits[i].known) { continue; }
        st = redco_engine_state(choice, redco_trait_words[traits[i].trait], traits[i].value, "row", err);
    }
    return st;
}

redco_status redco_engine_of_run(const redco_measured_run *run, const redco_engine_file *file,
                                 redco_engine_choice *choice_out, redco_error *err)
{
    static const struct {
        redco_measured_column column;
        redco_trait trait;
        const char *const *words; /* by the row's value */
    } columns[] = {
        {REDCO_COLUMN_SOFTWARE, REDCO_TRAIT_SOFTWARE, software_words},
        {REDCO_COLUMN_ATTENTION, REDCO_TRAIT_ATTENTION, attention_words},
        {REDCO_COLUMN_FUSED_NORM, REDCO_TRAIT_FUSED_NORM, flag_words},
        {REDCO_COLUMN_COMPILED, REDCO_TRAIT_COMPILED, flag_words},
        {REDCO_COLUMN_LOGITS_GATHERED, REDCO_TRAIT_LOGITS_GATHERED, flag_words},
        {REDCO_COLUMN_GRAD_REDUCE_BYTES, REDCO_TRAIT_GRAD_REDUCE_BYTES, width_words},
        {REDCO_COLUMN_CUDA_GRAPHS, REDCO_TRAIT_CUDA_GRAPHS, flag_words},
    };
    const unsigned values[] = {run->software,        run->attention,         run->fused_norm, run->compiled,
                               run->logits_gathered, run->grad_reduce_bytes, run->cuda_graphs};
    const redco_precision precision = run->precision == REDCO_MEASURED_FP16 ? REDCO_FP16 : REDCO_BF16;
    redco_engine_choice choice = redco_engine_choose(file, precision);
    redco_status st = REDCO_OK;
    for (size_t i = 0; i < sizeof columns / sizeof columns[0] && st == REDCO_OK; i++) {
        if (!redco_measured_knows(run, columns[i].column)) { continue; }
        st = redco_engine_state(&choice, redco_trait_words[columns[i].trait], columns[i].words[values[i]], "row", err);
    }
    if (st == REDCO_OK && run->experts > 0) { st = state_experts(run, &choice, err); }
    *choice_out = choice;
    return st;
}

static redco_status workload_of(const redco_measured_run *run, const redco_engine_file *file,
                                redco_workload *workload_out, redco_error *err)
{
    redco_engine_choice choice;
    const redco_status st = redco_engine_of_run(run, file, &choice, err);
    if (st != REDCO_OK) { return st; }
    choice.engine.gemm_format = format_of(run->precision);
    choice.engine.partial_recompute = run->recompute == REDCO_MEASURED_RECOMPUTE_HALF;
    *workload_out = (redco_workload){
        .seq_len = run->seq_len,
        .global_batch = run->global_batch,
        .precision = run->precision == REDCO_MEASURED_FP16 ? REDCO_FP16 : REDCO_BF16,
        .overlap = redco_measured_knows(run, REDCO_COLUMN_OVERLAP) ? run->overlap : file->overlap,
        .bucket_bytes = choice.bucket_bytes,
        .engine = choice.engine,
    };
    return REDCO_OK;
}

static redco_status request_of(const redco_measured_run *run, struct engines *engines, redco_request *request_out,
                               redco_layer_config *config_out, char set_out[64], redco_error *err)
{
    redco_request request = {.model = NULL};
    redco_layer_config config = {.recompute = REDCO_RECOMPUTE_NONE};
    const redco_engine_file *file = NULL;
    const char *const skip = redco_measured_skip(run);
    if (skip != NULL) { return redco_fail(err, REDCO_EVALUE, "use", "%s", skip); }
    redco_status st = REDCO_OK;
    if (run->experts == 0 && run->ep > 1) {
        st = redco_fail(err, REDCO_EVALUE, "ep", "expert parallelism of a dense model");
    }
    if (st == REDCO_OK) { st = engine_of(engines, redco_measured_engine(run), &file, err); }
    if (st == REDCO_OK) { st = workload_of(run, file, &request.workload, err); }
    request.workload.engine.dropout = false; /* tables do not say whether there was any */
    if (st == REDCO_OK) { st = redco_row_machine(run, &request.machine, err); }
    if (st == REDCO_OK) { st = setting_of(run, file, &request, &config, err); }
    if (st != REDCO_OK) { return st; }
    config.recompute = recompute_of(run, &request.workload.engine);
    (void)snprintf(set_out, 64, "%s",
                   redco_calibration_of_engine(file, &request.workload.engine, &request.machine.gpu));
    *request_out = request;
    *config_out = config;
    return REDCO_OK;
}

static bool same_machine(const redco_machine *a, const redco_machine *b)
{
    return strcmp(a->name, b->name) == 0 && a->node_network_bytes_per_s == b->node_network_bytes_per_s &&
           a->node_gpus_physical == b->node_gpus_physical;
}

/* Rows of a sweep share a machine. Steps of redco-exec are made of operators that redco-profile measured. */
static redco_status comm_of(redco_evaluations *all, const redco_machine *machine, bool profiled,
                            const redco_comm **comm_out, redco_error *err)
{
    for (size_t i = 0; i < all->comm_count; i++) {
        if (same_machine(&all->comms[i].machine, machine) && all->comms[i].profiled == profiled) {
            *comm_out = all->comms[i].comm;
            return REDCO_OK;
        }
    }
    struct shared_comm *const larger = realloc(all->comms, (all->comm_count + 1) * sizeof *larger);
    if (larger == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    all->comms = larger;
    struct shared_comm *const slot = &all->comms[all->comm_count];
    *slot = (struct shared_comm){.machine = *machine, .profiled = profiled};
    const char *const shipped = profiled ? redco_compute_profile_shipped(machine->gpu.name) : NULL;
    const redco_status st = redco_comm_create(machine, &shipped, shipped != NULL ? 1 : 0, &slot->comm, err);
    if (st != REDCO_OK) { return st; }
    all->comm_count++;
    *comm_out = slot->comm;
    return REDCO_OK;
}

/* Every layer under the row's configuration. */
static void assign(struct evaluation *row, const redco_layer_config *config)
{
    const redco_layer_class *classes = NULL;
    const size_t count = redco_model_classes(row->model, &classes);
    for (size_t i = 0; i < count && i < CLASSES_MAX; i++) {
        row->assignments[i] = (redco_assignment){(uint32_t)i, classes[i].layers, *config};
    }
    row->request.assignments = row->assignments;
    row->request.assignment_count = (uint32_t)count;
}

static redco_status prepare(redco_evaluations *all, struct engines *engines, const redco_measured_run *run,
                            const redco_calibration *constants, struct evaluation *row, redco_error *err)
{
    const redco_comm *comm = NULL;
    redco_layer_config config = {.recompute = REDCO_RECOMPUTE_NONE};
    redco_status st = request_of(run, engines, &row->request, &config, row->set, err);
    if (st == REDCO_OK) { st = redco_row_model(run, &row->model, err); }
    if (st == REDCO_OK) {
        st = comm_of(all, &row->request.machine, row->request.workload.engine.planned_memory, &comm, err);
    }
    if (st == REDCO_OK) { st = redco_row_split(run, &row->split, err); }
    if (st != REDCO_OK) { return st; }
    row->request.parallelism.split = row->split;
    row->request.model = row->model;
    row->comm = comm;
    row->request.calibration = *constants;
    assign(row, &config);
    return redco_request_open(&row->request, comm, NULL, NULL, &row->costs, err);
}

redco_status redco_evaluations_create(const redco_measured_run *const *runs, size_t count,
                                      redco_evaluations **evaluations_out, redco_error *err)
{
    redco_calibration constants;
    redco_evaluations *all = calloc(1, sizeof *all);
    struct engines *const engines = calloc(1, sizeof *engines);
    redco_status st = redco_calibration_read("a100-eager", NULL, &constants, err); /* until the first prediction */
    if (st != REDCO_OK) { goto out; }
    if (all == NULL || engines == NULL || (all->rows = calloc(count > 0 ? count : 1, sizeof *all->rows)) == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    all->count = count;
    for (size_t i = 0; i < count; i++) {
        redco_error why = {.status = REDCO_OK};
        st = prepare(all, engines, runs[i], &constants, &all->rows[i], &why);
        if (st == REDCO_EVALUE) { /* the row's fault */
            const bool use = strcmp(why.place, "use") == 0;
            (void)snprintf(all->rows[i].reason, sizeof all->rows[i].reason, "%.80s%s%.160s", use ? "" : why.place,
                           use ? "" : ": ", why.text);
            st = REDCO_OK;
        } else if (st != REDCO_OK) {
            st = redco_fail(err, st, why.place, "%s", why.text);
            goto out;
        }
    }
    *evaluations_out = all;
    all = NULL;
out:
    free(engines);
    redco_evaluations_free(all);
    return st;
}

void redco_evaluations_free(redco_evaluations *evaluations)
{
    if (evaluations == NULL) { return; }
    for (size_t i = 0; i < evaluations->count; i++) {
        redco_costs_free(evaluations->rows[i].costs);
        redco_model_free(evaluations->rows[i].model);
        free(evaluations->rows[i].split);
    }
    for (size_t i = 0; i < evaluations->comm_count; i++) { redco_comm_free(evaluations->comms[i].comm); }
    free(evaluations->comms);
    free(evaluations->rows);
    free(evaluations);
}

const char *redco_evaluations_skip(const redco_evaluations *evaluations, size_t index)
{
    const char *const reason = evaluations->rows[index].reason;
    return reason[0] != '\0' ? reason : NULL;
}

const redco_request *redco_evaluations_request(const redco_evaluations *evaluations, size_t index)
{
    return &evaluations->rows[index].request;
}

const redco_comm *redco_evaluations_comm(const redco_evaluations *evaluations, size_t index)
{
    return evaluations->rows[index].comm;
}

const char *redco_evaluations_set(const redco_evaluations *evaluations, size_t index)
{
    return evaluations->rows[index].set;
}

static void recalibrate(struct evaluation *row, const redco_calibration *calibration)
{
    row->request.calibration = *calibration;
    redco_compute_profile_calibrate(redco_comm_compute(row->comm), &row->request.workload.engine,
                                    &row->request.calibration);
    redco_costs_recalibrate(row->costs, &row->request.calibration);
}

redco_prediction redco_evaluations_predict(redco_evaluations *evaluations, size_t index,
                                           const redco_calibration *calibration)
{
    struct evaluation *const row = &evaluations->rows[index];
    const redco_request *const r = &row->request;
    recalibrate(row, calibration);
    return redco_cost_step(row->costs, &r->parallelism, r->assignments, r->assignment_count);
}

redco_status redco_evaluations_price(redco_evaluations *evaluations, size_t index, const redco_calibration *calibration,
                                     redco_price *price_out, redco_error *err)
{
    struct evaluation *const row = &evaluations->rows[index];
    const redco_request *const r = &row->request;
    recalibrate(row, calibration);
    return redco_price_step(row->costs, &r->parallelism, r->assignments, r->assignment_count, price_out, err);
}
