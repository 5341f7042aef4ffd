/** @file pipeline_question.h  A pipeline as the model of a question. */
#ifndef REDCO_TOOLS_PIPELINE_QUESTION_H
#define REDCO_TOOLS_PIPELINE_QUESTION_H

#include "tools/plan/plan_args.h"

/** Loads the pipeline of --pipeline, if there is one, and makes what its loss builds the question's model. */
redco_status plan_pipeline_open(struct plan_args *args, redco_error *err);

#endif
