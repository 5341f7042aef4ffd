#include "costmodel/saving/saving_rules.h"

#include "topology/base/share.h"

/* Elements of a kind of tensors: those that tensor parallelism cuts, and those that ranks sharing a sequence split. */
struct elements {
    uint64_t cut, split;
};

/* Saturates, as redco_share_up() does. */
static uint64_t elements_of(const redco_extent *extent, const uint64_t sizes[REDCO_AXIS_COUNT])
{
    double count = extent->factor;
    for (unsigned a = 0; a < REDCO_AXIS_COUNT; a++) {
        for (unsigned i = 0; i < extent->power[a]; i++) { count *= (double)sizes[a]; }
    }
    return count < (double)redco_share_most ? (uint64_t)count : redco_share_most; /* exact below 2^53 */
}

/* The modules whose recomputation frees a tensor: what a module reads stays. */
static redco_recompute freed_by(const redco_layer_site *site, bool norms_in_products)
{
    const redco_recompute made_by = redco_modules_of(site->role, site->reader, norms_in_products);
    switch (site->site) {
    case REDCO_SITE_LAYER_INPUT:
    case REDCO_SITE_NORM_INPUT:
    case REDCO_SITE_ATTENTION_REPEATED:
    case REDCO_SITE_PRODUCT_OPERAND:
    case REDCO_SITE_PRODUCT_OUTPUT:
    case REDCO_SITE_DROPOUT_MASK:
    case REDCO_SITE_ADAPTER_INPUT:
    case REDCO_SITE_COUNT: return REDCO_RECOMPUTE_NONE;
    case REDCO_SITE_NORM_CONVERTED:
    case REDCO_SITE_NORM_NORMED:
    case REDCO_SITE_NORM_STATISTIC:
    case REDCO_SITE_NORM_MEAN: return made_by & REDCO_RECOMPUTE_LAYERNORM;
    case REDCO_SITE_NORM_OUTPUT: return made_by & (REDCO_RECOMPUTE_LAYERNORM | REDCO_RECOMPUTE_MLP);
    case REDCO_SITE_ATTENTION_QUERIES:
    case REDCO_SITE_ATTENTION_KEYS:
    case REDCO_SITE_ATTENTION_VALUES: return made_by & REDCO_RECOMPUTE_MLA_UP_PROJ;
    case REDCO_SITE_ATTENTION_OUTPUT:
    case REDCO_SITE_ATTENTION_STATISTIC:
    case REDCO_SITE_ATTENTION_SCORES:
    case REDCO_SITE_ACTIVATION_INPUT:
    case REDCO_SITE_ACTIVATION_RECTIFIED:
    case REDCO_SITE_ACTIVATION_GATE:
    case REDCO_SITE_ACTIVATION_FACTOR:
    case REDCO_SITE_ACTIVATION_GATED:
    case REDCO_SITE_ACTIVATION_OUTPUT:
    case REDCO_SITE_ROUTER_SCORES:
    case REDCO_SITE_EXPERTS_INPUT:
    case REDCO_SITE_EXPERTS_GATE:
    case REDCO_SITE_EXPERTS_FACTOR:
    case REDCO_SITE_EXPERTS_ACTIVATED:
    case REDCO_SITE_EXPERTS_OUTPUT: break;
    }
    return made_by;
}

/* @param freed  only tensors that these modules free; REDCO_RECOMPUTE_FREE: all */
static void add_up(const redco_layer_site *sites, uint32_t count, const redco_saving_case *rank, redco_recompute freed,
                   bool norms_in_products, struct elements elements_out[REDCO_SITE_COUNT])
{
    for (int s = 0; s < REDCO_SITE_COUNT; s++) { elements_out[s] = (struct elements){0, 0}; }
    for (uint32_t i = 0; i < count; i++) {
        struct elements *const of = &elements_out[sites[i].site];
        if (freed != REDCO_RECOMPUTE_FREE && (freed_by(&sites[i], norms_in_products) & freed) == 0) { continue; }
        const bool rows = sites[i].elements.power[REDCO_AXIS_CHOICES] > 0; /* experts have them */
        const bool cut = rows || redco_extent_split(&sites[i].elements) != REDCO_AXIS_COUNT;
        const uint64_t elements = elements_of(&sites[i].elements, rank->sizes);
        *(cut ? &of->cut : &of->split) +=
            rows && rank->routers > 1 ? redco_share_up(elements, 1, rank->routers) : elements;
    }
    struct elements *const scores = &elements_out[REDCO_SITE_ATTENTION_SCORES];
    *scores =
        (struct elements){redco_share_up(scores->cut, rank->keys, 1), redco_share_up(scores->split, rank->keys, 1)};
}

/* The sum of a rule's tensors in bytes, split over the ranks that share a sequence where nothing else cuts them. */
struct sum {
    uint64_t cut, whole;
};

static struct sum sum_of(const redco_saving_rule *rule, const struct elements *elements, const redco_saving_case *rank)
{
    const uint64_t bytes = rank->narrow ? rule->narrow_bytes : rule->bytes;
    const struct elements *const of = &elements[rule->site];
    if ((rule->when & ~rank->holds) != 0 || (rule->unless & rank->holds) != 0) { return (struct sum){0, 0}; }
    return (struct sum){
        redco_share_up(of->cut, bytes, rule->per),
        redco_share_up(of->split, bytes, (uint64_t)rule->per * (rule->whole ? 1 : rank->sequence_ranks))};
}

/* Sums are of 16-bit training. */
static uint64_t times_width(uint64_t bytes, const redco_saving_rule *rule, const redco_saving_case *rank)
{
    return rank->wide && !rule->fixed ? 2 * bytes : bytes;
}

static uint64_t rule_bytes(const redco_saving_rule *rule, const struct elements *elements,
                           const redco_saving_case *rank)
{
    const struct sum sum = sum_of(rule, elements, rank);
    return rule->within ? 0 : times_width(sum.cut + sum.whole, rule, rank);
}

uint64_t redco_saving_rule_bytes(const redco_saving_rule *rule, const redco_layer_site *sites, uint32_t count,
                                 const redco_saving_case *rank)
{
    struct elements elements[REDCO_SITE_COUNT];
    add_up(sites, count, rank, REDCO_RECOMPUTE_FREE, false, elements);
    return rule_bytes(rule, elements, rank);
}

/* All but the layer's input. */
static uint64_t freed_by_full(uint64_t kept, const struct elements *elements, const redco_saving_case *rank)
{
    const uint32_t bytes = (rank->holds & REDCO_SAVER_IF_AUTOCAST) != 0 ? 4 : 2;
    const redco_saving_rule input = {.site = REDCO_SITE_LAYER_INPUT, .bytes = bytes, .narrow_bytes = bytes, .per = 1};
    const uint64_t stays = rule_bytes(&input, elements, rank), rest = kept > stays ? kept - stays : 0;
    return rank->partial ? rest - rest / 2 : rest;
}

static uint64_t freed_by_modules(const redco_saving_set *set, const redco_layer_site *sites, uint32_t count,
                                 const redco_saving_case *rank, redco_recompute modules)
{
    struct elements freed[REDCO_SITE_COUNT];
    uint64_t bytes = 0;
    bool norms_in_products = false;
    if (modules == REDCO_RECOMPUTE_NONE) { return 0; }
    for (uint32_t i = 0; i < set->count; i++) { norms_in_products = norms_in_products || set->rules[i].in_product; }
    add_up(sites, count, rank, modules, norms_in_products, freed);
    for (uint32_t i = 0; i < set->count; i++) {
        const redco_saving_rule *const rule = &set->rules[i];
        if (rule->site == REDCO_SITE_ATTENTION_OUTPUT && !rule->result) { continue; }
        const struct sum sum = sum_of(rule, freed, rank);
        bytes += times_width(sum.cut + sum.whole, rule, rank);
    }
    return bytes;
}

redco_saved_bytes redco_saving_bytes(const redco_saving_set *set, const redco_layer_site *sites, uint32_t count,
                                     const redco_saving_case *rank, const redco_recompute_list *recomputed)
{
    const bool apart = (rank->holds & REDCO_SAVER_IF_DROPOUT) != 0;
    struct elements all[REDCO_SITE_COUNT];
    uint64_t factored = 0;
    redco_saved_bytes bytes = {.kept = 0};
    add_up(sites, count, rank, REDCO_RECOMPUTE_FREE, false, all);
    for (uint32_t i = 0; i < set->count; i++) {
        const redco_saving_rule *const rule = &set->rules[i];
        const struct sum sum = sum_of(rule, all, rank);
        const bool by_factor = !rule->within && !rule->beside && !rule->fixed && !apart;
        factored += by_factor ? sum.cut : 0;
        if (!rule->within) { bytes.kept += times_width(sum.whole + (by_factor ? 0 : sum.cut), rule, rank); }
    }
    factored = redco_share_up(factored, set->factor, set->per);
    bytes.kept += rank->wide ? 2 * factored : factored;
    for (uint32_t s = 0; s < recomputed->count; s++) {
        bytes.freed[s] = recomputed->sets[s] == REDCO_RECOMPUTE_FULL
                             ? freed_by_full(bytes.kept, all, rank)
                             : freed_by_modules(set, sites, count, rank, recomputed->sets[s]);
    }
    return bytes;
}
