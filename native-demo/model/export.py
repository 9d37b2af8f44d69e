"""Writes wisp-tiny.gguf from a checkpoint: matrices in F16, norms in F32, tokenizer and chat template."""

import argparse
import json
from pathlib import Path

import gguf
import numpy as np

import llama

LARGEST = 4_000_000  # bytes


def write_tokenizer(writer, path):
    """Vocabulary, merges and special tokens as llama.cpp's `gpt2` tokenizer has them."""
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    special = {t["content"] for t in tokenizer["added_tokens"]}
    tokens = sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].get)
    kinds = [gguf.TokenType.CONTROL if t in special else gguf.TokenType.NORMAL for t in tokens]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(tokens.index("<|endoftext|>"))
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_chat_template(Path("chat_template.jinja").read_text(encoding="utf-8").strip())


def write_sizes(writer, c):
    writer.add_name("Wisp Tiny")
    writer.add_author("The Wisp authors")
    writer.add_description("A very small model for little stories, poems and short answers in English")
    writer.add_license("MIT OR Apache-2.0")
    writer.add_languages(["en"])
    writer.add_tags(["text-generation"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_context_length(c.context)
    writer.add_embedding_length(c.hidden)
    writer.add_block_count(c.layers)
    writer.add_feed_forward_length(c.ffn)
    writer.add_head_count(c.heads)
    writer.add_head_count_kv(c.kv_heads)
    writer.add_rope_dimension_count(c.head_dim)
    writer.add_rope_freq_base(c.rope_theta)
    writer.add_layer_norm_rms_eps(c.rms_eps)
    writer.add_vocab_size(c.vocab)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--out", type=Path, default=Path("wisp-tiny.gguf"))
    args = parser.parse_args()
    writer = gguf.GGUFWriter(args.out, "llama")
    write_sizes(writer, llama.Config())
    write_tokenizer(writer, args.build / "tokenizer.json")
    params = np.load(args.build / "checkpoint.npz")
    for name in params:
        kind = np.float32 if name.endswith("norm") else np.float16
        writer.add_tensor(name + ".weight", params[name].astype(kind))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    size = args.out.stat().st_size
    print(f"{args.out}: {sum(params[n].size for n in params)} parameters, {size} bytes")
    if size > LARGEST:
        raise SystemExit(f"{args.out} has {size} bytes, more than {LARGEST}")


if __name__ == "__main__":
    main()
