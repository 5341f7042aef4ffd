/* The layouts of one layer: conversions, sums, enumeration. Source of the collectives per pair of forms: Shoeybi et al.
 * 2019 (column and row splits), Korthikanti et al. 2022 (sequence parallelism); slices cost nothing. */
#include "planner/tensor_parallel/layer_graph.h"

#include <math.h>
#include <string.h>

const double redcoi_tp_tie_s_per_gib = 1e-5;

static const double gib = 1073741824.0;

enum conversion { FREE, REDUCE, GATHER, SCATTER, EXCHANGE, NEVER };

struct pair {
    enum conversion forward, backward;
};

/* [producer][consumer]. No producer is SHARED, no consumer CUT: these are forms of one side only. A partial sum takes
 * whole and split parts as they are: added once, or zero elsewhere. */
static const struct pair pairs[REDCOI_TP_FORMS][REDCOI_TP_FORMS] = {
    [REDCOI_TP_WHOLE] = {{FREE, FREE}, {FREE, REDUCE}, {FREE, GATHER}, {NEVER, NEVER}, {FREE, FREE}, {FREE, GATHER}},
    [REDCOI_TP_SHARED] =
        {{NEVER, NEVER}, {NEVER, NEVER}, {NEVER, NEVER}, {NEVER, NEVER}, {NEVER, NEVER}, {NEVER, NEVER}},
    [REDCOI_TP_SPLIT] =
        {{GATHER, FREE}, {GATHER, SCATTER}, {FREE, FREE}, {NEVER, NEVER}, {FREE, FREE}, {EXCHANGE, EXCHANGE}},
    [REDCOI_TP_CUT] =
        {{GATHER, FREE}, {GATHER, SCATTER}, {NEVER, NEVER}, {NEVER, NEVER}, {FREE, FREE}, {EXCHANGE, EXCHANGE}},
    [REDCOI_TP_PARTIAL] =
        {{REDUCE, FREE}, {REDUCE, REDUCE}, {SCATTER, GATHER}, {NEVER, NEVER}, {FREE, FREE}, {SCATTER, GATHER}},
    [REDCOI_TP_ROWS] =
        {{GATHER, FREE}, {GATHER, SCATTER}, {EXCHANGE, EXCHANGE}, {NEVER, NEVER}, {NEVER, NEVER}, {FREE, FREE}},
};

redcoi_tp_form redcoi_tp_layout(redcoi_tp_form form)
{
    return form == REDCOI_TP_SHARED ? REDCOI_TP_WHOLE : form;
}

/* Bytes that a rank sends, ring algorithms. */
static double sent_bytes(enum conversion conversion, double bytes, double ranks)
{
    const double once = bytes * (ranks - 1.0) / ranks;
    switch (conversion) {
    case REDUCE: return 2.0 * once;
    case GATHER:
    case SCATTER: return once;
    case EXCHANGE: return once / ranks;
    case FREE:
    case NEVER: break;
    }
    return 0.0;
}

static double seconds(const redcoi_tp_graph *graph, enum conversion conversion, double bytes)
{
    const redcoi_tp_prices *const prices = &graph->prices;
    switch (conversion) {
    case FREE: return 0.0;
    case REDUCE: return prices->seconds(prices->context, REDCO_ALL_REDUCE, bytes);
    case GATHER: return prices->seconds(prices->context, REDCO_ALL_GATHER, bytes);
    case SCATTER: return prices->seconds(prices->context, REDCO_REDUCE_SCATTER, bytes);
    case EXCHANGE: return prices->seconds(prices->context, REDCO_ALL_TO_ALL, bytes / graph->ranks);
    case NEVER: break;
    }
    return (double)INFINITY;
}

static bool is_cost(double value)
{
    return value >= 0.0 && value < (double)INFINITY;
}

static bool costs_are_numbers(const redcoi_tp_node *node)
{
    for (uint32_t o = 0; o < node->option_count; o++) {
        const redcoi_tp_option *const option = &node->options[o];
        if (!is_cost(option->forward_s) || !is_cost(option->backward_s) || !is_cost(option->tp_forward_s) ||
            !is_cost(option->tp_backward_s)) {
            return false;
        }
    }
    return is_cost(node->width_bytes) && is_cost(node->traffic_ratio);
}

redco_status redcoi_tp_price(redcoi_tp_graph *graph, redco_error *err)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const redcoi_tp_node *const node = &graph->nodes[n];
        if (!costs_are_numbers(node)) {
            return redco_fail(err, REDCO_EVALUE, "tensor-parallel placement", "a cost of %s is not a number",
                              node->name);
        }
        double price_s[NEVER + 1];
        for (int c = FREE; c <= NEVER; c++) {
            price_s[c] = seconds(graph, (enum conversion)c, node->width_bytes);
            if (c != FREE && c != NEVER) { price_s[c] *= node->traffic_ratio; }
            if (c != NEVER && !is_cost(price_s[c])) {
                return redco_fail(err, REDCO_EVALUE, "tensor-parallel placement", "a collective behind %s takes %g s",
                                  node->name, price_s[c]);
            }
        }
        for (int from = 0; from < REDCOI_TP_FORMS; from++) {
            for (int to = 0; to < REDCOI_TP_FORMS; to++) {
                graph->forward_s[n][from][to] = price_s[pairs[from][to].forward];
                graph->backward_s[n][from][to] = price_s[pairs[from][to].backward];
            }
        }
    }
    return REDCO_OK;
}

/* The forms in which the consumers want a node's output, as bits. */
static uint32_t wanted_forms(const redcoi_tp_graph *graph, const redcoi_tp_choice *choice, uint32_t producer)
{
    uint32_t wanted = 0;
    for (uint32_t n = producer + 1; n < graph->node_count; n++) {
        const redcoi_tp_node *const node = &graph->nodes[n];
        for (uint32_t i = 0; i < node->input_count; i++) {
            if (node->inputs[i] == producer) { wanted |= 1U << node->options[choice->option[n]].input[i]; }
        }
    }
    return wanted;
}

/* One collective forward for every layout wanted, one backward for every form: consumers that want the same share it.
 */
static void add_traffic(const redcoi_tp_graph *graph, uint32_t n, redcoi_tp_form from, uint32_t wanted,
                        redcoi_tp_cost *cost)
{
    const redcoi_tp_node *const node = &graph->nodes[n];
    uint32_t reached = 0;
    for (int to = 0; to < REDCOI_TP_FORMS; to++) {
        if ((wanted & (1U << to)) == 0) { continue; }
        const double bytes = node->width_bytes * node->traffic_ratio;
        const uint32_t layout = 1U << redcoi_tp_layout((redcoi_tp_form)to);
        if ((reached & layout) == 0) {
            cost->tp_forward_s += graph->forward_s[n][from][to];
            cost->tp_bytes += sent_bytes(pairs[from][to].forward, bytes, graph->ranks);
            reached |= layout;
        }
        cost->tp_backward_s += graph->backward_s[n][from][to];
        cost->tp_bytes += sent_bytes(pairs[from][to].backward, bytes, graph->ranks);
    }
}

static bool ties_hold(const redcoi_tp_graph *graph, const redcoi_tp_choice *choice)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const uint32_t tied = graph->nodes[n].tied;
        if (tied == REDCOI_TP_NONE) { continue; }
        if (graph->nodes[n].options[choice->option[n]].split !=
            graph->nodes[tied].options[choice->option[tied]].split) {
            return false;
        }
    }
    return true;
}

static void add_option(const redcoi_tp_option *option, redcoi_tp_cost *cost)
{
    cost->forward_s += option->forward_s;
    cost->backward_s += option->backward_s;
    cost->tp_forward_s += option->tp_forward_s;
    cost->tp_backward_s += option->tp_backward_s;
    cost->tp_bytes += option->tp_bytes;
    cost->params += option->params;
    cost->bytes += option->bytes;
}

redcoi_tp_total redcoi_tp_evaluate(const redcoi_tp_graph *graph, const redcoi_tp_choice *choice)
{
    redcoi_tp_total total = {.time_s = 0.0};
    double params_s = 0.0;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const redcoi_tp_node *const node = &graph->nodes[n];
        const redcoi_tp_option *const option = &node->options[choice->option[n]];
        redcoi_tp_cost *const cost = &total.classes[node->class_slot];
        add_option(option, cost);
        add_traffic(graph, n, option->output, wanted_forms(graph, choice, n), cost);
    }
    for (int c = 0; c < REDCOI_TP_CLASSES; c++) {
        const redcoi_tp_cost *const cost = &total.classes[c];
        total.time_s +=
            cost->forward_s + cost->backward_s + graph->exposed_ratio * (cost->tp_forward_s + cost->tp_backward_s);
        total.memory_bytes += cost->params * graph->param_bytes + cost->bytes;
        params_s += graph->param_s * (double)cost->params;
    }
    const bool fits = graph->limit_bytes == 0 || total.memory_bytes <= graph->limit_bytes;
    total.value_s = fits && ties_hold(graph, choice) && isfinite(total.time_s)
                        ? total.time_s + params_s + redcoi_tp_tie_s_per_gib * (double)total.memory_bytes / gib
                        : (double)INFINITY;
    return total;
}

double redcoi_tp_option_s(const redcoi_tp_graph *graph, const redcoi_tp_option *option)
{
    return option->forward_s + option->backward_s +
           graph->exposed_ratio * (option->tp_forward_s + option->tp_backward_s) +
           graph->param_s * (double)option->params;
}

/* Depth first over the nodes; the traffic of an output is added when its last consumer has chosen. */
struct walk {
    const redcoi_tp_graph *graph;
    const uint32_t *allowed;
    uint32_t last_consumer[REDCOI_TP_NODES];
    redcoi_tp_choice choice, best;
    double best_s;
    uint64_t count;
    bool every, found;
};

static double settled_s(const struct walk *walk, uint32_t at)
{
    const redcoi_tp_graph *const graph = walk->graph;
    redcoi_tp_cost cost = {.params = 0};
    for (uint32_t n = 0; n <= at; n++) {
        if (walk->last_consumer[n] != at) { continue; }
        const redcoi_tp_form from = graph->nodes[n].options[walk->choice.option[n]].output;
        add_traffic(graph, n, from, wanted_forms(graph, &walk->choice, n), &cost);
    }
    return graph->exposed_ratio * (cost.tp_forward_s + cost.tp_backward_s);
}

static void descend(struct walk *walk, uint32_t at, double value_s, uint64_t memory_bytes)
{
    const redcoi_tp_graph *const graph = walk->graph;
    if (at == graph->node_count) {
        walk->count++;
        if (graph->limit_bytes > 0 && memory_bytes > graph->limit_bytes) { return; }
        const double all_s = value_s + redcoi_tp_tie_s_per_gib * (double)memory_bytes / gib;
        if (all_s < walk->best_s) {
            walk->best_s = all_s;
            walk->best = walk->choice;
            walk->found = true;
        }
        return;
    }
    const redcoi_tp_node *const node = &graph->nodes[at];
    for (uint32_t o = 0; o < node->option_count; o++) {
        const redcoi_tp_option *const option = &node->options[o];
        if ((walk->allowed[at] & (1U << o)) == 0) { continue; }
        if (node->tied != REDCOI_TP_NONE &&
            graph->nodes[node->tied].options[walk->choice.option[node->tied]].split != option->split) {
            continue;
        }
        walk->choice.option[at] = (uint8_t)o;
        const double sum_s = value_s + redcoi_tp_option_s(graph, option) + settled_s(walk, at);
        if (!walk->every && !(sum_s < walk->best_s)) { continue; }
        descend(walk, at + 1, sum_s, memory_bytes + option->params * graph->param_bytes + option->bytes);
    }
}

bool redcoi_tp_enumerate(const redcoi_tp_graph *graph, const uint32_t allowed[REDCOI_TP_NODES], bool every,
                         redcoi_tp_choice *best_out, redcoi_tp_total *total_out, uint64_t *count_out)
{
    struct walk walk = {.graph = graph, .allowed = allowed, .every = every, .best_s = (double)INFINITY};
    for (uint32_t n = 0; n < graph->node_count; n++) {
        walk.last_consumer[n] = REDCOI_TP_NONE;
        for (uint32_t c = n + 1; c < graph->node_count; c++) {
            for (uint32_t i = 0; i < graph->nodes[c].input_count; i++) {
                if (graph->nodes[c].inputs[i] == n) { walk.last_consumer[n] = c; }
            }
        }
    }
    descend(&walk, 0, 0.0, 0);
    if (count_out != NULL) { *count_out = walk.count; }
    if (!walk.found) { return false; }
    *best_out = walk.best;
    *total_out = redcoi_tp_evaluate(graph, &walk.best);
    return true;
}

void redcoi_tp_legal(const redcoi_tp_graph *graph, uint32_t allowed_out[REDCOI_TP_NODES])
{
    memset(allowed_out, 0, REDCOI_TP_NODES * sizeof *allowed_out);
    for (uint32_t n = 0; n < graph->node_count; n++) {
        for (uint32_t o = 0; o < graph->nodes[n].option_count; o++) {
            if (graph->nodes[n].options[o].legal) { allowed_out[n] |= 1U << o; }
        }
    }
}

void redcoi_tp_reference(const redcoi_tp_graph *graph, uint32_t allowed_out[REDCOI_TP_NODES])
{
    memset(allowed_out, 0, REDCOI_TP_NODES * sizeof *allowed_out);
    for (uint32_t n = 0; n < graph->node_count; n++) {
        for (uint32_t o = 0; o < graph->nodes[n].option_count; o++) {
            if (graph->nodes[n].options[o].reference) { allowed_out[n] |= 1U << o; }
        }
    }
}

void redcoi_tp_ruled(const redcoi_tp_graph *graph, const redcoi_tp_split splits[REDCOI_TP_NODES],
                     uint32_t allowed_out[REDCOI_TP_NODES])
{
    memset(allowed_out, 0, REDCOI_TP_NODES * sizeof *allowed_out);
    for (uint32_t n = 0; n < graph->node_count; n++) {
        for (uint32_t o = 0; o < graph->nodes[n].option_count; o++) {
            const redcoi_tp_option *const option = &graph->nodes[n].options[o];
            const bool meant = option->split == REDCOI_TP_NO_WEIGHT || option->split == splits[n];
            if (option->by_rules && meant) { allowed_out[n] |= 1U << o; }
        }
    }
}
