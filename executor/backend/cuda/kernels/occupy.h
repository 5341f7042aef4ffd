/** @file occupy.h  A kernel that stands for a collective: it keeps its stream busy for a time and moves memory
 * meanwhile.
 *
 *  Few blocks, as NCCL has channels: what it takes from the multiprocessors and from memory is what a collective would
 *  take from the computation beside it. REDCOI_OCCUPY_BLOCKS blocks move up to 1 TB/s or so of a Hopper's memory (each
 *  multiprocessor has REDCOI_OCCUPY_THREADS x 64 bytes on the way): more than collectives over NVLink need, twice or
 *  three times 450 GB/s. What is not moved at the end of the time stays undone. */
#ifndef REDCOI_KERNELS_OCCUPY_H
#define REDCOI_KERNELS_OCCUPY_H

#include <stdint.h>

#define REDCOI_OCCUPY_BLOCKS 16
#define REDCOI_OCCUPY_THREADS 512

struct redcoi_occupy_args {
    uint64_t nanoseconds;
    void *memory;         /**< read, and written with what it holds; aligned to 16 bytes */
    uint64_t size_bytes;  /**< a multiple of 64 x all threads, 0: nothing is moved */
    uint64_t moved_bytes; /**< by all blocks, read and written */
    const void *from;     /**< NULL, or what memory is filled with, again and again, in any case; aligned to 16 bytes */
    uint64_t from_bytes, fill_bytes; /**< the latter from memory on, both multiples of 2 */
};

#endif
