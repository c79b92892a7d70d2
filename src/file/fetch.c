#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <curl/curl.h>
#include <openssl/evp.h>

#include "base/mem.h"
#include "file/hub.h"

enum { TRIES = 4, TEXT_MAX = 64 << 20 };

typedef struct {
    const gy_fetch *f;
    CURL *curl;
    FILE *out;
    int64_t have; /* bytes that were there before this try */
    bool cancelled, failed;
} transfer;

static size_t on_data(char *p, size_t one, size_t n, void *arg) {
    transfer *t = arg;
    long code = 0;
    n *= one;
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &code);
    if (code >= 400) return n; /* an error page is not the file */
    if (t->out) return fwrite(p, 1, n, t->out) == n ? n : (t->failed = true, 0);
    gy_buf_add(t->f->text, p, n);
    return t->f->text->oom || t->f->text->over ? 0 : n;
}

static int on_progress(void *arg, curl_off_t total, curl_off_t now, curl_off_t up_total,
                       curl_off_t up) {
    transfer *t = arg;
    (void)up_total, (void)up;
    if (!t->f->progress) return 0;
    uint64_t all = total > 0        ? (uint64_t)(total + t->have)
                   : t->f->size > 0 ? (uint64_t)t->f->size
                                    : 0;
    if (!t->f->progress(t->f->arg, t->f->label, (uint64_t)(t->have + now), all))
        t->cancelled = true;
    return t->cancelled;
}

static void set_up(transfer *t, char *problem) {
    CURL *c = t->curl;
    curl_easy_setopt(c, CURLOPT_URL, t->f->url);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(c, CURLOPT_MAXREDIRS, 10L);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, 30L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, 60L);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "gyre/" GY_VERSION);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, problem);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(c, CURLOPT_XFERINFODATA, t);
    curl_easy_setopt(c, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)t->have);
    if (t->f->token && *t->f->token) {
        curl_easy_setopt(c, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
        curl_easy_setopt(c, CURLOPT_XOAUTH2_BEARER, t->f->token);
    }
}

/* One try. *again: the transfer broke in a way that another try may mend. */
static gy_rc one_try(const gy_fetch *f, const char *part, bool *again, gy_err *err) {
    char problem[CURL_ERROR_SIZE] = "";
    long code = 0;
    gy_rc rc = GY_OK;
    transfer t = {.f = f, .curl = curl_easy_init(), .out = part ? fopen(part, "ab") : NULL};
    *again = false;
    if (!t.curl)
        rc = gy_fail(err, GY_ENOMEM, "%s: out of memory", f->url);
    else if (part && !t.out)
        rc = gy_fail(err, GY_EIO, "%s: %s", part, strerror(errno));
    if (!rc && t.out) fseeko(t.out, 0, SEEK_END), t.have = ftello(t.out);
    if (!rc) {
        set_up(&t, problem);
        CURLcode got = curl_easy_perform(t.curl);
        curl_easy_getinfo(t.curl, CURLINFO_RESPONSE_CODE, &code);
        if (t.cancelled)
            rc = gy_fail(err, GY_ECANCEL, "%s: cancelled", f->label);
        else if (t.failed)
            rc = gy_fail(err, GY_EIO, "%s: %s", part, strerror(errno));
        else if (code == 404)
            rc = gy_fail(err, GY_ENOTFOUND, "%s: not found (HTTP 404)", f->url);
        else if (code == 401 || code == 403)
            rc = gy_fail(
                err, GY_ENOTFOUND,
                "%s: access denied (HTTP %ld); a gated or private repository needs HF_TOKEN",
                f->url, code);
        else if (part && (code == 416 || got == CURLE_RANGE_ERROR))
            /* The server does not resume here: the next try starts from the first byte. */
            rc = gy_fail(err, GY_EIO, "%s: range refused", f->url), remove(part), *again = true;
        else if (code >= 400)
            rc = gy_fail(err, GY_EIO, "%s: HTTP %ld", f->url, code),
            *again = code >= 500 || code == 429;
        else if (got != CURLE_OK)
            rc = gy_fail(err, GY_EIO, "%s: %s", f->url,
                         *problem ? problem : curl_easy_strerror(got)),
            *again = true;
    }
    if (t.out && fclose(t.out) && !rc) rc = gy_fail(err, GY_EIO, "%s: %s", part, strerror(errno));
    if (t.curl) curl_easy_cleanup(t.curl);
    return rc;
}

gy_rc gy_fetch_digest(const char *file, bool git, char hex[65], gy_err *err) {
    static const char digits[] = "0123456789abcdef";
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    size_t got;
    struct stat st;
    FILE *f = fopen(file, "rb");
    char *block = gy_alloc(1 << 20);
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    gy_rc rc = GY_OK;
    if (!f || fstat(fileno(f), &st))
        rc = gy_fail(err, GY_EIO, "%s: %s", file, strerror(errno));
    else if (!block || !c || !EVP_DigestInit_ex(c, git ? EVP_sha1() : EVP_sha256(), NULL))
        rc = gy_fail(err, GY_ENOMEM, "%s: out of memory", file);
    if (!rc && git) {
        char head[48];
        int h = snprintf(head, sizeof head, "blob %lld", (long long)st.st_size);
        EVP_DigestUpdate(c, head, (size_t)h + 1);
    }
    while (!rc && (got = fread(block, 1, 1 << 20, f)) > 0) EVP_DigestUpdate(c, block, got);
    if (!rc && ferror(f)) rc = gy_fail(err, GY_EIO, "%s: read failed", file);
    if (!rc) EVP_DigestFinal_ex(c, sum, &n);
    for (unsigned i = 0; i < n && i < 32; i++)
        hex[2 * i] = digits[sum[i] >> 4], hex[2 * i + 1] = digits[sum[i] & 15];
    hex[2 * (n < 32 ? n : 32)] = 0;
    if (f) fclose(f);
    gy_free(block);
    EVP_MD_CTX_free(c);
    return rc;
}

static gy_rc check(const gy_fetch *f, const char *part, gy_err *err) {
    struct stat st;
    char hex[65];
    const char *want = f->sha256 ? f->sha256 : f->git_sha1;
    if (stat(part, &st)) return gy_fail(err, GY_EIO, "%s: %s", part, strerror(errno));
    if (f->size >= 0 && st.st_size != f->size) {
        remove(part);
        return gy_fail(err, GY_EINTEGRITY, "%s: %lld bytes came, expected %lld", f->label,
                       (long long)st.st_size, (long long)f->size);
    }
    if (!want) return GY_OK;
    gy_rc rc = gy_fetch_digest(part, !f->sha256, hex, err);
    if (rc || !strcasecmp(hex, want)) return rc;
    remove(part);
    return gy_fail(err, GY_EINTEGRITY, "%s: %s is %s, expected %s", f->label,
                   f->sha256 ? "SHA-256" : "SHA-1", hex, want);
}

gy_rc gy_fetch_run(const gy_fetch *f, gy_err *err) {
    gy_buf part = {0};
    gy_err last = {0};
    gy_rc rc = GY_OK;
    bool again = true;
    if (f->text) f->text->max = TEXT_MAX;
    if (f->file) {
        gy_buf_printf(&part, "%s.incomplete", f->file);
        if (!part.p) return gy_fail(err, GY_ENOMEM, "%s: out of memory", f->label);
        struct stat st; /* whole already, when a run ended between the last byte and the rename */
        again = f->size < 0 || stat(part.p, &st) || st.st_size != f->size;
    }
    for (int i = 0; again && i < TRIES; i++) {
        last = (gy_err){0};
        if (i) usleep(250000u << i);
        if (f->text) f->text->n = 0;
        rc = one_try(f, part.p, &again, &last);
    }
    if (rc) rc = gy_fail(err, rc, "%s", last.msg);
    if (!rc && f->file) rc = check(f, part.p, err);
    if (!rc && f->file && rename(part.p, f->file))
        rc = gy_fail(err, GY_EIO, "%s: %s", f->file, strerror(errno));
    gy_buf_free(&part);
    return rc;
}
