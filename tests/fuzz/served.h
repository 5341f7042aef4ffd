/** @file served.h  Between mutants and served.c. */
#ifndef REDCO_SERVED_H
#define REDCO_SERVED_H

#include <sys/resource.h>

enum { SERVED_SOCKET = 198, SERVED_MESSAGE = 16384, SERVED_ARGUMENTS = 16, SERVED_WALL_S = 120 };

struct served_answer {
    int state; /**< as of wait(); -1: it could not be started */
    struct rusage used;
};

#endif
