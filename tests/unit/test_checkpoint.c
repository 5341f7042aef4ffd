/* Checkpoints: where elements lie in files, checksums, files written on one mesh and read on another, what is refused.
 */
#include "executor/backend/host/host.h"
#include "executor/checkpoint/checkpoint_internal.h"
#include "states_values.h"

#include "executor/data/weights.h"
#include "tests/unit/processes.h"
#include "topology/base/json.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* Runs */

enum { MOST = 4096 };

struct walked {
    uint64_t file_of[MOST]; /* by element of the range; MOST: not seen */
    uint64_t count;
};

static redco_status note(void *context, const redcoi_run *run, redco_error *err)
{
    struct walked *const w = context;
    (void)err;
    for (uint64_t i = 0; i < run->count; i++) {
        const uint64_t local = run->local_at + i * run->stride;
        assert_true(local < w->count);
        assert_int_equal(w->file_of[local], MOST);
        w->file_of[local] = run->file_at + i;
    }
    return REDCO_OK;
}

/* By coordinates: those of the part, then of the whole (a split dimension is [blocks, ranks, rest]), then of the file.
 */
static uint64_t file_place(const redcoi_placing *p, uint64_t local)
{
    const redco_tensor_type part = redco_tp_local(p->layout, &p->whole, p->ranks);
    uint64_t at[REDCO_RANK_MAX], place = 0;
    for (uint32_t d = p->whole.rank; d-- > 0;) {
        at[d] = local % part.dim[d];
        local /= part.dim[d];
    }
    if (p->layout.kind == REDCO_TP_SPLIT) {
        const uint32_t d = p->layout.dim;
        const uint64_t rest = p->whole.dim[d] / p->layout.blocks / p->ranks;
        at[d] = (at[d] / rest * p->ranks + p->rank) * rest + at[d] % rest;
    }
    for (uint32_t i = 0; i < p->whole.rank; i++) {
        const uint32_t d = p->transposed ? p->whole.rank - 1 - i : i;
        place = place * p->whole.dim[d] + at[d];
    }
    return place;
}

static void check_walk(const redcoi_placing *p, uint64_t begin, uint64_t count)
{
    static struct walked w;
    w.count = count;
    for (uint64_t i = 0; i < count; i++) { w.file_of[i] = MOST; }
    assert_int_equal(redcoi_runs_walk(p, begin, count, note, &w, NULL), REDCO_OK);
    for (uint64_t i = 0; i < count; i++) { assert_int_equal(w.file_of[i], file_place(p, begin + i)); }
}

static void test_runs(void **state)
{
    (void)state;
    static const struct {
        uint32_t rank;
        uint64_t dim[3];
        bool transposed;
    } tensors[] = {{0, {0}, false},     {1, {24}, false}, {2, {12, 24}, false},  {2, {24, 12}, true},
                   {2, {12, 24}, true}, {1, {12}, true},  {3, {4, 12, 6}, false}};
    uint64_t random = 1;
    for (size_t t = 0; t < sizeof tensors / sizeof tensors[0]; t++) {
        for (uint32_t ranks = 1; ranks <= 4; ranks++) {
            for (uint32_t kind = 0; kind < 3 * tensors[t].rank + 1; kind++) { /* replicated, then splits in blocks */
                const redco_tensor_type whole = redco_type(REDCO_F32, tensors[t].rank, tensors[t].dim);
                redco_tp_layout layout = redco_tp_replicated();
                if (kind > 0) {
                    layout = redco_tp_split((kind - 1) / 3);
                    layout.blocks = 1 + (kind - 1) % 3;
                }
                if (!redco_tp_fits(layout, &whole, ranks)) { continue; }
                for (uint32_t rank = 0; rank < ranks; rank++) {
                    const redcoi_placing p = {whole, tensors[t].transposed, layout, ranks, rank};
                    const redco_tensor_type part = redco_tp_local(layout, &whole, ranks);
                    const uint64_t elements = redco_type_elements(&part);
                    check_walk(&p, 0, elements);
                    for (int i = 0; i < 20; i++) {
                        random = random * 6364136223846793005U + 1442695040888963407U;
                        const uint64_t begin = (random >> 33) % elements;
                        check_walk(&p, begin, 1 + (random >> 13) % (elements - begin));
                    }
                }
            }
        }
    }
}

static void test_checksum(void **state)
{
    (void)state;
    uint32_t words[64];
    uint64_t wide[32], parts = 0;
    /* The first two outputs of SplitMix64 with seed 0, as its authors' program prints them. */
    const uint64_t zeros[2] = {0, 0};
    assert_true(redcoi_checksum(zeros, 1, 8, 0) == 0xe220a8397b1dcdafU);
    assert_true(redcoi_checksum(zeros, 2, 8, 0) == 0xe220a8397b1dcdafU + 0x6e789e6aa1b965f4U);
    for (uint32_t i = 0; i < 64; i++) { words[i] = i * 2654435761U; }
    for (uint32_t i = 0; i < 32; i++) { wide[i] = i * 0x9e3779b97f4a7c15U; }
    const uint64_t sum = redcoi_checksum(words, 64, 4, 5), wide_sum = redcoi_checksum(wide, 32, 8, 0);
    for (uint32_t i = 64; i-- > 0;) { parts += redcoi_checksum(&words[i], 1, 4, 5 + i); }
    assert_true(parts == sum);
    assert_true(redcoi_checksum(words, 64, 4, 6) != sum);
    for (uint32_t bit = 0; bit < 64 * 32; bit++) {
        words[bit / 32] ^= 1U << bit % 32;
        assert_true(redcoi_checksum(words, 64, 4, 5) != sum);
        words[bit / 32] ^= 1U << bit % 32;
        wide[bit / 64] ^= UINT64_C(1) << bit % 64;
        assert_true(redcoi_checksum(wide, 32, 8, 0) != wide_sum);
        wide[bit / 64] ^= UINT64_C(1) << bit % 64;
    }
    const uint32_t first = words[0];
    words[0] = words[1];
    words[1] = first;
    assert_true(redcoi_checksum(words, 64, 4, 5) != sum); /* an order is seen */
}

/* States of a made-up model */

enum { TENSORS = 6 };
static const char digest_text[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

static const redco_task_parameter parameters[TENSORS] = {
    {.name = "table", .layer = "a.0", .rank = 2, .dim = {10, 8}},
    {.name = "up.weight", .layer = "a.0", .rank = 2, .dim = {8, 24}, .transposed = true, .blocks = 3},
    {.name = "up.bias", .layer = "a.0", .rank = 1, .dim = {24}},
    {.name = "down.weight", .layer = "b.0", .rank = 2, .dim = {24, 8}, .transposed = true},
    {.name = "norm.weight", .layer = "b.0", .rank = 1, .dim = {9}},
    {.name = "scale", .layer = "b.0", .rank = 0},
};
static const redco_task task = {.name = "made up", .parameters = parameters, .parameter_count = TENSORS};
static const redco_tp_layout splits[TENSORS] = {{REDCO_TP_SPLIT, 1, 1},      {REDCO_TP_SPLIT, 1, 3},
                                                {REDCO_TP_SPLIT, 0, 3},      {REDCO_TP_SPLIT, 0, 1},
                                                {REDCO_TP_REPLICATED, 0, 0}, {REDCO_TP_REPLICATED, 0, 0}};

struct trial {
    const char *folder;
    redco_rank_mesh mesh;
    redco_shards shards;
    redco_scheme scheme;
    redco_dtype dtype;
    uint64_t file_bytes;
};

struct rank {
    redco_state_tensor tensors[TENSORS];
    redco_state_module modules[2];
    redco_state_layer layers[2];
    redco_state_model model;
    redco_backend *backend;
    redco_device_comm *device_comm;
    redco_checkpoint_states of;
};

static redcoi_placing placing_of(const struct trial *t, const redco_states *states, uint32_t tensor)
{
    return (redcoi_placing){redco_task_parameter_type(&parameters[tensor], redco_states_master_dtype(states)),
                            parameters[tensor].transposed, splits[tensor], t->mesh.tp,
                            redco_layout_place(redco_states_layout(states)).tp};
}

static bool open_rank(struct rank *r, const struct trial *t, redco_world *world)
{
    static const redco_optimizer adamw = {.kind = REDCO_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8};
    for (uint32_t i = 0; i < TENSORS; i++) {
        const redco_tensor_type whole = redco_task_parameter_type(&parameters[i], REDCO_F32);
        const redco_tensor_type part = redco_tp_local(splits[i], &whole, t->mesh.tp);
        r->tensors[i] = (redco_state_tensor){
            parameters[i].name,  redco_type_elements(&part), splits[i].kind != REDCO_TP_SPLIT, true, false, false,
            {.rate_factor = 0.0}};
    }
    for (uint32_t m = 0; m < 2; m++) {
        r->modules[m] = (redco_state_module){m == 0 ? "up" : "down", 3 * m, 3};
        r->layers[m] = (redco_state_layer){m == 0 ? "a.0" : "b.0", t->shards, m, 1, .assigned = false};
    }
    r->model = (redco_state_model){r->layers, r->modules, r->tensors, 2, 2, TENSORS, NULL};
    const redco_states_options options = {
        .layout = {.mesh = t->mesh, .scheme = t->scheme}, .dtype = t->dtype, .optimizer = adamw};
    r->of = (redco_checkpoint_states){.task = &task, .layouts = splits, .optimizer = adamw};
    return redco_host_open(NULL, &r->backend, NULL) == REDCO_OK &&
           redco_host_device_comm_open(world, &r->device_comm, NULL) == REDCO_OK &&
           redco_states_create(&r->model, &options, world, r->device_comm, r->backend, &r->of.states, NULL) ==
               REDCO_OK &&
           redco_states_worker_create(r->of.states, r->backend, NULL, &r->of.worker, NULL) == REDCO_OK;
}

static void close_rank(const struct rank *r)
{
    redco_states_worker_free(r->of.worker);
    redco_states_free(r->of.states);
    redco_device_comm_close(r->device_comm);
    redco_backend_close(r->backend);
}

/* A number for each element of the file, exact in every type. */
static double value_of(uint32_t tensor, int which, uint64_t place)
{
    return (double)(place + 1) + 1000.0 * tensor + (which + 1) * 0.25;
}

static bool set_all(const struct rank *r, const struct trial *t)
{
    const bool wide = redco_states_master_dtype(r->of.states) == REDCO_F64;
    for (uint32_t i = 0; i < TENSORS; i++) {
        const redcoi_placing placing = placing_of(t, r->of.states, i);
        for (int which = REDCO_STATES_WEIGHTS; which < 2; which++) {
            double f64[256];
            float f32[256];
            for (uint64_t e = 0; e < r->tensors[i].elements; e++) {
                f64[e] = value_of(i, which, file_place(&placing, e));
                f32[e] = (float)f64[e];
            }
            if (states_set(r->of.states, r->of.worker, i, which, wide ? (void *)f64 : (void *)f32, NULL) != REDCO_OK) {
                return false;
            }
        }
    }
    return true;
}

/* Compares this rank's part. @return elements that differ */
static uint64_t compare_all(const struct rank *r, const struct trial *t)
{
    const bool wide = redco_states_master_dtype(r->of.states) == REDCO_F64;
    uint64_t wrong = 0, seen = 0;
    for (uint32_t i = 0; i < TENSORS; i++) {
        const redcoi_placing placing = placing_of(t, r->of.states, i);
        for (int which = REDCO_STATES_WEIGHTS; which < 2; which++) {
            double f64[256];
            float f32[256];
            for (int e = 0; e < 256; e++) { f64[e] = -1.0, f32[e] = -1.0F; }
            if (states_get(r->of.states, r->of.worker, i, which, wide ? (void *)f64 : (void *)f32, NULL) != REDCO_OK) {
                return UINT64_MAX;
            }
            for (uint64_t e = 0; e < r->tensors[i].elements; e++) {
                const double got = wide ? f64[e] : (double)f32[e];
                if (got < 0.0) { continue; } /* another's */
                seen++;
                wrong += got > value_of(i, which, file_place(&placing, e)) ||
                                 got < value_of(i, which, file_place(&placing, e))
                             ? 1
                             : 0;
            }
        }
    }
    return seen > 0 ? wrong : UINT64_MAX;
}

static redco_checkpoint_info info_of(uint64_t step, redco_dtype master, const json_t *config)
{
    return (redco_checkpoint_info){.step = step,
                                   .seed = 7,
                                   .sequences = 8 * step,
                                   .global_batch = 8,
                                   .seq_len = 4,
                                   .ranks = 1,
                                   .learning_rate = 0.1,
                                   .master = master,
                                   .optimizer = REDCO_ADAMW,
                                   .model_name = "made up",
                                   .model_sha256 = digest_text,
                                   .plan_sha256 = digest_text,
                                   .model_config = config};
}

static int save_rank(redco_world *world, void *context)
{
    const struct trial *const t = context;
    const redco_checkpoints_options options = {.folder = t->folder, .keep = 2, .file_bytes = t->file_bytes};
    struct rank r = {.backend = NULL};
    redco_checkpoints *checkpoints = NULL;
    redco_error err = {.status = REDCO_OK};
    json_t *const config = json_pack("{s:s}", "model_type", "made up");
    int code = 1;
    if (open_rank(&r, t, world) && set_all(&r, t) &&
        redco_checkpoints_open(&options, world, &checkpoints, &err) == REDCO_OK) {
        const redco_checkpoint_info info = info_of(3, redco_states_master_dtype(r.of.states), config);
        code = redco_checkpoints_save(checkpoints, &info, &r.of, &err) == REDCO_OK ? 0 : 1;
    }
    if (code != 0) { (void)fprintf(stderr, "save: %s: %s\n", err.place, err.text); }
    redco_checkpoints_close(checkpoints);
    json_decref(config);
    close_rank(&r);
    return code;
}

static int load_rank(redco_world *world, void *context)
{
    const struct trial *const t = context;
    const redco_checkpoints_options options = {.folder = t->folder, .keep = 2, .resume = true};
    struct rank r = {.backend = NULL};
    redco_checkpoints *checkpoints = NULL;
    redco_checkpoint *checkpoint = NULL;
    redco_error err = {.status = REDCO_OK};
    int code = 1;
    if (open_rank(&r, t, world) && redco_checkpoints_open(&options, world, &checkpoints, &err) == REDCO_OK &&
        redco_checkpoints_find(checkpoints, &checkpoint, &err) == REDCO_OK &&
        redco_checkpoint_load(checkpoints, checkpoint, &r.of, &err) == REDCO_OK) {
        const redco_checkpoint_info *const info = redco_checkpoint_get_info(checkpoint);
        code = compare_all(&r, t) == 0 && info->step == 3 && info->seed == 7 && info->sequences == 24 ? 0 : 1;
    }
    if (code != 0) { (void)fprintf(stderr, "load: %s: %s\n", err.place, err.text); }
    redco_checkpoint_free(checkpoint);
    redco_checkpoints_close(checkpoints);
    close_rank(&r);
    return code;
}

static void remove_all(const char *path)
{
    char inside[700];
    DIR *const folder = opendir(path);
    if (folder == NULL) { return; }
    for (const struct dirent *e = readdir(folder); e != NULL; e = readdir(folder)) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) { continue; }
        (void)snprintf(inside, sizeof inside, "%s/%s", path, e->d_name);
        if (unlink(inside) != 0) { remove_all(inside); }
    }
    (void)closedir(folder);
    (void)rmdir(path);
}

static int open_folder(void **state)
{
    static char path[64];
    (void)snprintf(path, sizeof path, "/tmp/test_checkpoint.XXXXXX");
    *state = path;
    return mkdtemp(path) == NULL;
}

static int close_folder(void **state)
{
    remove_all(*state);
    return 0;
}

/* The weights as a reader of safetensors sees them. */
static void check_reader(const char *folder, bool several)
{
    char path[256];
    redco_weights *weights = NULL;
    double values[256];
    uint32_t files = 0;
    (void)snprintf(path, sizeof path, "%s/step-0000000003/model.safetensors.index.json", folder);
    redco_error err = {.status = REDCO_OK};
    if (redco_weights_open(path, &task, NULL, &weights, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    for (uint32_t i = 0; i < TENSORS; i++) {
        redcoi_placing placing = {redco_task_parameter_type(&parameters[i], REDCO_F64), parameters[i].transposed,
                                  redco_tp_replicated(), 1, 0};
        assert_int_equal(redco_weights_read(weights, i, NULL, REDCO_F64, values, NULL), REDCO_OK);
        for (uint64_t e = 0; e < redco_type_elements(&placing.whole); e++) {
            assert_true(values[e] >= value_of(i, REDCO_STATES_WEIGHTS, file_place(&placing, e)) &&
                        values[e] <= value_of(i, REDCO_STATES_WEIGHTS, file_place(&placing, e)));
        }
    }
    redco_weights_close(weights);
    for (uint32_t n = 1; n < 10; n++) {
        (void)snprintf(path, sizeof path, "%s/step-0000000003/model-%05u-of-%05u.safetensors", folder, n,
                       several ? 5 : 1);
        files += access(path, R_OK) == 0 ? 1 : 0;
    }
    assert_int_equal(files, several ? 5 : 1);
}

static void test_meshes(void **state)
{
    char folder[128];
    (void)snprintf(folder, sizeof folder, "%s/meshes", (const char *)*state);
    /* At 1200 bytes of F64 a file: table 640 | up.weight 1536 | up.bias 192 | down.weight 1536 | norm 72, scale 8. */
    const struct trial trials[] = {
        {folder, {1, {1, 1}}, {{1, 1}, {1, 1}, {1, 1}}, REDCO_INTRA_TENSOR, REDCO_F64, 1200},
        {folder, {2, {2, 1}}, {{1, 1}, {2, 1}, {2, 1}}, REDCO_INTRA_TENSOR, REDCO_F64, 1200},
        {folder, {2, {2, 2}}, {{2, 1}, {2, 1}, {2, 2}}, REDCO_INTER_TENSOR, REDCO_F64, 1200},
        {folder, {1, {2, 2}}, {{2, 2}, {2, 2}, {2, 2}}, REDCO_INTRA_TENSOR, REDCO_F64, 1200},
        {folder, {4, {1, 1}}, {{1, 1}, {1, 1}, {1, 1}}, REDCO_INTRA_TENSOR, REDCO_F64, 1200},
        {folder, {1, {4, 2}}, {{1, 1}, {1, 1}, {4, 1}}, REDCO_INTER_TENSOR, REDCO_F64, 1200},
        {folder, {2, {2, 1}}, {{1, 1}, {1, 1}, {2, 1}}, REDCO_INTER_TENSOR, REDCO_BFLOAT16, 0},
    };
    enum { TRIALS = sizeof trials / sizeof trials[0] };
    for (size_t from = 0; from < TRIALS; from++) {
        struct trial t = trials[from];
        const uint32_t ranks = (uint32_t)redco_rank_count(t.mesh);
        assert_int_equal(run_ranks(ranks, 20.0, save_rank, &t, 0), ranks);
        check_reader(folder, t.dtype == REDCO_F64);
        for (size_t to = 0; to < TRIALS; to++) {
            struct trial other = trials[to];
            if ((other.dtype == REDCO_F64) != (t.dtype == REDCO_F64)) { continue; }
            assert_int_equal(run_ranks((uint32_t)redco_rank_count(other.mesh), 20.0, load_rank, &other, 0),
                             redco_rank_count(other.mesh));
        }
        remove_all(folder);
    }
}

/* One rank: what is refused, what is kept. */

static size_t count_entries(const char *path)
{
    size_t count = 0;
    DIR *const folder = opendir(path);
    assert_non_null(folder);
    for (const struct dirent *e = readdir(folder); e != NULL; e = readdir(folder)) { count++; }
    (void)closedir(folder);
    return count - 2;
}

static void expect(const redco_error *err, const char *text)
{
    if (strstr(err->text, text) == NULL) { fail_msg("got \"%s: %s\", not \"%s\"", err->place, err->text, text); }
}

static void test_refused(void **state)
{
    char folder[128], path[256];
    (void)snprintf(folder, sizeof folder, "%s/alone", (const char *)*state);
    const redco_world_options alone = {.transport = REDCO_TRANSPORT_SELF, .size = 1};
    const struct trial t = {folder, {1, {1, 1}}, {{1, 1}, {1, 1}, {1, 1}}, REDCO_INTRA_TENSOR, REDCO_F32, 0};
    redco_checkpoints_options options = {.folder = folder, .keep = 2};
    struct rank r = {.backend = NULL};
    redco_world *world = NULL;
    redco_checkpoints *checkpoints = NULL, *other = NULL;
    redco_checkpoint *checkpoint = NULL;
    redco_error err = {.status = REDCO_OK};
    json_t *const config = json_object();
    assert_int_equal(redco_world_open(&alone, &world, NULL), REDCO_OK);
    assert_true(open_rank(&r, &t, world) && set_all(&r, &t));

    options.resume = true;
    assert_int_equal(redco_checkpoints_open(&options, world, &checkpoints, &err), REDCO_EIO);
    expect(&err, "cannot open: No such file");
    redco_error_clear(&err);
    options.resume = false;
    (void)snprintf(path, sizeof path, "%s/no/such", folder);
    options.folder = path;
    assert_int_equal(redco_checkpoints_open(&options, world, &checkpoints, &err), REDCO_EIO);
    expect(&err, "cannot make it: No such file");
    redco_error_clear(&err);
    options.folder = folder;
    assert_int_equal(redco_checkpoints_open(&options, world, &checkpoints, &err), REDCO_OK);
    assert_int_equal(redco_checkpoints_open(&options, world, &other, &err), REDCO_EVALUE);
    expect(&err, "another run writes its checkpoints there");
    redco_error_clear(&err);
    assert_int_equal(redco_checkpoints_find(checkpoints, &checkpoint, &err), REDCO_EVALUE);
    expect(&err, "has no checkpoint to resume");
    redco_error_clear(&err);

    for (uint64_t step = 1; step <= 4; step++) { /* two are kept */
        const redco_checkpoint_info info = info_of(step, REDCO_F32, config);
        assert_int_equal(redco_checkpoints_save(checkpoints, &info, &r.of, &err), REDCO_OK);
        assert_int_equal(count_entries(folder), step < 2 ? 1 : 2);
    }
    redco_checkpoints_close(checkpoints);
    checkpoints = NULL;
    assert_int_equal(redco_checkpoints_open(&options, world, &checkpoints, &err), REDCO_EVALUE);
    expect(&err, "has a checkpoint of step 4 already");
    redco_error_clear(&err);

    (void)snprintf(path, sizeof path, "%s/.unfinished-step-0000000009", folder); /* left by a run that died */
    assert_int_equal(mkdir(path, 0700), 0);
    options.resume = true;
    assert_int_equal(redco_checkpoints_open(&options, world, &checkpoints, &err), REDCO_OK);
    assert_int_equal(count_entries(folder), 2);
    assert_int_equal(redco_checkpoints_find(checkpoints, &checkpoint, &err), REDCO_OK);
    assert_int_equal(redco_checkpoint_get_info(checkpoint)->step, 4);

    const redco_task shorter = {.name = "shorter", .parameters = parameters, .parameter_count = TENSORS - 1};
    redco_checkpoint_states wrong = r.of;
    wrong.task = &shorter;
    assert_int_equal(redco_checkpoint_load(checkpoints, checkpoint, &wrong, &err), REDCO_EVALUE);
    expect(&err, "has 18 tensors; shorter has 15");
    redco_error_clear(&err);
    redco_task_parameter changed[TENSORS];
    memcpy(changed, parameters, sizeof changed);
    changed[4].dim[0] = 8;
    const redco_task narrow = {.name = "narrow", .parameters = changed, .parameter_count = TENSORS};
    wrong.task = &narrow;
    assert_int_equal(redco_checkpoint_load(checkpoints, checkpoint, &wrong, &err), REDCO_EVALUE);
    expect(&err, "norm.weight is f32[9]; this run has f32[8]");
    redco_error_clear(&err);
    changed[4].name = "norm.bias";
    assert_int_equal(redco_checkpoint_load(checkpoints, checkpoint, &wrong, &err), REDCO_EVALUE);
    expect(&err, "has no tensor norm.bias, which narrow asks for");

    redco_checkpoint_free(checkpoint);
    redco_checkpoints_close(checkpoints);
    json_decref(config);
    close_rank(&r);
    redco_world_close(world);
}

static void test_full(void **state)
{
    (void)state;
    const redcoi_file file = {.name = "model"};
    redco_error err = {.status = REDCO_OK};
    const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    if (full < 0) {
        print_message("there is no /dev/full\n");
        skip();
    }
    assert_int_equal(redcoi_write_at(full, "data", 4, 0, "folder", &file, &err), REDCO_ESYSTEM);
    assert_string_equal(err.place, "folder/model");
    expect(&err, "cannot write: No space left on device");
    (void)close(full);
}

/* A document whose digest is right and whose content lies. */
static void lie(const char *key, json_t *value, const char *text)
{
    char sha256[REDCO_SHA256_HEX_SIZE];
    size_t size = 0;
    redco_checkpoint *checkpoint = NULL;
    redco_error err = {.status = REDCO_OK};
    json_t *const content =
        json_pack("{s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:f,s:s,s:s,s:s,s:s,s:s,s:{},s:[{s:s,s:i,s:i,s:s}],s:{s:{s:i,s:i,s:s,s:"
                  "[i,i],s:s}}}",
                  "step", 3, "seed", 1, "sequences", 24, "global_batch", 8, "seq_len", 4, "data_windows", 0, "ranks", 2,
                  "learning_rate", 0.1, "dtype", "F32", "optimizer", "adamw", "model_name", "m", "model_sha256",
                  digest_text, "plan_sha256", digest_text, "model_config", "files", "name", "model.safetensors",
                  "size_bytes", 124, "header_bytes", 100, "header_sha256", digest_text, "tensors", "w", "file", 0,
                  "offset_bytes", 100, "dtype", "F32", "shape", 2, 3, "checksum", "0123456789abcdef");
    assert_non_null(content);
    json_t *const file = json_array_get(json_object_get(content, "files"), 0);
    json_t *const tensor = json_object_get(json_object_get(content, "tensors"), "w");
    const char *const dot = strchr(key, '.');
    json_t *const where = strncmp(key, "file.", 5) == 0 ? file : strncmp(key, "tensor.", 7) == 0 ? tensor : content;
    assert_int_equal(json_object_set_new(where, dot != NULL ? dot + 1 : key, value), 0);
    char *const inner = redco_json_text(content, 17, &size);
    redco_sha256_hex(inner, size, sha256);
    json_t *const document = json_pack("{s:s,s:i,s:s,s:o}", "format", "redco-checkpoint", "version", 1, "sha256",
                                       sha256, "content", content);
    char *const outer = redco_json_text(document, 17, &size);
    const redco_status st = redco_checkpoint_parse(outer, size, "made.json", &checkpoint, &err);
    if (text == NULL) {
        assert_int_equal(st, REDCO_OK);
    } else {
        assert_int_equal(st, REDCO_EVALUE);
        expect(&err, text);
    }
    redco_checkpoint_free(checkpoint);
    json_decref(document);
    free(inner);
    free(outer);
}

static void test_lies(void **state)
{
    (void)state;
    lie("step", json_integer(3), NULL);
    lie("step", json_integer(0), "0");
    lie("learning_rate", json_string("fast"), "number");
    lie("dtype", json_string("BF16"), "F32 and F64 are right");
    lie("optimizer", json_string("lion"), "adamw, sgd and adafactor are known");
    lie("model_sha256", json_string("abc"), "no SHA-256");
    lie("file.name", json_string("../x"), "no name of a file");
    lie("file.name", json_string("a/b"), "no name of a file");
    lie("file.header_bytes", json_integer(125), "125");
    lie("file.size_bytes", json_integer(123), "leaves 23 bytes of model.safetensors, of which it needs 24");
    lie("tensor.file", json_integer(1), "1");
    lie("tensor.offset_bytes", json_integer(99), "99");
    lie("tensor.offset_bytes", json_integer(101), "leaves 23 bytes");
    lie("tensor.shape", json_pack("[I, I]", (json_int_t)1 << 40, (json_int_t)1 << 40), "elements");
    lie("tensor.shape", json_pack("[i, i]", 2, 0), "whole number from 1");
    lie("tensor.shape", json_pack("[i, i, i, i, i, i, i, i, i]", 1, 1, 1, 1, 1, 1, 1, 1, 1), "9 dimensions");
    lie("tensor.checksum", json_string("0123456789abcdeg"), "16 hexadecimal digits");
    redco_checkpoint *checkpoint = NULL;
    redco_error err = {.status = REDCO_OK};
    const char wrong[] = "{\"format\": \"redco-checkpoint\", \"version\": 1, \"sha256\": "
                         "\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\", \"content\": {}}";
    assert_int_equal(redco_checkpoint_parse(wrong, sizeof wrong - 1, "made.json", &checkpoint, &err), REDCO_EVALUE);
    expect(&err, "is not what was written: its SHA-256 is another");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_checksum),
        cmocka_unit_test_setup_teardown(test_meshes, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(test_refused, open_folder, close_folder),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_lies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
