#include "topology/discovery/node.h"

#include <stdlib.h>
#include <string.h>

static char *described(const redco_node *node, size_t *size)
{
    json_t *json = redco_node_describe(node);
    if (json == NULL) { abort(); }
    char *text = redco_json_text(json, 10, size);
    json_decref(json);
    if (text == NULL) { abort(); }
    return text;
}

/* A node that is accepted can be written, read back and written the same. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redco_json *document = NULL;
    redco_node *node = NULL;
    redco_node *again = NULL;
    redco_error err = {0};
    redco_gpu gpu;
    if (redco_json_parse((const char *)data, size, "fuzz", &document, &err) != REDCO_OK) { return 0; }
    const redco_json_value root = redco_json_root(document);
    if (redco_node_from_json(&root, &node, &err) == REDCO_OK) {
        size_t first_size = 0;
        size_t second_size = 0;
        char *first = described(node, &first_size);
        if (redco_node_parse(first, first_size, "again", 0, &again, &err) != REDCO_OK) { abort(); }
        char *second = described(again, &second_size);
        if (first_size != second_size || memcmp(first, second, first_size) != 0) { abort(); }
        (void)redco_node_gpu_type(node, &gpu, &err);
        if (redco_node_link_group(node) == 0 || redco_node_scale_up(node) < 0.0) { abort(); }
        free(first);
        free(second);
    }
    redco_node_free(again);
    redco_node_free(node);
    redco_json_close(document);
    return 0;
}
