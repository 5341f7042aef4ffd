/* The leanest strategy of a space: what fits where anything does. */
#include "planner/search/exact.h"
#include "planner/search/search_space.h"

#include <stdlib.h>

/* The leanest group of a configuration, where it is leaner than @p short_bytes: less than *configuration_out, if any,
 * needs. */
static void take_leaner(redcoi_configuration *configuration, int64_t *short_bytes,
                        const redcoi_configuration **configuration_out, redcoi_answer *answer,
                        redcoi_answer *answer_out)
{
    const int64_t others = (int64_t)configuration->capacity_bytes - (int64_t)configuration->fixed_bytes;
    redcoi_problem endless = *configuration->steps;
    for (uint32_t g = 0; g < configuration->group_count; g++) {
        const int64_t most = *configuration_out != NULL ? *short_bytes + others : INT64_MAX / 2;
        endless.budget_bytes = most > 0 ? (uint64_t)most : 0;
        if (!redcoi_exact_group(&endless, g, REDCOI_LEAST_MEMORY, 1e300, answer, NULL)) { continue; }
        const int64_t bytes = (int64_t)answer->bytes - others;
        if (*configuration_out != NULL && bytes >= *short_bytes) { continue; }
        *short_bytes = bytes;
        *configuration_out = configuration;
        *answer_out = *answer;
    }
}

/* By how much a configuration is too large at least. */
static int64_t least_short(const redcoi_configuration *configuration)
{
    const uint64_t most = INT64_MAX / 4;
    const uint64_t bytes = configuration->least_bytes < most ? configuration->least_bytes : most;
    return (int64_t)bytes - (int64_t)configuration->capacity_bytes;
}

redco_status redcoi_space_least_memory(redcoi_space *space, bool enough, int64_t *short_bytes_out,
                                       const redcoi_configuration **configuration_out, redcoi_answer *answer_out,
                                       redco_error *err)
{
    redcoi_answer *answer = malloc(sizeof *answer);
    if (answer == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    redco_status st = REDCO_OK;
    *configuration_out = NULL;
    /* The configuration with the least bound first, so that the bounds of most others rule them out. */
    redcoi_configuration *likely = NULL;
    for (uint32_t i = 0; i < space->configuration_count; i++) {
        redcoi_configuration *configuration = &space->configurations[i];
        redcoi_space_bound_memory(space, configuration);
        if (enough && configuration->least_bytes > configuration->capacity_bytes) { continue; }
        if (likely == NULL || configuration->least_bytes < likely->least_bytes) { likely = configuration; }
    }
    int64_t most = INT64_MAX;
    if (likely != NULL && (st = redcoi_space_price(space, likely, NULL, err)) == REDCO_OK) {
        take_leaner(likely, &most, configuration_out, answer, answer_out);
        *short_bytes_out = most;
    }
    const bool done = likely == NULL || (enough && *configuration_out != NULL && most <= 0);
    if (!done) { *configuration_out = NULL; } /* the first of equal ones */
    for (uint32_t i = 0; i < space->configuration_count && st == REDCO_OK && !done; i++) {
        redcoi_configuration *configuration = &space->configurations[i];
        const int64_t least = least_short(configuration);
        if (least > most || (*configuration_out != NULL && least >= *short_bytes_out) || (enough && least > 0)) {
            continue;
        }
        if ((st = redcoi_space_price(space, configuration, NULL, err)) != REDCO_OK) { break; }
        take_leaner(configuration, short_bytes_out, configuration_out, answer, answer_out);
        if (enough && *configuration_out != NULL && *short_bytes_out <= 0) { break; }
    }
    free(answer);
    return st;
}
