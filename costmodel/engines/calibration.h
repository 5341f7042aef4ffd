/** @file calibration.h  The few constants that are no datasheet facts, one set per (GPU class, software class): GEMM,
 *  attention, memory and network efficiency, kernel and step overhead, contention. Symbols and plausible ranges:
 *  CALIBRATION.md. A preset of costmodel/presets/calibrations or a file; each says what it was fitted on. */
#ifndef REDCO_CALIBRATION_H
#define REDCO_CALIBRATION_H

#include "costmodel/engines/bands.h"
#include "costmodel/engines/engine.h"
#include "costmodel/engines/expert_constants.h"
#include "topology/base/json.h"
#include "topology/discovery/topology.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_calibration {
    char name[64];
    char basis[256];              /**< the runs that it was fitted on, for people */
    uint32_t fitted_rows;         /**< 0: literature mid-range, nothing fitted */
    double mape_ratio;            /**< in-sample error of the fit; 0 when fitted_rows is 0 */
    double cross_validated_ratio; /**< mean error on the half of the rows that was not fitted, twice; 0 = not known */
    double left_out_ratio;        /**< mean error on a model that was left out of the fit; 0 = not known */
    double band_ratio;            /**< half-width of the 68 % band on tokens/s; 0 = none is claimed */
    redco_band band;              /**< the band of the question that the set is used for; all 0 in sets as they ship */
    double gemm_efficiency;       /**< e_g, share of peak of a large GEMM */
    double gemm_k0;               /**< inner dimension at which a GEMM loses half of that */
    double kernel_s;              /**< tau, per GEMM */
    double attention_efficiency;  /**< e_a, flash forward */
    double attention_backward_ratio; /**< r_b */
    double flash1_ratio;             /**< speed of FlashAttention-1 over that of version 2 */
    double scores_traffic_factor;    /**< u, on the bytes of attention that writes its scores out */
    double fp8_efficiency;           /**< e_8, on e_g, of products in 8-bit formats */
    double fp4_efficiency;           /**< on that again, of products in 4-bit formats */
    double memory_traffic_factor;    /**< w, on the bytes of memory-bound operators */
    double norm_traffic_factor;      /**< rho, on norms of several kernels */
    double compiled_ratio;           /**< on w under torch.compile */
    double head_traffic_factor;      /**< w_h */
    double optimizer_factor;         /**< o */
    double nvlink_efficiency;  /**< share of the modelled collective bandwidth that a training step gets, in a node */
    double network_efficiency; /**< likewise across nodes */
    double tp_link_efficiency; /**< likewise of tensor-parallel collectives */
    double latency_factor;     /**< on the modelled latency of a collective */
    double launch_s;           /**< per collective call, not hidden */
    double sync_s; /**< per collective call and rank of a group over nodes, not hidden: ranks wait for the last */
    double tp_exposed_ratio;     /**< x_t */
    double tp_launch_s;          /**< lambda, least latency of a tensor-parallel collective */
    double tp_async_ratio;       /**< on exposed tensor-parallel traffic where it is overlapped */
    double cp_exposed_ratio;     /**< share of context-parallel traffic that the ring of attention steps leaves */
    double overlap_window_ratio; /**< y, usable share of a compute window */
    double contention_ratio;     /**< kappa, slow-down of compute per second of hidden communication */
    double host_forward_s;       /**< eta_f, floor of a layer's forward; 0 = none seen */
    double host_backward_s;      /**< eta_b */
    double host_collective_s;    /**< eta_c, added to both floors twice when tp > 1 */
    double step_overhead_s;      /**< t_0 */
    double scale_ratio;          /**< varsigma, per doubling of nodes */
    double rescale_ratio; /**< on all times, of a measured step over its prediction; 0: 1. Files need not have it */
    double reserve_bytes; /**< context, fragmentation; NCCL's buffers are counted (nccl_buffers.h) */
    double usable_memory_ratio; /**< plans above this share of physical memory are refused */
    bool planned_memory;        /**< the software is redco-exec: see redco_engine.planned_memory. In files
                                     "engine": "redco-exec"; without the key it is any other */
    bool processors;            /**< ranks on processors, which may stand in for GPUs: they need no NCCL */
    bool keeps_gate;            /**< steps of processors: they keep what redco_engine.made_again makes again. In files
                                     "keeps_gate"; without the key the set named "host" does */
    redco_expert_constants
        experts; /**< beside these, mixtures'; files do not have them: those of the GPU's class are taken */
} redco_calibration;

/** Name of the shipped set for a class of software on a GPU: "a100-eager", ... */
const char *redco_calibration_set(const redco_gpu *gpu, redco_software software);
/** The same for an engine: its own set for that GPU, if it has one and @p engine is of its class of software. */
const char *redco_calibration_of_engine(const redco_engine_file *file, const redco_engine *engine,
                                        const redco_gpu *gpu);

/** @param name_or_path  preset or file; NULL picks the set of the engine that the machine's GPU names
 *  (redco_gpu_engine()) */
redco_status redco_calibration_read(const char *name_or_path, const redco_machine *machine,
                                    redco_calibration *calibration_out, redco_error *err);
redco_status redco_calibration_from_json(const redco_json_value *value, redco_calibration *calibration_out,
                                         redco_error *err);
/** New reference; accepted by redco_calibration_from_json(). */
json_t *redco_calibration_describe(const redco_calibration *calibration);

#ifdef __cplusplus
}
#endif
#endif
