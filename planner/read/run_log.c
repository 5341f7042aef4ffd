#include "planner/read/run_log.h"

#include "topology/base/file.h"
#include "topology/base/number.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LOG_BYTES = 256 << 20, MOST_LINE = 4096 };

#define MIB 1048576.0
#define GIB 1073741824.0

typedef enum kind {
    STEP,
    STEPS_PER_S,
    BAR,
    TOKENS,
    SAMPLES,
    ALLOCATED,
    RESERVED,
    TIMER,
    KINDS = TIMER + REDCO_LOG_TIMERS
} kind;

/* The words before a number. Sources: Megatron Core 0.20, megatron/training/training.py and timers.py; NeMo 2, its
 * progress printer; torchtitan 0.2, components/metrics.py; transformers 5, trainer_utils.py (speed_metrics); DeepSpeed
 * 0.19, utils/timer.py; MaxText, metric_logger.py; Composer, callbacks/speed_monitor.py. */
static const struct {
    const char *guard, *words; /* the guard stands in the line, too */
    kind of;
    double unit; /* where the number has none of its own */
    const char *trainer;
} known[] = {
    {NULL, "elapsed time per iteration (ms)", STEP, 1e-3, "Megatron-LM"},
    {"memory (MB)", "max allocated", ALLOCATED, MIB, NULL},
    {"memory (MB)", "max reserved", RESERVED, MIB, NULL},
    {NULL, "    forward-backward ...", TIMER + REDCO_LOG_FORWARD_BACKWARD, 1e-3, NULL},
    {NULL, "    all-grads-sync ...", TIMER + REDCO_LOG_GRADIENTS, 1e-3, NULL},
    {NULL, "    optimizer ...", TIMER + REDCO_LOG_OPTIMIZER, 1e-3, NULL},
    {NULL, "train_step_timing in s", STEP, 1.0, "NeMo"},
    {"tflops", "tps", TOKENS, 1.0, "torchtitan"},
    {"tflops", "memory", RESERVED, GIB, NULL},
    {NULL, "train_steps_per_second", STEPS_PER_S, 1.0, "Trainer"},
    {NULL, "CurrSamplesPerSec", SAMPLES, 1.0, "DeepSpeed"},
    {NULL, "MaxMemAllocated", ALLOCATED, GIB, NULL},
    {"completed step", "seconds", STEP, 1.0, "MaxText"},
    {"completed step", "Tokens/s/device", TOKENS, 1.0, "MaxText"},
    {NULL, "throughput/device/tokens_per_sec", TOKENS, 1.0, "Composer"},
};

struct numbers {
    double *items;
    size_t count, room;
};

struct parser {
    struct numbers of[KINDS];
    redco_run_log *log;
    bool no_memory;
};

static void keep(struct parser *parser, kind of, double value)
{
    struct numbers *const list = &parser->of[of];
    if (!(value > 0.0)) { return; }
    if (list->count == list->room) {
        const size_t room = list->room > 0 ? 2 * list->room : 64;
        double *const more = realloc(list->items, room * sizeof *more);
        if (more == NULL) {
            parser->no_memory = true;
            return;
        }
        list->items = more;
        list->room = room; /* NOLINT(clang-analyzer-unix.Malloc): redco_run_log_parse() frees the lists */
    }
    list->items[list->count++] = value;
}

/* "7,024": commas between digits are none of the number. @return behind it, NULL: none stands there */
static const char *number_at(const char *text, double *out)
{
    char digits[40];
    size_t used = 0;
    const char *at = text;
    for (; used + 1 < sizeof digits; at++) {
        const bool comma = *at == ',' && at > text && isdigit((unsigned char)at[-1]) != 0 &&
                           isdigit((unsigned char)at[1]) != 0 && isdigit((unsigned char)at[2]) != 0 &&
                           isdigit((unsigned char)at[3]) != 0;
        if (comma) { continue; }
        if (isdigit((unsigned char)*at) == 0 && *at != '.') { break; }
        digits[used++] = *at;
    }
    digits[used] = '\0';
    return used > 0 && redco_real_parse(digits, 0.0, 1e18, out) ? at : NULL;
}

/* Behind words: signs, then a number, then perhaps a unit of bytes. */
static bool value_behind(const char *at, double unit, double *out)
{
    static const struct {
        const char *word;
        double bytes;
    } units[] = {{"TiB", 1024.0 * GIB}, {"GiB", GIB}, {"MiB", MIB}, {"KiB", 1024.0}};
    const char *const end = number_at(at + strspn(at, " .:=\"'|(\t"), out);
    if (end == NULL) { return false; }
    const char *const word = end + strspn(end, " ");
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strncmp(word, units[i].word, 3) == 0) { unit = units[i].bytes; }
    }
    *out *= unit;
    return true;
}

/* A timer's "(slowest, fastest)" pair states the fastest rank first. */
static double slowest(const char *at, double first)
{
    double second = 0.0;
    const char *const comma = strstr(at, ", ");
    const char *const open = strchr(at, '(');
    if (open == NULL || comma == NULL || number_at(comma + 2, &second) == NULL) { return first; }
    return second * 1e-3 > first ? second * 1e-3 : first;
}

/* A progress bar's "2.00s/it" or "1.25it/s": the number stands before the words. */
static void read_bar(struct parser *parser, const char *line)
{
    const char *const seconds = strstr(line, "s/it"), *const rate = strstr(line, "it/s");
    const char *const words = seconds != NULL ? seconds : rate;
    const char *at = words;
    double value = 0.0;
    if (words == NULL || strchr(line, '|') == NULL) { return; }
    while (at > line && (isdigit((unsigned char)at[-1]) != 0 || at[-1] == '.')) { at--; }
    if (number_at(at, &value) != NULL && value > 0.0) { keep(parser, BAR, seconds != NULL ? value : 1.0 / value); }
}

/* "| Allocated memory | current | peak | ..." of memory_summary(). */
static void read_summary(struct parser *parser, const char *line)
{
    const bool reserved = strstr(line, "| GPU reserved memory") != NULL;
    double value = 0.0;
    if (!reserved && strstr(line, "| Allocated memory") == NULL) { return; }
    const char *at = strchr(line, '|');
    for (int column = 0; column < 2 && at != NULL; column++) { at = strchr(at + 1, '|'); }
    if (at != NULL && value_behind(at + 1, 1.0, &value)) { keep(parser, reserved ? RESERVED : ALLOCATED, value); }
}

static double bytes_behind(const char *line, const char *words)
{
    const char *const at = strstr(line, words);
    double value = 0.0;
    return at != NULL && value_behind(at + strlen(words), 1.0, &value) ? value : 0.0;
}

/* "12.34 GiB already allocated": the number before some words. */
static double bytes_before(const char *line, const char *words)
{
    const char *at = strstr(line, words);
    double value = 0.0;
    if (at == NULL) { return 0.0; }
    while (at > line && strchr(";(", at[-1]) == NULL) { at--; }
    return value_behind(at, 1.0, &value) ? value : 0.0;
}

static double more(double a, double b)
{
    return a > b ? a : b;
}

/* PyTorch 2, c10/cuda/CUDACachingAllocator.cpp, and the message of before 2.1. */
static void read_out_of_memory(redco_run_log *log, const char *line)
{
    if (strstr(line, "out of memory") == NULL || strstr(line, "Tried to allocate") == NULL) { return; }
    log->out_of_memory = true;
    log->asked_bytes = more(log->asked_bytes, bytes_behind(line, "Tried to allocate"));
    log->capacity_bytes =
        more(log->capacity_bytes, more(bytes_behind(line, "total capacity of"), bytes_before(line, " total capacity")));
    log->held_bytes = more(
        log->held_bytes, more(bytes_behind(line, "Of the allocated memory"), bytes_before(line, " already allocated")));
}

static void read_line(struct parser *parser, const char *line)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const char *const at = strstr(line, known[i].words);
        double value = 0.0;
        if (at == NULL || (known[i].guard != NULL && strstr(line, known[i].guard) == NULL)) { continue; }
        if (!value_behind(at + strlen(known[i].words), known[i].unit, &value)) { continue; }
        keep(parser, known[i].of, known[i].of >= TIMER ? slowest(at, value) : value);
        if (known[i].trainer != NULL) { parser->log->trainer = known[i].trainer; }
    }
    read_bar(parser, line);
    read_summary(parser, line);
    read_out_of_memory(parser->log, line);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* @param share  0.5 is the median; @return 0 of none */
static double ranked(struct numbers *list, double share)
{
    if (list->count == 0) { return 0.0; }
    qsort(list->items, list->count, sizeof *list->items, by_size);
    return list->items[(size_t)(share * (double)(list->count - 1) + 0.5)];
}

static void finish(struct parser *parser)
{
    redco_run_log *const log = parser->log;
    struct numbers *steps = &parser->of[STEP];
    if (steps->count == 0) {
        steps = parser->of[STEPS_PER_S].count > 0 ? &parser->of[STEPS_PER_S] : &parser->of[BAR];
        for (size_t i = 0; i < steps->count && steps == &parser->of[STEPS_PER_S]; i++) {
            steps->items[i] = 1.0 / steps->items[i];
        }
        if (steps->count > 0 && log->trainer == NULL) { log->trainer = "Trainer"; }
    }
    log->step_s = ranked(steps, 0.5);
    log->step_low_s = ranked(steps, 0.05);
    log->step_high_s = ranked(steps, 0.95);
    log->tokens_per_s_per_gpu = ranked(&parser->of[TOKENS], 0.5);
    log->samples_per_s = ranked(&parser->of[SAMPLES], 0.5);
    log->steps = steps->count > 0               ? steps->count
                 : parser->of[TOKENS].count > 0 ? parser->of[TOKENS].count
                                                : parser->of[SAMPLES].count;
    log->allocated_bytes = ranked(&parser->of[ALLOCATED], 1.0);
    log->reserved_bytes = ranked(&parser->of[RESERVED], 1.0);
    for (int i = 0; i < REDCO_LOG_TIMERS; i++) { log->timers_s[i] = ranked(&parser->of[TIMER + i], 0.5); }
    if (log->trainer == NULL) { log->trainer = "PyTorch"; }
}

redco_status redco_run_log_parse(const char *text, size_t size, const char *name, redco_run_log *log_out,
                                 redco_error *err)
{
    struct parser parser = {.log = log_out};
    char line[MOST_LINE];
    *log_out = (redco_run_log){.steps = 0};
    for (size_t at = 0; at < size;) { /* bars are drawn again behind a "\r" */
        size_t end = at;
        while (end < size && text[end] != '\n' && text[end] != '\r') { end++; }
        const size_t length = end - at < MOST_LINE - 1 ? end - at : MOST_LINE - 1;
        memcpy(line, text + at, length);
        line[length] = '\0';
        read_line(&parser, line);
        at = end + 1;
    }
    finish(&parser);
    for (int i = 0; i < KINDS; i++) { free(parser.of[i].items); }
    if (parser.no_memory) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    if (log_out->steps == 0 && log_out->allocated_bytes <= 0.0 && log_out->reserved_bytes <= 0.0 &&
        !log_out->out_of_memory) {
        return redco_fail(err, REDCO_EVALUE, name,
                          "no line says a step's time, tokens/s or memory as Megatron-LM, NeMo, torchtitan, Trainer, "
                          "DeepSpeed, MaxText, Composer or PyTorch do");
    }
    return REDCO_OK;
}

redco_status redco_run_log_read(const char *path, redco_run_log *log_out, redco_error *err)
{
    char *text = NULL;
    size_t size = 0;
    redco_status st = redco_file_read(path, MOST_LOG_BYTES, &text, &size, err);
    if (st == REDCO_OK) { st = redco_run_log_parse(text, size, path, log_out, err); }
    free(text);
    return st;
}

static void add_term(redco_log_difference *d, const char *what, double measured_s, double predicted_s, bool timed)
{
    if (d->term_count < REDCO_LOG_TERMS) {
        d->terms[d->term_count++] = (redco_log_term){what, measured_s, predicted_s, timed};
    }
}

static int by_change(const void *a, const void *b)
{
    const redco_log_term *const x = a, *const y = b;
    const double p = x->measured_s / x->predicted_s, q = y->measured_s / y->predicted_s;
    const double far_p = p > 1.0 ? p : 1.0 / p, far_q = q > 1.0 ? q : 1.0 / q;
    return (far_p > far_q) - (far_p < far_q);
}

/* Without timers: each term that is a fiftieth of the step or more, as if the whole difference were its own. */
static void find_terms(redco_log_difference *d, const redco_prediction *p)
{
    const struct {
        const char *what;
        double seconds;
    } terms[] = {{"compute", p->forward_s + p->backward_s + p->recompute_s},
                 {"layer communication", p->layer_exposed_s},
                 {"gradient reduction", p->grad_reduce_exposed_s},
                 {"parameter broadcast", p->param_sync_exposed_s},
                 {"optimizer", p->optimizer_s},
                 {"other", p->other_s}};
    const double more_s = d->step_s - p->step_s;
    for (size_t i = 0; i < sizeof terms / sizeof terms[0]; i++) {
        const double as_if = terms[i].seconds + more_s;
        if (terms[i].seconds < 0.02 * p->step_s || as_if <= 0.0) { continue; }
        add_term(d, terms[i].what, as_if, terms[i].seconds, false);
    }
    qsort(d->terms, d->term_count, sizeof d->terms[0], by_change);
}

redco_log_difference redco_run_log_compare(const redco_run_log *log, const redco_prediction *predicted, double tokens,
                                           double global_batch, double gpus)
{
    const redco_prediction *const p = predicted;
    redco_log_difference d = {.step_s = log->step_s};
    if (d.step_s <= 0.0 && log->tokens_per_s_per_gpu > 0.0) { d.step_s = tokens / gpus / log->tokens_per_s_per_gpu; }
    if (d.step_s <= 0.0 && log->samples_per_s > 0.0) { d.step_s = global_batch / log->samples_per_s; }
    if (d.step_s > 0.0) {
        d.ratio = d.step_s / p->step_s;
        if (log->timers_s[REDCO_LOG_FORWARD_BACKWARD] > 0.0) {
            add_term(&d, "forward and backward", log->timers_s[REDCO_LOG_FORWARD_BACKWARD],
                     p->step_s - p->optimizer_s - p->grad_reduce_exposed_s, true);
        }
        if (log->timers_s[REDCO_LOG_GRADIENTS] > 0.0) {
            add_term(&d, "gradient reduction", log->timers_s[REDCO_LOG_GRADIENTS], p->grad_reduce_exposed_s, true);
        }
        if (log->timers_s[REDCO_LOG_OPTIMIZER] > 0.0) {
            add_term(&d, "optimizer", log->timers_s[REDCO_LOG_OPTIMIZER], p->optimizer_s, true);
        }
        if (d.term_count == 0) { find_terms(&d, p); }
    }
    d.states_bytes = (double)p->parameter_bytes + (double)p->gradient_bytes + (double)p->optimizer_bytes;
    const double rest = (double)p->allocated_bytes - d.states_bytes, measured = log->allocated_bytes - d.states_bytes;
    if (log->allocated_bytes > 0.0 && rest > 0.0 && measured > 0.0) { d.rest_ratio = measured / rest; }
    return d;
}

static json_t *known_json(double value)
{
    return value > 0.0 ? json_real(value) : json_null();
}

/* A log may say anything: what no integer holds is not known. */
static json_t *bytes_json(double value)
{
    return value > 0.0 && value < 0x1p63 ? json_integer((json_int_t)value) : json_null();
}

json_t *redco_run_log_json(const redco_run_log *log, const redco_log_difference *difference,
                           const redco_prediction *predicted)
{
    json_t *const terms = json_array();
    for (size_t i = 0; i < difference->term_count; i++) {
        const redco_log_term *const term = &difference->terms[i];
        (void)json_array_append_new(terms,
                                    json_pack("{s:s,s:f,s:f,s:b}", "what", term->what, "measured_s", term->measured_s,
                                              "predicted_s", term->predicted_s, "timed", term->timed));
    }
    json_t *const out = log->out_of_memory
                            ? json_pack("{s:o,s:o,s:o}", "asked_bytes", bytes_json(log->asked_bytes), "held_bytes",
                                        bytes_json(log->held_bytes), "capacity_bytes", bytes_json(log->capacity_bytes))
                            : json_null();
    return json_pack("{s:s,s:I,s:o,s:o,s:o,s:f,s:o,s:o,s:{s:o,s:o,s:I,s:I,s:o},s:o}", "trainer", log->trainer, "steps",
                     (json_int_t)log->steps, "step_s", known_json(difference->step_s), "step_low_s",
                     known_json(log->step_low_s), "step_high_s", known_json(log->step_high_s), "predicted_step_s",
                     predicted->step_s, "ratio", known_json(difference->ratio), "terms", terms, "memory",
                     "allocated_bytes", bytes_json(log->allocated_bytes), "reserved_bytes",
                     bytes_json(log->reserved_bytes), "predicted_allocated_bytes",
                     (json_int_t)predicted->allocated_bytes, "predicted_bytes", (json_int_t)predicted->total_bytes,
                     "rest_ratio", known_json(difference->rest_ratio), "out_of_memory", out);
}
