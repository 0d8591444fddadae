#!/usr/bin/env python3
"""An independent forward pass of each model family in plain numpy, from the published definitions, with tiny models.

    families_reference.py NAME OUT.gguf         writes the seeded tiny model NAME (a key of TINY)

Sources: Llama (2302.13971, 2307.09288), Mistral (2310.06825), Qwen2 (2407.10671), Qwen3 (2505.09388), Gemma
(2403.08295), Gemma 2 (2408.00118), Gemma 3 (2503.19786), Phi-3 (2404.14219), Granite 3 (IBM's report), OLMo 2
(2501.00656), YaRN (2309.00071), LongRoPE (2402.13753); the spelling of keys and tensors is GGUF's. Weights are the
file's own, dequantised to float32.
`run` feeds a sequence in strides with eviction, as roco_reference.py does, with sliding windows on top.
"""
import math
import pathlib
import sys

import numpy as np

from roco_reference import NEG, Head, victims

HALVES = {"qwen2", "qwen3", "gemma", "gemma2", "gemma3", "phi3", "olmo2"}  # rotary pairs half a head apart


class Model:
    def __init__(self, path, context=None):
        import gguf
        reader = gguf.GGUFReader(path)
        arch = self.arch = reader.fields["general.architecture"].contents()
        get = lambda k, d=None: reader.fields[f"{arch}.{k}"].contents() if f"{arch}.{k}" in reader.fields else d
        self.layers, self.width = get("block_count"), get("embedding_length")
        self.heads = get("attention.head_count")
        self.kv_heads = get("attention.head_count_kv", self.heads)
        self.group = self.heads // self.kv_heads
        self.head_dim = get("attention.key_length", self.width // self.heads)
        self.eps = np.float32(get("attention.layer_norm_rms_epsilon"))
        self.context = context or get("context_length")
        self.W = {}
        for t in reader.tensors:
            w = gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32)
            self.W[t.name] = w.reshape([int(x) for x in t.shape[::-1]])
        self.W.setdefault("output.weight", self.W["token_embd.weight"])
        gemma = arch.startswith("gemma")
        self.scale = get("attention.scale", 1 / math.sqrt(self.head_dim))
        self.embedding_scale = math.sqrt(self.width) if gemma else get("embedding_scale", 1.0)
        self.residual_scale, self.logit_scale = get("residual_scale", 1.0), 1 / get("logit_scale", 1.0)
        self.attention_cap = get("attn_logit_softcapping", 0)
        self.logit_cap = get("final_logit_softcapping", 0)
        window, period = get("attention.sliding_window", 0), {"gemma2": 2, "gemma3": 6}.get(arch, 0)
        self.windows = [0 if period and (l + 1) % period == 0 else window for l in range(self.layers)]
        self.rope_dim = get("rope.dimension_count", self.head_dim)
        self.rope_global = self.frequencies(get, get("rope.freq_base", 10000.0), scaled=True)
        self.rope_local = self.frequencies(get, 10000.0, scaled=False) if arch == "gemma3" else self.rope_global

    def frequencies(self, get, base, scaled):
        """(radians per position of each pair, magnitude)"""
        d = self.rope_dim
        f = base ** -(np.arange(0, d, 2) / d)
        kind, s = get("rope.scaling.type", "none"), get("rope.scaling.factor", 1.0)
        if not scaled:
            return f, 1.0
        magnitude = get("rope.scaling.attn_factor", 1.0)
        if kind == "linear":
            f = f / s
        if kind == "yarn":
            original = get("rope.scaling.original_context_length", self.context)
            dim_of = lambda turns: d * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))
            low, high = max(math.floor(dim_of(32)), 0), min(math.ceil(dim_of(1)), d - 1)
            ramp = np.clip((np.arange(d // 2) - low) / max(high - low, 1e-3), 0, 1)
            f = f / s * ramp + f * (1 - ramp)
            magnitude *= 0.1 * math.log(s) + 1
        for name, wanted in (("rope_freqs", True), ("rope_factors_long", self.is_long(get)),
                             ("rope_factors_short", not self.is_long(get))):
            if wanted and f"{name}.weight" in self.W:
                f = f / self.W[f"{name}.weight"]
        return f, magnitude

    def is_long(self, get):
        return self.context > get("rope.scaling.original_context_length", self.context)

    def norm(self, x, name):
        """RMS norm over the last axis; without that tensor nothing happens."""
        if name not in self.W:
            return x
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * self.W[name]

    def rope(self, x, pos, layer):
        """x [heads, tokens, head_dim]"""
        f, magnitude = self.rope_local if self.windows[layer] else self.rope_global
        a, d = pos[:, None] * f[None, :], self.rope_dim
        c, s = (np.cos(a) * magnitude).astype(np.float32), (np.sin(a) * magnitude).astype(np.float32)
        first, second = ((slice(0, d // 2), slice(d // 2, d)) if self.arch in HALVES else
                         (slice(0, d, 2), slice(1, d, 2)))
        y = x.copy()
        y[..., first] = x[..., first] * c - x[..., second] * s
        y[..., second] = x[..., second] * c + x[..., first] * s
        return y

    def linear(self, y, layer, part):
        out = y @ self.W[f"blk.{layer}.{part}.weight"].T
        return out + self.W[f"blk.{layer}.{part}.bias"] if f"blk.{layer}.{part}.bias" in self.W else out

    def qkv(self, x, layer, pos):
        """q [heads, t, d], k and v [kv_heads, t, d]; q and k rotated."""
        y = self.norm(x, f"blk.{layer}.attn_norm.weight")
        if self.arch == "phi3":
            sizes = np.cumsum([self.heads * self.head_dim, self.kv_heads * self.head_dim])
            q, k, v = np.split(self.linear(y, layer, "attn_qkv"), sizes, axis=-1)
        else:
            q, k, v = (self.linear(y, layer, part) for part in ("attn_q", "attn_k", "attn_v"))
        if self.arch == "olmo2":  # over all heads together
            q, k = self.norm(q, f"blk.{layer}.attn_q_norm.weight"), self.norm(k, f"blk.{layer}.attn_k_norm.weight")
        q, k, v = (z.reshape(len(y), -1, self.head_dim).transpose(1, 0, 2) for z in (q, k, v))
        if self.arch in ("qwen3", "gemma3"):
            q, k = self.norm(q, f"blk.{layer}.attn_q_norm.weight"), self.norm(k, f"blk.{layer}.attn_k_norm.weight")
        return self.rope(q, pos, layer), self.rope(k, pos, layer), v

    def attend(self, cache, q, old, pos, layer):
        """q [group, t, d] over a Head whose last t tokens are the queries' own; S and S2 grow."""
        g, t, d = q.shape
        s = (q.reshape(-1, d) @ cache.K.T).reshape(g, t, -1) * np.float32(self.scale)
        if self.attention_cap:
            s = self.attention_cap * np.tanh(s / self.attention_cap)
        seen = cache.pos[None, :] <= pos[:, None]
        if self.windows[layer]:
            seen &= pos[:, None] - cache.pos[None, :] < self.windows[layer]
        s = np.where(seen, s, NEG).astype(np.float32)
        p = np.exp(s - s.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        mean = p.mean(0).astype(np.float64)
        cache.S += mean.sum(0)
        cache.S2 += (mean * mean).sum(0)
        cache.last = mean[-1]
        return (p.reshape(g * t, -1) @ cache.V).reshape(g, t, d)

    def rest(self, x, o, layer):
        """The layer after attention: x [t, width], o [heads, t, d]."""
        name = f"blk.{layer}."
        add = self.linear(o.transpose(1, 0, 2).reshape(len(x), -1), layer, "attn_output")
        x = x + np.float32(self.residual_scale) * self.norm(add, name + "post_attention_norm.weight")
        y = self.norm(x, name + "ffn_norm.weight")
        if self.arch == "phi3":
            gate, up = np.split(self.linear(y, layer, "ffn_up"), 2, axis=-1)
        else:
            gate, up = self.linear(y, layer, "ffn_gate"), self.linear(y, layer, "ffn_up")
        if self.arch.startswith("gemma"):
            gate = 0.5 * gate * (1 + np.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * gate ** 3)))
        else:
            gate = gate / (1 + np.exp(-gate))
        add = self.linear(gate * up, layer, "ffn_down")
        return x + np.float32(self.residual_scale) * self.norm(add, name + "post_ffw_norm.weight")

    def embed(self, ids):
        return self.W["token_embd.weight"][ids] * np.float32(self.embedding_scale)

    def logits(self, x):
        z = self.norm(x, "output_norm.weight") @ self.W["output.weight"].T * np.float32(self.logit_scale)
        return self.logit_cap * np.tanh(z / self.logit_cap) if self.logit_cap else z


def evict(m, cache, layer, policy, budget, left, now, **guard):
    """Down to `left` tokens. What the next query cannot see goes first, oldest first, whatever the policy."""
    surplus, window = len(cache.pos) - left, m.windows[layer]
    if surplus <= 0:
        return
    outside = int((cache.pos <= now + 1 - window).sum()) if window else 0
    cache.drop(np.arange(min(outside, surplus)))  # tokens are in position order here
    if surplus > outside:
        cache.drop(victims(policy, cache, budget, surplus - outside, now, **guard))


def run(m, ids, policy="full", budget=None, stride=64, decode=0, on_logits=None, **guard):
    """As roco_reference.run; a head of a windowed layer holds at most its window. Returns the heads' caches."""
    cache = [[Head(m.head_dim) for _ in range(m.kv_heads)] for _ in range(m.layers)]
    most = [min(m.windows[l] or len(ids), len(ids) if policy == "full" else budget) for l in range(m.layers)]
    prompt = len(ids) - decode
    for start in list(range(0, prompt, stride)) + list(range(prompt, len(ids))):
        decoding = start >= prompt
        chunk = np.asarray(ids[start:start + 1] if decoding else ids[start:min(start + stride, prompt)])
        pos = np.arange(start, start + len(chunk))
        x = m.embed(chunk)
        for l in range(m.layers):
            q, k, v = m.qkv(x, l, pos)
            o = np.empty_like(q)
            for h, c in enumerate(cache[l]):
                if decoding:
                    evict(m, c, l, policy, most[l], most[l] - 1, start - 1, **guard)
                rows = slice(h * m.group, (h + 1) * m.group)
                old = len(c.pos)
                c.append(k[h], v[h], pos)
                o[rows] = m.attend(c, q[rows], old, pos, l)
                evict(m, c, l, policy, most[l], most[l], pos[-1], **guard)
            x = m.rest(x, o, l)
        if on_logits:
            on_logits(start, m.logits(x))
    return cache


def nll(m, ids, **kw):
    """Mean of -log p of ids[1:]."""
    out = []

    def score(start, z):
        target = np.asarray(ids[start + 1:start + 1 + len(z)])
        z = z[:len(target)].astype(np.float64)
        z -= z.max(-1, keepdims=True)
        out.extend(np.log(np.exp(z).sum(-1)) - z[np.arange(len(target)), target])

    run(m, ids, on_logits=score, **kw)
    return float(np.mean(out))


# --- tiny models ---

BASE = dict(layers=3, width=64, heads=4, kv_heads=2, head_dim=16, ffn=96, vocab=320, context=1024)
TINY = {
    "llama": dict(arch="llama"),
    "llama linear": dict(arch="llama", keys={"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}),
    "llama yarn": dict(arch="llama", keys={"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
                                           "rope.scaling.original_context_length": 256}),
    "mistral": dict(arch="llama", keys={"attention.sliding_window": 40}),
    "qwen2": dict(arch="qwen2", biases=True),
    "qwen3": dict(arch="qwen3", head_dim=24, qk_norms="head"),
    "gemma": dict(arch="gemma", kv_heads=1, head_dim=32),
    "gemma2": dict(arch="gemma2", layers=4, post_norms=True,
                   keys={"attention.sliding_window": 40, "attn_logit_softcapping": 5.0,
                         "final_logit_softcapping": 3.0}),
    "gemma3": dict(arch="gemma3", layers=7, kv_heads=1, head_dim=32, qk_norms="head", post_norms=True,
                   keys={"attention.sliding_window": 96, "rope.freq_base": 1e6, "rope.scaling.type": "linear",
                         "rope.scaling.factor": 8.0}),
    "gemma3 short window": dict(arch="gemma3", layers=7, kv_heads=1, head_dim=32, qk_norms="head", post_norms=True,
                                keys={"attention.sliding_window": 20, "rope.freq_base": 1e6}),
    "phi3": dict(arch="phi3", fused=True, keys={"rope.dimension_count": 12}),
    "phi3 long": dict(arch="phi3", fused=True, factors=True, keys={
        "rope.scaling.original_context_length": 256, "rope.scaling.attn_factor": 1.19}),
    "phi3 short": dict(arch="phi3", fused=True, factors=True, context=256, keys={
        "rope.scaling.original_context_length": 256, "rope.scaling.attn_factor": 1.19}),
    "granite": dict(arch="granite", keys={"attention.scale": 0.2, "embedding_scale": 3.0, "residual_scale": 0.4,
                                          "logit_scale": 2.5}),
    "olmo2": dict(arch="olmo2", tied=False, qk_norms="all", post_norms=True, pre_norms=False),
}


def tensors_of(spec, rng):
    """(name, values): scaled so that no layer's part of the answer is small, and attention is far from even."""
    s = {**BASE, "pre_norms": True, **spec}
    matrix = lambda rows, cols, size=1.0: rng.normal(0, size / math.sqrt(cols), (rows, cols)).astype(np.float32)
    vector = lambda n, mean=1.0, size=0.2: rng.normal(mean, size, n).astype(np.float32)
    q, kv, width, ffn = s["heads"] * s["head_dim"], s["kv_heads"] * s["head_dim"], s["width"], s["ffn"]
    yield "token_embd.weight", matrix(s["vocab"], width)
    if not s.get("tied", True):
        yield "output.weight", matrix(s["vocab"], width)
    yield "output_norm.weight", vector(width)
    if s.get("factors"):
        yield "rope_factors_long.weight", np.linspace(1, 9, s["head_dim"] // 2, dtype=np.float32)
        yield "rope_factors_short.weight", np.linspace(1, 1.5, s["head_dim"] // 2, dtype=np.float32)
    for l in range(s["layers"]):
        name = f"blk.{l}."
        parts = {"attn_q": matrix(q, width, 1.4), "attn_k": matrix(kv, width, 1.4), "attn_v": matrix(kv, width)}
        gate, up = matrix(ffn, width), matrix(ffn, width)
        if s.get("fused"):
            yield name + "attn_qkv.weight", np.concatenate(list(parts.values()))
            yield name + "ffn_up.weight", np.concatenate([gate, up])
        else:
            for part, value in [*parts.items(), ("ffn_gate", gate), ("ffn_up", up)]:
                yield f"{name}{part}.weight", value
        yield name + "attn_output.weight", matrix(width, q)
        yield name + "ffn_down.weight", matrix(width, ffn)
        if s.get("biases"):
            for part, n in ("attn_q", q), ("attn_k", kv), ("attn_v", kv):
                yield f"{name}{part}.bias", vector(n, 0.0, 0.5)
        if s["pre_norms"]:
            yield name + "attn_norm.weight", vector(width)
            yield name + "ffn_norm.weight", vector(width)
        if s.get("post_norms"):
            yield name + "post_attention_norm.weight", vector(width)
            yield name + "post_ffw_norm.weight", vector(width)
        if s.get("qk_norms"):
            whole = s["qk_norms"] == "all"
            yield name + "attn_q_norm.weight", vector(q if whole else s["head_dim"], 1.5)
            yield name + "attn_k_norm.weight", vector(kv if whole else s["head_dim"], 1.5)


def read_vocabulary(n):
    """The first n pieces of a small SentencePiece model, so that the file is a whole model."""
    from make_tokenizer_corpus import lines_of, unescape
    rows = [line.split(" ", 3) for line in lines_of(pathlib.Path(__file__).parent / "tokenizer/sp_llama.txt")][:n]
    return [unescape(r[3]) for r in rows], [float(r[2]) for r in rows], [int(r[1]) for r in rows]


def write_tiny(name, path, seed=7):
    write_spec(TINY[name], path, seed)


def write_spec(spec, path, seed=7, encode=lambda values: (values, None)):
    """`encode` gives a tensor's data and its type, None for the array's own."""
    import gguf
    s = {**BASE, **spec}
    w = gguf.GGUFWriter(str(path), s["arch"])
    put = lambda key, value: (w.add_float32 if isinstance(value, float) else w.add_string if isinstance(value, str)
                              else w.add_uint32)(f"{s['arch']}.{key}", value)
    for key, value in {"block_count": s["layers"], "context_length": s["context"], "embedding_length": s["width"],
                       "feed_forward_length": s["ffn"], "attention.head_count": s["heads"],
                       "attention.head_count_kv": s["kv_heads"], "attention.key_length": s["head_dim"],
                       "attention.value_length": s["head_dim"], "attention.layer_norm_rms_epsilon": 1e-5,
                       "rope.dimension_count": s["head_dim"], **spec.get("keys", {})}.items():
        put(key, value)
    pieces, scores, types = read_vocabulary(s["vocab"])
    w.add_tokenizer_model("llama")
    w.add_token_list(pieces)
    w.add_token_scores(scores)
    w.add_token_types(types)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    for tensor, values in tensors_of(spec, np.random.default_rng(seed)):
        data, kind = encode(values)
        w.add_tensor(tensor, data, raw_dtype=kind)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    write_tiny(*sys.argv[1:])
