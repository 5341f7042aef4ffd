/** @file internal.h  Shared inside planner/export: what a framework can express (ability), the plan that it is given
 *  (offer), and writers of text. */
#ifndef REDCO_EXPORT_INTERNAL_H
#define REDCO_EXPORT_INTERNAL_H

#include "planner/export/export.h"
#include "planner/read/trainers.h"

#include <stdio.h>

/** Which layers a framework can be told to recompute. */
typedef enum redcoi_recompute_ability {
    REDCOI_RECOMPUTE_ANY,        /**< each layer its own way */
    REDCOI_RECOMPUTE_ONE_KIND,   /**< one set of modules of all layers, or some layers of every stage in full */
    REDCOI_RECOMPUTE_FULL_COUNT, /**< some layers of every stage in full */
    REDCOI_RECOMPUTE_FULL_ALL    /**< no layer, or all in full */
} redcoi_recompute_ability;

/** The exported layout: the plan itself, or the nearest that can be expressed. Owns its arrays. */
typedef struct redcoi_offer {
    redco_parallelism parallelism;
    uint32_t overlap;
    redco_engine engine; /**< that the price is for: shard_over_cp and the traits */
    redco_tp_placement tp_placement;
    bool gpu_order; /**< ranks take the GPUs of a node in the plan's order */
    redco_assignment *assignments;
    uint32_t assignment_count;
    redco_plan_layers *layers; /**< the same as consecutive layers */
    uint32_t count;
    redco_prediction prediction;
} redcoi_offer;

/** The input of the writers. Borrowed. */
typedef struct redcoi_context {
    const redco_plan *plan;
    const redco_plan_case *reopened;
    const redcoi_offer *offer;
    bool exact;
    const char *summary; /**< NULL when exact */
    json_t *notes;       /**< strings that a writer may add: what the user must do beside */
} redcoi_context;

/** A framework: what it can express, and how it is written. */
typedef struct redcoi_ability {
    const char *title;  /**< "DeepSpeed" */
    const char *source; /**< version and files that its options were read from */
    bool pipeline, context_parallel, sequence_parallel, layerwise;
    uint32_t cp_types;     /**< context parallelism: bits 1 << redco_cp_type; 0: the command's */
    redco_cp_type cp_type; /**< in the place of what it lacks */
    bool shard_over_cp;    /**< shards are cut over context-parallel ranks, too */
    bool launches;         /**< the export starts the ranks: hosts and GPUs in the plan's order */
    bool own_tp;           /**< splits matrices by rules of its own, whatever the plan says of them */
    bool any_command;      /**< starts another export or program: what that does is not its own to say */
    /** Says whether the framework has this schedule for so many layers, and lays them out by @p split (NULL: equal
     *  shares); NULL: only 1F1B of one chunk and equal shares. */
    bool (*can_pipeline)(const redco_pipeline *pipeline, const uint32_t *split, uint32_t layers);
    /** Traits of the plan's engine for which the framework has no option under @p parallelism become what it does;
     *  NULL: none. */
    void (*limit)(redco_engine *engine, const redco_parallelism *parallelism);
    bool scheme_fixed; /**< to scheme */
    redco_scheme scheme;
    redcoi_recompute_ability recompute;
    const char *engine; /**< file of the engine that runs the export; NULL: the plan's */
    /** Says whether the framework can express these meshes with these degrees (and secondary mesh); dp is that of
     * redcoi_sharded(). */
    bool (*can_shard)(const redco_parallelism *parallelism, const redco_shards *shards);
    /** The traffic that is hidden when @p wanted is asked for. */
    uint32_t (*overlap)(const redco_parallelism *parallelism, const redco_shards *shards, uint32_t wanted);
    /** The configuration as data, new reference; a json_null() where there is none beside the text. */
    redco_status (*configure)(const redcoi_context *context, json_t **config_out, redco_error *err);
    /** The file. */
    redco_status (*write)(const redcoi_context *context, const json_t *config, FILE *stream, redco_error *err);
} redcoi_ability;

extern const redcoi_ability redcoi_megatron, redcoi_deepspeed, redcoi_fsdp, redcoi_internevo, redcoi_sbatch,
    redcoi_megatron_bridge, redcoi_torchtitan;

/** The plan itself as an offer: exact unless the overlap differs. @return REDCO_EVALUE (no error text) when it cannot
 * be expressed */
redco_status redcoi_offer_plan(const redcoi_ability *ability, const redco_plan *plan, const redco_plan_case *reopened,
                               bool *expressed_out, redcoi_offer *offer_out, redco_error *err);
/** The fastest that can be expressed and fits. Degrees and micro-batch stay where they can, and are searched where
 *  nothing fits otherwise. @return REDCO_EINFEASIBLE when nothing does */
redco_status redcoi_offer_nearest(const redcoi_ability *ability, const redco_plan *plan,
                                  const redco_plan_case *reopened, redcoi_offer *offer_out, redco_error *err);
void redcoi_offer_free(redcoi_offer *offer);
/** Where the plan is of an engine that this export is not of: what the offer takes as the export's engine runs it, as
 *  a note and as JSON; else JSON null. @param as_run_out  new reference */
redco_status redcoi_as_run(const redcoi_ability *ability, const char *framework, const redcoi_context *context,
                           json_t **as_run_out, redco_error *err);
/** @p parallelism as seen by what shards states: dp stands for all ranks that they are sharded over, context-parallel
 * ones included where @p engine has it so. */
redco_parallelism redcoi_sharded(const redco_plan *plan, const redco_parallelism *parallelism,
                                 const redco_engine *engine);
/** A mesh of the plan over the ranks @p grid that the export shards over: all stay all. */
redco_mesh redcoi_regrid(const redco_plan *plan, redco_mesh mesh, redco_mesh grid);
/** The same of an offer. */
redco_parallelism redcoi_offer_sharded(const redcoi_context *context);

/** redco_overlap bits of traffic that there is at all. */
uint32_t redcoi_traffic(const redco_parallelism *parallelism, const redco_shards *shards);
/** @return whether experts alone have data-parallel ranks: tensor parallelism's, which do not cut them. Their optimizer
 *  states are then sharded over these. */
bool redcoi_only_experts_repeat(const redco_parallelism *parallelism);
/** Shards of the class with most layers. */
const redco_plan_layers *redcoi_main_layers(const redco_plan_layers *layers, uint32_t count);
/** Positions of the model's layers: the chunks of all pipeline stages; 1 without stages. */
uint32_t redcoi_positions(const redco_parallelism *parallelism);
/** Blocks at a position: the plan's split, else equal shares. */
uint32_t redcoi_position_layers(const redcoi_context *context, uint32_t position);
/** Says whether PyTorch has the schedule (torch/distributed/pipelining/schedules.py, PyTorch 2). @return its name, or
 *  NULL */
const char *redcoi_torch_schedule(const redco_pipeline *pipeline);
/** Layers of a policy, embedding and head aside. */
uint32_t redcoi_count_recompute(const redcoi_context *context, redco_recompute policy);
/** The modules that layers recompute, none of full. */
redco_recompute redcoi_modules_recomputed(const redcoi_context *context);
bool redcoi_is_block(const redco_model *model, const char *class_name);
uint64_t redcoi_bucket_elements(const redco_plan *plan);
uint32_t redcoi_gpus_per_host(const redco_plan *plan);
uint32_t redcoi_hosts(const redco_plan *plan);
/** The precision beside tensor formats of 8 bits and less: bf16, fp16, fp32. */
redco_precision redcoi_base_precision(const redco_plan *plan);
/** Bytes of a gradient element as reduced. */
uint32_t redcoi_gradient_bytes(const redco_plan *plan, const redco_engine *engine);
bool redcoi_flash_attention(const redco_engine *engine);

/** The order in which the ranks of every host take its GPUs, for CUDA_VISIBLE_DEVICES: "0,3,1,2".
 *  @return NULL where the plan has none, or none that is the same for all hosts of a node; else freed with free() */
char *redcoi_gpu_order_text(const redco_plan *plan);
/** Adds a note; out of memory it is lost, as the report is then. */
__attribute__((format(printf, 2, 3))) void redcoi_note(const redcoi_context *context, const char *format, ...);
/** Notes for exports that start no ranks: in which order hosts and GPUs are to be taken. */
void redcoi_note_placement(const redcoi_context *context, const char *launcher);
/** The names in rank order as words of a shell, each quoted: none can end what it stands in, whatever it is. */
void redcoi_write_hosts(const redco_plan *plan, const char *separator, FILE *stream);

/** "4x1". @return @p buffer */
const char *redcoi_mesh_text(redco_mesh mesh, char *buffer, size_t size);

/** Sets the key by which a trainer says @p target to what it writes for @p value, an option's or a trait's of redco
 *  ("" is the default); keys with "." lie in objects. The trainer's table has such a row: planner/read reads by it. */
void redcoi_say(json_t *config, const redcoi_trainer *trainer, const char *target, const char *value);
void redcoi_say_number(json_t *config, const redcoi_trainer *trainer, const char *target, uint64_t value);
/** The default where not @p yes. */
void redcoi_say_if(json_t *config, const redcoi_trainer *trainer, const char *target, bool yes, const char *value);
/** A value that is no word: a list, a fraction. Takes the reference. */
void redcoi_say_json(json_t *config, const redcoi_trainer *trainer, const char *target, json_t *value);
/** A key of the table that no option of redco-plan follows from. Takes the reference. */
void redcoi_say_key(json_t *config, const redcoi_trainer *trainer, const char *key, json_t *value);
/** Says what a flat configuration of one trainer does in the words of another trainer's @p key. @param value_out  new
 * reference
 *  @return false: it says nothing of it */
bool redcoi_translate(const redcoi_trainer *from, const json_t *config, const redcoi_trainer *to, const char *key,
                      json_t **value_out);

/** @p text without control characters, in a comment. */
void redcoi_write_comment(FILE *stream, const char *prefix, const char *text);
/** The header of a commented file: model, cluster, what differs. */
void redcoi_write_header(const redcoi_context *context, const char *prefix, const char *title, FILE *stream);
/** The configuration as it is: redcoi_ability.write of frameworks that read JSON. */
redco_status redcoi_write_json(const redcoi_context *context, const json_t *config, FILE *stream, redco_error *err);
/** @p value as a Python literal; an object is a call of dict(). Keys and words are plain: nothing is escaped.
 *  @param depth    of indentation, in steps of 4
 *  @param modules  imported names, NULL-terminated: a string "NAME.attribute" is written without quotes; NULL: none */
void redcoi_write_python(const json_t *value, int depth, const char *const *modules, FILE *stream);
/** Comments of a Python file: header, @p use, notes. */
void redcoi_write_python_head(const redcoi_context *context, const char *title, const char *use, FILE *stream);
/** "TARGET.SECTION.KEY = VALUE", indented, for every key of the sections (objects) of @p config that are not in
 *  @p skipped (NULL-terminated). */
void redcoi_write_python_sections(const json_t *config, const char *target, const char *const *skipped,
                                  const char *const *modules, FILE *stream);
/** A host name is letters, digits, ".", "_" and "-", and begins with a letter or digit: all else could be code in a
 * script.
 *  @return REDCO_EVALUE otherwise */
redco_status redcoi_check_hosts(const redco_plan *plan, redco_error *err);

#endif
