/** @file switch_tree.h  Internal: the switches above the hosts, from a Slurm topology.conf or from a cluster file. */
#ifndef REDCOI_SWITCH_TREE_H
#define REDCOI_SWITCH_TREE_H

#include "topology/base/hostlist.h"
#include "topology/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REDCOI_NO_SWITCH UINT32_MAX

enum {
    REDCOI_MAX_TIERS = 16, /**< switches above one another, leaf included */
    REDCOI_MAX_SWITCH_NAME_BYTES = 64
};

/** A leaf has hosts, an upper switch has children; never both. */
typedef struct redcoi_switch {
    char *name;
    char *place; /**< where it was read, for errors */
    uint32_t parent;
    uint32_t first_host, host_count; /**< in the tree's hosts; 0 hosts = an upper switch */
    uint32_t first_child, child_count;
} redcoi_switch;

/** A forest: several switches may have no parent. */
typedef struct redcoi_tree {
    redcoi_switch *switches; /**< in file order */
    uint32_t switch_count, switch_capacity;
    redco_hostlist *hosts;       /**< leaf by leaf */
    redco_hostlist *child_names; /**< switch by switch */
    uint32_t *children;          /**< switch of each child name */
    char *source;                /**< for errors about the whole */
    bool blocks;                 /**< Slurm's: leaves are blocks of topology/block */
} redcoi_tree;

redcoi_tree *redcoi_tree_new(const char *source); /**< NULL when out of memory */
void redcoi_tree_free(redcoi_tree *tree);

/** Adds a leaf (@p nodes) or an upper switch (@p children); exactly one of the two host lists must be there. */
redco_status redcoi_tree_add(redcoi_tree *tree, const char *name, size_t name_size, const char *nodes,
                             size_t nodes_size, const char *children, size_t children_size, const char *place,
                             redco_error *err);
/** Links parents; refuses duplicates, unknown children, second parents and cycles. */
redco_status redcoi_tree_finish(redcoi_tree *tree, redco_error *err);

/** @return whether a text is a topology.yaml */
bool redcoi_is_slurm_yaml(const char *text, size_t size);
/** The topology.conf that says what a topology.yaml does. @param conf_out  to be freed */
redco_status redcoi_slurm_yaml(const char *text, size_t size, const char *name, char **conf_out, size_t *size_out,
                               redco_error *err);
/** Reads a topology.conf of Slurm's topology/tree or topology/block plug-in, its topology.yaml, or what "scontrol show
 *  topology" prints. */
redco_status redcoi_tree_from_slurm(const char *text, size_t size, const char *name, redcoi_tree **tree_out,
                                    redco_error *err);

/** A sorted view of names: for look-up and for finding duplicates. */
typedef struct redcoi_name {
    const char *name;
    uint32_t index;
} redcoi_name;

/** Sorts by name, then index. */
void redcoi_names_sort(redcoi_name *names, size_t count);
/** @return index of @p name, or UINT32_MAX */
uint32_t redcoi_names_find(const redcoi_name *names, size_t count, const char *name);
/** The name whose second use comes first in index order, or NULL if all differ.
 *  @param first_out, second_out  indices of both uses */
const char *redcoi_names_duplicate(const redcoi_name *names, size_t count, uint32_t *first_out, uint32_t *second_out);

#endif
