//! `wisp encode`.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::json;
use wisp_engine::{
    Pooling,
    pipelines::{EncoderTokenizer, ModelFiles, TextEncoder},
};

use super::{TokenList, read_text, text_or_stdin};
use crate::{
    open,
    output::{message, print_json, print_line},
    settings::{DEVICE, MODEL, Settings},
};

/// Compute embeddings of texts with an encoder such as BERT, or with a decoder such as Qwen3-Embedding.
///
/// All texts run as one batch. Texts that exceed the length limit of the model's files are truncated, as in
/// sentence-transformers.
#[derive(Args)]
pub struct Encode {
    #[command(flatten)]
    input: Input,
    /// How the hidden states of a text are pooled into one embedding; none returns them all unchanged
    /// [default: the pooling in the model's files, otherwise mean, or last for a decoder]
    #[arg(long, value_enum)]
    pooling: Option<PoolingChoice>,
    /// Scale embeddings to length 1, also where the model's files list modules without a normalization
    #[arg(long, conflicts_with = "no_normalize")]
    normalize: bool,
    /// Do not scale embeddings to length 1 [default: as the model's files say, otherwise they are scaled]
    #[arg(long)]
    no_normalize: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings<{ MODEL | DEVICE }>,
}

/// The texts, in exactly one of these forms.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct Input {
    /// The texts to encode; - is standard input
    #[arg(value_name = "TEXT|-")]
    texts: Vec<String>,
    /// The texts to encode; - is standard input
    #[arg(long, value_name = "T|-", num_args = 1..)]
    text: Vec<String>,
    /// A file with one text; - is standard input; may be given several times
    #[arg(long, value_name = "F|-", visible_alias = "file")]
    prompt_file: Vec<PathBuf>,
    /// Token ids of a text, such as 1,2,3; may be given several times
    #[arg(long, value_name = "IDS")]
    tokens: Vec<TokenList>,
}

impl Input {
    /// Returns the texts; none if tokens are given.
    fn texts(&self) -> Result<Vec<String>> {
        let files = self.prompt_file.iter().map(|path| read_text(path));
        let texts = self.texts.iter().chain(&self.text);
        files.chain(texts.map(|text| text_or_stdin(text))).collect()
    }
}

/// Values of `--pooling`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PoolingChoice {
    /// The mean over all tokens
    Mean,
    /// The hidden state of the first token
    Cls,
    /// The hidden state of the last token
    Last,
    /// The hidden states of all tokens
    None,
}

impl Encode {
    pub fn run(self) -> Result<()> {
        let settings = self.settings.resolve()?;
        let open = settings.open()?.for_embeddings();
        let files = open::files(&open)?;
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
            Some(PoolingChoice::Last) => Some(Pooling::Last),
            None => None,
        };
        let model = open.for_texts(texts.iter().map(Vec::len)).load()?;
        let mut embedder = model.embedder();
        if self.normalize || self.no_normalize {
            embedder = embedder.normalize(self.normalize);
        }
        if let Some(pooling) = pooling {
            embedder = embedder.pooling(pooling);
        }
        self.print("embeddings", &[embedder.embed_tokens(texts)?])
    }

    /// Returns the tokens of each text.
    fn tokens(&self, files: &ModelFiles) -> Result<Vec<Vec<u32>>> {
        if !self.input.tokens.is_empty() {
            let lists = self.input.tokens.iter();
            return Ok(lists.map(|list| list.0.clone()).collect());
        }
        let tokenizer = EncoderTokenizer::of(files);
        let given = self.input.texts()?;
        let mut texts = Vec::with_capacity(given.len());
        for (i, text) in (1..).zip(&given) {
            let tokenized = tokenizer.tokenize(text)?;
            if tokenized.cut > 0 {
                message!(
                    "note: text {i} is truncated to {} tokens, the limit in the model's files; {} tokens are dropped",
                    tokenized.tokens.len(),
                    tokenized.cut
                );
            }
            texts.push(tokenized.tokens);
        }
        Ok(texts)
    }

    /// Prints one group of rows per text as lines, or as JSON under `name`. Embeddings are a single group,
    /// whose rows JSON has without the outer array.
    fn print(&self, name: &str, groups: &[Vec<Vec<f32>>]) -> Result<()> {
        if self.json {
            return match (name, groups) {
                ("embeddings", [rows]) => print_json(&json!({ name: rows })),
                _ => print_json(&json!({ name: groups })),
            };
        }
        for (i, rows) in groups.iter().enumerate() {
            if i > 0 {
                print_line!("")?;
            }
            for row in rows {
                let numbers: Vec<String> = row.iter().map(f32::to_string).collect();
                print_line!("{}", numbers.join(" "))?;
            }
        }
        Ok(())
    }
}
