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

use crate::{
    escape,
    output::{print_json, print_line},
};

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
        let folder = cache.display().to_string();
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
                "cache": folder,
                "models": models,
            }));
        }
        let mut rows = table(["architecture", "kind", "in config.json", "in GGUF"]);
        for architecture in architectures::all() {
            rows.add_row([
                architecture.name(),
                kind(&architecture),
                &architecture.classes().collect::<Vec<_>>().join("\n"),
                &architecture
                    .recognized_in_gguf()
                    .collect::<Vec<_>>()
                    .join("\n"),
            ]);
        }
        print_line!("{rows}\n")?;
        let others = through_candle();
        if !others.is_empty() {
            print_line!("with --engine huggingface      {}\n", others.join(", "))?;
        }
        print_line!("encodings      {}\n", encodings.join(", "))?;
        let folder = escape::line(&folder);
        if models.is_empty() {
            return print_line!("no models in {folder}");
        }
        let mut downloaded = table(["model", "size", "weights"]);
        for model in &models {
            let revisions = model.revisions.iter();
            let mut weights: Vec<_> = revisions
                .flat_map(|revision| revision.weights.iter().map(|file| escape::line(file)))
                .collect();
            weights.sort_unstable();
            weights.dedup();
            downloaded.add_row([
                escape::line(&model.repo_id).into_owned(),
                format_bytes(model.bytes),
                weights.join("\n"),
            ]);
        }
        print_line!("{downloaded}\n")?;
        let bytes = models.iter().map(|model| model.bytes).sum();
        print_line!("{} in {folder}", format_bytes(bytes))
    }
}
