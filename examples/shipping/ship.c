/* A training step in a program without Python. `python examples/shipping/ship.py` writes what it needs, and says how to build it:

       cc -O2 ship.c fit.o -lm -lpthread -o ship && ./ship 100

   It trains on numbers that it makes itself, and writes the state as it is then, which weft.load_exported reads. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fit.h"

#define BATCH 32

static unsigned long long seed = 1;

static float uniform(void) { /* between -1 and 1: the same numbers on every machine */
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (float)((double)(seed >> 40) / 8388608.0 - 1.0);
}

static void *memory(size_t size) { /* at a multiple of 64 */
    char *all = malloc(size + 64);
    if (!all) exit(2);
    return all + (64 - (size_t)all % 64);
}

int main(int count, char **words) {
    int steps = count > 1 ? atoi(words[1]) : 100;
    char *state = memory(FIT_STATE_BYTES);
    FILE *file = fopen("fit.state", "rb");
    if (!file || fread(state, 1, FIT_STATE_BYTES, file) != FIT_STATE_BYTES) return 2;
    fclose(file);

    int64_t sizes[FIT_SIZES];
    sizes[FIT_SIZE_x_0] = BATCH;
    int64_t bytes = fit_arena_bytes(sizes);
    if (bytes < 0) return fprintf(stderr, "%s\n", fit_text(bytes)), 1;
    void *arena = memory(bytes);

    float x[BATCH][8], y[BATCH], loss = 0;
    const void *inputs[FIT_INPUTS];
    void *outputs[FIT_OUTPUTS];
    inputs[FIT_IN_x] = x, inputs[FIT_IN_y] = y, outputs[FIT_OUT_out] = &loss;
    for (int step = 0; step < steps; step++) {
        for (int i = 0; i < BATCH; i++) {
            y[i] = 0;
            for (int j = 0; j < 8; j++) x[i][j] = uniform(), y[i] += x[i][j] * x[i][j];
        }
        int64_t status = fit_step(state, inputs, outputs, sizes, arena, NULL);
        if (status) return fprintf(stderr, "%s\n", fit_text(status)), 1;
        if (step % 20 == 0) printf("step %d: loss %.6f\n", step, loss);
    }
    printf("learning rate %g, loss %.9g\n", *(double *)(state + FIT_STATE_Adam_lr), loss);
    file = fopen("fit.trained", "wb");
    return !file || fwrite(state, 1, FIT_STATE_BYTES, file) != FIT_STATE_BYTES || fclose(file);
}
