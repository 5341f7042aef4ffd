#include "costmodel/saving/saving_rules.h"

#include "topology/base/share.h"

/* The sum of a rule's sites in bytes, split over the ranks that share a sequence where nothing else cuts them. */
struct sum {
    uint64_t cut, whole;
};

static uint64_t elements_of(const redco_extent *extent, const uint64_t sizes[REDCO_AXIS_COUNT])
{
    uint64_t count = extent->factor;
    for (unsigned a = 0; a < REDCO_AXIS_COUNT; a++) {
        for (unsigned i = 0; i < extent->power[a]; i++) { count = redco_share_up(count, sizes[a], 1); }
    }
    return count;
}

/* @param ffn_alone  only tensors that an FFN's products read */
static struct sum sum_of(const redco_saving_rule *rule, const redco_layer_site *sites, uint32_t count,
                         const redco_saving_case *rank, bool ffn_alone)
{
    const uint64_t bytes = rank->narrow ? rule->narrow_bytes : rule->bytes;
    uint64_t cut = 0, split = 0;
    if ((rule->when & ~rank->holds) != 0 || (rule->unless & rank->holds) != 0 || bytes == 0) {
        return (struct sum){0, 0};
    }
    for (uint32_t i = 0; i < count; i++) {
        if (sites[i].site != rule->site || (ffn_alone && !sites[i].ffn)) { continue; }
        const uint64_t elements = elements_of(&sites[i].elements, rank->sizes);
        if (redco_extent_split(&sites[i].elements) != REDCO_AXIS_COUNT) {
            cut += elements;
        } else {
            split += elements;
        }
    }
    if (rule->site == REDCO_SITE_ATTENTION_SCORES) {
        cut = redco_share_up(cut, rank->keys, 1);
        split = redco_share_up(split, rank->keys, 1);
    }
    return (struct sum){redco_share_up(cut, bytes, rule->per),
                        redco_share_up(split, bytes, (uint64_t)rule->per * (rule->whole ? 1 : rank->sequence_ranks))};
}

/* Sums are of 16-bit training. */
static uint64_t times_width(uint64_t bytes, const redco_saving_rule *rule, const redco_saving_case *rank)
{
    return rank->wide && !rule->fixed ? 2 * bytes : bytes;
}

uint64_t redco_saving_rule_bytes(const redco_saving_rule *rule, const redco_layer_site *sites, uint32_t count,
                                 const redco_saving_case *rank)
{
    const struct sum sum = sum_of(rule, sites, count, rank, false);
    return rule->within ? 0 : times_width(sum.cut + sum.whole, rule, rank);
}

redco_saved_bytes redco_saving_bytes(const redco_saving_set *set, const redco_layer_site *sites, uint32_t count,
                                     const redco_saving_case *rank, redco_recompute policy)
{
    const bool apart = (rank->holds & REDCO_SAVER_IF_DROPOUT) != 0;
    uint64_t factored = 0;
    redco_saved_bytes bytes = {0, 0};
    for (uint32_t i = 0; i < set->count; i++) {
        const redco_saving_rule *const rule = &set->rules[i];
        const struct sum sum = sum_of(rule, sites, count, rank, false);
        const bool by_factor = !rule->within && !rule->beside && !rule->fixed && !apart;
        factored += by_factor ? sum.cut : 0;
        if (!rule->within) { bytes.kept += times_width(sum.whole + (by_factor ? 0 : sum.cut), rule, rank); }
        if (policy == REDCO_RECOMPUTE_NONE) { continue; }
        if (rule->freed_by == policy) { bytes.freed += times_width(sum.cut + sum.whole, rule, rank); }
        if (rule->in_product && policy == REDCO_RECOMPUTE_MLP) {
            const struct sum ffn = sum_of(rule, sites, count, rank, true);
            bytes.freed += times_width(ffn.cut + ffn.whole, rule, rank);
        }
    }
    const uint64_t all = redco_share_up(factored, set->factor, set->per);
    bytes.kept += rank->wide ? 2 * all : all;
    return bytes;
}
