"""Writes the training corpus: one JSON document a line, the same for the same seed.

A document is a list of alternating parts: what is given, what is to be learned, and so on (the first
part of a story told unasked is empty). Special tokens are spelled out. Everything comes from the tables
under corpus/, which were written for this model; there is no third-party text in it.
"""

import argparse
import json
import random
from pathlib import Path

from answers import answer, joke, poem, riddle
from language import careless
from stories import NAMES, request, story

START, END = "<|im_start|>", "<|im_end|>"
SYSTEM = [
    "You are a helpful assistant.", "You are Wisp, a small and friendly storyteller.", "You are a kind assistant.",
    "Answer in short sentences.", "You are a friendly helper. Be brief.", "You tell stories to children.",
    "You are a helpful, honest assistant. Answer the user's questions.", "Be nice.",
]
SHARES = {"story": 0.09, "request": 0.13, "answer": 0.46, "chat": 0.32}


def told(rng):
    return ["", story(rng).text + END]


def asked(rng, make):
    question, text = make(rng)
    return [question, "\n" + text + END]


AGAIN = ["Another one", "Another one, please.", "One more!", "Tell me another one.", "More, please.", "Again!"]


def again(rng, make):
    """A request and then a request for one more of the same kind."""
    return [make(rng), (careless(rng, rng.choice(AGAIN)), make(rng)[1])]


def named(rng):
    """The user gives a name, and may ask for it later."""
    name = rng.choice(NAMES[rng.choice(("he", "she"))])
    said = rng.choice(("My name is {}.", "I am {}.", "Hi, I'm {}.", "Hello, my name is {}.", "Call me {}.", "I am called {}."))
    turns = [(said.format(name), f"Nice to meet you, {name}! What would you like to hear?")]
    if rng.random() < 0.5:
        turns.append(answer(rng))
    if rng.random() < 0.7:
        question = rng.choice(("What is my name?", "Do you know my name?", "Who am I?", "What's my name?", "What am I called?"))
        turns.append((question, f"Your name is {name}."))
    return turns


def turns(rng):
    """What a conversation says: pairs of the user's words and the answer."""
    chance = rng.random()
    if chance < 0.08:
        return named(rng)
    if chance < 0.14:
        return again(rng, rng.choice((joke, poem, riddle, request)))
    out = []
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        out.append(request(rng) if rng.random() < 0.2 else answer(rng))
    return out


def chat(rng):
    """A conversation in the model's chat format."""
    parts, given = [], ""
    if rng.random() < 0.15:
        given = f"{START}system\n{rng.choice(SYSTEM)}{END}\n"
    for question, text in turns(rng):
        parts += [f"{given}{START}user\n{question}{END}\n{START}assistant\n", text + END]
        given = "\n"
    return parts


MAKERS = {"story": told, "request": lambda r: asked(r, request), "answer": lambda r: asked(r, answer), "chat": chat}


def documents(seed, count):
    rng = random.Random(seed)
    kinds, shares = list(SHARES), list(SHARES.values())
    for _ in range(count):
        yield MAKERS[rng.choices(kinds, shares)[0]](rng)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("build/corpus.jsonl"))
    parser.add_argument("--documents", type=int, default=110_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sample", metavar="FILE", help="also write the first 200 KB as plain text")
    args = parser.parse_args()
    args.out.parent.mkdir(exist_ok=True)
    sample = []
    with open(args.out, "w", encoding="utf-8") as out:
        for document in documents(args.seed, args.documents):
            out.write(json.dumps(document, ensure_ascii=False) + "\n")
            if args.sample and sum(map(len, sample)) < 200_000:
                sample.append("".join(document) + "\n\n")
    if args.sample:
        with open(args.sample, "w", encoding="utf-8") as out:
            out.write("".join(sample))


if __name__ == "__main__":
    main()
