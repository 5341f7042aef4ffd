/* Properties that must hold for every profile that a reader accepts. */
#ifndef PROFILE_CHECKS_H
#define PROFILE_CHECKS_H

#include "traces/profile.h"

#include <math.h>
#include <stdlib.h>

static inline void check_time(double seconds)
{
    if (!isfinite(seconds) || seconds < 1e-9 || seconds > 1e5) { abort(); }
}

static inline void check_operators(const redco_profile *profile)
{
    const redco_profile_gemm *gemms = NULL;
    const redco_profile_attention *attentions = NULL;
    const redco_profile_operator *operators = NULL;
    const size_t gemm_count = redco_profile_gemms(profile, &gemms);
    const size_t attention_count = redco_profile_attentions(profile, &attentions);
    const size_t operator_count = redco_profile_operators(profile, &operators);
    for (size_t i = 0; i < gemm_count; i++) { check_time(gemms[i].time_s); }
    for (size_t i = 0; i < attention_count; i++) {
        check_time(attentions[i].forward_s);
        check_time(attentions[i].backward_s);
    }
    for (size_t i = 0; i < operator_count; i++) {
        check_time(operators[i].forward_s);
        if (operators[i].backward_s != 0.0) { check_time(operators[i].backward_s); }
        if (operators[i].name[0] == '\0' || operators[i].elements == 0) { abort(); }
    }
}

static inline void check_profile(redco_status st, const redco_profile *profile, const redco_error *err)
{
    const redco_profile_run *runs = NULL;
    if (st != REDCO_OK) {
        if (profile != NULL || err->status != st || err->text[0] == '\0') { abort(); }
        return;
    }
    const size_t count = redco_profile_runs(profile, &runs);
    for (size_t i = 0; i < count; i++) {
        if (runs[i].ranks < 2 || runs[i].ranks > 1u << 20 || runs[i].row_count == 0) { abort(); }
        for (size_t r = 0; r < runs[i].row_count; r++) {
            const redco_profile_row *row = &runs[i].rows[r];
            if (r > 0 && row->size_bytes < row[-1].size_bytes) { abort(); }
            for (int p = 0; p < REDCO_PLACEMENTS; p++) {
                if (!isfinite(row->time_s[p]) || row->time_s[p] < 0.0 || row->time_s[p] > 1e5) { abort(); }
            }
            if (row->size_bytes > 0 && row->time_s[0] <= 0.0 && row->time_s[1] <= 0.0) { abort(); }
        }
    }
    check_operators(profile);
}

#endif
