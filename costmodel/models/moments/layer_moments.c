/* Moments of a layer's memory, from the lifetimes of the values in its graph at probe sizes. */
#include "costmodel/models/moments/layer_moments.h"

#include "costmodel/graph/fuse.h"
#include "costmodel/graph/transform.h"
#include "costmodel/kept/recompute.h"
#include "costmodel/models/layer_probe.h"

#include <stdlib.h>

enum { NO_SLOT = UINT32_MAX };

/* Memory that one value after the other lies in. */
struct slot {
    uint32_t size, last; /* last: as in struct walk */
    bool free;
};

/* A graph while its operators run. */
struct walk {
    const redcoi_probe *probe;
    const redco_moment_options *options;
    const redco_graph *g;
    uint32_t *order; /* operators as they are run */
    uint32_t ordered, at;
    redco_value *root; /* by value: whose memory a view is of */
    uint32_t *last;    /* by root: place of the operator that reads it last */
    uint32_t *slot_of; /* by root */
    bool *live, *put;  /* by operator; put: it is in the order */
    uint8_t *makes;    /* by operator: the product whose weights' gradients its task makes, or none */
    bool slotted;      /* redco_moment.slots */
    bool *outside;     /* by root: a gradient of a weight, or the loss */
    struct slot *slots;
    uint32_t slot_count;
    const redco_layer_work *work;
    uint32_t products;
    redco_moment now;
    redco_layer_moments *out;
};

static redco_recompute policy_of(void *context, const char *layer)
{
    (void)layer;
    return *(const redco_recompute *)context;
}

/* @return its place; NO_SLOT: there are too many sizes */
static uint32_t size_of(const struct walk *w, uint64_t elements, uint32_t bytes)
{
    redco_layer_moments *const out = w->out;
    redco_moment_size size = {.elements = redcoi_probe_extent(w->probe, elements), .bytes = (uint8_t)bytes};
    if (w->options->cut) { /* a part: the ranks complete an axis */
        const redco_extent whole = redcoi_probe_extent(w->probe, REDCOI_PROBE_RANKS * elements);
        if (whole.factor % REDCOI_PROBE_RANKS != 0) {
            size.elements = whole;
            size.shared = redco_extent_split(&whole) == REDCO_AXIS_COUNT;
        }
    }
    for (uint32_t i = 0; i < out->size_count; i++) {
        const redco_moment_size *const old = &out->sizes[i];
        if (old->bytes == size.bytes && old->shared == size.shared &&
            redco_extent_equal(&old->elements, &size.elements)) {
            return i;
        }
    }
    if (out->size_count == REDCO_MOMENT_SIZES) { return NO_SLOT; }
    out->sizes[out->size_count] = size;
    return out->size_count++;
}

static uint32_t size_of_value(const struct walk *w, redco_value value)
{
    const redco_tensor_type *const type = redco_value_type(w->g, value);
    const bool narrow = type->dtype == REDCO_BFLOAT16;
    return size_of(w, redco_type_elements(type), narrow ? 0 : (uint32_t)redco_dtype_bytes(type->dtype));
}

/* All layers share what has no batch, tables of positions and biases of scores: it is counted once (memory_saved.c). */
static void begin(struct walk *w, redco_value value)
{
    const uint32_t size = size_of_value(w, value);
    if (size == NO_SLOT || w->out->sizes[size].elements.power[REDCO_AXIS_BATCH] == 0) { return; }
    w->slots[w->slot_count] = (struct slot){size, w->last[value], false};
    w->slot_of[value] = w->slot_count++;
    w->now.times[size]++;
}

/* Where a value lies that has no memory of its own. */
static redco_value holder_of(const redco_graph *g, redco_value value)
{
    for (; redco_op_is_view(redco_value_op(g, value)->kind); value = redco_value_op(g, value)->inputs[0]) {}
    return value;
}

static void find_lifetimes(const struct walk *w)
{
    for (uint32_t i = 0; i < w->ordered; i++) {
        const redco_op *const op = redco_graph_op(w->g, w->order[i]);
        const bool view = redco_op_is_view(op->kind);
        for (uint32_t k = 0; k < op->output_count; k++) {
            const redco_value out = op->first_output + k;
            w->root[out] = view ? w->root[op->inputs[0]] : out;
            w->slot_of[out] = NO_SLOT;
            if (!view) { w->last[out] = i; }
        }
        for (uint32_t k = 0; k < op->input_count && w->live[op->id] && !view; k++) {
            w->last[w->root[op->inputs[k]]] = i;
        }
    }
}

static bool is_taken(const struct walk *w, const redco_op *op, redco_value output, uint32_t slot)
{
    for (redco_value other = op->first_output; other < output; other++) {
        if (w->slot_of[other] == slot) { return true; }
    }
    return false;
}

/* The slot of an input over which an output is written: what was made first, or last where there are several outputs.
 * The executor chooses likewise. */
static uint32_t overwritten(const struct walk *w, const redco_op *op, redco_value output)
{
    const bool several = op->output_count > 1;
    const uint32_t inputs = several && op->kind != REDCO_OP_POINTWISE ? 0 : redco_op_overwrites(op->kind);
    redco_value found = REDCO_NO_VALUE;
    for (uint32_t k = 0; k < op->input_count && k < inputs; k++) {
        const redco_value root = w->root[op->inputs[k]];
        const uint32_t slot = w->slot_of[root];
        if (slot == NO_SLOT || w->slots[slot].last != w->at || is_taken(w, op, output, slot) ||
            !redco_type_equal(redco_value_type(w->g, op->inputs[k]), redco_value_type(w->g, output))) {
            continue;
        }
        if (found == REDCO_NO_VALUE || (several ? root > found : root < found)) { found = root; }
    }
    return found == REDCO_NO_VALUE ? NO_SLOT : w->slot_of[found];
}

static bool is_within(const redco_moment *a, const redco_moment *b)
{
    bool within = a->slots == b->slots && (!a->product || b->product) && (!a->makes || b->makes) &&
                  a->made == b->made && a->ahead == b->ahead && a->staged == b->staged &&
                  (a->reads == b->reads || a->reads == REDCO_MOMENT_NONE);
    for (uint32_t i = 0; i < REDCO_MOMENT_SIZES; i++) { within = within && a->times[i] <= b->times[i]; }
    return within;
}

/* A moment within another one is left out. Beyond the room for them one has all that either has. */
static void add_moment(redco_layer_moments *out, const redco_moment *moment)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < out->count; i++) {
        if (is_within(moment, &out->moments[i])) { return; }
    }
    for (uint32_t i = 0; i < out->count; i++) {
        if (!is_within(&out->moments[i], moment)) { out->moments[kept++] = out->moments[i]; }
    }
    out->count = kept;
    if (kept < REDCO_MOMENTS_MAX) {
        out->moments[out->count++] = *moment;
        return;
    }
    redco_moment *const last = &out->moments[kept - 1];
    for (uint32_t i = 0; i < REDCO_MOMENT_SIZES; i++) {
        if (moment->times[i] > last->times[i]) { last->times[i] = moment->times[i]; }
    }
    last->product = last->product || moment->product;
    last->makes = last->makes || moment->makes;
    last->made = moment->made < last->made ? moment->made : last->made;
}

/* Copies in 32 bits of an operator's tensors (executor/backend/host/workspace.c). */
static void widen(const struct walk *w, const redco_op *op, redco_moment *moment)
{
    const redco_op_class class = redco_op_kind_class(op->kind);
    if (class != REDCO_CLASS_MATMUL && class != REDCO_CLASS_ROWS && class != REDCO_CLASS_ATTENTION) { return; }
    for (uint32_t k = 0; k < op->input_count + op->output_count; k++) {
        const redco_value value = k < op->input_count ? op->inputs[k] : op->first_output + (k - op->input_count);
        const redco_tensor_type *const type = redco_value_type(w->g, value);
        if (type->dtype != REDCO_BFLOAT16) { continue; }
        const uint32_t size = size_of(w, redco_type_elements(type), 4);
        if (size != NO_SLOT) { moment->times[size]++; }
    }
}

/* A collective along another axis than the first needs room for the whole tensor in another order
 * (executor/comm/graph_collectives.c). */
static void stage(const struct walk *w, const redco_op *op, redco_moment *moment)
{
    if ((op->kind != REDCO_OP_ALL_GATHER && op->kind != REDCO_OP_REDUCE_SCATTER) || op->attributes.axis[0] == 0) {
        return;
    }
    const uint32_t size = size_of_value(w, op->kind == REDCO_OP_ALL_GATHER ? op->first_output : op->inputs[0]);
    if (size != NO_SLOT) { moment->staged = (uint8_t)(size + 1); }
}

/* Place of an operator's product among the class's; none if it has none. */
static uint8_t product_of(const struct walk *w, const redco_op *op)
{
    uint8_t at = 0;
    if (redco_op_kind_class(op->kind) != REDCO_CLASS_MATMUL) { return REDCO_MOMENT_NONE; }
    for (uint32_t i = 0; i < w->work->group_count; i++) {
        const redco_layer_group *const group = &w->work->groups[i];
        if (group->kind == REDCO_GROUP_PRODUCT && group->role == op->role) { return at; }
        if (group->kind == REDCO_GROUP_PRODUCT) { at++; }
    }
    return REDCO_MOMENT_NONE;
}

/* @return whether an operator makes the gradient of a weight of that product */
static bool makes_gradient(const struct walk *w, const redco_op *op, uint8_t product)
{
    return op->order > 0 && product_of(w, op) == product && w->outside[op->first_output];
}

/* With all that it reads. What is computed again for it alone is its task's (executor/schedule/bind.c).
 * @param product  whose weights' gradients it makes, or none */
static void put(struct walk *w, const redco_op *op, uint8_t product)
{
    if (w->put[op->id]) { return; }
    w->put[op->id] = true;
    w->makes[op->id] = op->copy > 0 || product_of(w, op) == product ? product : REDCO_MOMENT_NONE;
    for (uint32_t k = 0; k < op->input_count; k++) { put(w, redco_value_op(w->g, op->inputs[k]), product); }
    w->order[w->ordered++] = op->id;
}

/* The graph's order. With slots the gradients of a product's weights are made when backward comes to it, before those
 * of its inputs (costmodel/simulator/step_pass.c). */
static void find_order(struct walk *w)
{
    uint8_t reached = (uint8_t)w->products;
    w->ordered = 0;
    for (uint32_t i = 0; i < redco_graph_op_count(w->g); i++) {
        const redco_op *const op = redco_graph_op(w->g, i);
        const uint8_t product = op->order > 0 && w->live[i] ? product_of(w, op) : REDCO_MOMENT_NONE;
        for (uint32_t j = i; w->slotted && product < reached && j < redco_graph_op_count(w->g); j++) {
            const redco_op *const other = redco_graph_op(w->g, j);
            if (w->live[j] && makes_gradient(w, other, product)) { put(w, other, product); }
        }
        reached = product < reached ? product : reached;
        put(w, op, REDCO_MOMENT_NONE);
    }
}

/* Backward comes to a product: the weights of the one before it are fetched meanwhile. */
static void enter(struct walk *w, uint8_t product)
{
    w->now.made = product;
    w->now.reads = REDCO_MOMENT_NONE;
    w->now.ahead = product > 0 ? (uint8_t)(product - 1) : REDCO_MOMENT_NEXT;
}

static void run(struct walk *w, const redco_op *op, bool counts)
{
    const bool makes = w->makes[op->id] != REDCO_MOMENT_NONE;
    const uint8_t product = !w->slotted ? REDCO_MOMENT_NONE : makes ? w->makes[op->id] : product_of(w, op);
    if (counts && op->order > 0 && product < w->now.made) { enter(w, product); }
    for (uint32_t k = 0; k < op->output_count; k++) {
        const redco_value out = op->first_output + k;
        if (w->outside[out]) { continue; }
        const uint32_t over = overwritten(w, op, out);
        if (over == NO_SLOT) {
            begin(w, out);
        } else {
            w->slot_of[out] = over;
            w->slots[over].last = w->last[out];
        }
    }
    if (counts) {
        redco_moment moment = w->now;
        if (product != REDCO_MOMENT_NONE) { moment.reads = product; }
        moment.makes = makes;
        if (w->slotted) { stage(w, op, &moment); }
        moment.product = redco_op_kind_class(op->kind) == REDCO_CLASS_MATMUL;
        if (w->options->widened) { widen(w, op, &moment); }
        add_moment(w->out, &moment);
    }
    for (uint32_t s = 0; s < w->slot_count; s++) {
        if (w->slots[s].free || w->slots[s].last != w->at) { continue; }
        w->slots[s].free = true;
        w->now.times[w->slots[s].size]--;
    }
}

static void walk_through(struct walk *w, bool head)
{
    const redco_value input = redco_graph_find_input(w->g, "x"), gradient = redco_graph_find_input(w->g, "gradient");
    bool backward = false;
    w->slot_count = 0;
    w->now = (redco_moment){.slots = w->slotted, .reads = REDCO_MOMENT_NONE, .ahead = REDCO_MOMENT_NONE};
    w->now.made = (uint8_t)w->products;
    if (input != REDCO_NO_VALUE) { begin(w, input); }
    for (w->at = 0; w->at < w->ordered; w->at++) {
        const redco_op *const op = redco_graph_op(w->g, w->order[w->at]);
        if (!w->live[op->id] || op->kind == REDCO_OP_INPUT || redco_op_is_view(op->kind)) { continue; }
        if (!backward && (op->order > 0 || op->copy > 0)) {
            backward = true;
            if (w->slotted && w->products > 0) { enter(w, (uint8_t)(w->products - 1)); } /* fetched when it begins */
            w->now.reads = w->slotted && w->products > 0 ? (uint8_t)(w->products - 1) : REDCO_MOMENT_NONE;
            w->now.made = (uint8_t)w->products;
            if (gradient != REDCO_NO_VALUE && !head) { begin(w, gradient); }
        }
        run(w, op, backward || head);
    }
}

static bool take_room(struct walk *w)
{
    const size_t ops = (size_t)redco_graph_op_count(w->g) + 1, values = (size_t)redco_graph_value_count(w->g) + 1;
    w->root = calloc(values, sizeof *w->root);
    w->last = calloc(values, sizeof *w->last);
    w->slot_of = calloc(values, sizeof *w->slot_of);
    w->outside = calloc(values, sizeof *w->outside);
    w->slots = calloc(values, sizeof *w->slots);
    w->live = calloc(ops, sizeof *w->live);
    w->put = calloc(ops, sizeof *w->put);
    w->makes = calloc(ops, sizeof *w->makes);
    w->order = calloc(ops, sizeof *w->order);
    return w->root && w->last && w->slot_of && w->outside && w->slots && w->live && w->put && w->makes && w->order;
}

static void free_room(struct walk *w)
{
    free(w->root);
    free(w->last);
    free(w->slot_of);
    free(w->outside);
    free(w->slots);
    free(w->live);
    free(w->put);
    free(w->makes);
    free(w->order);
}

/* @param outputs  the gradient of the layer's input is the first of those that are no loss */
static redco_status walk_graph(struct walk *w, const redco_value *outputs, uint32_t count, bool head, redco_error *err)
{
    for (uint32_t i = 0; i < w->work->group_count; i++) {
        w->products += w->work->groups[i].kind == REDCO_GROUP_PRODUCT ? 1 : 0;
    }
    for (int slotted = 0; slotted < 2; slotted++) {
        w->slotted = slotted != 0;
        const bool room = take_room(w);
        if (room) {
            redco_graph_live(w->g, outputs, count, w->live);
            for (uint32_t i = 0; i < count; i++) { w->outside[holder_of(w->g, outputs[i])] = i != (head ? 1U : 0U); }
            find_order(w);
            find_lifetimes(w);
            const redco_value handed_on = head ? 1 : 0;
            if (handed_on < count) { w->last[w->root[outputs[handed_on]]] = UINT32_MAX; }
            walk_through(w, head);
        }
        free_room(w);
        if (!room) { return redco_fail(err, REDCO_ENOMEM, w->probe->model.name, "no memory for its layers"); }
    }
    return REDCO_OK;
}

/* The graph of a rank as it is run. */
static redco_status derive(const redcoi_probe *probe, const redco_layer_work *work, const redco_moment_options *options,
                           redco_layer_moments *out, redco_error *err)
{
    const redcoi_class_values *const values = &probe->values;
    const redco_class_kind kind = probe->model.classes[probe->class_index].kind;
    const bool head = kind == REDCO_CLASS_HEAD;
    redco_recompute policy = redco_class_is_block(kind) ? options->policy : REDCO_RECOMPUTE_NONE;
    const redco_recompute_options recompute = {policy_of, &policy, options->rows};
    redco_partition_output wanted[REDCOI_CLASS_PARAMS + 1];
    redco_value cut[REDCOI_CLASS_PARAMS + 1], again[REDCOI_CLASS_PARAMS + 1], fused[REDCOI_CLASS_PARAMS + 1];
    redco_graph *graphs[3] = {NULL, NULL, NULL};
    uint32_t count = 0;
    if (head) { wanted[count++] = (redco_partition_output){values->result, NULL}; }
    for (uint32_t i = 0; i < values->wanted_count; i++) {
        if (values->gradients[i] == REDCO_NO_VALUE) { continue; }
        wanted[count++] = (redco_partition_output){values->gradients[i], redco_value_name(probe->g, values->wanted[i])};
    }
    for (uint32_t i = 0; i < count; i++) { cut[i] = wanted[i].value; }
    redco_status st = REDCO_OK;
    if (options->cut) {
        st = redcoi_probe_partition(probe, (redcoi_probe_cut){.rows = options->rows}, wanted, count, &graphs[0], cut,
                                    err);
    }
    if (st == REDCO_OK) {
        const redco_graph *const local = options->cut ? graphs[0] : probe->g;
        st = redco_recompute_graph(local, cut, count, &recompute, &graphs[1], again, err);
    }
    if (st == REDCO_OK && options->fused) {
        st = redco_graph_fuse(graphs[1], again, count, NULL, &graphs[2], fused, err);
    }
    if (st == REDCO_OK) {
        struct walk w = {
            .work = work, .probe = probe, .options = options, .g = graphs[options->fused ? 2 : 1], .out = out};
        st = walk_graph(&w, options->fused ? fused : again, count, head, err);
    }
    for (int i = 0; i < 3; i++) { redco_graph_free(graphs[i]); }
    return st;
}

enum { CUTS = 3, POLICIES = 3 };

static redco_status make(const redco_model *model, uint32_t class_index, const redco_moment_options *options,
                         redco_layer_moments *moments_out, redco_error *err)
{
    redcoi_probe probe = {.g = NULL};
    const redco_layer_work *const work = &model->works[class_index];
    if (work->group_count == 0) { return REDCO_OK; } /* all that it has is listed, its moments too */
    redco_status st = redcoi_probe_create(model, &probe, err);
    if (st == REDCO_OK) { st = redcoi_probe_class(&probe, class_index, err); }
    if (st == REDCO_OK) { st = derive(&probe, work, options, moments_out, err); }
    redcoi_probe_free(&probe);
    return st;
}

const redco_layer_moments *redco_model_layer_moments(const redco_model *model, uint32_t class_index,
                                                     const redco_moment_options *options, redco_error *err)
{
    redco_moment_options own = *options;
    const bool full = own.policy == REDCO_RECOMPUTE_FULL, core = (own.policy & REDCO_RECOMPUTE_CORE_ATTN) != 0;
    const uint32_t policy = full ? 2 : core ? 1 : 0;
    if (!full) { own.policy = core ? REDCO_RECOMPUTE_CORE_ATTN : REDCO_RECOMPUTE_NONE; }
    const uint32_t cut = (uint32_t)own.cut + own.rows, flags = (uint32_t)own.fused + 2U * own.widened;
    const uint32_t kind = (flags * POLICIES + policy) * CUTS + cut;
    redco_layer_moments **const at = &model->moments[(size_t)class_index * REDCOI_MOMENT_KINDS + kind];
    redco_layer_moments *found = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    if (found != NULL) { return found; }
    redco_layer_moments *const made = calloc(1, sizeof *made);
    const redco_status st = made == NULL ? redco_fail(err, REDCO_ENOMEM, model->name, "no memory for its layers")
                                         : make(model, class_index, &own, made, err);
    /* Another thread may have been faster. */
    const bool first =
        st == REDCO_OK && __atomic_compare_exchange_n(at, &found, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    if (first) { return made; }
    free(made);
    return found;
}
