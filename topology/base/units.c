#include "topology/base/units.h"

#include "topology/base/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double largest_value = 1e30;

struct prefix {
    const char *name;
    double factor;
};

static const struct prefix decimal_and_binary[] = {
    {"Ki", 1024.0}, {"Mi", 1048576.0}, {"Gi", 1073741824.0}, {"Ti", 1099511627776.0},
    {"k", 1e3},     {"K", 1e3},        {"M", 1e6},           {"G", 1e9},
    {"T", 1e12},    {"P", 1e15},       {"E", 1e18},          {"", 1.0},
};
static const struct prefix small_decimal[] = {{"n", 1e-9}, {"u", 1e-6}, {"\xc2\xb5", 1e-6}, {"m", 1e-3}, {"", 1.0}};

struct suffix {
    redco_unit unit;
    const char *name;
    double factor;
};

/* Longer names first, so that "b/s" is not read as "s". */
static const struct suffix suffixes[] = {
    {REDCO_UNIT_BYTES, "B", 1.0},           {REDCO_UNIT_BYTES_PER_S, "bit/s", 0.125},
    {REDCO_UNIT_BYTES_PER_S, "B/s", 1.0},   {REDCO_UNIT_BYTES_PER_S, "b/s", 0.125},
    {REDCO_UNIT_SECONDS, "s", 1.0},         {REDCO_UNIT_FLOPS_PER_S, "FLOP/s", 1.0},
    {REDCO_UNIT_FLOPS_PER_S, "FLOPS", 1.0}, {REDCO_UNIT_WATTS, "W", 1.0},
};

static const char *example_of(redco_unit unit)
{
    switch (unit) {
    case REDCO_UNIT_BYTES: return "\"80 GB\" or \"80 GiB\"";
    case REDCO_UNIT_BYTES_PER_S: return "\"4.8 TB/s\" or \"200 Gb/s\"";
    case REDCO_UNIT_SECONDS: return "\"5 us\"";
    case REDCO_UNIT_FLOPS_PER_S: return "\"312 TFLOP/s\"";
    case REDCO_UNIT_WATTS: return "\"400 W\"";
    }
    return "";
}

static bool prefix_factor(const char *text, size_t length, redco_unit unit, double *factor_out)
{
    const struct prefix *table = decimal_and_binary;
    size_t count = sizeof decimal_and_binary / sizeof decimal_and_binary[0];
    if (unit == REDCO_UNIT_SECONDS) {
        table = small_decimal;
        count = sizeof small_decimal / sizeof small_decimal[0];
    }
    for (size_t i = 0; i < count; i++) {
        if (strlen(table[i].name) == length && strncmp(table[i].name, text, length) == 0) {
            *factor_out = table[i].factor;
            return true;
        }
    }
    return false;
}

static bool unit_factor(const char *text, redco_unit unit, double *factor_out)
{
    const size_t length = strlen(text);
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        const size_t suffix_length = strlen(suffixes[i].name);
        double prefix = 1.0;
        if (suffixes[i].unit != unit || length < suffix_length) { continue; }
        if (strcmp(text + length - suffix_length, suffixes[i].name) != 0) { continue; }
        if (prefix_factor(text, length - suffix_length, unit, &prefix)) {
            *factor_out = prefix * suffixes[i].factor;
            return true;
        }
    }
    return false;
}

redco_status redco_unit_parse(const char *text, redco_unit unit, const char *place, double *value_out, redco_error *err)
{
    const bool negative = text[0] == '-'; /* a number, but of no quantity */
    const char *const digits = text + negative;
    double number = 0.0;
    const size_t used = redco_real_read(digits, strlen(digits), &number);
    if (used == 0 || (digits[used] != '\0' && strchr("xX.", digits[used]) != NULL)) {
        return redco_fail(err, REDCO_EVALUE, place, "\"%.40s\" is not a quantity; write %s", text, example_of(unit));
    }
    const char *const end = digits + used + strspn(digits + used, " ");
    if (*end == '\0') {
        return redco_fail(err, REDCO_EVALUE, place, "\"%.40s\" has no unit; write %s", text, example_of(unit));
    }
    double factor = 0.0;
    if (!unit_factor(end, unit, &factor)) {
        return redco_fail(err, REDCO_EVALUE, place, "unknown unit \"%.40s\"; write %s", end, example_of(unit));
    }
    const double value = number * factor;
    if (negative || !isfinite(value) || value > largest_value) {
        return redco_fail(err, REDCO_EVALUE, place, "\"%.40s\" is out of range; write %s", text, example_of(unit));
    }
    *value_out = value;
    return REDCO_OK;
}

const char *redco_unit_format(double value, redco_unit unit, char *buffer, size_t size)
{
    static const struct prefix large[] = {{"", 1.0}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}};
    static const struct prefix small[] = {{"n", 1e-9}, {"u", 1e-6}, {"m", 1e-3}, {"", 1.0}};
    const struct prefix *table = unit == REDCO_UNIT_SECONDS ? small : large;
    const size_t count = unit == REDCO_UNIT_SECONDS ? 4 : 6;
    const char *name = "";
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        if (suffixes[i].unit == unit && suffixes[i].factor == 1.0) {
            name = suffixes[i].name;
            break;
        }
    }
    size_t chosen = unit == REDCO_UNIT_SECONDS ? count - 1 : 0;
    if (value > 0.0) {
        chosen = 0;
        /* 0.99995: a value that rounds to 1000 at four digits takes the next prefix. */
        while (chosen + 1 < count && value >= table[chosen + 1].factor * 0.99995) { chosen++; }
    }
    (void)snprintf(buffer, size, "%.4g %s%s", value / table[chosen].factor, table[chosen].name, name);
    return buffer;
}

bool redco_mul_u64(uint64_t a, uint64_t b, uint64_t *product_out)
{
    if (a != 0 && b > UINT64_MAX / a) { return false; }
    *product_out = a * b;
    return true;
}
