//! Parts of messages.

use wisp_types::Encoding;

/// What to do about a file that ends early.
pub(super) const INCOMPLETE: &str =
    "The download is incomplete: delete the file and download it again";

/// What to do about a file that contradicts itself.
pub(super) const DAMAGED: &str = "The file is damaged: delete it and download it again";

/// Formats a number of bytes with its digits in groups of three: `8,392,704`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Lists the encodings that Wisp computes with.
pub(super) fn supported_encodings() -> String {
    let names: Vec<String> = Encoding::file_encodings().map(|e| e.to_string()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_in_threes() {
        for (number, expected) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (8_392_704, "8,392,704"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ] {
            assert_eq!(grouped(number), expected);
        }
    }
}
