/* Trainers' files as options: tests/data/read/options.txt has what each of the files there means. */
#include "planner/read/read.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool nothing_given(const void *context, const char *option)
{
    (void)context;
    return strcmp(option, "gpus") == 0 && context != NULL;
}

/* "a=1 b=2" of a reading; its engine counts as it stands. */
static void written(const redco_reading *reading, char *out, size_t size)
{
    const redco_read_option *options = NULL;
    const size_t count = redco_reading_options(reading, &options);
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < count && used < size; i++) {
        used +=
            (size_t)snprintf(out + used, size - used, "%s%s=%s", i > 0 ? " " : "", options[i].option, options[i].value);
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The words of a text in one order. */
static void sorted(const char *text, char *out, size_t size)
{
    char copy[2000];
    char *words[64], *rest = copy;
    size_t count = 0, used = 0;
    (void)snprintf(copy, sizeof copy, "%s", text);
    for (char *word = NULL; (word = strsep(&rest, " \n")) != NULL;) {
        if (word[0] != '\0') { words[count++] = word; }
    }
    qsort(words, count, sizeof words[0], by_text);
    out[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        used += (size_t)snprintf(out + used, size - used, "%s%s", i > 0 ? " " : "", words[i]);
    }
}

static void files_mean_their_options(void **state)
{
    char line[2000], paths[8][300], got[2000], want[2000], all[2000];
    FILE *const table = fopen(REDCO_TEST_DATA "/read/options.txt", "re");
    int rows = 0;
    (void)state;
    assert_non_null(table);
    while (fgets(line, sizeof line, table) != NULL) {
        char *rest = line; /* a layout of stages has "|", too */
        if (line[0] == '#') { continue; }
        char *files = strsep(&rest, "|"), *const gpus = strsep(&rest, "|");
        redco_read_question question = {.gpus = strtoull(gpus, NULL, 10), .given = nothing_given};
        question.context = question.gpus > 0 ? &question : NULL;
        for (char *file = NULL; (file = strsep(&files, " ")) != NULL;) {
            if (file[0] == '\0') { continue; }
            (void)snprintf(paths[question.count], sizeof paths[0], REDCO_TEST_DATA "/read/%s", file);
            question.paths[question.count] = paths[question.count];
            question.count++;
        }
        redco_reading *reading = NULL;
        redco_error err = {.status = REDCO_OK};
        if (redco_read(&question, &reading, &err) != REDCO_OK) {
            fail_msg("%s: %s: %s", paths[0], err.place, err.text);
        }
        written(reading, all, sizeof all);
        sorted(all, got, sizeof got);
        sorted(rest, want, sizeof want);
        if (strcmp(got, want) != 0) { fail_msg("%s:\n%s\nis not\n%s", paths[0], got, want); }
        redco_reading_free(reading);
        rows++;
    }
    (void)fclose(table);
    assert_int_equal(rows, 32);
}

static redco_status read_text(const char *name, const char *text, redco_reading **reading, redco_error *err)
{
    char path[200];
    redco_read_question question = {.count = 1, .gpus = 8, .paths = {path}};
    (void)snprintf(path, sizeof path, "/tmp/redco-read-%d-%s", (int)getpid(), name);
    FILE *const stream = fopen(path, "we");
    assert_non_null(stream);
    (void)fputs(text, stream);
    assert_int_equal(fclose(stream), 0);
    const redco_status st = redco_read(&question, reading, err);
    assert_int_equal(unlink(path), 0);
    return st;
}

/* Keys of all kinds are in one of the lists, and each of those that no table has by its name. */
static void every_key_is_accounted_for(void **state)
{
    redco_reading *reading = NULL;
    redco_error err = {.status = REDCO_OK};
    const redco_read_item *items = NULL;
    (void)state;
    assert_int_equal(
        read_text("a.json",
                  "{\"zero_optimization\": {\"stage\": 1, \"mystery\": {\"deep\": 2}}, \"steps_per_print\": 9,"
                  " \"unheard_of\": [1, 2], \"optimizer\": {\"type\": \"OneBitAdam\"}}",
                  &reading, &err),
        REDCO_OK);
    assert_int_equal(redco_reading_list(reading, REDCO_READ_UNDERSTOOD, &items), 1);
    assert_string_equal(items[0].key, "zero_optimization.stage");
    assert_int_equal(redco_reading_list(reading, REDCO_READ_HARMLESS, &items), 1);
    assert_int_equal(redco_reading_list(reading, REDCO_READ_NOT_UNDERSTOOD, &items), 3);
    assert_string_equal(items[0].key, "zero_optimization.mystery.deep");
    assert_string_equal(items[1].key, "unheard_of");
    assert_string_equal(items[1].value, "1, 2");
    assert_string_equal(items[2].key, "optimizer.type");
    redco_reading_free(reading);
}

struct bad_row {
    const char *name, *text, *place, *what;
};

/* One line: file, line, what was wrong, what would be right. */
static void bad_files_are_named(void **state)
{
    static const struct bad_row rows[] = {
        {"b.json", "{\"zero_optimization\": ", "b.json:1:", "not valid JSON"},
        {"b.json", "[1]", "b.json", "JSON object"},
        {"b.json", "{\"zero_optimization\": {\"stage\": 3}, \"train_micro_batch_size_per_gpu\": \"many\"}", "b.json:1",
         "no whole number from 1"},
        {"b.json",
         "{\"train_batch_size\": 7, \"train_micro_batch_size_per_gpu\": 1, \"gradient_accumulation_steps\": 3}", NULL,
         NULL}, /* the command line's GPUs go before */
        {"b.json", "{\"a\": 1, \"b\": {}}", "b.json", "--read-as"},
        {"b.yaml", "distributed_type: [FSDP\n", "b.yaml:2:1", "not valid YAML"},
        {"b.yaml", "- a\n- b\n", "b.yaml", "holds no keys"},
        {"b.yaml", "a: &a [*a, x]\n", "b.yaml", ""},
        {"b.toml", "[training]\nseq_len = \n", "b.toml:2", "a value is missing"},
        {"b.toml", "[training\nseq_len = 2\n", "b.toml:1", "not closed"},
        {"b.toml", "[model]\nname = \"llama3\"\nflavor = \"9B\"\n", "b.toml:3", "give it as --model"},
        {"b.sh", "torchrun --nnodes 1 train.py --tp \"8\n", "b.sh:1", "quotes are not closed"},
        {"b.sh", "if true; then\necho\n", "b.sh", "\"fi\" is missing"},
        {"b.sh",
         "torchrun pretrain_gpt.py --num-layers 4 --hidden-size 64 --num-attention-heads 4 "
         "--tensor-model-parallel-size 3\n",
         "b.sh:1", "do not divide 8 GPUs"},
        {"b.sh",
         "torchrun pretrain_gpt.py --num-layers 4 --hidden-size 64 --num-attention-heads 4 "
         "--tensor-model-parallel-size $TP\n",
         "b.sh:1", "--tp is needed: $TP is not set"},
        {"b.sh",
         "A=\"$(cat x)\"\ntorchrun pretrain_gpt.py --num-layers 4 --micro-batch-size $A --hidden-size 64 "
         "--num-attention-heads 4\n",
         "b.sh:2", "--micro-batch is needed: $(cat x)"},
        {"b.py", "import torch\nx = f(1)\n", "b.py", "--read-as"},
        {"b.sh", "a() { a; a; }\na\n", "b.sh", "too deep"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redco_reading *reading = NULL;
        redco_error err = {.status = REDCO_OK};
        const redco_status st = read_text(rows[i].name, rows[i].text, &reading, &err);
        if (rows[i].place == NULL) {
            assert_int_equal(st, REDCO_OK);
            redco_reading_free(reading);
            continue;
        }
        if (st != REDCO_EVALUE || strstr(err.place, rows[i].place) == NULL || strstr(err.text, rows[i].what) == NULL) {
            fail_msg("%s: %d %s: %s", rows[i].text, (int)st, err.place, err.text);
        }
    }
}

/* Values of a shell script after what a shell would do with them. */
static void scripts_are_followed(void **state)
{
    static const struct {
        const char *script, *value;
    } rows[] = {
        {"X=8\n", "--tensor-model-parallel-size $X"},
        {"X=${Y:-8}\n", "--tensor-model-parallel-size ${X}"},
        {"Y=\"\"\nX=${Y:-8}\n", "--tensor-model-parallel-size ${X}"},
        {": ${X:=8}\n", "--tensor-model-parallel-size=$X"},
        {"export A=2 B=4\nX=$((A*B))\n", "--tensor-model-parallel-size $X"},
        {"A=2; X=$(( (A + 2) * ${A} ))\n", "--tensor-model-parallel-size \"$X\""},
        {"X=`expr 4 \\* 2`\n", "--tensor-model-parallel-size $X"},
        {"A=(1 2)\nA+=(--tensor-model-parallel-size 8)\n", "${A[@]:2}${A[@]}"},
        {"A=\"--tensor-model-parallel-size\n 8\"\n", "$A"},
        {"X=1\nif [ 3 -gt 2 ] && [[ a == a ]]; then X=8; else X=2; fi\n", "--tensor-model-parallel-size $X"},
        {"X=1\nif [ -n \"$NOPE\" ]; then X=2\nelif test 1 = 1\nthen X=8\nfi\n", "--tensor-model-parallel-size $X"},
        {"case b in a) X=1;; b|c) X=8 ;; *) X=4;; esac\n", "--tensor-model-parallel-size $X"},
        {"for X in 8 4; do :; done\n", "--tensor-model-parallel-size $X"},
        {"f() {\n local a=$1\n X=$a\n}\nf 8\n", "--tensor-model-parallel-size $X"},
        {"[ -z \"${X}\" ] && X=8\n[ -n \"$X\" ] || X=3\n", "--tensor-model-parallel-size $X"},
        {"cat <<EOF >f\nX=1 ) ( \" '\nEOF\nX=8\n", "--tensor-model-parallel-size $X"},
        {"X=8 # of 9\n# X=2\n", "--tensor-model-parallel-size $X"},
        {"((X = 2 * 4))\n", "--tensor-model-parallel-size $X"},
        {"X=2\nwhile [ $# -gt 0 ]; do X=1; shift; done\nX=8\n", "--tensor-model-parallel-size $X"},
        {"A=4\nX=$((A > 2 ? 8 : 1))\n", "--tensor-model-parallel-size $X"},
        {"X='8'\nY=X\n", "--tensor-model-parallel-size '8'"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char script[500];
        redco_reading *reading = NULL;
        redco_error err = {.status = REDCO_OK};
        (void)snprintf(script, sizeof script,
                       "%s torchrun pretrain_gpt.py %s --num-layers 8 --hidden-size 64 --num-attention-heads 4\n",
                       rows[i].script, rows[i].value);
        const redco_status st = read_text("s.sh", script, &reading, &err);
        if (st != REDCO_OK) { fail_msg("%s: %s: %s", script, err.place, err.text); }
        const redco_read_option *const tp = redco_reading_option(reading, "tp");
        if (tp == NULL || strcmp(tp->value, "8") != 0) { fail_msg("%s: tp %s", script, tp != NULL ? tp->value : "?"); }
        redco_reading_free(reading);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(files_mean_their_options),
                                       cmocka_unit_test(every_key_is_accounted_for),
                                       cmocka_unit_test(bad_files_are_named), cmocka_unit_test(scripts_are_followed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
