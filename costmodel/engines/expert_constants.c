#include "costmodel/engines/expert_constants.h"

#include "topology/base/preset.h"
#include "topology/base/text.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char format_name[] = "redco-experts";
static const uint32_t newest_version = 1;

/* One number of a set: accepted range. Ranges are wide: they catch slips of the pen. */
static const struct field {
    const char *key;
    double min, max;
    size_t offset;
} fields[] = {
#define FIELD(name, min, max)                                                                                          \
    {                                                                                                                  \
#name, min, max, offsetof(redco_expert_constants, name)                                                        \
    }
    FIELD(mape_ratio, 0.0, 10.0),          FIELD(cross_validated_ratio, 0.0, 10.0),
    FIELD(left_out_ratio, 0.0, 10.0),      FIELD(grouped_efficiency, 0.05, 3.0),
    FIELD(grouped_fp8_ratio, 0.05, 3.0),   FIELD(grouped_k0, 0.0, 1e5),
    FIELD(rows_traffic_ratio, 0.01, 20.0), FIELD(bias_traffic_ratio, 0.0, 20.0),
    FIELD(narrow_head_ratio, 0.05, 2.0),   FIELD(nccl_link_ratio, 0.01, 3.0),
    FIELD(nccl_network_ratio, 0.01, 3.0),  FIELD(dedup_link_ratio, 0.01, 3.0),
    FIELD(dedup_network_ratio, 0.01, 3.0), FIELD(exchange_call_s, 0.0, 1e-2),
    FIELD(overlap_hidden_ratio, 0.0, 1.0), FIELD(launch_s, 0.0, 1e-3),
    FIELD(grace_launch_factor, 0.1, 20.0), FIELD(older_launch_factor, 0.1, 20.0),
#undef FIELD
};
enum { FIELD_COUNT = sizeof fields / sizeof fields[0] };

/* Sets by architecture; others are taken for Hopper, the first on which mixtures were measured. */
static const struct {
    const char *arch, *set;
} sets[] = {{"Blackwell", "blackwell"}};
static const char other_set[] = "hopper";

const char *redco_expert_constants_set(const redco_gpu *gpu)
{
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        if (strcasecmp(gpu->arch, sets[i].arch) == 0) { return sets[i].set; }
    }
    return other_set;
}

/* Since when launches are cheaper: fewer synchronisations, less Python in between. */
static const uint32_t newer_release = 202511;

double redco_expert_launch_s(const redco_expert_constants *constants, uint32_t release, redco_cpu_vendor cpu,
                             const redco_gpu *gpu)
{
    const bool grace =
        cpu == REDCO_CPU_ARM || strncasecmp(gpu->name, "GB", 2) == 0 || strncasecmp(gpu->name, "GH", 2) == 0;
    const bool older = release > 0 && release < newer_release;
    return constants->launch_s * (grace ? constants->grace_launch_factor : 1.0) *
           (older ? constants->older_launch_factor : 1.0);
}

redco_status redco_expert_constants_from_json(const redco_json_value *value, redco_expert_constants *constants_out,
                                              redco_error *err)
{
    const char *keys[FIELD_COUNT + 6] = {"format", "version", "name", "basis", "fitted_rows"};
    redco_expert_constants read = {.fitted_rows = 0};
    uint32_t version = 0;
    for (size_t i = 0; i < FIELD_COUNT; i++) { keys[5 + i] = fields[i].key; }
    redco_status st = redco_json_format(value, format_name, newest_version, &version, err);
    if (st != REDCO_OK || (st = redco_json_only(value, keys, err)) != REDCO_OK ||
        (st = redco_json_label(value, "name", read.name, sizeof read.name, err)) != REDCO_OK ||
        (st = redco_json_label(value, "basis", read.basis, sizeof read.basis, err)) != REDCO_OK ||
        (st = redco_json_u32(value, "fitted_rows", 0, UINT32_MAX, &read.fitted_rows, err)) != REDCO_OK) {
        return st;
    }
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        double number = 0.0;
        st = redco_json_number(value, fields[i].key, fields[i].min, fields[i].max, &number, err);
        if (st != REDCO_OK) { return st; }
        memcpy((char *)&read + fields[i].offset, &number, sizeof number);
    }
    *constants_out = read;
    return REDCO_OK;
}

/* The first fields are errors. */
enum { ERRORS = 3 };

double *redco_expert_constant(redco_expert_constants *constants, const char *key)
{
    for (size_t i = ERRORS; i < FIELD_COUNT; i++) {
        if (strcmp(fields[i].key, key) == 0) { return (double *)(void *)((char *)constants + fields[i].offset); }
    }
    return NULL;
}

const char *redco_expert_constant_key(size_t index)
{
    return index < FIELD_COUNT - ERRORS ? fields[ERRORS + index].key : NULL;
}

json_t *redco_expert_constants_describe(const redco_expert_constants *constants)
{
    json_t *const object =
        json_pack("{s:s, s:i, s:s, s:s, s:I}", "format", format_name, "version", (int)newest_version, "name",
                  constants->name, "basis", constants->basis, "fitted_rows", (json_int_t)constants->fitted_rows);
    for (size_t i = 0; object != NULL && i < FIELD_COUNT; i++) {
        double number = 0.0;
        memcpy(&number, (const char *)constants + fields[i].offset, sizeof number);
        if (json_object_set_new(object, fields[i].key, json_real(number)) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

redco_status redco_expert_constants_read(const char *name_or_path, redco_expert_constants *constants_out,
                                         redco_error *err)
{
    redco_json *document = NULL;
    redco_status st = redco_preset_open("experts", "a set of constants of experts", name_or_path, &document, err);
    if (st != REDCO_OK) { return st; }
    const redco_json_value root = redco_json_root(document);
    st = redco_expert_constants_from_json(&root, constants_out, err);
    redco_json_close(document);
    return st;
}
