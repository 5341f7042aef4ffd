#include "traces/measured.h"

#include "topology/base/file.h"
#include "topology/base/number.h"
#include "topology/base/word.h"
#include "traces/csv.h"
#include "traces/measured_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST_FILE_BYTES = 64 << 20, MOST_ROWS = 100000 };

struct redco_measured {
    char *name;
    char *text; /* cut into cells, which the rows point to */
    redco_measured_run *runs;
    size_t count, capacity;
};

struct word {
    const char *name; /* NULL ends a list */
    unsigned value;
};

static const struct word use_words[] = {{"speed", REDCO_USE_SPEED},
                                        {"memory", REDCO_USE_MEMORY},
                                        {"held_out", REDCO_USE_HELD_OUT},
                                        {"odd", REDCO_USE_ODD},
                                        {NULL, 0}};
static const struct word software_words[] = {{"eager", REDCO_SOFTWARE_EAGER},
                                             {"megatron", REDCO_SOFTWARE_MEGATRON},
                                             {"te_xla", REDCO_SOFTWARE_TE_XLA},
                                             {NULL, 0}};
static const struct word scheme_words[] = {
    {"intra", REDCO_MEASURED_SCHEME_INTRA}, {"inter", REDCO_MEASURED_SCHEME_INTER}, {NULL, 0}};
static const struct word recompute_words[] = {
    {"none", REDCO_MEASURED_RECOMPUTE_NONE},       {"selective", REDCO_MEASURED_RECOMPUTE_SELECTIVE},
    {"half", REDCO_MEASURED_RECOMPUTE_HALF},       {"full", REDCO_MEASURED_RECOMPUTE_FULL},
    {"modules", REDCO_MEASURED_RECOMPUTE_MODULES}, {NULL, 0}};
static const struct word precision_words[] = {{"bf16", REDCO_MEASURED_BF16},   {"fp16", REDCO_MEASURED_FP16},
                                              {"fp8", REDCO_MEASURED_FP8},     {"mxfp8", REDCO_MEASURED_MXFP8},
                                              {"nvfp4", REDCO_MEASURED_NVFP4}, {NULL, 0}};
static const struct word grad_bytes_words[] = {{"2", 2}, {"4", 4}, {NULL, 0}};
static const struct word attention_words[] = {{"flash1", REDCO_MEASURED_FLASH1},   {"flash2", REDCO_MEASURED_FLASH2},
                                              {"flash3", REDCO_MEASURED_FLASH3},   {"fused", REDCO_MEASURED_FUSED},
                                              {"unfused", REDCO_MEASURED_UNFUSED}, {NULL, 0}};
static const struct word overlap_words[] = {{"ag_rs", REDCO_OVERLAP_AG_RS},
                                            {"ar", REDCO_OVERLAP_AR},
                                            {"bc", REDCO_OVERLAP_BC},
                                            {"tp", REDCO_OVERLAP_TP},
                                            {NULL, 0}};
static const struct word cp_type_words[] = {
    {"p2p", REDCO_CP_P2P}, {"all-gather", REDCO_CP_ALL_GATHER}, {"all-to-all", REDCO_CP_ALL_TO_ALL}, {NULL, 0}};
static const struct word mem_words[] = {
    {"allocated", REDCO_MEM_ALLOCATED}, {"reserved", REDCO_MEM_RESERVED}, {"device", REDCO_MEM_DEVICE}, {NULL, 0}};
static const struct word outcome_words[] = {{"ok", REDCO_OUTCOME_OK}, {"oom", REDCO_OUTCOME_OOM}, {NULL, 0}};

enum kind {
    KIND_TEXT,    /* const char * */
    KIND_USE,     /* use and no_reason */
    KIND_WORD,    /* one of words: an enum or uint32_t */
    KIND_SET,     /* "none" or words joined by +: unsigned */
    KIND_FLAG,    /* bool */
    KIND_U32,     /* >= 1 */
    KIND_U32_0,   /* >= 0 */
    KIND_U64,     /* >= 1 */
    KIND_MESH,    /* redco_mesh */
    KIND_NUMBER,  /* double > 0, times unit */
    KIND_RATIO,   /* double, > 0 and <= 1 */
    KIND_BYTES,   /* uint64_t, from a decimal times unit */
    KIND_MODULES, /* redco_recompute */
    KIND_COLUMNS  /* names of columns joined by ; : bits */
};

struct column {
    const char *name;
    enum kind kind;
    size_t offset;
    const struct word *words;
    double unit;
    bool identifies; /* must be there and not empty */
};

#define AT(member) offsetof(redco_measured_run, member)
static const struct column columns[REDCO_COLUMN_COUNT] = {
    [REDCO_COLUMN_SOURCE] = {"source", KIND_TEXT, AT(source), .identifies = true},
    [REDCO_COLUMN_LOCATION] = {"location", KIND_TEXT, AT(location)},
    [REDCO_COLUMN_USE] = {"use", KIND_USE, AT(use), use_words, .identifies = true},
    [REDCO_COLUMN_MODEL] = {"model", KIND_TEXT, AT(model), .identifies = true},
    [REDCO_COLUMN_LAYERS] = {"layers", KIND_U32, AT(layers)},
    [REDCO_COLUMN_HIDDEN] = {"hidden", KIND_U32, AT(hidden)},
    [REDCO_COLUMN_FFN_HIDDEN] = {"ffn_hidden", KIND_U32, AT(ffn_hidden)},
    [REDCO_COLUMN_FFN_GATED] = {"ffn_gated", KIND_FLAG, AT(ffn_gated)},
    [REDCO_COLUMN_HEADS] = {"heads", KIND_U32, AT(heads)},
    [REDCO_COLUMN_KV_HEADS] = {"kv_heads", KIND_U32, AT(kv_heads)},
    [REDCO_COLUMN_HEAD_DIM] = {"head_dim", KIND_U32, AT(head_dim)},
    [REDCO_COLUMN_VOCAB] = {"vocab", KIND_U64, AT(vocab)},
    [REDCO_COLUMN_TIED_EMBEDDINGS] = {"tied_embeddings", KIND_FLAG, AT(tied_embeddings)},
    [REDCO_COLUMN_EXPERTS] = {"experts", KIND_U32_0, AT(experts)},
    [REDCO_COLUMN_SEQ_LEN] = {"seq_len", KIND_U32, AT(seq_len), .identifies = true},
    [REDCO_COLUMN_GPU] = {"gpu", KIND_TEXT, AT(gpu), .identifies = true},
    [REDCO_COLUMN_N_GPUS] = {"n_gpus", KIND_U32, AT(n_gpus), .identifies = true},
    [REDCO_COLUMN_GPUS_PER_NODE] = {"gpus_per_node", KIND_U32, AT(gpus_per_node)},
    [REDCO_COLUMN_NODE_NETWORK_GBPS] = {"node_network_GBps", KIND_NUMBER, AT(node_network_bytes_per_s), .unit = 1e9},
    [REDCO_COLUMN_FRAMEWORK] = {"framework", KIND_TEXT, AT(framework)},
    [REDCO_COLUMN_SOFTWARE] = {"software", KIND_WORD, AT(software), software_words},
    [REDCO_COLUMN_DP] = {"dp", KIND_U32, AT(dp)},
    [REDCO_COLUMN_TP] = {"tp", KIND_U32, AT(tp)},
    [REDCO_COLUMN_PP] = {"pp", KIND_U32, AT(pp)},
    [REDCO_COLUMN_VIRTUAL_PP] = {"virtual_pp", KIND_U32, AT(virtual_pp)},
    [REDCO_COLUMN_CP] = {"cp", KIND_U32, AT(cp)},
    [REDCO_COLUMN_CP_TYPE] = {"cp_type", KIND_WORD, AT(cp_type), cp_type_words},
    [REDCO_COLUMN_EP] = {"ep", KIND_U32, AT(ep)},
    [REDCO_COLUMN_P_SHARD] = {"p_shard", KIND_MESH, AT(shards.parameters)},
    [REDCO_COLUMN_G_SHARD] = {"g_shard", KIND_MESH, AT(shards.gradients)},
    [REDCO_COLUMN_OS_SHARD] = {"os_shard", KIND_MESH, AT(shards.optimizer)},
    [REDCO_COLUMN_P_SHARD_SECONDARY] = {"p_shard_secondary", KIND_MESH, AT(p_secondary)},
    [REDCO_COLUMN_OPTIMIZER_SCHEME] = {"optimizer_scheme", KIND_WORD, AT(scheme), scheme_words},
    [REDCO_COLUMN_SEQUENCE_PARALLEL] = {"sequence_parallel", KIND_FLAG, AT(sequence_parallel)},
    [REDCO_COLUMN_MICRO_BATCH] = {"micro_batch", KIND_U32, AT(micro_batch)},
    [REDCO_COLUMN_GRAD_ACCUM] = {"grad_accum", KIND_U64, AT(grad_accum)},
    [REDCO_COLUMN_GLOBAL_BATCH] = {"global_batch", KIND_U64, AT(global_batch)},
    [REDCO_COLUMN_RECOMPUTE] = {"recompute", KIND_WORD, AT(recompute), recompute_words},
    [REDCO_COLUMN_PRECISION] = {"precision", KIND_WORD, AT(precision), precision_words},
    [REDCO_COLUMN_GRAD_REDUCE_BYTES] = {"grad_reduce_bytes", KIND_WORD, AT(grad_reduce_bytes), grad_bytes_words},
    [REDCO_COLUMN_ATTENTION] = {"attention", KIND_WORD, AT(attention), attention_words},
    [REDCO_COLUMN_FUSED_NORM] = {"fused_norm", KIND_FLAG, AT(fused_norm)},
    [REDCO_COLUMN_COMPILED] = {"compiled", KIND_FLAG, AT(compiled)},
    [REDCO_COLUMN_OVERLAP] = {"overlap", KIND_SET, AT(overlap), overlap_words},
    [REDCO_COLUMN_LOGITS_GATHERED] = {"logits_gathered", KIND_FLAG, AT(logits_gathered)},
    [REDCO_COLUMN_CUDA_GRAPHS] = {"cuda_graphs", KIND_FLAG, AT(cuda_graphs)},
    [REDCO_COLUMN_OUTCOME] = {"outcome", KIND_WORD, AT(outcome), outcome_words},
    [REDCO_COLUMN_TOKENS_PER_S_PER_GPU] = {"tokens_per_s_per_gpu", KIND_NUMBER, AT(tokens_per_s_per_gpu), .unit = 1.0},
    [REDCO_COLUMN_STEP_S] = {"step_s", KIND_NUMBER, AT(step_s), .unit = 1.0},
    [REDCO_COLUMN_MEM_KIND] = {"mem_kind", KIND_WORD, AT(mem_kind), mem_words},
    [REDCO_COLUMN_MEM_GB] = {"mem_GB", KIND_BYTES, AT(mem_bytes), .unit = 1e9},
    [REDCO_COLUMN_PRINTED_MFU] = {"printed_mfu", KIND_RATIO, AT(printed_mfu_ratio)},
    [REDCO_COLUMN_PRINTED_TFLOPS] = {"printed_tflops", KIND_NUMBER, AT(printed_flops_per_s), .unit = 1e12},
    [REDCO_COLUMN_INFERRED] = {"inferred", KIND_COLUMNS, AT(inferred)},
    [REDCO_COLUMN_NOTES] = {"notes", KIND_TEXT, AT(notes)},
    [REDCO_COLUMN_ETP] = {"etp", KIND_U32, AT(etp)},
    [REDCO_COLUMN_EDP] = {"edp", KIND_U32, AT(edp)},
    [REDCO_COLUMN_TOPK] = {"topk", KIND_U32, AT(topk)},
    [REDCO_COLUMN_EXPERT_FFN] = {"expert_ffn", KIND_U32, AT(expert_ffn)},
    [REDCO_COLUMN_SHARED_EXPERTS] = {"shared_experts", KIND_U32_0, AT(shared_experts)},
    [REDCO_COLUMN_SHARED_FFN] = {"shared_ffn", KIND_U32_0, AT(shared_ffn)},
    [REDCO_COLUMN_MOE_LAYERS] = {"moe_layers", KIND_U32_0, AT(moe_layers)},
    [REDCO_COLUMN_DENSE_FFN] = {"dense_ffn", KIND_U32, AT(dense_ffn)},
    [REDCO_COLUMN_MTP_LAYERS] = {"mtp_layers", KIND_U32_0, AT(mtp_layers)},
    [REDCO_COLUMN_PRECISION_RECIPE] = {"precision_recipe", KIND_TEXT, AT(precision_recipe)},
    [REDCO_COLUMN_DISPATCHER] = {"dispatcher", KIND_TEXT, AT(dispatcher)},
    [REDCO_COLUMN_ROUTING] = {"routing", KIND_TEXT, AT(routing)},
    [REDCO_COLUMN_EP_OVERLAP] = {"ep_overlap", KIND_FLAG, AT(ep_overlap)},
    [REDCO_COLUMN_RECOMPUTE_MODULES] = {"recompute_modules", KIND_MODULES, AT(recompute_modules)},
    [REDCO_COLUMN_CUDA_GRAPH] = {"cuda_graph", KIND_TEXT, AT(cuda_graph)},
    [REDCO_COLUMN_OFFLOAD] = {"offload", KIND_TEXT, AT(offload)},
    [REDCO_COLUMN_PP_LAYOUT] = {"pp_layout", KIND_TEXT, AT(pp_layout)},
    [REDCO_COLUMN_RELEASE] = {"release", KIND_TEXT, AT(release)},
};
#undef AT
_Static_assert(sizeof(redco_software) == sizeof(unsigned) && sizeof(uint32_t) == sizeof(unsigned), "words are stored");

static void set(uint64_t *bits, size_t column)
{
    bits[column / 64] |= (uint64_t)1 << column % 64;
}

static bool has(const uint64_t *bits, redco_measured_column column)
{
    return (bits[column / 64] >> column % 64 & 1) != 0;
}

const char *redco_measured_column_name(redco_measured_column column)
{
    return columns[column].name;
}

bool redco_measured_knows(const redco_measured_run *run, redco_measured_column column)
{
    return has(run->known, column);
}

bool redco_measured_is_inferred(const redco_measured_run *run, redco_measured_column column)
{
    return has(run->inferred, column);
}

/* REDCO_COLUMN_COUNT if there is no column of that name. */
static size_t find_column(const char *name, size_t length)
{
    size_t i = 0;
    while (i < REDCO_COLUMN_COUNT &&
           (strlen(columns[i].name) != length || memcmp(columns[i].name, name, length) != 0)) {
        i++;
    }
    return i;
}

static const char *nearest_column(const char *name)
{
    const char *names[REDCO_COLUMN_COUNT + 1];
    for (size_t i = 0; i < REDCO_COLUMN_COUNT; i++) { names[i] = columns[i].name; }
    names[REDCO_COLUMN_COUNT] = NULL;
    return redco_word_nearest(name, names);
}

/* Where a cell stands, for its error. */
struct cell {
    const char *file;
    uint32_t line;
    const struct column *column;
    const char *text;
    redco_error *err;
};

static redco_status bad(const struct cell *cell, const char *wanted)
{
    char place[512];
    (void)snprintf(place, sizeof place, "%s:%u:%s", cell->file, cell->line, cell->column->name);
    return redco_fail(cell->err, REDCO_EVALUE, place, "\"%.80s\" is not %s", cell->text, wanted);
}

/* "none, a or b" */
static const char *list_words(const char *before, const struct word *words, char *buffer, size_t size)
{
    size_t used = (size_t)snprintf(buffer, size, "%s", before);
    for (size_t i = 0; words[i].name != NULL && used < size; i++) {
        const char *const separator = i == 0 ? "" : words[i + 1].name == NULL ? " or " : ", ";
        used += (size_t)snprintf(buffer + used, size - used, "%s%s", separator, words[i].name);
    }
    return buffer;
}

static bool find_word(const struct word *words, const char *text, size_t length, unsigned *value_out)
{
    for (size_t i = 0; words[i].name != NULL; i++) {
        if (strlen(words[i].name) == length && memcmp(words[i].name, text, length) == 0) {
            *value_out = words[i].value;
            return true;
        }
    }
    return false;
}

/* Words joined by +, each at most once. */
static bool find_words(const struct word *words, const char *text, unsigned *bits_out)
{
    unsigned bits = 0;
    for (;; text++) {
        const size_t length = strcspn(text, "+");
        unsigned value = 0;
        if (!find_word(words, text, length, &value) || (bits & value) != 0) { return false; }
        bits |= value;
        text += length;
        if (*text == '\0') { break; }
    }
    *bits_out = bits;
    return true;
}

static bool whole(const char *text, size_t length, uint64_t min, uint64_t max, uint64_t *out)
{
    return length > 0 && redco_whole_read(text, length, out) == length && *out >= min && *out <= max;
}

/* A decimal above 0. */
static bool decimal(const char *text, double unit, double *out)
{
    static const double smallest = 1e-30;
    static const double largest = 1e30;
    double written = 0.0;
    if (!redco_real_parse(text, 0.0, largest, &written)) { return false; }
    const double value = written * unit;
    if (value < smallest || value > largest) { return false; }
    *out = value;
    return true;
}

static redco_status read_use(const struct cell *cell, redco_measured_run *run)
{
    if (strncmp(cell->text, "no:", 3) == 0) {
        const char *const reason = cell->text + 3 + strspn(cell->text + 3, " ");
        if (*reason == '\0') { return bad(cell, "complete: a reason is needed behind \"no:\""); }
        run->no_reason = reason;
        return REDCO_OK;
    }
    if (find_words(use_words, cell->text, &run->use) && (run->use & (REDCO_USE_SPEED | REDCO_USE_MEMORY)) != 0) {
        return REDCO_OK;
    }
    return bad(cell, "speed, memory, speed+memory, one of these with +held_out or +odd, or no: with a reason");
}

static redco_status read_word(const struct cell *cell, char *to)
{
    char wanted[160];
    unsigned value = 0;
    if (!find_word(cell->column->words, cell->text, strlen(cell->text), &value)) {
        return bad(cell, list_words("", cell->column->words, wanted, sizeof wanted));
    }
    memcpy(to, &value, sizeof value);
    return REDCO_OK;
}

static redco_status read_set(const struct cell *cell, char *to)
{
    char wanted[160];
    unsigned bits = 0;
    if (strcmp(cell->text, "none") != 0 && !find_words(cell->column->words, cell->text, &bits)) {
        return bad(cell, list_words("none, or joined by +: ", cell->column->words, wanted, sizeof wanted));
    }
    memcpy(to, &bits, sizeof bits);
    return REDCO_OK;
}

static redco_status read_flag(const struct cell *cell, char *to)
{
    const bool flag = cell->text[0] == '1';
    if ((cell->text[0] != '0' && !flag) || cell->text[1] != '\0') { return bad(cell, "0 or 1"); }
    memcpy(to, &flag, sizeof flag);
    return REDCO_OK;
}

static redco_status read_whole(const struct cell *cell, char *to)
{
    const bool wide = cell->column->kind == KIND_U64;
    const uint64_t min = cell->column->kind == KIND_U32_0 ? 0 : 1;
    uint64_t value = 0;
    if (!whole(cell->text, strlen(cell->text), min, wide ? UINT64_MAX : UINT32_MAX, &value)) {
        return bad(cell, min == 0 ? "a whole number in digits" : "a whole number of 1 or more in digits");
    }
    const uint32_t narrow = (uint32_t)value;
    memcpy(to, wide ? (const void *)&value : &narrow, wide ? sizeof value : sizeof narrow);
    return REDCO_OK;
}

static redco_status read_mesh(const struct cell *cell, char *to)
{
    uint64_t gpus = 0;
    uint64_t nodes = 0;
    const size_t x = strcspn(cell->text, "x");
    if (cell->text[x] != 'x' || !whole(cell->text, x, 1, UINT32_MAX, &gpus) ||
        !whole(cell->text + x + 1, strlen(cell->text + x + 1), 1, UINT32_MAX, &nodes)) {
        return bad(cell, "a mesh AxB: A GPUs of a node by B nodes, such as 8x2");
    }
    const redco_mesh mesh = {(uint32_t)gpus, (uint32_t)nodes};
    memcpy(to, &mesh, sizeof mesh);
    return REDCO_OK;
}

static redco_status read_number(const struct cell *cell, char *to)
{
    static const double largest_bytes = 9e18;
    const enum kind kind = cell->column->kind;
    double value = 0.0;
    if (!decimal(cell->text, kind == KIND_RATIO ? 1.0 : cell->column->unit, &value) ||
        (kind == KIND_BYTES && (value < 1.0 || value > largest_bytes))) {
        return bad(cell, "a decimal number above 0");
    }
    if (kind == KIND_RATIO && value > 1.0) { return bad(cell, "a fraction of at most 1"); }
    if (kind == KIND_BYTES) {
        const uint64_t bytes = (uint64_t)llround(value);
        memcpy(to, &bytes, sizeof bytes);
    } else {
        memcpy(to, &value, sizeof value);
    }
    return REDCO_OK;
}

static redco_status read_columns(const struct cell *cell, char *to)
{
    uint64_t bits[REDCO_COLUMN_WORDS] = {0};
    for (const char *at = cell->text;; at++) {
        const size_t length = strcspn(at, ";");
        const size_t index = find_column(at, length);
        if (index == REDCO_COLUMN_COUNT) {
            char name[64], wanted[256];
            (void)snprintf(name, sizeof name, "%.*s", (int)(length < 63 ? length : 63), at);
            (void)snprintf(wanted, sizeof wanted,
                           "a list of columns joined by ; (there is no \"%s\"; did you mean \"%s\"?)", name,
                           nearest_column(name));
            return bad(cell, wanted);
        }
        set(bits, index);
        at += length;
        if (*at == '\0') { break; }
    }
    memcpy(to, bits, sizeof bits);
    return REDCO_OK;
}

static redco_status read_modules(const struct cell *cell, char *to)
{
    redco_recompute modules = REDCO_RECOMPUTE_NONE;
    bool half = false;
    if (!redco_recompute_parse(cell->text, &modules, &half) || (modules & REDCO_RECOMPUTE_FULL) != 0) {
        return bad(cell, strstr(redco_recompute_known, "modules joined"));
    }
    memcpy(to, &modules, sizeof modules);
    return REDCO_OK;
}

static redco_status read_cell(const struct cell *cell, redco_measured_run *run)
{
    char *const to = (char *)run + cell->column->offset;
    switch (cell->column->kind) {
    case KIND_TEXT: memcpy(to, &cell->text, sizeof cell->text); return REDCO_OK;
    case KIND_USE: return read_use(cell, run);
    case KIND_WORD: return read_word(cell, to);
    case KIND_SET: return read_set(cell, to);
    case KIND_FLAG: return read_flag(cell, to);
    case KIND_U32:
    case KIND_U32_0:
    case KIND_U64: return read_whole(cell, to);
    case KIND_MESH: return read_mesh(cell, to);
    case KIND_NUMBER:
    case KIND_RATIO:
    case KIND_BYTES: return read_number(cell, to);
    case KIND_MODULES: return read_modules(cell, to);
    case KIND_COLUMNS: return read_columns(cell, to);
    }
    return REDCO_OK;
}

/* Which column each cell of a row is. */
struct header {
    size_t count;
    size_t index[REDCO_COLUMN_COUNT];
};

static redco_status read_header(const redcoi_csv *csv, uint32_t line, char *const *cells, size_t count,
                                struct header *header, redco_error *err)
{
    char place[512];
    bool present[REDCO_COLUMN_COUNT] = {false};
    (void)snprintf(place, sizeof place, "%s:%u", csv->name, line);
    if (count == 0) { return redco_fail(err, REDCO_EVALUE, csv->name, "is empty; a header line is needed"); }
    for (size_t i = 0; i < count; i++) {
        const size_t index = find_column(cells[i], strlen(cells[i]));
        if (index == REDCO_COLUMN_COUNT) {
            return redco_fail(err, REDCO_EVALUE, place, "there is no column \"%.60s\"; did you mean \"%s\"?", cells[i],
                              nearest_column(cells[i]));
        }
        if (present[index]) {
            return redco_fail(err, REDCO_EVALUE, place, "column %s stands twice", columns[index].name);
        }
        present[index] = true;
        header->index[i] = index;
    }
    for (size_t i = 0; i < REDCO_COLUMN_COUNT; i++) {
        if (columns[i].identifies && !present[i]) {
            return redco_fail(err, REDCO_EVALUE, place, "column %s is missing", columns[i].name);
        }
    }
    header->count = count;
    return REDCO_OK;
}

static redco_status read_row(const redcoi_csv *csv, const struct header *header, char *const *cells,
                             redco_measured_run *run, redco_error *err)
{
    for (size_t i = 0; i < header->count; i++) {
        const struct column *const column = &columns[header->index[i]];
        const struct cell cell = {csv->name, run->line, column, cells[i], err};
        if (cells[i][0] == '\0') {
            if (column->identifies) { return bad(&cell, "enough: this column cannot be empty"); }
            continue;
        }
        const redco_status st = read_cell(&cell, run);
        if (st != REDCO_OK) { return st; }
        set(run->known, header->index[i]);
    }
    if (run->tokens_per_s_per_gpu <= 0.0 && run->step_s > 0.0) {
        run->tokens_per_s_per_gpu = (double)run->global_batch * run->seq_len / (run->step_s * run->n_gpus);
    }
    redcoi_measured_check(run);
    return REDCO_OK;
}

static redco_status add_run(redco_measured *table, redco_measured_run **run_out, redco_error *err)
{
    if (table->count == MOST_ROWS) {
        return redco_fail(err, REDCO_EVALUE, table->name, "has more than %d rows, the most that are read", MOST_ROWS);
    }
    if (table->count == table->capacity) {
        const size_t capacity = table->capacity == 0 ? 64 : table->capacity * 2;
        redco_measured_run *const runs = realloc(table->runs, capacity * sizeof *runs);
        if (runs == NULL) { return redco_fail(err, REDCO_ENOMEM, table->name, "out of memory"); }
        table->runs = runs;
        table->capacity = capacity;
    }
    redco_measured_run *const run = &table->runs[table->count++];
    *run = (redco_measured_run){.no_reason = ""};
    for (size_t i = 0; i < REDCO_COLUMN_COUNT; i++) {
        static const char *const nothing = "";
        if (columns[i].kind == KIND_TEXT) { memcpy((char *)run + columns[i].offset, &nothing, sizeof nothing); }
    }
    *run_out = run;
    return REDCO_OK;
}

static redco_status read_table(redco_measured *table, size_t size, redco_error *err)
{
    redcoi_csv csv;
    char *cells[REDCO_COLUMN_COUNT + 1]; /* one too many can still be named */
    char place[512];
    size_t count = 0;
    uint32_t line = 0;
    struct header header = {.count = 0};
    redco_status st = redcoi_csv_start(table->text, size, table->name, &csv, err);
    if (st != REDCO_OK) { return st; }
    if ((st = redcoi_csv_next(&csv, cells, REDCO_COLUMN_COUNT + 1, &count, &line, err)) != REDCO_OK) { return st; }
    if ((st = read_header(&csv, line, cells, count, &header, err)) != REDCO_OK) { return st; }
    while ((st = redcoi_csv_next(&csv, cells, header.count + 1, &count, &line, err)) == REDCO_OK && count > 0) {
        redco_measured_run *run = NULL;
        if (count != header.count) {
            (void)snprintf(place, sizeof place, "%s:%u", table->name, line);
            return redco_fail(err, REDCO_EVALUE, place, "has %zu cells, the header %zu", count, header.count);
        }
        if ((st = add_run(table, &run, err)) != REDCO_OK) { return st; }
        run->line = line;
        if ((st = read_row(&csv, &header, cells, run, err)) != REDCO_OK) { return st; }
    }
    return st;
}

/* Takes @p text, which has a 0 byte behind its @p size bytes. */
static redco_status take(char *text, size_t size, const char *name, redco_measured **table_out, redco_error *err)
{
    redco_status st = REDCO_OK;
    redco_measured *table = calloc(1, sizeof *table);
    if (table == NULL) {
        free(text);
        return redco_fail(err, REDCO_ENOMEM, name, "out of memory");
    }
    table->text = text;
    table->name = strdup(name);
    if (table->name == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, name, "out of memory");
        goto out;
    }
    if ((st = read_table(table, size, err)) != REDCO_OK) { goto out; }
    *table_out = table;
    table = NULL; /* the caller owns it now */
out:
    redco_measured_free(table);
    return st;
}

redco_status redco_measured_parse(const char *text, size_t size, const char *name, redco_measured **table_out,
                                  redco_error *err)
{
    if (size > LARGEST_FILE_BYTES) {
        return redco_fail(err, REDCO_EVALUE, name, "larger than %d bytes, the most that is read here",
                          LARGEST_FILE_BYTES);
    }
    char *const copy = malloc(size + 1);
    if (copy == NULL) { return redco_fail(err, REDCO_ENOMEM, name, "out of memory"); }
    if (size > 0) { memcpy(copy, text, size); }
    copy[size] = '\0';
    return take(copy, size, name, table_out, err);
}

redco_status redco_measured_read(const char *path, redco_measured **table_out, redco_error *err)
{
    char *text = NULL;
    size_t size = 0;
    const redco_status st = redco_file_read(path, LARGEST_FILE_BYTES, &text, &size, err);
    if (st != REDCO_OK) { return st; }
    return take(text, size, strcmp(path, "-") == 0 ? "standard input" : path, table_out, err);
}

void redco_measured_free(redco_measured *table)
{
    if (table == NULL) { return; }
    free(table->runs);
    free(table->text);
    free(table->name);
    free(table);
}

size_t redco_measured_runs(const redco_measured *table, const redco_measured_run **runs_out)
{
    *runs_out = table->runs;
    return table->count;
}
