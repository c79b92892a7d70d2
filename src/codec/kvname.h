/* codec/kvname - the names by which users choose KV codecs (serving.md 18), and what fits a head.
 *
 *     SPEC   one codec for both: f32 f16 bf16 Q      | a pair: K.V  kBvB  turbo[-kAvB]
 *     Q      qB[.G][:T] or qB[gG | :gG][:T]          affine, B 2 3 4 5 6 8, groups of G 32 64 128
 *     kBvB   kB[..] vB[..], kB.vB                    affine keys and values of B bits
 *     turbo  turbo-kAvB, turbo:kA.vB, turbo (k8v3)   kv.md 3.3; turbox (k8v4): exact tables
 *     K.V    K: one codec, kB, turbo-kA              V: one codec, vB, turbo-vB, turbox-vB
 *     llama.cpp's q8_0 q4_0 q4_1 are q8.32 and q4.32
 *
 * Without G groups have 64 values; T, the type of scales and biases, is f16 unless it is given. A
 * group or type after vB alone (k8v4.32) holds for kB too. Thread: functions without state. */
#ifndef GY_CODEC_KVNAME_H
#define GY_CODEC_KVNAME_H

#include "codec/codec.h"

/* text[n] needs no NUL. GY_EARG with a message that quotes it when it is no SPEC. */
gy_rc gy_kv_codec_parse(const char *text, size_t n, gy_cparm *k, gy_cparm *v, gy_err *err);

/* A SPEC that gy_kv_codec_parse reads as (k, v), for reports and store keys; "?" when there is
 * none. Returns out. */
const char *gy_kv_codec_name(gy_cparm k, gy_cparm v, char out[48]);

/* Whether heads of kdim K and vdim V values can be stored; GY_EUNSUPPORTED with a message that says
 * what would fit. */
gy_rc gy_kv_codec_fits(gy_cparm k, gy_cparm v, int kdim, int vdim, gy_err *err);

#endif
