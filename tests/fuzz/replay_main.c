/* Replays a corpus folder through a fuzz target when libFuzzer is not linked, so that every preset
 * and every compiler runs the inputs that once mattered. Usage: fuzz_X FOLDER. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) return 0;
    uint8_t *data = malloc(1 << 24);
    size_t n = data ? fread(data, 1, 1 << 24, f) : 0;
    fclose(f);
    LLVMFuzzerTestOneInput(data, n);
    free(data);
    return 1;
}

int main(int argc, char **argv) {
    int count = 0;
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        if (!dir) continue;
        for (struct dirent *d; (d = readdir(dir));) {
            char path[4096];
            if (d->d_name[0] == '.') continue;
            snprintf(path, sizeof path, "%s/%s", argv[i], d->d_name);
            count += replay(path);
        }
        closedir(dir);
    }
    printf("replayed %d inputs\n", count);
    return 0;
}
