#include "base/env.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fmap.h"
#include "base/mem.h"

/* An empty variable counts as unset, as the XDG rules and huggingface_hub have it. */
static const char *get(const char *name) {
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

static char *join(const char *a, const char *b) {
    size_t n = strlen(a), m = strlen(b);
    char *s = gy_alloc(n + m + 1);
    if (!s) return NULL;
    memcpy(s, a, n), memcpy(s + n, b, m);
    return s;
}

/* The XDG rules: a relative path in the variable is ignored. */
static char *under(const char *xdg, const char *home_sub, const char *sub) {
    const char *base = xdg ? get(xdg) : NULL, *home = get("HOME");
    if (base && *base == '/') return join(base, sub);
    if (!home) return gy_strdup("");
    char *dir = join(home, home_sub), *path = dir ? join(dir, sub) : NULL;
    gy_free(dir);
    return path;
}

static char *hf_path(const char *sub) {
    const char *home = get("HF_HOME");
    if (home) return join(home, sub);
    char *dir = under("XDG_CACHE_HOME", "/.cache", "/huggingface");
    char *path = !dir || !*dir ? dir : join(dir, sub);
    if (path != dir) gy_free(dir);
    return path;
}

static char *hf_token(void) {
    const char *token = get("HF_TOKEN");
    if (token) return gy_strdup(token);
    char *path = hf_path("/token"), *text = NULL;
    if (!path) return NULL;
    if (!*path || gy_file_read(path, 4096, &text, NULL, NULL)) text = gy_strdup("");
    gy_free(path);
    if (!text) return NULL;
    size_t skip = strspn(text, " \t\r\n"), n = strcspn(text + skip, " \t\r\n");
    memmove(text, text + skip, n);
    text[n] = 0;
    return text;
}

static const char *hf_offline(void) {
    static const char *const yes[] = {"1", "true", "yes", "on"};
    const char *v = get("HF_HUB_OFFLINE");
    for (int i = 0; v && i < 4; i++) {
        if (!strcasecmp(v, yes[i])) return "1";
    }
    return "";
}

char *gy_env(gy_env_name name) {
    const char *v = NULL;
    switch (name) {
    case GY_ENV_HOME:
        if ((v = get("GYRE_HOME"))) break;
        return under("XDG_DATA_HOME", "/.local/share", "/gyre");
    case GY_ENV_CACHE:
        if ((v = get("GYRE_CACHE"))) break;
        return under("XDG_CACHE_HOME", "/.cache", "/gyre");
    case GY_ENV_HF_CACHE:
        if ((v = get("HF_HUB_CACHE"))) break;
        return hf_path("/hub");
    case GY_ENV_HF_TOKEN: return hf_token();
    case GY_ENV_HF_ENDPOINT:
        v = get("HF_ENDPOINT");
        if (!v) v = "https://huggingface.co";
        break;
    case GY_ENV_HF_OFFLINE: v = hf_offline(); break;
    case GY_ENV_ISA: v = get("GYRE_ISA"); break;
    case GY_ENV_THREADS:
        v = get("GYRE_THREADS");
        if (!v) v = get("OMP_NUM_THREADS");
        break;
    case GY_ENV_NOW: v = get("GYRE_NOW"); break;
    }
    return gy_strdup(v ? v : "");
}
