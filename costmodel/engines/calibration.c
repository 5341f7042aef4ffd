#include "costmodel/engines/calibration.h"

#include "topology/base/preset.h"
#include "topology/base/text.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char format_name[] = "redco-calibration";
static const uint32_t newest_version = 2;
static const char processors[] = "host";   /* the set of ranks on processors */
static const char emulated[] = "emulated"; /* and where they stand in for GPUs */

/* The engine whose steps a set was fitted to, where memory is planned; without the key any other engine. */
static const char *const engine_words[] = {"framework", "redco-exec"};

/* One number of a set: SI units, accepted range. Ranges are wide: they catch slips of the pen, not unusual machines. */
struct field {
    const char *key;
    double min, max;
    size_t offset;
    uint32_t since; /* version of the format; sets of older versions may leave the field out */
    double older;   /* their value then */
};

#define FIELD(name, min, max)                                                                                          \
    {                                                                                                                  \
#name, min, max, offsetof(redco_calibration, name), 1, 0.0                                                     \
    }
#define SINCE(since, name, min, max, older)                                                                            \
    {                                                                                                                  \
#name, min, max, offsetof(redco_calibration, name), since, older                                               \
    }

#define NEWER(name, min, max, older) SINCE(2, name, min, max, older)

static const struct field fields[] = {
    FIELD(mape_ratio, 0.0, 10.0),
    NEWER(cross_validated_ratio, 0.0, 10.0, 0.0),
    NEWER(left_out_ratio, 0.0, 10.0, 0.0),
    FIELD(band_ratio, 0.0, 1.0),
    FIELD(gemm_efficiency, 0.01, 1.5),
    FIELD(gemm_k0, 0.0, 1e5),
    FIELD(kernel_s, 0.0, 1e-2),
    FIELD(attention_efficiency, 0.01, 1.5),
    FIELD(attention_backward_ratio, 0.05, 2.0),
    NEWER(flash1_ratio, 0.05, 2.0, 0.65),
    NEWER(scores_traffic_factor, 0.05, 20.0, 1.1),
    NEWER(fp8_efficiency, 0.05, 2.0, 0.9),
    NEWER(fp4_efficiency, 0.05, 2.0, 0.8),
    FIELD(memory_traffic_factor, 0.05, 20.0),
    NEWER(norm_traffic_factor, 0.05, 20.0, 2.7),
    NEWER(compiled_ratio, 0.05, 2.0, 0.65),
    FIELD(head_traffic_factor, 0.05, 20.0),
    FIELD(optimizer_factor, 0.05, 20.0),
    FIELD(nvlink_efficiency, 0.01, 3.0),
    FIELD(network_efficiency, 0.01, 3.0),
    FIELD(tp_link_efficiency, 0.01, 3.0),
    FIELD(latency_factor, 0.0, 100.0),
    FIELD(launch_s, 0.0, 0.1),
    NEWER(sync_s, 0.0, 0.01, 0.0),
    FIELD(tp_exposed_ratio, 0.0, 2.0),
    FIELD(tp_launch_s, 0.0, 0.1),
    NEWER(tp_async_ratio, 0.0, 2.0, 0.75),
    NEWER(cp_exposed_ratio, 0.0, 2.0, 0.3),
    FIELD(overlap_window_ratio, 0.0, 1.0),
    FIELD(contention_ratio, 0.0, 0.95),
    FIELD(host_forward_s, 0.0, 1.0),
    FIELD(host_backward_s, 0.0, 1.0),
    FIELD(host_collective_s, 0.0, 1.0),
    FIELD(step_overhead_s, 0.0, 100.0),
    FIELD(scale_ratio, 0.0, 1.0),
    FIELD(reserve_bytes, 0.0, 1e12),
    FIELD(usable_memory_ratio, 0.1, 1.0),
};
enum { FIELD_COUNT = sizeof fields / sizeof fields[0] };

static redco_status only_known(const redco_json_value *value, redco_error *err)
{
    const char *keys[FIELD_COUNT + 10] = {"format", "version",    "name", "basis",        "fitted_rows",
                                          "engine", "keeps_gate", "band", "rescale_ratio"};
    for (size_t i = 0; i < FIELD_COUNT; i++) { keys[9 + i] = fields[i].key; }
    return redco_json_only(value, keys, err);
}

redco_status redco_calibration_from_json(const redco_json_value *value, redco_calibration *calibration_out,
                                         redco_error *err)
{
    redco_calibration read = {.fitted_rows = 0};
    uint32_t version = 0;
    redco_status st = redco_json_format(value, format_name, newest_version, &version, err);
    if (st != REDCO_OK || (st = only_known(value, err)) != REDCO_OK ||
        (st = redco_json_label(value, "name", read.name, sizeof read.name, err)) != REDCO_OK ||
        (st = redco_json_label(value, "basis", read.basis, sizeof read.basis, err)) != REDCO_OK ||
        (st = redco_json_u32(value, "fitted_rows", 0, UINT32_MAX, &read.fitted_rows, err)) != REDCO_OK) {
        return st;
    }
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        double number = fields[i].older;
        const bool absent = version < fields[i].since && !redco_json_has(value, fields[i].key);
        if (!absent) { st = redco_json_number(value, fields[i].key, fields[i].min, fields[i].max, &number, err); }
        if (st != REDCO_OK) { return st; }
        memcpy((char *)&read + fields[i].offset, &number, sizeof number);
    }
    if (redco_json_has(value, "engine")) {
        const char *engine = NULL;
        if ((st = redco_json_string(value, "engine", &engine, err)) != REDCO_OK) { return st; }
        read.planned_memory = strcmp(engine, engine_words[1]) == 0;
        if (!read.planned_memory && strcmp(engine, engine_words[0]) != 0) {
            return redco_json_fail(value, "engine", err, "is \"%.40s\"; framework and redco-exec are known", engine);
        }
    }
    read.keeps_gate = strcmp(read.name, processors) == 0;
    if (redco_json_has(value, "keeps_gate") &&
        (st = redco_json_bool(value, "keeps_gate", &read.keeps_gate, err)) != REDCO_OK) {
        return st;
    }
    if (redco_json_has(value, "band") && (st = redco_band_from_json(value, "band", &read.band, err)) != REDCO_OK) {
        return st;
    }
    if (redco_json_has(value, "rescale_ratio") &&
        (st = redco_json_number(value, "rescale_ratio", 0.001, 1000.0, &read.rescale_ratio, err)) != REDCO_OK) {
        return st;
    }
    read.processors = strcmp(read.name, processors) == 0 || strcmp(read.name, emulated) == 0;
    *calibration_out = read;
    return REDCO_OK;
}

json_t *redco_calibration_describe(const redco_calibration *calibration)
{
    json_t *const object =
        json_pack("{s:s, s:i, s:s, s:s, s:I}", "format", format_name, "version", (int)newest_version, "name",
                  calibration->name, "basis", calibration->basis, "fitted_rows", (json_int_t)calibration->fitted_rows);
    if (calibration->planned_memory && json_object_set_new(object, "engine", json_string(engine_words[1])) != 0) {
        json_decref(object);
        return NULL;
    }
    if (object == NULL) { return NULL; }
    if (calibration->keeps_gate != (strcmp(calibration->name, processors) == 0) &&
        json_object_set_new(object, "keeps_gate", json_boolean(calibration->keeps_gate)) != 0) {
        json_decref(object);
        return NULL;
    }
    if (calibration->band.high_68 > 0.0 &&
        json_object_set_new(object, "band", redco_band_describe(&calibration->band)) != 0) {
        json_decref(object);
        return NULL;
    }
    if (calibration->rescale_ratio > 0.0 &&
        json_object_set_new(object, "rescale_ratio", json_real(calibration->rescale_ratio)) != 0) {
        json_decref(object);
        return NULL;
    }
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        double number = 0.0;
        memcpy(&number, (const char *)calibration + fields[i].offset, sizeof number);
        if (json_object_set_new(object, fields[i].key, json_real(number)) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

/* Sets by class of software and GPU: the first row that fits. No run is fitted of eager software on Blackwell, nor of
 * AMD's (fit-presets.sh says what their sets are made of); processors are a class of their own. */
static const struct {
    const char *arch, *name; /* NULL: any; beginning of the GPU's name */
    redco_software software; /* REDCO_SOFTWARE_UNKNOWN: any */
    const char *set;
} sets[] = {
    {"emulated", NULL, REDCO_SOFTWARE_UNKNOWN, "emulated"},
    {"Blackwell", NULL, REDCO_SOFTWARE_EAGER, "blackwell-eager"},
    {"Blackwell", NULL, REDCO_SOFTWARE_UNKNOWN, "blackwell-te"},
    {"CDNA3", NULL, REDCO_SOFTWARE_UNKNOWN, "cdna3-eager"},
    {"CDNA2", NULL, REDCO_SOFTWARE_UNKNOWN, "unseen-eager"},
    {"CDNA4", NULL, REDCO_SOFTWARE_TE_XLA, "unseen-te"},
    {"CDNA4", NULL, REDCO_SOFTWARE_UNKNOWN, "unseen-eager"},
    {"Hopper", "H200", REDCO_SOFTWARE_TE_XLA, "h200-te"},
    {"Hopper", "H200", REDCO_SOFTWARE_UNKNOWN, "h200-eager"},
    {"Hopper", NULL, REDCO_SOFTWARE_TE_XLA, "h100-te"},
    {"Hopper", NULL, REDCO_SOFTWARE_UNKNOWN, "h100-eager"},
    {NULL, NULL, REDCO_SOFTWARE_MEGATRON, "a100-megatron"},
    {NULL, NULL, REDCO_SOFTWARE_UNKNOWN, "a100-eager"},
};

static bool begins(const char *text, const char *start)
{
    return strncasecmp(text, start, strlen(start)) == 0;
}

const char *redco_calibration_set(const redco_gpu *gpu, redco_software software)
{
    size_t i = 0;
    if (redco_gpu_is_host(gpu) && strcasecmp(gpu->arch, sets[0].arch) != 0) { return processors; }
    while ((sets[i].arch != NULL && strcasecmp(gpu->arch, sets[i].arch) != 0) ||
           (sets[i].name != NULL && !begins(gpu->name, sets[i].name)) ||
           (sets[i].software != REDCO_SOFTWARE_UNKNOWN && sets[i].software != software)) {
        i++;
    }
    return sets[i].set;
}

const char *redco_calibration_of_engine(const redco_engine_file *file, const redco_engine *engine, const redco_gpu *gpu)
{
    for (uint32_t i = 0; i < file->calibration_count && engine->software == file->engine.software; i++) {
        const char *const of = file->calibrations[i].gpu;
        if (redco_gpu_is_host(gpu)) { break; }
        if (strcmp(of, "*") == 0 || begins(gpu->name, of) || strcasecmp(gpu->arch, of) == 0) {
            return file->calibrations[i].set;
        }
    }
    return redco_calibration_set(gpu, engine->software);
}

redco_status redco_calibration_read(const char *name_or_path, const redco_machine *machine,
                                    redco_calibration *calibration_out, redco_error *err)
{
    redco_json *document = NULL;
    redco_engine_file file;
    const char *name = name_or_path;
    redco_status st = REDCO_OK;
    if (name == NULL) {
        redco_default_engine engine;
        redco_gpu_engine(&machine->gpu, &engine);
        if ((st = redco_engine_file_read(engine.name, &file, err)) != REDCO_OK) { return st; }
        name = redco_calibration_of_engine(&file, &file.engine, &machine->gpu);
    }
    st = redco_preset_open("calibrations", "a calibration set", name, &document, err);
    if (st != REDCO_OK) { return st; }
    const redco_json_value root = redco_json_root(document);
    st = redco_calibration_from_json(&root, calibration_out, err);
    redco_json_close(document);
    return st;
}
