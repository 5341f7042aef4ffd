/* Pictures that lay plans side by side: memory and time by component, memory against throughput, overlap settings. */
#include "tools/plot/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STACKS = 24, MEMORY_PARTS = 5, TIME_PARTS = 8, SETTINGS = 8, MOST_GROUPS = 6, LETTER = 7 /* pixels */ };

static const struct plot_plan *first_feasible(const struct plot_plans *plans)
{
    for (size_t i = 0; i < plans->count; i++) {
        if (plans->rows[i].reason == NULL) { return &plans->rows[i]; }
    }
    return NULL;
}

static redco_status nothing_fits(const struct plot_plans *plans, redco_error *err)
{
    return redco_fail(err, REDCO_EVALUE, plans->count > 0 ? plans->rows[0].place : "",
                      "no plan in the input fits, so there is nothing to draw%s%s", plans->count > 0 ? ": " : "",
                      plans->count > 0 ? plans->rows[0].reason : "");
}

static bool same_model(const struct plot_plan *a, const struct plot_plan *b)
{
    return strcmp(a->model, b->model) == 0;
}

/* "LLaMA-7B on 1024 GPUs of a800-hdr", or less where the plans differ. */
static void title_of(const struct plot_plans *plans, struct plot_sheet *sheet, const char *what)
{
    const struct plot_plan *one = first_feasible(plans);
    bool model = true;
    bool gpus = true;
    for (size_t i = 0; i < plans->count; i++) {
        const struct plot_plan *plan = &plans->rows[i];
        if (plan->reason != NULL) { continue; }
        model = model && same_model(plan, one);
        gpus = gpus && plan->gpus == one->gpus;
    }
    if (model && gpus) {
        plot_title(sheet, "%s: %s on %llu GPUs of %s", what, one->model, (unsigned long long)one->gpus, one->cluster);
    } else if (model) {
        plot_title(sheet, "%s: %s on %s", what, one->model, one->cluster);
    } else {
        plot_title(sheet, "%s on %s", what, one->cluster);
    }
}

/* Below a bar: the strategy, or its rank; the GPUs where plans differ in them. */
static void bar_label(const struct plot_plans *plans, size_t index, char *buffer, size_t size)
{
    const struct plot_plan *plan = &plans->rows[index];
    bool same_name = plans->count > 1;
    bool same_gpus = true;
    for (size_t i = 0; i < plans->count; i++) {
        if (plans->rows[i].gpus == 0) { continue; }
        same_name = same_name && strcmp(plans->rows[i].name, plan->name) == 0;
        same_gpus = same_gpus && plans->rows[i].gpus == plan->gpus;
    }
    const char *name = plot_strategy_label(plan->name);
    if (plan->listed) {
        (void)snprintf(buffer, size, "%zu.", index + 1);
    } else if (!same_gpus && same_name) {
        (void)snprintf(buffer, size, "%llu GPUs", (unsigned long long)plan->gpus);
    } else if (!same_gpus && plan->gpus > 0) {
        (void)snprintf(buffer, size, "%s %llu", name, (unsigned long long)plan->gpus);
    } else {
        (void)snprintf(buffer, size, "%s", name);
    }
}

static double part_of(const struct plot_plan *plan, bool memory, int part)
{
    return memory ? plan->memory_bytes[part] * 1e-9 : plan->time_s[part];
}

static void write_stack(FILE *out, const struct plot_plans *plans, bool memory, int part)
{
    for (size_t i = 0; i < plans->count; i++) {
        const struct plot_plan *plan = &plans->rows[i];
        double low = 0.0;
        if (plan->reason != NULL) { continue; }
        for (int before = 0; before < part; before++) { low += part_of(plan, memory, before); }
        (void)fprintf(out, "%zu\t%.6g\t%.6g\n", i, low, low + part_of(plan, memory, part));
    }
    (void)fprintf(out, "\n\n");
}

/* The total stands above its bar; above the mark of what is usable where that would run through it. */
static double label_at(const struct plot_plan *plan, bool memory, double highest)
{
    const double total = memory ? plan->total_bytes * 1e-9 : plan->step_s;
    const double capacity = plan->capacity_bytes * 1e-9;
    const double letters = 0.08 * highest; /* their height and distance */
    return memory && capacity >= total && capacity < total + letters ? capacity : total;
}

/* Totals above the bars, the usable memory of each, and what does not fit. */
static void write_marks(FILE *out, const struct plot_plans *plans, bool memory)
{
    const double capacity = first_feasible(plans)->capacity_bytes * 1e-9;
    double highest = memory ? capacity : 0.0;
    double needed = 0.0;
    size_t without = 0;
    for (size_t i = 0; i < plans->count; i++) {
        const struct plot_plan *plan = &plans->rows[i];
        const double total = memory ? plan->total_bytes * 1e-9 : plan->step_s;
        if (plan->reason == NULL && total > highest) { highest = total; }
        if (plan->reason != NULL && memory) { needed = fmax(needed, capacity + plan->short_bytes * 1e-9); }
    }
    /* A bar of many times the memory would make all others flat: it leaves the picture at the top. */
    highest = fmax(highest, fmin(needed, 1.3 * highest));
    (void)fprintf(out, "$totals << EOD\n");
    for (size_t i = 0; i < plans->count; i++) {
        const struct plot_plan *plan = &plans->rows[i];
        if (plan->reason != NULL) { continue; }
        const double total = memory ? plan->total_bytes * 1e-9 : plan->step_s;
        (void)fprintf(out, "%zu\t%.6g\t%d\t%.6g\t%.6g\n", i, total, plan->chosen, plan->capacity_bytes * 1e-9,
                      label_at(plan, memory, highest));
    }
    (void)fprintf(out, "EOD\n$missing << EOD\n");
    for (size_t i = 0; i < plans->count; i++) {
        const struct plot_plan *plan = &plans->rows[i];
        if (plan->reason == NULL) { continue; }
        without++;
        const double total = capacity + plan->short_bytes * 1e-9;
        (void)fprintf(out, "%zu\t%.6g\t%.6g\t%.4g\t%d\n", i, memory ? capacity : 0.0,
                      memory ? fmin(total, highest) : 0.0, total, total > highest);
    }
    (void)fprintf(out, "EOD\nmissing = %zu\n", without);
}

redco_status plot_stacks(const struct plot_plans *plans, bool memory, struct plot_sheet *sheet, redco_error *err)
{
    static const char *const memory_names[MEMORY_PARTS] = {"parameters", "gradients", "optimizer", "activations",
                                                           "transient, reserve, NCCL"};
    static const char *const time_names[TIME_PARTS] = {"forward",
                                                       "backward",
                                                       "recomputation",
                                                       "exposed layer communication",
                                                       "exposed gradient reduction",
                                                       "exposed parameter update",
                                                       "optimizer",
                                                       "other"};
    const int parts = memory ? MEMORY_PARTS : TIME_PARTS;
    FILE *out = sheet->text;
    size_t longest = 0;
    if (first_feasible(plans) == NULL) { return nothing_fits(plans, err); }
    if (plans->count > MOST_STACKS) {
        return redco_fail(err, REDCO_EVALUE, plot_kind_words[memory ? PLOT_MEMORY : PLOT_TIME],
                          "the input holds %zu plans: at most %d bars can be read in one picture", plans->count,
                          MOST_STACKS);
    }
    title_of(plans, sheet, memory ? "Memory of a GPU" : "Where a step goes");
    (void)fprintf(out, "memory = %d\nbars = %zu\nparts = %d\narray part[parts] = [", memory, plans->count, parts);
    for (int i = 0; i < parts; i++) {
        (void)fprintf(out, "%s'%s'", i > 0 ? "," : "", memory ? memory_names[i] : time_names[i]);
    }
    (void)fprintf(out, "]\nset xtics (");
    for (size_t i = 0; i < plans->count; i++) {
        char label[40];
        bar_label(plans, i, label, sizeof label);
        longest = strlen(label) > longest ? strlen(label) : longest;
        (void)fprintf(out, "%s", i > 0 ? ", " : "");
        plot_tic(out, label);
        (void)fprintf(out, " %zu", i);
    }
    (void)fprintf(out, ")\n$stacks << EOD\n");
    for (int part = 0; part < parts; part++) { write_stack(out, plans, memory, part); }
    (void)fprintf(out, "EOD\n");
    write_marks(out, plans, memory);
    sheet->script = "stacks";
    sheet->width = plans->count > 8 ? 960 : 800;
    (void)fprintf(out, "rotated = %d\n", LETTER * longest * plans->count > sheet->width - 80);
    sheet->height = 520;
    return REDCO_OK;
}

static int by_memory(const void *left, const void *right)
{
    const struct plot_plan *a = *(const struct plot_plan *const *)left;
    const struct plot_plan *b = *(const struct plot_plan *const *)right;
    if (a->total_bytes < b->total_bytes || a->total_bytes > b->total_bytes) {
        return a->total_bytes < b->total_bytes ? -1 : 1;
    }
    return a->tokens_per_s_per_gpu > b->tokens_per_s_per_gpu ? -1 : a->tokens_per_s_per_gpu < b->tokens_per_s_per_gpu;
}

static int style_of(const struct plot_plan *plan)
{
    const int style = plot_strategy_style(plan->name);
    return style > 0 ? style : PLOT_STYLES;
}

static void write_point(FILE *out, const struct plot_plan *plan)
{
    (void)fprintf(out, "%.6g\t%.6g\n", plan->total_bytes * 1e-9, plan->tokens_per_s_per_gpu);
}

/* Keeps the Pareto-optimal plans, which no other beats in both. @return number of points */
static redco_status write_front(FILE *out, const struct plot_plans *plans, redco_error *err)
{
    const struct plot_plan **sorted = malloc(plans->count * sizeof *sorted);
    size_t count = 0;
    double best = -1.0;
    if (sorted == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    for (size_t i = 0; i < plans->count; i++) {
        if (plans->rows[i].reason == NULL) { sorted[count++] = &plans->rows[i]; }
    }
    qsort(sorted, count, sizeof *sorted, by_memory);
    (void)fprintf(out, "$front << EOD\n");
    for (size_t i = 0; i < count; i++) {
        if (sorted[i]->tokens_per_s_per_gpu <= best) { continue; }
        best = sorted[i]->tokens_per_s_per_gpu;
        write_point(out, sorted[i]);
    }
    (void)fprintf(out, "EOD\n");
    free(sorted);
    return REDCO_OK;
}

/* The first chosen plan, by a list of the best before a comparison: its rank is known. */
static const struct plot_plan *chosen_of(const struct plot_plans *plans)
{
    const struct plot_plan *chosen = NULL;
    for (size_t i = 0; i < plans->count && chosen == NULL; i++) {
        if (plans->rows[i].chosen && plans->rows[i].reason == NULL) { chosen = &plans->rows[i]; }
    }
    return chosen != NULL ? chosen : first_feasible(plans);
}

/* Plans with a name, each a data set of its own, in the order of styles. */
static void write_named(FILE *out, const struct plot_plans *plans)
{
    const struct plot_plan *named[MOST_STACKS];
    size_t count = 0;
    for (int style = 1; style <= PLOT_STYLES; style++) {
        for (size_t i = 0; i < plans->count && count < MOST_STACKS; i++) {
            const struct plot_plan *plan = &plans->rows[i];
            if (!plan->listed && !plan->chosen && plan->reason == NULL && style_of(plan) == style) {
                named[count++] = plan;
            }
        }
    }
    (void)fprintf(out, "named = %zu\narray named_style[named + 1]\narray named_name[named + 1]\n", count);
    for (size_t i = 0; i < count; i++) {
        (void)fprintf(out, "named_style[%zu] = %d; named_name[%zu] = ", i + 1, style_of(named[i]), i + 1);
        plot_quote(out, plot_strategy_label(named[i]->name));
        (void)fprintf(out, "\n");
    }
    (void)fprintf(out, "$named << EOD\n");
    for (size_t i = 0; i < count; i++) {
        write_point(out, named[i]);
        (void)fprintf(out, "\n\n");
    }
    (void)fprintf(out, "EOD\n");
}

redco_status plot_pareto(const struct plot_plans *plans, struct plot_sheet *sheet, redco_error *err)
{
    FILE *out = sheet->text;
    size_t listed = 0;
    if (first_feasible(plans) == NULL) { return nothing_fits(plans, err); }
    const struct plot_plan *chosen = chosen_of(plans);
    for (size_t i = 0; i < plans->count; i++) {
        const struct plot_plan *plan = &plans->rows[i];
        if (plan->reason == NULL && !same_model(plan, chosen)) {
            return redco_fail(err, REDCO_EVALUE, plan->place,
                              "is a plan of %s, others are of %s: one model to a picture", plan->model, chosen->model);
        }
        listed += plan->reason == NULL && plan->listed;
    }
    title_of(plans, sheet, "Memory against throughput");
    (void)fprintf(out, "listed = %zu\n$listed << EOD\n", listed);
    for (size_t i = 0; i < plans->count; i++) {
        if (plans->rows[i].listed && plans->rows[i].reason == NULL) { write_point(out, &plans->rows[i]); }
    }
    (void)fprintf(out, "EOD\n");
    write_named(out, plans);
    (void)fprintf(out, "$chosen << EOD\n");
    write_point(out, chosen);
    (void)fprintf(out, "EOD\ncapacity = %.6g\n", chosen->capacity_bytes * 1e-9);
    sheet->script = "pareto";
    sheet->width = 800;
    sheet->height = 560;
    return write_front(out, plans, err);
}

/* Bars that stand together: the same question under each overlap setting. */
struct group {
    const struct plot_plan *first;
    const struct plot_plan *plans[SETTINGS];
    double measured[SETTINGS];
};

static bool same_question(const struct plot_plan *a, const struct plot_plan *b)
{
    return same_model(a, b) && a->gpus == b->gpus && a->seq_len == b->seq_len && a->global_batch == b->global_batch &&
           strcmp(a->gpu, b->gpu) == 0;
}

static redco_status group_plans(const struct plot_plans *plans, struct group *groups, size_t *count_out,
                                redco_error *err)
{
    size_t count = 0;
    for (size_t i = 0; i < plans->count; i++) {
        const struct plot_plan *plan = &plans->rows[i];
        size_t at = 0;
        if (plan->reason != NULL) { continue; }
        while (at < count && !same_question(groups[at].first, plan)) { at++; }
        if (at == MOST_GROUPS) {
            return redco_fail(err, REDCO_EVALUE, plan->place,
                              "the plans up to this one differ in more than overlap in more than %d ways", MOST_GROUPS);
        }
        if (at == count) {
            groups[count++].first = plan;
        } else if (groups[at].plans[plan->overlap] != NULL) {
            return redco_fail(err, REDCO_EVALUE, plan->place,
                              "has model, GPUs and overlap setting of %s: give each setting once",
                              groups[at].plans[plan->overlap]->place);
        }
        groups[at].plans[plan->overlap] = plan;
    }
    *count_out = count;
    return REDCO_OK;
}

static bool answers(const redco_measured_run *run, const struct plot_plan *plan)
{
    return redco_measured_knows(run, REDCO_COLUMN_OVERLAP) && run->overlap == plan->overlap &&
           run->tokens_per_s_per_gpu > 0.0 && run->n_gpus == plan->gpus && run->seq_len == plan->seq_len &&
           run->global_batch == plan->global_batch && strcmp(run->model, plan->model) == 0 &&
           strcmp(run->gpu, plan->gpu) == 0 && redco_shards_equal(run->shards, plan->shards);
}

static void find_measured(struct group *group, const struct plot_input *inputs, size_t count, bool all_rows)
{
    for (size_t i = 0; i < count; i++) {
        const redco_measured_run *runs = NULL;
        const size_t rows = inputs[i].measured != NULL ? redco_measured_runs(inputs[i].measured, &runs) : 0;
        for (size_t row = 0; row < rows; row++) {
            if (redco_measured_skip(&runs[row]) != NULL && !all_rows) { continue; }
            for (int setting = 0; setting < SETTINGS; setting++) {
                const struct plot_plan *plan = group->plans[setting];
                if (plan != NULL && answers(&runs[row], plan)) {
                    group->measured[setting] = runs[row].tokens_per_s_per_gpu;
                }
            }
        }
    }
}

redco_status plot_overlap(const struct plot_plans *plans, const struct plot_input *inputs, size_t count,
                          struct plot_sheet *sheet, redco_error *err)
{
    static const char *const names[SETTINGS] = {"none", "ag_rs",     "ar",     "ag_rs, ar",
                                                "bc",   "ag_rs, bc", "ar, bc", "ag_rs, ar, bc"};
    struct group groups[MOST_GROUPS] = {{0}};
    size_t group_count = 0;
    size_t measured = 0;
    int used[SETTINGS];
    int settings = 0;
    bool banded = false;
    FILE *out = sheet->text;
    const redco_status st = group_plans(plans, groups, &group_count, err);
    if (st != REDCO_OK) { return st; }
    if (group_count == 0) { return nothing_fits(plans, err); }
    for (int setting = 0; setting < SETTINGS; setting++) {
        bool any = false;
        for (size_t g = 0; g < group_count; g++) { any = any || groups[g].plans[setting] != NULL; }
        if (any) { used[settings++] = setting; }
    }
    plot_title(sheet, "Overlap of communication on %s", groups[0].first->cluster);
    (void)fprintf(out, "groups = %zu\nsettings = %d\narray setting[settings] = [", group_count, settings);
    for (int i = 0; i < settings; i++) { (void)fprintf(out, "%s'%s'", i > 0 ? "," : "", names[used[i]]); }
    (void)fprintf(out, "]\nset xtics (");
    for (size_t g = 0; g < group_count; g++) {
        char label[120];
        (void)snprintf(label, sizeof label, "%.40s, %llu GPUs", groups[g].first->model,
                       (unsigned long long)groups[g].first->gpus);
        (void)fprintf(out, "%s", g > 0 ? ", " : "");
        plot_tic(out, label);
        (void)fprintf(out, ".\"\\n%llu sequences a step\" %zu", (unsigned long long)groups[g].first->global_batch, g);
        find_measured(&groups[g], inputs, count, sheet->options->all_rows);
    }
    (void)fprintf(out, ")\n$bars << EOD\n");
    for (int i = 0; i < settings; i++) {
        for (size_t g = 0; g < group_count; g++) {
            const struct plot_plan *plan = groups[g].plans[used[i]];
            const struct plot_plan *none = groups[g].plans[0];
            if (plan == NULL) { continue; }
            const double gain =
                none != NULL && none != plan ? plan->tokens_per_s_per_gpu / none->tokens_per_s_per_gpu : 0.0;
            banded = banded || plan->band > 0.0;
            (void)fprintf(out, "%zu\t%.6g\t%.6g\t%.3f\t%.6g\n", g, plan->tokens_per_s_per_gpu, plan->band, gain,
                          groups[g].measured[used[i]]);
        }
        (void)fprintf(out, "\n\n");
    }
    (void)fprintf(out, "EOD\n$measured << EOD\n");
    for (int i = 0; i < settings; i++) {
        for (size_t g = 0; g < group_count; g++) {
            if (groups[g].measured[used[i]] <= 0.0) { continue; }
            (void)fprintf(out, "%zu\t%d\t%.6g\n", g, i, groups[g].measured[used[i]]);
            measured++;
        }
    }
    (void)fprintf(out, "EOD\nmeasured = %zu\nbanded = %d\n", measured, banded);
    sheet->script = "overlap";
    sheet->width = group_count > 3 ? 960 : 800;
    sheet->height = 500;
    return REDCO_OK;
}
