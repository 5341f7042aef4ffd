#include "tools/launched.h"

#include <stdlib.h>

static redco_status number_of(const char *name, uint32_t *out, redco_error *err)
{
    const char *const text = getenv(name);
    char *end = NULL;
    if (text == NULL) { return redco_fail(err, REDCO_EVALUE, name, "is missing, but REDCO_RANK is set"); }
    const unsigned long number = text[0] >= '0' && text[0] <= '9' ? strtoul(text, &end, 10) : 0;
    if (end == NULL || *end != '\0' || number > REDCO_WORLD_MAX) {
        return redco_fail(err, REDCO_EVALUE, name, "\"%.40s\" is not a whole number from 0 to %d", text,
                          REDCO_WORLD_MAX);
    }
    *out = (uint32_t)number;
    return REDCO_OK;
}

redco_status launched_world(redco_world_options *options_out, bool *launched_out, redco_error *err)
{
    redco_world_options options = {.transport = REDCO_TRANSPORT_SOCKET, .address = getenv("REDCO_ADDRESS")};
    *launched_out = getenv("REDCO_RANK") != NULL;
    if (!*launched_out) { return REDCO_OK; }
    redco_status st = number_of("REDCO_RANK", &options.rank, err);
    if (st == REDCO_OK) { st = number_of("REDCO_RANKS", &options.size, err); }
    if (st == REDCO_OK && options.rank >= options.size) {
        st = redco_fail(err, REDCO_EVALUE, "REDCO_RANK", "%u is not below REDCO_RANKS, %u", options.rank, options.size);
    }
    if (st == REDCO_OK && options.address == NULL) {
        st = redco_fail(err, REDCO_EVALUE, "REDCO_ADDRESS", "is missing: HOST:PORT of rank 0");
    }
    if (st == REDCO_OK) { *options_out = options; }
    return st;
}
