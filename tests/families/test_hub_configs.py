"""Configurations of the hub's models, in every spelling of the fields, are read: they are refused only because the tensors
are missing, each with its shape. Named by owner and model or by the collection they came from: as published; by model_type
alone: as presets and tests of other projects quote them, some with fewer fields or layers."""
import json
import lzma

import pytest

from loralib import write_safetensors
from testlib import DATA, mlxcel

CONFIGS = json.loads(lzma.decompress((DATA / "families" / "hub_configs.json.xz").read_bytes()))


@pytest.mark.parametrize("name", CONFIGS)
def test_config_is_read(name, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS[name]))
    write_safetensors(tmp_path / "model.safetensors", {"model.norm.bias": ([1], [0])})
    run = mlxcel("describe", "-m", tmp_path)
    assert run.returncode == 1
    line, = run.stderr.decode().splitlines()
    assert "config.json:" not in line
    assert " is in no file" in line and ", needed with shape [" in line
