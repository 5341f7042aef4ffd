/* Pictures of whole runs: days against money and energy, and phases over time. */
#include "tools/plot/plot.h"

#include <math.h>
#include <string.h>

enum { MOST_ROWS = 1024, MOST_SERIES = 8, MOST_PHASES = 64 };

/* A row of a frontier that has a plan. */
struct point {
    const char *cluster, *precision;
    double gpus, days, low, high, cost, mwh;
    bool front_money, front_energy;
    int series;
};

static redco_status read_figure(const redco_json_value *run, const char *key, double out[3], redco_error *err)
{
    static const char *const parts[] = {"value", "low", "high"};
    redco_json_value figure;
    redco_status st = redco_json_object(run, key, &figure, err);
    for (int i = 0; i < 3 && st == REDCO_OK; i++) {
        st = redco_json_number(&figure, parts[i], 0.0, 1e30, &out[i], err);
    }
    return st;
}

static redco_status read_point(const redco_json_value *row, bool priced, struct point *p, redco_error *err)
{
    redco_json_value run;
    double days[3] = {0.0}, cost[3] = {0.0}, mwh[3] = {0.0};
    redco_status st = redco_json_string(row, "cluster", &p->cluster, err);
    if (st == REDCO_OK) { st = redco_json_string(row, "precision", &p->precision, err); }
    if (st == REDCO_OK) { st = redco_json_number(row, "gpus", 1.0, 1e12, &p->gpus, err); }
    if (st == REDCO_OK) { st = redco_json_bool(row, "front_money", &p->front_money, err); }
    if (st == REDCO_OK) { st = redco_json_bool(row, "front_energy", &p->front_energy, err); }
    if (st == REDCO_OK) { st = redco_json_object(row, "run", &run, err); }
    if (st == REDCO_OK) { st = read_figure(&run, "days", days, err); }
    if (st == REDCO_OK) { st = read_figure(&run, priced ? "money" : "paid_gpu_hours", cost, err); }
    if (st == REDCO_OK && redco_json_has(&run, "mwh")) { st = read_figure(&run, "mwh", mwh, err); }
    p->days = days[0];
    p->low = days[1];
    p->high = days[2];
    p->cost = cost[0];
    p->mwh = mwh[0];
    return st;
}

/* A series for each cluster; those beyond the eighth share the last. */
static int series_of(struct point *points, size_t count, size_t at, int *series_count)
{
    for (size_t i = 0; i < count && i < at; i++) {
        if (strcmp(points[i].cluster, points[at].cluster) == 0 &&
            strcmp(points[i].precision, points[at].precision) == 0) {
            return points[i].series;
        }
    }
    if (*series_count < MOST_SERIES) { (*series_count)++; }
    return *series_count - 1;
}

static void write_points(FILE *out, const struct point *points, size_t count, int series_count)
{
    bool precisions = false;
    for (size_t i = 1; i < count; i++) {
        precisions = precisions || strcmp(points[i].precision, points[0].precision) != 0;
    }
    (void)fprintf(out, "series = %d\narray name[series]\n", series_count);
    for (int s = 0; s < series_count; s++) {
        for (size_t i = 0; i < count; i++) {
            char text[160];
            if (points[i].series != s) { continue; }
            (void)snprintf(text, sizeof text, "%.60s%s%.20s", points[i].cluster, precisions ? ", " : "",
                           precisions ? points[i].precision : "");
            (void)fprintf(out, "name[%d] = ", s + 1);
            plot_quote(out, text);
            (void)fprintf(out, "\n");
            break;
        }
    }
    (void)fprintf(out, "$points << EOD\n");
    for (int s = 0; s < series_count; s++) {
        for (size_t i = 0; i < count; i++) {
            const struct point *const p = &points[i];
            if (p->series != s) { continue; }
            (void)fprintf(out, "%.6g\t%.6g\t%.6g\t%.6g\t%.6g\t%.0f\n", p->days, p->low, p->high, p->cost, p->mwh,
                          p->gpus);
        }
        (void)fprintf(out, "\n\n");
    }
    (void)fprintf(out, "EOD\n");
}

/* The front in order of days. */
static void write_front(FILE *out, const struct point *points, size_t count, bool money)
{
    bool done[MOST_ROWS] = {false};
    (void)fprintf(out, "%s << EOD\n", money ? "$front_money" : "$front_energy");
    for (;;) {
        size_t next = count;
        for (size_t i = 0; i < count; i++) {
            if (done[i] || !(money ? points[i].front_money : points[i].front_energy)) { continue; }
            if (next == count || points[i].days < points[next].days) { next = i; }
        }
        if (next == count) { break; }
        done[next] = true;
        (void)fprintf(out, "%.6g\t%.6g\n", points[next].days, money ? points[next].cost : points[next].mwh);
    }
    (void)fprintf(out, "EOD\n");
}

redco_status plot_frontier(const redco_json_value *root, struct plot_sheet *sheet, redco_error *err)
{
    struct point found[MOST_ROWS];
    redco_json_value rows, row;
    FILE *out = sheet->text;
    uint32_t version = 0;
    size_t rows_count = 0, count = 0;
    uint64_t chosen = UINT64_MAX;
    bool priced = false, energy = true;
    const char *model = NULL, *currency = NULL;
    double deadline = 0.0;
    int series = 0;
    redco_status st = redco_json_format(root, "redco-frontier", 1, &version, err);
    if (st == REDCO_OK) { st = redco_json_string(root, "model", &model, err); }
    if (st == REDCO_OK) { st = redco_json_bool(root, "priced", &priced, err); }
    if (st == REDCO_OK) { st = redco_json_string(root, "currency", &currency, err); }
    if (st == REDCO_OK) { st = redco_json_array(root, "rows", &rows, &rows_count, err); }
    if (st == REDCO_OK && redco_json_has(root, "deadline_days")) {
        st = redco_json_number(root, "deadline_days", 1e-9, 1e9, &deadline, err);
    }
    if (st == REDCO_OK && redco_json_has(root, "chosen")) {
        st = redco_json_u64(root, "chosen", 0, MOST_ROWS, &chosen, err);
    }
    if (st == REDCO_OK && rows_count > MOST_ROWS) {
        st = redco_json_fail(root, "rows", err, "holds %zu rows, not up to %d", rows_count, MOST_ROWS);
    }
    size_t chosen_at = SIZE_MAX;
    for (size_t i = 0; i < rows_count && st == REDCO_OK; i++) {
        bool feasible = false;
        st = redco_json_element(&rows, i, &row, err);
        if (st == REDCO_OK) { st = redco_json_bool(&row, "feasible", &feasible, err); }
        if (st == REDCO_OK && feasible) { st = redco_json_bool(&row, "best_here", &feasible, err); }
        if (st != REDCO_OK || !feasible) { continue; }
        if ((st = read_point(&row, priced, &found[count], err)) != REDCO_OK) { break; }
        found[count].series = series_of(found, count, count, &series);
        energy = energy && found[count].mwh > 0.0;
        if (i == chosen) { chosen_at = count; }
        count++;
    }
    if (st != REDCO_OK) { return st; }
    if (count == 0) { return redco_json_fail(root, "rows", err, "no choice has a plan, so there is nothing to draw"); }
    plot_title(sheet, "%s: days against %s%s", model, priced ? "money" : "GPU-hours", energy ? " and energy" : "");
    write_points(out, found, count, series);
    write_front(out, found, count, true);
    write_front(out, found, count, false);
    (void)fprintf(out, "$chosen << EOD\n");
    if (chosen_at < count) {
        (void)fprintf(out, "%.6g\t%.6g\t%.6g\n", found[chosen_at].days, found[chosen_at].cost, found[chosen_at].mwh);
    }
    (void)fprintf(out, "EOD\nhas_chosen = %d\nenergy = %d\ndeadline = %.6g\ncost_name = ", chosen_at < count, energy,
                  deadline);
    plot_quote(out, !priced ? "GPU-hours" : currency[0] != '\0' ? currency : "money");
    (void)fprintf(out, "\n");
    sheet->script = "frontier";
    sheet->width = energy ? 1120 : 720;
    sheet->height = 520;
    return REDCO_OK;
}

redco_status plot_phases(const redco_json_value *root, struct plot_sheet *sheet, redco_error *err)
{
    redco_json_value list, row, run, total;
    FILE *out = sheet->text;
    uint32_t version = 0;
    size_t count = 0;
    double start = 0.0, last = 0.0, days[3];
    redco_status st = redco_json_format(root, "redco-run-phases", 1, &version, err);
    if (st == REDCO_OK) { st = redco_json_array(root, "phases", &list, &count, err); }
    if (st == REDCO_OK && (count == 0 || count > MOST_PHASES)) {
        st = redco_json_fail(root, "phases", err, "holds %zu phases, not 1 to %d", count, MOST_PHASES);
    }
    if (st == REDCO_OK) { st = redco_json_object(root, "total", &total, err); }
    if (st == REDCO_OK) { st = read_figure(&total, "days", days, err); }
    if (st != REDCO_OK) { return st; }
    plot_title(sheet, "%zu %s, %.1f days (%.1f to %.1f)", count, count == 1 ? "phase" : "phases", days[0], days[1],
               days[2]);
    (void)fprintf(out, "phases = %zu\nset ytics (", count);
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        const char *name = NULL;
        st = redco_json_element(&list, i, &row, err);
        if (st == REDCO_OK) { st = redco_json_string(&row, "name", &name, err); }
        if (st != REDCO_OK) { return st; }
        (void)fprintf(out, "%s", i > 0 ? ", " : "");
        plot_tic(out, name);
        (void)fprintf(out, " %zu", i);
    }
    (void)fprintf(out, ")\n$phases << EOD\n");
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        double gpus = 0.0, seq = 0.0, batch = 0.0;
        st = redco_json_element(&list, i, &row, err);
        if (st == REDCO_OK) { st = redco_json_number(&row, "gpus", 1.0, 1e12, &gpus, err); }
        if (st == REDCO_OK) { st = redco_json_number(&row, "seq_len", 1.0, 1e12, &seq, err); }
        if (st == REDCO_OK) { st = redco_json_number(&row, "global_batch", 1.0, 1e15, &batch, err); }
        if (st == REDCO_OK) { st = redco_json_object(&row, "run", &run, err); }
        if (st == REDCO_OK) { st = read_figure(&run, "days", days, err); }
        if (st != REDCO_OK) { return st; }
        (void)fprintf(out, "%zu\t%.6g\t%.6g\t%.6g\t%.6g\t%.*f days on %.0f GPUs, %.0f sequences of %.0f\n", i, start,
                      start + days[0], start + days[1], start + days[2], days[0] < 10.0 ? 2 : 1, days[0], gpus, batch,
                      seq);
        last = fmax(last, start + days[2]);
        start += days[0];
    }
    (void)fprintf(out, "EOD\nend = %.6g\n", last);
    sheet->script = "phases";
    sheet->width = 960;
    sheet->height = (unsigned)(160 + 44 * (count < 20 ? count : 20));
    return REDCO_OK;
}
