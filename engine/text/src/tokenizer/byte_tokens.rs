//! Tokens that stand for single bytes in vocabularies of text.

/// Returns the byte of a token spelled `<0xHH>`.
pub(crate) fn parse_byte_token(text: &str) -> Option<u8> {
    let hex = text.strip_prefix("<0x")?.strip_suffix('>')?;
    let is_hex = hex.len() == 2 && hex.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_hex.then(|| u8::from_str_radix(hex, 16).ok()).flatten()
}
