#include "planner/search/search.h"

#include <stdlib.h>
#include <string.h>

redco_status redco_candidate_copy(const redco_candidate *from, redco_candidate *copy_out, redco_error *err)
{
    const redco_parallelism *const s = &from->parallelism;
    const size_t bytes = from->assignment_count * sizeof *from->assignments;
    const size_t split_bytes =
        redco_pipeline_positions(s->schedule, s->pp, redco_parallelism_chunks(s)) * sizeof *s->split;
    redco_assignment *const assignments = malloc(bytes + split_bytes + 1);
    if (assignments == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    *copy_out = *from;
    memcpy(assignments, from->assignments, bytes);
    copy_out->assignments = assignments;
    if (s->split != NULL) {
        uint32_t *const split = (uint32_t *)&assignments[from->assignment_count];
        memcpy(split, s->split, split_bytes);
        copy_out->parallelism.split = split;
    }
    return REDCO_OK;
}

bool redco_candidate_same(const redco_candidate *a, const redco_candidate *b)
{
    const redco_parallelism *const x = &a->parallelism, *const y = &b->parallelism;
    if (!redco_parallelism_same(x, y) || a->assignment_count != b->assignment_count) { return false; }
    if (!redco_split_same(x->split, y->split,
                          redco_pipeline_positions(x->schedule, x->pp, redco_parallelism_chunks(x)))) {
        return false;
    }
    for (uint32_t i = 0; i < a->assignment_count; i++) {
        const redco_assignment *const s = &a->assignments[i], *const t = &b->assignments[i];
        if (s->class_index != t->class_index || s->layers != t->layers || s->config.recompute != t->config.recompute ||
            !redco_shards_equal(s->config.shards, t->config.shards)) {
            return false;
        }
    }
    return true;
}
