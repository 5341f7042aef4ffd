// The calculator of the mock library for cuDNN: runs a graph of operations in double, one after the other. What is
// stored is rounded to the tensor's type, between operations, too: that is where the real one rounds to 16 bits.
#include "tests/cuda/mock.h"
#include "tests/cuda/mock_dnn.h"

#include <cmath>
#include <cstring>

Shape shape_of(const Descriptor *tensor)
{
    const auto dims = tensor->all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
    const auto strides = tensor->all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
    Shape s = {};
    for (size_t i = 0; i < 4; i++) {
        s.dim[i] = dims[i];
        s.stride[i] = strides[i];
    }
    return s;
}

int pointwise_inputs(cudnnPointwiseMode_t mode)
{
    switch (mode) {
    case CUDNN_POINTWISE_EXP:
    case CUDNN_POINTWISE_LOG:
    case CUDNN_POINTWISE_IDENTITY:
    case CUDNN_POINTWISE_GEN_INDEX: return 1;
    case CUDNN_POINTWISE_ADD:
    case CUDNN_POINTWISE_SUB:
    case CUDNN_POINTWISE_MUL:
    case CUDNN_POINTWISE_DIV:
    case CUDNN_POINTWISE_CMP_GE:
    case CUDNN_POINTWISE_CMP_GT: return 2;
    case CUDNN_POINTWISE_BINARY_SELECT: return 3;
    default: return 0;
    }
}

bool tensors_of(const Descriptor &op, std::vector<const Descriptor *> *inputs, std::vector<const Descriptor *> *outputs)
{
    const auto add = [&](int name, std::vector<const Descriptor *> *to) {
        if (op.attributes.count(name) != 0) { to->push_back(op.get<Descriptor *>(name)); }
    };
    switch (op.type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        add(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, inputs);
        add(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, inputs);
        add(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, inputs);
        add(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, outputs);
        return true;
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        add(CUDNN_ATTR_OPERATION_MATMUL_ADESC, inputs);
        add(CUDNN_ATTR_OPERATION_MATMUL_BDESC, inputs);
        add(CUDNN_ATTR_OPERATION_MATMUL_CDESC, outputs);
        return true;
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        add(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, inputs);
        add(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, outputs);
        return true;
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
        add(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, inputs);
        add(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, outputs);
        return true;
    default: return false;
    }
}

static cudnnPointwiseMode_t mode_of(const Descriptor &op)
{
    return op.get<Descriptor *>(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
        ->get<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
}

static cudnnReduceTensorOp_t reduction_of(const Descriptor &op)
{
    return op.get<Descriptor *>(CUDNN_ATTR_OPERATION_REDUCTION_DESC)
        ->get<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
}

std::string word_of(const Descriptor &graph)
{
    std::string word;
    for (const Descriptor *const op : graph.all<Descriptor *>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
        if (op->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) { word += 'M'; }
        if (op->type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR) { word += 'T'; }
        if (op->type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR) {
            word += reduction_of(*op) == CUDNN_REDUCE_TENSOR_MAX ? 'X' : 'A';
        }
        if (op->type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) { continue; }
        switch (mode_of(*op)) {
        case CUDNN_POINTWISE_EXP: word += 'e'; break;
        case CUDNN_POINTWISE_LOG: word += 'l'; break;
        case CUDNN_POINTWISE_IDENTITY: word += '='; break;
        case CUDNN_POINTWISE_GEN_INDEX: word += 'i'; break;
        case CUDNN_POINTWISE_ADD: word += '+'; break;
        case CUDNN_POINTWISE_SUB: word += '-'; break;
        case CUDNN_POINTWISE_MUL: word += '*'; break;
        case CUDNN_POINTWISE_DIV: word += '/'; break;
        case CUDNN_POINTWISE_CMP_GE: word += 'G'; break;
        case CUDNN_POINTWISE_CMP_GT: word += '>'; break;
        default: word += 's'; break;
        }
    }
    return word;
}

namespace
{

size_t bytes_of(cudnnDataType_t type)
{
    switch (type) {
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16: return 2;
    case CUDNN_DATA_BOOLEAN: return 1;
    default: return 4;
    }
}

// To a significand of so many bits, to nearest even.
double round_bits(double x, int bits, int least_exponent)
{
    int exponent = 0;
    if (x == 0 || !std::isfinite(x)) { return x; }
    (void)std::frexp(x, &exponent);
    if (exponent < least_exponent) { exponent = least_exponent; }
    return std::ldexp(std::nearbyint(std::ldexp(x, bits - exponent)), exponent - bits);
}

double round_to(cudnnDataType_t type, double x)
{
    switch (type) {
    case CUDNN_DATA_HALF: {
        const double y = round_bits(x, 11, -13);
        return std::fabs(y) > 65504 ? std::copysign(INFINITY, x) : y;
    }
    case CUDNN_DATA_BFLOAT16: return double(float(round_bits(x, 8, -125)));
    case CUDNN_DATA_FLOAT: return double(float(x));
    case CUDNN_DATA_INT32: return std::trunc(x);
    default: return x;
    }
}

double read(cudnnDataType_t type, const void *memory, int64_t at)
{
    uint32_t bits = 0;
    float value = 0;
    if (type == CUDNN_DATA_FLOAT) { return double(static_cast<const float *>(memory)[at]); }
    if (type == CUDNN_DATA_INT32) { return double(static_cast<const int32_t *>(memory)[at]); }
    const uint16_t half = static_cast<const uint16_t *>(memory)[at];
    if (type == CUDNN_DATA_BFLOAT16) {
        bits = uint32_t(half) << 16;
        memcpy(&value, &bits, sizeof value);
        return double(value);
    }
    const int exponent = (half >> 10) & 31, fraction = half & 0x3ff;
    const double x = exponent == 31  ? (fraction == 0 ? double(INFINITY) : double(NAN))
                     : exponent == 0 ? std::ldexp(fraction, -24)
                                     : std::ldexp(fraction + 1024, exponent - 25);
    return (half & 0x8000) != 0 ? -x : x;
}

// x is rounded already.
void write(cudnnDataType_t type, void *memory, int64_t at, double x)
{
    const float value = float(x);
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    if (type == CUDNN_DATA_FLOAT) {
        static_cast<float *>(memory)[at] = value;
        return;
    }
    uint16_t half = uint16_t(bits >> 16);
    if (type == CUDNN_DATA_HALF) {
        int exponent = 0;
        (void)std::frexp(x, &exponent);
        const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
        half = std::isnan(x)              ? 0x7e00
               : std::isinf(x)            ? uint16_t(sign | 0x7c00)
               : x == 0 || exponent < -13 ? uint16_t(sign | uint16_t(std::ldexp(std::fabs(x), 24)))
                                          : uint16_t(sign | ((exponent + 14) << 10) |
                                                     (uint16_t(std::ldexp(std::fabs(x), 11 - exponent)) & 0x3ff));
    }
    static_cast<uint16_t *>(memory)[at] = half;
}

// A tensor's numbers: in memory of the device, or here.
struct Numbers {
    Shape shape;
    cudnnDataType_t type;
    void *memory = nullptr;
    std::shared_ptr<std::vector<double>> own;

    int64_t at(const int64_t *i) const
    {
        int64_t offset = 0;
        for (int k = 0; k < 4; k++) { offset += (i[k] % shape.dim[k]) * shape.stride[k]; } // 1 is repeated
        return offset;
    }
    double load(int64_t offset) const
    {
        return memory == nullptr ? (*own)[size_t(offset)] : read(type, memory, offset);
    }
    void store(int64_t offset, double x)
    {
        x = round_to(type, x);
        if (memory == nullptr) {
            (*own)[size_t(offset)] = x;
        } else {
            write(type, memory, offset, x);
        }
    }
};

struct Step {
    const Descriptor *op;
    int type;
    cudnnPointwiseMode_t mode;
    cudnnReduceTensorOp_t reduction;
    int64_t axis;
    std::vector<int64_t> inputs;
    int64_t output;
};

template <class F> void for_each(const Shape &s, F f)
{
    int64_t i[4];
    for (i[0] = 0; i[0] < s.dim[0]; i[0]++) {
        for (i[1] = 0; i[1] < s.dim[1]; i[1]++) {
            for (i[2] = 0; i[2] < s.dim[2]; i[2]++) {
                for (i[3] = 0; i[3] < s.dim[3]; i[3]++) { f(i); }
            }
        }
    }
}

double pointwise(const Step &step, const int64_t *i, double x, double b, double t)
{
    switch (step.mode) {
    case CUDNN_POINTWISE_EXP: return std::exp(x);
    case CUDNN_POINTWISE_LOG: return std::log(x);
    case CUDNN_POINTWISE_IDENTITY: return x;
    case CUDNN_POINTWISE_GEN_INDEX: return double(i[step.axis]);
    case CUDNN_POINTWISE_ADD: return x + b;
    case CUDNN_POINTWISE_SUB: return x - b;
    case CUDNN_POINTWISE_MUL: return x * b;
    case CUDNN_POINTWISE_DIV: return x / b;
    case CUDNN_POINTWISE_CMP_GE: return x >= b ? 1 : 0;
    case CUDNN_POINTWISE_CMP_GT: return x > b ? 1 : 0;
    default: return t != 0 ? x : b;
    }
}

// Heads of a group share those of the smaller tensor.
void product(const Numbers &a, const Numbers &b, Numbers &c)
{
    const int64_t batches = a.shape.dim[0] / b.shape.dim[0], heads = a.shape.dim[1] / b.shape.dim[1];
    for_each(c.shape, [&](const int64_t *i) {
        double sum = 0;
        for (int64_t k = 0; k < a.shape.dim[3]; k++) {
            const int64_t at_a[4] = {i[0], i[1], i[2], k}, at_b[4] = {i[0] / batches, i[1] / heads, k, i[3]};
            sum += a.load(a.at(at_a)) * b.load(b.at(at_b));
        }
        c.store(c.at(i), sum);
    });
}

// Neighbours along dimensions that get smaller are added up, or the largest is taken.
void reduce(cudnnReduceTensorOp_t mode, const Numbers &x, Numbers &y)
{
    for_each(y.shape, [&](const int64_t *i) {
        double result = mode == CUDNN_REDUCE_TENSOR_MAX ? -double(INFINITY) : 0;
        Shape part = {};
        for (int k = 0; k < 4; k++) { part.dim[k] = x.shape.dim[k] / y.shape.dim[k]; }
        for_each(part, [&](const int64_t *j) {
            const int64_t at[4] = {i[0] * part.dim[0] + j[0], i[1] * part.dim[1] + j[1], i[2] * part.dim[2] + j[2],
                                   i[3] * part.dim[3] + j[3]};
            const double value = x.load(x.at(at));
            result = mode == CUDNN_REDUCE_TENSOR_MAX ? std::fmax(result, value) : result + value;
        });
        y.store(y.at(i), result);
    });
}

} // namespace

struct Calculation {
    std::map<int64_t, Numbers> tensors;
    std::vector<Step> steps;
    void *workspace = nullptr;
    size_t workspace_bytes = 0;
};

static bool add_tensor(Calculation &c, const Descriptor *t, const std::map<int64_t, void *> &given, const char **why)
{
    const int64_t id = t->get<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    if (c.tensors.count(id) != 0) { return true; }
    Numbers n = {shape_of(t), t->get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE), nullptr, nullptr};
    const size_t extent = size_t(n.shape.extent());
    const auto found = given.find(id);
    if (t->get<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL, false)) {
        n.own = std::make_shared<std::vector<double>>(extent, double(NAN));
    } else if (found == given.end() || found->second == nullptr) {
        *why = "a tensor without memory";
        return false;
    } else if (t->get<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE, false)) {
        if (mock_is_device(found->second, bytes_of(n.type))) {
            *why = "a number by value lies on the device";
            return false;
        }
        n.own = std::make_shared<std::vector<double>>(1, read(n.type, found->second, 0));
    } else {
        const int64_t alignment = t->get<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
        n.memory = found->second;
        if (!mock_is_device(n.memory, extent * bytes_of(n.type)) || uintptr_t(n.memory) % uintptr_t(alignment) != 0) {
            *why = "a tensor's memory is not the device's, too small, or not aligned";
            return false;
        }
    }
    c.tensors.emplace(id, n);
    return true;
}

Calculation *prepare(const Descriptor &plan, const Descriptor &pack, const char **why)
{
    const auto ids = pack.all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const auto pointers = pack.all<void *>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    const Descriptor *const graph = plan.get<Descriptor *>(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
    std::map<int64_t, void *> given;
    auto c = std::make_unique<Calculation>();
    for (size_t i = 0; i < ids.size(); i++) { given[ids[i]] = pointers[i]; }
    c->workspace = pack.get<void *>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, nullptr);
    c->workspace_bytes = size_t(plan.get<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
    if (c->workspace_bytes > 0 && !mock_is_device(c->workspace, c->workspace_bytes)) {
        *why = "the workspace is not the device's, or too small";
        return nullptr;
    }
    for (const Descriptor *const op : graph->all<Descriptor *>(CUDNN_ATTR_OPERATIONGRAPH_OPS)) {
        std::vector<const Descriptor *> inputs, outputs;
        Step step = {op, op->type, CUDNN_POINTWISE_IDENTITY, CUDNN_REDUCE_TENSOR_ADD, 0, {}, 0};
        (void)tensors_of(*op, &inputs, &outputs);
        if (op->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) {
            step.mode = mode_of(*op);
            step.axis = op->get<Descriptor *>(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
                            ->get<int64_t>(CUDNN_ATTR_POINTWISE_AXIS, 0);
        }
        if (op->type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR) { step.reduction = reduction_of(*op); }
        for (const Descriptor *const t : inputs) {
            if (!add_tensor(*c, t, given, why)) { return nullptr; }
            step.inputs.push_back(t->get<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID));
        }
        if (!add_tensor(*c, outputs[0], given, why)) { return nullptr; }
        step.output = outputs[0]->get<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
        c->steps.push_back(step);
    }
    return c.release();
}

void forget(void *calculation)
{
    delete static_cast<Calculation *>(calculation);
}

void calculate(void *calculation)
{
    Calculation own = *static_cast<const Calculation *>(calculation); // what comes between is made anew
    Calculation *const c = &own;
    for (const auto &entry : c->tensors) { // it may have been freed since
        const Numbers &n = entry.second;
        if (n.memory != nullptr && !mock_is_device(n.memory, size_t(n.shape.extent()) * bytes_of(n.type))) {
            mock_fault(CUDA_ERROR_ILLEGAL_ADDRESS, "cuDNN: the memory of tensor %lld is gone", (long long)entry.first);
            return;
        }
    }
    if (c->workspace_bytes > 0) { // nothing lies there afterwards
        if (!mock_is_device(c->workspace, c->workspace_bytes)) {
            mock_fault(CUDA_ERROR_ILLEGAL_ADDRESS, "cuDNN: the workspace is gone");
            return;
        }
        memset(c->workspace, 0xff, c->workspace_bytes);
    }
    for (const Step &step : c->steps) {
        const Numbers &x = c->tensors.at(step.inputs[0]);
        Numbers &y = c->tensors.at(step.output);
        if (step.type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) {
            product(x, c->tensors.at(step.inputs[1]), y);
        } else if (step.type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR) {
            reduce(step.reduction, x, y);
        } else if (step.type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR) { // the same memory, other strides
            for (int64_t i = 0; i < x.shape.extent(); i++) { y.store(i, x.load(i)); }
        } else {
            const Numbers &b = c->tensors.at(step.inputs[step.inputs.size() > 1 ? 1 : 0]);
            const Numbers &t = c->tensors.at(step.inputs[step.inputs.size() > 2 ? 2 : 0]);
            for_each(y.shape, [&](const int64_t *i) {
                y.store(y.at(i), pointwise(step, i, x.load(x.at(i)), b.load(b.at(i)), t.load(t.at(i))));
            });
        }
    }
}
