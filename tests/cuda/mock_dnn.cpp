// libcudnn.so.9 for machines without a GPU: descriptors, graphs of operations, and a calculator in double that runs
// such a graph on the stream's thread. Written from cudnn_graph_v9.h, the "Graph API" section of the cuDNN 9
// documentation (which attribute is what, what must be finalized when) and, for statuses, from what the real library
// of 9.19 returns to the same mistakes. It is stricter where that one lets things pass: unfinalized parts, attributes
// left out, numbers that nobody made. Which graphs an engine takes is believed, not known: the order of operations that
// cudnn-frontend's composite nodes make; test_dnn_engines asks the real library.
//
// MOCK_CUDNN_VERSION (91900) is what cudnnGetVersion() says, or the file libcudnn.version in the library's folder,
// which may have cudnnGetCudartVersion()'s behind it, so that copies are several versions; MOCK_CUDNN_ENGINES=0:
// heuristics find none; MOCK_CUDNN_HANDLES=0: no handle can be made.
#include "tests/cuda/mock_dnn.h"

#include "tests/cuda/mock.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <map>
#include <mutex>
#include <regex>
#include <set>

struct cudnnContext {
    CUcontext context = nullptr;
    CUstream stream = nullptr;
};

namespace
{

// What an attribute of a type of descriptor must be.
struct Rule {
    cudnnBackendDescriptorType_t descriptor;
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t most; // elements
    bool required;
};

const Rule rules[] = {
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, true},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 8, true},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 8, true},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, true},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, true},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, false},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, false},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, true},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, true},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, false},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR,
     1, true},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR,
     1, false},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR,
     1, false},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR,
     1, true},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, CUDNN_TYPE_FLOAT, 1, false},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, CUDNN_TYPE_FLOAT, 1, false},
    {CUDNN_BACKEND_MATMUL_DESCRIPTOR, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, true},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
     true},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
     true},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_CDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
     true},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
     true},
    {CUDNN_BACKEND_REDUCTION_DESCRIPTOR, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, true},
    {CUDNN_BACKEND_REDUCTION_DESCRIPTOR, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, true},
    {CUDNN_BACKEND_REDUCTION_DESCRIPTOR, CUDNN_ATTR_REDUCTION_IS_DETERMINISTIC, CUDNN_TYPE_BOOLEAN, 1, false},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR,
     1, true},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR,
     1, true},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, CUDNN_ATTR_OPERATION_REDUCTION_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR,
     1, true},
    {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
     true},
    {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
     true},
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, true},
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 64, true},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, true},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
     true},
    {CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true},
    {CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true},
    {CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, true},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, true},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
     true},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, false},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 256, true},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 256, true},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, false},
};

size_t bytes_of(cudnnBackendAttributeType_t type)
{
    switch (type) {
    case CUDNN_TYPE_BOOLEAN: return sizeof(bool);
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return sizeof(void *);
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE: return 8;
    default: return 4; // enumerations, floats
    }
}

const Rule *find_rule(int descriptor, cudnnBackendAttributeName_t name)
{
    for (const Rule &rule : rules) {
        if (rule.descriptor == descriptor && rule.name == name) { return &rule; }
    }
    return nullptr;
}

std::mutex lock;
std::set<const Descriptor *> &living()
{
    static auto *const set = new std::set<const Descriptor *>;
    return *set;
}

bool is_alive(const void *descriptor)
{
    const std::lock_guard<std::mutex> guard(lock);
    return living().count(static_cast<const Descriptor *>(descriptor)) != 0;
}

thread_local char last_error[256];

cudnnStatus_t fail(cudnnStatus_t status, const char *why)
{
    snprintf(last_error, sizeof last_error, "%s", why);
    return status;
}

long number_of(const char *name, long otherwise)
{
    const char *const text = getenv(name);
    return text != nullptr && *text != '\0' ? strtol(text, nullptr, 10) : otherwise;
}

// A part that must be finalized and of a type.
const Descriptor *part(const Descriptor &d, cudnnBackendAttributeName_t name, int type)
{
    const auto found = d.attributes.find(name);
    if (found == d.attributes.end()) { return nullptr; }
    const Descriptor *const p = d.get<Descriptor *>(name);
    return is_alive(p) && p->finalized && p->type == type ? p : nullptr;
}

cudnnStatus_t finish_tensor(Descriptor &d)
{
    const auto dims = d.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS), strides = d.all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
    const int64_t alignment = d.get<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
    if (dims.size() != strides.size() || dims.size() != 4) { return fail(CUDNN_STATUS_BAD_PARAM, "dimensions"); }
    for (const int64_t dim : dims) {
        if (dim < 1) { return fail(CUDNN_STATUS_BAD_PARAM, "a dimension below 1"); }
    }
    if (alignment < 1 || (alignment & (alignment - 1)) != 0) { return fail(CUDNN_STATUS_BAD_PARAM, "alignment"); }
    const bool by_value = d.get<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE, false);
    if (by_value && (d.get<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL, false) || dims != std::vector<int64_t>(4, 1))) {
        return fail(CUDNN_STATUS_BAD_PARAM, "by value");
    }
    return CUDNN_STATUS_SUCCESS;
}

bool is_tensor(const Descriptor &d, cudnnBackendAttributeName_t name, bool needed)
{
    if (d.attributes.count(name) == 0) { return !needed; }
    return part(d, name, CUDNN_BACKEND_TENSOR_DESCRIPTOR) != nullptr;
}

// Each dimension that of the result, or 1.
bool repeats_to(const Shape &x, const Shape &y)
{
    for (int i = 0; i < 4; i++) {
        if (x.dim[i] != y.dim[i] && x.dim[i] != 1) { return false; }
    }
    return true;
}

cudnnStatus_t finish_pointwise(Descriptor &d)
{
    const Descriptor *const how =
        part(d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    if (how == nullptr) { return fail(CUDNN_STATUS_BAD_PARAM, "pointwise: how"); }
    const int inputs = pointwise_inputs(how->get<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE));
    if (inputs == 0) { return fail(CUDNN_STATUS_NOT_SUPPORTED, "this pointwise operation"); }
    if (!is_tensor(d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, true) ||
        !is_tensor(d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, true) ||
        !is_tensor(d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, inputs > 1) ||
        !is_tensor(d, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, inputs > 2) ||
        d.attributes.count(CUDNN_ATTR_OPERATION_POINTWISE_BDESC) != (inputs > 1 ? 1U : 0U) ||
        d.attributes.count(CUDNN_ATTR_OPERATION_POINTWISE_TDESC) != (inputs > 2 ? 1U : 0U)) {
        return fail(CUDNN_STATUS_BAD_PARAM, "pointwise: tensors");
    }
    if (d.get<float>(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, 1) != 1 ||
        d.get<float>(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, 1) != 1) {
        return fail(CUDNN_STATUS_NOT_SUPPORTED, "pointwise: factors");
    }
    const Shape y = shape_of(d.get<Descriptor *>(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
    for (const auto name : {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                            CUDNN_ATTR_OPERATION_POINTWISE_TDESC}) {
        if (d.attributes.count(name) != 0 && !repeats_to(shape_of(d.get<Descriptor *>(name)), y)) {
            return fail(CUDNN_STATUS_BAD_PARAM, "pointwise: dimensions");
        }
    }
    const int64_t axis = how->get<int64_t>(CUDNN_ATTR_POINTWISE_AXIS, -1);
    const bool index = how->get<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE) == CUDNN_POINTWISE_GEN_INDEX;
    if (index && (axis < 0 || axis > 3)) { return fail(CUDNN_STATUS_BAD_PARAM, "pointwise: axis"); }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finish_product(Descriptor &d)
{
    if (part(d, CUDNN_ATTR_OPERATION_MATMUL_DESC, CUDNN_BACKEND_MATMUL_DESCRIPTOR) == nullptr ||
        !is_tensor(d, CUDNN_ATTR_OPERATION_MATMUL_ADESC, true) ||
        !is_tensor(d, CUDNN_ATTR_OPERATION_MATMUL_BDESC, true) ||
        !is_tensor(d, CUDNN_ATTR_OPERATION_MATMUL_CDESC, true)) {
        return fail(CUDNN_STATUS_BAD_PARAM, "product: tensors");
    }
    const Shape a = shape_of(d.get<Descriptor *>(CUDNN_ATTR_OPERATION_MATMUL_ADESC));
    const Shape b = shape_of(d.get<Descriptor *>(CUDNN_ATTR_OPERATION_MATMUL_BDESC));
    const Shape c = shape_of(d.get<Descriptor *>(CUDNN_ATTR_OPERATION_MATMUL_CDESC));
    if (a.dim[3] != b.dim[2] || a.dim[2] != c.dim[2] || b.dim[3] != c.dim[3] || a.dim[0] != c.dim[0] ||
        a.dim[1] != c.dim[1] || a.dim[0] % b.dim[0] != 0 || a.dim[1] % b.dim[1] != 0) {
        return fail(CUDNN_STATUS_BAD_PARAM, "product: dimensions");
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finish_reduction(Descriptor &d)
{
    if (part(d, CUDNN_ATTR_OPERATION_REDUCTION_DESC, CUDNN_BACKEND_REDUCTION_DESCRIPTOR) == nullptr ||
        !is_tensor(d, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, true) ||
        !is_tensor(d, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, true)) {
        return fail(CUDNN_STATUS_BAD_PARAM, "reduction: tensors");
    }
    const Shape x = shape_of(d.get<Descriptor *>(CUDNN_ATTR_OPERATION_REDUCTION_XDESC));
    const Shape y = shape_of(d.get<Descriptor *>(CUDNN_ATTR_OPERATION_REDUCTION_YDESC));
    for (int i = 0; i < 4; i++) {
        if (x.dim[i] % y.dim[i] != 0) { return fail(CUDNN_STATUS_BAD_PARAM, "reduction: dimensions"); }
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finish_reshape(Descriptor &d)
{
    if (!is_tensor(d, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, true) ||
        !is_tensor(d, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, true)) {
        return fail(CUDNN_STATUS_BAD_PARAM, "reshape: tensors");
    }
    const Shape x = shape_of(d.get<Descriptor *>(CUDNN_ATTR_OPERATION_RESHAPE_XDESC));
    const Shape y = shape_of(d.get<Descriptor *>(CUDNN_ATTR_OPERATION_RESHAPE_YDESC));
    if (x.count() != y.count() || x.extent() != y.extent()) {
        return fail(CUDNN_STATUS_BAD_PARAM, "reshape: another part of memory");
    }
    return CUDNN_STATUS_SUCCESS;
}

// Tensors are what their numbers say: equal numbers, equal tensors. Virtual ones are made by one operation, before they
// are read.
cudnnStatus_t finish_graph(Descriptor &d)
{
    std::map<int64_t, const Descriptor *> known;
    std::set<int64_t> made;
    if (d.get<cudnnHandle_t>(CUDNN_ATTR_OPERATIONGRAPH_HANDLE) == nullptr) {
        return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "graph: handle");
    }
    for (const Descriptor *const op : d.all<Descriptor *>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
        if (!is_alive(op) || !op->finalized) {
            return fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "graph: an operation is not finalized");
        }
        std::vector<const Descriptor *> inputs, outputs;
        if (!tensors_of(*op, &inputs, &outputs)) { return fail(CUDNN_STATUS_BAD_PARAM, "graph: no operation"); }
        for (const bool out : {false, true}) {
            for (const Descriptor *const t : out ? outputs : inputs) {
                const int64_t id = t->get<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
                const bool is_virtual = t->get<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL, false);
                const auto entry = known.emplace(id, t).first;
                if (entry->second != t && entry->second->attributes != t->attributes) {
                    return fail(CUDNN_STATUS_BAD_PARAM, "graph: two tensors of one number");
                }
                if (!out && is_virtual && made.count(id) == 0) {
                    return fail(CUDNN_STATUS_BAD_PARAM, "graph: a virtual tensor that nobody has made");
                }
                if (out && (!made.insert(id).second || t->get<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE, false))) {
                    return fail(CUDNN_STATUS_BAD_PARAM, "graph: a tensor is made twice, or a number is");
                }
            }
        }
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finish_plan(Descriptor &d)
{
    const Descriptor *const config =
        part(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (config == nullptr) { return fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "plan: configuration"); }
    const Descriptor *const engine = part(*config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    const Descriptor *const graph =
        engine == nullptr ? nullptr
                          : part(*engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    if (graph == nullptr) { return fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "plan: graph"); }
    // Grouped heads: dK and dV of every head, in 16 bits, before they are added; as the real 9.19 has it on a Hopper.
    int64_t bytes = 0;
    for (const Descriptor *const op : graph->all<Descriptor *>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
        std::vector<const Descriptor *> inputs, outputs;
        (void)tensors_of(*op, &inputs, &outputs);
        if (op->type != CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR) { continue; }
        const Shape x = shape_of(inputs[0]), y = shape_of(outputs[0]);
        if (x.dim[1] != y.dim[1]) { bytes += 2 * x.count(); }
    }
    d.put(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, bytes);
    d.put(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, const_cast<Descriptor *>(graph));
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finish_pack(Descriptor &d)
{
    const auto ids = d.all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    if (ids.size() != d.all<void *>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).size()) {
        return fail(CUDNN_STATUS_BAD_PARAM, "pack: as many pointers as numbers");
    }
    if (std::set<int64_t>(ids.begin(), ids.end()).size() != ids.size()) {
        return fail(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "pack: a number twice");
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finish(Descriptor &d)
{
    for (const Rule &rule : rules) {
        if (rule.descriptor == d.type && rule.required && d.attributes.count(rule.name) == 0) {
            return fail(CUDNN_STATUS_BAD_PARAM, "an attribute is missing");
        }
    }
    switch (d.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: return finish_tensor(d);
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: return finish_pointwise(d);
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: return finish_product(d);
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: return finish_reduction(d);
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR: return finish_reshape(d);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: return finish_graph(d);
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
        return part(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) != nullptr
                   ? CUDNN_STATUS_SUCCESS
                   : fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "heuristic: graph");
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: return finish_plan(d);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR: return finish_pack(d);
    default: return CUDNN_STATUS_SUCCESS;
    }
}

// The order of operations as a word (word_of()), and those that flash attention engines take: products, scale, mask
// (indices, their shifts, comparison, choice; once more for a window), softmax; backward sums of dO O before, and
// sums over grouped heads.
bool is_attention(const Descriptor &graph)
{
    static const std::regex forward(R"(M\*(ii(\+-?)?Gs(ii\+>s)?)?X-eAl\+/M)");
    static const std::regex backward(R"(\*A\*M\*-(ii(\+-?)?Gs(ii\+>s)?)?eTMA?M-\*\*TMA?TM=?)");
    const std::string word = word_of(graph);
    return std::regex_match(word, forward) || std::regex_match(word, backward);
}

// Half types, sizes of heads in eights and up to what engines have.
bool has_engine(const Descriptor &graph)
{
    if (number_of("MOCK_CUDNN_ENGINES", 1) == 0 || !is_attention(graph)) { return false; }
    for (const Descriptor *const op : graph.all<Descriptor *>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
        if (op->type != CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) { continue; }
        std::vector<const Descriptor *> inputs, outputs;
        (void)tensors_of(*op, &inputs, &outputs);
        for (const Descriptor *const t : inputs) {
            const auto type = t->get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
            if (t->get<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL, false)) { continue; }
            const Shape s = shape_of(t);
            const int64_t size = s.stride[3] == 1 ? s.dim[3] : s.dim[2];
            if ((type != CUDNN_DATA_BFLOAT16 && type != CUDNN_DATA_HALF) || size % 8 != 0 || size > 256 ||
                (s.stride[3] != 1 && s.stride[2] != 1)) {
                return false;
            }
        }
    }
    return true;
}

cudnnStatus_t give_results(const Descriptor &heuristic, int64_t requested, int64_t *count, void *elements)
{
    Descriptor *const graph = heuristic.get<Descriptor *>(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    const bool found = is_alive(graph) && has_engine(*graph) &&
                       heuristic.get<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_A;
    *count = found && requested > 0 ? 1 : 0;
    if (requested == 0) { *count = found ? 1 : 0; }
    if (!found || requested == 0) { return CUDNN_STATUS_SUCCESS; }
    Descriptor *const config = static_cast<Descriptor **>(elements)[0];
    if (!is_alive(config) || config->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR || config->finalized) {
        return fail(CUDNN_STATUS_BAD_PARAM, "results go into new configurations");
    }
    config->engine = std::make_unique<Descriptor>();
    Descriptor *const engine = config->engine.get();
    engine->type = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
    engine->put(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, graph);
    engine->put(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, int64_t(6));
    config->put(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, engine);
    engine->finalized = config->finalized = true;
    const std::lock_guard<std::mutex> guard(lock);
    living().insert(engine);
    return CUDNN_STATUS_SUCCESS;
}

bool is_handle(cudnnHandle_t handle)
{
    CUcontext context = nullptr;
    return handle != nullptr && cuCtxGetCurrent(&context) == CUDA_SUCCESS && context == handle->context;
}

struct Versions {
    size_t version, cuda;
};

Versions beside()
{
    Versions v = {size_t(number_of("MOCK_CUDNN_VERSION", CUDNN_VERSION)), CUDA_VERSION};
    Dl_info info = {};
    if (dladdr(reinterpret_cast<void *>(&beside), &info) == 0 || info.dli_fname == nullptr) { return v; }
    const std::string name = info.dli_fname;
    std::ifstream file(name.substr(0, name.rfind('/') + 1) + "libcudnn.version");
    size_t number = 0;
    if (file >> number) { v.version = number; }
    if (file >> number) { v.cuda = number; }
    return v;
}

} // namespace

extern "C" {

size_t cudnnGetVersion(void)
{
    return beside().version;
}

size_t cudnnGetCudartVersion(void)
{
    return beside().cuda;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    switch (status) {
    case CUDNN_STATUS_SUCCESS: return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_INITIALIZED: return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_EXECUTION_FAILED: return "CUDNN_STATUS_EXECUTION_FAILED";
    default: return "CUDNN_STATUS_BAD_PARAM";
    }
}

void cudnnGetLastErrorString(char *message, size_t size)
{
    if (message != nullptr && size > 0) { snprintf(message, size, "%s", last_error); }
    last_error[0] = '\0';
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    CUcontext context = nullptr;
    if (handle == nullptr) { return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "handle"); }
    if (number_of("MOCK_CUDNN_HANDLES", 1) == 0 || cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr) {
        return fail(CUDNN_STATUS_NOT_INITIALIZED, "no device");
    }
    *handle = new cudnnContext;
    (*handle)->context = context;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    delete handle;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    if (!is_handle(handle)) { return fail(CUDNN_STATUS_BAD_PARAM, "a handle of another context"); }
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *descriptor)
{
    bool known = false;
    if (descriptor == nullptr) { return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "descriptor"); }
    for (const Rule &rule : rules) { known = known || rule.descriptor == type; }
    if (!known) { return fail(CUDNN_STATUS_NOT_SUPPORTED, "this type of descriptor"); }
    Descriptor *const d = new Descriptor;
    d->type = type;
    *descriptor = d;
    const std::lock_guard<std::mutex> guard(lock);
    living().insert(d);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor)
{
    if (descriptor == nullptr) { return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "descriptor"); }
    Descriptor *const d = static_cast<Descriptor *>(descriptor);
    {
        const std::lock_guard<std::mutex> guard(lock);
        if (living().erase(d) == 0) {
            mock_complain("cudnnBackendDestroyDescriptor: twice, or never made");
            return fail(CUDNN_STATUS_BAD_PARAM, "descriptor");
        }
        if (d->engine != nullptr) { living().erase(d->engine.get()); }
    }
    delete d;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor)
{
    if (descriptor == nullptr) { return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "descriptor"); }
    if (!is_alive(descriptor)) { return fail(CUDNN_STATUS_BAD_PARAM, "a destroyed descriptor"); }
    Descriptor *const d = static_cast<Descriptor *>(descriptor);
    if (d->finalized) { return fail(CUDNN_STATUS_BAD_PARAM, "finalized twice"); }
    const cudnnStatus_t status = finish(*d);
    d->finalized = status == CUDNN_STATUS_SUCCESS;
    return status;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void *elements)
{
    if (descriptor == nullptr) { return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "descriptor"); }
    if (!is_alive(descriptor)) { return fail(CUDNN_STATUS_BAD_PARAM, "a destroyed descriptor"); }
    Descriptor *const d = static_cast<Descriptor *>(descriptor);
    const Rule *const rule = find_rule(d->type, name);
    if (d->finalized) { return fail(CUDNN_STATUS_BAD_PARAM, "set after it was finalized"); }
    if (rule == nullptr || elements == nullptr) { return fail(CUDNN_STATUS_BAD_PARAM, "no such attribute"); }
    if (rule->type != type) { return fail(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "the attribute's type"); }
    if (count < 1 || count > rule->most) { return fail(CUDNN_STATUS_BAD_PARAM, "number of elements"); }
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
        for (int64_t i = 0; i < count; i++) {
            const void *const p = static_cast<void *const *>(elements)[i];
            if (!is_alive(p) || !static_cast<const Descriptor *>(p)->finalized) {
                return fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a part is not finalized");
            }
        }
    }
    d->put_all(name, type, elements, size_t(count) * bytes_of(type));
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t requested, int64_t *count,
                                       void *elements)
{
    int64_t ignored = 0;
    if (descriptor == nullptr) { return fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "descriptor"); }
    if (!is_alive(descriptor)) { return fail(CUDNN_STATUS_BAD_PARAM, "a destroyed descriptor"); }
    const Descriptor *const d = static_cast<const Descriptor *>(descriptor);
    if (!d->finalized) { return fail(CUDNN_STATUS_NOT_INITIALIZED, "not finalized"); }
    if (count == nullptr) { count = &ignored; }
    if (requested < 0 || (requested > 0 && elements == nullptr)) { return fail(CUDNN_STATUS_BAD_PARAM, "elements"); }
    if (d->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR && name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
        return type == CUDNN_TYPE_BACKEND_DESCRIPTOR
                   ? give_results(*d, requested, count, elements)
                   : fail(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "the attribute's type");
    }
    const Rule *const rule = find_rule(d->type, name);
    const auto found = d->attributes.find(name);
    if (rule == nullptr || found == d->attributes.end()) { return fail(CUDNN_STATUS_BAD_PARAM, "no such attribute"); }
    if (rule->type != type) { return fail(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "the attribute's type"); }
    const int64_t have = int64_t(found->second.bytes.size() / bytes_of(type)),
                  given = have < requested ? have : requested;
    *count = have;
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR && given > 0) { // into a descriptor that the caller has made
        Descriptor *const to = static_cast<Descriptor **>(elements)[0];
        const Descriptor *const from = d->get<Descriptor *>(name);
        if (!is_alive(to) || to->type != from->type) { return fail(CUDNN_STATUS_BAD_PARAM, "descriptor"); }
        to->attributes = from->attributes;
        to->finalized = true;
    } else if (given > 0) {
        memcpy(elements, found->second.bytes.data(), size_t(given) * bytes_of(type));
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack)
{
    if (!is_handle(handle)) { return fail(CUDNN_STATUS_BAD_PARAM, "a handle of another context"); }
    if (!is_alive(plan) || !is_alive(pack)) { return fail(CUDNN_STATUS_BAD_PARAM, "a destroyed descriptor"); }
    const Descriptor *const p = static_cast<const Descriptor *>(plan), *const v = static_cast<const Descriptor *>(pack);
    if (p->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR || v->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR ||
        !p->finalized || !v->finalized) {
        return fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "plan or pack");
    }
    if (p->get<cudnnHandle_t>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE) != handle) {
        return fail(CUDNN_STATUS_BAD_PARAM, "a plan of another handle");
    }
    const char *why = nullptr;
    Calculation *const work = prepare(*p, *v, &why);
    if (work == nullptr) { return fail(CUDNN_STATUS_BAD_PARAM, why); }
    if (mock_stream_work(handle->stream, "attention of cuDNN", calculate, work, forget) != CUDA_SUCCESS) {
        return fail(CUDNN_STATUS_EXECUTION_FAILED, "the stream");
    }
    return CUDNN_STATUS_SUCCESS;
}

} // extern "C"
