#include "topology/base/number.h"
#include "topology/base/text.h"
#include "traces/profile_build.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

void redcoi_copy_text(char *buffer, size_t size, const char *text, size_t length)
{
    while (length > 0 && isspace((unsigned char)text[length - 1])) { length--; }
    if (length >= size) { length = size - 1; }
    memcpy(buffer, text, length);
    buffer[length] = '\0';
    redco_text_clean(buffer); /* shown in tables and messages */
}

bool redcoi_next_line(const char *text, size_t size, size_t *at, const char **line_out, size_t *length_out)
{
    if (*at >= size) { return false; }
    const char *line = text + *at;
    const char *end = memchr(line, '\n', size - *at);
    size_t length = end != NULL ? (size_t)(end - line) : size - *at;
    *at += length + 1;
    if (length > 0 && line[length - 1] == '\r') { length--; }
    *line_out = line;
    *length_out = length;
    return true;
}

bool redcoi_decimal(const char *text, size_t length, double *value_out)
{
    return length > 0 && redco_real_read(text, length, value_out) == length;
}

bool redcoi_whole(const char *text, size_t length, uint64_t *value_out)
{
    return length > 0 && length <= 18 && redco_whole_read(text, length, value_out) == length;
}

static bool starts_with(const char *text, size_t length, const char *key, size_t *after)
{
    const size_t key_length = strlen(key);
    if (length < key_length || strncasecmp(text, key, key_length) != 0) { return false; }
    *after = key_length;
    while (*after < length && text[*after] == ' ') { (*after)++; }
    return true;
}

/* The whole number behind @p key in the line, e.g. 8 for "ranks:" in "nodes: 1 gpus_per_node: 4 ranks: 8"; 0 if none.
 */
static uint32_t number_after(const char *text, size_t length, const char *key)
{
    const char *found = memmem(text, length, key, strlen(key));
    uint64_t value = 0;
    if (found == NULL) { return 0; }
    found += strlen(key);
    const char *end = text + length;
    while (found < end && *found == ' ') { found++; }
    const char *digits = found;
    while (found < end && isdigit((unsigned char)*found)) { found++; }
    if (!redcoi_whole(digits, (size_t)(found - digits), &value) || value > UINT32_MAX) { return 0; }
    return (uint32_t)value;
}

void redcoi_profile_comment(struct redcoi_profile_about *about, const char *text, size_t length)
{
    size_t at = 0;
    about->one_process |= memmem(text, length, "1 process x", 11) != NULL;
    if (starts_with(text, length, "collective:", &at)) {
        size_t end = at;
        while (end < length && (isalnum((unsigned char)text[end]) || text[end] == '_' || text[end] == '-')) { end++; }
        about->has_op = redco_collective_parse(text + at, end - at, &about->op);
        const char *hardware = memmem(text, length, "hardware:", 9);
        if (hardware == NULL) { return; }
        length -= (size_t)(hardware - text);
        text = hardware;
    }
    if (starts_with(text, length, "hardware:", &at)) {
        redcoi_copy_text(about->hardware, sizeof about->hardware, text + at, length - at);
    } else if (starts_with(text, length, "network:", &at)) {
        redcoi_copy_text(about->network, sizeof about->network, text + at, length - at);
    } else if (starts_with(text, length, "tool:", &at)) {
        redcoi_copy_text(about->tool, sizeof about->tool, text + at, length - at);
    } else if (starts_with(text, length, "nodes:", &at) || starts_with(text, length, "ranks:", &at)) {
        about->nodes = number_after(text, length, "nodes:");
        about->ranks = number_after(text, length, "ranks:");
    }
}

bool redcoi_collective_in_text(const char *text, size_t length, redco_collective *op_out)
{
    /* Longer names first: "all_reduce" holds "reduce". */
    static const char *const words[] = {"reduce_scatter", "reducescatter", "reduce-scatter", "all_reduce", "allreduce",
                                        "all-reduce",     "all_gather",    "allgather",      "all-gather", "all_to_all",
                                        "alltoall",       "all-to-all",    "all2all",        "send_recv",  "sendrecv",
                                        "broadcast",      "bcast",         "reduce"};
    for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
        const size_t word_length = strlen(words[w]);
        for (size_t i = 0; i + word_length <= length; i++) {
            if (strncasecmp(text + i, words[w], word_length) != 0) { continue; }
            return redco_collective_parse(words[w], word_length, op_out);
        }
    }
    return false;
}
