#include "planner/run/run_estimate.h"

#include "planner/run/run_events.h"
#include "topology/base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const double day_s = 86400.0, hour_s = 3600.0, joules_per_mwh = 3.6e9;
/* The formula tells a run that loses no more than this; its corners up to the other. Since 1; source: played runs
 * (planner/run/README.md). */
static const double formula_loss = 0.25, formula_loss_most = 0.75, played_failures = 5000.0;
/* Ranks of measured runs, whose noise is in the calibration. Since 1; source: traces/data. */
static const double calibrated_ranks = 1024.0;
/* Power of runs against their prediction. Since 1; source: planner/run/README.md. */
static const double power_band = 0.12;
/* Or ten writes, so that storage has time for others. Since 1; source: assumed. */
static const double stored_every_s = 60.0;
/* GPU-hours that a team publishes over those of its steps. Since 1; source: Llama 3.1 405B, 30.84 M GPU-hours
 * for 3.79e25 FLOP is an MFU of 34.5 %, its steps had 38 to 43 % (model card; arXiv 2407.21783); planner/run/README.md
 * has two more that are less. */
static const double beside_most = 1.25;
enum { MOST_PLAYED = 64, LEAST_PLAYED = 8 };

/* The inputs that move: -1 to the better end, 1 to the worse, 0 not. */
enum cause { CAUSE_STEP, CAUSE_NOISE, CAUSE_RATE, CAUSE_RECOVERY, CAUSE_STORAGE, CAUSE_BESIDE };
struct corner {
    int at[REDCO_RUN_CAUSES];
};

/* The results of a corner. */
struct point {
    double step_s, wall_s, productive_s, mttf_s;
    redco_time_split split;
    redco_reliability reliability;
    double reload_s;
    bool played;
};

redco_run_terms redco_run_terms_default(void)
{
    redco_run_terms terms = {
        .saving = REDCO_SAVE_ASYNC, .block_s = -1.0, .write_s = -1.0, .reload_s = -1.0, .slow_rank = 1.0, .seed = 1};
    terms.stall_s = redco_run_assumed(180.0, 60.0, 600.0,
                                      "all wait 3 min at a failure of a replica (FT-HSDP's abstract, January 2026)");
    terms.pue = redco_run_assumed(1.2, 1.08, 1.5, "PUE 1.2 (1.08 to 1.5)");
    return terms;
}

static double pick(const redco_run_value *value, int end)
{
    return end == 0 ? value->value : end < 0 ? value->low : value->high;
}

/* A rate is better where it is higher. */
static double pick_rate(const redco_run_value *value, int end)
{
    return pick(value, -end);
}

static redco_run_value storage_of(const redco_run_terms *terms, const redco_run_step *step)
{
    const double nodes = fmax((double)step->gpus / REDCO_RUN_NODE_GPUS, 1.0);
    if (terms->storage_given) { return terms->storage_bytes_per_s; }
    return redco_run_assumed(
        1.2e9 * nodes, 0.4e9 * nodes, 5e9 * nodes,
        "storage takes 1.2 GB/s from every 8 GPUs (0.4 to 5; BLOOM: 2.3 TB in 40 s from 48 nodes)");
}

static double noise_of(const redco_run_terms *terms, const redco_run_step *step, int end)
{
    static const redco_noise usual = {.static_ratio = 0.01, .transient_ratio = 0.02};
    const double ranks = (double)step->gpus;
    if (terms->noise_given) { return redco_noise_factor(&terms->noise, ranks, step->micro_batches); }
    if (end <= 0 || ranks <= calibrated_ranks) { return 1.0; }
    return redco_noise_factor(&usual, ranks, step->micro_batches) /
           redco_noise_factor(&usual, calibrated_ranks, step->micro_batches);
}

static double step_of(const redco_run_terms *terms, const redco_run_step *step, const struct corner *c)
{
    const int end = c->at[CAUSE_STEP];
    /* The band is one of tokens a second. */
    const double high = step->band_high_ratio > 0.0 ? step->band_high_ratio : 1.0 + step->band_ratio;
    const double low = step->band_low_ratio > 0.0 ? step->band_low_ratio : 1.0 - step->band_ratio;
    const double moved = end == 0 ? 1.0 : end < 0 ? 1.0 / high : 1.0 / low;
    const double alone = step->step_s + (terms->slow_rank - 1.0) * step->compute_s;
    return alone * moved * noise_of(terms, step, c->at[CAUSE_NOISE]);
}

/* @param interval_s  0: the best */
static redco_reliability reliability_of(const redco_run_terms *terms, const redco_run_step *step,
                                        const struct corner *c, double interval_s, double *reload_s_out)
{
    /* From a GPU to its host. Since 1; source: assumed, of PCIe Gen4 x16 and Gen3. */
    static const double copy_bytes_per_s[] = {20e9, 10e9, 5e9};
    const redco_failures *const f = &terms->failures;
    const redco_run_value storage = storage_of(terms, step), rate = redco_failures_rate(f, step->gpus);
    const double stored_s = step->checkpoint_bytes / pick_rate(&storage, c->at[CAUSE_STORAGE]);
    const double copied_s = step->checkpoint_bytes / step->writers / copy_bytes_per_s[c->at[CAUSE_STORAGE] + 1];
    const int again = c->at[CAUSE_RECOVERY];
    const bool blocking = terms->saving == REDCO_SAVE_BLOCKING, memory = terms->saving == REDCO_SAVE_MEMORY;
    const double failures_per_s = pick(&rate, c->at[CAUSE_RATE]) * (double)step->gpus / REDCO_RUN_NODE_GPUS;
    const double reload_s = terms->reload_s >= 0.0 ? terms->reload_s : memory ? copied_s : stored_s;
    redco_reliability r = {.mttf_s = failures_per_s > 0.0 ? 1.0 / failures_per_s : (double)INFINITY,
                           .restart_s = pick(&f->detect_s, again) + pick(&f->restart_s, again) + reload_s,
                           .saving = terms->saving,
                           .block_s = terms->block_s >= 0.0 ? terms->block_s
                                      : blocking            ? stored_s
                                                            : copied_s,
                           .write_s = blocking                ? 0.0
                                      : terms->write_s >= 0.0 ? terms->write_s
                                                              : stored_s,
                           .deep_ratio = memory || terms->fault_tolerant ? pick(&f->deep_ratio, again) : 0.0,
                           .replicas = terms->fault_tolerant ? step->replicas : 0,
                           .stall_s = terms->fault_tolerant ? pick(&terms->stall_s, again) : 0.0,
                           .pooled = !terms->spares_given,
                           .spares = terms->spares,
                           .repair_s = pick(&f->repair_s, again)};
    r.stored_interval_s = memory ? fmax(stored_every_s, 10.0 * r.write_s) : 0.0;
    r.interval_s = interval_s > 0.0 ? interval_s : redco_interval_best(&r);
    *reload_s_out = reload_s;
    return r;
}

/* Enough runs for a steady mean, each as long as this one or as 5,000 failures take. */
static redco_status play(const redco_run_terms *terms, struct point *point, redco_error *err)
{
    const double wall_s = point->productive_s / fmax(point->split.compute, 1e-3);
    const double count = wall_s / point->mttf_s;
    const double share = fmin(1.0, played_failures / count);
    const double runs = fmin(fmax(played_failures / fmax(count, 1.0), LEAST_PLAYED), MOST_PLAYED);
    point->played = true;
    return redco_run_play_many(&point->reliability, point->productive_s * share, (uint32_t)runs, terms->seed,
                               &point->split, err);
}

/* @param loss  above which the formula does not tell: events are played */
static redco_status evaluate(const redco_run_terms *terms, const redco_run_step *step, double steps,
                             const struct corner *c, double interval_s, double loss, struct point *out,
                             redco_error *err)
{
    *out = (struct point){.step_s = step_of(terms, step, c)};
    out->reliability = reliability_of(terms, step, c, interval_s, &out->reload_s);
    out->mttf_s = out->reliability.mttf_s;
    out->productive_s = steps * out->step_s;
    if (out->reliability.saving == REDCO_SAVE_ASYNC && interval_s > 0.0 && c->at[CAUSE_STORAGE] != 0) {
        out->reliability.interval_s = fmax(interval_s, out->reliability.write_s);
    }
    redco_status st = redco_reliability_check(&out->reliability, err);
    if (st != REDCO_OK) { return st; }
    out->split = redco_time_split_of(&out->reliability);
    if (out->split.compute < 1.0 - loss) { st = play(terms, out, err); }
    if (st == REDCO_OK && !(out->split.compute > 1e-6)) {
        st = redco_fail(err, REDCO_EINFEASIBLE, "run", "failures every %.3g s leave no time to train", out->mttf_s);
    }
    out->wall_s = out->productive_s / out->split.compute * (c->at[CAUSE_BESIDE] > 0 ? beside_most : 1.0);
    return st;
}

/* Both ends are told by the method of the middle: formula and events differ by more than some causes do. */
static double loss_around(const struct point *middle)
{
    return middle->played ? -1.0 : formula_loss_most;
}

/* No cause alone leads further than all together. */
static void hold_causes(const redco_run_estimate *e, struct point at[3])
{
    for (int i = 0; i < REDCO_RUN_CAUSES; i++) {
        at[0].wall_s = fmin(at[0].wall_s, e->causes[i].low_days * day_s);
        at[2].wall_s = fmax(at[2].wall_s, e->causes[i].high_days * day_s);
    }
}

__attribute__((format(printf, 2, 3))) static void assume(redco_run_estimate *e, const char *format, ...)
{
    va_list list;
    if (e->assumed_count == REDCO_RUN_MOST_ASSUMED) { return; }
    va_start(list, format);
    (void)vsnprintf(e->assumed[e->assumed_count], sizeof e->assumed[0], format, list);
    va_end(list);
    redco_text_clean(e->assumed[e->assumed_count++]); /* names of others, which may be cut within a character */
}

static redco_run_figure figure(double value, double low, double high, redco_run_evidence evidence)
{
    return (redco_run_figure){
        .known = true, .value = value, .low = fmin(low, value), .high = fmax(high, value), .evidence = evidence};
}

/* Joules of all nodes: while they compute at the step's watts, else idle, hosts always; spares idle. */
static double joules(const redco_run_terms *terms, const redco_run_step *step, const struct point *p, int end)
{
    const redco_run_value host = terms->host_given
                                     ? terms->host_w
                                     : redco_run_assumed(0.5 * step->tdp_w, 0.2 * step->tdp_w, 0.8 * step->tdp_w, "");
    const double busy = p->split.compute + p->split.failures, gpus = (double)step->gpus;
    const double spare_gpus = terms->spares_given ? terms->spares * gpus / step->nodes : 0.0;
    const double moved = 1.0 + end * power_band, idle_w = step->idle_w + pick(&host, end);
    const double watts = gpus * (busy * moved * step->watts_per_gpu + (1.0 - busy) * step->idle_w + pick(&host, end)) +
                         spare_gpus * idle_w;
    return watts * p->wall_s * pick(&terms->pue, end);
}

static void fill_money_and_energy(const redco_run_terms *terms, const redco_run_step *step, const struct point at[3],
                                  redco_run_estimate *e)
{
    const double spare_gpus = terms->spares_given ? terms->spares * (double)step->gpus / step->nodes : 0.0;
    double hours[3], paid[3], mwh[3];
    for (int i = 0; i < 3; i++) {
        hours[i] = (double)step->gpus * at[i].wall_s / hour_s;
        paid[i] = ((double)step->gpus + spare_gpus) * at[i].wall_s / hour_s;
        mwh[i] = joules(terms, step, &at[i], i - 1) / joules_per_mwh;
    }
    e->gpu_hours = figure(hours[1], hours[0], hours[2], e->days.evidence);
    e->paid_gpu_hours = figure(paid[1], paid[0], paid[2], e->days.evidence);
    if (terms->priced) {
        e->money = figure(paid[1] * terms->price.value, paid[0] * terms->price.low, paid[2] * terms->price.high,
                          redco_run_evidence_weaker(e->days.evidence, terms->price.evidence));
        (void)snprintf(e->currency, sizeof e->currency, "%s", terms->currency);
    }
    if (!(step->watts_per_gpu > 0.0)) { return; }
    e->mwh = figure(mwh[1], mwh[0], mwh[2], redco_run_evidence_weaker(e->days.evidence, step->power_evidence));
    if (!terms->host_given) {
        e->mwh.evidence = REDCO_ASSUMED;
        assume(e, "hosts, fans and network take half of the GPU's rated power more (0.2 to 0.8): %.0f W a GPU",
               0.5 * step->tdp_w);
    }
    if (!terms->pue_given) { assume(e, "%s", terms->pue.source); }
    if (terms->has_grid) {
        const redco_run_value *const g = &terms->grid_g_per_kwh;
        e->tonnes_co2 = figure(mwh[1] * g->value * 1e-3, mwh[0] * g->low * 1e-3, mwh[2] * g->high * 1e-3,
                               redco_run_evidence_weaker(e->mwh.evidence, g->evidence));
    }
}

static void fill_assumptions(const redco_run_terms *terms, const redco_run_step *step, redco_run_estimate *e)
{
    const redco_failures *const f = &terms->failures;
    const redco_run_value storage = storage_of(terms, step);
    if (step->evidence == REDCO_ASSUMED) {
        assume(e, "the step time has a band of %.0f %%: %s", 100.0 * step->band_ratio, step->source);
    }
    if (!terms->critical.given) {
        assume(e, "the batch stays as it is, and its size costs no tokens (a critical batch would say what it costs)");
    }
    if (!(f->over_s > 0.0)) {
        assume(e, "failures as in %s: %.3g a node-day (8 GPUs), %.3g to %.3g", f->name, f->rate.value * day_s,
               f->rate.low * day_s, f->rate.high * day_s);
    }
    if (f->detect_s.evidence != REDCO_GIVEN || f->restart_s.evidence != REDCO_GIVEN) {
        assume(e, "a failure is noticed after %.3g min, training starts again %.3g min later (together %.3g to %.3g)",
               f->detect_s.value / 60.0, f->restart_s.value / 60.0, (f->detect_s.low + f->restart_s.low) / 60.0,
               (f->detect_s.high + f->restart_s.high) / 60.0);
    }
    if (storage.evidence == REDCO_ASSUMED) { assume(e, "%s", storage.source); }
    if (terms->saving == REDCO_SAVE_ASYNC && terms->block_s < 0.0) {
        assume(e, "checkpoints are asynchronous: training waits for a copy to the host at 10 GB/s a GPU (5 to 20)");
    }
    if (terms->fault_tolerant && terms->stall_s.evidence != REDCO_GIVEN) { assume(e, "%s", terms->stall_s.source); }
    if (!terms->spares_given) { assume(e, "a node that fails is replaced at once from a pool, which is not paid for"); }
    if (!terms->noise_given && (double)step->gpus > calibrated_ranks) {
        assume(e, "beyond 1,024 GPUs the band has a static deviation of GPUs of 1 %% and transient noise of 2 %%");
    }
    if (f->repair_s.evidence != REDCO_GIVEN) { assume(e, "a repair takes %.3g h", f->repair_s.value / hour_s); }
}

/* @param middle  the run as it is thought to be; one cause at a time leads away from it, by the same method */
static redco_status fill_causes(const redco_run_terms *terms, const redco_run_step *step, const struct point *middle,
                                redco_run_estimate *e, redco_error *err)
{
    const redco_run_value storage = storage_of(terms, step), rate = redco_failures_rate(&terms->failures, step->gpus);
    const redco_failures *const f = &terms->failures;
    const struct {
        const char *what;
        redco_run_evidence evidence;
        const char *source;
    } known[REDCO_RUN_CAUSES] = {
        {"step time", step->evidence, step->source},
        {"scale-out noise", terms->noise_given ? REDCO_GIVEN : REDCO_ASSUMED, "deviation of GPUs and transient noise"},
        {"failure rate", rate.evidence, rate.source},
        {"recovery", redco_run_evidence_weaker(f->detect_s.evidence, f->restart_s.evidence), f->restart_s.source},
        {"storage", storage.evidence, storage.source},
        {"work beside steps", REDCO_PUBLISHED,
         "evaluation, other phases and runs begun again that published GPU-hours hold: Llama 3 405B's are up to 1.25 "
         "of its steps', BLOOM's 1.13, DeepSeek-V3's 1.05"}};
    for (int i = 0; i < REDCO_RUN_CAUSES; i++) {
        double days[2];
        for (int end = 0; end < 2; end++) {
            struct corner c = {.at = {0}};
            struct point p;
            c.at[i] = end == 0 ? -1 : 1;
            const redco_status st =
                evaluate(terms, step, e->steps, &c, middle->reliability.interval_s, loss_around(middle), &p, err);
            if (st != REDCO_OK) { return st; }
            days[end] = p.wall_s / day_s;
        }
        e->causes[i] = (redco_run_cause){.what = known[i].what,
                                         .low_days = fmin(days[0], middle->wall_s / day_s),
                                         .high_days = fmax(days[1], middle->wall_s / day_s),
                                         .evidence = known[i].evidence};
        (void)snprintf(e->causes[i].source, sizeof e->causes[i].source, "%s", known[i].source);
    }
    return REDCO_OK;
}

static void fill_checkpoints(const redco_run_terms *terms, const redco_run_step *step, const struct point *p,
                             redco_run_estimate *e)
{
    redco_reliability any = p->reliability;
    const double node_failures = 1.0 / (p->mttf_s * step->nodes);
    const double down = node_failures * terms->failures.repair_s.value;
    e->reliability = p->reliability;
    e->young_s = redco_interval_young(p->reliability.block_s, p->mttf_s);
    e->daly_s = redco_interval_daly(p->reliability.block_s, p->mttf_s);
    any.interval_s = 0.0;
    e->best_s = redco_interval_best(&any);
    e->checkpoint_bytes = step->checkpoint_bytes;
    e->reload_s = p->reload_s;
    e->spares_95 = redco_spares_needed(step->nodes, down, 0.95);
    e->spares_99 = redco_spares_needed(step->nodes, down, 0.99);
}

redco_status redco_run_estimate_of(const redco_run_terms *terms, const redco_run_step *step,
                                   redco_run_estimate *estimate_out, redco_error *err)
{
    redco_run_estimate *const e = estimate_out;
    const redco_run_value rate = redco_failures_rate(&terms->failures, step->gpus);
    const double like = terms->batch_like > 0.0 ? terms->batch_like : step->batch_tokens;
    struct corner c[3] = {{.at = {-1, -1, -1, -1, -1, -1}}, {.at = {0}}, {.at = {1, 1, 1, 1, 1, 1}}};
    struct point at[3];
    *e = (redco_run_estimate){.currency = ""};
    if (terms->fault_tolerant && step->replicas < 2) {
        return redco_fail(err, REDCO_EVALUE, "fault tolerance",
                          "needs two data-parallel replicas or more; the plan has %u", step->replicas);
    }
    e->inflation = redco_batch_inflation(&terms->critical, step->batch_tokens, like, terms->tokens);
    e->batch_tokens = step->batch_tokens;
    e->tokens = terms->tokens * e->inflation;
    e->steps = ceil(e->tokens / step->batch_tokens);
    e->critical_tokens = terms->critical.given ? redco_critical_batch_tokens(&terms->critical, terms->tokens) : 0.0;
    e->above_critical = terms->critical.given && step->batch_tokens > e->critical_tokens;
    redco_status st = evaluate(terms, step, e->steps, &c[1], terms->interval_s, formula_loss, &at[1], err);
    for (int i = 0; i < 3 && st == REDCO_OK; i += 2) {
        st = evaluate(terms, step, e->steps, &c[i], at[1].reliability.interval_s, loss_around(&at[1]), &at[i], err);
    }
    if (st == REDCO_OK) { st = fill_causes(terms, step, &at[1], e, err); }
    if (st != REDCO_OK) { return st; }
    hold_causes(e, at);
    const redco_run_evidence recovery =
        redco_run_evidence_weaker(rate.evidence, redco_run_evidence_weaker(terms->failures.detect_s.evidence,
                                                                           terms->failures.restart_s.evidence));
    e->step_s = figure(at[1].step_s, at[0].step_s, at[2].step_s, step->evidence);
    e->mttf_s = figure(at[1].mttf_s, at[2].mttf_s, at[0].mttf_s, rate.evidence);
    e->failures = figure(at[1].wall_s / at[1].mttf_s, at[0].wall_s / at[0].mttf_s, at[2].wall_s / at[2].mttf_s,
                         redco_run_evidence_weaker(rate.evidence, step->evidence));
    e->ettr = figure(at[1].split.compute, at[2].split.compute, at[0].split.compute, recovery);
    e->days = figure(at[1].wall_s / day_s, at[0].wall_s / day_s, at[2].wall_s / day_s,
                     redco_run_evidence_weaker(recovery, step->evidence));
    e->split = at[1].split;
    e->split_low = at[0].split;
    e->split_high = at[2].split;
    e->played = at[1].played;
    fill_checkpoints(terms, step, &at[1], e);
    fill_assumptions(terms, step, e);
    fill_money_and_energy(terms, step, at, e);
    return REDCO_OK;
}

static void add(redco_run_figure *sum, const redco_run_figure *one, bool first)
{
    sum->known = one->known && (first || sum->known);
    sum->value += one->value;
    sum->low += one->low;
    sum->high += one->high;
    sum->evidence = first ? one->evidence : redco_run_evidence_weaker(sum->evidence, one->evidence);
}

static void add_split(redco_time_split *sum, const redco_time_split *one, double weight)
{
    sum->compute += weight * one->compute;
    sum->checkpoint += weight * one->checkpoint;
    sum->failures += weight * one->failures;
    sum->restart += weight * one->restart;
}

/* Each line once. */
static void add_assumed(redco_run_estimate *sum, const redco_run_estimate *one)
{
    for (uint32_t i = 0; i < one->assumed_count; i++) {
        bool there = false;
        for (uint32_t k = 0; k < sum->assumed_count && !there; k++) {
            there = strcmp(sum->assumed[k], one->assumed[i]) == 0;
        }
        if (!there) { assume(sum, "%s", one->assumed[i]); }
    }
}

void redco_run_total(const redco_run_estimate *phases, uint32_t count, redco_run_estimate *total_out)
{
    redco_run_estimate *const sum = total_out;
    uint32_t longest = 0;
    for (uint32_t i = 1; i < count; i++) {
        if (phases[i].days.value > phases[longest].days.value) { longest = i; }
    }
    *sum = phases[longest];
    sum->tokens = sum->steps = 0.0;
    sum->assumed_count = 0;
    sum->played = sum->above_critical = false;
    sum->split = sum->split_low = sum->split_high = (redco_time_split){.compute = 0.0};
    redco_run_figure *const sums[] = {&sum->failures, &sum->days,       &sum->gpu_hours, &sum->paid_gpu_hours,
                                      &sum->mwh,      &sum->tonnes_co2, &sum->money};
    for (size_t k = 0; k < sizeof sums / sizeof sums[0]; k++) { *sums[k] = (redco_run_figure){.known = false}; }
    for (int k = 0; k < REDCO_RUN_CAUSES; k++) { sum->causes[k].low_days = sum->causes[k].high_days = 0.0; }
    for (uint32_t i = 0; i < count; i++) {
        const redco_run_estimate *const one = &phases[i];
        const redco_run_figure *const ones[] = {&one->failures, &one->days,       &one->gpu_hours, &one->paid_gpu_hours,
                                                &one->mwh,      &one->tonnes_co2, &one->money};
        for (size_t k = 0; k < sizeof sums / sizeof sums[0]; k++) { add(sums[k], ones[k], i == 0); }
        for (int k = 0; k < REDCO_RUN_CAUSES; k++) {
            sum->causes[k].low_days += one->causes[k].low_days;
            sum->causes[k].high_days += one->causes[k].high_days;
            sum->causes[k].evidence = redco_run_evidence_weaker(sum->causes[k].evidence, one->causes[k].evidence);
        }
        sum->tokens += one->tokens;
        sum->steps += one->steps;
        sum->played = sum->played || one->played;
        sum->above_critical = sum->above_critical || one->above_critical;
        add_split(&sum->split, &one->split, one->days.value);
        add_split(&sum->split_low, &one->split_low, one->days.low);
        add_split(&sum->split_high, &one->split_high, one->days.high);
        add_assumed(sum, one);
    }
    const redco_time_split whole = sum->split, low = sum->split_low, high = sum->split_high;
    sum->split = sum->split_low = sum->split_high = (redco_time_split){.compute = 0.0};
    add_split(&sum->split, &whole, 1.0 / sum->days.value);
    add_split(&sum->split_low, &low, 1.0 / sum->days.low);
    add_split(&sum->split_high, &high, 1.0 / sum->days.high);
    sum->ettr.value = sum->split.compute;
    sum->ettr.low = fmin(sum->split_high.compute, sum->split.compute);
    sum->ettr.high = fmax(sum->split_low.compute, sum->split.compute);
}
