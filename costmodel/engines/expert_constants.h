/** @file expert_constants.h  Constants that mixtures of experts have beside a calibration: products, exchanges and
 *  launches, one set for each class of GPU, fitted with the sets of dense models held fixed (CALIBRATION.md).
 *  A preset of costmodel/presets/experts; each says what it was fitted on. Formulas: OPERATORS.md. */
#ifndef REDCO_EXPERT_CONSTANTS_H
#define REDCO_EXPERT_CONSTANTS_H

#include "topology/base/json.h"
#include "topology/discovery/topology.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_expert_constants {
    char name[32];                /**< "" = none are given: those of the GPU's class are taken */
    char basis[256];              /**< the runs that it was fitted on, for people */
    uint32_t fitted_rows;         /**< 0: nothing fitted */
    double mape_ratio;            /**< in-sample error of the fit */
    double cross_validated_ratio; /**< mean error on the half of the rows that was not fitted, twice */
    double left_out_ratio;        /**< mean error on a source that was left out of the fit */
    double grouped_efficiency;    /**< products of experts, on gemm_efficiency */
    double grouped_fp8_ratio;     /**< on that again in 8-bit formats */
    double grouped_k0;            /**< in place of gemm_k0 */
    double rows_traffic_ratio;    /**< on memory_traffic_factor: rows moved, experts' activations, casts */
    double bias_traffic_ratio;    /**< on the bytes of biases of experts, which are added by operators of their own */
    double narrow_head_ratio;     /**< speed of an attention core with heads of 64 over that of wider ones */
    double nccl_link_ratio;       /**< share of NVLink's rate that NCCL's all-to-all gets, */
    double nccl_network_ratio;    /**< and of the NICs' */
    double dedup_link_ratio;      /**< likewise where a row crosses to a node once (DeepEP, HybridEP) */
    double dedup_network_ratio;
    double exchange_call_s;      /**< besides, each exchange */
    double overlap_hidden_ratio; /**< share of exchanges that ep_overlap hides */
    double launch_s;             /**< the host's, a kernel, x86 processors, releases since 2025.11 */
    double grace_launch_factor;  /**< on Grace processors */
    double older_launch_factor;  /**< in older releases */
} redco_expert_constants;

/** Name of the shipped set for a GPU: "hopper", "blackwell". */
const char *redco_expert_constants_set(const redco_gpu *gpu);
/** Seconds that the host takes for a launch.
 *  @param release  of the software, 202511 for 2025.11; 0: the newest */
double redco_expert_launch_s(const redco_expert_constants *constants, uint32_t release, redco_cpu_vendor cpu,
                             const redco_gpu *gpu);
/** @param name_or_path  preset or file */
redco_status redco_expert_constants_read(const char *name_or_path, redco_expert_constants *constants_out,
                                         redco_error *err);
redco_status redco_expert_constants_from_json(const redco_json_value *value, redco_expert_constants *constants_out,
                                              redco_error *err);
/** One of the constants, by its key in files. @return NULL: none is called so */
double *redco_expert_constant(redco_expert_constants *constants, const char *key);
/** The keys of those that are fitted, in the order of files. @return NULL past the last */
const char *redco_expert_constant_key(size_t index);
/** A new reference; NULL when out of memory. */
json_t *redco_expert_constants_describe(const redco_expert_constants *constants);

#ifdef __cplusplus
}
#endif
#endif
