/** @file inputs.h  Everything a planning question reads: cluster, model, calibration, profiles. One call from the names
 *  on a command line to checked objects. */
#ifndef REDCO_INPUTS_H
#define REDCO_INPUTS_H

#include "costmodel/closed_form/closed_form.h"
#include "planner/rules/rules_user.h"
#include "planner/search/search.h"
#include "topology/discovery/cluster.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A measured step of an engine: all its times are multiplied by the ratio. */
typedef struct redco_rescale {
    double ratio;      /**< measured over predicted; 0: none was measured */
    double measured_s; /**< the step, for people */
    char engine[REDCO_ENGINE_NAME];
} redco_rescale;

/** Presets or files; NULL is the default. Borrowed. */
typedef struct redco_input_names {
    const char *model;       /**< NULL: llama-7b */
    const char *trainable;   /**< NULL: all parameters; or as redco_trainable_read() reads it */
    const char *safetensors; /**< NULL, or a header to check the model against */
    const char *cluster;     /**< preset, cluster file, node description or topology.conf, known by content; NULL:
                                  a800-hdr, or nothing when @p node is given */
    const char *node;        /**< NULL, or what replaces the cluster's node type */
    const char *topology;    /**< NULL, or a Slurm topology.conf */
    const char *hosts;       /**< NULL, or a host list of free hosts */
    const char *calibration; /**< NULL: the default set of the GPU's architecture */
    const char *engine;      /**< NAME[,TRAIT=VALUE...], NAME a preset or file; "framework": the default on GPUs; NULL:
                                  what calibration or profile are of, else what the cluster or its GPU names */
    const char *optimizer;   /**< NULL, or what the engine's trait of that name is instead */
    const char *master_weights; /**< likewise */
    const char *offload;        /**< likewise; "optimizer,parameters" is "parameters" */
    const char *tp_rules;       /**< NULL, or a file of rules for tensor parallelism, see rules_user.h */
    const char *const *profiles;
    uint32_t profile_count;
    redco_rescale rescale;
} redco_input_names;

/** Prices of a call, see step_memo.h. */
typedef struct redco_step_memo redco_step_memo;

/** Owns what it points at; freed by redco_inputs_free(). */
typedef struct redco_inputs {
    redco_cluster *cluster;
    redco_model *model;
    redco_machine machine; /**< flat view of the GPUs asked for */
    redco_calibration calibration;
    redco_engine_file engine;   /**< the engine whose steps are planned */
    redco_engine_choice choice; /**< its traits, and what names->engine states otherwise */
    bool engine_named;          /**< by the user */
    bool engine_of_cluster;     /**< the cluster's file names it */
    bool engine_limits;         /**< plans keep to what the engine has; else it is priced as if it had everything */
    char engine_reason[256];    /**< why that one, for people */
    char unseen[160]; /**< the part of engine and GPU that no run that constants are fitted to has; "": nothing */
    struct {
        char of[REDCO_BAND_NAME]; /**< the class of runs; "": none is known, or no band is claimed */
        double ratio;
    } most_mfu[REDCO_BAND_WIDTHS]; /**< the highest that was measured, by the width of products' operands */
    char constants_warning[384];   /**< error of times of mixtures of experts, of adapters; "" = it is neither */
    redco_comm *comm;
    redco_user_rules *tp_rules; /**< NULL: RedCoast's alone */
    bool borrowed;              /**< cluster, model and rules are those of other inputs, which stay until then */
    bool comm_borrowed;         /**< and so are comm and step_memo */
    redco_step_memo *step_memo; /**< belongs to comm, model and tp_rules; NULL: no step is kept */
} redco_inputs;

/** @param gpus  0 = all that the cluster has */
redco_status redco_inputs_read(const redco_input_names *given, uint64_t gpus, redco_inputs *inputs_out,
                               redco_error *err);
/** The same cluster, model and rules with another engine or number of GPUs: files, which may be pipes, are read once.
 *  @param like  lends what is the same; freed last
 *  @param gpus  0 = those of @p like */
redco_status redco_inputs_read_like(const redco_inputs *like, const redco_input_names *names, uint64_t gpus,
                                    redco_inputs *inputs_out, redco_error *err);
/** Moves the times of inputs whose engine was measured, and narrows their band to that of two runs of one source. */
void redco_inputs_rescale(redco_inputs *inputs, const redco_rescale *rescale);
/** Says that an MFU is higher than that of any measured run; "" where it is not. @return @p buffer */
const char *redco_inputs_beyond_mfu(const redco_inputs *inputs, const redco_workload *workload, double mfu,
                                    char *buffer, size_t size);

/** @return where redco-exec would run the plan: on GPUs, unless the machine's are processors, or the calibration is of
 *  steps on processors */
redco_executor redco_inputs_executor(const redco_inputs *inputs);

/** Puts the engine into @p options: its traits at their precision, what it overlaps and in which schemes, unless given,
 *  and, where engine_limits is set, what it can run. Precision and recomputation of options->workload stay.
 */
void redco_inputs_use_engine(const redco_inputs *inputs, redco_search_options *options);
void redco_inputs_free(redco_inputs *inputs);
/** Frees the steps that were priced, unless other inputs lend them; none is kept from then on. */
void redco_inputs_forget(redco_inputs *inputs);

#ifdef __cplusplus
}
#endif
#endif
