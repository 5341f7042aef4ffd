/* The configurations of a space: degrees, micro-batches, schedules and schemes that are free or given. */
#include "planner/search/search_space.h"

#include "costmodel/closed_form/memory_saved.h"
#include "planner/search/strategy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Micro-batches of more sequences are not tried; those given are. */
enum { LARGEST_MICRO_BATCH = 65536 };
/* Higher context-parallel degrees are not tried either: each exchanges keys and values in every layer. */
enum { LARGEST_CONTEXT = 16 };

/* Degrees of measured rows (traces/data), which REDCO_DEGREE_MEASURED keeps to. Stages: 64
 * (megatron_a100_narayanan_2021, 1 T parameters). Model chunks: 24 (famous/runs.csv, 23). Context parallelism: ranks of
 * 4096 tokens or more, groups within two nodes (dgxc_benchmarking and megatron_bridge, cp 2 at 8192 tokens beside tp up
 * to 8); with 8192 tokens or more wider (llama3_paper, cp 16 at 131,072 tokens over 16 nodes; nemo, cp 8 at 262,144
 * over 4). Where a batch has fewer sequences than there are GPUs, pipelines run out of micro-batches, and ranks of 2048
 * tokens are tried: as many as ranks without context parallelism have in the rows of GPT-3. */
enum {
    MEASURED_STAGES = 64,
    MEASURED_CHUNKS = 24,
    MEASURED_NODES = 2,
    MEASURED_TOKENS = 4096,
    SCARCE_TOKENS = 2048,
    MEASURED_WIDE_TOKENS = 8192,
    MEASURED_EXPERT_RANKS = 64 /* DeepSeek-V3 and Qwen3-235B of Megatron-LM and Megatron-Bridge */
};

static bool has_fixed_meshes(const redco_search_options *options)
{
    return options->fix.parameters.gpus > 0 || options->fix.gradients.gpus > 0 || options->fix.optimizer.gpus > 0 ||
           options->given.secondary.gpus > 0 || redco_parallelism_own_experts(&options->given);
}

redco_recompute_list redco_search_recompute(const redco_model *model, const redco_search_options *options)
{
    static const redco_recompute_list usual = {{REDCO_RECOMPUTE_NONE, REDCO_RECOMPUTE_CORE_ATTN, REDCO_RECOMPUTE_FULL},
                                               3};
    static const redco_recompute_list modules = {{REDCO_RECOMPUTE_CORE_ATTN, REDCO_RECOMPUTE_MLP}, 2};
    redco_recompute_list list = options->allows.recompute;
    if (options->recompute != REDCO_RECOMPUTE_FREE) { return (redco_recompute_list){{options->recompute}, 1}; }
    if (list.count == 0) { return options->modules ? modules : usual; }
    (void)redco_recompute_add(&list, REDCO_RECOMPUTE_NONE);
    if (redco_recompute_has(&list, REDCO_RECOMPUTE_HALF)) {
        redco_recompute_drop(&list, REDCO_RECOMPUTE_HALF);
        (void)redco_recompute_add(&list, REDCO_RECOMPUTE_FULL);
    }
    if (options->modules) {
        redco_recompute_drop(&list, REDCO_RECOMPUTE_NONE);
        redco_recompute_drop(&list, REDCO_RECOMPUTE_FULL);
    }
    const redco_recompute has = redco_model_modules(model, &options->workload.engine) | REDCO_RECOMPUTE_FULL;
    for (uint32_t i = list.count; i > 0; i--) {
        if ((list.sets[i - 1] & ~has) != 0) { redco_recompute_drop(&list, list.sets[i - 1]); }
    }
    return list;
}

static bool has_scheme(const redco_search_options *options, redco_scheme scheme)
{
    return options->allows.schemes == 0 || (options->allows.schemes >> scheme & 1) != 0;
}

/* A second copy shares its ranks with fewer others than the first. */
static bool is_copy(redco_mesh secondary, redco_mesh parameters)
{
    return redco_mesh_nests(secondary, parameters) && !redco_mesh_equal(secondary, parameters);
}

/* The copy of the triples in which blocks have a set: the first, or for sets of all blocks one each behind it. */
static uint32_t copy_of(const redcoi_space *space, const redcoi_configuration *configuration, uint32_t set)
{
    uint32_t copy = 0;
    if (space->options.recompute != REDCO_RECOMPUTE_FREE || redco_recompute_mixes(space->recompute.sets[set])) {
        return 0;
    }
    for (uint32_t i = 0; i <= set; i++) {
        const bool apart = !redco_recompute_mixes(space->recompute.sets[i]);
        copy += apart && (configuration->recomputed >> i & 1) != 0 ? 1 : 0;
    }
    return copy;
}

redco_recompute_list redcoi_space_sets(const redcoi_space *space, const redcoi_configuration *configuration,
                                       uint32_t group, uint32_t class_index)
{
    redco_recompute_list list = {{REDCO_RECOMPUTE_NONE}, 1};
    if (!redco_class_is_block(space->classes[class_index].kind)) { return list; }
    list.count = 0;
    for (uint32_t i = 0; i < space->recompute.count; i++) {
        const bool here =
            group == REDCOI_ANY_GROUP || group / configuration->triples == copy_of(space, configuration, i);
        if (here && (configuration->recomputed >> i & 1) != 0) { list.sets[list.count++] = space->recompute.sets[i]; }
    }
    return list;
}

/* Megatron recomputes one set of modules in all layers, or some layers whole. */
static redco_status offer_recomputation(redcoi_space *space, redcoi_configuration *configuration, redco_error *err)
{
    const uint32_t count = configuration->group_count;
    uint32_t copies = 0;
    configuration->triples = count;
    if (count == 0) { return REDCO_OK; }
    configuration->recomputed =
        redco_costs_recompute_tried(space->costs, &configuration->parallelism, &space->recompute);
    for (uint32_t set = 0; set < space->recompute.count; set++) {
        if ((configuration->recomputed >> set & 1) == 0) { continue; }
        const uint32_t copy = copy_of(space, configuration, set);
        copies = copy > copies ? copy : copies;
        space->candidates += count;
    }
    if (copies == 0) { return REDCO_OK; }
    redco_shards *const more = realloc(configuration->groups, (copies + 1) * (size_t)count * sizeof *more);
    if (more == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    for (uint32_t copy = 1; copy <= copies; copy++) { memcpy(more + copy * count, more, count * sizeof *more); }
    configuration->groups = more;
    configuration->group_count = (copies + 1) * count;
    return REDCO_OK;
}

/* All meshes of a grid, and whether the engine runs them. */
static redco_status list_triples(redcoi_space *space, redco_mesh grid, redco_mesh secondary, redco_strategy strategy,
                                 redco_error *err)
{
    const redco_search_options *const o = &space->options;
    const bool limited = o->allows.states != 0 && o->strategy == REDCO_STRATEGY_ANY && !has_fixed_meshes(o);
    redcoi_grid_meshes *const last = &space->last;
    if (last->triples != NULL && last->strategy == strategy && redco_mesh_equal(last->grid, grid) &&
        redco_mesh_equal(last->secondary, secondary)) {
        return REDCO_OK;
    }
    free(last->triples);
    free(last->runs);
    *last = (redcoi_grid_meshes){.grid = grid, .secondary = secondary, .strategy = strategy};
    redco_status st = redco_strategy_triples(grid, strategy, &o->fix, &last->triples, &last->count, err);
    if (st != REDCO_OK) { return st; }
    last->runs = calloc(last->count + 1, sizeof *last->runs);
    if (last->runs == NULL) {
        free(last->triples);
        last->triples = NULL;
        return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    }
    for (size_t i = 0; i < last->count; i++) {
        last->runs[i] = !limited || redco_strategy_runs(o->allows.states, grid, secondary, &last->triples[i]);
    }
    return REDCO_OK;
}

static redco_status list_groups(redcoi_space *space, redcoi_configuration *configuration, redco_error *err)
{
    const redco_search_options *o = &space->options;
    const redco_mesh secondary = configuration->parallelism.secondary;
    const bool copied = secondary.gpus > 0 && o->given.secondary.gpus == 0;
    const redco_strategy strategy = copied ? REDCO_STRATEGY_ZEROPP : o->strategy;
    const redco_mesh grid = redco_costs_grid(space->costs, &configuration->parallelism);
    const bool own = redco_parallelism_own_experts(&configuration->parallelism);
    redco_error none = {.status = REDCO_OK}; /* why no triple has experts' meshes inside one another */
    redco_shards experts;
    bool copyable = o->given.secondary.gpus == 0, nested = !own;
    const redco_status st = list_triples(space, grid, secondary, strategy, err);
    if (st != REDCO_OK) { return st; }
    configuration->groups = calloc(space->last.count + 1, sizeof *configuration->groups);
    if (configuration->groups == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    /* Without parameters to synchronise both schemes are one: it is listed under the first. */
    const bool second_scheme = !redco_search_states(o, REDCO_OF_SCHEME) &&
                               configuration->parallelism.scheme == REDCO_INTRA_TENSOR &&
                               has_scheme(o, REDCO_INTER_TENSOR);
    /* redco-exec cannot shard gradients whose weights' part comes in a pass of its own (planner/executable). */
    const bool whole = o->workload.engine.planned_memory && !redco_search_states(o, REDCO_OF_SCHEDULE) &&
                       redco_pipeline_splits_backward(configuration->parallelism.schedule);
    for (size_t i = 0; i < space->last.count; i++) {
        const redco_shards *s = &space->last.triples[i];
        if (whole && redco_mesh_ranks(s->gradients) > 1) { continue; }
        if (o->given.secondary.gpus > 0 && !is_copy(o->given.secondary, s->parameters)) { continue; }
        copyable = true;
        if (own &&
            redco_costs_expert_shards(space->costs, &configuration->parallelism, s, &experts, &none) != REDCO_OK) {
            continue;
        }
        nested = true;
        if (second_scheme && redco_mesh_equal(s->parameters, s->optimizer)) { continue; }
        if (space->last.runs[i]) { configuration->groups[configuration->group_count++] = *s; }
    }
    if (copyable && !nested) {
        free(configuration->groups);
        return redco_fail(err, REDCO_EVALUE, none.place, "%s", none.text);
    }
    if (copyable) { return offer_recomputation(space, configuration, err); }
    free(configuration->groups);
    return redco_fail(err, REDCO_EVALUE, "shards", "p2=%ux%u is no part of a larger mesh of the parameters",
                      o->given.secondary.gpus, o->given.secondary.nodes);
}

/* @return whether a bound is beyond the limit of a search that lists what may be within it. */
static bool is_too_slow(redcoi_space *space, double least_s)
{
    const redco_search_pass *const pass = &space->options.pass;
    const bool slow =
        pass->others_alone && pass->limit_s > 0.0 && !space->comm && least_s > (1.0 + pass->look_ratio) * pass->limit_s;
    space->any_slow = space->any_slow || slow;
    return slow;
}

static redco_status add_configuration(redcoi_space *space, const redco_parallelism *parallelism, redco_error *err)
{
    redco_status st = redco_parallelism_check(space->costs, parallelism, err);
    if (st != REDCO_OK) { return st; }
    if (space->configuration_count == space->configuration_capacity) {
        const uint32_t capacity = space->configuration_capacity > 0 ? 2 * space->configuration_capacity : 32;
        redcoi_configuration *more = realloc(space->configurations, capacity * sizeof *more);
        if (more == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
        space->configurations = more;
        space->configuration_capacity = capacity;
    }
    redcoi_configuration *configuration = &space->configurations[space->configuration_count];
    *configuration = (redcoi_configuration){.parallelism = *parallelism};
    configuration->least_s = space->comm ? 0.0 : redco_cost_bound(space->costs, parallelism);
    if (is_too_slow(space, configuration->least_s)) { return REDCO_OK; }
    if ((st = list_groups(space, configuration, err)) != REDCO_OK) { return st; }
    if (configuration->group_count == 0) {
        free(configuration->groups);
        return REDCO_OK;
    }
    if ((st = redco_costs_failure(space->costs, err)) != REDCO_OK) {
        free(configuration->groups);
        return st;
    }
    if (!isfinite(configuration->least_s)) {
        free(configuration->groups);
        return redco_fail(err, REDCO_EVALUE, "cost model", "the compute time of a step is %g s",
                          configuration->least_s);
    }
    space->configuration_count++;
    return REDCO_OK;
}

/* "tp = 2, pp = 4": the degrees of a parallelism, for errors; what is 1 by default only where it is not. */
static const char *degrees_text(const redco_parallelism *parallelism, char *buffer, size_t size)
{
    const int used = snprintf(buffer, size, "tp = %u", parallelism->tp);
    const struct {
        const char *name;
        uint32_t degree;
    } more[] = {{"cp", parallelism->cp}, {"pp", parallelism->pp}};
    size_t at = used > 0 ? (size_t)used : 0;
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        if (more[i].degree <= 1 || at >= size) { continue; }
        const int added = snprintf(buffer + at, size - at, ", %s = %u", more[i].name, more[i].degree);
        at += added > 0 ? (size_t)added : 0;
    }
    return buffer;
}

redco_status redcoi_place_ranks(const redco_machine *machine, redco_parallelism *parallelism, redco_error *err)
{
    redco_parallel p = {.nodes = machine->nodes,
                        .gpus_per_node = machine->gpus_per_node,
                        .tp = parallelism->tp,
                        .cp = parallelism->cp,
                        .pp = parallelism->pp};
    const redco_status st = redco_parallel_place(&p, err);
    if (st != REDCO_OK) { return st; }
    parallelism->dp = p.dp;
    return redco_parallel_check_nodes(&p, err);
}

/* @return whether a second copy of the parameters is one of the choices: it is in the free space of step times, but
   neither in AMSP's nor among meshes that are given. */
static bool may_copy(const redcoi_space *space, redco_mesh grid)
{
    const redco_search_options *o = &space->options;
    const bool runs = o->allows.states == 0 ||
                      (o->allows.states & (REDCO_RUNS(REDCO_STRATEGY_ANY) | REDCO_RUNS(REDCO_STRATEGY_ZEROPP))) != 0;
    return runs && o->strategy == REDCO_STRATEGY_ANY && !space->comm && !has_fixed_meshes(o) && grid.nodes > 1;
}

static redco_status add_schemes(redcoi_space *space, redco_parallelism *parallelism, redco_error *err)
{
    static const redco_scheme schemes[2] = {REDCO_INTER_TENSOR, REDCO_INTRA_TENSOR};
    const redco_search_options *o = &space->options;
    redco_status st = REDCO_OK;
    for (int i = 0; i < 2 && st == REDCO_OK; i++) {
        if (redco_search_states(o, REDCO_OF_SCHEME) ? schemes[i] != o->given.scheme : !has_scheme(o, schemes[i])) {
            continue;
        }
        parallelism->scheme = schemes[i];
        parallelism->experts = o->given.experts;
        const redco_mesh grid = redco_costs_grid(space->costs, parallelism);
        parallelism->secondary =
            o->given.secondary.gpus > 0 ? o->given.secondary : redco_strategy_secondary(o->strategy, grid);
        if (o->given.secondary.gpus > 0 && !redco_mesh_nests(o->given.secondary, grid)) {
            return redco_fail(err, REDCO_EVALUE, "shards", "p2=%ux%u does not divide the mesh of %ux%u (GPUs x nodes)",
                              o->given.secondary.gpus, o->given.secondary.nodes, grid.gpus, grid.nodes);
        }
        st = add_configuration(space, parallelism, err);
        if (st != REDCO_OK || !may_copy(space, grid)) { continue; }
        parallelism->secondary = redco_strategy_secondary(REDCO_STRATEGY_ZEROPP, grid);
        st = add_configuration(space, parallelism, err);
    }
    return st;
}

/* One walk over the space. */
struct lister {
    redcoi_space *space;
    const redcoi_inputs *inputs;
    redco_error first;     /* why the first layout that is none is none */
    bool batch_first;      /* for its batch */
    uint32_t misfits;      /* layouts whose data-parallel ranks the batch does not divide over */
    uint64_t below, above; /* the nearest batches that divide over those of one; below 0: none */
    redco_error other;     /* why the first layout would be none with any batch */
};

/* A layout that the machine and the model allow, but not the batch. */
static void note_misfit(struct lister *list, redco_parallelism parallelism)
{
    const redco_search_options *o = &list->space->options;
    redco_error why = {.status = REDCO_OK};
    if (list->first.status == REDCO_OK) { list->batch_first = true; }
    if (parallelism.sequence_parallel && o->sequence_parallel == REDCO_EITHER) { return; } /* counted without */
    parallelism.micro_batch = 1;
    parallelism.micro_batches = 1;
    if (redco_parallelism_check(list->space->costs, &parallelism, &why) != REDCO_OK &&
        strcmp(why.place, "batch") != 0) {
        if (list->other.status == REDCO_OK) { list->other = why; }
        return;
    }
    const uint64_t unit = redco_mesh_ranks(parallelism.dp) * (o->given.micro_batch != 0 ? o->given.micro_batch : 1);
    const uint64_t below = o->workload.global_batch / unit * unit;
    if (below > list->below) { list->below = below; }
    if (list->misfits == 0 || below + unit < list->above) { list->above = below + unit; }
    list->misfits++;
}

static bool is_within(const struct lister *list, const redco_parallelism *parallelism)
{
    const redco_search_options *const o = &list->space->options;
    if (o->pass.within == NULL) { return true; }
    const redco_reach reach = redco_reach_of(list->inputs->machine, o->workload.seq_len, parallelism);
    return redco_hull_beyond(o->pass.within, parallelism, &reach) == 0;
}

/* Layouts that can gain no more than this over their neighbours are none of their own: splits and larger groups. */
static const double worth_ratio = 0.005;

/* Layers of the largest of a stage's chunks, embedding and head counted as one each. */
static uint32_t largest_chunk(const redcoi_space *space, uint32_t stages, uint32_t chunks)
{
    return (space->blocks + 1) / (stages * chunks) + 1;
}

/* The fewest chunks whose largest has so many layers. A chunk of more layers is waited for p - 1 times, of m L / p in a
 * step: where the number of chunks is free, it changes the step by something. */
static bool is_worth_chunks(const redcoi_space *space, const redco_parallelism *parallelism)
{
    const double p = parallelism->pp, m = (double)parallelism->micro_batches;
    const double gain_ratio = (p - 1.0) * p / (m * (space->blocks + 2.0)); /* one layer less */
    const double least = space->options.given.chunks == REDCO_DEGREE_AUTO ? worth_ratio : 0.0;
    uint32_t kept = largest_chunk(space, parallelism->pp, 1), chunks = 1;
    for (uint32_t more = 2; more <= parallelism->chunks; more++) {
        const uint32_t largest = largest_chunk(space, parallelism->pp, more);
        if (largest == kept || (kept - largest) * gain_ratio < least) { continue; }
        kept = largest;
        chunks = more;
    }
    return chunks == parallelism->chunks;
}

/* The split that balances embedding and head; for several chunks also where none are equal. */
static redco_status add_balanced(struct lister *list, redco_parallelism parallelism, bool equal)
{
    redcoi_space *const space = list->space;
    const uint32_t chunks = redco_parallelism_chunks(&parallelism), stages = parallelism.pp;
    uint32_t split[REDCO_SPLIT_POSITIONS_MAX];
    if (!space->options.allows.unequal_stages || space->options.equal_stages || stages <= 1 ||
        parallelism.split != NULL) {
        return REDCO_OK;
    }
    const bool free = space->options.given.chunks == REDCO_DEGREE_AUTO;
    if (!equal && (chunks == 1 || (free && !is_worth_chunks(space, &parallelism)))) { return REDCO_OK; }
    if (is_too_slow(space, redco_cost_balance_bound(space->costs, &parallelism))) { return REDCO_OK; }
    if (!redco_cost_balance(space->costs, &parallelism, equal ? worth_ratio : 0.0, split)) { return REDCO_OK; }
    if (space->split_count == space->split_capacity) {
        const uint32_t capacity = space->split_capacity > 0 ? 2 * space->split_capacity : 32;
        uint32_t **const more = realloc(space->splits, capacity * sizeof *more);
        if (more == NULL) { return redco_fail(&list->first, REDCO_ENOMEM, "", "out of memory"); }
        space->splits = more;
        space->split_capacity = capacity;
    }
    const size_t bytes = (size_t)stages * chunks * sizeof *split;
    uint32_t *const kept = malloc(bytes);
    if (kept == NULL) { return redco_fail(&list->first, REDCO_ENOMEM, "", "out of memory"); }
    memcpy(kept, split, bytes);
    space->splits[space->split_count++] = kept;
    parallelism.split = kept;
    if (redco_step_chunks_check(space->costs, &parallelism, NULL) != REDCO_OK) { return REDCO_OK; }
    return add_schemes(space, &parallelism, &list->first);
}

/* One schedule, with equal shares and with balanced ones. @param why  where one is kept that cannot be had, or NULL */
static redco_status add_schedule(struct lister *list, redco_parallelism parallelism, redco_error *why, bool *any_out)
{
    const bool plain = redco_parallelism_pipeline(&parallelism).kind == REDCO_PIPELINE_1F1B &&
                       parallelism.split == NULL && parallelism.chunks <= 1;
    const bool equal = plain || redco_step_chunks_check(list->space->costs, &parallelism, why) == REDCO_OK;
    redco_status st = REDCO_OK;
    if (!is_within(list, &parallelism)) { return REDCO_OK; }
    if (equal) {
        *any_out = true;
        st = add_schemes(list->space, &parallelism, &list->first);
    }
    return st == REDCO_OK ? add_balanced(list, parallelism, equal) : st;
}

/* @return whether an engine without groups of its own takes the smallest that there are */
static bool is_usual_group(const redco_search_options *o, const redco_pipeline *least)
{
    const bool rounds = (o->allows.dimensions & REDCO_HAS_ROUNDS) != 0 && least->micro_batches % least->group == 0;
    return least->group == least->stages || rounds;
}

/* Chunks of one number, in the smallest groups, and in such as hide transfers. */
static redco_status add_groups(struct lister *list, redco_parallelism parallelism, redco_error *why, bool *any_out)
{
    const redco_search_options *const o = &list->space->options;
    const bool groups =
        o->allows.dimensions == 0 || (o->allows.dimensions & REDCO_HAS_GROUPS) != 0 || o->given.group != 0;
    const redco_pipeline least = redco_parallelism_pipeline(&parallelism);
    if (least.kind != REDCO_PIPELINE_INTERLEAVED) { return add_schedule(list, parallelism, why, any_out); }
    /* A layout that is given is priced, whatever the engine has. */
    const bool given = why != NULL && !redco_degree_is_free(o->given.pp) && o->given.micro_batch != 0;
    if (!groups && !given && !is_usual_group(o, &least)) {
        if (why != NULL) {
            (void)redco_fail(why, REDCO_EVALUE, "chunks",
                             "%s does not interleave %u micro-batches over %u stages, which do not divide them",
                             o->workload.engine.name, least.micro_batches, least.stages);
        }
        return REDCO_OK;
    }
    const uint32_t before = list->space->configuration_count;
    const redco_status st = add_schedule(list, parallelism, why, any_out);
    if (st != REDCO_OK || !groups || o->given.group != 0 || list->space->configuration_count == before) { return st; }
    redco_pipeline hiding = least;
    double saved_s = 0.0;
    hiding.group = redco_cost_hiding_group(list->space->costs, &parallelism, &saved_s);
    if (saved_s < worth_ratio * list->space->configurations[before].least_s) { return REDCO_OK; }
    for (; hiding.group < hiding.micro_batches; hiding.group++) {
        if (redco_pipeline_check(&hiding, NULL) == REDCO_OK) { break; }
    }
    if (hiding.group <= least.group || hiding.group > hiding.micro_batches) { return REDCO_OK; }
    parallelism.group = hiding.group;
    return add_schedule(list, parallelism, NULL, any_out);
}

/* The schedules of one choice of degrees and micro-batch. */
static redco_status add_schedules(struct lister *list, redco_parallelism parallelism, bool *any_out)
{
    const redco_search_options *const o = &list->space->options;
    const bool stages = parallelism.pp > 1;
    const bool chunked = o->given.schedule == REDCO_PIPELINE_1F1B || o->given.schedule == REDCO_PIPELINE_INTERLEAVED;
    const bool all = o->given.chunks == REDCO_DEGREE_AUTO && stages && chunked;
    const bool said = stages && o->given.chunks > 0 && !all && chunked;
    const uint32_t given = said ? o->given.chunks : 1;
    const uint32_t most = list->space->blocks < MEASURED_CHUNKS ? list->space->blocks : MEASURED_CHUNKS;
    redco_error *const why = all ? NULL : &list->first;
    redco_status st = REDCO_OK;
    if (stages) {
        parallelism.schedule = o->given.schedule;
        parallelism.group = o->given.group;
        parallelism.split = o->given.split;
    }
    for (uint32_t chunks = given; chunks <= (all ? most : given) && st == REDCO_OK; chunks++) {
        parallelism.chunks = stages && !chunked ? redco_pipeline_chunks(o->given.schedule, 1) : chunks;
        st = add_groups(list, parallelism, why, any_out);
    }
    const bool free_order =
        stages && !redco_search_states(o, REDCO_OF_SCHEDULE) && o->given.group == 0 && o->given.split == NULL;
    for (int kind = 0; kind < REDCO_PIPELINE_COUNT && st == REDCO_OK && free_order; kind++) {
        parallelism.schedule = (redco_pipeline_kind)kind;
        parallelism.chunks = redco_pipeline_chunks(parallelism.schedule, 1);
        if ((o->allows.schedules >> kind & 1) == 0 || (said && given != parallelism.chunks)) { continue; }
        st = add_schedule(list, parallelism, NULL, any_out);
    }
    return st;
}

static uint32_t divisor_of_both(uint32_t a, uint32_t b)
{
    while (b != 0) {
        const uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static uint64_t gpus_of(const redco_machine *machine)
{
    return (uint64_t)machine->nodes * machine->gpus_per_node;
}

/* @return whether measured rows hold context parallelism like this. */
static bool is_measured_context(const redco_machine *machine, const redco_workload *w,
                                const redco_parallelism *parallelism)
{
    const uint64_t tokens = (uint64_t)parallelism->micro_batch * w->seq_len / parallelism->cp;
    const uint64_t ranks = (uint64_t)parallelism->tp * parallelism->cp;
    const bool scarce = w->global_batch < gpus_of(machine);
    return parallelism->cp == 1 ||
           (tokens >= (scarce ? SCARCE_TOKENS : MEASURED_TOKENS) &&
            (tokens >= MEASURED_WIDE_TOKENS || ranks <= MEASURED_NODES * machine->gpus_per_node));
}

/* @return whether the batch divides over the data-parallel ranks of these degrees, in such micro-batches. */
static bool divides(const redco_machine *machine, const redco_workload *w, const redco_parallelism *parallelism)
{
    const uint64_t each = (uint64_t)parallelism->tp * parallelism->cp * parallelism->pp;
    const uint64_t gpus = gpus_of(machine);
    return gpus % each == 0 && w->global_batch % (gpus / each * parallelism->micro_batch) == 0;
}

/* Degrees that no measured row has are tried where none of those that rows have would do in their place. It depends on
 * machine and batch alone, so that what is fixed only takes layouts away. */
static bool may_have_context(const redco_machine *machine, const redco_workload *w, redco_parallelism parallelism)
{
    if (is_measured_context(machine, w, &parallelism)) { return true; }
    for (parallelism.cp = 1; parallelism.cp <= LARGEST_CONTEXT; parallelism.cp++) {
        if (w->seq_len % parallelism.cp == 0 && is_measured_context(machine, w, &parallelism) &&
            divides(machine, w, &parallelism)) {
            return false;
        }
    }
    return true;
}

static bool may_have_depth(const redco_machine *machine, const redco_workload *w, redco_parallelism parallelism)
{
    if (parallelism.pp <= MEASURED_STAGES) { return true; }
    for (parallelism.pp = 1; parallelism.pp <= MEASURED_STAGES; parallelism.pp++) {
        if (divides(machine, w, &parallelism)) { return false; }
    }
    return true;
}

uint32_t redco_search_schedule(const redco_search_options *options)
{
    const redco_pipeline_kind kind = options->given.schedule;
    return kind != REDCO_PIPELINE_1F1B && kind != REDCO_PIPELINE_INTERLEAVED ? 1U << kind : 0;
}

const char *redco_search_leaves_out(const redco_machine *machine, const redco_search_options *options,
                                    const redco_parallelism *parallelism)
{
    const redco_workload *const w = &options->workload;
    if (options->given.tp == 0 && parallelism->tp > redco_machine_domain(machine)) { return "beyond what links join"; }
    if (options->strategy == REDCO_STRATEGY_AMSP) { return "AMSP weighs traffic alone"; }
    if (options->strategy != REDCO_STRATEGY_ANY &&
        ((options->given.pp == REDCO_DEGREE_MEASURED && parallelism->pp > 1) ||
         (options->given.cp == REDCO_DEGREE_MEASURED && parallelism->cp > 1))) {
        return "data parallel by name";
    }
    if (options->given.cp == REDCO_DEGREE_MEASURED &&
        (parallelism->cp > LARGEST_CONTEXT || !may_have_context(machine, w, *parallelism))) {
        return "beyond measured context parallelism";
    }
    return options->given.pp == REDCO_DEGREE_MEASURED && !may_have_depth(machine, w, *parallelism)
               ? "beyond measured stages"
               : NULL;
}

/* @return whether measured rows hold context parallelism like this, and no layout with less of it is as good: (cp, b)
 * has the tokens a rank, the micro-batches and, over data- and context-parallel ranks together, the meshes of (cp/g,
 * b/g), with more traffic of keys and values, where g divides both. */
static bool keeps_context(const struct lister *list, const redco_parallelism *parallelism)
{
    const redco_search_options *o = &list->space->options;
    const redco_machine *const machine = list->inputs->machine;
    if (o->given.cp != REDCO_DEGREE_MEASURED || parallelism->cp == 1) { return true; }
    if (!is_measured_context(machine, &o->workload, parallelism)) {
        return may_have_context(machine, &o->workload, *parallelism);
    }
    redco_parallelism less = *parallelism;
    const uint32_t both = o->given.micro_batch == 0 ? divisor_of_both(parallelism->cp, parallelism->micro_batch) : 1;
    less.cp /= both;
    less.micro_batch /= both;
    return both == 1 || redcoi_place_ranks(list->inputs->machine, &less, NULL) != REDCO_OK ||
           redco_parallelism_check(list->space->costs, &less, NULL) != REDCO_OK;
}

/* The ways of context parallelism to other ranks' keys. What all of them lack is said of the first. */
static redco_status add_cp_types(struct lister *list, redco_parallelism parallelism, bool *any_out)
{
    const uint32_t types = list->space->options.cp_types;
    uint32_t kept = parallelism.cp > 1 ? redco_costs_cp_types(list->space->costs, &parallelism, types) : 0;
    redco_status st = REDCO_OK;
    if (parallelism.cp > 1 && kept == 0) { kept = types & (~types + 1); }
    if (kept == 0) { return add_schedules(list, parallelism, any_out); }
    for (int type = 0; type < REDCO_CP_TYPES && st == REDCO_OK; type++) {
        if ((kept >> type & 1) == 0) { continue; }
        parallelism.cp_type = (redco_cp_type)type;
        st = add_schedules(list, parallelism, any_out);
    }
    return st;
}

/* The grids of experts: cut as the dense part or whole, shared out over as many ranks as divide them. */
static redco_status add_experts(struct lister *list, redco_parallelism parallelism, bool *any_out)
{
    const redco_search_options *const o = &list->space->options;
    const uint32_t experts = redco_costs_experts(list->space->costs);
    const uint32_t most = o->given.ep != 0                  ? o->given.ep
                          : experts < MEASURED_EXPERT_RANKS ? experts
                                                            : MEASURED_EXPERT_RANKS;
    redco_status st = REDCO_OK;
    if (experts == 0 && o->given.ep <= 1 && o->given.etp <= 1) { return add_cp_types(list, parallelism, any_out); }
    if (o->given.etp > 1 && o->given.etp != parallelism.tp) {
        (void)redco_fail(&list->first, REDCO_EVALUE, "etp", "%u: experts are cut by tp = %u or not at all",
                         o->given.etp, parallelism.tp);
    }
    for (uint32_t ep = o->given.ep != 0 ? o->given.ep : 1; ep <= most && st == REDCO_OK; ep++) {
        for (int whole = 0; whole < (parallelism.tp > 1 ? 2 : 1) && st == REDCO_OK; whole++) {
            parallelism.ep = ep;
            parallelism.etp = whole != 0 ? 1 : parallelism.tp;
            const bool given = o->given.etp == 0 || o->given.etp == parallelism.etp;
            /* Where sequence parallelism is free, what it mends is no reason. */
            const bool mended = o->sequence_parallel == REDCO_EITHER && !parallelism.sequence_parallel;
            redco_error *const why = o->given.ep != 0 && !mended ? &list->first : NULL;
            if (!given || redco_parallelism_check(list->space->costs, &parallelism, why) != REDCO_OK) { continue; }
            st = add_cp_types(list, parallelism, any_out);
        }
    }
    return st;
}

/* All micro-batches of one choice of degrees. REDCO_EVALUE: it has none, or one that does not divide. */
static redco_status add_degrees(struct lister *list, redco_parallelism parallelism)
{
    const redco_search_options *o = &list->space->options;
    redco_error *const err = &list->first;
    char degrees[64];
    redco_status st = redcoi_place_ranks(list->inputs->machine, &parallelism, err);
    if (st != REDCO_OK) { return st; }
    const uint64_t ranks = redco_mesh_ranks(parallelism.dp);
    const uint64_t batch = o->workload.global_batch;
    if (batch % ranks != 0) {
        note_misfit(list, parallelism);
        return redco_fail(err, REDCO_EVALUE, "global batch",
                          "%llu sequence%s not divide over %llu data-parallel ranks (%s)", (unsigned long long)batch,
                          batch == 1 ? " does" : "s do", (unsigned long long)ranks,
                          degrees_text(&parallelism, degrees, sizeof degrees));
    }
    const uint64_t per_rank = batch / ranks;
    if (o->given.micro_batch != 0 && per_rank % o->given.micro_batch != 0) {
        return redco_fail(err, REDCO_EVALUE, "micro-batch",
                          "%u does not divide the %llu sequence%s of a data-parallel rank (%s)", o->given.micro_batch,
                          (unsigned long long)per_rank, per_rank == 1 ? "" : "s",
                          degrees_text(&parallelism, degrees, sizeof degrees));
    }
    const uint64_t first = o->given.micro_batch != 0 ? o->given.micro_batch : 1;
    const uint64_t most = per_rank < LARGEST_MICRO_BATCH ? per_rank : LARGEST_MICRO_BATCH;
    const uint64_t last = o->given.micro_batch != 0 ? o->given.micro_batch : most;
    bool any = false;
    for (uint64_t b = first; b <= last; b++) {
        if (per_rank % b != 0) { continue; }
        parallelism.micro_batch = (uint32_t)b;
        parallelism.micro_batches = per_rank / b;
        if (!keeps_context(list, &parallelism) || (o->given.pp == REDCO_DEGREE_MEASURED &&
                                                   !may_have_depth(list->inputs->machine, &o->workload, parallelism))) {
            continue;
        }
        if ((st = add_experts(list, parallelism, &any)) != REDCO_OK) { return st; }
    }
    return any ? REDCO_OK : REDCO_EVALUE;
}

/* All pipeline depths beside one tensor- and context-parallel degree: stages hold a layer at least. */
static redco_status add_depths(struct lister *list, redco_parallelism parallelism)
{
    const uint32_t given = list->space->options.given.pp;
    const redco_machine *const machine = list->inputs->machine;
    const uint64_t world = (uint64_t)machine->nodes * machine->gpus_per_node;
    const uint64_t ranks = world / ((uint64_t)parallelism.tp * parallelism.cp);
    const bool any = redco_degree_is_free(given);
    const uint64_t blocks = list->space->blocks < ranks ? list->space->blocks : ranks;
    const uint64_t most = any ? blocks : given;
    for (uint32_t pp = any ? 1 : given; pp <= most || pp == 1; pp++) {
        if (any && pp > 1 && ranks % pp != 0) { continue; }
        parallelism.pp = pp;
        const redco_status st = add_degrees(list, parallelism);
        /* A degree that does not divide something is no option, unless all are none. */
        if (st != REDCO_OK && st != REDCO_EVALUE) { return st; }
    }
    return REDCO_OK;
}

/* Norms whole on every tensor-parallel rank, split over them, or both. */
static redco_status add_splits(struct lister *list, redco_parallelism parallelism)
{
    const redco_switch rows = list->space->options.sequence_parallel;
    redco_status st = REDCO_OK;
    if (rows != REDCO_ON) { st = add_depths(list, parallelism); }
    if (st != REDCO_OK || rows < REDCO_ON || (rows == REDCO_EITHER && parallelism.tp == 1)) { return st; }
    parallelism.sequence_parallel = true;
    return add_depths(list, parallelism);
}

/* T_comm leaves tensor-parallel traffic out, so that a free degree would always be the largest: the paper's is 1. A
   free degree stays inside the links of a node (pairs with bridges, all with NVSwitch); one that is given may leave
   them. */
static redco_status add_all(struct lister *list)
{
    const redco_search_options *o = &list->space->options;
    const uint32_t domain = redco_machine_domain(list->inputs->machine);
    const uint32_t tp_given = o->given.tp != 0 ? o->given.tp : list->space->comm ? 1 : REDCO_DEGREE_AUTO;
    const uint32_t most_cp = redco_degree_is_free(o->given.cp) ? LARGEST_CONTEXT : o->given.cp;
    redco_status st = REDCO_OK;
    for (uint32_t tp = tp_given != REDCO_DEGREE_AUTO ? tp_given : 1;
         tp <= (tp_given != REDCO_DEGREE_AUTO ? tp_given : domain) && st == REDCO_OK; tp++) {
        if (tp_given == REDCO_DEGREE_AUTO && domain % tp != 0) { continue; }
        for (uint32_t cp = redco_degree_is_free(o->given.cp) ? 1 : o->given.cp; cp <= most_cp && st == REDCO_OK; cp++) {
            if (redco_degree_is_free(o->given.cp) && o->workload.seq_len % cp != 0) { continue; }
            st = add_splits(list, (redco_parallelism){.tp = tp, .cp = cp});
        }
    }
    return st;
}

/* Why there is no layout; of a batch, the nearest that has one. */
static redco_status none_listed(const struct lister *list, redco_error *err)
{
    const redco_error *const first = list->misfits == 0 && list->other.status != REDCO_OK ? &list->other : &list->first;
    char others[48] = "", below[32] = "";
    if (list->misfits == 0 || !list->batch_first) {
        return redco_fail(err, first->status, first->place, "%s", first->text);
    }
    if (list->misfits > 1) {
        (void)snprintf(others, sizeof others, ", nor over those of %u other layout%s", list->misfits - 1,
                       list->misfits == 2 ? "" : "s");
    }
    if (list->below > 0) { (void)snprintf(below, sizeof below, "%llu and ", (unsigned long long)list->below); }
    return redco_fail(err, first->status, first->place, "%s%s; %s%llu would", first->text, others, below,
                      (unsigned long long)list->above);
}

static int compare_outers(const void *left, const void *right)
{
    const redcoi_configuration *a = left;
    const redcoi_configuration *b = right;
    if (a->least_s < b->least_s || a->least_s > b->least_s) { return a->least_s < b->least_s ? -1 : 1; }
    return redco_parallelism_compare(&a->parallelism, &b->parallelism);
}

redco_status redcoi_space_list(redcoi_space *space, const redcoi_inputs *inputs, redco_error *err)
{
    struct lister list = {.space = space, .inputs = inputs};
    redco_status st = add_all(&list);
    if (st != REDCO_OK) { return redco_fail(err, st, list.first.place, "%s", list.first.text); }
    space->batch_fits = space->configuration_count > 0 || !list.batch_first;
    if (space->configuration_count == 0 && space->any_slow) { return REDCO_OK; }
    if (space->configuration_count == 0) { return none_listed(&list, err); }
    qsort(space->configurations, space->configuration_count, sizeof *space->configurations, compare_outers);
    return REDCO_OK;
}
