/* Facts of files become options: over which ranks parameters, gradients and optimizer states are cut. */
#include "planner/read/read_facts.h"

#include "topology/base/number.h"

#include <stdio.h>
#include <string.h>

/* Part of the data-parallel ranks as a mesh: first those of a node. */
static void mesh_text(redco_reading *reading, const redcoi_layout *l, uint64_t ranks, char *out, size_t size)
{
    const uint64_t host = redcoi_fact_number(reading, ".gpus-per-node", 8);
    const uint64_t inner = l->tp > 0 && l->tp <= host && host % l->tp == 0 ? host / l->tp : 1;
    const uint64_t gpus = ranks == 0 ? 1 : ranks < inner ? ranks : inner;
    (void)snprintf(out, size, "%llux%llu", (unsigned long long)gpus, (unsigned long long)(ranks / gpus));
}

/* @param target  of the fact that says the size of a group */
static bool group_of(redco_reading *reading, const redcoi_layout *l, const char *target, uint64_t *ranks_out)
{
    const uint64_t all = l->dp * l->cp, ranks = redcoi_fact_number(reading, target, 0);
    if (ranks == 0 || all == 0) { return false; }
    if (all % ranks != 0) {
        char text[120];
        (void)snprintf(text, sizeof text, "%llu does not divide the %llu data-parallel ranks",
                       (unsigned long long)ranks, (unsigned long long)all);
        const redcoi_fact *const fact = redcoi_said(reading, target);
        if (fact != NULL) { (void)redcoi_fact_fail(reading, fact, text); }
        return false;
    }
    *ranks_out = ranks;
    return ranks < all;
}

static bool shards_given(const redco_reading *reading)
{
    return redcoi_given(reading, "strategy") || redcoi_given(reading, "fix") || redcoi_given(reading, "zero");
}

/* The optimizer over part of the ranks, or all states over it. */
static void fix_group(redco_reading *reading, const redcoi_layout *l, uint64_t ranks, bool parameters, bool gradients,
                      const char *target)
{
    char mesh[48], text[200];
    mesh_text(reading, l, ranks, mesh, sizeof mesh);
    (void)snprintf(text, sizeof text, "p=%s,g=%s,os=%s", parameters ? mesh : "1x1", gradients ? mesh : "1x1", mesh);
    redcoi_set_option(reading, "fix", text, target);
}

static void settle_megatron_shards(redco_reading *reading, const redcoi_layout *l)
{
    uint64_t ranks = 0, groups = redcoi_fact_number(reading, ".optimizer-groups", 1);
    const bool own = redcoi_is(reading, ".megatron-fsdp", "yes");
    const bool fsdp =
        own || (redcoi_said(reading, ".megatron-fsdp") == NULL && redcoi_value(reading, ".fsdp-shards") != NULL);
    const char *const shards = redcoi_value(reading, ".fsdp-shards");
    const char *const word = fsdp                                             ? (shards != NULL ? shards : "ddp")
                             : redcoi_is(reading, ".optimizer-shards", "yes") ? "zero1"
                                                                              : "ddp";
    const uint64_t all = l->dp * l->cp;
    if (groups > 1 && all % groups == 0 && strcmp(word, "ddp") != 0) {
        ranks = all / groups;
        if (redcoi_is(reading, ".outer-shards", "optim")) {
            char inner[48], outer[48], text[200];
            mesh_text(reading, l, ranks, inner, sizeof inner);
            mesh_text(reading, l, all, outer, sizeof outer);
            (void)snprintf(text, sizeof text, "p=%s,g=%s,os=%s", strcmp(word, "zero3") == 0 ? inner : "1x1", inner,
                           outer);
            redcoi_set_option(reading, "fix", text, ".optimizer-groups");
            return;
        }
        fix_group(reading, l, ranks, strcmp(word, "zero3") == 0, strcmp(word, "zero1") != 0, ".optimizer-groups");
        return;
    }
    redcoi_set_option(reading, "strategy", word, fsdp ? ".fsdp-shards" : ".optimizer-shards");
}

/* Whole tensors are dealt to owners among zero1's ranks; weights are cut over their own. */
static void settle_internevo_shards(redco_reading *reading, const redcoi_layout *l)
{
    const uint64_t weights = redcoi_fact_number(reading, ".weight-group", 1);
    const uint64_t owners =
        redcoi_fact_number(reading, ".zero1-group", weights > 0 && l->dp > weights ? l->dp / weights : 1);
    char p[48], os[48], text[200];
    if (redcoi_is(reading, ".zero1-fsdp", "yes")) {
        redcoi_set_option(reading, "strategy", "zero3", ".zero1-fsdp");
        return;
    }
    mesh_text(reading, l, weights, p, sizeof p);
    mesh_text(reading, l, weights * owners, os, sizeof os); /* some more ranks than weights have */
    (void)snprintf(text, sizeof text, "p=%s,g=%s,os=%s", p, p, os);
    redcoi_set_option(reading, "fix", text, ".zero1-group");
    redcoi_set_option(reading, "scheme", "inter-tensor", NULL);
}

/* A key of the unit of layers @p index of an FSDP JSON. @return NULL: there is none */
static const char *of_unit(const redco_reading *reading, uint32_t index, const char *name)
{
    char key[60];
    (void)snprintf(key, sizeof key, "units.%u.%s", index, name);
    for (size_t i = 0; i < reading->settings.count; i++) {
        if (strcmp(reading->settings.items[i].key, key) == 0) { return reading->settings.items[i].value; }
    }
    return NULL;
}

static bool same_unit(const redco_reading *reading, uint32_t a, uint32_t b)
{
    static const char *const said[] = {"wrap", "dp_shard", "reshard_after_forward", "set_requires_gradient_sync"};
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        const char *const x = of_unit(reading, a, said[i]), *const y = of_unit(reading, b, said[i]);
        if (x != NULL && y != NULL ? strcmp(x, y) != 0 : x != y) { return false; }
    }
    return true;
}

/* The unit of most layers; ranges are "first, last". */
static uint32_t main_unit(redco_reading *reading)
{
    uint32_t best = 0, most = 0, count = 0;
    bool differ = false;
    for (const char *layers; count < REDCOI_MOST_UNITS && (layers = of_unit(reading, count, "layers")) != NULL;
         count++) {
        unsigned first = 0, last = 0;
        if (sscanf(layers, "%u , %u", &first, &last) != 2 || last < first) { continue; } /* NOLINT(cert-err34-c) */
        if (last - first + 1 > most) {
            most = last - first + 1;
            best = count;
        }
    }
    for (uint32_t i = 0; i < count; i++) { differ = differ || !same_unit(reading, i, best); }
    if (differ) { redcoi_assume(reading, "layers are sharded in several ways: priced as most of them are"); }
    return best;
}

/* fully_shard(): with reshard_after_forward parameters are gathered again for backward, without they are kept, by a
 * number over so many ranks; without set_requires_gradient_sync gradients are summed before they are scattered. */
static void settle_units(redco_reading *reading, const redcoi_layout *l)
{
    const uint32_t unit = main_unit(reading);
    const char *const wrap = of_unit(reading, unit, "wrap"), *const shard = of_unit(reading, unit, "dp_shard");
    const char *const again = of_unit(reading, unit, "reshard_after_forward");
    const char *const sync = of_unit(reading, unit, "set_requires_gradient_sync");
    const uint64_t all = l->dp * l->cp;
    uint64_t ranks = 0, kept = 0;
    if (wrap == NULL || (strcmp(wrap, "DistributedDataParallel") != 0 &&
                         (shard == NULL || again == NULL || !redco_whole_parse(shard, 1, 1U << 30, &ranks)))) {
        (void)redcoi_fact_fail(
            reading, redcoi_said(reading, ".units"),
            "no unit says how its layers are sharded: \"wrap\", \"dp_shard\", \"reshard_after_forward\"");
        return;
    }
    if (strcmp(wrap, "DistributedDataParallel") == 0) {
        redcoi_set_option(reading, "strategy", "ddp", ".units");
    } else if (redco_whole_parse(again, 1, 1U << 30, &kept)) {
        char mesh[48], whole[48], text[240];
        mesh_text(reading, l, kept, mesh, sizeof mesh);
        mesh_text(reading, l, ranks, whole, sizeof whole);
        (void)snprintf(text, sizeof text, "p=%s,g=%s,os=%s,p2=%s", whole, whole, whole, mesh);
        redcoi_set_option(reading, "fix", text, ".units");
    } else {
        const bool parameters = strcmp(again, "true") == 0, gradients = sync == NULL || strcmp(sync, "true") == 0;
        if (ranks < all) {
            fix_group(reading, l, ranks, parameters, parameters || gradients, ".units");
        } else {
            redcoi_set_option(reading, "strategy", parameters ? "zero3" : gradients ? "zero2" : "zero1", ".units");
        }
    }
}

void redcoi_settle_shards(redco_reading *reading, const redcoi_layout *l)
{
    uint64_t ranks = 0;
    const char *const zero = redcoi_said(reading, ".zero") != NULL || redcoi_said(reading, ".fsdp") == NULL
                                 ? redcoi_value(reading, ".zero")
                                 : NULL;
    const char *const fsdp = redcoi_value(reading, ".fsdp");
    if (shards_given(reading)) { return; }
    if (redcoi_has_trainer(reading, "fsdp")) {
        settle_units(reading, l);
    } else if (redcoi_has_trainer(reading, "internevo")) {
        settle_internevo_shards(reading, l);
    } else if (redcoi_has_trainer(reading, "torchtitan")) {
        const uint64_t replicas = redcoi_fact_number(reading, ".dp-replicate", 1);
        const bool kept =
            redcoi_is(reading, ".reshard", "zero2") || (l->pp > 1 && redcoi_value(reading, ".reshard") == NULL);
        if (replicas > 1 && l->dp % replicas == 0 && l->dp / replicas * l->cp > 1) { /* states are cut over cp, too */
            fix_group(reading, l, l->dp / replicas * l->cp, !kept, !kept || l->pp <= 1, ".dp-replicate");
        } else {
            redcoi_set_option(reading, "strategy",
                              replicas == l->dp && l->dp > 1 ? "ddp"
                              : kept                         ? (l->pp > 1 ? "zero1" : "zero2")
                                                             : "zero3",
                              ".dp-shard");
        }
    } else if (redcoi_said(reading, ".megatron-fsdp") != NULL || redcoi_value(reading, ".optimizer-shards") != NULL ||
               redcoi_has_trainer(reading, "megatron") || redcoi_has_trainer(reading, "mlperf")) {
        settle_megatron_shards(reading, l);
    } else if (zero != NULL) {
        if (group_of(reading, l, ".second-copy", &ranks)) {
            char mesh[48], all[48], text[240];
            mesh_text(reading, l, ranks, mesh, sizeof mesh);
            mesh_text(reading, l, l->dp, all, sizeof all);
            (void)snprintf(text, sizeof text, "p=%s,g=%s,os=%s,p2=%s", all, all, all, mesh);
            redcoi_set_option(reading, "fix", text, ".second-copy");
        } else if (group_of(reading, l, ".shard-group", &ranks)) {
            fix_group(reading, l, ranks, true, true, ".shard-group");
        } else {
            redcoi_set_option(reading, "strategy", zero, ".zero");
        }
    } else if (fsdp != NULL && (strcmp(fsdp, "mics") == 0 || strcmp(fsdp, "hybrid-zero2") == 0)) {
        const uint64_t host = redcoi_fact_number(reading, ".gpus-per-node", 8);
        ranks = l->dp < host ? l->dp : host;
        if (ranks > 0) { fix_group(reading, l, ranks, strcmp(fsdp, "mics") == 0, true, ".fsdp"); }
    } else if (redcoi_fact_number(reading, ".dp-replicate", 1) > 1 && group_of(reading, l, ".dp-shard", &ranks)) {
        fix_group(reading, l, ranks * l->cp, true, true, ".dp-shard");
    } else if (fsdp != NULL) {
        redcoi_set_option(reading, "strategy", fsdp, ".fsdp");
    } else {
        redcoi_set_option(reading, "strategy", redcoi_is(reading, ".launch", "fsdp") ? "zero3" : "ddp", NULL);
    }
}
