/* A model that is known by its dimensions alone, as tables of measured runs give them: a decoder of plain blocks
 * without biases or learned positions. Its tensors have the names of LLaMA's, so that rules by name know what they are
 * for. */
#include "costmodel/models/family.h"

static void read_generic(redcoi_build *build)
{
    build->model->dims.gated = redcoi_config_bool(build, "gated", true);
}

/* There is no architecture whose default an absent dimension could take. No settings are read: its layers are known,
 * but not the numbers with which one would train it. */
const redcoi_family redcoi_family_generic = {
    .type = "generic",
    .dims = {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY},
    .keys = redcoi_llama_keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = REDCOI_SIZE_REQUIRED,
                 [REDCOI_SIZE_HIDDEN] = REDCOI_SIZE_REQUIRED,
                 [REDCOI_SIZE_FFN] = REDCOI_SIZE_REQUIRED,
                 [REDCOI_SIZE_LAYERS] = REDCOI_SIZE_REQUIRED,
                 [REDCOI_SIZE_HEADS] = REDCOI_SIZE_REQUIRED},
    .layers = redcoi_llama_layers,
    .untrained = true,
    .read = read_generic,
};
