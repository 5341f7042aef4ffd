#include "costmodel/graph/differentiate.h"

#include "costmodel/graph/build_calls.h"
#include "costmodel/graph/graph_internal.h"

#include <stdlib.h>
#include <string.h>

enum value_flag {
    NEEDED = 1, /**< depends on one of the values that gradients are wanted for */
    STOP = 2    /**< gradients are taken as if it were an input: partial derivatives */
};

/** One sweep back over the operators that stood when it began; those it adds come behind them. */
typedef struct sweep {
    redco_graph *g;
    uint32_t first_op, end_op;
    uint8_t *flags;         /**< by value */
    redco_value *cotangent; /**< by value: sum so far */
} sweep;

static redco_status sweep_values(redco_graph *g, const redco_value *outputs, const redco_value *cotangents,
                                 uint32_t output_count, const redco_value *wrt, uint32_t wrt_count, bool partial,
                                 redco_value *gradients_out);

/** A gradient that meets a collective is an error, not zero. */
static bool passes_gradient(const redco_op *op)
{
    return redco_op_kind_class(op->kind) == REDCO_CLASS_COLLECTIVE || redcoi_gradient_rules[op->kind].vjp != NULL ||
           redcoi_gradient_rules[op->kind].decompose != NULL;
}

/** Marks what depends on a value that is already marked. */
static void mark_needed(const sweep *s)
{
    for (uint32_t i = s->first_op; i < s->end_op; i++) {
        const redco_op *op = s->g->ops[i];
        bool needed = false;
        for (uint32_t k = 0; k < op->input_count && !needed; k++) { needed = (s->flags[op->inputs[k]] & NEEDED) != 0; }
        if (!needed || !passes_gradient(op)) { continue; }
        for (uint32_t k = 0; k < op->output_count; k++) {
            const redco_value out = op->first_output + k;
            if (redco_dtype_is_float(redco_value_type(s->g, out)->dtype)) { s->flags[out] |= NEEDED; }
        }
    }
}

static void accumulate(const sweep *s, redco_value value, redco_value gradient)
{
    if (redcoi_graph_failed(s->g) || gradient == REDCO_NO_VALUE) { return; }
    if (!redco_type_equal(redco_value_type(s->g, value), redco_value_type(s->g, gradient))) {
        char want[REDCO_TYPE_TEXT_BYTES], have[REDCO_TYPE_TEXT_BYTES];
        (void)redcoi_graph_fail(s->g, "a gradient of %s for a value of %s",
                                redco_type_text(redco_value_type(s->g, gradient), have),
                                redco_type_text(redco_value_type(s->g, value), want));
        return;
    }
    const redco_value before = s->cotangent[value];
    s->cotangent[value] = before == REDCO_NO_VALUE ? gradient : redco_add(s->g, before, gradient);
}

/** Differentiates the operator as what it decomposes into. */
static void through_decomposition(redcoi_vjp *v)
{
    redco_graph *g = v->graph;
    redco_value out[REDCO_OUTPUTS_MAX], outputs[REDCO_OUTPUTS_MAX], cotangents[REDCO_OUTPUTS_MAX];
    redco_value wrt[REDCO_INPUTS_MAX] = {0}, gradients[REDCO_INPUTS_MAX];
    uint32_t position[REDCO_INPUTS_MAX], outputs_count = 0, wrt_count = 0;
    for (uint32_t i = 0; i < REDCO_OUTPUTS_MAX; i++) { out[i] = REDCO_NO_VALUE; }
    /* Simplification must not see through the inputs: their own operators are not part of this one. */
    g->label.opaque = true;
    redcoi_gradient_rules[v->op->kind].decompose(g, &v->op->attributes, v->in, v->op->input_count, out);
    g->label.opaque = false;
    if (redcoi_graph_failed(g)) { return; }
    for (uint32_t i = 0; i < v->op->output_count; i++) {
        if (v->cotangent[i] == REDCO_NO_VALUE) { continue; }
        outputs[outputs_count] = out[i];
        cotangents[outputs_count++] = v->cotangent[i];
    }
    for (uint32_t i = 0; i < v->op->input_count; i++) {
        bool again = false; /* an input that stands twice has one gradient */
        for (uint32_t k = 0; k < i; k++) { again = again || v->in[k] == v->in[i]; }
        if (!v->needed[i] || again) { continue; }
        position[wrt_count] = i;
        wrt[wrt_count++] = v->in[i];
    }
    if (sweep_values(g, outputs, cotangents, outputs_count, wrt, wrt_count, true, gradients) != REDCO_OK) { return; }
    for (uint32_t i = 0; i < wrt_count; i++) { v->gradient[position[i]] = gradients[i]; }
}

static void differentiate_op(const sweep *s, const redco_op *op)
{
    redco_graph *g = s->g;
    redcoi_vjp v = {.graph = g, .op = op, .in = op->inputs};
    bool reached = false, wanted = false;
    for (uint32_t i = 0; i < op->output_count; i++) {
        v.out[i] = op->first_output + i;
        const bool passes = (s->flags[v.out[i]] & (NEEDED | STOP)) == NEEDED;
        v.cotangent[i] = passes ? s->cotangent[v.out[i]] : REDCO_NO_VALUE;
        reached = reached || v.cotangent[i] != REDCO_NO_VALUE;
    }
    for (uint32_t i = 0; i < op->input_count; i++) {
        v.needed[i] = (s->flags[op->inputs[i]] & NEEDED) != 0;
        v.gradient[i] = REDCO_NO_VALUE;
        wanted = wanted || v.needed[i];
    }
    if (!reached || !wanted || !passes_gradient(op)) { return; }
    if (redco_op_kind_class(op->kind) == REDCO_CLASS_COLLECTIVE) {
        (void)redcoi_graph_fail(g, "gradient through %s: differentiate before layouts are applied",
                                redco_op_kind_name(op->kind));
        return;
    }
    const redcoi_graph_label before = g->label;
    g->label.layer = op->layer_id;
    g->label.name = op->name_id;
    g->label.role = op->role;
    g->label.order = op->order + 1;
    g->label.origin = op->id;
    g->label.toward = REDCO_NO_VALUE;
    const redcoi_gradient_rule *row = &redcoi_gradient_rules[op->kind];
    if (row->vjp == NULL || !row->vjp(&v)) { through_decomposition(&v); }
    g->label.toward = REDCO_NO_VALUE;
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (v.needed[i]) { accumulate(s, op->inputs[i], v.gradient[i]); }
    }
    g->label = before;
}

/** Flags, and the range of operators between the wanted values and the outputs. */
static void begin_sweep(sweep *s, const redco_value *outputs, const redco_value *cotangents, uint32_t output_count,
                        const redco_value *wrt, uint32_t wrt_count, bool partial)
{
    s->first_op = s->g->op_count;
    s->end_op = 0;
    for (uint32_t i = 0; i < wrt_count; i++) {
        const uint32_t op = s->g->values[wrt[i]]->op;
        s->flags[wrt[i]] = (uint8_t)(partial ? NEEDED | STOP : NEEDED);
        if (op < s->first_op) { s->first_op = op; }
    }
    for (uint32_t i = 0; i < output_count; i++) {
        const uint32_t op = s->g->values[outputs[i]]->op;
        if (op >= s->end_op) { s->end_op = op + 1; }
    }
    memset(s->cotangent, 0xff, s->g->value_count * sizeof *s->cotangent);
    mark_needed(s);
    for (uint32_t i = 0; i < output_count; i++) { accumulate(s, outputs[i], cotangents[i]); }
}

static redco_status sweep_values(redco_graph *g, const redco_value *outputs, const redco_value *cotangents,
                                 uint32_t output_count, const redco_value *wrt, uint32_t wrt_count, bool partial,
                                 redco_value *gradients_out)
{
    sweep s = {.g = g};
    s.flags = calloc(g->value_count, sizeof *s.flags);
    s.cotangent = malloc(g->value_count * sizeof *s.cotangent);
    if (s.flags == NULL || s.cotangent == NULL) {
        (void)redco_fail(&g->error, REDCO_ENOMEM, "graph", "no memory to differentiate %u values", g->value_count);
        goto out;
    }
    begin_sweep(&s, outputs, cotangents, output_count, wrt, wrt_count, partial);
    for (uint32_t i = s.end_op; i > s.first_op && !redcoi_graph_failed(g); i--) { differentiate_op(&s, g->ops[i - 1]); }
    for (uint32_t i = 0; i < wrt_count && !redcoi_graph_failed(g); i++) { gradients_out[i] = s.cotangent[wrt[i]]; }
out:
    free(s.flags);
    free(s.cotangent);
    return g->error.status;
}

static bool check_floats(redco_graph *g, const char *what, const redco_value *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        char text[REDCO_TYPE_TEXT_BYTES];
        if (values[i] >= g->value_count) {
            (void)redcoi_graph_fail(g, "gradient: %s %u is no value of this graph", what, i);
            return false;
        }
        const redco_tensor_type *type = redco_value_type(g, values[i]);
        if (!redco_dtype_is_float(type->dtype)) {
            (void)redcoi_graph_fail(g, "gradient: %s %u is %s; it must be floating-point", what, i,
                                    redco_type_text(type, text));
            return false;
        }
    }
    return true;
}

void redco_vector_jacobian(redco_graph *g, const redco_value *outputs, const redco_value *cotangents,
                           uint32_t output_count, const redco_value *wrt, uint32_t wrt_count,
                           redco_value *gradients_out)
{
    for (uint32_t i = 0; i < wrt_count; i++) { gradients_out[i] = REDCO_NO_VALUE; }
    if (redcoi_graph_failed(g) || !check_floats(g, "output", outputs, output_count) ||
        !check_floats(g, "cotangent", cotangents, output_count) || !check_floats(g, "value", wrt, wrt_count)) {
        return;
    }
    if (sweep_values(g, outputs, cotangents, output_count, wrt, wrt_count, false, gradients_out) != REDCO_OK) {
        return;
    }
    for (uint32_t i = 0; i < wrt_count; i++) {
        if (gradients_out[i] == REDCO_NO_VALUE) {
            gradients_out[i] = redco_constant(g, redco_value_type(g, wrt[i]), 0);
        }
    }
}

void redco_gradient(redco_graph *g, redco_value loss, const redco_value *wrt, uint32_t wrt_count,
                    redco_value *gradients_out)
{
    for (uint32_t i = 0; i < wrt_count; i++) { gradients_out[i] = REDCO_NO_VALUE; }
    if (redcoi_graph_failed(g) || !check_floats(g, "loss", &loss, 1)) { return; }
    const redco_tensor_type *type = redco_value_type(g, loss);
    if (type->rank != 0) {
        char text[REDCO_TYPE_TEXT_BYTES];
        (void)redcoi_graph_fail(g, "gradient: the loss is %s; it must be a scalar", redco_type_text(type, text));
        return;
    }
    const redco_value one = redco_scalar(g, type->dtype, 1);
    redco_vector_jacobian(g, &loss, &one, 1, wrt, wrt_count, gradients_out);
}
