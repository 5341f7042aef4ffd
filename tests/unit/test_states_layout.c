/* Parts of random models that every rank holds: each element exactly once per replica, for every triple of meshes that
 * divide each other (more than planners choose), on meshes of 2 to 8 ranks. All ranks' layouts are made here, one by
 * one. */
#include "executor/states/from_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TENSORS = 24, MODULES = 12, LAYERS = 5, RANKS = 8, ELEMENTS = 4096 };

static const redco_mesh meshes[] = {{1, 2}, {2, 1}, {2, 2}, {2, 4}, {4, 2}, {8, 1}};
enum { MESHES = sizeof meshes / sizeof meshes[0] };

struct model {
    redco_state_tensor tensors[TENSORS];
    redco_state_module modules[MODULES];
    redco_state_layer layers[LAYERS];
    redco_state_model model;
};

static uint32_t draw(uint64_t *seed, uint32_t below)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*seed >> 33) % below;
}

/* One to three tensors a module, up to three modules a layer, the second layer empty. */
static void random_model(struct model *m, uint64_t seed)
{
    uint32_t tensors = 0, modules = 0;
    memset(m, 0, sizeof *m);
    for (uint32_t l = 0; l < LAYERS; l++) {
        m->layers[l] = (redco_state_layer){.name = "layer", .first_module = modules};
        const uint32_t count = l == 1 ? 0 : 1 + draw(&seed, 3);
        for (uint32_t i = 0; i < count && modules < MODULES && tensors + 3 <= TENSORS; i++) {
            m->modules[modules] = (redco_state_module){"module", tensors, 1 + draw(&seed, 3)};
            const bool frozen = draw(&seed, 3) == 0;
            for (uint32_t t = 0; t < m->modules[modules].tensor_count; t++) {
                const uint32_t size = draw(&seed, 4) == 0 ? 1 + draw(&seed, 5) : 1 + draw(&seed, 300);
                m->tensors[tensors++] = (redco_state_tensor){"tensor", size,  draw(&seed, 2) == 0, true,
                                                             frozen,   false, {.rate_factor = 0.0}};
            }
            modules++;
            m->layers[l].module_count++;
        }
    }
    m->model = (redco_state_model){m->layers, m->modules, m->tensors, LAYERS, modules, tensors, NULL};
}

static bool next_mesh(redco_mesh *mesh, redco_mesh dp)
{
    do {
        mesh->gpus++;
        if (mesh->gpus > dp.gpus) {
            mesh->gpus = 1;
            mesh->nodes++;
        }
    } while (mesh->nodes <= dp.nodes && !redco_mesh_nests(*mesh, dp));
    return mesh->nodes <= dp.nodes;
}

/* All triples that nest; @return false after the last. Starts from all 1x1. */
static bool next_shards(redco_shards *s, redco_mesh dp)
{
    do {
        if (next_mesh(&s->parameters, dp)) { continue; }
        s->parameters = (redco_mesh){1, 1};
        if (next_mesh(&s->gradients, dp)) { continue; }
        s->gradients = (redco_mesh){1, 1};
        if (!next_mesh(&s->optimizer, dp)) { return false; }
    } while (redco_shards_check((redco_rank_mesh){1, dp}, s, "test", NULL) != REDCO_OK);
    return true;
}

struct all {
    redco_layout *layouts[RANKS];
    uint32_t ranks;
};

static void make_all(struct all *all, const struct model *m, const redco_layout_options *options)
{
    all->ranks = (uint32_t)redco_rank_count(options->mesh);
    for (uint32_t r = 0; r < all->ranks; r++) {
        assert_int_equal(redco_layout_create(&m->model, options, r, &all->layouts[r], NULL), REDCO_OK);
    }
}

static void free_all(struct all *all)
{
    for (uint32_t r = 0; r < all->ranks; r++) { redco_layout_free(all->layouts[r]); }
}

enum kind { HELD, KEPT, OWNED };

static bool has(const redco_shard_slice *p, enum kind kind)
{
    return kind == HELD || (kind == KEPT ? p->gradient_at : p->owned_at) != REDCO_NOWHERE;
}

/* In each block of @p mesh all elements of the layer's tensors stand once; gradients and states of frozen ones nowhere.
 * Blocks are told apart by their first rank: written out here, not by the functions under test. */
static void check_once(const struct all *all, const struct model *m, uint32_t layer, redco_mesh mesh, redco_mesh dp,
                       enum kind kind)
{
    static unsigned char seen[RANKS][TENSORS][ELEMENTS / 8];
    memset(seen, 0, sizeof seen);
    for (uint32_t r = 0; r < all->ranks; r++) {
        const uint32_t gpu = r % dp.gpus, node = r / dp.gpus;
        const uint32_t block = (node / mesh.nodes) * (dp.gpus / mesh.gpus) + gpu / mesh.gpus;
        uint32_t count = 0;
        const redco_shard_slice *const slices = redco_layout_slices(all->layouts[r], layer, &count);
        for (uint32_t i = 0; i < count; i++) {
            for (uint64_t e = 0; e < slices[i].count && has(&slices[i], kind); e++) {
                unsigned char *const flag = &seen[block][slices[i].tensor][slices[i].begin + e];
                assert_int_equal(*flag, 0);
                *flag = 1;
            }
        }
    }
    const uint32_t blocks = all->ranks / (mesh.gpus * mesh.nodes);
    const redco_state_layer *const l = &m->layers[layer];
    for (uint32_t b = 0; b < blocks; b++) {
        for (uint32_t i = l->first_module; i < l->first_module + l->module_count; i++) {
            for (uint32_t t = m->modules[i].first_tensor; t < m->modules[i].first_tensor + m->modules[i].tensor_count;
                 t++) {
                const int want = kind != HELD && m->tensors[t].frozen ? 0 : 1;
                for (uint64_t e = 0; e < m->tensors[t].elements; e++) { assert_int_equal(seen[b][t][e], want); }
            }
        }
    }
}

/* Places inside, in order and apart; only @p granule - 1 elements lie between what stands one behind the other. */
static void check_places(const redco_layout *layout, uint32_t layer)
{
    const redco_layer_layout *const l = redco_layout_layer(layout, layer);
    uint64_t shard_end = 0, kept_end = 0, owned_end = 0;
    uint32_t count = 0;
    const redco_shard_slice *const slices = redco_layout_slices(layout, layer, &count);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(slices[i].count > 0 && slices[i].shard_at >= shard_end);
        shard_end = slices[i].shard_at + slices[i].count;
        if (has(&slices[i], KEPT)) {
            assert_true(slices[i].gradient_at >= kept_end);
            kept_end = slices[i].gradient_at + slices[i].count;
        }
        if (has(&slices[i], OWNED)) {
            assert_true(has(&slices[i], KEPT)); /* the rank that updates has the gradient */
            assert_true(slices[i].owned_at >= owned_end);
            owned_end = slices[i].owned_at + slices[i].count;
        }
    }
    assert_true(shard_end <= l->shard && kept_end <= l->gradients && owned_end <= l->owned);
}

/* A slice's place in the shard is its place in the whole module less where this rank's part begins. */
static void check_whole(const redco_layout *layout, uint32_t layer, redco_mesh parameters, redco_place place)
{
    const uint32_t position = place.gpu % parameters.gpus + parameters.gpus * (place.node % parameters.nodes);
    uint32_t count = 0;
    const redco_shard_slice *const slices = redco_layout_slices(layout, layer, &count);
    for (uint32_t i = 0; i < count; i++) {
        const redco_module_layout *const m =
            redco_layout_module(layout, redco_layout_module_of(layout, slices[i].tensor));
        const uint64_t in_whole = redco_layout_tensor_at(layout, slices[i].tensor) + slices[i].begin;
        assert_int_equal(in_whole, position * m->shard + slices[i].shard_at - m->shard_at);
        assert_true(in_whole + slices[i].count <= (position + 1) * m->shard && m->whole >= m->shard);
    }
}

/* Padding: of a module less than a granule per part and tensor, of a layer less than a granule per owner. */
static void check_padding(const redco_layout *layout, const struct model *m, uint32_t layer,
                          const redco_layout_options *o)
{
    const redco_state_layer *const l = &m->layers[layer];
    const uint64_t parts = redco_mesh_ranks(l->shards.parameters);
    const uint64_t owners = redco_mesh_ranks(l->shards.optimizer) / parts;
    uint64_t shards = 0;
    for (uint32_t i = l->first_module; i < l->first_module + l->module_count; i++) {
        const redco_state_module *const module = &m->modules[i];
        uint64_t elements = 0;
        for (uint32_t t = module->first_tensor; t < module->first_tensor + module->tensor_count; t++) {
            elements += m->tensors[t].elements;
        }
        const uint64_t shard = redco_layout_module(layout, i)->shard, gaps = module->tensor_count * o->tensor_granule;
        assert_true(shard * parts >= elements && shard * parts < elements + gaps + parts * (o->shard_granule + 1));
        shards += shard;
    }
    const redco_layer_layout *const all = redco_layout_layer(layout, layer);
    assert_true(all->shard >= shards && all->trained <= all->shard);
    assert_true(all->shard <= shards + owners * o->shard_granule + o->tensor_granule);
    if (o->scheme == REDCO_INTRA_TENSOR) {
        const redco_layer_layout *const out = redco_layout_layer(layout, layer);
        assert_int_equal(out->owned * owners, out->trained);
        assert_int_equal(out->gradients * (redco_mesh_ranks(l->shards.gradients) / parts), out->trained);
    }
}

/* All members of a group between parameters and optimizer say the same of who owns what. */
static void check_agreement(const struct all *all, uint32_t layer, const redco_shards *s)
{
    const redco_between owners = {s->parameters, s->optimizer};
    for (uint32_t r = 0; r < all->ranks; r++) {
        const redco_place place = redco_layout_place(all->layouts[r]);
        const uint32_t first =
            redco_rank_at(redco_layout_mesh(all->layouts[r]), redco_between_member(owners, place, 0));
        uint32_t count = 0, other_count = 0;
        const redco_shard_slice *const slices = redco_layout_slices(all->layouts[r], layer, &count);
        const redco_shard_slice *const other = redco_layout_slices(all->layouts[first], layer, &other_count);
        assert_int_equal(count, other_count);
        for (uint32_t i = 0; i < count; i++) {
            assert_true(slices[i].owner == other[i].owner && slices[i].shard_at == other[i].shard_at);
            const bool frozen = redco_layout_model(all->layouts[r])->tensors[slices[i].tensor].frozen;
            const bool own = !frozen && slices[i].owner == redco_between_position(owners, place);
            assert_int_equal(has(&slices[i], OWNED), own);
        }
    }
}

/* List scheduling (Graham 1969): the fullest has at most the mean and one more slice. */
static void check_balance(const struct all *all, const struct model *m, const redco_shards *s)
{
    const redco_between owners = {s->parameters, s->optimizer};
    for (uint32_t r = 0; r < all->ranks; r++) {
        uint64_t own = 0, held = 0, largest = 0;
        for (uint32_t l = 0; l < LAYERS; l++) {
            uint32_t count = 0;
            const redco_shard_slice *const slices = redco_layout_slices(all->layouts[r], l, &count);
            for (uint32_t i = 0; i < count; i++) {
                if (m->tensors[slices[i].tensor].frozen) { continue; }
                held += slices[i].count;
                own += has(&slices[i], OWNED) ? slices[i].count : 0;
                largest = slices[i].count > largest ? slices[i].count : largest;
            }
        }
        assert_true(own <= held / redco_between_size(owners) + largest);
    }
}

static void check_shards(const struct model *m, const redco_layout_options *options, bool uniform)
{
    struct all all;
    make_all(&all, m, options);
    for (uint32_t l = 0; l < LAYERS; l++) {
        const redco_shards *const s = &m->layers[l].shards;
        check_once(&all, m, l, s->parameters, options->mesh.dp, HELD);
        check_once(&all, m, l, s->gradients, options->mesh.dp, KEPT);
        check_once(&all, m, l, s->optimizer, options->mesh.dp, OWNED);
        check_agreement(&all, l, s);
        for (uint32_t r = 0; r < all.ranks; r++) {
            check_places(all.layouts[r], l);
            check_whole(all.layouts[r], l, s->parameters, redco_layout_place(all.layouts[r]));
            check_padding(all.layouts[r], m, l, options);
        }
    }
    if (uniform && options->scheme == REDCO_INTER_TENSOR) { check_balance(&all, m, &m->layers[0].shards); }
    free_all(&all);
}

static const redco_shards replicated = {{1, 1}, {1, 1}, {1, 1}};

static void every_element_once(void **state)
{
    (void)state;
    uint32_t triples = 0;
    uint64_t seed = 1;
    for (size_t i = 0; i < MESHES; i++) {
        redco_shards shards = replicated;
        do {
            struct model m;
            random_model(&m, ++seed);
            for (uint32_t l = 0; l < LAYERS; l++) { m.layers[l].shards = shards; }
            for (int scheme = 0; scheme < 2; scheme++) {
                const bool tight = draw(&seed, 2) == 0;
                const redco_layout_options options = {.mesh = {1, meshes[i]},
                                                      .secondary = {draw(&seed, 2), 1},
                                                      .scheme = scheme == 0 ? REDCO_INTER_TENSOR : REDCO_INTRA_TENSOR,
                                                      .tensor_granule = tight ? 1 : 128,
                                                      .shard_granule = tight ? 1 : 8};
                redco_layout_options o = options;
                if (o.secondary.gpus == 0) { o.secondary.nodes = 0; }
                check_shards(&m, &o, true);
            }
            triples++;
        } while (next_shards(&shards, meshes[i]));
    }
    print_message("%u triples of meshes\n", triples);
}

static void layers_of_different_meshes(void **state)
{
    (void)state;
    uint64_t seed = 77;
    for (int round = 0; round < 60; round++) {
        const redco_mesh dp = meshes[draw(&seed, MESHES)];
        struct model m;
        random_model(&m, seed);
        for (uint32_t l = 0; l < LAYERS; l++) {
            m.layers[l].shards = replicated;
            for (uint32_t skip = draw(&seed, 40); skip > 0; skip--) {
                if (!next_shards(&m.layers[l].shards, dp)) { m.layers[l].shards = replicated; }
            }
        }
        const redco_layout_options options = {.mesh = {1, dp},
                                              .scheme = round % 2 == 0 ? REDCO_INTER_TENSOR : REDCO_INTRA_TENSOR,
                                              .tensor_granule = 4,
                                              .shard_granule = 2};
        check_shards(&m, &options, false);
    }
}

/* tp 2, dp 2 GPUs x 3 nodes, by hand: rank = tp + 2 (gpu + 2 node). */
static void ranks_by_hand(void **state)
{
    (void)state;
    const redco_rank_mesh mesh = {2, {2, 3}};
    const redco_place nine = redco_place_of(mesh, 9);
    assert_true(nine.tp == 1 && nine.gpu == 0 && nine.node == 2);
    assert_int_equal(redco_rank_at(mesh, nine), 9);
    assert_int_equal(redco_mesh_position((redco_mesh){2, 3}, nine), 4);
    assert_int_equal(redco_mesh_position((redco_mesh){2, 1}, nine), 0);
    const redco_between nodes = {{2, 1}, {2, 3}}; /* same GPU of every node: ranks 1, 5, 9 */
    assert_int_equal(redco_between_size(nodes), 3);
    assert_int_equal(redco_between_position(nodes, nine), 2);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(redco_rank_at(mesh, redco_between_member(nodes, nine, i)), 1 + 4 * i);
        assert_int_equal(redco_between_colour(mesh, nodes, 1 + 4 * i), redco_between_colour(mesh, nodes, 9));
    }
    assert_int_not_equal(redco_between_colour(mesh, nodes, 0), redco_between_colour(mesh, nodes, 9));
    assert_int_not_equal(redco_between_colour(mesh, nodes, 3), redco_between_colour(mesh, nodes, 9));
    assert_int_equal(redco_tp_colour(mesh, 8), redco_tp_colour(mesh, 9));
}

/* A weight of 10 and a bias of 3 in shards of 4, granules 1, on 4 GPUs: wholes of 13 elements in parts of 4 (16).
 * Rank 2 has elements 8 to 11: the weight's 8 and 9, the bias' 0 and 1. */
static void shards_by_hand(void **state)
{
    (void)state;
    const redco_state_tensor tensors[] = {{"w", 10, false, true, false, false, {.rate_factor = 0.0}},
                                          {"b", 3, false, false, false, false, {.rate_factor = 0.0}}};
    const redco_state_module modules[] = {{"linear", 0, 2}};
    const redco_mesh four = {4, 1};
    const redco_state_layer layers[] = {{"block.0", {four, four, four}, 0, 1, .assigned = false}};
    const redco_state_model model = {layers, modules, tensors, 1, 1, 2, NULL};
    const redco_layout_options options = {
        .mesh = {1, four}, .scheme = REDCO_INTER_TENSOR, .tensor_granule = 1, .shard_granule = 1};
    redco_layout *layout = NULL;
    uint32_t count = 0;
    assert_int_equal(redco_layout_create(&model, &options, 2, &layout, NULL), REDCO_OK);
    const redco_shard_slice *const slices = redco_layout_slices(layout, 0, &count);
    assert_int_equal(count, 2);
    assert_true(slices[0].tensor == 0 && slices[0].begin == 8 && slices[0].count == 2 && slices[0].shard_at == 0);
    assert_true(slices[1].tensor == 1 && slices[1].begin == 0 && slices[1].count == 2 && slices[1].shard_at == 2);
    assert_int_equal(redco_layout_sizes(layout).parameters, 4);
    assert_int_equal(redco_layout_sizes(layout).whole, 16);
    redco_layout_free(layout);
}

static void refuse(const redco_state_model *model, const redco_layout_options *options, uint32_t rank,
                   const char *place, const char *text)
{
    redco_error err = {.status = REDCO_OK};
    redco_layout *layout = NULL;
    assert_int_equal(redco_layout_create(model, options, rank, &layout, &err), REDCO_EVALUE);
    assert_null(layout);
    assert_string_equal(err.place, place);
    if (strstr(err.text, text) == NULL) { fail_msg("\"%s\" does not say \"%s\"", err.text, text); }
}

static void bad_input(void **state)
{
    (void)state;
    redco_state_tensor tensors[] = {{"w", 10, false, true, false, false, {.rate_factor = 0.0}},
                                    {"b", 3, false, false, false, false, {.rate_factor = 0.0}}};
    redco_state_module modules[] = {{"linear", 0, 2}};
    redco_state_layer layers[] = {{"block.0", {{1, 1}, {1, 1}, {2, 1}}, 0, 1, .assigned = false}};
    redco_state_model model = {layers, modules, tensors, 1, 1, 2, NULL};
    redco_layout_options options = {.mesh = {1, {2, 2}}, .scheme = REDCO_INTER_TENSOR};
    refuse(&model, &options, 4, "states", "rank 4 of a mesh of 4");
    layers[0].shards.gradients = (redco_mesh){1, 2};
    refuse(&model, &options, 0, "block.0", "gradients 1x2 must divide optimizer 2x1");
    layers[0].shards.gradients = (redco_mesh){0, 1};
    refuse(&model, &options, 0, "block.0", "must divide gradients 0x1");
    layers[0].shards.gradients = (redco_mesh){1, 1};
    options.secondary = (redco_mesh){2, 3};
    refuse(&model, &options, 0, "states", "secondary 2x3 must divide dp 2x2");
    options.secondary = (redco_mesh){0, 0};
    options.mesh.dp.nodes = UINT32_MAX;
    refuse(&model, &options, 0, "states", "must have 1 to 65536 ranks");
    options.mesh.dp.nodes = 2;
    tensors[1].elements = 0;
    refuse(&model, &options, 0, "b", "has 0 elements");
    tensors[1].elements = UINT64_MAX;
    refuse(&model, &options, 0, "b", "2^52");
    tensors[1].elements = 3;
    modules[0].tensor_count = 1;
    refuse(&model, &options, 0, "states", "modules 1 of 2 tensors");
    modules[0].tensor_count = UINT32_MAX;
    refuse(&model, &options, 0, "states", "in order");
    modules[0].tensor_count = 2;
    layers[0].module_count = 2;
    refuse(&model, &options, 0, "states", "layers hold 0 of 1 modules");
}

static void plans(void **state)
{
    (void)state;
    redco_plan_layers rows[] = {{.class_name = "embedding", .shards = {{1, 1}, {1, 1}, {2, 1}}},
                                {.class_name = "block", .last_layer = 2, .shards = {{1, 1}, {1, 1}, {2, 1}}},
                                {.class_name = "block",
                                 .first_layer = 3,
                                 .last_layer = 11,
                                 .shards = {{2, 1}, {2, 1}, {2, 3}},
                                 .recompute = REDCO_RECOMPUTE_FULL}};
    redco_plan plan = {
        .parallelism =
            {.tp = 2, .pp = 1, .cp = 1, .ep = 1, .dp = {2, 3}, .secondary = {2, 1}, .scheme = REDCO_INTRA_TENSOR},
        .layers = rows,
        .layers_count = 3};
    static const char *const wrong[] = {"block.12",
                                        "block",
                                        "block.",
                                        "block.x",
                                        "block.-1",
                                        "blocks.1",
                                        "lock.1",
                                        ".1",
                                        "",
                                        "block.1x",
                                        "block.99999999999999999999"};
    const redco_layout_options options = redco_layout_options_from_plan(&plan);
    const redco_plan_layers *row = NULL;
    redco_error err = {.status = REDCO_OK};
    assert_true(options.mesh.tp == 2 && options.mesh.dp.gpus == 2 && options.mesh.dp.nodes == 3);
    assert_true(options.secondary.gpus == 2 && options.scheme == REDCO_INTRA_TENSOR);
    assert_int_equal(redco_plan_layer(&plan, "block.2", &row, &err), REDCO_OK);
    assert_ptr_equal(row, &rows[1]);
    assert_int_equal(redco_plan_layer(&plan, "block.3", &row, &err), REDCO_OK);
    assert_ptr_equal(row, &rows[2]);
    assert_int_equal(redco_plan_layer(&plan, "embedding.0", &row, &err), REDCO_OK);
    assert_ptr_equal(row, &rows[0]);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(redco_plan_layer(&plan, wrong[i], &row, NULL), REDCO_EVALUE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_by_hand),      cmocka_unit_test(shards_by_hand),
        cmocka_unit_test(every_element_once), cmocka_unit_test(layers_of_different_meshes),
        cmocka_unit_test(bad_input),          cmocka_unit_test(plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
