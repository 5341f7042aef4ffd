#include "topology/topology.h"

#include <stdio.h>
