/** @file preset.h  The data files that ship inside the library: GPUs, clusters, models, calibrations. They are
 *  compiled in, so that an installed program needs no data folder. */
#ifndef REDCO_BASE_PRESET_H
#define REDCO_BASE_PRESET_H

#include "topology/base/json.h"
#include "topology/base/status.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Folder name of a kind: "gpus", "clusters", "models", "calibrations", "engines", "evidence", "profiles",
 * "saving". */
typedef struct redco_preset {
    const char *kind;
    const char *name; /**< file name without ".json" */
    const char *text; /**< the file, static, 0-terminated */
    size_t size;
} redco_preset;

/** Case-insensitive look-up. @return static, or NULL if there is none */
const redco_preset *redco_preset_find(const char *kind, const char *name);
/** A model by its preset's name, or by its name in a hub of models ("meta-llama/Llama-3.1-8B", a preset's "_hub"), in
 *  whatever letters, with "-Instruct" and its like or without. A file of that path goes before. @return static, or NULL
 */
const redco_preset *redco_preset_model(const char *name);
/** A cluster by its preset's name or another name of it (its "also": "p5.48xlarge", "Standard_ND96isr_H100_v5"), in
 *  whatever letters. @return static, or NULL */
const redco_preset *redco_preset_cluster(const char *name);
/** A GPU by its preset's name in whatever letters ("l40s", "RTX 4090"). @return static, or NULL */
const redco_preset *redco_preset_gpu(const char *name);
/** The @p index-th preset of a kind in ascending order of name, or NULL past the last. */
const redco_preset *redco_preset_at(const char *kind, size_t index);
/** Names of a kind for the error text of a wrong one: "known: " and all, or where some begin like @p wrong, which may
 * be the name in a hub of models, "nearest: " and these. @return @p buffer */
const char *redco_preset_names(const char *kind, const char *wrong, char *buffer, size_t size);
/** Parses a preset: by name, or when there is none of that name, the file of that path. An unknown name lists the
 *  known ones. @p what: "a model", for the error text. */
redco_status redco_preset_open(const char *kind, const char *what, const char *name_or_path, redco_json **document_out,
                               redco_error *err);

/** The text of a preset, or of the file of that path, at most @p max_bytes long. @p text_out: to be freed. */
redco_status redco_preset_text(const char *kind, const char *what, const char *name_or_path, size_t max_bytes,
                               char **text_out, size_t *size_out, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
