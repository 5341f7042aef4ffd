/* Every field of a plan, as planner/plan/plan.schema.json has them, in every export: carried, named as dropped with its
 * price, or of no concern. The table is tests/data/exports/fields.txt. */
#include "export_fixture.h"

#include <jansson.h>
#include <stdio.h>

enum { MOST_LINES = 256, MOST_LEAVES = 256, COLUMNS = 2 + REDCO_FRAMEWORK_COUNT, TEXT = 512 };

/** A line of the table: pointer, change, and a cell for each framework. */
struct line {
    char cells[COLUMNS][TEXT];
    bool may_lack; /**< the schema may not have it */
    bool below;    /**< and all below */
    bool used;
    int number;
};

struct table {
    struct line lines[MOST_LINES];
    size_t count;
};

static char *trimmed(char *text)
{
    text += strspn(text, " \t");
    for (size_t n = strlen(text); n > 0 && strchr(" \t\r\n", text[n - 1]) != NULL; n--) { text[n - 1] = '\0'; }
    return text;
}

static void table_read(struct table *table)
{
    char text[4096];
    int number = 0;
    FILE *file = fopen(REDCO_TEST_DATA "/exports/fields.txt", "r");
    assert_non_null(file);
    while (fgets(text, sizeof text, file) != NULL) {
        char *rest = trimmed(text);
        number++;
        if (rest[0] == '#' || rest[0] == '\0') { continue; }
        assert_true(table->count < MOST_LINES);
        struct line *line = &table->lines[table->count++];
        line->number = number;
        line->may_lack = rest[0] == '+';
        if (line->may_lack) { rest++; }
        for (int i = 0; i < COLUMNS; i++) {
            char *cell = strsep(&rest, "|");
            if (cell == NULL) {
                fail_msg("line %d has %d cells, not %d", number, i, COLUMNS);
                return;
            }
            (void)snprintf(line->cells[i], TEXT, "%s", trimmed(cell));
        }
        if (rest != NULL) { fail_msg("line %d has more than %d cells", number, COLUMNS); }
        const size_t length = strlen(line->cells[0]);
        line->below = length > 3 && strcmp(line->cells[0] + length - 3, "/**") == 0;
        if (line->below) { line->cells[0][length - 2] = '\0'; } /* keeps the slash */
    }
    (void)fclose(file);
}

/** Pointers of all properties of a schema that have none below them. */
struct leaves {
    const json_t *schema;
    char *pointers[MOST_LEAVES];
    size_t count;
};

static void add_leaves(struct leaves *leaves, const char *pointer, const json_t *at);

static void add_member(struct leaves *leaves, const char *pointer, const char *key, const json_t *at)
{
    char longer[TEXT];
    (void)snprintf(longer, sizeof longer, "%s/%s", pointer, key);
    add_leaves(leaves, longer, at);
}

static const json_t *resolved(const struct leaves *leaves, const json_t *at)
{
    const char *target = json_string_value(json_object_get(at, "$ref"));
    if (target == NULL || strncmp(target, "#/$defs/", 8) != 0) { return at; } /* another file's: one leaf */
    const json_t *found = json_object_get(json_object_get(leaves->schema, "$defs"), target + 8);
    assert_non_null(found);
    return found;
}

static void add_leaves(struct leaves *leaves, const char *pointer, const json_t *at)
{
    const char *key = NULL;
    json_t *member = NULL;
    size_t i = 0;
    at = resolved(leaves, at);
    const json_t *either = json_object_get(at, "oneOf");
    for (i = 0; i < json_array_size(either); i++) { /* compares members that are not null */
        const json_t *one = resolved(leaves, json_array_get(either, i));
        if (json_object_get(one, "properties") != NULL) { at = one; }
    }
    const json_t *properties = json_object_get(at, "properties");
    const json_t *items = json_object_get(at, "items");
    const bool open = json_is_object(json_object_get(at, "additionalProperties"));
    if (properties != NULL) {
        json_object_foreach((json_t *)(uintptr_t)properties, key, member)
        {
            add_member(leaves, pointer, key, member);
        }
    } else if (open) {
        json_array_foreach(json_object_get(at, "required"), i, member)
        {
            add_member(leaves, pointer, json_string_value(member), json_object_get(at, "additionalProperties"));
        }
    } else if (items != NULL && json_object_get(resolved(leaves, items), "properties") != NULL) {
        add_member(leaves, pointer, "*", items);
    } else {
        assert_true(leaves->count < MOST_LEAVES);
        leaves->pointers[leaves->count++] = strdup(pointer);
    }
}

static bool is_for(const struct line *line, const char *pointer)
{
    const char *own = line->cells[0];
    return line->below ? strncmp(pointer, own, strlen(own)) == 0 : strcmp(pointer, own) == 0;
}

/* No field of the schema without a line, no line without a field. */
static void every_field_has_a_line(void **state)
{
    struct table *table = *state;
    json_error_t why;
    json_t *schema = json_load_file(REDCO_PLAN_SCHEMA, 0, &why);
    struct leaves leaves = {.schema = schema};
    int missing = 0;
    if (schema == NULL) { fail_msg("%s: %s", REDCO_PLAN_SCHEMA, why.text); }
    add_leaves(&leaves, "", schema);
    assert_true(leaves.count > 60);
    for (size_t i = 0; i < leaves.count; i++) {
        bool found = false;
        for (size_t k = 0; k < table->count; k++) {
            if (!is_for(&table->lines[k], leaves.pointers[i])) { continue; }
            found = true;
            table->lines[k].used = true;
        }
        if (!found) { print_error("no line of fields.txt is for %s\n", leaves.pointers[i]); }
        missing += !found;
        free(leaves.pointers[i]);
    }
    for (size_t k = 0; k < table->count; k++) {
        if (!table->lines[k].used && !table->lines[k].may_lack) {
            print_error("fields.txt:%d: the schema has no %s\n", table->lines[k].number, table->lines[k].cells[0]);
            missing++;
        }
    }
    json_decref(schema);
    assert_int_equal(missing, 0);
}

static int word_index(const char *const *words, const char *word)
{
    for (int i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], word) == 0) { return i; }
    }
    fail_msg("no word %s", word);
    return -1;
}

static redco_mesh mesh_of(const char *text)
{
    redco_mesh mesh = {0, 0};
    assert_int_equal(sscanf(text, "%ux%u", &mesh.gpus, &mesh.nodes), 2);
    return mesh;
}

/* Compares what is said before the search. @return false when it is said about the plan */
static bool set_option(redco_search_options *o, redco_input_names *names, uint64_t *gpus, const char *key,
                       const char *value)
{
    const unsigned long n = strtoul(value, NULL, 10);
    if (strcmp(key, "model") == 0) {
        names->model = value;
    } else if (strcmp(key, "cluster") == 0) {
        names->cluster = value;
    } else if (strcmp(key, "gpus") == 0) {
        *gpus = n;
    } else if (strcmp(key, "tp") == 0) {
        o->given.tp = (uint32_t)n;
    } else if (strcmp(key, "pp") == 0) {
        o->given.pp = (uint32_t)n;
    } else if (strcmp(key, "cp") == 0) {
        o->given.cp = (uint32_t)n;
    } else if (strcmp(key, "cp_type") == 0) {
        o->cp_types = 1U << n;
        o->stated |= REDCO_STATES(REDCO_OF_CP_TYPE);
    } else if (strcmp(key, "chunks") == 0) {
        o->given.chunks = (uint32_t)n;
    } else if (strcmp(key, "micro") == 0) {
        o->given.micro_batch = (uint32_t)n;
    } else if (strcmp(key, "batch") == 0) {
        o->workload.global_batch = n;
    } else if (strcmp(key, "seq") == 0) {
        o->workload.seq_len = (uint32_t)n;
    } else if (strcmp(key, "overlap") == 0) {
        o->workload.overlap = (uint32_t)n;
    } else if (strcmp(key, "sp") == 0) {
        o->sequence_parallel = n != 0 ? REDCO_ON : REDCO_OFF;
    } else if (strcmp(key, "bucket") == 0) {
        o->workload.bucket_bytes = (uint64_t)strtod(value, NULL);
    } else if (strcmp(key, "recompute") == 0) {
        bool half = false;
        assert_true(redco_recompute_parse(value, &o->recompute, &half) && !half);
    } else if (strcmp(key, "precision") == 0) {
        o->workload.precision = (redco_precision)word_index(redco_precision_words, value);
    } else if (strcmp(key, "scheme") == 0) {
        o->stated |= REDCO_STATES(REDCO_OF_SCHEME);
        o->given.scheme = (redco_scheme)word_index(redco_scheme_words, value);
    } else if (strcmp(key, "strategy") == 0) {
        assert_true(redco_strategy_parse(value, &o->strategy));
    } else if (strcmp(key, "p") == 0) {
        o->fix.parameters = mesh_of(value);
    } else if (strcmp(key, "g") == 0) {
        o->fix.gradients = mesh_of(value);
    } else if (strcmp(key, "os") == 0) {
        o->fix.optimizer = mesh_of(value);
    } else {
        return false;
    }
    return true;
}

/* "a,b,c" in pieces. */
static uint32_t split(const char *value, char **pieces, uint32_t most)
{
    char *copy = strdup(value);
    char *rest = copy;
    uint32_t count = 0;
    for (char *piece = strsep(&rest, ","); piece != NULL; piece = strsep(&rest, ",")) {
        assert_true(count < most);
        pieces[count++] = strdup(piece);
    }
    free(copy);
    return count;
}

static void set_hosts(redco_plan *plan, const char *value)
{
    plan->hosts = calloc(64, sizeof *plan->hosts);
    assert_non_null(plan->hosts);
    plan->hosts_count = split(value, plan->hosts, 64);
}

static void set_gpu_order(redco_plan *plan, const char *value)
{
    char *pieces[64];
    const uint32_t count = split(value, pieces, 64);
    plan->gpu_order = calloc(count, sizeof *plan->gpu_order);
    assert_non_null(plan->gpu_order);
    assert_int_equal(count, plan->gpus_per_node);
    for (uint32_t i = 0; i < count; i++) {
        plan->gpu_order[i] = (uint32_t)strtoul(pieces[i], NULL, 10);
        free(pieces[i]);
    }
}

static void set_placement(struct planned *p, const char *value)
{
    free(p->plan->tp_placement);
    p->plan->tp_placement = strdup(value);
    p->reopened.tp_placement = (redco_tp_placement)word_index(redco_tp_placement_words, value);
}

/* Compares what is said about the plan that was found. */
static void set_in_plan(struct planned *p, const char *key, const char *value)
{
    const uint32_t n = (uint32_t)strtoul(value, NULL, 10);
    redco_engine *engine = &p->reopened.workload.engine;
    redco_plan_rule *rule = p->plan->rules;
    if (strcmp(key, "hosts") == 0) {
        set_hosts(p->plan, value);
    } else if (strcmp(key, "gpu_order") == 0) {
        set_gpu_order(p->plan, value);
    } else if (strcmp(key, "hosts_per_node") == 0) {
        p->plan->hosts_per_node = n;
    } else if (strcmp(key, "placement") == 0) {
        set_placement(p, value);
    } else if (strcmp(key, "schedule") == 0) {
        p->reopened.parallelism.schedule = (redco_pipeline_kind)word_index(redco_pipeline_words, value);
    } else if (strcmp(key, "group") == 0) {
        p->reopened.parallelism.group = n;
    } else if (strcmp(key, "split") == 0) {
        static const uint32_t split[] = {15, 17};
        p->reopened.parallelism.split = split;
    } else if (strcmp(key, "rule_match") == 0) {
        free(rule->match);
        rule->match = strdup(value);
    } else if (strcmp(key, "rule_dim") == 0) {
        rule->dim = (int32_t)n;
    } else if (strcmp(key, "rule_unit") == 0) {
        rule->unit = n;
    } else if (strcmp(key, "rule_parts") == 0) {
        rule->parts = n;
    } else if (strcmp(key, "attention") == 0) {
        engine->attention = (redco_attention)n;
    } else if (strcmp(key, "optimizer") == 0) {
        engine->optimizer = (redco_engine_optimizer)n;
    } else if (strcmp(key, "offload") == 0) {
        engine->offload = (redco_offload)n;
    } else if (strcmp(key, "gemm_format") == 0) {
        engine->gemm_format = (redco_gemm_format)n;
    } else if (strcmp(key, "gradient_bytes") == 0) {
        engine->gradient_bytes = n;
    } else {
        const struct {
            const char *key;
            bool *flag;
        } flags[] = {{"layer_units", &engine->layer_units},
                     {"shard_over_cp", &engine->shard_over_cp},
                     {"no_masters", &engine->no_masters},
                     {"plain_norm", &engine->plain_norm},
                     {"compiled", &engine->compiled},
                     {"fused_loss", &engine->fused_loss},
                     {"contiguous_context", &engine->contiguous_context},
                     {"cuda_graphs", &engine->cuda_graphs},
                     {"planned_memory", &engine->planned_memory},
                     {"logits_gathered", &engine->logits_gathered},
                     {"async_tp", &engine->async_tp},
                     {"partial_recompute", &engine->partial_recompute}};
        bool known = false;
        for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
            if (strcmp(flags[i].key, key) != 0) { continue; }
            *flags[i].flag = n != 0;
            known = true;
        }
        if (!known) { fail_msg("fields.txt: no key %s", key); }
    }
}

/* A plan as one side of a change says. */
static void open_side(const char *side, struct planned *out)
{
    char copy[TEXT];
    char *keys[16];
    char *values[16];
    size_t count = 0;
    bool done[16] = {false};
    redco_search_options options = defaults();
    redco_input_names names = {.model = "llama-7b"};
    uint64_t gpus = 64;
    char *rest = copy;
    (void)snprintf(copy, sizeof copy, "%s", side);
    options.given.tp = 1;
    for (char *word = strsep(&rest, " "); word != NULL; word = strsep(&rest, " ")) {
        if (word[0] == '\0') { continue; }
        assert_true(count < 16);
        values[count] = strchr(word, '=');
        assert_non_null(values[count]);
        *values[count]++ = '\0';
        keys[count++] = word;
    }
    for (size_t i = 0; i < count; i++) { done[i] = set_option(&options, &names, &gpus, keys[i], values[i]); }
    plan_open(&names, gpus, &options, out);
    for (size_t i = 0; i < count; i++) {
        if (!done[i]) { set_in_plan(out, keys[i], values[i]); }
    }
}

/* Appends all that stands at a pointer with *, as text. */
static void collect(const json_t *at, const char *pointer, json_t *out)
{
    char key[TEXT];
    size_t i = 0;
    json_t *item = NULL;
    if (pointer[0] == '\0') {
        (void)json_array_append(out, at != NULL ? (json_t *)(uintptr_t)at : json_null());
        return;
    }
    const size_t length = strcspn(pointer + 1, "/");
    (void)snprintf(key, sizeof key, "%.*s", (int)length, pointer + 1);
    if (strcmp(key, "*") == 0) {
        json_array_foreach(at, i, item)
        {
            collect(item, pointer + 1 + length, out);
        }
    } else {
        collect(json_object_get(at, key), pointer + 1 + length, out);
    }
}

static json_t *values_at(const redco_plan *plan, const char *pointer)
{
    json_t *json = redco_plan_to_json(plan);
    json_t *out = json_array();
    assert_non_null(json);
    collect(json, pointer, out);
    json_decref(json);
    return out;
}

/* The first line with a word; "word+1": the one after it. */
static void line_with(const redco_export *made, const char *word, char *out, size_t size)
{
    char key[TEXT];
    const char *plus = strrchr(word, '+');
    (void)snprintf(key, sizeof key, "%.*s", plus != NULL ? (int)(plus - word) : (int)strlen(word), word);
    const char *found = strstr(made->text, key);
    if (found != NULL && plus != NULL) { found = strchr(found, '\n'); }
    if (found != NULL && plus != NULL) { found++; }
    (void)snprintf(out, size, "%.*s", found != NULL ? (int)strcspn(found, "\n") : 0, found != NULL ? found : "");
}

static bool carried(const redco_export *before, const redco_export *after, const char *key)
{
    char config[TEXT + 8];
    char lines[2][TEXT];
    if (strcmp(before->text, after->text) == 0) { return false; }
    if (strncmp(key, "text:", 5) == 0) {
        line_with(before, key + 5, lines[0], TEXT);
        line_with(after, key + 5, lines[1], TEXT);
        return strcmp(lines[0], lines[1]) != 0;
    }
    (void)snprintf(config, sizeof config, "config/%s", key);
    const json_t *a = at(before->report, config);
    const json_t *b = at(after->report, config);
    return (a != NULL || b != NULL) && (a == NULL || b == NULL || !json_equal(a, b));
}

/* A setting that an export drops is a difference, and comes with its price. */
static bool drops(const redco_export *made, const char *what)
{
    size_t i = 0;
    json_t *item = NULL;
    json_array_foreach(json_object_get(made->report, "differences"), i, item)
    {
        if (strcmp(json_string_value(json_object_get(item, "what")), what) != 0) { continue; }
        assert_false(made->exact);
        assert_non_null(made->summary);
        assert_non_null(strstr(made->summary, what));
        assert_non_null(strstr(made->summary, " s a step instead of "));
        return true;
    }
    return false;
}

static bool notes(const redco_export *made, const char *what)
{
    size_t i = 0;
    json_t *item = NULL;
    json_array_foreach(json_object_get(made->report, "notes"), i, item)
    {
        if (strstr(json_string_value(item), what) != NULL) { return true; }
    }
    return false;
}

static bool holds(const char *cell, const redco_export *before, const redco_export *after)
{
    const char *word = cell + 1 + strspn(cell + 1, " ");
    switch (cell[0]) {
    case '=': return carried(before, after, word);
    case '~': return drops(before, word) || drops(after, word);
    case '>': return notes(before, word) || notes(after, word);
    default: return false;
    }
}

static int check_cell(const struct line *line, int framework, const struct planned *before, const struct planned *after)
{
    const char *cell = line->cells[2 + framework];
    const char *word = cell + 1 + strspn(cell + 1, " ");
    if (cell[0] == '-') {
        if (word[0] != '\0') { return 0; }
        print_error("fields.txt:%d: %s gives no reason\n", line->number, redco_framework_words[framework]);
        return 1;
    }
    redco_export *a = export(before, (redco_framework)framework);
    redco_export *b = export(after, (redco_framework)framework);
    const bool good = holds(cell, a, b);
    if (!good) {
        print_error("fields.txt:%d: %s: %s does not hold for %s (%s)\n", line->number, redco_framework_words[framework],
                    cell, line->cells[0], line->cells[1]);
    }
    redco_export_free(a);
    redco_export_free(b);
    return good ? 0 : 1;
}

static void every_cell_holds(void **state)
{
    struct table *table = *state;
    int failures = 0;
    for (size_t k = 0; k < table->count; k++) {
        const struct line *line = &table->lines[k];
        struct planned before = {.plan = NULL};
        struct planned after = {.plan = NULL};
        const bool compared = strcmp(line->cells[1], "-") != 0;
        if (compared) {
            char sides[TEXT];
            (void)snprintf(sides, sizeof sides, "%s", line->cells[1]);
            char *arrow = strstr(sides, "->");
            assert_non_null(arrow);
            *arrow = '\0';
            open_side(sides, &before);
            open_side(arrow + 2, &after);
        }
        if (compared && !line->may_lack) {
            json_t *a = values_at(before.plan, line->cells[0]);
            json_t *b = values_at(after.plan, line->cells[0]);
            if (json_equal(a, b)) {
                print_error("fields.txt:%d: %s changes nothing at %s\n", line->number, line->cells[1], line->cells[0]);
                failures++;
            }
            json_decref(a);
            json_decref(b);
        }
        for (int f = 0; f < REDCO_FRAMEWORK_COUNT; f++) {
            if (!compared && line->cells[2 + f][0] != '-') {
                print_error("fields.txt:%d: %s needs two plans\n", line->number, line->cells[2 + f]);
                failures++;
                continue;
            }
            failures += check_cell(line, f, &before, &after);
        }
        if (compared) {
            plan_close(&before);
            plan_close(&after);
        }
    }
    assert_int_equal(failures, 0);
}

static int set_up(void **state)
{
    struct table *table = calloc(1, sizeof *table);
    if (table == NULL) { return -1; }
    table_read(table);
    *state = table;
    return 0;
}

static int tear_down(void **state)
{
    free(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_field_has_a_line), cmocka_unit_test(every_cell_holds)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
