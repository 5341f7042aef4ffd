/* Preloaded by tests/slurm.sh under LeakSanitizer: modules that Open MPI closes stay loaded, so that what they leak has
 * their names, and tests/lsan-open-mpi.txt leaves out that alone. */
int dlclose(void *library);

int dlclose(void *library)
{
    (void)library;
    return 0;
}
