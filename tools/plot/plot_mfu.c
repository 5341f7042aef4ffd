/* MFU over the number of GPUs: a panel for each model, a line for each strategy, measured runs as points. */
#include "planner/search/strategy.h"
#include "tools/plot/plot.h"
#include "topology/ranks/parallel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PANELS = 4, MOST_SERIES = 48, MOST_POINTS = 4096, MOST_UPRIGHT = 8 };

/* A strategy of a panel, predicted or measured. */
struct series {
    size_t panel;
    const char *name;
    bool measured;
};

struct point {
    size_t series;
    double gpus, mfu, band;
};

struct chart {
    const char *panels[MOST_PANELS];
    size_t panel_count;
    struct series series[MOST_SERIES];
    size_t series_count;
    struct point points[MOST_POINTS];
    size_t point_count;
    bool predicted; /* plans are given: measured runs answer to them */
};

static redco_status too_many(const char *what, int most, redco_error *err)
{
    return redco_fail(err, REDCO_EVALUE, plot_kind_words[PLOT_MFU_VS_GPUS], "more than %d %s in one picture", most,
                      what);
}

static redco_status panel_of(struct chart *chart, const char *model, size_t *out, redco_error *err)
{
    for (*out = 0; *out < chart->panel_count; (*out)++) {
        if (strcmp(chart->panels[*out], model) == 0) { return REDCO_OK; }
    }
    if (chart->panel_count == MOST_PANELS) { return too_many("models", MOST_PANELS, err); }
    chart->panels[chart->panel_count++] = model;
    return REDCO_OK;
}

static redco_status add(struct chart *chart, struct series series, struct point point, redco_error *err)
{
    size_t at = 0;
    while (at < chart->series_count &&
           (chart->series[at].panel != series.panel || chart->series[at].measured != series.measured ||
            strcmp(chart->series[at].name, series.name) != 0)) {
        at++;
    }
    if (at == MOST_SERIES) { return too_many("strategies", MOST_SERIES, err); }
    if (chart->point_count == MOST_POINTS) { return too_many("points", MOST_POINTS, err); }
    if (at == chart->series_count) { chart->series[chart->series_count++] = series; }
    point.series = at;
    chart->points[chart->point_count++] = point;
    return REDCO_OK;
}

static bool same_shards(const redco_shards *a, const redco_shards *b)
{
    return redco_mesh_equal(a->parameters, b->parameters) && redco_mesh_equal(a->gradients, b->gradients) &&
           redco_mesh_equal(a->optimizer, b->optimizer);
}

/* A plan whose degrees were given is called by them: by what they are on the most GPUs, for on one node the shards of
 * MiCS are those of ZeRO-3. Hybrid FSDP is MiCS within a node: one name for both. */
static const char *name_of_plan(const struct plot_plans *plans, const struct plot_plan *plan)
{
    const redco_mesh none = {0};
    const struct plot_plan *largest = plan;
    if (strcmp(plan->name, "fixed") != 0) { return plan->name; }
    for (size_t i = 0; i < plans->count; i++) {
        const struct plot_plan *const other = &plans->rows[i];
        const bool like = other->reason == NULL && strcmp(other->name, "fixed") == 0 &&
                          strcmp(other->model, plan->model) == 0 && same_shards(&other->shards, &plan->shards);
        if (like && other->gpus > largest->gpus) { largest = other; }
    }
    if (largest->dp.gpus == 0 || largest->shards.parameters.gpus == 0) { return plan->name; }
    const redco_strategy known = redco_strategy_of(largest->dp, none, &largest->shards);
    return known == REDCO_STRATEGY_ANY
               ? plan->name
               : redco_strategy_name(known == REDCO_STRATEGY_HSDP ? REDCO_STRATEGY_MICS : known);
}

static redco_status add_plans(struct chart *chart, const struct plot_plans *plans, redco_error *err)
{
    redco_status st = REDCO_OK;
    for (size_t i = 0; i < plans->count && st == REDCO_OK; i++) {
        const struct plot_plan *plan = &plans->rows[i];
        if (plan->reason != NULL || plan->tokens_per_s_per_gpu <= 0.0) { continue; }
        struct series series = {.name = name_of_plan(plans, plan)};
        st = panel_of(chart, plan->model, &series.panel, err);
        if (st != REDCO_OK) { break; }
        chart->predicted = true;
        const double per_token = plan->mfu / plan->tokens_per_s_per_gpu;
        const struct point point = {.gpus = (double)plan->gpus, .mfu = plan->mfu, .band = plan->band * per_token};
        st = add(chart, series, point, err);
    }
    return st;
}

/* The plan that asks what the run answers: its MFU convention and peak are then the run's, too. */
static const struct plot_plan *plan_like(const struct plot_plans *plans, const redco_measured_run *run)
{
    for (size_t i = 0; i < plans->count; i++) {
        const struct plot_plan *plan = &plans->rows[i];
        if (plan->reason == NULL && strcmp(plan->model, run->model) == 0 && strcmp(plan->gpu, run->gpu) == 0 &&
            plan->seq_len == run->seq_len && plan->tokens_per_s_per_gpu > 0.0 &&
            (run->global_batch == 0 || plan->global_batch == run->global_batch)) {
            return plan;
        }
    }
    return NULL;
}

static bool predicts(const struct chart *chart, redco_strategy strategy)
{
    for (size_t i = 0; i < chart->series_count; i++) {
        const struct series *series = &chart->series[i];
        if (!series->measured && strcmp(series->name, redco_strategy_name(strategy)) == 0) { return true; }
    }
    return false;
}

/* The plan that was given the run's degrees on as many GPUs, or NULL. */
static const struct plot_plan *plan_of_degrees(const struct plot_plans *plans, const redco_measured_run *run)
{
    for (size_t i = 0; i < plans->count; i++) {
        const struct plot_plan *const plan = &plans->rows[i];
        if (plan->reason == NULL && strcmp(plan->name, "fixed") == 0 && strcmp(plan->model, run->model) == 0 &&
            plan->gpus == run->n_gpus && run->p_secondary.gpus == 0 && same_shards(&plan->shards, &run->shards)) {
            return plan;
        }
    }
    return NULL;
}

/* A run of AMSP's own engine bears its name, whichever degrees it has; others are called by theirs, and where a plan
 * was given the same, like that plan. MiCS within a node is hybrid FSDP, too: it is called what the lines are called.
 */
static const char *name_of_run(const struct chart *chart, const struct plot_plans *plans, const redco_measured_run *run)
{
    const struct plot_plan *const given = plan_of_degrees(plans, run);
    redco_mesh dp = {0, 0};
    if (strcmp(run->framework, "amsp") == 0) { return redco_strategy_name(REDCO_STRATEGY_AMSP); }
    if (given != NULL) { return name_of_plan(plans, given); }
    if (run->shards.parameters.gpus == 0 ||
        redco_dp_mesh(run->gpus_per_node, (uint64_t)run->tp * run->cp, run->dp, &dp, NULL) != REDCO_OK) {
        return "measured";
    }
    const redco_strategy known = redco_strategy_of(dp, run->p_secondary, &run->shards);
    if (known == REDCO_STRATEGY_HSDP && !predicts(chart, known)) { return redco_strategy_name(REDCO_STRATEGY_MICS); }
    return known != REDCO_STRATEGY_ANY ? redco_strategy_name(known) : "other shards";
}

static redco_status add_run(struct chart *chart, const struct plot_plans *plans, const redco_measured_run *run,
                            redco_error *err)
{
    struct series series = {.name = name_of_run(chart, plans, run), .measured = true};
    struct point point = {.gpus = run->n_gpus};
    if (chart->predicted) {
        const struct plot_plan *plan = plan_like(plans, run);
        if (plan == NULL || run->tokens_per_s_per_gpu <= 0.0) { return REDCO_OK; }
        point.mfu = run->tokens_per_s_per_gpu * plan->mfu / plan->tokens_per_s_per_gpu;
    } else {
        point.mfu = run->printed_mfu_ratio;
    }
    if (point.mfu <= 0.0) { return REDCO_OK; }
    const redco_status st = panel_of(chart, run->model, &series.panel, err);
    return st == REDCO_OK ? add(chart, series, point, err) : st;
}

static redco_status add_runs(struct chart *chart, const struct plot_plans *plans, const struct plot_input *inputs,
                             size_t count, bool all_rows, redco_error *err)
{
    redco_status st = REDCO_OK;
    for (size_t i = 0; i < count; i++) {
        const redco_measured_run *runs = NULL;
        const size_t rows = inputs[i].measured != NULL ? redco_measured_runs(inputs[i].measured, &runs) : 0;
        for (size_t row = 0; row < rows && st == REDCO_OK; row++) {
            if (redco_measured_skip(&runs[row]) != NULL && !all_rows) { continue; }
            st = add_run(chart, plans, &runs[row], err);
        }
    }
    return st;
}

static int style_of(const char *name)
{
    const int style = plot_strategy_style(name);
    return style > 0 ? style : PLOT_STYLES;
}

static int by_gpus(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return a < b ? -1 : a > b;
}

/* The numbers of GPUs that occur, each once; none but powers of two where there are many. */
static void write_tics(FILE *out, const struct chart *chart)
{
    double seen[MOST_POINTS];
    size_t count = 0;
    size_t distinct = 0;
    for (size_t i = 0; i < chart->point_count; i++) { seen[count++] = chart->points[i].gpus; }
    qsort(seen, count, sizeof *seen, by_gpus);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || seen[i] > seen[i - 1]) { seen[distinct++] = seen[i]; }
    }
    double highest = 0.0;
    bool banded = false;
    for (size_t i = 0; i < chart->point_count; i++) {
        highest = fmax(highest, chart->points[i].mfu + chart->points[i].band);
        banded = banded || chart->points[i].band > 0.0;
    }
    (void)fprintf(out, "least = %g\nmost = %g\nhighest = %g\nbanded = %d\n", seen[0], seen[distinct - 1],
                  0.1 * ceil(10.0 * highest + 0.1), banded);
    (void)fprintf(out, "rotated = %d\n", distinct > MOST_UPRIGHT || seen[distinct - 1] >= 10000.0);
    if (distinct > 9) { return; }
    (void)fprintf(out, "set xtics (");
    for (size_t i = 0; i < distinct; i++) { (void)fprintf(out, "%s'%g' %g", i > 0 ? ", " : "", seen[i], seen[i]); }
    (void)fprintf(out, ")\n");
}

/* One kind of series, panel after panel: style, name and points of each. */
static size_t write_series(FILE *out, const struct chart *chart, bool measured)
{
    const char *prefix = measured ? "run" : "line";
    size_t order[MOST_SERIES];
    size_t count = 0;
    (void)fprintf(out, "array %s_first[panels]\narray %s_last[panels]\n", prefix, prefix);
    for (size_t panel = 0; panel < chart->panel_count; panel++) {
        (void)fprintf(out, "%s_first[%zu] = %zu\n", prefix, panel + 1, count + 1);
        for (int style = 1; style <= PLOT_STYLES; style++) {
            for (size_t i = 0; i < chart->series_count; i++) {
                const struct series *series = &chart->series[i];
                if (series->panel == panel && series->measured == measured && style_of(series->name) == style) {
                    order[count++] = i;
                }
            }
        }
        (void)fprintf(out, "%s_last[%zu] = %zu\n", prefix, panel + 1, count);
    }
    (void)fprintf(out, "array %s_style[%zu]\n", prefix, count + 1);
    for (size_t i = 0; i < count; i++) {
        (void)fprintf(out, "%s_style[%zu] = %d\n", prefix, i + 1, style_of(chart->series[order[i]].name));
    }
    (void)fprintf(out, "$%ss << EOD\n", prefix);
    for (size_t i = 0; i < count; i++) {
        for (size_t p = 0; p < chart->point_count; p++) {
            const struct point *point = &chart->points[p];
            if (point->series != order[i]) { continue; }
            (void)fprintf(out, "%g\t%.6g\t%.6g\n", point->gpus, point->mfu, point->band);
        }
        (void)fprintf(out, "\n\n");
    }
    (void)fprintf(out, "EOD\n");
    return count;
}

/* The legend: every strategy once, whichever panels have it. */
static void write_keys(FILE *out, const struct chart *chart)
{
    const char *names[MOST_SERIES];
    bool lines[MOST_SERIES] = {false};
    bool runs[MOST_SERIES] = {false};
    size_t count = 0;
    for (int style = 1; style <= PLOT_STYLES; style++) {
        for (size_t i = 0; i < chart->series_count; i++) {
            const struct series *series = &chart->series[i];
            size_t at = 0;
            if (style_of(series->name) != style) { continue; }
            while (at < count && strcmp(names[at], series->name) != 0) { at++; }
            if (at == count) { names[count++] = series->name; }
            *(series->measured ? &runs[at] : &lines[at]) = true;
        }
    }
    (void)fprintf(
        out, "keys = %zu\narray key[keys]\narray key_style[keys]\narray key_line[keys]\narray key_run[keys]\n", count);
    for (size_t i = 0; i < count; i++) {
        (void)fprintf(out, "key[%zu] = ", i + 1);
        plot_quote(out, plot_strategy_label(names[i]));
        (void)fprintf(out, "; key_style[%zu] = %d; key_line[%zu] = %d; key_run[%zu] = %d\n", i + 1, style_of(names[i]),
                      i + 1, lines[i], i + 1, runs[i]);
    }
}

static void write_chart(const struct chart *chart, const struct plot_plans *plans, struct plot_sheet *sheet)
{
    FILE *out = sheet->text;
    const char *cluster = NULL;
    for (size_t i = 0; i < plans->count && cluster == NULL; i++) { cluster = plans->rows[i].cluster; }
    if (cluster != NULL) {
        plot_title(sheet, "Model FLOPs utilisation on %s", cluster);
    } else {
        plot_title(sheet, "Model FLOPs utilisation, as printed by the source");
    }
    (void)fprintf(out, "panels = %zu\narray panel[panels]\n", chart->panel_count);
    for (size_t i = 0; i < chart->panel_count; i++) {
        (void)fprintf(out, "panel[%zu] = ", i + 1);
        plot_quote(out, chart->panels[i]);
        (void)fprintf(out, "\n");
    }
    write_tics(out, chart);
    (void)write_series(out, chart, false);
    const size_t runs = write_series(out, chart, true);
    (void)fprintf(out, "runs = %zu\n", runs);
    write_keys(out, chart);
    sheet->script = "mfu-vs-gpus";
    sheet->width = chart->panel_count == 1 ? 640 : 120 + 300 * (unsigned)chart->panel_count;
    sheet->height = 480;
    (void)fprintf(out, "width = %u\n", sheet->width);
}

redco_status plot_mfu(const struct plot_plans *plans, const struct plot_input *inputs, size_t count,
                      struct plot_sheet *sheet, redco_error *err)
{
    struct chart *chart = calloc(1, sizeof *chart);
    if (chart == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    redco_status st = add_plans(chart, plans, err);
    if (st == REDCO_OK) { st = add_runs(chart, plans, inputs, count, sheet->options->all_rows, err); }
    if (st == REDCO_OK && chart->point_count == 0) {
        st = redco_fail(err, REDCO_EVALUE, plot_kind_words[PLOT_MFU_VS_GPUS],
                        "the input holds neither a plan that fits nor a measured run with an MFU");
    }
    if (st == REDCO_OK) { write_chart(chart, plans, sheet); }
    free(chart);
    return st;
}
