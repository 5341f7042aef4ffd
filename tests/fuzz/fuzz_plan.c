/* The plan file's reader: what it accepts can be written, and what is written is accepted again. */
#include "planner/plan/plan.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redco_json *document = NULL;
    redco_plan *plan = NULL;
    redco_plan *again = NULL;
    redco_error err = {0};
    if (redco_json_parse((const char *)data, size, "plan", &document, &err) != REDCO_OK) { return 0; }
    const redco_json_value root = redco_json_root(document);
    if (redco_plan_from_json(&root, &plan, &err) == REDCO_OK) {
        json_t *json = redco_plan_to_json(plan);
        if (json == NULL) { abort(); }
        const redco_json_value written = redco_json_wrap(json, "again");
        if (redco_plan_from_json(&written, &again, NULL) != REDCO_OK) { abort(); }
        json_decref(json);
    } else if (err.status == REDCO_OK || err.text[0] == '\0') {
        abort();
    }
    redco_plan_free(again);
    redco_plan_free(plan);
    redco_json_close(document);
    return 0;
}
