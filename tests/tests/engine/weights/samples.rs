//! Small valid files that other tests read or damage.

use wisp_engine::weights::Encoding;
use wisp_engine::weights::gguf::{Array, Value};
use wisp_tests::gguf_writer::GgufWriter;
use wisp_tests::quantize::quantize;

/// Returns pseudo-random values, approximately normally distributed, the same in every run.
pub fn noise(count: usize) -> Vec<f32> {
    let mut state = 0x2545_f491u32;
    let uniform = |state: &mut u32| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (*state >> 8) as f32 / (1 << 24) as f32
    };
    // The sum of a few uniform values is close to normally distributed, as weights are.
    let mut normal = || (0..6).map(|_| uniform(&mut state)).sum::<f32>() - 3.0;
    (0..count).map(|_| normal()).collect()
}

/// Returns a metadata value of every type.
pub fn values() -> Vec<(&'static str, Value)> {
    let strings = ["", "a", "Wört"].into_iter().collect();
    let nested = vec![Array::U8(vec![1, 2]), Array::U8(vec![]), Array::U8(vec![3])];
    vec![
        ("u8", Value::U8(200)),
        ("i8", Value::I8(-100)),
        ("u16", Value::U16(60_000)),
        ("i16", Value::I16(-30_000)),
        ("u32", Value::U32(4_000_000_000)),
        ("i32", Value::I32(-2_000_000_000)),
        ("f32", Value::F32(1.5)),
        ("bool", Value::Bool(true)),
        ("string", Value::String("text".into())),
        ("u64", Value::U64(1 << 63)),
        ("i64", Value::I64(i64::MIN)),
        ("f64", Value::F64(-0.1)),
        ("u8s", Value::Array(Array::U8(vec![1, 2, 255]))),
        ("i8s", Value::Array(Array::I8(vec![-1]))),
        ("u16s", Value::Array(Array::U16(vec![1, 65_535]))),
        ("i16s", Value::Array(Array::I16(vec![-2]))),
        ("u32s", Value::Array(Array::U32(vec![3, u32::MAX]))),
        ("i32s", Value::Array(Array::I32((-700..700).collect()))),
        ("f32s", Value::Array(Array::F32(vec![0.25, -4.0]))),
        ("bools", Value::Array(Array::Bool(vec![true, false]))),
        ("strings", Value::Array(Array::String(strings))),
        ("arrays", Value::Array(Array::Array(nested))),
        ("u64s", Value::Array(Array::U64(vec![]))),
        ("i64s", Value::Array(Array::I64(vec![i64::MAX]))),
        ("f64s", Value::Array(Array::F64(vec![1e300]))),
    ]
}

/// Returns a file with a value of every type and a tensor `[2, 256]` in every encoding.
pub fn everything(version: u32, big_endian: bool) -> Vec<u8> {
    let mut writer = GgufWriter::new(version, big_endian).alignment(64);
    for (key, value) in values() {
        writer = writer.key(key, value);
    }
    for encoding in Encoding::file_encodings() {
        let data = quantize(encoding, &noise(512));
        writer = writer.tensor(encoding.name(), encoding, &[2, 256], &data);
    }
    writer.write()
}

/// Returns a file of a few hundred bytes.
pub fn tiny(version: u32, big_endian: bool) -> Vec<u8> {
    let tokens = ["<s>", "a", ""].into_iter().collect();
    GgufWriter::new(version, big_endian)
        .key("general.architecture", Value::String("llama".into()))
        .key("tokens", Value::Array(Array::String(tokens)))
        .key("rates", Value::Array(Array::F32(vec![0.5, 1.0])))
        .key(
            "nested",
            Value::Array(Array::Array(vec![Array::Bool(vec![true])])),
        )
        .tensor("norm", Encoding::F32, &[3], &[0; 12])
        .tensor("matrix", Encoding::Q4_0, &[2, 32], &[0; 36])
        .write()
}

/// Returns the metadata of a Llama of one block, with a tokenizer and a chat template, as a file without tensors.
pub fn tiny_metadata() -> Vec<u8> {
    let number = |key: &str, value| (format!("llama.{key}"), Value::U32(value));
    let strings = |texts: &[&str]| Value::Array(Array::String(texts.iter().copied().collect()));
    let tokens = ["<unk>", "<s>", "</s>", "\u{2581}", "a", "b", "ab", "<0x41>"];
    let template = "{% for m in messages %}<s>{{ m.role }}: {{ m.content }}</s>{% endfor %}";
    let tokenizer = [
        ("model", Value::String("llama".into())),
        ("tokens", strings(&tokens)),
        (
            "scores",
            Value::Array(Array::F32((0..8).map(|i| -(i as f32)).collect())),
        ),
        (
            "token_type",
            Value::Array(Array::I32(vec![2, 3, 3, 1, 1, 1, 1, 6])),
        ),
        ("bos_token_id", Value::U32(1)),
        ("eos_token_id", Value::U32(2)),
        ("chat_template", Value::String(template.into())),
    ];
    let tokenizer = tokenizer.map(|(key, value)| {
        let key = match key {
            "chat_template" => format!("tokenizer.{key}"),
            _ => format!("tokenizer.ggml.{key}"),
        };
        (key, value)
    });
    let architecture = [
        (
            "general.architecture".to_string(),
            Value::String("llama".into()),
        ),
        number("block_count", 1),
        number("context_length", 64),
        number("embedding_length", 32),
        number("feed_forward_length", 64),
        number("attention.head_count", 2),
        number("attention.head_count_kv", 1),
        (
            "llama.attention.layer_norm_rms_epsilon".to_string(),
            Value::F32(1e-5),
        ),
        ("llama.rope.freq_base".to_string(), Value::F32(10_000.0)),
    ];
    let mut writer = GgufWriter::new(3, false);
    for (key, value) in architecture.into_iter().chain(tokenizer) {
        writer = writer.key(&key, value);
    }
    writer
        .tensor("token_embd.weight", Encoding::F32, &[8, 32], &[0; 1024])
        .write()
}

/// Returns a safetensors file with a matrix, a vector and an integer tensor.
pub fn tiny_safetensors() -> Vec<u8> {
    let header = concat!(
        r#"{"__metadata__":{"format":"pt"},"#,
        r#""a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"#,
        r#""b":{"dtype":"BF16","shape":[3],"data_offsets":[16,22]},"#,
        r#""ids":{"dtype":"I64","shape":[1],"data_offsets":[22,30]}}"#
    );
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend((0..30).map(|i| i as u8));
    file
}

/// Returns the settings of GPTQ's quantisation, a line feed, and a safetensors file with a matrix `[8, 32]` in it.
pub fn tiny_gptq() -> Vec<u8> {
    let header = concat!(
        r#"{"a.g_idx":{"dtype":"I32","shape":[32],"data_offsets":[0,128]},"#,
        r#""a.qweight":{"dtype":"I32","shape":[4,8],"data_offsets":[128,256]},"#,
        r#""a.qzeros":{"dtype":"I32","shape":[1,1],"data_offsets":[256,260]},"#,
        r#""a.scales":{"dtype":"F16","shape":[1,8],"data_offsets":[260,276]}}"#
    );
    let mut file = br#"{"quant_method":"gptq","bits":4}"#.to_vec();
    file.push(b'\n');
    file.extend((header.len() as u64).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend([0; 128]);
    file.extend((0..148).map(|i| i as u8));
    file
}

/// Returns ModelOpt's settings of NVFP4, a line feed, and a safetensors file with a matrix `[2, 64]` in it.
pub fn tiny_nvfp4() -> Vec<u8> {
    let header = concat!(
        r#"{"a.weight":{"dtype":"U8","shape":[2,32],"data_offsets":[4,68]},"#,
        r#""a.weight_scale":{"dtype":"F8_E4M3","shape":[2,4],"data_offsets":[68,76]},"#,
        r#""a.weight_scale_2":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}   "#
    );
    let mut file = br#"{"quant_method":"modelopt","quant_algo":"NVFP4"}"#.to_vec();
    file.push(b'\n');
    file.extend((header.len() as u64).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(0.5f32.to_le_bytes());
    file.extend(0..72u8);
    file
}
