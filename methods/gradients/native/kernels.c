/* Clipped sums of convolutions and of chains of linear layers (see native_engine.py).

   An example's gradient is formed in the cache, its norm taken, and the clipped gradient added to the sum: it is
   never written to memory. Everything is one product: entries of x, each times rows of vectors, summed over
   places. Vectors run over the outputs of a convolution, and over the inputs of a linear layer.

   REAL is float or double. Rows are padded to whole vectors by zeros. */

#include <math.h>
#include <string.h>

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#define TALL 12 /* entries of a tile of two vectors: 24 of 32 registers */
#define NARROW_TALL 16 /* of one */
#else
#define VECTOR_BYTES 32
#define TALL 4
#define NARROW_TALL 8
#endif
#define LANES ((long)(VECTOR_BYTES / sizeof(REAL)))
typedef REAL vec __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(REAL)), may_alias));

/* Numbers in a vector. */
long lanes(void) { return LANES; }

static long padded(long size) { return (size + LANES - 1) / LANES * LANES; }

/* Where the entries of x are: `high` lines of `wide` places. */
typedef struct {
    long high, wide;
    long line, place, entry; /* distances in x */
} Places;

/* sums[e] += sum over places of x[place + e] rows[place], for ENTRIES entries and VECTORS vectors. */
#define TILE(NAME, ENTRIES, VECTORS)                                                                     \
    static void NAME(const Places *at, const REAL *x, const REAL *rows, long to_row, REAL *sums, long to_sum) { \
        vec held[ENTRIES][VECTORS];                                                                      \
        for (int e = 0; e < ENTRIES; e++)                                                                \
            for (int v = 0; v < VECTORS; v++) held[e][v] = *(const vec *)(sums + e * to_sum + v * LANES); \
        for (long line = 0; line < at->high; line++) {                                                   \
            const REAL *one = x + line * at->line;                                                       \
            for (long place = 0; place < at->wide; place++, one += at->place, rows += to_row) {          \
                vec row[VECTORS];                                                                        \
                for (int v = 0; v < VECTORS; v++) row[v] = *(const vec *)(rows + v * LANES);             \
                for (int e = 0; e < ENTRIES; e++)                                                        \
                    for (int v = 0; v < VECTORS; v++) held[e][v] += one[e * at->entry] * row[v];         \
            }                                                                                            \
        }                                                                                                \
        for (int e = 0; e < ENTRIES; e++)                                                                \
            for (int v = 0; v < VECTORS; v++) *(vec *)(sums + e * to_sum + v * LANES) = held[e][v];       \
    }

TILE(tall_and_wide, TALL, 2)
TILE(four_and_wide, 4, 2)
TILE(one_and_wide, 1, 2)
TILE(tall, NARROW_TALL, 1)
TILE(eight, 8, 1)
TILE(four, 4, 1)
TILE(one, 1, 1)

typedef void (*Tile)(const Places *, const REAL *, const REAL *, long, REAL *, long);
static const struct { long entries; Tile wide, narrow; } TILES[] = {
    {NARROW_TALL, 0, tall}, {TALL, tall_and_wide, 0}, {8, 0, eight}, {4, four_and_wide, four}, {1, one_and_wide, one}};
#define KINDS ((int)(sizeof(TILES) / sizeof(*TILES)))

/* sums (entries, width) += sum over places of x (entries) times rows (width); width is of whole vectors. */
static void product(const Places *at, const REAL *x, long entries, const REAL *rows, long to_row, long width,
                    REAL *sums, long to_sum) {
    for (long w = 0; w < width;) {
        int wide = width - w >= 2 * LANES;
        long e = 0;
        for (int kind = 0; kind < KINDS; kind++) {
            Tile tile = wide ? TILES[kind].wide : TILES[kind].narrow;
            for (; tile && e + TILES[kind].entries <= entries; e += TILES[kind].entries)
                tile(at, x + e * at->entry, rows + w, to_row, sums + e * to_sum + w, to_sum);
        }
        w += wide ? 2 * LANES : LANES;
    }
}

static double square(const REAL *values, long size) {
    vec sums[4] = {{0}};
    double total = 0;
    long i = 0;
    for (; i + 4 * LANES <= size; i += 4 * LANES)
        for (int v = 0; v < 4; v++) {
            vec each = *(const vec *)(values + i + v * LANES);
            sums[v] += each * each;
        }
    for (; i < size; i++) total += (double)values[i] * values[i];
    for (int v = 0; v < 4; v++)
        for (long lane = 0; lane < LANES; lane++) total += sums[v][lane];
    return total;
}

static void add(REAL *onto, REAL factor, const REAL *values, long size) {
    for (long i = 0; i < size; i++) onto[i] += factor * values[i];
}

static void pad(REAL *onto, const REAL *from, long rows, long width) {
    for (long row = 0; row < rows; row++, onto += padded(width), from += width) {
        memcpy(onto, from, width * sizeof(REAL));
        memset(onto + width, 0, (padded(width) - width) * sizeof(REAL));
    }
}

/* share min(1, clip / (norm + guard)); 0 for a norm that is not finite. */
static double factor_of(double norm, double clip, double share, double guard) {
    if (!isfinite(norm)) return 0;
    double factor = clip / (norm + guard);
    return share * (factor < 1 ? factor : 1);
}

typedef struct {
    const REAL *a, *b;         /* input and gradient of the output, channels last */
    long height, line;         /* of an input: lines, and numbers in one */
    long top, left;            /* zeros around it: lines above, numbers before a line */
    long framed, framed_line;  /* lines, and numbers in one, with the zeros */
    Places places;             /* in the framed input, as are all distances */
    long rows, runs, run;      /* of the kernel: rows, pieces of a row, contiguous entries of a piece */
    long to_row, to_run;
    long outputs, bias;        /* bias: whether it is trained */
    const REAL *removed;       /* (entries + 1, padded outputs): directions, then scales; null if not standardised */
    REAL *sum;                 /* (entries + bias, padded outputs), or null if only norms are wanted */
} Convolution;

static long entries_of(const Convolution *of) { return of->rows * of->runs * of->run; }

static long size_of(const Convolution *of) { return (entries_of(of) + of->bias) * padded(of->outputs); }

static long places_of(const Convolution *of) { return of->places.high * of->places.wide; }

/* What an example needs beside its gradient: the framed input, and b in whole vectors. */
static long aside_of(const Convolution *of) {
    return of->framed * of->framed_line + places_of(of) * padded(of->outputs);
}

/* The gradient of an example's convolution. `aside` is zero where the frame is. */
static void form(const Convolution *of, long example, REAL *aside, REAL *gradient) {
    long width = padded(of->outputs), count = places_of(of);
    const REAL *a = of->a + example * of->height * of->line, *b = of->b + example * count * of->outputs;
    if (of->framed != of->height || of->framed_line != of->line) {
        REAL *inner = aside + of->top * of->framed_line + of->left;
        for (long line = 0; line < of->height; line++)
            memcpy(inner + line * of->framed_line, a + line * of->line, of->line * sizeof(REAL));
        a = aside;
        aside += of->framed * of->framed_line;
    }
    if (width != of->outputs) {
        pad(aside, b, count, of->outputs);
        b = aside;
    }
    memset(gradient, 0, size_of(of) * sizeof(REAL));
    for (long row = 0; row < of->rows; row++)
        for (long run = 0; run < of->runs; run++, gradient += of->run * width)
            product(&of->places, a + row * of->to_row + run * of->to_run, of->run, b, width, width, gradient, width);
    for (long place = 0; of->bias && place < count; place++) add(gradient, 1, b + place * width, width);
}

/* The square of what standardisation leaves of VECTORS vectors of outputs: scale (g - mean(g) - r <r, g>). It is
   summed entry by entry: a difference of squares would be rounding where little is left. */
#define LEFT(NAME, VECTORS)                                                                              \
    static double NAME(const Convolution *of, const REAL *gradient, const REAL *removed) {               \
        const long width = padded(of->outputs), entries = entries_of(of);                                \
        vec mean[VECTORS] = {{0}}, along[VECTORS] = {{0}}, squares[VECTORS] = {{0}};                     \
        double total = 0;                                                                                \
        for (long e = 0; e < entries; e++)                                                               \
            for (int v = 0; v < VECTORS; v++) {                                                          \
                vec g = *(const vec *)(gradient + e * width + v * LANES);                                \
                mean[v] += g;                                                                            \
                along[v] += g * *(const vec *)(removed + e * width + v * LANES);                         \
            }                                                                                            \
        for (int v = 0; v < VECTORS; v++) mean[v] /= (REAL)entries;                                      \
        for (long e = 0; e < entries; e++)                                                               \
            for (int v = 0; v < VECTORS; v++) {                                                          \
                vec r = *(const vec *)(removed + e * width + v * LANES);                                 \
                vec left = *(const vec *)(gradient + e * width + v * LANES) - mean[v] - along[v] * r;    \
                squares[v] += left * left;                                                               \
            }                                                                                            \
        for (int v = 0; v < VECTORS; v++)                                                                \
            for (long lane = 0; lane < LANES; lane++) {                                                  \
                double scale = removed[entries * width + v * LANES + lane];                              \
                total += scale * scale * squares[v][lane];                                               \
            }                                                                                            \
        return total;                                                                                    \
    }

LEFT(left_of_four, 4)
LEFT(left_of_one, 1)

/* The square of an example's gradient of the stored kernel and the bias. */
static double square_of(const Convolution *of, const REAL *gradient) {
    if (!of->removed) return square(gradient, size_of(of));
    const long width = padded(of->outputs);
    double total = square(gradient + entries_of(of) * width, of->bias * width);
    for (long w = 0; w < width;) {
        int many = width - w >= 4 * LANES;
        total += (many ? left_of_four : left_of_one)(of, gradient + w, of->removed + w);
        w += many ? 4 * LANES : LANES;
    }
    return total;
}

/* Norms and clipped sums of convolutions; sums of standardised ones are of the kernels that they use.

   others   norms of the rest of every example's gradient
   factors  of every example: given, or if `clips` those of clipping
   scratch  for the gradients of an example, and for every layer its framed input and padded b */
void convolutions(const Convolution *layers, long count, long examples, const REAL *others, long clips, double clip,
                  double share, double guard, REAL *scratch, REAL *norms, REAL *factors) {
    long size = 0;
    for (long i = 0; i < count; i++) size += size_of(layers + i);
    REAL *asides = scratch + size;
    for (long i = 0, used = 0; i < count; used += aside_of(layers + i++))
        memset(asides + used, 0, aside_of(layers + i) * sizeof(REAL));
    for (long example = 0; example < examples; example++) {
        REAL *gradient = scratch, *aside = asides;
        double squares = (double)others[example] * others[example];
        for (const Convolution *of = layers; of < layers + count; of++) {
            form(of, example, aside, gradient);
            squares += square_of(of, gradient);
            gradient += size_of(of);
            aside += aside_of(of);
        }
        double norm = sqrt(squares);
        norms[example] = norm;
        if (clips) factors[example] = factor_of(norm, clip, share, guard);
        if (factors[example] == 0) continue; /* also where a gradient is not finite, which 0 times it would be */
        gradient = scratch;
        for (const Convolution *of = layers; of < layers + count; gradient += size_of(of), of++)
            if (of->sum) add(of->sum, factors[example], gradient, size_of(of));
    }
}

typedef struct {
    const REAL *a;          /* (examples, inputs): what the link reads */
    const REAL *weight;     /* (outputs, inputs) */
    long inputs, outputs;
    long activation;        /* what made `a`: 0 nothing, 1 ReLU, 2 tanh, 3 sigmoid */
    REAL *onto_weight, *onto_bias; /* null if not trained */
} Link;

static void pull_back(REAL *gradient, const REAL *output, long size, long activation) {
    if (activation == 1)
        for (long i = 0; i < size; i++) gradient[i] = output[i] > 0 ? gradient[i] : 0;
    else if (activation == 2)
        for (long i = 0; i < size; i++) gradient[i] *= 1 - output[i] * output[i];
    else if (activation == 3)
        for (long i = 0; i < size; i++) gradient[i] *= output[i] * (1 - output[i]);
}

/* Clipped sums of a chain of linear layers, added to `onto_weight` and `onto_bias`; the number of norms that are
   not finite: if there are any, nothing is added.

   gradient  (examples, outputs): of the chain's output; it is overwritten
   scratch   for the gradient of every link's input, and for padded inputs, weights and sums
   squares, of_outputs   for a number of every example, and a pointer of every link */
long chain(const Link *links, long count, long examples, REAL *gradient, double clip, double share, double guard,
           REAL *scratch, REAL *norms, double *squares, REAL **of_outputs) {
    const long last = count - 1;
    long to_row = links[last].outputs, bad = 0;
    memset(squares, 0, examples * sizeof(double));
    for (long i = last; i >= 0; i--) {
        const Link *of = links + i;
        of_outputs[i] = gradient;
        for (long n = 0; n < examples; n++) {
            double of_input = of->onto_weight ? square(of->a + n * of->inputs, of->inputs) : 0;
            squares[n] += (of_input + (of->onto_bias ? 1 : 0)) * square(gradient + n * to_row, of->outputs);
        }
        if (i == 0) break;
        long width = padded(of->inputs);
        const REAL *weight = of->weight;
        if (width != of->inputs) {
            pad(scratch, weight, of->outputs, of->inputs);
            weight = scratch;
            scratch += of->outputs * width;
        }
        REAL *pulled = scratch;
        scratch += examples * width;
        memset(pulled, 0, examples * width * sizeof(REAL));
        Places over = {1, of->outputs, 0, 1, to_row};
        product(&over, gradient, examples, weight, width, width, pulled, width);
        for (long n = 0; n < examples; n++)
            pull_back(pulled + n * width, of->a + n * of->inputs, of->inputs, of->activation);
        gradient = pulled;
        to_row = width;
    }
    for (long n = 0; n < examples; n++) {
        norms[n] = sqrt(squares[n]);
        bad += !isfinite(norms[n]);
    }
    if (bad) return bad;
    for (long i = 0; i < count; i++) {
        const Link *of = links + i;
        long width = padded(of->inputs);
        to_row = i == last ? of->outputs : padded(of->outputs);
        for (long n = 0; n < examples; n++) {
            REAL *row = of_outputs[i] + n * to_row, factor = factor_of(norms[n], clip, share, guard);
            for (long o = 0; o < of->outputs; o++) row[o] *= factor;
            if (of->onto_bias) add(of->onto_bias, 1, row, of->outputs);
        }
        if (!of->onto_weight) continue;
        Places over = {1, examples, 0, to_row, 1};
        if (width == of->inputs) {
            product(&over, of_outputs[i], of->outputs, of->a, width, width, of->onto_weight, width);
            continue;
        }
        REAL *a = scratch, *sums = scratch + examples * width;
        pad(a, of->a, examples, of->inputs);
        memset(sums, 0, of->outputs * width * sizeof(REAL));
        product(&over, of_outputs[i], of->outputs, a, width, width, sums, width);
        for (long o = 0; o < of->outputs; o++) add(of->onto_weight + o * of->inputs, 1, sums + o * width, of->inputs);
        scratch = sums + of->outputs * width;
    }
    return 0;
}
