/** @file checkpoint_internal.h  What the files of executor/checkpoint share. */
#ifndef REDCO_CHECKPOINT_INTERNAL_H
#define REDCO_CHECKPOINT_INTERNAL_H

#include "executor/checkpoint/checkpoint.h"
#include "executor/checkpoint/runs.h"

#include "topology/base/file.h"

enum { REDCOI_CHECKPOINT_VERSION = 1, REDCOI_NAME_SIZE = 320, REDCOI_PATH_SIZE = 4096 };

#define REDCOI_MANIFEST "checkpoint.json"

/** A file of a checkpoint, the manifest aside. */
typedef struct redcoi_file {
    char name[64];
    uint64_t size_bytes;
    uint64_t header_bytes; /**< of a safetensors file: its data begin there; of others all */
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
    char *path; /* of its folder; of the text where it was parsed */
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
};

/* agree.c */

/** The first rank that failed tells all others why: they fail alike.
 *  @param mine        of this rank, with @p err
 *  @param agreed_out  NULL, or whether what comes back is so on all ranks: no peer was lost */
redco_status redcoi_agree(const redco_checkpoints *c, redco_status mine, const char *what, bool *agreed_out,
                          redco_error *err);
/** Rank 0's numbers for all. */
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
/** Number of the entry of a checkpoint that is to be written. @param which  REDCO_STATES_WEIGHTS or a state */
uint32_t redcoi_entry_number(const redco_checkpoint_states *states, uint32_t parameter, int which);
void redcoi_entry_name(const redco_checkpoint_states *states, uint32_t parameter, int which,
                       char name[REDCOI_NAME_SIZE]);
/** As files have it. */
redco_tensor_type redcoi_entry_type(const redco_task_parameter *parameter, redco_dtype dtype);

/* manifest.c */

/** The document of a checkpoint. @return to be freed with free(), NULL when out of memory */
char *redcoi_manifest_text(const redco_checkpoint *checkpoint, size_t *size_out);

/* store.c: folders and files, by rank 0 alone */

/** @return REDCO_EVALUE if another run has the folder. @param lock_out  to be closed */
redco_status redcoi_store_lock(const char *folder, bool make, int *lock_out, redco_error *err);
/** Steps of which there is a checkpoint, newest first. @param steps_out  to be freed */
redco_status redcoi_store_list(const char *folder, uint64_t **steps_out, size_t *count_out, redco_error *err);
void redcoi_store_path(const char *folder, uint64_t step, bool finished, char path[REDCOI_PATH_SIZE]);
void redcoi_store_clean(const char *folder);
/** Makes the unfinished folder and its files, with headers and room for all data. */
redco_status redcoi_store_begin(const char *folder, const redco_checkpoint *checkpoint, redco_error *err);
/** Adds the manifest and gives the folder its name. */
redco_status redcoi_store_commit(const char *folder, const redco_checkpoint *checkpoint, redco_error *err);
/** Removes all but the @p keep newest up to @p step; none newer than @p resumed counts but that of @p step itself. */
redco_status redcoi_store_prune(const char *folder, uint64_t step, uint64_t resumed, uint32_t keep, redco_error *err);

/* files.c */

/** The files of a checkpoint, opened. @param descriptors_out  for redcoi_files_close() */
redco_status redcoi_files_open(const redco_checkpoint *checkpoint, const char *folder, bool write,
                               int **descriptors_out, redco_error *err);
void redcoi_files_close(const redco_checkpoint *checkpoint, int *descriptors);
/** What this rank wrote is on the disk. */
redco_status redcoi_files_flush(const redco_checkpoint *checkpoint, const char *folder, const int *descriptors,
                                redco_error *err);
/** @param path  for errors: of the folder. @param file  of the checkpoint */
redco_status redcoi_write_at(int descriptor, const void *data, uint64_t size_bytes, uint64_t at_bytes, const char *path,
                             const redcoi_file *file, redco_error *err);
redco_status redcoi_read_at(int descriptor, void *data, uint64_t size_bytes, uint64_t at_bytes, const char *path,
                            const redcoi_file *file, redco_error *err);
/** Sizes and headers are those of the manifest. */
redco_status redcoi_files_check(const redco_checkpoint *checkpoint, const int *descriptors, redco_error *err);

/** Where the values of a tensor of the states are in its file. */
redcoi_placing redcoi_placing_of(const redco_checkpoint_states *states, uint32_t tensor);

#endif
