/** @file row_model.h  The model that a row of a table of measured runs trains. */
#ifndef REDCO_ROW_MODEL_H
#define REDCO_ROW_MODEL_H

#include "costmodel/models/model.h"
#include "traces/measured.h"

#ifdef __cplusplus
extern "C" {
#endif

/** From the row's dimensions. A mixture that is named like a preset ("DeepSeek-V3", "DeepSeek-V2-proxy4L") and has its
 *  widths is that preset with the row's number of layers: tables leave out heads of latent attention, windows, biases.
 *  Layers without experts are the first ones.
 *  @return REDCO_EVALUE if dimensions are missing, or contradict each other */
redco_status redco_row_model(const redco_measured_run *run, redco_model **model_out, redco_error *err);

/** Blocks at each position of the row's pipeline, modules of multi-token prediction among them: as its pp_layout says;
 *  of a mixture without one whose layers do not divide, full chunks first and the rest beside the loss, as
 *  Megatron-Bridge's DeepSeek and Kimi recipes have them (Et*4|(t*4|)*14tmL).
 *  @param split_out  NULL: equal shares; else to be freed */
redco_status redco_row_split(const redco_measured_run *run, uint32_t **split_out, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
