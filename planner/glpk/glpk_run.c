#include "planner/glpk/glpk_run.h"

#include <glpk.h>

#include <setjmp.h>
#include <string.h>

#define TEXT(number) #number
#define VERSION_TEXT(major, minor) TEXT(major) "." TEXT(minor)

const char *redcoi_glpk_name(void)
{
    return "GLPK " VERSION_TEXT(GLP_MAJOR_VERSION, GLP_MINOR_VERSION);
}

/** The jump target of a fatal error inside GLPK. */
struct escape {
    jmp_buf point;
    char text[160]; /**< the last line that GLPK printed */
};

static void jump_out(void *info)
{
    longjmp(((struct escape *)info)->point, 1);
}

/* GLPK switches its output on to report an error: it ends here. */
static int swallow(void *info, const char *text)
{
    struct escape *escape = info;
    const size_t length = strcspn(text, "\n");
    if (length > 0 && length < sizeof escape->text && strncmp(text, "Error detected", 14) != 0) {
        memcpy(escape->text, text, length);
        escape->text[length] = '\0';
    }
    return 1;
}

redco_status redcoi_glpk_run(redco_status (*work)(void *context, redco_error *err), void *context, redco_error *err)
{
    struct escape escape = {.text = ""};
    const int had_environment = glp_init_env();
    if (had_environment > 1) {
        return redco_fail(err, REDCO_ESYSTEM, "GLPK", "cannot start: code %d", had_environment);
    }
    const int old_output = glp_term_out(GLP_OFF);
    if (setjmp(escape.point) != 0) {
        /* After an error GLPK only allows its environment to be freed. */
        glp_error_hook(NULL, NULL);
        glp_term_hook(NULL, NULL);
        (void)glp_free_env();
        return redco_fail(err, REDCO_ESYSTEM, redcoi_glpk_name(), "failed inside: %s", escape.text);
    }
    glp_error_hook(jump_out, &escape);
    glp_term_hook(swallow, &escape);
    const redco_status st = work(context, err);
    glp_error_hook(NULL, NULL);
    glp_term_hook(NULL, NULL);
    (void)glp_term_out(old_output);
    if (had_environment == 0) { (void)glp_free_env(); }
    return st;
}
