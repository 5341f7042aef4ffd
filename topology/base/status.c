#include "topology/base/status.h"

#include "topology/base/text.h"

#include <stdarg.h>
#include <stdio.h>

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
    redco_text_clean(err->place);
    redco_text_clean(err->text);
    return status;
}

void redco_error_clear(redco_error *err)
{
    if (err != NULL) { *err = (redco_error){0}; }
}
