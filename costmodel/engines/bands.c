#include "costmodel/engines/bands.h"

#include "topology/base/preset.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

const char *const redco_band_words[REDCO_BAND_PARTS + 1] = {"source",       "engine", "gpu", "class",
                                                            "architecture", "size",   NULL};

static const char format_name[] = "redco-bands";

static const struct {
    const char *key;
    size_t offset;
    double min, max;
} ends[] = {{"low_68", offsetof(redco_band, low_68), 0.01, 1.0},
            {"high_68", offsetof(redco_band, high_68), 1.0, 100.0},
            {"low_90", offsetof(redco_band, low_90), 0.01, 1.0},
            {"high_90", offsetof(redco_band, high_90), 1.0, 100.0}};
enum { ENDS = sizeof ends / sizeof ends[0] };

static double *end_of(redco_band *band, size_t i)
{
    return (double *)((char *)band + ends[i].offset);
}

/* Widens a band by the excess of a part over the source, in quadrature of logarithms. */
static void widen(const redco_bands *bands, redco_band_part part, redco_band *band)
{
    redco_band source = bands->parts[REDCO_BAND_SOURCE].band, without = bands->parts[part].band;
    if (bands->parts[part].groups == 0) { return; }
    for (size_t i = 0; i < ENDS; i++) {
        double *const end = end_of(band, i);
        const double is = log(*end), usual = log(*end_of(&source, i)), there = log(*end_of(&without, i));
        const double more = fmax(0.0, there * there - usual * usual);
        const double wide = exp(copysign(sqrt(is * is + more), i % 2 == 0 ? -1.0 : 1.0));
        *end = fmin(fmax(wide, ends[i].min), ends[i].max);
    }
}

redco_band redco_bands_at(const redco_bands *bands, unsigned unseen)
{
    redco_band band = bands->parts[REDCO_BAND_SOURCE].band;
    for (unsigned part = REDCO_BAND_SOURCE + 1; part < REDCO_BAND_PARTS; part++) {
        if ((unseen & (1U << part)) != 0) { widen(bands, (redco_band_part)part, &band); }
    }
    return band;
}

redco_band redco_bands_beyond(const redco_bands *bands, const redco_band *band)
{
    redco_band wider = *band;
    if (wider.high_68 > 0.0) { widen(bands, REDCO_BAND_SIZE, &wider); }
    return wider;
}

redco_status redco_band_from_json(const redco_json_value *value, const char *key, redco_band *band_out,
                                  redco_error *err)
{
    redco_json_value at;
    redco_band band = {0};
    redco_status st = redco_json_object(value, key, &at, err);
    for (size_t i = 0; i < ENDS && st == REDCO_OK; i++) {
        st = redco_json_number(&at, ends[i].key, ends[i].min, ends[i].max, end_of(&band, i), err);
    }
    if (st == REDCO_OK && (band.low_90 > band.low_68 || band.high_90 < band.high_68)) {
        st = redco_json_fail(value, key, err, "has a 90 %% band within the 68 %% one");
    }
    if (st == REDCO_OK) { *band_out = band; }
    return st;
}

json_t *redco_band_describe(const redco_band *band)
{
    return json_pack("{s:f,s:f,s:f,s:f}", ends[0].key, band->low_68, ends[1].key, band->high_68, ends[2].key,
                     band->low_90, ends[3].key, band->high_90);
}

double redco_band_half_ratio(const redco_band *band)
{
    return 0.5 * (band->high_68 - band->low_68);
}

static const char *const software_words[] = {"unknown", "eager", "megatron", "te_xla"};

const char *redco_band_name(const redco_band_question *question, redco_band_part part, char name[REDCO_BAND_NAME])
{
    switch (part) {
    case REDCO_BAND_ENGINE:
        (void)snprintf(name, REDCO_BAND_NAME, "%.36s %.16s", question->engine, question->architecture);
        return name;
    case REDCO_BAND_GPU: /* memory sizes and forms of one chip are no GPUs of their own */
        (void)snprintf(name, REDCO_BAND_NAME, "%.*s", (int)strcspn(question->gpu, "-"), question->gpu);
        return name;
    case REDCO_BAND_CLASS:
        (void)snprintf(name, REDCO_BAND_NAME, "%.16s %s", question->architecture, software_words[question->software]);
        return name;
    case REDCO_BAND_ARCHITECTURE: (void)snprintf(name, REDCO_BAND_NAME, "%.16s", question->architecture); return name;
    case REDCO_BAND_SOURCE:
    case REDCO_BAND_SIZE:
    case REDCO_BAND_PARTS: name[0] = '\0'; return name;
    }
    return name;
}

static const redco_band_part named[] = {REDCO_BAND_ARCHITECTURE, REDCO_BAND_CLASS, REDCO_BAND_GPU, REDCO_BAND_ENGINE};
enum { NAMED = sizeof named / sizeof named[0] };

static bool has_seen(const redco_bands *bands, redco_band_part part, const char *name)
{
    for (uint32_t i = 0; i < bands->seen_count[part]; i++) {
        if (strcasecmp(bands->seen[part][i], name) == 0) { return true; }
    }
    return false;
}

static const unsigned bits[REDCO_BAND_WIDTHS] = {32, 16, 8, 4};

redco_band_width redco_band_width_of(redco_precision precision, redco_gemm_format format)
{
    switch (format) {
    case REDCO_GEMM_NVFP4: return REDCO_BAND_4_BITS;
    case REDCO_GEMM_FP8:
    case REDCO_GEMM_MXFP8: return REDCO_BAND_8_BITS;
    case REDCO_GEMM_SAME: break;
    }
    return precision == REDCO_FP32 ? REDCO_BAND_32_BITS : REDCO_BAND_16_BITS;
}

static const char *mfu_name(const redco_band_question *question, char name[REDCO_BAND_NAME])
{
    (void)snprintf(name, REDCO_BAND_NAME, "%.16s %s %u bits", question->architecture,
                   software_words[question->software], bits[question->width]);
    return name;
}

static void note_mfu(redco_bands *bands, const redco_band_question *run, double mfu)
{
    char name[REDCO_BAND_NAME];
    uint32_t at = 0;
    if (!(mfu > 0.0)) { return; }
    (void)mfu_name(run, name);
    while (at < bands->mfu_count && strcmp(bands->mfu[at].of, name) != 0) { at++; }
    if (at == REDCO_BAND_MFUS) { return; }
    if (at == bands->mfu_count) {
        bands->mfu_count++;
        memcpy(bands->mfu[at].of, name, sizeof name);
        bands->mfu[at].ratio = 0.0;
    }
    bands->mfu[at].ratio = fmax(bands->mfu[at].ratio, mfu);
}

/* The highest of those whose name begins and ends so. */
static const char *highest(const redco_bands *bands, const char *begin, const char *end, double *ratio_out)
{
    const char *found = NULL;
    for (uint32_t i = 0; i < bands->mfu_count; i++) {
        const char *const of = bands->mfu[i].of;
        const size_t length = strlen(of), tail = strlen(end);
        if (strncmp(of, begin, strlen(begin)) != 0 || length < tail || strcmp(of + length - tail, end) != 0 ||
            (found != NULL && bands->mfu[i].ratio <= *ratio_out)) {
            continue;
        }
        found = of;
        *ratio_out = bands->mfu[i].ratio;
    }
    return found;
}

const char *redco_bands_most_mfu(const redco_bands *bands, const redco_band_question *question, double *ratio_out)
{
    char name[REDCO_BAND_NAME], architecture[REDCO_BAND_NAME], width[REDCO_BAND_NAME];
    (void)snprintf(architecture, sizeof architecture, "%.16s ", question->architecture);
    (void)snprintf(width, sizeof width, " %u bits", bits[question->width]);
    const char *found = highest(bands, mfu_name(question, name), "", ratio_out);
    if (found == NULL) { found = highest(bands, architecture, width, ratio_out); }
    if (found == NULL) { found = highest(bands, "", width, ratio_out); }
    return found != NULL ? found : highest(bands, "", " 16 bits", ratio_out);
}

const char *redco_band_say_mfu(double mfu, const char *of, double most, char *buffer, size_t size)
{
    /* Twice what measurements of one layout differ by. Since 2; source: the 63 layouts that traces/data has more than
     * once, whose fastest and slowest run are 2.7 % apart in the median. */
    static const double repeats_ratio = 0.05;
    buffer[0] = '\0';
    if (of != NULL && of[0] != '\0' && mfu > (1.0 + repeats_ratio) * most) {
        (void)snprintf(buffer, size, "MFU %.2f, of measured runs at most %.2f (%s)", mfu, most, of);
    }
    return buffer;
}

void redco_bands_note(redco_bands *bands, const redco_band_question *run, double mfu)
{
    char name[REDCO_BAND_NAME];
    note_mfu(bands, run, mfu);
    for (size_t i = 0; i < NAMED; i++) {
        uint32_t *const count = &bands->seen_count[named[i]];
        if (has_seen(bands, named[i], redco_band_name(run, named[i], name)) || *count == REDCO_BAND_SEEN) { continue; }
        memcpy(bands->seen[named[i]][(*count)++], name, sizeof name);
    }
}

unsigned redco_bands_unseen(const redco_bands *bands, const redco_band_question *question)
{
    char name[REDCO_BAND_NAME];
    unsigned unseen = 0;
    /* An architecture that is unknown makes its class and its GPU so: the widest of the three counts once. */
    for (size_t i = 0; i < NAMED; i++) {
        const bool of_gpu = named[i] != REDCO_BAND_ENGINE;
        if (has_seen(bands, named[i], redco_band_name(question, named[i], name)) || (of_gpu && unseen != 0)) {
            continue;
        }
        unseen |= 1U << named[i];
    }
    return unseen;
}

const char *redco_band_say(unsigned unseen, const redco_band_question *question, char *buffer, size_t size)
{
    const bool engine = (unseen & (1U << REDCO_BAND_ENGINE)) != 0;
    buffer[0] = '\0';
    if ((unseen & (1U << REDCO_BAND_ARCHITECTURE)) != 0) {
        (void)snprintf(buffer, size, "no run on %.16s GPUs is known to the fit", question->architecture);
    } else if ((unseen & (1U << REDCO_BAND_CLASS)) != 0) {
        (void)snprintf(buffer, size, "no run of software like %.36s on %.16s GPUs is known to the fit",
                       question->engine, question->architecture);
    } else if ((unseen & (1U << REDCO_BAND_GPU)) != 0) {
        (void)snprintf(buffer, size, "no run on %.40s is known to the fit", question->gpu);
    } else if (engine) {
        (void)snprintf(buffer, size, "no run of %.36s on %.16s GPUs is known to the fit", question->engine,
                       question->architecture);
    }
    return buffer;
}

static redco_status read_seen(const redco_json_value *root, unsigned part, redco_bands *bands, redco_error *err)
{
    redco_json_value seen, list, entry;
    size_t count = 0;
    redco_status st = redco_json_object(root, "seen", &seen, err);
    if (st != REDCO_OK || !redco_json_has(&seen, redco_band_words[part])) { return st; }
    st = redco_json_array(&seen, redco_band_words[part], &list, &count, err);
    if (st == REDCO_OK && count > REDCO_BAND_SEEN) {
        return redco_json_fail(&seen, redco_band_words[part], err, "has more than %d names", REDCO_BAND_SEEN);
    }
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        if ((st = redco_json_element(&list, i, &entry, err)) != REDCO_OK) { return st; }
        if (!json_is_string(entry.json) || strlen(json_string_value(entry.json)) >= REDCO_BAND_NAME) {
            return redco_json_fail(&seen, redco_band_words[part], err, "has an entry that is no name");
        }
        (void)snprintf(bands->seen[part][bands->seen_count[part]++], REDCO_BAND_NAME, "%s",
                       json_string_value(entry.json));
    }
    return st;
}

static redco_status read_part(const redco_json_value *root, unsigned part, redco_bands *bands, redco_error *err)
{
    redco_json_value parts, value;
    redco_status st = redco_json_object(root, "parts", &parts, err);
    if (st != REDCO_OK || !redco_json_has(&parts, redco_band_words[part])) { return st; }
    if ((st = redco_json_object(&parts, redco_band_words[part], &value, err)) != REDCO_OK ||
        (st = redco_json_u32(&value, "groups", 1, UINT32_MAX, &bands->parts[part].groups, err)) != REDCO_OK ||
        (st = redco_json_u32(&value, "rows", 1, UINT32_MAX, &bands->parts[part].rows, err)) != REDCO_OK) {
        return st;
    }
    return redco_band_from_json(&parts, redco_band_words[part], &bands->parts[part].band, err);
}

static redco_status read_mfu(const redco_json_value *root, redco_bands *bands, redco_error *err)
{
    redco_json_value object;
    const char *key = NULL;
    json_t *value = NULL;
    if (!redco_json_has(root, "mfu")) { return REDCO_OK; }
    redco_status st = redco_json_object(root, "mfu", &object, err);
    if (st != REDCO_OK) { return st; }
    json_object_foreach((json_t *)(uintptr_t)object.json, key, value)
    {
        if (bands->mfu_count == REDCO_BAND_MFUS || strlen(key) >= REDCO_BAND_NAME) {
            return redco_json_fail(root, "mfu", err, "has more than %d names, or a long one", REDCO_BAND_MFUS);
        }
        if (!(json_number_value(value) > 0.0)) { return redco_json_fail(&object, key, err, "is not above 0"); }
        (void)snprintf(bands->mfu[bands->mfu_count].of, REDCO_BAND_NAME, "%s", key);
        bands->mfu[bands->mfu_count++].ratio = json_number_value(value);
    }
    return REDCO_OK;
}

redco_status redco_bands_read(const char *name_or_path, redco_bands *bands_out, redco_error *err)
{
    redco_json *document = NULL;
    redco_bands bands = {0};
    uint32_t version = 0;
    redco_status st = redco_preset_open("bands", "bands", name_or_path, &document, err);
    if (st != REDCO_OK) { return st; }
    const redco_json_value root = redco_json_root(document);
    st = redco_json_format(&root, format_name, 1, &version, err);
    for (unsigned part = 0; part < REDCO_BAND_PARTS && st == REDCO_OK; part++) {
        st = read_part(&root, part, &bands, err);
        if (st == REDCO_OK) { st = read_seen(&root, part, &bands, err); }
    }
    if (st == REDCO_OK) { st = read_mfu(&root, &bands, err); }
    if (st == REDCO_OK && bands.parts[REDCO_BAND_SOURCE].groups == 0) {
        st = redco_json_fail(&root, "parts", err, "has no \"source\"");
    }
    redco_json_close(document);
    if (st == REDCO_OK) { *bands_out = bands; }
    return st;
}

json_t *redco_bands_describe(const redco_bands *bands, const char *basis)
{
    json_t *const parts = json_object(), *const seen = json_object(), *const mfu = json_object();
    for (size_t i = 0; i < NAMED; i++) {
        json_t *const names = json_array();
        for (uint32_t k = 0; k < bands->seen_count[named[i]]; k++) {
            (void)json_array_append_new(names, json_string(bands->seen[named[i]][k]));
        }
        (void)json_object_set_new(seen, redco_band_words[named[i]], names);
    }
    for (unsigned part = 0; part < REDCO_BAND_PARTS; part++) {
        redco_band band = bands->parts[part].band;
        if (bands->parts[part].groups == 0) { continue; }
        json_t *const one = json_pack("{s:I,s:I}", "groups", (json_int_t)bands->parts[part].groups, "rows",
                                      (json_int_t)bands->parts[part].rows);
        for (size_t i = 0; i < ENDS; i++) { (void)json_object_set_new(one, ends[i].key, json_real(*end_of(&band, i))); }
        (void)json_object_set_new(parts, redco_band_words[part], one);
    }
    for (uint32_t i = 0; i < bands->mfu_count; i++) {
        (void)json_object_set_new(mfu, bands->mfu[i].of, json_real(bands->mfu[i].ratio));
    }
    return json_pack("{s:s,s:i,s:s,s:o,s:o,s:o}", "format", format_name, "version", 1, "basis", basis, "parts", parts,
                     "seen", seen, "mfu", mfu);
}
