/* A file of token ids. Its first four bytes choose the size of ids, the vocabulary, and the length of sequences. */
#include "executor/data/tokens.h"

#include <stdlib.h>

enum { LENGTH_MAX = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4) { return 0; }
    const redco_tokens_options options = {
        .seed = data[3], .vocabulary = (uint64_t)data[1] * data[1] * 7 + 1, .seq_len = data[2] % LENGTH_MAX};
    redco_tokens *tokens = NULL;
    if (redco_tokens_parse(data + 4, size - 4, "fuzz.bin", data[0] % 5, &options, &tokens, NULL) != REDCO_OK) {
        return 0;
    }
    const uint64_t windows = redco_tokens_windows(tokens);
    if (windows == 0) { abort(); }
    for (uint64_t number = 0; number < windows + 2; number++) {
        int32_t in[LENGTH_MAX], out[LENGTH_MAX];
        if (redco_tokens_sequence(tokens, number, in, out, NULL) != REDCO_OK) { continue; }
        for (uint32_t i = 0; i < options.seq_len; i++) {
            if (in[i] < 0 || (uint64_t)in[i] >= options.vocabulary) { abort(); }
            if (i > 0 && in[i] != out[i - 1]) { abort(); }
        }
    }
    redco_tokens_close(tokens);
    return 0;
}
