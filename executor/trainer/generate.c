/* Generation: prompts at once, then a token at a time, with keys and values that stay on the devices. */
#include "executor/backend/host/kernels.h"
#include "executor/trainer/forward.h"
#include "executor/trainer/predict.h"
#include "executor/trainer/rounds.h"

#include <stdlib.h>
#include <string.h>

/* One length is that of the token behind. */
enum { PROMPT_LENGTHS = REDCOI_PADDED_LENGTHS_MAX - 1 };

/* A graph, and which caches it reads and extends where they lie. */
struct step {
    redcoi_forward *forward;
    void **kept; /* by its kept tensors */
    uint32_t count;
    bool logits;
};

struct generation {
    redco_trainer *t;
    const redco_language_model *lm;
    const redco_examples *examples;
    const redco_generation_options *o;
    bool encoder_decoder;
    uint64_t vocabulary;
    redcoi_rounds rounds;
    redco_generation_shape shape; /* its prompt is the graph's */
    struct step prompts[PROMPT_LENGTHS + 1], next;
    void **caches; /* keys or values of a layer */
    uint32_t cache_count;
    int32_t *tokens, *last, *lengths, *positions; /* a batch's */
    int32_t *chosen;                              /* [row] tokens of a step; -1: the sequence has ended */
    int32_t *all;                                 /* [replica][row] */
    void *raw;
    double *logits; /* a row's */
    uint32_t *order;
    redco_predictions *out;
};

static redco_status no_memory(const redco_trainer *t, redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, t->place, "no memory to predict with it");
}

static void free_step(struct step *s)
{
    redcoi_forward_free(s->forward);
    free((void *)s->kept);
}

/* Memory that no token has filled yet is multiplied by probabilities of 0: it must be a number. */
static redco_status clear(const struct generation *g, void *memory, uint64_t bytes, redco_error *err)
{
    enum { PIECE = 1 << 16 };
    const redco_backend_calls *const calls = g->t->backend->calls;
    redco_device_stream *stream = NULL;
    unsigned char *const zeros = calloc(1, PIECE);
    redco_status st = zeros != NULL ? calls->stream_create(g->t->backend, REDCO_DEVICE_STREAM_COMPUTATION, &stream, err)
                                    : no_memory(g->t, err);
    for (uint64_t at = 0; at < bytes && st == REDCO_OK; at += PIECE) {
        const uint64_t rest = bytes - at;
        st = calls->copy(g->t->backend, stream, (unsigned char *)memory + at, zeros, rest < PIECE ? rest : PIECE, err);
    }
    if (st == REDCO_OK) { st = calls->stream_finish(g->t->backend, stream, err); }
    if (stream != NULL) { calls->stream_free(g->t->backend, stream); }
    free(zeros);
    return st;
}

static redco_status take_cache(struct generation *g, uint32_t place, const redcoi_kept *kept, redco_error *err)
{
    const uint64_t bytes = redcoi_kept_bytes(g->t, kept);
    void **const cache = &g->caches[place];
    if (*cache != NULL) { return REDCO_OK; }
    const redco_status st = g->t->backend->calls->allocate(g->t->backend, REDCO_MEMORY_DEVICE, bytes, cache, err);
    return st == REDCO_OK ? clear(g, *cache, bytes, err) : st;
}

static redco_status make_step(struct generation *g, bool decoding, uint32_t prompt, struct step *s, redco_error *err)
{
    redco_trainer *const t = g->t;
    redco_generation_graph graph = {.graph = NULL};
    g->shape.prompt = prompt;
    redco_status st =
        redco_language_model_generation(g->lm, &g->shape, decoding, t->options.dtype, t->options.dtype, &graph, err);
    if (st != REDCO_OK) { return st; }
    g->out->graphs++;
    redcoi_kept *const kept = calloc((size_t)graph.cache_count + 1, sizeof *kept);
    s->count = graph.cache_count;
    s->logits = graph.logits != REDCO_NO_VALUE;
    s->kept = calloc((size_t)s->count + 1, sizeof(void *));
    if (kept == NULL || s->kept == NULL) { st = no_memory(t, err); }
    for (uint32_t i = 0; i < s->count && st == REDCO_OK; i++) {
        const redco_generation_cache *const c = &graph.caches[i];
        kept[i] = (redcoi_kept){c->name, c->output, true, c->type};
        st = take_cache(g, c->place, &kept[i], err);
        s->kept[i] = g->caches[c->place];
    }
    const redcoi_forward_options options = {.graph = graph.graph,
                                            .results = &graph.logits,
                                            .result_count = s->logits ? 1 : 0,
                                            .kept = kept,
                                            .kept_count = s->count};
    if (st == REDCO_OK) { st = redcoi_forward_create(t, &options, &s->forward, err); }
    free(kept);
    redco_generation_graph_free(&graph);
    return st;
}

/* New keys and values are written over the room that the caches have for them: an elementwise operator is the only
 * reader of what a cache was (costmodel/models/generation_graph.c). */
static redco_status run_step(struct generation *g, const struct step *s, const int32_t *tokens, redco_error *err)
{
    const redcoi_fed fed[] = {
        {"tokens", tokens}, {"last", g->last}, {"lengths", g->lengths}, {"positions", g->positions}};
    return redcoi_forward_run(s->forward, fed, sizeof fed / sizeof fed[0], s->kept, s->kept, err);
}

static bool ends(const redco_generation_options *o, int32_t token)
{
    for (uint32_t i = 0; i < o->end_count; i++) {
        if (o->ends[i] == token) { return true; }
    }
    return false;
}

/* The token of each row that has not ended, the same on all ranks of the replica. */
static redco_status choose(struct generation *g, const struct step *s, uint64_t batch, uint32_t place, redco_error *err)
{
    const redco_dtype dtype = g->t->options.dtype;
    const uint32_t words = (uint32_t)g->vocabulary;
    redco_status st = redcoi_forward_read(s->forward, 0, g->raw, err);
    for (uint32_t row = 0; row < g->rounds.batch && st == REDCO_OK; row++) {
        uint64_t example = 0;
        if (g->chosen[row] < 0 || !redcoi_rounds_example(&g->rounds, batch, row, &example)) {
            g->chosen[row] = -1;
            continue;
        }
        redcoi_load_f64(dtype, (const char *)g->raw + (size_t)row * words * redco_dtype_bytes(dtype), words, g->logits);
        const int32_t token = redco_sample(&g->o->sampling, g->logits, words, g->order, example, place);
        if (token < 0) {
            st = redco_fail(err, REDCO_EINFEASIBLE, "prediction", "example %llu: a logit is not a number",
                            (unsigned long long)example + 1);
        }
        g->chosen[row] = g->o->forces_first && g->encoder_decoder && place == 0             ? g->o->first
                         : g->o->forces_last && token >= 0 && place + 1 == g->o->max_tokens ? g->o->last
                                                                                            : token;
    }
    if (st == REDCO_OK && g->t->mesh.tp > 1) {
        st = redco_broadcast(g->t->tp_host, REDCO_I32, g->chosen, g->rounds.batch, 0, "prediction", err);
    }
    return st;
}

/* Tokens of all replicas, so that all know when to stop. @return through @p busy_out whether a sequence goes on */
static redco_status share(struct generation *g, uint64_t round, uint32_t place, bool *busy_out, redco_error *err)
{
    const uint32_t replicas = redco_communicator_size(g->t->replicas), rows = g->rounds.batch;
    const redco_status st = redco_all_gather(g->t->replicas, REDCO_I32, g->chosen, g->all, rows, "prediction", err);
    *busy_out = false;
    for (uint32_t r = 0; r < replicas && st == REDCO_OK; r++) {
        const uint32_t replica = redco_replica_at(g->t->mesh, redco_place_of(g->t->mesh, r * g->t->mesh.tp));
        for (uint32_t row = 0; row < rows; row++) {
            const int32_t token = g->all[r * rows + row];
            uint64_t example = 0;
            if (token < 0 || !redcoi_rounds_example(&g->rounds, round * replicas + replica, row, &example)) {
                continue;
            }
            if (ends(g->o, token)) {
                g->out->ended[example] = true;
                continue;
            }
            g->out->tokens[example * g->o->max_tokens + place] = token;
            g->out->counts[example] = place + 1;
            *busy_out = *busy_out || place + 1 < g->o->max_tokens;
        }
    }
    for (uint32_t row = 0; row < rows && st == REDCO_OK; row++) {
        if (g->chosen[row] >= 0 && ends(g->o, g->chosen[row])) { g->chosen[row] = -1; }
    }
    return st;
}

static void fill_prompt(struct generation *g, uint64_t batch, uint32_t length)
{
    memset(g->tokens, 0, (size_t)g->rounds.batch * length * sizeof *g->tokens);
    for (uint32_t row = 0; row < g->rounds.batch; row++) {
        uint64_t number = 0;
        const bool real = redcoi_rounds_example(&g->rounds, batch, row, &number);
        const redco_example example = redco_examples_get(g->examples, number);
        const uint32_t count = real ? example.token_count : 1;
        if (real) { memcpy(g->tokens + (size_t)row * length, example.tokens, count * sizeof *g->tokens); }
        g->last[row] = (int32_t)(row * length + count - 1);
        g->lengths[row] = (int32_t)count;
        g->positions[row] = g->encoder_decoder ? -1 : (int32_t)count - 1;
        g->chosen[row] = 0; /* it goes on */
    }
}

/* A batch of this replica, in step with those of the others. */
static redco_status run_round(struct generation *g, uint64_t round, redco_error *err)
{
    const uint64_t batch = round * redco_mesh_ranks(g->t->mesh.dp) + redco_replica_at(g->t->mesh, g->t->at);
    const uint32_t length = redcoi_rounds_length(&g->rounds, batch);
    struct step *const prompt = &g->prompts[redcoi_rounds_number(&g->rounds, length)];
    const int32_t start = redco_language_model_start_token(g->lm);
    bool busy = true;
    redco_status st = prompt->forward == NULL ? make_step(g, false, length, prompt, err) : REDCO_OK;
    if (st == REDCO_OK && g->next.forward == NULL) { st = make_step(g, true, length, &g->next, err); }
    fill_prompt(g, batch, length);
    if (st == REDCO_OK) { st = run_step(g, prompt, g->tokens, err); }
    if (st != REDCO_OK) { return st; }
    for (uint32_t place = 0; busy; place++) {
        const struct step *done = place == 0 ? prompt : &g->next;
        if (place > 0 || !prompt->logits) {
            for (uint32_t row = 0; row < g->rounds.batch; row++) {
                g->tokens[row] = place == 0 ? start : g->chosen[row] >= 0 ? g->chosen[row] : 0;
                g->positions[row]++;
            }
            if ((st = run_step(g, &g->next, g->tokens, err)) != REDCO_OK) { return st; }
            done = &g->next;
        }
        if ((st = choose(g, done, batch, place, err)) != REDCO_OK) { return st; }
        if ((st = share(g, round, place, &busy, err)) != REDCO_OK) { return st; }
    }
    return REDCO_OK;
}

static redco_status take_memory(struct generation *g, redco_error *err)
{
    const size_t rows = g->rounds.batch, count = g->rounds.count;
    const size_t longest = (size_t)g->rounds.unit * (PROMPT_LENGTHS + 1);
    g->cache_count = redco_model_get_dims(redco_language_model_of(g->lm))->layers * REDCO_GENERATION_CACHES;
    g->caches = calloc(g->cache_count, sizeof(void *));
    g->tokens = calloc(rows * longest, sizeof *g->tokens);
    g->last = calloc(4 * rows, sizeof *g->last);
    g->all = calloc(rows * redco_communicator_size(g->t->replicas), sizeof *g->all);
    g->raw = calloc(rows * g->vocabulary, redco_dtype_bytes(g->t->options.dtype));
    g->logits = calloc(g->vocabulary, sizeof *g->logits);
    g->order = calloc(g->vocabulary, sizeof *g->order);
    g->out->tokens = calloc(count * g->o->max_tokens, sizeof *g->out->tokens);
    g->out->counts = calloc(count, sizeof *g->out->counts);
    g->out->ended = calloc(count, sizeof *g->out->ended);
    if (g->caches == NULL || g->tokens == NULL || g->last == NULL || g->all == NULL || g->raw == NULL ||
        g->logits == NULL || g->order == NULL || g->out->tokens == NULL || g->out->counts == NULL ||
        g->out->ended == NULL) {
        return no_memory(g->t, err);
    }
    g->lengths = g->last + rows;
    g->positions = g->last + 2 * rows;
    g->chosen = g->last + 3 * rows;
    return REDCO_OK;
}

static redco_status open_generation(struct generation *g, redco_error *err)
{
    const uint64_t count = redco_examples_count(g->examples);
    const uint32_t batch = g->o->batch > 0 ? g->o->batch : g->t->plan->parallelism.micro_batch;
    uint32_t *const lengths = calloc(count, sizeof *lengths);
    if (lengths == NULL) { return no_memory(g->t, err); }
    uint32_t longest = 1;
    for (uint64_t i = 0; i < count; i++) {
        lengths[i] = redco_examples_get(g->examples, i).token_count;
        longest = lengths[i] > longest ? lengths[i] : longest;
    }
    redco_status st = redcoi_rounds_make(lengths, count, batch, PROMPT_LENGTHS, &g->rounds, err);
    free(lengths);
    if (st != REDCO_OK) { return st; }
    const uint64_t room = redcoi_rounds_length(&g->rounds, 0); /* the longest, padded */
    g->shape = (redco_generation_shape){.batch = batch, .prompt = room, .keys = g->o->max_tokens, .source_keys = room};
    if (!g->encoder_decoder) {
        const uint64_t keys = (uint64_t)longest + g->o->max_tokens;
        g->shape.keys = keys > room ? keys : room;
    }
    return take_memory(g, err);
}

static void close_generation(struct generation *g)
{
    const redco_backend_calls *const calls = g->t->backend->calls;
    for (uint32_t i = 0; i <= PROMPT_LENGTHS; i++) { free_step(&g->prompts[i]); }
    free_step(&g->next);
    for (uint32_t i = 0; g->caches != NULL && i < g->cache_count; i++) {
        calls->release(g->t->backend, REDCO_MEMORY_DEVICE, g->caches[i]);
    }
    redcoi_rounds_free(&g->rounds);
    free((void *)g->caches);
    free(g->tokens);
    free(g->last);
    free(g->all);
    free(g->raw);
    free(g->logits);
    free(g->order);
}

const redco_language_model *redco_trainer_generator(const redco_trainer *t)
{
    return t->lm == NULL && t->options.pipeline != NULL ? redco_user_pipeline_generator(t->options.pipeline) : t->lm;
}

redco_status redco_trainer_generate(redco_trainer *t, const redco_examples *examples, const redco_generation_options *o,
                                    redco_predictions *out, redco_error *err)
{
    if (t->replay) { return redcoi_trainer_real(t, "a prediction", err); }
    const redco_language_model *const lm = redco_trainer_generator(t);
    if (lm == NULL) {
        return redco_fail(err, REDCO_EVALUE, t->task->name, "has no language model that continues prompts");
    }
    const redco_model_dims *const dims = redco_model_get_dims(redco_language_model_of(lm));
    redco_predictions made = {.max_tokens = o->max_tokens, .count = redco_examples_count(examples)};
    struct generation g = {.t = t,
                           .lm = lm,
                           .examples = examples,
                           .o = o,
                           .encoder_decoder = dims->encoder_layers > 0,
                           .vocabulary = dims->vocab,
                           .out = &made};
    redco_status st = redco_sampling_check(&o->sampling, err);
    if (st == REDCO_OK && ((o->forces_first && (o->first < 0 || (uint64_t)o->first >= g.vocabulary)) ||
                           (o->forces_last && (o->last < 0 || (uint64_t)o->last >= g.vocabulary)))) {
        st = redco_fail(err, REDCO_EVALUE, "prediction", "a forced token is none of the vocabulary");
    }
    if (st == REDCO_OK && o->max_tokens == 0) {
        st = redco_fail(err, REDCO_EVALUE, "prediction", "0 tokens; at least 1 is generated");
    }
    if (st == REDCO_OK) { st = open_generation(&g, err); }
    const uint64_t rounds = st == REDCO_OK ? redcoi_rounds_of(&g.rounds, redco_mesh_ranks(t->mesh.dp)) : 0;
    for (uint64_t r = 0; r < rounds && st == REDCO_OK; r++) { st = run_round(&g, r, err); }
    close_generation(&g);
    if (st == REDCO_OK) {
        *out = made;
        made = (redco_predictions){.tokens = NULL};
    }
    redco_predictions_free(&made);
    return st;
}

void redco_predictions_free(redco_predictions *p)
{
    free(p->tokens);
    free(p->counts);
    free(p->ended);
    *p = (redco_predictions){.tokens = NULL};
}
