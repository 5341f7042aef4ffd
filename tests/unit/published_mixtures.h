/* Parameters of mixtures: transformers 5.24 on the meta device; of grok-1 and deepseek-v3-mtp by their formulas. */
#ifndef REDCO_TEST_PUBLISHED_MIXTURES_H
#define REDCO_TEST_PUBLISHED_MIXTURES_H

#include <stdint.h>

struct published_mixture {
    const char *name; /* its file and, where there is one, its preset */
    uint64_t params;
};

static const struct published_mixture published_mixtures[] = {
    {"mixtral-8x7b", 46702792704},
    {"mixtral-8x22b", 140620634112},
    {"qwen1.5-moe-a2.7b", 14315784192},
    {"qwen2-57b-a14b", 57408658944},
    {"qwen3-30b-a3b", 30532122624},
    {"qwen3-235b-a22b", 235093634560},
    {"deepseek-v2-lite", 15706484224},
    {"deepseek-v2", 235741434880},
    {"deepseek-v3", 671026404352},
    {"kimi-k2", 1026408209408},
    {"gpt-oss-120b", 116829156672},
    {"gpt-oss-20b", 20914757184},
    {"llama-4-scout", 107769861120},
    {"llama-4-maverick", 400711848960},
    {"olmoe-1b-7b", 6919161856},
    {"dbrx", 131596523520},
    {"glm-4.5", 352797814784},
    {"glm-4.5-air", 106852245504},
    {"phi-3.5-moe", 41873153344},
    {"granite-3.0-3b-a800m", 3298793472},
    {"granite-3.0-1b-a400m", 1334628352},
    {"grok-1", 315684820992},
    {"deepseek-v3-mtp", 684489830400},
};

enum {
    PUBLISHED_MIXTURES = sizeof published_mixtures / sizeof published_mixtures[0],
    PUBLISHED_PRESETS = PUBLISHED_MIXTURES - 1 /* the last has none */
};

#endif
