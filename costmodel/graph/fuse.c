#include "costmodel/graph/fuse.h"

#include "costmodel/graph/build_calls.h"
#include "costmodel/graph/fuse_internal.h"
#include "costmodel/graph/transform.h"

#include <stdlib.h>
#include <string.h>

enum {
    NEIGHBOURS = 16, /**< readers of a value, before an operator, that it may join */
    REACH = 4096,    /**< operators between parts of a fusion */
    AGAIN_STEPS = 4  /**< that may be recomputed for one value */
};

static bool is_view(const redco_op *op)
{
    return redco_op_is_view(op->kind);
}

static bool can_be_fused(const redco_op *op)
{
    return op->kind == REDCO_OP_POINTWISE || redco_pointwise_has(op->kind);
}

/** @return whether both are of the same operator of the step. */
static bool same_name(const redco_op *a, const redco_op *b)
{
    return a->order == b->order && a->copy == b->copy && a->toward == b->toward && a->layer_id == b->layer_id &&
           a->name_id == b->name_id;
}

/* Analysis */

static void find_readers(redcoi_fuser *f)
{
    uint32_t *const at = f->reader_at;
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < f->op_count; i++) {
            const redco_op *const op = redco_graph_op(f->graph, i);
            if (!f->live[i] || is_view(op)) { continue; }
            for (uint32_t k = 0; k < op->input_count; k++) {
                const redco_value root = f->root[op->inputs[k]];
                bool again = false;
                for (uint32_t n = 0; n < k; n++) { again = again || f->root[op->inputs[n]] == root; }
                if (again) { continue; }
                if (pass == 0) {
                    at[root + 1]++;
                } else {
                    f->reader[at[root]++] = i;
                }
            }
        }
        if (pass == 0) {
            for (uint32_t v = 0; v < f->value_count; v++) { at[v + 1] += at[v]; }
        } else { /* each has come to where the next begins */
            memmove(at + 1, at, f->value_count * sizeof *at);
            at[0] = 0;
        }
    }
}

static redco_status analyse(redcoi_fuser *f, const redco_value *outputs, uint32_t output_count, redco_error *err)
{
    const size_t ops = (size_t)f->op_count + 1, values = (size_t)f->value_count + 1;
    size_t reads = 1;
    for (uint32_t i = 0; i < f->op_count; i++) { reads += redco_graph_op(f->graph, i)->input_count; }
    f->live = calloc(ops, sizeof *f->live);
    f->root = calloc(values, sizeof *f->root);
    f->reader_at = calloc(values + 1, sizeof *f->reader_at);
    f->reader = calloc(reads, sizeof *f->reader);
    f->wanted = calloc(values, sizeof *f->wanted);
    f->group_of = malloc(ops * sizeof *f->group_of);
    f->groups = calloc(ops, sizeof(redcoi_group *));
    if (!f->live || !f->root || !f->reader_at || !f->reader || !f->wanted || !f->group_of || !f->groups) {
        return redco_fail(err, REDCO_ENOMEM, "graph", "no memory to fuse %u operators", f->op_count);
    }
    memset(f->group_of, 0xff, ops * sizeof *f->group_of);
    redco_graph_live(f->graph, outputs, output_count, f->live);
    for (uint32_t i = 0; i < f->op_count; i++) {
        const redco_op *const op = redco_graph_op(f->graph, i);
        for (uint32_t k = 0; k < op->output_count; k++) {
            const redco_value out = op->first_output + k;
            f->root[out] = is_view(op) ? f->root[op->inputs[0]] : out;
        }
    }
    for (uint32_t i = 0; i < output_count; i++) { f->wanted[f->root[outputs[i]]] = true; }
    find_readers(f);
    return REDCO_OK;
}

static void forget(redcoi_fuser *f)
{
    for (uint32_t i = 0; f->groups != NULL && i < f->op_count; i++) { free(f->groups[i]); }
    free(f->live);
    free(f->root);
    free(f->reader_at);
    free(f->reader);
    free(f->wanted);
    free(f->group_of);
    free(f->groups);
}

/* Joining groups */

static bool join(const redcoi_group *a, const redcoi_group *b, redcoi_group *out)
{
    uint32_t i = 0, k = 0;
    if (a->count + b->count > REDCO_POINTWISE_STEPS_MAX) { return false; }
    memset(out, 0, sizeof *out);
    while (i < a->count || k < b->count) {
        const bool first = k == b->count || (i < a->count && a->op[i] < b->op[k]);
        out->again[out->count] = first ? a->again[i] : b->again[k];
        out->op[out->count++] = first ? a->op[i++] : b->op[k++];
    }
    return true;
}

/** @return whether an operator that stands before the last one reads what the group makes: it would come too late. */
static bool is_read_before(const redcoi_fuser *f, const redcoi_group *group, uint32_t last)
{
    for (uint32_t i = 0; i < group->count; i++) {
        const redco_op *const op = redco_graph_op(f->graph, group->op[i]);
        for (uint32_t k = 0; k < op->output_count; k++) {
            const redco_value out = op->first_output + k;
            for (uint32_t r = f->reader_at[out]; r < f->reader_at[out + 1] && f->reader[r] < last; r++) {
                if (!redcoi_group_has(group, f->reader[r])) { return true; }
            }
        }
    }
    return false;
}

/** The last operator that reads a root; UINT32_MAX if it is a result. */
static uint32_t last_reader(const redcoi_fuser *f, redco_value root)
{
    if (f->wanted[root]) { return UINT32_MAX; }
    return f->reader_at[root] == f->reader_at[root + 1] ? 0 : f->reader[f->reader_at[root + 1] - 1];
}

/** Bytes that the fusion holds while operator @p at runs, less those that its parts held: what it reads later than
 *  they did is there longer, what they made before is not there yet. */
static int64_t held_more(const redcoi_fuser *f, const redcoi_group *group, uint32_t at)
{
    redco_value seen[REDCO_POINTWISE_STEPS_MAX * REDCO_POINTWISE_INPUTS_MAX];
    uint32_t count = 0;
    int64_t bytes = 0;
    for (uint32_t i = 0; i < group->count; i++) {
        const redco_op *const op = redco_graph_op(f->graph, group->op[i]);
        for (uint32_t k = 0; k < op->input_count; k++) {
            const redco_value root = f->root[op->inputs[k]];
            const redco_op *const maker = redco_value_op(f->graph, root);
            bool known = maker->kind == REDCO_OP_INPUT || maker->kind == REDCO_OP_CONSTANT ||
                         redcoi_group_has(group, maker->id) || maker->id > at;
            for (uint32_t n = 0; n < count && !known; n++) { known = seen[n] == root; }
            if (known) { continue; }
            seen[count++] = root;
            if (last_reader(f, root) < at) { bytes += (int64_t)redco_type_bytes(redco_value_type(f->graph, root)); }
        }
        for (uint32_t k = 0; k < op->output_count; k++) {
            const redco_value out = op->first_output + k;
            if (op->id < at && last_reader(f, out) >= at) {
                bytes -= (int64_t)redco_type_bytes(redco_value_type(f->graph, out));
            }
        }
    }
    return bytes;
}

static bool holds_more(const redcoi_fuser *f, const redcoi_group *group, uint32_t last)
{
    if (last - group->op[0] > REACH) { return true; }
    for (uint32_t at = group->op[0] + 1; at < last; at++) {
        const redco_op *const op = redco_graph_op(f->graph, at);
        if (!f->live[at] || is_view(op) || redco_op_kind_class(op->kind) == REDCO_CLASS_SOURCE ||
            redcoi_group_has(group, at)) {
            continue;
        }
        if (held_more(f, group, at) > 0) { return true; }
    }
    return false;
}

/** @return bytes that are saved; 0 if they cannot be one or it does not pay */
static uint64_t saved_by_joining(const redcoi_fuser *f, const redcoi_group *a, const redcoi_group *b,
                                 redcoi_group *joined)
{
    redcoi_fusion fusion;
    if (!join(a, b, joined)) { return 0; }
    const uint32_t last = redcoi_group_last(joined);
    const uint64_t before = redcoi_group_bytes(f, a) + redcoi_group_bytes(f, b), after = redcoi_group_bytes(f, joined);
    if (after >= before || is_read_before(f, joined, last) || holds_more(f, joined, last) ||
        !redcoi_fusion_make(f, joined, &fusion)) {
        return 0;
    }
    return before - after;
}

/** Groups that make what the group of @p op reads, or read it too. */
static uint32_t neighbours(const redcoi_fuser *f, const redcoi_group *group, uint32_t out[NEIGHBOURS])
{
    const redco_op *const named = redco_graph_op(f->graph, group->op[0]);
    uint32_t count = 0;
    for (uint32_t i = 0; i < group->count; i++) {
        const redco_op *const op = redco_graph_op(f->graph, group->op[i]);
        for (uint32_t k = 0; k < op->input_count; k++) {
            const redco_value root = f->root[op->inputs[k]];
            uint32_t r = f->reader_at[root + 1], looked = 0;
            while (r > f->reader_at[root] && f->reader[r - 1] >= op->id) { r--; }
            for (bool maker = true; count < NEIGHBOURS && looked < NEIGHBOURS; maker = false, looked++) {
                if (!maker && r == f->reader_at[root]) { break; }
                const uint32_t other = maker ? redco_value_op(f->graph, root)->id : f->reader[--r];
                const uint32_t g = f->group_of[other];
                bool known = g == REDCOI_NO_GROUP || g == f->group_of[op->id] ||
                             !same_name(named, redco_graph_op(f->graph, other));
                for (uint32_t n = 0; n < count && !known; n++) { known = out[n] == g; }
                if (!known) { out[count++] = g; }
            }
        }
    }
    return count;
}

/** Joins what saves most to the group of @p op, as long as something saves. */
static redco_status grow(redcoi_fuser *f, uint32_t op, redco_error *err)
{
    redcoi_group *const own = calloc(1, sizeof *own);
    if (own == NULL) { return redco_fail(err, REDCO_ENOMEM, "graph", "no memory to fuse operators"); }
    own->op[own->count++] = op;
    f->groups[op] = own;
    f->group_of[op] = op;
    for (;;) {
        uint32_t near[NEIGHBOURS], best = REDCOI_NO_GROUP;
        uint64_t most = 0;
        redcoi_group joined, found = {.count = 0};
        const uint32_t count = neighbours(f, own, near);
        for (uint32_t n = 0; n < count; n++) {
            const uint64_t saved = saved_by_joining(f, own, f->groups[near[n]], &joined);
            if (saved < most || saved == 0 || (saved == most && near[n] > best)) { continue; }
            most = saved;
            best = near[n];
            found = joined;
        }
        if (best == REDCOI_NO_GROUP) { return REDCO_OK; }
        free(f->groups[best]);
        f->groups[best] = NULL;
        *own = found;
        for (uint32_t i = 0; i < own->count; i++) { f->group_of[own->op[i]] = op; }
    }
}

/* Making again */

/** At most an exponential and a division: less than reading a value from memory costs. */
static bool is_cheap(redco_op_kind kind)
{
    switch (kind) {
    case REDCO_OP_LOG:
    case REDCO_OP_POW:
    case REDCO_OP_TANH:
    case REDCO_OP_ERF:
    case REDCO_OP_SIN:
    case REDCO_OP_COS:
    case REDCO_OP_GELU:
    case REDCO_OP_GELU_GRAD:
    case REDCO_OP_GELU_TANH_GRAD: return false;
    default: return redco_pointwise_has(kind);
    }
}

/** Adds to @p group what makes @p value of what it reads without it. */
static bool add_again(const redcoi_fuser *f, const redcoi_group *reader, redcoi_group *group, redco_value value,
                      uint32_t depth)
{
    const redco_op *const maker = redco_value_op(f->graph, value);
    if (maker->kind == REDCO_OP_CONSTANT || redcoi_group_has(group, maker->id)) { return true; }
    /* Values that the group reads anyway, but for the value that is to go. */
    for (uint32_t i = 0; depth > 0 && i < reader->count; i++) {
        const redco_op *const op = redco_graph_op(f->graph, reader->op[i]);
        for (uint32_t k = 0; k < op->input_count; k++) {
            if (redcoi_fuse_direct(f->graph, op->inputs[k]) == value) { return true; }
        }
    }
    if (depth == AGAIN_STEPS || !is_cheap(maker->kind) || group->count == REDCO_POINTWISE_STEPS_MAX) { return false; }
    for (uint32_t k = 0; k < maker->input_count; k++) {
        if (!add_again(f, reader, group, redcoi_fuse_direct(f->graph, maker->inputs[k]), depth + 1)) { return false; }
    }
    const redcoi_group one = {.count = 1, .op = {maker->id}, .again = {true}};
    redcoi_group joined;
    if (redcoi_group_has(group, maker->id)) { return true; }
    if (!join(group, &one, &joined)) { return false; }
    *group = joined;
    return true;
}

/** Makes one value again that the group of @p op reads. @return false if there is none */
static bool make_again(const redcoi_fuser *f, uint32_t op)
{
    redcoi_group *const group = f->groups[op];
    const uint64_t before = redcoi_group_bytes(f, group);
    for (uint32_t i = 0; i < group->count; i++) {
        const redco_op *const part = redco_graph_op(f->graph, group->op[i]);
        for (uint32_t k = 0; k < part->input_count; k++) {
            const redco_value value = redcoi_fuse_direct(f->graph, part->inputs[k]);
            redcoi_group more = *group;
            redcoi_fusion fusion;
            if (redcoi_group_makes(f, group, value) || redco_value_op(f->graph, value)->kind == REDCO_OP_CONSTANT ||
                !add_again(f, group, &more, value, 0) || redcoi_group_bytes(f, &more) >= before ||
                !redcoi_fusion_make(f, &more, &fusion)) {
                continue;
            }
            *group = more;
            return true;
        }
    }
    return false;
}

static redco_status find_groups(redcoi_fuser *f, redco_error *err)
{
    for (uint32_t i = 0; i < f->op_count; i++) {
        if (!f->live[i] || !can_be_fused(redco_graph_op(f->graph, i))) { continue; }
        const redco_status st = grow(f, i, err);
        if (st != REDCO_OK) { return st; }
    }
    for (uint32_t i = 0; i < f->op_count && !f->options.keep_all; i++) {
        while (f->groups[i] != NULL && make_again(f, i)) {}
    }
    return REDCO_OK;
}

/* The new graph */

typedef struct emitter {
    const redcoi_fuser *f;
    redco_graph *to;
    redco_value *map; /**< by value */
    uint32_t *op_of;  /**< by operator: the new one */
    bool changed;
} emitter;

static redco_value mapped(emitter *e, redco_value value);

static void insert(emitter *e, const redco_op *op, const redco_value *inputs, redco_value *outputs)
{
    redco_op made = *op;
    made.origin = op->origin == REDCO_NO_OP ? REDCO_NO_OP : e->op_of[op->origin];
    redco_graph_insert(e->to, &made, inputs, outputs);
}

static void copy_op(emitter *e, const redco_op *op)
{
    redco_value inputs[REDCO_INPUTS_MAX], outputs[REDCO_OUTPUTS_MAX];
    for (uint32_t k = 0; k < op->input_count; k++) { inputs[k] = mapped(e, op->inputs[k]); }
    insert(e, op, inputs, outputs);
    for (uint32_t k = 0; k < op->output_count; k++) { e->map[op->first_output + k] = outputs[k]; }
    if (outputs[0] != REDCO_NO_VALUE) { e->op_of[op->id] = redco_value_op(e->to, outputs[0])->id; }
}

/** Views and constants are made when they are first read, so that none is made for nobody. */
static redco_value mapped(emitter *e, redco_value value)
{
    if (e->map[value] == REDCO_NO_VALUE) {
        const redco_op *const op = redco_value_op(e->f->graph, value);
        if (is_view(op) || op->kind == REDCO_OP_CONSTANT) { copy_op(e, op); }
    }
    return e->map[value];
}

static void copy_input(emitter *e, const redco_op *op)
{
    const redco_tensor_type *const type = redco_value_type(e->f->graph, op->first_output);
    const char *const name = redco_value_name(e->f->graph, op->first_output);
    redco_graph_set_like(e->to, op);
    e->map[op->first_output] = (op->attributes.flags & REDCO_FLAG_PARAMETER) != 0 ? redco_parameter(e->to, name, type)
                                                                                  : redco_input(e->to, name, type);
}

static void emit_fusion(emitter *e, const redcoi_group *group, const redco_op *last)
{
    redcoi_fusion fusion;
    redco_value inputs[REDCO_POINTWISE_INPUTS_MAX], outputs[REDCO_OUTPUTS_MAX];
    if (!redcoi_fusion_make(e->f, group, &fusion)) { return; } /* it is read by nobody any more */
    e->changed = true;
    const redco_op *const alone = redco_value_op(e->f->graph, fusion.outputs[0]);
    if (fusion.program.step_count == 1 && alone->kind != REDCO_OP_POINTWISE) { /* the others are recomputed elsewhere */
        copy_op(e, alone);
        return;
    }
    redco_op op = *last;
    op.kind = REDCO_OP_POINTWISE;
    op.input_count = fusion.program.input_count;
    op.output_count = fusion.program.output_count;
    redco_pointwise_pack(&fusion.program, &op.attributes);
    for (uint32_t k = 0; k < op.input_count; k++) { inputs[k] = mapped(e, fusion.inputs[k]); }
    insert(e, &op, inputs, outputs);
    for (uint32_t k = 0; k < op.output_count; k++) { e->map[fusion.outputs[k]] = outputs[k]; }
    for (uint32_t i = 0; i < group->count && outputs[0] != REDCO_NO_VALUE; i++) {
        if (!group->again[i]) { e->op_of[group->op[i]] = redco_value_op(e->to, outputs[0])->id; }
    }
}

/** @return how many of an operator's results are still read */
static uint32_t handed_out(const redcoi_fuser *f, const redcoi_group *group, const redco_op *op)
{
    uint32_t count = 0;
    for (uint32_t k = 0; k < op->output_count; k++) {
        count += redcoi_group_hands_out(f, group, op->first_output + k) ? 1 : 0;
    }
    return count;
}

static void emit(emitter *e, const redco_op *op)
{
    const redcoi_fuser *const f = e->f;
    const uint32_t g = f->group_of[op->id];
    const redcoi_group *const group = g == REDCOI_NO_GROUP ? NULL : f->groups[g];
    if (op->kind == REDCO_OP_INPUT) {
        copy_input(e, op);
    } else if (is_view(op) || op->kind == REDCO_OP_CONSTANT) {
        return;
    } else if (group == NULL || (group->count == 1 && handed_out(f, group, op) == op->output_count)) {
        copy_op(e, op);
    } else if (redcoi_group_last(group) == op->id) {
        emit_fusion(e, group, op);
    }
}

static redco_status rewrite(redcoi_fuser *f, const redco_value *outputs, uint32_t output_count, redco_graph **graph_out,
                            redco_value *outputs_out, bool *changed_out, redco_error *err)
{
    emitter e = {.f = f, .to = redco_graph_create()};
    redco_status st = REDCO_OK;
    e.map = malloc(((size_t)f->value_count + 1) * sizeof *e.map);
    e.op_of = malloc(((size_t)f->op_count + 1) * sizeof *e.op_of);
    if (e.to == NULL || e.map == NULL || e.op_of == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "graph", "no memory for a graph of %u operators", f->op_count);
        goto out;
    }
    memset(e.map, 0xff, f->value_count * sizeof *e.map);
    memset(e.op_of, 0xff, f->op_count * sizeof *e.op_of);
    for (uint32_t i = 0; i < f->op_count; i++) {
        if (f->live[i]) { emit(&e, redco_graph_op(f->graph, i)); }
    }
    for (uint32_t i = 0; i < output_count; i++) { outputs_out[i] = mapped(&e, outputs[i]); }
    if ((st = redco_graph_status(e.to, err)) != REDCO_OK) { goto out; }
    *changed_out = e.changed;
    *graph_out = e.to;
    e.to = NULL;
out:
    redco_graph_free(e.to);
    free(e.map);
    free(e.op_of);
    return st;
}

static redco_status fuse_once(const redco_graph *graph, const redco_value *outputs, uint32_t output_count,
                              const redco_fuse_options *options, redco_graph **graph_out, redco_value *outputs_out,
                              bool *changed_out, redco_error *err)
{
    redcoi_fuser f = {.graph = graph,
                      .options = *options,
                      .op_count = redco_graph_op_count(graph),
                      .value_count = redco_graph_value_count(graph)};
    redco_status st = analyse(&f, outputs, output_count, err);
    if (st == REDCO_OK) { st = find_groups(&f, err); }
    if (st == REDCO_OK) { st = rewrite(&f, outputs, output_count, graph_out, outputs_out, changed_out, err); }
    forget(&f);
    return st;
}

redco_status redco_graph_fuse(const redco_graph *graph, const redco_value *outputs, uint32_t output_count,
                              const redco_fuse_options *options, redco_graph **graph_out, redco_value *outputs_out,
                              redco_error *err)
{
    static const redco_fuse_options none = {.keep_all = false};
    redco_graph *now = NULL, *next = NULL;
    redco_status st = redco_graph_status(graph, err);
    if (st != REDCO_OK) { return st; }
    for (uint32_t i = 0; i < output_count; i++) {
        if (outputs[i] >= redco_graph_value_count(graph)) {
            return redco_fail(err, REDCO_EVALUE, "graph", "output %u is no value of this graph", i);
        }
    }
    redco_value *const values = calloc((size_t)output_count + 1, sizeof *values);
    if (values == NULL) { return redco_fail(err, REDCO_ENOMEM, "graph", "no memory for %u outputs", output_count); }
    memcpy(values, outputs, output_count * sizeof *values);
    /* An operator that one round leaves single may find company in the next; every round has fewer operators or moves
     * less. */
    for (bool changed = true; changed && st == REDCO_OK;) {
        st = fuse_once(now == NULL ? graph : now, values, output_count, options == NULL ? &none : options, &next,
                       outputs_out, &changed, err);
        if (st != REDCO_OK) { break; }
        memcpy(values, outputs_out, output_count * sizeof *values);
        redco_graph_free(now);
        now = next;
    }
    free(values);
    if (st != REDCO_OK) {
        redco_graph_free(now);
        return st;
    }
    *graph_out = now;
    return REDCO_OK;
}
