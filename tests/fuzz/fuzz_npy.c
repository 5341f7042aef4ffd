/* An array of numpy.save(). Elements of an array that is accepted can all be read; rows are all of them. */
#include "executor/data/npy.h"

#include <stdlib.h>

enum { ROWS_MAX = 64, ELEMENTS_MAX = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redco_npy array;
    if (redco_npy_parse(data, size, "fuzz.npy", &array, NULL) != REDCO_OK) { return 0; }
    if (array.elements * array.element_bytes > size) { abort(); }
    for (uint64_t i = 0; i < array.elements && i < ELEMENTS_MAX; i++) {
        int64_t whole = 0;
        if (redco_npy_whole(&array, i, &whole) && redco_npy_real(&array, i) != (double)whole) { abort(); }
    }
    for (uint64_t i = 0; array.rank > 0 && array.elements <= ELEMENTS_MAX && i < array.dim[0] && i < ROWS_MAX; i++) {
        json_decref(redco_npy_row(&array, i));
    }
    return 0;
}
