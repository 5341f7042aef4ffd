/* A loss may be no mean over examples that are seen alone. It is found by dimensions that grow with the
 * micro-batch, in the forward of two graphs that are alike. */
#include "executor/pipeline/pipeline_work_internal.h"

#include <stdlib.h>

/* Dimensions of a value that differ between two micro-batches. */
static uint32_t growing_dims(const redco_tensor_type *a, const redco_tensor_type *b)
{
    uint32_t count = 0;
    for (uint32_t d = 0; d < a->rank && d < b->rank; d++) { count += a->dim[d] != b->dim[d] ? 1 : 0; }
    return count;
}

/* Pairs of examples: a result that grows faster than the micro-batch. A statistic of all of them that comes back to
 * each: a result that grows, of an input that does not but is made of what does. Or a product that sums over them.
 * @param of_examples  by value of the first graph: it is made of inputs that grow; the operator's results are added */
static bool couples(const redcoi_probe *a, const redcoi_probe *b, uint32_t at, bool *of_examples)
{
    const redco_op *const x = redco_graph_op(a->graph, a->order[at]), *const y = redco_graph_op(b->graph, b->order[at]);
    bool depends = false, statistic = false, grows = false;
    for (uint32_t k = 0; k < x->input_count; k++) {
        const uint32_t grown =
            growing_dims(redco_value_type(a->graph, x->inputs[k]), redco_value_type(b->graph, y->inputs[k]));
        const bool of_them = of_examples[x->inputs[k]] || grown > 0;
        depends = depends || of_them;
        grows = grows || grown > 0;
        statistic = statistic || (of_them && grown == 0);
    }
    const redco_tensor_type *const small = redco_value_type(a->graph, x->first_output);
    const redco_tensor_type *const large = redco_value_type(b->graph, y->first_output);
    const bool result_grows = growing_dims(small, large) > 0;
    for (uint32_t o = 0; o < x->output_count; o++) { of_examples[x->first_output + o] = depends; }
    const double by = (double)redco_type_elements(large) / (double)redco_type_elements(small);
    return by > (double)b->examples / a->examples || (statistic && result_grows) ||
           (x->kind == REDCO_OP_MATMUL && grows && !result_grows);
}

redco_status redcoi_probes_couple(const redcoi_work_maker *m, bool *couple_out, redco_error *err)
{
    const redcoi_probe *const a = &m->probes[0], *const b = &m->probes[1];
    *couple_out = false;
    if (m->probe_count < 2) { return REDCO_OK; }
    bool *const of_examples = calloc(redco_graph_value_count(a->graph) + 1, sizeof *of_examples);
    if (of_examples == NULL) { return redcoi_work_no_memory(m, err); }
    for (uint32_t i = 0; i < a->order_count && !*couple_out; i++) {
        const redco_op *const op = redco_graph_op(a->graph, a->order[i]);
        if (op->order == 0 && a->pass[op->id] == REDCOI_FORWARD) { *couple_out = couples(a, b, i, of_examples); }
    }
    free(of_examples);
    return REDCO_OK;
}
