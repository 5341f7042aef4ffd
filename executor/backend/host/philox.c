/* Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. */
#include "executor/backend/host/kernels.h"

void redcoi_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t words_out[4])
{
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]}, k[2] = {key[0], key[1]};
    for (uint32_t round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53 * c[0], p1 = (uint64_t)0xCD9E8D57 * c[2];
        const uint32_t next[4] = {(uint32_t)(p1 >> 32) ^ c[1] ^ k[0], (uint32_t)p1, (uint32_t)(p0 >> 32) ^ c[3] ^ k[1],
                                  (uint32_t)p0};
        for (uint32_t i = 0; i < 4; i++) { c[i] = next[i]; }
        k[0] += 0x9E3779B9;
        k[1] += 0xBB67AE85;
    }
    for (uint32_t i = 0; i < 4; i++) { words_out[i] = c[i]; }
}
