#include "topology/base/collective_op.h"

#include <ctype.h>
#include <string.h>

/* The share of a buffer that each rank's links carry, see redco_collective_bus_factor(). */
enum share { WHOLE, PART, TWO_PARTS };

static const struct {
    const char *name, *word;
    enum share share;
} ops[REDCO_COLLECTIVE_COUNT] = {
    [REDCO_ALL_REDUCE] = {"all_reduce", "all-reduce", TWO_PARTS},
    [REDCO_ALL_GATHER] = {"all_gather", "all-gather", PART},
    [REDCO_REDUCE_SCATTER] = {"reduce_scatter", "reduce-scatter", PART},
    [REDCO_BROADCAST] = {"broadcast", "broadcast", WHOLE},
    [REDCO_REDUCE] = {"reduce", "reduce", WHOLE},
    [REDCO_ALL_TO_ALL] = {"all_to_all", "all-to-all", PART},
    [REDCO_SEND_RECV] = {"send_recv", "send-receive", WHOLE},
};

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
    return (unsigned)op < REDCO_COLLECTIVE_COUNT ? ops[op].name : "unknown";
}

const char *redco_collective_word(redco_collective op)
{
    return (unsigned)op < REDCO_COLLECTIVE_COUNT ? ops[op].word : "unknown";
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
    switch ((unsigned)op < REDCO_COLLECTIVE_COUNT ? ops[op].share : WHOLE) {
    case TWO_PARTS: return 2.0 * (n - 1.0) / n;
    case PART: return (n - 1.0) / n;
    case WHOLE: break;
    }
    return 1.0;
}
