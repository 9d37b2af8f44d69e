//! `wisp rerank`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use wisp_engine::{
    Relevance,
    pipelines::{EncoderTokenizer, RerankOptions},
};

use super::read_text;
use crate::{
    open,
    output::{message, print_json, print_line},
    settings::{DEVICE, MODEL, Settings},
};

/// Rank documents by their relevance to a query with a cross-encoder such as bge-reranker, or with a language model
/// such as Qwen3-Reranker.
///
/// Prints the documents, the most relevant first, each after its score from 0 to 1. A query and a document that
/// exceed the model's length together are truncated, the longer one first.
#[derive(Args)]
pub struct Rerank {
    /// The query
    #[arg(long, value_name = "Q")]
    query: String,
    #[command(flatten)]
    input: Input,
    /// Print only the N most relevant documents
    #[arg(long, value_name = "N")]
    top_n: Option<usize>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings<{ MODEL | DEVICE }>,
}

/// The documents, in any of these forms.
#[derive(Args)]
#[group(required = true, multiple = true)]
struct Input {
    /// The documents to rank
    #[arg(long, value_name = "D", num_args = 1..)]
    document: Vec<String>,
    /// A file with one document; - is standard input; may be given several times
    #[arg(long, value_name = "F")]
    document_file: Vec<PathBuf>,
}

impl Rerank {
    pub fn run(self) -> Result<()> {
        let settings = self.settings.resolve()?;
        let open = settings.open()?.for_reranking()?;
        let files = open::files(&open)?;
        let read = self.input.document_file.iter().map(|path| read_text(path));
        let given = self.input.document.iter().cloned().map(Ok);
        let documents: Vec<String> = given.chain(read).collect::<Result<_>>()?;
        let pairs = documents
            .iter()
            .map(|document| (&*self.query, document.as_str()));
        let options = RerankOptions { truncate: true };
        let pairs =
            EncoderTokenizer::of(files).tokenize_pairs(&pairs.collect::<Vec<_>>(), options)?;
        for (number, pair) in (1..).zip(&pairs).filter(|(_, pair)| pair.cut > 0) {
            let (kept, cut) = (pair.tokens.len(), pair.cut);
            message!(
                "note: document {number} and the query are truncated to {kept} tokens, the limit of the model; {cut} tokens are dropped"
            );
        }
        let lengths = pairs.iter().map(|pair| pair.tokens.len());
        let model = open.for_texts(lengths).load()?;
        let mut ranking = model.reranker().score_tokens(pairs)?;
        Relevance::sort(&mut ranking);
        ranking.truncate(self.top_n.unwrap_or(usize::MAX));
        if self.json {
            let result = |relevance: &Relevance| {
                json!({
                    "index": relevance.index, "score": relevance.score, "logit": relevance.logit,
                    "document": documents[relevance.index],
                })
            };
            let results: Vec<Value> = ranking.iter().map(result).collect();
            return print_json(&json!({ "results": results }));
        }
        for relevance in ranking {
            print_line!("{:.4}\t{}", relevance.score, documents[relevance.index])?;
        }
        Ok(())
    }
}
