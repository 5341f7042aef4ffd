/** @file mock_dnn.h  Shared by the two files of the mock library for cuDNN: descriptors, and the calculator. */
#ifndef REDCO_TESTS_MOCK_DNN_H
#define REDCO_TESTS_MOCK_DNN_H

#include <cstddef>
#include <cstdint>
#include <cudnn_graph.h>
#include <map>
#include <memory>
#include <string>
#include <vector>

struct Attribute {
    cudnnBackendAttributeType_t type;
    std::vector<unsigned char> bytes;
    bool operator==(const Attribute &other) const { return type == other.type && bytes == other.bytes; }
};

struct Descriptor {
    int type = 0;
    bool finalized = false;
    std::map<int, Attribute> attributes;
    std::unique_ptr<Descriptor> engine; /**< a configuration's */

    void put_all(int name, cudnnBackendAttributeType_t of, const void *elements, size_t bytes)
    {
        const auto *const from = static_cast<const unsigned char *>(elements);
        attributes[name] = {of, std::vector<unsigned char>(from, from + bytes)};
    }
    template <class T> void put(int name, cudnnBackendAttributeType_t of, T value)
    {
        put_all(name, of, &value, sizeof value);
    }
    /** The attribute must be there. */
    template <class T> std::vector<T> all(int name) const
    {
        const std::vector<unsigned char> &bytes = attributes.at(name).bytes;
        std::vector<T> values;
        for (size_t i = 0; i < bytes.size() / sizeof(T); i++) {
            T value;
            __builtin_memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
            values.push_back(value);
        }
        return values;
    }
    template <class T> T get(int name) const { return all<T>(name)[0]; }
    template <class T> T get(int name, T otherwise) const
    {
        return attributes.count(name) == 0 ? otherwise : get<T>(name);
    }
};

struct Shape {
    int64_t dim[4], stride[4];
    int64_t count() const { return dim[0] * dim[1] * dim[2] * dim[3]; }
    /** Elements from the first to the last. */
    int64_t extent() const
    {
        int64_t last = 0;
        for (int i = 0; i < 4; i++) { last += (dim[i] - 1) * stride[i]; }
        return last + 1;
    }
};

Shape shape_of(const Descriptor *tensor);
/** 0: not known here. */
int pointwise_inputs(cudnnPointwiseMode_t mode);
/** @return false if it is no operation */
bool tensors_of(const Descriptor &operation, std::vector<const Descriptor *> *inputs,
                std::vector<const Descriptor *> *outputs);
/** One letter for each operation of a graph, in its order. */
std::string word_of(const Descriptor &graph);

/** A graph on the tensors of a pack; owns what it needs, so that pack and numbers by value may go. */
struct Calculation;
/** @return NULL if a tensor has no memory, or memory that is not the device's */
Calculation *prepare(const Descriptor &plan, const Descriptor &pack, const char **why);
void calculate(void *calculation); /**< as often as it is wanted */
void forget(void *calculation);

#endif
