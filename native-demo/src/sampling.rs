//! The flags of token sampling.

use anyhow::{Context, Result, anyhow};
use clap::{Args, ValueEnum};
use wisp_engine::{
    SamplingDefaults, SamplingParams,
    pipelines::{SamplingError, TextProcessor},
};

use crate::{
    settings::Resolved,
    values::{number, whole},
};

/// Whether the sampling that a model's files recommend applies where nothing else is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GenerationConfig {
    /// What generation_config.json or the GGUF file recommends: temperature, top-k, top-p, min-p, repetition penalty
    Auto,
    /// The program's defaults
    #[value(alias = "vllm")]
    None,
}

impl GenerationConfig {
    /// Returns what a model recommends, if it is to apply.
    pub fn defaults(self, model: &TextProcessor) -> SamplingDefaults {
        match self {
            GenerationConfig::Auto => *model.sampling_defaults(),
            GenerationConfig::None => SamplingDefaults::default(),
        }
    }
}

/// How tokens are sampled.
#[derive(Args, Clone)]
pub struct SamplingArgs {
    /// Temperature of sampling; 0 is greedy, always the most likely token [default: 0, or as --generation-config says]
    #[arg(long, alias = "temp", value_name = "T", value_parser = number, allow_negative_numbers = true)]
    pub temperature: Option<f32>,
    /// Sample from the most likely tokens that together have probability P [default: 1, or as --generation-config says]
    #[arg(long, value_name = "P", value_parser = number, allow_negative_numbers = true)]
    pub top_p: Option<f32>,
    /// Exclude tokens that are less than P times as likely as the most likely one [default: 0, or as
    /// --generation-config says]
    #[arg(long, value_name = "P", value_parser = number, allow_negative_numbers = true)]
    pub min_p: Option<f32>,
    /// Values above 1 make tokens of the prompt and the answer less likely [default: 1, or as --generation-config says]
    #[arg(
        long,
        alias = "repeat-penalty",
        value_name = "R",
        value_parser = number,
        allow_negative_numbers = true
    )]
    pub repetition_penalty: Option<f32>,
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
    /// Returns valid parameters from these flags and the settings, which [`Self::complete`] completes once the model's
    /// files are open.
    ///
    /// # Errors
    ///
    /// If a parameter is out of range.
    pub fn params(&self, settings: &Resolved) -> Result<SamplingParams> {
        let default = settings.config.sampling();
        let params = SamplingParams {
            temperature: self.temperature.unwrap_or(default.temperature),
            top_p: self.top_p.unwrap_or(default.top_p),
            min_p: self.min_p.unwrap_or(default.min_p),
            repetition_penalty: self
                .repetition_penalty
                .unwrap_or(default.repetition_penalty),
            presence_penalty: self.presence_penalty,
            frequency_penalty: self.frequency_penalty,
            logit_bias: self.logit_bias.clone(),
            seed: self.seed.unwrap_or(default.seed),
            ..default
        };
        let named = |error: SamplingError| match error.name.contains(' ') {
            true => anyhow!("{error}"),
            false => anyhow!("--{error}"),
        };
        params.check().map_err(named)?;
        Ok(params)
    }

    /// Sets the parameters that no flag and no setting sets to those that the model recommends. Without a seed they get a
    /// random one, unless sampling is greedy and needs none.
    ///
    /// # Errors
    ///
    /// If the system has no random numbers.
    pub fn complete(
        &self,
        params: &mut SamplingParams,
        settings: &Resolved,
        model: SamplingDefaults,
    ) -> Result<()> {
        let set = |param: &mut f32, flag: Option<f32>, model: Option<f32>| {
            *param = flag.or(model).unwrap_or(*param);
        };
        set(&mut params.temperature, self.temperature, model.temperature);
        set(&mut params.top_p, self.top_p, model.top_p);
        set(&mut params.min_p, self.min_p, model.min_p);
        set(
            &mut params.repetition_penalty,
            self.repetition_penalty,
            model.repetition_penalty,
        );
        if let (Some(top_k), false) = (model.top_k, settings.top_k_is_set) {
            params.top_k = top_k;
        }
        if self.seed.is_none() && params.temperature > 0.0 {
            params.seed = getrandom::u32().context("the system draws no seed: give --seed")?;
        }
        Ok(())
    }
}
