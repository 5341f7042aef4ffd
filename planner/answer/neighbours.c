/* The neighbours of an answer: each is the answer to the question with one more thing fixed. */
#include "planner/answer/explain.h"
#include "planner/answer/priced.h"
#include "planner/answer/question.h"
#include "planner/search/strategy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct explorer {
    const redco_question *question;
    const redco_inputs *inputs;
    const redco_search_options *options;
    const redco_candidate *best; /**< these are its neighbours */
    redco_neighbour *out;
    size_t count;
    redco_search_result *answer;
    redco_error *err;
};

/* Meshes that are fixed are priced whether the engine has them or not: those of the question, then its neighbours'. */
static bool has_shards(const struct explorer *explorer, const redco_search_options *asked, const redco_candidate *found)
{
    const redco_machine *const machine = &explorer->inputs->machine;
    const redco_mesh grid = redco_shard_grid(machine, &asked->workload.engine, &found->parallelism);
    const redco_shards *const fix = &explorer->options->fix;
    const bool given = fix->parameters.gpus > 0 || fix->gradients.gpus > 0 || fix->optimizer.gpus > 0 ||
                       explorer->options->strategy != REDCO_STRATEGY_ANY;
    for (uint32_t i = 0; i < found->assignment_count && asked->allows.states != 0 && !given; i++) {
        if (!redco_strategy_runs(asked->allows.states, grid, found->parallelism.secondary,
                                 &found->assignments[i].config.shards)) {
            return false;
        }
    }
    return true;
}

static const char not_as_given[] = "not as given";

/* @param aside  why the question has no such plan: it fixes what is moved, say; NULL: it may have it. Static */
static redco_status try_one(struct explorer *explorer, const redco_search_options *options, const char *what,
                            const char *aside)
{
    redco_search_options asked = *options;
    redco_search_result *result = NULL;
    redco_error why = {0};
    size_t lacking = 0;
    const redco_inputs *inputs = explorer->inputs;
    const char *lacks[REDCO_MOST_LACKS];
    if (explorer->count == REDCO_MOST_NEIGHBOURS) { return REDCO_OK; }
    redco_neighbour *neighbour = &explorer->out[explorer->count++];
    *neighbour = (redco_neighbour){.feasible = false};
    (void)snprintf(neighbour->what, sizeof neighbour->what, "%s", what);
    redco_status st = redco_options_executable(&asked, inputs, &why); /* as it would be refused if it were asked */
    if (st == REDCO_OK) {
        st = redco_question_ask(explorer->question, inputs,
                                (uint64_t)inputs->machine.nodes * inputs->machine.gpus_per_node, &asked, &lacking,
                                &result, &why);
    }
    if (st == REDCO_EVALUE) {
        (void)snprintf(neighbour->reason, sizeof neighbour->reason, "%.150s", why.text);
        return REDCO_OK;
    }
    if (st != REDCO_OK) { return redco_fail(explorer->err, st, why.place, "%s", why.text); }
    if (result->ranked_count == 0) {
        neighbour->short_bytes = result->shortfall.short_bytes;
    } else {
        const redco_candidate *found = &result->ranked[0];
        const bool has = lacking <= redco_options_lack(explorer->options, inputs, lacks);
        if (!has || !has_shards(explorer, &asked, found)) {
            (void)snprintf(neighbour->reason, sizeof neighbour->reason, "%s does not %s", asked.workload.engine.name,
                           has ? "shard like this" : "have it");
            redco_search_result_free(result);
            return REDCO_OK;
        }
        neighbour->feasible = true;
        neighbour->cost_ratio = redco_candidate_ratio(explorer->options, found, explorer->best);
        neighbour->parallelism = found->parallelism;
        neighbour->shards = redco_main_assignment(found)->config.shards;
        neighbour->step_s = found->prediction.step_s;
        neighbour->aside =
            aside != NULL ? aside : redco_search_leaves_out(&inputs->machine, explorer->options, &found->parallelism);
        const char *const other = redco_question_other_engine(inputs, &asked);
        if (other != NULL) { /* another engine's plan is no plan of this one */
            (void)snprintf(neighbour->engine, sizeof neighbour->engine, "%s", other);
        } else if (neighbour->aside == NULL && redco_answer_beaten(explorer->options, found, explorer->answer)) {
            st = redco_answer_adopt(explorer->options, found, explorer->answer, explorer->err);
        }
    }
    redco_search_result_free(result);
    return st;
}

/* The question as it was asked, but for the one thing that a caller fixes next. */
static redco_search_options as_asked(const struct explorer *explorer)
{
    redco_search_options options = *explorer->options;
    options.verify = false;
    options.top = 1;
    return options;
}

static redco_status try_meshes(struct explorer *explorer, size_t offset, const char *name)
{
    redco_mesh *chain = NULL;
    size_t length = 0;
    redco_mesh now;
    memcpy(&now, (const char *)&redco_main_assignment(explorer->best)->config.shards + offset, sizeof now);
    redco_status st = redco_mesh_options(
        redco_shard_grid(&explorer->inputs->machine, &explorer->options->workload.engine, &explorer->best->parallelism),
        &chain, &length, explorer->err);
    if (st != REDCO_OK) { return st; }
    size_t at = 0;
    while (at < length && !redco_mesh_equal(chain[at], now)) { at++; }
    for (int step = -1; step <= 1 && st == REDCO_OK && at < length; step += 2) {
        char what[48];
        if ((step < 0 && at == 0) || (step > 0 && at + 1 == length)) { continue; }
        const redco_mesh moved = chain[step < 0 ? at - 1 : at + 1];
        redco_search_options options = as_asked(explorer);
        redco_mesh before;
        memcpy(&before, (const char *)&options.fix + offset, sizeof before);
        const bool given = before.gpus > 0 || options.strategy != REDCO_STRATEGY_ANY;
        options.strategy = REDCO_STRATEGY_ANY;
        memcpy((char *)&options.fix + offset, &moved, sizeof moved);
        (void)snprintf(what, sizeof what, "%s %u\xc3\x97%u", name, moved.gpus, moved.nodes);
        st = try_one(explorer, &options, what, given ? not_as_given : NULL);
    }
    free(chain);
    return st;
}

/* The next divisor of @p whole below or above @p now, 0 if there is none within a factor of 64. */
static uint64_t next_divisor(uint64_t whole, uint64_t now, int step)
{
    const uint64_t least = step < 0 ? 1 : now;
    const uint64_t most = step < 0 ? now : now * 64;
    for (uint64_t d = step < 0 ? now - 1 : now + 1; d >= least && d <= most && d <= whole;
         d = step < 0 ? d - 1 : d + 1) {
        if (whole % d == 0) { return d; }
    }
    return 0;
}

/* One of the degrees moved to the next divisor of @p whole. @param offset  of the degree in redco_search_options */
static redco_status try_degree(struct explorer *explorer, const char *name, size_t offset, uint64_t whole, uint32_t now,
                               int step)
{
    char what[48];
    const uint64_t moved = next_divisor(whole, now, step);
    if (moved == 0 || moved > UINT32_MAX) { return REDCO_OK; }
    const uint32_t degree = (uint32_t)moved;
    uint32_t before = 0;
    redco_search_options options = as_asked(explorer);
    memcpy(&before, (const char *)&options + offset, sizeof before);
    memcpy((char *)&options + offset, &degree, sizeof degree);
    (void)snprintf(what, sizeof what, "%s %u", name, degree);
    return try_one(explorer, &options, what, before != 0 && !redco_degree_is_free(before) ? not_as_given : NULL);
}

/* T_comm leaves the traffic of all three out. */
static redco_status try_degrees(struct explorer *explorer)
{
    const redco_machine *machine = &explorer->inputs->machine;
    const redco_parallelism *now = &explorer->best->parallelism;
    const uint64_t ranks = (uint64_t)machine->nodes * machine->gpus_per_node / now->tp;
    const bool comm = explorer->options->objective == REDCO_OBJECTIVE_COMM;
    redco_status st = REDCO_OK;
    for (int step = -1; step <= 1 && st == REDCO_OK; step += 2) {
        st =
            try_degree(explorer, "tp", offsetof(redco_search_options, given.tp), machine->gpus_per_node, now->tp, step);
    }
    for (int step = -1; step <= 1 && st == REDCO_OK && !comm; step += 2) {
        st = try_degree(explorer, "pp", offsetof(redco_search_options, given.pp), ranks / now->cp, now->pp, step);
    }
    for (int step = -1; step <= 1 && st == REDCO_OK && !comm; step += 2) {
        st = try_degree(explorer, "cp", offsetof(redco_search_options, given.cp), ranks / now->pp, now->cp, step);
    }
    return st;
}

/* Ranks that share experts out, experts cut as the dense part or whole, and what carries rows to them. */
static redco_status try_experts(struct explorer *explorer)
{
    static const redco_dispatcher dispatchers[] = {REDCO_DISPATCHER_ALL_TO_ALL, REDCO_DISPATCHER_DEEPEP,
                                                   REDCO_DISPATCHER_HYBRIDEP};
    const redco_parallelism *const now = &explorer->best->parallelism;
    const uint32_t experts = redco_model_get_dims(explorer->inputs->model)->experts, ep = redco_parallelism_ep(now);
    const uint32_t etp = redco_parallelism_etp(now), moved = etp == 1 ? now->tp : 1;
    redco_status st = REDCO_OK;
    if (experts == 0 || explorer->options->objective == REDCO_OBJECTIVE_COMM) { return REDCO_OK; }
    for (int step = -1; step <= 1 && st == REDCO_OK; step += 2) {
        st = try_degree(explorer, "ep", offsetof(redco_search_options, given.ep), experts, ep, step);
    }
    if (st == REDCO_OK && moved != etp) {
        redco_search_options options = as_asked(explorer);
        char what[48];
        const bool given = options.given.etp != 0;
        options.given.etp = moved;
        (void)snprintf(what, sizeof what, "etp %u", moved);
        st = try_one(explorer, &options, what, given ? not_as_given : NULL);
    }
    for (size_t i = 0; i < sizeof dispatchers / sizeof dispatchers[0] && st == REDCO_OK && ep > 1; i++) {
        redco_search_options options = as_asked(explorer);
        redco_engine_choice choice = {.engine = options.workload.engine};
        char what[48], word[32];
        if (dispatchers[i] == choice.engine.dispatcher) { continue; }
        choice.engine.dispatcher = options.workload.engine.dispatcher = dispatchers[i];
        (void)snprintf(
            what, sizeof what, "dispatcher %s",
            redco_engine_trait(&choice, options.workload.precision, REDCO_TRAIT_DISPATCHER, word, sizeof word));
        st = try_one(explorer, &options, what, "a trait of the engine");
    }
    return st;
}

static redco_status try_micro_batch(struct explorer *explorer, int step)
{
    char what[48];
    const redco_parallelism *parallelism = &explorer->best->parallelism;
    const uint64_t replica = parallelism->micro_batches * parallelism->micro_batch;
    const uint64_t moved = next_divisor(replica, parallelism->micro_batch, step);
    if (moved == 0 || moved > UINT32_MAX) { return REDCO_OK; }
    redco_search_options options = as_asked(explorer);
    options.given.micro_batch = (uint32_t)moved;
    (void)snprintf(what, sizeof what, "micro-batch %u", options.given.micro_batch);
    return try_one(explorer, &options, what, explorer->options->given.micro_batch != 0 ? not_as_given : NULL);
}

static bool is_set_of_all(const redco_candidate *candidate, redco_recompute set)
{
    for (uint32_t i = 0; i < candidate->assignment_count; i++) {
        if (candidate->assignments[i].layers > 0 && candidate->assignments[i].config.recompute != set) { return false; }
    }
    return true;
}

/* @param half  of whole layers, half of each */
static redco_status try_recompute(struct explorer *explorer, redco_recompute set, bool half)
{
    char what[REDCO_RECOMPUTE_TEXT + 16], word[REDCO_RECOMPUTE_TEXT];
    const bool layers = set == REDCO_RECOMPUTE_FULL;
    if (is_set_of_all(explorer->best, set) && (!layers || explorer->best->half == half)) { return REDCO_OK; }
    redco_search_options options = as_asked(explorer);
    options.recompute = set;
    if (layers) { options.workload.engine.partial_recompute = half; }
    (void)snprintf(what, sizeof what, "recompute %s", redco_recompute_text(set, half, word, sizeof word));
    const bool given = explorer->options->recompute != REDCO_RECOMPUTE_FREE || explorer->options->modules;
    return try_one(explorer, &options, what, given ? not_as_given : NULL);
}

/* The sets that the engine offers, half of whole layers before all of them. */
static redco_status try_recomputations(struct explorer *explorer)
{
    const redco_recompute_list *const offered = &explorer->options->allows.recompute;
    redco_search_options free = *explorer->options;
    redco_status st = REDCO_OK;
    free.recompute = REDCO_RECOMPUTE_FREE;
    const redco_recompute_list sets = redco_search_recompute(explorer->inputs->model, &free);
    for (uint32_t i = 0; i < sets.count && st == REDCO_OK; i++) {
        const bool full = sets.sets[i] == REDCO_RECOMPUTE_FULL;
        if (full && redco_recompute_has(offered, REDCO_RECOMPUTE_HALF)) {
            st = try_recompute(explorer, sets.sets[i], true);
        }
        if (!full || offered->count == 0 || redco_recompute_has(offered, REDCO_RECOMPUTE_FULL)) {
            st = st == REDCO_OK ? try_recompute(explorer, sets.sets[i], false) : st;
        }
    }
    return st;
}

redco_status redco_neighbours(const redco_question *question, const redco_inputs *inputs,
                              const redco_search_options *options, redco_search_result *answer,
                              redco_neighbour *neighbours_out, size_t *count_out, redco_error *err)
{
    redco_candidate first;
    redco_status st = redco_candidate_copy(&answer->ranked[0], &first, err); /* another may lead soon */
    if (st != REDCO_OK) { return st; }
    struct explorer explorer = {.question = question,
                                .inputs = inputs,
                                .options = options,
                                .answer = answer,
                                .best = &first,
                                .out = neighbours_out,
                                .err = err};
    if ((st = try_meshes(&explorer, offsetof(redco_shards, parameters), "parameters")) == REDCO_OK &&
        (st = try_meshes(&explorer, offsetof(redco_shards, gradients), "gradients")) == REDCO_OK &&
        (st = try_meshes(&explorer, offsetof(redco_shards, optimizer), "optimizer")) == REDCO_OK &&
        (st = try_degrees(&explorer)) == REDCO_OK && (st = try_experts(&explorer)) == REDCO_OK &&
        (st = try_micro_batch(&explorer, -1)) == REDCO_OK && (st = try_micro_batch(&explorer, 1)) == REDCO_OK) {
        st = try_recomputations(&explorer);
    }
    const double ratio = redco_candidate_ratio(options, &answer->ranked[0], &first);
    for (size_t i = 0; i < explorer.count && isfinite(ratio); i++) { /* against the one that leads in the end */
        neighbours_out[i].cost_ratio = (1.0 + neighbours_out[i].cost_ratio) / (1.0 + ratio) - 1.0;
    }
    free(first.assignments);
    *count_out = explorer.count;
    return st;
}
