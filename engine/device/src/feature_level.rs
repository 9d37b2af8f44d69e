//! How much of an adapter to use.

use std::{fmt, str::FromStr};

use crate::{DeviceError, text::serde_as_text};

/// How much of an adapter to use. Its text form is `full` or `baseline`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FeatureLevel {
    /// Every feature that the adapter has, with its own limits.
    #[default]
    Full,
    /// Only the features and limits that WebGPU guarantees in every browser.
    Baseline,
}

impl FromStr for FeatureLevel {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "full" => Ok(FeatureLevel::Full),
            "baseline" => Ok(FeatureLevel::Baseline),
            _ => Err(DeviceError::UnknownFeatureLevel(text.into())),
        }
    }
}

impl fmt::Display for FeatureLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FeatureLevel::Full => "full",
            FeatureLevel::Baseline => "baseline",
        })
    }
}

serde_as_text!(FeatureLevel);

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
