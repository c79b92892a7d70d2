/* codec/grid - the scalar steps that the codecs share with their fast bodies in cpu/, so that these
 * have one home: the grid of one group from the ends of its values, and storing a scale.
 *
 *     ends lo, hi of a group --grid--> scale, zero --stored as T; codes from the unrounded ones
 *
 * Thread: functions without state. Bits: part of GY_BITS. */
#ifndef GY_CODEC_GRID_H
#define GY_CODEC_GRID_H

#include "codec/codec.h"

/* kv.md 2.2.2, steps 1 to 3. lo <= hi are finite; scale and bias come out finite, scale not 0. */
void gy_affine_grid(float lo, float hi, int bits, float *scale, float *bias);

/* kv.md 3.3.1 and 3.3.6. |lo|, |hi| <= GY_TURBO_TOP and no -0. True: codes are rint(x / *step -
 * *zero), clamped. False: the group becomes its middle, all codes are 0. */
bool gy_turbo_key_grid(float lo, float hi, int bits, float *scale, float *zero, float *step);

/* Puts x at index i of unaligned p, type F32, F16 or BF16. f16 saturates at +-65504, infinities
 * too; a NaN stays one. */
void gy_store_real(uint8_t *p, size_t i, uint8_t type, float x);

#endif
