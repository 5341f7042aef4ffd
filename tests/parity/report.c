/* The table. */
#include "tests/parity/parity.h"

#include <math.h>
#include <stdio.h>

/* By ranks, then degree of tensor parallelism. */
static const struct {
    uint32_t ranks, tp;
} columns[PARITY_COLUMNS] = {{1, 1}, {2, 1}, {2, 2}, {4, 1}, {4, 2}, {4, 4}, {8, 1}, {8, 2}, {8, 4}};
static const redco_dtype types[PARITY_TYPES] = {REDCO_F64, REDCO_F32, REDCO_BFLOAT16};

static void add(struct parity_cell *cell, const struct parity_outcome *o)
{
    cell->runs++;
    if (o->failed || !o->verdict.same) { cell->failures++; }
    if (o->failed) { return; }
    cell->loss = fmax(cell->loss, o->verdict.loss_error);
    cell->norm = fmax(cell->norm, o->verdict.norm_error);
    cell->weight = fmax(cell->weight, o->verdict.weight_error);
}

void parity_count(struct parity_table *t, const struct parity_case *c, const struct parity_outcome *o)
{
    uint32_t type = 0, column = 0;
    while (types[type] != c->dtype) { type++; }
    while (columns[column].ranks != parity_ranks(c) || columns[column].tp != c->tp) { column++; }
    add(&t->cells[type][c->row][column], o);
    add(&t->models[type][c->model], o);
    t->runs++;
    t->failures += o->failed || !o->verdict.same ? 1 : 0;
    t->schemes[c->scheme]++;
    t->accumulations[c->accumulation > 1 ? 1 : 0]++;
    t->recomputes[c->recompute]++;
    t->sequence_parallel += c->sequence_parallel ? 1 : 0;
    t->placed += c->placed ? 1 : 0;
    t->secondary += c->secondary.gpus > 0 || c->row == REDCO_STRATEGY_ZEROPP ? 1 : 0;
    t->compared += o->failed ? 0 : o->verdict.compared;
    t->loose += o->failed ? 0 : o->verdict.loose;
}

static double worst_of(uint32_t type, const struct parity_cell *cell)
{
    return types[type] == REDCO_BFLOAT16 ? cell->loss : fmax(cell->weight, fmax(cell->norm, cell->loss));
}

static void print_type(const struct parity_table *t, uint32_t type)
{
    const char *const what = types[type] == REDCO_BFLOAT16 ? "losses" : "losses, norms and weights";
    (void)printf("\n%s: worst relative error of %s (trainings)\n\n| strategy |", redco_dtype_name(types[type]), what);
    for (uint32_t c = 0; c < PARITY_COLUMNS; c++) {
        (void)printf(" %u rank%s, TP %u |", columns[c].ranks, columns[c].ranks > 1 ? "s" : "", columns[c].tp);
    }
    (void)printf("\n|---|");
    for (uint32_t c = 0; c < PARITY_COLUMNS; c++) { (void)printf("---|"); }
    for (uint32_t r = 1; r <= ROW_COUNT; r++) { /* triples without a name last */
        const struct parity_cell *const cells = t->cells[type][r % ROW_COUNT];
        uint32_t runs = 0;
        for (uint32_t c = 0; c < PARITY_COLUMNS; c++) { runs += cells[c].runs; }
        if (runs == 0) { continue; }
        (void)printf("\n| %s |", parity_row_name(r % ROW_COUNT));
        for (uint32_t c = 0; c < PARITY_COLUMNS; c++) {
            if (cells[c].failures > 0) {
                (void)printf(" %u of %u differ |", cells[c].failures, cells[c].runs);
            } else if (cells[c].runs > 0) {
                (void)printf(" %.1e (%u) |", worst_of(type, &cells[c]), cells[c].runs);
            } else {
                (void)printf(" |");
            }
        }
    }
    (void)printf("\n");
}

static uint32_t runs_of(const struct parity_table *t, uint32_t type)
{
    uint32_t runs = 0;
    for (uint32_t m = 0; m < PARITY_MODELS; m++) { runs += t->models[type][m].runs; }
    return runs;
}

void parity_print(const struct parity_table *t, double seconds)
{
    for (uint32_t type = 0; type < PARITY_TYPES; type++) {
        if (runs_of(t, type) > 0) { print_type(t, type); }
    }
    (void)printf("\n| model | type | trainings | losses | norms | weights |\n|---|---|---|---|---|---|\n");
    for (uint32_t m = 0; m < PARITY_MODELS; m++) {
        for (uint32_t type = 0; type < PARITY_TYPES; type++) {
            const struct parity_cell *const cell = &t->models[type][m];
            if (cell->runs == 0) { continue; }
            (void)printf("| %s | %s | %u | %.1e | %.1e | ", parity_models[m], redco_dtype_name(types[type]), cell->runs,
                         cell->loss, cell->norm);
            (void)printf(types[type] == REDCO_BFLOAT16 ? "|\n" : "%.1e |\n", cell->weight);
        }
    }
    (void)printf(
        "\n%u trainings of %d steps: %u inter-tensor, %u intra-tensor; accumulation 1: %u, 4: %u; recomputation "
        "none %u, selective %u, full %u; %u with sequence parallelism, %u placed by GLPK, %u with a second "
        "copy.\n",
        t->runs, PARITY_STEPS, t->schemes[REDCO_INTER_TENSOR], t->schemes[REDCO_INTRA_TENSOR], t->accumulations[0],
        t->accumulations[1], t->recomputes[REDCO_RECOMPUTE_NONE], t->recomputes[REDCO_RECOMPUTE_CORE_ATTN],
        t->recomputes[REDCO_RECOMPUTE_FULL], t->sequence_parallel, t->placed, t->secondary);
    (void)printf(
        "%llu weights compared, %llu of them loosely as their gradients are rounding; of the steps on one rank %u were "
        "clipped, %u not.\n",
        (unsigned long long)t->compared, (unsigned long long)t->loose, t->clipped_steps, t->free_steps);
    (void)printf("%u failures, %.0f s\n", t->failures, seconds);
}
