#include "planner/answer/rescale.h"

#include "planner/answer/answer.h"

#include <stdio.h>

/* A step that is further off is of another run. */
static const double most_ratio = 100.0;

redco_status redco_question_rescale(redco_question *question, redco_inputs *inputs, double measured_step_s,
                                    redco_error *err)
{
    redco_answer answer;
    double predicted_s = 0.0;
    redco_status st = redco_answer_find(question, inputs, 0, &answer, err);
    if (st == REDCO_OK && answer.result->ranked_count > 0) {
        predicted_s = answer.result->ranked[0].prediction.step_s;
    } else if (st == REDCO_OK) {
        st = redco_fail(err, REDCO_EINFEASIBLE, "--rescale", "no layout fits whose step could be the measured one");
    }
    redco_answer_free(&answer);
    if (st != REDCO_OK) { return st; }
    const double ratio = measured_step_s / predicted_s;
    if (!(ratio < most_ratio && ratio > 1.0 / most_ratio)) {
        return redco_fail(err, REDCO_EVALUE, "--rescale",
                          "a step of %.3g s, where %.3g s are predicted: it is of another run", measured_step_s,
                          predicted_s);
    }
    question->names.rescale = (redco_rescale){.ratio = ratio, .measured_s = measured_step_s};
    (void)snprintf(question->names.rescale.engine, sizeof question->names.rescale.engine, "%s",
                   inputs->choice.engine.name);
    redco_inputs_rescale(inputs, &question->names.rescale);
    redco_inputs_forget(inputs);
    return REDCO_OK;
}
