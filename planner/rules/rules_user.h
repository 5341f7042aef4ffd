/** @file rules_user.h  Rules that a user gives for a parameter tree, before those of RedCoast or instead of them:
 *  {"format":"redco-rules","version":1,"mode":"override","rules":[{"match":"c_proj/kernel","dim":0}]}. What
 *  `redco-rules --json` prints ({"key","spec"}) is such a file, too. A match is one name of a path or several
 *  consecutive ones, compared literally; the first rule that matches a parameter is taken. In a file, numbers in
 *  brackets are ranges as in a host list: "layers/[0-3,8]/mlp/up_proj/kernel" is a rule for each of five layers. */
#ifndef REDCO_RULES_USER_H
#define REDCO_RULES_USER_H

#include "planner/plan/plan.h"
#include "planner/rules/rules.h"
#include "topology/base/json.h"
#include "topology/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { REDCO_USER_RULES_MAX = 10000 };

typedef enum redco_user_mode {
    REDCO_USER_OVERRIDE, /**< before RedCoast's rules, which decide on the rest */
    REDCO_USER_REPLACE   /**< instead of them: every parameter needs a rule */
} redco_user_mode;

/** One rule as it is given. */
typedef struct redco_user_rule {
    const char *match; /**< "c_proj/kernel" */
    int32_t dim;       /**< the dimension to split, or REDCO_RULES_REPLICATED */
    size_t entry;      /**< from 1: the entry of the file that it is from; 0: as many as stand before it, and 1 */
} redco_user_rule;

typedef struct redco_user_rules redco_user_rules;

/** @param path  a file, "-" for standard input. Other members than those above are ignored at the top, not in a rule.
 */
redco_status redco_user_rules_read(const char *path, redco_user_rules **rules_out, redco_error *err);
redco_status redco_user_rules_from_json(const redco_json_value *root, redco_user_rules **rules_out, redco_error *err);
/** @param list   copied
 *  @param place  where they stand, for errors: the index of a rule is appended ("plan.json:/tensor_parallel/rules") */
redco_status redco_user_rules_create(const redco_user_rule *list, size_t count, redco_user_mode mode, const char *place,
                                     redco_user_rules **rules_out, redco_error *err);
/** The rules of a plan, which alone decide. */
redco_status redco_user_rules_of_plan(const redco_plan *plan, const char *place, redco_user_rules **rules_out,
                                      redco_error *err);
void redco_user_rules_free(redco_user_rules *user);

redco_user_mode redco_user_rules_mode(const redco_user_rules *user);
void redco_user_rules_set_mode(redco_user_rules *user, redco_user_mode mode);
size_t redco_user_rules_list(const redco_user_rules *user, const redco_user_rule **list_out);
/** Index of the first rule that matches a path, or REDCO_RULES_NONE; also where @p user is NULL. */
size_t redco_user_rule_of(const redco_user_rules *user, const char *path);

/** redco_rules_decide() with rules of the user's before RedCoast's or instead of them. A rule that matches no
 *  parameter, one that names a dimension which a parameter does not have or whose size the shards do not divide, and in
 *  the mode REDCO_USER_REPLACE a parameter without a rule are errors, which name rule, parameter, shape and shards.
 *  @param user  NULL: RedCoast's alone */
redco_status redco_rules_decide_user(const redco_rules_param *params, size_t count, uint32_t shards,
                                     const redco_user_rules *user, redco_rules **rules_out, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
