/* Ranks run the same functions of a pipeline, which must make the same of the same. */
#include "executor/trainer/trainer_internal.h"

/* Over all ranks, as the groups cross. */
static redco_status largest(redco_trainer *t, double *value, redco_error *err)
{
    const redco_status st = redco_all_reduce(t->replicas, REDCO_F64, REDCO_REDUCE_MAX, value, 1, "agreement", err);
    return st == REDCO_OK ? redco_all_reduce(t->tp_host, REDCO_F64, REDCO_REDUCE_MAX, value, 1, "agreement", err) : st;
}

redco_status redcoi_ranks_agree(redco_trainer *t, uint64_t digest, const char *made, const char *rule, redco_error *err)
{
    const uint32_t size = redco_world_size(t->world), rank = redco_world_rank(t->world);
    uint64_t first = digest;
    if (t->replay) { return REDCO_OK; }
    redco_status st = redco_broadcast(t->replicas, REDCO_F64, &first, 1, 0, "agreement", err);
    if (st == REDCO_OK) { st = redco_broadcast(t->tp_host, REDCO_F64, &first, 1, 0, "agreement", err); }
    double other = first == digest ? 0.0 : (double)(size - rank);
    if (st == REDCO_OK) { st = largest(t, &other, err); }
    if (st != REDCO_OK || other == 0.0) { return st; }
    return redco_fail(err, REDCO_EVALUE, t->task->name, "%s on rank %u than on rank 0; %s", made,
                      size - (uint32_t)other, rule);
}
