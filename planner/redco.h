/** @file redco.h  All public headers of libredco.a; what it reaches is what is installed (tools/install.cmake). It lies
 *  in the planner because that is the last module of the chain: everything it includes is below it. */
#ifndef REDCO_H
#define REDCO_H

#include "costmodel/calibration.h"
#include "costmodel/collective.h"
#include "costmodel/costs.h"
#include "costmodel/model.h"
#include "costmodel/safetensors.h"
#include "costmodel/simulate.h"
#include "costmodel/step.h"
#include "planner/assemble.h"
#include "planner/explain.h"
#include "planner/export/export.h"
#include "planner/inputs.h"
#include "planner/plan/plan.h"
#include "planner/priced.h"
#include "planner/rules.h"
#include "planner/rules_costs.h"
#include "planner/rules_explain.h"
#include "planner/rules_params.h"
#include "planner/rules_roles.h"
#include "planner/rules_user.h"
#include "planner/search.h"
#include "planner/tp_placement.h"
#include "topology/base/file.h"
#include "topology/base/json.h"
#include "topology/base/preset.h"
#include "topology/base/sharding.h"
#include "topology/base/status.h"
#include "topology/base/units.h"
#include "topology/cluster.h"
#include "topology/node.h"
#include "topology/order.h"
#include "topology/topology.h"
#include "traces/trace.h"

#endif
