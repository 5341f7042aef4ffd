#include "executor/states/layout_internal.h"

#include <assert.h>
#include <stdlib.h>

/* Sums of all tensors stay below it, so that no product with an element's size overflows. */
static const uint64_t elements_max = (uint64_t)1 << 52;

enum { TENSOR_GRANULE = 128, SHARD_GRANULE = 8, GRANULE_MAX = 65536 };

static uint64_t round_up(uint64_t count, uint64_t granule)
{
    return (count + granule - 1) / granule * granule;
}

static uint64_t share_of(uint64_t count, uint64_t parts, uint64_t granule)
{
    return round_up((count + parts - 1) / parts, granule);
}

void redco_layout_free(redco_layout *layout)
{
    if (layout == NULL) { return; }
    free(layout->layers);
    free(layout->modules);
    free(layout->tensor_at);
    free(layout->module_of);
    free(layout->layer_of);
    free(layout->owner);
    free(layout->slices);
    free(layout);
}

/* Layers, modules and tensors must follow each other without gaps. */
static redco_status check_model(const redco_state_model *m, const redco_layout_options *o, redco_error *err)
{
    uint32_t module = 0, tensor = 0;
    uint64_t elements = 0;
    bool follows = true;
    for (uint32_t l = 0; l < m->layer_count && follows; l++) {
        const redco_state_layer *const layer = &m->layers[l];
        const redco_status st = redco_shards_check(o->mesh, &layer->shards, layer->name, err);
        if (st != REDCO_OK) { return st; }
        follows = layer->first_module == module && layer->module_count <= m->module_count - module &&
                  !(layer->assigned && (l == 0 || m->layers[l - 1].assigned));
        module += follows ? layer->module_count : 0;
    }
    for (uint32_t i = 0; i < m->module_count && follows; i++) {
        const redco_state_module *const next = &m->modules[i];
        follows = next->first_tensor == tensor && next->tensor_count <= m->tensor_count - tensor;
        tensor += follows ? next->tensor_count : 0;
        for (uint32_t t = next->first_tensor; follows && t < tensor; t++) {
            if (m->tensors[t].frozen == redco_module_frozen(m, i)) { continue; }
            return redco_fail(err, REDCO_EVALUE, m->tensors[t].name, "is %s, but %s of the same module is %s",
                              m->tensors[t].frozen ? "frozen" : "trained", m->tensors[next->first_tensor].name,
                              m->tensors[t].frozen ? "trained" : "frozen");
        }
    }
    if (!follows || module != m->module_count || tensor != m->tensor_count) {
        return redco_fail(err, REDCO_EVALUE, "states",
                          "layers hold %u of %u modules, modules %u of %u tensors: each in one place, in order", module,
                          m->module_count, tensor, m->tensor_count);
    }
    for (uint32_t l = 0; l < m->layer_count; l++) {
        for (uint32_t i = 0; i < m->layers[l].module_count; i++) {
            const redco_state_module *const has = &m->modules[m->layers[l].first_module + i];
            for (uint32_t t = has->first_tensor; t < has->first_tensor + has->tensor_count; t++) {
                if (m->tensors[t].assigned == m->layers[l].assigned) { continue; }
                return redco_fail(err, REDCO_EVALUE, m->tensors[t].name, "is %sassigned, its layer %s is not so",
                                  m->tensors[t].assigned ? "" : "not ", m->layers[l].name);
            }
        }
    }
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        const uint64_t count = m->tensors[i].elements;
        if (count == 0 || count > elements_max || elements + count > elements_max) {
            return redco_fail(err, REDCO_EVALUE, m->tensors[i].name, "has %llu elements; 1 to 2^52 in all are possible",
                              (unsigned long long)count);
        }
        elements += round_up(count, o->tensor_granule);
    }
    return REDCO_OK;
}

static redco_status check_options(const redco_layout_options *o, uint32_t rank, redco_error *err)
{
    const redco_mesh second = o->secondary;
    const redco_status st = redco_rank_mesh_check(o->mesh, "states", err);
    if (st != REDCO_OK) { return st; }
    if (rank >= redco_rank_count(o->mesh)) {
        return redco_fail(err, REDCO_EVALUE, "states", "rank %u of a mesh of %llu", rank,
                          (unsigned long long)redco_rank_count(o->mesh));
    }
    if ((second.gpus != 0 || second.nodes != 0) && !redco_mesh_nests(second, o->mesh.dp)) {
        return redco_fail(err, REDCO_EVALUE, "states", "secondary %ux%u must divide dp %ux%u", second.gpus,
                          second.nodes, o->mesh.dp.gpus, o->mesh.dp.nodes);
    }
    if (o->tensor_granule > GRANULE_MAX || o->shard_granule > GRANULE_MAX) {
        return redco_fail(err, REDCO_EVALUE, "states", "granules of %u and %u elements; at most %u are possible",
                          o->tensor_granule, o->shard_granule, (unsigned)GRANULE_MAX);
    }
    return REDCO_OK;
}

redco_mesh redco_layout_second_mesh(const redco_layout *layout, redco_mesh parameters)
{
    const redco_mesh second = layout->options.secondary;
    return redco_mesh_ranks(second) < redco_mesh_ranks(parameters) ? second : (redco_mesh){0, 0};
}

redco_mesh redco_layout_secondary(const redco_layout *layout, uint32_t layer)
{
    return redco_layout_second_mesh(layout, layout->model->layers[layer].shards.parameters);
}

/* Tensors behind one another in their module, the module in equal parts. */
static void lay_module(redco_layout *layout, uint32_t layer, uint32_t module)
{
    const redco_state_module *const m = &layout->model->modules[module];
    const redco_layout_options *const o = &layout->options;
    const uint64_t parts = redco_mesh_ranks(layout->model->layers[layer].shards.parameters);
    const uint64_t second = redco_mesh_ranks(redco_layout_secondary(layout, layer));
    redco_module_layout *const out = &layout->modules[module];
    uint64_t end = 0;
    layout->layer_of[module] = layer;
    for (uint32_t t = m->first_tensor; t < m->first_tensor + m->tensor_count; t++) {
        layout->module_of[t] = module;
        layout->tensor_at[t] = round_up(end, o->tensor_granule);
        end = layout->tensor_at[t] + layout->model->tensors[t].elements;
    }
    /* Weights that are not gathered are used where they are, so the next module must be aligned. */
    out->shard = share_of(end, parts, parts == 1 ? o->tensor_granule : o->shard_granule);
    out->whole = out->shard * parts;
    if (second > 0) {
        out->secondary = share_of(end, second, o->shard_granule);
        if (out->secondary * second > out->whole) { out->whole = out->secondary * second; }
    }
}

/* The frozen modules of a layer, or the others, from the last on. */
static void add_modules(redco_layout *layout, const redco_state_layer *l, bool frozen, uint64_t *end)
{
    for (uint32_t m = l->first_module + l->module_count; m-- > l->first_module;) {
        if (redco_module_frozen(layout->model, m) != frozen) { continue; }
        layout->modules[m].shard_at = *end;
        *end += layout->modules[m].shard;
    }
}

static bool has_frozen(const redco_state_model *model, const redco_state_layer *l)
{
    bool frozen = false;
    for (uint32_t i = 0; i < l->module_count; i++) {
        frozen = frozen || redco_module_frozen(model, l->first_module + i);
    }
    return frozen;
}

static void lay_layer(redco_layout *layout, uint32_t layer)
{
    const redco_state_layer *const l = &layout->model->layers[layer];
    const redco_shards *const shards = &l->shards;
    const uint64_t owners = redco_between_size((redco_between){shards->parameters, shards->optimizer});
    redco_layer_layout *const out = &layout->layers[layer];
    for (uint32_t i = 0; i < l->module_count; i++) {
        lay_module(layout, layer, l->first_module + i);
        layout->modules[l->first_module + i].secondary_at = out->secondary;
        out->secondary += layout->modules[l->first_module + i].secondary;
    }
    add_modules(layout, l, false, &out->trained);
    if (layout->options.scheme == REDCO_INTRA_TENSOR || owners == 1) {
        out->part = owners == 1 ? out->trained : share_of(out->trained, owners, layout->options.shard_granule);
        out->trained = out->part * owners;
    }
    uint64_t end = round_up(out->trained, layout->options.tensor_granule);
    add_modules(layout, l, true, &end);
    out->shard = has_frozen(layout->model, l) ? end : out->trained;
}

static redco_status add_slice(redco_layout *layout, const redco_shard_slice *slice, redco_error *err)
{
    if (layout->slice_count == layout->slice_room) {
        const uint32_t room = layout->slice_room < 64 ? 64 : 2 * layout->slice_room;
        redco_shard_slice *const more = room > layout->slice_room ? realloc(layout->slices, room * sizeof *more) : NULL;
        if (more == NULL) { return redco_fail(err, REDCO_ENOMEM, "states", "%u slices of tensors", room); }
        layout->slices = more;
        layout->slice_room = room;
    }
    layout->slices[layout->slice_count++] = *slice;
    return REDCO_OK;
}

/* Parts of the optimizer are numbered along the shard: those of one rank's gradients follow each other.
 *  @return the owner of a part: position in the group from parameters to optimizer */
static uint32_t owner_of_part(const redco_shards *s, uint32_t part)
{
    const redco_between kept = {s->parameters, s->gradients}, inside = {s->gradients, s->optimizer};
    const uint32_t major = part / redco_between_size(inside), minor = part % redco_between_size(inside);
    const redco_place in_kept = redco_between_member(kept, (redco_place){0, 0, 0}, major);
    return redco_between_position((redco_between){s->parameters, s->optimizer},
                                  redco_between_member(inside, in_kept, minor));
}

static uint32_t own_part(const redco_shards *s, redco_place place)
{
    const redco_between kept = {s->parameters, s->gradients}, inside = {s->gradients, s->optimizer};
    return redco_between_position(kept, place) * redco_between_size(inside) + redco_between_position(inside, place);
}

/* @return whether the gradients of what @p owner updates are kept by the rank at @p place. */
static bool keeps(const redco_shards *s, redco_place place, uint32_t owner)
{
    const redco_between owners = {s->parameters, s->optimizer}, kept = {s->parameters, s->gradients};
    const redco_place updater = redco_between_member(owners, place, owner);
    return redco_between_position(kept, updater) == redco_between_position(kept, place);
}

/* Intra-tensor: cut where parts meet. */
static redco_status cut_slice(redco_layout *layout, uint32_t layer, redco_shard_slice slice, redco_error *err)
{
    const redco_shards *const s = &layout->model->layers[layer].shards;
    const redco_layer_layout *const l = &layout->layers[layer];
    const uint32_t own = own_part(s, layout->place);
    redco_status st = REDCO_OK;
    uint64_t left = slice.count;
    assert(l->part > 0 || left == 0);
    while (left > 0 && st == REDCO_OK) {
        const uint64_t part = slice.shard_at / l->part, in_part = l->part - slice.shard_at % l->part;
        slice.count = left < in_part ? left : in_part;
        slice.owner = owner_of_part(s, (uint32_t)part);
        slice.owned_at = part == own ? slice.shard_at % l->part : REDCO_NOWHERE;
        const bool kept = slice.shard_at >= l->gradient_begin && slice.shard_at - l->gradient_begin < l->gradients;
        slice.gradient_at = kept ? slice.shard_at - l->gradient_begin : REDCO_NOWHERE;
        st = add_slice(layout, &slice, err);
        left -= slice.count;
        slice.begin += slice.count;
        slice.shard_at += slice.count;
    }
    return st;
}

/* Inter-tensor: what is kept and owned is packed. */
static redco_status assign_slice(redco_layout *layout, uint32_t layer, redco_shard_slice slice, redco_error *err)
{
    const redco_shards *const s = &layout->model->layers[layer].shards;
    redco_layer_layout *const l = &layout->layers[layer];
    const uint64_t room = round_up(slice.count, layout->options.shard_granule);
    slice.owner = layout->owner[slice.tensor];
    slice.owned_at = slice.gradient_at = REDCO_NOWHERE;
    if (slice.owner == redco_between_position((redco_between){s->parameters, s->optimizer}, layout->place)) {
        slice.owned_at = l->owned;
        l->owned += room;
    }
    if (!l->packed) {
        slice.gradient_at = slice.shard_at;
    } else if (keeps(s, layout->place, slice.owner)) {
        slice.gradient_at = l->gradients;
        l->gradients += room;
    }
    return add_slice(layout, &slice, err);
}

static redco_status frozen_slice(redco_layout *layout, uint32_t layer, redco_shard_slice slice, redco_error *err)
{
    (void)layer;
    slice.owned_at = slice.gradient_at = REDCO_NOWHERE;
    return add_slice(layout, &slice, err);
}

/* @param take  adds what of a tensor this rank's shard has */
static redco_status find_of_module(redco_layout *layout, uint32_t layer, uint32_t m,
                                   redco_status (*take)(redco_layout *layout, uint32_t layer, redco_shard_slice slice,
                                                        redco_error *err),
                                   redco_error *err)
{
    const redco_state_module *const module = &layout->model->modules[m];
    const uint32_t position = redco_mesh_position(layout->model->layers[layer].shards.parameters, layout->place);
    redco_status st = REDCO_OK;
    for (uint32_t t = module->first_tensor; t < module->first_tensor + module->tensor_count && st == REDCO_OK; t++) {
        redco_shard_slice slice = {.tensor = t};
        slice.count = redcoi_part_of(layout, t, position, &slice.begin);
        if (slice.count == 0) { continue; }
        slice.shard_at = layout->modules[m].shard_at + slice.begin - layout->modules[m].shard * position;
        slice.begin -= layout->tensor_at[t];
        st = take(layout, layer, slice, err);
    }
    return st;
}

static redco_status find_slices(redco_layout *layout, uint32_t layer, redco_error *err)
{
    const redco_state_layer *const l = &layout->model->layers[layer];
    const redco_shards *const s = &l->shards;
    redco_layer_layout *const out = &layout->layers[layer];
    const bool cut = out->part > 0 || out->trained == 0, same = redco_mesh_equal(s->gradients, s->parameters);
    const uint64_t parts = redco_between_size((redco_between){s->gradients, s->optimizer});
    redco_status st = REDCO_OK;
    out->packed = !cut && !same;
    out->owned = out->part;
    out->gradients = same ? out->trained : out->part * parts;
    if (cut) {
        out->gradient_begin =
            out->gradients * redco_between_position((redco_between){s->parameters, s->gradients}, layout->place);
    }
    out->first_slice = layout->slice_count;
    for (uint32_t m = l->first_module + l->module_count; m-- > l->first_module && st == REDCO_OK;) {
        if (redco_module_frozen(layout->model, m)) { continue; }
        st = find_of_module(layout, layer, m, cut ? cut_slice : assign_slice, err);
    }
    out->trained_pieces = layout->slice_count - out->first_slice;
    for (uint32_t m = l->first_module + l->module_count; m-- > l->first_module && st == REDCO_OK;) {
        if (redco_module_frozen(layout->model, m)) { st = find_of_module(layout, layer, m, frozen_slice, err); }
    }
    out->slice_count = layout->slice_count - out->first_slice;
    return st;
}

static void *room_for(size_t count, size_t size)
{
    return calloc(count > 0 ? count : 1, size);
}

redco_status redco_layout_create(const redco_state_model *model, const redco_layout_options *options, uint32_t rank,
                                 redco_layout **layout_out, redco_error *err)
{
    redco_layout *layout = NULL;
    redco_layout_options o = *options;
    if (o.tensor_granule == 0) { o.tensor_granule = TENSOR_GRANULE; }
    if (o.shard_granule == 0) { o.shard_granule = SHARD_GRANULE; }
    redco_status st = check_options(&o, rank, err);
    if (st == REDCO_OK) { st = check_model(model, &o, err); }
    if (st != REDCO_OK) { goto out; }
    layout = calloc(1, sizeof *layout);
    if (layout == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "states", "the layout");
        goto out;
    }
    layout->model = model;
    layout->options = o;
    layout->place = redco_place_of(o.mesh, rank);
    layout->layers = room_for(model->layer_count, sizeof *layout->layers);
    layout->modules = room_for(model->module_count, sizeof *layout->modules);
    layout->tensor_at = room_for(model->tensor_count, sizeof *layout->tensor_at);
    layout->module_of = room_for(model->tensor_count, sizeof *layout->module_of);
    layout->layer_of = room_for(model->module_count, sizeof *layout->layer_of);
    layout->owner = room_for(model->tensor_count, sizeof *layout->owner);
    if (layout->layers == NULL || layout->modules == NULL || layout->tensor_at == NULL || layout->module_of == NULL ||
        layout->layer_of == NULL || layout->owner == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "states", "the layout of %u tensors", model->tensor_count);
        goto out;
    }
    for (uint32_t l = 0; l < model->layer_count; l++) { lay_layer(layout, l); }
    if (o.scheme == REDCO_INTER_TENSOR) { st = redcoi_assign_owners(layout, err); }
    for (uint32_t l = 0; l < model->layer_count && st == REDCO_OK; l++) { st = find_slices(layout, l, err); }
    if (st != REDCO_OK) { goto out; }
    *layout_out = layout;
    layout = NULL;
out:
    redco_layout_free(layout);
    return st;
}

const redco_state_model *redco_layout_model(const redco_layout *layout)
{
    return layout->model;
}

redco_place redco_layout_place(const redco_layout *layout)
{
    return layout->place;
}

redco_rank_mesh redco_layout_mesh(const redco_layout *layout)
{
    return layout->options.mesh;
}

redco_scheme redco_layout_scheme(const redco_layout *layout)
{
    return layout->options.scheme;
}

const redco_layer_layout *redco_layout_layer(const redco_layout *layout, uint32_t layer)
{
    return &layout->layers[layer];
}

const redco_module_layout *redco_layout_module(const redco_layout *layout, uint32_t module)
{
    return &layout->modules[module];
}

const redco_shard_slice *redco_layout_slices(const redco_layout *layout, uint32_t layer, uint32_t *count_out)
{
    *count_out = layout->layers[layer].slice_count;
    return layout->slices + layout->layers[layer].first_slice;
}

uint64_t redco_layout_tensor_at(const redco_layout *layout, uint32_t tensor)
{
    return layout->tensor_at[tensor];
}

uint32_t redco_layout_module_of(const redco_layout *layout, uint32_t tensor)
{
    return layout->module_of[tensor];
}

uint32_t redco_layout_layer_of(const redco_layout *layout, uint32_t module)
{
    return layout->layer_of[module];
}

uint32_t redco_layout_slice_count(const redco_layout *layout)
{
    return layout->slice_count;
}

redco_layout_size redco_layout_sizes(const redco_layout *layout)
{
    redco_layout_size size = {0};
    for (uint32_t l = 0; l < layout->model->layer_count; l++) {
        size.parameters += layout->layers[l].shard;
        size.secondary += layout->layers[l].secondary;
        size.gradients += layout->layers[l].gradients;
        size.optimizer += layout->layers[l].owned;
    }
    for (uint32_t m = 0; m < layout->model->module_count; m++) {
        if (layout->modules[m].whole > size.whole) { size.whole = layout->modules[m].whole; }
    }
    return size;
}
