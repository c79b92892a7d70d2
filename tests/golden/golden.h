/* golden - a fixture: a tiny checkpoint and what its reference made of it
 * (shared/fixtures/README.md). */
#ifndef GY_TEST_GOLDEN_H
#define GY_TEST_GOLDEN_H

#include "base/json.h"

typedef struct {
    gy_json_doc doc; /* golden.json */
    int32_t *ids;    /* [prompt + greedy] */
    int prompt, greedy;
    double *margin; /* [greedy] top1 - top2 before each */
    int *row; /* [rows] position whose logits follow; the last id's would be prompt + greedy - 1 */
    int rows, vocab;
    float *logits;    /* [rows, vocab] of the reference, in float32 */
    double noise;     /* f32_noise */
    double tolerance; /* max(20 noise, 5e-4): the README's, for a float32 engine */
} golden;

/* Fails the running test when the fixture is not as described. */
void golden_open(golden *g, const char *dir);
/* The same of the run whose K and V were coded with affine codes of 8 or 4 bits, groups of 32 and
 * f32 scales; tolerance is the README's for such runs, max(3 noise, 0.05). False: there is none. */
bool golden_open_kv(golden *g, const char *dir, int bits);
void golden_close(golden *g);

/* Every dense fixture; NULL ends. The first GOLDEN_OWN are kept in tests/data/models too. */
extern const char *const golden_dense[];
/* Path of a fixture: tests/data/models, else shared/fixtures/models; NULL when neither has it. */
const char *golden_path(const char *name);

#endif
