#include "topology/base/text.h"

#include <string.h>

size_t redco_text_length(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    if (at[0] < 0x80) { return 1; }
    if (at[0] < 0xc2 || at[0] > 0xf4) { return 0; }
    const size_t length = at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80) { return 0; }
    }
    const bool overlong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    const bool surrogate = at[0] == 0xed && at[1] > 0x9f;
    const bool too_large = at[0] == 0xf4 && at[1] > 0x8f;
    return overlong || surrogate || too_large ? 0 : length;
}

uint32_t redco_text_code(const char *text)
{
    static const unsigned char lead_bits[] = {0x7f, 0x1f, 0x0f, 0x07};
    const size_t length = redco_text_length(text);
    if (length == 0) { return 0xfffd; }
    uint32_t code = (unsigned char)text[0] & lead_bits[length - 1];
    for (size_t i = 1; i < length; i++) { code = code << 6 | ((unsigned char)text[i] & 0x3f); }
    return code;
}

bool redco_text_is_safe(const char *text)
{
    static const struct {
        uint32_t first, last;
    } unsafe[] = {{0x0000, 0x001f}, {0x007f, 0x009f}, {0x061c, 0x061c},
                  {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}};
    if (redco_text_length(text) == 0) { return false; }
    const uint32_t code = redco_text_code(text);
    for (size_t i = 0; i < sizeof unsafe / sizeof unsafe[0]; i++) {
        if (code >= unsafe[i].first && code <= unsafe[i].last) { return false; }
    }
    return true;
}

bool redco_text_is_plain(const char *text)
{
    while (*text != '\0' && redco_text_is_safe(text)) { text += redco_text_length(text); }
    return *text == '\0';
}

const char *redco_text_next(const char **at, size_t *size_out)
{
    const char *character = *at;
    const size_t length = redco_text_length(character);
    const bool safe = redco_text_is_safe(character);
    *at += length > 0 ? length : 1;
    *size_out = safe ? length : 1;
    return safe ? character : "?";
}

void redco_text_clean(char *text)
{
    const char *from = text;
    char *to = text;
    while (*from != '\0') {
        size_t size = 0;
        const char *shown = redco_text_next(&from, &size);
        memmove(to, shown, size);
        to += size;
    }
    *to = '\0';
}

void redco_text_write(FILE *stream, const char *text)
{
    while (*text != '\0') {
        size_t size = 0;
        const char *shown = redco_text_next(&text, &size);
        (void)fwrite(shown, 1, size, stream);
    }
}
