/* The JSON reader with its typed getters: what they accept is in the range that was asked for. */
#include "topology/base/json.h"

#include <math.h>
#include <stdlib.h>

static void read_object(const redco_json_value *object)
{
    static const char *const known[] = {"a", "b", "n", NULL};
    static const redco_unit units[] = {REDCO_UNIT_BYTES, REDCO_UNIT_BYTES_PER_S, REDCO_UNIT_SECONDS};
    redco_error err = {0};
    redco_json_value value;
    const char *text = NULL;
    uint32_t small = 0;
    double number = 0.0;
    bool truth = false;
    uint32_t version = 0;
    size_t count = 0;
    (void)redco_json_only(object, known, &err);
    if (redco_json_u32(object, "n", 3, 9, &small, NULL) == REDCO_OK && (small < 3 || small > 9)) { abort(); }
    if (redco_json_number(object, "n", 0.5, 2.5, &number, NULL) == REDCO_OK && !(number >= 0.5 && number <= 2.5)) {
        abort();
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (redco_json_quantity(object, "a", units[i], &number, NULL) == REDCO_OK &&
            (!isfinite(number) || number < 0.0)) {
            abort();
        }
    }
    (void)redco_json_string(object, "b", &text, NULL);
    (void)redco_json_bool(object, "b", &truth, NULL);
    (void)redco_json_format(object, "redco-plan", 1, &version, NULL);
    if (redco_json_array(object, "a", &value, &count, NULL) == REDCO_OK) {
        redco_json_value element;
        for (size_t i = 0; i < count; i++) { (void)redco_json_element(&value, i, &element, NULL); }
    }
    if (redco_json_object(object, "a", &value, NULL) == REDCO_OK) { read_object(&value); }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redco_json *document = NULL;
    if (redco_json_parse((const char *)data, size, "fuzz.json", &document, NULL) != REDCO_OK) { return 0; }
    const redco_json_value root = redco_json_root(document);
    read_object(&root);
    size_t length = 0;
    free(redco_json_text(root.json, 10, &length));
    redco_json_close(document);
    return 0;
}
