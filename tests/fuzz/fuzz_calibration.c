/* The calibration set's reader: what it accepts has finite numbers in range, and is accepted again as written. */
#include "costmodel/engines/calibration.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redco_json *document = NULL;
    redco_calibration read, again;
    redco_error err = {0};
    memset(&read, 0, sizeof read);
    memset(&again, 0, sizeof again);
    if (redco_json_parse((const char *)data, size, "calibration", &document, &err) != REDCO_OK) { return 0; }
    const redco_json_value root = redco_json_root(document);
    if (redco_calibration_from_json(&root, &read, &err) == REDCO_OK) {
        json_t *json = redco_calibration_describe(&read);
        if (json == NULL || !(read.gemm_efficiency > 0.0) || !isfinite(read.launch_s)) { abort(); }
        const redco_json_value written = redco_json_wrap(json, "again");
        if (redco_calibration_from_json(&written, &again, NULL) != REDCO_OK) { abort(); }
        if (strcmp(again.basis, read.basis) != 0 || again.reserve_bytes != read.reserve_bytes) { abort(); }
        json_decref(json);
    } else if (err.status == REDCO_OK || err.text[0] == '\0') {
        abort();
    }
    redco_json_close(document);
    return 0;
}
