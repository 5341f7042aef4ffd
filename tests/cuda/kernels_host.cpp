// The list of kernels as compiled for the host: what cuLaunchKernel() of the stand-in runs. Those that
// kernels/device.cuh declares make themselves known.
#include "tests/cuda/device_shim.h"

#include "executor/backend/cuda/kernels/occupy.cu"

#include <map>
#include <string>
#include <vector>

namespace
{
std::map<std::string, standin_kernel> &kernels()
{
    static auto *const known = new std::map<std::string, standin_kernel>; // used by constructors of other files
    return *known;
}
} // namespace

standin_registration::standin_registration(const standin_kernel &kernel)
{
    kernels()[kernel.name] = kernel;
}

extern "C" const standin_kernel *standin_kernel_of(const char *name)
{
    const auto found = kernels().find(name);
    return found == kernels().end() ? nullptr : &found->second;
}

extern "C" size_t standin_kernel_count(void)
{
    return kernels().size();
}

extern "C" const standin_kernel *standin_kernel_at(size_t number)
{
    static const auto *const all = [] {
        auto *const list = new std::vector<const standin_kernel *>;
        for (const auto &entry : kernels()) { list->push_back(&entry.second); }
        return list;
    }();
    return (*all)[number];
}

STANDIN_KERNEL(redco_k_occupy, redcoi_occupy_args)
