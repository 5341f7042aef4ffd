#include "costmodel/evaluation/set_rules.h"

#include <string.h>
#include <strings.h>

static const redco_set_rule rules[] = {
    /* One for each class of GPU and of software. */
    {"a100-eager", "prior-a100-eager", {"A100", "A800"}, REDCO_SOFTWARE_EAGER, NULL, false},
    {"a100-megatron", "prior-a100-megatron", {"A100"}, REDCO_SOFTWARE_MEGATRON, NULL, false},
    {"h100-eager", "prior-h100-eager", {"H100"}, REDCO_SOFTWARE_EAGER, NULL, false},
    {"h100-te", "prior-h100-te", {"H100"}, REDCO_SOFTWARE_TE_XLA, NULL, false},
    {"blackwell-te", "prior-blackwell-te", {"B200", "GB200", "GB300"}, REDCO_SOFTWARE_TE_XLA, NULL, false},
    {"blackwell-eager", "prior-h100-eager", {"B200", "GB200", "GB300"}, REDCO_SOFTWARE_EAGER, NULL, true},
    /* One for each framework with runs enough. */
    {"a800-amsp", "prior-a100-eager", {"A800"}, REDCO_SOFTWARE_UNKNOWN, "amsp", false},
    {"a100-llm-foundry", "prior-a100-eager", {"A100"}, REDCO_SOFTWARE_UNKNOWN, "llm-foundry", false},
    {"a100-aleph-alpha", "prior-a100-eager", {"A100"}, REDCO_SOFTWARE_UNKNOWN, "aleph-alpha", false},
    {"a100-megatron-deepspeed", "prior-a100-megatron", {"A100"}, REDCO_SOFTWARE_UNKNOWN, "megatron-deepspeed", false},
    {"a100-megatron-lm", "prior-a100-megatron", {"A100"}, REDCO_SOFTWARE_MEGATRON, "megatron-lm", false},
    {"h100-nemo", "prior-h100-te", {"H100"}, REDCO_SOFTWARE_UNKNOWN, "nemo", false},
    {"h100-maxtext", "prior-h100-te", {"H100"}, REDCO_SOFTWARE_UNKNOWN, "maxtext", false},
    {"blackwell-megatron-bridge",
     "prior-blackwell-te",
     {"B200", "GB200", "GB300"},
     REDCO_SOFTWARE_UNKNOWN,
     "megatron-bridge",
     false},
};
enum { RULES = sizeof rules / sizeof rules[0] };

/* An H200 is an H100 with the memory of its own data sheet: nobody published runs of one. */
static const char *const copies[][2] = {{"h200-eager", "h100-eager"}, {"h200-te", "h100-te"}};

const redco_set_rule *redco_set_rules(size_t *count_out)
{
    *count_out = RULES;
    return rules;
}

const redco_set_rule *redco_set_rule_find(const char *name)
{
    for (size_t i = 0; i < sizeof copies / sizeof copies[0]; i++) {
        if (strcmp(name, copies[i][0]) == 0) { name = copies[i][1]; }
    }
    for (size_t i = 0; i < RULES; i++) {
        if (strcmp(name, rules[i].name) == 0) { return &rules[i]; }
    }
    return NULL;
}

bool redco_set_rule_takes(const redco_set_rule *rule, const redco_measured_run *run)
{
    bool gpu = false;
    for (size_t i = 0; i < REDCO_SET_GPUS && rule->gpus[i] != NULL; i++) {
        gpu = gpu || strncasecmp(run->gpu, rule->gpus[i], strlen(rule->gpus[i])) == 0;
    }
    return !rule->derived && gpu && (rule->software == REDCO_SOFTWARE_UNKNOWN || run->software == rule->software) &&
           (rule->framework == NULL || strcmp(run->framework, rule->framework) == 0);
}
