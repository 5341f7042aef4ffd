/* redco-validate --profiles: NCCL's model against measured collectives. */
#include "tools/validate/validate.h"

#include "tools/cli/text_table.h"
#include "topology/base/units.h"
#include "topology/discovery/cluster.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Sizes are grouped by powers of ten: below 1 kB, 1 kB, 10 kB, ... 10 GB and more. */
enum { DECADES = 9, FIRST_DECADE = 2, MAX_DEPTH = 8 };
static const char *const decade_names[DECADES] = {"<1 kB", "1 kB",   "10 kB", "100 kB", "1 MB",
                                                  "10 MB", "100 MB", "1 GB",  "10 GB"};

/* Logarithms of model/measured times of the rows in a decade. */
struct errors {
    size_t rows[DECADES];
    double sum[DECADES], sum_absolute[DECADES];
};

struct result {
    char *file;
    redco_profile_run run; /* its rows are not kept */
    struct validate_machine where;
    struct errors errors;
    size_t rows;
    json_t *points; /* size and both times of each row */
    uint64_t largest_bytes;
    double peak_measured, peak_model; /* bytes/s of bus bandwidth */
    uint64_t fingerprint;
    size_t copy_of; /* index of an earlier result with the same numbers, or its own */
};

struct skipped {
    char *file;
    char reason[256];
};

struct report {
    const struct validate_arguments *arguments;
    redco_cluster *cluster; /* NULL: each run's machine is guessed */
    redco_error *err;
    struct result *results;
    size_t count, capacity;
    struct skipped *skipped;
    size_t skipped_count, skipped_capacity;
};

static redco_status out_of_memory(struct report *report)
{
    return redco_fail(report->err, REDCO_ENOMEM, "", "out of memory");
}

static redco_status skip(struct report *report, const char *file, const char *reason)
{
    if (report->skipped_count == report->skipped_capacity) {
        const size_t wanted = report->skipped_capacity * 2 + 8;
        struct skipped *larger = realloc(report->skipped, wanted * sizeof *larger);
        if (larger == NULL) { return out_of_memory(report); }
        report->skipped = larger;
        report->skipped_capacity = wanted;
    }
    struct skipped *entry = &report->skipped[report->skipped_count];
    entry->file = strdup(file);
    if (entry->file == NULL) { return out_of_memory(report); }
    (void)snprintf(entry->reason, sizeof entry->reason, "%s", reason);
    report->skipped_count++;
    return REDCO_OK;
}

static double time_of(const redco_profile_row *row)
{
    return row->time_s[REDCO_IN_PLACE] > 0.0 ? row->time_s[REDCO_IN_PLACE] : row->time_s[REDCO_OUT_OF_PLACE];
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < size; i++) { hash = (hash ^ at[i]) * 1099511628211u; } /* FNV-1a */
    return hash;
}

static uint64_t fingerprint_of(const redco_profile_run *run)
{
    uint64_t hash = mix(14695981039346656037u, &run->op, sizeof run->op);
    hash = mix(hash, &run->ranks, sizeof run->ranks);
    for (size_t i = 0; i < run->row_count; i++) {
        hash = mix(hash, &run->rows[i].size_bytes, sizeof run->rows[i].size_bytes);
        hash = mix(hash, run->rows[i].time_s, sizeof run->rows[i].time_s);
    }
    return hash;
}

static int decade_of(uint64_t size_bytes)
{
    const int decade = (int)floor(log10((double)size_bytes) + 1e-12) - FIRST_DECADE;
    return decade < 0 ? 0 : (decade >= DECADES ? DECADES - 1 : decade);
}

static void compare_row(const redco_comm *comm, const struct report *report, const redco_profile_run *run,
                        const redco_profile_row *row, struct result *result)
{
    const double measured_s = time_of(row);
    const double size = (double)row->size_bytes;
    const double factor = redco_collective_bus_factor(run->op, run->ranks);
    if (row->size_bytes == 0 || measured_s <= 0.0) { return; }
    const redco_comm_time time = redco_comm_price(comm, run->op, size, result->where.group);
    const double model_s = time.latency_s + time.wire_s + (run->one_process ? report->arguments->launch_s : 0.0);
    result->rows++;
    (void)json_array_append_new(result->points, json_pack("{s:I,s:f,s:f}", "size_bytes", (json_int_t)row->size_bytes,
                                                          "measured_s", measured_s, "model_s", model_s));
    if (row->size_bytes > result->largest_bytes) { result->largest_bytes = row->size_bytes; }
    result->peak_measured = fmax(result->peak_measured, factor * size / measured_s);
    result->peak_model = fmax(result->peak_model, factor * size / model_s);
    if (run->bandwidth_only) { return; }
    const int decade = decade_of(row->size_bytes);
    const double error = log(model_s / measured_s);
    result->errors.rows[decade]++;
    result->errors.sum[decade] += error;
    result->errors.sum_absolute[decade] += fabs(error);
}

/* The machine that was named, whole, if it has room for the run's ranks; ranks beyond a node fill nodes. */
static redco_status place_run(const struct report *report, const redco_profile_run *run, bool *found_out,
                              struct validate_machine *out)
{
    const redco_node_gpu *gpus = NULL;
    const size_t node_gpus = redco_node_gpus(redco_cluster_node(report->cluster), &gpus);
    const bool fills = run->nodes == 0 && run->ranks > node_gpus && run->ranks % node_gpus == 0;
    const uint32_t nodes = fills ? (uint32_t)(run->ranks / node_gpus) : run->nodes > 0 ? run->nodes : 1;
    *out = (struct validate_machine){.group = {.mesh = {.gpus = run->ranks / nodes, .nodes = nodes},
                                               .stride = run->stride,
                                               .groups_per_node = run->groups_per_node},
                                     .network_stated = true};
    *found_out = out->group.mesh.gpus <= node_gpus && run->ranks % nodes == 0;
    if (!*found_out) { return REDCO_OK; }
    const uint32_t all = redco_cluster_nodes(report->cluster);
    return redco_cluster_machine(report->cluster, (uint64_t)node_gpus * (all > nodes ? all : nodes), &out->machine,
                                 report->err);
}

/* Takes the nodes of --ranks where the file names no hosts. */
static redco_status spread_ranks(const struct report *report, const char *file, redco_profile_run *run)
{
    const struct validate_arguments *arguments = report->arguments;
    const uint64_t ranks = (uint64_t)arguments->ranks_gpus * arguments->ranks_nodes;
    if (run->nodes > 0 || ranks == 0) { return REDCO_OK; }
    if (ranks != run->ranks) {
        return redco_fail(report->err, REDCO_EVALUE, file, "holds a run of %u ranks; --ranks %ux%u are %llu",
                          run->ranks, arguments->ranks_gpus, arguments->ranks_nodes, (unsigned long long)ranks);
    }
    run->nodes = arguments->ranks_nodes;
    return REDCO_OK;
}

static redco_status compare_run(struct report *report, const char *file, const redco_profile_run *measured)
{
    redco_comm *comm = NULL;
    redco_profile_run spread = *measured;
    const redco_profile_run *const run = &spread;
    const redco_status said = spread_ranks(report, file, &spread);
    if (said != REDCO_OK) { return said; }
    struct result result = {.run = *run, .fingerprint = fingerprint_of(run), .copy_of = report->count};
    bool found = false;
    redco_status st = report->cluster != NULL ? place_run(report, run, &found, &result.where)
                                              : validate_deduce(run, file, &found, &result.where, report->err);
    if (st != REDCO_OK) { return st; }
    if (!found) {
        char reason[320];
        (void)snprintf(
            reason, sizeof reason, "%s on %u GPUs: %s (\"%.80s\")", redco_collective_name(run->op), run->ranks,
            report->cluster != NULL ? "has more in a node than the cluster"
                                    : "names no GPU that is known here; say --cluster, and --ranks GPUSxNODES",
            run->hardware);
        return skip(report, file, reason);
    }
    if (report->count == report->capacity) {
        const size_t wanted = report->capacity * 2 + 32;
        struct result *larger = realloc(report->results, wanted * sizeof *larger);
        if (larger == NULL) { return out_of_memory(report); }
        report->results = larger;
        report->capacity = wanted;
    }
    st = redco_comm_create(&result.where.machine, NULL, 0, &comm, report->err);
    if (st != REDCO_OK) { return st; }
    result.points = json_array();
    if (result.where.algorithms != 0 || result.where.protocols != 0) {
        redco_comm_restrict(comm, result.where.algorithms, result.where.protocols);
    }
    for (size_t i = 0; i < run->row_count; i++) { compare_row(comm, report, run, &run->rows[i], &result); }
    redco_comm_free(comm);
    for (size_t i = 0; i < report->count && result.copy_of == report->count; i++) {
        if (report->results[i].fingerprint == result.fingerprint) { result.copy_of = i; }
    }
    result.run.rows = NULL;
    result.file = strdup(file);
    if (result.file == NULL) {
        json_decref(result.points);
        return out_of_memory(report);
    }
    report->results[report->count++] = result;
    return REDCO_OK;
}

/* A file named by the user must be a profile; one found in a folder may be something else. */
static redco_status compare_file(struct report *report, const char *file, bool named)
{
    redco_profile *profile = NULL;
    const redco_profile_run *runs = NULL;
    redco_error why = {0};
    redco_status st = redco_profile_read(file, &profile, named ? report->err : &why);
    if (st == REDCO_EVALUE && !named) {
        char reason[1300];
        const bool inside = strncmp(why.place, file, strlen(file)) == 0;
        const char *place = inside ? why.place + strlen(file) : why.place;
        (void)snprintf(reason, sizeof reason, "%s%s%s", place[0] == ':' ? "line " : "",
                       place[0] == ':' ? place + 1 : place, place[0] == '\0' ? "" : ": ");
        (void)snprintf(reason + strlen(reason), sizeof reason - strlen(reason), "%s", why.text);
        return skip(report, file, reason);
    }
    if (st != REDCO_OK) { return named ? st : redco_fail(report->err, st, why.place, "%s", why.text); }
    const size_t count = redco_profile_runs(profile, &runs), skipped = redco_profile_skipped(profile);
    for (size_t i = 0; i < count && st == REDCO_OK; i++) { st = compare_run(report, file, &runs[i]); }
    if (st == REDCO_OK && skipped > 0) {
        char reason[120];
        (void)snprintf(reason, sizeof reason, "%zu rows: too few digits for a time, or the log is cut off there",
                       skipped);
        st = skip(report, file, reason);
    }
    redco_profile_free(profile);
    return st;
}

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static redco_status compare_path(struct report *report, const char *path, bool named, int depth)
{
    struct stat info;
    struct dirent **entries = NULL;
    redco_status st = REDCO_OK;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) { return compare_file(report, path, named); }
    if (depth >= MAX_DEPTH) { return redco_fail(report->err, REDCO_EVALUE, path, "folders nested too deeply"); }
    const int count = scandir(path, &entries, visible, alphasort);
    if (count < 0) { return redco_fail(report->err, REDCO_EIO, path, "cannot list: %s", strerror(errno)); }
    for (int i = 0; i < count; i++) {
        char *inside = NULL;
        const bool slash = path[strlen(path) - 1] == '/';
        if (st == REDCO_OK && asprintf(&inside, "%s%s%s", path, slash ? "" : "/", entries[i]->d_name) < 0) {
            inside = NULL;
            st = out_of_memory(report);
        }
        if (st == REDCO_OK) { st = compare_path(report, inside, false, depth + 1); }
        free(inside);
        free(entries[i]);
    }
    free(entries);
    return st;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static void describe_hardware(const struct result *result, bool repeated, char *buffer, size_t size)
{
    const redco_machine *machine = &result->where.machine;
    const redco_group *group = &result->where.group;
    int used = snprintf(buffer, size, "%s", machine->gpu.name);
    if (group->mesh.nodes > 1) {
        used += snprintf(buffer + used, size - (size_t)used, ", %u x %.3gG%s", machine->nics_per_node,
                         machine->nic_bytes_per_s * 8e-9, result->where.network_stated ? "" : " (assumed)");
    }
    if (result->where.algorithms != 0 || result->where.protocols != 0) {
        used += snprintf(buffer + used, size - (size_t)used, ", forced");
    }
    if (result->run.one_process) { used += snprintf(buffer + used, size - (size_t)used, ", 1 process"); }
    if (group->stride > 1 || group->groups_per_node > 1) {
        used += snprintf(buffer + used, size - (size_t)used, ", stride %u, %u groups", group->stride,
                         group->groups_per_node);
    }
    if (repeated) { (void)snprintf(buffer + used, size - (size_t)used, ", same numbers as above"); }
}

static void print_ratios(const struct errors *errors)
{
    for (int d = 0; d < DECADES; d++) {
        if (errors->rows[d] == 0) {
            (void)printf(" |");
        } else {
            (void)printf(" %.2f |", exp(errors->sum[d] / (double)errors->rows[d]));
        }
    }
}

/* Limits of a run: the summary keeps these apart. */
enum kind { ONE_SWITCHED, ONE_OTHER, SEVERAL, KINDS };
static const char *const kind_names[KINDS] = {"one node, switched links", "one node, other links", "several nodes"};
static const char *const kind_keys[KINDS] = {"one_node_switched", "one_node_other", "several_nodes"};

static enum kind kind_of(const struct result *result)
{
    if (result->where.group.mesh.nodes > 1) { return SEVERAL; }
    return result->where.machine.fabric == REDCO_FABRIC_SWITCH ? ONE_SWITCHED : ONE_OTHER;
}

/* Every run counts once per decade, however many rows it has. */
struct summary {
    size_t runs, rows, peaks;
    struct errors errors;
    double peak_mean, peak_worst; /* |model/measured - 1| */
};

/* Left out: repeated numbers, networks that the file does not state. Peaks: of runs that reach large messages. */
static struct summary summarise(const struct report *report, enum kind kind)
{
    static const uint64_t large_bytes = 100000000;
    struct summary all = {0};
    for (size_t i = 0; i < report->count; i++) {
        const struct result *result = &report->results[i];
        if (result->copy_of != i || !result->where.network_stated || kind_of(result) != kind) { continue; }
        const double off = fabs(result->peak_model / result->peak_measured - 1.0);
        all.runs++;
        all.rows += result->rows;
        if (result->largest_bytes >= large_bytes && !result->run.bandwidth_only) {
            all.peaks++;
            all.peak_mean += off;
            all.peak_worst = fmax(all.peak_worst, off);
        }
        for (int d = 0; d < DECADES; d++) {
            if (result->errors.rows[d] == 0) { continue; }
            const double rows = (double)result->errors.rows[d];
            all.errors.rows[d]++;
            all.errors.sum[d] += result->errors.sum[d] / rows;
            all.errors.sum_absolute[d] += result->errors.sum_absolute[d] / rows;
        }
    }
    if (all.peaks > 0) { all.peak_mean /= (double)all.peaks; }
    return all;
}

static void print_table(const struct report *report)
{
    static const char *const columns[] = {"file", "collective", "GPUs", "hardware", "rows", NULL};
    const char *last = "";
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; columns[i] != NULL; i++) { (void)printf(pass == 0 ? "| %s " : "|---", columns[i]); }
        for (int d = 0; d < DECADES; d++) { (void)printf(pass == 0 ? "| %s " : "|--:", decade_names[d]); }
        (void)printf(pass == 0 ? "| peak GB/s | model | ratio |\n" : "|--:|--:|--:|\n");
    }
    for (size_t i = 0; i < report->count; i++) {
        const struct result *result = &report->results[i];
        char hardware[160];
        char group[32];
        describe_hardware(result, result->copy_of != i, hardware, sizeof hardware);
        (void)snprintf(group, sizeof group, "%ux%u", result->where.group.mesh.gpus, result->where.group.mesh.nodes);
        (void)printf("| %s | %s | %s | %s | %zu |", strcmp(last, result->file) != 0 ? base_name(result->file) : "",
                     redco_collective_name(result->run.op), group, hardware, result->rows);
        last = result->file;
        print_ratios(&result->errors);
        const int digits = result->peak_model < 1e8 ? 4 : 1;
        (void)printf(" %.*f | %.*f | %.2f |\n", digits, result->peak_measured * 1e-9, digits, result->peak_model * 1e-9,
                     result->peak_model / result->peak_measured);
    }
}

static void print_summary(const struct report *report)
{
    (void)printf("\n| all runs alike | runs | rows | |");
    for (int d = 0; d < DECADES; d++) { (void)printf(" %s |", decade_names[d]); }
    (void)printf(" peak: mean error | worst |\n|---|--:|--:|---|");
    for (int d = 0; d < DECADES + 2; d++) { (void)printf("--:|"); }
    (void)printf("\n");
    for (int kind = 0; kind < KINDS; kind++) {
        const struct summary all = summarise(report, (enum kind)kind);
        if (all.runs == 0) { continue; }
        (void)printf("| %s | %zu | %zu | model/measured |", kind_names[kind], all.runs, all.rows);
        print_ratios(&all.errors);
        if (all.peaks > 0) {
            (void)printf(" %.1f %% | %.1f %% |\n", 100.0 * all.peak_mean, 100.0 * all.peak_worst);
        } else {
            (void)printf(" | |\n");
        }
        (void)printf("| | | | off by a factor of |");
        for (int d = 0; d < DECADES; d++) {
            if (all.errors.rows[d] == 0) {
                (void)printf(" |");
            } else {
                (void)printf(" %.2f |", exp(all.errors.sum_absolute[d] / (double)all.errors.rows[d]));
            }
        }
        (void)printf(" | |\n");
    }
}

/* Ranks that fit one node may have run on several, where the file names no hosts. */
static void print_guesses(const struct report *report)
{
    bool any = false;
    for (size_t i = 0; i < report->count; i++) {
        const struct result *result = &report->results[i];
        const redco_mesh mesh = result->where.group.mesh;
        const uint32_t ranks = result->run.ranks;
        if (result->run.nodes > 0 || mesh.nodes > 1 || result->copy_of != i) { continue; }
        if (!any) { (void)printf("\nNo hosts named:\n\n"); }
        any = true;
        table_line("- %s: its %u ranks are taken as %ux1; if each ran on a node of its own, say --ranks 1x%u (8x2: 8 "
                   "on each of 2 nodes), or for all tools a line \"# nodes: %u\" above the rows",
                   base_name(result->file), ranks, mesh.gpus, ranks, ranks);
    }
}

static void print_report(const void *shown)
{
    const struct report *const report = shown;
    char launch[32];
    (void)printf(
        "Time of NCCL's model over measured time, geometric mean by message size (below 1: the model is "
        "optimistic),\nand peak bus bandwidth, measured and modelled. GPUs: per node x nodes. Launch cost added "
        "for one-process logs: %s.\n\n",
        redco_unit_format(report->arguments->launch_s, REDCO_UNIT_SECONDS, launch, sizeof launch));
    print_table(report);
    print_summary(report);
    print_guesses(report);
    if (report->skipped_count > 0) { (void)printf("\nNot compared:\n\n"); }
    for (size_t i = 0; i < report->skipped_count; i++) {
        table_line("- %s: %s", base_name(report->skipped[i].file), report->skipped[i].reason);
    }
}

static json_t *decades_json(const struct errors *errors)
{
    json_t *list = json_array();
    for (int d = 0; d < DECADES; d++) {
        if (errors->rows[d] == 0) { continue; }
        const double rows = (double)errors->rows[d];
        json_array_append_new(
            list, json_pack("{s:f,s:I,s:f,s:f}", "from_bytes", d == 0 ? 0.0 : pow(10.0, d + FIRST_DECADE), "rows",
                            (json_int_t)errors->rows[d], "model_over_measured", exp(errors->sum[d] / rows),
                            "typical_factor", exp(errors->sum_absolute[d] / rows)));
    }
    return list;
}

static json_t *result_json(const struct report *report, size_t index)
{
    const struct result *result = &report->results[index];
    const redco_machine *machine = &result->where.machine;
    const redco_group *group = &result->where.group;
    json_t *json = json_pack(
        "{s:o,s:s,s:I,s:I,s:I,s:I,s:s,s:I,s:f,s:b,s:b,s:b,s:I,s:o,s:f,s:f}", "file", cli_json_text(result->file),
        "collective", redco_collective_name(result->run.op), "gpus_per_node", (json_int_t)group->mesh.gpus, "nodes",
        (json_int_t)group->mesh.nodes, "stride", (json_int_t)group->stride, "groups_per_node",
        (json_int_t)group->groups_per_node, "gpu", machine->gpu.name, "nics_per_node",
        (json_int_t)machine->nics_per_node, "nic_bytes_per_s", machine->nic_bytes_per_s, "network_stated",
        result->where.network_stated, "one_process", result->run.one_process, "repeated", result->copy_of != index,
        "rows", (json_int_t)result->rows, "decades", decades_json(&result->errors), "peak_measured_bytes_per_s",
        result->peak_measured, "peak_model_bytes_per_s", result->peak_model);
    (void)json_object_set_new(json, "bus_factor",
                              json_real(redco_collective_bus_factor(result->run.op, result->run.ranks)));
    (void)json_object_set(json, "points", result->points);
    return json;
}

static json_t *summary_json(const struct report *report, enum kind kind)
{
    const struct summary all = summarise(report, kind);
    return json_pack("{s:I,s:I,s:o,s:f,s:f}", "runs", (json_int_t)all.runs, "rows", (json_int_t)all.rows, "decades",
                     decades_json(&all.errors), "peak_mean_error", all.peak_mean, "peak_worst_error", all.peak_worst);
}

static json_t *report_json(const struct report *report)
{
    json_t *runs = json_array();
    json_t *skipped = json_array();
    json_t *all = json_object();
    for (size_t i = 0; i < report->count; i++) { json_array_append_new(runs, result_json(report, i)); }
    for (size_t i = 0; i < report->skipped_count; i++) {
        json_array_append_new(skipped, json_pack("{s:o,s:o}", "file", cli_json_text(report->skipped[i].file), "reason",
                                                 cli_json_text(report->skipped[i].reason)));
    }
    for (int kind = 0; kind < KINDS; kind++) {
        json_object_set_new(all, kind_keys[kind], summary_json(report, (enum kind)kind));
    }
    return json_pack("{s:s,s:i,s:f,s:o,s:o,s:o}", "format", "redco-validate-profiles", "version", 1, "launch_s",
                     report->arguments->launch_s, "runs", runs, "skipped", skipped, "all", all);
}

int validate_profiles(const struct validate_arguments *arguments)
{
    redco_error err = {0};
    struct report report = {.arguments = arguments, .err = &err};
    redco_status st = REDCO_OK;
    if (arguments->cluster != NULL) {
        st = redco_cluster_read(arguments->cluster, NULL, NULL, NULL, &report.cluster, &err);
    }
    for (size_t i = 0; i < arguments->file_count && st == REDCO_OK; i++) {
        st = compare_path(&report, arguments->files[i], true, 0);
    }
    if (st == REDCO_OK && report.count == 0) {
        const char *const reason = report.skipped_count > 0 ? report.skipped[0].reason : NULL;
        st =
            redco_fail(&err, REDCO_EVALUE, arguments->files[0], "holds no measured collective that can be compared%s%s",
                       reason != NULL ? ": " : "", reason != NULL ? reason : "");
    }
    json_t *const json = st == REDCO_OK ? report_json(&report) : NULL;
    const struct validate_outcome outcome = {
        .json = json, .kind = PLOT_COLLECTIVES, .print = print_report, .report = &report};
    const int code = st == REDCO_OK ? validate_finish(arguments, &outcome) : cli_fail(&arguments->cli, &err);
    json_decref(json);
    for (size_t i = 0; i < report.count; i++) {
        free(report.results[i].file);
        json_decref(report.results[i].points);
    }
    for (size_t i = 0; i < report.skipped_count; i++) { free(report.skipped[i].file); }
    free(report.results);
    free(report.skipped);
    redco_cluster_free(report.cluster);
    return code;
}
