//! What a tokenizer needs from a GGUF header, as a view: the reader itself lives in `weights`.

/// Typed look-ups in a file's key/value metadata.
///
/// Every method gives `None` when the key is absent or its value has another type.
pub trait Metadata {
    /// A string value.
    fn string(&self, key: &str) -> Option<&str>;
    /// An array of strings.
    fn strings(&self, key: &str) -> Option<&[String]>;
    /// An array of floats (an integer array is converted).
    fn floats(&self, key: &str) -> Option<Vec<f32>>;
    /// An array of integers of any width and sign.
    fn ints(&self, key: &str) -> Option<Vec<i64>>;
    /// An unsigned integer value of any width (a non-negative signed one too).
    fn uint(&self, key: &str) -> Option<u64>;
    /// A boolean value.
    fn boolean(&self, key: &str) -> Option<bool>;
    /// The keys that start with `prefix`; only named chat templates need it.
    fn keys_with_prefix(&self, prefix: &str) -> Vec<&str> {
        let _ = prefix;
        Vec::new()
    }
}
