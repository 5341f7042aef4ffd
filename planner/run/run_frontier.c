#include "planner/run/run_frontier.h"

#include "planner/plan/plan.h"
#include "planner/run/run_json.h"
#include "planner/run/run_step.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void redco_pareto(const double *x, const double *y, uint32_t count, bool *front_out)
{
    for (uint32_t i = 0; i < count; i++) {
        front_out[i] = true;
        for (uint32_t k = 0; k < count && front_out[i]; k++) {
            const bool better = x[k] < x[i] || y[k] < y[i] || k < i;
            if (k != i && x[k] <= x[i] && y[k] <= y[i] && better) { front_out[i] = false; }
        }
    }
}

double redco_frontier_cost(const redco_frontier *frontier, const redco_frontier_row *row)
{
    return frontier->priced ? row->run.money.value : row->run.paid_gpu_hours.value;
}

static redco_status price_row(const redco_frontier_question *asked, const redco_run_terms *terms,
                              const redco_answer_row *answer, redco_frontier_row *row, redco_error *err)
{
    const redco_workload *const w = &answer->options.workload;
    const double base = (double)asked->question->options.workload.global_batch * w->seq_len;
    redco_run_terms of = *terms;
    redco_error why = {.status = REDCO_OK};
    row->gpus = answer->gpus;
    row->global_batch = w->global_batch;
    row->seq_len = w->seq_len;
    row->precision = w->engine.gemm_format != REDCO_GEMM_SAME ? redco_gemm_format_words[w->engine.gemm_format]
                                                              : redco_precision_words[w->precision];
    if (answer->best == NULL) {
        const bool bad = answer->result == NULL;
        (void)snprintf(row->reason, sizeof row->reason, "%.390s", bad ? answer->bad.text : "does not fit in memory");
        return REDCO_OK;
    }
    const redco_run_step step = redco_run_step_of(answer->inputs, &answer->options, answer->best);
    of.batch_like = base;
    const redco_status st = redco_run_estimate_of(&of, &step, &row->run, &why);
    if (st == REDCO_EINFEASIBLE) {
        (void)snprintf(row->reason, sizeof row->reason, "%.390s", why.text);
        return REDCO_OK;
    }
    if (st != REDCO_OK) { return redco_fail(err, st, why.place, "%s", why.text); }
    row->feasible = true;
    row->parallelism = answer->best->parallelism;
    row->band_low_ratio = step.band_low_ratio > 0.0 ? step.band_low_ratio : 1.0 - step.band_ratio;
    row->band_high_ratio = step.band_high_ratio > 0.0 ? step.band_high_ratio : 1.0 + step.band_ratio;
    (void)snprintf(row->unseen, sizeof row->unseen, "%s", answer->inputs->unseen);
    (void)snprintf(row->engine, sizeof row->engine, "%s", answer->inputs->choice.engine.name);
    row->mfu = answer->best->prediction.mfu;
    row->keeps = (!(asked->deadline_s > 0.0) || row->run.days.value * 86400.0 <= asked->deadline_s) &&
                 (!(asked->budget > 0.0) || row->run.money.value <= asked->budget);
    row->keeps_surely = row->keeps &&
                        (!(asked->deadline_s > 0.0) || row->run.days.high * 86400.0 <= asked->deadline_s) &&
                        (!(asked->budget > 0.0) || row->run.money.high <= asked->budget);
    return REDCO_OK;
}

/* One batch and precision on one cluster, all sizes. Sizes that the machine gives another number of GPUs for than was
 * asked are left out where that number was asked, too. */
static redco_status add_sizes(const redco_frontier_question *asked, const redco_question *question,
                              const redco_run_terms *terms, uint32_t cluster_index, const redco_inputs *inputs,
                              redco_frontier *frontier, redco_error *err)
{
    redco_question one = *question;
    one.size_count = 1;
    for (uint32_t i = 0; i < question->size_count; i++) {
        redco_answer_list *list = NULL;
        one.sizes[0] = question->sizes[i];
        redco_status st = redco_answer_sizes(&one, inputs, false, &list, err);
        if (st != REDCO_OK) { return st; }
        redco_frontier_row *const row = &frontier->rows[frontier->count++];
        row->cluster_index = cluster_index;
        (void)snprintf(row->cluster, sizeof row->cluster, "%s", redco_cluster_name(inputs->cluster));
        (void)snprintf(row->gpu, sizeof row->gpu, "%s", inputs->machine.gpu.name);
        st = price_row(asked, terms, &list->rows[0], row, err);
        redco_answer_list_free(list);
        if (st != REDCO_OK) { return st; }
    }
    return REDCO_OK;
}

static redco_status add_cluster(const redco_frontier_question *asked, uint32_t index, redco_frontier *frontier,
                                redco_error *err)
{
    redco_question question = *asked->question;
    redco_inputs inputs = {0};
    redco_run_terms terms;
    bool known = true;
    if (asked->cluster_count > 0) { question.names.cluster = asked->clusters[index]; }
    redco_status st = redco_question_read(&question, &inputs, err);
    if (st != REDCO_OK) { return st; }
    if (question.size_count == 0) {
        question.sizes[0] = (uint64_t)inputs.machine.nodes * inputs.machine.gpus_per_node;
        question.size_count = 1;
    }
    (void)snprintf(frontier->model, sizeof frontier->model, "%s", redco_model_name(inputs.model));
    st = redco_run_words_finish(asked->words, inputs.machine.gpu.name, &terms, &known, err);
    if (st == REDCO_OK) {
        frontier->priced = frontier->priced && terms.priced;
        (void)snprintf(frontier->currency, sizeof frontier->currency, "%s", terms.currency);
    }
    const uint64_t batch = question.options.workload.global_batch;
    const uint32_t batches = terms.critical.given ? REDCO_FRONTIER_BATCHES : 1;
    const bool fp8 = asked->precisions && inputs.machine.gpu.fp8_flops_per_s > 0.0;
    for (uint32_t p = 0; p < (fp8 ? 2U : 1U) && st == REDCO_OK; p++) {
        if (p == 1) { question.options.workload.engine.gemm_format = REDCO_GEMM_FP8; }
        for (uint32_t b = 0; b < batches && st == REDCO_OK; b++) {
            if (batches > 1 && b == 0 && batch % 2 != 0) { continue; }
            question.options.workload.global_batch = batches > 1 ? (batch << b) / 2 : batch;
            st = add_sizes(asked, &question, &terms, index, &inputs, frontier, err);
        }
        question.options.workload.global_batch = batch;
    }
    redco_inputs_free(&inputs);
    return st;
}

/* The least of a number among rows that keep deadline and budget; equal ones: the first. */
static int least(const redco_frontier *f, double (*of)(const redco_frontier *, const redco_frontier_row *))
{
    int best = -1;
    for (uint32_t i = 0; i < f->count; i++) {
        const redco_frontier_row *const row = &f->rows[i];
        if (!row->feasible || !row->keeps) { continue; }
        if (best < 0 || of(f, row) < of(f, &f->rows[best])) { best = (int)i; }
    }
    return best;
}

static double days_of(const redco_frontier *f, const redco_frontier_row *row)
{
    (void)f;
    return row->run.days.value;
}

static double energy_of(const redco_frontier *f, const redco_frontier_row *row)
{
    (void)f;
    return row->run.mwh.known ? row->run.mwh.value : (double)INFINITY;
}

/* The best of those whose band reaches below the worse end of the leader's. What a run adds to its steps is much the
 * same everywhere, and rows of the same GPU have most of the error of the step in common: their order stands. */
static int rival_of(const redco_frontier *f, int leads,
                    double (*of)(const redco_frontier *, const redco_frontier_row *))
{
    int rival = -1;
    for (uint32_t i = 0; i < f->count && leads >= 0; i++) {
        const redco_frontier_row *const row = &f->rows[i], *const leader = &f->rows[leads];
        const bool other = strcmp(row->gpu, leader->gpu) != 0;
        if (!row->feasible || !row->keeps || !other) { continue; }
        if (!(of(f, row) / row->band_high_ratio < of(f, leader) / leader->band_low_ratio)) { continue; }
        if (rival < 0 || of(f, row) < of(f, &f->rows[rival])) { rival = (int)i; }
    }
    return rival;
}

const char *redco_frontier_decider(const redco_frontier *f, int leads, int rival, char *buffer, size_t size)
{
    const redco_frontier_row *const a = &f->rows[leads], *const b = &f->rows[rival];
    const double wide_a = a->band_high_ratio - a->band_low_ratio, wide_b = b->band_high_ratio - b->band_low_ratio;
    const redco_frontier_row *const row = wide_b > wide_a ? b : a;
    const redco_parallelism *const s = &row->parallelism;
    (void)snprintf(
        buffer, size, "a measured run of %.60s by %.40s on %.40s (tp %u, pp %u, micro-batch %u) would decide%s%s",
        f->model, row->engine, row->gpu, s->tp, s->pp, s->micro_batch, row->unseen[0] != '\0' ? ": " : "", row->unseen);
    return buffer;
}

/* Among batches and precisions on the same GPUs. */
static void mark_best_here(redco_frontier *f)
{
    for (uint32_t i = 0; i < f->count; i++) {
        redco_frontier_row *const row = &f->rows[i];
        row->best_here = true;
        for (uint32_t k = 0; k < f->count && row->best_here; k++) {
            const redco_frontier_row *const other = &f->rows[k];
            if (k == i || other->cluster_index != row->cluster_index || other->gpus != row->gpus) { continue; }
            if (!row->feasible) {
                row->best_here = !other->feasible && k > i;
                continue;
            }
            const double days = other->run.days.value - row->run.days.value;
            const double cost = redco_frontier_cost(f, other) - redco_frontier_cost(f, row);
            if (other->feasible && days <= 0.0 && cost <= 0.0 && (days < 0.0 || cost < 0.0 || k < i)) {
                row->best_here = false;
            }
        }
    }
}

static redco_status mark_fronts(redco_frontier *f, redco_error *err)
{
    double *const numbers = calloc(3 * (size_t)f->count + 1, sizeof *numbers);
    bool *const front = calloc((size_t)f->count + 1, sizeof *front);
    uint32_t *const at = calloc((size_t)f->count + 1, sizeof *at);
    redco_status st = REDCO_OK;
    if (numbers == NULL || front == NULL || at == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    double *const days = numbers, *const money = numbers + f->count, *const energy = money + f->count;
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        if (!f->rows[i].feasible) { continue; }
        at[count] = i;
        days[count] = days_of(f, &f->rows[i]);
        money[count] = redco_frontier_cost(f, &f->rows[i]);
        energy[count++] = energy_of(f, &f->rows[i]);
    }
    redco_pareto(days, money, count, front);
    for (uint32_t i = 0; i < count; i++) { f->rows[at[i]].front_money = front[i]; }
    redco_pareto(days, energy, count, front);
    for (uint32_t i = 0; i < count; i++) { f->rows[at[i]].front_energy = front[i] && isfinite(energy[i]); }
out:
    free(numbers);
    free(front);
    free(at);
    return st;
}

redco_status redco_frontier_find(const redco_frontier_question *asked, redco_frontier **frontier_out, redco_error *err)
{
    const uint32_t clusters = asked->cluster_count > 0 ? asked->cluster_count : 1;
    const uint32_t sizes = asked->question->size_count > 0 ? asked->question->size_count : 1;
    redco_frontier *f = calloc(1, sizeof *f);
    redco_status st = REDCO_OK;
    if (f != NULL) { f->rows = calloc((size_t)clusters * sizes * 2 * REDCO_FRONTIER_BATCHES, sizeof *f->rows); }
    if (f == NULL || f->rows == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    f->priced = true;
    f->deadline_s = asked->deadline_s;
    f->budget = asked->budget;
    for (uint32_t i = 0; i < clusters && st == REDCO_OK; i++) { st = add_cluster(asked, i, f, err); }
    if (st != REDCO_OK || (st = mark_fronts(f, err)) != REDCO_OK) { goto out; }
    mark_best_here(f);
    f->cheapest = least(f, redco_frontier_cost);
    f->fastest = least(f, days_of);
    f->leanest = least(f, energy_of);
    f->chosen = asked->goal == REDCO_GOAL_TIME    ? f->fastest
                : asked->goal == REDCO_GOAL_MONEY ? f->cheapest
                                                  : f->leanest;
    f->cheapest_rival = rival_of(f, f->cheapest, redco_frontier_cost);
    f->fastest_rival = rival_of(f, f->fastest, days_of);
    f->leanest_rival = rival_of(f, f->leanest, energy_of);
    f->chosen_rival = asked->goal == REDCO_GOAL_TIME    ? f->fastest_rival
                      : asked->goal == REDCO_GOAL_MONEY ? f->cheapest_rival
                                                        : f->leanest_rival;
    *frontier_out = f;
    f = NULL;
out:
    redco_frontier_free(f);
    return st;
}

void redco_frontier_free(redco_frontier *frontier)
{
    if (frontier == NULL) { return; }
    free(frontier->rows);
    free(frontier);
}

/* Null where the choice is not decided. */
static json_t *index_json(int index, int rival)
{
    return index < 0 || rival >= 0 ? json_null() : json_integer(index);
}

static json_t *undecided_json(const redco_frontier *f)
{
    const struct {
        const char *what;
        int leads, rival;
    } choices[] = {{"fastest", f->fastest, f->fastest_rival},
                   {"cheapest", f->cheapest, f->cheapest_rival},
                   {"least_energy", f->leanest, f->leanest_rival}};
    json_t *const list = json_array();
    char text[400];
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        if (choices[i].leads < 0 || choices[i].rival < 0) { continue; }
        (void)json_array_append_new(
            list, json_pack("{s:s,s:i,s:i,s:s}", "what", choices[i].what, "leads", choices[i].leads, "rival",
                            choices[i].rival, "decided_by",
                            redco_frontier_decider(f, choices[i].leads, choices[i].rival, text, sizeof text)));
    }
    return list;
}

static json_t *row_json(const redco_frontier_row *row)
{
    json_t *const json = json_pack("{s:s,s:s,s:I,s:I,s:I,s:s,s:b}", "cluster", row->cluster, "gpu", row->gpu, "gpus",
                                   (json_int_t)row->gpus, "global_batch", (json_int_t)row->global_batch, "seq_len",
                                   (json_int_t)row->seq_len, "precision", row->precision, "feasible", row->feasible);
    if (json == NULL) { return NULL; }
    if (!row->feasible) {
        (void)json_object_set_new(json, "reason", json_string(row->reason));
        return json;
    }
    const redco_parallelism *const s = &row->parallelism;
    (void)json_object_set_new(json, "plan",
                              json_pack("{s:I,s:I,s:I,s:I,s:f}", "tp", (json_int_t)s->tp, "pp", (json_int_t)s->pp, "cp",
                                        (json_int_t)s->cp, "micro_batch", (json_int_t)s->micro_batch, "mfu", row->mfu));
    (void)json_object_set_new(json, "keeps", json_boolean(row->keeps));
    (void)json_object_set_new(json, "keeps_surely", json_boolean(row->keeps_surely));
    (void)json_object_set_new(json, "best_here", json_boolean(row->best_here));
    (void)json_object_set_new(json, "front_money", json_boolean(row->front_money));
    (void)json_object_set_new(json, "front_energy", json_boolean(row->front_energy));
    (void)json_object_set_new(json, "run", redco_run_to_json(&row->run, row->gpus));
    return json;
}

json_t *redco_frontier_to_json(const redco_frontier *f)
{
    json_t *const rows = json_array();
    for (uint32_t i = 0; i < f->count; i++) { (void)json_array_append_new(rows, row_json(&f->rows[i])); }
    return json_pack("{s:s,s:i,s:s,s:b,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "format", "redco-frontier", "version", 1,
                     "model", f->model, "priced", f->priced, "currency", f->currency, "deadline_days",
                     f->deadline_s > 0.0 ? json_real(f->deadline_s / 86400.0) : json_null(), "budget",
                     f->budget > 0.0 ? json_real(f->budget) : json_null(), "chosen",
                     index_json(f->chosen, f->chosen_rival), "cheapest", index_json(f->cheapest, f->cheapest_rival),
                     "fastest", index_json(f->fastest, f->fastest_rival), "least_energy",
                     index_json(f->leanest, f->leanest_rival), "undecided", undecided_json(f), "rows", rows);
}
