/* The smallest useful program on the library: opens a model, gives it a prompt, prints the answer as it comes.
 *
 *     generate DIR "The capital of France is"
 *
 * Only mlxcel.h is used. To build it on the installed library, or on the archive alone:
 *
 *     cc generate.c $(pkg-config --cflags --libs mlxcel) -o generate
 *     cc generate.c $(pkg-config --cflags --static --libs mlxcel | sed s/-lmlxcel/-l:libmlxcel.a/) -o generate
 */
#include <stdio.h>
#include <string.h>

#include "mlxcel.h"

static void print_event(void *ctx, const struct mlxcel_event *event)
{
    (void)ctx;
    fwrite(event->text, 1, event->text_n, stdout);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct mlxcel_error  err = {0};
    struct mlxcel_params params;
    struct mlxcel       *m = NULL;
    int32_t             *ids = NULL;
    size_t               n_ids;
    int                  rc;
    if (argc != 3) {
        fprintf(stderr, "usage: generate DIR PROMPT\n");
        return 2;
    }
    mlxcel_params_greedy(&params);
    params.max_tokens = 64;
    rc = mlxcel_open(&m, argv[1], NULL, &err);
    if (!rc)
        rc =
            mlxcel_tokenize(m, argv[2], strlen(argv[2]), MLXCEL_ADD_SPECIAL | MLXCEL_PARSE_SPECIAL, &ids, &n_ids, &err);
    if (!rc)
        rc = mlxcel_generate(m, ids, n_ids, &params, print_event, NULL, &err);
    if (rc)
        fprintf(stderr, "generate: %s\n", err.message);
    else
        putchar('\n');
    mlxcel_free(ids);
    mlxcel_close(m);
    return rc != 0;
}
