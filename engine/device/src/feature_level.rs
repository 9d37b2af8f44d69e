//! How much of an adapter to use.

use wisp_types::choices;

choices! {
    /// How much of an adapter to use.
    #[derive(Default)]
    FeatureLevel, "feature level" {
        /// Every feature that the adapter has, with its own limits.
        #[default]
        Full = "full",
        /// Only the features and limits that WebGPU guarantees in every browser.
        Baseline = "baseline",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feature_levels_are_parsed_and_displayed() {
        for text in ["full", "baseline"] {
            assert_eq!(text.parse::<FeatureLevel>().unwrap().to_string(), text);
        }
        assert_eq!(
            "half".parse::<FeatureLevel>().unwrap_err().to_string(),
            "unknown feature level \"half\": use full or baseline"
        );
    }
}
