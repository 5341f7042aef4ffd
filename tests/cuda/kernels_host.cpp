// The list of kernels as compiled for the host: what cuLaunchKernel() of the mock library runs. Those that
// kernels/device.cuh declares make themselves known.
#include "tests/cuda/device_shim.h"

#include "executor/backend/cuda/kernels/occupy.cu"

#include <map>
#include <string>
#include <vector>

namespace
{
std::map<std::string, mock_kernel> &kernels()
{
    static auto *const known = new std::map<std::string, mock_kernel>; // used by constructors of other files
    return *known;
}
} // namespace

mock_registration::mock_registration(const mock_kernel &kernel)
{
    kernels()[kernel.name] = kernel;
}

extern "C" const mock_kernel *mock_kernel_of(const char *name)
{
    const auto found = kernels().find(name);
    return found == kernels().end() ? nullptr : &found->second;
}

extern "C" size_t mock_kernel_count(void)
{
    return kernels().size();
}

extern "C" const mock_kernel *mock_kernel_at(size_t number)
{
    static const auto *const all = [] {
        auto *const list = new std::vector<const mock_kernel *>;
        for (const auto &entry : kernels()) { list->push_back(&entry.second); }
        return list;
    }();
    return (*all)[number];
}

MOCK_KERNEL(redco_k_occupy, redcoi_occupy_args)
