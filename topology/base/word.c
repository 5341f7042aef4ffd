#include "topology/base/word.h"

#include <string.h>

size_t redco_word_distance(const char *a, const char *b)
{
    enum { LONGEST = 63 };
    size_t row[LONGEST + 1];
    const size_t rows = strlen(a);
    const size_t columns = strlen(b);
    if (rows > LONGEST || columns > LONGEST) { return LONGEST; }
    for (size_t j = 0; j <= columns; j++) { row[j] = j; }
    for (size_t i = 1; i <= rows; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= columns; j++) {
            const size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            const size_t shifted = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            row[j] = substituted < shifted ? substituted : shifted;
        }
    }
    return row[columns];
}

const char *redco_word_nearest(const char *word, const char *const *known)
{
    const char *nearest = known[0];
    for (size_t i = 1; known[i] != NULL; i++) {
        if (redco_word_distance(word, known[i]) < redco_word_distance(word, nearest)) { nearest = known[i]; }
    }
    return nearest;
}
