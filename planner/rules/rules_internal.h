/** @file rules_internal.h  Internal to the rules: how those of a user are found and checked. */
#ifndef REDCOI_RULES_INTERNAL_H
#define REDCOI_RULES_INTERNAL_H

#include "planner/rules/rules_user.h"

/** Fails when a rule matches no parameter, naming what could have been meant. */
redco_status redcoi_user_rules_match(const redco_user_rules *user, const redco_rules_param *params, size_t count,
                                     redco_error *err);
/** Says whether a rule has just this text. */
bool redcoi_user_rule_is(const redco_user_rules *user, const char *match);
/** Fails unless a parameter can be split as its rule says. */
redco_status redcoi_user_rule_check(const redco_user_rules *user, size_t rule, const redco_rules_param *param,
                                    uint32_t shards, redco_error *err);
/** Fails: none of them matches a parameter. */
redco_status redcoi_user_rule_missing(const redco_user_rules *user, const redco_rules_param *param, redco_error *err);

#endif
