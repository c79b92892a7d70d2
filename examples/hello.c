/* Asks a model one question: hello MODEL "question". Build: cc hello.c -lgyre */
#include <gyre.h>
#include <stdio.h>
#include <string.h>

static bool show(void *arg, const gy_event *ev) {
    (void)arg;
    if (ev->kind != GY_EV_PREFILL) fwrite(ev->text, 1, ev->bytes, stdout), fflush(stdout);
    return true;
}

int main(int argc, char **argv) {
    gy_err err = {0};
    gy_model *model = NULL;
    gy_engine *engine = NULL;
    gy_seq *seq = NULL;
    char body[4096], *text = NULL, *path = NULL;
    int32_t *ids = NULL;
    gy_request req = {.max_tokens = 200};
    if (argc < 3) return fprintf(stderr, "usage: hello MODEL QUESTION\n"), 2;
    snprintf(body, sizeof body, "{\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}]}", argv[2]);
    gy_rc rc = gy_model_find(argv[1], &path, &err);
    if (!rc) rc = gy_model_open(path, NULL, &model, &err);
    if (!rc) rc = gy_engine_new(model, NULL, &engine, &err);
    if (!rc) rc = gy_seq_new(engine, &seq, &err);
    if (!rc) rc = gy_render(model, body, strlen(body), &text, NULL, &err);
    if (!rc) rc = gy_tokenize(model, text, strlen(text), 0, &ids, &req.n, &err);
    req.ids = ids;
    if (!rc) rc = gy_generate(engine, seq, &req, show, NULL, NULL, &err);
    if (rc) fprintf(stderr, "%s\n", err.msg);
    return rc != GY_OK;
}
