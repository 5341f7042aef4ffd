/* The second opinion: shares prices with the search, but neither its filters nor its bounds nor GLPK. */
#include "planner/search/exact.h"
#include "planner/search/search_space.h"

#include <math.h>
#include <stdlib.h>

/* About a second of looking at every strategy; larger spaces are enumerated with partial sums cut at the best so far.
 */
static const double most_every = 1e8;

static redco_status enumerate_all(redcoi_space *space, redco_search_result *result, redco_error *err)
{
    redcoi_answer *answer = malloc(sizeof *answer);
    if (answer == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    redco_status st = REDCO_OK;
    double count = 0.0;
    for (uint32_t i = 0; i < space->configuration_count && st == REDCO_OK; i++) {
        st = redcoi_space_price(space, &space->configurations[i], NULL, err);
        for (uint32_t g = 0; g < space->configurations[i].group_count && st == REDCO_OK; g++) {
            count += redcoi_exact_count(space->configurations[i].objective, g);
        }
    }
    const bool every = count <= most_every;
    result->verify_method = every ? "exhaustive enumeration" : "enumeration with cuts at the best";
    double best_s = (double)INFINITY;
    for (uint32_t i = 0; i < space->configuration_count && st == REDCO_OK; i++) {
        const redcoi_configuration *configuration = &space->configurations[i];
        for (uint32_t g = 0; g < configuration->group_count; g++) {
            if (redcoi_exact_group(configuration->objective, g, every ? REDCOI_EVERY_TIME : REDCOI_LEAST_TIME,
                                   every ? (double)INFINITY : best_s, answer, &result->verify_count)) {
                best_s = fmin(best_s, answer->objective_s);
            }
        }
    }
    result->verify_objective = best_s;
    free(answer);
    return st;
}

static redco_status solve_all(redcoi_space *space, double answer_s, redco_search_result *result, redco_error *err)
{
    redcoi_exact_result *exact = malloc(sizeof *exact);
    if (exact == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    redco_status st = REDCO_OK;
    double best_s = answer_s;
    bool complete = true;
    uint64_t effort = 8 * redcoi_effort_default;
    for (uint32_t i = 0; i < space->configuration_count && st == REDCO_OK; i++) {
        redcoi_configuration *configuration = &space->configurations[i];
        if ((st = redcoi_space_price(space, configuration, NULL, err)) != REDCO_OK) { break; }
        st = redcoi_layerwise_solve(configuration->objective, best_s, space->options.pass.gap_ratio,
                                    redcoi_labels_solve, &effort, exact, err);
        if (st != REDCO_OK) { break; }
        result->verify_count += exact->states;
        complete = complete && exact->proven;
        if (exact->feasible) { best_s = fmin(best_s, exact->answer.objective_s); }
    }
    result->verify_objective = best_s;
    result->verify_method = complete ? "dynamic programming" : "dynamic programming, cut short";
    free(exact);
    return st;
}

redco_status redcoi_space_verify(redcoi_space *space, double answer_s, redco_search_result *result, redco_error *err)
{
    const bool layerwise = space->options.layerwise;
    const redco_status st = layerwise ? solve_all(space, answer_s, result, err) : enumerate_all(space, result, err);
    if (st != REDCO_OK) { return st; }
    result->verified = true;
    const double allowed_s = answer_s * (1.0 - space->options.pass.gap_ratio) - 1e-12;
    /* An answer below the least that enumeration finds would be wrong as well. */
    const bool below = !layerwise && answer_s < result->verify_objective * (1.0 - 1e-9);
    result->verify_failed = result->verify_objective < allowed_s || below;
    return REDCO_OK;
}
