/*
 * replay.c: runs a fuzz target once over each file of its corpus, in place of libFuzzer.
 *
 *     build/release/tests/fuzz/parse tests/fuzz/corpus/parse [folder or file ...]
 */
#include <dirent.h>
#include <sys/stat.h>

#include "fuzz.h"

static int replayed;

static void replay_file(const char *path)
{
    printf("%s\n", path);
    fflush(stdout); /* names the input if it crashes */
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL);
    CHECK_EQ(fseek(file, 0, SEEK_END), 0);
    long size = ftell(file);
    CHECK(size >= 0);
    rewind(file);
    uint8_t *data = malloc((size_t)size + (size == 0));
    CHECK(data != NULL);
    CHECK_EQ(fread(data, 1, (size_t)size, file), size);
    fclose(file);
    CHECK_EQ(LLVMFuzzerTestOneInput(data, (size_t)size), 0);
    free(data);
    replayed++;
}

static void replay(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0)
        test_fail(__FILE__, __LINE__, "there is no %s", path);
    if (!S_ISDIR(status.st_mode)) {
        replay_file(path);
        return;
    }
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, alphasort);
    CHECK(count >= 0);
    for (int i = 0; i < count; i++) {
        char inner[4096];
        if (entries[i]->d_name[0] != '.') {
            snprintf(inner, sizeof inner, "%s/%s", path, entries[i]->d_name);
            replay(inner);
        }
        free(entries[i]);
    }
    free(entries);
}

int main(int count, char **arguments)
{
    for (int i = 1; i < count; i++)
        replay(arguments[i]);
    CHECK(replayed > 0);
    printf("%d inputs\n", replayed);
    return 0;
}
