//! Patterns of kernels' names.

/// True if a name fits a pattern, in which `*` stands for any text: `matmul.*.tiled`.
pub fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|name| {
            let ends = name.char_indices().map(|(i, _)| i).chain([name.len()]);
            ends.into_iter().any(|i| matches(rest, &name[i..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stands_for_any_text() {
        assert!(matches("matmul.*.tiled", "matmul.q4_0.tiled"));
        assert!(matches("matmul.*.tiled*", "matmul.q4_0.tiled"));
        assert!(matches("*attention.*", "full_attention.f32.baseline"));
        assert!(!matches("matmul.*.tiled", "matmul.q4_0.tiled_scalar"));
        assert!(!matches("matmul.tiled", "matmul.q4_0.tiled"));
    }
}
