/* Calls an exported step `STEPS` times: case.h says how many bytes inputs and outputs have, and gives the sizes.
   Reads step.state and step.inputs (one batch after another), writes step.after and step.outputs (those of all calls). */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "step.h"

#include "case.h"

static void *memory(size_t size) {
    char *all = malloc(size + 64);
    return all ? all + (64 - (size_t)all % 64) : NULL;
}

static char *content(const char *name, size_t *size) {
    FILE *file = fopen(name, "rb");
    if (!file) return NULL;
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    char *bytes = memory(*size);
    if (fread(bytes, 1, *size, file) != *size) return NULL;
    fclose(file);
    return bytes;
}

int main(void) {
    size_t state_bytes, input_bytes, one_batch = 0;
    char *state = content("step.state", &state_bytes), *all = content("step.inputs", &input_bytes);
    if (!state || !all || state_bytes != STEP_STATE_BYTES) return 2;
    const void *inputs[STEP_INPUTS + 1];
    void *outputs[STEP_OUTPUTS + 1], *pool = NULL;
    for (int i = 0; i < STEP_INPUTS; i++) one_batch += in_bytes[i];
    for (int i = 0; i < STEP_OUTPUTS; i++) outputs[i] = memory(out_bytes[i]);
    int64_t needed = step_arena_bytes(sizes);
    if (needed < 0) return fprintf(stderr, "%s\n", step_text(needed)), 1;
    void *arena = memory((size_t)needed);
    if (THREADS > 1) step_pool_start(pool = memory(STEP_POOL_BYTES), THREADS);
    FILE *file = fopen("step.outputs", "wb");
    for (int step = 0; step < STEPS; step++) {
        char *batch = all + one_batch * (size_t)(step % BATCHES);
        for (int i = 0; i < STEP_INPUTS; batch += in_bytes[i++]) inputs[i] = batch;
        memset(arena, 0xA5, (size_t)needed); /* nothing is kept there */
        int64_t status = step_step(state, inputs, outputs, sizes, arena, pool);
        if (status) return fprintf(stderr, "%s\n", step_text(status)), 1;
        for (int i = 0; i < STEP_OUTPUTS; i++) fwrite(outputs[i], 1, out_bytes[i], file);
    }
    fclose(file);
    if (THREADS > 1) step_pool_stop(pool);
    file = fopen("step.after", "wb");
    fwrite(state, 1, state_bytes, file);
    return fclose(file);
}
