/* Which file a checkpoint's tokenizer is read from when there is no tokenizer.json. The first one that is there counts:
 * tokenizer.model (SentencePiece, or tiktoken's lines in a file of that name), tiktoken.model, *.tiktoken, vocab.json with
 * merges.txt, vocab.txt. A repository with several has them for the same tokens, and those earlier in the list were the
 * training's own file, which later ones were converted from. */
#include "text/sources.h"

#include <dirent.h>
#include <errno.h>

#include "base/file.h"

#define FILE_MAX ((size_t)64 << 20)

/* A name of directory dir that ends in ".tiktoken"; the first in the alphabet of several. *path stays NULL for none. */
static int find_tiktoken(struct draft *d, const char **path)
{
    static const char suffix[] = ".tiktoken";
    DIR              *dir = opendir(d->dir);
    const char       *name = NULL;
    int               status = 0;
    if (!dir)
        return errno == ENOENT || errno == ENOTDIR ? 0 : error_errno(d->e, errno, "read", d->dir);
    for (struct dirent *f; !status && (f = readdir(dir));) {
        size_t n = strlen(f->d_name);
        if (n < sizeof suffix || strcmp(f->d_name + n - sizeof suffix + 1, suffix) != 0 ||
            (name && strcmp(f->d_name, name) > 0))
            continue;
        if (!(name = arena_strdup(&d->arena, f->d_name, n)))
            status = draft_nomem(d);
    }
    closedir(dir);
    if (!status && name && !(*path = arena_printf(&d->arena, "%s/%s", d->dir, name)))
        status = draft_nomem(d);
    return status;
}

static int read_file(struct draft *d, struct str file, int (*source)(struct draft *d, struct str file))
{
    if (source == sentencepiece_draft && tiktoken_is(file))
        source = tiktoken_draft;
    if (file.n > FILE_MAX)
        return error_set(d->e, ERR_LIMIT, NULL, "%s is larger than the limit of %zu bytes", d->path, FILE_MAX);
    return source(d, file);
}

/* Reads a file if it is there. */
static int try_file(struct draft *d, const char *path, int (*source)(struct draft *d, struct str file), bool *found)
{
    struct error    mine = {0};
    struct file_map f;
    int             status = file_map_open(&f, path, &mine);
    *found = status != ERR_NOT_FOUND;
    if (!*found)
        return 0;
    d->path = path;
    if (status) {
        if (d->e)
            *d->e = mine;
        return status;
    }
    status = read_file(d, (struct str){f.p, f.n}, source);
    file_map_close(&f);
    return status;
}

int sources_draft(struct draft *d)
{
    static const struct {
        const char *name; /* NULL: *.tiktoken */
        int (*source)(struct draft *d, struct str file);
    } files[] = {{"tokenizer.model", sentencepiece_draft},
                 {"tiktoken.model", tiktoken_draft},
                 {NULL, tiktoken_draft},
                 {"vocab.json", vocab_json_draft},
                 {"vocab.txt", vocab_txt_draft}};
    bool found = false;
    int  status = 0;
    for (size_t i = 0; i < sizeof files / sizeof *files && !found && !status; i++) {
        const char *path = NULL;
        if (!files[i].name)
            status = find_tiktoken(d, &path);
        else if (!(path = arena_printf(&d->arena, "%s/%s", d->dir, files[i].name)))
            status = draft_nomem(d);
        if (!status && path)
            status = try_file(d, path, files[i].source, &found);
    }
    if (status || found)
        return status;
    return error_set(d->e, ERR_NOT_FOUND, NULL,
                     "%s: there is no tokenizer: none of tokenizer.json, tokenizer.model, tiktoken.model, *.tiktoken, "
                     "vocab.json with merges.txt, vocab.txt is there",
                     d->dir);
}
