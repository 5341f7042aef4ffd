#include "planner/run/run_values.h"

#include "planner/run/reliability.h"
#include "topology/base/number.h"
#include "topology/base/preset.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double day_s = 86400.0;

const char *redco_run_evidence_word(redco_run_evidence evidence)
{
    static const char *const words[] = {"given", "measured here", "calibrated", "published", "assumed"};
    return words[evidence];
}

redco_run_evidence redco_run_evidence_weaker(redco_run_evidence a, redco_run_evidence b)
{
    return a > b ? a : b;
}

redco_run_value redco_run_given(double value)
{
    return (redco_run_value){.value = value, .low = value, .high = value, .evidence = REDCO_GIVEN, .source = "given"};
}

redco_run_value redco_run_assumed(double value, double low, double high, const char *source)
{
    redco_run_value made = {.value = value, .low = low, .high = high, .evidence = REDCO_ASSUMED};
    (void)snprintf(made.source, sizeof made.source, "%s", source);
    return made;
}

struct word {
    const char *name;
    double factor;
};

static const struct word seconds[] = {{"s", 1.0}, {"min", 60.0}, {"h", 3600.0}, {"d", 86400.0}, {NULL, 0.0}};
static const struct word tokens[] = {{"", 1.0},  {"K", 1e3},  {"k", 1e3},  {"M", 1e6}, {"G", 1e9},
                                     {"B", 1e9}, {"T", 1e12}, {"P", 1e15}, {NULL, 0.0}};
static const struct word rates[] = {{"/node-day", 1.0 / 86400.0}, {NULL, 0.0}};
static const struct word prices[] = {{"", 1.0}, {"/gpu-hour", 1.0}, {"/GPU-hour", 1.0}, {NULL, 0.0}};
static const struct word intensities[] = {{"", 1.0}, {"gCO2/kWh", 1.0}, {"g/kWh", 1.0}, {NULL, 0.0}};
static const struct word ratios[] = {{"", 1.0}, {NULL, 0.0}};

static const struct {
    const struct word *words;
    const char *example;
} units[] = {
    [REDCO_RUN_SECONDS] = {seconds, "90s, 10min, 2h or 60d"}, [REDCO_RUN_TOKENS] = {tokens, "15T, 300B or 40M"},
    [REDCO_RUN_RATE] = {rates, "\"3.8e-3 /node-day\""},       [REDCO_RUN_PRICE] = {prices, "2.5/gpu-hour"},
    [REDCO_RUN_INTENSITY] = {intensities, "\"56 gCO2/kWh\""}, [REDCO_RUN_RATIO] = {ratios, "1.2"},
};

redco_status redco_run_parse(const char *text, redco_run_unit unit, const char *place, double *value_out,
                             redco_error *err)
{
    double number = 0.0;
    const size_t used = redco_real_read(text, strlen(text), &number);
    const char *const end = text + used + strspn(text + used, " ");
    const bool bare = *end == '\0' && end != text + used; /* spaces before no unit */
    if (used > 0 && !bare) {
        for (const struct word *word = units[unit].words; word->name != NULL; word++) {
            const double value = number * word->factor;
            if (strcmp(end, word->name) != 0) { continue; }
            if (!isfinite(value) || value > 1e30) { break; }
            *value_out = value;
            return REDCO_OK;
        }
    }
    return redco_fail(err, REDCO_EVALUE, place, "\"%.40s\" is not of the form %s", text, units[unit].example);
}

/* {"value", "low", "high", "source"}: texts with a unit, numbers where it is a ratio. */
static redco_status read_value(const redco_json_value *root, const char *key, redco_run_unit unit, double most,
                               redco_run_value *out, redco_error *err)
{
    static const char *const keys[] = {"value", "low", "high", "source", NULL};
    static const char assumed[] = "assumed";
    redco_json_value value;
    const char *source = NULL;
    double numbers[3];
    redco_status st = redco_json_object(root, key, &value, err);
    if (st == REDCO_OK) { st = redco_json_only(&value, keys, err); }
    if (st == REDCO_OK) { st = redco_json_string(&value, "source", &source, err); }
    for (int i = 0; i < 3 && st == REDCO_OK; i++) {
        const char *text = NULL;
        char place[256];
        if (i > 0 && !redco_json_has(&value, keys[i])) {
            numbers[i] = numbers[0];
        } else if (unit == REDCO_RUN_RATIO) {
            st = redco_json_number(&value, keys[i], 0.0, most, &numbers[i], err);
        } else if ((st = redco_json_string(&value, keys[i], &text, err)) == REDCO_OK) {
            st = redco_run_parse(text, unit, redco_json_place(&value, keys[i], place, sizeof place), &numbers[i], err);
            if (st == REDCO_OK && numbers[i] > most) {
                st = redco_json_fail(&value, keys[i], err, "\"%.40s\" is too large", text);
            }
        }
    }
    if (st != REDCO_OK) { return st; }
    if (numbers[1] > numbers[0] || numbers[2] < numbers[0]) {
        return redco_json_fail(&value, numbers[1] > numbers[0] ? "low" : "high", err, "does not enclose the value");
    }
    *out = (redco_run_value){.value = numbers[0],
                             .low = numbers[1],
                             .high = numbers[2],
                             .evidence =
                                 strncmp(source, assumed, sizeof assumed - 1) == 0 ? REDCO_ASSUMED : REDCO_PUBLISHED};
    (void)snprintf(out->source, sizeof out->source, "%s", source);
    return REDCO_OK;
}

redco_status redco_failures_from_json(const redco_json_value *root, redco_failures *out, redco_error *err)
{
    static const char *const keys[] = {"format",    "version", "name",   "about", "rate",
                                       "detection", "restart", "repair", "deep",  NULL};
    uint32_t version = 0;
    const char *name = NULL;
    *out = (redco_failures){.count = 0.0};
    redco_status st = redco_json_format(root, "redco-failures", 1, &version, err);
    if (st == REDCO_OK) { st = redco_json_only(root, keys, err); }
    if (st == REDCO_OK) { st = redco_json_string(root, "name", &name, err); }
    if (st == REDCO_OK) { st = read_value(root, "rate", REDCO_RUN_RATE, 1.0, &out->rate, err); }
    if (st == REDCO_OK) { st = read_value(root, "detection", REDCO_RUN_SECONDS, 100.0 * day_s, &out->detect_s, err); }
    if (st == REDCO_OK) { st = read_value(root, "restart", REDCO_RUN_SECONDS, 100.0 * day_s, &out->restart_s, err); }
    if (st == REDCO_OK) { st = read_value(root, "repair", REDCO_RUN_SECONDS, 1000.0 * day_s, &out->repair_s, err); }
    if (st == REDCO_OK) { st = read_value(root, "deep", REDCO_RUN_RATIO, 1.0, &out->deep_ratio, err); }
    if (st == REDCO_OK) { (void)snprintf(out->name, sizeof out->name, "%s", name); }
    return st;
}

static redco_status failures_of(const char *name, redco_failures *out, redco_error *err)
{
    redco_json *document = NULL;
    redco_status st = redco_preset_open("failures", "a set of failure rates", name, &document, err);
    if (st == REDCO_OK) {
        const redco_json_value root = redco_json_root(document);
        st = redco_failures_from_json(&root, out, err);
    }
    redco_json_close(document);
    return st;
}

/* COUNT/TIME[/NODES]; @return false where it is a name. */
static bool is_count(const char *text)
{
    const size_t digits = strspn(text, "0123456789");
    return digits > 0 && text[digits] == '/';
}

redco_status redco_failures_read(const char *text, redco_failures *out, redco_error *err)
{
    static const char form[] = "is not of the form 12/30d, failures and time, or 466/54d/2048, with nodes of 8 GPUs";
    char over[32];
    uint64_t count = 0, nodes = 0;
    double over_s = 0.0;
    if (!is_count(text)) { return failures_of(text, out, err); }
    const char *const time = strchr(text, '/') + 1, *const slash = strchr(time, '/');
    const size_t length = slash != NULL ? (size_t)(slash - time) : strlen(time);
    if (length >= sizeof over || !redco_whole_read(text, strlen(text), &count) || count > 1000000000 ||
        (slash != NULL && !redco_whole_parse(slash + 1, 1, 10000000, &nodes))) {
        return redco_fail(err, REDCO_EVALUE, "failures", "\"%.60s\" %s", text, form);
    }
    (void)snprintf(over, sizeof over, "%.*s", (int)length, time);
    if (redco_run_parse(over, REDCO_RUN_SECONDS, "failures", &over_s, NULL) != REDCO_OK || !(over_s >= 1.0) ||
        over_s > 1e5 * day_s) {
        return redco_fail(err, REDCO_EVALUE, "failures", "\"%.60s\" %s", text, form);
    }
    const redco_status st = failures_of("tuned-large", out, err);
    if (st != REDCO_OK) { return st; }
    (void)snprintf(out->name, sizeof out->name, "%.60s", text);
    out->count = (double)count;
    redco_count_band(out->count, &out->count_low, &out->count_high);
    out->over_s = over_s;
    out->count_nodes = nodes;
    return REDCO_OK;
}

redco_run_value redco_failures_rate(const redco_failures *failures, uint64_t gpus)
{
    if (!(failures->over_s > 0.0)) { return failures->rate; }
    const double nodes = failures->count_nodes > 0 ? (double)failures->count_nodes : (double)gpus / REDCO_RUN_NODE_GPUS;
    const double per = 1.0 / (nodes * failures->over_s);
    redco_run_value rate = {
        .value = failures->count * per, .low = failures->count_low * per, .high = failures->count_high * per};
    (void)snprintf(rate.source, sizeof rate.source,
                   "given: %.0f failures in %.4g days on %.0f nodes of 8 GPUs; band: "
                   "90 %% interval of the count",
                   failures->count, failures->over_s / day_s, nodes);
    return rate;
}

redco_status redco_price_from_json(const redco_json_value *root, const char *gpu, bool *known_out, redco_run_value *out,
                                   char currency_out[16], redco_error *err)
{
    static const char *const keys[] = {"format", "version", "name", "about", "currency", "prices", NULL};
    static const char *const row_keys[] = {"gpu", "price", "low", "high", "from", "source", NULL};
    static const char *const numbers[] = {"price", "low", "high"};
    redco_json_value rows, row;
    size_t count = 0;
    uint32_t version = 0;
    const char *currency = "", *newest = "";
    *known_out = false;
    redco_status st = redco_json_format(root, "redco-prices", 1, &version, err);
    if (st == REDCO_OK) { st = redco_json_only(root, keys, err); }
    if (st == REDCO_OK && redco_json_has(root, "currency")) {
        st = redco_json_string(root, "currency", &currency, err);
        if (st == REDCO_OK && strlen(currency) >= 16) {
            st = redco_json_fail(root, "currency", err, "\"%.20s\" has more than 15 bytes", currency);
        }
    }
    if (st == REDCO_OK) { st = redco_json_array(root, "prices", &rows, &count, err); }
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        const char *name = NULL, *from = NULL, *source = NULL;
        double values[3] = {0.0};
        if ((st = redco_json_element(&rows, i, &row, err)) != REDCO_OK ||
            (st = redco_json_only(&row, row_keys, err)) != REDCO_OK ||
            (st = redco_json_string(&row, "gpu", &name, err)) != REDCO_OK ||
            (st = redco_json_string(&row, "from", &from, err)) != REDCO_OK ||
            (st = redco_json_string(&row, "source", &source, err)) != REDCO_OK) {
            return st;
        }
        if (strlen(from) != 10 || strspn(from, "0123456789-") != 10 || from[4] != '-' || from[7] != '-') {
            return redco_json_fail(&row, "from", err, "\"%.20s\" is not a date such as 2026-01-31", from);
        }
        for (int k = 0; k < 3; k++) {
            const char *text = NULL;
            char place[256];
            values[k] = values[0];
            if (k > 0 && !redco_json_has(&row, numbers[k])) { continue; }
            if ((st = redco_json_string(&row, numbers[k], &text, err)) != REDCO_OK ||
                (st = redco_run_parse(text, REDCO_RUN_PRICE, redco_json_place(&row, numbers[k], place, sizeof place),
                                      &values[k], err)) != REDCO_OK) {
                return st;
            }
        }
        if (values[1] > values[0] || values[2] < values[0]) {
            return redco_json_fail(&row, values[1] > values[0] ? "low" : "high", err, "does not enclose the price");
        }
        if (strcmp(name, gpu) != 0 || strcmp(from, newest) <= 0) { continue; }
        newest = from;
        *known_out = true;
        *out = (redco_run_value){.value = values[0], .low = values[1], .high = values[2], .evidence = REDCO_PUBLISHED};
        (void)snprintf(out->source, sizeof out->source, "from %s: %s", from, source);
    }
    if (st == REDCO_OK) { (void)snprintf(currency_out, 16, "%.15s", currency); }
    return st;
}

redco_status redco_price_read(const char *text, const char *gpu, bool *known_out, redco_run_value *out,
                              char currency_out[16], redco_error *err)
{
    redco_json *document = NULL;
    currency_out[0] = '\0';
    *known_out = true;
    if (isdigit((unsigned char)text[0]) && redco_preset_find("prices", text) == NULL) {
        double price = 0.0;
        const redco_status st = redco_run_parse(text, REDCO_RUN_PRICE, "price", &price, err);
        if (st == REDCO_OK) { *out = redco_run_given(price); }
        return st;
    }
    redco_status st = redco_preset_open("prices", "a table of prices", text, &document, err);
    if (st == REDCO_OK) {
        const redco_json_value root = redco_json_root(document);
        st = redco_price_from_json(&root, gpu, known_out, out, currency_out, err);
    }
    redco_json_close(document);
    return st;
}

redco_status redco_grid_from_json(const redco_json_value *root, redco_run_value *out, redco_error *err)
{
    static const char *const keys[] = {"format", "version", "name", "intensity", NULL};
    uint32_t version = 0;
    redco_status st = redco_json_format(root, "redco-grid", 1, &version, err);
    if (st == REDCO_OK) { st = redco_json_only(root, keys, err); }
    return st == REDCO_OK ? read_value(root, "intensity", REDCO_RUN_INTENSITY, 1e5, out, err) : st;
}

redco_status redco_grid_read(const char *text, redco_run_value *out, redco_error *err)
{
    redco_json *document = NULL;
    if (isdigit((unsigned char)text[0])) {
        double grams = 0.0;
        const redco_status st = redco_run_parse(text, REDCO_RUN_INTENSITY, "grid", &grams, err);
        if (st == REDCO_OK) { *out = redco_run_given(grams); }
        return st;
    }
    redco_status st = redco_preset_open("grids", "a grid", text, &document, err);
    if (st == REDCO_OK) {
        const redco_json_value root = redco_json_root(document);
        st = redco_grid_from_json(&root, out, err);
    }
    redco_json_close(document);
    return st;
}
