/* hello MODEL QUESTION. Build: cc hello.c $(pkg-config --cflags --libs libgyre) -o hello */
#include <gyre.h>
#include <stdio.h>
#include <string.h>

static bool show(void *arg, const gy_event *ev) {
    if (ev->bytes) fwrite(ev->text, 1, ev->bytes, stdout), fflush(stdout);
    return !arg; /* false would stop the answer */
}

int main(int argc, char **argv) {
    gy_err err = {0};
    gy_model *model = NULL;
    gy_engine *engine = NULL;
    gy_seq *seq = NULL;
    char body[8192] = "{\"messages\":[{\"role\":\"user\",\"content\":\"", *path = NULL,
         *text = NULL;
    int32_t *ids = NULL;
    gy_request req = {.max_tokens = 200};
    if (argc < 3) return fprintf(stderr, "usage: hello MODEL QUESTION\n"), 2;
    size_t n = strlen(body); /* then the question, escaped as a JSON string */
    for (const char *s = argv[2]; *s && n < sizeof body - 16; s++)
        n += (size_t)sprintf(body + n, strchr("\"\\\n\t\r", *s) ? "\\u%04x" : "%c", *s);
    strcpy(body + n, "\"}]}");
    gy_rc rc = gy_model_find(argv[1], &path, &err);
    if (!rc) rc = gy_model_open(path, NULL, &model, &err);
    if (!rc) rc = gy_engine_new(model, NULL, &engine, &err);
    if (!rc) rc = gy_seq_new(engine, &seq, &err);
    if (!rc) rc = gy_render(model, body, strlen(body), &text, NULL, &err);
    if (!rc) rc = gy_tokenize(model, text, strlen(text), 0, &ids, &req.n, &err);
    req.ids = ids;
    if (!rc) rc = gy_generate(engine, seq, &req, show, NULL, NULL, &err);
    puts(rc ? err.msg : "");
    gy_seq_free(engine, seq), gy_engine_free(engine), gy_model_unref(model);
    gy_free(ids), gy_free(text), gy_free(path);
    return rc != GY_OK;
}
