//! `wisp tokenize`.

use std::{
    io::{BufWriter, Write},
    path::PathBuf,
};

use anyhow::{Result, bail};
use clap::Args;
use serde_json::json;

use super::{print_json, read_text};
use crate::settings::{MODEL, Settings};

/// Show the tokens of a text.
#[derive(Args)]
pub struct Tokenize {
    /// The text to tokenize
    #[arg(long, value_name = "T", conflicts_with = "file")]
    text: Option<String>,
    /// A file with the text; - is standard input
    #[arg(long, value_name = "F")]
    file: Option<PathBuf>,
    /// Do not add special tokens such as BOS, and do not parse special tokens in the text
    #[arg(long)]
    no_special: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings<{ MODEL }>,
}

impl Tokenize {
    pub fn run(self) -> Result<()> {
        let text = match (&self.text, &self.file) {
            (Some(text), _) => text.clone(),
            (None, Some(path)) => read_text(path)?,
            (None, None) => bail!("give --text or --file"),
        };
        let tokenizer = self.settings.resolve()?.open_tokenizer()?;
        let tokens = tokenizer.encode(&text, !self.no_special, !self.no_special)?;
        if self.json {
            return print_json(&json!({ "tokens": tokens }));
        }
        // Standard output writes each line at once, and there may be millions.
        let mut out = BufWriter::new(std::io::stdout().lock());
        for token in &tokens {
            writeln!(
                out,
                "{token:>8}  {:?}",
                tokenizer.token(*token).unwrap_or_default()
            )?;
        }
        Ok(out.flush()?)
    }
}
