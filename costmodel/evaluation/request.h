/** @file request.h  One question to the cost model: a machine, a model, what is trained by which engine, how. A
 * measured run, a command line, a plan file and an export all become a request, are checked here and priced by the same
 * code. */
#ifndef REDCO_REQUEST_H
#define REDCO_REQUEST_H

#include "costmodel/closed_form/closed_form.h"
#include "costmodel/simulator/simulate.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Plain values; what it points at is borrowed. */
typedef struct redco_request {
    redco_machine machine;
    const redco_model *model;
    redco_calibration calibration;
    redco_workload workload; /**< its engine with every trait resolved */
    redco_parallelism parallelism;
    const redco_assignment *assignments; /**< together every layer once; meshes divide redco_shard_grid() */
    uint32_t assignment_count;
} redco_request;

/** The answer. */
typedef struct redco_price {
    redco_prediction predicted;   /**< the simulator's numbers: what users read. Waits for tensor- and context-parallel
                                       traffic are in layer_exposed_s, those for other stages in other_s; the memory of
                                       engines that plan it (redco-exec) is the closed form's */
    redco_prediction closed_form; /**< the planner optimises over it */
    redco_simulation simulation;
    bool simulated; /**< else the layers are too many: predicted is the closed form, simulation is all 0 */
} redco_price;

/** Costs to price @p request with, its parallelism checked. @param comm  prices collectives; borrowed by the costs
 *  @param attach  NULL, or what sets tensor-parallel layouts before anything is priced; @p context is its own
 *  @return REDCO_EVALUE if the parallelism contradicts machine, model, batch or engine */
typedef redco_status (*redco_attach_layouts)(redco_costs *costs, void *context, redco_error *err);
redco_status redco_request_open(const redco_request *request, const redco_comm *comm, redco_attach_layouts attach,
                                void *context, redco_costs **costs_out, redco_error *err);

/** Checks a whole choice: degrees against machine, model and batch, model chunks against stages, meshes against the
 *  ranks that the engine shards over. The one place for it. */
redco_status redco_request_check(const redco_costs *costs, const redco_parallelism *parallelism,
                                 const redco_assignment *assignments, uint32_t count, redco_error *err);

/** @return whether steps of these costs are simulated. */
bool redco_price_simulates(const redco_costs *costs);

/** Closed form and simulation. @return REDCO_EVALUE if the schedule cannot be laid out, or a layout's cost fails */
redco_status redco_price_step(redco_costs *costs, const redco_parallelism *parallelism,
                              const redco_assignment *assignments, uint32_t count, redco_price *price_out,
                              redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
