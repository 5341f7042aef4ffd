/** @file mean_check.h  Looks whether a pipeline's loss is a mean over its examples, by numbers: the loss of 2 n of them
 *  against the mean of those of both halves, in f64 with weights that are drawn. coupling.c finds by dimensions what
 *  compares examples; a product of two means it cannot see. */
#ifndef REDCO_MEAN_CHECK_H
#define REDCO_MEAN_CHECK_H

#include "executor/pipeline/records.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_mean_check {
    uint32_t examples; /**< 2 n; 0: it was not compared */
    double whole;      /**< their loss */
    double halves;     /**< the mean of the losses of both halves, by their weights */
    bool differs;      /**< beyond rounding */
} redco_mean_check;

/** The first records, at most 8. Nothing is compared of less than two, of a loss that draws random numbers or is not
 *  finite, of one that cannot be built for so few, and of one that would take more than a second or two. */
redco_status redco_records_check_mean(const redco_records *records, redco_mean_check *check_out, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
