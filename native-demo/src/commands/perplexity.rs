//! `wisp perplexity`.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;
use wisp_engine::{Canceller, device::Capabilities};

use super::{LOGIT_ROWS, read_text, shown};
use crate::{
    adapter::AdapterArgs,
    interrupt,
    open::{files, load, tokenizer},
    output::{counted, print_json, print_line},
    settings::{DEVICE, LIMITS, LORA, MODEL, Settings},
    values::whole,
};

/// Measure how well a model predicts a text.
///
/// The text is split into windows of --context tokens, including the BOS token if the model uses one. All
/// tokens of a window except the first are scored. Perplexity is the exponential of their mean negative
/// log-probability.
#[derive(Args)]
pub struct Perplexity {
    /// The file with the text; - is standard input
    #[arg(long, value_name = "F|-", visible_alias = "prompt-file")]
    file: PathBuf,
    /// Tokens per window [default: 512, or the model's context length if that is less]
    #[arg(long, value_name = "N", value_parser = whole(2, u32::MAX))]
    context: Option<u32>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten, next_help_heading = "Adapters")]
    adapter: AdapterArgs,
    #[command(flatten)]
    settings: Settings<{ MODEL | DEVICE | LIMITS | LORA }>,
}

/// Returns the log-probability of `token` under one row of logits.
fn log_probability(logits: &[f32], token: u32) -> f64 {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits
        .iter()
        .map(|logit| f64::from(logit - max).exp())
        .sum();
    f64::from(logits[token as usize] - max) - sum.ln()
}

impl Perplexity {
    pub fn run(self) -> Result<()> {
        let settings = self.settings.resolve()?;
        let open = settings.open_with(|builder| builder.logit_rows(LOGIT_ROWS))?;
        let tokenizer = tokenizer(open.text())?;
        let tokens = tokenizer.encode(&read_text(&self.file)?, false, false)?;
        // The length does not depend on the device.
        let max = open.limits(&Capabilities::HOST)?.max_length;
        let context = self.context.map_or(512.min(max), u64::from);
        if context < 2 || context > max {
            let most = files(&open)?.model_spec.spec.longest_context();
            let remedy = match most > max {
                true => format!("; --max-length N allows more, at most {most} with this model"),
                false => String::new(),
            };
            bail!("--context must be from 2 to {max}{remedy}");
        }
        let bos = tokenizer.bos().filter(|_| tokenizer.adds_bos());
        let window = context as usize - usize::from(bos.is_some());
        let vocab = files(&open)?.model_spec.spec.vocab_size as usize;
        if let Some(token) = tokens.iter().find(|token| **token as usize >= vocab) {
            bail!("the tokenizer's token {token} is not in the model's vocabulary of {vocab}");
        }
        let model = load(open.with_context_length(context))?;
        let adapter = self.adapter.choose(&model)?;
        interrupt::begin(Canceller::new());
        let bar = ProgressBar::new(tokens.len() as u64);
        let (mut sum, mut count) = (0.0, 0u64);
        for part in tokens.chunks(window.max(1)) {
            let input: Vec<u32> = bos.into_iter().chain(part.iter().copied()).collect();
            let targets: Vec<u32> = input.iter().skip(1).copied().collect();
            let mut targets = targets.into_iter();
            let score = move |(sum, count): &mut (f64, u64), rows: &[f32]| {
                for (row, target) in rows.chunks_exact(vocab).zip(&mut targets) {
                    *sum -= log_probability(row, target);
                    *count += 1;
                }
                interrupt::or_continue()
            };
            (sum, count) =
                model.try_fold_logits(&input, adapter.as_deref(), (sum, count), score)?;
            bar.inc(part.len() as u64);
            if interrupt::happened() {
                // What was scored so far is the result.
                break;
            }
        }
        interrupt::end();
        bar.finish_and_clear();
        if count == 0 {
            bail!(
                "{} has no token to score: give a longer text",
                shown(&self.file)
            );
        }
        let perplexity = (sum / count as f64).exp();
        if self.json {
            return print_json(&json!({ "perplexity": perplexity, "tokens": count }));
        }
        let tokens = counted(count, "token");
        print_line!("perplexity {perplexity:.4} over {tokens}")
    }
}
