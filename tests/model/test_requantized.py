"""The default model requantised to each type by llama.cpp's llama-quantize, where that is found (LLAMA_QUANTIZE, or on PATH): every
file loads, and its perplexity is that of a definition in numpy over the dequantised weights. test_weight_types.py goes without it."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/golden"))
import families_reference  # noqa: E402

QUANTIZE = os.environ.get("LLAMA_QUANTIZE") or shutil.which("llama-quantize")
TYPES = ["F32", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K_M", "Q4_K_M", "Q5_K_M", "Q6_K", "IQ4_NL", "IQ4_XS"]
TOKENS = 600  # of 200 alone, what int8 adds to each token would not have averaged out

pytestmark = [pytest.mark.skipif(not QUANTIZE, reason="no llama-quantize"), pytest.mark.timeout(1000)]


@pytest.fixture(scope="module")
def half(model, tmp_path_factory):
    """The model dequantised to F16, norms to F32; all keys copied."""
    import gguf
    path = tmp_path_factory.mktemp("requantized") / "f16.gguf"
    reader = gguf.GGUFReader(str(model))
    writer = gguf.GGUFWriter(str(path), reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        sub = field.types[1] if len(field.types) > 1 else None
        writer.add_key_value(name, field.contents(), field.types[0], sub_type=sub)
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape([int(n) for n in tensor.shape[::-1]])
        writer.add_tensor(tensor.name, values.astype(np.float16 if values.ndim > 1 else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("kind", TYPES)
def test_perplexity_is_that_of_the_dequantised_weights(build, data, half, kind):
    path = half.parent / f"{kind}.gguf"
    ids = json.loads((data / "doc.smollm2-ids.json").read_text())[:TOKENS]
    (half.parent / "ids").write_text(json.dumps(ids))
    subprocess.run([QUANTIZE, "--allow-requantize", half, path, kind], check=True, capture_output=True)
    expected = np.exp(families_reference.nll(families_reference.Model(str(path)), ids))
    # int8 is what quantised files run with; floats would be rounded to 8 bits on top.
    for precision, tolerance in [("f32", 1e-4)] + [("int8", 5e-3)] * (kind not in ("F32", "BF16")):
        done = subprocess.run([build / "tests/probe", path, half.parent / "ids", "--nll", "--precision", precision],
                              capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, done.stderr
        found = np.exp(float(done.stdout))
        print(f"{kind} {precision}: perplexity {found:.4f}, reference {expected:.4f}")
        assert abs(found / expected - 1) < tolerance
    path.unlink()
