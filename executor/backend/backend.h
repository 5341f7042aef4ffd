/** @file backend.h  The table of calls that a device must offer the executor.
 *
 *  Memory is an address that only the backend may follow; address arithmetic stays inside an allocation, so that a
 * planned arena is one allocation. Work is queued on streams, in order within a stream; events order streams among each
 * other. A call that streams returns at once where the device allows it, and the memory that it names must live until
 * the stream has passed it. Errors of queued work may come back from any later call on its stream. A backend belongs to
 * one thread at a time. */
#ifndef REDCO_BACKEND_H
#define REDCO_BACKEND_H

#include "costmodel/graph/fuse_choice.h"
#include "costmodel/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_backend redco_backend;
typedef struct redco_device_stream redco_device_stream; /**< a stream of the device */
typedef struct redco_event redco_event;                 /**< an event: a point in a stream's work */

typedef struct redco_recording redco_recording; /**< work of a stream, to be queued again as a whole */

typedef enum redco_memory {
    REDCO_MEMORY_DEVICE, /**< operators read and write it */
    REDCO_MEMORY_HOST    /**< the program reads and writes it; copies to and from it are fast (pinned) */
} redco_memory;

/** The kind of a stream's work, where several compete for the device. */
typedef enum redco_device_stream_kind {
    REDCO_DEVICE_STREAM_COMPUTATION,
    REDCO_DEVICE_STREAM_COMMUNICATION /**< others wait for it: its kernels, few, go before computation's that have not
                                         begun */
} redco_device_stream_kind;

/** A dense row-major tensor in device memory, aligned to REDCO_ALIGNMENT_BYTES. Vectors (rank 1) of elementwise
 * operators, casts and reductions may be parts of larger ones: aligned to 16 bytes. */
typedef struct redco_tensor {
    redco_tensor_type type;
    void *data;
} redco_tensor;

enum { REDCO_ALIGNMENT_BYTES = 256 };

/** One operator on memory. All of it is borrowed for the call; the data until the stream has passed it.
 *  An output of an elementwise operator may be the memory of an input of the same type, the gradient that
 *  cross_entropy_grad makes that of the logits, matmul_add's that of what is added to; nothing else may overlap. */
typedef struct redco_launch {
    redco_op_kind kind;
    const redco_attributes *attributes;
    uint32_t input_count, output_count;
    const redco_tensor *inputs;
    const redco_tensor *outputs;
    void *workspace;  /**< workspace_bytes() bytes, aligned like tensors; contents are lost */
    const char *name; /**< for errors: "fwd/block.3/qkv" */
} redco_launch;

/** The indices that an operator takes without an error, of a table of @p rows from its offset on: [first, end). */
typedef struct redco_index_range {
    int64_t first, end;
} redco_index_range;
redco_index_range redco_launch_indices(const redco_launch *launch, uint64_t rows);
/** The error of another one. @return REDCO_EVALUE */
redco_status redco_index_refuse(redco_op_kind kind, const char *place, int32_t index, redco_index_range range,
                                redco_error *err);

/** Stands for communication whose other ranks are not there. */
typedef struct redco_occupation {
    double seconds;
    void *memory; /**< NULL, or device memory of @p size_bytes that is read and written over and over */
    uint64_t size_bytes;
    uint64_t moved_bytes; /**< bytes that a collective would read and write of this device's memory meanwhile */
    /** NULL: @p memory holds afterwards what it held. Else it is filled, at least once, with copies of these
     *  @p from_bytes, contiguous, the last one cut; they may lie in @p memory where a copy would come. */
    const void *from;
    uint64_t from_bytes; /**< a multiple of 2 */
} redco_occupation;

typedef struct redco_backend_calls {
    const char *name; /**< "host", "cuda" */
    bool cuda;        /**< a CUDA device: NCCL runs on it */
    bool fuses;       /**< a step is faster with its operators fused */
    bool immediate;   /**< work is done when it is queued, by the thread that queues it; any thread may */
    /** Elements of a long vector that elementwise operators should be given at once: what suits a processor's cache, or
     *  more than there are, where launches count instead. A multiple of 16. */
    uint64_t vector_elements;
    /** The error of event_between(): seconds, and a share of what it says. */
    double clock_resolution_s, clock_resolution_ratio;
    void (*close)(redco_backend *backend);
    /** Another handle to the same device, for another thread: memory, streams and events of one may be used with all.
     *  Closed on its own, before the first. */
    redco_status (*share)(redco_backend *backend, redco_backend **backend_out, redco_error *err);
    /** Device memory that is in use through this handle, and the most that ever was. */
    void (*memory_use)(const redco_backend *backend, uint64_t *live_bytes_out, uint64_t *peak_bytes_out);

    redco_status (*allocate)(redco_backend *backend, redco_memory where, uint64_t size_bytes, void **memory_out,
                             redco_error *err);
    void (*release)(redco_backend *backend, redco_memory where, void *memory); /**< NULL is accepted */

    redco_status (*stream_create)(redco_backend *backend, redco_device_stream_kind kind,
                                  redco_device_stream **stream_out, redco_error *err);
    void (*stream_free)(redco_backend *backend, redco_device_stream *stream);
    /** Waits until the stream is empty. */
    redco_status (*stream_finish)(redco_backend *backend, redco_device_stream *stream, redco_error *err);

    redco_status (*event_create)(redco_backend *backend, redco_event **event_out, redco_error *err);
    void (*event_free)(redco_backend *backend, redco_event *event);
    /** The event is passed when all that was queued before is done. An event may be set again. */
    redco_status (*event_set)(redco_backend *backend, redco_device_stream *stream, redco_event *event,
                              redco_error *err);
    /** Later work of @p stream starts when the event is passed. */
    redco_status (*event_wait)(redco_backend *backend, redco_device_stream *stream, redco_event *event,
                               redco_error *err);
    /** The program waits. */
    redco_status (*event_finish)(redco_backend *backend, redco_event *event, redco_error *err);
    /** Seconds from one passed event to another, on the device's clock. */
    redco_status (*event_between)(redco_backend *backend, redco_event *from, redco_event *to, double *seconds_out,
                                  redco_error *err);

    /** Any of device memory, host memory and memory of the program's own to any. What the program's own memory holds
     * may be read at once, before the stream gets there, and the call may wait for the stream: it is for what is copied
     * once. */
    redco_status (*copy)(redco_backend *backend, redco_device_stream *stream, void *to, const void *from,
                         uint64_t size_bytes, redco_error *err);
    redco_status (*fill_zero)(redco_backend *backend, redco_device_stream *stream, void *to, uint64_t size_bytes,
                              redco_error *err);
    /** The stream is busy for that long, as if a collective ran: by work on the device where it has streams of its own.
     */
    redco_status (*occupy)(redco_backend *backend, redco_device_stream *stream, const redco_occupation *occupation,
                           redco_error *err);

    /** @return whether it has the operator for these types; if not, it is decomposed (transform.h).
     *  data and workspace of @p launch are not looked at. */
    bool (*supports)(const redco_backend *backend, const redco_launch *launch);
    /** Depends on kind, attributes and types only, so that memory can be planned before anything runs. */
    uint64_t (*workspace_bytes)(const redco_backend *backend, const redco_launch *launch);
    /** REDCO_OP_INPUT and collectives are never run, and REDCO_OP_RESHAPE only where its output has memory of its own.
     */
    redco_status (*run)(redco_backend *backend, redco_device_stream *stream, const redco_launch *launch,
                        redco_error *err);

    /** Work that this thread queues on @p stream from here on is kept and not done, until record_end(). It names device
     * and page-locked memory that lives as long as the recording; events are set whenever it is played. Meanwhile the
     * thread waits for nothing, and allocates and releases nothing. NULL: the device takes work piece by piece. */
    redco_status (*record_begin)(redco_backend *backend, redco_device_stream *stream, redco_error *err);
    /** Also after a failure in between. @param recording_out  NULL: it is thrown away */
    redco_status (*record_end)(redco_backend *backend, redco_device_stream *stream, redco_recording **recording_out,
                               redco_error *err);
    /** Queues all of it. */
    redco_status (*record_play)(redco_backend *backend, redco_device_stream *stream, const redco_recording *recording,
                                redco_error *err);
    /** The stream has passed it. NULL is accepted. */
    void (*record_free)(redco_backend *backend, redco_recording *recording);
} redco_backend_calls;

/** The first member of every backend's own structure. */
struct redco_backend {
    const redco_backend_calls *calls;
};

/** The operators that graphs for @p backend may be fused into: those that it supports. */
redco_fuse_choice redco_backend_fuse_choice(redco_backend *backend);

/** NULL is accepted. All of its memory, streams and events must have been freed. */
void redco_backend_close(redco_backend *backend);

#ifdef __cplusplus
}
#endif
#endif
