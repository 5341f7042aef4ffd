/** @file index_checks.h  Looks at the indices that examples give a pipeline's graph: rows of tables, targets of a cross
 * entropy. One that is out of range is told with its example before it is trained on. Indices that parameters or random
 * numbers have a part in are left to the operators. Internal to executor/pipeline. */
#ifndef REDCOI_INDEX_CHECKS_H
#define REDCOI_INDEX_CHECKS_H

#include "executor/pipeline/user_pipeline_file.h"

typedef struct redcoi_index_checks redcoi_index_checks;

/** @param file       borrowed until they are freed
 *  @param predicted  examples are predicted: they may lack what the loss asks for */
redco_status redcoi_index_checks_create(const redco_user_pipeline_file *file, bool predicted,
                                        redcoi_index_checks **checks_out, redco_error *err);
void redcoi_index_checks_free(redcoi_index_checks *checks); /**< NULL is accepted */

/** @param data  by input: arrays that collate() made of @p count examples
 *  @param bad_out  the example that the error is of
 *  @return REDCO_EVALUE, without a place, for an index out of range */
redco_status redcoi_index_checks_run(const redcoi_index_checks *checks, void *const *data, uint32_t count,
                                     uint32_t *bad_out, redco_error *err);

#endif
