/** @file overlap_option.h  --overlap of all tools that have it. */
#ifndef REDCO_TOOLS_OVERLAP_OPTION_H
#define REDCO_TOOLS_OVERLAP_OPTION_H

#include "tools/cli/cli.h"

/** A list of ag_rs, ar, bc between commas, "all" or "none", as redco_overlap bits. */
error_t overlap_option(struct cli *cli, const char *option, const char *text, uint32_t *out);

#endif
