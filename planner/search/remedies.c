/* Remedies say what would fit where nothing does. Every one was tried: a whole new space, searched for its leanest
   strategy, and the question put again. */
#include "planner/search/exact.h"
#include "planner/search/search_space.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NODES = 1 << 17, MOST_STAGES = 64 };

/* A changed question, and the parts that changed. */
typedef struct trial {
    redcoi_inputs inputs;
    redco_machine machine; /* inputs points to it */
    redco_search_options options;
    redco_remedy remedy;
} trial;

static trial begin(const redcoi_inputs *inputs, const redco_search_options *options)
{
    return (trial){.inputs = *inputs, .machine = *inputs->machine, .options = *options};
}

/* @return whether a layout of it fits, by the closed form */
static bool holds(trial *t)
{
    redcoi_space *space = NULL;
    const redcoi_configuration *configuration = NULL;
    int64_t short_bytes = 0;
    redcoi_answer *answer = malloc(sizeof *answer);
    redco_error ignored = {0}; /* A change that is not possible does not fit. */
    redco_status st = REDCO_ENOMEM;
    t->inputs.machine = &t->machine;
    if (answer != NULL) { st = redcoi_space_create(&t->inputs, &t->options, &space, &ignored); }
    if (st == REDCO_OK) { st = redcoi_space_least_memory(space, true, &short_bytes, &configuration, answer, &ignored); }
    redcoi_space_free(space);
    free(answer);
    return st == REDCO_OK && configuration != NULL && short_bytes <= 0;
}

/* @return whether what holds a layout has a plan; then what that takes is in the remedy, where it is known */
static bool has_plan(trial *t)
{
    const redco_search_pass *const pass = &t->options.pass;
    return pass->would_fit == NULL || pass->would_fit(pass->would_fit_context, &t->machine, &t->options, &t->remedy);
}

static bool fits(trial *t)
{
    return holds(t) && has_plan(t);
}

/* "WHAT REST", and what quantity of the options is set to what; value "" leaves it free. */
static void say(trial *t, const char *quantity, const char *value, const char *what, const char *rest)
{
    redco_remedy_part *const part = &t->remedy.parts[t->remedy.part_count++];
    part->quantity = quantity;
    (void)snprintf(part->value, sizeof part->value, "%s", value);
    (void)snprintf(part->what, sizeof part->what, "%s", what);
    (void)snprintf(part->rest, sizeof part->rest, "%s", rest);
}

static void say_number(trial *t, const char *quantity, uint32_t number, uint32_t now, const char *what,
                       const char *aside)
{
    char value[16];
    char rest[80];
    (void)snprintf(value, sizeof value, "%u", number);
    (void)snprintf(rest, sizeof rest, " instead of %u%s", now, aside);
    say(t, quantity, value, what, rest);
}

/* One change and its words. With @p most it is only made, as far as it goes. @return whether it fits, or was made */
typedef bool (*change)(trial *t, bool most);

static bool smaller_micro_batch(trial *t, bool most)
{
    const uint32_t now = t->options.given.micro_batch;
    for (uint32_t b = most ? 2 : now; b-- > 1;) {
        if (now <= b || now % b != 0) { continue; }
        t->options.given.micro_batch = b;
        if (!most && !fits(t)) { continue; }
        char what[64];
        (void)snprintf(what, sizeof what, "a micro-batch of %u", b);
        say_number(t, "micro-batch", b, now, what, "");
        return true;
    }
    return false;
}

static void say_recomputation(trial *t)
{
    char word[REDCO_RECOMPUTE_TEXT], what[REDCO_RECOMPUTE_TEXT + 24];
    const redco_recompute set = t->options.recompute;
    (void)redco_recompute_text(set, false, word, sizeof word);
    (void)snprintf(what, sizeof what, redco_recompute_mixes(set) ? "%s recomputation" : "recomputation of %s",
                   set == REDCO_RECOMPUTE_MLP ? "the FFN" : word);
    say(t, "recompute", word, what, "");
}

static bool more_recomputation(trial *t, bool most)
{
    redco_search_options *const o = &t->options;
    const redco_recompute now = o->recompute;
    if (now == REDCO_RECOMPUTE_FREE || now == REDCO_RECOMPUTE_FULL) { return false; }
    o->recompute = REDCO_RECOMPUTE_FREE;
    const redco_recompute_list sets = redco_search_recompute(t->inputs.model, o);
    for (uint32_t i = 0; i < sets.count; i++) {
        o->recompute = sets.sets[i];
        if (most ? o->recompute != REDCO_RECOMPUTE_FULL : o->recompute <= now || !fits(t)) { continue; }
        say_recomputation(t);
        return true;
    }
    o->recompute = now;
    return false;
}

static bool fuse_loss(trial *t, bool most)
{
    redco_engine *const engine = &t->options.workload.engine;
    if (engine->fused_loss || engine->logits_gathered || engine->planned_memory) { return false; }
    engine->fused_loss = true;
    engine->stated |= 1U << REDCO_TRAIT_CROSS_ENTROPY;
    if (!most && !fits(t)) { return false; }
    say(t, NULL, "", "a loss that is fused with its gradient (the engine's cross_entropy=fused)", "");
    return true;
}

static bool narrow_gradients(trial *t, bool most)
{
    redco_engine *const engine = &t->options.workload.engine;
    if (engine->gradient_bytes != 4 || t->options.workload.precision == REDCO_FP32) { return false; }
    engine->gradient_bytes = 2;
    if (!most && !fits(t)) { return false; }
    say(t, NULL, "", "gradients of 2 bytes instead of 4 (the engine's grad_reduce_bytes=2)", "");
    return true;
}

/* Megatron's precision-aware optimizer, which is Transformer Engine's Adam. */
static bool narrow_moments(trial *t, bool most)
{
    redco_engine *const engine = &t->options.workload.engine;
    const bool has = engine->memory == REDCO_MEMORY_MEGATRON && engine->software == REDCO_SOFTWARE_TE_XLA;
    if (!has || engine->optimizer != REDCO_OPTIMIZER_ADAMW || engine->moment_bytes == 2 ||
        t->options.workload.precision == REDCO_FP32) {
        return false;
    }
    engine->moment_bytes = 2;
    if (!most && !fits(t)) { return false; }
    say(t, NULL, "", "optimizer moments of 2 bytes instead of 4 (the engine's moment_bytes=2)", "");
    return true;
}

/* DeepSpeed's optimizer, FSDP's shards: what these engines have. */
static bool offload_states(trial *t, bool most)
{
    redco_engine *const engine = &t->options.workload.engine;
    const bool zero = engine->memory == REDCO_MEMORY_ZERO;
    const bool has = zero || engine->memory == REDCO_MEMORY_EAGER || engine->memory == REDCO_MEMORY_PYTORCH;
    if (!has || engine->planned_memory || engine->offload != REDCO_OFFLOAD_NONE) { return false; }
    engine->offload = zero ? REDCO_OFFLOAD_OPTIMIZER : REDCO_OFFLOAD_PARAMETERS;
    if (!most && !fits(t)) { return false; }
    say(t, NULL, "",
        zero ? "states of the optimizer on the host (the engine's offload=optimizer)"
             : "sharded states on the host (the engine's offload=parameters)",
        "");
    return true;
}

/* Such a remedy is of no use: --dims leaves the dimension out, or the engine does not have it. */
static bool is_left_out(const redco_search_options *options, uint32_t dimension)
{
    const uint32_t has = options->allows.dimensions;
    return (options->excluded & dimension) != 0 || (has != 0 && (has & dimension) == 0);
}

/* Norms and dropout split over the tensor-parallel ranks. */
static bool split_sequence(trial *t, bool most)
{
    redco_search_options *const o = &t->options;
    const bool one = o->given.tp == 1 || t->machine.gpus_per_node == 1 || is_left_out(o, REDCO_HAS_SP);
    if (o->sequence_parallel == REDCO_ON || o->sequence_parallel == REDCO_EITHER || one) { return false; }
    o->sequence_parallel = REDCO_ON;
    if (!most && !fits(t)) { return false; }
    say(t, NULL, "", "sequence parallelism", "");
    return true;
}

static bool freed_meshes(trial *t, bool most)
{
    redco_search_options *const o = &t->options;
    const redco_shards *f = &o->fix;
    const bool fixed = f->parameters.gpus != 0 || f->gradients.gpus != 0 || f->optimizer.gpus != 0;
    if (o->strategy == REDCO_STRATEGY_ANY && !fixed) { return false; }
    o->fix = (redco_shards){.parameters = {0, 0}};
    o->strategy = REDCO_STRATEGY_ANY;
    if (!most && !fits(t)) { return false; }
    say(t, fixed ? "shards" : "strategy", "", "other sharding", "");
    return true;
}

static bool higher_tp(trial *t, bool most)
{
    redco_search_options *const o = &t->options;
    const bool comm = o->objective == REDCO_OBJECTIVE_COMM || o->strategy == REDCO_STRATEGY_AMSP;
    /* Chosen freely, all inside the links of a node were tried. */
    const uint32_t domain = redco_machine_domain(&t->machine), node = t->machine.gpus_per_node;
    if (is_left_out(o, REDCO_HAS_TP)) { return false; }
    const uint32_t now = o->given.tp != 0 ? o->given.tp : comm ? 1 : domain;
    for (uint32_t tp = most ? domain : now + 1; tp > now && tp <= node; tp++) {
        if (node % tp != 0) { continue; }
        o->given.tp = tp;
        if (!most && !fits(t)) { continue; }
        char what[64];
        (void)snprintf(what, sizeof what, "tensor parallelism of %u", tp);
        say_number(t, "tp", tp, now, what, tp > domain ? ", beyond the GPUs that links join," : "");
        return true;
    }
    return false;
}

static bool more_stages(trial *t, bool most)
{
    redco_search_options *const o = &t->options;
    const bool comm = o->objective == REDCO_OBJECTIVE_COMM || o->strategy == REDCO_STRATEGY_AMSP;
    if ((redco_degree_is_free(o->given.pp) && !comm) || is_left_out(o, REDCO_HAS_PP) || most) { return false; }
    const uint32_t now = o->given.pp != 0 && !redco_degree_is_free(o->given.pp) ? o->given.pp : 1;
    const uint64_t gpus = (uint64_t)t->machine.nodes * t->machine.gpus_per_node;
    for (uint32_t pp = now + 1; pp <= gpus && pp <= MOST_STAGES; pp++) {
        if (gpus % pp != 0) { continue; }
        o->given.pp = pp;
        if (!fits(t)) { continue; }
        char what[64];
        (void)snprintf(what, sizeof what, "%u pipeline stages", pp);
        say_number(t, "pp", pp, now, what, "");
        return true;
    }
    return false;
}

static bool shorter_sequences(trial *t, bool most)
{
    redco_search_options *const o = &t->options;
    const uint32_t now = o->given.cp != 0 && !redco_degree_is_free(o->given.cp) ? o->given.cp : 1;
    const uint64_t gpus = (uint64_t)t->machine.nodes * t->machine.gpus_per_node;
    if (redco_degree_is_free(o->given.cp) || is_left_out(o, REDCO_HAS_CP) || most) { return false; }
    for (uint32_t cp = 2 * now; cp <= gpus && cp <= MOST_STAGES; cp *= 2) {
        o->given.cp = cp;
        if (!fits(t)) { continue; }
        char what[64];
        (void)snprintf(what, sizeof what, "context parallelism of %u", cp);
        say_number(t, "cp", cp, now, what, "");
        return true;
    }
    return false;
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

/* Between half of these nodes, which do not fit, and all of them, of which a layout fits: the fewest that have a plan.
 * A plan takes much longer to find than a layout that fits, and of fewer GPUs less long.
 * @return whether there is one; else the nodes are as they were */
static bool fewest_nodes(trial *t)
{
    enum { TRIES = 8 };
    const uint32_t all = t->machine.nodes, step = all / 2 > TRIES ? all / 2 / TRIES : 1;
    for (uint32_t nodes = all / 2 + step; nodes < all; nodes += step) {
        t->machine.nodes = nodes;
        if (fits(t)) { return true; }
    }
    t->machine.nodes = all;
    return has_plan(t);
}

static bool more_nodes(trial *t, bool most)
{
    redco_machine *const larger = &t->machine;
    const uint64_t now = (uint64_t)larger->nodes * larger->gpus_per_node;
    while (!most && enlarge(larger)) {
        /* More ranks than sequences, whatever the tensor-parallel degree: no further. */
        if (larger->nodes > t->options.workload.global_batch) { return false; }
        if (!holds(t) || !fewest_nodes(t)) { continue; }
        char what[80], rest[120] = "";
        (void)snprintf(what, sizeof what, "%llu GPUs (%u node%s) instead of %llu",
                       (unsigned long long)larger->nodes * larger->gpus_per_node, larger->nodes,
                       larger->nodes == 1 ? "" : "s", (unsigned long long)now);
        if (larger->most_nodes > 0 && larger->nodes > larger->most_nodes) {
            (void)snprintf(rest, sizeof rest, ", but %.63s has %u node%s", larger->name, larger->most_nodes,
                           larger->most_nodes == 1 ? "" : "s");
        }
        say(t, NULL, "", what, "");
        (void)snprintf(t->remedy.aside, sizeof t->remedy.aside, "%s", rest);
        return true;
    }
    return false;
}

/* In the order of what they usually cost; nodes cost money. */
static const change changes[] = {smaller_micro_batch, more_recomputation, fuse_loss,         narrow_gradients,
                                 narrow_moments,      offload_states,     split_sequence,    freed_meshes,
                                 higher_tp,           more_stages,        shorter_sequences, more_nodes};
enum { CHANGES = sizeof changes / sizeof changes[0], LAST_WITHOUT_NODES = CHANGES - 1 };

/* Each change of @p made but @p without, as far as it goes. */
static trial together(const redcoi_inputs *inputs, const redco_search_options *options, uint32_t made, size_t without)
{
    trial t = begin(inputs, options);
    for (size_t i = 0; i < LAST_WITHOUT_NODES; i++) {
        if (i != without && (made >> i & 1U) != 0 && t.remedy.part_count + 1 < REDCO_REMEDY_PARTS) {
            (void)changes[i](&t, true);
        }
    }
    return t;
}

/* Several changes where none suffices, with more nodes where all do not: as few as it takes, without those that cost
 * most where possible. */
static bool several(const redcoi_inputs *inputs, const redco_search_options *options, redco_remedy *remedy_out)
{
    uint32_t made = (1U << LAST_WITHOUT_NODES) - 1;
    trial all = together(inputs, options, made, CHANGES);
    if (all.remedy.part_count == 0) { return false; } /* nodes alone were tried */
    const bool enough = fits(&all);
    if (!enough && !more_nodes(&all, false)) { return false; }
    if (!enough) {
        redco_remedy_part *const nodes = &all.remedy.parts[all.remedy.part_count - 1];
        (void)snprintf(nodes->what, sizeof nodes->what, "%llu GPUs",
                       (unsigned long long)all.machine.nodes * all.machine.gpus_per_node);
    }
    for (size_t i = LAST_WITHOUT_NODES; i-- > 0;) {
        trial fewer = together(inputs, options, made, i);
        if (fewer.remedy.part_count + (enough ? 0 : 1) == all.remedy.part_count) { continue; } /* it changes nothing */
        fewer.machine = all.machine;
        if (!fits(&fewer)) { continue; }
        made &= ~(1U << i);
        if (!enough) {
            fewer.remedy.parts[fewer.remedy.part_count++] = all.remedy.parts[all.remedy.part_count - 1];
            memcpy(fewer.remedy.aside, all.remedy.aside, sizeof all.remedy.aside);
        }
        all = fewer;
    }
    all.remedy.more_gpus = !enough;
    *remedy_out = all.remedy;
    return true;
}

/* The fastest first; where steps are not known, in the order of trial. More GPUs last. */
static bool goes_before(const redco_remedy *a, const redco_remedy *b)
{
    return a->step_s > 0.0 && b->step_s > 0.0 && !a->more_gpus && (b->more_gpus || a->step_s < b->step_s);
}

const char *redco_remedy_text(const redco_remedy *remedy, const char *(*option_of)(const char *quantity), bool sentence,
                              char *buffer, size_t size)
{
    size_t used = 0;
    for (uint32_t i = 0; i < remedy->part_count && used < size; i++) {
        const redco_remedy_part *const part = &remedy->parts[i];
        const char *const between = i == 0 ? "" : i + 1 < remedy->part_count ? ", " : " and ";
        char named[128] = "";
        if (part->quantity != NULL && option_of != NULL) {
            const bool freed = part->value[0] == '\0';
            (void)snprintf(named, sizeof named, " (%s%s%s%s)", freed ? "without " : "", option_of(part->quantity),
                           freed ? "" : " ", part->value);
        }
        used += (size_t)snprintf(buffer + used, size - used, "%s%s%s%s", between, part->what, named, part->rest);
    }
    if (used < size) {
        const char *const says = !sentence ? "" : remedy->part_count > 1 ? " together would fit" : " would fit";
        (void)snprintf(buffer + used, size - used, "%s%s", says, remedy->aside);
    }
    return buffer;
}

void redcoi_remedies_find(const redcoi_inputs *inputs, const redco_search_options *options, redco_shortfall *out)
{
    for (size_t i = 0; i < CHANGES; i++) {
        trial t = begin(inputs, options);
        if (!changes[i](&t, false)) { continue; }
        t.remedy.more_gpus = changes[i] == more_nodes;
        uint32_t at = out->remedy_count++;
        for (; at > 0 && goes_before(&t.remedy, &out->remedies[at - 1]); at--) {
            out->remedies[at] = out->remedies[at - 1];
        }
        out->remedies[at] = t.remedy;
    }
    if (out->remedy_count == 0 && several(inputs, options, &out->remedies[0])) { out->remedy_count = 1; }
    if (out->remedy_count > 0) {
        (void)redco_remedy_text(&out->remedies[0], NULL, true, out->cheapest_change, sizeof out->cheapest_change);
        return;
    }
    (void)snprintf(
        out->cheapest_change, sizeof out->cheapest_change,
        "no change of recomputation, loss, tensor, sequence, pipeline or context parallelism, micro-batch, sharding, "
        "bytes of gradients or moments, states on the host or node count fits%s",
        options->excluded != 0 ? ", where excluded dimensions stay 1" : "");
}
