/* Logs of trainers: what is read of them is a number that a log can state. */
#include "planner/read/run_log.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redco_run_log log;
    redco_error err = {.status = REDCO_OK};
    const redco_prediction p = {.step_s = 1.0, .forward_s = 0.9, .allocated_bytes = 1};
    if (redco_run_log_parse((const char *)data, size, "fuzzed.log", &log, &err) != REDCO_OK) {
        if (err.text[0] == '\0') { abort(); }
        return 0;
    }
    const redco_log_difference d = redco_run_log_compare(&log, &p, 1.0, 1.0, 1.0);
    if (!(log.step_s >= 0.0 && log.allocated_bytes >= 0.0 && d.ratio >= 0.0) || d.term_count > REDCO_LOG_TERMS) {
        abort();
    }
    json_decref(redco_run_log_json(&log, &d, &p));
    return 0;
}
