#include "executor/checkpoint/checkpoint_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(redco_error) % sizeof(int32_t) == 0, "an error is sent as whole numbers of 32 bits");

/* @param err  the error of the first failed rank, with its number, on all ranks */
static redco_status repeat(const redco_checkpoints *c, uint32_t first, const char *what, bool *heard_out,
                           redco_error *err)
{
    redco_error told = {.status = REDCO_OK};
    if (redco_communicator_rank(c->all) == first) {
        char place[sizeof told.place];
        const int length = snprintf(place, sizeof place, "rank %u: ", first);
        (void)snprintf(place + length, sizeof place - (size_t)length, "%.480s", err->place);
        (void)redco_fail(&told, err->status, place, "%s", err->text);
    }
    redco_error_clear(err);
    const redco_status st = redco_broadcast(c->all, REDCO_I32, &told, sizeof told / sizeof(int32_t), first, what, err);
    *heard_out = st == REDCO_OK;
    if (st != REDCO_OK) { return st; }
    *err = told;
    return told.status;
}

redco_status redcoi_agree(const redco_checkpoints *c, redco_status mine, const char *what, bool *agreed_out,
                          redco_error *err)
{
    const uint32_t ranks = redco_communicator_size(c->all);
    redco_error own = {.status = REDCO_OK};
    redco_error *const said = err != NULL ? err : &own;
    int32_t *const all = calloc(ranks, sizeof *all);
    const int32_t status = (int32_t)mine;
    redco_error lost = {.status = REDCO_OK};
    bool heard = false;
    uint32_t first = 0;
    redco_status st = all == NULL ? redco_fail(said, REDCO_ENOMEM, what, "out of memory") : REDCO_OK;
    if (st == REDCO_OK && redco_all_gather(c->all, REDCO_I32, &status, all, 1, what, &lost) != REDCO_OK) {
        (void)redco_fail(said, lost.status, lost.place, "%s", lost.text); /* an error of this rank comes first */
        st = said->status;
    }
    if (st == REDCO_OK) {
        heard = true;
        while (first < ranks && all[first] == (int32_t)REDCO_OK) { first++; }
        if (first < ranks) { st = repeat(c, first, what, &heard, said); }
    }
    free(all);
    if (agreed_out != NULL) { *agreed_out = heard; }
    return st;
}

redco_status redcoi_tell(const redco_checkpoints *c, uint64_t *values, uint32_t count, const char *what,
                         redco_error *err)
{
    return redco_broadcast(c->all, REDCO_I32, values, 2 * (uint64_t)count, 0, what, err);
}

/* Halves of 32 bits of up to 65536 ranks are added without rounding in double precision. */
redco_status redcoi_add_up(const redco_checkpoints *c, uint64_t *values, uint32_t count, const char *what,
                           redco_error *err)
{
    double *const halves = calloc(2 * (size_t)count + 1, sizeof *halves);
    if (halves == NULL) { return redco_fail(err, REDCO_ENOMEM, what, "out of memory"); }
    for (uint32_t i = 0; i < count; i++) {
        halves[2 * i] = (double)(values[i] & UINT32_MAX);
        halves[2 * i + 1] = (double)(values[i] >> 32);
    }
    const redco_status st =
        redco_all_reduce(c->all, REDCO_F64, REDCO_REDUCE_SUM, halves, 2 * (uint64_t)count, what, err);
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
        values[i] = (uint64_t)halves[2 * i] + ((uint64_t)halves[2 * i + 1] << 32);
    }
    free(halves);
    return st;
}
