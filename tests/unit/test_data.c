/* Tokens, first values, and weights in files. */
#include "memory_file.h"

#include "costmodel/models/language_model.h"
#include "costmodel/models/model.h"
#include "costmodel/models/safetensors.h"
#include "executor/backend/host/host.h"
#include "executor/data/record_file.h"
#include "executor/data/tensor_file.h"
#include "executor/data/tokens.h"
#include "executor/data/weights.h"
#include "topology/base/file.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

static void must(redco_status st, const redco_error *err)
{
    if (st != REDCO_OK) { fail_msg("%s: %s", err->place, err->text); }
}

static void expect(const redco_error *err, const char *text)
{
    if (strcmp(err->text, text) != 0) { fail_msg("got \"%s\", not \"%s\"", err->text, text); }
}

/* A folder for the files of a test. */
typedef struct folder {
    char path[64];
} folder;

static int open_folder(void **state)
{
    static folder f;
    (void)snprintf(f.path, sizeof f.path, "/tmp/test_data.XXXXXX");
    *state = &f;
    return mkdtemp(f.path) == NULL;
}

static char *inside(const folder *f, const char *name, char path[256])
{
    (void)snprintf(path, 256, "%s/%s", f->path, name);
    return path;
}

static int close_folder(void **state)
{
    const folder *f = *state;
    DIR *dir = opendir(f->path);
    if (dir == NULL) { return 1; }
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        char path[512];
        (void)snprintf(path, sizeof path, "%s/%s", f->path, e->d_name);
        if (e->d_name[0] != '.') { (void)unlink(path); }
    }
    (void)closedir(dir);
    return rmdir(f->path);
}

/* Tokens */

enum { LENGTH = 4 };

static void windows_of_a_file_come_once_an_epoch(void **state)
{
    enum { WINDOWS = 37, IDS = WINDOWS * LENGTH + 3 };
    const redco_tokens_options options = {.seed = 7, .vocabulary = 1000, .seq_len = LENGTH};
    char path[256];
    uint16_t ids[IDS];
    uint32_t wide[IDS];
    redco_tokens *tokens = NULL, *same = NULL;
    redco_error err = {0};
    int order[2][WINDOWS], moved = 0;
    for (int i = 0; i < IDS; i++) { wide[i] = ids[i] = (uint16_t)i; }
    must(redco_file_write(inside(*state, "ids.bin", path), (const char *)ids, sizeof ids, &err), &err);
    must(redco_tokens_open(path, 0, &options, &tokens, &err), &err);
    must(redco_tokens_parse(wide, sizeof wide, "wide", 4, &options, &same, &err), &err);
    assert_int_equal(redco_tokens_windows(tokens), WINDOWS); /* 151 ids: 37 windows of 4, each with one more */
    for (int epoch = 0; epoch < 2; epoch++) {
        bool seen[WINDOWS] = {false};
        for (int i = 0; i < WINDOWS; i++) {
            int32_t in[LENGTH], out[LENGTH], in4[LENGTH], out4[LENGTH];
            const uint64_t number = (uint64_t)epoch * WINDOWS + (uint64_t)i;
            must(redco_tokens_sequence(tokens, number, in, out, &err), &err);
            must(redco_tokens_sequence(same, number, in4, out4, &err), &err);
            assert_memory_equal(in, in4, sizeof in);
            assert_memory_equal(out, out4, sizeof out);
            const int window = in[0] / LENGTH;
            assert_int_equal(in[0] % LENGTH, 0);
            for (int t = 0; t < LENGTH; t++) {
                assert_int_equal(in[t], window * LENGTH + t);
                assert_int_equal(out[t], in[t] + 1);
            }
            assert_false(seen[window]);
            seen[window] = true;
            order[epoch][i] = window;
        }
    }
    for (int i = 0; i < WINDOWS; i++) { moved += order[0][i] != order[1][i]; }
    assert_true(moved > WINDOWS / 2);
    redco_tokens_close(tokens);
    redco_tokens_close(same);
}

/* Windows of twice the length: the first half is the sequence, the second its targets; made ones go on likewise. */
static void targets_of_a_continued_sequence_follow_it(void **state)
{
    enum { WINDOWS = 9, IDS = 2 * WINDOWS * LENGTH + 7, VOCABULARY = 1000 };
    const redco_tokens_options options = {.seed = 7, .vocabulary = VOCABULARY, .seq_len = LENGTH, .continued = true};
    uint32_t wide[IDS];
    redco_tokens *tokens = NULL, *random = NULL;
    redco_error err = {0};
    int32_t in[LENGTH], out[LENGTH];
    bool seen[WINDOWS] = {false};
    (void)state;
    for (uint32_t i = 0; i < IDS; i++) { wide[i] = i; }
    must(redco_tokens_parse(wide, sizeof wide, "wide", 4, &options, &tokens, &err), &err);
    assert_int_equal(redco_tokens_windows(tokens), WINDOWS);
    for (uint64_t i = 0; i < WINDOWS; i++) {
        must(redco_tokens_sequence(tokens, i, in, out, &err), &err);
        assert_int_equal(in[0] % (2 * LENGTH), 0);
        assert_false(seen[in[0] / (2 * LENGTH)]);
        seen[in[0] / (2 * LENGTH)] = true;
        for (int t = 0; t < LENGTH; t++) {
            assert_int_equal(in[t], in[0] + t);
            assert_int_equal(out[t], in[0] + LENGTH + t);
        }
    }
    redco_tokens_close(tokens);
    assert_int_equal(redco_tokens_parse(wide, (2 * LENGTH - 1) * sizeof *wide, "short", 4, &options, &tokens, &err),
                     REDCO_EVALUE);
    must(redco_tokens_random(&options, &random, &err), &err);
    for (uint64_t i = 0; i < WINDOWS; i++) {
        must(redco_tokens_sequence(random, i, in, out, &err), &err);
        for (int t = 0; t < 2 * LENGTH - 1; t++) { /* one of four rules leads from each id to the next */
            const int32_t id = t < LENGTH ? in[t] : out[t - LENGTH];
            const int32_t next = t + 1 < LENGTH ? in[t + 1] : out[t + 1 - LENGTH];
            const int32_t beyond = ((next - 5 * id - 1) % VOCABULARY + VOCABULARY) % VOCABULARY;
            assert_int_equal(beyond % 7, 0);
            assert_true(beyond / 7 < 4);
        }
    }
    redco_tokens_close(random);
}

static void bad_token_files_are_named(void **state)
{
    const unsigned char bytes[12] = {1, 0, 2, 0, 3, 0, 0x10, 0x27, 5, 0, 6, 0}; /* the fourth id is 10000 */
    const redco_tokens_options options = {.seed = 7, .vocabulary = 10000, .seq_len = LENGTH};
    redco_tokens *tokens = NULL;
    int32_t in[LENGTH], out[LENGTH];
    redco_error err = {0};
    (void)state;
    assert_int_equal(redco_tokens_parse(bytes, 11, "t.bin", 2, &options, &tokens, &err), REDCO_EVALUE);
    expect(&err, "has 11 bytes, no multiple of 2: ids of 16 bits are expected");
    redco_error_clear(&err);
    assert_int_equal(redco_tokens_parse(bytes, 8, "t.bin", 0, &options, &tokens, &err), REDCO_EVALUE);
    expect(&err, "has 4 ids; one sequence of 4 tokens and the one that follows need 5");
    redco_error_clear(&err);
    assert_int_equal(redco_tokens_parse(bytes, 12, "t.bin", 3, &options, &tokens, &err), REDCO_EVALUE);
    expect(&err, "ids of 3 bytes; 2 and 4 can be read");
    redco_error_clear(&err);
    assert_int_equal(redco_tokens_open("/nonexistent/t.bin", 2, &options, &tokens, &err), REDCO_EIO);
    expect(&err, "cannot open: No such file or directory");
    redco_error_clear(&err);
    assert_int_equal(redco_tokens_open("/", 2, &options, &tokens, &err), REDCO_EIO);
    expect(&err, "is no regular file");
    redco_error_clear(&err);
    must(redco_tokens_parse(bytes, 12, "t.bin", 2, &options, &tokens, &err), &err);
    assert_int_equal(redco_tokens_sequence(tokens, 0, in, out, &err), REDCO_EVALUE);
    assert_string_equal(err.place, "t.bin");
    expect(&err, "id 3 is 10000; the vocabulary has 10000 (are ids of 2 bytes right?)");
    redco_tokens_close(tokens);
}

static const char *written(const folder *f, const char *name, const char *text, char path[256])
{
    FILE *const file = fopen(inside(f, name, path), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
    return path;
}

/* A mapped file that has fewer bytes than it had is an error, and nothing behind its end is read. */
static void files_that_are_cut_are_named(void **state)
{
    const folder *const f = *state;
    const redco_tokens_options options = {.seed = 7, .vocabulary = 30000, .seq_len = LENGTH};
    redco_record_file *records = NULL;
    redco_tokens *tokens = NULL;
    json_t *record = NULL;
    int32_t in[LENGTH], out[LENGTH];
    redco_error err = {0};
    char lines[256], ids[256];
    must(redco_record_file_open(written(f, "cut.jsonl", "{\"a\": 1}\n{\"a\": 2}\n", lines), false, &records, &err),
         &err);
    must(redco_tokens_open(written(f, "cut.bin", "0123456789", ids), 2, &options, &tokens, &err), &err);
    must(redco_record_file_get(records, 1, &record, &err), &err);
    assert_int_equal(json_integer_value(json_object_get(record, "a")), 2);
    json_decref(record);
    must(redco_tokens_sequence(tokens, 0, in, out, &err), &err);
    assert_int_equal(truncate(lines, 0), 0);
    assert_int_equal(redco_record_file_get(records, 1, &record, &err), REDCO_EIO);
    assert_string_equal(err.place, lines);
    expect(&err, "was cut from 18 to 0 bytes while it was in use");
    redco_error_clear(&err);
    assert_int_equal(truncate(ids, 4), 0);
    assert_int_equal(redco_tokens_sequence(tokens, 0, in, out, &err), REDCO_EIO);
    assert_string_equal(err.place, ids);
    expect(&err, "was cut from 10 to 4 bytes while it was in use");
    redco_tokens_close(tokens);
    redco_record_file_close(records);
}

/* A global batch of 12 sequences: one rank, three ranks, micro-batches of 1, 2 and 4. */
static void every_plan_sees_the_same_batches(void **state)
{
    static const struct {
        uint32_t ranks, micro_batches, sequences;
    } plans[] = {{1, 12, 1}, {1, 6, 2}, {3, 4, 1}, {3, 2, 2}, {3, 1, 4}, {2, 3, 2}};
    const redco_tokens_options options = {.seed = 99, .vocabulary = 50, .seq_len = LENGTH};
    redco_tokens *tokens = NULL;
    redco_error err = {0};
    (void)state;
    must(redco_tokens_random(&options, &tokens, &err), &err);
    for (uint64_t step = 0; step < 3; step++) {
        for (size_t p = 0; p < sizeof plans / sizeof plans[0]; p++) {
            bool seen[12] = {false};
            for (uint32_t r = 0; r < plans[p].ranks; r++) {
                for (uint64_t m = 0; m < plans[p].micro_batches; m++) {
                    const redco_batch_place place = {
                        step, m, r, plans[p].ranks, plans[p].micro_batches, plans[p].sequences};
                    int32_t in[4 * LENGTH], out[4 * LENGTH], one_in[LENGTH], one_out[LENGTH];
                    must(redco_tokens_batch(tokens, &place, in, out, &err), &err);
                    for (uint64_t i = 0; i < plans[p].sequences; i++) {
                        const uint64_t number = redco_batch_first(&place) + i;
                        assert_true(number / 12 == step && !seen[number % 12]);
                        seen[number % 12] = true;
                        must(redco_tokens_sequence(tokens, number, one_in, one_out, &err), &err);
                        assert_memory_equal(one_in, in + i * LENGTH, sizeof one_in);
                        assert_memory_equal(one_out, out + i * LENGTH, sizeof one_out);
                        assert_memory_equal(one_in + 1, one_out, (LENGTH - 1) * sizeof *one_in);
                        assert_true(one_in[0] >= 0 && one_in[0] < 50);
                    }
                }
            }
        }
    }
    redco_tokens_close(tokens);
}

/* First values and weights */

static const redco_task_parameter parameters[3] = {
    {.name = "a.weight",
     .layer = "a.0",
     .rank = 2,
     .dim = {70, 130},
     .transposed = true,
     .initial = {REDCO_INITIAL_NORMAL, 0.02}},
    {.name = "b.weight", .layer = "b.0", .rank = 2, .dim = {90, 33}, .initial = {REDCO_INITIAL_NORMAL, 0.5}},
    {.name = "b.bias", .layer = "b.0", .rank = 1, .dim = {33}, .initial = {REDCO_INITIAL_ONE, 0}},
};
static const redco_task task = {.name = "two", .parameters = parameters, .parameter_count = 3};

static uint64_t elements(size_t p)
{
    const redco_tensor_type type = redco_task_parameter_type(&parameters[p], REDCO_F32);
    return redco_type_elements(&type);
}

static float *first_values(redco_backend *backend, size_t p, uint64_t seed)
{
    redco_error err = {0};
    float *values = malloc(elements(p) * sizeof *values);
    assert_non_null(values);
    must(redco_initial_fill(backend, &parameters[p], NULL, seed, REDCO_F32, values, &err), &err);
    return values;
}

static redco_backend *open_host(void)
{
    redco_backend *backend = NULL;
    redco_error err = {0};
    must(redco_host_open(NULL, &backend, &err), &err);
    return backend;
}

/* Mean and deviation of n normal numbers of deviation s lie within 4 s / sqrt(n) and 4 s / sqrt(2 n). */
static void first_values_are_normal_and_cut_anywhere(void **state)
{
    redco_backend *backend = open_host();
    redco_error err = {0};
    (void)state;
    for (size_t p = 0; p < 2; p++) {
        float *all = first_values(backend, p, 5), *other = first_values(backend, p, 6);
        const double n = (double)elements(p), s = parameters[p].initial.deviation;
        double sum = 0, squares = 0, product = 0;
        for (uint64_t i = 0; i < elements(p); i++) {
            sum += (double)all[i];
            squares += (double)all[i] * (double)all[i];
            product += (double)all[i] * (double)other[i];
        }
        assert_true(fabs(sum / n) < 4 * s / sqrt(n));
        assert_true(fabs(sqrt(squares / n) - s) < 4 * s / sqrt(2 * n));
        assert_true(fabs(product / n) < 4 * s * s / sqrt(n));
        const redco_box box = {{11, 7}, {20, 9}};
        float part[20 * 9];
        double wide[20 * 9];
        must(redco_initial_fill(backend, &parameters[p], &box, 5, REDCO_F32, part, &err), &err);
        must(redco_initial_fill(backend, &parameters[p], &box, 5, REDCO_F64, wide, &err), &err);
        for (uint64_t r = 0; r < 20; r++) {
            for (uint64_t c = 0; c < 9; c++) {
                const float want = all[(11 + r) * parameters[p].dim[1] + 7 + c];
                assert_true(part[r * 9 + c] == want && wide[r * 9 + c] == (double)want);
            }
        }
        free(all);
        free(other);
    }
    float *ones = first_values(backend, 2, 5);
    for (int i = 0; i < 33; i++) { assert_true(ones[i] == 1); }
    free(ones);
    redco_backend_close(backend);
}

/* A rank draws for its part the values that the whole has there: rows, columns, both, from any element on, also where
 * memory is not aligned. By hand: of each of r rows of w elements, part i of n begins at column i w / n. */
static void devices_draw_any_part(void **state)
{
    static const struct {
        redco_drawn_part part;
        uint64_t begin, count, offset;
    } cases[] = {{{1, 1, 0}, 0, 9100, 0},  {{1, 1, 0}, 17, 8001, 3}, {{1, 2, 1}, 5, 4500, 0},
                 {{70, 2, 0}, 0, 4550, 1}, {{70, 2, 1}, 3, 4000, 0}, {{70, 10, 7}, 12, 1, 0},
                 {{70, 10, 9}, 14, 13, 0}, {{140, 5, 4}, 1, 1800, 2}};
    redco_backend *backend = open_host();
    const redco_backend_calls *const calls = backend->calls;
    redco_error err = {0};
    redco_device_stream *stream = NULL;
    redco_drawer *drawer = NULL;
    void *memory = NULL;
    (void)state;
    float *const all = first_values(backend, 0, 5), *const ones = first_values(backend, 2, 5);
    must(calls->stream_create(backend, REDCO_DEVICE_STREAM_COMPUTATION, &stream, &err), &err);
    must(calls->allocate(backend, REDCO_MEMORY_DEVICE, 9200 * sizeof(double), &memory, &err), &err);
    must(redco_drawer_open(backend, stream, 5, REDCO_F32, &drawer, &err), &err);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const redco_drawn_part *const part = &cases[i].part;
        const uint64_t width = 9100 / part->rows, own = width / part->parts;
        float *const out = (float *)memory + cases[i].offset;
        must(redco_drawer_draw(drawer, &parameters[0], part, cases[i].begin, cases[i].count, out, &err), &err);
        must(calls->stream_finish(backend, stream, &err), &err);
        for (uint64_t k = 0; k < cases[i].count; k++) {
            const uint64_t at = cases[i].begin + k;
            assert_true(out[k] == all[at / own * width + part->part * own + at % own]);
        }
    }
    float *const some = (float *)memory + 1;
    must(redco_drawer_draw(drawer, &parameters[2], &(redco_drawn_part){1, 1, 0}, 1, 30, some, &err), &err);
    must(calls->stream_finish(backend, stream, &err), &err);
    assert_memory_equal(some, ones, 30 * sizeof *some);
    redco_drawer_close(drawer);
    calls->release(backend, REDCO_MEMORY_DEVICE, memory);
    calls->stream_free(backend, stream);
    free(all);
    free(ones);
    redco_backend_close(backend);
}

/* A file of all parameters from values in the executor's storage. */
static void write_weights(const char *path, float *const values[3], redco_dtype dtype)
{
    redco_named_type types[3];
    uint64_t begin_bytes[4];
    unsigned char *header = NULL;
    redco_error err = {0};
    for (size_t p = 0; p < 3; p++) {
        const redco_task_parameter *const q = &parameters[p];
        types[p] = (redco_named_type){.name = q->name, .type = {.dtype = dtype, .rank = q->rank}};
        for (uint32_t d = 0; d < q->rank; d++) { types[p].type.dim[d] = q->dim[q->transposed ? q->rank - 1 - d : d]; }
    }
    must(redco_tensor_file_header(path, types, 3, NULL, begin_bytes, &header, &err), &err);
    FILE *const file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(header, 1, begin_bytes[0], file), begin_bytes[0]);
    for (size_t p = 0; p < 3; p++) {
        const redco_task_parameter *const q = &parameters[p];
        const uint64_t count = elements(p);
        for (uint64_t i = 0; i < count; i++) {
            const uint64_t at = q->transposed ? i % q->dim[0] * q->dim[1] + i / q->dim[0] : i;
            double rounded = 0.0;
            redco_weights_cast(REDCO_F32, &values[p][at], 1, dtype, &rounded);
            assert_int_equal(fwrite(&rounded, redco_dtype_bytes(dtype), 1, file), 1);
        }
    }
    assert_int_equal(fclose(file), 0);
    free(header);
}

static void weights_return_whole_and_in_parts(void **state)
{
    static const redco_dtype file_dtypes[3] = {REDCO_F32, REDCO_F64, REDCO_BFLOAT16};
    static const double bounds[3] = {0, 0, 0x1p-8};
    char path[256];
    redco_backend *backend = open_host();
    float *values[3];
    redco_error err = {0};
    for (size_t p = 0; p < 3; p++) { values[p] = first_values(backend, p, 3); }
    inside(*state, "w.safetensors", path);
    for (int k = 0; k < 3; k++) {
        redco_weights *weights = NULL;
        redco_safetensors *header = NULL;
        write_weights(path, values, file_dtypes[k]);
        must(redco_safetensors_open(path, &header, &err), &err);
        const redco_safetensor *a = redco_safetensors_find(header, "a.weight");
        assert_int_equal(a->shape[0], 130); /* [out, in] */
        assert_int_equal(a->shape[1], 70);
        assert_string_equal(a->dtype, redco_tensor_file_dtype_name(file_dtypes[k]));
        redco_safetensors_free(header);
        must(redco_weights_open(path, &task, NULL, &weights, &err), &err);
        for (size_t p = 0; p < 3; p++) {
            const bool vector = parameters[p].rank == 1;
            const redco_box box = {{9, 4}, {vector ? 5 : 80 - 19, 21}};
            const uint64_t columns = vector ? 1 : parameters[p].dim[1], width = vector ? 1 : 21;
            float *back = malloc(elements(p) * sizeof *back);
            double *part = malloc(61 * 21 * sizeof *part);
            assert_true(back != NULL && part != NULL);
            must(redco_weights_read(weights, p, NULL, REDCO_F32, back, &err), &err);
            must(redco_weights_read(weights, p, &box, REDCO_F64, part, &err), &err);
            for (uint64_t i = 0; i < elements(p); i++) {
                assert_true(fabsf(back[i] - values[p][i]) <= (float)bounds[k] * fabsf(values[p][i]));
            }
            for (uint64_t i = 0; i < box.size[0] * width; i++) {
                const uint64_t at = (9 + i / width) * columns + (vector ? 0 : 4 + i % width);
                assert_true(part[i] == (double)back[at]);
            }
            free(back);
            free(part);
        }
        redco_weights_close(weights);
    }
    for (size_t p = 0; p < 3; p++) { free(values[p]); }
    redco_backend_close(backend);
}

/* The first bytes of the data are cut off, changed, or not numbers. */
static redco_status open_bytes(const void *bytes, size_t size, const redco_task *of, redco_weights **weights_out,
                               redco_error *err)
{
    char path[MEMORY_FILE_PATH_BYTES];
    FILE *const file = memory_file(bytes, size, path);
    const redco_status st = redco_weights_open(path, of, NULL, weights_out, err);
    (void)fclose(file);
    return st;
}

static void bad_weights_are_named(void **state)
{
    static const struct {
        const char *header, *text;
    } cases[] = {
        {"{\"a.weight\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]}}",
         "has no tensor b, which small asks for"},
        {"{\"a.weight\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}",
         "a.weight has shape [1, 2]; small says [2, 1]"},
        {"{\"a.weight\":{\"dtype\":\"I32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}",
         "a.weight is I32; F64, F32, BF16 and F16 can be read"},
        {"{\"a.weight\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]},"
         "\"c\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[12,16]}}",
         "has a tensor c, which small does not know"},
    };
    static const redco_task_parameter small[2] = {
        {.name = "a.weight", .layer = "a.0", .rank = 2, .dim = {1, 2}, .transposed = true},
        {.name = "b", .layer = "a.0", .rank = 1, .dim = {1}}};
    const redco_task small_task = {.name = "small", .parameters = small, .parameter_count = 2};
    unsigned char file[1024];
    redco_weights *weights = NULL;
    redco_error err = {0};
    float out[2];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const size_t length = strlen(cases[i].header);
        for (size_t k = 0; k < 8; k++) { file[k] = (unsigned char)(length >> (8 * k)); }
        memcpy(file + 8, cases[i].header, length);
        assert_int_equal(open_bytes(file, 8 + length, &small_task, &weights, &err), REDCO_EVALUE);
        expect(&err, cases[i].text);
        redco_error_clear(&err);
    }
    const char *good = "{\"a.weight\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
                       "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}";
    const float data[3] = {1, 2, NAN};
    const size_t length = strlen(good);
    file[0] = (unsigned char)length;
    memset(file + 1, 0, 7);
    memcpy(file + 8, good, length);
    memcpy(file + 8 + length, data, sizeof data);
    assert_int_equal(open_bytes(file, 8 + length + 8, &small_task, &weights, &err), REDCO_EVALUE);
    expect(&err, "is cut off: the data of b lie beyond its end");
    redco_error_clear(&err);
    char path[MEMORY_FILE_PATH_BYTES];
    FILE *const whole = memory_file(file, 8 + length + 12, path);
    must(redco_weights_open(path, &small_task, NULL, &weights, &err), &err);
    must(redco_weights_read(weights, 0, NULL, REDCO_F32, out, &err), &err);
    assert_true(out[0] == 1 && out[1] == 2);
    assert_int_equal(redco_weights_read(weights, 1, NULL, REDCO_F32, out, &err), REDCO_EVALUE);
    expect(&err, "b holds what is not a finite number");
    redco_weights_close(weights);
    (void)fclose(whole);
}

static void names_of_tensors_differ(void **state)
{
    const redco_named_type twins[2] = {{"a", {REDCO_F32, 1, {3}}}, {"a", {REDCO_F32, 1, {3}}}};
    uint64_t begin_bytes[3];
    unsigned char *header = NULL;
    redco_error err = {0};
    (void)state;
    assert_int_equal(redco_tensor_file_header("t", twins, 2, NULL, begin_bytes, &header, &err), REDCO_EVALUE);
    expect(&err, "two tensors are named \"a\"");
}

/* Saved by transformers (save_pretrained): names, [out, in] and data are read as it means them. */
static void transformers_files_are_read(void **state)
{
    static const char *const forms[2] = {REDCO_TEST_DATA "/models/oracle/saved/model.safetensors",
                                         REDCO_TEST_DATA "/models/oracle/saved/model.safetensors.index.json"};
    (void)state;
    for (int form = 0; form < 2; form++) {
        redco_model *model = NULL;
        redco_language_model *lm = NULL;
        redco_weights *weights = NULL;
        redco_error err = {0};
        char name[200];
        double want[2];
        int tensors = 0;
        must(redco_model_read(REDCO_TEST_DATA "/models/oracle/saved/config.json", &model, &err), &err);
        must(redco_language_model_create(model, 1, 4, &lm, &err), &err);
        const redco_task *saved = redco_language_model_task(lm);
        must(redco_weights_open(forms[form], saved, model, &weights, &err), &err);
        FILE *file = fopen(REDCO_TEST_DATA "/models/oracle/saved/checksums.txt", "r");
        assert_non_null(file);
        while (fscanf(file, "%199s %lf %lf", name, &want[0], &want[1]) == 3) {
            const redco_task_parameter *p = redco_task_find(saved, name);
            double data[4096], squares = 0, sum = 0;
            assert_non_null(p);
            const redco_tensor_type type = redco_task_parameter_type(p, REDCO_F64);
            const uint64_t n = redco_type_elements(&type);
            assert_true(n <= 4096);
            must(redco_weights_read(weights, (size_t)(p - saved->parameters), NULL, REDCO_F64, data, &err), &err);
            for (uint64_t i = 0; i < n; i++) {
                const double x = data[p->transposed ? (i % p->dim[0]) * p->dim[1] + i / p->dim[0] : i];
                squares += x * x;
                sum += x * cos(0.3 * (double)i);
            }
            assert_true(fabs(sqrt(squares) - want[0]) < 1e-12 * (1 + want[0]));
            assert_true(fabs(sum - want[1]) < 1e-12 * (1 + want[0]));
            tensors++;
        }
        assert_int_equal(tensors, saved->parameter_count);
        (void)fclose(file);
        redco_weights_close(weights);
        redco_language_model_free(lm);
        redco_model_free(model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets_of_a_continued_sequence_follow_it),
        cmocka_unit_test(windows_of_a_file_come_once_an_epoch),
        cmocka_unit_test(bad_token_files_are_named),
        cmocka_unit_test(files_that_are_cut_are_named),
        cmocka_unit_test(every_plan_sees_the_same_batches),
        cmocka_unit_test(first_values_are_normal_and_cut_anywhere),
        cmocka_unit_test(devices_draw_any_part),
        cmocka_unit_test(weights_return_whole_and_in_parts),
        cmocka_unit_test(bad_weights_are_named),
        cmocka_unit_test(names_of_tensors_differ),
        cmocka_unit_test(transformers_files_are_read),
    };
    return cmocka_run_group_tests(tests, open_folder, close_folder);
}
