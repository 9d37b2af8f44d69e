//! `wisp list`.

use anyhow::Result;
use clap::Args;
use comfy_table::{Table, presets::UTF8_HORIZONTAL_ONLY};
use serde_json::json;
use wisp_engine::pipelines::{
    SupportedEncoding,
    architectures::{self, Architecture},
    format_bytes, huggingface_repo,
};

use super::print_json;

/// List supported architectures and encodings, and downloaded models.
#[derive(Args)]
pub struct List {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Returns an empty table with a header.
fn table<const COLUMNS: usize>(header: [&str; COLUMNS]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY).set_header(header);
    table
}

fn kind(architecture: &Architecture) -> &'static str {
    match architecture.is_encoder() {
        true => "encoder",
        false => "decoder",
    }
}

/// Returns the architectures that run with `--engine huggingface`, by their Hugging Face names.
fn through_candle() -> Vec<&'static str> {
    #[cfg(feature = "candle")]
    return wisp_engine::pipelines::candle::CANDLE_ARCHITECTURES
        .iter()
        .map(|architecture| architecture.name)
        .collect();
    #[cfg(not(feature = "candle"))]
    Vec::new()
}

impl List {
    pub fn run(self) -> Result<()> {
        let cache = huggingface_repo::cache_directory()?;
        let models = huggingface_repo::cached_models()?;
        let encodings: Vec<&str> = SupportedEncoding::ALL.iter().map(|e| e.name()).collect();
        if self.json {
            let architectures: Vec<_> = architectures::all()
                .iter()
                .map(|architecture| {
                    json!({
                        "name": architecture.name(),
                        "kind": kind(architecture),
                        "hugging_face": architecture.classes().collect::<Vec<_>>(),
                        "gguf": architecture.gguf_name().unwrap_or_default(),
                    })
                })
                .collect();
            return print_json(&json!({
                "architectures": architectures,
                "through_candle": through_candle(),
                "encodings": encodings,
                "cache": cache,
                "models": models,
            }));
        }
        let mut rows = table(["architecture", "kind", "in config.json", "in GGUF"]);
        for architecture in architectures::all() {
            rows.add_row([
                architecture.name(),
                kind(&architecture),
                &architecture.classes().collect::<Vec<_>>().join("\n"),
                architecture.gguf_name().unwrap_or_default(),
            ]);
        }
        println!("{rows}\n");
        let others = through_candle();
        if !others.is_empty() {
            println!("with --engine huggingface      {}\n", others.join(", "));
        }
        println!("encodings      {}\n", encodings.join(", "));
        if models.is_empty() {
            println!("no models in {}", cache.display());
            return Ok(());
        }
        let mut downloaded = table(["model", "size", "weights"]);
        for model in &models {
            let revisions = model.revisions.iter();
            let mut weights: Vec<&str> = revisions
                .flat_map(|revision| revision.weights.iter().map(String::as_str))
                .collect();
            weights.sort_unstable();
            weights.dedup();
            downloaded.add_row([
                model.repo_id.clone(),
                format_bytes(model.bytes),
                weights.join("\n"),
            ]);
        }
        println!("{downloaded}\n");
        let bytes = models.iter().map(|model| model.bytes).sum();
        println!("{} in {}", format_bytes(bytes), cache.display());
        Ok(())
    }
}
