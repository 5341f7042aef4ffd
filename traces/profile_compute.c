/* Operators in redco's own profiles: matrix products, attention, what is bound by memory; and how it was measured. */
#include "traces/profile_build.h"

#include <stddef.h>
#include <string.h>

static const double least_time_s = 1e-9;
static const double max_time_s = 1e5;
static const uint64_t max_elements = (uint64_t)1 << 50, max_bytes = (uint64_t)1 << 50;

static redco_status type_of(const redco_json_value *item, char *out, size_t size, redco_error *err)
{
    static const char *const known[] = {"bf16", "fp16", "fp32", "fp64", "fp8"};
    const char *type = NULL;
    const redco_status st = redco_json_string(item, "type", &type, err);
    if (st != REDCO_OK) { return st; }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(type, known[i]) == 0) {
            redcoi_copy_text(out, size, type, strlen(type));
            return REDCO_OK;
        }
    }
    return redco_json_fail(item, "type", err, "is \"%.40s\"; bf16, fp16, fp32, fp64 or fp8 is needed", type);
}

static redco_status seconds(const redco_json_value *item, const char *key, double *out, redco_error *err)
{
    return redco_json_number(item, key, least_time_s, max_time_s, out, err);
}

static redco_status gemm(redco_profile *profile, const redco_json_value *item, redco_error *err)
{
    static const char *const keys[] = {"m", "n", "k", "transposed", "type", "time_s", NULL};
    redco_profile_gemm row = {0};
    const char *transposed = "none";
    redco_status st = redco_json_only(item, keys, err);
    if (st == REDCO_OK) { st = redco_json_u32(item, "m", 1, UINT32_MAX, &row.m, err); }
    if (st == REDCO_OK) { st = redco_json_u32(item, "n", 1, UINT32_MAX, &row.n, err); }
    if (st == REDCO_OK) { st = redco_json_u32(item, "k", 1, UINT32_MAX, &row.k, err); }
    if (st == REDCO_OK) { st = type_of(item, row.type, sizeof row.type, err); }
    if (st == REDCO_OK) { st = seconds(item, "time_s", &row.time_s, err); }
    if (st == REDCO_OK && redco_json_has(item, "transposed")) {
        st = redco_json_string(item, "transposed", &transposed, err);
    }
    if (st != REDCO_OK) { return st; }
    row.transpose_a = strcmp(transposed, "a") == 0 || strcmp(transposed, "both") == 0;
    row.transpose_b = strcmp(transposed, "b") == 0 || strcmp(transposed, "both") == 0;
    if (!row.transpose_a && !row.transpose_b && strcmp(transposed, "none") != 0) {
        return redco_json_fail(item, "transposed", err, "is \"%.40s\"; none, a, b or both is needed", transposed);
    }
    return redcoi_profile_add_gemm(profile, &row, err);
}

static redco_status attention(redco_profile *profile, const redco_json_value *item, redco_error *err)
{
    static const char *const keys[] = {"batch",  "heads", "kv_heads",  "sequence",   "head_dim",
                                       "causal", "type",  "forward_s", "backward_s", NULL};
    enum { MOST = 1 << 24 };
    redco_profile_attention row = {0};
    redco_status st = redco_json_only(item, keys, err);
    if (st == REDCO_OK) { st = redco_json_u32(item, "batch", 1, MOST, &row.batch, err); }
    if (st == REDCO_OK) { st = redco_json_u32(item, "heads", 1, MOST, &row.heads, err); }
    if (st == REDCO_OK) { st = redco_json_u32(item, "kv_heads", 1, MOST, &row.kv_heads, err); }
    if (st == REDCO_OK) { st = redco_json_u32(item, "sequence", 1, MOST, &row.sequence, err); }
    if (st == REDCO_OK) { st = redco_json_u32(item, "head_dim", 1, MOST, &row.head_dim, err); }
    if (st == REDCO_OK) { st = redco_json_bool(item, "causal", &row.causal, err); }
    if (st == REDCO_OK) { st = type_of(item, row.type, sizeof row.type, err); }
    if (st == REDCO_OK) { st = seconds(item, "forward_s", &row.forward_s, err); }
    if (st == REDCO_OK) { st = seconds(item, "backward_s", &row.backward_s, err); }
    if (st == REDCO_OK && row.heads % row.kv_heads != 0) {
        st = redco_json_fail(item, "kv_heads", err, "%u does not divide %u heads", row.kv_heads, row.heads);
    }
    return st == REDCO_OK ? redcoi_profile_add_attention(profile, &row, err) : st;
}

static redco_status other(redco_profile *profile, const redco_json_value *item, redco_error *err)
{
    static const char *const keys[] = {"operator", "type", "elements", "columns", "forward_s", "backward_s", NULL};
    redco_profile_operator row = {.backward_s = 0.0};
    const char *name = NULL;
    redco_status st = redco_json_only(item, keys, err);
    if (st == REDCO_OK) { st = redco_json_string(item, "operator", &name, err); }
    if (st == REDCO_OK) { st = type_of(item, row.type, sizeof row.type, err); }
    if (st == REDCO_OK) { st = redco_json_u64(item, "elements", 1, max_elements, &row.elements, err); }
    if (st == REDCO_OK && redco_json_has(item, "columns")) {
        st = redco_json_u32(item, "columns", 1, 1u << 24, &row.columns, err);
    }
    if (st == REDCO_OK) { st = seconds(item, "forward_s", &row.forward_s, err); }
    if (st == REDCO_OK && redco_json_has(item, "backward_s")) {
        st = seconds(item, "backward_s", &row.backward_s, err);
    }
    if (st != REDCO_OK) { return st; }
    if (name[0] == '\0' || strlen(name) >= sizeof row.name) {
        return redco_json_fail(item, "operator", err, "has %zu characters; 1 to %zu are needed", strlen(name),
                               sizeof row.name - 1);
    }
    redcoi_copy_text(row.name, sizeof row.name, name, strlen(name));
    return redcoi_profile_add_operator(profile, &row, err);
}

static redco_status size_or_none(const redco_json_value *item, const char *key, uint32_t *out, redco_error *err)
{
    return redco_json_has(item, key) ? redco_json_u32(item, key, 1, UINT32_MAX, out, err) : REDCO_OK;
}

/* One of two words. */
static redco_status either(const redco_json_value *item, const char *key, const char *no, const char *yes,
                           bool *yes_out, redco_error *err)
{
    const char *word = NULL;
    const redco_status st = redco_json_string(item, key, &word, err);
    if (st != REDCO_OK) { return st; }
    *yes_out = strcmp(word, yes) == 0;
    if (*yes_out || strcmp(word, no) == 0) { return REDCO_OK; }
    return redco_json_fail(item, key, err, "is \"%.40s\"; %s or %s is needed", word, no, yes);
}

static redco_status power(redco_profile *profile, const redco_json_value *item, redco_error *err)
{
    static const char *const keys[] = {"operator", "type",     "numbers",         "pass",     "m",          "n",
                                       "k",        "elements", "flops",           "time_s",   "energy_j",   "watts",
                                       "clock_hz", "settle_s", "memory_clock_hz", "window_s", "counted_by", NULL};
    static const double most_j = 1e9, most_w = 1e5, most_hz = 1e12, most_flops = 1e21;
    redco_profile_power row = {.flops = 0.0};
    const char *name = NULL;
    bool zeros = false;
    redco_status st = redco_json_only(item, keys, err);
    if (st == REDCO_OK) { st = redco_json_string(item, "operator", &name, err); }
    if (st == REDCO_OK) { st = type_of(item, row.type, sizeof row.type, err); }
    if (st == REDCO_OK) { st = either(item, "numbers", "normal", "zeros", &zeros, err); }
    if (st == REDCO_OK) { st = either(item, "pass", "forward", "backward", &row.backward, err); }
    if (st == REDCO_OK) { st = either(item, "counted_by", "device", "samples", &row.sampled, err); }
    if (st == REDCO_OK) { st = size_or_none(item, "m", &row.m, err); }
    if (st == REDCO_OK) { st = size_or_none(item, "n", &row.n, err); }
    if (st == REDCO_OK) { st = size_or_none(item, "k", &row.k, err); }
    if (st == REDCO_OK && redco_json_has(item, "elements")) {
        st = redco_json_u64(item, "elements", 1, max_elements, &row.elements, err);
    }
    if (st == REDCO_OK && redco_json_has(item, "flops")) {
        st = redco_json_number(item, "flops", 1.0, most_flops, &row.flops, err);
    }
    if (st == REDCO_OK) { st = seconds(item, "time_s", &row.time_s, err); }
    if (st == REDCO_OK) { st = redco_json_number(item, "energy_j", 0.0, most_j, &row.energy_j, err); }
    if (st == REDCO_OK) { st = redco_json_number(item, "watts", 0.0, most_w, &row.watts, err); }
    if (st == REDCO_OK) { st = redco_json_number(item, "clock_hz", 1.0, most_hz, &row.clock_hz, err); }
    if (st == REDCO_OK && redco_json_has(item, "memory_clock_hz")) {
        st = redco_json_number(item, "memory_clock_hz", 0.0, most_hz, &row.memory_clock_hz, err);
    }
    if (st == REDCO_OK && redco_json_has(item, "settle_s")) {
        st = redco_json_number(item, "settle_s", 0.0, max_time_s, &row.settle_s, err);
    }
    if (st == REDCO_OK) { st = seconds(item, "window_s", &row.window_s, err); }
    if (st != REDCO_OK) { return st; }
    if (name[0] == '\0' || strlen(name) >= sizeof row.name) {
        return redco_json_fail(item, "operator", err, "has %zu characters; 1 to %zu are needed", strlen(name),
                               sizeof row.name - 1);
    }
    redcoi_copy_text(row.name, sizeof row.name, name, strlen(name));
    redcoi_copy_text(row.numbers, sizeof row.numbers, zeros ? "zeros" : "normal", strlen(zeros ? "zeros" : "normal"));
    return redcoi_profile_add_power(profile, &row, err);
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

static redco_status optional_number(const redco_json_value *object, const char *key, double max, double *out,
                                    redco_error *err)
{
    return redco_json_has(object, key) ? redco_json_number(object, key, 0.0, max, out, err) : REDCO_OK;
}

static redco_status optional_count(const redco_json_value *object, const char *key, uint32_t *out, redco_error *err)
{
    return redco_json_has(object, key) ? redco_json_u32(object, key, 0, 1u << 20, out, err) : REDCO_OK;
}

static redco_status optional_bytes(const redco_json_value *object, const char *key, uint64_t *out, redco_error *err)
{
    return redco_json_has(object, key) ? redco_json_u64(object, key, 0, max_bytes, out, err) : REDCO_OK;
}

/* One key of "measured". */
struct field {
    const char *key;
    enum { TEXT, NUMBER, COUNT, BYTES } kind;
    size_t offset, size; /* size: of texts */
    double max;          /* largest number */
};

#define MEASURED_TEXT(name)                                                                                            \
    {                                                                                                                  \
#name, TEXT, offsetof(redco_profile_measured, name), sizeof((redco_profile_measured *)NULL)->name, 0.0         \
    }
#define MEASURED(name, kind, max)                                                                                      \
    {                                                                                                                  \
#name, kind, offsetof(redco_profile_measured, name), 0, max                                                    \
    }

static const struct field fields[] = {
    MEASURED_TEXT(device),
    MEASURED_TEXT(part),
    MEASURED_TEXT(backend),
    MEASURED_TEXT(kernels),
    MEASURED_TEXT(attention),
    MEASURED_TEXT(capability),
    MEASURED_TEXT(driver),
    MEASURED_TEXT(cpu),
    MEASURED_TEXT(system),
    MEASURED_TEXT(date),
    MEASURED(clock_hz, NUMBER, 1e12),
    MEASURED(clock_after_hz, NUMBER, 1e12),
    MEASURED(memory_clock_hz, NUMBER, 1e12),
    MEASURED(multiprocessors, COUNT, 0.0),
    MEASURED(memory_bytes, BYTES, 0.0),
    MEASURED(processors, COUNT, 0.0),
    MEASURED(ranks, COUNT, 0.0),
    MEASURED(rounds, COUNT, 0.0),
    MEASURED(load, NUMBER, 1e9),
    MEASURED(processor_ratio, NUMBER, 1e6),
    MEASURED(spread_ratio, NUMBER, 1e6),
    MEASURED(contention_ratio, NUMBER, 1.0),
    MEASURED(overlap_ratio, NUMBER, 1e6),
    MEASURED(budget_s, NUMBER, 1e6),
    MEASURED(took_s, NUMBER, 1e6),
    MEASURED(left_out, COUNT, 0.0),
    MEASURED(launch_s, NUMBER, 1.0),
    MEASURED(host_forward_s, NUMBER, 1.0),
    MEASURED(host_backward_s, NUMBER, 1.0),
    MEASURED(graph_launch_s, NUMBER, 1.0),
    MEASURED(hot_ratio, NUMBER, 1e6),
    MEASURED(reserve_bytes, BYTES, 0.0),
    MEASURED(workspace_bytes, BYTES, 0.0),
    MEASURED(power_limit_w, NUMBER, 1e5),
    MEASURED(idle_w, NUMBER, 1e5),
    MEASURED(product_j_per_flop, NUMBER, 1e-3),
    MEASURED(memory_w, NUMBER, 1e5),
    MEASURED(burst_clock_ratio, NUMBER, 1.0),
    MEASURED_TEXT(power_basis),
};
enum { FIELDS = sizeof fields / sizeof fields[0] };

static redco_status field(const redco_json_value *object, const struct field *f, redco_profile_measured *out,
                          redco_error *err)
{
    void *const at = (char *)out + f->offset;
    switch (f->kind) {
    case TEXT: return optional_text(object, f->key, at, f->size, err);
    case NUMBER: return optional_number(object, f->key, f->max, at, err);
    case COUNT: return optional_count(object, f->key, at, err);
    case BYTES: return optional_bytes(object, f->key, at, err);
    }
    return REDCO_OK;
}

static redco_status how(redco_profile *profile, const redco_json_value *root, redco_error *err)
{
    const char *keys[FIELDS + 1] = {NULL};
    redco_profile_measured m = {.ranks = 0};
    redco_json_value at;
    if (!redco_json_has(root, "measured")) { return REDCO_OK; }
    for (size_t i = 0; i < FIELDS; i++) { keys[i] = fields[i].key; }
    redco_status st = redco_json_object(root, "measured", &at, err);
    if (st == REDCO_OK) { st = redco_json_only(&at, keys, err); }
    for (size_t i = 0; i < FIELDS && st == REDCO_OK; i++) { st = field(&at, &fields[i], &m, err); }
    if (st == REDCO_OK) { redcoi_profile_set_how(profile, &m); }
    return st;
}

typedef redco_status (*row_reader)(redco_profile *profile, const redco_json_value *item, redco_error *err);

static redco_status list(redco_profile *profile, const redco_json_value *root, const char *key, row_reader row,
                         redco_error *err)
{
    redco_json_value items, item;
    size_t count = 0;
    if (!redco_json_has(root, key)) { return REDCO_OK; }
    redco_status st = redco_json_array(root, key, &items, &count, err);
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        st = redco_json_element(&items, i, &item, err);
        if (st == REDCO_OK) { st = row(profile, &item, err); }
    }
    return st;
}

redco_status redcoi_profile_compute(redco_profile *profile, const redco_json_value *root, redco_error *err)
{
    redco_status st = how(profile, root, err);
    if (st == REDCO_OK) { st = list(profile, root, "gemm", gemm, err); }
    if (st == REDCO_OK) { st = list(profile, root, "attention", attention, err); }
    if (st == REDCO_OK) { st = list(profile, root, "operators", other, err); }
    return st == REDCO_OK ? list(profile, root, "power", power, err) : st;
}
