"""Each type of weight in a whole model: random blocks of it, against a definition in numpy over what the `gguf` package dequantises."""
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "golden"))
import families_reference  # noqa: E402
from make_dequant import HALVES, PLAIN  # noqa: E402

SPEC = dict(arch="llama", layers=2, width=256, head_dim=64, ffn=512, tied=False)
TOKENS = 200
# A block's second half times this, over its first, centres its values on 0; the mean of its quants.
CENTRE = {T.Q4_1: -7.5, T.Q5_1: -15.5, T.Q4_K: 7.5, T.Q5_K: 15.5, T.Q2_K: 1.5}


def encoder(kind):
    """Matrices of random blocks, as large as the values in whose place they are; vectors stay."""
    rng = np.random.default_rng(11)
    values_of, bytes_of = GGML_QUANT_SIZES[kind]

    def encode(values):
        if values.ndim == 1:
            return values, None
        if kind in PLAIN:
            return {T.F32: values, T.F16: values.astype(np.float16),
                    T.BF16: (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)}[kind], kind
        raw = rng.integers(0, 256, (values.size // values_of, bytes_of), dtype=np.uint8)
        size = rng.uniform(0.5, 1.5, len(raw))

        def scale(by):
            for at, factor in zip(HALVES[kind], (1, CENTRE.get(kind, 0))):
                raw[:, at:at + 2] = (by * size * factor).astype("<f2").view(np.uint8).reshape(-1, 2)

        scale(1 / 64)
        scale(values.std() / dequantize(raw, kind).std() / 64)
        return raw.reshape(len(values), -1), kind

    return encode


@pytest.mark.parametrize("kind", [*PLAIN, *HALVES], ids=lambda kind: kind.name)
def test_logits_and_perplexity_are_those_of_the_dequantised_weights(build, tmp_path, kind):
    path = tmp_path / "model.gguf"
    families_reference.write_spec(SPEC, path, encode=encoder(kind))
    ids = [int(i) for i in np.random.default_rng(3).integers(0, 320, TOKENS)]
    (tmp_path / "ids").write_text(json.dumps(ids))
    rows = []
    families_reference.run(families_reference.Model(str(path)), ids, on_logits=lambda start, z: rows.append(z))
    expected = np.concatenate(rows)
    assert 0.3 < expected.std() < 3

    def nll(z):
        z = z[:-1].astype(np.float64)
        return np.mean(np.log(np.exp(z).sum(-1)) - z[np.arange(TOKENS - 1), ids[1:]])

    for precision in ["f32"] + ["int8"] * (kind not in PLAIN):
        subprocess.run([build / "tests/probe", path, tmp_path / "ids", "--logits", tmp_path / "logits", "--precision", precision],
                       check=True, timeout=100)
        found = np.fromfile(tmp_path / "logits", np.float32).reshape(expected.shape)
        if precision == "f32":
            assert np.abs(found - expected).max() < 1e-3
        ratio = np.exp(nll(found) - nll(expected))
        print(f"{kind.name} {precision}: largest difference of a logit {np.abs(found - expected).max():.5f}, perplexity times {ratio:.5f}")
        assert abs(ratio - 1) < (1e-4 if precision == "f32" else 1e-2)
