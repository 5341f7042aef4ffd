#include "costmodel/models/family.h"

#include <stdio.h>
#include <string.h>

#define ADDRESS(type) &redcoi_family_##type,
static const redcoi_family *const families[] = {REDCOI_FAMILIES(ADDRESS)};
enum { FAMILIES = sizeof families / sizeof families[0] };

const redcoi_family *redcoi_family_find(const char *type)
{
    for (size_t i = 0; i < FAMILIES; i++) {
        if (strcmp(families[i]->type, type) == 0) { return families[i]; }
    }
    return NULL;
}

const char *redcoi_family_names(bool to_train, char buffer[REDCOI_FAMILY_NAMES_SIZE])
{
    size_t used = 0;
    for (size_t i = 0; i < FAMILIES && used < REDCOI_FAMILY_NAMES_SIZE; i++) {
        if (families[i]->unlisted || (to_train && (families[i]->untrained || families[i]->experts != NULL))) {
            continue;
        }
        used += (size_t)snprintf(buffer + used, REDCOI_FAMILY_NAMES_SIZE - used, "%s%s", used > 0 ? ", " : "",
                                 families[i]->type);
    }
    return buffer;
}
