/** @file mock_nccl.h  Shared by the files of the mock library for NCCL. A communicator of n ranks is a file of shared
 *  memory: counters and a slot for each rank, through which slices go. */
#ifndef REDCO_TESTS_MOCK_NCCL_H
#define REDCO_TESTS_MOCK_NCCL_H

#include "tests/cuda/mock.h"

#include <atomic>
#include <nccl.h>
#include <string>
#include <vector>

namespace mock
{
enum class Kind : int32_t { all_reduce, reduce_scatter, all_gather, broadcast, reduce };

/** The call that a rank was asked for, compared between ranks; addresses and stream are its own. */
struct Call {
    Kind kind;
    int32_t type, op, root;
    uint64_t count;   /**< as NCCL's call has it */
    uint64_t number;  /**< calls of the communicator that came before */
    uint64_t grouped; /**< calls that begin together */
    const void *send;
    void *receive;
};

constexpr size_t slice_bytes = size_t(1) << 17;

struct Slot {
    std::atomic<uint64_t> step; /**< times that the rank has met the others */
    std::atomic<uint32_t> here;
    Call call;
    int32_t colour, key; /**< a split's */
    char uuid[16];       /**< the device's */
    unsigned char data[slice_bytes];
};

/** Shared memory; opening and meeting end when @p given_up is set. */
class Room
{
  public:
    Room(const std::string &name, int rank, int size);
    ~Room();
    Room(const Room &) = delete;
    Room &operator=(const Room &) = delete;
    /** Waits for the others. @return false: given up */
    bool enter(const std::atomic<bool> &given_up);
    /** Returns when all came to the same point. @return 0; -1 given up; else 1 + a rank that did not come in time */
    int meet(const std::atomic<bool> &given_up, bool patient);
    Slot &slot(int rank) const { return slots[rank]; }
    Slot &own() const { return slots[rank]; }
    const std::string name;
    const int rank, size;

  private:
    Slot *slots = nullptr;
    size_t bytes = 0;
};

size_t type_bytes(int type);

/** Does a call, as the kernel would. @return false: given up, or wrong; then it was said why */
bool run_call(Room &room, Call call, const std::atomic<bool> &given_up);
} // namespace mock

#endif
