/* The parameters that a plan's model lists, against those of the library that is to run it. */
#include "executor/pipeline/user_pipeline_file.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 200 };

/* An entry of the list as a parameter, whose name is borrowed. @return false: it is none */
static bool read_entry(const json_t *entry, redco_task_parameter *parameter_out)
{
    const json_t *const shape = json_object_get(entry, "shape");
    const size_t rank = json_array_size(shape);
    *parameter_out =
        (redco_task_parameter){.name = json_string_value(json_object_get(entry, "name")),
                               .rank = (uint32_t)rank,
                               .training = json_is_true(json_object_get(entry, "frozen"))     ? REDCO_FROZEN
                                           : json_is_true(json_object_get(entry, "assigned")) ? REDCO_ASSIGNED
                                                                                              : REDCO_TRAINED};
    if (parameter_out->name == NULL || rank > REDCO_RANK_MAX) { return false; }
    for (size_t d = 0; d < rank; d++) {
        parameter_out->dim[d] = (uint64_t)json_integer_value(json_array_get(shape, d));
    }
    return true;
}

static bool same(const redco_task_parameter *a, const redco_task_parameter *b)
{
    return strcmp(a->name, b->name) == 0 && a->training == b->training && a->rank == b->rank &&
           memcmp(a->dim, b->dim, a->rank * sizeof a->dim[0]) == 0;
}

/* "out.weight [256, 10], frozen"; NULL: "no other". */
static const char *text_of(const redco_task_parameter *p, char text[TEXT_BYTES])
{
    static const char *const words[] = {
        [REDCO_TRAINED] = "", [REDCO_FROZEN] = ", frozen", [REDCO_ASSIGNED] = ", assigned"};
    if (p == NULL) { return "no other"; }
    int at = snprintf(text, TEXT_BYTES, "%.80s [", p->name);
    for (uint32_t d = 0; d < p->rank && d < 4; d++) { /* no parameter has more */
        at +=
            snprintf(text + at, (size_t)(TEXT_BYTES - at), "%s%llu", d > 0 ? ", " : "", (unsigned long long)p->dim[d]);
    }
    (void)snprintf(text + at, (size_t)(TEXT_BYTES - at), "]%s", words[p->training]);
    return text;
}

redco_status redco_user_pipeline_check_model(const redco_user_pipeline_file *f, const json_t *config, const char *place,
                                             redco_error *err)
{
    const char *const name = json_string_value(json_object_get(config, "_name"));
    const json_t *const list = json_object_get(config, "parameters");
    const size_t planned = json_array_size(list);
    redco_task task = {.name = NULL};
    redco_task_parameter entry = {.name = NULL};
    char there[TEXT_BYTES], here[TEXT_BYTES];
    redco_status st = redco_user_pipeline_task(f, 1, &task, err);
    if (st != REDCO_OK) { return st; }
    size_t i = 0;
    while (i < task.parameter_count && read_entry(json_array_get(list, i), &entry) &&
           same(&task.parameters[i], &entry)) {
        i++;
    }
    if (i < task.parameter_count || i < planned) {
        const bool listed = read_entry(json_array_get(list, i), &entry);
        st = redco_fail(err, REDCO_EVALUE, place,
                        "is a plan for other parameters (of %.80s) than %.80s has: %s there, %s here; plan with "
                        "redco-plan --pipeline",
                        name != NULL ? name : "another model", task.name, text_of(listed ? &entry : NULL, there),
                        text_of(i < task.parameter_count ? &task.parameters[i] : NULL, here));
    }
    redco_user_pipeline_task_free(&task);
    return st;
}
