#include "planner/run/run_events.h"

#include <math.h>
#include <stdlib.h>

static const double us_per_s = 1e6;

struct player {
    const redco_reliability *r;
    uint64_t state;
    redco_run_events *out;
    int64_t clock_us; /* moves from event to event; the parts are added up on their own */
    int64_t work_us, done_us, interval_us, block_us, write_us, restart_us, repair_us, stall_us;
    /* Stored checkpoints of copies in memory: the last durable one, and one on its way. */
    int64_t stored_us, pending_us, pending_at_us, stored_every_us;
    int64_t *away_us; /* when nodes come back from repair, in order: a ring of spares + 1 */
    uint32_t away_first, away_count;
};

static int64_t microseconds(double seconds)
{
    return (int64_t)llround(fmin(seconds * us_per_s, 9e18));
}

/* SplitMix64: Steele, Lea, Flood, OOPSLA 2014. */
static uint64_t next_bits(struct player *p)
{
    uint64_t z = p->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* In (0, 1]. */
static double uniform(struct player *p)
{
    return ((double)(next_bits(p) >> 11) + 1.0) * 0x1p-53;
}

static int64_t exponential_us(struct player *p, double mean_s)
{
    if (isinf(mean_s)) { return INT64_MAX; }
    const double us = -log(uniform(p)) * mean_s * us_per_s;
    return us >= 9e18 ? INT64_MAX : us < 1.0 ? 1 : (int64_t)us;
}

/* A node goes into repair. Where the spares are used up, all wait for the first that comes back. */
static void take_node(struct player *p)
{
    const uint32_t places = p->r->spares + 1;
    if (p->r->pooled || p->r->replicas > 0 || p->repair_us == 0) { return; }
    while (p->away_count > 0 && p->away_us[p->away_first] <= p->clock_us) {
        p->away_first = (p->away_first + 1) % places;
        p->away_count--;
    }
    p->away_us[(p->away_first + p->away_count) % places] = p->clock_us + p->repair_us;
    p->away_count++;
    if (p->away_count == places) {
        const int64_t back_us = p->away_us[p->away_first];
        p->out->restart_us += back_us - p->clock_us;
        p->clock_us = back_us;
        p->away_first = (p->away_first + 1) % places;
        p->away_count--;
    }
}

/* From a failure to the next step; others may hit it. */
static void restart(struct player *p)
{
    take_node(p);
    for (;;) {
        const int64_t next_us = exponential_us(p, p->r->mttf_s);
        const bool hit = next_us < p->restart_us;
        const int64_t taken_us = hit ? next_us : p->restart_us;
        p->out->restart_us += taken_us;
        p->clock_us += taken_us;
        if (!hit || p->out->failures >= REDCO_MOST_FAILURES) { return; }
        p->out->failures++;
        take_node(p);
    }
}

/* Stored checkpoints that copies in memory reached within so many cycles from @p from_us on, which began at the clock.
 */
static void store(struct player *p, int64_t from_us, int64_t cycles)
{
    const int64_t cycle_us = p->interval_us + p->block_us, every = p->stored_every_us / p->interval_us;
    const int64_t first = from_us / p->interval_us;
    for (int64_t at = (first / every + 1) * every; at <= first + cycles; at += every) {
        const int64_t when_us = p->clock_us + (at - first) * cycle_us;
        if (at * p->interval_us <= p->pending_us) { continue; } /* it was stored before a fall back to memory */
        if (p->pending_at_us <= when_us && p->pending_us > p->stored_us) { p->stored_us = p->pending_us; }
        p->pending_us = at * p->interval_us;
        p->pending_at_us = when_us + p->write_us;
    }
}

/* Copies in memory are lost with the node: back to what was stored. The clock stands at the failure. */
static void fall_deep(struct player *p)
{
    if (p->pending_at_us <= p->clock_us && p->pending_us > p->stored_us) { p->stored_us = p->pending_us; }
    const int64_t lost_us = p->done_us - p->stored_us;
    p->out->compute_us -= lost_us;
    p->out->failures_us += lost_us;
    p->done_us = p->stored_us;
    p->pending_us = p->stored_us;
}

/* All ranks stop at a failure. @return whether the work is done */
static bool play_all(struct player *p)
{
    const bool memory = p->r->saving == REDCO_SAVE_MEMORY;
    const int64_t late_us = p->r->saving == REDCO_SAVE_ASYNC ? p->write_us : 0;
    const int64_t left_us = p->work_us - p->done_us, cycle_us = p->interval_us + p->block_us;
    const int64_t most = (left_us - 1) / p->interval_us; /* none is needed at the end */
    const int64_t finish_us = left_us + most * p->block_us, next_us = exponential_us(p, p->r->mttf_s);
    if (next_us >= finish_us) {
        p->out->compute_us += left_us;
        p->out->checkpoint_us += most * p->block_us;
        p->clock_us += finish_us;
        p->done_us = p->work_us;
        return true;
    }
    int64_t kept = next_us >= late_us ? (next_us - late_us) / cycle_us : 0;
    if (kept > most) { kept = most; }
    if (memory) { store(p, p->done_us, kept); }
    p->out->compute_us += kept * p->interval_us;
    p->out->checkpoint_us += kept * p->block_us;
    p->out->failures_us += next_us - kept * cycle_us;
    p->done_us += kept * p->interval_us;
    p->clock_us += next_us;
    p->out->failures++;
    if (memory && uniform(p) <= p->r->deep_ratio) { fall_deep(p); }
    restart(p);
    return false;
}

/* Replicas that are away, and when the first comes back. */
struct replicas {
    int64_t *back_us; /* a ring, in order of coming back, as all are away equally long */
    uint32_t first, count;
};

/* One replica stops, the others go on. Checkpoints are a share of time; lost work comes out of the share of compute. */
static void run_until(struct player *p, int64_t until_us, uint32_t up)
{
    const redco_reliability *const r = p->r;
    const double work = (double)p->interval_us / (double)(p->interval_us + p->block_us);
    const double rate = work * up / r->replicas;
    int64_t span_us = until_us - p->clock_us;
    const int64_t left_us = p->work_us - p->done_us;
    if ((double)span_us * rate >= (double)left_us) { span_us = (int64_t)ceil((double)left_us / rate); }
    int64_t compute_us = (int64_t)((double)span_us * rate);
    const int64_t waited_us = (int64_t)((double)span_us * (1.0 - work));
    if (compute_us >= left_us || span_us < until_us - p->clock_us) { compute_us = left_us; }
    if (compute_us > span_us - waited_us) { span_us = compute_us + waited_us; }
    p->out->compute_us += compute_us;
    p->out->checkpoint_us += waited_us;
    p->out->failures_us += span_us - compute_us - waited_us;
    p->done_us += compute_us;
    p->clock_us += span_us;
}

static void stop_all(struct player *p)
{
    const double lost_s = (p->r->write_s + uniform(p) * (p->r->interval_s + p->r->block_s)) * p->r->interval_s /
                          (p->r->interval_s + p->r->block_s);
    int64_t lost_us = microseconds(lost_s);
    if (lost_us > p->done_us) { lost_us = p->done_us; }
    p->done_us -= lost_us;
    p->out->compute_us -= lost_us;
    p->out->failures_us += lost_us;
    take_node(p);
    p->out->restart_us += p->restart_us;
    p->clock_us += p->restart_us;
}

static void play_one(struct player *p, struct replicas *away)
{
    const redco_reliability *const r = p->r;
    while (away->count > 0 && away->back_us[away->first] <= p->clock_us) {
        away->first = (away->first + 1) % r->replicas;
        away->count--;
    }
    const uint32_t up = r->replicas - away->count;
    const int64_t back_us = away->count > 0 ? away->back_us[away->first] : INT64_MAX;
    if (up == 0) { /* all are away: the first that comes back goes on */
        p->out->restart_us += back_us - p->clock_us;
        p->clock_us = back_us;
        return;
    }
    const int64_t gap_us = exponential_us(p, r->mttf_s * r->replicas / up);
    const int64_t fails_us = gap_us > INT64_MAX - p->clock_us ? INT64_MAX : p->clock_us + gap_us;
    const int64_t until_us = fails_us < back_us ? fails_us : back_us;
    run_until(p, until_us, up);
    if (p->done_us >= p->work_us || until_us == back_us) { return; }
    p->out->failures++;
    if (uniform(p) <= r->deep_ratio) {
        stop_all(p);
        return;
    }
    take_node(p);
    away->back_us[(away->first + away->count) % r->replicas] = p->clock_us + p->stall_us + p->restart_us;
    away->count++;
    p->out->restart_us += p->stall_us;
    p->clock_us += p->stall_us;
}

redco_status redco_run_play(const redco_reliability *r, double work_s, uint64_t seed, redco_run_events *out,
                            redco_error *err)
{
    struct replicas away = {.back_us = NULL};
    struct player p = {.r = r,
                       .state = seed,
                       .out = out,
                       .work_us = microseconds(work_s),
                       .interval_us = microseconds(r->interval_s),
                       .block_us = microseconds(r->block_s),
                       .write_us = microseconds(r->write_s),
                       .restart_us = microseconds(r->restart_s),
                       .repair_us = microseconds(r->repair_s),
                       .stall_us = microseconds(r->stall_s)};
    redco_status st = REDCO_OK;
    *out = (redco_run_events){.wall_us = 0};
    if (p.interval_us < 1) { p.interval_us = 1; }
    p.stored_every_us = (int64_t)llround(fmax(r->stored_interval_s / r->interval_s, 1.0)) * p.interval_us;
    p.away_us = calloc((size_t)r->spares + 1, sizeof *p.away_us);
    if (r->replicas > 0) { away.back_us = calloc(r->replicas, sizeof *away.back_us); }
    if (p.away_us == NULL || (r->replicas > 0 && away.back_us == NULL)) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    while (p.done_us < p.work_us) {
        if (out->failures >= REDCO_MOST_FAILURES) {
            st = redco_fail(err, REDCO_EINFEASIBLE, "run",
                            "failures come faster than work is saved: after %d of them "
                            "%.3g of the run is done",
                            REDCO_MOST_FAILURES, (double)p.done_us / (double)p.work_us);
            goto out;
        }
        if (r->replicas > 0) {
            play_one(&p, &away);
        } else if (play_all(&p)) {
            break;
        }
    }
    out->wall_us = p.clock_us;
out:
    free(p.away_us);
    free(away.back_us);
    return st;
}

redco_status redco_run_play_many(const redco_reliability *r, double work_s, uint32_t runs, uint64_t seed,
                                 redco_time_split *split_out, redco_error *err)
{
    double wall = 0.0, compute = 0.0, checkpoint = 0.0, failures = 0.0, waited = 0.0;
    for (uint32_t i = 0; i < runs; i++) {
        redco_run_events one;
        const redco_status st = redco_run_play(r, work_s, seed + i, &one, err);
        if (st != REDCO_OK) { return st; }
        wall += (double)one.wall_us;
        compute += (double)one.compute_us;
        checkpoint += (double)one.checkpoint_us;
        failures += (double)one.failures_us;
        waited += (double)one.restart_us;
    }
    *split_out = (redco_time_split){.compute = compute / wall,
                                    .checkpoint = checkpoint / wall,
                                    .failures = failures / wall,
                                    .restart = waited / wall};
    return REDCO_OK;
}
