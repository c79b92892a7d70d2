/* base/env - the environment, read in one place.
 *
 * gy_env is the only caller of getenv in the library; the table of names is in docs/formats.md. */
#ifndef GY_BASE_ENV_H
#define GY_BASE_ENV_H

#include "base/err.h"

typedef enum {
    GY_ENV_HOME,        /* GYRE_HOME, else XDG_DATA_HOME/gyre, else HOME/.local/share/gyre */
    GY_ENV_CACHE,       /* GYRE_CACHE, else XDG_CACHE_HOME/gyre, else HOME/.cache/gyre */
    GY_ENV_HF_CACHE,    /* HF_HUB_CACHE, else HF_HOME/hub, else XDG_CACHE_HOME or HOME/.cache +
                           /huggingface/hub */
    GY_ENV_HF_TOKEN,    /* HF_TOKEN, else the text of HF_HOME/token */
    GY_ENV_HF_ENDPOINT, /* HF_ENDPOINT, else https://huggingface.co */
    GY_ENV_HF_OFFLINE,  /* HF_HUB_OFFLINE: "1" or "" */
    GY_ENV_ISA,         /* GYRE_ISA or "" */
    GY_ENV_THREADS,     /* GYRE_THREADS, else OMP_NUM_THREADS, else "" */
    GY_ENV_NOW          /* GYRE_NOW: seconds since 1970 that strftime_now uses, or "" */
} gy_env_name;

/* The value, resolved as above, as gy_alloc'd text ("" when nothing is set); NULL when memory is
 * out. */
char *gy_env(gy_env_name name);

#endif
