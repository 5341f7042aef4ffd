/** @file export.h  Writes a plan as what the user of a training framework runs: arguments of Megatron-LM, a function
 * over Megatron-Bridge's or torchtitan's configuration, a DeepSpeed JSON, PyTorch FSDP's device mesh, InternEvo's
 * parallel dict, a Slurm batch script. No framework can express everything that a plan can: where one cannot, the best
 * plan that it can express, by predicted step time and among those that fit, is exported, and the report names the
 * difference and its price. planner/export/README.md says which option means what, and where that is documented.
 * Pure: no files, no printing. */
#ifndef REDCO_EXPORT_H
#define REDCO_EXPORT_H

#include "planner/assemble/assemble.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { REDCO_EXPORT_VERSION = 1 };

typedef enum redco_framework {
    REDCO_FRAMEWORK_MEGATRON,
    REDCO_FRAMEWORK_DEEPSPEED,
    REDCO_FRAMEWORK_FSDP,
    REDCO_FRAMEWORK_INTERNEVO,
    REDCO_FRAMEWORK_SBATCH,
    REDCO_FRAMEWORK_MEGATRON_BRIDGE,
    REDCO_FRAMEWORK_TORCHTITAN,
    REDCO_FRAMEWORK_COUNT
} redco_framework;

/** "megatron", "deepspeed", ... in the order of redco_framework, NULL-terminated. */
extern const char *const redco_framework_words[];

/** Owns what it points at. */
typedef struct redco_export {
    redco_framework framework;
    bool exact;        /**< the framework does all that the plan says */
    bool layout_exact; /**< degrees, meshes, scheme, recomputation and batch are the plan's; traffic may overlap less */
    char *text;        /**< the file, ending in a newline */
    size_t text_size;
    json_t
        *report;   /**< planner/export/export.schema.json: what differs, what is predicted, the configuration as data */
    char *summary; /**< for people: what differs and what it costs; NULL when exact */
} redco_export;

/** @param reopened    of redco_plan_reopen() on @p plan: model, machine and constants to predict with; only its costs'
 *                     caches change
 *  @param export_out  freed with redco_export_free()
 *  @return REDCO_EINFEASIBLE when the framework can say nothing that fits, or does not train such a model;
 *          REDCO_EVALUE when a host of the plan has no name that can stand in a script */
redco_status redco_export_create(const redco_plan *plan, const redco_plan_case *reopened, redco_framework framework,
                                 redco_export **export_out, redco_error *err);
void redco_export_free(redco_export *made);

#ifdef __cplusplus
}
#endif
#endif
