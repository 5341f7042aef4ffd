/** @file collective_curve.h  Internal to costmodel: measured times of collectives as curves over size.
 *
 *  A curve is what was measured for one collective on one group. Rows of one size (repeats, several files) are merged
 * to their median; of a row the in-place time counts, as frameworks reduce and gather in place, else the other one.
 *  Between sizes the time is interpolated linearly in log size and log time, above the largest at constant bandwidth.
 */
#ifndef REDCO_COLLECTIVE_CURVE_H
#define REDCO_COLLECTIVE_CURVE_H

#include "costmodel/collectives/collective.h"

#include <stddef.h>

/** Modelled time of a group, which transfers between groups go through. */
typedef struct redcoi_model_time {
    double latency_s, wire_s;
} redcoi_model_time;
typedef redcoi_model_time (*redcoi_time_model)(const redco_comm *comm, redco_collective op, double size_bytes,
                                               redco_group group);

typedef struct redcoi_curve {
    redco_collective op;
    redco_group group;
    size_t first, count; /* points in redcoi_curves */
    bool bandwidth_only; /* one ratio for the wire part */
    double wire_ratio;   /* measured over modelled, for bandwidth_only */
    double log_gpus, log_nodes;
} redcoi_curve;

typedef struct redcoi_curves {
    redcoi_curve *curves;
    size_t count;
    /* All points, by curve and size. */
    double *log_size, *log_time, *log_ratio;
    struct redco_compute_profile *compute; /* operators in the same files; NULL: none of this GPU */
    char warning[480];                     /* "" or what is odd about the files */
} redcoi_curves;

/* The largest size at which a time still is a latency: a curve that begins above it says nothing about small sizes. */
#define REDCOI_LATENCY_BYTES 65536.0

/** The same group written one way: what makes no difference (the stride behind a switch, other groups when no network
 * is shared) is set to 1. */
redco_group redcoi_group_normal(const redco_machine *machine, redco_group group);

redco_status redcoi_curves_read(const redco_machine *machine, const char *const *paths, uint32_t path_count,
                                redcoi_curves *curves_out, char *sha256_out, redco_error *err);
/** Second step, once the model can be asked: ratios of measured to modelled time at every point. */
void redcoi_curves_compare(redcoi_curves *curves, const redco_comm *comm, redcoi_time_model model);
void redcoi_curves_free(redcoi_curves *curves);

/** The curve of exactly this group, or the nearest that may be transferred; NULL if there is none. */
const redcoi_curve *redcoi_curves_find(const redcoi_curves *curves, redco_collective op, redco_group group,
                                       bool *exact_out);
/** Measured over modelled time at the curve's own group; constant beyond its ends. */
double redcoi_curve_ratio(const redcoi_curves *curves, const redcoi_curve *curve, double size_bytes);
/** Measured time; the smallest size's below it. Not for bandwidth_only. */
double redcoi_curve_time(const redcoi_curves *curves, const redcoi_curve *curve, double size_bytes);
double redcoi_curve_smallest_bytes(const redcoi_curves *curves, const redcoi_curve *curve);
double redcoi_curve_smallest_s(const redcoi_curves *curves, const redcoi_curve *curve);

#endif
