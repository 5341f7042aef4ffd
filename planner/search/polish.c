/* Local search over the counts of an answer: layers of one option take another of their class, in one move or in two
 * at once, so that what one move costs in memory or in a window another may pay back. GLPK's bound is soon close, its
 * answers are not: with memory and both windows binding they mix half a dozen options. */
#include "planner/search/exact.h"

#include <math.h>
#include <stdlib.h>

enum {
    MOST_MOVES = 4096, /* pairs of them are tried: some 10^7 additions */
    MOST_ROUNDS = 24
};

/* Sums over an answer, or what a move changes in them. */
struct sums {
    double base_s, kink_s[REDCOI_WINDOWS];
    int64_t bytes;
};

struct move {
    struct sums change;
    uint32_t from, to, layers;
};

struct polish {
    const redcoi_problem *problem;
    uint32_t *layers; /* per option */
    struct sums sums;
    struct move *moves;
    size_t move_count;
};

static void add(struct sums *to, const redcoi_option *option, double layers)
{
    to->base_s += layers * option->base_s;
    for (int k = 0; k < REDCOI_WINDOWS; k++) { to->kink_s[k] += layers * option->kink_s[k]; }
    to->bytes += (int64_t)layers * (int64_t)option->resident_bytes;
}

static double value_s(const struct sums *a, const struct sums *b, const struct sums *c)
{
    double value = a->base_s + b->base_s + c->base_s;
    for (int k = 0; k < REDCOI_WINDOWS; k++) {
        const double kink_s = a->kink_s[k] + b->kink_s[k] + c->kink_s[k];
        value += kink_s > 0.0 ? kink_s : 0.0;
    }
    return value;
}

/* From every option in use to every other of its class: 1, 2, 4 ... layers, and all. */
static void list_moves(struct polish *p)
{
    const redcoi_problem *const problem = p->problem;
    p->move_count = 0;
    for (uint32_t from = 0; from < problem->option_count; from++) {
        const uint32_t held = p->layers[from];
        for (uint32_t to = 0; to < problem->option_count && held > 0; to++) {
            if (to == from || problem->options[to].class_index != problem->options[from].class_index) { continue; }
            for (uint32_t layers = 1; layers <= held && p->move_count < MOST_MOVES;) {
                struct move *const move = &p->moves[p->move_count++];
                *move = (struct move){.from = from, .to = to, .layers = layers};
                add(&move->change, &problem->options[to], layers);
                add(&move->change, &problem->options[from], -(double)layers);
                layers = layers < held && 2 * layers > held ? held : 2 * layers;
            }
        }
    }
}

static void apply(struct polish *p, const struct move *move)
{
    p->layers[move->from] -= move->layers;
    p->layers[move->to] += move->layers;
    add(&p->sums, &p->problem->options[move->to], move->layers);
    add(&p->sums, &p->problem->options[move->from], -(double)move->layers);
}

/* The best move or pair of moves. @return false when none makes the answer faster */
static bool improve(struct polish *p)
{
    static const struct sums none = {.base_s = 0.0};
    const int64_t budget = (int64_t)p->problem->budget_bytes;
    double best_s = value_s(&p->sums, &none, &none) * (1.0 - 1e-12);
    const struct move *first = NULL, *second = NULL;
    for (size_t i = 0; i < p->move_count; i++) {
        const struct move *const a = &p->moves[i];
        const int64_t left = budget - p->sums.bytes - a->change.bytes;
        const double alone_s = value_s(&p->sums, &a->change, &none);
        if (left >= 0 && alone_s < best_s) {
            best_s = alone_s;
            first = a;
            second = NULL;
        }
        for (size_t j = i + 1; j < p->move_count; j++) {
            const struct move *const b = &p->moves[j];
            if (b->change.bytes > left) { continue; }
            const double both_s = value_s(&p->sums, &a->change, &b->change);
            if (both_s >= best_s || (a->from == b->from && a->layers + b->layers > p->layers[a->from])) { continue; }
            best_s = both_s;
            first = a;
            second = b;
        }
    }
    if (first == NULL) { return false; }
    apply(p, first);
    if (second != NULL) { apply(p, second); }
    return true;
}

/* The counts as an answer, if it is one and better than @p answer. */
static void take(const struct polish *p, redcoi_answer *answer)
{
    redcoi_answer *const found = calloc(1, sizeof *found);
    if (found == NULL) { return; }
    bool whole = true;
    for (uint32_t i = 0; i < p->problem->option_count; i++) {
        if (p->layers[i] == 0) { continue; }
        whole = whole && found->count < REDCOI_MAX_PARTS;
        if (whole) { found->parts[found->count++] = (redcoi_part){i, p->layers[i]}; }
    }
    if (whole && redcoi_answer_evaluate(p->problem, found) && found->objective_s < answer->objective_s) {
        *answer = *found;
    }
    free(found);
}

void redcoi_answer_polish(const redcoi_problem *problem, redcoi_answer *answer)
{
    struct polish p = {.problem = problem,
                       .layers = calloc(problem->option_count + 1, sizeof *p.layers),
                       .moves = malloc(MOST_MOVES * sizeof *p.moves)};
    if (p.layers != NULL && p.moves != NULL) {
        for (uint32_t i = 0; i < answer->count; i++) {
            p.layers[answer->parts[i].option] += answer->parts[i].layers;
            add(&p.sums, &problem->options[answer->parts[i].option], answer->parts[i].layers);
        }
        list_moves(&p);
        for (int round = 0; round < MOST_ROUNDS && improve(&p); round++) { list_moves(&p); }
        take(&p, answer);
    }
    free(p.layers);
    free(p.moves);
}
