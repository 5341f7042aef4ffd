/* Traces of any origin: what is taken, what is left out and counted, and what is refused with its place. */
#include "cost_fixture.h"
#include "memory_file.h"
#include "traces/trace.h"

#include <unistd.h>

#define EVENT(text) "{\"pid\":0,\"tid\":0," text "}"
#define SPAN(name, ts, dur) EVENT("\"ph\":\"X\",\"name\":\"" name "\",\"ts\":" #ts ",\"dur\":" #dur)

static redco_trace *load(const char *text, redco_trace_load_report *report)
{
    redco_error err = {.status = REDCO_OK};
    redco_trace *trace = NULL;
    char path[MEMORY_FILE_PATH_BYTES];
    FILE *const file = memory_file(text, strlen(text), path);
    check_ok(redco_trace_load(path, NULL, &trace, report, &err), &err);
    (void)fclose(file);
    return trace;
}

static void pairs_become_spans(void **state)
{
    (void)state;
    /* Not in order of time: a from 1 to 6 us with b from 2 to 5 in it; an end and a begin without the other; the same
     * on another thread is another pair. */
    static const char text[] =
        "[" EVENT("\"ph\":\"E\",\"ts\":6") "," EVENT("\"ph\":\"B\",\"name\":\"b\",\"ts\":2") "," EVENT(
            "\"ph\":"
            "\"B\","
            "\"name\":"
            "\"a\","
            "\"ts\":1,"
            "\"args\":{"
            "\"step\":"
            "3}") "," EVENT("\"ph\":\"E\",\"ts\":5") "," EVENT("\"ph\":\"E\",\"ts\":0.5") "," EVENT("\"ph\":\"B\","
                                                                                                    "\"name\":\"c\","
                                                                                                    "\"ts\":9") ",{"
                                                                                                                "\"pid"
                                                                                                                "\":0,"
                                                                                                                "\"tid"
                                                                                                                "\":1,"
                                                                                                                "\"ph\""
                                                                                                                ":"
                                                                                                                "\"B\","
                                                                                                                "\"name"
                                                                                                                "\":"
                                                                                                                "\"d\","
                                                                                                                "\"ts\""
                                                                                                                ":3},{"
                                                                                                                "\"pid"
                                                                                                                "\":0,"
                                                                                                                "\"tid"
                                                                                                                "\":"
                                                                                                                "1,"
                                                                                                                "\"ph\""
                                                                                                                ":\"E\""
                                                                                                                ","
                                                                                                                "\"ts\""
                                                                                                                ":4}]";
    redco_trace_load_report report;
    uint32_t count = 0;
    redco_trace *const trace = load(text, &report);
    const redco_trace_span *const spans = redco_trace_spans(trace, &count);
    const double wants[3][2] = {{2e-6, 3e-6}, {1e-6, 5e-6}, {3e-6, 1e-6}};
    assert_int_equal(count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_string_equal(spans[i].name, &"b\0a\0d"[2 * i]);
        check_near(spans[i].start_s, wants[i][0], 1e-15);
        check_near(spans[i].duration_s, wants[i][1], 1e-15);
    }
    assert_int_equal(report.events, 8);
    assert_int_equal(report.unpaired, 2);
    assert_int_equal(report.ignored, 0);
    const redco_trace_arg *const args = redco_trace_args(trace, &count);
    assert_string_equal(args[spans[1].first_arg].key, "step");
    check_near(args[spans[1].first_arg].number, 3.0, 0.0);
    redco_trace_free(trace);
}

static void bad_events_are_counted(void **state)
{
    (void)state;
    static const char *const bad[] = {EVENT("\"ph\":\"X\",\"name\":\"a\",\"ts\":1"),
                                      EVENT("\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"dur\":-1"),
                                      EVENT("\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"dur\":1e300"),
                                      EVENT("\"ph\":\"X\",\"name\":\"a\",\"ts\":\"1\",\"dur\":1"),
                                      EVENT("\"ph\":\"X\",\"name\":\"a\",\"ts\":1e18,\"dur\":1"),
                                      EVENT("\"ph\":\"C\",\"name\":\"memory\""),
                                      "{\"ph\":\"X\",\"pid\":\"Spans\",\"tid\":0,\"ts\":1,\"dur\":1}",
                                      "{\"ph\":\"X\",\"pid\":0,\"tid\":-1,\"ts\":1,\"dur\":1}",
                                      "{\"name\":\"a\"}",
                                      "{\"ph\":\"XX\"}",
                                      "[]",
                                      "null",
                                      "3"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        redco_trace_load_report report;
        char text[512];
        uint32_t count = 0;
        (void)snprintf(text, sizeof text, "{\"traceEvents\":[%s,%s]}", SPAN("good", 1, 2), bad[i]);
        redco_trace *const trace = load(text, &report);
        (void)redco_trace_spans(trace, &count);
        assert_int_equal(count, 1);
        assert_int_equal(report.events, 2);
        assert_int_equal(report.ignored, 1);
        if (strncmp(report.first, "event 1, which ", 15) != 0) { fail_msg("%s: \"%s\"", bad[i], report.first); }
        redco_trace_free(trace);
    }
}

static void duplicates_are_dropped(void **state)
{
    (void)state;
    redco_trace_load_report report;
    uint32_t count = 0;
    redco_trace *const trace = load("[" SPAN("a", 1, 2) "," SPAN("b", 4, 1) "," SPAN("a", 1, 2) "," SPAN(
                                        "a", 1, 3) "," SPAN("c", 9, 0) "," SPAN("c", 9, 0) "]",
                                    &report);
    (void)redco_trace_spans(trace, &count);
    assert_int_equal(count, 5); /* an event of no time may stand there twice */
    assert_int_equal(report.duplicates, 1);
    redco_trace_free(trace);
}

/* The list may stand anywhere, may be bare and then lack its end; other members are passed over, however large or deep.
 */
static void forms_of_files(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "[" SPAN("a", 1, 2) "]", "[" SPAN("a", 1, 2), "[" SPAN("a", 1, 2) ",\n",
        "{\"stackFrames\":{\"a\":[{\"}]\":\"\\\"]\"}]},\"traceEvents\":[" SPAN("a", 1,
                                                                               2) "],\"otherData\":{\"k\":\"v\"}}",
        "\n{\"x\":1.5e3 , \"y\":null,\"z\":\"s\",\"traceEvents\": [ " SPAN("a", 1, 2) " ] }"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        redco_trace_load_report report;
        uint32_t count = 0;
        redco_trace *const trace = load(texts[i], &report);
        (void)redco_trace_spans(trace, &count);
        assert_int_equal(count, 1);
        if (i == 3) { assert_string_equal(redco_trace_note(trace, "k"), "v"); }
        redco_trace_free(trace);
    }
    const size_t depth = 1 << 20;
    char *const deep = malloc(2 * depth + 100);
    assert_non_null(deep);
    const size_t head = (size_t)sprintf(deep, "{\"deep\":");
    memset(deep + head, '[', depth);
    memset(deep + head + depth, ']', depth);
    (void)sprintf(deep + head + 2 * depth, ",\"traceEvents\":[" SPAN("a", 1, 2) "]}");
    redco_trace_load_report report;
    redco_trace_free(load(deep, &report));
    free(deep);
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *place, *words;
    } cases[] = {
        {"", "", "is no trace"},
        {"{}", "", "is no trace"},
        {"{\"format\":\"redco-plan\"}", "", "is no trace"},
        {"{\"traceEvents\":{}}", "", "is no trace"},
        {"3", "", "is no trace"},
        {"\x1f\x8b\x08", "", "gunzip"},
        {"{\"traceEvents\":[", ":1:17", "cut off"},
        {"{\"traceEvents\":[\n{\"ph\":\"X\",", ":2:1", "cut off"},
        {"[{\"ph\":\"X\",\"name\":\"a", ":1:2", "cut off"},
        {"[\n {\"ph\":\"X\",\n\"ts\":NaN}]", ":3:", "not valid JSON"},
        {"[{\"ts\":Infinity}]", ":1:", "not valid JSON"},
        {"{\"traceEvents\" [", ":1:16", "':' are needed"},
        {"{\"traceEvents\":[] \"a\":1}", ":1:19", "',' or '}'"},
        {"{3:4}", ":1:3", "':' are needed"},
        {"[]\n[]", ":2:1", "text behind the end"},
        {"{\"traceEvents\":[]}{\"traceEvents\":[]}", ":1:19", "text behind the end"},
        {"{\"traceEvents\":[],\"a\":1} x", ":1:26", "text behind the end"},
        {"{\"traceEvents\":[],\"traceEvents\":[]}", ":1:33", "is there twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        redco_error err = {.status = REDCO_OK};
        redco_trace *trace = NULL;
        redco_trace_load_report report;
        char path[MEMORY_FILE_PATH_BYTES], place[64];
        FILE *const file = memory_file(cases[i].text, strlen(cases[i].text), path);
        assert_int_equal(redco_trace_load(path, NULL, &trace, &report, &err), REDCO_EVALUE);
        (void)fclose(file);
        (void)snprintf(place, sizeof place, "%s%s", path, cases[i].place);
        if (strncmp(err.place, place, strlen(place)) != 0 || strstr(err.text, cases[i].words) == NULL) {
            fail_msg("%zu: %s: %s", i, err.place, err.text);
        }
    }
}

/* Longer than a window of the reader, with an event that crosses its edge and one that is too large. */
static void large_files(void **state)
{
    (void)state;
    char path[] = "/tmp/redco-test-trace-XXXXXX";
    const int descriptor = mkstemp(path);
    FILE *const file = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
    enum { SPANS = 40000, ARGS = 3000000 };
    redco_error err = {.status = REDCO_OK};
    redco_trace *trace = NULL;
    redco_trace_load_report report;
    static const char *const keys[] = {"step", NULL};
    uint32_t count = 0;
    assert_non_null(file);
    (void)fprintf(file, "[");
    for (int i = 0; i < SPANS; i++) {
        (void)fprintf(file,
                      "{\"ph\":\"X\",\"pid\":1,\"tid\":2,\"name\":\"n%d\",\"ts\":%d.25,\"dur\":0.5,\"args\":{\"step\":%"
                      "d,\"no\":1}},\n",
                      i % 7, i, i / 100);
    }
    (void)fprintf(file, "{\"ph\":\"i\",\"args\":{\"text\":\"");
    for (int i = 0; i < ARGS; i++) { (void)fputc('x', file); }
    (void)fprintf(file, "\"}}]");
    assert_int_equal(fclose(file), 0);
    check_ok(redco_trace_load(path, keys, &trace, &report, &err), &err);
    const redco_trace_span *const spans = redco_trace_spans(trace, &count);
    assert_int_equal(count, SPANS);
    assert_int_equal(report.events, SPANS + 1);
    check_near(spans[SPANS - 1].start_s, 1e-6 * (SPANS - 1 + 0.25), 1e-12);
    assert_int_equal(spans[SPANS - 1].arg_count, 1);
    const redco_trace_arg *const args = redco_trace_args(trace, &count);
    assert_int_equal(count, SPANS);
    check_near(args[SPANS - 1].number, SPANS / 100 - 1, 0.0);
    redco_trace_free(trace);
    assert_int_equal(truncate(path, 2000040), 0);
    assert_int_equal(redco_trace_load(path, keys, &trace, &report, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "cut off"));
    assert_int_equal(unlink(path), 0);
    redco_error_clear(&err);
    assert_int_equal(redco_trace_load(path, keys, &trace, &report, &err), REDCO_EIO);
    redco_error_clear(&err);
    assert_int_equal(redco_trace_load("/tmp", keys, &trace, &report, &err), REDCO_EIO);
}

static void documents_are_imported(void **state)
{
    (void)state;
    redco_error err = {.status = REDCO_OK};
    redco_json *document = NULL;
    redco_trace *trace = NULL;
    redco_trace_load_report report;
    static const char text[] = "{\"traceEvents\":[" SPAN("a", -1, 2) ",7],\"otherData\":{\"k\":\"v\"}}";
    check_ok(redco_json_parse(text, strlen(text), "t", &document, &err), &err);
    redco_json_value root = redco_json_root(document);
    check_ok(redco_trace_import(&root, NULL, &trace, &report, &err), &err);
    uint32_t count = 0;
    check_near(redco_trace_spans(trace, &count)[0].start_s, -1e-6, 1e-18);
    assert_int_equal(report.ignored, 1);
    assert_string_equal(redco_trace_note(trace, "k"), "v");
    redco_trace_free(trace);
    redco_json_close(document);
    check_ok(redco_json_parse("{}", 2, "t", &document, &err), &err);
    root = redco_json_root(document);
    assert_int_equal(redco_trace_import(&root, NULL, &trace, &report, &err), REDCO_EVALUE);
    redco_json_close(document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_become_spans),
        cmocka_unit_test(bad_events_are_counted),
        cmocka_unit_test(duplicates_are_dropped),
        cmocka_unit_test(forms_of_files),
        cmocka_unit_test(refused),
        cmocka_unit_test(large_files),
        cmocka_unit_test(documents_are_imported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
