#include "executor/checkpoint/training_settings.h"

#include <stdio.h>
#include <string.h>

enum { CHANGES_SHOWN = 4 };

static void set(json_t *object, const char *key, double value)
{
    (void)json_object_set_new(object, key, json_real(value));
}

/* Options of the optimizer. */
static void set_optimizer(json_t *object, const redco_training_settings *s)
{
    const redco_optimizer *const o = &s->optimizer;
    set(object, "learning_rate", s->learning_rate);
    set(object, "weight_decay", o->weight_decay);
    (void)json_object_set_new(object, "decay", json_string(s->decay_matrices ? "matrices" : "all"));
    set(object, "clip_norm", o->clip_norm);
    if (o->kind == REDCO_SGD) {
        set(object, "momentum", o->momentum);
        return;
    }
    set(object, "beta1", o->beta1);
    set(object, "epsilon", o->epsilon);
    if (o->kind == REDCO_ADAMW) {
        set(object, "beta2", o->beta2);
        return;
    }
    set(object, "decay_power", o->decay_power);
    set(object, "update_clip", o->update_clip);
    set(object, "scale_epsilon", o->scale_epsilon);
    (void)json_object_set_new(object, "relative_rate", json_boolean(o->relative_rate));
}

/* A constant rate does not depend on the number of steps: a longer run has the same settings. */
static void set_schedule(json_t *object, const redco_rate_schedule *s)
{
    static const char *const words[] = {"constant", "linear", "cosine", "wsd"};
    (void)json_object_set_new(object, "schedule", json_string(words[s->kind]));
    (void)json_object_set_new(object, "warmup", json_integer((json_int_t)s->warmup));
    if (s->kind == REDCO_RATE_CONSTANT) { return; }
    (void)json_object_set_new(object, "steps", json_integer((json_int_t)s->updates));
    set(object, "final_rate", s->final_ratio);
    if (s->kind != REDCO_RATE_WSD) { return; }
    (void)json_object_set_new(object, "decay_steps", json_integer((json_int_t)s->decay_updates));
}

/* Those that differ from what all have. */
static json_t *own_json(const redco_training_settings *s, const redco_task_parameter *p)
{
    const bool decayed = !s->decay_matrices || p->rank >= 2;
    double factor = 1.0;
    const redco_optimizer *const all = &s->optimizer, own = redco_optimizer_of(all, &p->own, true, &factor);
    const struct {
        const char *key;
        double value, common;
    } settings[] = {{"rate", factor, 1.0},
                    {"beta1", own.beta1, all->beta1},
                    {"beta2", own.beta2, all->beta2},
                    {"epsilon", own.epsilon, all->epsilon},
                    {"weight_decay", decayed ? own.weight_decay : all->weight_decay, all->weight_decay}};
    json_t *const json = json_object();
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        if (settings[i].value < settings[i].common || settings[i].value > settings[i].common) {
            set(json, settings[i].key, settings[i].value);
        }
    }
    return json;
}

json_t *redco_training_settings_json(const redco_training_settings *s)
{
    json_t *const json = json_object(), *const own = json_object();
    set_optimizer(json, s);
    set_schedule(json, &s->schedule);
    for (size_t i = 0; i < s->task->parameter_count; i++) {
        const redco_task_parameter *const p = &s->task->parameters[i];
        json_t *const of_one = p->training == REDCO_TRAINED ? own_json(s, p) : NULL;
        if (json_object_size(of_one) > 0) { (void)json_object_set(own, p->name, of_one); }
        json_decref(of_one);
    }
    if (json_object_size(own) > 0) { (void)json_object_set(json, "own", own); }
    json_decref(own);
    return json;
}

/* The text so far. */
struct changes {
    char *text;
    size_t size, count;
};

static void show_value(const json_t *value, char *text, size_t size)
{
    if (value == NULL) {
        (void)snprintf(text, size, "not given");
    } else if (json_is_string(value)) {
        (void)snprintf(text, size, "%.20s", json_string_value(value));
    } else if (json_is_boolean(value)) {
        (void)snprintf(text, size, "%s", json_is_true(value) ? "on" : "off");
    } else {
        (void)snprintf(text, size, "%.10g", json_number_value(value));
    }
}

/* @param name  of a parameter; NULL: an option */
static void add_change(struct changes *c, const char *key, const char *name, const json_t *then, const json_t *now)
{
    char was[32], is[32], what[32];
    const size_t length = strlen(c->text);
    if (c->count++ >= CHANGES_SHOWN) { return; }
    show_value(then, was, sizeof was);
    show_value(now, is, sizeof is);
    (void)snprintf(what, sizeof what, "%s%.24s", name != NULL ? "" : "--", key);
    for (char *at = what; *at != '\0'; at++) { *at = *at != '_' ? *at : name != NULL ? ' ' : '-'; }
    (void)snprintf(c->text + length, c->size - length, "%s%s%s%.80s %s (was %s)", length > 0 ? ", " : "", what,
                   name != NULL ? " of " : "", name != NULL ? name : "", is, was);
}

/* Options that both have: another schedule has other ones, and says so itself. */
static void compare_options(struct changes *c, const json_t *then, const json_t *now)
{
    json_t *const object = (json_t *)(uintptr_t)now;
    for (void *at = json_object_iter(object); at != NULL; at = json_object_iter_next(object, at)) {
        const char *const key = json_object_iter_key(at);
        const json_t *const a = json_object_get(then, key), *const b = json_object_iter_value(at);
        if (a == NULL || strcmp(key, "own") == 0 || json_equal(a, b)) { continue; }
        add_change(c, key, NULL, a, b);
    }
}

/* A parameter's, that it has or had. */
static void compare_own(struct changes *c, const char *name, const json_t *then, const json_t *now)
{
    static const char *const keys[] = {"rate", "beta1", "beta2", "epsilon", "weight_decay"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const json_t *const a = json_object_get(then, keys[i]), *const b = json_object_get(now, keys[i]);
        if (a != b && !json_equal(a, b)) { add_change(c, keys[i], name, a, b); }
    }
}

size_t redco_training_settings_changes(const json_t *then, const json_t *now, char *text, size_t size)
{
    struct changes c = {text, size, 0};
    const json_t *const own_then = json_object_get(then, "own"), *const own_now = json_object_get(now, "own");
    const json_t *const both[] = {own_now, own_then};
    text[0] = '\0';
    if (!json_is_object(then) || !json_is_object(now)) { return 0; }
    compare_options(&c, then, now);
    for (int side = 0; side < 2; side++) {
        json_t *const object = (json_t *)(uintptr_t)both[side];
        for (void *at = json_object_iter(object); at != NULL; at = json_object_iter_next(object, at)) {
            const char *const name = json_object_iter_key(at);
            const json_t *const a = json_object_get(own_then, name), *const b = json_object_get(own_now, name);
            if (side == 0 || b == NULL) { compare_own(&c, name, a, b); }
        }
    }
    if (c.count > CHANGES_SHOWN) {
        const size_t length = strlen(text);
        (void)snprintf(text + length, size - length, " and %zu more", c.count - CHANGES_SHOWN);
    }
    return c.count;
}
