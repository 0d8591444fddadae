"""The head profile that the engine measures is the reference's: values, order, and the one built in."""
import json
import pathlib
import re
import subprocess

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GOLDEN = ROOT / "tests/golden/smollm2-135m.heads.json"  # roco_reference.py profile on tests/data/doc.smollm2-ids.json


@pytest.mark.parametrize("precision, kv_type, tolerance", [("f32", "f32", 1e-4), ("int8", "f16", 1e-2)])
def test_the_profile_is_the_reference_s(build, model, data, tmp_path, precision, kv_type, tolerance):
    ids = json.load(open(data / "doc.smollm2-ids.json"))
    json.dump(ids[7000:7300] + ids[6500:6800], open(tmp_path / "ids", "w"))
    subprocess.run([build / "tests/probe", model, tmp_path / "ids", "--profile", tmp_path / "heads.json", "--precision",
                    precision, "--kv-type", kv_type], check=True, timeout=300)
    expected, found = np.array(json.load(open(GOLDEN))), np.array(json.load(open(tmp_path / "heads.json"))["scores"])
    assert np.abs(found - expected).max() < tolerance
    best = lambda scores: np.argsort(-scores.ravel(), kind="stable")[:20].tolist()
    assert best(found) == best(expected)


def test_the_built_in_profile_is_the_golden():
    source = (ROOT / "engine/profile_builtin.c").read_text()
    table = re.search(r"smollm2_135m\[[^]]*\] = \{(.*?)\};", source, re.S).group(1)
    numbers = [float(x) for x in re.findall(r"[0-9.e-]+(?=f)", table)]
    assert numbers == sum(json.load(open(GOLDEN)), [])
