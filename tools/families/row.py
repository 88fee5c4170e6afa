"""What a row of the tables in this folder says, and the defaults that all rows share.

    Row(name, sizes...)     name: <model_type>[-<variant>], the folder of the fixture

`config` goes to transformers' config class of the model type; with source "mlx" (families that transformers lacks) it is
config.json itself, and the tensors are those of mlx-lm's model. The config that transformers writes is brought to the
style of the files on the hub (rope at the top level, torch_dtype, no layer_types), unless `style` is "t5".
"""
import json
import re
from dataclasses import dataclass, field

# Fields of PretrainedConfig that say nothing about the computation.
NOISE = {
    "_name_or_path", "add_cross_attention", "attention_dropout", "chunk_size_feed_forward", "cross_attention_hidden_size",
    "decoder_start_token_id", "finetuning_task", "id2label", "initializer_range", "is_decoder", "is_encoder_decoder",
    "label2id", "output_attentions", "output_hidden_states", "output_router_logits", "pretraining_tp",
    "problem_type", "return_dict", "router_aux_loss_coef", "router_jitter_noise", "sep_token_id", "use_cache",
}

# Kinds of values by tensor name, the first that fits; "weight G": evenly around 0, G binary orders above what keeps the
# output of a linear layer as large as its input. "weight0" is the same for weights stored as [in, out].
KINDS = [
    (r"A_log$", "decay"),
    (r"dt_bias$|dt_proj\.bias$", "dt"),
    (r"\.D$", "norm"),
    (r"conv1?d?\.weight$|conv\.conv\.weight$", "uniform -1"),
    (r"norm[^.]*(\.\w+)?\.weight$|layernorm|\bln_\w+\.weight$|norm$", "norm"),
    (r"e_score_correction_bias$|expert_bias$|moe_statics", "uniform -2"),
    (r"sinks$", "uniform 1"),
    (r"bias$", "uniform -1"),
    (r"embed_tokens|word_embeddings|\bwte\b|embed_in|embeddings", "uniform 0"),
    (r"\bgate\.weight$|router(\.\w+)?\.weight$|shared_expert_gate", "weight 1"),
    (r"(q|k|qkv|Wqkv|query|key)_(\w_)?proj\.weight$|wqkv\.weight$|query_key_value\.weight|q_b_proj|Wqkv|c_attn\.weight|att_proj", "weight 1"),
    (r"", "weight 0"),
]

SIZES = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2,
             head_dim=16, vocab_size=67, max_position_embeddings=512, bos_token_id=1, eos_token_id=2,
             pad_token_id=0)
# Where heads have no size of their own: 96 / 6 = 16.
WIDE = dict(SIZES, hidden_size=96)
del WIDE["head_dim"]
BOTH = dict(SIZES, hidden_size=96)  # where the config class wants the one and the model has the other


@dataclass
class Row:
    name: str
    config: dict
    model_type: str = ""          # default: the name without what follows the first "-"
    style: str = "hub"            # of config.json: "hub" or "t5"
    source: str = "hf"            # who says what tensors there are: "hf" or "mlx"
    add: dict = field(default_factory=dict)     # fields of config.json, beside or instead of what transformers writes;
                                                # a function of the config where they follow from others
    drop: tuple = ()              # fields of config.json that older files lack
    keep: tuple = ()              # fields that the hub style would take away
    kinds: list = field(default_factory=list)   # before KINDS
    dtype: str = "BF16"           # of the tensors, but for
    dtypes: dict = field(default_factory=dict)  # pattern -> dtype
    rename: list = field(default_factory=list)  # (pattern, replacement): from what transformers saves to the hub's names
    split: list = field(default_factory=list)   # (pattern, replacement with {e}): stacked experts that the hub has one by one
    transform: object = None      # function(name, shape) -> [(name, shape)] for what patterns cannot say, before the two above
    extra: dict = field(default_factory=dict)   # tensors to ignore on purpose: name -> (dtype, shape)
    hf_extra: dict = field(default_factory=dict)  # zeros that only transformers is given: name -> shape
    hf: str = ""                  # why transformers gives no logits
    mlx: str = ""                 # why mlx-lm gives no logits
    layout: str = ""              # why mlx-lm cannot even load it, so that there is no mlx.json
    mlx_config: dict = field(default_factory=dict)  # fields that only mlx-lm is given
    quiet: str = r"vision|visual|multi_modal|mm_projector"  # pattern of parameters that may hardly change the logits
    tokens: int = 34
    note: str = ""
    options: dict = field(default_factory=dict)   # draws.py: other values of fields of `config`
    rope_word: str = "both"       # what the hub's style calls the kind of rope scaling: "type", "rope_type" or "both"
    lean: frozenset = frozenset() # fields that config.json leaves out where they are what the config class says anyway

    def __post_init__(self):
        self.model_type = self.model_type or self.name.split("-")[0]

    def kind(self, name, shape):
        """How the values of a tensor are drawn, in the words of tests/families/familylib.py."""
        rule = next(rule for pattern, rule in [*self.kinds, *KINDS] if re.search(pattern, name))
        word, *numbers = rule.split()
        if not word.startswith("weight"):
            return rule
        inputs = (shape or [1])[0 if word == "weight0" else -1]
        e = int(numbers[0]) - max(0, (inputs // 3).bit_length() // 2)
        return f"uniform {e}"

    def dtype_of(self, name):
        return next((d for pattern, d in self.dtypes.items() if re.search(pattern, name)), self.dtype)

    def hub_tensors(self, name, shape):
        """What the hub has for a tensor: names and shapes."""
        found = []
        for name, shape in self.transform(name, shape) if self.transform else [(name, shape)]:
            for pattern, to in self.rename:
                name = re.sub(pattern, to, name)
            split = next((rule for rule in self.split if re.search(rule[0], name)), None)
            if split:
                found += [(re.sub(*split, name).replace("{e}", str(e)), shape[1:]) for e in range(shape[0])]
            else:
                found.append((name, shape))
        return found

    def config_json(self, written):
        """config.json out of what transformers wrote."""
        config = {k: v for k, v in written.items() if k not in NOISE}
        for part in [config] + [v for k, v in config.items() if k.endswith("_config") and isinstance(v, dict)]:
            for k in NOISE & part.keys():
                del part[k]
            if self.style == "hub":
                hub_style(part, self.keep, self.rope_word)
        config = merged(config, resolved(self.add, config))
        for k in self.drop:
            config.pop(k, None)
        return config


    def for_mlx(self, config):
        """What mlx-lm is given instead of fields of config.json: many of its models read only the hub's style of rope."""
        hub = json.loads(json.dumps(config))
        for part in [hub, hub.get("text_config", {})]:
            part.update(bare_floats(part))
            if self.style == "t5":
                hub_style(part, ["layer_types"])
        return merged(hub, resolved(self.mlx_config, hub))


def resolved(fields, config):
    """Fields whose value follows from others are functions of the config."""
    return {k: v(config) if callable(v) else v for k, v in fields.items()}


def merged(a, b):
    """b over a, objects within them likewise."""
    return a | {k: merged(a[k], v) if isinstance(v, dict) and isinstance(a.get(k), dict) else v for k, v in b.items()}


def bare_floats(x):
    """Infinity as Python writes it, not as transformers 5 does."""
    if isinstance(x, dict):
        return float(x["__float__"]) if x.keys() == {"__float__"} else {k: bare_floats(v) for k, v in x.items()}
    return [bare_floats(v) for v in x] if isinstance(x, list) else x


def leaner(config, fields, defaults):
    """config.json without those of `fields` that are what the config class says when they are absent."""
    return {k: leaner(v, fields, defaults) if isinstance(v, dict) and k == "text_config" else v for k, v in config.items()
            if k not in fields or k not in defaults or defaults[k] != v}


def hub_style(config, keep, word="both"):
    config.update(bare_floats(config))
    rope = config.pop("rope_parameters", None) if "rope_parameters" not in keep else None
    if rope and not any(isinstance(v, dict) for v in rope.values()):
        rope = dict(rope)
        for k in ("rope_theta", "partial_rotary_factor"):
            if k in rope:
                config[k] = rope.pop(k)
        scaled = rope.get("rope_type", "default") != "default"
        words = {"both": ("type", "rope_type")}.get(word, (word,))
        kind = rope.pop("rope_type", None)
        config["rope_scaling"] = rope | dict.fromkeys(words, kind) if scaled else None
    elif rope:  # for each kind of layer; older files had one for all, or another theta where there is a window
        full = dict(rope["full_attention"])
        config["rope_theta"] = full.pop("rope_theta")
        config["rope_scaling"] = full if full.get("rope_type", "default") != "default" else None
        if rope["sliding_attention"]["rope_theta"] != config["rope_theta"]:
            config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
    if "dtype" in config:
        config["torch_dtype"] = config.pop("dtype")
    if "layer_types" not in keep:
        config.pop("layer_types", None)
    if "transformers_version" in config:
        config["transformers_version"] = "4.57.1"
