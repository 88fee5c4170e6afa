"""A tiny but complete llama checkpoint and GGUF file, built in memory: the valid things that the hostile cases spoil.

Two layers of width 32, 262 tokens (256 bytes, 2 merges, 4 special tokens), affine 4-bit weights in groups of 32.
Standard library only; every value comes from one seeded generator.
"""
import json
import random
import struct

WIDTH, FF, LAYERS, HEADS, KV_HEADS, HEAD = 32, 64, 2, 4, 2, 8
VOCAB = 262
SIZES = {"F32": 4, "F16": 2, "BF16": 2, "U32": 4, "I32": 4, "U8": 1, "F64": 8, "I64": 8}


# --- safetensors ------------------------------------------------------------------------------------------------------

def count(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def safetensors_file(header, data=b"", length=None):
    """The file of a header (a dict, or its text) and data; `length` replaces the true one."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def safetensors(tensors):
    """A well-formed file of {name: (dtype, shape, bytes)}."""
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    return safetensors_file(header, data)


class Model(dict):
    """The files of a checkpoint, {name: bytes}. `tensors` and `config` are turned into files by build()."""

    def __init__(self):
        super().__init__()
        self.random = random.Random(7)
        self.tensors = {}
        self.config = {
            "model_type": "llama", "hidden_size": WIDTH, "intermediate_size": FF, "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD, "vocab_size": VOCAB,
            "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 128, "tie_word_embeddings": True,
            "eos_token_id": 259, "quantization": {"group_size": 32, "bits": 4},
        }
        self.dense("model.embed_tokens.weight", [VOCAB, WIDTH])
        for layer in range(LAYERS):
            p = f"model.layers.{layer}."
            self.dense(p + "input_layernorm.weight", [WIDTH])
            self.dense(p + "post_attention_layernorm.weight", [WIDTH])
            self.quantized(p + "self_attn.q_proj", HEADS * HEAD, WIDTH)
            self.quantized(p + "self_attn.k_proj", KV_HEADS * HEAD, WIDTH)
            self.quantized(p + "self_attn.v_proj", KV_HEADS * HEAD, WIDTH)
            self.quantized(p + "self_attn.o_proj", WIDTH, HEADS * HEAD)
            self.quantized(p + "mlp.gate_proj", FF, WIDTH)
            self.quantized(p + "mlp.up_proj", FF, WIDTH)
            self.quantized(p + "mlp.down_proj", WIDTH, FF)
        self.dense("model.norm.weight", [WIDTH])
        self.update(text_files())

    def dense(self, name, shape):
        values = [self.random.uniform(-1, 1) for _ in range(count(shape))]
        self.tensors[name] = ("F16", shape, struct.pack(f"<{len(values)}e", *values))

    def quantized(self, name, rows, columns):
        groups = columns // 32
        self.tensors[name + ".weight"] = ("U32", [rows, columns // 8], self.random.randbytes(rows * columns // 2))
        for plane, low, high in (("scales", 0.01, 0.02), ("biases", -0.1, -0.05)):
            values = [self.random.uniform(low, high) for _ in range(rows * groups)]
            self.tensors[f"{name}.{plane}"] = ("F16", [rows, groups], struct.pack(f"<{len(values)}e", *values))

    def header(self):
        """The header of the model's one shard, to be spoilt, and its data."""
        file = safetensors(self.tensors)
        (n,) = struct.unpack_from("<Q", file)
        return json.loads(file[8:8 + n]), file[8 + n:]

    def build(self):
        """Adds the files that a case has not set itself."""
        self.setdefault("config.json", json.dumps(self.config).encode())
        if not any(name.endswith(".safetensors") for name in self):
            self["model.safetensors"] = safetensors(self.tensors)
        return self


# --- tokenizer --------------------------------------------------------------------------------------------------------

def byte_letters():
    """Byte -> the letter that stands for it in byte-level vocabularies."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {b: chr(b) for b in plain}
    for i, b in enumerate(b for b in range(256) if b not in letters):
        letters[b] = chr(256 + i)
    return letters


SPECIAL = {258: "<s>", 259: "</s>", 260: "<|user|>", 261: "<|bot|>"}
TEMPLATE = ("{% for m in messages %}<|user|>{{ m['content'] }}{% endfor %}"
            "{% if add_generation_prompt %}<|bot|>{% endif %}")


def tokenizer():
    """tokenizer.json as a dict."""
    letters = byte_letters()
    vocab = {letters[b]: b for b in range(256)}
    vocab |= {"he": 256, "ll": 257}
    return {
        "version": "1.0",
        "added_tokens": [{"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i, text in SPECIAL.items()],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": vocab, "merges": ["h e", "l l"]},
    }


def text_files():
    config = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": TEMPLATE, "model_max_length": 10**30}
    return {"tokenizer.json": json.dumps(tokenizer()).encode(), "tokenizer_config.json": json.dumps(config).encode()}


# --- GGUF -------------------------------------------------------------------------------------------------------------

U32, I32, F32, BOOL, STR, ARRAY = 4, 5, 6, 7, 8, 9
GGML_F32, GGML_Q4_1, GGML_Q8_0, GGML_Q6_K = 0, 3, 8, 14
BLOCKS = {GGML_F32: (1, 4), GGML_Q4_1: (32, 20), GGML_Q8_0: (32, 34)}


def gguf_str(text):
    raw = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(raw)) + raw


def gguf_u32(x):
    return struct.pack("<II", U32, x)


def gguf_array(kind, items):
    return struct.pack("<IIQ", ARRAY, kind, len(items)) + b"".join(items)


class Gguf:
    """A GGUF file in parts: values {key: encoded}, tensors {name: [dims, type, offset, data]}, laid out by build()."""

    def __init__(self):
        rng = random.Random(9)
        letters = byte_letters()
        tokens = [letters[b] for b in range(256)] + ["he", "ll"] + list(SPECIAL.values())
        string = lambda text: struct.pack("<I", STR) + gguf_str(text)
        self.version, self.align = 3, 32
        self.values = {
            "general.architecture": string("llama"),
            "llama.block_count": gguf_u32(LAYERS), "llama.context_length": gguf_u32(128),
            "llama.embedding_length": gguf_u32(WIDTH), "llama.feed_forward_length": gguf_u32(FF),
            "llama.attention.head_count": gguf_u32(HEADS), "llama.attention.head_count_kv": gguf_u32(KV_HEADS),
            "llama.rope.dimension_count": gguf_u32(HEAD), "llama.vocab_size": gguf_u32(VOCAB),
            "llama.rope.freq_base": struct.pack("<If", F32, 10000.0),
            "llama.attention.layer_norm_rms_epsilon": struct.pack("<If", F32, 1e-5),
            "tokenizer.ggml.model": string("gpt2"), "tokenizer.ggml.pre": string("smollm"),
            "tokenizer.ggml.tokens": gguf_array(STR, [gguf_str(t) for t in tokens]),
            "tokenizer.ggml.token_type": gguf_array(I32, [struct.pack("<i", 3 if i in SPECIAL else 1)
                                                          for i in range(VOCAB)]),
            "tokenizer.ggml.merges": gguf_array(STR, [gguf_str("h e"), gguf_str("l l")]),
            "tokenizer.ggml.bos_token_id": gguf_u32(258), "tokenizer.ggml.eos_token_id": gguf_u32(259),
            "tokenizer.chat_template": string(TEMPLATE),
        }
        self.tensors = {}
        self.offset = 0
        add = lambda name, kind, *dims: self.add(name, kind, dims, rng)
        add("token_embd.weight", GGML_Q8_0, WIDTH, VOCAB)
        for layer in range(LAYERS):
            p = f"blk.{layer}."
            add(p + "attn_norm.weight", GGML_F32, WIDTH)
            add(p + "ffn_norm.weight", GGML_F32, WIDTH)
            add(p + "attn_q.weight", GGML_Q4_1, WIDTH, HEADS * HEAD)
            add(p + "attn_k.weight", GGML_Q4_1, WIDTH, KV_HEADS * HEAD)
            add(p + "attn_v.weight", GGML_Q4_1, WIDTH, KV_HEADS * HEAD)
            add(p + "attn_output.weight", GGML_Q4_1, HEADS * HEAD, WIDTH)
            add(p + "ffn_gate.weight", GGML_Q4_1, WIDTH, FF)
            add(p + "ffn_up.weight", GGML_Q4_1, WIDTH, FF)
            add(p + "ffn_down.weight", GGML_Q4_1, FF, WIDTH)
        add("output_norm.weight", GGML_F32, WIDTH)

    def add(self, name, kind, dims, rng):
        if kind == GGML_F32:
            data = struct.pack(f"<{count(dims)}f", *(rng.uniform(0.5, 1.5) for _ in range(count(dims))))
        else:
            elements, size = BLOCKS[kind]
            halves = 2 if kind == GGML_Q4_1 else 1  # scale, or scale and minimum
            block = lambda: struct.pack(f"<{halves}e", *(rng.uniform(0.01, 0.02) for _ in range(halves)))
            data = b"".join(block() + rng.randbytes(size - 2 * halves) for _ in range(count(dims) // elements))
        self.tensors[name] = [list(dims), kind, self.offset, data]
        self.offset += len(data) + -len(data) % self.align

    def head(self, n_tensors=None, n_values=None):
        n = lambda given, have: len(have) if given is None else given
        return b"GGUF" + struct.pack("<IQQ", self.version, n(n_tensors, self.tensors), n(n_values, self.values))

    def build(self, n_tensors=None, n_values=None):
        file = self.head(n_tensors, n_values)
        for key, value in self.values.items():
            file += gguf_str(key) + value
        data = b""
        for name, (dims, kind, offset, content) in self.tensors.items():
            file += gguf_str(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
            data += content + bytes(-len(content) % self.align)
        return file + bytes(-len(file) % self.align) + data
