#include "topology/base/preset.h"
#include "topology/base/text.h"
#include "topology/discovery/node_internal.h"
#include "topology/discovery/pci_ids.h"
#include "topology/discovery/topology.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { GPU_VERSION = 1 };

enum field_kind { TEXT, COUNT, CAPABILITY, BYTES, REAL };

/* One property of a GPU. In files people write {"value": "312 TFLOP/s", "source": "..."} under `key`; between programs
 * the same property is a plain SI number under `si_key`. A new property is a new row. */
struct field {
    const char *key;
    const char *si_key;
    enum field_kind kind;
    redco_unit unit; /* unit of REAL and BYTES */
    bool required;
    bool zero_allowed;
    double max; /* far above any device: catches slips such as TB for GB */
    size_t offset;
    size_t size; /* bytes of TEXT */
};

#define AT(member) offsetof(redco_gpu, member), sizeof((redco_gpu *)0)->member
static const struct field fields[] = {
    {"name", "name", TEXT, 0, true, false, 0, AT(name)},
    {"vendor", "vendor", TEXT, 0, true, false, 0, AT(vendor)},
    {"arch", "arch", TEXT, 0, false, true, 0, AT(arch)},
    {"compute_capability", "compute_capability", CAPABILITY, 0, false, true, 999, AT(compute_capability)},
    {"fp16", "fp16_flops_per_s", REAL, REDCO_UNIT_FLOPS_PER_S, false, true, 1e18, AT(fp16_flops_per_s)},
    {"bf16", "bf16_flops_per_s", REAL, REDCO_UNIT_FLOPS_PER_S, false, true, 1e18, AT(bf16_flops_per_s)},
    {"fp4", "fp4_flops_per_s", REAL, REDCO_UNIT_FLOPS_PER_S, false, true, 1e18, AT(fp4_flops_per_s)},
    {"fp8", "fp8_flops_per_s", REAL, REDCO_UNIT_FLOPS_PER_S, false, true, 1e18, AT(fp8_flops_per_s)},
    {"tf32", "tf32_flops_per_s", REAL, REDCO_UNIT_FLOPS_PER_S, false, true, 1e18, AT(tf32_flops_per_s)},
    {"fp32", "fp32_flops_per_s", REAL, REDCO_UNIT_FLOPS_PER_S, false, true, 1e18, AT(fp32_flops_per_s)},
    {"memory", "memory_bytes", BYTES, REDCO_UNIT_BYTES, true, false, 1e15, AT(memory_bytes)},
    {"memory_bandwidth", "memory_bandwidth_bytes_per_s", REAL, REDCO_UNIT_BYTES_PER_S, true, false, 1e15,
     AT(memory_bandwidth_bytes_per_s)},
    {"link", "link", TEXT, 0, false, true, 0, AT(link)},
    {"links", "link_count", COUNT, 0, false, true, 1024, AT(link_count)},
    {"scale_up", "scale_up_bytes_per_s", REAL, REDCO_UNIT_BYTES_PER_S, false, true, 1e14, AT(scale_up_bytes_per_s)},
    {"pcie", "pcie_bytes_per_s", REAL, REDCO_UNIT_BYTES_PER_S, true, false, 1e13, AT(pcie_bytes_per_s)},
    {"pcie_gen", "pcie_gen", COUNT, 0, false, true, 20, AT(pcie_gen)},
    {"tdp", "tdp_w", REAL, REDCO_UNIT_WATTS, false, true, 1e5, AT(tdp_w)},
    {"idle", "idle_w", REAL, REDCO_UNIT_WATTS, false, true, 1e5, AT(idle_w)},
};
#undef AT
enum { FIELD_COUNT = sizeof fields / sizeof fields[0] };

json_t *redcoi_json_rate(double value)
{
    /* At most 9 significant digits in a real, so that writers with 10 digits print what reads back the same. */
    const double kept = value < 1000.0 ? round(value * 1e6) / 1e6 : round(value);
    return kept == floor(kept) && kept < 9e18 ? json_integer((json_int_t)kept) : json_real(kept);
}

static redco_status out_of_range(const redco_json_value *at, const char *key, const struct field *field, double value,
                                 redco_error *err)
{
    return redco_json_fail(at, key, err, "%s is %g; %s %g is needed", field->key, value,
                           field->zero_allowed ? "from 0 to" : "above 0 and up to", field->max);
}

static bool in_range(const struct field *field, double value)
{
    return value >= 0.0 && value <= field->max && (value > 0.0 || field->zero_allowed);
}

/* "8.0" -> 80 */
static redco_status read_capability(const redco_json_value *at, const char *key, uint32_t *out, redco_error *err)
{
    const char *text = NULL;
    const redco_status st = redco_json_string(at, key, &text, err);
    if (st != REDCO_OK) { return st; }
    const size_t digits = strspn(text, "0123456789");
    const char *minor = text + digits + 1;
    if (digits < 1 || digits > 2 || text[digits] != '.' || strspn(minor, "0123456789") != 1 || minor[1] != '\0') {
        return redco_json_fail(at, key, err, "is \"%.20s\"; a CUDA compute capability such as \"8.0\" is needed", text);
    }
    *out = (uint32_t)strtoul(text, NULL, 10) * 10 + (uint32_t)(minor[0] - '0');
    return REDCO_OK;
}

static redco_status read_text(const redco_json_value *at, const char *key, const struct field *field, char *out,
                              redco_error *err)
{
    const char *text = NULL;
    const redco_status st = redco_json_string(at, key, &text, err);
    if (st != REDCO_OK) { return st; }
    const size_t length = strlen(text);
    if (length >= field->size || (length == 0 && field->required)) {
        return redco_json_fail(at, key, err, "has %zu bytes; from %d to %zu are needed", length,
                               field->required ? 1 : 0, field->size - 1);
    }
    memcpy(out, text, length + 1);
    redco_text_clean(out);
    return REDCO_OK;
}

static redco_status store_number(const redco_json_value *at, const char *key, const struct field *field, double value,
                                 void *destination, redco_error *err)
{
    if (!in_range(field, value)) { return out_of_range(at, key, field, value, err); }
    if (field->kind == BYTES) {
        *(uint64_t *)destination = (uint64_t)value;
    } else {
        *(double *)destination = value;
    }
    return REDCO_OK;
}

/* The value as people write it, at at[key]. */
static redco_status read_written(const redco_json_value *at, const char *key, const struct field *field,
                                 void *destination, redco_error *err)
{
    double value = 0.0;
    redco_status st = REDCO_OK;
    switch (field->kind) {
    case TEXT: return read_text(at, key, field, destination, err);
    case CAPABILITY: return read_capability(at, key, destination, err);
    case COUNT: return redco_json_u32(at, key, 0, (uint32_t)field->max, destination, err);
    case BYTES:
    case REAL:
        st = redco_json_quantity(at, key, field->unit, &value, err);
        return st == REDCO_OK ? store_number(at, key, field, value, destination, err) : st;
    }
    return REDCO_OK;
}

/* {"value":..., "source":..., "unsure":...}, or the bare value. */
static redco_status read_sourced(const redco_json_value *gpu, const struct field *field, void *destination,
                                 redco_error *err)
{
    static const char *const keys[] = {"value", "source", "unsure", NULL};
    redco_json_value holder;
    const char *source = NULL;
    bool unsure = false;
    if (!json_is_object(json_object_get(gpu->json, field->key))) {
        return read_written(gpu, field->key, field, destination, err);
    }
    redco_status st = redco_json_object(gpu, field->key, &holder, err);
    if (st == REDCO_OK) { st = redco_json_only(&holder, keys, err); }
    if (st == REDCO_OK) { st = redco_json_string(&holder, "source", &source, err); }
    if (st == REDCO_OK && source[0] == '\0') {
        st = redco_json_fail(&holder, "source", err, "is empty; every value names where it comes from");
    }
    if (st == REDCO_OK && redco_json_has(&holder, "unsure")) { st = redco_json_bool(&holder, "unsure", &unsure, err); }
    return st == REDCO_OK ? read_written(&holder, "value", field, destination, err) : st;
}

/* The plain SI number of a document between programs. */
static redco_status read_si(const redco_json_value *gpu, const struct field *field, void *destination, redco_error *err)
{
    double value = 0.0;
    uint64_t bytes = 0;
    redco_status st = REDCO_OK;
    switch (field->kind) {
    case TEXT: return read_text(gpu, field->si_key, field, destination, err);
    case CAPABILITY:
    case COUNT: return redco_json_u32(gpu, field->si_key, 0, (uint32_t)field->max, destination, err);
    case BYTES:
        st = redco_json_u64(gpu, field->si_key, 1, (uint64_t)field->max, &bytes, err);
        if (st == REDCO_OK) { *(uint64_t *)destination = bytes; }
        return st;
    case REAL:
        st = redco_json_number(gpu, field->si_key, 0.0, field->max, &value, err);
        return st == REDCO_OK ? store_number(gpu, field->si_key, field, value, destination, err) : st;
    }
    return REDCO_OK;
}

static redco_status check(const redco_json_value *value, const redco_gpu *gpu, redco_error *err)
{
    const double fastest = gpu->fp16_flops_per_s + gpu->bf16_flops_per_s + gpu->fp32_flops_per_s;
    if (!(fastest > 0.0)) {
        return redco_json_fail(value, NULL, err, "has no compute rate; one of fp16, bf16 and fp32 is needed");
    }
    if ((gpu->link_count > 0) != (gpu->scale_up_bytes_per_s > 0.0)) {
        return redco_json_fail(value, NULL, err, "has %u links and %g GB/s of scale_up; both or neither must be 0",
                               gpu->link_count, gpu->scale_up_bytes_per_s / 1e9);
    }
    return REDCO_OK;
}

static redco_status read_fields(const redco_json_value *value, bool written, redco_gpu *gpu_out, redco_error *err)
{
    redco_gpu gpu = {.link = "none"};
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        const struct field *field = &fields[i];
        void *destination = (char *)&gpu + field->offset;
        if (!field->required && !redco_json_has(value, written ? field->key : field->si_key)) { continue; }
        const redco_status st =
            written ? read_sourced(value, field, destination, err) : read_si(value, field, destination, err);
        if (st != REDCO_OK) { return st; }
    }
    /* Documents from before the rate had a key of its own: twice the 8-bit rate, which is right for capability 10.0. */
    if (!written && !redco_json_has(value, "fp4_flops_per_s") && gpu.compute_capability >= 100) {
        gpu.fp4_flops_per_s = 2.0 * gpu.fp8_flops_per_s;
    }
    gpu.maker = strcmp(gpu.vendor, "NVIDIA") == 0 || gpu.vendor[0] == '\0' ? REDCO_GPU_NVIDIA
                : strcmp(gpu.vendor, "AMD") == 0                           ? REDCO_GPU_AMD
                                                                           : REDCO_GPU_OTHER;
    gpu.nvlink = strncmp(gpu.link, "NVLink", strlen("NVLink")) == 0;
    gpu.bridged = strstr(gpu.link, "bridge") != NULL;
    const redco_status st = check(value, &gpu, err);
    if (st == REDCO_OK) { *gpu_out = gpu; }
    return st;
}

redco_status redco_gpu_from_json(const redco_json_value *value, redco_gpu *gpu_out, redco_error *err)
{
    const char *known[FIELD_COUNT + 6] = {"format", "version", "note", "engine", "pci"};
    redco_default_engine engine;
    uint32_t version = 0;
    for (size_t i = 0; i < FIELD_COUNT; i++) { known[5 + i] = fields[i].key; }
    redco_status st = redco_json_format(value, "redco-gpu", GPU_VERSION, &version, err);
    if (st == REDCO_OK) { st = redco_json_only(value, known, err); }
    if (st == REDCO_OK && redco_json_has(value, "engine")) { st = redcoi_engine_read(value, &engine, err); }
    if (st == REDCO_OK && redco_json_has(value, "pci")) { st = redcoi_gpu_pci_read(value, NULL, NULL, 0, err); }
    return st == REDCO_OK ? read_fields(value, true, gpu_out, err) : st;
}

redco_status redcoi_gpu_from_si(const redco_json_value *value, redco_gpu *gpu_out, redco_error *err)
{
    const char *known[FIELD_COUNT + 1] = {NULL};
    for (size_t i = 0; i < FIELD_COUNT; i++) { known[i] = fields[i].si_key; }
    const redco_status st = redco_json_only(value, known, err);
    return st == REDCO_OK ? read_fields(value, false, gpu_out, err) : st;
}

json_t *redcoi_gpu_describe(const redco_gpu *gpu)
{
    json_t *object = json_object();
    for (size_t i = 0; object != NULL && i < FIELD_COUNT; i++) {
        const struct field *field = &fields[i];
        const void *source = (const char *)gpu + field->offset;
        json_t *value = NULL;
        /* not known of most */
        if (source == (const void *)&gpu->idle_w && !(gpu->idle_w > 0.0)) { continue; }
        if (source == (const void *)&gpu->fp4_flops_per_s && !(gpu->fp4_flops_per_s > 0.0)) { continue; }
        switch (field->kind) {
        case TEXT: value = json_string(source); break;
        case CAPABILITY:
        case COUNT: value = json_integer(*(const uint32_t *)source); break;
        case BYTES: value = json_integer((json_int_t) * (const uint64_t *)source); break;
        case REAL: value = redcoi_json_rate(*(const double *)source); break;
        }
        if (json_object_set_new(object, field->si_key, value) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

redco_status redcoi_engine_read(const redco_json_value *object, redco_default_engine *engine_out, redco_error *err)
{
    static const char *const keys[] = {"value", "source", NULL};
    redco_json_value holder;
    const char *name = NULL, *reason = NULL;
    redco_status st = redco_json_object(object, "engine", &holder, err);
    if (st != REDCO_OK || (st = redco_json_only(&holder, keys, err)) != REDCO_OK ||
        (st = redco_json_string(&holder, "value", &name, err)) != REDCO_OK ||
        (st = redco_json_string(&holder, "source", &reason, err)) != REDCO_OK) {
        return st;
    }
    if (name[0] == '\0' || strlen(name) >= sizeof engine_out->name) {
        return redco_json_fail(&holder, "value", err, "has %zu bytes; from 1 to %zu are needed", strlen(name),
                               sizeof engine_out->name - 1);
    }
    if (reason[0] == '\0' || strlen(reason) >= sizeof engine_out->reason) {
        return redco_json_fail(&holder, "source", err, "has %zu bytes; from 1 to %zu are needed: say why",
                               strlen(reason), sizeof engine_out->reason - 1);
    }
    (void)snprintf(engine_out->name, sizeof engine_out->name, "%s", name);
    (void)snprintf(engine_out->reason, sizeof engine_out->reason, "%s", reason);
    redco_text_clean(engine_out->reason);
    return REDCO_OK;
}

void redco_gpu_engine(const redco_gpu *gpu, redco_default_engine *engine_out)
{
    redco_json *document = NULL;
    *engine_out = (redco_default_engine){"fsdp", "nothing else is known of this GPU"};
    if (redco_gpu_is_host(gpu)) {
        *engine_out = (redco_default_engine){"redco-exec", "its ranks are processors"};
        return;
    }
    if (redco_preset_find("gpus", gpu->name) == NULL ||
        redco_preset_open("gpus", "a GPU", gpu->name, &document, NULL) != REDCO_OK) {
        return;
    }
    const redco_json_value root = redco_json_root(document);
    if (redco_json_has(&root, "engine")) { (void)redcoi_engine_read(&root, engine_out, NULL); }
    redco_json_close(document);
}

bool redco_gpu_is_host(const redco_gpu *gpu)
{
    return strcasecmp(gpu->vendor, "host") == 0;
}

const char *redco_gpu_of_model(const char *model)
{
    return redcoi_preset_of_model(model);
}

redco_status redco_gpu_find_any(const char *name, redco_gpu *gpu_out, redco_error *err)
{
    const char *preset = redco_preset_find("gpus", name) == NULL ? redcoi_preset_of_model(name) : NULL;
    return redco_gpu_find(preset != NULL ? preset : name, gpu_out, err);
}

redco_status redco_gpu_find(const char *name, redco_gpu *gpu_out, redco_error *err)
{
    redco_json *document = NULL;
    redco_status st = redco_preset_open("gpus", "a GPU", name, &document, err);
    if (st != REDCO_OK) { return st; }
    const redco_json_value root = redco_json_root(document);
    st = redco_gpu_from_json(&root, gpu_out, err);
    redco_json_close(document);
    return st;
}
