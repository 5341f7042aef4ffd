/** @file glpk_bounded.h  Internal: GLPK's simplex method and branch and bound with iteration limits. The simplex method
 * may cycle at one vertex for ever, and GLPK's branch and bound has no iteration limit for the linear programs of its
 * nodes. The limits are counts, so that the same input gives the same answer anywhere. */
#ifndef REDCO_GLPK_BOUNDED_H
#define REDCO_GLPK_BOUNDED_H

#include <glpk.h>

/** Iterations of one linear program: programs of redco's sizes need some hundreds. */
enum { REDCOI_GLPK_ITERATIONS = 20000 };

/** glp_simplex(): @p method is GLP_PRIMAL or GLP_DUALP. A program that is not solved within the limit is tried once
 *  more by the primal method from the slack basis.
 *  @return 0, or GLPK's code of what went wrong last: GLP_EITLIM at the limit */
int redcoi_glpk_simplex(glp_prob *lp, int method);

/** glp_intopt() after redcoi_glpk_simplex(): each node's program is solved under the limit before GLPK sees it.
 *  @return as glp_intopt(); GLP_ESTOP also where a node's program was not solved: what was found by then stands */
int redcoi_glpk_branch(glp_prob *lp, const glp_iocp *options);

#endif
