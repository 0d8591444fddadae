"""Hugging Face folders of every family against transformers (float32, committed logits), on tiny seeded models; and against the
numpy definition on the GGUF file of the same weights, which also says what every head keeps."""
import json
import pathlib
import resource
import subprocess
import sys

import numpy as np
import pytest

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
sys.path.insert(0, str(GOLDEN))
import families_reference  # noqa: E402
import folders  # noqa: E402

NAMES = [*families_reference.TINY, *folders.EXTRA]


def probe(build, path, ids, *args):
    json.dump(ids, open(path / "ids", "w"))
    subprocess.run([build / "tests/probe", path, path / "ids", *map(str, args)], check=True, timeout=100)


def logits(path, n):
    return np.fromfile(path, np.float32).reshape(n, -1)


@pytest.mark.parametrize("name", NAMES)
def test_logits_are_those_of_transformers(build, tmp_path, name):
    """The prompt alone; the last 60 tokens decoded; in batches with two other sequences."""
    golden = np.load(GOLDEN / "transformers.npz")
    config, tensors = folders.tiny(name)
    ids = folders.tokens_of(config)
    positions = [p for p in golden["positions"] if p < len(ids)]
    folders.write_folder(tmp_path, config, tensors, shards=1 + len(name) % 3)
    for more in [], ["--decode", 60], ["--decode", 60, "--company", 90]:
        probe(build, tmp_path, ids, "--logits", tmp_path / "logits", *more)
        found = logits(tmp_path / "logits", len(ids))[positions]
        assert np.abs(found - golden[name]).max() < 1e-3, more


@pytest.mark.parametrize("name", families_reference.TINY)
def test_kept_positions_are_those_of_the_definition(build, tmp_path, name):
    ids = [int(i) for i in np.random.default_rng(5).integers(0, 320, 250)]
    families_reference.write_tiny(name, tmp_path / "tiny.gguf")
    reference = families_reference.Model(str(tmp_path / "tiny.gguf"))
    folders.write_folder(tmp_path, *folders.tiny(name))
    probe(build, tmp_path, ids, "--policy", "roco", "--budget", 48, "--stride", 32, "--decode", 80, "--kept", tmp_path / "kept",
          "--logits", tmp_path / "logits")
    rows = []
    cache = families_reference.run(reference, ids, policy="roco", budget=48, stride=32, decode=80,
                                   on_logits=lambda start, z: rows.append(z))
    assert np.abs(logits(tmp_path / "logits", len(ids)) - np.concatenate(rows)).max() < 1e-3
    for line in open(tmp_path / "kept"):
        layer, head, *positions = map(int, line.split())
        assert positions == sorted(cache[layer][head].pos.tolist())


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_is_read_exactly(build, tmp_path, dtype):
    config, tensors = folders.tiny("qwen2")
    ids = folders.tokens_of(config)[:64]
    for path, values, kind in ((tmp_path / "half", tensors, dtype),
                               (tmp_path / "whole", {n: folders.rounded(v, dtype) for n, v in tensors.items()}, "float32")):
        folders.write_folder(path, config, values, kind, shards=3)
        probe(build, path, ids, "--logits", path / "logits", "--precision", "f32")
    assert np.array_equal(logits(tmp_path / "half/logits", 64), logits(tmp_path / "whole/logits", 64))


def test_rope_parameters_of_transformers_5_mean_the_same(build, tmp_path):
    for name, both in ("gemma3", True), ("llama yarn", False), ("phi3 long", False):
        config, tensors = folders.tiny(name)
        ids = folders.tokens_of(config)
        folders.write_folder(tmp_path / "4", config, tensors)
        scaling, base = config.pop("rope_scaling"), config.pop("rope_theta")
        whole = {"rope_theta": base, "partial_rotary_factor": config.pop("partial_rotary_factor", 1.0), **scaling}
        local = {"rope_type": "default", "rope_theta": config.pop("rope_local_base_freq", None)}
        config["rope_parameters"] = {"full_attention": whole, "sliding_attention": local} if both else whole
        folders.write_folder(tmp_path / "5", config, tensors)
        for version in "45":
            probe(build, tmp_path / version, ids, "--logits", tmp_path / version / "logits")
        assert np.array_equal(logits(tmp_path / "4/logits", len(ids)), logits(tmp_path / "5/logits", len(ids)))


def test_the_text_part_of_a_model_that_sees_is_read(build, tmp_path):
    config, tensors = folders.tiny("gemma3")
    ids = folders.tokens_of(config)
    folders.write_folder(tmp_path / "text", config, tensors)
    left_out = {"num_attention_heads", "tie_word_embeddings"}
    config.update(num_attention_heads=8, num_key_value_heads=4, head_dim=8)
    whole = {"model_type": "gemma3", "text_config": {k: v for k, v in config.items() if k not in left_out}, "vision_config": {}}
    for prefix in "language_model.", "model.language_model.":
        named = {prefix + (n if prefix[0] == "l" else n.removeprefix("model.")): v for n, v in tensors.items()}
        named["model.vision_tower.patch.weight" if prefix[0] == "m" else "vision_tower.patch.weight"] = np.zeros((2, 2, 2, 2), np.float32)
        whole["text_config"].update(num_key_value_heads=1, head_dim=32)
        whole["text_config"]["num_attention_heads"] = 4
        folders.write_folder(tmp_path / "whole", whole, named)
        for path in tmp_path / "text", tmp_path / "whole":
            probe(build, path, ids, "--logits", path / "logits")
        assert np.array_equal(logits(tmp_path / "text/logits", len(ids)), logits(tmp_path / "whole/logits", len(ids)))


def test_a_folder_of_the_default_models_shape_loads_in_two_seconds(build, tmp_path):
    """Processor time, so that a busy machine does not count."""
    config = {"model_type": "llama", "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
              "num_key_value_heads": 3, "vocab_size": 49152, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5,
              "tie_word_embeddings": True}
    shapes = {"self_attn.q_proj": (576, 576), "self_attn.k_proj": (192, 576), "self_attn.v_proj": (192, 576),
              "self_attn.o_proj": (576, 576), "mlp.gate_proj": (1536, 576), "mlp.up_proj": (1536, 576), "mlp.down_proj": (576, 1536),
              "input_layernorm": (576,), "post_attention_layernorm": (576,)}
    tensors = {f"model.layers.{layer}.{part}.weight": np.zeros(shape, np.float16) for layer in range(30) for part, shape in shapes.items()}
    tensors.update({"model.embed_tokens.weight": np.zeros((49152, 576), np.float16), "model.norm.weight": np.ones(576, np.float16)})
    folders.write_folder(tmp_path, config, tensors, "float16")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    probe(build, tmp_path, [1])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    (tmp_path / "model.safetensors").unlink()
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2


# --- folders that are not as they should be ---

def drop(name):
    return lambda path: (path / name).unlink()


def edit(name, change):
    def apply(path):
        spec = json.loads((path / name).read_text())
        change(spec)
        (path / name).write_text(json.dumps(spec))
    return apply


def config(**members):
    return edit("config.json", lambda c: [c.__setitem__(k, v) if v is not None else c.pop(k) for k, v in members.items()])


def data(change):
    """Of the one safetensors file."""
    def apply(path):
        file = path / "model.safetensors"
        file.write_bytes(change(file.read_bytes()))
    return apply


def header(change):
    def apply(raw):
        size = int.from_bytes(raw[:8], "little")
        spec = json.loads(raw[8:8 + size])
        change(spec)
        text = json.dumps(spec).encode()
        return len(text).to_bytes(8, "little") + text + raw[8 + size:]
    return data(apply)


def index(**files):
    def apply(path):
        names = list(folders.tiny("llama")[1])
        (path / "model.safetensors").rename(path / "a.safetensors")
        places = {**dict.fromkeys(names, "a.safetensors"), **files}
        (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    return apply


NORM = "model.norm.weight"
BROKEN = {
    "no config": (drop("config.json"), "without config.json"),
    "no weights": (drop("model.safetensors"), "neither model.safetensors nor its index"),
    "no tokenizer": (drop("tokenizer.json"), "no tokenizer.json"),
    "config is no JSON": (lambda p: (p / "config.json").write_text("{"), "config.json is not valid JSON"),
    "config is a list": (lambda p: (p / "config.json").write_text("[]"), "not an object"),
    "config nests": (lambda p: (p / "config.json").write_text("[" * 100000), "nests deeper"),
    "other family": (config(model_type="mamba"), '"mamba" (model_type of config.json) is not supported; supported: llama, mistral'),
    "no width": (config(hidden_size=None), "hidden_size"),
    "no layers": (config(num_hidden_layers=0), "num_hidden_layers"),
    "huge layers": (config(num_hidden_layers=4294967295), "block_count"),
    "width is a text": (config(hidden_size="64"), "hidden_size"),
    "head size": (config(head_dim=1 << 40), "head_dim"),
    "other width": (config(hidden_size=96), "tensor token_embd.weight is [64 x 320"),
    "activation": (config(hidden_act="relu"), "silu"),
    "quantised": (config(quantization_config={"quant_method": "gptq"}), "quantization_config"),
    "scaling": (config(rope_scaling={"type": "magic"}), '"magic" is not supported'),
    "scaling without factor": (config(rope_scaling={"type": "linear"}), "without a factor"),
    "factors": (config(rope_scaling={"type": "longrope", "long_factor": [1], "short_factor": [1]}), "one for each rotary pair"),
    "one original position": (config(rope_scaling={"type": "longrope", "original_max_position_embeddings": 1, "factor": 4}),
                              "original_max_position_embeddings is not a number of 2 to"),
    "cut": (data(lambda raw: raw[:-1]), "cut short"),
    "cut header": (data(lambda raw: raw[:100]), "cut short"),
    "empty": (data(lambda raw: b""), "not a safetensors file"),
    "page": (data(lambda raw: b"<!DOCTYPE html>" + raw), "not a safetensors file"),
    "huge header": (data(lambda raw: (1 << 62).to_bytes(8, "little") + raw[8:]), "cut short"),
    "overlap": (header(lambda h: h[NORM].update(data_offsets=[4, 260])), "overlap"),
    "beyond": (header(lambda h: h[NORM].update(data_offsets=[1 << 40, (1 << 40) + 256])), "cut short"),
    "backwards": (header(lambda h: h[NORM].update(data_offsets=[256, 0])), "data_offsets"),
    "other size": (header(lambda h: h[NORM].update(data_offsets=[0, 128])), "asks for 256 bytes"),
    "shape overflows": (header(lambda h: h[NORM].update(shape=[1 << 40, 1 << 40])), "2^64"),
    "dimension 0": (header(lambda h: h[NORM].update(shape=[0])), "shape"),
    "five dimensions": (header(lambda h: h[NORM].update(shape=[64, 1, 1, 1, 1])), "shape"),
    "other type": (header(lambda h: h[NORM].update(dtype="F8_E4M3")), "F8_E4M3"),
    "missing": (header(lambda h: h.pop(NORM)), "output_norm.weight is missing"),
    "path in the index": (index(x="../a.safetensors"), "not the name of a .safetensors file"),
    "hidden file in the index": (index(x=".a.safetensors"), "not the name of a .safetensors file"),
    "other file in the index": (index(x="config.json"), "not the name of a .safetensors file"),
    "missing file in the index": (index(x="b.safetensors"), "cannot open"),
    "number in the index": (index(x=1), "not the name of a .safetensors file"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_folders_are_refused_by_name(build, tmp_path, name):
    change, words = BROKEN[name]
    folders.write_folder(tmp_path, *folders.tiny("llama"))
    change(tmp_path)
    json.dump([1, 2, 3], open(tmp_path / "ids", "w"))
    done = subprocess.run([build / "tests/probe", tmp_path, tmp_path / "ids"], capture_output=True, text=True, timeout=20)
    assert done.returncode == 1 and words in done.stderr, done.stderr


def test_a_tensor_in_two_files_is_refused(build, tmp_path):
    cfg, tensors = folders.tiny("llama")
    folders.write_folder(tmp_path, cfg, tensors)
    index(x="b.safetensors")(tmp_path)
    (tmp_path / "b.safetensors").write_bytes((tmp_path / "a.safetensors").read_bytes())
    json.dump([1, 2, 3], open(tmp_path / "ids", "w"))
    done = subprocess.run([build / "tests/probe", tmp_path, tmp_path / "ids"], capture_output=True, text=True)
    assert done.returncode == 1 and "is there twice" in done.stderr


def test_info_shows_a_folder(build, tmp_path):
    folders.write_folder(tmp_path, *folders.tiny("llama"), dtype="bfloat16", shards=2)
    done = subprocess.run([build / "roco", "info", tmp_path], capture_output=True, text=True)
    assert done.returncode == 0
    for words in "safetensors, 2 files", "BF16", "llama.block_count", "architecture  llama":
        assert words in done.stdout


@pytest.mark.parametrize("kind, name", [("linear", "llama linear"), ("yarn", "llama yarn"), ("dynamic", "llama dynamic"),
                                        ("none", "llama")])
def test_scaling_by_option_is_that_of_a_file(build, tmp_path, kind, name):
    wanted, tensors = folders.tiny(name)
    ids = folders.tokens_of(wanted)
    folders.write_folder(tmp_path / "file", wanted, tensors)
    given = wanted.get("rope_scaling") or {"factor": 1}
    original = given.get("original_max_position_embeddings", wanted["max_position_embeddings"])
    plain = {k: v for k, v in wanted.items() if k != "rope_scaling"}
    other = {"rope_scaling": {"type": "linear", "factor": 3}} if kind == "none" else {}
    folders.write_folder(tmp_path / "option", {**plain, **other, "max_position_embeddings": original}, tensors)
    probe(build, tmp_path / "file", ids, "--logits", tmp_path / "file/logits")
    probe(build, tmp_path / "option", ids, "--logits", tmp_path / "option/logits", "--rope-scaling", kind,
          "--rope-factor", given["factor"])
    assert np.array_equal(logits(tmp_path / "file/logits", len(ids)), logits(tmp_path / "option/logits", len(ids)))
