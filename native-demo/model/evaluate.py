"""How often wisp-tiny.gguf is right, greedily, on prompts drawn with a seed of their own.

An answer counts when it is exactly the one that the tables give (where several are possible, one of
them); a story when it ends by itself and is about the animal asked for.
"""

import argparse
import random
from pathlib import Path

from tokenizers import Tokenizer

import answers
from language import article, careless
from reference import HERE, Model
from stories import HEROES, ORDERS

EXACT = [answers.explain, answers.animal, answers.colour, answers.opposite, answers.total, answers.capital_city]


def say(model, tokenizer, text, chat):
    """The greedy answer, and whether it ended by itself."""
    if chat:
        text = model.template.render(messages=[{"role": "user", "content": text}], add_generation_prompt=True)
    _, out = model.generate([model.bos, *tokenizer.encode(text, add_special_tokens=False).ids], 300)
    return tokenizer.decode(out).strip(), out[-1] == model.eos


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=40, help="prompts of each kind")
    parser.add_argument("--tokenizer", type=Path, default=HERE / "tokenizer.json")
    args = parser.parse_args()
    model, tokenizer = Model(HERE / "wisp-tiny.gguf"), Tokenizer.from_file(str(args.tokenizer))
    rng = random.Random("evaluation")
    for make in EXACT:
        right = 0
        for i in range(args.count):
            question, expected = make(rng)
            right += say(model, tokenizer, careless(rng, question), i % 2)[0] == expected
        print(f"{make.__name__}: {right} of {args.count}", flush=True)
    ended = about = 0
    for i in range(args.count):
        kind = rng.choice(HEROES["animal"])
        text, stopped = say(model, tokenizer, rng.choice(ORDERS).format(x=article(kind)), i % 2)
        ended += stopped
        about += f" {kind}" in text.split(".")[0]
    print(f"stories about an animal: {about} of {args.count} about it, {ended} ended by themselves")


if __name__ == "__main__":
    main()
