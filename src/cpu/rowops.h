/* cpu/rowops - operators on single rows, the KV writer and attention; and the mathematics they use.
 * Every function of every instruction set gives the same bits; see cpu.h for lanes. */
#ifndef GY_CPU_ROWOPS_H
#define GY_CPU_ROWOPS_H

#include "op/op.h"

typedef struct {
    int placeholder;
} gy_isa_rows;

#endif
