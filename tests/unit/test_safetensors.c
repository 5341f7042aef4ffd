#include "memory_file.h"

#include "costmodel/models/model.h"
#include "costmodel/models/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_SIZE = 65536 };

/* Header length, little-endian, and header. @return bytes written */
static size_t build_file(const char *header, unsigned char file[FILE_SIZE])
{
    const size_t length = strlen(header);
    for (size_t i = 0; i < 8; i++) { file[i] = (unsigned char)(length >> (8 * i)); }
    (void)snprintf((char *)file + 8, FILE_SIZE - 8, "%s", header);
    return 8 + length;
}

static redco_status open_bytes(const void *bytes, size_t size, redco_safetensors **tensors_out, redco_error *err)
{
    char path[MEMORY_FILE_PATH_BYTES];
    FILE *const file = memory_file(bytes, size, path);
    const redco_status st = redco_safetensors_open(path, tensors_out, err);
    (void)fclose(file);
    return st;
}

static redco_status parse(const char *header, redco_safetensors **tensors_out, redco_error *err)
{
    static unsigned char file[FILE_SIZE];
    return open_bytes(file, build_file(header, file), tensors_out, err);
}

static void headers_give_names_and_shapes(void **state)
{
    redco_safetensors *tensors = NULL;
    const redco_safetensor *list = NULL;
    (void)state;
    assert_int_equal(parse("{\"__metadata__\":{\"format\":\"pt\"},"
                           "\"b.weight\":{\"dtype\":\"BF16\",\"shape\":[3,5],\"data_offsets\":[8,38]},"
                           "\"a\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]},"
                           "\"c\":{\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[38,39]}}  ",
                           &tensors, NULL),
                     REDCO_OK);
    assert_int_equal(redco_safetensors_list(tensors, &list), 3);
    assert_string_equal(list[0].name, "a");
    assert_int_equal(list[0].rank, 0);
    const redco_safetensor *b = redco_safetensors_find(tensors, "b.weight");
    assert_non_null(b);
    assert_true(b->has_shape && b->rank == 2 && b->shape[0] == 3 && b->shape[1] == 5);
    assert_null(redco_safetensors_find(tensors, "__metadata__"));
    assert_int_equal(redco_safetensors_total_bytes(tensors), 0);
    redco_safetensors_free(tensors);
    redco_safetensors_free(NULL);
}

struct bad_row {
    const char *header, *place, *text;
};

static const struct bad_row bad[] = {
    {"{x", ":1:2", "not valid JSON"},
    {"[]", "", "is not an object"},
    {"{\"a\":3}", ":/a", "is a number; an object is needed"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", ":/a/dtype", "is missing"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", ":/a/shape", "is missing"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", ":/a/shape", "whole numbers"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", ":/a/shape", "whole numbers"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", ":/a/shape",
     "has 9 dimensions; at most 8"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,4]}}", ":/a/shape",
     "more than 2^64"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,20]}}", ":/a/data_offsets",
     "span 20 bytes; 6 elements of F32 need 24"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,4]}}", ":/a/data_offsets", "begin and end"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", ":/a/data_offsets", "begin and end"},
    {"{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", ":/a/data_offsets", "3 elements of F4"},
    {"{\"a\":{\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,4]}}", ":/a/dtype", "is \"F33\""},
    {"{\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]},\"a\":{\"dtype\":\"F32\",\"shape\":[2],"
     "\"data_offsets\":[0,8]}}",
     ":/b", "overlap those of a"},
    {"{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
     "\"data_offsets\":[0,4]}}",
     ":/", "overlap those of"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{}}", ":1:", "duplicate"},
};

static void bad_headers_name_the_tensor(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        redco_safetensors *tensors = NULL;
        redco_error err = {0};
        assert_int_equal(parse(bad[i].header, &tensors, &err), REDCO_EVALUE);
        assert_null(tensors);
        if (strncmp(err.place, bad[i].place, strlen(bad[i].place)) != 0 || strstr(err.text, bad[i].text) == NULL) {
            print_error("%s: %s: %s\n", bad[i].header, err.place, err.text);
        }
        assert_non_null(strstr(err.place, bad[i].place));
        assert_non_null(strstr(err.text, bad[i].text));
    }
}

static void lengths_are_checked_before_use(void **state)
{
    static const unsigned char huge[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, '{', '}'};
    static const unsigned char longer[] = {3, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    redco_safetensors *tensors = NULL;
    redco_error err = {0};
    (void)state;
    assert_int_equal(open_bytes(huge, sizeof huge, &tensors, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "not a safetensors file"));
    redco_error_clear(&err);
    assert_int_equal(open_bytes(longer, sizeof longer, &tensors, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "is cut off: a header of 3 bytes, of which 2 are there"));
    redco_error_clear(&err);
    assert_int_equal(open_bytes(longer, 7, &tensors, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "has 7 bytes"));
}

/* A folder for the files of one test. */
static int make_folder(void **state)
{
    char *folder = strdup("/tmp/redco-safetensors-XXXXXX");
    *state = folder;
    return folder != NULL && mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    static const char *const names[] = {"m.safetensors", "a.safetensors", "b.safetensors", "m.safetensors.index.json"};
    char path[512];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", (char *)*state, names[i]);
        (void)unlink(path);
    }
    const int rc = rmdir(*state);
    free(*state);
    return rc;
}

static const char *write_bytes(const char *folder, const char *name, const void *bytes, size_t size)
{
    static char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *stream = fopen(path, "we");
    assert_non_null(stream);
    assert_int_equal(fwrite(bytes, 1, size, stream), size);
    assert_int_equal(fclose(stream), 0);
    return path;
}

/* Header only: the data may be of any size, none of it is read. */
static const char *write_file(const char *folder, const char *name, const char *header)
{
    static unsigned char file[FILE_SIZE];
    return write_bytes(folder, name, file, build_file(header, file));
}

/* A GPT-2 of 1 layer: vocabulary 6, width 4, 3 positions. */
static const char tiny_config[] = "{\"model_type\":\"gpt2\",\"_name\":\"Tiny\",\"vocab_size\":6,\"n_embd\":4,"
                                  "\"n_positions\":3,\"n_layer\":1,\"n_head\":2}";

struct tensor_row {
    const char *name;
    int rows, columns; /* 0 columns: one dimension */
};

static const struct tensor_row tiny_tensors[] = {
    {"wte.weight", 6, 4},
    {"wpe.weight", 3, 4},
    {"h.0.ln_1.weight", 4, 0},
    {"h.0.ln_1.bias", 4, 0},
    {"h.0.attn.c_attn.weight", 4, 12},
    {"h.0.attn.c_attn.bias", 12, 0},
    {"h.0.attn.c_proj.weight", 4, 4},
    {"h.0.attn.c_proj.bias", 4, 0},
    {"h.0.ln_2.weight", 4, 0},
    {"h.0.ln_2.bias", 4, 0},
    {"h.0.mlp.c_fc.weight", 4, 16},
    {"h.0.mlp.c_fc.bias", 16, 0},
    {"h.0.mlp.c_proj.weight", 16, 4},
    {"h.0.mlp.c_proj.bias", 4, 0},
    {"ln_f.weight", 4, 0},
    {"ln_f.bias", 4, 0},
};
enum { TINY_TENSORS = sizeof tiny_tensors / sizeof tiny_tensors[0] };

static redco_model *tiny_model(void)
{
    redco_json *document = NULL;
    redco_model *model = NULL;
    assert_int_equal(redco_json_parse(tiny_config, sizeof tiny_config - 1, "c", &document, NULL), REDCO_OK);
    const redco_json_value root = redco_json_root(document);
    assert_int_equal(redco_model_from_json(&root, NULL, &model, NULL), REDCO_OK);
    redco_json_close(document);
    return model;
}

static int entry_text(char *text, size_t size, const struct tensor_row *row, const char *prefix, int *offset)
{
    const int elements = row->rows * (row->columns > 0 ? row->columns : 1);
    char shape[32];
    (void)snprintf(shape, sizeof shape, row->columns > 0 ? "%d,%d" : "%d", row->rows, row->columns);
    const int begin = *offset;
    *offset += 4 * elements;
    return snprintf(text, size, "\"%s%s\":{\"dtype\":\"F32\",\"shape\":[%s],\"data_offsets\":[%d,%d]}", prefix,
                    row->name, shape, begin, *offset);
}

/* A case's change of the file: leaves a tensor out, gives it other rows, adds one. */
struct change {
    const char *prefix, *leave_out, *reshape;
    struct tensor_row add;
};

static void tiny_header(char *text, size_t size, const struct change *change)
{
    int offset = 0;
    size_t used = (size_t)snprintf(text, size, "{");
    for (size_t i = 0; i < TINY_TENSORS; i++) {
        struct tensor_row row = tiny_tensors[i];
        if (change->leave_out != NULL && strcmp(change->leave_out, row.name) == 0) { continue; }
        if (change->reshape != NULL && strcmp(change->reshape, row.name) == 0) { row.rows = 7; }
        if (used > 1) { used += (size_t)snprintf(text + used, size - used, ","); }
        used += (size_t)entry_text(text + used, size - used, &row, change->prefix, &offset);
    }
    if (change->add.name != NULL) {
        used += (size_t)snprintf(text + used, size - used, ",");
        used += (size_t)entry_text(text + used, size - used, &change->add, "", &offset);
    }
    (void)snprintf(text + used, size - used, "}");
}

struct check_row {
    struct change change;
    const char *text; /* NULL: must agree */
};

static const struct check_row checks[] = {
    {{.prefix = ""}, NULL},
    {{.prefix = "transformer."}, NULL},
    {{.prefix = "", .add = {"lm_head.weight", 6, 4}}, NULL}, /* the tied head is saved, too */
    {{.prefix = "", .leave_out = "wte.weight", .add = {"lm_head.weight", 6, 4}}, NULL}, /* or instead */
    {{.prefix = "", .add = {"h.0.attn.bias", 9, 9}}, NULL},                             /* an old mask */
    {{.prefix = "", .leave_out = "h.0.mlp.c_fc.bias"},
     "has no tensor transformer.h.0.mlp.c_fc.bias, which the config of Tiny asks for"},
    {{.prefix = "transformer.", .reshape = "h.0.mlp.c_fc.weight"},
     "transformer.h.0.mlp.c_fc.weight has shape [7, 16]; the config of Tiny says [4, 16]"},
    {{.prefix = "", .add = {"lm_head.weight", 5, 4}},
     "lm_head.weight has shape [5, 4]; the config of Tiny says [6, 4]"},
    {{.prefix = "", .add = {"h.1.ln_1.bias", 4, 0}}, "has a tensor h.1.ln_1.bias, which the config of Tiny does not"},
    {{.prefix = "", .add = {"transformer.wte.weight", 6, 4}}, "has both"},
};

static void the_first_difference_is_the_error(void **state)
{
    char header[8192];
    redco_model *model = tiny_model();
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        redco_error err = {0};
        tiny_header(header, sizeof header, &checks[i].change);
        const char *path = write_file(*state, "m.safetensors", header);
        const redco_status st = redco_model_check_safetensors(model, path, &err);
        if (checks[i].text == NULL) {
            if (st != REDCO_OK) { print_error("%zu: %s\n", i, err.text); }
            assert_int_equal(st, REDCO_OK);
        } else {
            assert_int_equal(st, REDCO_EVALUE);
            assert_string_equal(err.place, path);
            if (strstr(err.text, checks[i].text) == NULL) { print_error("%zu: %s\n", i, err.text); }
            assert_non_null(strstr(err.text, checks[i].text));
        }
    }
    redco_model_free(model);
}

/* @p total: bytes stated. Tensors with an even index lie in a, the others in b. */
static const char *write_index(const char *folder, unsigned long long total, const char *instead_of_b)
{
    static char text[8192];
    size_t used = (size_t)snprintf(text, sizeof text, "{\"metadata\":{\"total_size\":%llu},\"weight_map\":{", total);
    for (size_t i = 0; i < TINY_TENSORS; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s\"%s\":\"%s\"", i > 0 ? "," : "",
                                 tiny_tensors[i].name, i % 2 == 0 ? "a.safetensors" : instead_of_b);
    }
    (void)snprintf(text + used, sizeof text - used, "}}");
    return write_bytes(folder, "m.safetensors.index.json", text, strlen(text));
}

static void an_index_is_checked_by_name_and_size(void **state)
{
    redco_model *model = tiny_model();
    redco_error err = {0};
    /* 24 + 12 + 8 + 60 + 20 + 8 + 80 + 68 + 8 = 288 parameters of 4 bytes */
    assert_int_equal(redco_model_params(model), 288);
    const char *path = write_index(*state, 1152, "b.safetensors");
    assert_int_equal(redco_model_check_safetensors(model, path, NULL), REDCO_OK);
    path = write_index(*state, 287, "b.safetensors");
    assert_int_equal(redco_model_check_safetensors(model, path, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "metadata.total_size is 287 bytes; the 288 parameters of Tiny need 1 to 8 each"));
    redco_error_clear(&err);
    path = write_index(*state, 1152, "../b.safetensors");
    assert_int_equal(redco_model_check_safetensors(model, path, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.place, "/weight_map/wpe.weight"));
    assert_non_null(strstr(err.text, "beside the index"));
    redco_model_free(model);
}

static void shards_beside_an_index_give_the_shapes(void **state)
{
    char header[8192];
    redco_model *model = tiny_model();
    redco_error err = {0};
    const struct change none = {.prefix = ""};
    const struct change wrong = {.prefix = "", .reshape = "ln_f.weight"};
    const struct change lacking = {.prefix = "", .leave_out = "ln_f.bias"};
    tiny_header(header, sizeof header, &none);
    (void)write_file(*state, "a.safetensors", header);
    (void)write_file(*state, "b.safetensors", header);
    const char *path = write_index(*state, 1152, "b.safetensors");
    assert_int_equal(redco_model_check_safetensors(model, path, NULL), REDCO_OK);
    tiny_header(header, sizeof header, &wrong); /* ln_f.weight has an even index: it lies in a */
    (void)write_file(*state, "a.safetensors", header);
    path = write_index(*state, 1152, "b.safetensors");
    assert_int_equal(redco_model_check_safetensors(model, path, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "ln_f.weight has shape [7]"));
    redco_error_clear(&err);
    tiny_header(header, sizeof header, &lacking);
    (void)write_file(*state, "b.safetensors", header);
    path = write_index(*state, 1152, "b.safetensors");
    assert_int_equal(redco_model_check_safetensors(model, path, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.place, "/b.safetensors"));
    assert_non_null(strstr(err.text, "has no tensor \"ln_f.bias\""));
    redco_model_free(model);
}

static void missing_files_say_so(void **state)
{
    redco_safetensors *tensors = NULL;
    redco_error err = {0};
    assert_int_equal(redco_safetensors_open("/nonexistent/m.safetensors", &tensors, &err), REDCO_EIO);
    redco_error_clear(&err);
    assert_int_equal(redco_safetensors_open(*state, &tensors, &err), REDCO_EIO);
    assert_non_null(strstr(err.text, "is a folder"));
    redco_error_clear(&err);
    const char *path = write_bytes(*state, "m.safetensors", "\x40\0\0\0\0\0\0\0{", 9);
    assert_int_equal(redco_safetensors_open(path, &tensors, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "is cut off: a header of 64 bytes, of which 1 are there"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_give_names_and_shapes),
        cmocka_unit_test(bad_headers_name_the_tensor),
        cmocka_unit_test(lengths_are_checked_before_use),
        cmocka_unit_test_setup_teardown(the_first_difference_is_the_error, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(an_index_is_checked_by_name_and_size, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(shards_beside_an_index_give_the_shapes, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(missing_files_say_so, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
