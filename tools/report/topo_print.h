/** @file topo_print.h  A node as people read it: tree of the machine, GPU-to-GPU table, summary. */
#ifndef REDCO_TOPO_PRINT_H
#define REDCO_TOPO_PRINT_H

#include "topology/discovery/node.h"

#include <stdio.h>

void topo_print(FILE *out, const redco_node *node);

#endif
