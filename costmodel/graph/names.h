/** @file names.h  A table of names: each text is kept once and has a number, from 0 in the order in which it came.
 *
 *  Names are for people, traces and files. Where one comes in, it becomes a number here; what is compared from there on
 *  are numbers. */
#ifndef REDCO_NAMES_H
#define REDCO_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define REDCO_NO_NAME UINT32_MAX

/** All zero: empty. */
typedef struct redco_names {
    char **texts; /**< they do not move */
    uint32_t count, capacity;
    uint32_t *table; /**< open addressing by hash; REDCO_NO_NAME is empty */
    uint32_t table_size;
} redco_names;

void redco_names_free(redco_names *names);
/** The number of @p text, which is copied if it is new. @return REDCO_NO_NAME if memory is short */
uint32_t redco_names_add(redco_names *names, const char *text);
/** @return REDCO_NO_NAME if it was never added */
uint32_t redco_names_find(const redco_names *names, const char *text);

/** @return whether two parameters' names differ in their leaf only. */
bool redco_same_module(const char *a, const char *b);
/** The shortest end of parameter @p at's name, without its leaf, that no other of @p count names has: at most
 *  REDCO_MODULE_WORDS words, or all of the name. "model.layers.{}.self_attn.q_proj.weight" is "q_proj".
 *  @return @p buffer, cut to fit */
const char *redco_module_label(const char *const *names, uint32_t count, uint32_t at, char *buffer, size_t size);

enum { REDCO_MODULE_WORDS = 8 };

#ifdef __cplusplus
}
#endif
#endif
