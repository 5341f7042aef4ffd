/* The reader of saving rules: what it accepts can be priced, whatever it holds. */
#include "costmodel/models/model.h"
#include "costmodel/saving/saving_rules.h"
#include "topology/base/share.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redco_json *document = NULL;
    redco_saving_set set;
    redco_error err = {0};
    if (redco_json_parse((const char *)data, size, "rules", &document, &err) != REDCO_OK) { return 0; }
    const redco_json_value root = redco_json_root(document);
    if (redco_saving_set_read(&root, &set, &err) == REDCO_OK) {
        redco_model *model = NULL;
        static const redco_recompute_list sets = {
            {REDCO_RECOMPUTE_CORE_ATTN, REDCO_RECOMPUTE_LAYERNORM | REDCO_RECOMPUTE_MLP, REDCO_RECOMPUTE_FULL}, 3};
        uint64_t sizes[REDCO_AXIS_COUNT];
        if (redco_model_read("gpt2", &model, NULL) != REDCO_OK) { abort(); }
        const redco_layer_work *const work = redco_model_work(model, 1);
        redco_model_axis_sizes(model, 8, 1024, sizes);
        for (uint32_t holds = 0; holds < 4; holds++) {
            const redco_saving_case rank = {.sizes = sizes, .keys = 1024, .holds = holds, .sequence_ranks = 2};
            const redco_saved_bytes bytes = redco_saving_bytes(&set, work->sites, work->site_count, &rank, &sets);
            if (bytes.kept > REDCO_SAVING_RULES * redco_share_most) { abort(); }
        }
        redco_model_free(model);
    } else if (err.status == REDCO_OK || err.text[0] == '\0') {
        abort();
    }
    redco_json_close(document);
    return 0;
}
