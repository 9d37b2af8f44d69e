//! `wisp logits`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use safetensors::{Dtype, tensor::TensorView};
use wisp_engine::files;

use super::TokenList;
use crate::{
    adapter::AdapterArgs,
    settings::{DEVICE, LIMITS, LORA, MODEL, Settings},
};

/// Write the logits of every position to a safetensors file.
#[derive(Args)]
pub struct Logits {
    /// Token ids, used as they are: 1,2,3
    #[arg(long, value_name = "IDS")]
    tokens: TokenList,
    /// The file to write: F32 "logits" [tokens, vocab]
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    adapter: AdapterArgs,
    #[command(flatten)]
    settings: Settings<{ MODEL | DEVICE | LIMITS | LORA }>,
}

impl Logits {
    pub fn run(self) -> Result<()> {
        let settings = self.settings.resolve()?;
        let files = settings.open()?;
        let TokenList(tokens) = self.tokens;
        let mut limits = settings.limits_for(&files, tokens.len(), Some(0))?;
        limits.max_logit_rows = limits.max_step_tokens.min(64);
        let mut generator = settings.load(&files, limits)?.generator;
        let adapter = self.adapter.choose(&generator)?;
        let adapter = adapter.map(|name| generator.adapter(&name)).transpose()?;
        let vocab = files.model_spec.spec.vocab_size as usize;
        let mut bytes = Vec::with_capacity(tokens.len() * vocab * 4);
        pollster::block_on(generator.logits(&tokens, adapter, |piece| {
            bytes.extend(piece.iter().flat_map(|logit| logit.to_le_bytes()))
        }))?;
        let logits = TensorView::new(Dtype::F32, vec![tokens.len(), vocab], &bytes)?;
        let write = |part: &Path| -> Result<()> {
            Ok(safetensors::serialize_to_file(
                [("logits", logits)],
                None,
                part,
            )?)
        };
        files::write_atomic_with(&self.out, write)
            .with_context(|| format!("cannot write {}", self.out.display()))?;
        eprintln!(
            "wrote {} x {vocab} logits to {}",
            tokens.len(),
            self.out.display()
        );
        Ok(())
    }
}
