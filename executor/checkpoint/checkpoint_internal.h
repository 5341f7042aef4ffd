/** @file checkpoint_internal.h  Shared by the files of executor/checkpoint. */
#ifndef REDCO_CHECKPOINT_INTERNAL_H
#define REDCO_CHECKPOINT_INTERNAL_H

#include "executor/checkpoint/checkpoint.h"
#include "executor/checkpoint/exchange_weights.h"
#include "executor/checkpoint/runs.h"

#include "topology/base/file.h"

enum { REDCOI_CHECKPOINT_VERSION = 1, REDCOI_NAME_SIZE = 320, REDCOI_PATH_SIZE = 4096 };

#define REDCOI_MANIFEST "checkpoint.json"
/* The journal: a manifest without checksums, which lists redco's files in an unfinished checkpoint. */
#define REDCOI_JOURNAL "unfinished.json"
/* The beginning of every manifest. */
#define REDCOI_DOCUMENT_BEGIN "{\n \"format\": \"redco-checkpoint\""

/* A leading dot marks folders that are unfinished or being removed. */
#define REDCOI_STEP_PREFIX "step-"
#define REDCOI_UNFINISHED_PREFIX ".unfinished-step-"
#define REDCOI_REMOVED_PREFIX ".removed-step-"
#define REDCOI_ASIDE_PREFIX "damaged-step-"

/** A file of a checkpoint, the manifest aside. */
typedef struct redcoi_file {
    char name[64];
    uint64_t size_bytes;
    uint64_t header_bytes; /**< header of a safetensors file: its data begin there; other files are all header */
    char header_sha256[REDCO_SHA256_HEX_SIZE];
    unsigned char *header; /**< that is to be written; NULL: it was read */
} redcoi_file;

/** A tensor of a checkpoint. */
typedef struct redcoi_entry {
    char *name;
    redco_tensor_type type; /**< as in the file */
    uint32_t file;
    uint64_t offset_bytes; /**< in the file */
    uint64_t checksum;     /**< redcoi_checksum() of its elements */
} redcoi_entry;

struct redco_checkpoint {
    char *path; /* path of its folder; place of the text where it was parsed */
    redco_checkpoint_info info;
    json_t *content; /* the info's strings and config are in it */
    redcoi_file *files;
    uint32_t file_count;
    redcoi_entry *entries; /* read: by name. To be written: each parameter's weights, then its states */
    uint32_t entry_count;
};

struct redco_checkpoints {
    redco_checkpoints_options options;
    redco_world *world;
    redco_communicator *all;
    int lock;         /* rank 0: the folder, locked; else -1 */
    uint64_t resumed; /* step of the one that was found whole, after newer ones that were not; else UINT64_MAX */
    redco_checkpoint_best best;
    char best_by[32];
};

/* agree.c */

/** Broadcasts the error of the first failed rank: all ranks fail alike.
 *  @param mine        of this rank, with @p err
 *  @param agreed_out  NULL, or whether what comes back is so on all ranks: no peer was lost */
redco_status redcoi_agree(const redco_checkpoints *c, redco_status mine, const char *what, bool *agreed_out,
                          redco_error *err);
/** Broadcasts rank 0's numbers. */
redco_status redcoi_tell(const redco_checkpoints *c, uint64_t *values, uint32_t count, const char *what,
                         redco_error *err);
/** Sums modulo 2^64 over all ranks. */
redco_status redcoi_add_up(const redco_checkpoints *c, uint64_t *values, uint32_t count, const char *what,
                           redco_error *err);

/* catalogue.c */

/** Tensors and files of a checkpoint that is to be written: weights first, each parameter's states behind one another
 *  in further files. The same on all ranks. */
redco_status redcoi_catalogue(const redco_checkpoints_options *options, const redco_checkpoint_info *info,
                              const redco_checkpoint_states *states, redco_checkpoint **checkpoint_out,
                              redco_error *err);
/** Weights alone, in the files that transformers writes. @param path  of the folder that they are written to */
redco_status redcoi_catalogue_weights(const redco_weights_export *options, const redco_checkpoint_states *states,
                                      const char *path, redco_checkpoint **checkpoint_out, redco_error *err);
/** Number of the entry of a checkpoint that is to be written. @param which  REDCO_STATES_WEIGHTS or a state */
/** States of a parameter in the optimizer, which has @p states: those that it does not train have none. */
int redcoi_states_of(const redco_checkpoint_states *states_of, uint32_t parameter, int states);
/** Tensors of all parameters. @param kinds  of a trained one: its weights, then its states */
uint32_t redcoi_entry_count(const redco_checkpoint_states *states, uint32_t kinds);
uint32_t redcoi_entry_number(const redco_checkpoint_states *states, uint32_t parameter, int which);
void redcoi_entry_name(const redco_checkpoint_states *states, uint32_t parameter, int which,
                       char name[REDCOI_NAME_SIZE]);
/** As files have it. */
redco_tensor_type redcoi_entry_type(const redco_task_parameter *parameter, redco_dtype dtype);

/* manifest.c */

/** Formats the manifest of a checkpoint. @return to be freed with free(), NULL when out of memory */
char *redcoi_manifest_text(const redco_checkpoint *checkpoint, size_t *size_out);
/** Reads one. @param folder  of the checkpoint. @param name  REDCOI_MANIFEST or REDCOI_JOURNAL
 *  @return REDCO_EVALUE also if it is of another step than @p step */
redco_status redcoi_manifest_open(const char *folder, const char *name, uint64_t step,
                                  redco_checkpoint **checkpoint_out, redco_error *err);

/** NULL: there is no such tensor in a checkpoint that was read. */
const redcoi_entry *redcoi_entry_find(const redco_checkpoint *checkpoint, const char *name);

/* save.c */

/** Writes this rank's part of all files to the disk. @param kinds  tensors of each parameter: its weights, then its
 * states
 *  @param means  whether this rank writes means of squares, too */
redco_status redcoi_save_part(const redco_checkpoint_states *states, redco_checkpoint *checkpoint, int kinds,
                              bool means, redco_error *err);

/* means.c */

/** A vector of means of squares, all of which every rank has. */
typedef struct redcoi_means {
    const char *name; /**< "NAME.exp_avg_sq_row": of the tensor as files have it */
    double *data;
    uint64_t count;
} redcoi_means;
typedef redco_status (*redcoi_means_visit)(void *context, const redcoi_means *means, redco_error *err);
redco_status redcoi_means_walk(const redco_checkpoint_states *states, redcoi_means_visit visit, void *context,
                               redco_error *err);
uint32_t redcoi_means_count(const redco_checkpoint_states *states);
/** Entries from @p first on: the last ones of a checkpoint. */
redco_status redcoi_means_catalogue(redco_checkpoint *checkpoint, const redco_checkpoint_states *states, uint32_t first,
                                    redco_error *err);
redco_status redcoi_means_save(const redco_checkpoint_states *states, redco_checkpoint *checkpoint,
                               const int *descriptors, redco_error *err);
redco_status redcoi_means_match(const redco_checkpoint *checkpoint, const redco_checkpoint_states *states,
                                redco_error *err);
redco_status redcoi_means_load(const redco_checkpoint *checkpoint, const redco_checkpoint_states *states,
                               const int *descriptors, redco_error *err);

/* store.c: folders and files, by rank 0 alone */

/** @return REDCO_EVALUE if another run has the folder. @param lock_out  to be closed */
redco_status redcoi_store_lock(const char *folder, bool make, int *lock_out, redco_error *err);
/** Lists the steps that have a checkpoint, newest first. @param steps_out  to be freed */
redco_status redcoi_store_list(const char *folder, uint64_t **steps_out, size_t *count_out, redco_error *err);
/** Removes unfinished checkpoints of redco. @param aside  whether foreign files of such names are renamed, or left
 * alone */
void redcoi_store_clean(const redco_checkpoints_options *options, bool aside);
/** Makes the unfinished folder and its files, with headers and room for all data. */
redco_status redcoi_store_begin(const redco_checkpoints_options *options, const redco_checkpoint *checkpoint,
                                redco_error *err);
/** Makes a file of a folder, with its first bytes and room for all. @param path  of the folder, for errors */
redco_status redcoi_store_file(int folder, const char *path, const redcoi_file *file, redco_error *err);
redco_status redcoi_store_flush(const char *path, redco_error *err);
/** Adds the manifest and gives the folder its name. */
redco_status redcoi_store_commit(const redco_checkpoints_options *options, const redco_checkpoint *checkpoint,
                                 redco_error *err);
/** Removes all but the newest checkpoints up to @p step, as many as are to be kept, and @p best; renames those newer
 * than @p resumed except that of @p step. */
redco_status redcoi_store_prune(const redco_checkpoints_options *options, uint64_t step, uint64_t best,
                                uint64_t resumed, redco_error *err);
/** @return whether there is a checkpoint of this step */
bool redcoi_store_has(const char *folder, uint64_t step);

/* remove.c, by rank 0 alone */

/** Renames @p path to an unused name, and reports it. @return whether it could */
bool redcoi_set_aside(const redco_checkpoints_options *options, const char *path, uint64_t step, const char *why);
/** Removes an unchanged checkpoint of redco; renames any other. */
void redcoi_retire(const redco_checkpoints_options *options, uint64_t step);
/** Removes a folder that is unfinished or being removed. @return whether its name is free */
bool redcoi_remove_unfinished(const redco_checkpoints_options *options, const char *path, uint64_t step, bool aside);
/** Removes an unfinished folder that this process has just made, with or without journal. */
void redcoi_remove_made(const char *path, const redco_checkpoint *made);

/* files.c */

void redcoi_store_path(const char *folder, uint64_t step, bool finished, char path[REDCOI_PATH_SIZE]);
void redcoi_store_name(const char *folder, const char *prefix, uint64_t step, char path[REDCOI_PATH_SIZE]);
/** Opens the files of a checkpoint. @param descriptors_out  for redcoi_files_close() */
redco_status redcoi_files_open(const redco_checkpoint *checkpoint, const char *folder, bool write,
                               int **descriptors_out, redco_error *err);
void redcoi_files_close(const redco_checkpoint *checkpoint, int *descriptors);
/** Flushes this rank's files to the disk. */
redco_status redcoi_files_flush(const redco_checkpoint *checkpoint, const char *folder, const int *descriptors,
                                redco_error *err);
/** @param path  for errors: of the folder. @param file  of the checkpoint */
redco_status redcoi_write_at(int descriptor, const void *data, uint64_t size_bytes, uint64_t at_bytes, const char *path,
                             const redcoi_file *file, redco_error *err);
redco_status redcoi_read_at(int descriptor, void *data, uint64_t size_bytes, uint64_t at_bytes, const char *path,
                            const redcoi_file *file, redco_error *err);
/** Checks that the file is regular, and that its size and header are those of the manifest. */
redco_status redcoi_file_check(const redco_checkpoint *checkpoint, uint32_t number, int descriptor, redco_error *err);

/** The offset of a states' tensor in its file. */
redcoi_placing redcoi_placing_of(const redco_checkpoint_states *states, uint32_t tensor);

#endif
