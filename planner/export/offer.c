/* Chooses the layout that a framework is given: the plan, or the best that it can express. */
#include "costmodel/evaluation/request.h"
#include "planner/assemble/assemble_internal.h"
#include "planner/export/internal.h"
#include "planner/search/search_space.h"
#include "planner/search/strategy.h"

#include <stdlib.h>
#include <string.h>

enum { COSTS = 128, MOST_MICRO_BATCH = 64 };

/* Sums of the same numbers in another order differ by less. */
static const double rounding_ratio = 1e-9;

/** Layers of one class by policy. */
struct counts {
    uint32_t of[REDCO_RECOMPUTE_SETS]; /* by finder.sets */
};

struct finder {
    const redcoi_ability *ability;
    const redco_plan *plan;
    const redco_plan_case *reopened;
    const redco_layer_class *classes;
    uint32_t class_count, blocks; /**< classes of blocks */
    redco_machine machine;        /**< the plan's, but where the framework drops its order of GPUs */
    redco_comm *comm;             /**< collectives of such a machine; NULL: the plan's */
    redco_costs *costs[COSTS];    /**< by overlap and by traits that depend on the degrees; made when needed */
    redco_recompute_list sets;    /**< the plan's, and those that mixes are tried of */
    struct counts planned[REDCOI_MAX_CLASSES];
    redcoi_offer best;
    bool found;
};

void redcoi_offer_free(redcoi_offer *offer)
{
    free(offer->assignments);
    free(offer->layers);
    *offer = (redcoi_offer){.assignments = NULL};
}

/* The engine that an export is priced with, the only place where it is chosen: the plan's, less what the framework has
   no option for. (A plan for one engine that another runs is priced again by returning the other one here.) */
static redco_engine export_engine(const redcoi_ability *ability, const redco_plan_case *reopened,
                                  const redco_parallelism *parallelism)
{
    redco_engine engine = reopened->workload.engine;
    if (ability->limit != NULL) { ability->limit(&engine, parallelism); }
    return engine;
}

/* The tensor-parallel layout that it is priced with. */
static redco_tp_placement export_layout(const redcoi_ability *ability, const redco_plan_case *reopened)
{
    return ability->own_tp && reopened->tp_placement != REDCO_TP_PAIRED ? REDCO_TP_RULES : reopened->tp_placement;
}

/* Candidates are ranked by the closed form. */
static redco_prediction rank(redco_costs *costs, const redco_parallelism *parallelism, const redco_assignment *parts,
                             uint32_t count)
{
    return redco_cost_step(costs, parallelism, parts, count);
}

/* Prices an export as plans are priced: by the simulator. */
static redco_status price(redco_costs *costs, redcoi_offer *offer, redco_error *err)
{
    redco_price made;
    const redco_status st =
        redco_price_step(costs, &offer->parallelism, offer->assignments, offer->assignment_count, &made, err);
    if (st == REDCO_OK) { offer->prediction = made.predicted; }
    return st;
}

static bool keeps_gpu_order(const redcoi_ability *ability, const redco_plan *plan)
{
    char *order = ability->launches ? redcoi_gpu_order_text(plan) : NULL;
    const bool kept = plan->gpu_order == NULL || order != NULL;
    free(order);
    return kept;
}

/* The machine as a framework uses it that takes GPUs 0, 1, 2, ... Measured collectives are those of the plan's order:
   with a profile the price stays. */
static redco_status drop_gpu_order(struct finder *f, redco_error *err)
{
    for (uint32_t i = 0; i < f->machine.order_count; i++) {
        for (uint32_t j = 0; j < REDCO_ORDER_GPUS; j++) { f->machine.orders[i].gpus[j] = j; }
    }
    if (redco_comm_profile_sha256(f->reopened->inputs.comm)[0] != '\0') { return REDCO_OK; }
    return redco_comm_create(&f->machine, NULL, 0, &f->comm, err);
}

static redco_status finder_open(struct finder *f, const redcoi_ability *ability, const redco_plan *plan,
                                const redco_plan_case *reopened, redco_error *err)
{
    *f = (struct finder){.ability = ability, .plan = plan, .reopened = reopened, .machine = reopened->inputs.machine};
    const size_t count = redco_model_classes(reopened->inputs.model, &f->classes);
    if (count > REDCOI_MAX_CLASSES) {
        return redco_fail(err, REDCO_EVALUE, "model", "%zu layer classes: at most %d can be exported", count,
                          REDCOI_MAX_CLASSES);
    }
    f->class_count = (uint32_t)count;
    for (size_t c = 0; c < count; c++) { f->blocks += redco_class_is_block(f->classes[c].kind); }
    static const redco_recompute_list mixed = {{REDCO_RECOMPUTE_NONE, REDCO_RECOMPUTE_CORE_ATTN, REDCO_RECOMPUTE_FULL},
                                               3};
    f->sets = mixed;
    for (uint32_t i = 0; i < reopened->assignment_count; i++) {
        if (!redco_recompute_add(&f->sets, reopened->assignments[i].config.recompute)) {
            return redco_fail(err, REDCO_EVALUE, "recompute", "layers have more than %d sets of modules to recompute",
                              REDCO_RECOMPUTE_SETS - 3);
        }
    }
    for (uint32_t i = 0; i < reopened->assignment_count; i++) {
        const redco_assignment *part = &reopened->assignments[i];
        f->planned[part->class_index].of[redco_recompute_find(&f->sets, part->config.recompute)] += part->layers;
    }
    return keeps_gpu_order(ability, plan) ? REDCO_OK : drop_gpu_order(f, err);
}

static void finder_close(struct finder *f)
{
    for (int i = 0; i < COSTS; i++) { redco_costs_free(f->costs[i]); }
    redco_comm_free(f->comm);
    redcoi_offer_free(&f->best);
}

static bool has_sequence_parallel(const struct finder *f)
{
    return f->plan->parallelism.sequence_parallel && f->ability->sequence_parallel;
}

/* The plan's schedule, chunks, group and split where degrees and framework allow them; else 1F1B of one chunk. */
static void set_pipeline(const struct finder *f, redco_parallelism *parallelism)
{
    const redco_parallelism *planned = &f->reopened->parallelism;
    const uint32_t layers = f->plan->model_layers;
    parallelism->schedule = planned->schedule;
    parallelism->chunks = planned->chunks;
    parallelism->group = planned->group;
    parallelism->split = parallelism->pp == planned->pp ? planned->split : NULL;
    const redco_pipeline pipeline = redco_parallelism_pipeline(parallelism);
    const uint64_t positions = redcoi_positions(parallelism);
    const bool plain = pipeline.kind == REDCO_PIPELINE_1F1B && parallelism->split == NULL;
    const bool divided = parallelism->split != NULL || redco_stages_divide(pipeline.kind, layers, positions);
    const bool can = plain || (f->ability->can_pipeline != NULL && redco_pipeline_check(&pipeline, NULL) == REDCO_OK &&
                               divided && f->ability->can_pipeline(&pipeline, parallelism->split, layers));
    if (parallelism->pp > 1 && can && (plain || f->ability->pipeline)) { return; }
    parallelism->schedule = REDCO_PIPELINE_1F1B;
    parallelism->chunks = 1;
    parallelism->group = 0;
    parallelism->split = NULL;
}

/* Every type allows what all-to-all does. */
static void set_cp_type(const redcoi_ability *ability, redco_parallelism *parallelism)
{
    if (parallelism->cp == 1) { parallelism->cp_type = REDCO_CP_P2P; }
    if (parallelism->cp == 1 || ability->cp_types == 0 || (ability->cp_types >> parallelism->cp_type & 1) != 0) {
        return;
    }
    parallelism->cp_type = ability->cp_type;
}

/* Fills in everything but layers and price. */
/* Exchanges that are made again do not hide behind another micro-batch. */
static bool recomputes_exchanges(const redco_plan *plan)
{
    bool any = false;
    for (uint32_t i = 0; i < plan->layers_count; i++) {
        any = any || (plan->layers[i].recompute & (REDCO_RECOMPUTE_FULL | REDCO_RECOMPUTE_MOE)) != 0;
    }
    return any;
}

static redcoi_offer start_offer(const struct finder *f, const redco_parallelism *parallelism, uint32_t overlap)
{
    redcoi_offer offer = {.parallelism = *parallelism,
                          .overlap = overlap,
                          .engine = export_engine(f->ability, f->reopened, parallelism),
                          .tp_placement = export_layout(f->ability, f->reopened),
                          .gpu_order = keeps_gpu_order(f->ability, f->plan)};
    offer.parallelism.sequence_parallel = has_sequence_parallel(f);
    if (!f->ability->any_command && recomputes_exchanges(f->plan)) { offer.engine.ep_overlap = false; }
    if (!f->ability->any_command) { offer.parallelism.experts = (redco_shards){.parameters = {0, 0}}; }
    set_pipeline(f, &offer.parallelism);
    set_cp_type(f->ability, &offer.parallelism);
    if (!f->ability->any_command) { offer.engine.shard_over_cp = f->ability->shard_over_cp; }
    offer.engine.async_tp = offer.engine.async_tp && (offer.parallelism.sequence_parallel || f->ability->any_command);
    return offer;
}

static redco_status costs_for(struct finder *f, const redcoi_offer *offer, redco_costs **costs_out, redco_error *err)
{
    const uint32_t slot = (offer->overlap & 15U) | (offer->engine.async_tp ? 16U : 0U) |
                          (offer->engine.shard_over_cp ? 32U : 0U) | (offer->engine.cuda_graphs ? 64U : 0U);
    const redco_inputs *inputs = &f->reopened->inputs;
    redco_status st = REDCO_OK;
    if (f->costs[slot] == NULL) {
        redco_workload workload = f->reopened->workload;
        workload.overlap = offer->overlap;
        workload.engine = offer->engine;
        st = redco_costs_create(&f->machine, inputs->model, &workload, &inputs->calibration,
                                f->comm != NULL ? f->comm : inputs->comm, &f->costs[slot], err);
        if (st == REDCO_OK) {
            st = redco_tp_attach(f->costs[slot], inputs->model, offer->tp_placement, f->reopened->tp_rules, err);
        }
    }
    *costs_out = f->costs[slot];
    return st;
}

static uint32_t layers_of(const struct finder *f, const struct counts *counts, redco_recompute set)
{
    return counts->of[redco_recompute_find(&f->sets, set)];
}

/* The same number of recomputed layers in every one of @p stages model chunks, of the kinds that the framework knows.
 * Only Megatron recomputes modules other than attention. */
static bool can_recompute(const struct finder *f, const struct counts *counts, const redco_parallelism *parallelism)
{
    const uint32_t stages = redcoi_positions(parallelism);
    uint32_t modules = 0, most = 0, full = 0, all = 0; /* layers with some modules; with the set that most have */
    bool even = parallelism->split == NULL, mixes = true;
    for (uint32_t s = 0; s < f->sets.count; s++) {
        uint32_t layers = 0;
        for (uint32_t c = 0; c < f->class_count; c++) { layers += counts[c].of[s]; }
        mixes = mixes && (layers == 0 || redco_recompute_mixes(f->sets.sets[s]));
        if (f->sets.sets[s] == REDCO_RECOMPUTE_NONE || f->sets.sets[s] == REDCO_RECOMPUTE_FULL) { continue; }
        modules += layers;
        most = layers > most ? layers : most;
    }
    if (f->ability->recompute == REDCOI_RECOMPUTE_ANY) { return mixes; }
    for (uint32_t c = 0; c < f->class_count; c++) {
        const uint32_t here = layers_of(f, &counts[c], REDCO_RECOMPUTE_FULL);
        if (!redco_class_is_block(f->classes[c].kind)) {
            /* tables and head are never recomputed there */
            if (layers_of(f, &counts[c], REDCO_RECOMPUTE_NONE) != f->classes[c].layers) { return false; }
            continue;
        }
        all += f->classes[c].layers;
        full += here;
        even = even && here % stages == 0 && here / stages <= f->classes[c].layers / stages &&
               (here == 0 || here == f->classes[c].layers || f->blocks == 1);
    }
    if (modules > 0) { return f->ability->recompute == REDCOI_RECOMPUTE_ONE_KIND && most == all; }
    if (f->ability->recompute == REDCOI_RECOMPUTE_FULL_ALL) { return full == 0 || full == all; }
    return even || full == 0 || full == all;
}

/* Stage after stage, most recomputation first; one range where the layers do not divide. */
static void add_class(const struct finder *f, uint32_t class_index, const struct counts *counts,
                      const redco_shards *shards, uint32_t pieces, redco_assignment *out, uint32_t *count)
{
    uint32_t stages = redco_class_is_block(f->classes[class_index].kind) ? pieces : 1;
    for (uint32_t r = 0; r < f->sets.count; r++) {
        if (counts->of[r] % stages != 0) { stages = 1; }
    }
    for (uint32_t stage = 0; stage < stages; stage++) {
        for (uint32_t r = f->sets.count; r-- > 0;) {
            const uint32_t layers = counts->of[r] / stages;
            if (layers == 0) { continue; }
            out[(*count)++] = (redco_assignment){.class_index = class_index,
                                                 .layers = layers,
                                                 .config = {.shards = *shards, .recompute = f->sets.sets[r]}};
        }
    }
}

/* Keeps the point if it is the best so far. */
static redco_status consider(struct finder *f, redco_costs *costs, const redcoi_offer *point,
                             const redco_shards *shards, const struct counts *counts, bool *fits_out, redco_error *err)
{
    const uint32_t stages = redcoi_positions(&point->parallelism);
    const uint32_t most = f->sets.count * f->class_count * stages;
    redco_assignment *parts = calloc(most, sizeof *parts);
    redco_plan_layers *layers = NULL;
    uint32_t part_count = 0;
    uint32_t count = 0;
    redco_status st = REDCO_OK;
    *fits_out = false;
    if (parts == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    for (uint32_t c = 0; c < f->class_count; c++) { add_class(f, c, &counts[c], shards, stages, parts, &part_count); }
    const redco_prediction prediction = rank(costs, &point->parallelism, parts, part_count);
    *fits_out = prediction.total_bytes <= prediction.capacity_bytes;
    if (!*fits_out || (f->found && prediction.step_s >= f->best.prediction.step_s * (1.0 - rounding_ratio))) {
        goto out;
    }
    st = redcoi_ranges(f->reopened->inputs.model, stages, parts, part_count, &layers, &count, err);
    if (st != REDCO_OK) { goto out; }
    redcoi_offer_free(&f->best);
    f->best = *point;
    f->best.prediction = prediction;
    f->best.assignments = parts;
    f->best.assignment_count = part_count;
    f->best.layers = layers;
    f->best.count = count;
    f->found = true;
    parts = NULL;
out:
    free(parts);
    return st;
}

/* Two policies that share the blocks: @p part of @p parts of every class has the first, as whole layers of every stage.
 */
struct mix {
    redco_recompute some, rest;
};

static void mix_counts(const struct finder *f, uint32_t stages, uint32_t part, uint32_t parts, struct mix mix,
                       struct counts *counts)
{
    for (uint32_t c = 0; c < f->class_count; c++) {
        const uint32_t layers = f->classes[c].layers;
        const uint64_t unit = layers % stages == 0 ? stages : 1;
        const uint64_t some = ((layers / unit * part + parts - 1) / parts) * unit;
        counts[c] = (struct counts){.of = {0}};
        if (redco_class_is_block(f->classes[c].kind)) {
            counts[c].of[redco_recompute_find(&f->sets, mix.some)] = (uint32_t)some;
            counts[c].of[redco_recompute_find(&f->sets, mix.rest)] = layers - (uint32_t)some;
        } else {
            counts[c].of[redco_recompute_find(&f->sets, REDCO_RECOMPUTE_NONE)] = layers;
        }
    }
}

static uint32_t most_layers(const struct finder *f, uint32_t stages)
{
    uint32_t most = 1;
    for (uint32_t c = 0; c < f->class_count; c++) {
        const uint32_t layers = f->classes[c].layers;
        const uint32_t steps = layers % stages == 0 ? layers / stages : layers;
        if (redco_class_is_block(f->classes[c].kind) && steps > most) { most = steps; }
    }
    return most;
}

/** One choice of degrees and meshes. */
struct place {
    redcoi_offer point; /**< without layers */
    const redco_shards *shards;
    redco_costs *costs;
    uint32_t parts;
};

static redco_status try_part(struct finder *f, const struct place *place, struct mix mix, uint32_t part, bool *can_out,
                             bool *fits_out, redco_error *err)
{
    struct counts counts[REDCOI_MAX_CLASSES];
    const uint32_t stages = redcoi_positions(&place->point.parallelism);
    mix_counts(f, stages, part, place->parts, mix, counts);
    *fits_out = false;
    *can_out = can_recompute(f, counts, &place->point.parallelism);
    return *can_out ? consider(f, place->costs, &place->point, place->shards, counts, fits_out, err) : REDCO_OK;
}

/* More layers of the mix's first policy cost time and free memory (but for the first, which brings its working set), so
   the least number that fits is the best: found by halving. */
static redco_status try_mix(struct finder *f, const struct place *place, struct mix mix, redco_error *err)
{
    uint32_t low = 0;
    uint32_t high = place->parts;
    bool can = false;
    bool fits = false;
    redco_status st = try_part(f, place, mix, low, &can, &fits, err);
    if (st != REDCO_OK || fits) { return st; }
    st = try_part(f, place, mix, high, &can, &fits, err);
    if (st != REDCO_OK || !fits) { return st; }
    while (high - low > 1 && can && st == REDCO_OK) {
        const uint32_t middle = low + (high - low) / 2;
        st = try_part(f, place, mix, middle, &can, &fits, err);
        *(fits ? &high : &low) = middle;
    }
    return st;
}

/* With the plan's recomputation, and with the least of each mix. */
static redco_status try_meshes(struct finder *f, const redco_parallelism *parallelism, const redco_shards *shards,
                               redco_error *err)
{
    static const struct mix mixes[] = {{REDCO_RECOMPUTE_FULL, REDCO_RECOMPUTE_NONE},
                                       {REDCO_RECOMPUTE_CORE_ATTN, REDCO_RECOMPUTE_NONE},
                                       {REDCO_RECOMPUTE_FULL, REDCO_RECOMPUTE_CORE_ATTN}};
    struct place place = {.point = start_offer(f, parallelism, 0), .shards = shards};
    const redco_parallelism sharded = redcoi_sharded(f->plan, parallelism, &place.point.engine);
    place.point.overlap = f->ability->overlap(&sharded, shards, f->plan->overlap);
    const uint32_t stages = redcoi_positions(&place.point.parallelism);
    redco_error why = {0};
    bool fits = false;
    redco_status st = costs_for(f, &place.point, &place.costs, err);
    if (st != REDCO_OK || redco_parallelism_check(place.costs, parallelism, &why) != REDCO_OK) { return st; }
    place.parts = most_layers(f, stages);
    if (can_recompute(f, f->planned, &place.point.parallelism)) {
        st = consider(f, place.costs, &place.point, shards, f->planned, &fits, err);
    }
    for (size_t i = 0; i < sizeof mixes / sizeof mixes[0] && st == REDCO_OK; i++) {
        st = try_mix(f, &place, mixes[i], err);
    }
    return st;
}

/* Every mesh triple of the planner's space that the framework can say; the second copy of parameters for ZeRO-3. */
static redco_status try_setting(struct finder *f, redco_parallelism parallelism, redco_error *err)
{
    static const redco_shards none = {{0, 0}, {0, 0}, {0, 0}};
    redco_shards *triples = NULL;
    size_t count = 0;
    if (f->ability->scheme_fixed) { parallelism.scheme = f->ability->scheme; }
    const redcoi_offer start = start_offer(f, &parallelism, 0);
    redco_parallelism sharded = redcoi_sharded(f->plan, &parallelism, &start.engine);
    const redco_mesh grid = sharded.dp;
    redco_status st = redco_strategy_triples(grid, REDCO_STRATEGY_ANY, &none, &triples, &count, err);
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        parallelism.secondary = sharded.secondary = (redco_mesh){0, 0};
        if (f->ability->can_shard(&sharded, &triples[i])) { st = try_meshes(f, &parallelism, &triples[i], err); }
        parallelism.secondary = sharded.secondary = (redco_mesh){grid.gpus, 1};
        if (st == REDCO_OK && grid.nodes > 1 && redco_mesh_equal(triples[i].parameters, grid) &&
            f->ability->can_shard(&sharded, &triples[i])) {
            st = try_meshes(f, &parallelism, &triples[i], err);
        }
    }
    free(triples);
    return st;
}

/* @return false when the degrees do not divide machine or batch */
static bool divide(const struct finder *f, redco_parallelism *parallelism)
{
    redco_error why = {0};
    if (redcoi_place_ranks(&f->reopened->inputs.machine, parallelism, &why) != REDCO_OK) { return false; }
    const uint64_t ranks = redco_mesh_ranks(parallelism->dp) * parallelism->micro_batch;
    parallelism->micro_batches = f->plan->global_batch / ranks;
    return f->plan->global_batch % ranks == 0;
}

static redco_status try_micro_batches(struct finder *f, redco_parallelism parallelism, redco_error *err)
{
    redco_status st = REDCO_OK;
    for (uint32_t micro = 1; micro <= MOST_MICRO_BATCH && st == REDCO_OK; micro++) {
        parallelism.micro_batch = micro;
        if (divide(f, &parallelism)) { st = try_setting(f, parallelism, err); }
    }
    return st;
}

/* Tensor parallelism inside a node, stages where there are any. */
static redco_status try_degrees(struct finder *f, redco_parallelism parallelism, redco_error *err)
{
    const redco_machine *machine = &f->reopened->inputs.machine;
    const uint32_t most_stages = f->ability->pipeline ? f->plan->model_layers : 1;
    redco_status st = REDCO_OK;
    for (parallelism.tp = 1; parallelism.tp <= machine->gpus_per_node && st == REDCO_OK; parallelism.tp++) {
        if (machine->gpus_per_node % parallelism.tp != 0) { continue; }
        for (parallelism.pp = 1; parallelism.pp <= most_stages && st == REDCO_OK; parallelism.pp *= 2) {
            st = try_micro_batches(f, parallelism, err);
        }
    }
    return st;
}

redco_status redcoi_offer_nearest(const redcoi_ability *ability, const redco_plan *plan,
                                  const redco_plan_case *reopened, redcoi_offer *offer_out, redco_error *err)
{
    struct finder f;
    redco_status st = finder_open(&f, ability, plan, reopened, err);
    if (st != REDCO_OK) { return st; }
    redco_parallelism parallelism = reopened->parallelism;
    parallelism.split = NULL; /* it fits the plan's stages only: set_pipeline() puts it there */
    if (!ability->pipeline) { parallelism.pp = 1; }
    if (!ability->context_parallel) { parallelism.cp = 1; }
    if (divide(&f, &parallelism)) { st = try_setting(&f, parallelism, err); }
    if (st == REDCO_OK && !f.found) { st = try_micro_batches(&f, parallelism, err); }
    if (st == REDCO_OK && !f.found) { st = try_degrees(&f, parallelism, err); }
    if (st == REDCO_OK && !f.found) {
        st = redco_fail(err, REDCO_EINFEASIBLE, "", "%s can express no plan that fits on %llu GPUs", ability->title,
                        (unsigned long long)redco_plan_gpus(plan));
    }
    redco_costs *costs = NULL;
    if (st == REDCO_OK) { st = costs_for(&f, &f.best, &costs, err); }
    if (st == REDCO_OK) { st = price(costs, &f.best, err); }
    if (st == REDCO_OK) {
        *offer_out = f.best;
        f.best = (redcoi_offer){.assignments = NULL};
    }
    finder_close(&f);
    return st;
}

static redco_shards regrid_all(const redco_plan *plan, redco_shards shards, redco_mesh grid)
{
    return (redco_shards){redcoi_regrid(plan, shards.parameters, grid), redcoi_regrid(plan, shards.gradients, grid),
                          redcoi_regrid(plan, shards.optimizer, grid)};
}

/* @p overlap_out  what stays hidden for all layers. @p parallelism  of redcoi_sharded() */
static bool can_express(const struct finder *f, const redco_parallelism *parallelism, uint32_t *overlap_out)
{
    const redcoi_ability *ability = f->ability;
    const redco_plan *plan = f->plan;
    redco_parallelism laid_out = *parallelism;
    set_pipeline(f, &laid_out);
    bool expressed =
        (plan->parallelism.pp == 1 || ability->pipeline) && (plan->parallelism.cp == 1 || ability->context_parallel) &&
        (plan->parallelism.tp == 1 || !plan->parallelism.sequence_parallel || ability->sequence_parallel) &&
        can_recompute(f, f->planned, &laid_out);
    *overlap_out = REDCO_OVERLAP_ALL;
    for (uint32_t i = 0; i < plan->layers_count && expressed; i++) {
        const redco_shards moved = regrid_all(plan, plan->layers[i].shards, parallelism->dp), *shards = &moved;
        const uint32_t traffic = redcoi_traffic(parallelism, shards);
        expressed = redco_mesh_nests(shards->optimizer, parallelism->dp) && ability->can_shard(parallelism, shards) &&
                    (ability->layerwise || redco_shards_equal(plan->layers[i].shards, plan->layers[0].shards)) &&
                    (!ability->scheme_fixed || plan->parallelism.scheme == ability->scheme ||
                     redco_mesh_equal(shards->optimizer, shards->parameters));
        /* without traffic, the overlap stays the plan's */
        *overlap_out &= (ability->overlap(parallelism, shards, plan->overlap) & traffic) | (plan->overlap & ~traffic);
    }
    return expressed;
}

/* The plan as it is, but for what a framework drops without another layout: traffic that it does not hide, model
   chunks, the order of GPUs, traits of the engine. That is priced. */
redco_status redcoi_offer_plan(const redcoi_ability *ability, const redco_plan *plan, const redco_plan_case *reopened,
                               bool *expressed_out, redcoi_offer *offer_out, redco_error *err)
{
    struct finder f;
    redcoi_offer offer = {.assignments = NULL};
    redco_costs *costs = NULL;
    uint32_t overlap = 0;
    redco_status st = finder_open(&f, ability, plan, reopened, err);
    *expressed_out = false;
    if (st != REDCO_OK) { goto out; }
    offer = start_offer(&f, &reopened->parallelism, 0);
    const redco_parallelism sharded = redcoi_sharded(plan, &reopened->parallelism, &offer.engine);
    if (!can_express(&f, &sharded, &overlap)) { goto out; }
    offer.overlap = overlap;
    offer.parallelism.sequence_parallel = plan->parallelism.sequence_parallel;
    offer.count = plan->layers_count;
    offer.assignment_count = reopened->assignment_count;
    offer.assignments = calloc(offer.assignment_count, sizeof *offer.assignments);
    offer.layers = calloc(offer.count, sizeof *offer.layers);
    if (offer.assignments == NULL || offer.layers == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    memcpy(offer.assignments, reopened->assignments, offer.assignment_count * sizeof *offer.assignments);
    memcpy(offer.layers, plan->layers, offer.count * sizeof *offer.layers);
    for (uint32_t i = 0; i < offer.assignment_count; i++) {
        redco_shards *const shards = &offer.assignments[i].config.shards;
        *shards = regrid_all(plan, *shards, sharded.dp);
    }
    for (uint32_t i = 0; i < offer.count; i++) {
        offer.layers[i].shards = regrid_all(plan, offer.layers[i].shards, sharded.dp);
    }
    if ((st = costs_for(&f, &offer, &costs, err)) != REDCO_OK) { goto out; }
    if ((st = price(costs, &offer, err)) != REDCO_OK) { goto out; }
    /* without a trait of the plan's engine it may not fit any more */
    if (offer.prediction.total_bytes > offer.prediction.capacity_bytes &&
        plan->predicted.total_bytes <= plan->predicted.capacity_bytes) {
        goto out;
    }
    *offer_out = offer;
    offer = (redcoi_offer){.assignments = NULL};
    *expressed_out = true;
out:
    redcoi_offer_free(&offer);
    finder_close(&f);
    return st;
}
