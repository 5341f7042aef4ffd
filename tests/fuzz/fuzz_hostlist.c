/* Host lists: what expands must compact to a list that expands to the same names. */
#include "topology/base/hostlist.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redco_error err = {0};
    redco_hostlist *list = redco_hostlist_new();
    redco_hostlist *again = redco_hostlist_new();
    const redco_status st = redco_hostlist_append(list, (const char *)data, size, "fuzz", &err);
    if ((st == REDCO_OK) != (err.text[0] == '\0')) { abort(); }
    const size_t count = redco_hostlist_count(list);
    if (st == REDCO_OK && count <= 20000) {
        const char **names = calloc(count, sizeof *names);
        for (size_t i = 0; i < count; i++) { names[i] = redco_hostlist_name(list, i); }
        char *text = redco_hostlist_compact(names, count);
        if (redco_hostlist_append(again, text, strlen(text), "again", NULL) != REDCO_OK) { abort(); }
        if (redco_hostlist_count(again) != count) { abort(); }
        for (size_t i = 0; i < count; i++) {
            if (strcmp(redco_hostlist_name(again, i), names[i]) != 0) { abort(); }
        }
        free(text);
        free(names);
    }
    redco_hostlist_free(list);
    redco_hostlist_free(again);
    return 0;
}
