/* The process groups that the layers' meshes need, each made once. All ranks make them in the same order. */
#include "executor/states/states_internal.h"

#include <stdio.h>
#include <stdlib.h>

static const redco_mesh one = {1, 1};

/* A layer asks for at most so many. */
enum { GROUPS_OF_LAYER = 5 };

static bool same(const redcoi_group *g, redcoi_stream stream, redco_mesh inner, redco_mesh outer)
{
    return g->stream == stream && redco_mesh_equal(g->between.inner, inner) &&
           redco_mesh_equal(g->between.outer, outer);
}

redco_process_group *redcoi_group_find(const redco_states *states, redcoi_stream stream, redco_mesh inner,
                                       redco_mesh outer)
{
    for (uint32_t i = 0; i < states->group_count; i++) {
        if (same(&states->groups[i], stream, inner, outer)) { return states->groups[i].process_group; }
    }
    return NULL;
}

static const redco_traffic traffic_of[] = {[REDCOI_STREAM_PARAMETERS] = REDCO_TRAFFIC_PARAMETERS,
                                           [REDCOI_STREAM_SECONDARY] = REDCO_TRAFFIC_SECONDARY,
                                           [REDCOI_STREAM_GRADIENTS] = REDCO_TRAFFIC_GRADIENTS,
                                           [REDCOI_STREAM_UPDATE] = REDCO_TRAFFIC_UPDATE};

static redco_status split(redco_states *states, const redcoi_group *group, const char *name, redco_process_group **out,
                          redco_error *err)
{
    const redco_rank_mesh mesh = redco_layout_mesh(states->layout);
    const uint32_t ranks = states->device_comm->size, each = redcoi_stage_ranks(states);
    uint32_t *const colours = calloc(ranks, sizeof *colours);
    if (colours == NULL) { return redco_fail(err, REDCO_ENOMEM, name, "colours of %u ranks", ranks); }
    for (uint32_t r = 0; r < ranks; r++) {
        colours[r] = r / each * each + redco_between_colour(mesh, group->between, r % each);
    }
    const redco_process_group_options options = {colours, traffic_of[group->stream], name};
    const redco_status st = redco_process_group_split(states->device_comm, &options, out, err);
    free(colours);
    return st;
}

/* All ranks, for sums in the program's memory. */
static redco_status join_all(redco_states *states, redco_error *err)
{
    const uint32_t ranks = redco_world_size(states->world);
    uint32_t *const colours = calloc(ranks, sizeof *colours);
    if (colours == NULL) { return redco_fail(err, REDCO_ENOMEM, "states", "colours of %u ranks", ranks); }
    const redco_status st = redco_communicator_split(states->world, colours, "all ranks", &states->all, err);
    free(colours);
    return st;
}

static redco_status want(redco_states *states, redcoi_stream stream, redco_mesh inner, redco_mesh outer,
                         redco_error *err)
{
    static const char *const streams[] = {"parameters", "secondary parameters", "gradients", "updated parameters"};
    const redco_between between = {inner, outer};
    char name[64];
    if (redco_mesh_equal(inner, outer) || redcoi_group_find(states, stream, inner, outer) != NULL) { return REDCO_OK; }
    redcoi_group *const group = &states->groups[states->group_count];
    *group = (redcoi_group){stream, between, NULL};
    (void)snprintf(name, sizeof name, "%s %ux%u to %ux%u", streams[stream], inner.gpus, inner.nodes, outer.gpus,
                   outer.nodes);
    const redco_status st = split(states, group, name, &group->process_group, err);
    states->group_count += st == REDCO_OK ? 1 : 0;
    return st;
}

/* Every rank with its like in the other stage that has the same tables. */
static redco_status join_shared(redco_states *states, redco_error *err)
{
    const uint32_t ranks = states->device_comm->size, each = redcoi_stage_ranks(states);
    const uint32_t *const by = states->options.shared_by;
    if (by[0] == by[1]) { return REDCO_OK; }
    uint32_t *const colours = calloc(ranks, sizeof *colours);
    if (colours == NULL) { return redco_fail(err, REDCO_ENOMEM, "states", "colours of %u ranks", ranks); }
    for (uint32_t r = 0; r < ranks; r++) { colours[r] = r / each == by[1] ? by[0] * each + r % each : r; }
    const redco_process_group_options options = {colours, REDCO_TRAFFIC_OTHER, "shared tables"};
    const redco_status st = redco_process_group_split(states->device_comm, &options, &states->shared, err);
    free(colours);
    return st;
}

static redco_status want_layer(redco_states *states, const redco_shards *s, redco_error *err)
{
    const redco_mesh dp = redco_layout_mesh(states->layout).dp;
    const redco_mesh second = redco_layout_second_mesh(states->layout, s->parameters);
    redco_status st = want(states, REDCOI_STREAM_PARAMETERS, one, s->parameters, err);
    if (st == REDCO_OK && second.gpus > 0) { st = want(states, REDCOI_STREAM_SECONDARY, one, second, err); }
    if (st == REDCO_OK) { st = want(states, REDCOI_STREAM_GRADIENTS, s->parameters, dp, err); }
    if (st == REDCO_OK) { st = want(states, REDCOI_STREAM_GRADIENTS, s->parameters, s->gradients, err); }
    if (st == REDCO_OK) { st = want(states, REDCOI_STREAM_UPDATE, s->parameters, s->optimizer, err); }
    return st;
}

redco_status redcoi_groups_make(redco_states *states, redco_error *err)
{
    const uint32_t layers = redcoi_model(states)->layer_count;
    redco_status st = REDCO_OK;
    const uint32_t elsewhere = states->options.elsewhere_count;
    states->groups = calloc(((size_t)layers + elsewhere) * GROUPS_OF_LAYER + 1, sizeof *states->groups);
    if (states->groups == NULL) { return redco_fail(err, REDCO_ENOMEM, "states", "groups of %u layers", layers); }
    for (uint32_t i = 0; i < elsewhere && st == REDCO_OK; i++) {
        st = want_layer(states, &states->options.elsewhere[i], err);
    }
    for (uint32_t l = 0; l < layers && st == REDCO_OK; l++) { st = want_layer(states, redcoi_shards(states, l), err); }
    if (st == REDCO_OK) { st = join_shared(states, err); }
    return st == REDCO_OK ? join_all(states, err) : st;
}

void redcoi_groups_free(redco_states *states)
{
    for (uint32_t i = 0; i < states->group_count; i++) { redco_process_group_free(states->groups[i].process_group); }
    redco_process_group_free(states->shared);
    redco_communicator_free(states->all);
    free(states->groups);
}
