#include "planner/run/run_terms.h"

#include "topology/base/number.h"
#include "topology/base/units.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { DETECT, RESTART, REPAIR };
static const double most_s = 1e9;

const char *const redco_run_keys[] = {"tokens",    "price",  "failures",       "recovery",       "checkpoint",
                                      "storage",   "spares", "fault-tolerant", "critical-batch", "noise",
                                      "slow-rank", "pue",    "grid",           "host-watts",     NULL};

redco_run_words redco_run_words_default(void)
{
    return (redco_run_words){.terms = redco_run_terms_default()};
}

/* "NAME=VALUE" at the start of a list. @return its end, NULL where the name is another or there is no value */
static const char *item(const char *text, const char *name, char value_out[64])
{
    const size_t length = strlen(name);
    if (strncmp(text, name, length) != 0 || text[length] != '=') { return NULL; }
    const size_t size = strcspn(text + length + 1, ",");
    if (size == 0 || size >= 64) { return NULL; }
    (void)snprintf(value_out, 64, "%.*s", (int)size, text + length + 1);
    return text + length + 1 + size;
}

static redco_status read_seconds(const char *text, const char *place, double *out, redco_error *err)
{
    double seconds = 0.0;
    const redco_status st = redco_run_parse(text, REDCO_RUN_SECONDS, place, &seconds, err);
    if (st != REDCO_OK) { return st; }
    if (seconds > most_s) { return redco_fail(err, REDCO_EVALUE, place, "\"%.40s\" is too long", text); }
    *out = seconds;
    return REDCO_OK;
}

/* A list of names with seconds; @p text may begin with a comma. */
static redco_status read_times(const char *text, const char *const *names, double *const *values, bool *const *given,
                               const char *place, const char *form, redco_error *err)
{
    const char *at = text;
    while (*at != '\0') {
        char value[64];
        size_t i = 0;
        const char *end = NULL;
        for (; names[i] != NULL && (end = item(at, names[i], value)) == NULL; i++) {}
        if (end == NULL) { return redco_fail(err, REDCO_EVALUE, place, "\"%.60s\" is not of the form %s", text, form); }
        const redco_status st = read_seconds(value, place, values[i], err);
        if (st != REDCO_OK) { return st; }
        if (given[i] != NULL) { *given[i] = true; }
        if (*end == ',' && end[1] == '\0') {
            return redco_fail(err, REDCO_EVALUE, place, "\"%.60s\" ends with a comma", text);
        }
        at = *end == ',' ? end + 1 : end;
    }
    return REDCO_OK;
}

static redco_status read_recovery(redco_run_words *w, const char *text, const char *place, redco_error *err)
{
    static const char *const names[] = {"detect", "restart", "repair", "reload", NULL};
    double *const values[] = {&w->recovery_s[DETECT], &w->recovery_s[RESTART], &w->recovery_s[REPAIR],
                              &w->terms.reload_s};
    bool *const given[] = {&w->recovery_given[DETECT], &w->recovery_given[RESTART], &w->recovery_given[REPAIR], NULL};
    static const char form[] = "detect=1min,restart=4min,reload=30s,repair=24h";
    if (text[0] == '\0') { return redco_fail(err, REDCO_EVALUE, place, "is empty; write %s", form); }
    return read_times(text, names, values, given, place, form, err);
}

static redco_status read_checkpoint(redco_run_words *w, const char *text, const char *place, redco_error *err)
{
    static const char *const modes[] = {"blocking", "async", "memory", NULL};
    static const char *const names[] = {"interval", "wait", "write", NULL};
    static const char form[] = "blocking|async|memory[,interval=10min][,wait=5s][,write=60s]";
    double *const values[] = {&w->terms.interval_s, &w->terms.block_s, &w->terms.write_s};
    bool *const given[] = {NULL, NULL, NULL};
    const size_t length = strcspn(text, ",");
    int mode = 0;
    while (modes[mode] != NULL && (strlen(modes[mode]) != length || strncmp(text, modes[mode], length) != 0)) {
        mode++;
    }
    if (modes[mode] == NULL) {
        return redco_fail(err, REDCO_EVALUE, place, "\"%.60s\" is not of the form %s", text, form);
    }
    w->terms.saving = (redco_saving)mode;
    if (text[length] == ',' && text[length + 1] == '\0') {
        return redco_fail(err, REDCO_EVALUE, place, "\"%.60s\" ends with a comma", text);
    }
    const redco_status st = read_times(text + length + (text[length] == ','), names, values, given, place, form, err);
    if (st == REDCO_OK && w->terms.interval_s != 0.0 && w->terms.interval_s < 1.0) {
        return redco_fail(err, REDCO_EVALUE, place, "an interval of less than a second");
    }
    return st;
}

static redco_status read_noise(redco_run_words *w, const char *text, const char *place, redco_error *err)
{
    static const char form[] = "static=0.01,transient=0.02, shares of a rank's time up to 1";
    const char *at = text;
    if (*at == '\0') { return redco_fail(err, REDCO_EVALUE, place, "is empty; write %s", form); }
    while (*at != '\0') {
        char value[64];
        double *to = &w->terms.noise.static_ratio;
        const char *end = item(at, "static", value);
        if (end == NULL) {
            to = &w->terms.noise.transient_ratio;
            end = item(at, "transient", value);
        }
        if (end == NULL || !redco_real_parse(value, 0.0, 1.0, to) || (*end == ',' && end[1] == '\0')) {
            return redco_fail(err, REDCO_EVALUE, place, "\"%.60s\" is not of the form %s", text, form);
        }
        at = *end == ',' ? end + 1 : end;
    }
    w->terms.noise_given = true;
    return REDCO_OK;
}

static redco_status read_real(const char *text, double min, double max, const char *place, double *out,
                              redco_error *err)
{
    if (redco_real_parse(text, min, max, out)) { return REDCO_OK; }
    return redco_fail(err, REDCO_EVALUE, place, "\"%.40s\" is not a decimal number from %g to %g", text, min, max);
}

static redco_status read_critical(redco_run_words *w, const char *text, const char *place, redco_error *err)
{
    double tokens = 0.0;
    if (!isdigit((unsigned char)text[0])) { return redco_critical_batch_read(text, &w->terms.critical, err); }
    redco_status st = redco_run_parse(text, REDCO_RUN_TOKENS, place, &tokens, err);
    if (st == REDCO_OK && tokens < 1.0) { st = redco_fail(err, REDCO_EVALUE, place, "is less than a token"); }
    if (st == REDCO_OK) { w->terms.critical = redco_critical_batch_of(tokens); }
    return st;
}

static redco_status read_stall(redco_run_words *w, const char *text, const char *place, redco_error *err)
{
    double seconds = 0.0;
    w->terms.fault_tolerant = true;
    if (text[0] == '\0') { return REDCO_OK; }
    const redco_status st = read_seconds(text, place, &seconds, err);
    if (st == REDCO_OK) { w->terms.stall_s = redco_run_given(seconds); }
    return st;
}

static redco_status read_spares(redco_run_words *w, const char *text, const char *place, redco_error *err)
{
    uint64_t spares = 0;
    if (!redco_whole_parse(text, 0, 100000, &spares)) {
        return redco_fail(err, REDCO_EVALUE, place, "\"%.40s\" is not a whole number from 0 to 100000", text);
    }
    w->terms.spares_given = true;
    w->terms.spares = (uint32_t)spares;
    return REDCO_OK;
}

static redco_status read_storage(redco_run_words *w, const char *text, const char *place, redco_error *err)
{
    double rate = 0.0;
    const redco_status st = redco_unit_parse(text, REDCO_UNIT_BYTES_PER_S, place, &rate, err);
    if (st != REDCO_OK) { return st; }
    if (!(rate >= 1.0)) { return redco_fail(err, REDCO_EVALUE, place, "\"%.40s\" stores nothing", text); }
    w->terms.storage_given = true;
    w->terms.storage_bytes_per_s = redco_run_given(rate);
    return REDCO_OK;
}

static redco_status read_tokens(redco_run_words *w, const char *text, const char *place, redco_error *err)
{
    double tokens = 0.0;
    const redco_status st = redco_run_parse(text, REDCO_RUN_TOKENS, place, &tokens, err);
    if (st != REDCO_OK) { return st; }
    if (!(tokens >= 1.0) || tokens > 1e18) {
        return redco_fail(err, REDCO_EVALUE, place, "\"%.40s\" is not from 1 to 1e18 tokens", text);
    }
    w->terms.tokens = tokens;
    w->tokens_given = true;
    return REDCO_OK;
}

/* Errors of texts name a quantity; those of files their place in it. */
static redco_status read_failures(redco_run_words *w, const char *text, const char *place, redco_error *err)
{
    redco_error why = {.status = REDCO_OK};
    const redco_status st = redco_failures_read(text, &w->terms.failures, &why);
    if (st != REDCO_OK) {
        const bool quantity = strcmp(why.place, "failures") == 0;
        return redco_fail(err, st, quantity ? place : why.place, "%s", why.text);
    }
    w->failures_given = true;
    return REDCO_OK;
}

static redco_status read_grid(redco_run_words *w, const char *text, const char *place, redco_error *err)
{
    redco_error why = {.status = REDCO_OK};
    const redco_status st = redco_grid_read(text, &w->terms.grid_g_per_kwh, &why);
    if (st != REDCO_OK) {
        return redco_fail(err, st, strcmp(why.place, "grid") == 0 ? place : why.place, "%s", why.text);
    }
    w->terms.has_grid = true;
    return REDCO_OK;
}

static redco_status read_pue(redco_run_words *w, const char *text, const char *place, redco_error *err)
{
    double pue = 0.0;
    const redco_status st = read_real(text, 1.0, 10.0, place, &pue, err);
    if (st != REDCO_OK) { return st; }
    w->terms.pue = redco_run_given(pue);
    w->terms.pue_given = true;
    return REDCO_OK;
}

static redco_status read_host(redco_run_words *w, const char *text, const char *place, redco_error *err)
{
    double watts = 0.0;
    const redco_status st = read_real(text, 0.0, 1e5, place, &watts, err);
    if (st != REDCO_OK) { return st; }
    w->terms.host_w = redco_run_given(watts);
    w->terms.host_given = true;
    return REDCO_OK;
}

static redco_status read_slow(redco_run_words *w, const char *text, const char *place, redco_error *err)
{
    return read_real(text, 1.0, 1000.0, place, &w->terms.slow_rank, err);
}

/* It is read again when the GPU is known. */
static redco_status read_price(redco_run_words *w, const char *text, const char *place, redco_error *err)
{
    redco_run_value value;
    redco_error why = {.status = REDCO_OK};
    char currency[16];
    bool known = false;
    if (text[0] == '\0') { return redco_fail(err, REDCO_EVALUE, place, "is empty; write 2.5/gpu-hour"); }
    const redco_status st = redco_price_read(text, "", &known, &value, currency, &why);
    if (st != REDCO_OK) {
        return redco_fail(err, st, strcmp(why.place, "price") == 0 ? place : why.place, "%s", why.text);
    }
    w->price = text;
    return REDCO_OK;
}

redco_status redco_run_words_take(redco_run_words *words, const char *key, const char *text, const char *place,
                                  redco_error *err)
{
    static redco_status (*const readers[])(redco_run_words *, const char *, const char *, redco_error *) = {
        read_tokens, read_price,    read_failures, read_recovery, read_checkpoint, read_storage, read_spares,
        read_stall,  read_critical, read_noise,    read_slow,     read_pue,        read_grid,    read_host};
    for (size_t i = 0; redco_run_keys[i] != NULL; i++) {
        if (strcmp(redco_run_keys[i], key) != 0) { continue; }
        words->said |= 1U << i;
        return readers[i](words, text, place, err);
    }
    return redco_fail(err, REDCO_EVALUE, place, "\"%.40s\" is no term of a run", key);
}

bool redco_run_words_said(const redco_run_words *words, const char *key)
{
    for (size_t i = 0; redco_run_keys[i] != NULL; i++) {
        if (strcmp(redco_run_keys[i], key) == 0) { return (words->said >> i & 1) != 0; }
    }
    return false;
}

redco_status redco_run_words_finish(const redco_run_words *words, const char *gpu, redco_run_terms *terms_out,
                                    bool *price_known_out, redco_error *err)
{
    redco_run_terms terms = words->terms;
    bool known = true;
    redco_status st = words->failures_given ? REDCO_OK : redco_failures_read("tuned-large", &terms.failures, err);
    redco_run_value *const times[] = {&terms.failures.detect_s, &terms.failures.restart_s, &terms.failures.repair_s};
    for (int i = 0; i < 3; i++) {
        if (words->recovery_given[i]) { *times[i] = redco_run_given(words->recovery_s[i]); }
    }
    if (st == REDCO_OK && words->price != NULL) {
        st = redco_price_read(words->price, gpu, &known, &terms.price, terms.currency, err);
        terms.priced = st == REDCO_OK && known;
    }
    if (price_known_out != NULL) { *price_known_out = known; }
    if (st == REDCO_OK) { *terms_out = terms; }
    return st;
}
