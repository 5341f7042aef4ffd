/* Names the pipeline function that crashed. The C library does not promise these calls inside a signal handler; the
 * process ends in any case. */
#include "tools/cli/cli.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <unwind.h>

enum { STACK_BYTES = 256 << 10, WORD_BYTES = 64 << 10 };

/* In front of the stack of the handler, which finds it there; processes that this one starts share it. */
struct word {
    char text[CLI_CRASH_BYTES];
};

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

/* NULL: there is none */
static struct word *shared_word(void)
{
    stack_t own;
    if (sigaltstack(NULL, &own) != 0 || (own.ss_flags & SS_DISABLE) != 0 || own.ss_size != STACK_BYTES) { return NULL; }
    return (struct word *)(void *)((char *)own.ss_sp - WORD_BYTES);
}

static void tell_crash(int number)
{
    struct place place = {.library = NULL};
    struct word *const word = shared_word(); /* other threads than the first have none */
    (void)signal(number, SIG_DFL);
    if (word != NULL) { (void)_Unwind_Backtrace(look, &place); }
    if (place.library != NULL) {
        (void)snprintf(word->text, sizeof word->text, "addr2line -fe %.250s %#zx says where", place.library,
                       (size_t)place.address);
    }
    (void)raise(number); /* ends the process, with its core */
}

static void set_handlers(int flags)
{
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; i++) {
        struct sigaction now;
        if (sigaction(crashes[i], NULL, &now) != 0 || now.sa_handler != SIG_DFL) { continue; } /* a sanitizer's */
        struct sigaction next = {.sa_handler = tell_crash, .sa_flags = flags};
        (void)sigemptyset(&next.sa_mask);
        (void)sigaction(crashes[i], &next, NULL);
    }
}

void cli_tell_crashes(void)
{
    static const int pages = PROT_READ | PROT_WRITE;
    /* A stack of its own: endless recursion leaves none. */
    char *const all = mmap(NULL, WORD_BYTES + STACK_BYTES, pages, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool has_own =
        all != MAP_FAILED && mmap(all, WORD_BYTES, pages, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
    if (has_own) {
        const stack_t own = {.ss_sp = all + WORD_BYTES, .ss_size = STACK_BYTES};
        has_own = sigaltstack(&own, NULL) == 0;
    }
    set_handlers(SA_NODEFER | (has_own ? SA_ONSTACK : 0));
}

const char *cli_crash(void)
{
    const struct word *const word = shared_word();
    return word != NULL ? word->text : "";
}
