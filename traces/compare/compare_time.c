/* Where the time of a rank's step goes, from spans alone. */
#include "traces/compare/compare_internal.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Ends and starts that touch. */
static const double rounding_s = 2e-9;

struct interval {
    double from_s, to_s;
    uint32_t kind;
};

/* Communication of a rank, each stream in order and one at a time. */
struct lane {
    const char *stream;
    struct interval *items;
    uint32_t count;
};

struct lanes {
    struct lane lanes[REDCOI_STREAMS];
    uint32_t count;
    struct interval *items; /* intervals of all */
};

static uint32_t lane_of(struct lanes *lanes, const char *stream)
{
    uint32_t i = 0;
    while (i < lanes->count && lanes->lanes[i].stream != stream) { i++; }
    if (i == REDCOI_STREAMS) { return REDCOI_STREAMS - 1; }
    if (i == lanes->count) { lanes->lanes[lanes->count++] = (struct lane){.stream = stream}; }
    return i;
}

static bool occupies_lane(const redcoi_compare *c, const redcoi_op *op)
{
    return op->kind != REDCOI_NONE && c->communicates[op->kind] && !op->receives;
}

/* Operators come in order of time. What overlaps on one stream is cut: it is one thing at a time. */
static bool make_lanes(const redcoi_compare *c, const redcoi_op *ops, uint32_t count, struct lanes *lanes)
{
    uint32_t first = 0;
    lanes->items = malloc(((size_t)count + 1) * sizeof *lanes->items);
    if (lanes->items == NULL) { return false; }
    for (uint32_t i = 0; i < count; i++) {
        if (occupies_lane(c, &ops[i])) { lanes->lanes[lane_of(lanes, ops[i].stream)].count++; }
    }
    for (uint32_t l = 0; l < lanes->count; l++) {
        lanes->lanes[l].items = &lanes->items[first];
        first += lanes->lanes[l].count;
        lanes->lanes[l].count = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!occupies_lane(c, &ops[i])) { continue; }
        struct lane *const lane = &lanes->lanes[lane_of(lanes, ops[i].stream)];
        const double from_s =
            lane->count > 0 ? fmax(ops[i].start_s, lane->items[lane->count - 1].to_s) : ops[i].start_s;
        if (ops[i].end_s <= from_s) { continue; }
        lane->items[lane->count++] = (struct interval){from_s, ops[i].end_s, ops[i].kind};
    }
    return true;
}

/* The last interval of a lane that begins before a time; NULL: none. */
static const struct interval *last_before(const struct lane *lane, double at_s)
{
    uint32_t low = 0, high = lane->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (lane->items[middle].from_s < at_s) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 ? &lane->items[low - 1] : NULL;
}

/* Finds the operator that was waited for just before @p at_s: the running one that ends there, else soonest. @param
 * ended_s_out where nothing runs: the last end before */
static const struct interval *waited_for(const struct lanes *lanes, double at_s, double *ended_s_out)
{
    const struct interval *best = NULL;
    *ended_s_out = -INFINITY;
    for (uint32_t l = 0; l < lanes->count; l++) {
        const struct interval *const item = last_before(&lanes->lanes[l], at_s - rounding_s);
        if (item == NULL) { continue; }
        *ended_s_out = fmax(*ended_s_out, item->to_s);
        if (item->to_s < at_s - rounding_s) { continue; }
        if (best == NULL || item->to_s < best->to_s) { best = item; }
    }
    return best;
}

/* A gap of the compute stream, backwards. */
static void blame(const redcoi_compare *c, const struct lanes *lanes, double from_s, double to_s,
                  redcoi_account *account)
{
    redco_compare_time *const time = &account->time;
    while (to_s > from_s) {
        double ended_s = 0.0;
        const struct interval *const item = to_s - from_s > rounding_s ? waited_for(lanes, to_s, &ended_s) : NULL;
        double until_s = item != NULL ? fmax(item->from_s, from_s) : fmax(ended_s, from_s);
        if (!(until_s < to_s)) { until_s = from_s; }
        const double took_s = to_s - until_s;
        if (item == NULL) {
            *(c->predicted.rank_count > 1 ? &time->bubble_s : &time->idle_s) += took_s;
        } else {
            *(item->kind == c->pipeline ? &time->bubble_s : &time->wait_s) += took_s;
            account->exposed_s[item->kind] += took_s;
        }
        to_s = until_s;
    }
}

static int compare_intervals(const void *a, const void *b)
{
    const struct interval *const x = a, *const y = b;
    return (x->from_s > y->from_s) - (x->from_s < y->from_s);
}

/* Time in which any communication runs. Lanes may be spoilt: called last. */
static double communication_s(const struct lanes *lanes, double from_s, double to_s)
{
    uint32_t count = 0;
    double sum_s = 0.0, reached_s = from_s;
    for (uint32_t l = 0; l < lanes->count; l++) {
        memmove(&lanes->items[count], lanes->lanes[l].items, lanes->lanes[l].count * sizeof *lanes->items);
        count += lanes->lanes[l].count;
    }
    qsort(lanes->items, count, sizeof *lanes->items, compare_intervals);
    for (uint32_t i = 0; i < count; i++) {
        const double begin_s = fmax(lanes->items[i].from_s, reached_s), end_s = fmin(lanes->items[i].to_s, to_s);
        sum_s += fmax(0.0, end_s - begin_s);
        reached_s = fmax(reached_s, end_s);
    }
    return sum_s;
}

/* When backward begins, and what is sent to other stages. */
static void account_stage(const redcoi_compare *c, const redcoi_op *ops, uint32_t count, redcoi_account *account)
{
    account->warm_up_s = (double)NAN;
    for (uint32_t i = 0; i < count; i++) {
        const redcoi_op *const op = &ops[i];
        if (op->kind == REDCOI_NONE) { continue; }
        if (isnan(account->warm_up_s) && !c->communicates[op->kind] && strncmp(op->name, "bwd/", 4) == 0) {
            account->warm_up_s = op->start_s - account->from_s;
        }
        if (op->kind != c->pipeline || op->receives) { continue; }
        account->sent_s += op->end_s - op->start_s;
        account->sent_count++;
    }
}

redco_status redcoi_account_make(const redcoi_compare *c, const redcoi_op *ops, uint32_t count, double from_s,
                                 double to_s, redcoi_account *account_out, redco_error *err)
{
    struct lanes lanes = {.count = 0};
    redcoi_account account = {.from_s = from_s, .to_s = to_s};
    redco_compare_time *const time = &account.time;
    double reached_s = from_s;
    if (!make_lanes(c, ops, count, &lanes)) { return redcoi_compare_out_of_memory(err); }
    for (uint32_t i = 0; i < count; i++) {
        const redcoi_op *const op = &ops[i];
        if (op->kind == REDCOI_NONE || c->communicates[op->kind]) { continue; }
        if (op->start_s > reached_s) { blame(c, &lanes, reached_s, op->start_s, &account); }
        reached_s = fmax(reached_s, op->start_s);
        const double took_s = fmax(0.0, op->end_s - reached_s);
        double *const part = op->kind == c->launch     ? &time->launch_s
                             : op->kind == c->overhead ? &time->overhead_s
                                                       : &time->compute_s;
        *part += took_s;
        reached_s += took_s;
    }
    if (reached_s < to_s) { blame(c, &lanes, reached_s, to_s, &account); }
    time->step_s = to_s - from_s;
    time->communication_s = communication_s(&lanes, from_s, to_s);
    double waits_s = 0.0;
    for (uint32_t k = 0; k < c->kind_count; k++) { waits_s += account.exposed_s[k]; }
    time->covered_s = fmax(0.0, time->communication_s - waits_s);
    free(lanes.items);
    account_stage(c, ops, count, &account);
    *account_out = account;
    return REDCO_OK;
}

/* From the first start to the last end of what counts. */
static void widen(const redcoi_op *ops, uint32_t count, double *from_s, double *to_s)
{
    for (uint32_t i = 0; i < count; i++) {
        if (ops[i].kind == REDCOI_NONE) { continue; }
        *from_s = fmin(*from_s, ops[i].start_s);
        *to_s = fmax(*to_s, ops[i].end_s);
    }
}

static int compare_by_rank_time(const void *a, const void *b)
{
    const redcoi_op *const x = *(const redcoi_op *const *)a, *const y = *(const redcoi_op *const *)b;
    if (x->rank != y->rank) { return x->rank < y->rank ? -1 : 1; }
    if (x->start_s < y->start_s || x->start_s > y->start_s) { return x->start_s < y->start_s ? -1 : 1; }
    return (x->span > y->span) - (x->span < y->span);
}

/* Predicted operators are in the order of look-ups; these are those of one rank after the other, in order of time. */
static redcoi_op *in_time(const redcoi_side *side)
{
    const redcoi_op **const sorted = malloc(((size_t)side->count + 1) * sizeof *sorted);
    redcoi_op *const copy = malloc(((size_t)side->count + 1) * sizeof *copy);
    for (uint32_t i = 0; sorted != NULL && i < side->count; i++) { sorted[i] = &side->ops[i]; }
    if (sorted != NULL) { qsort(sorted, side->count, sizeof *sorted, compare_by_rank_time); }
    for (uint32_t i = 0; sorted != NULL && copy != NULL && i < side->count; i++) { copy[i] = *sorted[i]; }
    const bool whole = sorted != NULL && copy != NULL;
    free(sorted);
    if (whole) { return copy; }
    free(copy);
    return NULL;
}

static redco_status predicted_time(redcoi_compare *c, redco_error *err)
{
    redcoi_op *const ops = in_time(&c->predicted);
    redco_status st = ops != NULL ? REDCO_OK : redcoi_compare_out_of_memory(err);
    const double weight = 1.0 / c->predicted.rank_count;
    double from_s = INFINITY, to_s = -INFINITY;
    if (st == REDCO_OK) { widen(ops, c->predicted.count, &from_s, &to_s); }
    for (uint32_t first = 0, last = 0; st == REDCO_OK && first < c->predicted.count; first = last) {
        redcoi_account account;
        for (last = first; last < c->predicted.count && ops[last].rank == ops[first].rank;) { last++; }
        st = redcoi_account_make(c, &ops[first], last - first, from_s, to_s, &account, err);
        if (st != REDCO_OK) { break; }
        redcoi_add_time(&c->out->predicted, &account.time, weight);
        redco_compare_stage *const stage = &c->out->stages[ops[first].rank];
        stage->predicted = account.time;
        stage->warm_up.predicted_s = account.warm_up_s;
        stage->transfers.predicted_s = account.sent_s;
        stage->predicted_count = account.sent_count;
        for (uint32_t k = 0; k < c->kind_count; k++) {
            c->out->kinds[k].exposed.predicted_s += weight * account.exposed_s[k];
        }
    }
    free(ops);
    return st;
}

struct range {
    double from_s, to_s;
};

/* The part of a file's time that counts for its ranks: a step of a pipeline lasts as long as in the file where it lasts
 * longest. @param of_files  for each file */
static void find_ranges(const redcoi_compare *c, uint32_t step, struct range *of_files)
{
    double longest_s = 0.0;
    for (uint32_t f = 0; f < c->source_count; f++) { of_files[f] = (struct range){INFINITY, -INFINITY}; }
    for (uint32_t r = 0; r < c->measured.rank_count; r++) {
        const redcoi_op *ops = NULL;
        const uint32_t count = redcoi_compare_ops_of(c, r, step, &ops);
        struct range *const range = &of_files[c->ranks[r].file];
        widen(ops, count, &range->from_s, &range->to_s);
        longest_s = fmax(longest_s, range->to_s - range->from_s);
    }
    for (uint32_t f = 0; f < c->source_count; f++) { of_files[f].to_s = of_files[f].from_s + longest_s; }
}

/* Accounts of all ranks in all steps: [step][rank]. */
static redco_status make_accounts(redcoi_compare *c, redcoi_account *accounts, redco_error *err)
{
    const uint32_t ranks = c->measured.rank_count;
    struct range *const of_files = calloc((size_t)c->source_count + 1, sizeof *of_files);
    redco_status st = of_files != NULL ? REDCO_OK : redcoi_compare_out_of_memory(err);
    for (uint32_t s = 0; s < c->measured.step_count && st == REDCO_OK; s++) {
        const redcoi_op *ops = NULL;
        find_ranges(c, s, of_files);
        for (uint32_t r = 0; r < ranks && st == REDCO_OK; r++) {
            const uint32_t count = redcoi_compare_ops_of(c, r, s, &ops);
            double from_s = INFINITY, to_s = -INFINITY;
            widen(ops, count, &from_s, &to_s);
            if (c->predicted.rank_count > 1) {
                from_s = of_files[c->ranks[r].file].from_s;
                to_s = of_files[c->ranks[r].file].to_s;
            }
            if (!(to_s >= from_s) || isinf(from_s)) { from_s = to_s = 0.0; }
            st = redcoi_account_make(c, ops, count, from_s, to_s, &accounts[(size_t)s * ranks + r], err);
            c->out->steps[s].operators += count;
        }
    }
    free(of_files);
    return st;
}

/* Steps that are whole; the run's first is left out where there are others: 1 where steps have numbers, else 0. */
static redco_status choose_steps(redcoi_compare *c, redco_error *err)
{
    uint64_t most = 0, whole = 0;
    c->step_counts = calloc((size_t)c->measured.step_count + 1, sizeof *c->step_counts);
    if (c->step_counts == NULL) { return redcoi_compare_out_of_memory(err); }
    for (uint32_t s = 0; s < c->measured.step_count; s++) {
        if (c->out->steps[s].operators > most) { most = c->out->steps[s].operators; }
    }
    for (uint32_t s = 0; s < c->measured.step_count; s++) {
        c->step_counts[s] = 2 * c->out->steps[s].operators >= most;
        whole += c->step_counts[s] ? 1 : 0;
    }
    if (whole > 1 && c->step_counts[0] && c->step_numbers[0] <= 1) { c->step_counts[0] = false; }
    for (uint32_t s = 0; s < c->measured.step_count; s++) {
        c->out->steps[s].counted = c->step_counts[s];
        c->counted_steps += c->step_counts[s] ? 1 : 0;
    }
    return REDCO_OK;
}

struct timed {
    double step_s;
    uint32_t step;
};

static int compare_timed(const void *a, const void *b)
{
    const struct timed *const x = a, *const y = b;
    if (x->step_s < y->step_s || x->step_s > y->step_s) { return x->step_s < y->step_s ? -1 : 1; }
    return (x->step > y->step) - (x->step < y->step);
}

/* The parts of a step: of all ranks on average; who is done before the slowest is idle. */
static void add_step(redcoi_compare *c, const redcoi_account *accounts, uint32_t step, double weight)
{
    const uint32_t ranks = c->measured.rank_count;
    redco_compare_time sum = {.step_s = 0.0};
    for (uint32_t r = 0; r < ranks; r++) {
        const redcoi_account *const a = &accounts[(size_t)step * ranks + r];
        redcoi_add_time(&sum, &a->time, 1.0 / ranks);
        for (uint32_t k = 0; k < c->kind_count; k++) {
            c->out->kinds[k].exposed.measured_s += weight / ranks * a->exposed_s[k];
        }
    }
    sum.idle_s += fmax(0.0, c->out->steps[step].step_s - sum.step_s);
    sum.step_s = c->out->steps[step].step_s;
    redcoi_add_time(&c->out->measured, &sum, weight);
}

static void rank_times(redcoi_compare *c, const redcoi_account *accounts)
{
    const uint32_t ranks = c->measured.rank_count;
    for (uint32_t s = 0; s < c->measured.step_count; s++) {
        for (uint32_t r = 0; r < ranks; r++) {
            c->out->ranks[r].step_s += c->step_weights[s] * accounts[(size_t)s * ranks + r].time.step_s;
        }
    }
}

static redco_status summarise(redcoi_compare *c, const redcoi_account *accounts, uint32_t *shown_rank_out,
                              uint32_t *shown_step_out, redco_error *err)
{
    const uint32_t ranks = c->measured.rank_count;
    struct timed *const order = malloc(((size_t)c->counted_steps + 1) * sizeof *order);
    uint32_t count = 0;
    c->step_weights = calloc((size_t)c->measured.step_count + 1, sizeof *c->step_weights);
    if (order == NULL || c->step_weights == NULL) {
        free(order);
        return redcoi_compare_out_of_memory(err);
    }
    for (uint32_t s = 0; s < c->measured.step_count; s++) {
        redco_compare_step *const step = &c->out->steps[s];
        step->number = c->step_numbers[s];
        for (uint32_t r = 0; r < ranks; r++) {
            step->step_s = fmax(step->step_s, accounts[(size_t)s * ranks + r].time.step_s);
        }
        if (c->step_counts[s]) { order[count++] = (struct timed){step->step_s, s}; }
    }
    assert(count > 0); /* the largest step counts, or one behind it */
    qsort(order, count, sizeof *order, compare_timed);
    const uint32_t low = order[(count - 1) / 2].step, high = order[count / 2].step;
    free(order);
    c->step_weights[low] += 0.5;
    c->step_weights[high] += 0.5;
    add_step(c, accounts, low, 0.5);
    add_step(c, accounts, high, 0.5);
    *shown_step_out = low;
    *shown_rank_out = 0;
    const redcoi_account *const of_step = &accounts[(size_t)low * ranks];
    for (uint32_t r = 1; r < ranks; r++) {
        if (of_step[r].time.step_s > of_step[*shown_rank_out].time.step_s) { *shown_rank_out = r; }
    }
    c->out->shown_file = c->ranks[*shown_rank_out].file;
    c->out->shown_process = c->ranks[*shown_rank_out].process;
    c->out->shown_stage = c->ranks[*shown_rank_out].stage;
    c->out->shown_from_s = of_step[*shown_rank_out].from_s;
    c->out->shown_to_s = of_step[*shown_rank_out].to_s;
    if (c->out->stage_count > 0) { redcoi_compare_stages(c, accounts, low); }
    return REDCO_OK;
}

redco_status redcoi_compare_times(redcoi_compare *c, uint32_t *shown_rank_out, uint32_t *shown_step_out,
                                  redco_error *err)
{
    const size_t all = (size_t)c->measured.rank_count * c->measured.step_count;
    redcoi_account *accounts = NULL;
    redco_status st = predicted_time(c, err);
    if (st != REDCO_OK) { return st; }
    if (all > (size_t)1 << 20) {
        return redco_fail(err, REDCO_EVALUE, c->measured_sources[0].name,
                          "%u ranks in %u steps are too many to compare", c->measured.rank_count,
                          c->measured.step_count);
    }
    accounts = calloc(all + 1, sizeof *accounts);
    if (accounts == NULL) { return redcoi_compare_out_of_memory(err); }
    if ((st = make_accounts(c, accounts, err)) == REDCO_OK && (st = choose_steps(c, err)) == REDCO_OK &&
        (st = summarise(c, accounts, shown_rank_out, shown_step_out, err)) == REDCO_OK) {
        rank_times(c, accounts);
    }
    free(accounts);
    return st;
}
