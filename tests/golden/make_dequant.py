#!/usr/bin/env python3
"""Writes dequant.bin: seeded random blocks of each weight type and the float32 values they stand for.

The values come from the `gguf` package (gguf.quants.dequantize), which shares no code with roco.
Layout, little-endian: "RDQ1", u32 records; each record: u32 type, u32 n_values, u32 n_bytes, bytes, float32[n_values].

    pip install gguf numpy && python3 make_dequant.py
"""
import pathlib
import struct

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize

# Byte offsets of the f16 fields of a block. They must be finite: a NaN has no one bit pattern to compare.
HALVES = {
    T.Q8_0: [0], T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2],
    T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208], T.Q3_K: [108],
    T.IQ4_NL: [0], T.IQ4_XS: [0], T.Q2_K: [80, 82],
}
PLAIN = [T.F32, T.F16, T.BF16]


def random_blocks(rng, kind, n_blocks):
    size = GGML_QUANT_SIZES[kind][1]
    raw = rng.integers(0, 256, (n_blocks, size), dtype=np.uint8)
    for at in HALVES.get(kind, []):
        half = rng.integers(0, 0x7C00, n_blocks, dtype=np.uint16) | (rng.integers(0, 2, n_blocks, dtype=np.uint16) << 15)
        half[0] = 0x0001  # the smallest subnormal
        half[1] = 0x8000  # minus zero
        raw[:, at:at + 2] = half.astype("<u2").view(np.uint8).reshape(n_blocks, 2)
    if kind in PLAIN:
        raw[:, -1] &= 0xBF  # one exponent bit cleared: finite
    return raw.reshape(-1)


def main():
    rng = np.random.default_rng(20240206)
    records = []
    for kind in PLAIN + list(HALVES):
        n_blocks = 256 if kind in PLAIN else (16 if GGML_QUANT_SIZES[kind][0] == 32 else 4)
        raw = random_blocks(rng, kind, n_blocks)
        with np.errstate(over="ignore"):
            values = np.ascontiguousarray(dequantize(raw, kind), dtype="<f4").reshape(-1)
        assert np.isfinite(values).all(), kind
        records.append(struct.pack("<III", kind, values.size, raw.size) + raw.tobytes() + values.tobytes())
    out = pathlib.Path(__file__).with_name("dequant.bin")
    out.write_bytes(b"RDQ1" + struct.pack("<I", len(records)) + b"".join(records))
    print(out, out.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
