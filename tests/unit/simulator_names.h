/** @file simulator_names.h  Names of the operators that the simulator computes with (costmodel/simulator/step.h), as
 * text: headers of cost model and graph are not for one file. */
#ifndef REDCO_TEST_SIMULATOR_NAMES_H
#define REDCO_TEST_SIMULATOR_NAMES_H

#include "costmodel/models/model.h"

enum { SIMULATOR_NAMES = 512, SIMULATOR_NAME_SIZE = 64 };

/** Forward and backward, without recomputation. @return their number */
size_t simulator_names(const redco_model *model, char names[SIMULATOR_NAMES][SIMULATOR_NAME_SIZE]);

#endif
