/* planner/read/KEYS.md is made of the tables of the trainers: test_read_keys --update writes it. */
#include "planner/read/trainers.h"
#include "topology/base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char page[] = REDCO_TEST_DATA "/../../planner/read/KEYS.md";

enum { WIDEST = 100 };

/* Adds a word to a paragraph of lines. */
static void word(FILE *stream, size_t *used, const char *text)
{
    if (*used + strlen(text) + 1 > WIDEST) {
        (void)fputs("\n  ", stream);
        *used = 2;
    } else if (*used > 2) {
        (void)fputc(' ', stream);
        ++*used;
    }
    (void)fputs(text, stream);
    *used += strlen(text);
}

static bool is_first(const redcoi_trainer *trainer, const redcoi_trainer_key *row)
{
    for (const redcoi_trainer_key *other = trainer->keys; other != row; other++) {
        if (other->means == row->means && strcmp(other->target, row->target) == 0) { return false; }
    }
    return true;
}

/* "- `tp`: `a`, `b`" for each target of a kind, keys of the same together. */
static void targets(FILE *stream, const redcoi_trainer *trainer, redcoi_means means, const char *title)
{
    size_t used = 2;
    bool any = false;
    for (const redcoi_trainer_key *row = trainer->keys; row->key != NULL; row++) {
        char text[200];
        if (row->means != means || !is_first(trainer, row)) { continue; }
        if (!any) { used = (size_t)fprintf(stream, "- %s:", title); }
        any = true;
        (void)snprintf(text, sizeof text, "%s:", row->target + (row->target[0] == '.' ? 1 : 0));
        for (char *at = NULL, *rest = text; (at = strsep(&rest, " ")) != NULL;) { word(stream, &used, at); }
        for (const redcoi_trainer_key *same = row; same->key != NULL; same++) {
            if (same->means != means || strcmp(same->target, row->target) != 0) { continue; }
            (void)snprintf(text, sizeof text, "`%s`", same->key);
            bool more = false;
            for (const redcoi_trainer_key *next = same + 1; next->key != NULL; next++) {
                more = more || (next->means == means && strcmp(next->target, row->target) == 0);
            }
            (void)strcat(text, more ? "," : ";"); /* NOLINT(clang-analyzer-security.insecureAPI.strcpy) */
            word(stream, &used, text);
        }
    }
    if (any) { (void)fputs("\n", stream); }
}

static char *made(size_t *size_out)
{
    char *text = NULL;
    FILE *const stream = open_memstream(&text, size_out);
    assert_non_null(stream);
    (void)fputs("# Keys of trainers\n\n"
                "`redco-plan --read FILE` reads these keys; the page is made of the tables that read them\n"
                "(`tests/unit/test_read_keys.c`). A name before a colon is an option of redco-plan, a key of a\n"
                "config.json, a trait of an engine ([ENGINES](../../costmodel/engines/ENGINES.md)), or a fact from\n"
                "which options follow ([settle.c](settle.c)). \"Not priced\": the key is named in the answer. Keys of\n"
                "data, logs, learning rates and checkpoints, which change nothing, are not listed, nor those of\n"
                "kernels and buffers, which are priced as the engine's runs were.\n",
                stream);
    for (size_t t = 0; redcoi_trainers[t] != NULL; t++) {
        const redcoi_trainer *const trainer = redcoi_trainers[t];
        (void)fprintf(stream, "\n## %s (`%s`)\n", trainer->title, trainer->word);
        if (trainer->core != NULL) {
            (void)fprintf(stream, "- all keys of %s%s%s%s\n", trainer->core->title,
                          trainer->core_section[0] != '\0' ? ", behind `" : "", trainer->core_section,
                          trainer->core_section[0] != '\0' ? "`" : "");
        }
        targets(stream, trainer, REDCOI_MEANS_OPTION, "options");
        targets(stream, trainer, REDCOI_MEANS_MODEL, "model");
        targets(stream, trainer, REDCOI_MEANS_TRAIT, "traits of the engine");
        targets(stream, trainer, REDCOI_MEANS_LIMIT, "not priced");
    }
    assert_int_equal(fclose(stream), 0);
    return text;
}

static void the_page_is_the_tables(void **state)
{
    size_t size = 0, length = 0;
    char *const text = made(&size), *shown = NULL;
    (void)state;
    assert_int_equal(redco_file_read(page, 1 << 20, &shown, &length, NULL), REDCO_OK);
    if (length != size || memcmp(shown, text, size) != 0) {
        fail_msg("KEYS.md is not the tables: test_read_keys --update");
    }
    free(shown);
    free(text);
}

/* Each row says something that redcoi_key_of() finds, and texts of values are pairs. */
static void rows_are_sound(void **state)
{
    int bad = 0;
    (void)state;
    for (size_t t = 0; redcoi_trainers[t] != NULL; t++) {
        for (const redcoi_trainer_key *row = redcoi_trainers[t]->keys; row->key != NULL; row++) {
            assert_non_null(row->target);
            const redcoi_trainer_key *const found = redcoi_key_of(redcoi_trainers[t], row->key);
            if (found == NULL) {
                print_error("%s: %s is not found\n", redcoi_trainers[t]->word, row->key);
                bad++;
                continue;
            }
            if (found != row && found->key[strlen(found->key) - 1] != '*') {
                print_error("%s: %s stands twice\n", redcoi_trainers[t]->word, row->key);
                bad++;
            }
            if (row->values != NULL && strchr(row->values, '=') == NULL) { fail_msg("%s: %s", row->key, row->values); }
        }
    }
    assert_int_equal(bad, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_page_is_the_tables), cmocka_unit_test(rows_are_sound)};
    if (argc > 1 && strcmp(argv[1], "--update") == 0) {
        size_t size = 0;
        char *const text = made(&size);
        const redco_status st = redco_file_write(page, text, size, NULL);
        free(text);
        return st == REDCO_OK ? 0 : 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
