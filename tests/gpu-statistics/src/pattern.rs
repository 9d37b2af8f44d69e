//! Patterns of kernels' names.

/// True if a name fits a pattern, in which `*` stands for any text, and none of those after `!`: `matmul.*.tiled
/// !matmul.nf4.*`.
pub fn matches(pattern: &str, name: &str) -> bool {
    if let Some((pattern, others)) = pattern.split_once(" !") {
        return matches(pattern, name) && !others.split(" !").any(|other| matches(other, name));
    }
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
        let but_two = "matmul.*.tiled !matmul.nf4.* !*q4_0*";
        assert!(matches(but_two, "matmul.q4_1.tiled"));
        assert!(!matches(but_two, "matmul.nf4.tiled"));
        assert!(!matches(but_two, "matmul.q4_0.tiled"));
    }
}
