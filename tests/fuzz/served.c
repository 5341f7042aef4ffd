/* Preloaded into a tool: its main is called once for each message on descriptor SERVED_SOCKET, in a child that finds
 * everything loaded and bound. The tool itself is the one that is installed. A message is the file to print to and the
 * arguments, each ended by a 0 byte; the answer is how the child ended and what it used. */
#include "tests/fuzz/served.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int main_function(int, char **, char **);
typedef int start_function(main_function *, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c): the C library's own, in whose place this one stands */
int __libc_start_main(main_function *main, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*loader_fini)(void), void *stack_end);
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c) */

static main_function *tool_main;

static void run(char *message, size_t size, char **environment)
{
    char *arguments[SERVED_ARGUMENTS + 1] = {NULL};
    int count = 0;
    const int print_to = open(message, O_WRONLY | O_APPEND);
    (void)dup2(print_to, STDOUT_FILENO);
    (void)dup2(print_to, STDERR_FILENO);
    (void)close(print_to);
    (void)close(SERVED_SOCKET);
    for (size_t at = strlen(message) + 1; at < size && count < SERVED_ARGUMENTS; at += strlen(message + at) + 1) {
        arguments[count++] = message + at;
    }
    (void)alarm(SERVED_WALL_S);
    exit(tool_main(count, arguments, environment));
}

static int serve(int argc, char **argv, char **environment)
{
    static char message[SERVED_MESSAGE + 1];
    (void)argc;
    (void)argv;
    (void)unsetenv("LD_PRELOAD");
    (void)unsetenv("LD_BIND_NOW");
    for (;;) {
        struct served_answer answer = {.state = -1};
        const ssize_t size = recv(SERVED_SOCKET, message, SERVED_MESSAGE, 0);
        if (size <= 0) { return 0; }
        message[size] = '\0';
        const pid_t child = fork();
        if (child == 0) { run(message, (size_t)size, environment); }
        while (child > 0 && wait4(child, &answer.state, 0, &answer.used) < 0) {}
        if (send(SERVED_SOCKET, &answer, sizeof answer, 0) < 0) { return 0; }
    }
}

int __libc_start_main(main_function *main, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*loader_fini)(void), void *stack_end)
{
    start_function *start = NULL;
    void *const found = dlsym(RTLD_NEXT, "__libc_start_main");
    memcpy(&start, &found, sizeof start);
    tool_main = main;
    return start(serve, argc, argv, init, fini, loader_fini, stack_end);
}
