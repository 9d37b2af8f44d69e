//! `wisp pull`.

use anyhow::Result;
use clap::Args;
use serde_json::json;
use wisp_engine::{
    OpenModel,
    pipelines::{PipelineConfig, PipelineEngine, format_bytes},
    weights::Checkpoint,
};

use crate::{
    escape,
    output::{message, print_json, print_line},
    settings::{MODEL, Resolved, Settings},
};

/// Download a model's files, unless the cache has them, and print where they are.
#[derive(Args)]
pub struct Pull {
    /// The model, as for --model: a hub repository such as org/name or org/name:q4_k
    #[arg(
        value_name = "MODEL",
        conflicts_with = "huggingface_repo_id",
        required_unless_present_any = ["huggingface_repo_id", "weight_path"]
    )]
    model_name: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings<{ MODEL }>,
}

impl Pull {
    pub fn run(mut self) -> Result<()> {
        if let Some(model) = &self.model_name {
            self.settings.set_model(model)?;
        }
        let settings = self.settings.resolve()?;
        // Opening downloads what is missing, and refuses what Wisp does not run.
        let open = settings.open()?;
        let checkpoint = open.checkpoint();
        let (name, bytes) = (settings.name(), checkpoint.byte_len());
        let path = path(checkpoint);
        if self.json {
            return print_json(&json!({ "model": name, "path": path, "bytes": bytes }));
        }
        print_line!("{}", escape::line(&path))?;
        message!(
            "{} is on this machine ({}); use it with: {}",
            escape::line(&name),
            format_bytes(bytes),
            next_command(&settings, &open)
        );
        Ok(())
    }
}

/// Returns the path of a model that was opened from disk: in GGUF its file, or the first of several, else its folder.
fn path(checkpoint: &Checkpoint) -> String {
    let first = checkpoint.file_names().next();
    match (checkpoint.gguf().and(first), checkpoint.directory()) {
        (None, Some(folder)) => folder.display().to_string(),
        (file, _) => file.unwrap_or_default().into(),
    }
}

/// Returns a command that runs the model, for the user to type.
fn next_command(settings: &Resolved, open: &OpenModel) -> String {
    let encoder = open.files().and_then(|files| files.model_spec.spec.encoder);
    let (command, text) = match encoder {
        Some(encoder) if encoder.score.is_some() => ("rerank", " --query \"…\" --document \"…\""),
        Some(_) => ("encode", " --text \"…\" --json"),
        None if open.text().has_chat_template() => ("chat", ""),
        None => ("generate", " \"Once upon a time\""),
    };
    format!("wisp {command}{}{text}", selection(&settings.config))
}

/// Returns the flags that select the same model again.
fn selection(config: &PipelineConfig) -> String {
    let mut flags = String::new();
    let mut add = |flag: &str, value: &str| {
        let value = escape::line(value);
        flags += &match value.contains(char::is_whitespace) {
            true => format!(" --{flag} \"{value}\""),
            false => format!(" --{flag} {value}"),
        };
    };
    if config.huggingface_repo_id.is_some() {
        add("model", config.short_name());
    }
    if config.huggingface_revision != PipelineConfig::default().huggingface_revision {
        add("revision", &config.huggingface_revision);
    }
    for file in &config.weight_path {
        add("weight-path", file);
    }
    if let Some(encoding) = config.quantization_encoding {
        add("quantization-encoding", encoding.name());
    }
    if let Some(architecture) = &config.architecture {
        add("architecture", architecture);
    }
    if let Some(rope_type) = config.rope_type {
        add("rope-type", rope_type.name());
    }
    if config.engine == PipelineEngine::HuggingFace {
        add("engine", "huggingface");
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selection_has_the_flags_that_decide_which_model_is_opened() {
        let mut config = PipelineConfig::default();
        config.huggingface_repo_id = Some("hf.co/org/name:q4_k".into());
        assert_eq!(selection(&config), " --model org/name:q4_k");
        config.huggingface_revision = "v2".into();
        config.weight_path = vec!["my model.gguf".into()];
        config.force_download = true;
        let expected = " --model org/name:q4_k --revision v2 --weight-path \"my model.gguf\"";
        assert_eq!(selection(&config), expected);
    }
}
