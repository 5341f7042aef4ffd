#include "planner/assemble/step_memo.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_STEPS = 4096 };

struct known_step {
    redco_candidate candidate;
    uint64_t operators;
    struct known_step *next;
};

/* Values that prices depend on, without what the memo belongs to. */
struct circumstances {
    redco_machine machine;
    redco_calibration calibration;
    redco_workload workload;
    redco_tp_placement placement;
    bool user_rules;
};

/* The answer to a whole search. */
struct known_answer {
    redco_search_options asked, answered; /* as key_of() makes them */
    redco_search_result *result;
    void (*release)(redco_search_result *);
    struct known_answer *next;
};

struct redco_known_steps {
    struct circumstances of;
    struct known_answer *answers;
    redco_costs *costs; /* NULL: none yet */
    struct known_step *first;
    redco_step_memo *memo;
    redco_known_steps *next;
};

struct redco_step_memo {
    const redco_comm *comm;
    const redco_model *model;
    const redco_user_rules *tp_rules;
    redco_known_steps *first;
    uint32_t count; /* steps */
};

redco_step_memo *redco_step_memo_create(const redco_inputs *inputs)
{
    redco_step_memo *const memo = calloc(1, sizeof *memo);
    if (memo == NULL) { return NULL; }
    memo->comm = inputs->comm;
    memo->model = inputs->model;
    memo->tp_rules = inputs->tp_rules;
    return memo;
}

void redco_step_memo_free(redco_step_memo *memo)
{
    while (memo != NULL && memo->first != NULL) {
        redco_known_steps *const known = memo->first;
        while (known->first != NULL) {
            struct known_step *const step = known->first;
            known->first = step->next;
            free(step->candidate.assignments);
            free(step);
        }
        while (known->answers != NULL) {
            struct known_answer *const answer = known->answers;
            known->answers = answer->next;
            answer->release(answer->result);
            free(answer);
        }
        memo->first = known->next;
        redco_costs_free(known->costs);
        free(known);
    }
    free(memo);
}

/* Byte by byte: bytes between members may only hide that two are the same. */
static bool is_same(const void *a, const void *b, size_t size)
{
    return memcmp(a, b, size) == 0;
}

redco_known_steps *redco_known_steps_of(const redco_inputs *inputs, const redco_search_options *options)
{
    redco_step_memo *const memo = inputs->step_memo;
    if (memo == NULL || inputs->comm != memo->comm || inputs->model != memo->model ||
        (options->tp_rules != NULL && options->tp_rules != memo->tp_rules)) {
        return NULL;
    }
    redco_known_steps *const made = calloc(1, sizeof *made);
    if (made == NULL) { return NULL; }
    made->of.machine = inputs->machine;
    made->of.calibration = inputs->calibration;
    made->of.workload = options->workload;
    made->of.placement = options->tp_placement;
    made->of.user_rules = options->tp_rules != NULL;
    for (redco_known_steps *known = memo->first; known != NULL; known = known->next) {
        if (!is_same(&known->of, &made->of, sizeof made->of)) { continue; }
        free(made);
        return known;
    }
    made->memo = memo;
    made->next = memo->first;
    memo->first = made;
    return made;
}

redco_costs *redco_known_steps_costs(const redco_known_steps *known)
{
    return known != NULL ? known->costs : NULL;
}

void redco_known_steps_use(redco_known_steps *known, redco_costs *costs)
{
    known->costs = costs;
}

bool redco_known_steps_find(const redco_known_steps *known, redco_candidate *candidate, uint64_t *operators_out)
{
    for (const struct known_step *step = known != NULL ? known->first : NULL; step != NULL; step = step->next) {
        if (!redco_candidate_same(&step->candidate, candidate)) { continue; }
        candidate->closed_form = step->candidate.closed_form;
        candidate->prediction = step->candidate.prediction;
        *operators_out = step->operators;
        return true;
    }
    return false;
}

void redco_known_steps_keep(redco_known_steps *known, const redco_candidate *candidate, uint64_t operators)
{
    if (known == NULL || known->memo->count >= MOST_STEPS) { return; }
    struct known_step *const step = malloc(sizeof *step);
    if (step == NULL || redco_candidate_copy(candidate, &step->candidate, NULL) != REDCO_OK) {
        free(step);
        return;
    }
    step->operators = operators;
    step->next = known->first;
    known->first = step;
    known->memo->count++;
}

/* The options that an answer with a plan depends on. */
static redco_search_options key_of(const redco_search_options *options)
{
    redco_search_options key = *options;
    key.pass.would_fit = NULL;
    key.pass.would_fit_context = NULL;
    key.pass.no_remedies = false;
    return key;
}

/* A split and a hull are borrowed from a caller, who may be gone when the next one asks. */
static bool may_be_kept(const redco_search_options *options)
{
    return options->given.split == NULL && options->pass.within == NULL && options->pass.costs == NULL;
}

void redco_known_answer_keep(const redco_inputs *inputs, const redco_search_options *asked,
                             const redco_search_options *answered, redco_search_result *result,
                             void (*release)(redco_search_result *))
{
    redco_known_steps *const known = may_be_kept(asked) ? redco_known_steps_of(inputs, asked) : NULL;
    struct known_answer *const answer = known != NULL ? malloc(sizeof *answer) : NULL;
    if (answer == NULL) {
        release(result);
        return;
    }
    answer->asked = key_of(asked);
    answer->answered = key_of(answered);
    answer->result = result;
    answer->release = release;
    answer->next = known->answers;
    known->answers = answer;
}

bool redco_known_answer_take(const redco_inputs *inputs, redco_search_options *options,
                             redco_search_result **result_out)
{
    redco_known_steps *const known = may_be_kept(options) ? redco_known_steps_of(inputs, options) : NULL;
    const redco_search_options key = key_of(options);
    const redco_search_pass pass = options->pass;
    for (struct known_answer **at = known != NULL ? &known->answers : NULL; at != NULL && *at != NULL;
         at = &(*at)->next) {
        struct known_answer *const answer = *at;
        if (!is_same(&answer->asked, &key, sizeof key)) { continue; }
        *options = answer->answered;
        options->pass = pass;
        *result_out = answer->result;
        *at = answer->next;
        free(answer);
        return true;
    }
    return false;
}
