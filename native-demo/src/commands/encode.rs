//! `wisp encode`.

use std::io::Write;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use serde_json::json;
use wisp_engine::{
    Pooling,
    pipelines::{EncoderTokenizer, ModelFiles, TextEncoder},
};

use super::{TokenList, print_json};
use crate::{
    open,
    settings::{DEVICE, MODEL, Settings},
};

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

impl Encode {
    pub fn run(self) -> Result<()> {
        let settings = self.settings.resolve()?;
        let open = settings.open()?;
        let files = open::files(&open)?;
        files.model_spec.encoder()?;
        let texts = self.tokens(files)?;
        TextEncoder::check(&files.model_spec, &texts)?;
        let pooling = match self.pooling {
            Some(PoolingChoice::None) => {
                let width = files.model_spec.spec.hidden_size as usize;
                let model = open.for_texts(texts.iter().map(Vec::len)).load()?;
                let hidden = model.embedder().hidden_states(texts)?;
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
        let model = open.for_texts(texts.iter().map(Vec::len)).load()?;
        let mut embedder = model.embedder().normalize(normalize);
        if let Some(pooling) = pooling {
            embedder = embedder.pooling(pooling);
        }
        self.print("embeddings", &[embedder.embed_tokens(texts)?])
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
