#include "planner/search/gaps.h"

/* Where a micro-batch's traffic is longer than its computation, the closed form adds what does not fit beside each
 * pass, while scatters of one pass go on beside the next. */
static const double loads[REDCO_GAP_LOADS - 1] = {0.0, 0.2, 0.5, 0.8, 1.25, 2.0};

static const redco_gap gaps[REDCO_GAP_PIPELINES][REDCO_GAP_LOADS] = {
    {{0.07, 0.07}, {0.07, 0.07}, {0.12, 0.12}, {0.12, 0.12}, {0.11, 0.11}, {0.20, 0.20}, {0.42, 0.42}},
    {{0.12, 0.02}, {0.12, 0.09}, {0.21, 0.14}, {0.21, 0.14}, {0.21, 0.18}, {0.21, 0.25}, {0.42, 0.44}},
    {{0.18, 0.11}, {0.20, 0.11}, {0.20, 0.13}, {0.20, 0.15}, {0.30, 0.18}, {0.30, 0.23}, {0.30, 0.25}},
    /* mixtures */
    {{0.23, 0.23}, {0.25, 0.25}, {0.25, 0.25}, {0.25, 0.25}, {0.25, 0.25}, {0.25, 0.25}, {0.39, 0.39}},
    {{0.30, 0.15}, {0.26, 0.15}, {0.26, 0.16}, {0.26, 0.22}, {0.26, 0.22}, {0.26, 0.37}, {0.63, 0.55}},
    {{0.24, 0.20}, {0.24, 0.20}, {0.24, 0.20}, {0.30, 0.27}, {0.30, 0.27}, {0.30, 0.28}, {0.34, 0.38}}};

uint32_t redco_gap_kind(const redco_parallelism *parallelism, bool mixture, double traffic_ratio)
{
    const uint32_t pipeline = parallelism->pp <= 1 ? 0 : redco_parallelism_chunks(parallelism) > 1 ? 2 : 1;
    uint32_t load = 0;
    while (load + 1 < REDCO_GAP_LOADS && traffic_ratio > loads[load]) { load++; }
    return (pipeline + (mixture ? REDCO_GAP_PIPELINES / 2 : 0)) * REDCO_GAP_LOADS + load;
}

redco_gap redco_gap_of(uint32_t kind)
{
    return gaps[kind / REDCO_GAP_LOADS][kind % REDCO_GAP_LOADS];
}
