// Virtual GGUF files: a header, and data that is generated when it is read.

const TYPES = { u32: 4, f32: 6, string: 8 };
const Q8_0 = { id: 8, block: 32, bytes: 34 };
const F32 = { id: 0, block: 1, bytes: 4 };
const ALIGN = 32;

class Writer {
  parts = [];
  u32(value) { const b = Buffer.alloc(4); b.writeUInt32LE(value); this.parts.push(b); }
  u64(value) { const b = Buffer.alloc(8); b.writeBigUInt64LE(BigInt(value)); this.parts.push(b); }
  f32(value) { const b = Buffer.alloc(4); b.writeFloatLE(value); this.parts.push(b); }
  string(text) { const b = Buffer.from(text); this.u64(b.length); this.parts.push(b); }
}

/** A Llama of these sizes without a tokenizer, split into several files, each `{ size, read }`. */
export function llamaParts({ layers, width, hidden, heads, headWidth = width / heads, vocab, context = 64 }, count) {
  const metadata = [
    ["general.architecture", "string", "llama"], ["llama.block_count", "u32", layers],
    ["llama.embedding_length", "u32", width], ["llama.feed_forward_length", "u32", hidden],
    ["llama.attention.head_count", "u32", heads], ["llama.context_length", "u32", context],
    ["llama.attention.layer_norm_rms_epsilon", "f32", 1e-5], ["llama.vocab_size", "u32", vocab],
    ["llama.attention.key_length", "u32", headWidth], ["llama.attention.value_length", "u32", headWidth],
  ];
  const tensors = [["token_embd.weight", Q8_0, [width, vocab]], ["output_norm.weight", F32, [width]], ["output.weight", Q8_0, [width, vocab]]];
  for (let i = 0; i < layers; i++) {
    const matrix = (name, rows, cols) => tensors.push([`blk.${i}.${name}.weight`, Q8_0, [cols, rows]]);
    tensors.push([`blk.${i}.attn_norm.weight`, F32, [width]], [`blk.${i}.ffn_norm.weight`, F32, [width]]);
    for (const name of ["attn_q", "attn_k", "attn_v"]) matrix(name, heads * headWidth, width);
    matrix("attn_output", width, heads * headWidth);
    matrix("ffn_gate", hidden, width);
    matrix("ffn_up", hidden, width);
    matrix("ffn_down", width, hidden);
  }
  if (count === 1) return [file(metadata, tensors)];
  return Array.from({ length: count }, (_, no) => {
    const split = [["split.no", "u32", no], ["split.count", "u32", count], ["split.tensors.count", "u32", tensors.length]];
    return file([...(no === 0 ? metadata : []), ...split], tensors.filter((_, i) => i % count === no));
  });
}

/** The same model in one file. */
export const llama = (sizes) => llamaParts(sizes, 1)[0];

function file(metadata, tensors) {
  const out = new Writer();
  out.parts.push(Buffer.from("GGUF"));
  out.u32(3);
  out.u64(tensors.length);
  out.u64(metadata.length);
  for (const [key, type, value] of metadata) {
    out.string(key);
    out.u32(TYPES[type]);
    out[type](value);
  }
  let offset = 0;
  const norms = [];
  for (const [name, type, shape] of tensors) {
    out.string(name);
    out.u32(shape.length);
    for (const size of shape) out.u64(size);
    out.u32(type.id);
    out.u64(offset);
    const bytes = (shape.reduce((a, b) => a * b) / type.block) * type.bytes;
    if (type === F32) norms.push([offset, offset + bytes]);
    offset = Math.ceil((offset + bytes) / ALIGN) * ALIGN;
  }
  let header = Buffer.concat(out.parts);
  header = Buffer.concat([header, Buffer.alloc(Math.ceil(header.length / ALIGN) * ALIGN - header.length)]);
  return { size: header.length + offset, read: (start, end) => read(header, norms, start, end) };
}

/** Returns bytes of the file. Weights are small numbers that differ between pages. */
function read(header, norms, start, end) {
  const bytes = Buffer.alloc(end - start);
  if (start < header.length) header.copy(bytes, 0, start, Math.min(end, header.length));
  for (let at = Math.max(start, header.length); at < end; ) {
    const page = (at - header.length) >> 12;
    const next = Math.min(end, header.length + (page + 1) * 4096);
    bytes.fill(0x0c + ((page * 7) % 5), at - start, next - start);
    at = next;
  }
  for (const [from, to] of norms) {
    for (let at = Math.max(header.length + from, start); at < Math.min(header.length + to, end); at++) {
      // The bytes of 1.0.
      bytes[at - start] = [0, 0, 0x80, 0x3f][(at - header.length - from) % 4];
    }
  }
  return bytes;
}
