/* Facts that must be the same on all ranks before they begin. */
#include "executor/comm/transport.h"

#include <stdlib.h>
#include <string.h>

struct told {
    uint32_t count, failed; /* failed: rank 0 cannot start */
    redco_fact facts[REDCO_FACTS_MAX];
};

_Static_assert(sizeof(struct told) % sizeof(int32_t) == 0, "facts are sent as whole numbers of 32 bits");
_Static_assert(sizeof(redco_error) % sizeof(int32_t) == 0, "an error is sent as whole numbers of 32 bits");

static redco_status compare(const struct told *theirs, const struct told *own, redco_error *err)
{
    for (uint32_t i = 0; i < own->count && i < theirs->count; i++) {
        const redco_fact *const a = &own->facts[i], *const b = &theirs->facts[i];
        if (strncmp(a->name, b->name, sizeof a->name) != 0) {
            return redco_fail(err, REDCO_EVALUE, a->name, "is not what rank 0 compares; the programs are different");
        }
        if (strncmp(a->value, b->value, sizeof a->value) != 0) {
            return redco_fail(err, REDCO_EVALUE, a->name, "is %s; on rank 0 it is %s", a->value, b->value);
        }
    }
    if (own->count == theirs->count) { return REDCO_OK; }
    return redco_fail(err, REDCO_EVALUE, "", "%u things are compared, by rank 0 %u; the programs are different",
                      own->count, theirs->count);
}

/* FNV-1a, of what a rank that cannot start has to say. */
static int32_t digest(const redco_error *err)
{
    uint32_t hash = 2166136261U;
    for (const char *at = err->place; *at != '\0'; at++) { hash = (hash ^ (unsigned char)*at) * 16777619U; }
    for (const char *at = err->text; *at != '\0'; at++) { hash = (hash ^ (unsigned char)*at) * 16777619U; }
    return (int32_t)(hash >> 1);
}

/* @param outcomes  status and digest of each rank. @return the first that failed, or the number of ranks */
static uint32_t first_of(const int32_t *outcomes, uint32_t ranks, bool *alike_out)
{
    uint32_t first = 0;
    while (first < ranks && outcomes[2 * (size_t)first] == (int32_t)REDCO_OK) { first++; }
    *alike_out = first == 0;
    for (uint32_t rank = 1; rank < ranks && *alike_out; rank++) {
        *alike_out = memcmp(&outcomes[2 * (size_t)rank], outcomes, 2 * sizeof *outcomes) == 0;
    }
    return first;
}

static redco_status agree(redco_communicator *all, const struct told *own, redco_error *mine, uint32_t *culprit_out,
                          redco_error *err)
{
    static const char what[] = "start";
    const uint32_t ranks = redco_communicator_size(all), rank = redco_communicator_rank(all);
    struct told theirs = *own;
    redco_error said = {.status = REDCO_OK};
    bool alike = false;
    int32_t *const outcomes = calloc(2 * (size_t)ranks, sizeof *outcomes);
    redco_status st = outcomes != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, what, "out of memory");
    if (st == REDCO_OK) {
        st = redco_broadcast(all, REDCO_I32, &theirs, sizeof theirs / sizeof(int32_t), 0, what, err);
    }
    if (st != REDCO_OK) { goto out; }
    if (mine->status == REDCO_OK && theirs.failed == 0) { (void)compare(&theirs, own, mine); }
    const int32_t outcome[2] = {(int32_t)mine->status, digest(mine)};
    if ((st = redco_all_gather(all, REDCO_I32, outcome, outcomes, 2, what, err)) != REDCO_OK) { goto out; }
    const uint32_t first = first_of(outcomes, ranks, &alike);
    if (first == ranks) { goto out; }
    if (rank == first) {
        char place[sizeof said.place];
        redco_rank_place(rank, mine->place, place, sizeof place);
        (void)redco_fail(&said, mine->status, alike ? mine->place : place, "%s", mine->text);
    }
    st = redco_broadcast(all, REDCO_I32, &said, sizeof said / sizeof(int32_t), first, what, err);
    if (st == REDCO_OK) { st = redco_fail(err, said.status, said.place, "%s", said.text); }
    *culprit_out = alike ? 0 : first;
out:
    free(outcomes);
    return st;
}

redco_status redco_world_agree(redco_world *world, const redco_fact *facts, uint32_t count, const redco_error *failure,
                               uint32_t *culprit_out, redco_error *err)
{
    const uint32_t ranks = redco_world_size(world);
    redco_error mine = {.status = REDCO_OK};
    redco_communicator *all = NULL;
    uint32_t *const colours = calloc(ranks, sizeof *colours);
    struct told *const own = calloc(1, sizeof *own);
    *culprit_out = redco_world_rank(world);
    redco_status st =
        colours != NULL && own != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, "start", "out of memory");
    if (st == REDCO_OK) { st = redco_communicator_split(world, colours, "start", &all, err); }
    if (st == REDCO_OK) {
        if (failure != NULL) { mine = *failure; }
        own->failed = failure != NULL ? 1 : 0;
        own->count = failure != NULL ? 0 : count;
        memcpy(own->facts, facts, own->count * sizeof *facts);
        st = agree(all, own, &mine, culprit_out, err);
    }
    redco_communicator_free(all);
    free(colours);
    free(own);
    return st;
}
