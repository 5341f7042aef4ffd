/** @file rescale.h  One measured step moves the predictions of its software, and narrows their band. */
#ifndef REDCO_RESCALE_H
#define REDCO_RESCALE_H

#include "planner/answer/question.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Predicts the step of a settled question and multiplies all times of its engine so that it takes as long as it was
 *  measured to: of @p inputs, and of inputs that are read with question->names.
 *  @return REDCO_EINFEASIBLE where no layout fits, whose step could be the measured one */
redco_status redco_question_rescale(redco_question *question, redco_inputs *inputs, double measured_step_s,
                                    redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
