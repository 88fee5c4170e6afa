"""The two references: transformers over the Hugging Face layout, mlx-lm over what its own loading makes of that layout.

Both compute in float32, one prefill of all tokens, and take everything from the checkpoint's files."""
import contextlib
import logging

import mlx.core as mx
import numpy as np
import torch
import transformers
from mlx.utils import tree_flatten, tree_map
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_model

logging.getLogger("transformers").setLevel(logging.ERROR)
transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(1)
torch.manual_seed(0)
mx.set_default_device(mx.cpu)

DTYPES = {mx.float32: "F32", mx.float16: "F16", mx.bfloat16: "BF16", mx.uint8: "U8", mx.int32: "I32", mx.int64: "I64",
          mx.uint32: "U32"}


def auto_class(config):
    """Language models that are wrapped have another head class."""
    if hasattr(config, "vision_config") and type(config) in transformers.AutoModelForImageTextToText._model_mapping:
        return transformers.AutoModelForImageTextToText
    if type(config) in transformers.AutoModelForCausalLM._model_mapping:
        return transformers.AutoModelForCausalLM
    return transformers.AutoModelForImageTextToText


class Hf:
    """transformers' model of a checkpoint."""

    def __init__(self, path, ignored):
        config = transformers.AutoConfig.from_pretrained(path)
        self.model, info = auto_class(config).from_pretrained(
            path, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager",
            output_loading_info=True)
        self.model.eval()
        layers = tuple({".".join(name.split(".")[:3]) for name in ignored})
        info["unexpected_keys"] = {k for k in info["unexpected_keys"] if not (layers and k.startswith(layers))}
        left = {k: info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys") if info[k]}
        if left:
            raise ValueError(f"transformers: {left}")

    @torch.no_grad()
    def logits(self, tokens):
        out = self.model(input_ids=torch.tensor([tokens]), use_cache=False)
        return out.logits[0].float().numpy().copy()

    def parameters(self):
        """name -> views that can be changed, of each expert apart."""
        seen = set()
        for name, p in self.model.state_dict().items():
            if p.data_ptr() in seen or not p.is_floating_point():
                continue
            seen.add(p.data_ptr())
            parts = p if p.dim() == 3 and "expert" in name else [p]
            for i, part in enumerate(parts):
                yield f"{name}[{i}]" if len(parts) > 1 else name, part

    @contextlib.contextmanager
    def changed(self, part, new):
        old = part.clone()
        with torch.no_grad():
            part.copy_(new(part))
            yield
            part.copy_(old)

    zeroed = staticmethod(torch.zeros_like)


class Mlx:
    """mlx-lm's model of a checkpoint; `tensors` are those that its convert would write."""

    def __init__(self, path, config):
        self.model, _ = load_model(path, lazy=False, strict=True, model_config=config)
        self.tensors = dict(tree_flatten(self.model.parameters()))
        widen = lambda p: p.astype(mx.float32) if mx.issubdtype(p.dtype, mx.floating) else p
        self.model.update(tree_map(widen, self.model.parameters()))

    def logits(self, tokens):
        cache = make_prompt_cache(self.model)
        return np.array(self.model(mx.array([tokens]), cache=cache)[0].astype(mx.float32))

    def parameters(self):
        yield from tree_flatten(self.model.parameters())

    @contextlib.contextmanager
    def changed(self, part, new):
        name = next(k for k, v in tree_flatten(self.model.parameters()) if v is part)
        self.model.load_weights([(name, new(part))], strict=False)
        yield
        self.model.load_weights([(name, part)], strict=False)

    zeroed = staticmethod(mx.zeros_like)


def bytes_of(x):
    """(dtype, shape, bytes) of an mlx array."""
    return DTYPES[x.dtype], list(x.shape), bytes(memoryview(mx.contiguous(x.flatten()).view(mx.uint8)))
