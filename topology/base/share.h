/** @file share.h  Shares of counts, rounded up. */
#ifndef REDCO_BASE_SHARE_H
#define REDCO_BASE_SHARE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Counts above it are cut to it: far above any memory, and low enough that a thousand of them still add up. */
extern const uint64_t redco_share_most;

/** ceil(a * b / c) without overflow inside; saturates. @p c > 0 */
uint64_t redco_share_up(uint64_t a, uint64_t b, uint64_t c);

#ifdef __cplusplus
}
#endif
#endif
