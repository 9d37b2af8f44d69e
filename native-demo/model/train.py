"""Trains the tokenizer and the network on the corpus; writes build/tokenizer.json and a checkpoint.

The learning rate rises over the first steps, stays for a third of the run and then falls to zero. The
last steps see rows of 512 tokens, the ones before rows of 256. Documents share rows, but none
sees another.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import llama
import optimiser

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
BOS = 0
TOKENS_A_STEP = 2048
CONTEXT_WEIGHT = 0.1  # of the loss on what is given rather than to be learned
HELD_OUT = 1000
STEADY, LONG_FROM = 0.35, 0.85  # parts of the run: when the rate falls, when rows get long


def train_tokenizer(documents, path):
    """A byte-level BPE of 1024 tokens; the special tokens come first."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=llama.Config.vocab, special_tokens=SPECIAL, show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    plain = ("".join(d).replace("<|im_start|>", "").replace("<|im_end|>", "") for d in documents[:30_000])
    tokenizer.train_from_iterator(plain, trainer)
    assert tokenizer.get_vocab_size() == llama.Config.vocab
    tokenizer.save(str(path))
    return tokenizer


def encode(tokenizer, documents):
    """Each document as its tokens, BOS first, and their weights in the loss."""
    parts = tokenizer.encode_batch_fast([part for d in documents for part in d], add_special_tokens=False)
    parts = iter(parts)
    out = []
    for document in documents:
        ids, weights = [BOS], [0.0]
        for i in range(len(document)):
            new = next(parts).ids
            ids += new
            weights += [1.0 if i % 2 else CONTEXT_WEIGHT] * len(new)
        out.append((np.array(ids, np.int32), np.array(weights, np.float32)))
    return out


def pack(documents, length):
    """Rows of whole documents (first fit among 64 open rows): ids, document numbers, weights."""
    rows, open_rows = [], []
    for d in documents:
        size = len(d[0])
        if size > length:
            continue
        row = next((r for r in open_rows if r[0] + size <= length), None)
        if row is None:
            if len(open_rows) == 64:
                rows.append(open_rows.pop(max(range(64), key=lambda i: open_rows[i][0])))
            row = [0, []]
            open_rows.append(row)
        row[0] += size
        row[1].append(d)
    ids = np.zeros((len(rows), length), np.int32)
    segments = np.full((len(rows), length), -1, np.int32)
    weights = np.zeros((len(rows), length), np.float32)
    for i, (_, members) in enumerate(rows):
        at = 0
        for number, (tokens, weight) in enumerate(members):
            end = at + len(tokens)
            ids[i, at:end], segments[i, at:end], weights[i, at:end] = tokens, number, weight
            at = end
    return ids, segments, weights


def scale(step, done):
    """The learning rates' multiplier at this step, `done` being the part of the run that is over."""
    return min(1.0, (step + 1) / 40, max(0.0, 1 - done) / (1 - STEADY))


def make_step(config):
    @jax.jit
    def step(params, state, ids, segments, weights, lr):
        value, grads = jax.value_and_grad(llama.loss)(params, ids, segments, weights, config)
        params, state, norm = optimiser.update(params, grads, state, lr)
        return params, state, value, norm

    return step


def save(path, params):
    temporary = path.with_suffix(".tmp.npz")
    np.savez(temporary, **{name: np.asarray(p) for name, p in params.items()})
    temporary.replace(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", default="build/corpus.jsonl")
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--steps", type=int, default=3500)
    parser.add_argument("--minutes", type=float, help="run for a time instead of a number of steps")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--init", type=Path, help="go on from these weights")
    parser.add_argument("--peak", type=float, default=1.0, help="the learning rates' largest multiplier")
    parser.add_argument("--tokenizer", type=Path, help="use this tokenizer, train none")
    args = parser.parse_args()

    with open(args.corpus, encoding="utf-8") as lines:
        documents = [json.loads(line) for line in lines]
    if args.tokenizer:
        tokenizer = Tokenizer.from_file(str(args.tokenizer))
    else:
        tokenizer = train_tokenizer(documents, args.build / "tokenizer.json")
    encoded = encode(tokenizer, documents)
    print(f"{len(documents)} documents, {sum(len(d[0]) for d in encoded)} tokens", flush=True)
    held_out, encoded = encoded[:HELD_OUT], encoded[HELD_OUT:]
    rng = np.random.default_rng(args.seed)

    config = llama.Config()
    params = llama.init(jax.random.PRNGKey(args.seed), config)
    if args.init:
        params = {name: jax.numpy.asarray(a) for name, a in np.load(args.init).items()}
    state, step = optimiser.init(params), make_step(config)
    evaluate = jax.jit(lambda p, *batch: llama.loss(p, *batch, config))
    test = [a[:64] for a in pack(held_out, 256)]
    queue, length, seen, log, start = [], 256, 0, [], time.time()
    i, done = 0, 0.0
    while done < 1:
        if done >= LONG_FROM and length == 256:
            length, queue = 512, []
        rows = TOKENS_A_STEP // length
        if len(queue) < rows:
            order = rng.permutation(len(encoded))
            packed = pack([encoded[j] for j in order], length)
            queue = list(rng.permutation(len(packed[0])))
        picked, queue = queue[:rows], queue[rows:]
        batch = [a[picked] for a in packed]
        seen += int((batch[1] >= 0).sum())
        params, state, value, norm = step(params, state, *batch, args.peak * scale(i, done))
        log.append(float(value))
        i += 1
        done = (time.time() - start) / 60 / args.minutes if args.minutes else i / args.steps
        if i % 100 == 0 or done >= 1:
            save(args.build / "checkpoint.npz", params)
            held = float(evaluate(params, *test))
            print(f"step {i}  loss {np.mean(log[-100:]):.4f}  held out {held:.4f}  norm {float(norm):.2f}  "
                  f"{seen} tokens  {time.time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
