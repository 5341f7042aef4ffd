/* The tables of devices and paths that people paste: "nvidia-smi topo -m", "rocm-smi --showtopo" and "amd-smi
 * topology", the command that they typed above it or not. They name neither the GPUs' type nor rates: links are
 * counted, and get the rate of the type that redco_node_set_gpu() is told.
 *
 *  nvidia-smi: a header of devices ("GPU0 GPU1 NIC0 CPU Affinity NUMA Affinity ..."), a row for each with X, NV# (so
 *  many NVLinks), PIX, PXB, PHB, NODE or SYS for each device, then the processor's affinity; and a legend of NICs.
 *  rocm-smi: sections of one such matrix each; of "Weight" an XGMI hop adds 15, so that the smallest is a direct link
 *  (AMD SMI's manual, "weight"); of "Link Type" XGMI or PCIE; "Numa Nodes" line by line.
 *  amd-smi: the same under "WEIGHT TABLE:" and "LINK TYPE TABLE:", of GPUs named by their PCI addresses. */
#include "topology/base/number.h"
#include "topology/discovery/node_internal.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEVICES_MAX = REDCOI_GPUS_MAX + REDCOI_NICS_MAX,
    NAME_BYTES = 32,
    LINE_BYTES = 65536,
    MOST_LINKS = 18 /* a GPU has at most so many (H100 and B200 data sheets); more can only go through NVSwitch */
};

/* Until the type is told: that of NVLink 2 to 4, one direction. */
static const double assumed_link_bytes_per_s = 25e9;

struct cell {
    uint8_t path;  /* redco_path, of PCIe */
    uint8_t links; /* between two GPUs */
    uint32_t weight;
};

struct device {
    char name[NAME_BYTES];
    bool gpu, has_row;
    uint32_t numa;
    size_t group[2]; /* parents in union-find: under one PCIe switch, under one host bridge */
};

enum section { TOPO, WEIGHTS, LINK_TYPES, NUMAS, OTHER_SECTION };

struct reader {
    const char *name;
    redco_error *err;
    uint32_t line;
    enum section section;
    struct device *devices;
    size_t count;
    size_t columns[DEVICES_MAX]; /* devices of the header read last */
    size_t column_count;
    struct cell *cells; /* [count][count] */
    bool rocm;
};

struct word {
    const char *text;
    size_t length;
};

static redco_status refuse(const struct reader *reader, const char *what, const struct word *word)
{
    char place[sizeof reader->err->place];
    (void)snprintf(place, sizeof place, "%s:%u", reader->name, reader->line);
    return redco_fail(reader->err, REDCO_EVALUE, place, "\"%.*s\" %s", (int)(word->length < 40 ? word->length : 40),
                      word->text, what);
}

static bool is_word(const struct word *word, const char *text)
{
    return word->length == strlen(text) && memcmp(word->text, text, word->length) == 0;
}

/* "GPU12", of amd-smi "0000:05:00.0" */
static bool is_gpu_name(const struct word *word)
{
    if (word->length == strlen("0000:05:00.0") && word->text[4] == ':' && word->text[7] == ':' &&
        word->text[10] == '.') {
        return strspn(word->text, "0123456789abcdefABCDEF:.") >= word->length;
    }
    if (word->length < 4 || memcmp(word->text, "GPU", 3) != 0) { return false; }
    for (size_t i = 3; i < word->length; i++) {
        if (!isdigit((unsigned char)word->text[i])) { return false; }
    }
    return true;
}

/* Copies a line without the escapes by which terminals underline, and cuts it into words. */
static size_t split(const char *text, size_t length, char *line, struct word *words, size_t most)
{
    size_t used = 0;
    size_t count = 0;
    for (size_t i = 0; i < length && used + 1 < LINE_BYTES; i++) {
        if (text[i] == '\033' && i + 1 < length && text[i + 1] == '[') {
            while (i < length && !isalpha((unsigned char)text[i])) { i++; }
            continue;
        }
        line[used++] = text[i];
    }
    line[used] = '\0';
    for (size_t i = 0; i < used && count < most;) {
        while (i < used && isspace((unsigned char)line[i])) { i++; }
        const size_t start = i;
        while (i < used && !isspace((unsigned char)line[i])) { i++; }
        if (i > start) { words[count++] = (struct word){line + start, i - start}; }
    }
    return count;
}

static size_t find_device(const struct reader *reader, const struct word *word)
{
    for (size_t i = 0; i < reader->count; i++) {
        if (is_word(word, reader->devices[i].name)) { return i; }
    }
    return SIZE_MAX;
}

/* "GPU0 GPU1 NIC0 CPU Affinity ...": the first header says which devices there are, later ones of rocm-smi repeat it.
 */
static redco_status read_header(struct reader *reader, const struct word *words, size_t count)
{
    const bool first = reader->cells == NULL;
    reader->column_count = 0;
    if (!first && !reader->rocm) { return refuse(reader, "begins a second table; those of one host are read", words); }
    for (size_t i = 0; i < count && !is_word(&words[i], "CPU"); i++) {
        size_t device = find_device(reader, &words[i]);
        if (device != SIZE_MAX && first) { return refuse(reader, "heads two columns", &words[i]); }
        if (device == SIZE_MAX && !first) { return refuse(reader, "is no device of the first table", &words[i]); }
        if (reader->column_count >= DEVICES_MAX || words[i].length >= NAME_BYTES) {
            return refuse(reader, "is a column too many, or too long a name", &words[i]);
        }
        if (first) {
            struct device *added = &reader->devices[device = reader->count++];
            memcpy(added->name, words[i].text, words[i].length);
            added->gpu = is_gpu_name(&words[i]);
            added->numa = UINT32_MAX;
        }
        reader->columns[reader->column_count++] = device;
    }
    if (!first) { return REDCO_OK; }
    const size_t cells = reader->count * reader->count;
    reader->cells = calloc(cells, sizeof *reader->cells);
    if (reader->cells == NULL) { return redco_fail(reader->err, REDCO_ENOMEM, reader->name, "out of memory"); }
    for (size_t i = 0; i < cells; i++) { reader->cells[i].path = REDCO_PATH_SYS; }
    return REDCO_OK;
}

static redco_status read_cell(const struct reader *reader, const struct word *word, struct cell *cell)
{
    static const struct {
        const char *word;
        redco_path path;
    } paths[] = {{"X", REDCO_PATH_SELF},    {"PIX", REDCO_PATH_PIX},   {"PXB", REDCO_PATH_PHB},
                 {"PHB", REDCO_PATH_PHB},   {"NODE", REDCO_PATH_NODE}, {"SYS", REDCO_PATH_SYS},
                 {"SOC", REDCO_PATH_SYS},   {"N/A", REDCO_PATH_SYS},   {"PCIE", REDCO_PATH_SYS},
                 {"XGMI", REDCO_PATH_LINK}, {"0", REDCO_PATH_SELF},    {"SELF", REDCO_PATH_SELF}};
    uint64_t number = 0;
    if (reader->section == WEIGHTS) {
        if (redco_whole_read(word->text, word->length, &number) != word->length || number > UINT32_MAX) {
            return refuse(reader, "is no weight, a whole number", word);
        }
        cell->weight = (uint32_t)number;
        return REDCO_OK;
    }
    if (word->length > 2 && memcmp(word->text, "NV", 2) == 0 &&
        redco_whole_read(word->text + 2, word->length - 2, &number) == word->length - 2 && number > 0 &&
        number <= MOST_LINKS) {
        *cell = (struct cell){.path = REDCO_PATH_SYS, .links = (uint8_t)number};
        return REDCO_OK;
    }
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        if (!is_word(word, paths[i].word)) { continue; }
        cell->path = (uint8_t)paths[i].path;
        cell->links = paths[i].path == REDCO_PATH_LINK;
        return REDCO_OK;
    }
    return refuse(reader,
                  "is no path; known: X, NV1 to NV18, PIX, PXB, PHB, NODE, SYS, of rocm-smi and amd-smi XGMI and PCIE",
                  word);
}

/* "0" or "0-1" of the column "NUMA Affinity" */
static uint32_t first_numa(const struct word *word)
{
    uint64_t number = 0;
    const size_t read = redco_whole_read(word->text, word->length, &number);
    return read > 0 && number < REDCOI_NUMAS_MAX ? (uint32_t)number : UINT32_MAX;
}

static redco_status read_row(struct reader *reader, size_t device, const struct word *words, size_t count)
{
    if (count <= reader->column_count) {
        char place[sizeof reader->err->place];
        (void)snprintf(place, sizeof place, "%s:%u", reader->name, reader->line);
        return redco_fail(reader->err, REDCO_EVALUE, place, "the row of %s has %zu paths, the header %zu columns",
                          reader->devices[device].name, count - 1, reader->column_count);
    }
    for (size_t i = 0; i < reader->column_count; i++) {
        struct cell *cell = &reader->cells[device * reader->count + reader->columns[i]];
        const redco_status st = read_cell(reader, &words[i + 1], cell);
        if (st != REDCO_OK) { return st; }
    }
    reader->devices[device].has_row = true;
    if (!reader->rocm && count > reader->column_count + 2) {
        reader->devices[device].numa = first_numa(&words[reader->column_count + 2]);
    }
    return REDCO_OK;
}

/* "GPU[0] : (Topology) Numa Node: 0" */
static void read_numa_line(struct reader *reader, const struct word *words, size_t count, const char *line)
{
    const char *value = strstr(line, "Numa Node:");
    char name[NAME_BYTES];
    uint64_t index = 0;
    if (value == NULL || count == 0 || words[0].length < 6 || memcmp(words[0].text, "GPU[", 4) != 0 ||
        redco_whole_read(words[0].text + 4, words[0].length - 4, &index) == 0) {
        return;
    }
    (void)snprintf(name, sizeof name, "GPU%llu", (unsigned long long)index);
    const size_t device = find_device(reader, &(struct word){name, strlen(name)});
    value += strlen("Numa Node:");
    value += strspn(value, " \t");
    if (device != SIZE_MAX) { reader->devices[device].numa = first_numa(&(struct word){value, strlen(value)}); }
}

/* "  NIC0: mlx5_0" */
static void read_legend_line(struct reader *reader, const struct word *words, size_t count)
{
    if (count != 2 || words[0].length < 2 || words[0].text[words[0].length - 1] != ':' ||
        words[1].length >= NAME_BYTES) {
        return;
    }
    const size_t device = find_device(reader, &(struct word){words[0].text, words[0].length - 1});
    if (device == SIZE_MAX || reader->devices[device].gpu) { return; }
    memset(reader->devices[device].name, 0, NAME_BYTES);
    memcpy(reader->devices[device].name, words[1].text, words[1].length);
}

/* "=== Weight between two GPUs ===" of rocm-smi, "WEIGHT TABLE:" of amd-smi */
static bool is_section(const char *line)
{
    return strncmp(line, "===", 3) == 0 || strstr(line, " TABLE:") != NULL;
}

static void begin_section(struct reader *reader, const char *line)
{
    static const struct {
        const char *text;
        enum section section;
    } sections[] = {{"Weight between", WEIGHTS},
                    {"Link Type between", LINK_TYPES},
                    {"Numa Nodes", NUMAS},
                    {"LINK TYPE TABLE", LINK_TYPES},
                    {"WEIGHT TABLE", WEIGHTS}};
    reader->rocm = true;
    reader->column_count = 0;
    reader->section = OTHER_SECTION;
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        if (strstr(line, sections[i].text) != NULL) { reader->section = sections[i].section; }
    }
}

static redco_status read_line(struct reader *reader, const char *line, const struct word *words, size_t count)
{
    if (count == 0) { return REDCO_OK; }
    if (is_section(words[0].text)) {
        begin_section(reader, line);
        return REDCO_OK;
    }
    if (reader->section == OTHER_SECTION) { return REDCO_OK; }
    if (reader->section == NUMAS) {
        read_numa_line(reader, words, count, line);
        return REDCO_OK;
    }
    const size_t device = find_device(reader, &words[0]);
    if (is_gpu_name(&words[0]) && (count == 1 || is_gpu_name(&words[1]) || is_word(&words[1], "CPU"))) {
        return read_header(reader, words, count);
    }
    if (device != SIZE_MAX && reader->column_count > 0 && count > 1) { return read_row(reader, device, words, count); }
    read_legend_line(reader, words, count);
    return REDCO_OK;
}

/* ---- from the table to the finds ---- */

static size_t group_of(struct reader *reader, size_t device, int kind)
{
    while (reader->devices[device].group[kind] != device) { device = reader->devices[device].group[kind]; }
    return device;
}

/* Devices that one switch or host bridge joins; NICs take the NUMA node of a GPU that they reach within it. */
static void join_devices(struct reader *reader)
{
    const size_t n = reader->count;
    for (size_t i = 0; i < n; i++) { reader->devices[i].group[0] = reader->devices[i].group[1] = i; }
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            const struct cell *cell = &reader->cells[i * n + j];
            if (i == j || cell->links > 0) { continue; }
            for (int kind = 0; kind < 2; kind++) {
                if (cell->path > (kind == 0 ? REDCO_PATH_PIX : REDCO_PATH_PHB)) { continue; }
                const size_t group = group_of(reader, i, kind); /* GPU 0 first, which keeps numbers stable */
                reader->devices[group_of(reader, j, kind)].group[kind] = group;
            }
            if (!reader->devices[i].gpu && cell->path <= REDCO_PATH_NODE && reader->devices[i].numa == UINT32_MAX) {
                reader->devices[i].numa = reader->devices[j].numa;
            }
        }
    }
}

/* A host bridge for each group of roots, and below it a bridge for each of switches. */
static redco_status place_device(struct reader *reader, redcoi_finds *finds, size_t device, uint32_t *bridges,
                                 uint32_t *bridge_out)
{
    uint32_t parent = UINT32_MAX;
    for (int kind = 1; kind >= 0; kind--) {
        uint32_t *bridge = &bridges[(size_t)kind * reader->count + group_of(reader, device, kind)];
        if (*bridge == UINT32_MAX) {
            const redco_status st = redcoi_finds_bridge(finds, parent, kind == 1, bridge, reader->err);
            if (st != REDCO_OK) { return st; }
        }
        parent = *bridge;
    }
    *bridge_out = parent;
    return REDCO_OK;
}

static redco_status take_devices(struct reader *reader, redcoi_finds *finds, uint32_t *bridges)
{
    for (size_t i = 0; i < reader->count; i++) {
        const struct device *device = &reader->devices[i];
        redcoi_found_gpu *gpu = NULL;
        redcoi_found_nic *nic = NULL;
        uint32_t bridge = UINT32_MAX;
        redco_status st = place_device(reader, finds, i, bridges, &bridge);
        if (st == REDCO_OK) {
            st = device->gpu ? redcoi_finds_gpu(finds, &gpu, reader->err) : redcoi_finds_nic(finds, &nic, reader->err);
        }
        if (st != REDCO_OK) { return st; }
        if (gpu != NULL) {
            redcoi_text_copy(gpu->gpu.os_name, sizeof gpu->gpu.os_name, device->name);
            gpu->gpu.numa = device->numa;
            gpu->bridge = bridge;
            gpu->slot = i;
        } else if (nic != NULL) {
            redcoi_text_copy(nic->nic.name, sizeof nic->nic.name, device->name);
            nic->nic.numa = device->numa;
            nic->bridge = bridge;
            nic->slot = i;
        }
    }
    return REDCO_OK;
}

/* rocm-smi calls all pairs of a hive XGMI; those of the smallest weight are direct. */
static void drop_far_links(struct reader *reader)
{
    const size_t cells = reader->count * reader->count;
    uint32_t least = UINT32_MAX;
    for (size_t i = 0; i < cells; i++) {
        const struct cell *cell = &reader->cells[i];
        if (cell->links > 0 && cell->weight > 0 && cell->weight < least) { least = cell->weight; }
    }
    for (size_t i = 0; least < UINT32_MAX && i < cells; i++) {
        if (reader->cells[i].weight > least) { reader->cells[i].links = 0; }
    }
}

static redco_status take_links(struct reader *reader, redcoi_finds *finds)
{
    const size_t gpus = finds->gpu_count;
    size_t most = 0;
    finds->matrix = calloc(gpus * gpus + 1, sizeof *finds->matrix);
    if (finds->matrix == NULL) { return redco_fail(reader->err, REDCO_ENOMEM, reader->name, "out of memory"); }
    if (reader->rocm) { drop_far_links(reader); }
    for (size_t from = 0; from < gpus; from++) { /* slots are rows of the table */
        const struct cell *row = &reader->cells[finds->gpus[from].slot * reader->count];
        size_t links = 0;
        for (size_t to = 0; to < gpus; to++) {
            const size_t here = row[finds->gpus[to].slot].links;
            finds->matrix[from * gpus + to] = (double)here * assumed_link_bytes_per_s;
            links += here;
        }
        finds->gpus[from].linked_total = (double)links * assumed_link_bytes_per_s;
        most = links > most ? links : most;
    }
    finds->matrix_name = "the table";
    finds->matrix_switched = !reader->rocm && most > MOST_LINKS;
    if (most > 0) {
        finds->link_bytes_per_s = assumed_link_bytes_per_s;
        finds->links_even = reader->rocm;
    }
    return REDCO_OK;
}

static redco_status take_numas(const struct reader *reader, redcoi_finds *finds)
{
    for (size_t i = 0; i < reader->count; i++) {
        const uint32_t numa = reader->devices[i].numa;
        bool known = numa == UINT32_MAX;
        for (size_t j = 0; j < finds->numa_count; j++) { known = known || finds->numas[j].index == numa; }
        if (known) { continue; }
        const redco_status st = redcoi_finds_numa(finds, &(redco_node_numa){.index = numa}, reader->err);
        if (st != REDCO_OK) { return st; }
    }
    return REDCO_OK;
}

static redco_status check_rows(const struct reader *reader)
{
    for (size_t i = 0; i < reader->count; i++) {
        if (reader->devices[i].has_row) { continue; }
        return redco_fail(reader->err, REDCO_EVALUE, reader->name, "%s has a column, and no row: part of it is missing",
                          reader->devices[i].name);
    }
    return REDCO_OK;
}

static redco_status make_node(struct reader *reader, redco_node **node_out)
{
    redcoi_finds finds = {.source = reader->name};
    uint32_t *bridges = malloc(2 * reader->count * sizeof *bridges);
    redco_status st = bridges != NULL ? REDCO_OK : redco_fail(reader->err, REDCO_ENOMEM, reader->name, "out of memory");
    if (st != REDCO_OK) { return st; }
    memset(bridges, 0xff, 2 * reader->count * sizeof *bridges);
    redcoi_name_of_file(reader->name, finds.name, sizeof finds.name);
    join_devices(reader);
    st = take_devices(reader, &finds, bridges);
    if (st == REDCO_OK) { st = take_links(reader, &finds); }
    if (st == REDCO_OK) { st = take_numas(reader, &finds); }
    if (st == REDCO_OK) { st = redcoi_finds_node(&finds, node_out, reader->err); }
    redcoi_finds_clear(&finds);
    free(bridges);
    return st;
}

/* One of the first lines is a header or begins a section; above it stand at most the command and what it says. */
bool redcoi_is_matrix(const char *text, size_t size)
{
    enum { LINES_ABOVE = 8, HEADER_BYTES = 128 };
    char line[HEADER_BYTES];
    struct word words[2];
    for (size_t at = 0, lines = 0; at < size && lines < LINES_ABOVE;) {
        const char *end = memchr(text + at, '\n', size - at);
        const size_t length = end != NULL ? (size_t)(end - text) - at : size - at;
        const size_t count = split(text + at, length < HEADER_BYTES ? length : HEADER_BYTES - 1, line, words, 2);
        if (count > 0 && (is_section(words[0].text) || is_word(&words[0], "GPU0"))) { return true; }
        if (count > 0 && (words[0].text[0] == '<' || words[0].text[0] == '{')) { return false; }
        lines += count > 0;
        at += length + 1;
    }
    return false;
}

redco_status redcoi_node_from_matrix(const char *text, size_t size, const char *name, redco_node **node_out,
                                     redco_error *err)
{
    struct reader *reader = calloc(1, sizeof *reader);
    char *line = malloc(LINE_BYTES);
    struct word *words = malloc((DEVICES_MAX + 16) * sizeof *words);
    redco_status st = REDCO_OK;
    if (reader != NULL) { reader->devices = calloc(DEVICES_MAX, sizeof *reader->devices); }
    if (reader == NULL || line == NULL || words == NULL || reader->devices == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, name, "out of memory");
        goto out;
    }
    reader->name = name;
    reader->err = err;
    for (size_t at = 0; at < size && st == REDCO_OK;) {
        const char *end = memchr(text + at, '\n', size - at);
        const size_t length = end != NULL ? (size_t)(end - text) - at : size - at;
        const size_t count = split(text + at, length, line, words, DEVICES_MAX + 16);
        reader->line++;
        st = read_line(reader, line, words, count);
        at += length + 1;
    }
    if (st == REDCO_OK && reader->cells == NULL) {
        st = redco_fail(err, REDCO_EVALUE, name, "has no table of GPUs; a header such as \"GPU0 GPU1\" is needed");
    }
    if (st == REDCO_OK) { st = check_rows(reader); }
    if (st == REDCO_OK) { st = make_node(reader, node_out); }
out:
    if (reader != NULL) {
        free(reader->devices);
        free(reader->cells);
    }
    free(reader);
    free(line);
    free(words);
    return st;
}
