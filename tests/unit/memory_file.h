/* A file of given bytes for readers of files: it has a path while it is open, and none behind. */
#ifndef REDCO_TEST_MEMORY_FILE_H
#define REDCO_TEST_MEMORY_FILE_H

#include <stdio.h>
#include <stdlib.h>

enum { MEMORY_FILE_PATH_BYTES = 32 };

/* Aborts where there is no room. @return to be closed with fclose() */
static inline FILE *memory_file(const void *bytes, size_t size, char path[MEMORY_FILE_PATH_BYTES])
{
    FILE *const file = tmpfile();
    if (file == NULL || fwrite(bytes, 1, size, file) != size || fflush(file) != 0) { abort(); }
    (void)snprintf(path, MEMORY_FILE_PATH_BYTES, "/proc/self/fd/%d", fileno(file));
    return file;
}

#endif
