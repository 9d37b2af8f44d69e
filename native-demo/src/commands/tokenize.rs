//! `wisp tokenize`.

use std::{fmt::Write, path::PathBuf};

use anyhow::Result;
use clap::Args;
use serde_json::json;

use super::{read_text, text_or_stdin};
use crate::{
    output::{print, print_json},
    settings::{MODEL, Settings},
};

/// Show the tokens of a text.
#[derive(Args)]
pub struct Tokenize {
    #[command(flatten)]
    input: Input,
    /// Do not add special tokens such as BOS, and do not parse special tokens in the text
    #[arg(long)]
    no_special: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings<{ MODEL }>,
}

/// The text; exactly one of these.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct Input {
    /// The text to tokenize; - is standard input
    #[arg(value_name = "TEXT|-")]
    argument: Option<String>,
    /// The text to tokenize; - is standard input
    #[arg(long, value_name = "T|-", visible_alias = "prompt")]
    text: Option<String>,
    /// A file with the text; - is standard input
    #[arg(long, value_name = "F|-", visible_alias = "prompt-file")]
    file: Option<PathBuf>,
}

impl Tokenize {
    pub fn run(self) -> Result<()> {
        let text = match self.input {
            Input {
                file: Some(path), ..
            } => read_text(&path)?,
            Input { argument, text, .. } => text_or_stdin(&argument.or(text).unwrap_or_default())?,
        };
        let tokenizer = self.settings.resolve()?.open_tokenizer()?;
        let tokens = tokenizer.encode(&text, !self.no_special, !self.no_special)?;
        if self.json {
            return print_json(&json!({ "tokens": tokens }));
        }
        // Many lines at a time: there may be millions.
        for some in tokens.chunks(4096) {
            let mut lines = String::new();
            for token in some {
                let piece = tokenizer.token(*token).unwrap_or_default();
                writeln!(lines, "{token:>8}  {piece:?}")?;
            }
            print(format_args!("{lines}"))?;
        }
        Ok(())
    }
}
