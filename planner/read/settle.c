/* Facts of files become options: GPUs, degrees, batch, stages, recomputation. */
#include "planner/read/read_facts.h"

#include "topology/base/number.h"
#include "topology/base/preset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "gpu:8", "gpu:a100:8" */
static uint64_t gres(redco_reading *reading)
{
    const char *const value = redcoi_value(reading, ".batch-gres");
    const char *const colon = value != NULL ? strrchr(value, ':') : NULL;
    uint64_t number = 0;
    return colon != NULL && redco_whole_parse(colon + 1, 1, 1 << 20, &number) ? number : 0;
}

/* A fact that needs a variable of Slurm is the batch line's. */
static bool of_slurm(const redco_reading *reading, const char *target)
{
    const redcoi_fact *const fact = redcoi_said(reading, target);
    const char *const needs = fact != NULL ? reading->settings.items[fact->setting].needs : NULL;
    return needs != NULL && (strncmp(needs, "SLURM", 5) == 0 || strncmp(needs, "$(", 2) == 0);
}

static uint64_t first_of(redco_reading *reading, const char *const *targets)
{
    for (size_t i = 0; targets[i] != NULL; i++) {
        if (redcoi_said(reading, targets[i]) == NULL ||
            (i == 0 && of_slurm(reading, targets[i]) && targets[1] != NULL &&
             redcoi_said(reading, targets[1]) != NULL)) {
            continue;
        }
        const uint64_t number = redcoi_fact_number(reading, targets[i], 0);
        if (number > 0) { return number; }
    }
    return 0;
}

/* A number that launchers read from a script's environment. */
static uint64_t variable(const redco_reading *reading, const char *name)
{
    uint64_t number = 0;
    for (size_t i = reading->settings.count; i > 0; i--) {
        const redcoi_setting *const one = &reading->settings.items[i - 1];
        if (one->origin != REDCOI_OF_VARIABLE || one->needs != NULL || strcmp(one->key, name) != 0) { continue; }
        return redco_whole_parse(one->value, 1, 1 << 20, &number) ? number : 0;
    }
    return 0;
}

static uint64_t count_gpus(redco_reading *reading, const char **target_out)
{
    static const char *const nodes[] = {".nodes", ".batch-nodes", ".machines", NULL};
    static const char *const each[] = {".gpus-per-node", ".batch-gpus", ".batch-tasks", NULL};
    *target_out = NULL;
    if (reading->question->gpus > 0) { return reading->question->gpus; }
    if (redcoi_given(reading, "gpus")) { return 0; } /* several numbers */
    if (redcoi_said(reading, "gpus") != NULL) {
        const uint64_t all = redcoi_fact_number(reading, "gpus", 0);
        *target_out = "gpus";
        if (all > 0) { return all; }
    }
    uint64_t per_node = first_of(reading, each);
    if (per_node == 0) { per_node = gres(reading); }
    if (per_node == 0) { per_node = redcoi_fact_number(reading, ".gpus-per-node", 0); }
    uint64_t node_count = first_of(reading, nodes);
    if (redcoi_is(reading, ".launch", "none")) { return 1; }
    if (per_node == 0) { per_node = variable(reading, "NPROC_PER_NODE"); }
    if (node_count == 0) { node_count = variable(reading, "NNODES"); }
    if (per_node > 0 && node_count == 0) {
        redcoi_assume(reading, "one node: no key says how many");
        node_count = 1;
    }
    if (per_node > 0) { return per_node * node_count; }
    if (reading->status == REDCO_OK) {
        reading->status = redco_fail(reading->err, REDCO_EVALUE, reading->settings.files[0].path,
                                     "--gpus is needed: the file says %s",
                                     node_count > 0 ? "the number of nodes, not of their GPUs" : "nothing of it");
    }
    return 0;
}

static uint64_t degree(redco_reading *reading, const char *target, uint32_t given)
{
    return given > 0 ? given : redcoi_fact_number(reading, target, 1);
}

static redcoi_layout find_layout(redco_reading *reading)
{
    const redco_read_question *const q = reading->question;
    const char *target = NULL;
    redcoi_layout l = {.gpus = count_gpus(reading, &target)};
    l.tp = degree(reading, "tp", q->tp);
    l.pp = degree(reading, "pp", q->pp);
    l.cp = degree(reading, "cp", q->cp);
    if (q->cp == 0) { l.cp *= redcoi_fact_number(reading, ".ulysses", 1); }
    uint64_t ranks = 0;
    const bool fits = !__builtin_mul_overflow(l.tp, l.pp, &ranks) && !__builtin_mul_overflow(ranks, l.cp, &ranks);
    l.known = fits && l.gpus > 0 && ranks > 0 && l.gpus % ranks == 0;
    l.dp = l.known ? l.gpus / ranks : 0;
    if (l.gpus > 0 && !l.known && reading->status == REDCO_OK) {
        const redcoi_fact *fact = redcoi_said(reading, "pp");
        if (fact == NULL || l.pp == 1) { fact = redcoi_said(reading, "tp"); }
        if (fact == NULL) { fact = redcoi_said(reading, "cp"); }
        char text[200];
        (void)snprintf(
            text, sizeof text, "tp %llu, pp %llu and cp %llu do not divide %llu GPUs: --gpus says how many there are",
            (unsigned long long)l.tp, (unsigned long long)l.pp, (unsigned long long)l.cp, (unsigned long long)l.gpus);
        if (fact != NULL) {
            (void)redcoi_fact_fail(reading, fact, text);
        } else {
            reading->status = redco_fail(reading->err, REDCO_EVALUE, "--gpus", "%s", text);
        }
    }
    if (l.gpus > 0 && q->gpus == 0) { redcoi_set_number(reading, "gpus", l.gpus, target); }
    redcoi_set_number(reading, "tp", l.tp, "tp");
    redcoi_set_number(reading, "pp", l.pp, "pp");
    redcoi_set_number(reading, "cp", l.cp, "cp");
    return l;
}

/* Refuses a contradiction: the files say another batch than the product of its parts. */
static void check_batch(redco_reading *reading, uint64_t global, uint64_t product)
{
    const redcoi_fact *const fact = redcoi_said(reading, "global-batch");
    char text[200];
    if (global == product || fact == NULL) { return; }
    if (reading->question->gpus > 0) {
        redcoi_assume(reading, "a step has %llu sequences, on whatever GPUs: micro-batches follow",
                      (unsigned long long)global);
        return;
    }
    (void)snprintf(text, sizeof text, "%llu sequences, but micro-batch, accumulation and data-parallel ranks make %llu",
                   (unsigned long long)global, (unsigned long long)product);
    (void)redcoi_fact_fail(reading, fact, text);
}

static void settle_batch(redco_reading *reading, const redcoi_layout *l)
{
    const bool titan = redcoi_has_trainer(reading, "torchtitan");
    uint64_t micro = reading->question->micro_batch;
    if (micro == 0) { micro = redcoi_fact_number(reading, "micro-batch", 0); }
    const uint64_t replica = redcoi_fact_number(reading, ".batch-of-replica", 0);
    uint64_t accumulation = redcoi_fact_number(reading, ".accumulation", 0);
    uint64_t global = redcoi_fact_number(reading, "global-batch", 0);
    const bool stated = redcoi_said(reading, "global-batch") != NULL && global > 0;
    const char *const schedule = redcoi_known(reading, ".batch-schedule"), *const last = schedule != NULL
                                                                                             ? strrchr(schedule, ':')
                                                                                             : NULL;
    if (last != NULL && redco_whole_parse(last + 1, 1, (uint64_t)1 << 40, &global)) {
        redcoi_assume(reading, "the batch is that of the schedule's end, %llu", (unsigned long long)global);
    }
    const uint64_t length = redcoi_fact_number(reading, "seq", 0);
    if (length > 0 &&
        redcoi_said(reading, ".tokens-of-micro-batch") != NULL) { /* torchtitan counts tokens since 0.2.2 */
        micro = redcoi_fact_number(reading, ".tokens-of-micro-batch", 0) / length;
        global = redcoi_fact_number(reading, ".tokens-of-step", 0) / length;
    }
    const redcoi_fact *const said = redcoi_said(reading, "micro-batch");
    const uint64_t parts = accumulation * l->dp;
    if (stated && (said == NULL || said->value[0] == '\0') && reading->question->micro_batch == 0 && parts > 0 &&
        global % parts == 0 && !titan) {
        micro = global / parts; /* no default that another file contradicts */
    }
    if (titan && micro > 0 && global == 0) { global = micro * l->dp; }
    if (titan && l->pp > 1 && redcoi_said(reading, ".tokens-of-micro-batch") == NULL) {
        micro = redcoi_fact_number(reading, ".stage-micro-batch", 1);
    }
    if (redcoi_has_trainer(reading, "megatron") && accumulation == 0 && global == 0 && micro > 0) { accumulation = 1; }
    if (replica > 0 && global == 0) { global = replica * l->dp; }
    if (global > 0 && micro == 0 && accumulation > 0 && l->dp > 0) {
        micro = global / (accumulation * l->dp);
        if (micro * accumulation * l->dp != global) { check_batch(reading, global, micro * accumulation * l->dp); }
    } else if (stated && micro > 0 && accumulation > 0 && l->dp > 0 && !titan) {
        check_batch(reading, global, micro * accumulation * l->dp);
    } else if (global == 0 && micro > 0 && accumulation > 0) {
        global = micro * accumulation * l->dp;
    }
    if (micro > 0) { redcoi_set_number(reading, "micro-batch", micro, "micro-batch"); }
    if (micro == 0) { redcoi_assume(reading, "the micro-batch is chosen by redco: no key says it"); }
    if (global > 0) {
        redcoi_set_number(reading, "global-batch", global, stated ? "global-batch" : ".accumulation");
    } else if (!redcoi_given(reading, "global-batch")) {
        redcoi_assume(reading, "1024 sequences a step (--global-batch): no key says how many");
    }
    const char *const decoder = redcoi_value(reading, ".decoder-seq");
    const char *const seq = decoder != NULL ? decoder : redcoi_value(reading, "seq");
    if (seq == NULL && redcoi_has_trainer(reading, "mlperf")) {
        redcoi_set_option(reading, "seq", reading->model != NULL ? "2048" : "8192", NULL); /* the benchmarks' own */
    } else if (seq != NULL) {
        redcoi_set_option(reading, "seq", seq, "seq");
    } else if (!redcoi_given(reading, "seq")) {
        redcoi_assume(reading, "sequences of 4096 tokens, or of what the model learns positions for (--seq)");
    }
}

/* Layers of the model: its own key, or those of the preset that it names. */
static uint64_t layers_of(redco_reading *reading)
{
    const uint64_t said = redcoi_fact_number(reading, "num_hidden_layers", 0);
    const redco_read_option *const model = redco_reading_option(reading, "model");
    const char *const name = model != NULL ? model->value : reading->question->model;
    const redco_preset *const preset = said == 0 && name != NULL ? redco_preset_model(name) : NULL;
    json_t *const config = preset != NULL ? json_loadb(preset->text, preset->size, 0, NULL) : NULL;
    const json_int_t layers = json_integer_value(json_object_get(config, "num_hidden_layers"));
    json_decref(config);
    return said > 0 ? said : layers > 0 ? (uint64_t)layers : 0;
}

/* Lists of modules, one for each position: their blocks as a list. @return the number of lists */
static uint64_t blocks_of_parts(const char *parts, char *out, size_t size)
{
    uint64_t count = 0;
    size_t used = 0;
    for (const char *part = strchr(parts, '['); part != NULL && used < size; part = strchr(part + 1, '[')) {
        const char *const stop = strchrnul(part, ']');
        uint64_t blocks = 0;
        for (const char *c = part; (c = strstr(c, "layers.")) != NULL && c < stop; c++) { blocks++; }
        used += (size_t)snprintf(out + used, size - used, "%s%llu", count > 0 ? "," : "", (unsigned long long)blocks);
        count++;
    }
    return count;
}

static void settle_split(redco_reading *reading)
{
    char text[80] = "", blocks[600];
    const char *const parts = redcoi_whole_text(reading, ".parts");
    const char *const layout = redcoi_value(reading, "pp-layout");
    const char *const first = redcoi_value(reading, ".first-stage"), *const last = redcoi_value(reading, ".last-stage");
    const bool embedding = redcoi_is(reading, ".embedding-counts", "yes"),
               loss = redcoi_is(reading, ".loss-counts", "yes");
    if (layout != NULL || parts != NULL) {
        if (parts != NULL) { (void)blocks_of_parts(parts, blocks, sizeof blocks); }
        redcoi_set_option(reading, "pp-layout", parts != NULL ? blocks : layout,
                          parts != NULL ? ".parts" : "pp-layout");
        return;
    }
    if (first != NULL || last != NULL) {
        (void)snprintf(text, sizeof text, "%s%.20s%s%s%.20s", first != NULL ? "first=" : "", first != NULL ? first : "",
                       first != NULL && last != NULL ? "," : "", last != NULL ? "last=" : "", last != NULL ? last : "");
    } else if (embedding || loss) {
        (void)snprintf(text, sizeof text, "%s%s%s", embedding ? "embedding" : "", embedding && loss ? "," : "",
                       loss ? "loss" : "");
    }
    redcoi_set_option(reading, "pp-layout", text[0] != '\0' ? text : "equal", NULL);
}

/* Positions of "Et*7|t*8|t*8|t*7L"; 0: it is no such text. */
static uint64_t chunks_of_layout(const char *layout)
{
    uint64_t count = 1;
    if (layout == NULL || strchr(layout, '|') == NULL) { return 0; }
    for (; *layout != '\0'; layout++) { count += *layout == '|' ? 1 : 0; }
    return count;
}

static uint64_t option_number(const redco_reading *reading, const char *option, uint64_t given)
{
    const redco_read_option *const one = redco_reading_option(reading, option);
    uint64_t number = given;
    return one != NULL && redco_whole_parse(one->value, 1, (uint64_t)1 << 40, &number) ? number : given;
}

/* PyTorch runs an interleaved step in rounds of pp micro-batches or more, all alike (torch/distributed/pipelining/
 * schedules.py, ScheduleInterleaved1F1B); others take pp at a time. */
static uint64_t group_of_torch(const redco_reading *reading, const redcoi_layout *l)
{
    const uint64_t global = option_number(reading, "global-batch", 0);
    const uint64_t micro = option_number(reading, "micro-batch", reading->question->micro_batch);
    const bool torch = redcoi_has_trainer(reading, "torchtitan") || redcoi_has_trainer(reading, "fsdp");
    if (!torch || l->dp == 0 || micro == 0 || global < micro * l->dp) { return l->pp; }
    const uint64_t batches = global / micro / l->dp, rounds = batches > l->pp ? batches / l->pp : 1;
    return batches / rounds;
}

static void settle_stages(redco_reading *reading, const redcoi_layout *l)
{
    uint64_t chunks = redcoi_fact_number(reading, "pp-chunks", 0);
    const uint64_t each = redcoi_fact_number(reading, ".layers-per-chunk", 0);
    const char *const order = redcoi_value(reading, "pp-schedule");
    if (l->pp <= 1) { return; }
    if (chunks == 0 && each > 0) {
        const uint64_t layers = layers_of(reading);
        chunks = layers / (each * l->pp);
        if (layers == 0 || chunks == 0) {
            (void)redcoi_fact_fail(reading, redcoi_said(reading, ".layers-per-chunk"),
                                   "the model's layers are not known or fewer: --pp-chunks is needed");
            return;
        }
    }
    const char *const parts = redcoi_whole_text(reading, ".parts");
    char blocks[600];
    if (parts != NULL) { chunks = blocks_of_parts(parts, blocks, sizeof blocks) / l->pp; }
    if (chunks == 0) { chunks = chunks_of_layout(redcoi_whole_text(reading, "pp-layout")) / l->pp; }
    if (chunks == 0) { chunks = order != NULL && strcmp(order, "interleaved") == 0 ? 2 : 1; }
    redcoi_set_number(reading, "pp-chunks", chunks, "pp-chunks");
    redcoi_set_option(reading, "pp-schedule",
                      order != NULL ? order
                      : chunks > 1  ? "interleaved"
                                    : "1f1b",
                      "pp-schedule");
    if (chunks > 1 && (order == NULL || strcmp(order, "interleaved") == 0)) {
        redcoi_set_number(reading, "pp-group", redcoi_fact_number(reading, "pp-group", group_of_torch(reading, l)),
                          "pp-group");
    }
    settle_split(reading);
}

/* Modules joined by blanks or commas become a set joined by "+". */
static void modules_text(const char *modules, char *out, size_t size)
{
    size_t used = 0;
    for (const char *c = modules; *c != '\0' && used + 1 < size; c++) {
        const bool stop = *c == ' ' || *c == ',';
        if (stop && (used == 0 || out[used - 1] == '+')) { continue; }
        if (strchr("[]\"'", *c) == NULL) { out[used++] = stop ? '+' : *c; }
    }
    while (used > 0 && out[used - 1] == '+') { used--; }
    out[used] = '\0';
}

/* So many layers of each stage in full: all, none, or a part that options do not say. */
static bool part_of_layers(redco_reading *reading, const redcoi_layout *l)
{
    const uint64_t layers = layers_of(reading), count = redcoi_fact_number(reading, ".recompute-layers", 0);
    const uint64_t chunks = redcoi_fact_number(reading, "pp-chunks", 1);
    if (!redcoi_is(reading, ".recompute-method", "block") || count == 0 || layers == 0) { return false; }
    return count * l->pp * chunks < layers;
}

/* Trainers above the Trainer that recompute layers unless told otherwise, by a key of their own. @return NULL: it is
 * none of them */
static const char *recomputes_unasked(const redco_reading *reading)
{
    static const char *const own[][2] = {
        {"finetuning_type", "LlamaFactory"}, {"tuner_type", "ms-swift"}, {"train_type", "ms-swift"}};
    for (size_t i = 0; i < reading->settings.count; i++) {
        for (size_t k = 0; k < sizeof own / sizeof own[0]; k++) {
            if (redcoi_key_matches(own[k][0], reading->settings.items[i].key)) { return own[k][1]; }
        }
    }
    return NULL;
}

static void settle_recompute(redco_reading *reading, const redcoi_layout *l)
{
    char text[120] = "";
    const char *const kind = redcoi_value(reading, ".recompute"), *const modules =
                                                                      redcoi_value(reading, ".recompute-modules");
    const char *const whole = redcoi_value(reading, ".checkpointing");
    double share = 0.0;
    if (kind != NULL && strcmp(kind, "selective") == 0 && modules != NULL) {
        modules_text(modules, text, sizeof text);
        redcoi_set_option(reading, "recompute", text, ".recompute-modules");
    } else if (kind != NULL && strcmp(kind, "full") == 0 && part_of_layers(reading, l)) {
        redcoi_assume(reading,
                      "%s of the layers of each stage are recomputed in full: redco's own count of them is priced",
                      redcoi_value(reading, ".recompute-layers"));
        redcoi_set_option(reading, "recompute", "auto", ".recompute-layers");
    } else if (kind != NULL) {
        redcoi_set_option(reading, "recompute", kind, ".recompute");
    } else if (redcoi_said(reading, ".checkpointing") == NULL && recomputes_unasked(reading) != NULL) {
        redcoi_assume(reading, "layers are recomputed: %s does unless it is told not to", recomputes_unasked(reading));
        redcoi_set_option(reading, "recompute", "full", NULL);
    } else if (whole != NULL && redco_real_parse(whole, 0.0, 1.0, &share)) {
        redcoi_assume(reading, "%.20s of the layers are recomputed in full: redco's own count of them is priced",
                      whole);
        redcoi_set_option(reading, "recompute", "auto", ".checkpointing");
    } else if (whole != NULL) {
        redcoi_set_option(reading, "recompute", whole, ".checkpointing");
    } else if (!redcoi_given(reading, "recompute")) {
        redcoi_assume(reading, "recomputation is chosen by redco (--recompute): no key says it");
    }
}

/* DeepSpeed's exchanges heads; ms-swift's, of the same name, also passes keys around. */
static bool of_ulysses(redco_reading *reading)
{
    const redcoi_fact *const said = redcoi_said(reading, ".ulysses");
    return said != NULL && strcmp(said->trainer->word, "transformers") != 0 &&
           redcoi_fact_number(reading, ".ulysses", 1) > 1;
}

void redcoi_settle(redco_reading *reading)
{
    const redcoi_layout l = find_layout(reading);
    redcoi_settle_model(reading);
    redcoi_settle_adapters(reading);
    if (reading->status != REDCO_OK) { return; }
    settle_batch(reading, &l);
    const char *const sp = redcoi_value(reading, "sequence-parallel");
    if (l.tp > 1) { redcoi_set_option(reading, "sequence-parallel", sp != NULL ? sp : "off", "sequence-parallel"); }
    const char *const cp_type = of_ulysses(reading) ? "all-to-all" : redcoi_value(reading, "cp-type");
    if (l.cp > 1 && cp_type != NULL) { redcoi_set_option(reading, "cp-type", cp_type, "cp-type"); }
    const bool experts = redcoi_value(reading, "num_experts") != NULL;
    if (experts || redcoi_said(reading, "ep") != NULL) {
        redcoi_set_number(reading, "ep", redcoi_fact_number(reading, "ep", 1), "ep");
        redcoi_set_number(reading, "etp", redcoi_fact_number(reading, "etp", l.tp), "etp");
    }
    settle_stages(reading, &l);
    redcoi_settle_shards(reading, &l);
    settle_recompute(reading, &l);
    redcoi_settle_engine(reading);
}
