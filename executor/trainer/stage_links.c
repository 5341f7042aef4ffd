/* A stage among its neighbours: which parameters are its own, and the groups of two over which values come and go. */
#include "executor/trainer/trainer_internal.h"

#include <stdlib.h>

static redco_status no_memory(const redco_trainer *t, redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, t->place, "no memory for its stage");
}

/* The task of this rank has its stage's parameters only, in the order of its modules. */
redco_status redcoi_stage_task(redco_trainer *t, redco_error *err)
{
    const redcoi_modules *const m = &t->modules;
    const uint32_t count = m->model.tensor_count;
    t->stage_parameters = calloc((size_t)count + 1, sizeof *t->stage_parameters);
    t->layouts = calloc((size_t)count + 1, sizeof *t->layouts);
    t->written_elsewhere = t->stage.count > 1 ? calloc((size_t)count + 1, sizeof *t->written_elsewhere) : NULL;
    if (t->stage_parameters == NULL || t->layouts == NULL || (t->stage.count > 1 && t->written_elsewhere == NULL)) {
        return no_memory(t, err);
    }
    for (uint32_t i = 0; i < count; i++) {
        t->stage_parameters[i] = t->whole->parameters[m->parameter_of[i]];
        t->layouts[i] = t->whole_layouts[m->parameter_of[i]];
        if (t->written_elsewhere == NULL) { continue; }
        t->written_elsewhere[i] = redcoi_stage_at(&t->stage, t->stage.first_use[m->parameter_of[i]]) != t->stage.own;
    }
    t->stage_task = *t->whole;
    t->stage_task.parameters = t->stage_parameters;
    t->stage_task.parameter_count = count;
    t->task = &t->stage_task;
    return REDCO_OK;
}

/* The two stages that have the same tables; the same one twice where none do. */
redco_status redcoi_stage_sharers(const redco_trainer *t, uint32_t by[2], redco_error *err)
{
    const redcoi_stage *const stage = &t->stage;
    by[0] = by[1] = 0;
    for (size_t i = 0; stage->count > 1 && i < t->whole->parameter_count; i++) {
        if (!redcoi_stage_shares(stage, i)) { continue; }
        const uint32_t first = redcoi_stage_at(stage, stage->first_use[i]),
                       last = redcoi_stage_at(stage, stage->last_use[i]);
        if (by[0] != by[1] && (by[0] != first || by[1] != last)) {
            return redco_fail(err, REDCO_EVALUE, t->whole->parameters[i].name,
                              "is on stages %u and %u, and other tables on stages %u and %u: one pair is executed",
                              first, last, by[0], by[1]);
        }
        by[0] = first;
        by[1] = last;
    }
    return REDCO_OK;
}

/* Pairs of neighbouring stages, of which no two of one colour have a stage in common. The pair of a stage and the next
 * one, the first behind the last, has the stage's. */
static uint32_t colour_of(uint32_t stage, uint32_t stages)
{
    return stage + 1 == stages && stages % 2 == 1 ? 2 : stage % 2;
}

/* Groups of two, rank by rank; all ranks make them. */
static redco_status split_pairs(redco_trainer *t, uint32_t colour, const char *name, redco_process_group **group_out,
                                redco_error *err)
{
    const uint32_t ranks = t->device_comm->size, each = (uint32_t)redco_rank_count(t->mesh), stages = t->stage.count;
    uint32_t *const colours = calloc(ranks, sizeof *colours);
    if (colours == NULL) { return no_memory(t, err); }
    for (uint32_t r = 0; r < ranks; r++) { colours[r] = r; }
    for (uint32_t stage = 0; stage < stages; stage++) {
        if (colour_of(stage, stages) != colour) { continue; }
        for (uint32_t i = 0; i < each; i++) { colours[(stage + 1) % stages * each + i] = stage * each + i; }
    }
    const redco_process_group_options options = {colours, REDCO_TRAFFIC_OTHER, name};
    const redco_status st = redco_process_group_split(t->device_comm, &options, group_out, err);
    free(colours);
    return st;
}

redco_status redcoi_stage_join(redco_trainer *t, redco_error *err)
{
    redco_status st = REDCO_OK;
    for (uint32_t d = 0; t->stage.count > 1 && d < 2; d++) {
        for (uint32_t colour = 0; colour < REDCOI_PAIR_COLOURS && st == REDCO_OK; colour++) {
            st = split_pairs(t, colour, d == 0 ? "forward between stages" : "backward between stages",
                             &t->pairs[d][colour], err);
        }
    }
    return st;
}

redco_stage_links redcoi_stage_links_of(const redco_trainer *t)
{
    const redcoi_crossings *const x = &t->crossings;
    const uint32_t own = t->stage.own, stages = t->stage.count;
    const uint32_t next = colour_of(own, stages), before = colour_of((own + stages - 1) % stages, stages);
    redco_stage_links links = {.pipeline = redco_parallelism_pipeline(&t->plan->parallelism),
                               .stage = own,
                               .position_of = t->stage.position_of,
                               .from = {t->pairs[0][before], t->pairs[1][next]},
                               .to = {t->pairs[0][next], t->pairs[1][before]}};
    for (int d = 0; d < 2; d++) {
        links.in[d] = x->in[d].of;
        links.out[d] = x->out[d].of;
        links.in_count[d] = x->in[d].count;
        links.out_count[d] = x->out[d].count;
    }
    return links;
}

/* Values of the graph as it was cut, in the graph that is run. One that came and is read by nobody is in neither. */
void redcoi_stage_find_crossings(redco_trainer *t)
{
    redcoi_crossings *const x = &t->crossings;
    uint32_t at = t->output_count - x->out[0].count - x->out[1].count;
    for (int d = 0; t->stage.count > 1 && d < 2; d++) {
        for (uint32_t i = 0; i < x->out[d].count; i++) { x->out[d].of[i].value = t->outputs[at++]; }
        for (uint32_t i = 0; i < x->in[d].count; i++) {
            char name[REDCOI_CROSSING_NAME];
            x->in[d].of[i].value = redco_graph_find_input(t->graph, redcoi_crossing_name(d, i, name));
        }
    }
}

void redcoi_stage_leave(redco_trainer *t)
{
    for (int d = 0; d < 2; d++) {
        for (int colour = 0; colour < REDCOI_PAIR_COLOURS; colour++) { redco_process_group_free(t->pairs[d][colour]); }
    }
    redco_step_free(t->own_step);
    redcoi_stage_free(&t->stage);
    free(t->stage_parameters);
    free(t->written_elsewhere);
}
