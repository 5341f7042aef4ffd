/** @file memory.h  Worlds of processes that were forked from one. */
#ifndef REDCO_TESTS_PARITY_MEMORY_H
#define REDCO_TESTS_PARITY_MEMORY_H

#include "executor/comm/transport.h"

struct memory;

/** Before the ranks are forked. @return NULL when out of memory */
struct memory *memory_create(uint32_t ranks);
void memory_free(struct memory *memory); /**< NULL is accepted */
/** By each rank. Who ends without a word must be noticed by the parent: the others wait for two minutes. */
redco_status memory_open(struct memory *memory, uint32_t rank, redco_world **world_out, redco_error *err);

#endif
