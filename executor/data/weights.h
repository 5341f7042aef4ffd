/** @file weights.h  Parameters of a task from and to safetensors files, as other programs know them: matrices [out,
 * in]. Any part of any parameter can be read alone. */
#ifndef REDCO_WEIGHTS_H
#define REDCO_WEIGHTS_H

#include "costmodel/models/model.h"
#include "costmodel/models/task.h"
#include "executor/data/initial.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_weights redco_weights;

/** A .safetensors file, an index with its files beside it, or a folder that has either under the name that transformers
 *  gives it ("model.safetensors.index.json", "model.safetensors"). Headers are read, and compared with the task and
 * with the sizes of the files: the first tensor that is missing (but see redco_weights_has()), too many, cut off, or of
 * another shape or type is the error.
 *  @param task   borrowed until it is closed
 *  @param model  whose task it is: then names may lack "model." and its kin, and buffers and copies of a tied table may
 *                be there too; NULL: names are exact */
redco_status redco_weights_open(const char *path, const redco_task *task, const redco_model *model,
                                redco_weights **weights_out, redco_error *err);
/** Files that have a part of the parameters each. */
typedef struct redco_weights_part {
    const char *prefix; /**< beginning of the parameters' names, which the file's names lack; "" of all */
    const char *path;   /**< as above */
} redco_weights_part;

/** Each file must have all parameters of its prefix and nothing else; parameters of no part are not read. A prefix that
 *  no parameter has, and two files for one parameter, are errors.
 *  @param parts  at least one */
redco_status redco_weights_open_parts(const redco_weights_part *parts, size_t count, const redco_task *task,
                                      redco_weights **weights_out, redco_error *err);
/** True if a file has the parameter. redco_weights_open()'s has all, but for those that are trained beside frozen ones:
 *  adapters. @param weights  NULL: none has */
bool redco_weights_has(const redco_weights *weights, size_t parameter);

void redco_weights_close(redco_weights *weights); /**< NULL is accepted */

/** @param parameter  its number in the task, which a file must have
 *  @param box        in the executor's storage; NULL: all of it
 *  @param dtype      of @p out, rounded to nearest even where the file has more digits
 *  @return REDCO_EVALUE if the file ends before, or holds what is not a number */
redco_status redco_weights_read(const redco_weights *weights, size_t parameter, const redco_box *box, redco_dtype dtype,
                                void *out, redco_error *err);

/** Elements @p begin to @p begin + @p count of a parameter in the order of its file, whose matrices are [out, in]. The
 *  file stays open for the next call. @param dtype, out  as redco_weights_read() */
redco_status redco_weights_read_run(redco_weights *weights, size_t parameter, uint64_t begin, uint64_t count,
                                    redco_dtype dtype, void *out, redco_error *err);

/** Rounds elements to another type, to nearest even. @param out  may be @p data where it is no wider */
void redco_weights_cast(redco_dtype from, const void *data, uint64_t count, redco_dtype to, void *out);

#ifdef __cplusplus
}
#endif
#endif
