/* A function of a pipeline that crashes: which one, for whoever wrote it. What is asked of the C library here is not
 * promised inside of a signal's handler; the process ends in any case. */
#include "tools/cli/cli.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

enum { STACK_BYTES = 256 << 10 };

struct place {
    const char *library; /* NULL: no frame is a pipeline's */
    uintptr_t address;   /* in the library */
};

static _Unwind_Reason_Code look(struct _Unwind_Context *frame, void *context)
{
    struct place *const place = context;
    int exact = 0; /* else it is where a call returns to: behind the call */
    const uintptr_t address = _Unwind_GetIPInfo(frame, &exact) - (exact != 0 ? 0 : 1);
    Dl_info in;
    if (dladdr((const void *)address, &in) == 0 || in.dli_fname == NULL) { return _URC_NO_REASON; }
    void *const library = dlopen(in.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL || dlsym(library, "redco_user_pipeline_table") == NULL) { return _URC_NO_REASON; }
    *place = (struct place){in.dli_fname, address - (uintptr_t)in.dli_fbase};
    return _URC_END_OF_STACK;
}

static void tell_crash(int number)
{
    char text[700];
    struct place place = {.library = NULL};
    (void)signal(number, SIG_DFL);
    (void)_Unwind_Backtrace(look, &place);
    if (place.library != NULL) {
        const int length = snprintf(
            text, sizeof text, "%s: %.250s: a function crashed: signal %d (%s); addr2line -fe %.250s %#zx says where\n",
            program_invocation_short_name, place.library, number, strsignal(number), place.library,
            (size_t)place.address);
        (void)!write(STDERR_FILENO, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
    }
    (void)raise(number); /* ends the process, with its core */
}

static void set_handlers(void (*from)(int), void (*to)(int), int flags)
{
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; i++) {
        struct sigaction now;
        if (sigaction(crashes[i], NULL, &now) != 0 || now.sa_handler != from) { continue; } /* a sanitizer's */
        struct sigaction next = {.sa_handler = to, .sa_flags = flags};
        (void)sigemptyset(&next.sa_mask);
        (void)sigaction(crashes[i], &next, NULL);
    }
}

void cli_tell_crashes(void)
{
    /* A stack of its own: endless recursion leaves none. */
    const stack_t own = {.ss_sp = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                         .ss_size = STACK_BYTES};
    const bool has_own = own.ss_sp != MAP_FAILED && sigaltstack(&own, NULL) == 0;
    set_handlers(SIG_DFL, tell_crash, SA_NODEFER | (has_own ? SA_ONSTACK : 0));
}

void cli_forget_crashes(void)
{
    set_handlers(tell_crash, SIG_DFL, 0);
}
