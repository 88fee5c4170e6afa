"""What `arch` tells of each family is what its models are made of, and every family has a model to show it."""
import json

from family import each, family  # noqa: F401

from testlib import DATA, mlxcel_ok

# Families without a fixture of their own.
ELSEWHERE = {"youtu_vl",  # neither reference has it: test_wrappers.py renames youtu_llm's tensors
             "qwen3_5_text", "qwen3_5_moe_text",  # test_wrappers.py takes them out of qwen3_5 and qwen3_5_moe
             "joyai_llm_flash"}  # another name of deepseek_v3, in mlx-lm too


def blocks(text):
    return set(filter(None, text.split(", ")))


def test_every_family_has_a_fixture():
    known = {f["model_type"] for f in json.loads(mlxcel_ok("arch", "--json"))}
    made = {json.loads(p.read_text())["model_type"] for p in (DATA / "families").glob("*/config.json")}
    assert known - made == ELSEWHERE and made <= known


@each()
def test_blocks(family):
    facts = json.loads(mlxcel_ok("describe", "-m", family.mlx, "--json"))
    row, = (f for f in json.loads(mlxcel_ok("arch", "--json")) if f["model_type"] == family.model_type)
    assert blocks(facts["blocks"]) <= blocks(row["blocks"])
    assert blocks(row["blocks"]) - blocks(facts["blocks"]) <= {"experts"}  # some families are dense, too


ROUTERS = {"deepseek_v3": ("gate", None), "nemotron_h-moe": ("gate", None), "mixtral": ("gate", 4), "qwen3_moe": ("gate", 8),
           "gpt_oss-mxfp4": ("router", 8), "qwen3_next": ("gate", 8), "granitemoe": ("layer", 8)}


@each(ROUTERS)
def test_routers_are_quantized_as_by_mlx(family):
    """mlx-lm's predicates: bare routers never, others with 8 bits or like everything else. Groups of 32 divide."""
    last, bits = ROUTERS[family.name]
    facts = json.loads(mlxcel_ok("describe", "-m", family.quantized("affine4"), "--json"))
    stored = {t["stored_as"] for t in facts["tensors"] if t["name"].rsplit(".", 1)[-1] == last and "shared" not in t["name"]}
    wide = {t["shape"][-1] for t in facts["tensors"] if t["name"].rsplit(".", 1)[-1] == last and "shared" not in t["name"]}
    found = {int(s.split()[1]) if s.startswith("affine") else None for s in stored}
    assert found == ({bits} if bits != 8 or all(n % 64 == 0 for n in wide) else {None}), stored
