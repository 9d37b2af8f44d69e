//! The flags that say how tokens are sampled.

use anyhow::Result;
use clap::Args;
use wisp_engine::{SamplingParams, pipelines::PipelineConfig};

/// How tokens are drawn.
#[derive(Args, Clone)]
pub struct SamplingArgs {
    /// 0 is greedy: always the likeliest token
    #[arg(long, default_value_t = 0.0, value_name = "T")]
    pub temperature: f32,
    /// Draw from the likeliest tokens that together have probability P
    #[arg(long, default_value_t = 1.0, value_name = "P")]
    pub top_p: f32,
    /// Leave out tokens less than P times as likely as the likeliest
    #[arg(long, default_value_t = 0.0, value_name = "P")]
    pub min_p: f32,
    /// Above 1: tokens that were seen become less likely
    #[arg(long, default_value_t = 1.0, value_name = "R")]
    pub repetition_penalty: f32,
    /// Taken off the logits of tokens that the answer already has
    #[arg(
        long,
        default_value_t = 0.0,
        value_name = "P",
        allow_negative_numbers = true
    )]
    pub presence_penalty: f32,
    /// Taken off the logits of tokens for each time that the answer has them
    #[arg(
        long,
        default_value_t = 0.0,
        value_name = "P",
        allow_negative_numbers = true
    )]
    pub frequency_penalty: f32,
    /// Add VALUE to the logit of token ID; may be given several times
    #[arg(long, value_name = "ID=VALUE", value_parser = logit_bias)]
    pub logit_bias: Vec<(u32, f32)>,
    /// The same seed draws the same tokens
    #[arg(long, default_value_t = 0, value_name = "S")]
    pub seed: u32,
}

/// Reads ID=VALUE.
fn logit_bias(text: &str) -> Result<(u32, f32), String> {
    let parsed = text.split_once('=').and_then(|(token, value)| {
        let value: f32 = value.trim().parse().ok()?;
        Some((token.trim().parse().ok()?, value)).filter(|_| value.is_finite())
    });
    parsed.ok_or_else(|| "give a token's id and a number, such as 42=-1.5".into())
}

impl SamplingArgs {
    /// The parameters over those of the configuration, checked.
    pub fn params(&self, config: &PipelineConfig) -> Result<SamplingParams> {
        let params = SamplingParams {
            temperature: self.temperature,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            logit_bias: self.logit_bias.clone(),
            seed: self.seed,
            ..config.sampling()
        };
        params.check()?;
        Ok(params)
    }
}
