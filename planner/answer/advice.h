/** @file advice.h  redco's advice in place of a layout that somebody ran: the same machine, model,
 * batch, engine, precision and constants, everything else free. Nothing here prints. */
#ifndef REDCO_ADVICE_H
#define REDCO_ADVICE_H

#include "costmodel/evaluation/request.h"
#include "planner/search/search.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_advice {
    redco_search_result *result; /**< the free search's; ranked_count 0: nothing fits */
    const redco_candidate *best; /**< NULL: nothing fits */
    double gain_ratio;           /**< tokens/s of the advice against the given layout's, - 1; 0 without advice */
} redco_advice;

/** Searches as redco-plan does where only the engine is named. Where the engine's file lacks a dimension or a way of
 *  sharding that the given layout has, that is added: somebody ran it.
 *  @param request     with its constants, as redco_price_step() took it
 *  @param comm        prices its collectives; borrowed for the call
 *  @param given       of the layout, simulated
 *  @param advice_out  freed with redco_advice_free()
 *  @return REDCO_EVALUE: the engine has no file, or there is no layout at all */
redco_status redco_advise(const redco_request *request, const redco_comm *comm, const redco_prediction *given,
                          redco_advice *advice_out, redco_error *err);
void redco_advice_free(redco_advice *advice);

#ifdef __cplusplus
}
#endif
#endif
