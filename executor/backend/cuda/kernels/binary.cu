/* Elementwise operators of two tensors, in every type that they take. */
#include "executor/backend/cuda/kernels/elementwise.cuh"
#include "executor/backend/cuda/kernels/functions.cuh"

using namespace redco;

template <typename T, typename Result, template <typename> class F> struct binary {
    using A = T;
    using B = T;
    using C = T;
    using Out = Result;
    static constexpr int INPUTS = 2;
    static __device__ Result run(T x, T y)
    {
        if constexpr (sizeof(Result) == sizeof(T)) {
            return narrow<T>(F<T>::run(widen(x), widen(y)));
        } else {
            return F<T>::run(widen(x), widen(y)) ? 1 : 0;
        }
    }
};

/** Whole numbers: arithmetic wraps; truth values count as 0 and 1. */
template <typename T, typename Result, template <typename> class F> struct whole {
    using A = T;
    using B = T;
    using C = T;
    using Out = Result;
    static constexpr int INPUTS = 2;
    static __device__ int32_t number(int32_t x) { return x; }
    static __device__ int32_t number(uint8_t x) { return x != 0 ? 1 : 0; }
    static __device__ Result run(T x, T y) { return static_cast<Result>(F<int32_t>::run(number(x), number(y))); }
};

#define KERNEL(name, suffix, op)                                                                                       \
    REDCO_KERNEL(redco_k_##name##_##suffix, redcoi_elementwise_args, REDCOI_KERNEL_THREADS) { elementwise<op>(args); }
#define COMMA ,
#define FUNCTION(name, expression)                                                                                     \
    template <typename T> struct name##_of {                                                                           \
        using real = real_of<T>;                                                                                       \
        static __device__ real run(real x, real y) { return expression; }                                              \
    };                                                                                                                 \
    KERNEL(name, f32, binary<float COMMA float COMMA name##_of>)                                                       \
    KERNEL(name, f64, binary<double COMMA double COMMA name##_of>)                                                     \
    KERNEL(name, bf16, binary<bf16 COMMA bf16 COMMA name##_of>)                                                        \
    KERNEL(name, f16, binary<f16 COMMA f16 COMMA name##_of>)
#define COMPARISON(name, expression)                                                                                   \
    template <typename T> struct name##_of {                                                                           \
        template <typename R> static __device__ bool run(R x, R y) { return expression; }                              \
    };                                                                                                                 \
    KERNEL(name, f32, binary<float COMMA uint8_t COMMA name##_of>)                                                     \
    KERNEL(name, f64, binary<double COMMA uint8_t COMMA name##_of>)                                                    \
    KERNEL(name, bf16, binary<bf16 COMMA uint8_t COMMA name##_of>)                                                     \
    KERNEL(name, f16, binary<f16 COMMA uint8_t COMMA name##_of>)                                                       \
    KERNEL(name, i32, whole<int32_t COMMA uint8_t COMMA name##_of>)                                                    \
    KERNEL(name, bool, whole<uint8_t COMMA uint8_t COMMA name##_of>)
#define WHOLE(name, expression)                                                                                        \
    template <typename T> struct name##_whole {                                                                        \
        static __device__ int32_t run(int32_t x, int32_t y) { return expression; }                                     \
    };                                                                                                                 \
    KERNEL(name, i32, whole<int32_t COMMA int32_t COMMA name##_whole>)

FUNCTION(add, x + y)
FUNCTION(sub, x - y)
FUNCTION(mul, x *y)
FUNCTION(div, x / y)
FUNCTION(max, x >= y || isnan(x) ? x : y)
FUNCTION(min, x <= y || isnan(x) ? x : y)
FUNCTION(silu_grad, y *silu_slope<T>(x))
FUNCTION(gelu_grad, y *gelu_slope<T>(x))
FUNCTION(gelu_tanh_grad, y *gelu_tanh_slope<T>(x))
COMPARISON(equal, x == y)
COMPARISON(less, x < y)
COMPARISON(less_equal, x <= y)
WHOLE(add, static_cast<int32_t>(static_cast<uint32_t>(x) + static_cast<uint32_t>(y)))
WHOLE(sub, static_cast<int32_t>(static_cast<uint32_t>(x) - static_cast<uint32_t>(y)))
WHOLE(mul, static_cast<int32_t>(static_cast<uint32_t>(x) * static_cast<uint32_t>(y)))
WHOLE(max, x > y ? x : y)
WHOLE(min, x < y ? x : y)

/* Truth values */

template <template <typename> class F> struct logic {
    using A = uint8_t;
    using B = uint8_t;
    using C = uint8_t;
    using Out = uint8_t;
    static constexpr int INPUTS = 2;
    static __device__ uint8_t run(uint8_t x, uint8_t y) { return F<bool>::run(x != 0, y != 0) ? 1 : 0; }
};
template <typename T> struct both {
    static __device__ bool run(bool x, bool y) { return x && y; }
};
template <typename T> struct either {
    static __device__ bool run(bool x, bool y) { return x || y; }
};
struct negate {
    using A = uint8_t;
    using B = uint8_t;
    using C = uint8_t;
    using Out = uint8_t;
    static constexpr int INPUTS = 1;
    static __device__ uint8_t run(uint8_t x, double) { return x == 0 ? 1 : 0; }
};
KERNEL(and, bool, logic<both>)
KERNEL(or, bool, logic<either>)
KERNEL(not, bool, negate)

/** Elements of @p T's size, whatever they are. */
template <typename T> struct select_of {
    using A = uint8_t;
    using B = T;
    using C = T;
    using Out = T;
    static constexpr int INPUTS = 3;
    static __device__ T run(uint8_t condition, T x, T y) { return condition != 0 ? x : y; }
};
KERNEL(select, 1, select_of<uint8_t>)
KERNEL(select, 2, select_of<uint16_t>)
KERNEL(select, 4, select_of<uint32_t>)
KERNEL(select, 8, select_of<uint64_t>)
