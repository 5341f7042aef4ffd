#include "tools/cli/overlap_option.h"

#include "planner/plan/plan.h"

#include <string.h>

error_t overlap_option(struct cli *cli, const char *option, const char *text, uint32_t *out)
{
    uint32_t bits = 0;
    if (strcmp(text, "none") == 0 || strcmp(text, "all") == 0) {
        *out = text[0] == 'n' ? REDCO_OVERLAP_NONE : REDCO_OVERLAP_ALL;
        return 0;
    }
    for (const char *at = text;; at++) {
        const size_t length = strcspn(at, ",");
        uint32_t bit = 0;
        while (redco_overlap_words[bit] != NULL &&
               (strlen(redco_overlap_words[bit]) != length || strncmp(redco_overlap_words[bit], at, length) != 0)) {
            bit++;
        }
        if (redco_overlap_words[bit] == NULL) {
            return cli_bad_option(cli, option, "\"%.40s\" is not a list of ag_rs, ar, bc, tp, nor all or none", text);
        }
        bits |= 1U << bit;
        at += length;
        if (*at == '\0') { break; }
    }
    *out = bits;
    return 0;
}
