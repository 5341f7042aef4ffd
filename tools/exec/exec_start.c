#include "tools/exec/exec_start.h"

#include "executor/backend/host/host.h"
#include "topology/base/file.h"

#include <assert.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void exec_fact(struct exec_facts *facts, const char *name, const char *format, ...)
{
    enum { SHOWN_BYTES = 80, TEXT_BYTES = 10000 }; /* two paths of PATH_MAX and some words */
    char text[TEXT_BYTES], sha256[REDCO_SHA256_HEX_SIZE];
    va_list args;
    assert(facts->count < REDCO_FACTS_MAX);
    redco_fact *const fact = &facts->facts[facts->count++];
    memset(fact, 0, sizeof *fact);
    (void)snprintf(fact->name, sizeof fact->name, "%s", name);
    va_start(args, format);
    const int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length >= 0 && (size_t)length < sizeof fact->value) {
        memcpy(fact->value, text, (size_t)length + 1);
        return;
    }
    redco_sha256_hex(text, strlen(text), sha256);
    (void)snprintf(fact->value, sizeof fact->value, "%.*s..., SHA-256 %.16s", SHOWN_BYTES, text, sha256);
}

redco_status exec_facts_of_plan(struct exec_facts *facts, const char *path, const redco_plan *plan, redco_error *err)
{
    char sha256[REDCO_SHA256_HEX_SIZE];
    json_t *const json = redco_plan_to_json(plan);
    const bool digested = json != NULL && redco_plan_digest(json, sha256);
    json_decref(json);
    if (!digested) { return redco_fail(err, REDCO_ENOMEM, path, "out of memory"); }
    exec_fact(facts, "model of the plan", "%.60s, SHA-256 %.16s", plan->model_name, plan->model_sha256);
    exec_fact(facts, "GPUs of the plan", "%llu", (unsigned long long)redco_plan_gpus(plan));
    exec_fact(facts, "tensor parallelism of the plan", "%u", plan->parallelism.tp);
    exec_fact(facts, "global batch of the plan", "%llu", (unsigned long long)plan->global_batch);
    exec_fact(facts, "micro-batch of the plan", "%u", plan->parallelism.micro_batch);
    exec_fact(facts, "sequence length of the plan", "%u", plan->seq_len);
    exec_fact(facts, "plan", "SHA-256 %.32s", sha256);
    return REDCO_OK;
}

/* Whole files up to this size, else parts of them with equal distances. */
static const uint64_t whole_bytes = (uint64_t)16 << 20;
enum { PARTS = 256, PART_BYTES = 1 << 16 };

static bool read_part(int descriptor, unsigned char *to, uint64_t at, size_t size)
{
    while (size > 0) {
        const ssize_t got = pread(descriptor, to, size, (off_t)at);
        if (got < 0 && errno == EINTR) { continue; }
        if (got <= 0) {
            if (got == 0) { errno = EIO; }
            return false;
        }
        to += got;
        at += (uint64_t)got;
        size -= (size_t)got;
    }
    return true;
}

static int is_array(const struct dirent *entry)
{
    const size_t length = strlen(entry->d_name);
    return length > 4 && strcmp(entry->d_name + length - 4, ".npy") == 0;
}

redco_status exec_digest_data(const char *path, char sha256_out[REDCO_SHA256_HEX_SIZE], redco_error *err)
{
    static const uint64_t all_bytes = (uint64_t)1 << 30;
    enum { DATA_PARTS = 4096 };
    struct stat info;
    char chain[2 * REDCO_SHA256_HEX_SIZE] = ""; /* digest so far, digest of a part */
    sha256_out[0] = '\0';
    const int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0 || fstat(descriptor, &info) != 0) {
        const int why = errno;
        if (descriptor >= 0) { (void)close(descriptor); }
        return redco_fail(err, REDCO_EIO, path, "cannot open: %s", strerror(why));
    }
    const uint64_t size = S_ISREG(info.st_mode) ? (uint64_t)info.st_size : 0;
    const void *const bytes = size > 0 ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, descriptor, 0) : NULL;
    const int why = errno;
    (void)close(descriptor);
    if (bytes == MAP_FAILED) { return redco_fail(err, REDCO_EIO, path, "cannot read: %s", strerror(why)); }
    if (bytes == NULL) { return REDCO_OK; }
    if (size <= all_bytes) { redco_sha256_hex(bytes, size, sha256_out); }
    for (uint64_t i = 0; i < DATA_PARTS && size > all_bytes; i++) {
        const char *const part = (const char *)bytes + (size - PART_BYTES) / (DATA_PARTS - 1) * i;
        redco_sha256_hex(part, PART_BYTES, chain + REDCO_SHA256_HEX_SIZE);
        redco_sha256_hex(chain, sizeof chain, sha256_out);
        memcpy(chain, sha256_out, REDCO_SHA256_HEX_SIZE);
    }
    (void)munmap((void *)(uintptr_t)bytes, size);
    return REDCO_OK;
}

/* A folder of arrays: names and facts of all, in the order of names. */
static redco_status fact_of_folder(struct exec_facts *facts, const char *name, const char *path, redco_error *err)
{
    struct dirent **entries = NULL;
    char sha256[REDCO_SHA256_HEX_SIZE] = "";
    redco_status st = REDCO_OK;
    const int count = scandir(path, &entries, is_array, alphasort);
    if (count < 0) { return redco_fail(err, REDCO_EIO, path, "cannot read: %s", strerror(errno)); }
    for (int i = 0; i < count; i++) {
        char inside[4300], text[600 + sizeof sha256];
        struct exec_facts one = {.count = 0};
        (void)snprintf(inside, sizeof inside, "%.4000s/%s", path, entries[i]->d_name);
        if (st == REDCO_OK) { st = exec_fact_of_file(&one, "", inside, err); }
        (void)snprintf(text, sizeof text, "%s %s %s", sha256, entries[i]->d_name, one.facts[0].value);
        redco_sha256_hex(text, strlen(text), sha256);
        free(entries[i]);
    }
    free(entries);
    exec_fact(facts, name, "a folder of %d arrays, SHA-256 %.16s", count, sha256);
    return st;
}

redco_status exec_fact_of_file(struct exec_facts *facts, const char *name, const char *path, redco_error *err)
{
    struct stat info;
    char sha256[REDCO_SHA256_HEX_SIZE];
    if (path == NULL) {
        exec_fact(facts, name, "no file");
        return REDCO_OK;
    }
    const int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0 || fstat(descriptor, &info) != 0) {
        const int why = errno;
        if (descriptor >= 0) { (void)close(descriptor); }
        return redco_fail(err, REDCO_EIO, path, "cannot open: %s", strerror(why));
    }
    if (S_ISDIR(info.st_mode)) {
        (void)close(descriptor);
        return fact_of_folder(facts, name, path, err);
    }
    if (!S_ISREG(info.st_mode)) { /* its reader says what is wrong */
        (void)close(descriptor);
        exec_fact(facts, name, "no regular file");
        return REDCO_OK;
    }
    const uint64_t size = (uint64_t)info.st_size;
    const bool whole = size <= whole_bytes;
    const size_t bytes = whole ? (size_t)size : (size_t)PARTS * PART_BYTES;
    unsigned char *const text = malloc(bytes + 1);
    bool ok = text != NULL;
    if (ok && whole) { ok = read_part(descriptor, text, 0, bytes); }
    for (uint64_t i = 0; i < PARTS && ok && !whole; i++) {
        ok = read_part(descriptor, text + i * PART_BYTES, (size - PART_BYTES) / (PARTS - 1) * i, PART_BYTES);
    }
    const int why = errno;
    (void)close(descriptor);
    if (ok) {
        redco_sha256_hex(text, bytes, sha256);
        exec_fact(facts, name, "a file of %llu bytes, SHA-256 %.16s", (unsigned long long)size, sha256);
    }
    free(text);
    return ok ? REDCO_OK : redco_fail(err, REDCO_EIO, path, "cannot read: %s", strerror(why));
}

/* OpenBLAS is a library of the host backend, which is linked; its kernels may differ from host to host. */
void exec_facts_of_libraries(struct exec_facts *facts)
{
    char *(*config)(void) = NULL;
    char name[24] = "", version[24] = "";
    *(void **)&config = dlsym(RTLD_DEFAULT, "openblas_get_config");
    const char *const text = config != NULL ? config() : "";
    (void)sscanf(text, "%23s %23s", name, version);
    exec_fact(facts, "version of OpenBLAS", "%s", version);
}

static void print_named(const struct cli *cli, uint32_t rank, const redco_error *err)
{
    redco_error named = {.status = REDCO_OK};
    char place[sizeof named.place];
    redco_rank_place(rank, err->place, place, sizeof place);
    (void)redco_fail(&named, err->status, place, "%s", err->text);
    (void)cli_fail(cli, &named);
}

static int code_of(redco_status status)
{
    return status == REDCO_EVALUE || status == REDCO_EIO ? CLI_USAGE
           : status == REDCO_EINFEASIBLE                 ? CLI_NO
           : status == REDCO_OK                          ? CLI_DONE
                                                         : CLI_SYSTEM;
}

/* Behind "rank N on HOST: ". */
static const char *without_rank(const char *place)
{
    const char *const colon = strncmp(place, "rank ", 5) == 0 ? strstr(place, ": ") : NULL;
    return colon != NULL ? colon + 2 : place;
}

void exec_tell_others(const redco_world_options *options, const redco_error *err)
{
    redco_world_options world = *options;
    redco_error told = *err, heard = {.status = REDCO_OK};
    redco_world *opened = NULL;
    if (world.transport != REDCO_TRANSPORT_SOCKET) { return; }
    if (told.status == REDCO_OK) { (void)redco_fail(&told, REDCO_EVALUE, "the command line", "is not understood"); }
    world.failure = &told;
    (void)redco_world_open(&world, &opened, &heard);
}

int exec_no_world(const struct cli *cli, const redco_world_options *world, const redco_error *err)
{
    if (strncmp(err->place, "rank ", 5) != 0) {
        print_named(cli, world->rank, err);
    } else if (world->rank == 0) {
        (void)cli_fail(cli, err);
    }
    return code_of(err->status);
}

int exec_cannot_start(const struct cli *cli, const redco_world_options *options, const redco_error *err)
{
    redco_world_options world = *options;
    redco_error heard = {.status = REDCO_OK};
    redco_world *opened = NULL;
    if (world.transport == REDCO_TRANSPORT_MPI) {
        if (redco_world_open(&world, &opened, &heard) != REDCO_OK) {
            print_named(cli, world.rank, err);
            return code_of(err->status);
        }
        const int code = exec_agree(cli, opened, false, NULL, err);
        redco_world_close(opened);
        return code;
    }
    world.failure = err;
    if (world.rank == 0) { print_named(cli, 0, err); } /* first: the others take a moment */
    (void)redco_world_open(&world, &opened, &heard);
    /* Rank 0's words about itself are not true of every rank. */
    const bool said = strncmp(heard.place, "rank 0 on ", 10) == 0 &&
                      strcmp(without_rank(heard.place), err->place) == 0 && strcmp(heard.text, err->text) == 0;
    if (world.rank != 0 && !said) { print_named(cli, world.rank, err); }
    return code_of(err->status);
}

int exec_agree(const struct cli *cli, redco_world *world, bool apart, const struct exec_facts *facts,
               const redco_error *failure)
{
    static const struct exec_facts none = {.count = 0};
    redco_error err = {.status = REDCO_OK};
    uint32_t culprit = 0;
    if (facts == NULL) { facts = &none; }
    const redco_status st = redco_world_agree(world, facts->facts, facts->count, failure, &culprit, &err);
    if (st == REDCO_OK) { return CLI_DONE; }
    const uint32_t rank = redco_world_rank(world);
    if (st == REDCO_ESYSTEM && strncmp(err.place, "rank ", 5) != 0) { /* an error of the connections */
        print_named(cli, rank, failure != NULL ? failure : &err);
    } else if (rank == 0 || (apart && rank == culprit)) {
        (void)cli_fail(cli, &err);
    }
    return code_of(st);
}
