/* What must hold of every profile that a reader accepts. */
#ifndef PROFILE_CHECKS_H
#define PROFILE_CHECKS_H

#include "traces/profile.h"

#include <math.h>
#include <stdlib.h>

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
}

#endif
