#include "traces/profile_build.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FIELDS = 16 };
static const uint64_t one_mib = (uint64_t)1 << 20;

struct field {
    const char *text;
    size_t length;
};

struct csv {
    redco_profile *profile;
    redco_error *err;
    struct redcoi_profile_about about;
    char title[160]; /* first comment line */
    const char *name;
    const char *header;
    size_t header_length;
    uint32_t line;
    struct field fields[MAX_FIELDS];
    size_t field_count;
    bool has_run;
    redco_profile_run run; /* the one rows are being added to */
};

struct dialect {
    const char *header; /* its line, or the beginning of it when rows is NULL */
    const char *format;
    size_t columns;
    redco_status (*row)(struct csv *csv);
    const char *refusal; /* the kind of such a table, which has no times */
};

static redco_status bad_field(struct csv *csv, size_t column, const char *wanted)
{
    const struct field *field = &csv->fields[column];
    return redcoi_profile_fail(csv->profile, csv->line, csv->err, "column %zu is \"%.*s\"; %s is needed", column + 1,
                               (int)(field->length < 40 ? field->length : 40), field->text, wanted);
}

static redco_status whole(struct csv *csv, size_t column, uint64_t max, uint64_t *out)
{
    const struct field *field = &csv->fields[column];
    if (!redcoi_whole(field->text, field->length, out) || *out > max) {
        return bad_field(csv, column, "a whole number in range");
    }
    return REDCO_OK;
}

static redco_status ranks(struct csv *csv, size_t column, uint32_t *out)
{
    uint64_t value = 0;
    const redco_status st = whole(csv, column, 1u << 20, &value);
    *out = (uint32_t)value;
    return st;
}

/* A positive number; *out = number * unit. */
static redco_status number(struct csv *csv, size_t column, double unit, double *out)
{
    const struct field *field = &csv->fields[column];
    if (!redcoi_decimal(field->text, field->length, out) || *out <= 0.0) {
        return bad_field(csv, column, "a number above 0");
    }
    *out *= unit;
    return REDCO_OK;
}

static bool field_is(const struct csv *csv, size_t column, const char *text)
{
    const struct field *field = &csv->fields[column];
    return field->length == strlen(text) && memcmp(field->text, text, field->length) == 0;
}

static redco_status field_op(struct csv *csv, size_t column, redco_collective *out)
{
    const struct field *field = &csv->fields[column];
    if (!redco_collective_parse(field->text, field->length, out)) {
        return bad_field(csv, column, "a collective such as all_reduce");
    }
    return REDCO_OK;
}

/* Rows of one group follow each other; another group starts another run. */
static redco_status add(struct csv *csv, redco_profile_run run, uint64_t size_bytes, double out_of_place_s,
                        double in_place_s)
{
    if (run.hardware[0] == '\0') {
        const char *text = csv->about.hardware[0] != '\0' ? csv->about.hardware : csv->title;
        redcoi_copy_text(run.hardware, sizeof run.hardware, text, strlen(text));
    }
    redcoi_copy_text(run.network, sizeof run.network, csv->about.network, strlen(csv->about.network));
    redcoi_copy_text(run.tool, sizeof run.tool, csv->about.tool, strlen(csv->about.tool));
    if (run.stride == 0) { run.stride = 1; }
    if (run.groups_per_node == 0) { run.groups_per_node = 1; }
    const redco_profile_run *last = &csv->run;
    const bool same = csv->has_run && last->op == run.op && last->ranks == run.ranks && last->nodes == run.nodes &&
                      last->stride == run.stride && last->groups_per_node == run.groups_per_node &&
                      last->bandwidth_only == run.bandwidth_only && strcmp(last->hardware, run.hardware) == 0;
    if (!same) {
        const redco_status st = redcoi_profile_begin(csv->profile, &run, csv->line, csv->err);
        if (st != REDCO_OK) { return st; }
        csv->run = run;
        csv->has_run = true;
    }
    return redcoi_profile_add(csv->profile, size_bytes, out_of_place_s, in_place_s, csv->line, csv->err);
}

/* Tables that name collective and ranks only in their comments. */
static redco_status commented_run(struct csv *csv, redco_profile_run *run)
{
    if (!csv->about.has_op || csv->about.ranks == 0) {
        return redcoi_profile_fail(csv->profile, csv->line, csv->err,
                                   "a table like this needs the comment lines \"# collective: all_reduce\" and "
                                   "\"# nodes: N gpus_per_node: M ranks: R\" above it");
    }
    *run = (redco_profile_run){.op = csv->about.op, .ranks = csv->about.ranks, .nodes = csv->about.nodes};
    return REDCO_OK;
}

/* op,gpus_per_node,nodes,size_bytes,in_place,time_s */
static redco_status redco_row(struct csv *csv)
{
    redco_profile_run run = {0};
    uint32_t gpus = 0;
    uint64_t size = 0;
    double time_s = 0.0;
    redco_status st = field_op(csv, 0, &run.op);
    if (st == REDCO_OK) { st = ranks(csv, 1, &gpus); }
    if (st == REDCO_OK) { st = ranks(csv, 2, &run.nodes); }
    if (st == REDCO_OK) { st = whole(csv, 3, UINT64_MAX, &size); }
    if (st == REDCO_OK) { st = number(csv, 5, 1.0, &time_s); }
    if (st != REDCO_OK) { return st; }
    if (gpus == 0) { return bad_field(csv, 1, "a whole number above 0"); }
    if (run.nodes == 0) { return bad_field(csv, 2, "a whole number above 0"); }
    const bool in_place = field_is(csv, 4, "1");
    if (!in_place && !field_is(csv, 4, "0")) { return bad_field(csv, 4, "0 or 1"); }
    run.ranks = (uint64_t)gpus * run.nodes <= (1u << 20) ? gpus * run.nodes : UINT32_MAX;
    return add(csv, run, size, in_place ? 0.0 : time_s, in_place ? time_s : 0.0);
}

/* size_B,time_us,algbw_GBs,busbw_GBs: nccl-tests' out-of-place half */
static redco_status mleng_row(struct csv *csv)
{
    redco_profile_run run;
    uint64_t size = 0;
    double time_s = 0.0;
    redco_status st = commented_run(csv, &run);
    if (st == REDCO_OK) { st = whole(csv, 0, UINT64_MAX, &size); }
    if (st == REDCO_OK) { st = number(csv, 1, 1e-6, &time_s); }
    return st == REDCO_OK ? add(csv, run, size, time_s, 0.0) : st;
}

/* Two decimals of a bandwidth below this say the time to no better than 5 %. */
static const double least_gb_per_s = 0.1;

static redco_status add_bandwidth(struct csv *csv, redco_profile_run run, uint64_t size, double bus_bytes_per_s)
{
    if (bus_bytes_per_s < least_gb_per_s * 1e9) {
        redcoi_profile_skip(csv->profile);
        return REDCO_OK;
    }
    if (run.ranks < 2) {
        return redcoi_profile_begin(csv->profile, &run, csv->line, csv->err);
    } /* says what is wrong */
    return add(csv, run, size, 0.0, redco_collective_bus_factor(run.op, run.ranks) * (double)size / bus_bytes_per_s);
}

/* size_B,busbw_GBs,algbw_GBs: torch.distributed's all_reduce works in place */
static redco_status torch_row(struct csv *csv)
{
    redco_profile_run run;
    uint64_t size = 0;
    double bus = 0.0;
    redco_status st = commented_run(csv, &run);
    if (st == REDCO_OK) { st = whole(csv, 0, UINT64_MAX, &size); }
    if (st == REDCO_OK) { st = number(csv, 1, 1e9, &bus); }
    return st == REDCO_OK ? add_bandwidth(csv, run, size, bus) : st;
}

/* ngpus,size_B,oop_time_ns,oop_busbw_GBs,ip_time_ns,ip_busbw_GBs: all-reduce in one node */
static redco_status vtrain_row(struct csv *csv)
{
    redco_profile_run run = {.op = REDCO_ALL_REDUCE, .nodes = 1};
    uint64_t size = 0;
    double out_s = 0.0;
    double in_s = 0.0;
    redco_status st = ranks(csv, 0, &run.ranks);
    if (st == REDCO_OK) { st = whole(csv, 1, UINT64_MAX, &size); }
    if (st == REDCO_OK) { st = number(csv, 2, 1e-9, &out_s); }
    if (st == REDCO_OK) { st = number(csv, 4, 1e-9, &in_s); }
    return st == REDCO_OK ? add(csv, run, size, out_s, in_s) : st;
}

/* num_workers,devices_per_node,size_B,min_ms,median_ms,mean_ms,max_ms: the median of three runs */
static redco_status vidur_row(struct csv *csv)
{
    redco_profile_run run = {0};
    uint32_t per_node = 0;
    uint64_t size = 0;
    double time_s = 0.0;
    if (!redcoi_collective_in_text(csv->title, strlen(csv->title), &run.op) &&
        !redcoi_collective_in_text(csv->name, strlen(csv->name), &run.op)) {
        return redcoi_profile_fail(csv->profile, csv->line, csv->err,
                                   "which collective was timed is not said; put it into the first comment line");
    }
    redco_status st = ranks(csv, 0, &run.ranks);
    if (st == REDCO_OK) { st = ranks(csv, 1, &per_node); }
    if (st == REDCO_OK) { st = whole(csv, 2, UINT64_MAX, &size); }
    if (st == REDCO_OK) { st = number(csv, 4, 1e-3, &time_s); }
    if (st != REDCO_OK) { return st; }
    if (per_node == 0 || (run.ranks > per_node && run.ranks % per_node != 0)) {
        return bad_field(csv, 1, "a number of devices per node that divides the workers");
    }
    run.nodes = run.ranks > per_node ? run.ranks / per_node : 1;
    return add(csv, run, size, 0.0, time_s);
}

/* collective,group_size,size_MiB,time_ms: groups inside one node */
static redco_status galvatron_time_row(struct csv *csv)
{
    redco_profile_run run = {.nodes = 1};
    uint64_t size = 0;
    double time_s = 0.0;
    redco_status st = field_op(csv, 0, &run.op);
    if (st == REDCO_OK) { st = ranks(csv, 1, &run.ranks); }
    if (st == REDCO_OK) { st = whole(csv, 2, (uint64_t)1 << 30, &size); }
    if (st == REDCO_OK) { st = number(csv, 3, 1e-3, &time_s); }
    return st == REDCO_OK ? add(csv, run, size * one_mib, 0.0, time_s) : st;
}

/* The number that follows @p key in a field, or 0. */
static uint32_t number_behind(const struct field *field, const char *key)
{
    const char *found = memmem(field->text, field->length, key, strlen(key));
    if (found == NULL) { return 0; }
    uint32_t value = 0;
    for (found += strlen(key);
         found < field->text + field->length && isdigit((unsigned char)*found) && value < 1u << 20; found++) {
        value = value * 10 + (uint32_t)(*found - '0');
    }
    return value;
}

/* file,key,value_GBs: e.g. allreduce_bandwidth_2nodes_8gpus_per_node,allreduce_size_8_consec_0,20.8. All groups run at
 * once; consec_0 groups and pipeline neighbours are as far apart as the ranks allow. */
static redco_status galvatron_bandwidth_row(struct csv *csv)
{
    redco_profile_run run = {.bandwidth_only = true};
    double bus = 0.0;
    const uint32_t nodes = number_behind(&csv->fields[0], "bandwidth_");
    const uint32_t per_node = number_behind(&csv->fields[0], "nodes_");
    const bool pipeline = memmem(csv->fields[1].text, csv->fields[1].length, "pp_size_", 8) != NULL;
    run.op = pipeline ? REDCO_SEND_RECV : REDCO_ALL_REDUCE;
    run.ranks = number_behind(&csv->fields[1], "size_");
    const redco_status st = number(csv, 2, 1e9, &bus);
    if (st != REDCO_OK) { return st; }
    if (nodes == 0 || per_node == 0) { return bad_field(csv, 0, "a name with \"_2nodes_8gpus_per_node\""); }
    const uint64_t world = (uint64_t)nodes * per_node;
    if (run.ranks < 2 || world % run.ranks != 0) { return bad_field(csv, 1, "a group size that divides the ranks"); }
    const bool adjacent = !pipeline && number_behind(&csv->fields[1], "consec_") == 1;
    const uint32_t apart = adjacent ? 1 : (uint32_t)(world / run.ranks);
    uint32_t group_per_node = per_node / (apart < per_node ? apart : per_node);
    if (group_per_node > run.ranks) { group_per_node = run.ranks; }
    run.nodes = run.ranks / group_per_node;
    run.stride = apart < per_node ? apart : per_node;
    run.groups_per_node = per_node / group_per_node;
    return add_bandwidth(csv, run, REDCO_PROFILE_NOMINAL_BYTES, bus);
}

/* gpu,ngpus,collective,size_B,algo_chosen,busbw_GBs,busbw_nvls_off_GBs: one node, default algorithm */
static redco_status nvls_row(struct csv *csv)
{
    redco_profile_run run = {.nodes = 1};
    uint64_t size = 0;
    double bus = 0.0;
    redco_status st = ranks(csv, 1, &run.ranks);
    if (st == REDCO_OK) { st = field_op(csv, 2, &run.op); }
    if (st == REDCO_OK) { st = whole(csv, 3, UINT64_MAX, &size); }
    if (st == REDCO_OK) { st = number(csv, 5, 1e9, &bus); }
    redcoi_copy_text(run.hardware, sizeof run.hardware, csv->fields[0].text, csv->fields[0].length);
    return st == REDCO_OK ? add_bandwidth(csv, run, size, bus) : st;
}

static const struct dialect dialects[] = {
    {"op,gpus_per_node,nodes,size_bytes,in_place,time_s", "redco CSV", 6, redco_row, NULL},
    {"size_B,time_us,algbw_GBs,busbw_GBs", "ML Engineering table", 4, mleng_row, NULL},
    {"size_B,busbw_GBs,algbw_GBs", "ML Engineering torch table", 3, torch_row, NULL},
    {"ngpus,size_B,oop_time_ns,oop_busbw_GBs,ip_time_ns,ip_busbw_GBs", "vTrain look-up table", 6, vtrain_row, NULL},
    {"num_workers,devices_per_node,size_B,min_ms,median_ms,mean_ms,max_ms", "Vidur profile", 7, vidur_row, NULL},
    {"collective,group_size,size_MiB,time_ms", "Galvatron times", 4, galvatron_time_row, NULL},
    {"file,key,value_GBs", "Galvatron bandwidths", 3, galvatron_bandwidth_row, NULL},
    {"gpu,ngpus,collective,size_B,algo_chosen,busbw_GBs,busbw_nvls_off_GBs", "ML Engineering NVLS table", 7, nvls_row,
     NULL},
    {"Size,1 Node(NVLinkx)", "SimAI", 0, NULL,
     "a SimAI table of bandwidth efficiencies (shares of an unstated nominal rate), not of measured times"},
    {"config,collective,size_B,algo,proto,", "vectors", 0, NULL,
     "a table of values computed from NCCL's model, not of measured times"},
};

static void split(struct csv *csv, const char *line, size_t length)
{
    csv->field_count = 0;
    for (size_t start = 0, i = 0; i <= length; i++) {
        if (i < length && line[i] != ',') { continue; }
        if (csv->field_count < MAX_FIELDS) {
            size_t from = start;
            size_t to = i;
            while (from < to && line[from] == ' ') { from++; }
            while (to > from && line[to - 1] == ' ') { to--; }
            csv->fields[csv->field_count] = (struct field){line + from, to - from};
        }
        csv->field_count++;
        start = i + 1;
    }
}

static redco_status rows_of(struct csv *csv, const struct dialect *dialect, const char *text, size_t size, size_t at)
{
    const char *line = NULL;
    size_t length = 0;
    redco_status st = REDCO_OK;
    while (st == REDCO_OK && redcoi_next_line(text, size, &at, &line, &length)) {
        csv->line++;
        if (length == 0 || line[0] == '#') { continue; }
        split(csv, line, length);
        if (csv->field_count != dialect->columns) {
            return redcoi_profile_fail(csv->profile, csv->line, csv->err, "%zu columns; the header names %zu",
                                       csv->field_count, dialect->columns);
        }
        st = dialect->row(csv);
    }
    return st;
}

/* size_B,busbw_1node_8gpu_GBs,busbw_4node_32gpu_GBs: each bandwidth column is a group. */
static redco_status columns_of(struct csv *csv, const char *text, size_t size, size_t data_at)
{
    const char *line = NULL;
    size_t length = 0;
    redco_status st = REDCO_OK;
    const uint32_t first_line = csv->line;
    split(csv, csv->header, csv->header_length);
    const size_t columns = csv->field_count;
    if (columns > MAX_FIELDS) {
        return redcoi_profile_fail(csv->profile, csv->line, csv->err, "more than %d columns", MAX_FIELDS);
    }
    for (size_t column = 1; column < columns && st == REDCO_OK; column++) {
        split(csv, csv->header, csv->header_length);
        const struct field head = csv->fields[column];
        redco_profile_run run = {
            .op = csv->about.op, .nodes = number_behind(&head, "busbw_"), .ranks = number_behind(&head, "node_")};
        if (!csv->about.has_op || run.nodes == 0 || run.ranks == 0) {
            return redcoi_profile_fail(csv->profile, csv->line, csv->err,
                                       "columns must be named like busbw_4node_32gpu_GBs, below a line \"# collective: "
                                       "all_reduce\"");
        }
        csv->line = first_line;
        for (size_t at = data_at; st == REDCO_OK && redcoi_next_line(text, size, &at, &line, &length);) {
            uint64_t bytes = 0;
            double bus = 0.0;
            csv->line++;
            if (length == 0 || line[0] == '#') { continue; }
            split(csv, line, length);
            if (csv->field_count != columns) {
                return redcoi_profile_fail(csv->profile, csv->line, csv->err, "%zu columns; the header names %zu",
                                           csv->field_count, columns);
            }
            st = whole(csv, 0, UINT64_MAX, &bytes);
            if (st == REDCO_OK) { st = number(csv, column, 1e9, &bus); }
            if (st == REDCO_OK) { st = add_bandwidth(csv, run, bytes, bus); }
        }
    }
    return st;
}

static bool starts_with(const struct csv *csv, const char *text)
{
    return csv->header_length >= strlen(text) && memcmp(csv->header, text, strlen(text)) == 0;
}

redco_status redcoi_profile_csv(const char *text, size_t size, const char *name, bool *found_out,
                                redco_profile **profile_out, redco_error *err)
{
    struct csv csv = {.err = err, .name = name};
    const struct dialect *dialect = NULL;
    size_t at = 0;
    *found_out = false;
    while (redcoi_next_line(text, size, &at, &csv.header, &csv.header_length)) {
        csv.line++;
        if (csv.header_length == 0) { continue; }
        if (csv.header[0] != '#') { break; }
        size_t skip = 1;
        while (skip < csv.header_length && csv.header[skip] == ' ') { skip++; }
        redcoi_profile_comment(&csv.about, csv.header + skip, csv.header_length - skip);
        if (csv.title[0] == '\0') {
            redcoi_copy_text(csv.title, sizeof csv.title, csv.header + skip, csv.header_length - skip);
        }
    }
    for (size_t i = 0; i < sizeof dialects / sizeof dialects[0] && dialect == NULL; i++) {
        const bool whole_line = dialects[i].row != NULL;
        if (csv.header != NULL && starts_with(&csv, dialects[i].header) &&
            (!whole_line || csv.header_length == strlen(dialects[i].header))) {
            dialect = &dialects[i];
        }
    }
    const bool wide = dialect == NULL && csv.header != NULL && starts_with(&csv, "size_B,busbw_");
    if (dialect == NULL && !wide) { return REDCO_OK; }
    *found_out = true;
    if (dialect != NULL && dialect->refusal != NULL) {
        return redco_fail(err, REDCO_EVALUE, name, "is %s", dialect->refusal);
    }
    redco_status st =
        redcoi_profile_create(name, wide ? "ML Engineering torch table" : dialect->format, &csv.profile, err);
    if (st == REDCO_OK) { st = wide ? columns_of(&csv, text, size, at) : rows_of(&csv, dialect, text, size, at); }
    if (st == REDCO_OK) { st = redcoi_profile_finish(csv.profile, err); }
    if (st == REDCO_OK) {
        *profile_out = csv.profile;
        csv.profile = NULL;
    }
    redco_profile_free(csv.profile);
    return st;
}
