/** @file plan_engines.h  The same question to every engine that was measured on the GPU: --compare engines, --engine
 *  auto. */
#ifndef REDCO_TOOLS_PLAN_ENGINES_H
#define REDCO_TOOLS_PLAN_ENGINES_H

#include "tools/plan/plan_args.h"

/** A list of them, best first. @return the exit code */
int answer_engines(struct plan_args *args, const redco_inputs *inputs);

/** Sets args->names.engine to the engine whose plan is fastest. The default stays unless another one's band lies above
 *  its: bands overlap where the calibrations cannot tell. Says what was chosen and why.
 *  @param inputs  those of the default engine
 *  @param note    room for that sentence */
redco_status plan_engines_choose(struct plan_args *args, const redco_inputs *inputs, char note[400], redco_error *err);

#endif
