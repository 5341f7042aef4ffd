/* The checks of test_communicator as one process of an mpirun: of 8 the meshes, of fewer all else. */
#include "tests/unit/communicator_checks.h"

#include <stdio.h>

int main(void)
{
    const redco_world_options options = {.transport = REDCO_TRANSPORT_MPI, .timeout_s = 60.0};
    redco_error err = {.status = REDCO_OK};
    redco_world *world = NULL;
    if (redco_world_open(&options, &world, &err) != REDCO_OK) {
        (void)fprintf(stderr, "%s: %s\n", err.place, err.text);
        return 1;
    }
    int line = redco_world_size(world) == 8 ? check_meshes(world, NULL) : check_collectives(world, NULL);
    if (line == 0 && redco_world_size(world) == 2) { line = check_two_streams(world, NULL); }
    if (line == 0 && redco_world_rank(world) == 0) { (void)printf("%u ranks: ok\n", redco_world_size(world)); }
    redco_world_close(world);
    return line;
}
