/* The member "execution" of a plan: whether redco-exec runs it. Kept as it is written; redco-plan --check compares. */
#include "planner/plan/plan_internal.h"

const char *const redco_executor_words[] = {"host", "cuda", NULL};

static redco_status read_executor(const redco_json_value *execution, const char *word, redco_error *err)
{
    redco_json_value executor, because;
    bool executable = false;
    size_t count = 0;
    redco_status st = redco_json_object(execution, word, &executor, err);
    if (st != REDCO_OK || (st = redco_json_bool(&executor, "executable", &executable, err)) != REDCO_OK ||
        (st = redco_json_array(&executor, "because", &because, &count, err)) != REDCO_OK) {
        return st;
    }
    if (executable == (count == 0)) { return REDCO_OK; }
    return redco_json_fail(&executor, "because", err, "%s, but executable is %s",
                           count == 0 ? "is empty" : "says why not", executable ? "true" : "false");
}

redco_status redcoi_plan_read_execution(const redco_json_value *root, redco_plan *plan, redco_error *err)
{
    redco_json_value execution;
    if (!redco_json_has(root, "execution")) { return REDCO_OK; }
    redco_status st = redco_json_object(root, "execution", &execution, err);
    for (int e = 0; e < REDCO_EXECUTORS && st == REDCO_OK; e++) {
        st = read_executor(&execution, redco_executor_words[e], err);
    }
    if (st == REDCO_OK) { plan->execution = json_incref((json_t *)(uintptr_t)execution.json); }
    return st;
}
