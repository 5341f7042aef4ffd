/* Memory that nobody needs any more, filled with not-a-number (bytes of 255): results show whether somebody reads it.
 */
#ifndef REDCO_TEST_POISON_MEMORY_H
#define REDCO_TEST_POISON_MEMORY_H

#include "executor/memory_plan/planned_memory.h"

/* Fills the memory that nobody needs after a step of the plan's order; REDCO_NO_OP: all of the arena. Waits for the
 * stream. */
redco_status poison_memory(const redco_memory_map *map, redco_backend *backend, redco_device_stream *stream,
                           uint32_t step, redco_error *err);

#endif
