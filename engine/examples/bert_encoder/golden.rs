//! `golden.json`: texts, and what PyTorch makes of them.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A batch of texts with PyTorch's hidden states.
#[derive(Deserialize)]
pub struct Golden {
    /// How many texts.
    pub texts: u64,
    /// Tokens of the longest.
    pub tokens: u64,
    /// How many numbers of each state are kept.
    pub width: usize,
    /// The model's inputs, text by text.
    pub ids: Vec<u32>,
    /// Which segment each token is of.
    pub kinds: Vec<u32>,
    /// 1 where a token counts.
    pub mask: Vec<u32>,
    /// The first numbers of each token's state.
    pub hidden_states: Vec<f32>,
    /// The first numbers of each text's state.
    pub pooled: Vec<f32>,
}

impl Golden {
    /// The batch of a size, `small` or `base`.
    pub fn read(size: &str) -> Result<Golden, Box<dyn std::error::Error>> {
        let all = serde_json::from_str(include_str!("golden.json"));
        let mut all: BTreeMap<String, Golden> = all?;
        let sizes: Vec<&String> = all.keys().collect();
        let unknown = format!("there is no size {size:?}, but {sizes:?}");
        Ok(all.remove(size).ok_or(unknown)?)
    }

    /// The largest difference of the kept numbers of states that are `hidden` wide.
    pub fn difference(&self, hidden: u64, states: &[f32], expected: &[f32]) -> f32 {
        let rows = states.chunks(hidden as usize);
        let kept = rows.flat_map(|row| &row[..self.width]);
        kept.zip(expected)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f32::max)
    }
}
