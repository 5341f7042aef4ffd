#include "executor/data/npy.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { MAGIC_BYTES = 6, HEADER_MAX = 1 << 16, DESCRIPTION_BYTES = 8 };

/* The header's text, which is read from the left. */
struct header {
    const char *text, *end;
    const char *name;
    redco_error *err;
};

static redco_status bad(const struct header *h, const char *what)
{
    return redco_fail(h->err, REDCO_EVALUE, h->name, "%s; numpy.save() writes what is read here", what);
}

static void skip_blanks(struct header *h)
{
    while (h->text < h->end && (*h->text == ' ' || *h->text == '\n' || *h->text == '\t')) { h->text++; }
}

static bool take(struct header *h, const char *word)
{
    const size_t length = strlen(word);
    skip_blanks(h);
    if ((size_t)(h->end - h->text) < length || memcmp(h->text, word, length) != 0) { return false; }
    h->text += length;
    return true;
}

/* A text between quotes, without quotes in it. */
static bool take_text(struct header *h, char *out, size_t room)
{
    skip_blanks(h);
    if (h->text == h->end || (*h->text != '\'' && *h->text != '"')) { return false; }
    const char quote = *h->text++;
    size_t length = 0;
    while (h->text < h->end && *h->text != quote && length + 1 < room) { out[length++] = *h->text++; }
    out[length] = '\0';
    if (h->text == h->end || *h->text != quote) { return false; }
    h->text++;
    return true;
}

static bool take_whole(struct header *h, uint64_t *out)
{
    uint64_t value = 0;
    skip_blanks(h);
    const char *const begin = h->text;
    for (; h->text < h->end && *h->text >= '0' && *h->text <= '9'; h->text++) {
        const uint64_t digit = (uint64_t)(*h->text - '0');
        if (value > (UINT64_MAX - digit) / 10) { return false; }
        value = 10 * value + digit;
    }
    *out = value;
    return h->text > begin;
}

static redco_status read_type(struct header *h, redco_npy *a)
{
    char text[DESCRIPTION_BYTES] = "";
    if (!take_text(h, text, sizeof text)) { return bad(h, "its header has no 'descr' of one type"); }
    const char order = text[0], kind = text[0] != '\0' ? text[1] : '\0';
    const bool one = strlen(text) == 3 && text[2] > '0' && text[2] < '9';
    a->kind = kind;
    a->element_bytes = one ? (uint32_t)(text[2] - '0') : 0;
    const uint32_t b = a->element_bytes;
    const bool whole = (kind == 'i' || kind == 'u') && (b == 1 || b == 2 || b == 4 || b == 8);
    const bool known = whole || (kind == 'b' && b == 1) || (kind == 'f' && (b == 4 || b == 8));
    if (known && (order == '<' || (b == 1 && order == '|'))) { return REDCO_OK; }
    return redco_fail(h->err, REDCO_EVALUE, h->name,
                      "has elements of type %.8s; truth values, whole numbers and floats of 4 and 8 bytes are read, "
                      "little-endian",
                      text);
}

static redco_status read_shape(struct header *h, redco_npy *a)
{
    if (!take(h, "(")) { return bad(h, "its header has no 'shape'"); }
    a->rank = 0;
    a->elements = 1;
    while (!take(h, ")")) {
        uint64_t *const dim = &a->dim[a->rank];
        if (a->rank == REDCO_NPY_RANK_MAX || !take_whole(h, dim)) {
            return bad(h, "its 'shape' is no tuple of up to 8 whole numbers");
        }
        a->rank++;
        if (*dim > 0 && a->elements > ((uint64_t)1 << 48) / *dim) { return bad(h, "it has more than 2^48 elements"); }
        a->elements *= *dim;
        if (!take(h, ",") && (h->text == h->end || *h->text != ')')) { return bad(h, "its 'shape' is no tuple"); }
    }
    return REDCO_OK;
}

enum { HAS_TYPE = 1, HAS_ORDER = 2, HAS_SHAPE = 4, HAS_ALL = 7 };

static redco_status read_member(struct header *h, redco_npy *a, bool *turned, unsigned *has)
{
    char key[16] = "";
    if (!take_text(h, key, sizeof key) || !take(h, ":")) { return bad(h, "its header is no dictionary"); }
    const unsigned what = strcmp(key, "descr") == 0           ? HAS_TYPE
                          : strcmp(key, "fortran_order") == 0 ? HAS_ORDER
                          : strcmp(key, "shape") == 0         ? HAS_SHAPE
                                                              : 0;
    if (what == 0 || (*has & what) != 0) { return bad(h, "its header has a key that is unknown or there twice"); }
    *has |= what;
    if (what == HAS_TYPE) { return read_type(h, a); }
    if (what == HAS_SHAPE) { return read_shape(h, a); }
    *turned = take(h, "True");
    return *turned || take(h, "False") ? REDCO_OK : bad(h, "its 'fortran_order' is neither True nor False");
}

static redco_status read_header(struct header *h, redco_npy *a)
{
    bool turned = false;
    unsigned has = 0;
    if (!take(h, "{")) { return bad(h, "its header is no dictionary"); }
    while (!take(h, "}")) {
        const redco_status st = read_member(h, a, &turned, &has);
        if (st != REDCO_OK) { return st; }
        if (!take(h, ",") && (h->text == h->end || *h->text != '}')) { return bad(h, "its header is no dictionary"); }
    }
    if (has != HAS_ALL) { return bad(h, "its header lacks 'descr', 'fortran_order' or 'shape'"); }
    if (!turned || a->rank < 2) { return REDCO_OK; }
    return redco_fail(h->err, REDCO_EVALUE, h->name,
                      "is in Fortran's order; numpy.save(FILE, numpy.ascontiguousarray(ARRAY)) writes the other");
}

redco_status redco_npy_parse(const void *bytes, size_t size, const char *name, redco_npy *array_out, redco_error *err)
{
    static const char magic[] = "\x93NUMPY";
    const unsigned char *const b = bytes;
    redco_npy a = {.rank = 0};
    if (size < 12 || memcmp(b, magic, MAGIC_BYTES) != 0) {
        return redco_fail(err, REDCO_EVALUE, name, "is no array of numpy.save(): it does not begin with its mark");
    }
    if (b[6] < 1 || b[6] > 3) {
        return redco_fail(err, REDCO_EVALUE, name, "is of version %u of the format; 1 to 3 are read", b[6]);
    }
    const size_t begin = b[6] == 1 ? 10 : 12;
    const size_t length = b[8] | (size_t)b[9] << 8 | (b[6] == 1 ? 0 : (size_t)b[10] << 16 | (size_t)b[11] << 24);
    if (length > HEADER_MAX || length > size - begin) {
        return redco_fail(err, REDCO_EVALUE, name, "has a header of %zu bytes and is cut off, or damaged", length);
    }
    struct header h = {(const char *)b + begin, (const char *)b + begin + length, name, err};
    const redco_status st = read_header(&h, &a);
    if (st != REDCO_OK) { return st; }
    const uint64_t have = size - begin - length;
    if (have / a.element_bytes < a.elements) {
        return redco_fail(err, REDCO_EVALUE, name, "has %llu bytes of elements; its shape needs %llu: it is cut off",
                          (unsigned long long)have, (unsigned long long)(a.elements * a.element_bytes));
    }
    a.data = b + begin + length;
    *array_out = a;
    return REDCO_OK;
}

static uint64_t bits_at(const redco_npy *a, uint64_t index)
{
    const unsigned char *const at = a->data + index * a->element_bytes;
    uint64_t bits = 0;
    for (uint32_t i = 0; i < a->element_bytes; i++) { bits |= (uint64_t)at[i] << (8 * i); }
    return bits;
}

bool redco_npy_whole(const redco_npy *a, uint64_t index, int64_t *out)
{
    const uint64_t bits = bits_at(a, index);
    assert(a->element_bytes > 0);
    const uint32_t unused = 64 - 8 * a->element_bytes;
    if (a->kind == 'f' || (a->kind != 'i' && bits > INT64_MAX)) { return false; }
    *out = a->kind == 'i' ? (int64_t)(bits << unused) >> unused : (int64_t)bits;
    return true;
}

double redco_npy_real(const redco_npy *a, uint64_t index)
{
    const uint64_t bits = bits_at(a, index);
    int64_t whole = 0;
    if (a->kind != 'f') { return redco_npy_whole(a, index, &whole) ? (double)whole : (double)bits; }
    if (a->element_bytes == 8) {
        double wide = 0.0;
        memcpy(&wide, &bits, sizeof wide);
        return wide;
    }
    const uint32_t half = (uint32_t)bits;
    float single = 0.0F;
    memcpy(&single, &half, sizeof single);
    return (double)single;
}

static json_t *element(const redco_npy *a, uint64_t index)
{
    int64_t whole = 0;
    if (a->kind == 'b') { return json_boolean(bits_at(a, index) != 0); }
    if (a->kind == 'f') { return json_real(redco_npy_real(a, index)); } /* NULL of what is no number */
    return redco_npy_whole(a, index, &whole) ? json_integer(whole) : NULL;
}

/* Dimensions from @p dim on. */
static json_t *part(const redco_npy *a, uint32_t dim, uint64_t first, uint64_t count)
{
    if (dim == a->rank) { return element(a, first); }
    json_t *const list = json_array();
    const uint64_t each = a->dim[dim] > 0 ? count / a->dim[dim] : 0;
    for (uint64_t i = 0; i < a->dim[dim]; i++) {
        if (json_array_append_new(list, part(a, dim + 1, first + i * each, each)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

json_t *redco_npy_row(const redco_npy *a, uint64_t row)
{
    const uint64_t each = a->dim[0] > 0 ? a->elements / a->dim[0] : 0;
    return part(a, 1, row * each, each);
}
