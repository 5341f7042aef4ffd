/** @file readme_figures.h  The figures that README.md names, read from there: tests hold what is found against them. */
#ifndef REDCO_README_FIGURES_H
#define REDCO_README_FIGURES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

/** The text of README.md behind @p sentence, spaces for line ends; fails the test where it is not there.
 *  @return borrowed until the next call */
static const char *readme_behind(const char *sentence)
{
    static char text[65536];
    FILE *const file = fopen(REDCO_TEST_DATA "/../../README.md", "r");
    assert_non_null(file);
    const size_t size = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    size_t kept = 0;
    for (size_t i = 0; i < size; i++) {
        const char c = text[i];
        if (c != '\n') {
            if (c != ' ' || kept == 0 || text[kept - 1] != ' ') { text[kept++] = c; }
        } else if (kept > 0 && text[kept - 1] != ' ') {
            text[kept++] = ' ';
        }
    }
    text[kept] = '\0';
    const char *const found = strstr(text, sentence);
    if (found == NULL) { fail_msg("README.md does not say \"%s\"", sentence); }
    return found + strlen(sentence);
}

#endif
