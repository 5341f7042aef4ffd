#include "executor/trainer/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_BYTES = 64 }; /* name of a machine or a GPU, filled up with zeros */

/* Containers of one machine have names of their own, but one kernel, and see the same GPUs. */
static void name_machine(char name[NAME_BYTES])
{
    FILE *const file = fopen("/proc/sys/kernel/random/boot_id", "re");
    memset(name, 0, NAME_BYTES);
    const bool read = file != NULL && fgets(name, NAME_BYTES, file) != NULL;
    if (file != NULL) { (void)fclose(file); }
    if (!read) { (void)gethostname(name, NAME_BYTES - 1); }
}

static redco_status gather_names(redco_communicator *all, const char name[NAME_BYTES], char (*names)[NAME_BYTES],
                                 const char *what, redco_error *err)
{
    return redco_all_gather(all, REDCO_I32, name, names, NAME_BYTES / sizeof(int32_t), what, err);
}

static redco_status open_own(const redco_cuda_options *options, uint32_t local_rank, redco_backend **backend_out,
                             redco_error *err)
{
    redco_cuda_options own = options != NULL ? *options : (redco_cuda_options){.device = 0};
    const uint32_t count = redco_cuda_count();
    own.device = count > 0 ? local_rank % count : 0;
    return redco_cuda_open(&own, backend_out, err);
}

/* Every rank finds the same two, so all fail alike. */
static redco_status check_distinct(char (*names)[NAME_BYTES], uint32_t ranks, redco_error *err)
{
    for (uint32_t b = 1; b < ranks; b++) {
        for (uint32_t a = 0; a < b; a++) {
            if (memcmp(names[a], names[b], NAME_BYTES) != 0) { continue; }
            char place[32];
            (void)snprintf(place, sizeof place, "rank %u: cuda", b);
            return redco_fail(err, REDCO_ESYSTEM, place,
                              "has the GPU of rank %u, %.47s: a plan needs a GPU for each of its ranks; are all shown "
                              "(CUDA_VISIBLE_DEVICES)?",
                              a, names[a]);
        }
    }
    return REDCO_OK;
}

redco_status redco_devices_open(redco_world *world, const redco_cuda_options *options, bool share,
                                redco_backend **backend_out, redco_error *err)
{
    const uint32_t ranks = redco_world_size(world), rank = redco_world_rank(world);
    char own[NAME_BYTES] = "";
    uint32_t local_rank = 0;
    redco_communicator *all = NULL;
    redco_backend *backend = NULL;
    redco_cuda_device device;
    redco_status st = REDCO_OK;
    uint32_t *const colours = calloc(ranks, sizeof *colours);
    char(*const names)[NAME_BYTES] = calloc(ranks, sizeof *names);
    if (colours == NULL || names == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "cuda", "no memory to find a device for each rank");
        goto out;
    }
    name_machine(own);
    if ((st = redco_communicator_split(world, colours, "devices", &all, err)) != REDCO_OK) { goto out; }
    if ((st = gather_names(all, own, names, "devices/machines", err)) != REDCO_OK) { goto out; }
    for (uint32_t r = 0; r < rank; r++) { local_rank += memcmp(names[r], own, NAME_BYTES) == 0; }
    if ((st = open_own(options, local_rank, &backend, err)) != REDCO_OK) { goto out; }
    if ((st = redco_cuda_describe(backend, &device, err)) != REDCO_OK) { goto out; }
    memset(own, 0, sizeof own);
    memcpy(own, device.uuid, strlen(device.uuid));
    if ((st = gather_names(all, own, names, "devices/gpus", err)) != REDCO_OK) { goto out; }
    if (!share && (st = check_distinct(names, ranks, err)) != REDCO_OK) { goto out; }
    *backend_out = backend;
    backend = NULL;
out:
    redco_backend_close(backend);
    redco_communicator_free(all);
    free(colours);
    free(names);
    return st;
}
