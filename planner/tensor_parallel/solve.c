/* Problem 2 as a mixed-integer program for GLPK:
 *    x_{n,o}   node n takes option o, binary;  sum_o x_{n,o} = 1
 *    d_{n,w}   someone wants the output of n in one of the forms of w;  d_{n,w} >= sum of x_{c,o} with such an input
 *    z_{n,p,w} it is made in form p and wanted in w;  sum_p z_{n,p,w} = d_{n,w},  z_{n,p,w} <= sum of x_{n,o} of form p
 *    minimise  sum x own time + sum z collective,  subject to  sum x bytes <= limit
 * An option's own time holds its share of what a step pays for its parameters.
 * The products p x w stand in their tight form: with the weak one (z >= a + d - 1) GLPK needs minutes where it takes
 * milliseconds with this. Times are in the unit that makes the longest 1000, bytes in GiB: GLPK's simplex can go in
 * circles where costs are large. Should it still (limits below), enumeration with cuts answers: it is exact, too. */
#include "planner/glpk/glpk_bounded.h"
#include "planner/glpk/glpk_run.h"
#include "planner/tensor_parallel/layer_graph.h"
#include "topology/base/clock.h"

#include <math.h>

enum { MOST_TERMS = 64, ATTEMPTS = 4, NODE_LIMIT = 100000, TIME_LIMIT_MS = 2000 };

static const double gib = 1073741824.0;

struct row {
    int columns[MOST_TERMS + 1];
    double values[MOST_TERMS + 1];
    int length;
};

struct solve {
    const redcoi_tp_graph *graph;
    redcoi_tp_answer *answer;
    bool leanest; /* minimise memory, without a limit */
    glp_prob *lp;
    double unit_s;                             /* unit of times */
    int x[REDCOI_TP_NODES][REDCOI_TP_OPTIONS]; /* columns; 0: not legal */
    int memory_row;
    int nodes_seen;
};

static void put(struct row *row, int column, double value)
{
    if (row->length == MOST_TERMS) { return; } /* no graph comes near: INPUTS x NODES options */
    row->length++;
    row->columns[row->length] = column;
    row->values[row->length] = value;
}

static int add_row(struct solve *s, const struct row *row, int type, double bound)
{
    const int at = glp_add_rows(s->lp, 1);
    glp_set_row_bnds(s->lp, at, type, bound, bound);
    glp_set_mat_row(s->lp, at, row->length, row->columns, row->values);
    return at;
}

static int add_column(struct solve *s, double upper, double objective)
{
    const int at = glp_add_cols(s->lp, 1);
    glp_set_col_bnds(s->lp, at, upper > 0.0 ? GLP_DB : GLP_FX, 0.0, upper);
    glp_set_obj_coef(s->lp, at, objective);
    return at;
}

static double memory_gib(const redcoi_tp_graph *graph, const redcoi_tp_option *option)
{
    return ((double)option->params * (double)graph->param_bytes + (double)option->bytes) / gib;
}

static double own_s(const redcoi_tp_graph *graph, const redcoi_tp_option *option)
{
    return redcoi_tp_option_s(graph, option) + redcoi_tp_tie_s_per_gib * memory_gib(graph, option);
}

static void add_choices(struct solve *s)
{
    const redcoi_tp_graph *const graph = s->graph;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const redcoi_tp_node *const node = &graph->nodes[n];
        struct row one = {.length = 0};
        for (uint32_t o = 0; o < node->option_count; o++) {
            const redcoi_tp_option *const option = &node->options[o];
            s->x[n][o] = 0;
            if (!option->legal) { continue; }
            s->x[n][o] = add_column(s, 1.0, s->leanest ? memory_gib(graph, option) : own_s(graph, option) / s->unit_s);
            glp_set_col_kind(s->lp, s->x[n][o], GLP_BV);
            put(&one, s->x[n][o], 1.0);
        }
        (void)add_row(s, &one, GLP_FX, 1.0);
    }
}

/* The same weight used twice is split once. */
static void add_ties(struct solve *s)
{
    for (uint32_t n = 0; n < s->graph->node_count; n++) {
        const redcoi_tp_node *const node = &s->graph->nodes[n];
        if (node->tied == REDCOI_TP_NONE) { continue; }
        const redcoi_tp_node *const other = &s->graph->nodes[node->tied];
        for (int split = REDCOI_TP_REPLICATE; split <= REDCOI_TP_ROW; split++) {
            struct row same = {.length = 0};
            for (uint32_t o = 0; o < node->option_count; o++) {
                if ((int)node->options[o].split == split && s->x[n][o] != 0) { put(&same, s->x[n][o], 1.0); }
            }
            for (uint32_t o = 0; o < other->option_count; o++) {
                if ((int)other->options[o].split == split && s->x[node->tied][o] != 0) {
                    put(&same, s->x[node->tied][o], -1.0);
                }
            }
            if (same.length > 0) { (void)add_row(s, &same, GLP_FX, 0.0); }
        }
    }
}

static void add_memory(struct solve *s)
{
    const redcoi_tp_graph *const graph = s->graph;
    s->memory_row = 0;
    if (graph->limit_bytes == 0 || s->leanest) { return; }
    const int row = glp_add_rows(s->lp, 1);
    int columns[REDCOI_TP_NODES * REDCOI_TP_OPTIONS + 1];
    double values[REDCOI_TP_NODES * REDCOI_TP_OPTIONS + 1];
    int length = 0;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        for (uint32_t o = 0; o < graph->nodes[n].option_count; o++) {
            const double held = memory_gib(graph, &graph->nodes[n].options[o]);
            if (s->x[n][o] == 0 || !(held > 0.0)) { continue; }
            columns[++length] = s->x[n][o];
            values[length] = held;
        }
    }
    glp_set_mat_row(s->lp, row, length, columns, values);
    glp_set_row_bnds(s->lp, row, GLP_UP, 0.0, (double)graph->limit_bytes / gib);
    s->memory_row = row;
}

/* Forms in which legal options make the output of n, or want it, as bits. */
static uint32_t made_forms(const struct solve *s, uint32_t n)
{
    uint32_t forms = 0;
    for (uint32_t o = 0; o < s->graph->nodes[n].option_count; o++) {
        if (s->x[n][o] != 0) { forms |= 1U << s->graph->nodes[n].options[o].output; }
    }
    return forms;
}

static uint32_t wanted_forms(const struct solve *s, uint32_t producer)
{
    uint32_t forms = 0;
    for (uint32_t n = producer + 1; n < s->graph->node_count; n++) {
        const redcoi_tp_node *const node = &s->graph->nodes[n];
        for (uint32_t i = 0; i < node->input_count; i++) {
            for (uint32_t o = 0; o < node->option_count && node->inputs[i] == producer; o++) {
                if (s->x[n][o] != 0) { forms |= 1U << node->options[o].input[i]; }
            }
        }
    }
    return forms;
}

/* d_{n,w}, at least what every consumer's choice says. */
static int add_want(struct solve *s, uint32_t producer, uint32_t forms)
{
    const int d = add_column(s, 1.0, 0.0);
    for (uint32_t n = producer + 1; n < s->graph->node_count; n++) {
        const redcoi_tp_node *const node = &s->graph->nodes[n];
        for (uint32_t i = 0; i < node->input_count; i++) {
            if (node->inputs[i] != producer) { continue; }
            struct row at_least = {.length = 0};
            put(&at_least, d, 1.0);
            for (uint32_t o = 0; o < node->option_count; o++) {
                const bool wants = (forms & (1U << node->options[o].input[i])) != 0;
                if (s->x[n][o] != 0 && wants) { put(&at_least, s->x[n][o], -1.0); }
            }
            if (at_least.length > 1) { (void)add_row(s, &at_least, GLP_LO, 0.0); }
        }
    }
    return d;
}

/* z_{n,p,w} of one want w: seconds_s[p] each, INFINITY where p cannot become w. */
static void add_products(struct solve *s, uint32_t n, uint32_t made, uint32_t forms,
                         const double seconds_s[REDCOI_TP_FORMS])
{
    const redcoi_tp_node *const node = &s->graph->nodes[n];
    const int d = add_want(s, n, forms);
    struct row sum = {.length = 0};
    put(&sum, d, -1.0);
    for (int p = 0; p < REDCOI_TP_FORMS; p++) {
        if ((made & (1U << p)) == 0) { continue; }
        const bool possible = seconds_s[p] < (double)INFINITY;
        const double cost = possible && !s->leanest ? s->graph->exposed_ratio * seconds_s[p] / s->unit_s : 0.0;
        const int z = add_column(s, possible ? 1.0 : 0.0, cost);
        struct row only = {.length = 0};
        put(&sum, z, 1.0);
        put(&only, z, 1.0);
        for (uint32_t o = 0; o < node->option_count; o++) {
            if (s->x[n][o] != 0 && (int)node->options[o].output == p) { put(&only, s->x[n][o], -1.0); }
        }
        (void)add_row(s, &only, GLP_UP, 0.0);
    }
    (void)add_row(s, &sum, GLP_FX, 0.0);
}

/* Backward once for every form; forward once for every layout, which WHOLE and SHARED have in common. */
static void add_traffic(struct solve *s, uint32_t n)
{
    static const uint32_t whole = 1U << REDCOI_TP_WHOLE | 1U << REDCOI_TP_SHARED;
    const uint32_t made = made_forms(s, n), wanted = wanted_forms(s, n);
    const bool together = (wanted & whole) == whole;
    double seconds_s[REDCOI_TP_FORMS];
    for (int w = 0; w < REDCOI_TP_FORMS; w++) {
        const uint32_t form = 1U << w;
        if ((wanted & form) == 0) { continue; }
        const bool forward_too = !together || (form & whole) == 0;
        for (int p = 0; p < REDCOI_TP_FORMS; p++) {
            seconds_s[p] = s->graph->backward_s[n][p][w] + (forward_too ? s->graph->forward_s[n][p][w] : 0.0);
        }
        add_products(s, n, made, form, seconds_s);
    }
    if (!together) { return; }
    for (int p = 0; p < REDCOI_TP_FORMS; p++) { seconds_s[p] = s->graph->forward_s[n][p][REDCOI_TP_WHOLE]; }
    add_products(s, n, made, whole, seconds_s);
}

static void watch(glp_tree *tree, void *info)
{
    struct solve *s = info;
    if (glp_ios_reason(tree) == GLP_ISELECT && ++s->nodes_seen > NODE_LIMIT) { glp_ios_terminate(tree); }
}

/* @return false when there is no answer, or none was found */
static bool optimise(struct solve *s)
{
    glp_iocp search;
    glp_init_iocp(&search);
    search.msg_lev = GLP_MSG_OFF;
    search.tm_lim = TIME_LIMIT_MS;
    search.tol_obj = 1e-9;
    search.cb_func = watch;
    search.cb_info = s;
    s->nodes_seen = 0;
    s->answer->proven = true;
    if (redcoi_glpk_simplex(s->lp, GLP_DUALP) != 0) {
        s->answer->proven = false;
        return false;
    }
    if (glp_get_status(s->lp) != GLP_OPT) { return false; }
    const double bound = glp_get_obj_val(s->lp);
    const int code = redcoi_glpk_branch(s->lp, &search);
    const int status = glp_mip_status(s->lp);
    s->answer->proven = code == 0;
    if (status != GLP_OPT && status != GLP_FEAS) { return false; }
    const double value = glp_mip_obj_val(s->lp);
    s->answer->gap_ratio = status == GLP_OPT || !(value > 0.0) ? 0.0 : fmax(0.0, (value - bound) / value);
    s->answer->proven = status == GLP_OPT;
    return isfinite(value);
}

static void read_choice(struct solve *s)
{
    for (uint32_t n = 0; n < s->graph->node_count; n++) {
        for (uint32_t o = 0; o < s->graph->nodes[n].option_count; o++) {
            if (s->x[n][o] != 0 && glp_mip_col_val(s->lp, s->x[n][o]) > 0.5) {
                s->answer->choice.option[n] = (uint8_t)o;
            }
        }
    }
    s->answer->total = redcoi_tp_evaluate(s->graph, &s->answer->choice);
}

/* GLPK's tolerance on the memory row is some kilobytes: an answer that exceeds the limit in whole bytes tightens it. */
static bool find(struct solve *s)
{
    double limit_gib = (double)s->graph->limit_bytes / gib;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        if (!optimise(s)) { return false; }
        read_choice(s);
        if (s->memory_row == 0 || s->answer->total.memory_bytes <= s->graph->limit_bytes) { return true; }
        limit_gib -= 2.0 * (double)(s->answer->total.memory_bytes - s->graph->limit_bytes) / gib + 1e-9;
        glp_set_row_bnds(s->lp, s->memory_row, GLP_UP, 0.0, limit_gib);
    }
    return false;
}

/* A thousandth of the longest time. */
static double unit_of(const redcoi_tp_graph *graph)
{
    double longest_s = 1e-9;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        for (uint32_t o = 0; o < graph->nodes[n].option_count; o++) {
            longest_s = fmax(longest_s, own_s(graph, &graph->nodes[n].options[o]));
        }
    }
    return longest_s / 1000.0;
}

/* The second exact method, where GLPK ran into a limit. */
static void enumerate(const redcoi_tp_graph *graph, redcoi_tp_answer *answer)
{
    uint32_t allowed[REDCOI_TP_NODES];
    redcoi_tp_legal(graph, allowed);
    answer->feasible = redcoi_tp_enumerate(graph, allowed, false, &answer->choice, &answer->total, NULL);
    answer->proven = true;
    answer->gap_ratio = 0.0;
}

static redco_status build_and_solve(void *context, redco_error *err)
{
    struct solve *const s = context;
    (void)err;
    s->unit_s = unit_of(s->graph);
    s->lp = glp_create_prob();
    glp_set_obj_dir(s->lp, GLP_MIN);
    add_choices(s);
    add_ties(s);
    add_memory(s);
    for (uint32_t n = 0; n < s->graph->node_count; n++) { add_traffic(s, n); }
    s->answer->feasible = find(s);
    glp_delete_prob(s->lp);
    return REDCO_OK;
}

redco_status redcoi_tp_solve(const redcoi_tp_graph *graph, redcoi_tp_answer *answer_out, redco_error *err)
{
    const double start_s = redco_now_s();
    redcoi_tp_answer answer = {.feasible = false};
    struct solve s = {.graph = graph, .answer = &answer};
    redco_status st = redcoi_glpk_run(build_and_solve, &s, err);
    if (st == REDCO_OK && !answer.proven) { enumerate(graph, &answer); }
    if (st == REDCO_OK && !answer.feasible && answer.proven && graph->limit_bytes > 0) {
        redcoi_tp_answer leanest = {.feasible = false};
        struct solve lean = {.graph = graph, .answer = &leanest, .leanest = true};
        st = redcoi_glpk_run(build_and_solve, &lean, err);
        if (st == REDCO_OK && leanest.feasible && leanest.total.memory_bytes > graph->limit_bytes) {
            answer.short_bytes = leanest.total.memory_bytes - graph->limit_bytes;
        }
    }
    answer.seconds = redco_now_s() - start_s;
    if (st == REDCO_OK) { *answer_out = answer; }
    return st;
}
