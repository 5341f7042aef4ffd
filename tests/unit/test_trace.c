/* Timelines as files: what is written is read back, sorted, nested, with paired flows. */
#include "cost_fixture.h"
#include "costmodel/simulator/simulate.h"
#include "memory_file.h"

#include <unistd.h>

static redco_trace *small_trace(void)
{
    redco_trace *const trace = redco_trace_new();
    assert_non_null(trace);
    redco_trace_add_process(trace, 0, "rank");
    redco_trace_add_thread(trace, 0, 0, "compute");
    redco_trace_add_thread(trace, 0, 2, "a \"quoted\"\nname \xc3\x97");
    const redco_trace_span late = {
        .name = "fwd/block.0/qkv", .category = "forward", .start_s = 2e-3, .duration_s = 1e-3};
    const redco_trace_span early = {
        .name = "fwd/block.0/q_proj/gather", .category = "gather", .thread = 2, .start_s = 1e-3, .duration_s = 1e-3};
    const uint32_t to = redco_trace_add_span(trace, &late); /* not in order of time */
    redco_trace_add_arg(trace, "micro_batch", NULL, 3.0);
    redco_trace_add_arg(trace, "layer", "block.0", 0.0);
    const uint32_t from = redco_trace_add_span(trace, &early);
    redco_trace_add_arg(trace, "bytes", NULL, 33554432.0);
    redco_trace_add_flow(trace, "gather", from, to);
    redco_trace_add_counter(trace, "memory", 0, 1.5e-3);
    redco_trace_add_arg(trace, "gathered", NULL, 5e9);
    redco_trace_add_note(trace, "step_s", "0.003");
    return trace;
}

static redco_json *parse(const char *text, size_t size)
{
    redco_error err = {.status = REDCO_OK};
    redco_json *document = NULL;
    check_ok(redco_json_parse(text, size, "trace", &document, &err), &err);
    return document;
}

static redco_status read_text(const char *text, size_t size, bool bare, redco_trace **trace_out, redco_error *err)
{
    char path[MEMORY_FILE_PATH_BYTES];
    FILE *const file = memory_file(text, size, path);
    const redco_status st = redco_trace_read(path, bare, trace_out, err);
    (void)fclose(file);
    return st;
}

static void round_trip(void **state)
{
    (void)state;
    redco_trace *const trace = small_trace();
    redco_trace *back = NULL;
    redco_error err = {.status = REDCO_OK};
    char *text = NULL, *again = NULL;
    size_t size = 0, again_size = 0;
    uint32_t count = 0;
    check_ok(redco_trace_text(trace, &text, &size, &err), &err);
    check_ok(read_text(text, size, false, &back, &err), &err);
    const redco_trace_span *const spans = redco_trace_spans(back, &count);
    const redco_trace_arg *args = redco_trace_args(back, &(uint32_t){0});
    assert_int_equal(count, 2);
    assert_string_equal(spans[0].name, "fwd/block.0/q_proj/gather"); /* now in order of time */
    assert_string_equal(spans[1].category, "forward");
    check_near(spans[1].start_s, 2e-3, 1e-12);
    check_near(spans[1].duration_s, 1e-3, 1e-12);
    assert_string_equal(args[spans[1].first_arg].key, "micro_batch");
    check_near(args[spans[1].first_arg].number, 3.0, 0.0);
    assert_string_equal(args[spans[1].first_arg + 1].text, "block.0");
    const redco_trace_flow *const flows = redco_trace_flows(back, &count);
    assert_int_equal(count, 1);
    assert_int_equal(flows[0].from, 0);
    assert_int_equal(flows[0].to, 1);
    const redco_trace_counter *const counters = redco_trace_counters(back, &count);
    assert_int_equal(count, 1);
    check_near(args[counters[0].first_arg].number, 5e9, 0.0);
    const redco_trace_thread *const threads = redco_trace_threads(back, &count);
    assert_int_equal(count, 2);
    assert_string_equal(threads[1].name, "a \"quoted\"?name \xc3\x97"); /* names go to terminals */
    assert_string_equal(redco_trace_note(back, "step_s"), "0.003");
    assert_null(redco_trace_note(back, "nothing"));
    check_ok(redco_trace_text(back, &again, &again_size, &err), &err);
    assert_int_equal(again_size, size);
    assert_memory_equal(again, text, size);
    free(again);
    free(text);
    redco_trace_free(back);
    redco_trace_free(trace);
}

static void rules_are_checked(void **state)
{
    (void)state;
    static const redco_trace_span spans[][2] = {{{.name = "a", .category = "", .start_s = 0.0, .duration_s = 2.0},
                                                 {.name = "b", .category = "", .start_s = 1.0, .duration_s = 2.0}},
                                                {{.name = "a", .category = "", .start_s = -1.0, .duration_s = 2.0},
                                                 {.name = "b", .category = "", .start_s = 1.0, .duration_s = 2.0}},
                                                {{.name = "a", .category = "", .start_s = 0.0, .duration_s = 2.0},
                                                 {.name = "b", .category = "", .start_s = 0.5, .duration_s = 1.0}}};
    static const char *const wants[] = {"overlaps", "0 to", NULL};
    for (size_t i = 0; i < 3; i++) {
        redco_trace *const trace = redco_trace_new();
        redco_error err = {.status = REDCO_OK};
        char *text = NULL;
        size_t size = 0;
        assert_non_null(trace);
        for (int s = 0; s < 2; s++) { (void)redco_trace_add_span(trace, &spans[i][s]); }
        assert_int_equal(redco_trace_text(trace, &text, &size, &err), wants[i] != NULL ? REDCO_EVALUE : REDCO_OK);
        if (wants[i] != NULL) { assert_non_null(strstr(err.text, wants[i])); }
        free(text);
        redco_trace_free(trace);
    }
    redco_trace *const backwards = small_trace();
    redco_error err = {.status = REDCO_OK};
    redco_trace_add_flow(backwards, "x", 0, 1);
    assert_int_equal(redco_trace_check(backwards, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "back in time"));
    redco_trace_free(backwards);
}

struct mended_span {
    double start_s, duration_s;
    uint32_t thread;
};

/* Spans as measured, and as they are drawn. The clock's resolution is 1 us. */
static const struct {
    const char *what;
    struct mended_span spans[4];
    double wanted_s[4]; /* durations */
    uint64_t mended, beyond;
    const char *first;
} mendings[] = {
    {"apart", {{0, 1, 0}, {1, 1, 0}, {1.5, 1, 1}, {3, 0, 0}}, {1, 1, 1, 0}, 0, 0, ""},
    {"touching, read with an error",
     {{0, 1 + 4e-7, 0}, {1, 1, 0}, {2 - 9e-7, 1, 0}, {4, 1, 0}},
     {1, 1 - 9e-7, 1, 1},
     2,
     0,
     ""},
    {"one overlaps for long",
     {{0, 1.5, 0}, {1, 1, 0}, {0, 2, 1}, {3, 1, 0}},
     {1, 1, 2, 1},
     1,
     1,
     "b overlaps a by 0.5 s"},
    {"nested, with its parent too long",
     {{0, 2 + 5e-7, 0}, {1, 1 + 3e-7, 0}, {2, 1, 0}, {4, 1, 0}},
     {2, 1, 1, 1},
     2,
     0,
     ""},
    {"ends before it begins",
     {{0, 1, 0}, {1, -2e-7, 0}, {2, -3e-3, 0}, {4, 1, 0}},
     {1, 0, 0, 1},
     2,
     1,
     "c ends before itself by 0.003 s"},
    {"begins before the trace", {{-3e-7, 1, 0}, {1, 1, 0}, {2, 1, 0}, {4, 1, 0}}, {1 - 3e-7, 1, 1, 1}, 1, 0, ""},
};

static void clocks_with_errors(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b", "c", "d"};
    for (size_t i = 0; i < sizeof mendings / sizeof mendings[0]; i++) {
        redco_trace *const trace = redco_trace_new();
        redco_trace_mend_report report;
        redco_error err = {.status = REDCO_OK};
        uint32_t count = 0;
        assert_non_null(trace);
        for (int s = 0; s < 4; s++) {
            const struct mended_span *const m = &mendings[i].spans[s];
            (void)redco_trace_add_span(trace, &(redco_trace_span){.name = names[s],
                                                                  .category = "",
                                                                  .thread = m->thread,
                                                                  .start_s = m->start_s,
                                                                  .duration_s = m->duration_s});
        }
        check_ok(redco_trace_mend(trace, 1e-6, &report, &err), &err);
        check_ok(redco_trace_check(trace, &err), &err);
        const redco_trace_span *const spans = redco_trace_spans(trace, &count);
        for (uint32_t s = 0; s < 4; s++) { check_near(spans[s].duration_s, mendings[i].wanted_s[s], 2e-9); }
        if (report.mended != mendings[i].mended || report.beyond != mendings[i].beyond ||
            strcmp(report.first, mendings[i].first) != 0) {
            fail_msg("%s: %llu, %llu, %s", mendings[i].what, (unsigned long long)report.mended,
                     (unsigned long long)report.beyond, report.first);
        }
        redco_trace_free(trace);
    }
}

/* An arrow back in time is left out, those that go on stay. */
static void flows_with_errors(void **state)
{
    (void)state;
    redco_trace *const trace = small_trace();
    redco_trace_mend_report report;
    redco_error err = {.status = REDCO_OK};
    uint32_t count = 0;
    redco_trace_add_flow(trace, "x", 0, 1); /* from 2 ms to 1 ms */
    check_ok(redco_trace_mend(trace, 1e-6, &report, &err), &err);
    check_ok(redco_trace_check(trace, &err), &err);
    const redco_trace_flow *const flows = redco_trace_flows(trace, &count);
    assert_int_equal(count, 1);
    assert_string_equal(flows[0].name, "gather");
    assert_int_equal(report.beyond, 1);
    redco_trace_free(trace);
}

static void bad_files(void **state)
{
    (void)state;
    static const char *const files[][2] = {
        {"{}", ""},
        {"{\"traceEvents\":[{\"ph\":\"X\",\"pid\":0,\"tid\":0,\"ts\":0,\"dur\":-1,\"name\":\"a\"}]}",
         ":/traceEvents/0/dur"},
        {"{\"traceEvents\":[{\"ph\":\"X\",\"pid\":0,\"ts\":0,\"dur\":1,\"name\":\"a\"}]}", ":/traceEvents/0"},
        {"[{\"ph\":\"s\",\"pid\":0,\"tid\":0,\"ts\":1,\"id\":7,\"name\":\"a\"}]", ":/0"},
        {"[{\"ph\":\"s\",\"pid\":0,\"tid\":0,\"ts\":1,\"id\":7,\"name\":\"a\"},"
         "{\"ph\":\"f\",\"pid\":0,\"tid\":0,\"ts\":1,\"id\":7,\"name\":\"a\"}]",
         ":/0"},
        {"[3]", ":/0"}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        redco_error err = {.status = REDCO_OK};
        redco_trace *trace = NULL;
        char path[MEMORY_FILE_PATH_BYTES], place[80];
        FILE *const file = memory_file(files[i][0], strlen(files[i][0]), path);
        assert_int_equal(redco_trace_read(path, false, &trace, &err), REDCO_EVALUE);
        (void)fclose(file);
        (void)snprintf(place, sizeof place, "%s%s", path, files[i][1]);
        if (strncmp(err.place, place, strlen(place)) != 0) { fail_msg("%zu: %s: %s", i, err.place, err.text); }
    }
}

/* Read for drawing a trace is the same, but for what spans say about themselves. */
static void check_bare(const redco_trace *whole, const char *text, size_t size)
{
    redco_trace *spans = NULL;
    redco_error err = {.status = REDCO_OK};
    uint32_t count = 0, wanted = 0;
    check_ok(read_text(text, size, true, &spans, &err), &err);
    const redco_trace_span *const a = redco_trace_spans(spans, &count), *const b = redco_trace_spans(whole, &wanted);
    assert_int_equal(count, wanted);
    for (uint32_t i = 0; i < count; i++) {
        assert_string_equal(a[i].name, b[i].name);
        assert_string_equal(a[i].category, b[i].category);
        assert_int_equal(a[i].arg_count, 0);
        check_near(a[i].start_s, b[i].start_s, 0.0);
        check_near(a[i].duration_s, b[i].duration_s, 0.0);
    }
    const redco_trace_flow *const f = redco_trace_flows(spans, &count), *const g = redco_trace_flows(whole, &wanted);
    assert_int_equal(count, wanted);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(f[i].from, g[i].from);
        assert_int_equal(f[i].to, g[i].to);
    }
    const redco_trace_arg *const x = redco_trace_args(spans, &count), *const y = redco_trace_args(whole, &wanted);
    const redco_trace_counter *const c = redco_trace_counters(spans, &count), *const d =
                                                                                  redco_trace_counters(whole, &wanted);
    assert_int_equal(count, wanted);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(c[i].arg_count, d[i].arg_count);
        check_near(x[c[i].first_arg].number, y[d[i].first_arg].number, 0.0);
    }
    redco_trace_free(spans);
}

/* A simulated step: every operator a span, sorted, nested; every gather has an arrow to an operator of its own layer;
 * the counter starts with what is resident and ends there. */
static void simulated_step(void **state)
{
    (void)state;
    struct fixture b;
    redco_error err = {.status = REDCO_OK};
    fixture_open(&b, "llama-7b", a800_machine(4), plain_workload(64));
    const redco_parallelism parallelism = plain_setting(&b, 1);
    redco_assignment all[8];
    const redco_layer_class *classes = NULL;
    const uint32_t n = (uint32_t)redco_model_classes(b.model, &classes);
    for (uint32_t i = 0; i < n; i++) {
        all[i] = (redco_assignment){i, classes[i].layers, {{{8, 1}, {8, 1}, {8, 4}}, REDCO_RECOMPUTE_NONE}};
    }
    redco_trace *trace = NULL, *back = NULL;
    char *text = NULL;
    size_t size = 0;
    check_ok(redco_simulate_trace(b.costs, &parallelism, all, n, NULL, &trace, &err), &err);
    check_ok(redco_trace_text(trace, &text, &size, &err), &err);
    redco_json *const document = parse(text, size);
    const redco_json_value root = redco_json_root(document);
    check_ok(read_text(text, size, false, &back, &err), &err);
    check_ok(redco_trace_check(back, &err), &err);
    check_bare(back, text, size);
    const json_t *const events = json_object_get(root.json, "traceEvents");
    double last_us = 0.0;
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *const ts = json_object_get(json_array_get(events, i), "ts");
        if (ts == NULL) { continue; }
        assert_true(json_number_value(ts) >= last_us);
        last_us = json_number_value(ts);
    }
    uint32_t spans = 0, flows = 0, counters = 0, args = 0, gathers = 0;
    const redco_trace_span *const span = redco_trace_spans(back, &spans);
    const redco_trace_flow *const flow = redco_trace_flows(back, &flows);
    for (uint32_t i = 0; i < spans; i++) { gathers += strcmp(span[i].category, "gather") == 0 ? 1 : 0; }
    /* Two micro-batches, 32 blocks of 9 modules twice (forward, backward), embedding once, head of 2 modules twice. */
    assert_int_equal(gathers, 2 * (2 * 32 * 9 + 1 + 2 * 2));
    uint32_t to_consumers = 0;
    for (uint32_t i = 0; i < flows; i++) {
        const char *const from = span[flow[i].from].name, *const to = span[flow[i].to].name;
        if (strcmp(span[flow[i].from].category, "gather") != 0) { continue; }
        to_consumers++;
        const char *const layer = strchr(from, '/') + 1; /* "bwd/block.3/q_proj/gather" goes to ".../block.3/..." */
        const size_t length = strcspn(layer, "/");
        assert_int_equal(strncmp(strchr(to, '/') + 1, layer, length), 0);
        assert_true(span[flow[i].from].start_s + span[flow[i].from].duration_s <= span[flow[i].to].start_s + 1e-9);
    }
    /* An operator waits for the last of its gathers: 6 of a block read the 9 modules. */
    assert_int_equal(to_consumers, 2 * (2 * 32 * 6 + 1 + 2 * 2));
    const redco_trace_counter *const counter = redco_trace_counters(back, &counters);
    const redco_trace_arg *const arg = redco_trace_args(back, &args);
    for (uint32_t h = 0; h < REDCO_CATEGORY_COUNT; h++) {
        if (h == REDCO_CATEGORY_BUCKETS) { continue; } /* updates need none, the first span may take gathered weights */
        check_near(arg[counter[counters - 1].first_arg + h].number,
                   h <= REDCO_CATEGORY_RESERVE ? arg[counter[0].first_arg + h].number : 0.0, 0.0);
    }
    redco_json_close(document);
    free(text);
    redco_trace_free(back);
    redco_trace_free(trace);
    fixture_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(round_trip),         cmocka_unit_test(rules_are_checked),
                                       cmocka_unit_test(clocks_with_errors), cmocka_unit_test(flows_with_errors),
                                       cmocka_unit_test(bad_files),          cmocka_unit_test(simulated_step)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
