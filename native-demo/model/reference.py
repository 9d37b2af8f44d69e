"""Runs wisp-tiny.gguf in plain numpy, in float64, and writes what it says: golden.json,
tokenizer_golden.json and the samples of MODEL_CARD.md.

It shares no code with the trainer: weights, sizes, vocabulary and chat template are read back from the
GGUF file. Only the text-to-token pairs come from the Python tokenizer that the vocabulary was trained
with, and the vocabulary in the file is checked against it.
"""

import argparse
import json
from pathlib import Path

import gguf
import jinja2
import numpy as np
from tokenizers import Tokenizer

HERE = Path(__file__).parent
PROMPTS = ["Once upon a time", "Tell me a story about a fox.", "What colour is the sky?"]
TEXTS = [
    "Hello", "Hello, world!", "Once upon a time, there was a little fox named Pip.", "the cat sat on the mat",
    "", " ", "  ", "   three spaces", "trailing space ", "tab\there", "line\nbreak", "two\n\nlines", "\r\nwindows",
    "I'm sure they've said we'll don't can't it's", "IT'S LOUD", "2+2=4", "12345678901234567890", "3.14159",
    "What colour is the sky?", "\"Quoted,\" he said.", "a-b_c/d\\e", "!!!???...", "e-mail@example.com", "snake_case_word",
    "naïve café", "Grüße aus Österreich", "ÅÄÖ åäö", "Привет, мир", "你好，世界", "こんにちは", "한국어",
    "مرحبا بالعالم", "שלום", "🦊", "👩‍👩‍👧‍👦 family", "🇩🇪", "e\u0301 combining", "\u00a0no-break\u00a0space",
    "zero\u200bwidth", "\ufeffbom", "½ ² Ⅷ", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "<|im_start|>user", "\x00\x01\x7f", "fn main() { println!(\"hi\"); }",
]
CONVERSATIONS = [
    [{"role": "user", "content": "Hello!"}],
    [{"role": "system", "content": "Be nice."}, {"role": "user", "content": "  Tell me a joke.\n"}],
    [{"role": "user", "content": "My name is Mia."}, {"role": "assistant", "content": "Nice to meet you, Mia!"},
     {"role": "user", "content": "What is my name?"}],
]
SAMPLES = [
    ("", "Once upon a time"), ("", "One day, a little robot"), ("", "Tell me a story about a fox."),
    ("chat", "Tell me a story about a dragon and a mouse."), ("chat", "write a story about sharing"),
    ("chat", "Write a poem about the sea."), ("chat", "Hello!"), ("chat", "Who are you?"),
    ("", "What colour is the sky?"), ("chat", "How do birds fly?"), ("chat", "why is the sky blue"),
    ("chat", "What is 3 + 4?"), ("chat", "What is the opposite of hot?"), ("chat", "What do owls eat?"),
    ("chat", "Tell me something about penguins."), ("chat", "What is the capital of Italy?"), ("chat", "Tell me a joke."),
    ("chat", "Who won the football game?"),
]


def value(reader, key):
    return reader.fields[key].contents()


class Model:
    """The decoder of one GGUF file, one token at a time, every sum in float64."""

    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        self.heads = value(reader, "llama.attention.head_count")
        self.kv_heads = value(reader, "llama.attention.head_count_kv")
        self.layers = value(reader, "llama.block_count")
        self.eps = value(reader, "llama.attention.layer_norm_rms_epsilon")
        self.theta = value(reader, "llama.rope.freq_base")
        self.bos = value(reader, "tokenizer.ggml.bos_token_id")
        self.eos = value(reader, "tokenizer.ggml.eos_token_id")
        self.tokens = value(reader, "tokenizer.ggml.tokens")
        environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
        self.template = environment.from_string(value(reader, "tokenizer.chat_template"))
        self.w = {t.name.removesuffix(".weight"): np.array(t.data, np.float64) for t in reader.tensors}

    def norm(self, x, name):
        return x / np.sqrt(np.mean(x * x) + self.eps) * self.w[name]

    def turn(self, x, position):
        """Rope on `[heads, head_dim]`: each pair (2i, 2i + 1) as a complex number times e^(i angle)."""
        half = x.shape[1] // 2
        angles = position * self.theta ** (-np.arange(half) / half)
        pairs = (x[:, 0::2] + 1j * x[:, 1::2]) * np.exp(1j * angles)
        return np.stack([pairs.real, pairs.imag], axis=-1).reshape(x.shape)

    def step(self, token, caches):
        """The logits after one more token; `caches` holds each layer's keys and values so far."""
        x = self.w["token_embd"][token]
        for i, (keys, values) in enumerate(caches):
            b = f"blk.{i}."
            h = self.norm(x, b + "attn_norm")
            q, k, v = (self.w[b + n] @ h for n in ("attn_q", "attn_k", "attn_v"))
            q = self.turn(q.reshape(self.heads, -1), len(keys))
            keys.append(self.turn(k.reshape(self.kv_heads, -1), len(keys)))
            values.append(v.reshape(self.kv_heads, -1))
            mixed = []
            for head in range(self.heads):
                group = head * self.kv_heads // self.heads
                score = np.array([k[group] @ q[head] for k in keys]) / np.sqrt(q.shape[1])
                weight = np.exp(score - score.max())
                mixed.append(weight / weight.sum() @ np.array([v[group] for v in values]))
            x = x + self.w[b + "attn_output"] @ np.concatenate(mixed)
            h = self.norm(x, b + "ffn_norm")
            gate = self.w[b + "ffn_gate"] @ h
            x = x + self.w[b + "ffn_down"] @ (gate / (1 + np.exp(-gate)) * (self.w[b + "ffn_up"] @ h))
        return self.w["token_embd"] @ self.norm(x, "output_norm")

    def generate(self, prompt, count, stop=True):
        """The prompt's last logits and the greedy continuation, up to EOS where `stop` is set."""
        caches = [([], []) for _ in range(self.layers)]
        for token in prompt:
            logits = self.step(token, caches)
        first, out = logits, []
        while len(out) < count:
            out.append(int(np.argmax(logits)))
            if stop and out[-1] == self.eos:
                break
            logits = self.step(out[-1], caches)
        return first, out


def golden(model, tokenizer):
    """Greedy tokens (past EOS too) and the logits after the prompt."""
    cases = []
    for text in PROMPTS:
        prompt = [model.bos, *tokenizer.encode(text, add_special_tokens=False).ids]
        logits, out = model.generate(prompt, 48, stop=False)
        cases.append({"text": text, "prompt_tokens": prompt, "tokens": out, "continuation": tokenizer.decode(out, skip_special_tokens=False),
                      "logits": [float(np.float32(x)) for x in logits]})
    return {"file": "wisp-tiny.gguf", "arithmetic": "float64 on the stored F16 weights, printed as float32", "cases": cases}


def tokenizer_golden(model, plain):
    """Pairs of text and ids in which special tokens are plain text, and rendered conversations."""
    pairs = [{"text": t, "ids": plain.encode(t, add_special_tokens=False).ids} for t in TEXTS]
    chats = []
    for messages in CONVERSATIONS:
        for open_turn in (False, True):
            text = model.template.render(messages=messages, add_generation_prompt=open_turn)
            chats.append({"messages": messages, "add_generation_prompt": open_turn, "text": text})
    return {"pairs": pairs, "chat": chats}


def samples(model, tokenizer):
    """Greedy answers, as Markdown."""
    out = []
    for kind, text in SAMPLES:
        full = text
        if kind == "chat":
            full = model.template.render(messages=[{"role": "user", "content": text}], add_generation_prompt=True)
        prompt = [model.bos, *tokenizer.encode(full, add_special_tokens=False).ids]
        _, tokens = model.generate(prompt, 300)
        ended = tokens[-1] == model.eos
        said = tokenizer.decode(tokens).strip("\n").replace("\n", "\n> ")
        out.append(f"**{text}** ({kind or 'completion'}{'' if ended else ', cut off after 300 tokens'})\n\n> {said}\n")
    return "\n".join(out)


def plain_tokenizer(path):
    """The tokenizer without its special tokens, which are then ordinary text."""
    data = json.loads(path.read_text(encoding="utf-8"))
    return Tokenizer.from_str(json.dumps(data | {"added_tokens": []}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default=HERE / "wisp-tiny.gguf")
    parser.add_argument("--tokenizer", type=Path, default=HERE / "build/tokenizer.json")
    parser.add_argument("--samples", action="store_true", help="only print the samples")
    args = parser.parse_args()
    model, tokenizer = Model(args.model), Tokenizer.from_file(str(args.tokenizer))
    vocab = tokenizer.get_vocab()
    assert sorted(vocab, key=vocab.get) == model.tokens, "the file's vocabulary is another"
    if not args.samples:
        write = {"golden.json": golden(model, tokenizer),
                 "tokenizer_golden.json": tokenizer_golden(model, plain_tokenizer(args.tokenizer))}
        for name, data in write.items():
            text = json.dumps(data, ensure_ascii=True, indent=1)
            (HERE / name).write_text(text + "\n", encoding="utf-8")
    text = samples(model, tokenizer)
    print(text)
    card = HERE / "MODEL_CARD.md"
    if not args.samples and card.exists():
        before, mark, rest = card.read_text(encoding="utf-8").partition("<!-- samples -->\n")
        _, end, after = rest.partition("<!-- /samples -->")
        card.write_text(before + mark + "\n" + text + "\n" + end + after, encoding="utf-8")


if __name__ == "__main__":
    main()
