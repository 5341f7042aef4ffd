/** @file dimensions.h  The table of dimensions: a row for each member of redco_parallelism, with its key in plan files,
 *  its word in engine files and its option of redco-plan. Comparing, reading and writing, engines' limits, options,
 *  --dims and the differences of exports follow from it. */
#ifndef REDCO_DIMENSIONS_H
#define REDCO_DIMENSIONS_H

#include "costmodel/schedules/parallelism.h"
#include "topology/base/json.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Abilities of an engine, in redco_engine_file.dimensions; bits. */
enum {
    REDCO_HAS_TP = 1,
    REDCO_HAS_SP = 2,
    REDCO_HAS_PP = 4,
    REDCO_HAS_CHUNKS = 8,
    REDCO_HAS_CP = 16,
    REDCO_HAS_DP = 32,      /**< every engine has it: a file without others is not one without limits */
    REDCO_HAS_GROUPS = 64,  /**< interleaved stages take micro-batches in groups of more than stages */
    REDCO_HAS_STAGES = 128, /**< stages may hold any numbers of layers */
    REDCO_HAS_EP = 256,
    REDCO_HAS_ROUNDS = 512 /**< interleaved stages may take more micro-batches in a row than stages, if all rounds are
                                equal and as many as can be (torch.distributed.pipelining); no dimension of its own */
};

typedef enum redco_dimension_kind {
    REDCO_DIMENSION_NUMBER, /**< uint32_t, from 1 */
    REDCO_DIMENSION_LARGE,  /**< uint64_t, from 1 */
    REDCO_DIMENSION_SWITCH, /**< bool */
    REDCO_DIMENSION_WORD,   /**< an enumeration */
    REDCO_DIMENSION_MESH,   /**< redco_mesh */
    REDCO_DIMENSION_SPLIT   /**< blocks of positions; a plan file has them as its stages */
} redco_dimension_kind;

/** The value that "auto" gives an option. */
typedef enum redco_dimension_auto {
    REDCO_AUTO_NONE, /**< there is no such word */
    REDCO_AUTO_FREE, /**< 0, or of words what the engine has: as without the option */
    REDCO_AUTO_MORE  /**< chosen by the search, where the default is 1 (REDCO_DEGREE_AUTO) */
} redco_dimension_auto;

/** A row. */
typedef struct redco_dimension {
    const char *key; /**< in the plan file, in whichever object */
    redco_dimension_kind kind;
    size_t offset;            /**< in redco_parallelism */
    const char *const *words; /**< enumerations: NULL-terminated */
    uint64_t most;            /**< numbers: the largest */
    bool optional;            /**< older plans lack it, or it is null */
    bool follows;             /**< from others and the number of GPUs */
    bool of_context;          /**< stated only where cp is more than 1 */
    bool listed;              /**< one of "+", which ends the mesh of plans and of what answers and exports print */
    const char *word;         /**< in engine files; NULL: every engine has it */
    uint32_t bit;             /**< REDCO_HAS_... of that word */
    const char *what;         /**< degrees: for people, "pipeline stages" */
    bool in_dims;             /**< --dims names it, by its word */
    const char *option;       /**< redco-plan's, without the dashes; NULL: it has none, or one of another form */
    const char *argument, *help;
    bool may_lack; /**< switches: without a value it is on */
    uint64_t option_most;
    redco_dimension_auto automatic;
    const char *says;    /**< before the value where a report lists what is given; NULL: it is no choice of its own */
    const char *differs; /**< numbers: what an export calls the difference that drops it; NULL: it has its own words */
} redco_dimension;

/** Rows, in their order. */
typedef enum redco_dimension_id {
    REDCO_OF_TP,
    REDCO_OF_CP,
    REDCO_OF_CP_TYPE,
    REDCO_OF_PP,
    REDCO_OF_EP,
    REDCO_OF_ETP,
    REDCO_OF_SEQUENCE_PARALLEL,
    REDCO_OF_CHUNKS,
    REDCO_OF_SCHEDULE,
    REDCO_OF_GROUP,
    REDCO_OF_STAGES,
    REDCO_OF_MICRO_BATCH,
    REDCO_OF_MICRO_BATCHES,
    REDCO_OF_SCHEME,
    REDCO_OF_DP,
    REDCO_OF_SECONDARY,
    REDCO_DIMENSIONS
} redco_dimension_id;

/** The bit of a row in sets of them. */
#define REDCO_STATES(id) (1U << (id))

/** All of them; the last has no key. */
extern const redco_dimension redco_dimensions[REDCO_DIMENSIONS + 1];
/** @return whether it is a number of 1 unless an engine has more */
static inline bool redco_dimension_is_degree(const redco_dimension *dimension)
{
    return dimension->what != NULL;
}
/** The member of a degree, of a layout or of what is given. */
uint32_t *redco_dimension_in(redco_parallelism *parallelism, const redco_dimension *dimension);

/** By the rows in their order: smaller values lead, of switches on, and equal shares before any split.
 *  @return below, equal to or above 0 */
int redco_parallelism_compare(const redco_parallelism *a, const redco_parallelism *b);
/** @return whether all members are the same, splits and what follows from the others aside */
bool redco_parallelism_same(const redco_parallelism *a, const redco_parallelism *b);

/** A new reference, NULL when out of memory. */
json_t *redco_mesh_json(redco_mesh mesh);
/** {"gpus": A, "nodes": B} */
redco_status redco_mesh_read(const redco_json_value *object, const char *key, redco_mesh *out, redco_error *err);
/** The index of a member's text in a NULL-terminated list. */
redco_status redco_word_read(const redco_json_value *object, const char *key, const char *const *words, uint32_t *out,
                             redco_error *err);

/** Sets the members of an object that the keys name, between blanks and in their order; "+": all that are listed.
 *  @return false when out of memory */
bool redco_parallelism_write(const redco_parallelism *parallelism, const char *keys, json_t *object);
/** Reads them; an optional one that is absent keeps its value. */
redco_status redco_parallelism_read(const redco_json_value *object, const char *keys, redco_parallelism *parallelism,
                                    redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
