/** @file trainer_internal.h  Internal to executor/trainer. */
#ifndef REDCOI_TRAINER_INTERNAL_H
#define REDCOI_TRAINER_INTERNAL_H

#include "costmodel/layouts/tensor_layout.h"
#include "costmodel/models/language_model.h"
#include "executor/checkpoint/exchange_weights.h"
#include "executor/comm/graph_collectives.h"
#include "executor/data/initial.h"
#include "executor/data/tokens.h"
#include "executor/pipeline/collector.h"
#include "executor/reference/reference.h"
#include "executor/schedule/schedule.h"
#include "executor/states/states.h"
#include "executor/trainer/stage.h"
#include "executor/trainer/trainer.h"

/** Parameters grouped as states want them; parameter i of the task is tensor i. */
typedef struct redcoi_modules {
    redco_state_layer *layers;
    redco_state_module *modules;
    redco_state_tensor *tensors;
    redco_state_matrix *matrices; /* ranks of tensor parallelism are set later */
    char (*layer_names)[48];
    char (*module_names)[64];
    uint32_t *numbers;    /* by layer: of the step */
    size_t *parameter_of; /* by tensor: of the whole task */
    redco_state_model model;
} redcoi_modules;

/** The subject of a training and its data: a language model on tokens, or a pipeline on records. */
typedef struct redcoi_subject {
    redco_model *model;
    redco_language_model *lm; /* NULL of a pipeline */
    redco_tokens *tokens;     /* likewise */
    redco_task own;           /* a pipeline's */
    const redco_task *task;
    redco_task weighed;              /* the same task, whose loss is weighed; or all zero */
    const redco_examples *examples;  /* borrowed; of a language model whose examples have targets of their own */
    const redco_records *records;    /* borrowed; NULL of a language model */
    redco_user_collector *collector; /* a pipeline's that makes its examples, or has a state or a report */
    bool collects;                   /* it makes them */
    uint64_t seed;
    bool in_order;
} redcoi_subject;

/** @param subject  all zero; to be closed, also after a failure */
redco_status redcoi_subject_open(const redco_plan *plan, const char *place, const redco_trainer_options *options,
                                 redcoi_subject *subject, redco_error *err);
void redcoi_subject_close(redcoi_subject *subject);
/** Inputs of a micro-batch, into memory of their types, and the key of its random numbers: the same whoever makes it.
 */
redco_status redcoi_subject_batch(const redcoi_subject *subject, const redco_batch_place *place, void *const *inputs,
                                  int32_t key_out[2], redco_error *err);
/** Examples of an epoch; 0 if they never repeat. */
uint64_t redcoi_subject_examples(const redcoi_subject *subject);
/** Memory for the inputs of a micro-batch. @return false when out of memory. @param inputs_out  each to be freed */
bool redcoi_subject_take_inputs(const redcoi_subject *subject, void **inputs_out);

typedef struct redcoi_policy redcoi_policy; /* collect.h */

struct redco_baseline {
    redcoi_subject subject;
    redco_trainer_options options;
    redco_backend *backend;
    redco_reference *reference;
    redcoi_policy *policy; /* predictions for collect(); NULL before the first */
    uint32_t seq_len;
    uint64_t sequences; /* in a step */
    double **drift;     /* [parameter][element] how far rounding of its gradients may have moved it; NULL: 16 bits */
    redco_trainer_step *steps;
    uint64_t step_count;
};

enum { REDCOI_DEVICES_MAX = 16, REDCOI_PAIR_COLOURS = 3 };
#define REDCO_NO_OUTPUT UINT32_MAX

struct redco_trainer {
    redco_trainer_start start;
    const redco_plan *plan;
    const char *place;
    redco_trainer_options options;
    redco_world *world;
    redco_rank_mesh mesh;
    redco_place at;
    redcoi_subject subject;
    redco_model *model; /* the subject's, as those below */
    redco_language_model *lm;
    const redco_task *whole; /* the subject's */
    const redco_task *task;  /* its part that this rank's stage has, or the same */
    redco_task stage_task;
    redco_task_parameter *stage_parameters;
    bool *written_elsewhere;        /* by tensor: an earlier stage has it, too, and writes it; NULL without stages */
    redco_tp_layout *whole_layouts; /* layouts of the whole task's parameters */
    redcoi_stage stage;
    redcoi_crossings crossings;
    redco_process_group *pairs[2][REDCOI_PAIR_COLOURS]; /* with neighbouring stages: forward and backward */
    redco_stage_links links;
    redco_step *own_step;        /* the stage's; NULL: the whole step is */
    redco_weights *file_weights; /* that training begins with, until they are read */
    redco_backend *backend;
    const redco_backend *devices[REDCOI_DEVICES_MAX]; /* the schedule's, one for each of its threads */
    uint32_t device_count;
    redco_tp_layout *layouts; /* layouts of parameters */
    redcoi_modules modules;
    redco_states *states;
    redco_states_worker *worker; /* for what is done between steps */
    redco_schedule *schedule;
    redco_device_comm *device_comm;
    bool replay;                            /* the device communicator is one rank's of a larger world */
    redco_process_group *tp;                /* works on the backend's memory; the two others on the program's */
    redco_communicator *tp_host, *replicas; /* replicas: ranks of the same place in tensor parallelism */
    redco_group_binding group;
    redco_process_group_collectives process_groups;
    redco_collectives collectives;
    redco_graph *graph;   /* this rank's */
    redco_value *outputs; /* the loss, gradients of the parameters that have one, what leaves the stage */
    uint32_t *output_of;  /* by parameter of the whole task, behind them the loss: in outputs, or REDCO_NO_OUTPUT */
    uint32_t output_count;
    redco_value *gradients; /* by parameter, REDCO_NO_VALUE: none */
    void **weights;         /* weights of modules, gathered to be looked at; NULL where they are not gathered */
    redco_value *inputs;    /* the task's, then the key */
    void **fed;             /* their values, in the program's memory */
    int32_t key[2];
    uint64_t step;
    redcoi_policy *policy; /* predictions for collect(); NULL before the first */
};

/** @return REDCO_EVALUE in a replay: @p what ("a checkpoint") would say nothing */
static inline redco_status redcoi_trainer_real(const redco_trainer *t, const char *what, redco_error *err)
{
    if (!t->replay) { return REDCO_OK; }
    return redco_fail(err, REDCO_EVALUE, t->place, "%s of rank %u alone: its communication is emulated", what,
                      t->device_comm->rank);
}

/** @param modules         all zero; to be freed with redcoi_modules_free(), also after a failure
 *  @param decay_matrices  see redco_trainer_options
 *  @param stage           whose parameters are wanted; NULL: all */
redco_status redcoi_modules_make(redcoi_modules *modules, const redco_plan *plan, const redco_model *model,
                                 const redco_task *task, const redco_tp_layout *layouts, bool decay_matrices,
                                 const redcoi_stage *stage, redco_error *err);
void redcoi_modules_free(redcoi_modules *modules);

/** Copies the part of tensor-parallel rank @p rank out of a whole tensor.
 *  @param layout  replicated or split; fits @p whole */
void redcoi_part_take(redco_tp_layout layout, const redco_tensor_type *whole, uint32_t ranks, uint32_t rank,
                      const void *data, void *part_out);
/** Copies that part back to its place in the whole tensor. */
void redcoi_part_put(redco_tp_layout layout, const redco_tensor_type *whole, uint32_t ranks, uint32_t rank,
                     const void *part, void *data);

/** Takes what products on the host need beside their operands, or says that there is none. */
redco_status redcoi_room_for_products(redco_backend *backend, redco_error *err);

/** The tensors in checkpoints and files of weights. */
redco_checkpoint_states redcoi_checkpoint_states(const redco_trainer *trainer);

/** The same part, where it is drawn. */
redco_drawn_part redcoi_part_drawn(redco_tp_layout layout, const redco_task_parameter *parameter, uint32_t ranks,
                                   uint32_t rank);

/** Compares something that a pipeline's functions made with rank 0's.
 *  @param made, rule  of the error, which all ranks have where one has another digest: "MADE on rank 3 than on rank 0;
 *                     RULE" */
redco_status redcoi_ranks_agree(redco_trainer *trainer, uint64_t digest, const char *made, const char *rule,
                                redco_error *err);

/** Graph and outputs of the rank: from the task, its part of tensor parallelism, its stage's part. */
redco_status redcoi_rank_graph_build(redco_trainer *trainer, redco_error *err);
/** Values that backward computes again instead of finding them. */
redco_status redcoi_rank_graph_recompute(redco_trainer *trainer, redco_error *err);

/* stage_links.c; without stages these do nothing */
redco_status redcoi_stage_task(redco_trainer *trainer, redco_error *err);
redco_status redcoi_stage_sharers(const redco_trainer *trainer, uint32_t by[2], redco_error *err);
redco_status redcoi_stage_join(redco_trainer *trainer, redco_error *err);
redco_stage_links redcoi_stage_links_of(const redco_trainer *trainer);
void redcoi_stage_find_crossings(redco_trainer *trainer);
void redcoi_stage_leave(redco_trainer *trainer);

/** The rank's graph as its device does it. */
redco_status redcoi_trainer_fuse(redco_trainer *trainer, redco_error *err);

/** All modules' weights as this rank computes with them, between steps. */
redco_status redcoi_weights_gather(redco_trainer *trainer, redco_error *err);
/** First weights that the options name. @param weights_out  stays NULL where all are drawn */
redco_status redcoi_weights_open(const redco_trainer_options *options, const redco_task *task, const redco_model *model,
                                 redco_weights **weights_out, redco_error *err);
const void *redcoi_weights_of(const redco_trainer *trainer, uint32_t module); /**< gathered before */
/** Into the program's memory. */
redco_status redcoi_weights_read(const redco_trainer *trainer, uint32_t module, void *to, redco_error *err);

/** @return whether there is such an element. The same answer on all ranks. */
redco_status redcoi_check_fault(const redco_trainer *trainer, redco_error *err);
/** After a step, by all ranks: changes the element on its rank if the time has come. */
redco_status redcoi_fault_inject(redco_trainer *trainer, redco_error *err);

#endif
