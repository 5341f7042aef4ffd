/* Nothing fits: by how much, what is largest, and the least change that would fit. Every change named here was tried:
   a whole new space, searched for its leanest strategy. */
#include "planner/search/exact.h"
#include "planner/search/search_space.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NODES = 1 << 17, MOST_STAGES = 64 };

/* The leanest group of a configuration, where it is leaner than @p short_bytes: less than *configuration_out, if any,
 * needs. */
static void take_leaner(redcoi_configuration *configuration, int64_t *short_bytes,
                        const redcoi_configuration **configuration_out, redcoi_answer *answer,
                        redcoi_answer *answer_out)
{
    const int64_t others = (int64_t)configuration->capacity_bytes - (int64_t)configuration->fixed_bytes;
    redcoi_problem endless = *configuration->steps;
    for (uint32_t g = 0; g < configuration->group_count; g++) {
        const int64_t most = *configuration_out != NULL ? *short_bytes + others : INT64_MAX / 2;
        endless.budget_bytes = most > 0 ? (uint64_t)most : 0;
        if (!redcoi_exact_group(&endless, g, REDCOI_LEAST_MEMORY, 1e300, answer, NULL)) { continue; }
        const int64_t bytes = (int64_t)answer->bytes - others;
        if (*configuration_out != NULL && bytes >= *short_bytes) { continue; }
        *short_bytes = bytes;
        *configuration_out = configuration;
        *answer_out = *answer;
    }
}

/* By how much a configuration is too large at least. */
static int64_t least_short(const redcoi_configuration *configuration)
{
    const uint64_t most = INT64_MAX / 4;
    const uint64_t bytes = configuration->least_bytes < most ? configuration->least_bytes : most;
    return (int64_t)bytes - (int64_t)configuration->capacity_bytes;
}

redco_status redcoi_space_least_memory(redcoi_space *space, bool enough, int64_t *short_bytes_out,
                                       const redcoi_configuration **configuration_out, redcoi_answer *answer_out,
                                       redco_error *err)
{
    redcoi_answer *answer = malloc(sizeof *answer);
    if (answer == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    redco_status st = REDCO_OK;
    *configuration_out = NULL;
    /* The configuration with the least bound first, so that the bounds of most others rule them out. */
    redcoi_configuration *likely = NULL;
    for (uint32_t i = 0; i < space->configuration_count; i++) {
        redcoi_configuration *configuration = &space->configurations[i];
        redcoi_space_bound_memory(space, configuration);
        if (enough && configuration->least_bytes > configuration->capacity_bytes) { continue; }
        if (likely == NULL || configuration->least_bytes < likely->least_bytes) { likely = configuration; }
    }
    int64_t most = INT64_MAX;
    if (likely != NULL && (st = redcoi_space_price(space, likely, NULL, err)) == REDCO_OK) {
        take_leaner(likely, &most, configuration_out, answer, answer_out);
        *short_bytes_out = most;
    }
    const bool done = likely == NULL || (enough && *configuration_out != NULL && most <= 0);
    if (!done) { *configuration_out = NULL; } /* the first of equal ones */
    for (uint32_t i = 0; i < space->configuration_count && st == REDCO_OK && !done; i++) {
        redcoi_configuration *configuration = &space->configurations[i];
        const int64_t least = least_short(configuration);
        if (least > most || (*configuration_out != NULL && least >= *short_bytes_out) || (enough && least > 0)) {
            continue;
        }
        if ((st = redcoi_space_price(space, configuration, NULL, err)) != REDCO_OK) { break; }
        take_leaner(configuration, short_bytes_out, configuration_out, answer, answer_out);
        if (enough && *configuration_out != NULL && *short_bytes_out <= 0) { break; }
    }
    free(answer);
    return st;
}

static bool fits(const redcoi_inputs *inputs, const redco_search_options *options)
{
    redcoi_space *space = NULL;
    const redcoi_configuration *configuration = NULL;
    int64_t short_bytes = 0;
    redcoi_answer *answer = malloc(sizeof *answer);
    redco_error ignored = {0}; /* A change that is not possible does not fit. */
    redco_status st = REDCO_ENOMEM;
    if (answer != NULL) { st = redcoi_space_create(inputs, options, &space, &ignored); }
    if (st == REDCO_OK) { st = redcoi_space_least_memory(space, true, &short_bytes, &configuration, answer, &ignored); }
    redcoi_space_free(space);
    free(answer);
    const bool known = st == REDCO_OK && configuration != NULL && short_bytes <= 0;
    return known && (options->pass.would_fit == NULL ||
                     options->pass.would_fit(options->pass.would_fit_context, inputs->machine, options));
}

/* "WHAT REST would fit", and what quantity of the options is set to what; value "" leaves it free. */
static void say(redco_shortfall *out, const char *quantity, const char *value, const char *what, const char *rest)
{
    (void)snprintf(out->cheapest_change, sizeof out->cheapest_change, "%s%s would fit", what, rest);
    (void)snprintf(out->change_value, sizeof out->change_value, "%s", value);
    out->change_quantity = quantity;
    out->change_at = strlen(what);
}

static void say_number(redco_shortfall *out, const char *quantity, uint32_t number, uint32_t now, const char *what,
                       const char *aside)
{
    char value[16];
    char rest[80];
    (void)snprintf(value, sizeof value, "%u", number);
    (void)snprintf(rest, sizeof rest, " instead of %u%s", now, aside);
    say(out, quantity, value, what, rest);
}

/* One change and its sentence. @return true when it fits */
typedef bool (*change)(const redcoi_inputs *inputs, const redco_search_options *options, redco_shortfall *out);

static bool more_recomputation(const redcoi_inputs *inputs, const redco_search_options *options, redco_shortfall *out)
{
    redco_search_options o = *options;
    if (o.recompute == REDCO_RECOMPUTE_FREE || o.recompute == REDCO_RECOMPUTE_FULL) { return false; }
    o.recompute = REDCO_RECOMPUTE_FREE;
    const redco_recompute_list sets = redco_search_recompute(inputs->model, &o);
    for (uint32_t i = 0; i < sets.count; i++) {
        char word[REDCO_RECOMPUTE_TEXT], what[REDCO_RECOMPUTE_TEXT + 24];
        o.recompute = sets.sets[i];
        if (o.recompute <= options->recompute || !fits(inputs, &o)) { continue; }
        const bool mixes = redco_recompute_mixes(o.recompute);
        (void)redco_recompute_text(o.recompute, false, word, sizeof word);
        (void)snprintf(what, sizeof what, mixes ? "%s recomputation" : "recomputation of %s",
                       o.recompute == REDCO_RECOMPUTE_MLP ? "the FFN" : word);
        say(out, "recompute", word, what, "");
        return true;
    }
    return false;
}

/* Such a remedy is of no use: --dims leaves the dimension out, or the engine does not have it. */
static bool is_left_out(const redco_search_options *options, uint32_t dimension)
{
    const uint32_t has = options->allows.dimensions;
    return (options->excluded & dimension) != 0 || (has != 0 && (has & dimension) == 0);
}

static bool higher_tp(const redcoi_inputs *inputs, const redco_search_options *options, redco_shortfall *out)
{
    redco_search_options o = *options;
    const bool comm = o.objective == REDCO_OBJECTIVE_COMM || o.strategy == REDCO_STRATEGY_AMSP;
    /* Chosen freely, all inside the links of a node were tried. */
    const uint32_t domain = redco_machine_domain(inputs->machine);
    if (is_left_out(&o, REDCO_HAS_TP)) { return false; }
    const uint32_t now = o.given.tp != 0 ? o.given.tp : comm ? 1 : domain;
    for (uint32_t tp = now + 1; tp <= inputs->machine->gpus_per_node; tp++) {
        if (inputs->machine->gpus_per_node % tp != 0) { continue; }
        o.given.tp = tp;
        if (!fits(inputs, &o)) { continue; }
        char what[64];
        (void)snprintf(what, sizeof what, "tensor parallelism over %u GPUs", tp);
        say_number(out, "tp", tp, now, what, tp > domain ? ", beyond the GPUs that links join," : "");
        return true;
    }
    return false;
}

static bool more_stages(const redcoi_inputs *inputs, const redco_search_options *options, redco_shortfall *out)
{
    redco_search_options o = *options;
    const bool comm = o.objective == REDCO_OBJECTIVE_COMM || o.strategy == REDCO_STRATEGY_AMSP;
    if ((redco_degree_is_free(o.given.pp) && !comm) || is_left_out(&o, REDCO_HAS_PP)) { return false; }
    const uint32_t now = o.given.pp != 0 && !redco_degree_is_free(o.given.pp) ? o.given.pp : 1;
    const uint64_t gpus = (uint64_t)inputs->machine->nodes * inputs->machine->gpus_per_node;
    for (uint32_t pp = now + 1; pp <= gpus && pp <= MOST_STAGES; pp++) {
        if (gpus % pp != 0) { continue; }
        o.given.pp = pp;
        if (!fits(inputs, &o)) { continue; }
        char what[64];
        (void)snprintf(what, sizeof what, "%u pipeline stages", pp);
        say_number(out, "pp", pp, now, what, "");
        return true;
    }
    return false;
}

/* Norms and dropout split over the tensor-parallel ranks. */
static bool split_sequence(const redcoi_inputs *inputs, const redco_search_options *options, redco_shortfall *out)
{
    redco_search_options o = *options;
    const bool one = o.given.tp == 1 || inputs->machine->gpus_per_node == 1 || is_left_out(&o, REDCO_HAS_SP);
    if (o.sequence_parallel == REDCO_ON || o.sequence_parallel == REDCO_EITHER || one) { return false; }
    o.sequence_parallel = REDCO_ON;
    if (!fits(inputs, &o)) { return false; }
    say(out, NULL, "", "sequence parallelism", "");
    return true;
}

static bool shorter_sequences(const redcoi_inputs *inputs, const redco_search_options *options, redco_shortfall *out)
{
    redco_search_options o = *options;
    const uint32_t now = o.given.cp != 0 && !redco_degree_is_free(o.given.cp) ? o.given.cp : 1;
    const uint64_t gpus = (uint64_t)inputs->machine->nodes * inputs->machine->gpus_per_node;
    if (redco_degree_is_free(o.given.cp) || is_left_out(&o, REDCO_HAS_CP)) { return false; }
    for (uint32_t cp = 2 * now; cp <= gpus && cp <= MOST_STAGES; cp *= 2) {
        o.given.cp = cp;
        if (!fits(inputs, &o)) { continue; }
        char what[64];
        (void)snprintf(what, sizeof what, "context parallelism over %u GPUs", cp);
        say_number(out, "cp", cp, now, what, "");
        return true;
    }
    return false;
}

static bool narrow_gradients(const redcoi_inputs *inputs, const redco_search_options *options, redco_shortfall *out)
{
    redco_search_options o = *options;
    if (o.workload.engine.gradient_bytes != 4 || o.workload.precision == REDCO_FP32) { return false; }
    o.workload.engine.gradient_bytes = 2;
    if (!fits(inputs, &o)) { return false; }
    say(out, NULL, "", "gradients of 2 bytes instead of 4 (the engine's grad_reduce_bytes=2)", "");
    return true;
}

/* Megatron's precision-aware optimizer, which is Transformer Engine's Adam. */
static bool narrow_moments(const redcoi_inputs *inputs, const redco_search_options *options, redco_shortfall *out)
{
    redco_search_options o = *options;
    const redco_engine *const engine = &o.workload.engine;
    const bool has = engine->memory == REDCO_MEMORY_MEGATRON && engine->software == REDCO_SOFTWARE_TE_XLA;
    if (!has || engine->moment_bytes == 2 || o.workload.precision == REDCO_FP32) { return false; }
    o.workload.engine.moment_bytes = 2;
    if (!fits(inputs, &o)) { return false; }
    say(out, NULL, "", "optimizer moments of 2 bytes instead of 4 (the engine's moment_bytes=2)", "");
    return true;
}

static bool smaller_micro_batch(const redcoi_inputs *inputs, const redco_search_options *options, redco_shortfall *out)
{
    redco_search_options o = *options;
    for (uint32_t b = options->given.micro_batch; b-- > 1;) {
        if (options->given.micro_batch % b != 0) { continue; }
        o.given.micro_batch = b;
        if (!fits(inputs, &o)) { continue; }
        char what[64];
        (void)snprintf(what, sizeof what, "a micro-batch of %u", b);
        say_number(out, "micro-batch", b, options->given.micro_batch, what, "");
        return true;
    }
    return false;
}

static bool freed_meshes(const redcoi_inputs *inputs, const redco_search_options *options, redco_shortfall *out)
{
    redco_search_options o = *options;
    const redco_shards *f = &o.fix;
    const bool fixed = f->parameters.gpus != 0 || f->gradients.gpus != 0 || f->optimizer.gpus != 0;
    if (o.strategy == REDCO_STRATEGY_ANY && !fixed) { return false; }
    o.fix = (redco_shards){.parameters = {0, 0}};
    o.strategy = REDCO_STRATEGY_ANY;
    if (!fits(inputs, &o)) { return false; }
    say(out, fixed ? "shards" : "strategy", "", "other sharding", "");
    return true;
}

/* The next larger machine: twice the GPUs of a node until the node is whole, then more nodes. False: there is none. */
static bool enlarge(redco_machine *machine)
{
    const uint32_t whole = machine->whole_node_gpus > 0 ? machine->whole_node_gpus : machine->node_gpus_physical;
    if (machine->nodes > 1 || machine->gpus_per_node * 2 > whole) {
        if (machine->nodes > MOST_NODES / 2) { return false; }
        machine->nodes *= 2;
        return true;
    }
    machine->gpus_per_node *= 2;
    machine->order_count = 0; /* fewer GPUs have no order; whether something fits does not depend on it */
    if (machine->gpus_per_node > machine->node_gpus_physical) { machine->node_gpus_physical = machine->gpus_per_node; }
    if (machine->fabric == REDCO_FABRIC_SWITCH) { machine->link_group_gpus = machine->gpus_per_node; }
    return true;
}

/* Between half of these nodes, which do not fit, and all of them. */
static void fewer_nodes(redcoi_inputs *with, redco_machine *larger, const redco_search_options *options)
{
    enum { TRIES = 8 };
    const uint32_t fitting = larger->nodes;
    const uint32_t step = fitting / 2 > TRIES ? fitting / 2 / TRIES : 1;
    for (uint32_t nodes = fitting / 2 + step; nodes < fitting; nodes += step) {
        larger->nodes = nodes;
        if (fits(with, options)) { return; }
    }
    larger->nodes = fitting;
}

static bool more_nodes(const redcoi_inputs *inputs, const redco_search_options *options, redco_shortfall *out)
{
    redco_machine larger = *inputs->machine;
    redcoi_inputs with = *inputs;
    with.machine = &larger;
    while (enlarge(&larger)) {
        /* More ranks than sequences, whatever the tensor-parallel degree: no further. */
        if (larger.nodes > options->workload.global_batch) { return false; }
        if (!fits(&with, options)) { continue; }
        if (larger.nodes > 1) { fewer_nodes(&with, &larger, options); }
        const size_t size = sizeof out->cheapest_change;
        const int used = snprintf(out->cheapest_change, size, "%llu GPUs (%u node%s) instead of %llu would fit",
                                  (unsigned long long)larger.nodes * larger.gpus_per_node, larger.nodes,
                                  larger.nodes == 1 ? "" : "s",
                                  (unsigned long long)inputs->machine->nodes * inputs->machine->gpus_per_node);
        if (larger.most_nodes > 0 && larger.nodes > larger.most_nodes && used > 0 && (size_t)used < size) {
            (void)snprintf(out->cheapest_change + used, size - (size_t)used, ", but %.63s has %u node%s", larger.name,
                           larger.most_nodes, larger.most_nodes == 1 ? "" : "s");
        }
        return true;
    }
    return false;
}

const char *redcoi_largest_component(const redco_prediction *p)
{
    const struct {
        const char *name;
        uint64_t bytes;
    } parts[] = {{"parameters", p->parameter_bytes}, {"gradients", p->gradient_bytes},
                 {"optimizer", p->optimizer_bytes},  {"activations", p->activation_bytes},
                 {"transient", p->transient_bytes},  {"NCCL buffers", p->nccl_bytes}};
    size_t largest = 0;
    for (size_t i = 1; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i].bytes > parts[largest].bytes) { largest = i; }
    }
    return parts[largest].name;
}

redco_status redcoi_shortfall_find(redcoi_space *space, const redcoi_inputs *inputs, redco_shortfall *shortfall_out,
                                   redco_error *err)
{
    /* Remedies, cheapest first: nodes cost money. */
    static const change changes[] = {split_sequence, more_recomputation, higher_tp,         smaller_micro_batch,
                                     freed_meshes,   more_stages,        shorter_sequences, narrow_gradients,
                                     narrow_moments, more_nodes};
    const redcoi_configuration *configuration = NULL;
    int64_t short_bytes = 0;
    redcoi_answer *answer = malloc(sizeof *answer);
    if (answer == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    redco_status st = redcoi_space_least_memory(space, false, &short_bytes, &configuration, answer, err);
    if (st == REDCO_OK && configuration == NULL) {
        st = redco_fail(err, REDCO_EVALUE, "model", "no strategy has a known size");
    }
    if (st == REDCO_OK) { st = redcoi_space_candidate(space, configuration, answer, &shortfall_out->leanest, err); }
    free(answer);
    if (st != REDCO_OK) { return st; }
    shortfall_out->short_bytes = short_bytes > 0 ? (uint64_t)short_bytes : 0;
    shortfall_out->largest = redcoi_largest_component(&shortfall_out->leanest.prediction);
    if (space->options.pass.no_remedies) { return REDCO_OK; }
    (void)snprintf(
        shortfall_out->cheapest_change, sizeof shortfall_out->cheapest_change,
        "no single change of recomputation, tensor, sequence, pipeline or context parallelism, micro-batch, sharding, "
        "bytes of gradients or moments or node count fits%s",
        space->options.excluded != 0 ? ", where excluded dimensions stay 1" : "");
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        if (changes[i](inputs, &space->options, shortfall_out)) { break; }
    }
    return REDCO_OK;
}
