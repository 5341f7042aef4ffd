/** @file simulate.h  Event simulation of a step's graph (step.h): when every operator runs, what bounds the step, and
 *  what memory holds when. Each stream takes its operators in issue order; an operator starts when the one before it
 *  has ended and its inputs are there. Speeds change at events only:
 *
 *      communication beside computation on the same rank runs at   y / (1 + y K) of its speed,
 *      computation beside communication at                         1 / (1 + y K),
 *
 *  K the sum over links in use of the contention ratio; collectives that use the same kind of link at once share its
 *  rate evenly. For one computation C and one communication X this is SIMULATOR.md's hide(): C + K X when X < y C, else
 *  X + (1 - y + K y) C. */
#ifndef REDCO_SIMULATE_H
#define REDCO_SIMULATE_H

#include "costmodel/simulator/step.h"
#include "traces/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The most memory that a rank held at once. */
typedef struct redco_memory_peak {
    uint64_t bytes;
    uint64_t held_bytes[REDCO_CATEGORY_COUNT]; /**< at that time */
    double time_s;
    uint32_t op; /**< the operator whose start brought it, or REDCO_STEP_NONE */
} redco_memory_peak;

struct redcoi_replays;

/** When everything ran. Freed with redco_timeline_free(). */
typedef struct redco_timeline {
    const redco_step *step; /**< borrowed */
    double *start_s, *end_s;
    uint32_t *cause;          /**< the operator at whose end this one could start; REDCO_STEP_NONE at the beginning */
    double span_s;            /**< end of the last operator */
    uint32_t last;            /**< that operator */
    redco_memory_peak *peaks; /**< per rank */
    struct redcoi_replays *replays; /**< for operators that stand for passes; NULL where there are none */
    bool
        shared; /**< too much was under way when such a pass began: laid out no further, the step must be built whole */
} redco_timeline;

redco_status redco_timeline_create(const redco_step *step, redco_timeline **timeline_out, redco_error *err);
void redco_timeline_free(redco_timeline *timeline);

/** The simulator checks itself: no stream runs two operators at once, nothing starts before its inputs or takes less
 *  than its time alone, and the chain of causes that ends the step is without gaps and as long as the step.
 *  @return REDCO_EVALUE and the operator that breaks the rule */
redco_status redco_timeline_check(const redco_timeline *timeline, redco_error *err);

/** Where the time of one rank's compute stream goes. All parts add up to the time that is accounted for. */
typedef struct redco_account {
    double busy_s[REDCO_WORK_COUNT];    /**< work alone, by kind; computation adds up, communication is beside it */
    double waiting_s[REDCO_WORK_COUNT]; /**< idle, by what was waited for; computation: of other pipeline stages */
    double contention_s;                /**< computation slowed by communication */
} redco_account;

/** @param micro_batch  count only its operators and the waits before them, or REDCO_STEP_NONE - 1 for all */
redco_account redco_timeline_account(const redco_timeline *timeline, uint32_t rank, uint32_t micro_batch);
#define REDCO_ALL_MICRO_BATCHES (REDCO_STEP_NONE - 1)

/** The memory that a rank holds from a time on. */
typedef struct redco_memory_point {
    double time_s;
    uint64_t held_bytes[REDCO_CATEGORY_COUNT];
} redco_memory_point;

/** All of them in order of time: what starts at the time of an end comes after it.
 *  @param points_out  to be freed with free() */
redco_status redco_timeline_memory(const redco_timeline *timeline, uint32_t rank, redco_memory_point **points_out,
                                   uint32_t *count_out, redco_error *err);

/** The timeline as a trace: ranks as processes, streams as threads; layer, micro-batch, bytes, group in the arguments;
 *  flows from gathers, updates and transfers to what waited for them; memory by category as a counter.
 *  @param trace_out  to be freed with redco_trace_free() */
redco_status redco_timeline_trace(const redco_timeline *timeline, redco_trace **trace_out, redco_error *err);

/** Adds the timeline to a trace, as from @p from_s on: steps behind one another. Names of processes and threads are
 * added with the first.
 *  @param number  of the step, an argument of its spans; 0: none */
redco_status redco_timeline_add(const redco_timeline *timeline, double from_s, uint64_t number, redco_trace *trace,
                                redco_error *err);

/** A whole step. */
typedef struct redco_simulation {
    double step_s, tokens_per_s_per_gpu, mfu;
    double compute_s;      /**< forward, backward, recomputation, norm; tensor-parallel waits not included */
    double exposed_comm_s; /**< waits for collectives, launches and contention */
    double bubble_s;       /**< waits for other pipeline stages, transfers included */
    redco_account account; /**< the account of the rank that computes most; adds up to step_s */
    uint32_t rank;         /**< that rank */
    double critical_s[REDCO_WORK_COUNT]; /**< the critical path by kind of work; adds up to step_s */
    uint32_t peak_rank;                  /**< the rank whose memory is fullest */
    redco_memory_peak peak;
    char peak_name[96];               /**< the operator at the peak */
    uint64_t simulated_micro_batches; /**< the others repeat one of them exactly */
    uint64_t operators;               /**< laid out */
    uint64_t
        represented_operators; /**< operators of the simulated micro-batches: passes that repeat one before are few */
} redco_simulation;

/** Builds as many micro-batches as are needed until one, or in pipelines as many as there are stages, repeat those
 *  before in every stream, and extrapolates the rest; in pipelines, passes that repeat one before are one operator
 * (step.h, fold). Both are exact to rounding; options->micro_batches = all of them forces every operator of them to be
 * laid out. Every timeline is checked (redco_timeline_check()). @p options NULL: as the engine works. */
redco_status redco_simulate(redco_costs *costs, const redco_parallelism *parallelism,
                            const redco_assignment *assignments, uint32_t count, const redco_step_options *options,
                            redco_simulation *simulation_out, redco_error *err);

/** The step as a trace: all micro-batches, or, where they would be too many to look at, as few as redco_simulate()
 * needed (the trace's notes say how many). */
redco_status redco_simulate_trace(redco_costs *costs, const redco_parallelism *parallelism,
                                  const redco_assignment *assignments, uint32_t count,
                                  const redco_step_options *options, redco_trace **trace_out, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
