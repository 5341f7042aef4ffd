/** @file partition_internal.h  The parts that the files of layouts share: the table of values while a rank's graph
 *  is made. Bytes of collectives are counted in shares of (n-1)/n of a whole tensor's: 1 for a gather or a scatter, 2
 * for an all-reduce. */
#ifndef REDCO_PARTITION_INTERNAL_H
#define REDCO_PARTITION_INTERNAL_H

#include "costmodel/layouts/partition.h"

enum {
    REDCOI_PARTS_MAX = 4,  /**< summands of different layouts */
    REDCOI_COPIES_MAX = 8, /**< layouts in which one value is held */
    REDCOI_BLOCKS_MAX = 6  /**< ways of splitting one dimension that are looked at */
};
#define REDCOI_FORBIDDEN (UINT64_C(1) << 58) /**< more than any graph's bytes: only if nothing else is possible */

typedef struct redcoi_form {
    redco_tp_layout layout;
    redco_value value; /**< in the rank's graph */
} redcoi_form;

/** A value of the whole graph: either held, in one or more layouts, or a sum that was not added up yet. The summands of
 *  a sum may have dimensions of 1 that are repeated. */
typedef struct redcoi_slot {
    redcoi_form copies[REDCOI_COPIES_MAX];
    redcoi_form parts[REDCOI_PARTS_MAX];
    uint32_t copy_count, part_count;
} redcoi_slot;

/** The layout that readers of a value demand, found from the end to the beginning. */
typedef struct redcoi_demand {
    bool any;
    redco_tp_layout layout;
    bool gathered;   /**< a reader can do with nothing but all of it: for others that is free */
    uint32_t voices; /**< readers that demanded anything */
} redcoi_demand;

typedef struct redcoi_builder {
    const redco_graph *global;
    redco_graph *local;
    const redco_partition_options *options;
    uint32_t ranks, rank;
    bool *live;      /**< by operator */
    uint32_t *uses;  /**< by value: live operators and outputs that read it */
    uint32_t *op_of; /**< by operator: its first one in the rank's graph, or REDCO_NO_OP */
    redcoi_slot *slots;
    redcoi_demand *demands;
    const redco_tp_input **given; /**< by value: what an input is to have, or NULL */
    redcoi_demand *weights; /**< by value: split as a parameter that it is made of; such operands are not gathered */
} redcoi_builder;

/** Which dimensions belong together: those of one label are split together. 0: not to be split. An output without an
 * input's label is a partial sum; an input without it is whole. */
typedef struct redcoi_axes {
    uint8_t in[REDCO_INPUTS_MAX][REDCO_RANK_MAX];
    uint8_t out[REDCO_OUTPUTS_MAX][REDCO_RANK_MAX];
    uint32_t count; /**< labels are 1 to count */
} redcoi_axes;

/** A manner in which a rank does an operator. */
typedef enum redcoi_manner {
    REDCOI_PLAIN,      /**< as it is, on smaller tensors */
    REDCOI_ROWS,       /**< index operators of which this rank has some of the rows */
    REDCOI_VOCABULARY, /**< cross-entropy of split logits */
    REDCOI_EXTREME,    /**< maximum over a split dimension */
    REDCOI_OWN_KEYS    /**< attention of split query heads and whole keys */
} redcoi_manner;

typedef struct redcoi_choice {
    redcoi_manner manner;
    redco_tp_layout in[REDCO_INPUTS_MAX], out[REDCO_OUTPUTS_MAX];
    uint64_t extra_bytes; /**< moved by collectives inside */
} redcoi_choice;

/* axes.c */
void redcoi_axes_of(const redco_graph *graph, const redco_op *op, redcoi_axes *axes);
/** The layout of all tensors of @p op when label @p label is split into @p blocks. @return false if it does not divide
 */
bool redcoi_split_label(const redco_graph *graph, const redco_op *op, const redcoi_axes *axes, uint8_t label,
                        uint64_t blocks, uint32_t ranks, redcoi_choice *choice_out);
/** Layouts of moves. @p forward: from the input's to the output's, else back. @return false if there is none */
bool redcoi_move_layout(const redco_graph *graph, const redco_op *op, redco_tp_layout layout, bool forward,
                        uint32_t ranks, redco_tp_layout *layout_out);
/** All inputs of a concatenation along its own axis. @param block  of the parts, as of (whole) dimension / blocks */
bool redcoi_concat_layouts(const redco_graph *graph, const redco_op *op, uint64_t block, uint32_t ranks,
                           redcoi_choice *choice_out);

/* demand.c */
void redcoi_find_demands(redcoi_builder *b, const redco_partition_output *outputs, const redco_tp_layout *layouts,
                         uint32_t count);
void redcoi_find_weights(redcoi_builder *b);
/** Where nothing is demanded: replicated, or split along the sequence. */
redco_tp_layout redcoi_default_layout(const redcoi_builder *b, redco_value value);
redco_tp_layout redcoi_target_layout(const redcoi_builder *b, redco_value value); /**< the demand, or the default */
bool redcoi_is_source(redco_op_kind kind);                                        /**< made on demand, in any layout */

/* convert_layout.c */
void redcoi_hold(redcoi_builder *b, redco_value value, redco_tp_layout layout, redco_value local);
/** The value in a layout; what that takes is added to the rank's graph under the names of @p reader. */
redco_value redcoi_obtain(redcoi_builder *b, redco_value value, redco_tp_layout layout, const redco_op *reader);
/** Bytes that redcoi_obtain() would move; at least REDCOI_FORBIDDEN if it is not possible. */
uint64_t redcoi_obtain_bytes(const redcoi_builder *b, redco_value value, redco_tp_layout layout);
/** Notes a sum without adding layouts of different kinds. */
void redcoi_defer_sum(redcoi_builder *b, const redco_op *op);
/** An all-reduce named after @p like. */
redco_value redcoi_all_reduce(redcoi_builder *b, redco_value local, bool maximum, const redco_op *like);

/* choose.c */
void redcoi_choose(const redcoi_builder *b, const redco_op *op, redcoi_choice *choice_out);

/* apply.c */
void redcoi_apply(redcoi_builder *b, const redco_op *op, const redcoi_choice *choice);

/* insert.c */
/** Adds an operator under @p like's names. */
redco_value redcoi_insert(redcoi_builder *b, const redco_op *like, redco_op_kind kind,
                          const redco_attributes *attributes, const redco_value *inputs, uint32_t count);
void redcoi_insert_all(redcoi_builder *b, const redco_op *like, redco_op_kind kind, const redco_attributes *attributes,
                       const redco_value *inputs, uint32_t count, redco_value *outputs_out);
redco_attributes redcoi_no_attributes(void);
redco_attributes redcoi_sized(const redco_tensor_type *type); /**< that name these dimensions */
void redcoi_mark_group(const redcoi_builder *b, redco_attributes *attributes);
redco_value redcoi_reshape(redcoi_builder *b, const redco_op *like, redco_value value, const redco_tensor_type *type);
/** A part whose place depends on the rank: marked by the group, so that it is no other slice of the same numbers. */
redco_value redcoi_own_slice(redcoi_builder *b, const redco_op *like, redco_value value, uint32_t dim, uint64_t begin,
                             uint64_t size);

#endif
