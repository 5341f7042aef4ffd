/* The member "evidence" of a plan: how its layout lies to the measured ones that its calibration was fitted to. Kept as
 * it is written; nothing follows from it. */
#include "planner/plan/plan_internal.h"

redco_status redcoi_plan_read_evidence(const redco_json_value *root, redco_plan *plan, redco_error *err)
{
    redco_json_value evidence, part;
    const char *set = NULL, *beyond = NULL;
    bool extrapolated = false;
    uint64_t layouts = 0;
    size_t count = 0;
    if (!redco_json_has(root, "evidence")) { return REDCO_OK; }
    redco_status st = redco_json_object(root, "evidence", &evidence, err);
    if (st != REDCO_OK || (st = redco_json_string(&evidence, "set", &set, err)) != REDCO_OK ||
        (st = redco_json_u64(&evidence, "layouts", 1, UINT32_MAX, &layouts, err)) != REDCO_OK ||
        (st = redco_json_bool(&evidence, "extrapolated", &extrapolated, err)) != REDCO_OK ||
        (st = redco_json_string(&evidence, "beyond", &beyond, err)) != REDCO_OK ||
        (st = redco_json_array(&evidence, "nearest", &part, &count, err)) != REDCO_OK) {
        return st;
    }
    if (extrapolated != (beyond[0] != '\0')) {
        return redco_json_fail(&evidence, "beyond", err, "%s, but extrapolated is %s",
                               extrapolated ? "is empty" : "names a dimension", extrapolated ? "true" : "false");
    }
    if (redco_json_has(&evidence, "inside") && (st = redco_json_object(&evidence, "inside", &part, err)) != REDCO_OK) {
        return st;
    }
    plan->evidence = json_incref((json_t *)(uintptr_t)evidence.json);
    return REDCO_OK;
}
