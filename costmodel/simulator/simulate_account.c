/* Reads a timeline: checks, the critical path, where time goes, and whole steps out of few micro-batches. */
#include "costmodel/closed_form/closed_form_internal.h"
#include "costmodel/simulator/simulate_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sums of the same durations in another order differ by less. */
static const double rounding_ratio = 1e-9;

enum {
    FEWEST_MICRO_BATCHES = 4,
    /* Passes that are one operator are laid out all at once where they are no more than so many for each layer: passes
     * that are laid out whole, three or more of each layer, have more operators than these. */
    PASSES_PER_LAYER = 10
};

static bool is_compute(int work)
{
    return work <= REDCO_WORK_OVERHEAD;
}

static redco_status broken(const redco_timeline *t, uint32_t op, redco_error *err, const char *what)
{
    char name[96];
    return redco_fail(err, REDCO_EVALUE, redco_step_name(t->step, op, name, sizeof name), "%s, from %.9g to %.9g s",
                      what, t->start_s[op], t->end_s[op]);
}

static redco_status check_path(const redco_timeline *t, redco_error *err)
{
    double length_s = 0.0;
    redcoi_spot cause = {REDCO_STEP_NONE, REDCO_STEP_NONE};
    for (redcoi_spot at = redcoi_spot_of(t, t->last); at.op != REDCO_STEP_NONE; at = cause) {
        const double start_s = redcoi_spot_start_s(t, at);
        cause = redcoi_spot_cause(t, at);
        const double from_s = cause.op != REDCO_STEP_NONE ? redcoi_spot_end_s(t, cause) : 0.0;
        length_s += redcoi_spot_end_s(t, at) - start_s;
        if (start_s < from_s || start_s > from_s) {
            return broken(t, at.op, err, "does not start when its cause ends");
        }
    }
    if (fabs(length_s - t->span_s) > rounding_ratio * t->span_s) {
        return redco_fail(err, REDCO_EVALUE, "critical path", "is %.9g s long, the step %.9g s", length_s, t->span_s);
    }
    return REDCO_OK;
}

redco_status redco_timeline_check(const redco_timeline *timeline, redco_error *err)
{
    const redco_timeline *const t = timeline;
    const redco_step *const step = t->step;
    for (uint32_t op = 0; op < step->op_count; op++) {
        const uint32_t next = step->next[op];
        const double alone_s = step->ops[op].seconds, took_s = t->end_s[op] - t->start_s[op];
        if (took_s < alone_s - rounding_ratio * t->span_s) { return broken(t, op, err, "is faster than alone"); }
        if (t->end_s[op] > t->span_s) { return broken(t, op, err, "ends after the step"); }
        if (next != REDCO_STEP_NONE && t->start_s[next] < t->end_s[op]) {
            return broken(t, op, err, "runs beside another of its stream");
        }
        for (uint32_t i = step->first_input[op]; i < step->first_input[op + 1]; i++) {
            const uint32_t input = step->inputs[i];
            if (step->ops[op].fold != 0 && step->ops[op].fold == step->ops[input].fold) {
                continue;
            } /* both are of one pass */
            if (t->start_s[op] < t->end_s[input]) { return broken(t, op, err, "starts before its inputs"); }
        }
    }
    return step->op_count > 0 ? check_path(t, err) : REDCO_OK;
}

/* The waits of the compute stream in [from, until): backwards through causes, each answers for the time it ran. */
static void blame(const redco_timeline *t, redcoi_spot cause, double from_s, double until_s, redco_account *account)
{
    while (until_s > from_s) {
        if (cause.op == REDCO_STEP_NONE) { /* nothing ran: the beginning of the step on another rank */
            account->waiting_s[REDCO_WORK_FORWARD] += until_s - from_s;
            return;
        }
        const double start_s = fmax(redcoi_spot_start_s(t, cause), from_s);
        if (until_s > start_s) {
            account->waiting_s[redcoi_spot_work(t, cause)] += until_s - start_s;
            until_s = start_s;
        }
        cause = redcoi_spot_cause(t, cause);
    }
}

/* The work of one operator and, if it stands for many, its waits. */
static void add_work(const redco_timeline *t, uint32_t op, redco_account *account)
{
    const redco_step_op *const o = &t->step->ops[op];
    if (!redcoi_is_pass(o)) {
        account->busy_s[o->work] += o->seconds;
        if (o->stream == REDCO_STREAM_COMPUTE) {
            account->contention_s += fmax(0.0, t->end_s[op] - t->start_s[op] - o->seconds);
        }
        return;
    }
    const redcoi_record *const record = t->replays->folds[o->fold - 1].record;
    for (int w = 0; w < REDCO_WORK_COUNT; w++) {
        account->busy_s[w] += record->work_s[w];
        account->waiting_s[w] += record->waiting_s[w];
    }
    account->contention_s += record->contention_s;
}

/* The account of @p count micro-batches from @p first on. */
static redco_account account_of(const redco_timeline *t, uint32_t rank, uint32_t first, uint32_t count)
{
    const redco_step *const step = t->step;
    redco_account account = {.contention_s = 0.0};
    double free_s = 0.0;
    for (uint32_t stream = 0; stream < REDCO_STREAM_COUNT; stream++) {
        uint32_t op = step->stream_ends[rank * REDCO_STREAM_COUNT + stream].first;
        for (; op != REDCO_STEP_NONE; op = step->next[op]) {
            const redco_step_op *const o = &step->ops[op];
            const bool all = first == REDCO_ALL_MICRO_BATCHES;
            const bool counts = all || (o->micro_batch >= first && o->micro_batch - first < count);
            if (counts) { add_work(t, op, &account); }
            if (stream != REDCO_STREAM_COMPUTE) { continue; }
            if (counts && t->start_s[op] > free_s) {
                blame(t, redcoi_spot_cause(t, (redcoi_spot){op, REDCO_STEP_NONE}), free_s, t->start_s[op], &account);
            }
            free_s = t->end_s[op];
        }
    }
    if (first == REDCO_ALL_MICRO_BATCHES && free_s < t->span_s) {
        blame(t, redcoi_spot_of(t, t->last), free_s, t->span_s, &account);
    }
    return account;
}

redco_account redco_timeline_account(const redco_timeline *timeline, uint32_t rank, uint32_t micro_batch)
{
    return account_of(timeline, rank, micro_batch, 1);
}

/* When forward and backward of a micro-batch end on each rank, and how far its collectives lag behind. */
struct marks {
    double *forward_s, *end_s, *lag_s; /* [micro-batch][rank] */
};

static void find_marks(const redco_timeline *t, uint32_t micro_batches, struct marks *marks)
{
    const redco_step *const step = t->step;
    for (uint32_t op = 0; op < step->op_count; op++) {
        const redco_step_op *const o = &step->ops[op];
        if (o->micro_batch >= micro_batches) { continue; }
        double *const end_s = &marks->end_s[o->micro_batch * step->ranks + o->rank];
        double *const lag_s = &marks->lag_s[o->micro_batch * step->ranks + o->rank];
        double *const forward_s = &marks->forward_s[o->micro_batch * step->ranks + o->rank];
        if (o->work == REDCO_WORK_FORWARD) { *forward_s = fmax(*forward_s, t->end_s[op]); }
        if (o->stream == REDCO_STREAM_COMPUTE) { *end_s = fmax(*end_s, t->end_s[op]); }
        *lag_s = fmax(*lag_s, t->end_s[op]);
    }
    for (uint32_t i = 0; i < micro_batches * step->ranks; i++) { marks->lag_s[i] -= marks->end_s[i]; }
}

/* @return whether @p unit micro-batches repeat those before them on all ranks and in all streams, for as long as a
 * pipeline remembers (@p edge), until it begins to drain. @return the seconds they take, or 0 */
static double find_period(const struct marks *m, uint32_t ranks, uint32_t micro_batches, uint32_t unit, uint32_t edge)
{
    double period_s = 0.0;
    const uint32_t window = ranks > 1 ? edge : unit;
    if (micro_batches < edge + window + unit) { return 0.0; }
    for (uint32_t i = micro_batches - edge - window; i < micro_batches - edge; i++) {
        for (uint32_t r = 0; r < ranks; r++) {
            const uint32_t at = i * ranks + r, earlier = at - unit * ranks;
            const double took_s = m->end_s[at] - m->end_s[earlier];
            if (!(period_s > 0.0)) { period_s = took_s; }
            const double slack_s = rounding_ratio * m->end_s[at];
            if (fabs(took_s - period_s) > slack_s || fabs(m->lag_s[at] - m->lag_s[earlier]) > slack_s ||
                fabs(m->forward_s[at] - m->forward_s[earlier] - period_s) > slack_s) {
                return 0.0;
            }
        }
    }
    return period_s;
}

/* Where a transfer outlasts what stages do meanwhile, a wait goes round the stages: micro-batches repeat those before
 * them that are fewer than the stages. @return how many repeat, a multiple of @p unit, or 0 */
static uint32_t find_unit(const struct marks *m, uint32_t ranks, uint32_t micro_batches, uint32_t unit, uint32_t edge,
                          double *period_s_out)
{
    for (uint32_t i = 1; i <= ranks; i++) {
        *period_s_out = find_period(m, ranks, micro_batches, i * unit, edge);
        if (*period_s_out > 0.0) { return i * unit; }
    }
    return 0;
}

static void add_account(redco_account *sum, const redco_account *part, double times)
{
    for (int i = 0; i < REDCO_WORK_COUNT; i++) {
        sum->busy_s[i] += times * part->busy_s[i];
        sum->waiting_s[i] += times * part->waiting_s[i];
    }
    sum->contention_s += times * part->contention_s;
}

/* The critical path by kind; @p count micro-batches from @p first on count @p times more. */
static void add_critical(const redco_timeline *t, uint32_t first, uint32_t count, double times,
                         double critical_s[REDCO_WORK_COUNT])
{
    for (redcoi_spot at = redcoi_spot_of(t, t->last); at.op != REDCO_STEP_NONE; at = redcoi_spot_cause(t, at)) {
        const uint32_t micro_batch = t->step->ops[at.op].micro_batch;
        const bool repeats = micro_batch != REDCO_STEP_NONE && micro_batch >= first && micro_batch - first < count;
        const double took_s = redcoi_spot_end_s(t, at) - redcoi_spot_start_s(t, at);
        critical_s[redcoi_spot_work(t, at)] += (repeats ? 1.0 + times : 1.0) * took_s;
    }
}

static uint32_t busiest_rank(const redco_timeline *t)
{
    uint32_t busiest = 0;
    double most_s = -1.0;
    for (uint32_t r = 0; r < t->step->ranks; r++) {
        redco_account account = {.contention_s = 0.0};
        uint32_t op = t->step->stream_ends[r * REDCO_STREAM_COUNT + REDCO_STREAM_COMPUTE].first;
        for (; op != REDCO_STEP_NONE; op = t->step->next[op]) { add_work(t, op, &account); }
        double busy_s = account.contention_s;
        for (int i = 0; i < REDCO_WORK_COUNT; i++) { busy_s += is_compute(i) ? account.busy_s[i] : 0.0; }
        if (busy_s > most_s * (1.0 + rounding_ratio)) {
            most_s = busy_s;
            busiest = r;
        }
    }
    return busiest;
}

static uint64_t represented(const redco_step *step)
{
    uint64_t operators = step->op_count;
    for (uint32_t i = 0; i < step->fold_count; i++) {
        const redcoi_pass *const pass = &step->passes[step->folds[i].pass];
        operators += pass->end - pass->first - pass->trailing_count - 1;
    }
    return operators;
}

/* @p repeated micro-batches were not simulated: they repeat @p unit ones from @p model on, which take @p period_s. */
static void conclude(redco_costs *costs, const redco_parallelism *parallelism, const redco_timeline *t, double repeated,
                     uint32_t unit, uint32_t model, double period_s, redco_simulation *out)
{
    const redco_fixed_cost fixed = redco_cost_fixed(costs, parallelism);
    const double gpus = (double)costs->machine.nodes * costs->machine.gpus_per_node;
    const double tokens = (double)costs->workload.global_batch * costs->workload.seq_len;
    redco_simulation s = {.step_s = t->span_s + repeated / unit * period_s,
                          .rank = busiest_rank(t),
                          .simulated_micro_batches = t->step->micro_batches,
                          .operators = t->step->op_count,
                          .represented_operators = represented(t->step)};
    s.account = redco_timeline_account(t, s.rank, REDCO_ALL_MICRO_BATCHES);
    add_critical(t, model, repeated > 0.0 ? unit : 0, repeated / unit, s.critical_s);
    if (repeated > 0.0) {
        const redco_account part = account_of(t, s.rank, model, unit);
        add_account(&s.account, &part, repeated / unit);
    }
    for (uint32_t r = 0; r < t->step->ranks; r++) {
        if (t->peaks[r].bytes > t->peaks[s.peak_rank].bytes) { s.peak_rank = r; }
    }
    s.peak = t->peaks[s.peak_rank];
    if (s.peak.op != REDCO_STEP_NONE) { (void)redco_step_name(t->step, s.peak.op, s.peak_name, sizeof s.peak_name); }
    double critical_s = 0.0; /* the path may cross the edges of a micro-batch of a pipeline elsewhere in the next */
    for (int i = 0; i < REDCO_WORK_COUNT; i++) { critical_s += s.critical_s[i]; }
    for (int i = 0; i < REDCO_WORK_COUNT && critical_s > 0.0; i++) { s.critical_s[i] *= s.step_s / critical_s; }
    const double *const busy_s = s.account.busy_s;
    s.compute_s = busy_s[REDCO_WORK_FORWARD] + busy_s[REDCO_WORK_RECOMPUTE] + busy_s[REDCO_WORK_BACKWARD] +
                  busy_s[REDCO_WORK_NORM];
    s.exposed_comm_s = busy_s[REDCO_WORK_LAUNCH] + s.account.contention_s;
    for (int i = 0; i < REDCO_WORK_COUNT; i++) {
        const bool bubble = is_compute(i) || i == REDCO_WORK_PIPELINE;
        *(bubble ? &s.bubble_s : &s.exposed_comm_s) += s.account.waiting_s[i];
    }
    s.tokens_per_s_per_gpu = tokens / (s.step_s * gpus);
    s.mfu = s.tokens_per_s_per_gpu * fixed.model_flops_per_token / fixed.peak_flops_per_s;
    *out = s;
}

/* Simulates some micro-batches.
 * @param unit      in: the fewest that may repeat; out: those that do, 0 when the middle does not repeat yet
 * @param done_out  false then, or where the others are no multiple of them */
static redco_status simulate_some(redco_costs *costs, const redco_parallelism *parallelism,
                                  const redco_assignment *assignments, uint32_t count,
                                  const redco_step_options *options, uint32_t *unit, uint32_t edge, bool *shared_out,
                                  bool *done_out, redco_simulation *out, redco_error *err)
{
    redco_step *step = NULL;
    redco_timeline *timeline = NULL;
    struct marks marks = {NULL, NULL, NULL};
    const uint32_t built = (uint32_t)options->micro_batches;
    const uint64_t repeated = parallelism->micro_batches - built;
    redco_status st = redco_step_build(costs, parallelism, assignments, count, options, &step, err);
    if (st != REDCO_OK || (st = redco_timeline_create(step, &timeline, err)) != REDCO_OK) { goto out; }
    double period_s = 0.0;
    *shared_out = timeline->shared;
    if (timeline->shared) { goto out; }
    redco_error broken = {.status = REDCO_OK};
    if (redco_timeline_check(timeline, &broken) != REDCO_OK) {
        /* An operator that one pass left under way met a repeated one in a way that this one does not tell: operator by
         * operator.
         */
        *shared_out = options->fold;
        if (!options->fold) { st = redco_fail(err, broken.status, broken.place, "%s", broken.text); }
        goto out;
    }
    if (repeated > 0) {
        marks.forward_s = calloc((size_t)built * step->ranks, sizeof(double));
        marks.end_s = calloc((size_t)built * step->ranks, sizeof(double));
        marks.lag_s = calloc((size_t)built * step->ranks, sizeof(double));
        if (marks.forward_s == NULL || marks.end_s == NULL || marks.lag_s == NULL) {
            st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
            goto out;
        }
        find_marks(timeline, built, &marks);
        *unit = find_unit(&marks, step->ranks, built, *unit, edge, &period_s);
        *done_out = *unit > 0 && repeated % *unit == 0;
        if (!*done_out) { goto out; }
    }
    conclude(costs, parallelism, timeline, (double)repeated, *unit, built - edge - *unit, period_s, out);
    *done_out = true;
out:
    free(marks.forward_s);
    free(marks.end_s);
    free(marks.lag_s);
    redco_timeline_free(timeline);
    redco_step_free(step);
    return st;
}

uint32_t redcoi_repeated_batches(const redco_parallelism *parallelism)
{
    if (parallelism->pp <= 1) { return 1; }
    const redco_pipeline s = redco_parallelism_pipeline(parallelism);
    switch (s.kind) {
    case REDCO_PIPELINE_INTERLEAVED: return s.group;
    case REDCO_PIPELINE_GPIPE:
    case REDCO_PIPELINE_DUALPIPE_V:
    case REDCO_PIPELINE_DUALPIPE: return 0;
    default: return 1;
    }
}

redco_status redco_simulate(redco_costs *costs, const redco_parallelism *parallelism,
                            const redco_assignment *assignments, uint32_t count, const redco_step_options *options,
                            redco_simulation *simulation_out, redco_error *err)
{
    redco_step_options o = options != NULL ? *options : (redco_step_options){.steps = 0};
    const uint32_t repeated = redcoi_repeated_batches(parallelism), unit = repeated > 0 ? repeated : 1;
    /* A pipeline fills and drains; without one only the first (updates) and last (reductions) micro-batch differ. */
    const uint32_t rest = unit > 1 ? (uint32_t)(parallelism->micro_batches % unit) : 0; /* a smaller last group */
    const uint32_t edge = parallelism->pp > 1 ? parallelism->pp + unit + rest : 1;
    uint64_t built = o.micro_batches;
    if (built == 0) { built = parallelism->pp > 1 ? 2 * ((uint64_t)edge + unit) : FEWEST_MICRO_BATCHES; }
    if (unit > 1) { built = (built + unit - 1) / unit * unit + rest; }
    o.steps = 1;
    o.fold = parallelism->pp > 1 && o.micro_batches == 0;
    const uint64_t passes = parallelism->micro_batches * parallelism->pp * redco_parallelism_chunks(parallelism);
    const bool all = passes <= (uint64_t)PASSES_PER_LAYER * costs->blocks || 2 * built >= parallelism->micro_batches;
    if (o.fold && all) { built = parallelism->micro_batches; }
    for (;;) {
        bool shared = false, done = false;
        uint32_t found = unit;
        if (built > parallelism->micro_batches || repeated == 0) { built = parallelism->micro_batches; }
        o.micro_batches = built;
        const redco_status st = simulate_some(costs, parallelism, assignments, count, &o, &found, edge, &shared, &done,
                                              simulation_out, err);
        if (st != REDCO_OK || done) { return st; }
        if (shared) {
            o.fold = false; /* operator by operator */
        } else {
            built = found > 0 ? built + (parallelism->micro_batches - built) % found : 2 * built - rest;
        }
    }
}
