#include "topology/base/status.h"

#include <stdarg.h>
#include <stdio.h>

/* Errors are one line on a terminal: control characters of hostile input must not reach it. */
static void make_printable(char *text)
{
    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c == 0x7f) { *text = '?'; }
    }
}

/* In brackets: not the macro that status.h has for the analyser. */
redco_status(redco_fail)(redco_error *err, redco_status status, const char *place, const char *format, ...)
{
    if (err == NULL || err->status != REDCO_OK) { return status; }
    err->status = status;
    (void)snprintf(err->place, sizeof err->place, "%s", place != NULL ? place : "");
    va_list args;
    va_start(args, format);
    (void)vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    make_printable(err->place);
    make_printable(err->text);
    return status;
}

void redco_error_clear(redco_error *err)
{
    if (err != NULL) { *err = (redco_error){0}; }
}
