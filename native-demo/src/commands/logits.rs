//! `wisp logits`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use safetensors::{Dtype, tensor::TensorView};
use wisp_engine::{Canceller, files};

use super::{LOGIT_ROWS, TokenList};
use crate::{
    adapter::AdapterArgs,
    interrupt, message,
    open::load,
    settings::{DEVICE, LIMITS, LORA, MODEL, Settings},
};

/// Write the logits of every position to a safetensors file.
#[derive(Args)]
pub struct Logits {
    /// Token ids, such as 1,2,3
    #[arg(long, value_name = "IDS")]
    tokens: TokenList,
    /// The file to write, with the F32 tensor "logits" [tokens, vocab]
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
        let open = settings.open_with(|builder| builder.logit_rows(LOGIT_ROWS))?;
        let TokenList(tokens) = self.tokens;
        let model = load(open.for_prompt(tokens.len(), Some(0)))?;
        let adapter = self.adapter.choose(&model)?;
        let vocab = model.info().vocab_size as usize;
        let bytes = Vec::with_capacity(tokens.len().saturating_mul(vocab).saturating_mul(4));
        interrupt::begin(Canceller::new());
        let bytes = model.try_fold_logits(&tokens, adapter.as_deref(), bytes, |bytes, rows| {
            bytes.extend(rows.iter().flat_map(|logit| logit.to_le_bytes()));
            interrupt::or_continue()
        })?;
        interrupt::end();
        if interrupt::happened() {
            bail!("interrupted: nothing was written");
        }
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
        message!(
            "wrote {} x {vocab} logits to {}",
            tokens.len(),
            self.out.display()
        );
        Ok(())
    }
}
