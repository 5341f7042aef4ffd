/* JSON lines. Every record is an object, or an error that names its line. */
#include "executor/data/record_file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redco_record_file *file = NULL;
    if (redco_record_file_parse((const char *)data, size, "fuzz.jsonl", size % 2 == 0, &file, NULL) != REDCO_OK) {
        return 0;
    }
    for (uint64_t i = 0; i < redco_record_file_count(file); i++) {
        json_t *record = NULL;
        redco_error err = {.status = REDCO_OK};
        if (redco_record_file_get(file, i, &record, &err) == REDCO_OK) {
            if (!json_is_object(record)) { abort(); }
            json_decref(record);
        } else if (strncmp(err.place, "fuzz.jsonl:", 11) != 0) {
            abort();
        }
    }
    redco_record_file_close(file);
    return 0;
}
