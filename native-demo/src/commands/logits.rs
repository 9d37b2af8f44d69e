//! `wisp logits`.

use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use wisp_engine::{Canceller, files};

use super::{LOGIT_ROWS, TokenList};
use crate::{
    adapter::AdapterArgs,
    destination::{self, Contents, Inputs},
    interrupt,
    open::load,
    output::message,
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
    #[command(flatten, next_help_heading = "Adapters")]
    adapter: AdapterArgs,
    #[command(flatten)]
    settings: Settings<{ MODEL | DEVICE | LIMITS | LORA }>,
}

/// Returns the header of a safetensors file: its length and JSON, padded to whole words.
fn header(shape: [usize; 2], bytes: usize) -> Vec<u8> {
    let tensor = json!({ "dtype": "F32", "shape": shape, "data_offsets": [0, bytes] });
    let mut text = json!({ "logits": tensor }).to_string();
    text += &" ".repeat(text.len().next_multiple_of(8) - text.len());
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

impl Logits {
    pub fn run(self) -> Result<()> {
        let settings = self.settings.resolve()?;
        let open = settings.open_with(|builder| builder.logit_rows(LOGIT_ROWS))?;
        let saved = settings.config.save_to_serialized_model_path.as_ref();
        let inputs = Inputs::of(&settings.config, &open).with(saved);
        destination::check(&self.out, Contents::Logits, &inputs)?;
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
        let header = header([tokens.len(), vocab], bytes.len());
        let write = |path: &Path| -> Result<()> {
            let mut file = File::create(path)?;
            file.write_all(&header)?;
            Ok(file.write_all(&bytes)?)
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
