/* A profile from text or a file: the reader of its format fills it. */
#include "traces/profile.h"

#include "topology/base/preset.h"
#include "traces/nccl_log.h"
#include "traces/profile_build.h"

#include <ctype.h>
#include <stdlib.h>

static const size_t max_file_bytes = (size_t)64 << 20;

redco_status redco_profile_parse(const char *text, size_t size, const char *name, redco_profile **profile_out,
                                 redco_error *err)
{
    size_t start = 0;
    bool found = false;
    if (size > max_file_bytes) {
        return redco_fail(err, REDCO_EVALUE, name, "larger than %zu bytes, the most that is read here", max_file_bytes);
    }
    while (start < size && isspace((unsigned char)text[start])) { start++; }
    if (start < size && text[start] == '{') { return redcoi_profile_json(text, size, name, profile_out, err); }
    const redco_status st = redcoi_profile_csv(text, size, name, &found, profile_out, err);
    if (st != REDCO_OK || found) { return st; }
    return redco_nccl_log_parse(text, size, name, profile_out, err);
}

redco_status redco_profile_read(const char *path, redco_profile **profile_out, redco_error *err)
{
    char *text = NULL;
    size_t size = 0;
    redco_status st = redco_preset_text("profiles", "a profile", path, max_file_bytes, &text, &size, err);
    if (st == REDCO_OK) { st = redco_profile_parse(text, size, path, profile_out, err); }
    free(text);
    return st;
}
