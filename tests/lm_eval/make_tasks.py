#!/usr/bin/env python3
"""Writes cloze.jsonl and text.jsonl from tests/data/doc.txt: which words go on with a passage, and passages as such.

A choice is eight words; the wrong ones come from elsewhere in the same text, so that style and names give nothing away.
"""
import json
import pathlib
import random

HERE = pathlib.Path(__file__).resolve().parent
QUESTIONS, CHOICES, CONTEXT, ANSWER = 60, 4, 50, 8  # the last two in words
PASSAGES, PASSAGE = 5, 700


def cloze(words):
    rng = random.Random(4)
    starts = rng.sample(range(CONTEXT, len(words) - ANSWER), QUESTIONS * CHOICES)
    for number in range(QUESTIONS):
        own, *others = starts[number * CHOICES:(number + 1) * CHOICES]
        answer = rng.randrange(CHOICES)
        order = others[:answer] + [own] + others[answer:]
        yield {"context": " ".join(words[own - CONTEXT:own]), "choices": [" ".join(words[s:s + ANSWER]) for s in order],
               "answer": answer}


def write(name, rows):
    (HERE / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


words = (HERE.parent / "data/doc.txt").read_text().split()
write("cloze.jsonl", cloze(words))
write("text.jsonl", ({"text": " ".join(words[i * PASSAGE:(i + 1) * PASSAGE])} for i in range(PASSAGES)))
