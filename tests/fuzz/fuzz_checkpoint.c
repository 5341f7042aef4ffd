/* checkpoint.json: what is accepted has tensors inside their files. Digests are made right first, or nothing would get
 * past them. */
#include "executor/checkpoint/checkpoint_internal.h"
#include "topology/base/json.h"

#include <stdlib.h>
#include <string.h>

static void use(const redco_checkpoint *c)
{
    for (uint32_t i = 0; i < c->entry_count; i++) {
        const redcoi_entry *const e = &c->entries[i];
        if (e->file >= c->file_count || e->offset_bytes < c->files[e->file].header_bytes ||
            e->offset_bytes + redco_type_bytes(&e->type) > c->files[e->file].size_bytes) {
            abort();
        }
        if (i > 0 && strcmp(c->entries[i - 1].name, e->name) >= 0) { abort(); }
    }
    for (uint32_t i = 0; i < c->file_count; i++) {
        if (strchr(c->files[i].name, '/') != NULL) { abort(); }
    }
    if (redco_checkpoint_get_info(c)->step == 0) { abort(); }
}

/* The same document with the digest that its content has. @return NULL: there is none */
static char *with_digest(const uint8_t *data, size_t size, size_t *size_out)
{
    json_t *const document = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
    char sha256[REDCO_SHA256_HEX_SIZE];
    char *text = NULL;
    size_t content_size = 0;
    char *const content = json_object_get(document, "content") != NULL
                              ? redco_json_text(json_object_get(document, "content"), 17, &content_size)
                              : NULL;
    if (content != NULL) {
        redco_sha256_hex(content, content_size, sha256);
        (void)json_object_set_new(document, "sha256", json_string(sha256));
        text = redco_json_text(document, 17, size_out);
    }
    free(content);
    json_decref(document);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redco_checkpoint *checkpoint = NULL;
    size_t right_size = 0;
    if (redco_checkpoint_parse((const char *)data, size, "fuzz.json", &checkpoint, NULL) == REDCO_OK) {
        use(checkpoint);
    }
    redco_checkpoint_free(checkpoint);
    checkpoint = NULL;
    char *const right = with_digest(data, size, &right_size);
    if (right != NULL && redco_checkpoint_parse(right, right_size, "fuzz.json", &checkpoint, NULL) == REDCO_OK) {
        use(checkpoint);
    }
    redco_checkpoint_free(checkpoint);
    free(right);
    return 0;
}
