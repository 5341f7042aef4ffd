#include "topology/base/file.h"
#include "topology/base/json.h"
#include "topology/base/number.h"
#include "topology/base/recomputation.h"
#include "topology/base/text.h"
#include "topology/base/units.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct quantity_row {
    const char *text;
    redco_unit unit;
    double value; /* by hand; < 0: must be refused */
};

static void quantities_read_as_written(void **state)
{
    static const struct quantity_row rows[] = {
        {"4.8 TB/s", REDCO_UNIT_BYTES_PER_S, 4.8e12},
        {"200 Gb/s", REDCO_UNIT_BYTES_PER_S, 25e9},
        {"200Gbit/s", REDCO_UNIT_BYTES_PER_S, 25e9},
        {"80 GB", REDCO_UNIT_BYTES, 80e9},
        {"80 GiB", REDCO_UNIT_BYTES, 85899345920.0},
        {"5 us", REDCO_UNIT_SECONDS, 5e-6},
        {"1.5 ms", REDCO_UNIT_SECONDS, 1.5e-3},
        {"312 TFLOP/s", REDCO_UNIT_FLOPS_PER_S, 312e12},
        {"400 W", REDCO_UNIT_WATTS, 400.0},
        {"80", REDCO_UNIT_BYTES, -1.0},
        {"-80 GB", REDCO_UNIT_BYTES, -1.0},
        {"80 GX", REDCO_UNIT_BYTES, -1.0},
        {"nan GB", REDCO_UNIT_BYTES, -1.0},
        {"inf GB", REDCO_UNIT_BYTES, -1.0},
        {"1e40 GB", REDCO_UNIT_BYTES, -1.0},
        {"0x10 GB", REDCO_UNIT_BYTES, -1.0},
        {"", REDCO_UNIT_BYTES, -1.0},
        {"80 GB/s", REDCO_UNIT_BYTES, -1.0},
        {"1..5 GB", REDCO_UNIT_BYTES, -1.0},
        {"GB", REDCO_UNIT_BYTES, -1.0},
        {"1e3GB", REDCO_UNIT_BYTES, 1e12},
        {".5 GB", REDCO_UNIT_BYTES, 5e8},
        {" 80 GB", REDCO_UNIT_BYTES, -1.0},
        {"+80 GB", REDCO_UNIT_BYTES, -1.0},
        {"1.0x8 GB", REDCO_UNIT_BYTES, -1.0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double value = 0.0;
        redco_error err = {0};
        const redco_status st = redco_unit_parse(rows[i].text, rows[i].unit, "here", &value, &err);
        if (rows[i].value < 0.0) {
            assert_int_equal(st, REDCO_EVALUE);
            assert_string_equal(err.place, "here");
        } else {
            assert_int_equal(st, REDCO_OK);
            assert_true(value > rows[i].value * (1 - 1e-12) && value < rows[i].value * (1 + 1e-12));
        }
    }
}

static void numbers_are_decimal(void **state)
{
    static const char *const neither[] = {
        "",      " 1",    "1 ",       "+1",  "-1",   "-0",    "0x10",
        "0X1p3", "inf",   "INFINITY", "nan", "1e",   "1e+",   "e5",
        ".",     "1,5",   "1_000",    "\t7", "1..2", "1.2.3", "\xd9\xa1" /* an Arabic 1 */,
        "one",   "1e400", "0b1",      "1f",  "1e5x", "#"};
    static const struct {
        const char *text;
        double value;
    } real[] = {{"0", 0.0},      {"00012", 12.0}, {"0.5", 0.5},     {".5", 0.5},    {"5.", 5.0},
                {"1e-4", 1e-4},  {"1E+3", 1e3},   {"2.5e2", 250.0}, {"1e30", 1e30}, {"18446744073709551616", 0x1p64},
                {"1e-400", 0.0}, {"010", 10.0}};
    uint64_t whole = 7;
    double value = 7.0;
    (void)state;
    for (size_t i = 0; i < sizeof neither / sizeof neither[0]; i++) {
        if (redco_whole_parse(neither[i], 0, UINT64_MAX, &whole) || redco_real_parse(neither[i], 0.0, 1e300, &value)) {
            fail_msg("\"%s\" is a number", neither[i]);
        }
    }
    assert_int_equal(whole, 7);
    assert_true(value == 7.0);
    for (size_t i = 0; i < sizeof real / sizeof real[0]; i++) {
        if (!redco_real_parse(real[i].text, 0.0, 1e300, &value) || value != real[i].value) {
            fail_msg("%s", real[i].text);
        }
        const bool digits = strspn(real[i].text, "0123456789") == strlen(real[i].text);
        if (redco_whole_parse(real[i].text, 0, UINT64_MAX, &whole) != (digits && real[i].value < 0x1p64)) {
            fail_msg("%s", real[i].text);
        }
    }
    assert_true(redco_whole_parse("18446744073709551615", 0, UINT64_MAX, &whole));
    assert_true(whole == UINT64_MAX);
    assert_false(redco_whole_parse("8", 0, 7, &whole));
    assert_false(redco_whole_parse("0", 1, 7, &whole));
    assert_false(redco_real_parse("1e31", 0.0, 1e30, &value));
    assert_false(redco_real_parse("0.5", 1.0, 2.0, &value));
    /* at the start of more text, and no further than it goes */
    assert_int_equal(redco_whole_read("16x2", 4, &whole), 2);
    assert_int_equal(whole, 16);
    assert_int_equal(redco_whole_read("1234", 2, &whole), 2);
    assert_int_equal(whole, 12);
    assert_int_equal(redco_real_read("32.0 GT/s", 9, &value), 4);
    assert_int_equal(redco_real_read("1e5", 2, &value), 1);
    assert_true(value == 1.0);
    assert_int_equal(redco_real_read("0x10", 4, &value), 1);
}

static void quantities_print_with_four_digits(void **state)
{
    char buffer[32];
    (void)state;
    assert_string_equal(redco_unit_format(57.123e9, REDCO_UNIT_BYTES, buffer, sizeof buffer), "57.12 GB");
    assert_string_equal(redco_unit_format(1.1714, REDCO_UNIT_SECONDS, buffer, sizeof buffer), "1.171 s");
    assert_string_equal(redco_unit_format(12.5e-6, REDCO_UNIT_SECONDS, buffer, sizeof buffer), "12.5 us");
    assert_string_equal(redco_unit_format(0.0, REDCO_UNIT_SECONDS, buffer, sizeof buffer), "0 s");
    assert_string_equal(redco_unit_format(999999.0, REDCO_UNIT_BYTES, buffer, sizeof buffer), "1 MB");
}

static void sha256_matches_the_standard(void **state)
{
    char hex[REDCO_SHA256_HEX_SIZE];
    (void)state;
    redco_sha256_hex("abc", 3, hex); /* FIPS 180-4, example 1 */
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

static void json_errors_name_the_place(void **state)
{
    redco_json *document = NULL;
    redco_error err = {0};
    uint32_t number = 0;
    double bytes = 0.0;
    (void)state;
    assert_int_equal(redco_json_parse("{\n \"a\": }", 9, "x.json", &document, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.place, "x.json:2:"));
    redco_error_clear(&err);

    static const char text[] = "{\"a\":{\"n\":7,\"m\":\"80 GB\",\"bare\":80}}";
    assert_int_equal(redco_json_parse(text, strlen(text), "y.json", &document, &err), REDCO_OK);
    const redco_json_value root = redco_json_root(document);
    redco_json_value a;
    assert_int_equal(redco_json_object(&root, "a", &a, &err), REDCO_OK);
    assert_int_equal(redco_json_u32(&a, "n", 0, 10, &number, &err), REDCO_OK);
    assert_int_equal(number, 7);
    assert_int_equal(redco_json_u32(&a, "n", 8, 10, &number, &err), REDCO_EVALUE);
    assert_string_equal(err.place, "y.json:/a/n");
    redco_error_clear(&err);
    assert_int_equal(redco_json_quantity(&a, "m", REDCO_UNIT_BYTES, &bytes, &err), REDCO_OK);
    assert_true(bytes == 80e9);
    assert_int_equal(redco_json_quantity(&a, "bare", REDCO_UNIT_BYTES, &bytes, &err), REDCO_EVALUE);
    redco_error_clear(&err);
    static const char *const known[] = {"n", "m", "bear", NULL};
    assert_int_equal(redco_json_only(&a, known, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "did you mean \"bear\""));
    redco_json_close(document);
}

static void deep_brackets_are_refused(void **state)
{
    const size_t size = 1000000;
    char *text = malloc(size);
    redco_json *document = NULL;
    (void)state;
    memset(text, '[', size);
    assert_int_equal(redco_json_parse(text, size, "deep", &document, NULL), REDCO_EVALUE);
    free(text);
}

static void check_file(const char *path, const char *contents)
{
    char *text = NULL;
    size_t size = 0;
    assert_int_equal(redco_file_read(path, 100, &text, &size, NULL), REDCO_OK);
    assert_string_equal(text, contents);
    free(text);
}

/* A link to a link to a file, relative and absolute; a link to a file not yet there; a circle. */
static void links_are_written_through(void **state)
{
    char folder[] = "/tmp/redco-test-XXXXXX";
    char target[64], first[64], second[64], dangling[64], circle[64], made[64];
    struct stat info;
    redco_error err = {0};
    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(target, sizeof target, "%s/inner/file", folder);
    (void)snprintf(first, sizeof first, "%s/inner/first", folder);
    (void)snprintf(second, sizeof second, "%s/second", folder);
    (void)snprintf(dangling, sizeof dangling, "%s/dangling", folder);
    (void)snprintf(circle, sizeof circle, "%s/circle", folder);
    (void)snprintf(made, sizeof made, "%s/inner/made", folder);
    char inner[64];
    (void)snprintf(inner, sizeof inner, "%s/inner", folder);
    assert_int_equal(mkdir(inner, 0700), 0);
    assert_int_equal(redco_file_write(target, "old", 3, NULL), REDCO_OK);
    assert_int_equal(symlink("file", first), 0); /* relative to its own folder, not to the caller's */
    assert_int_equal(symlink(first, second), 0);
    assert_int_equal(symlink("inner/made", dangling), 0);
    assert_int_equal(symlink("circle", circle), 0);

    assert_int_equal(redco_file_write(second, "new", 3, &err), REDCO_OK);
    check_file(target, "new");
    assert_int_equal(lstat(second, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(lstat(first, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(redco_file_write(dangling, "made", 4, &err), REDCO_OK);
    check_file(made, "made");
    assert_int_equal(lstat(dangling, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(redco_file_write(circle, "x", 1, &err), REDCO_EIO);
    assert_string_equal(err.place, circle); /* the path that the user named */

    const char *const files[] = {target, first, second, dangling, circle, made};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) { assert_int_equal(unlink(files[i]), 0); }
    assert_int_equal(rmdir(inner), 0); /* nothing temporary is left */
    assert_int_equal(rmdir(folder), 0);
}

/* An open file is written where it stands, as "/dev/stdout" must be when the shell sends it to a file. */
static void open_files_are_written_on(void **state)
{
    char path[] = "/tmp/redco-test-XXXXXX";
    char name[32];
    (void)state;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)snprintf(name, sizeof name, "/dev/fd/%d", fd);
    assert_int_equal(redco_file_write(name, "one ", 4, NULL), REDCO_OK);
    assert_int_equal(redco_file_write(name, "two", 3, NULL), REDCO_OK);
    check_file(path, "one two");
    assert_int_equal(redco_file_descriptor("/dev/stdout"), 1);
    assert_int_equal(redco_file_descriptor("/dev/stdout.json"), -1);
    assert_int_equal(redco_file_descriptor("/dev/fd/"), -1);
    assert_int_equal(redco_file_descriptor("/dev/fd/1x"), -1);
    assert_int_equal(redco_file_descriptor("/dev/fd/99999999999"), -1);
    (void)close(fd);
    assert_int_equal(redco_file_write(name, "x", 1, NULL), REDCO_EIO);
    assert_int_equal(unlink(path), 0);
}

/* By the tables of Unicode 15: categories Cc, the Bidi_Control property, Zl and Zp; table 3-7 for what is UTF-8. */
static void names_are_shown_safely(void **state)
{
    static const char *const rows[][2] = {
        {"plain", "plain"},
        {"Gr\xc3\xbc\xc3\x9f"
         "e \xe2\x94\x80 \xf0\x9f\x98\x80",
         "Gr\xc3\xbc\xc3\x9f"
         "e \xe2\x94\x80 \xf0\x9f\x98\x80"},
        {"a\x1b[31m\nb\tc\x7f", "a?[31m?b?c?"},
        {"\xc2\x80\xc2\x9b"
         "31m\xc2\x9f\xc2\xa0",
         "??31m?\xc2\xa0"},                                                                 /* C1; U+00A0 is a space */
        {"\xd8\x9b\xd8\x9c\xd8\x9d", "\xd8\x9b?\xd8\x9d"},                                  /* U+061B to U+061D */
        {"\xe2\x80\x8d\xe2\x80\x8e\xe2\x80\x8f\xe2\x80\x90", "\xe2\x80\x8d??\xe2\x80\x90"}, /* U+200D to U+2010 */
        {"\xe2\x80\xa7\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa\xe2\x80\xae\xe2\x80\xac\xe2\x80\xac\xe2\x80\xaf",
         "\xe2\x80\xa7??????\xe2\x80\xaf"}, /* U+2027 to U+202A, U+202E, twice U+202C, U+202F */
        {"\xe2\x81\xa5\xe2\x81\xa6\xe2\x81\xa9\xe2\x81\xaa", "\xe2\x81\xa5??\xe2\x81\xaa"}, /* U+2065 to U+206A */
        {"\x9b"
         "1m\xff\xc3",
         "?1m??"},                                                            /* bytes of other encodings */
        {"\xc0\xaf\xe0\x80\x8a\xed\xa0\x80\xf4\x90\x80\x80", "????????????"}, /* overlong, surrogate, too large */
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[64];
        char written[64] = "";
        (void)snprintf(text, sizeof text, "%s", rows[i][0]);
        redco_text_clean(text);
        assert_string_equal(text, rows[i][1]);
        FILE *stream = fmemopen(written, sizeof written, "w");
        assert_non_null(stream);
        redco_text_write(stream, rows[i][0]);
        assert_int_equal(fclose(stream), 0);
        assert_string_equal(written, rows[i][1]);
        assert_int_equal(redco_text_is_plain(rows[i][0]), strcmp(rows[i][0], rows[i][1]) == 0);
    }
}

/* Documents go to terminals, too, and must still say the same. */
static void documents_are_shown_safely(void **state)
{
    static const char name[] = "a\xc2\x9b"
                               "b\x7f\xe2\x80\xae\xe2\x80\xa8\xc3\xbc\n";
    size_t size = 0;
    (void)state;
    json_t *json = json_pack("{s:s}", "name", name);
    char *text = redco_json_text(json, 10, &size);
    assert_non_null(text);
    assert_string_equal(text, "{\n \"name\": \"a\\u009bb\\u007f\\u202e\\u2028\xc3\xbc\\n\"\n}\n");
    assert_int_equal(size, strlen(text));
    json_t *again = json_loads(text, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(again, "name")), name);
    json_decref(again);
    json_decref(json);
    free(text);
}

/* Messages hold names of files and what files hold. */
static void errors_are_shown_safely(void **state)
{
    redco_error err = {0};
    (void)state;
    (void)redco_fail(&err, REDCO_EVALUE,
                     "a\xc2\x9b"
                     "b.json",
                     "is \"%s\"",
                     "\xe2\x80\xae"
                     "evil\xe2\x80\xac");
    assert_string_equal(err.place, "a?b.json");
    assert_string_equal(err.text, "is \"?evil?\"");
}

/* Files in a folder beside one of that name. */
static int others_in(const char *folder, const char *name)
{
    int count = 0;
    DIR *const open_folder = opendir(folder);
    assert_non_null(open_folder);
    for (const struct dirent *e = readdir(open_folder); e != NULL; e = readdir(open_folder)) {
        count += e->d_name[0] != '.' && strcmp(e->d_name, name) != 0 ? 1 : 0;
    }
    (void)closedir(open_folder);
    return count;
}

/* A writer is ended by signals at any moment, and meets the limit of a file's size: the file is one of those that were
 * written whole, and nothing else is left. */
static void signals_leave_nothing(void **state)
{
    enum { SIZE = 1 << 20, TIMES = 40 };
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    static char contents[SIZE];
    char folder[] = "/tmp/redco-test-XXXXXX", path[64];
    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/file", folder);
    memset(contents, 'x', sizeof contents);
    for (int s = 0; s < 4; s++) { (void)signal(signals[s], SIG_DFL); } /* a shell's background ignores some */
    for (int i = 0; i < TIMES; i++) {
        const struct timespec nap = {.tv_nsec = 1000000 + i % 7 * 700000};
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            const struct rlimit none = {0, 0};
            (void)setrlimit(RLIMIT_CORE, &none);
            while (redco_file_write(path, contents, sizeof contents, NULL) == REDCO_OK) {}
            _exit(1);
        }
        int status = 0;
        (void)nanosleep(&nap, NULL);
        assert_int_equal(kill(pid, signals[i % 4]), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == signals[i % 4]);
        assert_int_equal(others_in(folder, "file"), 0);
    }
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const struct rlimit small = {SIZE / 2, SIZE / 2};
        redco_error err = {.status = REDCO_OK};
        (void)signal(SIGXFSZ, SIG_DFL);
        (void)setrlimit(RLIMIT_FSIZE, &small);
        const redco_status st = redco_file_write(path, contents, sizeof contents, &err);
        _exit(st == REDCO_ESYSTEM && strstr(err.text, "File too large") != NULL ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(others_in(folder, "file"), 0);
    (void)unlink(path);
    assert_int_equal(rmdir(folder), 0);
}

/* Not even root's. */
static void read_only_files_stay(void **state)
{
    char path[] = "/tmp/redco-test-XXXXXX";
    redco_error err = {.status = REDCO_OK};
    (void)state;
    const int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, "old", 3) == 3 && fchmod(fd, 0444) == 0);
    (void)close(fd);
    assert_int_equal(redco_file_write(path, "new", 3, &err), REDCO_EIO);
    assert_string_equal(err.text, "cannot write: it is read-only");
    check_file(path, "old");
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(redco_file_write(path, "new", 3, NULL), REDCO_OK);
    check_file(path, "new");
    assert_int_equal(unlink(path), 0);
}

static void recomputation_has_words(void **state)
{
    static const struct {
        const char *text, *written;
        redco_recompute set;
        bool half;
    } known[] = {{"none", "none", REDCO_RECOMPUTE_NONE, false},
                 {"selective", "selective", REDCO_RECOMPUTE_CORE_ATTN, false},
                 {"core_attn", "selective", REDCO_RECOMPUTE_CORE_ATTN, false},
                 {"half", "half", REDCO_RECOMPUTE_FULL, true},
                 {"full", "full", REDCO_RECOMPUTE_FULL, false},
                 {"moe_act+core_attn", "core_attn+moe_act", 1 | 16, false},
                 {"core_attn+layernorm+mla_up_proj+mlp+moe_act+moe+shared_experts",
                  "core_attn+layernorm+mla_up_proj+mlp+moe_act+moe+shared_experts", 127, false}};
    static const char *const bad[] = {"", "+", "mlp+", "+mlp", "mlp++moe", "mlp+none", "full+mlp", "ml", "mlpx", "MLP"};
    redco_recompute_list list = {.count = 0};
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        redco_recompute set = 1000;
        bool half = !known[i].half;
        char text[REDCO_RECOMPUTE_TEXT];
        assert_true(redco_recompute_parse(known[i].text, &set, &half));
        assert_int_equal(set, known[i].set);
        assert_true(half == known[i].half);
        assert_string_equal(redco_recompute_text(set, half, text, sizeof text), known[i].written);
        assert_true(redco_recompute_add(&list, set));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        redco_recompute set = 1000;
        bool half = false;
        assert_false(redco_recompute_parse(bad[i], &set, &half));
        assert_int_equal(set, 1000);
    }
    assert_int_equal(list.count, 5); /* 0, 1, 17, 127, 128: ascending, each once */
    assert_int_equal(redco_recompute_find(&list, 17), 2);
    assert_int_equal(redco_recompute_union(&list), 127);
    redco_recompute_drop(&list, 1);
    assert_int_equal(redco_recompute_find(&list, 1), 4);
    assert_int_equal(list.sets[1], 17);
    for (redco_recompute set = 0; list.count < REDCO_RECOMPUTE_SETS; set++) { (void)redco_recompute_add(&list, set); }
    assert_false(redco_recompute_add(&list, 100));
    assert_true(redco_recompute_add(&list, 17));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recomputation_has_words),     cmocka_unit_test(quantities_read_as_written),
        cmocka_unit_test(numbers_are_decimal),         cmocka_unit_test(quantities_print_with_four_digits),
        cmocka_unit_test(sha256_matches_the_standard), cmocka_unit_test(json_errors_name_the_place),
        cmocka_unit_test(deep_brackets_are_refused),   cmocka_unit_test(links_are_written_through),
        cmocka_unit_test(open_files_are_written_on),   cmocka_unit_test(names_are_shown_safely),
        cmocka_unit_test(errors_are_shown_safely),     cmocka_unit_test(documents_are_shown_safely),
        cmocka_unit_test(signals_leave_nothing),       cmocka_unit_test(read_only_files_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
