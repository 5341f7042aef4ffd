/** @file fatbins.h  The compiled kernels/NAME.cu, as the assembler put them into the library (CMakeLists.txt). */
#ifndef REDCOI_CUDA_FATBINS_H
#define REDCOI_CUDA_FATBINS_H

#include <stddef.h>

typedef struct redcoi_fatbin {
    const char *name;           /**< "occupy" */
    const unsigned char *image; /**< says itself how long it is */
} redcoi_fatbin;

extern const redcoi_fatbin redcoi_fatbins[];
extern const size_t redcoi_fatbin_count;

#endif
