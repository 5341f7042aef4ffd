/* A user's pipeline as a model: parameters of any names and shapes, and the work of its loss graph and gradients
 * (graph_work.h), as redco-plan --pipeline writes them down. All of it is one layer, whose modules are gathered and
 * whose gradients are scattered at once. */
#include "costmodel/models/family.h"

#include <string.h>

enum { MOST_DIMENSIONS = 4, MOST_MODULES = UINT16_MAX, MOST_LOG = 32 };
static const uint64_t most_elements = (uint64_t)1 << 40;

static void read_passes(redcoi_build *build, const redco_json_value *item, const char *key, uint8_t *passes_io)
{
    const char *word = NULL;
    if (!redcoi_building(build) || !redco_json_has(item, key)) { return; }
    build->status = redco_json_string(item, key, &word, build->err);
    if (!redcoi_building(build)) { return; }
    for (int i = REDCO_IN_FORWARD; i <= REDCO_IN_BOTH; i++) {
        if (strcmp(word, redco_passes_words[i]) == 0) {
            *passes_io = (uint8_t)i;
            return;
        }
    }
    build->status = redco_json_fail(item, key, build->err, "\"%.40s\" is none of forward, backward, both", word);
}

static void read_parameter(redcoi_build *build, const redco_json_value *item)
{
    const char *name = NULL;
    redco_json_value list;
    uint64_t shape[MOST_DIMENSIONS] = {1}, elements = 1;
    size_t rank = 0;
    redcoi_tensor_kind kind = {.gradient_in = REDCO_IN_BACKWARD};
    build->status = redco_json_string(item, "name", &name, build->err);
    if (redcoi_building(build)) { build->status = redco_json_array(item, "shape", &list, &rank, build->err); }
    if (redcoi_building(build) && redco_json_has(item, "table")) {
        build->status = redco_json_bool(item, "table", &kind.table, build->err);
    }
    if (redcoi_building(build) && redco_json_has(item, "frozen")) {
        build->status = redco_json_bool(item, "frozen", &kind.frozen, build->err);
    }
    if (redcoi_building(build) && redco_json_has(item, "assigned")) {
        build->status = redco_json_bool(item, "assigned", &kind.assigned, build->err);
    }
    read_passes(build, item, "gradient_in", &kind.gradient_in);
    if (!redcoi_building(build)) { return; }
    if (rank == 0 || rank > MOST_DIMENSIONS) {
        build->status =
            redco_json_fail(item, "shape", build->err, "has %zu dimensions; 1 to %d are read", rank, MOST_DIMENSIONS);
        return;
    }
    for (size_t i = 0; i < rank; i++) {
        const json_int_t size = json_integer_value(json_array_get(list.json, i));
        if (size <= 0 || !redco_mul_u64(elements, (uint64_t)size, &elements) || elements > most_elements) {
            build->status = redco_json_fail(item, "shape", build->err, "is no shape of 1 to 2^40 elements");
            return;
        }
        shape[i] = (uint64_t)size;
    }
    redcoi_tensor(build, name, (uint32_t)rank, shape, kind);
}

static uint32_t largest_degree(const redco_graph_work *work)
{
    uint32_t largest = 1;
    for (uint32_t d = 0; d < work->degree_count; d++) {
        if (work->degrees[d].tp > largest) { largest = work->degrees[d].tp; }
    }
    return largest;
}

/* Notes the tensors that each degree cuts. */
static void note_splits(redcoi_build *build)
{
    redco_model *const model = build->model;
    for (uint32_t d = 0; d < model->work->degree_count; d++) {
        const redco_degree_work *const degree = &model->work->degrees[d];
        uint32_t log = 0;
        while (log < MOST_LOG - 1 && UINT32_C(1) << log < degree->tp) { log++; }
        if (UINT32_C(1) << log != degree->tp) {
            redcoi_build_fail(build, "degrees", "has tp %u; powers of two are laid out", degree->tp);
            return;
        }
        for (size_t i = 0; i < model->param_count && degree->tp > 1; i++) {
            redco_param *const param = &model->params[i];
            const int32_t dim = degree->splits[i];
            if (dim >= 0 && ((uint32_t)dim >= param->rank || param->shape[dim] % degree->tp != 0)) {
                redcoi_build_fail(build, "degrees",
                                  "splits dimension %d of %.80s among %u ranks, which does not divide", dim,
                                  param->name, degree->tp);
                return;
            }
            if ((dim >= 0) != (param->rank >= 2)) { param->odd_degrees |= UINT32_C(1) << log; }
        }
    }
}

static void build_pipeline(redcoi_build *build)
{
    redco_model *const model = build->model;
    redco_json_value list;
    size_t count = 0;
    redcoi_class(build, "block", REDCO_CLASS_BLOCK, 1);
    redcoi_order_alone(build);
    if (!redcoi_building(build)) { return; }
    build->status = redco_json_array(&build->config, "parameters", &list, &count, build->err);
    for (size_t i = 0; redcoi_building(build) && i < count; i++) {
        redco_json_value item;
        build->status = redco_json_element(&list, i, &item, build->err);
        if (redcoi_building(build)) { read_parameter(build, &item); }
    }
    if (redcoi_building(build) && model->classes[0].modules > MOST_MODULES) {
        redcoi_build_fail(build, "parameters", "have %u names up to the last dot, modules; at most %d are planned",
                          model->classes[0].modules, MOST_MODULES);
    }
    if (redcoi_building(build) && model->param_count == 0) {
        redcoi_build_fail(build, "parameters", "is empty; a pipeline has at least one");
    }
    if (redcoi_building(build)) {
        build->status = redco_graph_work_read(&build->config, model->param_count, &model->work, build->err);
    }
    if (redcoi_building(build)) {
        model->optimizer_states = model->work->optimizer_states;
        note_splits(build);
    }
    /* No layer has a size of its own: the numbers are those of one token, and of as many heads as ranks may have. */
    const uint32_t heads = redcoi_building(build) ? largest_degree(model->work) : 1;
    model->dims = (redco_model_dims){.hidden = 1,
                                     .ffn = 1,
                                     .layers = 1,
                                     .heads = heads,
                                     .kv_heads = heads,
                                     .head_dim = 1,
                                     .vocab = 1,
                                     .norm = model->dims.norm};
}

static redco_status price(redco_model *model, redco_error *err)
{
    (void)err;
    model->works[0].listed = model->work;
    return REDCO_OK;
}

/* A user's graph is laid out for some numbers of ranks, and may be one of a single micro-batch. */
static redco_status check_rank(const redco_model *model, uint32_t tp, uint32_t micro_batch, bool sequence_parallel,
                               redco_error *err)
{
    const uint32_t examples = model->work->examples;
    if (redco_graph_work_of(model->work, tp) == NULL) {
        return redco_fail(err, REDCO_EVALUE, "tp", "%u ranks: the graph of %s is not laid out for them", tp,
                          model->name);
    }
    if (examples > 0 && micro_batch != examples) {
        return redco_fail(err, REDCO_EVALUE, "micro-batch", "%u: the graph of %s is one of %u examples", micro_batch,
                          model->name, examples);
    }
    if (sequence_parallel) {
        return redco_fail(err, REDCO_EVALUE, "sequence parallelism", "%s is a pipeline: its examples are not sequences",
                          model->name);
    }
    return REDCO_OK;
}

const redcoi_family redcoi_family_pipeline = {.type = "pipeline",
                                              .dims = {.norm = REDCO_NORM_RMS},
                                              .build = build_pipeline,
                                              .price = price,
                                              .check_rank = check_rank,
                                              .untrained = true,
                                              .unlisted = true};
