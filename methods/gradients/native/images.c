/* Passes over images with channels last that the engine makes beside its products (see native_engine.py).

   REAL is float or double. Loops over channels are left to the compiler to vectorise. */

#include <math.h>
#include <string.h>

/* Places over which REALs are summed; their sums are added up as doubles, since of many places they lose digits. */
#define RUN 32

static void flush(double *restrict onto, REAL *restrict sums, long size) {
    for (long i = 0; i < size; i++) onto[i] += sums[i];
    memset(sums, 0, size * sizeof(REAL));
}

static void sum(const REAL *restrict a, long channels, REAL *restrict sums) {
    for (long c = 0; c < channels; c++) sums[c] += a[c];
}

/* Of deviations from a mean: their sum, that of squares, that of products with b; and that of b. */
static void sum_deviations(const REAL *restrict a, const REAL *restrict b, const REAL *restrict mean, long channels,
                           REAL *restrict sums) {
    for (long c = 0; c < channels; c++) {
        REAL deviation = a[c] - mean[c];
        sums[c] += deviation;
        sums[c + channels] += deviation * deviation;
        sums[c + 2 * channels] += b[c] * deviation;
        sums[c + 3 * channels] += b[c];
    }
}

/* Every example's gradients of the scale and the shift of a group normalisation: the sums over places of b times
   the normalised a, and of b.

   a, b     (examples, places, channels): input, and gradient of the output
   totals, sums  for four numbers of every channel
   scale, shift  (examples, channels)

   Deviations are from a mean that is rounded to REAL, and corrected for the mean that they still have. */
void group_norm(const REAL *a, const REAL *b, long examples, long places, long channels, long groups, double eps,
                double *totals, REAL *sums, REAL *scale, REAL *shift) {
    const long wide = channels / groups;
    const double count = (double)places * wide;
    memset(sums, 0, 4 * channels * sizeof(REAL));
    for (long example = 0; example < examples; example++, scale += channels, shift += channels) {
        memset(totals, 0, 4 * channels * sizeof(double));
        for (long place = 0; place < places; place++) {
            sum(a + place * channels, channels, sums);
            if ((place + 1) % RUN == 0 || place + 1 == places) flush(totals, sums, channels);
        }
        for (long first = 0; first < channels; first += wide) {
            double total = 0;
            for (long c = first; c < first + wide; c++) total += totals[c];
            for (long c = first; c < first + wide; c++) scale[c] = (REAL)(total / count);
        }
        memset(totals, 0, channels * sizeof(double));
        for (long place = 0; place < places; place++, a += channels, b += channels) {
            sum_deviations(a, b, scale, channels, sums);
            if ((place + 1) % RUN == 0 || place + 1 == places) flush(totals, sums, 4 * channels);
        }
        for (long first = 0; first < channels; first += wide) {
            double mean = 0, square = 0;
            for (long c = first; c < first + wide; c++) {
                mean += totals[c] / count;
                square += totals[c + channels] / count;
            }
            double inverse = 1 / sqrt(square - mean * mean + eps);
            for (long c = first; c < first + wide; c++) {
                double of_b = totals[c + 3 * channels];
                scale[c] = (REAL)(inverse * (totals[c + 2 * channels] - mean * of_b));
                shift[c] = (REAL)of_b;
            }
        }
    }
}

typedef struct {
    long width, channels;      /* of the input */
    long high, wide;           /* of the output */
    long rows, columns;        /* of a window */
    long down, right;          /* strides */
} Pool;

static void take_larger(const REAL *restrict x, REAL *restrict y, long size) {
    for (long i = 0; i < size; i++) y[i] = x[i] > y[i] || x[i] != x[i] ? x[i] : y[i];
}

/* To the first entry that is the largest, or NaN. */
static void hand_on(const REAL *restrict x, const REAL *restrict y, REAL *restrict left, REAL *restrict onto,
                    long size) {
    for (long i = 0; i < size; i++) {
        REAL own = x[i] < y[i] ? 0 : left[i];
        onto[i] += own;
        left[i] -= own;
    }
}

/* A line of outputs `y` from the lines at `x`; or, if `onto` is not null, the gradient `left` of it to them. */
static void pool_line(const Pool *of, const REAL *x, REAL *y, REAL *left, REAL *onto) {
    /* Next to each other are all places of a line, if the stride is 1, or the channels of one. */
    const long size = of->wide * of->channels, run = of->right == 1 ? size : of->channels;
    for (long row = 0; row < of->rows; row++)
        for (long column = 0; column < of->columns; column++)
            for (long to = 0; to < size; to += run) {
                long from = (row * of->width + column) * of->channels + to * of->right;
                if (onto) hand_on(x + from, y + to, left + to, onto + from, run);
                else if (row + column == 0) memcpy(y + to, x + from, run * sizeof(REAL));
                else take_larger(x + from, y + to, run);
            }
}

/* The largest values in windows of images x, channels last; NaN where there is one.

   height    of the input, whose images follow each other */
void max_pool(const Pool *of, const REAL *x, long examples, long height, REAL *y) {
    for (long example = 0; example < examples; example++, x += height * of->width * of->channels)
        for (long line = 0; line < of->high; line++, y += of->wide * of->channels)
            pool_line(of, x + line * of->down * of->width * of->channels, y, 0, 0);
}

/* From the gradient of `max_pool`'s output to that of its input, `onto`.

   scratch   for two lines of outputs */
void max_pool_backward(const Pool *of, const REAL *x, long examples, long height, const REAL *gradient, REAL *scratch,
                       REAL *onto) {
    const long size = of->wide * of->channels, image = height * of->width * of->channels;
    for (long example = 0; example < examples; example++, x += image, onto += image) {
        memset(onto, 0, image * sizeof(REAL));
        for (long line = 0; line < of->high; line++, gradient += size) {
            long top = line * of->down * of->width * of->channels;
            pool_line(of, x + top, scratch, 0, 0);
            memcpy(scratch + size, gradient, size * sizeof(REAL));
            pool_line(of, x + top, scratch, scratch + size, onto + top);
        }
    }
}
