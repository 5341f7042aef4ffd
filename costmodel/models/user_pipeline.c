/* A user's pipeline as a model: parameters of any names and shapes, and how much work its graph is, as redco-plan
 * --pipeline writes them down. Its one layer is priced as one operator of all its operations, and one of what is read
 * and written beside them; only data parallelism is known of it. */
#include "costmodel/models/family.h"

#include <math.h>

enum { MOST_DIMENSIONS = 4, MOST_MODULES = 39 };
static const uint64_t most_elements = (uint64_t)1 << 40;
static const double most_work = 1e18;

static void read_parameter(redcoi_build *build, const redco_json_value *item)
{
    const char *name = NULL;
    redco_json_value list;
    uint64_t shape[MOST_DIMENSIONS] = {1}, elements = 1;
    size_t rank = 0;
    bool frozen = false;
    build->status = redco_json_string(item, "name", &name, build->err);
    if (redcoi_building(build)) { build->status = redco_json_array(item, "shape", &list, &rank, build->err); }
    if (redcoi_building(build) && json_object_get(item->json, "frozen") != NULL) {
        build->status = redco_json_bool(item, "frozen", &frozen, build->err);
    }
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
    redcoi_tensor(build, name, (uint32_t)rank, shape, frozen);
}

static void build_pipeline(redcoi_build *build)
{
    redco_model_dims *const dims = &build->model->dims;
    redco_json_value list;
    size_t count = 0;
    /* No layer has a size of its own: the numbers are those of one token, one head and one word. */
    *dims = (redco_model_dims){
        .hidden = 1, .ffn = 1, .layers = 1, .heads = 1, .kv_heads = 1, .head_dim = 1, .vocab = 1, .norm = dims->norm};
    redcoi_class(build, "block", REDCO_CLASS_BLOCK, 1);
    if (!redcoi_building(build)) { return; }
    build->status = redco_json_array(&build->config, "parameters", &list, &count, build->err);
    for (size_t i = 0; redcoi_building(build) && i < count; i++) {
        redco_json_value item;
        build->status = redco_json_element(&list, i, &item, build->err);
        if (redcoi_building(build)) { read_parameter(build, &item); }
    }
    if (redcoi_building(build) && build->model->classes[0].modules > MOST_MODULES) {
        redcoi_build_fail(build, "parameters", "have %u names up to the last dot, modules; at most %d are planned",
                          build->model->classes[0].modules, MOST_MODULES);
    }
    if (redcoi_building(build) && build->model->param_count == 0) {
        redcoi_build_fail(build, "parameters", "is empty; a pipeline has at least one");
    }
}

/* Work of an example, as the config says it. */
struct work {
    double flops, elements, kept;
};

static redco_status read_work(const redco_json_value *config, struct work *w, redco_error *err)
{
    const struct {
        const char *key;
        double *number;
    } keys[] = {{"flops", &w->flops}, {"elements", &w->elements}, {"kept_elements", &w->kept}};
    redco_status st = REDCO_OK;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && st == REDCO_OK; i++) {
        st = redco_json_number(config, keys[i].key, 0.0, most_work, keys[i].number, err);
    }
    return st;
}

/* Extents count in 32 bits: numbers are multiples of an axis that nothing else of the model has. */
static uint32_t unit_of(const struct work *w)
{
    const double most = fmax(fmax(w->flops, w->elements), w->kept);
    return (uint32_t)(most / 2147483648.0) + 1;
}

static redco_extent per_example(double count, uint32_t unit)
{
    redco_extent extent = {.factor = (uint32_t)ceil(fmax(count, 1.0) / unit)};
    extent.power[REDCO_AXIS_BATCH] = 1;
    extent.power[REDCO_AXIS_POSITIONS] = 1;
    return extent;
}

/* Products have one operator forward and one backward, as attention has: it is 4 operations of each of its elements and
 * keys, of which there is 1. */
static redco_status price(redco_model *model, redco_error *err)
{
    const redco_json_value config = redco_json_wrap(model->config, model->name);
    struct work w = {0.0, 0.0, 0.0};
    const redco_status st = read_work(&config, &w, err);
    if (st != REDCO_OK) { return st; }
    const uint32_t unit = unit_of(&w);
    redco_layer_group *const groups = model->groups[0];
    model->dims.max_positions = unit;
    groups[0] = (redco_layer_group){.role = REDCO_OP_ROLE_FFN_IN, .kind = REDCO_GROUP_ATTENTION, .part_count = 1};
    groups[0].parts[0] = per_example(w.flops / 4.0, unit);
    groups[1] = (redco_layer_group){
        .role = REDCO_OP_ROLE_ACTIVATION, .kind = REDCO_GROUP_MEMORY, .part_count = 1, .kept_count = 1};
    groups[1].parts[0] = per_example(w.elements, unit);
    groups[1].kept[0] = (redco_kept){per_example(w.kept, unit), true, REDCO_KEPT_ALWAYS};
    model->group_counts[0] = 2;
    return REDCO_OK;
}

const redcoi_family redcoi_family_pipeline = {.type = "pipeline",
                                              .dims = {.norm = REDCO_NORM_RMS},
                                              .build = build_pipeline,
                                              .price = price,
                                              .untrained = true,
                                              .unlisted = true};
