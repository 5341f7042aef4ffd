/** @file rules_report.h  The output of redco-rules: tables for people, one JSON document for programs. */
#ifndef REDCO_TOOLS_RULES_REPORT_H
#define REDCO_TOOLS_RULES_REPORT_H

#include "planner/rules/rules_explain.h"
#include "planner/rules/rules_params.h"
#include "tools/cli/cli.h"

struct rules_answer {
    redco_rules_tree *tree;
    const redco_rules_param *params; /**< parameters of the tree */
    size_t count;
    redco_rules *rules;
    const redco_rule *list; /**< list of the rules */
    size_t rule_count;
    uint32_t shards;
    bool explain; /**< then what follows is filled */
    redco_rules_setting setting;
    redco_rules_part *parts;
    redco_rules_cost *costs;
    redco_rules_warning *warnings;
    size_t warning_count;
};

/** @return the exit code */
int rules_print_tables(const struct cli *cli, const struct rules_answer *answer);
int rules_print_json(const struct cli *cli, const struct rules_answer *answer);

#endif
