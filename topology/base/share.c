#include "topology/base/share.h"

const uint64_t redco_share_most = (uint64_t)1 << 53;

__extension__ typedef unsigned __int128 wide;

uint64_t redco_share_up(uint64_t a, uint64_t b, uint64_t c)
{
    const wide product = (wide)a * b + (c - 1);
    /* Dividing 128 bits takes ten times as long. */
    const wide share = product <= UINT64_MAX ? (uint64_t)product / c : product / c;
    return share > redco_share_most ? redco_share_most : (uint64_t)share;
}
