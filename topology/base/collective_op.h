/** @file collective_op.h  The collectives: rules name them, profiles hold them, the cost model prices them, device
 *  communicators run them. */
#ifndef REDCO_COLLECTIVE_OP_H
#define REDCO_COLLECTIVE_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum redco_collective {
    REDCO_ALL_REDUCE,
    REDCO_ALL_GATHER,
    REDCO_REDUCE_SCATTER,
    REDCO_BROADCAST,
    REDCO_REDUCE,
    REDCO_ALL_TO_ALL,
    REDCO_SEND_RECV,
    REDCO_COLLECTIVE_COUNT
} redco_collective;

/** "all_reduce", "all_gather", ..., as files have it. @return static */
const char *redco_collective_name(redco_collective op);
/** "all-reduce", "all-gather", ..., as people write it. @return static */
const char *redco_collective_word(redco_collective op);

/** Reads a name as tools write it: all_reduce, allreduce, AllReduce, all-reduce, all2all, send_recv, ...; a trailing
 *  "_perf" is ignored. @return false if @p length bytes of @p name are no such name */
bool redco_collective_parse(const char *name, size_t length, redco_collective *op_out);

/** The factor by which nccl-tests multiplies size/time to get its bus bandwidth: 2(n-1)/n, (n-1)/n or 1.
 *  Source: nccl-tests, doc/PERFORMANCE.md. */
double redco_collective_bus_factor(redco_collective op, uint32_t ranks);

#ifdef __cplusplus
}
#endif
#endif
