//! Content digests: cache keys and identities of graphs and kernels.

use sha2::{Digest, Sha256};

/// Returns the SHA-256 of several parts, as 64 lower-case hexadecimal digits.
///
/// Each part is hashed with its length, so `["ab", "c"]` and `["a", "bc"]` have different digests.
pub fn digest<P: AsRef<[u8]>>(parts: impl IntoIterator<Item = P>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        let part = part.as_ref();
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let bytes = hash.finalize();
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_between_parts_change_the_digest() {
        assert_eq!(digest(["ab", "c"]).len(), 64);
        assert_ne!(digest(["ab", "c"]), digest(["a", "bc"]));
        assert_ne!(digest(["a"]), digest(["a", ""]));
    }
}
