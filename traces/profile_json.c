#include "traces/profile_build.h"

#include "topology/base/json.h"
#include "topology/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NEWEST_VERSION = 3, MAX_RANKS = 1 << 20 };
static const double max_time_s = 1e5;
static const uint64_t max_size_bytes = (uint64_t)1 << 50;

/* Ordering and rates are checked by redcoi_profile_add(), which knows no JSON pointer: put it there. */
static redco_status add_row(redco_profile *profile, const redco_json_value *row, uint64_t size, const double time_s[2],
                            redco_error *err)
{
    redco_error why = {0};
    const redco_status st =
        redcoi_profile_add(profile, size, time_s[REDCO_OUT_OF_PLACE], time_s[REDCO_IN_PLACE], 0, &why);
    if (st == REDCO_EVALUE) { return redco_json_fail(row, NULL, err, "%s", why.text); }
    return st == REDCO_OK ? st : redco_fail(err, st, why.place, "%s", why.text);
}

static redco_status begin_run(redco_profile *profile, const redco_json_value *place, const redco_profile_run *run,
                              redco_error *err)
{
    redco_error why = {0};
    const redco_status st = redcoi_profile_begin(profile, run, 0, &why);
    if (st == REDCO_EVALUE) { return redco_json_fail(place, NULL, err, "%s", why.text); }
    return st == REDCO_OK ? st : redco_fail(err, st, why.place, "%s", why.text);
}

static redco_status optional_text(const redco_json_value *object, const char *key, char *buffer, size_t size,
                                  redco_error *err)
{
    const char *text = NULL;
    if (!redco_json_has(object, key)) { return REDCO_OK; }
    const redco_status st = redco_json_string(object, key, &text, err);
    if (st == REDCO_OK) { redcoi_copy_text(buffer, size, text, strlen(text)); }
    return st;
}

static redco_status optional_u32(const redco_json_value *object, const char *key, uint32_t *out, redco_error *err)
{
    return redco_json_has(object, key) ? redco_json_u32(object, key, 1, MAX_RANKS, out, err) : REDCO_OK;
}

static redco_status own_row(redco_profile *profile, const redco_json_value *row, redco_error *err)
{
    static const char *const keys[] = {"size_bytes", "out_of_place_s", "in_place_s", NULL};
    uint64_t size = 0;
    double time_s[REDCO_PLACEMENTS] = {0.0, 0.0};
    redco_status st = redco_json_only(row, keys, err);
    if (st == REDCO_OK) { st = redco_json_u64(row, "size_bytes", 0, max_size_bytes, &size, err); }
    for (int i = 0; i < REDCO_PLACEMENTS && st == REDCO_OK; i++) {
        if (!redco_json_has(row, keys[i + 1])) { continue; }
        st = redco_json_number(row, keys[i + 1], 0.0, max_time_s, &time_s[i], err);
    }
    return st == REDCO_OK ? add_row(profile, row, size, time_s, err) : st;
}

static redco_status own_collective(redco_profile *profile, const redco_json_value *item, redco_profile_run run,
                                   redco_error *err)
{
    static const char *const keys[] = {"op", "gpus_per_node", "nodes", "stride", "groups_per_node", "rows", NULL};
    const char *op = NULL;
    uint32_t gpus = 0;
    size_t count = 0;
    redco_json_value rows;
    run.stride = 1;
    run.groups_per_node = 1;
    redco_status st = redco_json_only(item, keys, err);
    if (st == REDCO_OK) { st = redco_json_string(item, "op", &op, err); }
    if (st == REDCO_OK) { st = redco_json_u32(item, "gpus_per_node", 1, MAX_RANKS, &gpus, err); }
    if (st == REDCO_OK) { st = redco_json_u32(item, "nodes", 1, MAX_RANKS, &run.nodes, err); }
    if (st == REDCO_OK) { st = optional_u32(item, "stride", &run.stride, err); }
    if (st == REDCO_OK) { st = optional_u32(item, "groups_per_node", &run.groups_per_node, err); }
    if (st == REDCO_OK) { st = redco_json_array(item, "rows", &rows, &count, err); }
    if (st != REDCO_OK) { return st; }
    if (!redco_collective_parse(op, strlen(op), &run.op)) {
        return redco_json_fail(item, "op", err, "is \"%.40s\"; a collective such as all_reduce is needed", op);
    }
    const uint64_t ranks = (uint64_t)gpus * run.nodes;
    run.ranks = ranks <= MAX_RANKS ? (uint32_t)ranks : UINT32_MAX;
    st = begin_run(profile, item, &run, err);
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        redco_json_value row;
        st = redco_json_element(&rows, i, &row, err);
        if (st == REDCO_OK) { st = own_row(profile, &row, err); }
    }
    return st;
}

static redco_status own_document(redco_profile *profile, const redco_json_value *root, redco_error *err)
{
    static const char *const keys[] = {"format", "version",  "hardware",  "network",   "tool",  "collectives",
                                       "gemm",   "measured", "attention", "operators", "power", NULL};
    redco_profile_run run = {0};
    uint32_t version = 0;
    size_t count = 0;
    redco_json_value list, item;
    redco_status st = redco_json_format(root, "redco-profile", NEWEST_VERSION, &version, err);
    if (st == REDCO_OK) { st = redco_json_only(root, keys, err); }
    if (st == REDCO_OK) { st = optional_text(root, "hardware", run.hardware, sizeof run.hardware, err); }
    if (st == REDCO_OK) { st = optional_text(root, "network", run.network, sizeof run.network, err); }
    if (st == REDCO_OK) { st = optional_text(root, "tool", run.tool, sizeof run.tool, err); }
    if (st == REDCO_OK && redco_json_has(root, "collectives")) {
        st = redco_json_array(root, "collectives", &list, &count, err);
        for (size_t i = 0; i < count && st == REDCO_OK; i++) {
            st = redco_json_element(&list, i, &item, err);
            if (st == REDCO_OK) { st = own_collective(profile, &item, run, err); }
        }
    }
    return st == REDCO_OK ? redcoi_profile_compute(profile, root, err) : st;
}

/* The output of nccl-tests -J: config.devices[] tell ranks and hosts, args[] the program. */
static redco_status nccl_devices(const redco_json_value *config, redco_profile_run *run, redco_error *err)
{
    redco_json_value devices, device;
    const char *text = "";
    const char *last = "";
    size_t count = 0;
    redco_status st = redco_json_array(config, "devices", &devices, &count, err);
    if (st != REDCO_OK) { return st; }
    if (count > MAX_RANKS) { return redco_json_fail(&devices, NULL, err, "lists more than %d devices", MAX_RANKS); }
    run->ranks = (uint32_t)count;
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        st = redco_json_element(&devices, i, &device, err);
        if (st == REDCO_OK) { st = redco_json_string(&device, "hostname", &text, err); }
        if (st != REDCO_OK) { return st; }
        /* Ranks of a host are listed together. */
        run->nodes += i == 0 || strcmp(text, last) != 0 ? 1 : 0;
        last = text;
        if (i == 0 && redco_json_has(&device, "device_info")) {
            st = redco_json_string(&device, "device_info", &text, err);
            if (st == REDCO_OK) {
                (void)snprintf(run->hardware, sizeof run->hardware, "%zu x %.100s", count, text);
                redco_text_clean(run->hardware);
            }
        }
    }
    return st;
}

static redco_status nccl_time(const redco_json_value *result, const char *placement, double *time_s_out,
                              redco_error *err)
{
    redco_json_value half;
    if (!redco_json_has(result, placement)) { return REDCO_OK; }
    redco_status st = redco_json_object(result, placement, &half, err);
    if (st != REDCO_OK) { return st; }
    st = redco_json_number(&half, redco_json_has(&half, "cpu_time") ? "cpu_time" : "time", 0.0, max_time_s * 1e6,
                           time_s_out, err);
    *time_s_out *= 1e-6;
    return st;
}

static redco_status nccl_document(redco_profile *profile, const redco_json_value *root, redco_error *err)
{
    redco_profile_run run = {.stride = 1, .groups_per_node = 1};
    redco_json_value list, item, config;
    uint32_t threads = 1;
    uint32_t gpus = 1;
    size_t count = 0;
    redco_status st = redco_json_object(root, "config", &config, err);
    if (st == REDCO_OK) { st = nccl_devices(&config, &run, err); }
    if (st == REDCO_OK) { st = optional_u32(&config, "nthreads", &threads, err); }
    if (st == REDCO_OK) { st = optional_u32(&config, "ngpus", &gpus, err); }
    run.one_process = threads > 1 || gpus > 1;
    if (st == REDCO_OK) { st = redco_json_array(root, "args", &list, &count, err); }
    if (st != REDCO_OK) { return st; }
    const json_t *program = json_array_get(list.json, 0);
    const char *path = json_is_string(program) ? json_string_value(program) : "";
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    if (!redco_collective_parse(base, strlen(base), &run.op)) {
        return redco_json_fail(root, "args", err, "names \"%.40s\", no collective that redco prices", base);
    }
    st = begin_run(profile, root, &run, err);
    if (st == REDCO_OK) { st = redco_json_array(root, "results", &list, &count, err); }
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        uint64_t size = 0;
        double time_s[REDCO_PLACEMENTS] = {0.0, 0.0};
        st = redco_json_element(&list, i, &item, err);
        if (st == REDCO_OK) { st = redco_json_u64(&item, "size", 0, max_size_bytes, &size, err); }
        if (st == REDCO_OK) { st = nccl_time(&item, "out_of_place", &time_s[REDCO_OUT_OF_PLACE], err); }
        if (st == REDCO_OK) { st = nccl_time(&item, "in_place", &time_s[REDCO_IN_PLACE], err); }
        if (st == REDCO_OK) { st = add_row(profile, &item, size, time_s, err); }
    }
    return st;
}

redco_status redcoi_profile_json(const char *text, size_t size, const char *name, redco_profile **profile_out,
                                 redco_error *err)
{
    redco_json *doc = NULL;
    redco_profile *profile = NULL;
    redco_status st = redco_json_parse(text, size, name, &doc, err);
    if (st == REDCO_OK) { st = redcoi_profile_create(name, "redco-profile JSON", &profile, err); }
    if (st != REDCO_OK) { goto out; }
    const redco_json_value root = redco_json_root(doc);
    if (!redco_json_has(&root, "format") && redco_json_has(&root, "results") && redco_json_has(&root, "config")) {
        redcoi_profile_set_format(profile, "nccl-tests JSON");
        st = nccl_document(profile, &root, err);
    } else {
        st = own_document(profile, &root, err);
    }
    if (st == REDCO_OK) { st = redcoi_profile_finish(profile, err); }
    if (st == REDCO_OK) {
        *profile_out = profile;
        profile = NULL;
    }
out:
    redco_profile_free(profile);
    redco_json_close(doc);
    return st;
}
