/* The device mesh of an FSDP JSON: its dimensions by name are the degrees. */
#include "planner/read/read_facts.h"

#include "topology/base/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_fact(redco_reading *reading, const redcoi_fact *from, const char *target, const char *value)
{
    if (reading->fact_count == REDCOI_MOST_FACTS) { return; }
    redcoi_fact *const more = &reading->facts[reading->fact_count++];
    *more = *from;
    more->target = target;
    (void)snprintf(more->value, sizeof more->value, "%s", value);
}

/* The next item of a list as it stands in the file: blanks and quotes aside. @return behind it; NULL: no more */
static const char *next_item(const char *at, char *out, size_t size)
{
    at += strspn(at, " \t\r\n,\"");
    if (*at == '\0') { return NULL; }
    const size_t length = strcspn(at, " \t\r\n,\"");
    (void)snprintf(out, size, "%.*s", (int)length, at);
    return at + length;
}

static void add_degrees(redco_reading *reading, const redcoi_fact *shape, const char *sizes, const char *names)
{
    static const char *const degrees[][2] = {
        {"pp", "pp"}, {"tp", "tp"}, {"cp", "cp"}, {"dp_replicate", NULL}, {"dp_shard", NULL}};
    uint64_t all = 1, number = 0;
    char size[24], name[24], text[24];
    const redcoi_fact copy = *shape;
    while (sizes != NULL && names != NULL) {
        bool known = false;
        sizes = next_item(sizes, size, sizeof size);
        names = next_item(names, name, sizeof name);
        if (sizes == NULL && names == NULL) { break; }
        for (size_t i = 0; names != NULL && i < sizeof degrees / sizeof degrees[0]; i++) {
            if (strcmp(degrees[i][0], name) != 0) { continue; }
            known = true;
            if (degrees[i][1] != NULL) { add_fact(reading, &copy, degrees[i][1], size); }
        }
        if (sizes == NULL || !known || !redco_whole_parse(size, 1, 1U << 24, &number) ||
            number > ((uint64_t)1 << 40) / all) {
            (void)redcoi_fact_fail(reading, shape,
                                   "a size for each of the names pp, dp_replicate, dp_shard, cp, tp is needed");
            return;
        }
        all *= number;
    }
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)all);
    add_fact(reading, &copy, "gpus", text);
}

/* Ranges of layers by position, "first, last" or none, as a list of counts. */
static void add_stages(redco_reading *reading)
{
    char text[REDCOI_FACT_TEXT] = "";
    size_t used = 0;
    const redcoi_fact *of = NULL;
    for (size_t i = 0; i < reading->fact_count; i++) {
        const redcoi_fact *const fact = &reading->facts[i];
        unsigned first = 0, last = 0;
        if (strcmp(fact->target, ".stage-layers") != 0) { continue; }
        const int found = sscanf(fact->value, "%u , %u", &first, &last); /* NOLINT(cert-err34-c) */
        const unsigned layers = found == 2 && last >= first && last < 1U << 20 ? last - first + 1 : 0;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%u", of != NULL ? "," : "", layers);
        of = fact;
        if (used >= sizeof text) {
            redcoi_assume(reading, "stages of equal layers: the list of them is longer than redco reads");
            return;
        }
    }
    if (of != NULL) {
        const redcoi_fact copy = *of;
        add_fact(reading, &copy, "pp-layout", text);
    }
}

static void add_checkpoints(redco_reading *reading)
{
    const redcoi_fact *of = NULL;
    bool whole = true;
    for (size_t i = 0; i < reading->fact_count; i++) {
        const redcoi_fact *const fact = &reading->facts[i];
        const char *const key = strrchr(reading->settings.items[fact->setting].key, '.');
        if (strcmp(fact->target, ".checkpoint-kind") != 0 || key == NULL || strcmp(key, ".checkpoint") != 0) {
            continue;
        }
        whole = whole && (of == NULL || strcmp(of->value, fact->value) == 0);
        of = fact;
    }
    if (of == NULL) { return; }
    if (!whole) { redcoi_assume(reading, "layers are recomputed in several ways: priced as the last of them are"); }
    const redcoi_fact copy = *of;
    add_fact(reading, &copy, ".checkpointing", strcmp(copy.value, "layer") == 0 ? "full" : "core_attn");
}

void redcoi_follow_mesh(redco_reading *reading)
{
    const redcoi_fact *const shape = redcoi_said(reading, ".mesh-shape");
    const char *const sizes = redcoi_whole_text(reading, ".mesh-shape");
    const char *const names = redcoi_whole_text(reading, ".mesh-names");
    if (shape == NULL) { return; }
    if (sizes == NULL || names == NULL) {
        (void)redcoi_fact_fail(reading, shape, "mesh_dim_names is needed beside it");
        return;
    }
    add_degrees(reading, shape, sizes, names);
    add_stages(reading);
    add_checkpoints(reading);
}
