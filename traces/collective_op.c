#include "traces/collective_op.h"

#include <ctype.h>
#include <string.h>

static const char *const op_names[REDCO_COLLECTIVE_COUNT] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                                             "reduce",     "all_to_all", "send_recv"};

struct spelling {
    const char *name; /* lower case, no separators */
    redco_collective op;
};

static const struct spelling spellings[] = {
    {"allreduce", REDCO_ALL_REDUCE}, {"allgather", REDCO_ALL_GATHER}, {"reducescatter", REDCO_REDUCE_SCATTER},
    {"broadcast", REDCO_BROADCAST},  {"bcast", REDCO_BROADCAST},      {"reduce", REDCO_REDUCE},
    {"alltoall", REDCO_ALL_TO_ALL},  {"all2all", REDCO_ALL_TO_ALL},   {"sendrecv", REDCO_SEND_RECV},
};

const char *redco_collective_name(redco_collective op)
{
    return (unsigned)op < REDCO_COLLECTIVE_COUNT ? op_names[op] : "unknown";
}

bool redco_collective_parse(const char *name, size_t length, redco_collective *op_out)
{
    char plain[24];
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        const char c = name[i];
        if (c == '_' || c == '-') { continue; }
        if (used + 1 >= sizeof plain) { return false; }
        plain[used++] = (char)tolower((unsigned char)c);
    }
    plain[used] = '\0';
    if (used > 4 && strcmp(plain + used - 4, "perf") == 0) { plain[used - 4] = '\0'; }
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
        if (strcmp(plain, spellings[i].name) == 0) {
            *op_out = spellings[i].op;
            return true;
        }
    }
    return false;
}

double redco_collective_bus_factor(redco_collective op, uint32_t ranks)
{
    const double n = ranks;
    switch (op) {
    case REDCO_ALL_REDUCE: return 2.0 * (n - 1.0) / n;
    case REDCO_ALL_GATHER:
    case REDCO_REDUCE_SCATTER:
    case REDCO_ALL_TO_ALL: return (n - 1.0) / n;
    case REDCO_BROADCAST:
    case REDCO_REDUCE:
    case REDCO_SEND_RECV:
    case REDCO_COLLECTIVE_COUNT: break;
    }
    return 1.0;
}
