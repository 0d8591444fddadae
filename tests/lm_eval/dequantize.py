#!/usr/bin/env python3
"""Writes a GGUF file's model as a Hugging Face folder in F32: the same numbers, for transformers to run.

    dequantize.py MODEL.gguf FOLDER
"""
import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

source, folder = pathlib.Path(sys.argv[1]), sys.argv[2]
model = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32)
# transformers keeps a note of where the weights came from, and then refuses to write them.
del model.config.quantization_config
model.hf_quantizer, model.is_quantized = None, False
model.save_pretrained(folder)
AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name).save_pretrained(folder)
