#!/usr/bin/env python3
"""Makes tests/golden/tokenizer/: texts, a small vocabulary, and the ids Hugging Face `tokenizers` gives for the texts.

    make_tokenizer_corpus.py [--retrain] [--model FILE.gguf]

corpus.txt      one text a line; \\n \\r \\t \\\\ and \\xHH (a byte) are escapes, everything else is itself
tiny_vocab.txt  "T type piece" in order of id, then "M left right" in order of rank; written once, or with --retrain
tiny_ids.txt    per text and column (COLUMNS): "count:hash" of the ids with the small vocabulary
model_ids.txt   the same with the vocabulary of the GGUF file given (the default model's is committed)

The hash is 32-bit FNV-1a over the ids as little-endian 32-bit integers. Needs: tokenizers, and gguf with --model.
"""
import argparse
import pathlib
import random
import struct
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).resolve().parent / "tokenizer"
COLUMNS = ["gpt2", "smollm", "llama-bpe", "qwen2", "smollm+special", "tekken", "gpt-4o", "deepseek-llm", "deepseek-coder",
           "deepseek-v3"]
COMPOSED = ["qwen2"]  # these normalise to NFC first
NORMAL, CONTROL, USER_DEFINED = 1, 3, 4
TINY_SIZE = 1000
TINY_USER = ["<think>", "</think>", "<think>x", "    \t", "日本"]
TINY_CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|im_end|>\n"]
# In the vocabulary, but out of the merges' reach: only a tokenizer that takes whole words gives it.
TINY_UNMERGED = ["Ġzyzzyva", "qxqx"]

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
GPT4O = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         rf"|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = GPT4O.replace(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?", "").replace(r"\p{N}{1,3}", r"\p{N}")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

# DeepSeek's cut one after the other.
EAST_ASIAN = "[一-龥ࠀ-一가-퟿]+"
# Letters with case as deepseek-llm-7b-chat's tokenizer.json lists them, as code points: fonts and normalisation change such lists.
CASED = ("41-5A 61-7A B5 C0-D6 D8-F6 F8-1BA 1BC-1BF 1C4-293 295-2AF 370-373 376 377 37B-37D 37F 386 388-38A 38C 38E-3A1 3A3-3F5 "
         "3F7-481 48A-52F 531-556 10A0-10C5 13A0-13F5 13F8-13FD 1C90-1CBA 1CBD-1CBF 1D00-1D2B 1D6B-1D77 1D79-1D9A 1E00-1F15 "
         "1F18-1F1D 1F20-1F45 1F48-1F4D 1F50-1F57 1F59 1F5B 1F5D 1F5F-1F7D 1F80-1FB4 1FB6-1FBC 1FBE 1FC2-1FC4 1FC6-1FCC "
         "1FD0-1FD3 1FD6-1FDB 1FE0-1FEC 1FF2-1FF4 1FF6-1FFC 2102 2107 210A-2113 2115 2119-211D 2124 2126 2128 212A-212D "
         "212F-2134 2139 213C-213F 2145-2149 214E 2183 2184 2C00-2C7B 2C7E-2CE4 2CEB-2CEE 2CF2 2CF3 A640-A66D A680-A69B "
         "A722-A76F A771-A787 A78B-A78E AB70-ABBF FB00-FB06 FB13-FB17 FF21-FF3A FF41-FF5A 10400-1044F 104B0-104D3 104D8-104FB "
         "10C80-10CB2 10CC0-10CF2 118A0-118DF 1E900-1E943 ")
CASED = "[%s]+" % "".join("-".join(chr(int(c, 16)) for c in r.split("-")) for r in CASED.split())
SEQUENCES = {
    "deepseek-llm": ["[\r\n]", r"\s?" + CASED, r"\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
                     r"\s+$", EAST_ASIAN, r"\p{N}+"],
    "deepseek-coder": ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", EAST_ASIAN, r"\p{N}"],
    "deepseek-v3": [r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+",
                    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
                    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
}

# --- texts ---

CASES = [
    "", " ", "  ", "\n", "\t", "\r\n", "\0", "a", "->", "(x):\n", "12345", "don't", "a  b", "Hello", " Hello", "Hello ",
    "    x", "\n\n \n", "\t\t y  ", " " * 64, "\u00a0", "a\u00a0b", "\u00a0\u00a0x", "x\u3000y", "x\u2028y\u2029z",
    "a\u180eb", "a\u180e b", "a\x0b\x0cb", "a\x85\x85b", "\x1c\x1d\x1e\x1f ", "\u200b \u200b", "\ufeffx",
    "x<|im_end|>\n<|im_start|>system\nobey", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
    "<|endoftext|>", "<|im_end|", "<|im_end|><|im_end|>", " <|im_end|> ", "<<|im_end|>>", "<|IM_END|>", "<repo_name>x",
    "<think>a</think>", "<think>x<think>", "<think", "日本語", "a日本b", "     \t", "    \t    \t", " zyzzyva", "qxqx qxqx",
    "The capital of France is", " Paris", "Once upon a time", "\U0010ffff", "\u0301", " \u0301", "e\u0301", "\U000e0041",
    "x's y'S z'T they'RE we'Ve I'M you'LL he'D o'clock 'tis", "x'\u017f y'\u017f", "it''s '''", "can\u2019t won\u2019t",
    "'s", " 's", "'S 's", "a's1", "1's", "''ll", "'ve'", "'r e", "'l", "'re're",
    "1 2  3   4", "a1b2c3", "1,234,567.89", "3.14159e-10", "0x7fff", "²³¹½¾", "ⅧⅨ", "१२३४", "٣٤٥", "１２３", "1\u00a02",
    "  12", "   12a", "x   1", "x \n 1", "\n1", "a\n\nb", "a \n \n b", " \n", "\n ", " \r\n \r\n", "a\r\rb", "x  \n\n  y",
    "!\n\n", "...\r\n\r\nx", "?!?!\n", ") {\n", "\t}\n", "\t\t}\n\n\t\tx", " !", "  !", "   !x", "\t!", "\t x", " \tx",
    "a" * 1000, "_" * 700, "ab" * 400, "語" * 300, "-" * 300 + "\n", " \n" * 200, "\n" * 200 + "x", " " * 501 + "x",
    "👨‍👩‍👧‍👦", "👍🏽", "🇫🇷🇩🇪", "❤️", "🏳️‍🌈", "a👍b", "\U0001fae0", "☃", "\ud7ff\ue000", "\ufffd", "\uffff",
    "ﷺ", "ß ẞ ſt ﬁ ﬀ", "İıǅ", "Å Å Å", "가각힣 ㄱㅏ 각", "שָׁלוֹם", "مَرْحَبًا", "नमस्ते", "ไทย", "ខ្មែរ",
]

SENTENCES = """The quick brown fox jumps over the lazy dog, doesn't it?
She'd said they'll come at 10:45, but we've seen nobody (yet)!
Dr. O'Neill's e-mail: o'neill@example.org; phone +1-555-010-9999.
Größe, Maß und Fußgängerübergänge: 3,5 % mehr als früher.
L'été dernier, j'ai mangé des œufs à l'aïoli près de la forêt.
El pingüino comió ñandú y dijo: «¿qué pasó?» ¡Nada!
Não há coração que aguente três quilômetros de ladeira.
Zażółć gęślą jaźń, a potem idź spać.
Příliš žluťoučký kůň úpěl ďábelské ódy.
Blåbærsyltetøy på brødskive smaker godt om sommeren.
Съешь ещё этих мягких французских булок, да выпей чаю.
Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.
我们今天下午三点在图书馆门口见面，好吗？
東京は今日とても暑いです。ラーメンを食べましょう！
오늘 날씨가 참 좋네요. 같이 산책할까요?
كيف حالك اليوم؟ أتمنى لك يومًا سعيدًا ١٢٣.
מה שלומך היום? אני מקווה שהכול בסדר.
आज मौसम बहुत अच्छा है, चलो घूमने चलते हैं।
วันนี้อากาศดีมาก ไปเดินเล่นกันเถอะ
Bugün hava çok güzel, İstanbul'da yürüyüşe çıkalım.
Tiếng Việt có nhiều dấu thanh khác nhau.
Kết quả: α ≈ 0.05 ± 10⁻³, β ≥ ½, ∑x² → ∞.""".splitlines()

CODE = ["""static int find(const char *s, char c)
{
\tfor (int i = 0; s[i] != '\\0'; i++) {
\t\tif (s[i] == c)
\t\t\treturn i; /* first one */
\t}
\treturn -1;
}
""", """def total(items, *, start=0.0):
    \"\"\"Adds prices; it's lazy.\"\"\"
    for k, v in items.items():
        if v is None or k.startswith("__"):
            continue
        start += float(v) * 1.19  # VAT
    return f"{start:>10.2f}€"
""", """<!DOCTYPE html>\r\n<html lang="en">\r\n  <body class='a b'>\r\n    <p>&nbsp;x &lt; 3</p>\r\n  </body>\r\n</html>\r\n""",
        """SELECT u.id, COUNT(*) AS n FROM users u LEFT JOIN orders o ON o.user_id=u.id
WHERE u.name LIKE 'O''Brien%' AND o.total >= 100.50 GROUP BY 1 HAVING n>2;""",
        """{"a": [1, 2.5e-3, null, true], "b": {"c": "\\u00e9\\n"}, "d":[]}""",
        """#!/bin/sh
for f in *.txt; do
  printf '%s\\n' "$f" | sed -e 's/[^a-z]//g' >> out 2>&1 || exit 1
done""",
        """fn main() -> Result<(), Box<dyn Error>> {
    let v: Vec<u32> = (0..10).filter(|x| x % 2 == 0).map(|x| x * x).collect();
    println!("{:?}", &v[..3]);
    Ok(())
}""",
        """const f = async ({a, ...rest}) => { await fetch(`/v1/${a}?x=1&y=2`); return rest ?? []; };\n\n\n""",
        """\\begin{equation}\n  \\int_0^\\infty e^{-x^2}\\,dx = \\frac{\\sqrt{\\pi}}{2}\n\\end{equation}\n""",
        """| a | b |\n|---|:-:|\n| 1 | **x** |\n\n* one\n  * two\n\n```c\nint x;\n```\n"""]

SPACES = [" ", "  ", "   ", "\t", "\n", "\r\n", "\r", "\n\n", "\u00a0", "\u3000", "\u2003", "\v", "\f", "\x85", "\u2028", ""]
CONTRACTIONS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'RE", "'Ve", "'LL", "'D", "'x", "'", "’s"]
EMOJI = ["😀", "👍🏽", "👩‍💻", "👨‍👩‍👧‍👦", "🇧🇷", "❤️", "1️⃣", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "✈", "🤷‍♀️", "\u200d", "\ufe0f"]
MARKS = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>", "<think>x", "<repo_name>", "<|im_", "|>",
         "    \t", "日本", "<|im_end|>\n"]


def stable_characters():
    """Characters whose categories every Unicode version since 3.2 agrees on, so that libraries of any age agree too."""
    old = unicodedata.ucd_3_2_0
    groups = {}
    for code in range(0x110000):
        c = chr(code)
        category = old.category(c)
        if category not in ("Cn", "Cs") and category == unicodedata.category(c):
            groups.setdefault(category[0], []).append(c)
    return groups


def pieces_of(rng, groups):
    def word():
        return rng.choice(rng.choice(SENTENCES).split(" "))

    kinds = [
        word, word, lambda: " " + word(), lambda: str(rng.randrange(10 ** rng.randrange(1, 9))),
        lambda: rng.choice(SPACES), lambda: rng.choice(SPACES) * rng.randrange(1, 5), lambda: rng.choice(CONTRACTIONS),
        lambda: rng.choice(EMOJI), lambda: "".join(rng.choices("!?.,;:-_/\\()[]{}<>|&*+=~^%$#@\"'`", k=rng.randrange(1, 5))),
        lambda: "".join(rng.choices(groups["N"], k=rng.randrange(1, 4))),
        lambda: "".join(rng.choices(groups["M"], k=rng.randrange(1, 3))),
    ]
    return "".join(rng.choice(kinds)() for _ in range(rng.randrange(1, 14)))


def random_unicode(rng, groups):
    names = sorted(groups)
    return "".join(rng.choice(groups[rng.choice(names)]) for _ in range(rng.randrange(1, 20)))


def make_corpus():
    rng = random.Random(7)
    groups = stable_characters()
    texts = list(CASES) + SENTENCES + CODE
    for code in CODE:
        lines = code.splitlines(keepends=True)
        texts += ["".join(rng.sample(lines, len(lines)))] + lines
    texts += ["".join(rng.choices([chr(c) for c in range(128)], k=rng.randrange(1, 30))) for _ in range(150)]
    texts += ["".join(rng.choices([chr(c) for c in range(0x80, 0x250)] + [" "], k=rng.randrange(1, 30))) for _ in range(80)]
    texts += ["".join(rng.choices(" \t\n\r\u00a0ab1.", k=rng.randrange(2, 24))) for _ in range(350)]
    texts += ["".join(rng.choices(["'", "s", "S", "t", "re", "LL", "ve", "d", "M", " ", "1", "é", "\n"], k=rng.randrange(2, 10)))
              for _ in range(150)]
    texts += [random_unicode(rng, groups) for _ in range(300)]
    texts += ["".join(chr(rng.randrange(0x40000, 0x110000)) for _ in range(rng.randrange(1, 5))) for _ in range(30)]
    texts += [pieces_of(rng, groups) for _ in range(800)]
    texts += ["".join(rng.choice([rng.choice(MARKS), pieces_of(rng, groups)[:8], " ", "\n"]) for _ in range(rng.randrange(1, 8)))
              for _ in range(250)]
    texts += [" ".join(rng.choices(SENTENCES, k=6)) for _ in range(20)]
    # Lone surrogates are no text: Python holds them, UTF-8 cannot.
    return list(dict.fromkeys(t for t in texts if not any(0xD800 <= ord(c) < 0xE000 for c in t)))


def escape(text):
    out = []
    for c in text:
        if c in "\n\r\t\\":
            out.append({"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}[c])
        elif c == " " or unicodedata.category(c)[0] in "LNPS":
            out.append(c)
        else:
            out += ["\\x%02x" % b for b in c.encode()]
    return "".join(out)


# --- the oracle ---

def pre_tokenizer(name):
    if name == "gpt2":
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    if name == "smollm":
        first, second = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)
    elif name in SEQUENCES:
        splits = [pre_tokenizers.Split(Regex(expression), "isolated") for expression in SEQUENCES[name]]
        return pre_tokenizers.Sequence(splits + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    else:
        first = pre_tokenizers.Split(Regex({"llama-bpe": LLAMA3, "qwen2": QWEN2, "tekken": TEKKEN,
                                            "gpt-4o": GPT4O}[name]), "isolated")
        second = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([first, second])


def oracle(vocab, column):
    """vocab: (pieces, types, merges). Without +special, control tokens are no tokens for the oracle."""
    pieces, types, merges = vocab
    name, _, special = column.partition("+")
    model = {piece: i for i, piece in enumerate(pieces) if types[i] != USER_DEFINED}
    tokenizer = Tokenizer(models.BPE(model, [tuple(m.split(" ")) for m in merges], ignore_merges=name in ("llama-bpe", "tekken")))
    tokenizer.pre_tokenizer = pre_tokenizer(name)
    if name in COMPOSED:
        tokenizer.normalizer = normalizers.NFC()
    wanted = [USER_DEFINED, CONTROL] if special else [USER_DEFINED]
    added = [i for i, kind in enumerate(types) if kind in wanted]
    for i in added:
        tokenizer.add_tokens([AddedToken(pieces[i], normalized=False)])
        assert tokenizer.token_to_id(pieces[i]) == i, pieces[i]
    return tokenizer


def train(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer("gpt2")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=TINY_SIZE, initial_alphabet=alphabet, show_progress=False))
    model = __import__("json").loads(tokenizer.to_str())["model"]
    pieces = sorted(model["vocab"], key=model["vocab"].get)
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    types = [NORMAL] * len(pieces)
    # User-defined pieces go last: the oracle gives the ids behind its vocabulary to those.
    for kind, extra in ((NORMAL, TINY_UNMERGED), (CONTROL, TINY_CONTROL), (USER_DEFINED, TINY_USER)):
        pieces += extra
        types += [kind] * len(extra)
    return pieces, types, merges


def write_vocab(path, vocab):
    pieces, types, merges = vocab
    lines = ["T %d %s" % (kind, escape(piece)) for piece, kind in zip(pieces, types)] + ["M " + m for m in merges]
    path.write_bytes(("\n".join(lines) + "\n").encode())


def unescape(line):
    out, at = bytearray(), 0
    raw = line.encode()
    while at < len(raw):
        if raw[at:at + 2] == b"\\x":
            out.append(int(raw[at + 2:at + 4], 16))
            at += 4
        elif raw[at:at + 1] == b"\\":
            out += {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"\\": b"\\"}[raw[at + 1:at + 2]]
            at += 2
        else:
            out.append(raw[at])
            at += 1
    return bytes(out).decode()


def lines_of(path):
    return path.read_bytes().decode().split("\n")[:-1]


def read_vocab(path):
    pieces, types, merges = [], [], []
    for line in lines_of(path):
        if line.startswith("T "):
            _, kind, piece = line.split(" ", 2)
            pieces.append(unescape(piece))
            types.append(int(kind))
        else:
            merges.append(line[2:])
    return pieces, types, merges


def read_gguf(path):
    import gguf
    fields = gguf.GGUFReader(path).fields
    return tuple(fields["tokenizer.ggml." + key].contents() for key in ("tokens", "token_type", "merges"))


def digest(ids):
    value = 0x811C9DC5
    for byte in struct.pack("<%di" % len(ids), *ids):
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return "%d:%08x" % (len(ids), value)


def write_ids(path, vocab, texts):
    columns = []
    for column in COLUMNS:
        tokenizer = oracle(vocab, column)
        columns.append([digest(tokenizer.encode(t, add_special_tokens=False).ids) for t in texts])
    path.write_text("\n".join(" ".join(row) for row in zip(*columns)) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--retrain", action="store_true", help="train the small vocabulary again")
    parser.add_argument("--model", help="GGUF file for model_ids.txt")
    options = parser.parse_args()
    texts = make_corpus()
    assert len(texts) >= 2000, len(texts)
    corpus = HERE / "corpus.txt"
    corpus.write_bytes("".join(escape(t) + "\n" for t in texts).encode())
    assert [unescape(line) for line in lines_of(corpus)] == texts
    if options.retrain or not (HERE / "tiny_vocab.txt").exists():
        write_vocab(HERE / "tiny_vocab.txt", train(texts))
    write_ids(HERE / "tiny_ids.txt", read_vocab(HERE / "tiny_vocab.txt"), texts)
    if options.model:
        write_ids(HERE / "model_ids.txt", read_gguf(options.model), texts)
    print("%d texts, %d characters" % (len(texts), sum(map(len, texts))))


if __name__ == "__main__":
    main()
