#include "costmodel/schedules/strategies.h"

#include <stdio.h>

const redco_strategy_row redco_strategies[REDCO_STRATEGY_COUNT] = {
    [REDCO_STRATEGY_ANY] = {"any", "any", NULL, NULL},
    [REDCO_STRATEGY_DDP] = {"ddp", "DDP", NULL, NULL},
    [REDCO_STRATEGY_ZERO1] = {"zero1", "ZeRO-1", NULL, NULL},
    [REDCO_STRATEGY_ZERO2] = {"zero2", "ZeRO-2", NULL, NULL},
    [REDCO_STRATEGY_ZERO3] = {"zero3", "ZeRO-3", "fsdp", "zero3 without tensor parallelism"},
    [REDCO_STRATEGY_MICS] = {"mics", "MiCS", NULL, NULL},
    [REDCO_STRATEGY_ZEROPP] = {"zeropp", "ZeRO++", NULL, NULL},
    [REDCO_STRATEGY_HSDP] = {"hsdp", "hybrid FSDP", NULL, NULL},
    [REDCO_STRATEGY_AMSP] = {"amsp", "AMSP", NULL, NULL},
};

const char *redco_strategy_list(bool aliases, char *buffer, size_t size)
{
    size_t used = 0;
    for (int i = REDCO_STRATEGY_DDP; i < REDCO_STRATEGY_COUNT && used < size; i++) {
        const redco_strategy_row *const row = &redco_strategies[i];
        const char *const comma = i == REDCO_STRATEGY_DDP                    ? ""
                                  : aliases && i + 1 == REDCO_STRATEGY_COUNT ? " or "
                                                                             : ", ";
        used += (size_t)snprintf(buffer + used, size - used, "%s%s", comma, row->word);
        if (aliases && row->alias != NULL && used < size) {
            used += (size_t)snprintf(buffer + used, size - used, ", %s (%s)", row->alias, row->of_alias);
        }
    }
    return buffer;
}
