/* Label-setting dynamic programming for problem.h without transient buffers. A label is a partial answer: so many
   layers left in the class, sums of bytes, base and kinks. The Lagrangian bound turns every layer's choice into a
   reduced cost >= 0, their sum plus the bound being a lower bound of any completion: with a limit just above the bound
   only few options and counts remain. The limit starts near the bound and is raised until an answer is found. */
#include "planner/search/exact.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NO_STEP = UINT32_MAX, PRICES = 30 };

/* Price of reduced seconds in seconds of window, doubled PRICES times; any price gives a valid limit. */
static const double lowest_price = 1e-3;

/* Labels of 56 bytes each. Past it the answer is not proven. */
static const size_t most_labels = (size_t)1 << 22;

struct label {
    double base_s, kink_s[REDCOI_WINDOWS], reduced_s;
    uint64_t bytes;
    uint32_t left;
    uint32_t step; /**< the step that made it */
};

/** One choice on the way to a label. */
struct step {
    uint32_t before, option, layers;
};

struct labels {
    struct label *list;
    size_t count, capacity;
};

struct pass {
    const redcoi_problem *problem;
    const redcoi_bound *bound;
    double slack_s;     /**< most that reduced costs may add up to */
    double tolerance_s; /**< per stage: a label this much better than another is still dropped */
    struct labels now, next;
    struct step *steps;
    size_t step_count, step_capacity;
    uint64_t states;
    uint64_t *effort; /**< comparisons that may still be made */
    bool truncated;
};

/** An option that can be part of an answer below the limit. */
struct entry {
    uint32_t option, class_rank;
    double reduced_s;
};

struct stages {
    struct entry *entries; /**< by class rank, dearest first */
    size_t count;
    uint32_t class_order[REDCOI_MAX_CLASSES];    /**< smallest class first */
    uint64_t rest_bytes[REDCOI_MAX_CLASSES + 1]; /**< least of all later classes */
    uint64_t most_bytes[REDCOI_MAX_CLASSES + 1]; /**< and most */
};

static bool push_label(struct pass *p, const struct label *label)
{
    struct labels *to = &p->next;
    if (to->count == to->capacity) {
        const size_t capacity = to->capacity > 0 ? 2 * to->capacity : 4096;
        struct label *more = capacity <= most_labels ? realloc(to->list, capacity * sizeof *more) : NULL;
        if (more == NULL) { return false; }
        to->list = more;
        to->capacity = capacity;
    }
    to->list[to->count++] = *label;
    return true;
}

static bool push_step(struct pass *p, struct step step, uint32_t *index_out)
{
    if (p->step_count == p->step_capacity) {
        const size_t capacity = p->step_capacity > 0 ? 2 * p->step_capacity : 4096;
        struct step *more = capacity <= 4 * most_labels ? realloc(p->steps, capacity * sizeof *more) : NULL;
        if (more == NULL) { return false; }
        p->steps = more;
        p->step_capacity = capacity;
    }
    *index_out = (uint32_t)p->step_count;
    p->steps[p->step_count++] = step;
    return true;
}

static int compare_labels(const void *left, const void *right)
{
    const struct label *a = left;
    const struct label *b = right;
    if (a->left != b->left) { return a->left < b->left ? -1 : 1; }
    if (a->bytes != b->bytes) { return a->bytes < b->bytes ? -1 : 1; }
    if (a->base_s < b->base_s || a->base_s > b->base_s) { return a->base_s < b->base_s ? -1 : 1; }
    return a->step == b->step ? 0 : (a->step < b->step ? -1 : 1);
}

static double positive(double x)
{
    return x > 0.0 ? x : 0.0; /* the innermost loop: fmax() would be a call */
}

/* Any completion of b is one of a, with windows that grow by at most the positive differences. */
static bool dominates(const struct label *a, const struct label *b, double tolerance_s)
{
    double base_s = a->base_s;
    for (int k = 0; k < REDCOI_WINDOWS; k++) { base_s += positive(a->kink_s[k] - b->kink_s[k]); }
    return base_s <= b->base_s + tolerance_s;
}

/** Least and most that the layers still to be placed can add to each window. */
struct future {
    double per_layer[REDCOI_WINDOWS][2]; /**< for the class being placed */
    double rest[REDCOI_WINDOWS][2];      /**< for the classes after it */
};

/* A window that stays hidden whatever follows, or exposed, is linear: its kink is taken only as far as it can still
   matter, so that labels which differ beyond that compare as equal. What the bound's price of the window did not
   count is certain then, and joins the reduced costs. */
static void settle_windows(const redcoi_bound *bound, const struct future *future, struct label *label)
{
    for (int k = 0; k < REDCOI_WINDOWS; k++) {
        const double least_s = label->left * future->per_layer[k][0] + future->rest[k][0];
        const double most_s = label->left * future->per_layer[k][1] + future->rest[k][1];
        const double hidden_s = -most_s - label->kink_s[k];
        const double exposed_s = label->kink_s[k] + least_s;
        if (hidden_s > 0.0) {
            label->kink_s[k] = -most_s;
            label->reduced_s += bound->window_ratio[k] * hidden_s;
        } else if (exposed_s > 0.0) {
            label->base_s += exposed_s;
            label->kink_s[k] = -least_s;
            label->reduced_s += (1.0 - bound->window_ratio[k]) * exposed_s;
        }
    }
}

static void drop_dominated(struct pass *p)
{
    struct labels *labels = &p->next;
    if (labels->count == 0) { return; }
    qsort(labels->list, labels->count, sizeof *labels->list, compare_labels);
    size_t kept = 0;
    size_t run = 0; /* first kept label with as many layers left; those kept need no more bytes */
    double least_s = 0.0;
    for (size_t i = 0; i < labels->count; i++) {
        const struct label label = labels->list[i];
        if (kept > 0 && labels->list[run].left != label.left) { run = kept; }
        if (run == kept) { least_s = (double)INFINITY; }
        bool dominated = false;
        /* A label that dominates has no larger base, windows aside: where those are settled this decides at once. */
        const bool possible = least_s <= label.base_s + p->tolerance_s;
        for (size_t j = kept; j > run && possible && !dominated && *p->effort > 0; (*p->effort)--) {
            dominated = dominates(&labels->list[--j], &label, p->tolerance_s);
        }
        if (!dominated) {
            labels->list[kept++] = label;
            least_s = label.base_s < least_s ? label.base_s : least_s;
        }
        if (*p->effort == 0) {
            p->truncated = true;
            break;
        }
    }
    labels->count = kept;
}

static void swap_lists(struct pass *p)
{
    const struct labels old = p->now;
    p->now = p->next;
    p->next = old;
    p->next.count = 0;
}

static bool add_layers(struct pass *p, const struct label *from, const struct entry *entry, uint32_t layers,
                       const struct future *future)
{
    const redcoi_option *option = &p->problem->options[entry->option];
    struct label to = *from;
    to.left -= layers;
    to.base_s += layers * option->base_s;
    for (int k = 0; k < REDCOI_WINDOWS; k++) { to.kink_s[k] += layers * option->kink_s[k]; }
    to.reduced_s += layers * entry->reduced_s;
    to.bytes += layers * option->resident_bytes;
    settle_windows(p->bound, future, &to);
    if (to.reduced_s > p->slack_s) { return true; }
    p->states++;
    if (layers > 0 && !push_step(p, (struct step){from->step, entry->option, layers}, &to.step)) { return false; }
    return push_label(p, &to);
}

static void widen(double range[2], double low, double high)
{
    range[0] = low < range[0] ? low : range[0];
    range[1] = high > range[1] ? high : range[1];
}

/* The labels that can follow stage @p index. */
static struct future future_of(const redcoi_problem *problem, const struct stages *stages, size_t index)
{
    const uint32_t rank = stages->entries[index].class_rank;
    struct future future = {.rest = {{0.0}}};
    for (int k = 0; k < REDCOI_WINDOWS; k++) {
        double classes[REDCOI_MAX_CLASSES][2];
        for (uint32_t r = 0; r < REDCOI_MAX_CLASSES; r++) {
            classes[r][0] = (double)INFINITY;
            classes[r][1] = -(double)INFINITY;
        }
        for (size_t i = index + 1; i < stages->count; i++) {
            const double kink_s = problem->options[stages->entries[i].option].kink_s[k];
            widen(classes[stages->entries[i].class_rank], kink_s, kink_s);
        }
        const bool last_option = classes[rank][0] > classes[rank][1];
        for (int end = 0; end < 2; end++) {
            future.per_layer[k][end] = last_option ? 0.0 : classes[rank][end];
            for (uint32_t r = rank + 1; r < problem->class_count; r++) {
                future.rest[k][end] += problem->class_layers[stages->class_order[r]] * classes[r][end];
            }
        }
    }
    return future;
}

/* Bytes of a class's options after stage @p index. */
struct later {
    bool none;
    uint64_t least_bytes, most_bytes;
};

static struct later later_of(const redcoi_problem *problem, const struct stages *stages, size_t index)
{
    struct later later = {.none = true, .least_bytes = UINT64_MAX};
    const uint32_t rank = stages->entries[index].class_rank;
    for (size_t i = index + 1; i < stages->count && stages->entries[i].class_rank == rank; i++) {
        const uint64_t bytes = problem->options[stages->entries[i].option].resident_bytes;
        later.none = false;
        later.least_bytes = bytes < later.least_bytes ? bytes : later.least_bytes;
        later.most_bytes = bytes > later.most_bytes ? bytes : later.most_bytes;
    }
    return later;
}

/* Seconds that a label wastes at least by leaving memory unused that the bound prices; INFINITY: it cannot fit. */
static double memory_waste(const struct pass *p, uint64_t bytes, uint64_t least_later, uint64_t most_later)
{
    static const double gib = 1073741824.0;
    if (bytes + least_later > p->problem->budget_bytes) { return (double)INFINITY; }
    if (bytes + most_later >= p->problem->budget_bytes) { return 0.0; }
    return p->bound->memory_s_per_gib * ((double)(p->problem->budget_bytes - bytes - most_later) / gib);
}

/* One option: every label takes it 0 to left times, or, if it is its class's last, for all that is left. */
static void run_stage(struct pass *p, const struct stages *stages, size_t index)
{
    const struct entry *entry = &stages->entries[index];
    const redcoi_option *option = &p->problem->options[entry->option];
    const struct later later = later_of(p->problem, stages, index);
    const uint64_t rest_bytes = stages->rest_bytes[entry->class_rank + 1];
    const uint64_t most_bytes = stages->most_bytes[entry->class_rank + 1];
    const struct future future = future_of(p->problem, stages, index);
    for (size_t i = 0; i < p->now.count && !p->truncated; i++) {
        const struct label *from = &p->now.list[i];
        for (uint32_t layers = later.none ? from->left : 0; layers <= from->left; layers++) {
            const double reduced_s = from->reduced_s + layers * entry->reduced_s;
            if (reduced_s > p->slack_s) { break; }
            const uint64_t left = from->left - layers;
            const uint64_t bytes = from->bytes + layers * option->resident_bytes;
            const double waste_s = memory_waste(p, bytes, rest_bytes + (left > 0 ? left * later.least_bytes : 0),
                                                most_bytes + left * later.most_bytes);
            if (reduced_s + waste_s > p->slack_s) { continue; }
            if (!add_layers(p, from, entry, layers, &future)) {
                p->truncated = true;
                break;
            }
        }
    }
    drop_dominated(p);
    swap_lists(p);
    if (later.none && entry->class_rank + 1 < p->problem->class_count) {
        const uint32_t layers = p->problem->class_layers[stages->class_order[entry->class_rank + 1]];
        for (size_t i = 0; i < p->now.count; i++) { p->now.list[i].left = layers; }
    }
}

static double label_time(const redcoi_problem *problem, const struct label *label)
{
    double time_s = problem->constant_s + label->base_s;
    for (int k = 0; k < REDCOI_WINDOWS; k++) { time_s += fmax(0.0, label->kink_s[k]); }
    return time_s;
}

static bool trace_back(const struct pass *p, const struct label *label, redcoi_answer *answer)
{
    answer->count = 0;
    for (uint32_t s = label->step; s != NO_STEP; s = p->steps[s].before) {
        if (answer->count == REDCOI_MAX_PARTS) { return false; }
        answer->parts[answer->count++] = (redcoi_part){p->steps[s].option, p->steps[s].layers};
    }
    return redcoi_answer_evaluate(p->problem, answer);
}

static int compare_entries(const void *left, const void *right)
{
    const struct entry *a = left;
    const struct entry *b = right;
    if (a->class_rank != b->class_rank) { return a->class_rank < b->class_rank ? -1 : 1; }
    if (a->reduced_s < b->reduced_s || a->reduced_s > b->reduced_s) { return a->reduced_s > b->reduced_s ? -1 : 1; }
    return a->option == b->option ? 0 : (a->option < b->option ? -1 : 1);
}

static void order_classes(const redcoi_problem *problem, struct stages *stages, uint32_t ranks[REDCOI_MAX_CLASSES])
{
    for (uint32_t c = 0; c < problem->class_count; c++) {
        uint32_t rank = 0;
        for (uint32_t d = 0; d < problem->class_count; d++) {
            const bool before = problem->class_layers[d] < problem->class_layers[c] ||
                                (problem->class_layers[d] == problem->class_layers[c] && d < c);
            if (before) { rank++; }
        }
        ranks[c] = rank;
        stages->class_order[rank] = c;
    }
}

/* Keeps the options that an answer within the slack can use. */
static void fill_stages(const redcoi_problem *problem, const redcoi_bound *bound, double slack_s, struct stages *stages)
{
    uint32_t ranks[REDCOI_MAX_CLASSES];
    order_classes(problem, stages, ranks);
    double least[REDCOI_MAX_CLASSES];
    uint64_t least_bytes[REDCOI_MAX_CLASSES];
    uint64_t most_bytes[REDCOI_MAX_CLASSES] = {0};
    for (uint32_t c = 0; c < problem->class_count; c++) {
        least[c] = (double)INFINITY;
        least_bytes[c] = UINT64_MAX;
    }
    for (size_t i = 0; i < problem->option_count; i++) {
        const redcoi_option *option = &problem->options[i];
        least[option->class_index] = fmin(least[option->class_index], redcoi_bound_price(option, bound));
    }
    stages->count = 0;
    for (size_t i = 0; i < problem->option_count; i++) {
        const redcoi_option *option = &problem->options[i];
        const uint32_t c = option->class_index;
        const double reduced_s = redcoi_bound_price(option, bound) - least[c];
        if (reduced_s > slack_s) { continue; }
        if (option->resident_bytes < least_bytes[c]) { least_bytes[c] = option->resident_bytes; }
        if (option->resident_bytes > most_bytes[c]) { most_bytes[c] = option->resident_bytes; }
        stages->entries[stages->count++] = (struct entry){(uint32_t)i, ranks[c], reduced_s};
    }
    qsort(stages->entries, stages->count, sizeof *stages->entries, compare_entries);
    stages->rest_bytes[problem->class_count] = 0;
    stages->most_bytes[problem->class_count] = 0;
    for (uint32_t rank = problem->class_count; rank-- > 0;) {
        const uint32_t c = stages->class_order[rank];
        stages->rest_bytes[rank] = stages->rest_bytes[rank + 1] + problem->class_layers[c] * least_bytes[c];
        stages->most_bytes[rank] = stages->most_bytes[rank + 1] + problem->class_layers[c] * most_bytes[c];
    }
}

/* The most that sign * (sum of kinks) can be when reduced costs add up to at most the slack: the dual of a fractional
   knapsack, at the best of some prices. */
static double most_kink(const redcoi_problem *problem, const struct stages *stages, double slack_s, int window,
                        double sign)
{
    double best_s = (double)INFINITY;
    for (int i = 0; i <= PRICES; i++) {
        const double price = i > 0 ? ldexp(lowest_price, i) : 0.0;
        double most[REDCOI_MAX_CLASSES];
        for (uint32_t r = 0; r < problem->class_count; r++) { most[r] = -(double)INFINITY; }
        for (size_t j = 0; j < stages->count; j++) {
            const struct entry *entry = &stages->entries[j];
            const double gain_s = sign * problem->options[entry->option].kink_s[window] - price * entry->reduced_s;
            if (gain_s > most[entry->class_rank]) { most[entry->class_rank] = gain_s; }
        }
        double sum_s = price * slack_s;
        for (uint32_t r = 0; r < problem->class_count; r++) {
            sum_s += problem->class_layers[stages->class_order[r]] * most[r];
        }
        best_s = fmin(best_s, sum_s);
    }
    return best_s;
}

/* A window that every answer within the slack hides is dropped, one that every answer exposes becomes linear: without
   kinks labels compare in two dimensions, of which few survive. @p problem is the pass's own copy. */
static void settle_problem(redcoi_problem *problem, const struct stages *stages, double slack_s)
{
    for (int k = 0; k < REDCOI_WINDOWS; k++) {
        const bool hidden = most_kink(problem, stages, slack_s, k, 1.0) <= 0.0;
        const bool exposed = !hidden && most_kink(problem, stages, slack_s, k, -1.0) <= 0.0;
        for (size_t i = 0; i < problem->option_count && (hidden || exposed); i++) {
            if (exposed) { problem->options[i].base_s += problem->options[i].kink_s[k]; }
            problem->options[i].kink_s[k] = 0.0;
        }
    }
}

/* Finds the best answer below bound + slack, to the tolerance. @return false when there is none or labels ran out */
static bool run_pass(const redcoi_problem *original, const redcoi_bound *bound, double slack_s, double tolerance_s,
                     struct stages *stages, redcoi_exact_result *result, uint64_t *effort, bool *truncated_out)
{
    redcoi_problem *problem = redcoi_problem_copy(original, NULL);
    *truncated_out = problem == NULL;
    if (problem == NULL) { return false; }
    fill_stages(problem, bound, slack_s, stages);
    settle_problem(problem, stages, slack_s);
    struct pass p = {
        .problem = problem, .bound = bound, .slack_s = slack_s, .tolerance_s = tolerance_s / (double)stages->count};
    p.effort = effort;
    const struct label start = {.left = problem->class_layers[stages->class_order[0]], .step = NO_STEP};
    p.truncated = !push_label(&p, &start);
    swap_lists(&p);
    for (size_t i = 0; i < stages->count && !p.truncated; i++) { run_stage(&p, stages, i); }
    const struct label *best = NULL;
    for (size_t i = 0; i < p.now.count && !p.truncated; i++) {
        const struct label *label = &p.now.list[i];
        if (best == NULL || label_time(problem, label) < label_time(problem, best)) { best = label; }
    }
    const bool found = best != NULL && trace_back(&p, best, &result->answer);
    result->states += p.states;
    *truncated_out = p.truncated || (best != NULL && !found);
    if (found) { (void)redcoi_answer_evaluate(original, &result->answer); }
    redcoi_problem_free(problem);
    free(p.now.list);
    free(p.next.list);
    free(p.steps);
    return found;
}

static int compare_by_bytes(const void *left, const void *right)
{
    const redcoi_option *a = left;
    const redcoi_option *b = right;
    if (a->class_index != b->class_index) { return a->class_index < b->class_index ? -1 : 1; }
    if (a->resident_bytes != b->resident_bytes) { return a->resident_bytes < b->resident_bytes ? -1 : 1; }
    if (a->base_s < b->base_s || a->base_s > b->base_s) { return a->base_s < b->base_s ? -1 : 1; }
    return a->origin == b->origin ? 0 : (a->origin < b->origin ? -1 : 1);
}

/* Drops options that a leaner one nearly equals: many meshes differ by microseconds. Every dropped option maps to a
   kept one, so that no answer gets worse by more than the classes' shares of @p tolerance_s together. */
static redcoi_problem *representatives(const redcoi_problem *problem, double tolerance_s)
{
    redcoi_problem *few = redcoi_problem_copy(problem, NULL);
    if (few == NULL) { return NULL; }
    qsort(few->options, few->option_count, sizeof *few->options, compare_by_bytes);
    size_t kept = 0;
    size_t run = 0;
    for (size_t i = 0; i < few->option_count; i++) {
        const redcoi_option option = few->options[i];
        if (kept > 0 && few->options[run].class_index != option.class_index) { run = kept; }
        const double share_s = tolerance_s / problem->class_count / problem->class_layers[option.class_index];
        bool near = false;
        for (size_t j = kept; j-- > run && !near;) {
            const redcoi_option *other = &few->options[j];
            double base_s = other->base_s;
            for (int k = 0; k < REDCOI_WINDOWS; k++) { base_s += positive(other->kink_s[k] - option.kink_s[k]); }
            near = base_s <= option.base_s + share_s;
        }
        if (!near) { few->options[kept++] = option; }
    }
    few->option_count = kept;
    return few;
}

redco_status redcoi_labels_solve(const redcoi_problem *problem, double cutoff_s, double gap_ratio, void *context,
                                 redcoi_exact_result *result_out, redco_error *err)
{
    uint64_t own_effort = redcoi_effort_default;
    uint64_t *effort = context != NULL ? context : &own_effort;
    *result_out = (redcoi_exact_result){.proven = true};
    const redcoi_bound bound = redcoi_bound_best(problem, 0, problem->option_count);
    result_out->bound_s = bound.value_s;
    /* Half of the gap is left unsearched below the cut-off, a quarter each is what dropped labels and options cost. */
    const double ceiling_s = cutoff_s * (1.0 - gap_ratio / 2.0);
    if (bound.value_s >= ceiling_s) { return REDCO_OK; }
    const double unit_s = fmax(fabs(bound.value_s), 1e-9);
    const double tolerance_s = unit_s * gap_ratio / 2.0;
    redcoi_problem *few = representatives(problem, tolerance_s / 2.0);
    struct stages stages = {.entries = malloc((problem->option_count + 1) * sizeof *stages.entries)};
    if (few == NULL || stages.entries == NULL) {
        redcoi_problem_free(few);
        free(stages.entries);
        return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    }
    const redcoi_bound inner = redcoi_bound_best(few, 0, few->option_count);
    for (double slack_s = unit_s * fmax(gap_ratio, 5e-4);; slack_s *= 2.0) {
        const double limit_s = fmin(bound.value_s + slack_s, ceiling_s);
        bool truncated = false;
        const bool found = limit_s > inner.value_s && run_pass(few, &inner, limit_s - inner.value_s, tolerance_s / 2.0,
                                                               &stages, result_out, effort, &truncated);
        if (truncated) {
            result_out->proven = false;
            break;
        }
        /* A limit may cut the best answer's label only if that answer is no better than the limit. */
        const bool within = found && result_out->answer.objective_s <= limit_s;
        const double proven_s = within ? result_out->answer.objective_s : limit_s;
        result_out->bound_s = fmax(result_out->bound_s, proven_s - tolerance_s);
        if (within) {
            result_out->feasible = result_out->answer.objective_s < cutoff_s;
            break;
        }
        if (limit_s >= ceiling_s) { break; }
        if (slack_s > 1e6 * unit_s) { /* nothing fits: rounding of bytes in the bound */
            result_out->bound_s = (double)INFINITY;
            break;
        }
    }
    if (result_out->feasible) { redcoi_answer_to_origin(few, problem, &result_out->answer); }
    redcoi_problem_free(few);
    free(stages.entries);
    return REDCO_OK;
}
