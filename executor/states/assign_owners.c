/* Owner assignment of whole tensors. Every rank computes the owners of all ranks, so that ranks agree without
 * communication: layers may have different meshes, and the load of a rank from one layer counts in the next. */
#include "executor/states/layout_internal.h"

#include <stdlib.h>
#include <string.h>

struct sized_tensor {
    uint64_t elements;
    uint32_t tensor;
};

static int larger_first(const void *a, const void *b)
{
    const struct sized_tensor *const x = a, *const y = b;
    if (x->elements != y->elements) { return x->elements < y->elements ? 1 : -1; }
    return x->tensor < y->tensor ? -1 : x->tensor > y->tensor ? 1 : 0;
}

uint64_t redcoi_part_of(const redco_layout *layout, uint32_t tensor, uint32_t position, uint64_t *begin_out)
{
    const uint64_t size = layout->modules[layout->module_of[tensor]].shard;
    const uint64_t from = layout->tensor_at[tensor], to = from + layout->model->tensors[tensor].elements;
    const uint64_t low = size * position, high = low + size;
    *begin_out = from > low ? from : low;
    const uint64_t end = to < high ? to : high;
    return end > *begin_out ? end - *begin_out : 0;
}

/* The member of the group of @p place with the least load; the first of equals. */
static uint32_t emptiest(redco_rank_mesh replicas, redco_between owners, redco_place place, const uint64_t *load)
{
    const uint32_t size = redco_between_size(owners);
    uint32_t best = 0;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < size; i++) {
        const uint64_t has = load[redco_rank_at(replicas, redco_between_member(owners, place, i))];
        if (has < least) {
            least = has;
            best = i;
        }
    }
    return best;
}

/* Each group of owners assigns the slices of its part of the tensor. */
static void assign_tensor(redco_layout *layout, uint32_t tensor, uint64_t *load)
{
    const redco_rank_mesh replicas = {1, layout->options.mesh.dp};
    const uint32_t ranks = (uint32_t)redco_rank_count(replicas);
    const redco_shards *const shards = &layout->model->layers[layout->layer_of[layout->module_of[tensor]]].shards;
    const redco_between owners = {shards->parameters, shards->optimizer};
    const redco_place own = {0, layout->place.gpu, layout->place.node};
    for (uint32_t r = 0; r < ranks; r++) {
        const redco_place place = redco_place_of(replicas, r);
        uint64_t begin = 0;
        if (redco_between_position(owners, place) != 0) { continue; } /* the first of a group stands for it */
        const uint64_t count = redcoi_part_of(layout, tensor, redco_mesh_position(shards->parameters, place), &begin);
        const uint32_t owner = emptiest(replicas, owners, place, load);
        load[redco_rank_at(replicas, redco_between_member(owners, place, owner))] += count;
        if (r == redco_rank_at(replicas, redco_between_member(owners, own, 0))) { layout->owner[tensor] = owner; }
    }
}

enum { SHARED, OTHERS, ASSIGNED, FROZEN };

static int kind_of(const redco_layout *layout, uint32_t tensor)
{
    const redco_state_tensor *const t = &layout->model->tensors[tensor];
    const bool shared = layout->model->layers[layout->layer_of[layout->module_of[tensor]]].shared;
    return t->frozen ? FROZEN : t->assigned ? ASSIGNED : shared ? SHARED : OTHERS;
}

redco_status redcoi_assign_owners(redco_layout *layout, redco_error *err)
{
    const uint32_t count = layout->model->tensor_count;
    redco_status st = REDCO_OK;
    struct sized_tensor *const tensors_by_size = calloc(count > 0 ? count : 1, sizeof *tensors_by_size);
    uint64_t *const load = calloc(redco_mesh_ranks(layout->options.mesh.dp), sizeof *load);
    if (tensors_by_size == NULL || load == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "states", "owners of %u tensors", count);
        goto out;
    }
    for (uint32_t i = 0; i < count; i++) {
        tensors_by_size[i] = (struct sized_tensor){layout->model->tensors[i].elements, i};
    }
    qsort(tensors_by_size, count, sizeof *tensors_by_size, larger_first);
    /* Tensors that another stage has, too, first: their owners must be the same there, whatever else it has. Each other
     * kind evenly: they take different memory. */
    for (int kind = SHARED; kind <= ASSIGNED; kind++) {
        if (kind == ASSIGNED) { memset(load, 0, redco_mesh_ranks(layout->options.mesh.dp) * sizeof *load); }
        for (uint32_t i = 0; i < count; i++) {
            if (kind_of(layout, tensors_by_size[i].tensor) != kind) { continue; }
            assign_tensor(layout, tensors_by_size[i].tensor, load);
        }
    }
out:
    free(tensors_by_size);
    free(load);
    return st;
}
