//! `wisp encode`.

use std::io::Write;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use serde_json::json;
use wisp_engine::pipelines::{
    EncodeOptions, EncoderTokenizer, ModelFiles, ModelLimits, Pooling, TextEncoder,
};

use super::{TokenList, print_json};
use crate::settings::{DEVICE, MODEL, Settings};

/// Turn texts into embeddings, with an encoder such as BERT.
///
/// All texts run as one batch. Texts longer than the model's files allow are cut, as
/// sentence-transformers does.
#[derive(Args)]
pub struct Encode {
    /// The texts
    #[arg(long, value_name = "T", num_args = 1.., required_unless_present = "tokens")]
    text: Vec<String>,
    /// Token ids of a text, used as they are: 1,2,3
    #[arg(long, value_name = "IDS", conflicts_with = "text")]
    tokens: Vec<TokenList>,
    /// How the hidden states of a text's tokens become one; none: they are all given, as they are
    /// [default: as the model's files say, or else mean]
    #[arg(long, value_enum)]
    pooling: Option<PoolingChoice>,
    /// Leave embeddings as long as they are, rather than scale them to length 1
    #[arg(long)]
    no_normalize: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings<{ MODEL | DEVICE }>,
}

/// Values of `--pooling`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PoolingChoice {
    /// Their mean
    Mean,
    /// The first token's
    Cls,
    /// All of them
    None,
}

/// The most tokens of several texts that run at the same time.
const STEP_TOKENS: u64 = 4096;

/// The most texts that run at the same time.
const STEP_TEXTS: u64 = 256;

impl Encode {
    pub fn run(self) -> Result<()> {
        let settings = self.settings.resolve()?;
        let files = settings.open()?;
        files.model_spec.encoder()?;
        let texts = self.tokens(&files)?;
        TextEncoder::check(&files.model_spec, &texts)?;
        let lengths = texts.iter().map(|tokens| tokens.len() as u64);
        let limits = ModelLimits {
            max_length: lengths.clone().max().unwrap_or(1),
            max_batch: (texts.len() as u64).min(STEP_TEXTS),
            max_step_tokens: lengths.sum::<u64>().min(STEP_TOKENS),
            ..ModelLimits::default()
        };
        let mut encoder = settings.load_encoder(&files, limits)?;
        let pooling = match self.pooling {
            Some(PoolingChoice::None) => {
                let hidden = encoder.hidden_states_blocking(&texts)?;
                let width = encoder.width();
                let rows = |text: &Vec<f32>| text.chunks(width).map(<[f32]>::to_vec).collect();
                return self.print("hidden", &hidden.iter().map(rows).collect::<Vec<Vec<_>>>());
            }
            Some(PoolingChoice::Mean) => Some(Pooling::Mean),
            Some(PoolingChoice::Cls) => Some(Pooling::Cls),
            None => None,
        };
        let normalize = !self.no_normalize;
        if normalize && files.sentence_transformer.normalizes == Some(false) {
            eprintln!(
                "note: this model's own files leave embeddings as long as they are; so does --no-normalize"
            );
        }
        let options = EncodeOptions { pooling, normalize };
        self.print("embeddings", &[encoder.embed_blocking(&texts, options)?])
    }

    /// The tokens of each text.
    fn tokens(&self, files: &ModelFiles) -> Result<Vec<Vec<u32>>> {
        if self.text.is_empty() {
            return Ok(self.tokens.iter().map(|list| list.0.clone()).collect());
        }
        let tokenizer = EncoderTokenizer::of(files);
        let mut texts = Vec::with_capacity(self.text.len());
        for (i, text) in (1..).zip(&self.text) {
            if text.trim().is_empty() {
                bail!("text {i} is empty: there is nothing to encode");
            }
            let tokenized = tokenizer.tokenize(text)?;
            if tokenized.cut > 0 {
                eprintln!(
                    "note: text {i} is cut to {} tokens, the most that the model's files allow; {} are left out",
                    tokenized.tokens.len(),
                    tokenized.cut
                );
            }
            texts.push(tokenized.tokens);
        }
        Ok(texts)
    }

    /// Prints groups of rows: under this name, embeddings as one group without its brackets.
    fn print(&self, name: &str, groups: &[Vec<Vec<f32>>]) -> Result<()> {
        if self.json {
            return match (name, groups) {
                ("embeddings", [rows]) => print_json(&json!({ name: rows })),
                _ => print_json(&json!({ name: groups })),
            };
        }
        let mut out = std::io::stdout().lock();
        for (i, rows) in groups.iter().enumerate() {
            if i > 0 {
                writeln!(out)?;
            }
            for row in rows {
                let numbers: Vec<String> = row.iter().map(f32::to_string).collect();
                writeln!(out, "{}", numbers.join(" "))?;
            }
        }
        Ok(())
    }
}
