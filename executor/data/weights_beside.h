/** @file weights_beside.h  The files that stand beside weights: a tokenizer's, and settings of generation. */
#ifndef REDCO_WEIGHTS_BESIDE_H
#define REDCO_WEIGHTS_BESIDE_H

#include "topology/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Copies those that stand beside weights to a folder where none of their names is.
 *  @param weights  a folder, or a file in it
 *  @return REDCO_EIO if one cannot be read, REDCO_ESYSTEM if it cannot be written: none of them is left then */
redco_status redco_weights_copy_beside(const char *weights, const char *folder, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
