#include "topology/base/recomputation.h"

#include <stdio.h>
#include <string.h>

const char *const redco_recompute_modules[] = {"core_attn", "layernorm", "mla_up_proj",    "mlp",
                                               "moe_act",   "moe",       "shared_experts", NULL};

const char redco_recompute_known[] =
    "none, selective, half, full, or modules joined by +: core_attn, layernorm, mla_up_proj, mlp, moe_act, moe, "
    "shared_experts";

/* Words for whole sets. */
static const struct word {
    const char *text;
    redco_recompute set;
    bool half;
} words[] = {{"none", REDCO_RECOMPUTE_NONE, false},
             {"selective", REDCO_RECOMPUTE_CORE_ATTN, false},
             {"half", REDCO_RECOMPUTE_FULL, true},
             {"full", REDCO_RECOMPUTE_FULL, false}};

enum { WORDS = sizeof words / sizeof words[0] };

const char *redco_recompute_text(redco_recompute set, bool half, char *buffer, size_t size)
{
    size_t used = 0;
    buffer[0] = '\0';
    for (size_t i = 0; i < WORDS; i++) {
        if (words[i].set == set && (set != REDCO_RECOMPUTE_FULL || words[i].half == half)) {
            (void)snprintf(buffer, size, "%s", words[i].text);
            return buffer;
        }
    }
    for (size_t m = 0; redco_recompute_modules[m] != NULL && used < size; m++) {
        if ((set >> m & 1) == 0) { continue; }
        (void)snprintf(buffer + used, size - used, "%s%s", used > 0 ? "+" : "", redco_recompute_modules[m]);
        used += strlen(buffer + used);
    }
    return buffer;
}

static redco_recompute module_of(const char *text, size_t length)
{
    for (size_t m = 0; redco_recompute_modules[m] != NULL; m++) {
        if (strlen(redco_recompute_modules[m]) == length && strncmp(redco_recompute_modules[m], text, length) == 0) {
            return (redco_recompute)1 << m;
        }
    }
    return 0;
}

bool redco_recompute_parse(const char *text, redco_recompute *set_out, bool *half_out)
{
    redco_recompute set = 0;
    for (size_t i = 0; i < WORDS; i++) {
        if (strcmp(words[i].text, text) == 0) {
            *set_out = words[i].set;
            *half_out = words[i].half;
            return true;
        }
    }
    for (;; text++) {
        const size_t length = strcspn(text, "+");
        const redco_recompute module = module_of(text, length);
        if (module == 0) { return false; }
        set |= module;
        text += length;
        if (*text == '\0') { break; }
    }
    *set_out = set;
    *half_out = false;
    return true;
}

uint32_t redco_recompute_find(const redco_recompute_list *list, redco_recompute set)
{
    uint32_t i = 0;
    while (i < list->count && list->sets[i] != set) { i++; }
    return i;
}

bool redco_recompute_add(redco_recompute_list *list, redco_recompute set)
{
    uint32_t at = 0;
    if (redco_recompute_has(list, set)) { return true; }
    if (list->count == REDCO_RECOMPUTE_SETS) { return false; }
    while (at < list->count && list->sets[at] < set) { at++; }
    memmove(&list->sets[at + 1], &list->sets[at], (list->count - at) * sizeof set);
    list->sets[at] = set;
    list->count++;
    return true;
}

void redco_recompute_drop(redco_recompute_list *list, redco_recompute set)
{
    const uint32_t at = redco_recompute_find(list, set);
    if (at == list->count) { return; }
    list->count--;
    memmove(&list->sets[at], &list->sets[at + 1], (list->count - at) * sizeof set);
}

redco_recompute redco_recompute_union(const redco_recompute_list *list)
{
    redco_recompute modules = 0;
    for (uint32_t i = 0; i < list->count; i++) { modules |= list->sets[i]; }
    return modules & (redco_recompute)(REDCO_RECOMPUTE_FULL - 1);
}
