//! Keys of GGUF metadata that describe a tokenizer.

use wisp_weights::gguf::Value;

/// Keys, without the prefix `tokenizer.`, and their values.
pub(super) type Keys = Vec<(String, Value)>;

/// Makes a text value.
pub(super) fn text(text: &str) -> Value {
    Value::String(text.into())
}

/// Makes the key `tokenizer.ggml.NAME`.
pub(super) fn ggml(name: &str, value: Value) -> (String, Value) {
    (format!("ggml.{name}"), value)
}
