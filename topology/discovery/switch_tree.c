#include "topology/discovery/switch_tree.h"

#include <stdlib.h>
#include <string.h>

static int compare_names(const void *a, const void *b)
{
    const redcoi_name *left = a;
    const redcoi_name *right = b;
    const int order = strcmp(left->name, right->name);
    if (order != 0) { return order; }
    return (left->index > right->index) - (left->index < right->index);
}

static int compare_name_only(const void *a, const void *b)
{
    return strcmp(((const redcoi_name *)a)->name, ((const redcoi_name *)b)->name);
}

void redcoi_names_sort(redcoi_name *names, size_t count)
{
    if (count > 1) { qsort(names, count, sizeof *names, compare_names); }
}

uint32_t redcoi_names_find(const redcoi_name *names, size_t count, const char *name)
{
    const redcoi_name key = {.name = name};
    const redcoi_name *found = count > 0 ? bsearch(&key, names, count, sizeof *names, compare_name_only) : NULL;
    return found != NULL ? found->index : UINT32_MAX;
}

const char *redcoi_names_duplicate(const redcoi_name *names, size_t count, uint32_t *first_out, uint32_t *second_out)
{
    const char *name = NULL;
    for (size_t i = 1; i < count; i++) {
        if (strcmp(names[i - 1].name, names[i].name) != 0 || (name != NULL && names[i].index >= *second_out)) {
            continue;
        }
        name = names[i].name;
        *first_out = names[i - 1].index;
        *second_out = names[i].index;
    }
    return name;
}

redcoi_tree *redcoi_tree_new(const char *source)
{
    redcoi_tree *tree = calloc(1, sizeof *tree);
    if (tree == NULL) { return NULL; }
    tree->hosts = redco_hostlist_new();
    tree->child_names = redco_hostlist_new();
    tree->source = strdup(source);
    if (tree->hosts == NULL || tree->child_names == NULL || tree->source == NULL) {
        redcoi_tree_free(tree);
        return NULL;
    }
    return tree;
}

void redcoi_tree_free(redcoi_tree *tree)
{
    if (tree == NULL) { return; }
    for (uint32_t i = 0; i < tree->switch_count; i++) {
        free(tree->switches[i].name);
        free(tree->switches[i].place);
    }
    free(tree->switches);
    redco_hostlist_free(tree->hosts);
    redco_hostlist_free(tree->child_names);
    free(tree->children);
    free(tree->source);
    free(tree);
}

/* Takes the names over. */
static bool push_switch(redcoi_tree *tree, const redcoi_switch *added)
{
    if (tree->switch_count == tree->switch_capacity) {
        const uint32_t capacity = tree->switch_capacity == 0 ? 32 : tree->switch_capacity * 2;
        redcoi_switch *switches = realloc(tree->switches, capacity * sizeof *switches);
        if (switches == NULL) { return false; }
        tree->switches = switches;
        tree->switch_capacity = capacity;
    }
    tree->switches[tree->switch_count++] = *added;
    return true;
}

static redco_status check_switch_name(const char *name, size_t size, const char *place, redco_error *err)
{
    const int shown = size < 80 ? (int)size : 80;
    if (size == 0) { return redco_fail(err, REDCO_EVALUE, place, "a switch without a name"); }
    if (size > REDCOI_MAX_SWITCH_NAME_BYTES) {
        return redco_fail(err, REDCO_EVALUE, place, "switch name \"%.*s\" is longer than %d characters", shown, name,
                          REDCOI_MAX_SWITCH_NAME_BYTES);
    }
    for (size_t i = 0; i < size; i++) {
        if (name[i] <= ' ' || name[i] >= 0x7f || strchr(",[]\"'\\#=", name[i]) != NULL) {
            return redco_fail(err, REDCO_EVALUE, place,
                              "switch name \"%.*s\": one name of letters, digits, \"-\", \"_\" or \".\" is needed",
                              shown, name);
        }
    }
    return REDCO_OK;
}

redco_status redcoi_tree_add(redcoi_tree *tree, const char *name, size_t name_size, const char *nodes,
                             size_t nodes_size, const char *children, size_t children_size, const char *place,
                             redco_error *err)
{
    redco_status st = check_switch_name(name, name_size, place, err);
    if (st != REDCO_OK) { return st; }
    if (nodes != NULL && children != NULL) {
        return redco_fail(err, REDCO_EVALUE, place,
                          "switch \"%.*s\" has both nodes and switches; a leaf has nodes, the others have switches",
                          (int)name_size, name);
    }
    if (nodes == NULL && children == NULL) {
        return redco_fail(err, REDCO_EVALUE, place, "switch \"%.*s\" has neither nodes nor switches", (int)name_size,
                          name);
    }
    if (tree->switch_count >= REDCO_HOSTLIST_MAX_NAMES) {
        return redco_fail(err, REDCO_EVALUE, place, "more than %d switches are not read", REDCO_HOSTLIST_MAX_NAMES);
    }
    redcoi_switch added = {.parent = REDCOI_NO_SWITCH,
                           .first_host = (uint32_t)redco_hostlist_count(tree->hosts),
                           .first_child = (uint32_t)redco_hostlist_count(tree->child_names)};
    if (nodes != NULL) {
        st = redco_hostlist_append(tree->hosts, nodes, nodes_size, place, err);
    } else {
        st = redco_hostlist_append(tree->child_names, children, children_size, place, err);
    }
    if (st != REDCO_OK) { return st; }
    added.host_count = (uint32_t)redco_hostlist_count(tree->hosts) - added.first_host;
    added.child_count = (uint32_t)redco_hostlist_count(tree->child_names) - added.first_child;
    added.name = strndup(name, name_size);
    added.place = strdup(place);
    if (added.name == NULL || added.place == NULL || !push_switch(tree, &added)) {
        free(added.name);
        free(added.place);
        return redco_fail(err, REDCO_ENOMEM, place, "out of memory");
    }
    return REDCO_OK;
}

static redco_status check_switches_differ(const redcoi_tree *tree, const redcoi_name *sorted, redco_error *err)
{
    uint32_t first = 0;
    uint32_t second = 0;
    const char *name = redcoi_names_duplicate(sorted, tree->switch_count, &first, &second);
    if (name == NULL) { return REDCO_OK; }
    return redco_fail(err, REDCO_EVALUE, tree->switches[second].place, "switch \"%s\" is described twice; first at %s",
                      name, tree->switches[first].place);
}

static const redcoi_switch *leaf_of_host(const redcoi_tree *tree, uint32_t host)
{
    for (uint32_t i = 0; i < tree->switch_count; i++) {
        const redcoi_switch *leaf = &tree->switches[i];
        if (host >= leaf->first_host && host - leaf->first_host < leaf->host_count) { return leaf; }
    }
    return &tree->switches[0];
}

static redco_status check_hosts_differ(const redcoi_tree *tree, redco_error *err)
{
    const size_t count = redco_hostlist_count(tree->hosts);
    redcoi_name *sorted = malloc((count + 1) * sizeof *sorted);
    uint32_t first = 0;
    uint32_t second = 0;
    if (sorted == NULL) { return redco_fail(err, REDCO_ENOMEM, tree->source, "out of memory"); }
    for (size_t i = 0; i < count; i++) { sorted[i] = (redcoi_name){redco_hostlist_name(tree->hosts, i), (uint32_t)i}; }
    redcoi_names_sort(sorted, count);
    const char *name = redcoi_names_duplicate(sorted, count, &first, &second);
    free(sorted);
    if (name == NULL) { return REDCO_OK; }
    const redcoi_switch *a = leaf_of_host(tree, first);
    const redcoi_switch *b = leaf_of_host(tree, second);
    if (a == b) { return redco_fail(err, REDCO_EVALUE, b->place, "node \"%s\" is named twice", name); }
    return redco_fail(err, REDCO_EVALUE, b->place,
                      "node \"%s\" is under two switches, \"%s\" and \"%s\"; it needs one parent", name, a->name,
                      b->name);
}

static redco_status link_parents(redcoi_tree *tree, const redcoi_name *sorted, redco_error *err)
{
    for (uint32_t i = 0; i < tree->switch_count; i++) {
        const redcoi_switch *parent = &tree->switches[i];
        for (uint32_t c = 0; c < parent->child_count; c++) {
            const char *name = redco_hostlist_name(tree->child_names, parent->first_child + c);
            const uint32_t child = redcoi_names_find(sorted, tree->switch_count, name);
            if (child == UINT32_MAX) {
                return redco_fail(err, REDCO_EVALUE, parent->place,
                                  "switch \"%s\" names \"%s\", which is described nowhere in the file", parent->name,
                                  name);
            }
            if (tree->switches[child].parent == i) {
                return redco_fail(err, REDCO_EVALUE, parent->place, "switch \"%s\" names \"%s\" twice", parent->name,
                                  name);
            }
            if (tree->switches[child].parent != REDCOI_NO_SWITCH) {
                return redco_fail(err, REDCO_EVALUE, parent->place,
                                  "switch \"%s\" is under two switches, \"%s\" and \"%s\"; it needs one parent", name,
                                  tree->switches[tree->switches[child].parent].name, parent->name);
            }
            tree->switches[child].parent = i;
            tree->children[parent->first_child + c] = child;
        }
    }
    return REDCO_OK;
}

/* Every switch has one parent at most, so walking up either ends or stays in a cycle. */
static redco_status check_height(const redcoi_tree *tree, redco_error *err)
{
    for (uint32_t i = 0; i < tree->switch_count; i++) {
        uint32_t at = i;
        uint32_t tiers = 1;
        while (tree->switches[at].parent != REDCOI_NO_SWITCH && tiers <= REDCOI_MAX_TIERS) {
            at = tree->switches[at].parent;
            tiers++;
        }
        if (tiers <= REDCOI_MAX_TIERS) { continue; }
        /* Two walkers, one twice as fast, meet in a cycle. */
        uint32_t slow = i;
        uint32_t fast = i;
        do {
            slow = tree->switches[slow].parent;
            fast = tree->switches[fast].parent;
            if (fast != REDCOI_NO_SWITCH) { fast = tree->switches[fast].parent; }
        } while (fast != REDCOI_NO_SWITCH && fast != slow);
        if (fast != REDCOI_NO_SWITCH) {
            return redco_fail(err, REDCO_EVALUE, tree->switches[fast].place,
                              "switch \"%s\" is above itself: the switches form a cycle", tree->switches[fast].name);
        }
        return redco_fail(err, REDCO_EVALUE, tree->switches[i].place,
                          "switch \"%s\" is under more than %d switches; at most %d levels are read",
                          tree->switches[i].name, REDCOI_MAX_TIERS - 1, REDCOI_MAX_TIERS);
    }
    return REDCO_OK;
}

redco_status redcoi_tree_finish(redcoi_tree *tree, redco_error *err)
{
    const size_t child_count = redco_hostlist_count(tree->child_names);
    if (tree->switch_count == 0) {
        return redco_fail(err, REDCO_EVALUE, tree->source, "describes no switch; a leaf with nodes is needed");
    }
    redcoi_name *sorted = malloc(tree->switch_count * sizeof *sorted);
    tree->children = calloc(child_count + 1, sizeof *tree->children);
    redco_status st = REDCO_OK;
    if (sorted == NULL || tree->children == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, tree->source, "out of memory");
        goto out;
    }
    for (uint32_t i = 0; i < tree->switch_count; i++) { sorted[i] = (redcoi_name){tree->switches[i].name, i}; }
    redcoi_names_sort(sorted, tree->switch_count);
    if ((st = check_switches_differ(tree, sorted, err)) != REDCO_OK) { goto out; }
    if ((st = link_parents(tree, sorted, err)) != REDCO_OK) { goto out; }
    if ((st = check_height(tree, err)) != REDCO_OK) { goto out; }
    st = check_hosts_differ(tree, err);
out:
    free(sorted);
    return st;
}
