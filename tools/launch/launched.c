#include "tools/launch/launched.h"

#include "topology/base/number.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ports of jobs: below those that systems give to whoever asks for any. */
enum { FIRST_PORT = 12000, PORTS = 20000 };

static redco_status number_of(const char *name, const char *because, uint32_t most, uint32_t *out, redco_error *err)
{
    const char *const text = getenv(name);
    uint64_t number = 0;
    if (text == NULL) { return redco_fail(err, REDCO_EVALUE, name, "is missing, but %s is set", because); }
    if (!redco_whole_parse(text, 0, most, &number)) {
        return redco_fail(err, REDCO_EVALUE, name, "\"%.40s\" is not a whole number from 0 to %u", text, most);
    }
    *out = (uint32_t)number;
    return REDCO_OK;
}

/* "n[03-10,12]-a,gpu1": n03-a. Each pair of brackets stands for the first of its numbers. */
static bool first_host(const char *list, char *host, size_t size)
{
    bool inside = false, rest = false; /* inside brackets; the rest of their content */
    size_t length = 0;
    for (const char *at = list; *at != '\0' && (inside || *at != ','); at++) {
        if (*at == '[' || *at == ']') {
            if (inside == (*at == '[')) { return false; }
            inside = !inside;
            rest = false;
            continue;
        }
        rest = rest || (inside && (*at == '-' || *at == ','));
        if (rest) { continue; }
        if ((!isalnum((unsigned char)*at) && strchr("-._", *at) == NULL) || length + 1 >= size) { return false; }
        host[length++] = *at;
    }
    host[length] = '\0';
    return length > 0 && !inside;
}

static redco_status slurm_address(char address[LAUNCHED_ADDRESS_SIZE], redco_error *err)
{
    static const char *const name = "SLURM_STEP_NODELIST";
    const char *const list = getenv(name);
    const char *const order = getenv("SLURM_DISTRIBUTION");
    char host[LAUNCHED_ADDRESS_SIZE - 8];
    uint32_t job = 0, step = 0;
    if (order != NULL && strcmp(order, "arbitrary") == 0) {
        return redco_fail(err, REDCO_EVALUE, "SLURM_DISTRIBUTION",
                          "a file of hosts deals the tasks: REDCO_ADDRESS must say HOST:PORT of task 0");
    }
    if (list == NULL || !first_host(list, host, sizeof host)) {
        return redco_fail(err, REDCO_EVALUE, name, "\"%.40s\" has no first host; REDCO_ADDRESS could say HOST:PORT",
                          list != NULL ? list : "");
    }
    redco_status st = number_of("SLURM_JOB_ID", "SLURM_STEP_NUM_TASKS", UINT32_MAX, &job, err);
    if (st == REDCO_OK && getenv("SLURM_STEP_ID") != NULL) {
        st = number_of("SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", UINT32_MAX, &step, err);
    }
    if (st != REDCO_OK) { return st; }
    (void)snprintf(address, LAUNCHED_ADDRESS_SIZE, "%s:%u", host,
                   FIRST_PORT + (unsigned)(((uint64_t)job * 64 + step) % PORTS));
    return REDCO_OK;
}

/* Tasks of MPI are found by MPI, by the launcher's own channel. A batch script itself, and a step of one task, are
 * nobody's rank. */
static bool in_slurm_step(void)
{
    const char *const tasks = getenv("SLURM_STEP_NUM_TASKS");
    return tasks != NULL && strcmp(tasks, "1") != 0 && getenv("SLURM_PROCID") != NULL &&
           getenv("OMPI_COMM_WORLD_RANK") == NULL && getenv("PMI_RANK") == NULL && getenv("PMIX_RANK") == NULL;
}

static bool number_in(const char *name, uint64_t *out)
{
    const char *const text = getenv(name);
    return text != NULL && redco_whole_parse(text, 0, UINT64_MAX, out);
}

/* Open MPI, then what MPICH and its descendants set, then srun --mpi=pmix; a step of one task is nobody's rank. */
bool launched_by_mpi(uint64_t *rank_out, uint64_t *ranks_out)
{
    return (number_in("OMPI_COMM_WORLD_RANK", rank_out) && number_in("OMPI_COMM_WORLD_SIZE", ranks_out)) ||
           (number_in("PMI_RANK", rank_out) && number_in("PMI_SIZE", ranks_out)) ||
           (number_in("PMIX_RANK", rank_out) && number_in("SLURM_STEP_NUM_TASKS", ranks_out) && *ranks_out > 1);
}

redco_status launched_world(redco_world_options *options_out, struct launched_room *room, bool *launched_out,
                            redco_error *err)
{
    redco_world_options options = {.transport = REDCO_TRANSPORT_SOCKET,
                                   .address = getenv("REDCO_ADDRESS"),
                                   .listen = getenv("REDCO_LISTEN"),
                                   .secret = room->secret};
    assert(room != NULL);
    const bool named = getenv("REDCO_RANK") != NULL, slurm = !named && in_slurm_step();
    const char *const rank = slurm ? "SLURM_PROCID" : "REDCO_RANK";
    const char *const ranks = slurm ? "SLURM_STEP_NUM_TASKS" : "REDCO_RANKS";
    *launched_out = named || slurm;
    if (!named && getenv("REDCO_RANKS") != NULL) { /* each would train it all */
        return redco_fail(err, REDCO_EVALUE, "REDCO_RANK", "is missing, but REDCO_RANKS is set");
    }
    if (!*launched_out) { return REDCO_OK; }
    redco_status st = number_of(rank, rank, REDCO_WORLD_MAX, &options.rank, err);
    if (st == REDCO_OK) { st = number_of(ranks, rank, REDCO_WORLD_MAX, &options.size, err); }
    if (st == REDCO_OK && options.rank >= options.size) {
        st = redco_fail(err, REDCO_EVALUE, rank, "%u is not below %s, %u", options.rank, ranks, options.size);
    }
    if (st == REDCO_OK && options.address == NULL && slurm) {
        st = slurm_address(room->address, err);
        options.address = room->address;
    }
    if (st == REDCO_OK && options.address == NULL) {
        st = redco_fail(err, REDCO_EVALUE, "REDCO_ADDRESS", "is missing: HOST:PORT of rank 0");
    }
    if (st == REDCO_OK) { st = launched_secret(room, err); }
    options.secret_bytes = room->secret_bytes;
    *options_out = options;
    return st;
}
