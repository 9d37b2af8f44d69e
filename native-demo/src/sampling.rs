//! The flags of token sampling.

use anyhow::{Context, Result, anyhow};
use clap::Args;
use wisp_engine::{
    SamplingParams,
    pipelines::{PipelineConfig, SamplingError},
};

use crate::values::{number, whole};

/// How tokens are sampled.
#[derive(Args, Clone)]
pub struct SamplingArgs {
    /// Temperature of sampling; 0 is greedy, always the most likely token
    #[arg(long, default_value_t = 0.0, value_name = "T", value_parser = number, allow_negative_numbers = true)]
    pub temperature: f32,
    /// Sample from the most likely tokens that together have probability P
    #[arg(long, default_value_t = 1.0, value_name = "P", value_parser = number, allow_negative_numbers = true)]
    pub top_p: f32,
    /// Exclude tokens that are less than P times as likely as the most likely one
    #[arg(long, default_value_t = 0.0, value_name = "P", value_parser = number, allow_negative_numbers = true)]
    pub min_p: f32,
    /// Values above 1 make tokens of the prompt and the answer less likely
    #[arg(long, default_value_t = 1.0, value_name = "R", value_parser = number, allow_negative_numbers = true)]
    pub repetition_penalty: f32,
    /// Subtracted from the logits of tokens that the answer contains already
    #[arg(
        long,
        default_value_t = 0.0,
        value_name = "P",
        value_parser = number,
        allow_negative_numbers = true
    )]
    pub presence_penalty: f32,
    /// Subtracted from the logit of a token for each occurrence in the answer
    #[arg(
        long,
        default_value_t = 0.0,
        value_name = "P",
        value_parser = number,
        allow_negative_numbers = true
    )]
    pub frequency_penalty: f32,
    /// Add VALUE to the logit of token ID; may be given several times
    #[arg(long, value_name = "ID=VALUE", value_parser = logit_bias)]
    pub logit_bias: Vec<(u32, f32)>,
    /// Seed of sampling; equal seeds sample equal tokens [default: a random one, which is printed]
    #[arg(long, value_name = "S", value_parser = whole(0, u32::MAX), allow_negative_numbers = true)]
    pub seed: Option<u32>,
}

/// Parses `ID=VALUE`.
fn logit_bias(text: &str) -> Result<(u32, f32), String> {
    let parsed = text.split_once('=').and_then(|(token, value)| {
        let value: f32 = value.trim().parse().ok()?;
        Some((token.trim().parse().ok()?, value)).filter(|_| value.is_finite())
    });
    parsed.ok_or_else(|| "expected a token id and a number, such as 42=-1.5".into())
}

impl SamplingArgs {
    /// Returns valid parameters from these flags and the configuration. Without a seed they have a random one,
    /// unless sampling is greedy and needs none.
    ///
    /// # Errors
    ///
    /// If a parameter is out of range, or the system has no random numbers.
    pub fn params(&self, config: &PipelineConfig) -> Result<SamplingParams> {
        let seed = match self.seed {
            Some(seed) => seed,
            None if self.temperature > 0.0 => {
                getrandom::u32().context("the system draws no seed: give --seed")?
            }
            None => 0,
        };
        let params = SamplingParams {
            temperature: self.temperature,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            logit_bias: self.logit_bias.clone(),
            seed,
            ..config.sampling()
        };
        let named = |error: SamplingError| match error.name.contains(' ') {
            true => anyhow!("{error}"),
            false => anyhow!("--{error}"),
        };
        params.check().map_err(named)?;
        Ok(params)
    }
}
