/* The header of a .safetensors file, or an index, and the parameter tree of its names. */
#include "planner/rules/rules_params.h"
#include "tests/unit/memory_file.h"

#include <stdlib.h>
#include <string.h>

static void use(const redco_safetensors *tensors)
{
    const redco_safetensor *list = NULL;
    redco_rules_tree *tree = NULL;
    const size_t count = redco_safetensors_list(tensors, &list);
    for (size_t i = 0; i < count; i++) {
        if (list[i].rank > REDCO_SAFETENSORS_RANK_MAX || redco_safetensors_find(tensors, list[i].name) != &list[i]) {
            abort();
        }
        if (i > 0 && strcmp(list[i - 1].name, list[i].name) >= 0) { abort(); }
    }
    if (redco_rules_tree_from_safetensors(tensors, "fuzz", &tree, NULL) == REDCO_OK) {
        const redco_rules_param *params = NULL;
        if (redco_rules_tree_params(tree, &params) != count) { abort(); }
    }
    redco_rules_tree_free(tree);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redco_safetensors *tensors = NULL;
    redco_json *document = NULL;
    char path[MEMORY_FILE_PATH_BYTES];
    FILE *const file = memory_file(data, size, path);
    if (redco_safetensors_open(path, &tensors, NULL) == REDCO_OK) { use(tensors); }
    (void)fclose(file);
    redco_safetensors_free(tensors);
    tensors = NULL;
    if (redco_json_parse((const char *)data, size, "fuzz.json", &document, NULL) != REDCO_OK) { return 0; }
    const redco_json_value root = redco_json_root(document);
    if (redco_safetensors_parse_index(&root, &tensors, NULL) == REDCO_OK) { use(tensors); }
    redco_safetensors_free(tensors);
    redco_json_close(document);
    return 0;
}
