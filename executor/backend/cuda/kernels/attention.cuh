/* Attention and its gradient for any element type: see attention.h. Threads of a block form rows of 16: thread (y, x)
 * has rows y, y + Y, y + 2 Y ... and columns x, x + 16 ... of scores, or four neighbouring columns at 4 x, 4 x + 64 ...
 * of sums. Head sizes are filled up with zeros to SIZE. */
#ifndef REDCO_CUDA_KERNELS_ATTENTION_CUH
#define REDCO_CUDA_KERNELS_ATTENTION_CUH

#include "executor/backend/cuda/kernels/attention.h"
#include "executor/backend/cuda/kernels/device.cuh"
#include "executor/backend/cuda/kernels/functions.cuh"

namespace redco
{

constexpr int attention_columns = 16; /* threads of a row */

template <typename R> static __device__ inline R capped(R score, R cap)
{
    return cap > R(0) ? cap * real_tanh(score / cap) : score;
}

struct thread_place {
    int x, y;
};

static __device__ inline thread_place my_place()
{
    return {static_cast<int>(threadIdx.x) % attention_columns, static_cast<int>(threadIdx.x) / attention_columns};
}

/** The work of a block: a tile of rows, a head or group, an element of the batch. */
struct tile_place {
    uint32_t batch, head, first; /* first row */
};

/** Tiles with the most work first: of causal attention the last queries, and the first keys. */
static __device__ inline tile_place my_tile(uint32_t rows, uint32_t tile, uint32_t heads, bool last_first)
{
    const uint32_t tiles = (rows + tile - 1) / tile, head = blockIdx.x / tiles, t = blockIdx.x % tiles;
    return {head / heads, head % heads, (last_first ? tiles - 1 - t : t) * tile};
}

static __device__ inline int64_t clamp_to(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/** Keys [first, end) that queries [row, row + rows) see by position, together. */
static __device__ inline void keys_of(const redcoi_attention_args &a, int64_t row, int64_t rows, int64_t *first,
                                      int64_t *end)
{
    *first = 0;
    *end = a.keys;
    if (a.causal == 0) { return; }
    *end = clamp_to(row + rows + a.offset, 0, a.keys);
    if (a.window > 0) { *first = clamp_to(row + a.offset + 1 - a.window, 0, *end); }
}

/** Queries [first, end) that see any of keys [key, key + keys). */
static __device__ inline void queries_of(const redcoi_attention_args &a, int64_t key, int64_t keys, int64_t *first,
                                         int64_t *end)
{
    *first = 0;
    *end = a.queries;
    if (a.causal == 0) { return; }
    if (a.window > 0) { *end = clamp_to(key + keys - 1 - a.offset + a.window, 0, a.queries); }
    *first = clamp_to(key - a.offset, 0, *end);
}

static __device__ inline bool is_seen(const redcoi_attention_args &a, const tile_place &place, uint32_t head,
                                      int64_t query, int64_t key)
{
    if (query >= a.queries || key >= a.keys) { return false; }
    const int64_t last = query + a.offset;
    if (a.causal != 0 && (key > last || (a.window > 0 && key <= last - a.window))) { return false; }
    if (a.mask == nullptr) { return true; }
    return a.mask[place.batch * a.mask_batch + head * a.mask_head + query * a.mask_query + key] != 0;
}

template <int N, typename T, typename R>
static __device__ inline void fill_rows(R *to, int row_elements, int filled, const T *from, uint64_t stride, int tile,
                                        int64_t rows, int size)
{
    constexpr int part = N < width_of<R> ? N : width_of<R>; /* 16 bytes, as from memory */
    const int vectors = filled / N;
    for (int v = static_cast<int>(threadIdx.x); v < tile * vectors; v += static_cast<int>(blockDim.x)) {
        const int row = v / vectors, column = v % vectors * N;
        vec<T, N> x = {};
        if (row < rows && column < size) { x = load<N>(from + row * stride + column); }
#pragma unroll
        for (int i = 0; i < N; i += part) {
            vec<R, part> y;
#pragma unroll
            for (int e = 0; e < part; e++) { y.at[e] = widen(x.at[i + e]); }
            store<part>(to + row * row_elements + column + i, y);
        }
    }
}

/** Rows of a tensor into shared memory, zeros beyond the last row and behind the head's size.
 *  @param wide  rows begin and end at 16 bytes */
template <int SIZE, typename T>
static __device__ inline void load_rows(real_of<T> *to, const T *from, uint64_t stride, int tile, int64_t rows,
                                        int size, bool wide)
{
    constexpr int row = REDCOI_ATTENTION_ROW(static_cast<int>(sizeof(real_of<T>)), SIZE);
    if (wide) {
        fill_rows<width_of<T>>(to, row, SIZE, from, stride, tile, rows, size);
    } else {
        fill_rows<1>(to, row, SIZE, from, stride, tile, rows, size);
    }
}

/** sums[i][j] = row (y + Y i) of a times row (x + 16 j) of b. */
template <int I, int J, int Y, int ROW, typename R>
static __device__ inline void dot_rows(R (&sums)[I][J], const R *a, const R *b, int size, thread_place p)
{
#pragma unroll
    for (int i = 0; i < I; i++) {
#pragma unroll
        for (int j = 0; j < J; j++) { sums[i][j] = 0; }
    }
    for (int d = 0; d < size; d += 4) { /* elements behind the size are 0 */
        vec<R, 4> u[I], w[J];
#pragma unroll
        for (int i = 0; i < I; i++) { u[i] = load<4>(a + (p.y + Y * i) * ROW + d); }
#pragma unroll
        for (int j = 0; j < J; j++) { w[j] = load<4>(b + (p.x + attention_columns * j) * ROW + d); }
#pragma unroll
        for (int i = 0; i < I; i++) {
#pragma unroll
            for (int j = 0; j < J; j++) {
#pragma unroll
                for (int e = 0; e < 4; e++) { sums[i][j] += u[i].at[e] * w[j].at[e]; }
            }
        }
    }
}

/** sums[i][4 j + e] += row (y + Y i) of a times column (4 x + 64 j + e) of b. @param A, B elements of their rows */
template <int I, int J, int Y, int INNER, int A, int B, typename R>
static __device__ inline void add_products(R (&sums)[I][4 * J], const R *a, const R *b, thread_place p)
{
#pragma unroll 2
    for (int t = 0; t < INNER; t += 4) {
        vec<R, 4> u[I];
#pragma unroll
        for (int i = 0; i < I; i++) { u[i] = load<4>(a + (p.y + Y * i) * A + t); }
#pragma unroll
        for (int s = 0; s < 4; s++) {
#pragma unroll
            for (int j = 0; j < J; j++) {
                const vec<R, 4> w = load<4>(b + (t + s) * B + 4 * p.x + 4 * attention_columns * j);
#pragma unroll
                for (int i = 0; i < I; i++) {
#pragma unroll
                    for (int e = 0; e < 4; e++) { sums[i][4 * j + e] += u[i].at[s] * w.at[e]; }
                }
            }
        }
    }
}

template <int I, int J, typename R> static __device__ inline void clear(R (&sums)[I][J])
{
#pragma unroll
    for (int i = 0; i < I; i++) {
#pragma unroll
        for (int j = 0; j < J; j++) { sums[i][j] = 0; }
    }
}

template <typename T> static __device__ inline void store_four(T *to, const real_of<T> *from, int column, int size)
{
    if (size % 4 == 0) {
        if (column >= size) { return; }
        vec<T, 4> x;
#pragma unroll
        for (int e = 0; e < 4; e++) { x.at[e] = narrow<T>(from[e]); }
        store<4>(to + column, x);
        return;
    }
#pragma unroll
    for (int e = 0; e < 4; e++) {
        if (column + e < size) { to[column + e] = narrow<T>(from[e]); }
    }
}

/** Rows y + Y i of a tile of sums to a tensor's rows. */
template <int I, int J, int Y, typename T>
static __device__ inline void store_rows(T *to, uint64_t stride, const real_of<T> (&sums)[I][4 * J], int64_t rows,
                                         int size, thread_place p)
{
#pragma unroll
    for (int i = 0; i < I; i++) {
        const int row = p.y + Y * i;
        if (row >= rows) { continue; }
#pragma unroll
        for (int j = 0; j < J; j++) {
            store_four(to + row * stride, &sums[i][4 * j], 4 * p.x + 4 * attention_columns * j, size);
        }
    }
}

/* Over the 16 threads that have a row. */
template <typename Op, typename R> static __device__ inline R over_row(R x)
{
#pragma unroll
    for (int step = attention_columns / 2; step > 0; step /= 2) {
        x = Op::run(x, __shfl_xor_sync(0xffffffffU, x, step));
    }
    return x;
}

/** The exponential of an f32 or f64, whatever the elements' type is: probabilities are not rounded to it. */
static __device__ inline float power(float x) { return expf(x); }
static __device__ inline double power(double x) { return exp(x); }

/** Element of [batch][tokens][heads][size]. */
static __device__ inline uint64_t element(uint64_t batch, uint64_t token, uint64_t head, uint64_t tokens,
                                          uint64_t heads, uint64_t size)
{
    return ((batch * tokens + token) * heads + head) * size;
}

template <typename T, int SIZE> static __device__ inline void attention_forward(const redcoi_attention_args &a)
{
    using R = real_of<T>;
    constexpr int bytes = sizeof(R), Y = REDCOI_ATTENTION_FORWARD_THREADS / attention_columns;
    constexpr int BQ = REDCOI_ATTENTION_QUERIES(bytes, SIZE), BK = REDCOI_ATTENTION_KEYS(bytes, SIZE);
    constexpr int ROW = REDCOI_ATTENTION_ROW(bytes, SIZE), P = REDCOI_ATTENTION_ROW(bytes, BK);
    constexpr int I = BQ / Y, J = BK / attention_columns, V = SIZE / 4 / attention_columns;
    REDCO_SHARED(R, q);
    R *const k = q + BQ * ROW, *const v = k + BK * ROW, *const p = v + BK * ROW;
    const thread_place me = my_place();
    const tile_place tile = my_tile(a.queries, BQ, a.heads, a.causal != 0);
    const int64_t left = static_cast<int64_t>(a.queries) - tile.first, rows = left < BQ ? left : BQ;
    const uint32_t group = tile.head / (a.heads / a.groups);
    const R scale = static_cast<R>(a.scale), cap = static_cast<R>(a.cap), infinity = static_cast<R>(INFINITY);
    const T *const keys = static_cast<const T *>(a.k), *const values = static_cast<const T *>(a.v);
    R max[I], sum[I], out[I][4 * V];
    int64_t first, end;
    clear(out);
#pragma unroll
    for (int i = 0; i < I; i++) {
        max[i] = -infinity;
        sum[i] = 0;
    }
    load_rows<SIZE>(
        q, static_cast<const T *>(a.q) + element(tile.batch, tile.first, tile.head, a.queries, a.heads, a.size),
        static_cast<uint64_t>(a.heads) * a.size, BQ, rows, static_cast<int>(a.size), a.wide != 0);
    keys_of(a, tile.first, rows, &first, &end);
    for (int64_t key = first / BK * BK; key < end; key += BK) {
        const int64_t there = static_cast<int64_t>(a.keys) - key;
        __syncthreads(); /* whoever still reads the tile before */
        load_rows<SIZE>(k, keys + element(tile.batch, key, group, a.keys, a.groups, a.size),
                        static_cast<uint64_t>(a.groups) * a.size, BK, there, static_cast<int>(a.size), a.wide != 0);
        load_rows<SIZE>(v, values + element(tile.batch, key, group, a.keys, a.groups, a.value_size),
                        static_cast<uint64_t>(a.groups) * a.value_size, BK, there, static_cast<int>(a.value_size),
                        a.wide != 0);
        __syncthreads();
        R x[I][J];
        dot_rows<I, J, Y, ROW>(x, q, k, static_cast<int>(a.size), me);
#pragma unroll
        for (int i = 0; i < I; i++) {
            const int64_t query = tile.first + me.y + Y * i;
            R top = -infinity, part = 0;
#pragma unroll
            for (int j = 0; j < J; j++) {
                const bool seen = is_seen(a, tile, tile.head, query, key + me.x + attention_columns * j);
                x[i][j] = seen ? capped(x[i][j] * scale, cap) : -infinity;
                top = x[i][j] > top ? x[i][j] : top;
            }
            top = over_row<take_max>(top);
            top = top > max[i] ? top : max[i];
            const R base = top == -infinity ? 0 : top, factor = power(max[i] - base);
            max[i] = top;
#pragma unroll
            for (int j = 0; j < J; j++) {
                const R share = power(x[i][j] - base);
                p[(me.y + Y * i) * P + me.x + attention_columns * j] = share;
                part += share;
            }
            sum[i] = sum[i] * factor + part;
#pragma unroll
            for (int c = 0; c < 4 * V; c++) { out[i][c] *= factor; }
        }
        __syncthreads();
        add_products<I, V, Y, BK, P, ROW>(out, p, v, me);
    }
#pragma unroll
    for (int i = 0; i < I; i++) {
        const int row = me.y + Y * i;
        const R total = over_row<add_up>(sum[i]), factor = total == 0 ? 0 : 1 / total;
#pragma unroll
        for (int c = 0; c < 4 * V; c++) { out[i][c] *= factor; }
        if (row < rows && me.x == 0) { /* 0 for a query that sees nothing, as the host says */
            const uint64_t at =
                (static_cast<uint64_t>(tile.batch) * a.heads + tile.head) * a.queries + tile.first + row;
            static_cast<R *>(a.lse_out)[at] = total == 0 ? 0 : max[i] + static_cast<R>(log(total));
        }
    }
    store_rows<I, V, Y>(static_cast<T *>(a.out) +
                            element(tile.batch, tile.first, tile.head, a.queries, a.heads, a.value_size),
                        static_cast<uint64_t>(a.heads) * a.value_size, out, rows, static_cast<int>(a.value_size), me);
}

/** Part of sum(dO O) of a row: what one of the threads that share it adds up, N elements at a time. */
template <int N, typename T>
static __device__ inline real_of<T> sum_part(const T *o, const T *d, uint32_t lane, uint32_t size)
{
    real_of<T> sum = 0;
#pragma unroll 4
    for (uint32_t i = lane * N; i < size; i += REDCOI_ATTENTION_LANES * N) {
        const vec<T, N> x = load<N>(o + i), y = load<N>(d + i);
#pragma unroll
        for (int e = 0; e < N; e++) { sum += widen(x.at[e]) * widen(y.at[e]); }
    }
    return sum;
}

/** sum(dO O) of each query of each head. */
template <typename T> static __device__ inline void attention_sums(const redcoi_attention_args &a)
{
    using R = real_of<T>;
    constexpr uint32_t lanes = REDCOI_ATTENTION_LANES;
    const uint64_t rows = static_cast<uint64_t>(a.batch) * a.queries * a.heads;
    const uint64_t row = static_cast<uint64_t>(blockIdx.x) * (blockDim.x / lanes) + threadIdx.x / lanes;
    const uint32_t lane = threadIdx.x % lanes;
    R sum = 0;
    if (row < rows) {
        const T *const o = static_cast<const T *>(a.o) + row * a.value_size;
        const T *const d = static_cast<const T *>(a.d_o) + row * a.value_size;
        sum = a.wide != 0 ? sum_part<width_of<T>>(o, d, lane, a.value_size) : sum_part<1>(o, d, lane, a.value_size);
    }
#pragma unroll
    for (uint32_t step = lanes / 2; step > 0; step /= 2) { sum += __shfl_xor_sync(0xffffffffU, sum, step); }
    if (row < rows && lane == 0) {
        const uint64_t head = row % a.heads, query = row / a.heads % a.queries, batch = row / a.heads / a.queries;
        static_cast<R *>(a.sums)[(batch * a.heads + head) * a.queries + query] = sum;
    }
}

/** Both tensors of a side in shared memory: queries and dO, or keys and values. */
template <int SIZE, typename T>
static __device__ inline void load_side(real_of<T> *to, int tile, const T *first, const T *second, uint64_t token,
                                        uint64_t head, uint64_t batch, uint64_t tokens, uint64_t heads,
                                        const redcoi_attention_args &a)
{
    constexpr int row = REDCOI_ATTENTION_ROW(static_cast<int>(sizeof(real_of<T>)), SIZE);
    const int64_t left = static_cast<int64_t>(tokens - token);
    load_rows<SIZE>(to, first + element(batch, token, head, tokens, heads, a.size), heads * a.size, tile, left,
                    static_cast<int>(a.size), a.wide != 0);
    load_rows<SIZE>(to + tile * row, second + element(batch, token, head, tokens, heads, a.value_size),
                    heads * a.value_size, tile, left, static_cast<int>(a.value_size), a.wide != 0);
}

/** Probabilities and gradients of the scores of a tile of rows (y + Y i) and columns (x + 16 j).
 *  @param TURNED rows are keys and columns queries */
template <int I, int J, int Y, int ROW, bool TURNED, typename R>
static __device__ inline void score_gradients(const redcoi_attention_args &a, const tile_place &tile, uint32_t head,
                                              int64_t row, int64_t column, const R *rows, const R *row_values,
                                              const R *columns, const R *column_values, R (&share)[I][J],
                                              R (&gradient)[I][J], thread_place me)
{
    const R scale = static_cast<R>(a.scale), cap = static_cast<R>(a.cap);
    const uint64_t line = (static_cast<uint64_t>(tile.batch) * a.heads + head) * a.queries;
    dot_rows<I, J, Y, ROW>(share, rows, columns, static_cast<int>(a.size), me);
    dot_rows<I, J, Y, ROW>(gradient, row_values, column_values, static_cast<int>(a.value_size), me);
#pragma unroll
    for (int i = 0; i < I; i++) {
#pragma unroll
        for (int j = 0; j < J; j++) {
            const int64_t r = row + me.y + Y * i, c = column + me.x + attention_columns * j;
            const int64_t query = TURNED ? c : r, key = TURNED ? r : c;
            if (is_seen(a, tile, head, query, key)) {
                const R score = capped(share[i][j] * scale, cap), part = cap > R(0) ? score / cap : R(0);
                share[i][j] = power(score - static_cast<const R *>(a.lse)[line + query]);
                gradient[i][j] = share[i][j] * (gradient[i][j] - static_cast<const R *>(a.sums)[line + query]) * scale *
                                 (R(1) - part * part);
            } else {
                share[i][j] = gradient[i][j] = 0;
            }
        }
    }
}

template <int I, int J, int Y, int ROW, typename R>
static __device__ inline void put_tile(R *to, const R (&tile)[I][J], thread_place me)
{
#pragma unroll
    for (int i = 0; i < I; i++) {
#pragma unroll
        for (int j = 0; j < J; j++) { to[(me.y + Y * i) * ROW + me.x + attention_columns * j] = tile[i][j]; }
    }
}

/** dK and dV: a block has keys of a group and walks over the queries of its heads. */
template <typename T, int SIZE> static __device__ inline void attention_keys(const redcoi_attention_args &a)
{
    using R = real_of<T>;
    constexpr int bytes = sizeof(R), Y = REDCOI_ATTENTION_BACKWARD_THREADS / attention_columns;
    constexpr int OWN = REDCOI_ATTENTION_OWN(bytes, SIZE), OTHERS = REDCOI_ATTENTION_OTHERS(bytes, SIZE);
    constexpr int ROW = REDCOI_ATTENTION_ROW(bytes, SIZE), P = REDCOI_ATTENTION_ROW(bytes, OTHERS);
    constexpr int I = OWN / Y, J = OTHERS / attention_columns, V = SIZE / 4 / attention_columns;
    REDCO_SHARED(R, k);
    R *const v = k + OWN * ROW, *const q = v + OWN * ROW, *const d = q + OTHERS * ROW;
    R *const p = d + OTHERS * ROW, *const e = p + OWN * P;
    const thread_place me = my_place();
    const tile_place tile = my_tile(a.keys, OWN, a.groups, false);
    const int64_t left = static_cast<int64_t>(a.keys) - tile.first, rows = left < OWN ? left : OWN;
    const uint32_t shared_heads = a.heads / a.groups;
    R d_k[I][4 * V], d_v[I][4 * V];
    int64_t first, end;
    clear(d_k);
    clear(d_v);
    load_side<SIZE>(k, OWN, static_cast<const T *>(a.k), static_cast<const T *>(a.v), tile.first, tile.head, tile.batch,
                    a.keys, a.groups, a);
    queries_of(a, tile.first, rows, &first, &end);
    for (uint32_t head = tile.head * shared_heads; head < (tile.head + 1) * shared_heads; head++) {
        for (int64_t query = first / OTHERS * OTHERS; query < end; query += OTHERS) {
            __syncthreads(); /* whoever still reads the tile before */
            load_side<SIZE>(q, OTHERS, static_cast<const T *>(a.q), static_cast<const T *>(a.d_o),
                            static_cast<uint64_t>(query), head, tile.batch, a.queries, a.heads, a);
            __syncthreads();
            R share[I][J], gradient[I][J];
            score_gradients<I, J, Y, ROW, true>(a, tile, head, tile.first, query, k, v, q, d, share, gradient, me);
            put_tile<I, J, Y, P>(p, share, me);
            put_tile<I, J, Y, P>(e, gradient, me);
            __syncthreads();
            add_products<I, V, Y, OTHERS, P, ROW>(d_v, p, d, me);
            add_products<I, V, Y, OTHERS, P, ROW>(d_k, e, q, me);
        }
    }
    store_rows<I, V, Y>(static_cast<T *>(a.d_k) + element(tile.batch, tile.first, tile.head, a.keys, a.groups, a.size),
                        static_cast<uint64_t>(a.groups) * a.size, d_k, rows, static_cast<int>(a.size), me);
    store_rows<I, V, Y>(static_cast<T *>(a.d_v) +
                            element(tile.batch, tile.first, tile.head, a.keys, a.groups, a.value_size),
                        static_cast<uint64_t>(a.groups) * a.value_size, d_v, rows, static_cast<int>(a.value_size), me);
}

/** dQ: a block has queries of a head and walks over keys. */
template <typename T, int SIZE> static __device__ inline void attention_queries(const redcoi_attention_args &a)
{
    using R = real_of<T>;
    constexpr int bytes = sizeof(R), Y = REDCOI_ATTENTION_BACKWARD_THREADS / attention_columns;
    constexpr int OWN = REDCOI_ATTENTION_OWN(bytes, SIZE), OTHERS = REDCOI_ATTENTION_OTHERS(bytes, SIZE);
    constexpr int ROW = REDCOI_ATTENTION_ROW(bytes, SIZE), P = REDCOI_ATTENTION_ROW(bytes, OTHERS);
    constexpr int I = OWN / Y, J = OTHERS / attention_columns, V = SIZE / 4 / attention_columns;
    REDCO_SHARED(R, q);
    R *const d = q + OWN * ROW, *const k = d + OWN * ROW, *const v = k + OTHERS * ROW, *const e = v + OTHERS * ROW;
    const thread_place me = my_place();
    const tile_place tile = my_tile(a.queries, OWN, a.heads, a.causal != 0);
    const int64_t left = static_cast<int64_t>(a.queries) - tile.first, rows = left < OWN ? left : OWN;
    const uint32_t group = tile.head / (a.heads / a.groups);
    R d_q[I][4 * V];
    int64_t first, end;
    clear(d_q);
    load_side<SIZE>(q, OWN, static_cast<const T *>(a.q), static_cast<const T *>(a.d_o), tile.first, tile.head,
                    tile.batch, a.queries, a.heads, a);
    keys_of(a, tile.first, rows, &first, &end);
    for (int64_t key = first / OTHERS * OTHERS; key < end; key += OTHERS) {
        __syncthreads(); /* whoever still reads the tile before */
        load_side<SIZE>(k, OTHERS, static_cast<const T *>(a.k), static_cast<const T *>(a.v), static_cast<uint64_t>(key),
                        group, tile.batch, a.keys, a.groups, a);
        __syncthreads();
        R share[I][J], gradient[I][J];
        score_gradients<I, J, Y, ROW, false>(a, tile, tile.head, tile.first, key, q, d, k, v, share, gradient, me);
        put_tile<I, J, Y, P>(e, gradient, me);
        __syncthreads();
        add_products<I, V, Y, OTHERS, P, ROW>(d_q, e, k, me);
    }
    store_rows<I, V, Y>(static_cast<T *>(a.d_q) +
                            element(tile.batch, tile.first, tile.head, a.queries, a.heads, a.size),
                        static_cast<uint64_t>(a.heads) * a.size, d_q, rows, static_cast<int>(a.size), me);
}

#define REDCO_ATTENTION_SIZE(name, type, size)                                                                         \
    REDCO_KERNEL(redco_k_attention_forward_##name##_##size, redcoi_attention_args, REDCOI_ATTENTION_FORWARD_THREADS)   \
    {                                                                                                                  \
        redco::attention_forward<type, size>(args);                                                                    \
    }                                                                                                                  \
    REDCO_KERNEL(redco_k_attention_keys_##name##_##size, redcoi_attention_args, REDCOI_ATTENTION_BACKWARD_THREADS)     \
    {                                                                                                                  \
        redco::attention_keys<type, size>(args);                                                                       \
    }                                                                                                                  \
    REDCO_KERNEL(redco_k_attention_queries_##name##_##size, redcoi_attention_args, REDCOI_ATTENTION_BACKWARD_THREADS)  \
    {                                                                                                                  \
        redco::attention_queries<type, size>(args);                                                                    \
    }

/** All kernels of an element type. */
#define REDCO_ATTENTION(name, type)                                                                                    \
    REDCO_ATTENTION_SIZE(name, type, 64)                                                                               \
    REDCO_ATTENTION_SIZE(name, type, 128)                                                                              \
    REDCO_ATTENTION_SIZE(name, type, 256)                                                                              \
    REDCO_KERNEL(redco_k_attention_sums_##name, redcoi_attention_args, REDCOI_ATTENTION_BACKWARD_THREADS)              \
    {                                                                                                                  \
        redco::attention_sums<type>(args);                                                                             \
    }

} // namespace redco

#endif
