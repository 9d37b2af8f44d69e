//! The byte alphabet of byte-level BPE (GPT-2), in which every byte is one printable character.
//!
//! Printable Latin-1 bytes stand for themselves; the other 68 are mapped, in order, to U+0100 and up
//! (`bytes_to_unicode` in OpenAI's GPT-2 encoder).

/// Returns whether a byte stands for itself.
const fn printable(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff)
}

/// The character of every byte.
const CHARACTERS: [char; 256] = {
    let mut table = ['\0'; 256];
    let mut moved = 0;
    let mut byte = 0;
    while byte < 256 {
        let code = if printable(byte as u8) {
            byte as u32
        } else {
            moved += 1;
            0xff + moved
        };
        table[byte] = match char::from_u32(code) {
            Some(character) => character,
            None => '\0',
        };
        byte += 1;
    }
    table
};

/// Appends the characters of `bytes` to `out`.
pub fn encode(bytes: &[u8], out: &mut String) {
    out.extend(bytes.iter().map(|&byte| CHARACTERS[usize::from(byte)]));
}

/// Returns the byte of a character of the alphabet.
fn byte(character: char) -> Option<u8> {
    let code = u32::from(character);
    match code {
        0x100..=0x143 => CHARACTERS
            .iter()
            .position(|&c| c == character)
            .and_then(|index| u8::try_from(index).ok()),
        _ => u8::try_from(code).ok().filter(|&byte| printable(byte)),
    }
}

/// Appends the bytes of a token to `out`. A token with a character outside the alphabet, such as an
/// added token that contains a space, is plain text.
pub fn decode(token: &str, out: &mut Vec<u8>) {
    let start = out.len();
    for character in token.chars() {
        match byte(character) {
            Some(byte) => out.push(byte),
            None => {
                out.truncate(start);
                out.extend_from_slice(token.as_bytes());
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_those_of_gpt2() {
        assert_eq!(CHARACTERS[0x20], 'Ġ');
        assert_eq!(CHARACTERS[0x0a], 'Ċ');
        assert_eq!(CHARACTERS[0], 'Ā');
        assert_eq!(CHARACTERS[0x7f], 'ġ');
        assert_eq!(CHARACTERS[0xad], 'Ń');
        assert_eq!(CHARACTERS[0xff], 'ÿ');
    }

    #[test]
    fn every_byte_round_trips() {
        let bytes: Vec<u8> = (0..=255).collect();
        let mut text = String::new();
        encode(&bytes, &mut text);
        let mut back = Vec::new();
        decode(&text, &mut back);
        assert_eq!(bytes, back);
    }

    #[test]
    fn token_outside_the_alphabet_is_plain_text() {
        let mut out = b"x".to_vec();
        decode("a b", &mut out);
        assert_eq!(out, b"xa b");
    }
}
