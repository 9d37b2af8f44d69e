//! What a tokenizer needs to know of a GGUF file.

/// Typed look-ups in the key-value metadata of a GGUF file. The reader of the format lives in
/// another crate and implements this trait.
///
/// Every method returns `None` when the key is absent or its value has another type.
pub trait GgufMetadata {
    /// Returns a string.
    fn string(&self, key: &str) -> Option<&str>;
    /// Returns an array of strings.
    fn strings(&self, key: &str) -> Option<&[String]>;
    /// Returns an array of floats; an integer array is converted.
    fn floats(&self, key: &str) -> Option<Vec<f32>>;
    /// Returns an array of integers of any width and sign.
    fn ints(&self, key: &str) -> Option<Vec<i64>>;
    /// Returns an unsigned integer of any width, or a signed one that is not negative.
    fn uint(&self, key: &str) -> Option<u64>;
    /// Returns a boolean.
    fn boolean(&self, key: &str) -> Option<bool>;
    /// Returns the keys that start with `prefix`. Only named chat templates need it.
    fn keys_with_prefix(&self, prefix: &str) -> Vec<&str> {
        let _ = prefix;
        Vec::new()
    }
}
