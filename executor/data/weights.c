#include "executor/data/weights.h"

#include "costmodel/models/safetensors.h"
#include "executor/backend/host/kernels.h"
#include "executor/data/tensor_file.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK_ROWS = 64, BLOCK_BYTES = 1 << 22, RUN_ELEMENTS = 4096, SHAPE_SIZE = 160 };

struct redco_weights {
    char *path;
    const redco_task *task;
    redco_safetensors *tensors;
    const redco_safetensor **found; /* by parameter */
    size_t prefix;                  /* bytes of parameters' names that the file's do not have */
    redco_weights *other;           /* other files, whose parameters it has none of; or NULL */
    struct source *last;            /* used by redco_weights_read_run() */
};

/* A tensor's file while it is read. */
typedef struct source {
    const redco_weights *w;
    const redco_safetensor *tensor;
    char *path;
    int descriptor;
} source;

static redco_status open_source(source *s, redco_error *err);
static void close_source(source *s);
static redco_status cut_off(const source *s, redco_error *err);
static redco_status fetch(const source *s, uint64_t at_bytes, uint64_t size_bytes, void *out, redco_error *err);

/* @return NULL: the file has neither the parameter nor, of a shared table, another name of it */
static const redco_safetensor *find(const redco_weights *w, size_t parameter, const redco_model *model)
{
    const char *copy = NULL;
    const redco_safetensor *tensor =
        redco_safetensors_find_wrapped(w->tensors, w->task->parameters[parameter].name + w->prefix);
    for (size_t i = 0; model != NULL && tensor == NULL && parameter == 0; i++) {
        if ((copy = redco_model_table_copy(model, i)) == NULL) { break; }
        tensor = redco_safetensors_find_wrapped(w->tensors, copy);
    }
    return tensor;
}

static const char *shape_text(const uint64_t *shape, uint32_t rank, bool reversed, char text[SHAPE_SIZE])
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < rank && used < SHAPE_SIZE; i++) {
        used += (size_t)snprintf(text + used, SHAPE_SIZE - used, "%s%llu", i > 0 ? ", " : "",
                                 (unsigned long long)shape[reversed ? rank - 1 - i : i]);
    }
    return text;
}

/* Dimension i of a parameter as files have it. */
static uint32_t file_axis(const redco_task_parameter *p, uint32_t i)
{
    return p->transposed ? p->rank - 1 - i : i;
}

static redco_status check_tensor(const redco_weights *w, const redco_task_parameter *p, const redco_safetensor *t,
                                 redco_error *err)
{
    char have[SHAPE_SIZE], want[SHAPE_SIZE];
    redco_dtype dtype = REDCO_F32;
    bool same = t->has_shape && t->rank == p->rank;
    if (!t->has_shape) {
        return redco_fail(err, REDCO_EIO, w->path, "puts %s into %s, which is not beside it", t->name, t->file);
    }
    for (uint32_t i = 0; same && i < p->rank; i++) { same = t->shape[i] == p->dim[file_axis(p, i)]; }
    if (!same) {
        return redco_fail(err, REDCO_EVALUE, w->path, "%s has shape [%s]; %s says [%s]", t->name,
                          shape_text(t->shape, t->rank, false, have), w->task->name,
                          shape_text(p->dim, p->rank, p->transposed, want));
    }
    if (!redco_tensor_file_dtype(t->dtype, &dtype) || !redco_dtype_is_float(dtype)) {
        return redco_fail(err, REDCO_EVALUE, w->path, "%s is %s; F64, F32, BF16 and F16 can be read", t->name,
                          t->dtype);
    }
    return REDCO_OK;
}

/* A tensor that no parameter took is an error, but for those that redco_model_check_safetensors() lets pass. */
static redco_status check_rest(const redco_weights *w, redco_error *err)
{
    const redco_safetensor *list = NULL;
    const size_t count = redco_safetensors_list(w->tensors, &list);
    size_t taken = 0;
    for (size_t p = 0; p < w->task->parameter_count; p++) { taken += w->found[p] != NULL; }
    if (count == taken) { return REDCO_OK; } /* names are unique: all are taken */
    for (size_t i = 0; i < count; i++) {
        bool known = false;
        for (size_t p = 0; p < w->task->parameter_count && !known; p++) { known = w->found[p] == &list[i]; }
        if (!known) {
            return redco_fail(err, REDCO_EVALUE, w->path, "has a tensor %s, which %s does not know", list[i].name,
                              w->task->name);
        }
    }
    return REDCO_OK;
}

/* A file must have the frozen parameters; those trained beside them may be new (adapters). */
static bool may_be_missing(const redco_task *task, size_t parameter)
{
    bool frozen = false;
    for (size_t i = 0; i < task->parameter_count; i++) {
        frozen = frozen || task->parameters[i].training == REDCO_FROZEN;
    }
    return frozen && task->parameters[parameter].training != REDCO_FROZEN;
}

/* @param model  NULL: names are the file's */
static redco_status match(redco_weights *w, const redco_model *model, redco_error *err)
{
    for (size_t i = 0; i < w->task->parameter_count; i++) {
        const redco_task_parameter *const p = &w->task->parameters[i];
        w->found[i] = model != NULL ? find(w, i, model) : redco_safetensors_find(w->tensors, p->name);
        if (w->found[i] == NULL && may_be_missing(w->task, i)) { continue; }
        if (w->found[i] == NULL) {
            return redco_fail(err, REDCO_EVALUE, w->path, "has no tensor %s, which %s asks for", p->name,
                              w->task->name);
        }
        const redco_status st = check_tensor(w, p, w->found[i], err);
        if (st != REDCO_OK) { return st; }
    }
    return model != NULL ? REDCO_OK : check_rest(w, err);
}

/* Data that a file ends before. Neighbours of a list are mostly in one file, which is opened once. */
static redco_status check_sizes(const redco_weights *w, redco_error *err)
{
    source s = {.w = w, .descriptor = -1};
    struct stat info = {.st_size = 0};
    redco_status st = REDCO_OK;
    for (size_t i = 0; i < w->task->parameter_count && st == REDCO_OK; i++) {
        const redco_safetensor *const t = w->found[i];
        if (t == NULL) { continue; } /* another file's */
        if (s.tensor == NULL || (t->file != NULL && s.tensor->file != NULL && strcmp(t->file, s.tensor->file) != 0)) {
            close_source(&s);
            s = (source){.w = w, .tensor = t, .descriptor = -1};
            if ((st = open_source(&s, err)) != REDCO_OK) { break; }
            if (fstat(s.descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
                st = redco_fail(err, REDCO_EIO, s.path, "is no regular file");
            }
        }
        s.tensor = t;
        const uint64_t size_bytes = (uint64_t)info.st_size;
        if (st == REDCO_OK && (t->offset_bytes > size_bytes || t->size_bytes > size_bytes - t->offset_bytes)) {
            st = cut_off(&s, err);
        }
    }
    close_source(&s);
    return st;
}

/* The numbers of a tensor from one on. @param count  at most RUN_ELEMENTS */
static redco_status read_numbers(source *s, uint64_t begin, uint64_t count, double *out, redco_error *err)
{
    unsigned char raw[RUN_ELEMENTS * sizeof(double)];
    redco_dtype dtype = REDCO_F32;
    if (!redco_tensor_file_dtype(s->tensor->dtype, &dtype) || !redco_dtype_is_float(dtype)) {
        return redco_fail(err, REDCO_EVALUE, s->w->path, "%s is %s; F64, F32, BF16 and F16 can be read",
                          s->tensor->name, s->tensor->dtype);
    }
    const uint64_t bytes = redco_dtype_bytes(dtype);
    const redco_status st = fetch(s, s->tensor->offset_bytes + begin * bytes, count * bytes, raw, err);
    if (st == REDCO_OK) { redcoi_load_f64(dtype, raw, count, out); }
    return st;
}

static redco_status compare_copy(const redco_weights *w, const redco_safetensor *copy, redco_error *err)
{
    const redco_task_parameter *const p = &w->task->parameters[0];
    source table = {.w = w, .tensor = w->found[0], .descriptor = -1},
           other = {.w = w, .tensor = copy, .descriptor = -1};
    double a[RUN_ELEMENTS], b[RUN_ELEMENTS];
    uint64_t count = 1;
    for (uint32_t i = 0; i < p->rank; i++) { count *= p->dim[i]; }
    redco_status st = open_source(&table, err);
    if (st == REDCO_OK) { st = open_source(&other, err); }
    for (uint64_t at = 0; at < count && st == REDCO_OK; at += RUN_ELEMENTS) {
        const uint64_t some = count - at < RUN_ELEMENTS ? count - at : RUN_ELEMENTS;
        st = read_numbers(&table, at, some, a, err);
        if (st == REDCO_OK) { st = read_numbers(&other, at, some, b, err); }
        for (uint64_t i = 0; i < some && st == REDCO_OK; i++) {
            if (a[i] >= b[i] && a[i] <= b[i]) { continue; }
            st = redco_fail(err, REDCO_EVALUE, w->path,
                            "%s is not %s, though the config ties them: element %llu is %.9g there, %.9g here; "
                            "\"tie_word_embeddings\": false has both, and a file without the copy one of them",
                            copy->name, w->found[0]->name, (unsigned long long)(at + i), a[i], b[i]);
        }
    }
    close_source(&table);
    close_source(&other);
    return st;
}

/* A tied table under another name, which some programs save again: one of both would be lost without a word. */
static redco_status check_tied(const redco_weights *w, const redco_model *model, redco_error *err)
{
    const char *name = NULL;
    redco_status st = REDCO_OK;
    for (size_t i = 0; st == REDCO_OK && (name = redco_model_table_copy(model, i)) != NULL; i++) {
        const redco_safetensor *const copy = redco_safetensors_find_wrapped(w->tensors, name);
        if (copy != NULL && copy != w->found[0] && copy->has_shape) { st = compare_copy(w, copy, err); }
    }
    return st;
}

/* A folder's index, or its one file. @return to be freed, NULL when out of memory */
static char *file_of(const char *path)
{
    static const char *const names[] = {"model.safetensors.index.json", "model.safetensors"};
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) { return strdup(path); }
    const size_t size = strlen(path) + 32;
    char *const file = malloc(size);
    for (size_t i = 0; file != NULL && i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(file, size, "%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/", names[i]);
        if (access(file, F_OK) == 0) { break; }
    }
    return file;
}

/* Weights that torch.save() wrote are a program to run, a pickle: said how to convert, where there are no others. */
static redco_status refuse_pickle(const char *path, const char *file, redco_error *err)
{
    static const char *const names[] = {"", "/pytorch_model.bin", "/pytorch_model.bin.index.json"};
    static const char ending[] = ".bin";
    const size_t size = strlen(path) + 48, length = strlen(path);
    char *const other = malloc(size);
    redco_status st = other != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, path, "no memory to read it");
    const bool is_bin = length >= sizeof ending && strcmp(path + length - (sizeof ending - 1), ending) == 0;
    for (size_t i = is_bin ? 0 : 1; i < sizeof names / sizeof names[0] && st == REDCO_OK; i++) {
        (void)snprintf(other, size, "%s%s", path, names[i]);
        if (access(other, F_OK) != 0 || (!is_bin && access(file, F_OK) == 0)) { continue; }
        st = redco_fail(
            err, REDCO_EVALUE, path,
            "has weights as torch.save() writes them (pytorch_model.bin), and redco reads safetensors; convert "
            "them: python3 -c \"from transformers import AutoModelForCausalLM as M; "
            "M.from_pretrained('FOLDER').save_pretrained('NEW')\"");
    }
    free(other);
    return st;
}

static redco_status create(const char *name, const redco_task *task, redco_weights **weights_out, redco_error *err)
{
    redco_weights *w = calloc(1, sizeof *w);
    if (w == NULL) { return redco_fail(err, REDCO_ENOMEM, name, "no memory to read it"); }
    w->task = task;
    w->path = strdup(name);
    w->found = calloc(task->parameter_count + 1, sizeof(void *));
    if (w->path == NULL || w->found == NULL) {
        redco_weights_close(w);
        return redco_fail(err, REDCO_ENOMEM, name, "no memory to read it");
    }
    *weights_out = w;
    return REDCO_OK;
}

redco_status redco_weights_open(const char *path, const redco_task *task, const redco_model *model,
                                redco_weights **weights_out, redco_error *err)
{
    redco_weights *w = NULL;
    char *const file = path[0] != '\0' ? file_of(path) : strdup(path);
    if (file == NULL) { return redco_fail(err, REDCO_ENOMEM, path, "no memory to read it"); }
    redco_status st = refuse_pickle(path, file, err);
    if (st == REDCO_OK) { st = create(file, task, &w, err); }
    if (st == REDCO_OK && model != NULL) { st = redco_model_check_safetensors(model, file, err); }
    if (st == REDCO_OK) { st = redco_safetensors_open(file, &w->tensors, err); }
    if (st == REDCO_OK) { st = match(w, model, err); }
    if (st == REDCO_OK) { st = check_sizes(w, err); }
    if (st == REDCO_OK && model != NULL) { st = check_tied(w, model, err); }
    if (st == REDCO_OK) {
        *weights_out = w;
        w = NULL;
    }
    redco_weights_close(w);
    free(file);
    return st;
}

/* Parameters of a prefix, from a file that knows nothing of it. */
static redco_status match_part(redco_weights *w, const redco_weights *others, const char *prefix, redco_error *err)
{
    size_t taken = 0;
    for (size_t i = 0; i < w->task->parameter_count; i++) {
        const redco_task_parameter *const p = &w->task->parameters[i];
        if (strncmp(p->name, prefix, w->prefix) != 0) { continue; }
        if (redco_weights_has(others, i)) {
            return redco_fail(err, REDCO_EVALUE, w->path, "is the second file that is given for %s", p->name);
        }
        w->found[i] = find(w, i, NULL);
        if (w->found[i] == NULL) {
            return redco_fail(err, REDCO_EVALUE, w->path, "has no tensor %s, which %s asks for as %s",
                              p->name + w->prefix, w->task->name, p->name);
        }
        const redco_status st = check_tensor(w, p, w->found[i], err);
        if (st != REDCO_OK) { return st; }
        taken++;
    }
    if (taken > 0) { return check_rest(w, err); }
    return redco_fail(err, REDCO_EVALUE, w->path, "is for the prefix \"%s\"; %s has no parameter with such a name",
                      prefix, w->task->name);
}

static redco_status open_part(const redco_weights_part *part, const redco_task *task, redco_weights **weights,
                              redco_error *err)
{
    redco_weights *w = NULL;
    char *const file = part->path[0] != '\0' ? file_of(part->path) : strdup(part->path);
    if (file == NULL) { return redco_fail(err, REDCO_ENOMEM, part->path, "no memory to read it"); }
    redco_status st = refuse_pickle(part->path, file, err);
    if (st == REDCO_OK) { st = create(file, task, &w, err); }
    free(file);
    if (st != REDCO_OK) { return st; }
    w->prefix = strlen(part->prefix);
    st = redco_safetensors_open(w->path, &w->tensors, err);
    if (st == REDCO_OK) { st = match_part(w, *weights, part->prefix, err); }
    if (st == REDCO_OK) { st = check_sizes(w, err); }
    if (st != REDCO_OK) {
        redco_weights_close(w);
        return st;
    }
    w->other = *weights;
    *weights = w;
    return REDCO_OK;
}

redco_status redco_weights_open_parts(const redco_weights_part *parts, size_t count, const redco_task *task,
                                      redco_weights **weights_out, redco_error *err)
{
    redco_weights *all = NULL;
    redco_status st = REDCO_OK;
    for (size_t i = 0; i < count && st == REDCO_OK; i++) { st = open_part(&parts[i], task, &all, err); }
    if (st == REDCO_OK) {
        *weights_out = all;
        all = NULL;
    }
    redco_weights_close(all);
    return st;
}

bool redco_weights_has(const redco_weights *w, size_t parameter)
{
    while (w != NULL && w->found[parameter] == NULL) { w = w->other; }
    return w != NULL;
}

void redco_weights_close(redco_weights *w)
{
    if (w == NULL) { return; }
    redco_weights_close(w->other);
    if (w->last != NULL) { close_source(w->last); }
    free(w->last);
    redco_safetensors_free(w->tensors);
    free(w->found);
    free(w->path);
    free(w);
}

static redco_status open_source(source *s, redco_error *err)
{
    const redco_weights *const w = s->w;
    const char *slash = strrchr(w->path, '/');
    const size_t folder = s->tensor->file != NULL && slash != NULL ? (size_t)(slash - w->path) + 1 : 0;
    const char *const file = s->tensor->file != NULL ? s->tensor->file : w->path;
    const size_t size = folder + strlen(file) + 1;
    s->descriptor = -1;
    s->path = malloc(size);
    if (s->path == NULL) { return redco_fail(err, REDCO_ENOMEM, w->path, "no memory to read it"); }
    (void)snprintf(s->path, size, "%.*s%s", (int)folder, w->path, file);
    s->descriptor = open(s->path, O_RDONLY | O_CLOEXEC);
    return s->descriptor >= 0 ? REDCO_OK : redco_fail(err, REDCO_EIO, s->path, "cannot open: %s", strerror(errno));
}

static void close_source(source *s)
{
    if (s->descriptor >= 0) { (void)close(s->descriptor); }
    free(s->path);
    s->path = NULL;
    s->descriptor = -1;
}

static redco_status cut_off(const source *s, redco_error *err)
{
    return redco_fail(err, REDCO_EVALUE, s->path, "is cut off: the data of %s lie beyond its end", s->tensor->name);
}

static redco_status fetch(const source *s, uint64_t at_bytes, uint64_t size_bytes, void *out, redco_error *err)
{
    char *to = out;
    if (at_bytes > INT64_MAX - size_bytes) { return cut_off(s, err); } /* beyond what a file can have */
    while (size_bytes > 0) {
        const ssize_t got = pread(s->descriptor, to, size_bytes, (off_t)at_bytes);
        if (got < 0 && errno == EINTR) { continue; }
        if (got < 0) { return redco_fail(err, REDCO_EIO, s->path, "cannot read: %s", strerror(errno)); }
        if (got == 0) { return cut_off(s, err); }
        to += got;
        at_bytes += (uint64_t)got;
        size_bytes -= (uint64_t)got;
    }
    return REDCO_OK;
}

/* A box as rows of the file: those of all dimensions but the last, which is contiguous. */
typedef struct rows {
    uint32_t rank;
    uint64_t dim[REDCO_RANK_MAX], begin[REDCO_RANK_MAX], size[REDCO_RANK_MAX]; /* in the file's order */
    uint64_t count, width;
    bool transposed;
} rows;

static redco_status rows_of(const redco_task_parameter *p, const redco_box *box, rows *r, redco_error *err)
{
    *r = (rows){.rank = p->rank, .count = 1, .width = 1, .transposed = p->transposed && p->rank > 1};
    for (uint32_t i = 0; i < p->rank; i++) {
        const uint32_t axis = file_axis(p, i);
        r->dim[i] = p->dim[axis];
        r->begin[i] = box != NULL ? box->begin[axis] : 0;
        r->size[i] = box != NULL ? box->size[axis] : p->dim[axis];
        if (r->size[i] == 0 || r->begin[i] > r->dim[i] || r->size[i] > r->dim[i] - r->begin[i]) {
            return redco_fail(err, REDCO_EVALUE, p->name, "elements %llu to %llu of dimension %u, which has %llu",
                              (unsigned long long)r->begin[i], (unsigned long long)(r->begin[i] + r->size[i]), axis,
                              (unsigned long long)r->dim[i]);
        }
        if (i + 1 < p->rank) { r->count *= r->size[i]; }
    }
    if (p->rank > 0) { r->width = r->size[p->rank - 1]; }
    return REDCO_OK;
}

/* Element of the file at which row @p row of the box begins. */
static uint64_t row_begin(const rows *r, uint64_t row)
{
    uint64_t at = r->rank > 0 ? r->begin[r->rank - 1] : 0, stride = r->rank > 0 ? r->dim[r->rank - 1] : 1;
    for (uint32_t i = r->rank > 0 ? r->rank - 1 : 0; i-- > 0;) {
        at += (r->begin[i] + row % r->size[i]) * stride;
        row /= r->size[i];
        stride *= r->dim[i];
    }
    return at;
}

/* Buffers of a block of rows. */
typedef struct block {
    uint64_t rows;  /* at most */
    void *raw;      /* one row as in the file */
    double *wide;   /* all rows */
    double *column; /* a column of them */
} block;

static bool take_block(const rows *r, block *b)
{
    const uint64_t fitting = BLOCK_BYTES / (r->width * sizeof(double));
    b->rows = fitting > BLOCK_ROWS ? BLOCK_ROWS : fitting > 0 ? fitting : 1;
    b->raw = malloc(r->width * sizeof(double));
    b->wide = malloc(b->rows * r->width * sizeof(double));
    b->column = malloc(b->rows * sizeof(double));
    return b->raw != NULL && b->wide != NULL && b->column != NULL;
}

static void free_block(const block *b)
{
    free(b->raw);
    free(b->wide);
    free(b->column);
}

static bool all_finite(const double *values, uint64_t count)
{
    bool finite = true;
    for (uint64_t i = 0; i < count; i++) { finite = finite && isfinite(values[i]); }
    return finite;
}

/* Rows of the file are columns of the storage where it is transposed. */
static void place_block(const rows *r, const block *b, uint64_t first, uint64_t count, redco_dtype dtype, char *out)
{
    const uint64_t element_bytes = redco_dtype_bytes(dtype);
    if (!r->transposed) {
        redcoi_store_f64(dtype, b->wide, count * r->width, out + first * r->width * element_bytes);
        return;
    }
    for (uint64_t c = 0; c < r->width; c++) {
        for (uint64_t i = 0; i < count; i++) { b->column[i] = b->wide[i * r->width + c]; }
        redcoi_store_f64(dtype, b->column, count, out + (c * r->count + first) * element_bytes);
    }
}

static redco_status read_rows(const source *s, const rows *r, redco_dtype dtype, void *out, redco_error *err)
{
    redco_status st = REDCO_OK;
    redco_dtype file_dtype = REDCO_F32;
    block b = {0};
    (void)redco_tensor_file_dtype(s->tensor->dtype, &file_dtype); /* known: check_tensor() */
    const uint64_t element_bytes = redco_dtype_bytes(file_dtype);
    if (!take_block(r, &b)) {
        st = redco_fail(err, REDCO_ENOMEM, s->path, "no memory to read %s", s->tensor->name);
        goto out;
    }
    for (uint64_t first = 0; first < r->count; first += b.rows) {
        const uint64_t count = r->count - first < b.rows ? r->count - first : b.rows;
        for (uint64_t i = 0; i < count; i++) {
            const uint64_t at_bytes = s->tensor->offset_bytes + row_begin(r, first + i) * element_bytes;
            if ((st = fetch(s, at_bytes, r->width * element_bytes, b.raw, err)) != REDCO_OK) { goto out; }
            redcoi_load_f64(file_dtype, b.raw, r->width, b.wide + i * r->width);
        }
        if (!all_finite(b.wide, count * r->width)) {
            st = redco_fail(err, REDCO_EVALUE, s->path, "%s holds what is not a finite number", s->tensor->name);
            goto out;
        }
        place_block(r, &b, first, count, dtype, out);
    }
out:
    free_block(&b);
    return st;
}

redco_status redco_weights_read(const redco_weights *w, size_t parameter, const redco_box *box, redco_dtype dtype,
                                void *out, redco_error *err)
{
    rows r;
    while (w->found[parameter] == NULL && w->other != NULL) { w = w->other; }
    source s = {.w = w, .tensor = w->found[parameter], .descriptor = -1};
    redco_status st = rows_of(&w->task->parameters[parameter], box, &r, err);
    if (st == REDCO_OK) { st = open_source(&s, err); }
    if (st == REDCO_OK) { st = read_rows(&s, &r, dtype, out, err); }
    close_source(&s);
    return st;
}

/* The tensor's file, opened unless it is that of the call before. */
static redco_status keep_source(redco_weights *w, const redco_safetensor *tensor, redco_error *err)
{
    if (w->last == NULL) {
        if ((w->last = calloc(1, sizeof *w->last)) == NULL) {
            return redco_fail(err, REDCO_ENOMEM, w->path, "no memory to read it");
        }
        *w->last = (source){.w = w, .descriptor = -1};
    }
    source *const s = w->last;
    const bool same =
        s->tensor != NULL && s->path != NULL && (tensor->file == NULL || strcmp(tensor->file, s->tensor->file) == 0);
    s->tensor = tensor;
    if (same) { return REDCO_OK; }
    close_source(s);
    return open_source(s, err);
}

redco_status redco_weights_read_run(redco_weights *w, size_t parameter, uint64_t begin, uint64_t count,
                                    redco_dtype dtype, void *out, redco_error *err)
{
    while (w->found[parameter] == NULL && w->other != NULL) { w = w->other; }
    const redco_safetensor *const tensor = w->found[parameter];
    const redco_tensor_type type = redco_task_parameter_type(&w->task->parameters[parameter], dtype);
    const uint64_t elements = redco_type_elements(&type);
    double raw[RUN_ELEMENTS], wide[RUN_ELEMENTS];
    redco_dtype file_dtype = REDCO_F32;
    (void)redco_tensor_file_dtype(tensor->dtype, &file_dtype); /* known: check_tensor() */
    const uint64_t file_bytes = redco_dtype_bytes(file_dtype), out_bytes = redco_dtype_bytes(dtype);
    if (begin > elements || count > elements - begin) {
        return redco_fail(err, REDCO_EVALUE, tensor->name, "elements %llu to %llu of %llu", (unsigned long long)begin,
                          (unsigned long long)(begin + count), (unsigned long long)elements);
    }
    redco_status st = keep_source(w, tensor, err);
    for (uint64_t at = 0; at < count && st == REDCO_OK; at += RUN_ELEMENTS) {
        const uint64_t here = count - at < RUN_ELEMENTS ? count - at : RUN_ELEMENTS;
        st = fetch(w->last, tensor->offset_bytes + (begin + at) * file_bytes, here * file_bytes, raw, err);
        if (st != REDCO_OK) { break; }
        redcoi_load_f64(file_dtype, raw, here, wide);
        if (!all_finite(wide, here)) {
            st = redco_fail(err, REDCO_EVALUE, w->last->path, "%s holds what is not a finite number", tensor->name);
        }
        redcoi_store_f64(dtype, wide, here, (char *)out + at * out_bytes);
    }
    return st;
}

void redco_weights_cast(redco_dtype from, const void *data, uint64_t count, redco_dtype to, void *out)
{
    double wide[RUN_ELEMENTS];
    const uint64_t from_bytes = redco_dtype_bytes(from), to_bytes = redco_dtype_bytes(to);
    for (uint64_t at = 0; at < count; at += RUN_ELEMENTS) {
        const uint64_t here = count - at < RUN_ELEMENTS ? count - at : RUN_ELEMENTS;
        redcoi_load_f64(from, (const char *)data + at * from_bytes, here, wide);
        redcoi_store_f64(to, wide, here, (char *)out + at * to_bytes);
    }
}
