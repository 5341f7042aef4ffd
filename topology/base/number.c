#include "topology/base/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of decimal digits from `at` on. */
static size_t digits_at(const char *text, size_t length, size_t at)
{
    size_t end = at;
    while (end < length && text[end] >= '0' && text[end] <= '9') { end++; }
    return end - at;
}

size_t redco_whole_read(const char *text, size_t length, uint64_t *out)
{
    const size_t digits = digits_at(text, length, 0);
    uint64_t value = 0;
    for (size_t i = 0; i < digits; i++) {
        const uint64_t digit = (uint64_t)(text[i] - '0');
        if (value > (UINT64_MAX - digit) / 10) { return 0; }
        value = value * 10 + digit;
    }
    if (digits > 0) { *out = value; }
    return digits;
}

size_t redco_real_read(const char *text, size_t length, double *out)
{
    char copy[512];
    const size_t whole = digits_at(text, length, 0);
    size_t used = whole;
    if (used < length && text[used] == '.') {
        const size_t fraction = digits_at(text, length, used + 1);
        if (whole + fraction == 0) { return 0; }
        used += 1 + fraction;
    }
    if (used == 0) { return 0; }
    if (used < length && (text[used] == 'e' || text[used] == 'E')) {
        const bool sign = used + 1 < length && (text[used + 1] == '+' || text[used + 1] == '-');
        const size_t exponent = digits_at(text, length, used + 1 + sign);
        if (exponent > 0) { used += 1 + sign + exponent; }
    }
    if (used >= sizeof copy) { return 0; }
    memcpy(copy, text, used);
    copy[used] = '\0';
    const double value = strtod(copy, NULL);
    if (!isfinite(value)) { return 0; }
    *out = value;
    return used;
}

bool redco_whole_parse(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    const size_t length = strlen(text);
    uint64_t value = 0;
    if (length == 0 || redco_whole_read(text, length, &value) != length || value < min || value > max) { return false; }
    *out = value;
    return true;
}

bool redco_real_parse(const char *text, double min, double max, double *out)
{
    const size_t length = strlen(text);
    double value = 0.0;
    if (length == 0 || redco_real_read(text, length, &value) != length || value < min || value > max) { return false; }
    *out = value;
    return true;
}
