/* The work of a user's graph: from and to JSON, and its sizes for a micro-batch. */
#include "costmodel/record/graph_work.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_OPS = 100000,
    MOST_MOMENTS = 64,
    MOST_VALUES = 100000,
    MOST_TIMES = 1000000,
    LARGEST_BATCH = 1 << 20,
    MOST_STATES = 2
};
static const double most_count = 1e18;
/* Values in the executor's arena begin at multiples of it (executor/backend/backend.h, REDCO_ALIGNMENT_BYTES). */
static const uint64_t alignment_bytes = 256;

static const char *const kind_words[] = {[REDCO_GRAPH_ELEMENTS] = "elements",
                                         [REDCO_GRAPH_PRODUCT] = "product",
                                         [REDCO_GRAPH_ATTENTION] = "attention",
                                         [REDCO_GRAPH_COLLECTIVE] = "collective"};
const char *const redco_passes_words[REDCO_IN_BOTH + 1] = {"", "forward", "backward", "both"};
enum { KINDS = sizeof kind_words / sizeof kind_words[0] };

double redco_count_at(const redco_count *count, uint64_t examples)
{
    const double b = (double)examples;
    return fmax(0.0, rint(count->of[0] + b * (count->of[1] + b * count->of[2])));
}

static bool count_is(const redco_count *count, double constant)
{
    return count->of[0] == constant && count->of[1] == 0.0 && count->of[2] == 0.0;
}

static json_t *number_json(double number)
{
    return number == rint(number) && fabs(number) < 9e15 ? json_integer((json_int_t)number) : json_real(number);
}

/* A number, or [constant, for each example, for each pair of examples]. */
static json_t *count_json(const redco_count *count)
{
    uint32_t terms = REDCO_COUNT_TERMS;
    while (terms > 1 && count->of[terms - 1] == 0.0) { terms--; }
    if (terms == 1) { return number_json(count->of[0]); }
    json_t *const list = json_array();
    for (uint32_t i = 0; i < terms; i++) { (void)json_array_append_new(list, number_json(count->of[i])); }
    return list;
}

static bool take_number(const json_t *json, double *number_out)
{
    if (!json_is_number(json)) { return false; }
    *number_out = json_number_value(json);
    return fabs(*number_out) <= most_count;
}

static bool take_count(const json_t *json, redco_count *count_out)
{
    const size_t terms = json_array_size(json);
    if (!json_is_array(json)) { return take_number(json, &count_out->of[0]) && count_out->of[0] >= 0.0; }
    bool good = terms >= 1 && terms <= REDCO_COUNT_TERMS;
    for (size_t i = 0; good && i < terms; i++) { good = take_number(json_array_get(json, i), &count_out->of[i]); }
    return good;
}

static redco_status read_count(const redco_json_value *object, const char *key, double absent, redco_count *count_out,
                               redco_error *err)
{
    const json_t *const json = json_object_get(object->json, key);
    *count_out = (redco_count){{absent}};
    if (json == NULL) { return REDCO_OK; }
    *count_out = (redco_count){{0.0}};
    return take_count(json, count_out)
               ? REDCO_OK
               : redco_json_fail(object, key, err, "is no number, nor 1 to %d of a polynomial, up to 1e18",
                                 REDCO_COUNT_TERMS);
}

static redco_status read_kind(const redco_json_value *object, redco_work_op *op, redco_error *err)
{
    const char *word = NULL;
    const redco_status st = redco_json_string(object, "kind", &word, err);
    if (st != REDCO_OK) { return st; }
    for (unsigned k = 0; k < KINDS; k++) {
        if (strcmp(word, kind_words[k]) == 0) {
            op->kind = (redco_work_op_kind)k;
            return REDCO_OK;
        }
    }
    return redco_json_fail(object, "kind", err, "\"%.40s\" is none of elements, product, attention, collective", word);
}

static redco_status read_flag(const redco_json_value *object, const char *key, bool *flag_out, redco_error *err)
{
    *flag_out = false;
    return redco_json_has(object, key) ? redco_json_bool(object, key, flag_out, err) : REDCO_OK;
}

static redco_status read_text(const redco_json_value *object, const char *key, char text_out[REDCO_MEASURED_NAME],
                              redco_error *err)
{
    const char *text = "";
    redco_status st = REDCO_OK;
    if (redco_json_has(object, key)) { st = redco_json_string(object, key, &text, err); }
    if (st == REDCO_OK && strlen(text) >= REDCO_MEASURED_NAME) {
        return redco_json_fail(object, key, err, "is longer than %d bytes", REDCO_MEASURED_NAME - 1);
    }
    if (st == REDCO_OK) { (void)snprintf(text_out, REDCO_MEASURED_NAME, "%s", text); }
    return st;
}

static redco_status read_collective(const redco_json_value *object, redco_work_op *op, redco_error *err)
{
    const char *word = NULL;
    if (op->kind != REDCO_GRAPH_COLLECTIVE) { return REDCO_OK; }
    const redco_status st = redco_json_string(object, "name", &word, err);
    if (st != REDCO_OK) { return st; }
    return redco_collective_parse(word, strlen(word), &op->collective)
               ? REDCO_OK
               : redco_json_fail(object, "name", err, "\"%.40s\" is no collective", word);
}

static redco_status read_op(const redco_json_value *object, redco_work_op *op, redco_error *err)
{
    const struct {
        const char *key;
        double absent;
        redco_count *count;
    } counts[] = {{"batch", 1.0, &op->batch},       {"m", 0.0, &op->m},        {"n", 0.0, &op->n}, {"k", 0.0, &op->k},
                  {"elements", 0.0, &op->elements}, {"moved", 0.0, &op->moved}};
    const struct {
        const char *key;
        bool *flag;
    } flags[] = {{"backward", &op->backward},
                 {"causal", &op->causal},
                 {"transpose_a", &op->transpose_a},
                 {"transpose_b", &op->transpose_b}};
    redco_status st = read_kind(object, op, err);
    op->times = 1;
    if (st == REDCO_OK && redco_json_has(object, "times")) {
        st = redco_json_u32(object, "times", 1, MOST_TIMES, &op->times, err);
    }
    if (st == REDCO_OK) { st = read_text(object, "name", op->name, err); }
    if (st == REDCO_OK) { st = read_text(object, "measured_as", op->measured_as, err); }
    if (st == REDCO_OK) { st = read_collective(object, op, err); }
    for (size_t i = 0; i < sizeof flags / sizeof flags[0] && st == REDCO_OK; i++) {
        st = read_flag(object, flags[i].key, flags[i].flag, err);
    }
    for (size_t i = 0; i < sizeof counts / sizeof counts[0] && st == REDCO_OK; i++) {
        st = read_count(object, counts[i].key, counts[i].absent, counts[i].count, err);
    }
    return st;
}

/* Lists of an object, each of so many entries at most; an absent one is empty. */
static redco_status open_list(const redco_json_value *object, const char *key, size_t most, redco_json_value *list_out,
                              size_t *count_out, redco_error *err)
{
    const redco_status st = redco_json_array(object, key, list_out, count_out, err);
    if (st == REDCO_OK && *count_out > most) {
        return redco_json_fail(object, key, err, "has %zu entries; at most %zu are read", *count_out, most);
    }
    return st;
}

static redco_status short_memory(const redco_json_value *object, redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, object->name, "out of memory");
}

static redco_status read_ops(const redco_json_value *object, redco_degree_work *degree, redco_error *err)
{
    redco_json_value list;
    size_t count = 0;
    redco_status st = open_list(object, "operators", MOST_OPS, &list, &count, err);
    if (st != REDCO_OK) { return st; }
    degree->ops = calloc(count + 1, sizeof *degree->ops);
    if (degree->ops == NULL) { return short_memory(object, err); }
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        redco_json_value one;
        st = redco_json_element(&list, i, &one, err);
        if (st == REDCO_OK && !json_is_object(one.json)) {
            st = redco_json_fail(object, "operators", err, "has an entry that is no object");
        }
        if (st == REDCO_OK) { st = read_op(&one, &degree->ops[degree->op_count++], err); }
    }
    return st;
}

/* [[times, bytes], ...] */
static redco_status read_values(const redco_json_value *object, const char *key, redco_graph_values **values_out,
                                uint32_t *count_out, redco_error *err)
{
    redco_json_value list;
    size_t count = 0;
    redco_status st = open_list(object, key, MOST_VALUES, &list, &count, err);
    if (st != REDCO_OK) { return st; }
    redco_graph_values *const values = calloc(count + 1, sizeof *values);
    if (values == NULL) { return short_memory(object, err); }
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        const json_t *const pair = json_array_get(list.json, i);
        const bool good = json_array_size(pair) == 2 && take_number(json_array_get(pair, 0), &values[i].times) &&
                          values[i].times >= 0.0 && take_count(json_array_get(pair, 1), &values[i].bytes);
        if (!good) { st = redco_json_fail(object, key, err, "has an entry that is not [times, bytes]"); }
    }
    *values_out = values;
    *count_out = (uint32_t)count;
    return st;
}

static redco_status read_moments(const redco_json_value *object, redco_degree_work *degree, redco_error *err)
{
    redco_json_value list;
    size_t count = 0;
    redco_status st = open_list(object, "moments", MOST_MOMENTS, &list, &count, err);
    if (st != REDCO_OK) { return st; }
    degree->moments = calloc(count + 1, sizeof *degree->moments);
    if (degree->moments == NULL) { return short_memory(object, err); }
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        redco_graph_moment *const moment = &degree->moments[i];
        redco_json_value one;
        bool narrow = false, widened = false;
        st = redco_json_element(&list, i, &one, err);
        if (st == REDCO_OK && !json_is_object(one.json)) {
            st = redco_json_fail(object, "moments", err, "has an entry that is no object");
        }
        degree->moment_count++;
        if (st == REDCO_OK) { st = read_flag(&one, "backward", &moment->backward, err); }
        if (st == REDCO_OK) { st = read_flag(&one, "narrow", &narrow, err); }
        if (st == REDCO_OK) { st = read_flag(&one, "widened", &widened, err); }
        moment->computed = !narrow ? REDCO_COMPUTED_32 : widened ? REDCO_COMPUTED_16_WIDENED : REDCO_COMPUTED_16;
        if (st == REDCO_OK) { st = read_values(&one, "values", &moment->values, &moment->value_count, err); }
    }
    return st;
}

static redco_status read_splits(const redco_json_value *object, size_t parameters, redco_degree_work *degree,
                                redco_error *err)
{
    const json_t *const list = json_object_get(object->json, "splits");
    degree->splits = calloc(parameters + 1, sizeof *degree->splits);
    if (degree->splits == NULL) { return short_memory(object, err); }
    for (size_t i = 0; i < parameters; i++) { degree->splits[i] = -1; }
    if (list == NULL && degree->tp == 1) { return REDCO_OK; }
    if (json_array_size(list) != parameters) {
        return redco_json_fail(object, "splits", err, "has %zu entries, but there are %zu parameters",
                               json_array_size(list), parameters);
    }
    for (size_t i = 0; i < parameters; i++) {
        const json_t *const dim = json_array_get(list, i);
        if (json_is_null(dim)) { continue; }
        if (!json_is_integer(dim) || json_integer_value(dim) < 0 || json_integer_value(dim) > 3) {
            return redco_json_fail(object, "splits", err, "has an entry that is neither null nor 0 to 3");
        }
        degree->splits[i] = (int32_t)json_integer_value(dim);
    }
    return REDCO_OK;
}

static redco_status read_degree(const redco_json_value *object, size_t parameters, redco_degree_work *degree,
                                redco_error *err)
{
    redco_status st = redco_json_u32(object, "tp", 1, 1024, &degree->tp, err);
    if (st == REDCO_OK) { st = read_splits(object, parameters, degree, err); }
    if (st == REDCO_OK) { st = read_ops(object, degree, err); }
    if (st == REDCO_OK) { st = read_moments(object, degree, err); }
    return st == REDCO_OK ? read_values(object, "inputs", &degree->inputs, &degree->input_count, err) : st;
}

redco_status redco_graph_work_read(const redco_json_value *config, size_t parameters, redco_graph_work **work_out,
                                   redco_error *err)
{
    redco_json_value list;
    size_t count = 0;
    redco_status st = open_list(config, "degrees", REDCO_WORK_DEGREES, &list, &count, err);
    if (st != REDCO_OK) { return st; }
    redco_graph_work *const work = calloc(1, sizeof *work);
    if (work == NULL) { return short_memory(config, err); }
    if (redco_json_has(config, "micro_batch")) {
        st = redco_json_u32(config, "micro_batch", 1, LARGEST_BATCH, &work->examples, err);
    }
    work->optimizer_states = MOST_STATES;
    if (st == REDCO_OK && redco_json_has(config, "optimizer_states")) {
        st = redco_json_u32(config, "optimizer_states", 0, MOST_STATES, &work->optimizer_states, err);
    }
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        redco_json_value one;
        st = redco_json_element(&list, i, &one, err);
        if (st == REDCO_OK && !json_is_object(one.json)) {
            st = redco_json_fail(config, "degrees", err, "has an entry that is no object");
        }
        if (st == REDCO_OK) { st = read_degree(&one, parameters, &work->degrees[work->degree_count++], err); }
    }
    if (st == REDCO_OK && redco_graph_work_of(work, 1) == NULL) {
        st = redco_json_fail(config, "degrees", err, "has no entry of tp 1");
    }
    if (st == REDCO_OK) {
        *work_out = work;
    } else {
        redco_graph_work_free(work);
    }
    return st;
}

void redco_graph_work_free(redco_graph_work *work)
{
    if (work == NULL) { return; }
    for (uint32_t d = 0; d < REDCO_WORK_DEGREES; d++) {
        redco_degree_work *const degree = &work->degrees[d];
        for (uint32_t i = 0; i < degree->moment_count; i++) { free(degree->moments[i].values); }
        free(degree->splits);
        free(degree->ops);
        free(degree->moments);
        free(degree->inputs);
    }
    free(work);
}

static void set_count(json_t *object, const char *key, double absent, const redco_count *count)
{
    if (!count_is(count, absent)) { (void)json_object_set_new(object, key, count_json(count)); }
}

static void set_flag(json_t *object, const char *key, bool flag)
{
    if (flag) { (void)json_object_set_new(object, key, json_true()); }
}

static json_t *op_json(const redco_work_op *op)
{
    json_t *const object = json_pack("{s:s, s:s}", "kind", kind_words[op->kind], "name", op->name);
    set_flag(object, "backward", op->backward);
    if (op->times != 1) { (void)json_object_set_new(object, "times", json_integer(op->times)); }
    if (op->measured_as[0] != '\0') { (void)json_object_set_new(object, "measured_as", json_string(op->measured_as)); }
    set_flag(object, "causal", op->causal);
    set_flag(object, "transpose_a", op->transpose_a);
    set_flag(object, "transpose_b", op->transpose_b);
    set_count(object, "batch", 1.0, &op->batch);
    set_count(object, "m", 0.0, &op->m);
    set_count(object, "n", 0.0, &op->n);
    set_count(object, "k", 0.0, &op->k);
    set_count(object, "elements", 0.0, &op->elements);
    set_count(object, "moved", 0.0, &op->moved);
    return object;
}

static json_t *values_json(const redco_graph_values *values, uint32_t count)
{
    json_t *const list = json_array();
    for (uint32_t i = 0; i < count; i++) {
        json_t *const pair = json_array();
        (void)json_array_append_new(pair, number_json(values[i].times));
        (void)json_array_append_new(pair, count_json(&values[i].bytes));
        (void)json_array_append_new(list, pair);
    }
    return list;
}

static json_t *moment_json(const redco_graph_moment *moment)
{
    json_t *const object = json_object();
    set_flag(object, "backward", moment->backward);
    set_flag(object, "narrow", moment->computed != REDCO_COMPUTED_32);
    set_flag(object, "widened", moment->computed == REDCO_COMPUTED_16_WIDENED);
    (void)json_object_set_new(object, "values", values_json(moment->values, moment->value_count));
    return object;
}

static json_t *degree_json(const redco_degree_work *degree, size_t parameters)
{
    json_t *const splits = json_array(), *const ops = json_array(), *const moments = json_array();
    for (size_t i = 0; i < parameters && degree->tp > 1; i++) {
        (void)json_array_append_new(splits, degree->splits[i] < 0 ? json_null() : json_integer(degree->splits[i]));
    }
    for (uint32_t i = 0; i < degree->op_count; i++) { (void)json_array_append_new(ops, op_json(&degree->ops[i])); }
    for (uint32_t i = 0; i < degree->moment_count; i++) {
        (void)json_array_append_new(moments, moment_json(&degree->moments[i]));
    }
    json_t *const object = json_pack("{s:I, s:o, s:o, s:o}", "tp", (json_int_t)degree->tp, "operators", ops, "moments",
                                     moments, "inputs", values_json(degree->inputs, degree->input_count));
    if (degree->tp > 1) {
        (void)json_object_set_new(object, "splits", splits);
    } else {
        json_decref(splits);
    }
    return object;
}

bool redco_graph_work_write(const redco_graph_work *work, size_t parameters, json_t *config)
{
    json_t *const list = json_array();
    for (uint32_t d = 0; d < work->degree_count; d++) {
        if (json_array_append_new(list, degree_json(&work->degrees[d], parameters)) != 0) {
            json_decref(list);
            return false;
        }
    }
    if (work->optimizer_states < MOST_STATES) {
        (void)json_object_set_new(config, "optimizer_states", json_integer(work->optimizer_states));
    }
    if (work->examples > 0) { (void)json_object_set_new(config, "micro_batch", json_integer(work->examples)); }
    return json_object_set_new(config, "degrees", list) == 0;
}

const redco_degree_work *redco_graph_work_of(const redco_graph_work *work, uint32_t tp)
{
    for (uint32_t d = 0; d < work->degree_count; d++) {
        if (work->degrees[d].tp == tp) { return &work->degrees[d]; }
    }
    return NULL;
}

const redco_graph_work redco_nothing_listed;

const redco_degree_work *redco_graph_work_near(const redco_graph_work *work, uint32_t tp)
{
    static const redco_degree_work nothing = {.tp = 1};
    const redco_degree_work *const degree = redco_graph_work_of(work, tp);
    const redco_degree_work *const whole = redco_graph_work_of(work, 1);
    if (degree != NULL) { return degree; }
    return whole != NULL ? whole : &nothing;
}

double redco_work_op_flops(const redco_work_op *op, uint64_t examples)
{
    const bool product = op->kind == REDCO_GRAPH_PRODUCT, attention = op->kind == REDCO_GRAPH_ATTENTION;
    if (!product && !attention) { return 0.0; }
    const double each = redco_count_at(&op->m, examples) * redco_count_at(&op->n, examples) *
                        redco_count_at(&op->k, examples) * redco_count_at(&op->batch, examples);
    /* Attention has two products forward and five backward (Dao et al. 2022); half of each where it is causal. */
    const double products = product ? 1.0 : (op->backward ? 5.0 : 2.0) * (op->causal ? 0.5 : 1.0);
    return 2.0 * products * each * op->times;
}

double redco_degree_flops(const redco_degree_work *degree, bool backward, uint64_t examples)
{
    double flops = 0.0;
    for (uint32_t i = 0; i < degree->op_count; i++) {
        if (degree->ops[i].backward == backward) { flops += redco_work_op_flops(&degree->ops[i], examples); }
    }
    return flops;
}

static uint64_t values_bytes(const redco_graph_values *values, uint32_t count, uint64_t examples)
{
    double bytes = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        const double each = redco_count_at(&values[i].bytes, examples);
        bytes += values[i].times * ceil(each / (double)alignment_bytes) * (double)alignment_bytes;
    }
    return bytes < most_count ? (uint64_t)bytes : (uint64_t)most_count;
}

uint64_t redco_degree_value_bytes(const redco_degree_work *degree, bool backward, redco_computed computed,
                                  uint64_t examples)
{
    uint64_t most = 0;
    bool any = false;
    for (uint32_t i = 0; i < degree->moment_count; i++) { any = any || degree->moments[i].computed == computed; }
    if (!any && computed != REDCO_COMPUTED_32) {
        const redco_computed instead = computed == REDCO_COMPUTED_16_WIDENED ? REDCO_COMPUTED_16 : REDCO_COMPUTED_32;
        return redco_degree_value_bytes(degree, backward, instead, examples);
    }
    for (uint32_t i = 0; i < degree->moment_count; i++) {
        const redco_graph_moment *const moment = &degree->moments[i];
        if (moment->backward != backward || moment->computed != computed) { continue; }
        const uint64_t bytes = values_bytes(moment->values, moment->value_count, examples);
        most = bytes > most ? bytes : most;
    }
    return most;
}

uint64_t redco_degree_input_bytes(const redco_degree_work *degree, uint64_t examples)
{
    return values_bytes(degree->inputs, degree->input_count, examples);
}
