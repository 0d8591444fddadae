#!/usr/bin/env python3
"""Makes the SentencePiece goldens of tests/golden/tokenizer/: small models and the ids Google's `sentencepiece` gives.

    make_sentencepiece.py [--retrain] [--model FILE.gguf --ids OUT]

sp_NAME.txt      "T type score piece" in order of id, for each NAME of MODELS; written once, or with --retrain
sp_NAME_ids.txt  per text of corpus.txt "count:hash" of the ids (see make_tokenizer_corpus.py)
OUT              the same with the vocabulary of a GGUF file, put back into a SentencePiece model

Needs: sentencepiece, protobuf, tokenizers, and gguf with --model.
"""
import argparse
import io
import pathlib

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as proto

from make_tokenizer_corpus import HERE, digest, escape, lines_of, unescape

SPACE = "\u2581"
UNUSED, BYTE = 5, 6
MODELS = {
    # As Llama 2 and Mistral have it: a space in front, bytes for what has no piece.
    "llama": dict(vocab_size=900, byte_fallback=True, add_dummy_prefix=True, user_defined_symbols=["<think>", "日本"],
                  control_symbols=["<|im_start|>", "<|im_end|>"]),
    # As Gemma has it: no space in front, runs of spaces and newlines as tokens, pieces over word borders.
    "gemma": dict(vocab_size=1000, byte_fallback=True, add_dummy_prefix=False, split_by_whitespace=False,
                  user_defined_symbols=["\n" * n for n in range(1, 6)] + [SPACE * n for n in range(2, 9)] + ["<b>"],
                  control_symbols=["<start_of_turn>", "<end_of_turn>"]),
    # Without bytes, so with unknown characters.
    "unknown": dict(vocab_size=700, byte_fallback=False, add_dummy_prefix=True),
}


def train(texts, options):
    out = io.BytesIO()
    # European text and the test document: small models have no room for all characters there are.
    sentences = [t for t in texts if t and len(t) < 3000 and all("\0" < c < "\u0250" for c in t)]
    sentences += (HERE.parent.parent / "data/doc.txt").read_text().split("\n\n")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_writer=out, max_sentence_length=100000,
        model_type="bpe", normalization_rule_name="identity", remove_extra_whitespaces=False, character_coverage=0.999,
        hard_vocab_limit=False, minloglevel=2, num_threads=1, **options)
    model = proto.ModelProto()
    model.ParseFromString(out.getvalue())
    return [(p.type, p.score, p.piece) for p in model.pieces]


def load(pieces, options):
    """A processor over (type, score, piece): what is normalised and how unknowns are met is set here, not trained."""
    model = proto.ModelProto()
    model.trainer_spec.model_type = 2  # BPE
    model.trainer_spec.byte_fallback = options["byte_fallback"]
    model.trainer_spec.unk_piece = next((piece for kind, _, piece in pieces if kind == 2), "<unk>")
    model.normalizer_spec.name = "identity"
    model.normalizer_spec.add_dummy_prefix = options["add_dummy_prefix"]
    model.normalizer_spec.remove_extra_whitespaces = False
    model.normalizer_spec.escape_whitespaces = True
    for kind, score, piece in pieces:
        model.pieces.add(type=kind, score=score, piece=piece.replace(" ", SPACE))
    return sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())


def read(path):
    rows = [line.split(" ", 3) for line in lines_of(path)]
    return [(int(kind), float(score), unescape(piece)) for _, kind, score, piece in rows]


def read_gguf(path):
    import gguf
    fields = gguf.GGUFReader(path).fields
    get = lambda key, default=None: (fields["tokenizer.ggml." + key].contents() if "tokenizer.ggml." + key in fields
                                     else default)
    types = get("token_type")
    unknown = get("unknown_token_id", 0)
    types = [2 if i == unknown else t for i, t in enumerate(types)]  # SentencePiece wants one, files call it control
    options = dict(byte_fallback=BYTE in types, add_dummy_prefix=get("add_space_prefix", True))
    return list(zip(types, get("scores"), get("tokens"))), options


def write_ids(path, processor, texts):
    path.write_text("".join(digest(processor.encode(t, out_type=int)) + "\n" for t in texts))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--retrain", action="store_true", help="train the small models again")
    parser.add_argument("--model", help="GGUF file with a SentencePiece vocabulary")
    parser.add_argument("--ids", type=pathlib.Path, help="where the ids of --model go")
    options = parser.parse_args()
    texts = [unescape(line) for line in lines_of(HERE / "corpus.txt")]
    for name, spec in MODELS.items():
        path = HERE / f"sp_{name}.txt"
        if options.retrain or not path.exists():
            rows = [f"T {kind} {score!r} {escape(piece)}\n" for kind, score, piece in train(texts, spec)]
            path.write_bytes("".join(rows).encode())
        write_ids(HERE / f"sp_{name}_ids.txt", load(read(path), spec), texts)
    if options.model:
        pieces, spec = read_gguf(options.model)
        write_ids(options.ids, load(pieces, spec), texts)


if __name__ == "__main__":
    main()
