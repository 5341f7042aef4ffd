/** @file redco.h  All public headers of libredco.a; what it reaches is what is installed (tools/install.cmake). It lies
 *  in the planner because that is the last module of the chain: everything it includes is below it. */
#ifndef REDCO_H
#define REDCO_H

#include "costmodel/closed_form/costs.h"
#include "costmodel/collectives/collective.h"
#include "costmodel/engines/calibration.h"
#include "costmodel/models/model.h"
#include "costmodel/models/safetensors.h"
#include "costmodel/simulator/simulate.h"
#include "costmodel/simulator/step.h"
#include "planner/answer/explain.h"
#include "planner/answer/priced.h"
#include "planner/assemble/assemble.h"
#include "planner/assemble/inputs.h"
#include "planner/export/export.h"
#include "planner/plan/plan.h"
#include "planner/rules/rules.h"
#include "planner/rules/rules_costs.h"
#include "planner/rules/rules_explain.h"
#include "planner/rules/rules_params.h"
#include "planner/rules/rules_roles.h"
#include "planner/rules/rules_user.h"
#include "planner/search/search.h"
#include "planner/tensor_parallel/tp_placement.h"
#include "topology/base/file.h"
#include "topology/base/json.h"
#include "topology/base/preset.h"
#include "topology/base/sharding.h"
#include "topology/base/status.h"
#include "topology/base/units.h"
#include "topology/discovery/cluster.h"
#include "topology/discovery/node.h"
#include "topology/discovery/order.h"
#include "topology/discovery/topology.h"
#include "traces/trace.h"

#endif
