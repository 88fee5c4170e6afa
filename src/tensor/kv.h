/* The paged key/value cache as kernels see it.
 *
 * A page holds page_tokens (a multiple of 64) consecutive positions of one sequence for every layer of its cache group.
 * One layer's part of a page:
 *
 *   head 0: tile 0 [ K: head_dim x 64 | V: 64 x v_dim ]  tile 1 [ K | V ] ...   head 1: ...
 *
 * and in an 8-bit cache [ K | scales of its 64 keys | V | scales of its 64 values ].
 *
 * A tile is 64 keys aligned to absolute position 0. K is stored transposed (64 keys of one feature side by side), so that a
 * vector register holds the scores of neighbouring keys; V is stored key by key. Elements are float16, float32, or int8
 * that one float32 scale per key and head multiplies. A layer may have no values (v_dim 0). Of a latent layer a value is
 * the first v_dim features of its key: K is then stored key by key, 64 x head_dim, and there is no V. Every row of a step reads K and V as stored, also those written in
 * the same step (the order law, rule d).
 */
#ifndef MLXCEL_TENSOR_KV_H
#define MLXCEL_TENSOR_KV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KV_TILE 64  /* keys per tile */
#define KV_SPAN 512 /* keys whose (max, sum, output) are formed together and merged in order */

struct kv_layer {
    int    n_kv_head, head_dim, v_dim; /* features of a key, of a value */
    bool   latent;                     /* values are the first features of keys */
    int    elem_size;                  /* 2: float16, 4: float32, 1: int8 with scales */
    int    page_tokens;                /* multiple of KV_TILE */
    size_t offset;                     /* bytes from the page's start to this layer's part */
};

/* Bytes of one key, or one value, of dim features of one head. */
static inline size_t kv_key_bytes(int dim, int elem_size)
{
    return (size_t)dim * (size_t)elem_size + (elem_size == 1 && dim ? sizeof(float) : 0);
}

/* Bytes of a key and its value of one head. */
static inline size_t kv_pair_bytes(const struct kv_layer *l)
{
    return kv_key_bytes(l->head_dim, l->elem_size) + kv_key_bytes(l->latent ? 0 : l->v_dim, l->elem_size);
}

/* Bytes of one layer's part of a page. */
static inline size_t kv_layer_bytes(const struct kv_layer *l)
{
    return (size_t)l->n_kv_head * (size_t)l->page_tokens * kv_pair_bytes(l);
}

/* The K part of the tile that holds position pos of kv head h: element (feature d, key j) at [d * KV_TILE + j], of a latent
 * layer at [j * head_dim + d]. */
static inline void *kv_k_tile(const struct kv_layer *l, void *page, int h, int64_t pos)
{
    size_t tile = (size_t)(pos % l->page_tokens) / KV_TILE, tiles = (size_t)l->page_tokens / KV_TILE;
    return (char *)page + l->offset + ((size_t)h * tiles + tile) * KV_TILE * kv_pair_bytes(l);
}

/* The V part of that tile: element (key j, feature d) at [j * v_dim + d]. */
static inline void *kv_v_tile(const struct kv_layer *l, void *page, int h, int64_t pos)
{
    return (char *)kv_k_tile(l, page, h, pos) + KV_TILE * kv_key_bytes(l->head_dim, l->elem_size);
}

/* The scales [64] of a K or V part, whose elements have dim features; NULL where they have none. */
static inline float *kv_scales(const struct kv_layer *l, void *part, int dim)
{
    return l->elem_size == 1 ? (float *)(void *)((char *)part + (size_t)KV_TILE * (size_t)dim) : NULL;
}

#endif
