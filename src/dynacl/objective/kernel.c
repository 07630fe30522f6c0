// Log-sum-exp of b_j - c*|x_i - y_j|^2 and its gradients. See native.py for the mathematics.
//
// One loop serves both sides. "Own" points sit in the lanes of one vector or a few; the "other"
// points stream past, each broadcast to all lanes. Side ROWS: own = queries, other = keys; gives
// the row sums and the query gradient. Side KEYS: own = keys, other = queries; gives the key
// gradient from the row sums. Evaluating exp twice needs no scratch memory, no sums shared between
// threads, and makes the result independent of their number.
//
// Form EXACT takes differences before squaring, so nothing cancels at any scale. Both sides see
// bit-equal logits: at |logit| ~ 1e7 one rounding error would be a factor 2 in the weight.
// Form EXPANDED, |x|^2 - 2xy + |y|^2, needs 2d fewer operations; the caller centres the points and
// takes it only where they lie so close together that rounding does not matter.
#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SSE__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define W 16
#elif defined(__AVX2__)
#define W 8
#else
#define W 4
#endif

#define INLINE static inline __attribute__((always_inline))
typedef float vf __attribute__((vector_size(4 * W)));
typedef int32_t vi __attribute__((vector_size(4 * W)));

INLINE vf spread(float x) { return x - (vf){0}; }  // x + 0 would not fold: -0 + 0 is +0

// The same, loaded once: compilers like to repeat a broadcast load in each operation that uses it,
// and loads, not arithmetic, then set the pace (measured: 1.1 loads against 2 FMAs a cycle).
INLINE vf held(float x) {
    vf v = spread(x);
#if defined(__x86_64__)
    __asm__("" : "+v"(v));
#elif defined(__aarch64__)
    __asm__("" : "+w"(v));
#endif
    return v;
}

enum { ROWS, KEYS };
enum { EXACT, EXPANDED };
#define V 2               // vectors of own points in a block
#define LANES (V * W)
#define STEP 6            // others handled together: V * STEP sums fit the registers
#define TILE (20 * STEP)  // others between two roundings into the outer sums
#define FIRST (2 * STEP)  // the first tile is short: it only finds a reference
#define LOW -64.0f        // weights below 2^-64 of the largest are nothing in float32
#define HIGH 60.0f        // the reference may be this far below the maximum, no more
#define FLOOR -1e30f      // reference of a row that has seen nothing; term of a lane to be skipped
#define FAR 1e19f         // a point to be skipped is moved here: its weight becomes exactly 0

#if W == 16
INLINE vf vmax(vf a, vf b) { return (vf)_mm512_max_ps((__m512)a, (__m512)b); }
INLINE __mmask16 above(vf t, float x) {
    return _mm512_cmp_ps_mask((__m512)t, _mm512_set1_ps(x), _CMP_GT_OQ);
}
INLINE int any_above(vf t, float x) { return above(t, x) != 0; }
INLINE vf add_where_above(vf t, float x, vi a, vi b) {
    return (vf)_mm512_maskz_add_epi32(above(t, x), (__m512i)a, (__m512i)b);
}
#else
INLINE vf add_where_above(vf t, float x, vi a, vi b) { return (vf)((a + b) & (t > x)); }
#if W == 8
INLINE vf vmax(vf a, vf b) { return (vf)_mm256_max_ps((__m256)a, (__m256)b); }
INLINE int any_above(vf t, float x) { return _mm256_movemask_ps((__m256)(t > x)) != 0; }
#else
INLINE vf vmax(vf a, vf b) {
    vi m = a > b;
    return (vf)(((vi)a & m) | ((vi)b & ~m));
}
INLINE int any_above(vf t, float x) {
    vi m = t > x;
    return (m[0] | m[1] | m[2] | m[3]) != 0;
}
#endif
#endif

// 2^t for LOW < t < 126, 0 below; anything may come out above. Relative error 1e-7, none at 0.
INLINE vf exp2v(vf t) {
    const float magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
    vf n = t + magic, r = t - (n - magic);
    vf p = r * 0.001326472731f + 0.009671512991f;
    p = p * r + 0.05550733581f;
    p = p * r + 0.2402224243f;
    p = p * r + 0.6931470037f;
    p = p * r + 1.0f;
    return add_where_above(t, LOW, (vi)p, (vi)n << 23);
}

typedef struct {
    int64_t n_own, n_other, d;
    const float *own, *other;            // (n, d), contiguous
    const float *own_term, *other_term;  // logits without what depends on both points; see block
    float c;                             // scale times log2(e): logits here are powers of 2
    float bad;                           // NaN if any key is not finite, else 0
    int form;
    float *reference, *sum;              // ROWS: (rows,) the row sum is sum * 2^reference
    float *lse;                          // ROWS: (rows,)
    const float *weight;                 // KEYS: (rows,) upstream gradient / sum
    float *mass;                         // KEYS: (keys,) gradient of the bias
    float *gradient;                     // (own, d), or NULL for none
    const int64_t *event_start;          // (blocks + 1,) or NULL if no pair is skipped
    const int64_t *event;                // other * LANES + lane, sorted in a block
    atomic_llong next;                   // the next block that nobody has taken
} Job;

typedef struct {
    vf z[V], top[V];  // sum of weights; largest logit (EXACT) or largest t (EXPANDED)
} Sums;

// From the sum over dimensions to t = logit - reference. EXACT adds in one order on both sides.
INLINE vf exponent(const Job *job, const int side, const int form, vf sum, vf own, int64_t j,
                   vf *top) {
    if (form == EXPANDED) {
        if (side == ROWS) *top = vmax(*top, sum);
        return sum;
    }
    vf other = spread(job->other_term[j]);
    vf logit = (side == ROWS ? other : own) - job->c * sum;
    if (side == ROWS) *top = vmax(*top, logit);
    return logit + (side == ROWS ? own : other);
}

// From exponents to weights, and what they add up to, for n others (a constant).
INLINE void weigh(const Job *job, const int n, const int side, const int form, const int grad,
                  const vf *x, int64_t j, vf e[][V], vf *g, Sums *s) {
    const int64_t d = job->d;
    const float *y = job->other + j * d;
    for (int i = 0; i < n; i++)
        for (int v = 0; v < V; v++) {
            e[i][v] = exp2v(e[i][v]);
            if (side == KEYS) e[i][v] *= job->weight[j + i];
            s->z[v] += e[i][v];
        }
    if (!grad) return;
    for (int64_t a = 0; a < d; a++) {
        vf sum[V];
        for (int v = 0; v < V; v++) sum[v] = g[a * V + v];
        for (int i = 0; i < n; i++) {
            vf other = held(y[i * d + a]);
            for (int v = 0; v < V; v++)
                sum[v] += e[i][v] * (form == EXPANDED ? other : x[a * V + v] - other);
        }
        for (int v = 0; v < V; v++) g[a * V + v] = sum[v];
    }
}

// n others (a constant) against the block. Differences are formed again for the gradient.
INLINE void step(const Job *job, const int n, const int side, const int form, const int grad,
                 const vf *x, const vf *own, int64_t j, vf *g, Sums *s) {
    const int64_t d = job->d;
    const float *y = job->other + j * d;
    vf e[STEP][V];
    for (int i = 0; i < n; i++)
        for (int v = 0; v < V; v++)
            e[i][v] = form == EXPANDED ? own[v] + job->other_term[j + i] : (vf){0};
    for (int64_t a = 0; a < d; a++)
        for (int i = 0; i < n; i++) {
            vf other = held(y[i * d + a]);
            for (int v = 0; v < V; v++) {
                vf u = form == EXPANDED ? other : x[a * V + v] - other;
                e[i][v] += u * (form == EXPANDED ? x[a * V + v] : u);
            }
        }
    int near[STEP], count = 0;
    for (int i = 0; i < n; i++) {
        vf largest = (vf){0} + 2 * FLOOR;
        for (int v = 0; v < V; v++) {
            e[i][v] = exponent(job, side, form, e[i][v], own[v], j + i, &s->top[v]);
            largest = vmax(largest, e[i][v]);
        }
        if (form == EXACT) count += near[i] = any_above(largest, LOW);
    }
    if (form == EXACT && count <= n / 2) {  // at large scales only a few pairs matter
        for (int i = 0; i < n && count; i++)
            if (near[i]) weigh(job, 1, side, form, grad, x, j + i, e + i, g, s);
    } else {
        weigh(job, n, side, form, grad, x, j, e, g, s);
    }
}

// One block of own points against all others.
INLINE void block(const Job *job, const int side, const int form, const int grad,
                  int64_t b, vf *scratch) {
    const int64_t d = job->d, n = job->n_other, first = b * LANES, size = d * V;
    vf *x = scratch, *moved = x + size, *total = moved + size, *local = total + size;
    vf z[V], m[V], term[V];
    for (int v = 0; v < V; v++)
        for (int l = 0; l < W; l++) {  // lanes beyond the end repeat the last point
            int64_t i = first + v * W + l;
            if (i >= job->n_own) i = job->n_own - 1;
            for (int64_t a = 0; a < d; a++)
                x[a * V + v][l] = job->own[i * d + a] * (form == EXPANDED ? 2 * job->c : 1);
            z[v][l] = 0, m[v][l] = 0, term[v][l] = job->own_term[i];
            if (side == ROWS) m[v][l] = form == EXPANDED ? term[v][l] : FLOOR;
        }
    for (int64_t a = 0; a < size; a++) total[a] = (vf){0};
    int64_t event = job->event_start ? job->event_start[b] : 0;
    const int64_t last_event = job->event_start ? job->event_start[b + 1] : 0;

    for (int64_t j = 0, end; j < n; j = end) {
        const vf *p = x;
        vf skipped[V] = {{0}};
        end = j ? j + TILE : FIRST;
        if (end > n) end = n;
        if (event < last_event) {
            int64_t at = job->event[event] / LANES;
            if (at > j) {
                if (end > at) end = at;
            } else {
                end = j + 1, p = moved;
                memcpy(moved, x, size * sizeof(vf));
                for (; event < last_event && job->event[event] / LANES == j; event++) {
                    int l = job->event[event] % W, v = job->event[event] % LANES / W;
                    if (form == EXPANDED) skipped[v][l] = FLOOR;
                    else for (int64_t a = 0; a < d; a++) moved[a * V + v][l] = FAR;
                }
            }
        }
        for (int again = 1; again;) {
            Sums s;
            vf own[V];
            for (int v = 0; v < V; v++) {
                s.z[v] = (vf){0}, s.top[v] = (vf){0} + 2 * FLOOR;
                own[v] = term[v] - m[v] + skipped[v];
            }
            memset(local, 0, size * sizeof(vf));
            int64_t i = j;
            for (; i + STEP <= end; i += STEP)
                step(job, STEP, side, form, grad, p, own, i, local, &s);
            for (; i < end; i++) step(job, 1, side, form, grad, p, own, i, local, &s);
            again = 0;
            for (int v = 0; v < V && side == ROWS; v++) {
                vf higher = form == EXPANDED ? m[v] + s.top[v] : s.top[v];
                if (!any_above(higher - m[v], HIGH)) continue;
                again = 1;  // the reference was too low
                higher = vmax(m[v], higher);
                vf half = exp2v((m[v] - higher) / 2), shrink = half * half;  // sums reach 2^HIGH
                z[v] *= shrink, m[v] = higher;
                for (int64_t a = 0; a < d; a++) total[a * V + v] *= shrink;
            }
            if (again) continue;
            for (int v = 0; v < V; v++) z[v] += s.z[v];
            if (grad)
                for (int64_t a = 0; a < size; a++) total[a] += local[a];
        }
    }

    const double ln2 = 0.6931471805599453;
    for (int lane = 0; lane < LANES && first + lane < job->n_own; lane++) {
        const int v = lane / W, l = lane % W;
        const int64_t i = first + lane;
        const float *point = job->own + i * d;
        float share = -2 * job->c * (float)ln2;
        if (side == ROWS) {
            double sum = z[v][l];
            float bad = job->bad;  // NaN or infinity in a query makes its row NaN
            for (int64_t a = 0; a < d; a++) bad += point[a] * 0;
            job->lse[i] = (float)(ln2 * (m[v][l] + log2(sum))) + bad;
            job->reference[i] = m[v][l], job->sum[i] = (float)sum;
            share /= sum > 0 ? (float)sum : 1;
        } else {
            job->mass[i] = z[v][l];
        }
        if (grad)
            for (int64_t a = 0; a < d; a++) {
                float g = total[a * V + v][l];
                if (form == EXPANDED) g = point[a] * z[v][l] - g;
                job->gradient[i * d + a] = share * g;
            }
    }
}

typedef void Block(const Job *, int64_t, vf *);
#define BLOCK(NAME, SIDE, FORM, GRAD)                         \
    static void NAME(const Job *job, int64_t b, vf *scratch) { \
        block(job, SIDE, FORM, GRAD, b, scratch);             \
    }
BLOCK(rows_exact, ROWS, EXACT, 0)
BLOCK(rows_exact_gradient, ROWS, EXACT, 1)
BLOCK(keys_exact, KEYS, EXACT, 1)
BLOCK(rows_expanded, ROWS, EXPANDED, 0)
BLOCK(rows_expanded_gradient, ROWS, EXPANDED, 1)
BLOCK(keys_expanded, KEYS, EXPANDED, 1)
static Block *const blocks[2][3] = {
    [EXACT] = {rows_exact, rows_exact_gradient, keys_exact},
    [EXPANDED] = {rows_expanded, rows_expanded_gradient, keys_expanded},
};

static int64_t n_blocks(const Job *job) { return (job->n_own - 1) / LANES + 1; }

static void work(void *p) {
    Job *job = p;
    Block *one = blocks[job->form][job->mass ? 2 : job->gradient ? 1 : 0];
#if defined(__SSE__)
    const unsigned rounding = _mm_getcsr();
    _mm_setcsr(rounding | 0x8040);  // denormals are 0: they are nothing here, and very slow
#endif
    vf *scratch = aligned_alloc(sizeof(vf), 4 * V * job->d * sizeof(vf));
    for (int64_t b; (b = atomic_fetch_add(&job->next, 1)) < n_blocks(job);) one(job, b, scratch);
    free(scratch);
#if defined(__SSE__)
    _mm_setcsr(rounding);
#endif
}

static int ascending(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// Sort the skipped pairs (row, column) by block of own points, then by other point.
static int index_skips(Job *job, const int64_t *skip, int64_t width, int side) {
    const int64_t rows = side == ROWS ? job->n_own : job->n_other;
    const int64_t keys = side == ROWS ? job->n_other : job->n_own;
    const int64_t blocks = n_blocks(job);
    int64_t *start = calloc(blocks + 2, sizeof *start);
    int64_t *event = malloc((rows * width + 1) * sizeof *event);
    int status = start && event ? 0 : -1;
    for (int fill = 0; fill < 2 && !status; fill++) {
        for (int64_t i = 0; i < rows; i++)
            for (int64_t k = 0; k < width; k++) {
                int64_t j = skip[i * width + k];
                if (j < 0) continue;
                if (j >= keys) status = -2;
                if (status) break;
                int64_t own = side == ROWS ? i : j, other = side == ROWS ? j : i;
                if (fill) event[start[own / LANES + 1]++] = other * LANES + own % LANES;
                else start[own / LANES + 2]++;
            }
        if (!fill)
            for (int64_t b = 2; b < blocks + 2; b++) start[b] += start[b - 1];
    }
    for (int64_t b = 0; b < blocks && !status; b++)
        qsort(event + start[b], start[b + 1] - start[b], sizeof *event, ascending);
    job->event_start = start, job->event = event;
    return status;
}

// Torch's own OpenMP runtime gives the threads (its GOMP_parallel is passed in), so that there is
// one pool in the process. How many of them come does not matter: each takes blocks until none is
// left.
typedef void (*Parallel)(void (*)(void *), void *, unsigned, unsigned);

static int run(Job *job, const int64_t *skip, int64_t width, int side, Parallel parallel,
               int threads) {
    int status = skip ? index_skips(job, skip, width, side) : 0;
    if (!status) {
        // A thread is worth waking for about 0.1 ms of work.
        int64_t useful = job->n_own * job->n_other / 1000 * (job->d + 8) / 4000 + 1;
        if (threads > useful) threads = (int)useful;
        if (parallel && threads > 1) parallel(work, job, (unsigned)threads, 0);
        else work(job);
    }
    free((void *)job->event_start), free((void *)job->event);
    return status;
}

static float nan_unless_finite(const float *x, int64_t n) {
    int32_t bad = 0;
    for (int64_t i = 0; i < n; i++) {
        int32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bad |= (bits & 0x7f800000) == 0x7f800000;
    }
    return bad ? NAN : 0;
}

// form: 0 EXACT, 1 EXPANDED. Terms are logits without what depends on both points, in powers of 2:
// EXACT: key_term = bias, row_term = 0; EXPANDED: key_term = bias - c|k|^2, row_term = -c|q|^2.
int dynacl_rows(int64_t rows, int64_t d, int64_t keys, int form, float c, int64_t width,
                const int64_t *skip, const float *q, const float *k, const float *key_term,
                const float *row_term, float *lse, float *reference, float *sum, float *grad_q,
                Parallel parallel, int threads) {
    Job job = {.n_own = rows, .n_other = keys, .d = d, .own = q, .other = k,
               .own_term = row_term, .other_term = key_term, .c = c,
               .bad = nan_unless_finite(k, keys * d), .form = form,
               .reference = reference, .sum = sum, .lse = lse, .gradient = grad_q};
    return run(&job, skip, width, ROWS, parallel, threads);
}

// row_term here: that of dynacl_rows less its reference.
int dynacl_keys(int64_t rows, int64_t d, int64_t keys, int form, float c, int64_t width,
                const int64_t *skip, const float *q, const float *k, const float *key_term,
                const float *row_term, const float *weight, float *grad_k, float *grad_bias,
                Parallel parallel, int threads) {
    Job job = {.n_own = keys, .n_other = rows, .d = d, .own = k, .other = q,
               .own_term = key_term, .other_term = row_term, .c = c, .form = form,
               .weight = weight, .gradient = grad_k, .mass = grad_bias};
    return run(&job, skip, width, KEYS, parallel, threads);
}

void dynacl_mean(int64_t n, int64_t d, const float *x, float *mean) {
    double *sum = calloc(d, sizeof *sum);
    for (int64_t i = 0; sum && i < n; i++)
        for (int64_t a = 0; a < d; a++) sum[a] += x[i * d + a];
    for (int64_t a = 0; a < d; a++) mean[a] = sum ? (float)(sum[a] / (double)n) : 0;
    free(sum);
}

// What EXPANDED needs, in one pass: near = x - centre, term = bias - c|near|^2 (bias may be NULL).
// Returns the largest |near|^2, NaN if any is NaN.
float dynacl_centre(int64_t n, int64_t d, float c, const float *x, const float *centre,
                    const float *bias, float *near, float *term) {
    float largest = 0;
    for (int64_t i = 0; i < n; i++) {
        float norm = 0;
        for (int64_t a = 0; a < d; a++) {
            float u = near[i * d + a] = x[i * d + a] - centre[a];
            norm += u * u;
        }
        term[i] = (bias ? bias[i] : 0) - c * norm;
        if (norm > largest || norm != norm) largest = norm;
    }
    return largest;
}
