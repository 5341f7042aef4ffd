/** @file glpk_run.h  Internal: runs GLPK without its output and its aborts. */
#ifndef REDCO_GLPK_RUN_H
#define REDCO_GLPK_RUN_H

#include "topology/base/status.h"

/** Runs @p work with GLPK silent and its aborts caught: a fatal error inside becomes REDCO_ESYSTEM and drops every
 *  GLPK object of this thread. GLPK's environment is freed unless the caller had one already.
 *  @param work  must hold no resource other than GLPK objects and what @p context owns */
redco_status redcoi_glpk_run(redco_status (*work)(void *context, redco_error *err), void *context, redco_error *err);

/** "GLPK 5.0" */
const char *redcoi_glpk_name(void);

#endif
