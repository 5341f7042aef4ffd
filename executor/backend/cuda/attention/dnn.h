/** @file dnn.h  Attention as a graph of cuDNN 9 backend descriptors, and its execution plan.
 *
 *  A plan depends on the shape alone: pointers and the scale come with each launch. It is made for a device that is
 * there (a handle) or for one that is only described (cuDNN 9.8 and later compile for described devices, "deviceless
 * AOT compilation"), so that what cuDNN accepts, and how much workspace it wants, can be checked on machines without a
 * GPU. */
#ifndef REDCO_CUDA_DNN_H
#define REDCO_CUDA_DNN_H

#include "topology/base/status.h"

#include <cudnn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** The calls that are used. */
typedef struct redcoi_dnn_calls {
    size_t (*version)(void);
    const char *(*error_string)(cudnnStatus_t status);
    void (*last_error)(char *message, size_t size);
    cudnnStatus_t (*create)(cudnnHandle_t *handle);
    cudnnStatus_t (*destroy)(cudnnHandle_t handle);
    cudnnStatus_t (*set_stream)(cudnnHandle_t handle, cudaStream_t stream);
    cudnnStatus_t (*descriptor_create)(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *descriptor);
    cudnnStatus_t (*descriptor_destroy)(cudnnBackendDescriptor_t descriptor);
    cudnnStatus_t (*set)(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t count, const void *elements);
    cudnnStatus_t (*get)(cudnnBackendDescriptor_t const descriptor, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t requested, int64_t *count, void *elements);
    cudnnStatus_t (*finalize)(cudnnBackendDescriptor_t descriptor);
    cudnnStatus_t (*execute)(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack);
} redcoi_dnn_calls;

struct redcoi_device;

/** Loads libcudnn.so.9. @param device  NULL: from where the loader looks */
redco_status redcoi_dnn_load(const struct redcoi_device *device, redcoi_dnn_calls *calls_out, void **library_out,
                             redco_error *err);

/** The key of a plan. Tensors are [batch][tokens][heads][size]; statistics [batch][heads][queries] in float. */
typedef struct redcoi_dnn_shape {
    int32_t type; /**< cudnnDataType_t: CUDNN_DATA_BFLOAT16 or CUDNN_DATA_HALF */
    bool backward, causal;
    int64_t batch, queries, keys, heads, groups, size, value_size;
    int64_t offset; /**< causal: query i sees keys up to i + offset; >= 0 */
    int64_t window; /**< and that many; 0 = all */
} redcoi_dnn_shape;

bool redcoi_dnn_shape_equal(const redcoi_dnn_shape *a, const redcoi_dnn_shape *b);

/** Tensors with memory of their own. Numbers of descriptors (CUDNN_ATTR_TENSOR_UNIQUE_ID). */
typedef enum redcoi_dnn_port {
    REDCOI_DNN_Q = 1,
    REDCOI_DNN_K,
    REDCOI_DNN_V,
    REDCOI_DNN_O,
    REDCOI_DNN_STATISTICS, /**< log-sum-exp */
    REDCOI_DNN_D_O,
    REDCOI_DNN_D_Q,
    REDCOI_DNN_D_K,
    REDCOI_DNN_D_V,
    REDCOI_DNN_SUMS,    /**< sums of dO O: in the workspace */
    REDCOI_DNN_D_Q_SUM, /**< dQ in float: in the workspace */
    REDCOI_DNN_PORTS
} redcoi_dnn_port;

/** Numbers that are given by value with each launch, behind the tensors. */
enum { REDCOI_DNN_SCALARS_MAX = 10 };

typedef union redcoi_dnn_number {
    float real;
    int32_t integer;
} redcoi_dnn_number;

typedef struct redcoi_dnn_graph redcoi_dnn_graph;

/** @param handle  NULL: for a described device
 *  @param deterministic  backward without atomic sums of dQ, at the price of a workspace that grows with queries x keys
 */
redco_status redcoi_dnn_graph_create(const redcoi_dnn_calls *calls, cudnnHandle_t handle, const redcoi_dnn_shape *shape,
                                     bool deterministic, redcoi_dnn_graph **graph_out, redco_error *err);
void redcoi_dnn_graph_free(redcoi_dnn_graph *graph); /**< NULL is accepted */

/** Which numbers a graph takes, and where its descriptor of operations is. */
struct redcoi_dnn_graph {
    const redcoi_dnn_calls *calls;
    redcoi_dnn_shape shape;
    redco_status status;
    redco_error *err;
    cudnnBackendDescriptor_t *descriptors; /**< all, to be destroyed */
    uint32_t descriptor_count, descriptor_room;
    cudnnBackendDescriptor_t operations[48];
    uint32_t operation_count;
    cudnnBackendDescriptor_t whole; /**< the operation graph */
    int64_t next_id;
    int64_t ports[REDCOI_DNN_PORTS]; /**< which are used */
    uint32_t port_count;
    int64_t scalar_ids[REDCOI_DNN_SCALARS_MAX];
    redcoi_dnn_number scalars[REDCOI_DNN_SCALARS_MAX];
    uint32_t scalar_count, scale; /**< entry of the scale */
};

typedef struct redcoi_dnn_plan {
    redcoi_dnn_graph *graph;
    cudnnBackendDescriptor_t plan, config;  /**< the engine's configuration lives as long as the plan */
    uint64_t sums_at, d_q_sum_at, inner_at; /**< in the workspace */
    uint64_t workspace_bytes;
    int64_t engine; /**< number that cuDNN gives it */
} redcoi_dnn_plan;

/** The first engine of the heuristic that can be built.
 *  @param device  NULL with a handle; else a finalized CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR
 *  @return REDCO_ESYSTEM if cuDNN has none for this shape */
redco_status redcoi_dnn_plan_create(const redcoi_dnn_calls *calls, cudnnHandle_t handle,
                                    cudnnBackendDescriptor_t device, const redcoi_dnn_shape *shape, bool deterministic,
                                    redcoi_dnn_plan *plan_out, redco_error *err);
void redcoi_dnn_plan_close(redcoi_dnn_plan *plan); /**< a plan of zeros is accepted */

/** Queues it on the handle's stream.
 *  @param tensors  by redcoi_dnn_port; unused ones, and those in the workspace, NULL */
redco_status redcoi_dnn_plan_run(const redcoi_dnn_plan *plan, cudnnHandle_t handle, void *const *tensors,
                                 void *workspace, double scale, const char *place, redco_error *err);

/** A descriptor that was refused, as an error. @param what "engine heuristics" */
redco_status redcoi_dnn_check(const redcoi_dnn_calls *calls, cudnnStatus_t status, const char *place, const char *what,
                              redco_error *err);

#endif
