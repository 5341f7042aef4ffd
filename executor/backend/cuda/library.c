#include "executor/backend/cuda/cuda_internal.h"

#include <dlfcn.h>
#include <string.h>

redco_status redcoi_library_open(const char *soname, const redcoi_symbol *symbols, size_t count, void **library_out,
                                 redco_error *err)
{
    /* The driver and what builds on it start threads, which must not lose their code: once loaded they stay. */
    void *const library = dlopen(soname, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == NULL) {
        const char *const why = dlerror();
        return redco_fail(err, REDCO_ESYSTEM, soname, "cannot be loaded: %s", why != NULL ? why : "no reason given");
    }
    for (size_t i = 0; i < count; i++) {
        void *const address = dlsym(library, symbols[i].name);
        if (address == NULL) {
            redcoi_library_close(library);
            return redco_fail(err, REDCO_ESYSTEM, soname, "has no %s: it is older than what redco was built with",
                              symbols[i].name);
        }
        memcpy(symbols[i].address, &address, sizeof address); /* ISO C has no cast from data to code */
    }
    *library_out = library;
    return REDCO_OK;
}

void redcoi_library_close(void *library)
{
    if (library != NULL) { (void)dlclose(library); }
}
