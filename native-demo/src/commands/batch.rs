//! `wisp batch`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::{
    destination::{self, Contents, Inputs},
    sampling::GenerationConfig,
    serve::{BatchFiles, ModelArg, Models, run_batch},
    settings::{DEVICE, LIMITS, LORA, MODEL, SERVER, Settings},
};

/// Answer the requests of a file, in OpenAI's format of batches.
///
/// Each line of IN is an object with custom_id, method (POST), url (/v1/chat/completions, /v1/completions,
/// /v1/responses, /v1/embeddings, /v1/rerank or /v1/score) and body. Each becomes one line of OUT, in the order in which
/// they end. The same command goes on after an interruption: requests that have an answer in OUT or in the file of
/// --errors are skipped. The exit status is 1 if requests failed, in this run or before.
#[derive(Args)]
pub struct Batch {
    /// The file of requests; - is standard input
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// The file that the answers are appended to
    #[arg(value_name = "OUT")]
    output: PathBuf,
    /// A file for the answers to requests that failed, which are in OUT otherwise
    #[arg(long, value_name = "F")]
    errors: Option<PathBuf>,
    /// Answer requests again that failed in earlier runs; the lines that say so are removed first
    #[arg(long)]
    retry_failed: bool,
    /// A model, as in wisp serve; may be given several times [default: the model inside the program]
    #[arg(long, short, value_name = "[NAME=]MODEL", help_heading = "Model")]
    model: Vec<ModelArg>,
    /// How tokens are sampled where a request does not say it, as in wisp serve
    #[arg(long, value_enum, value_name = "WHICH", default_value_t = GenerationConfig::Auto)]
    generation_config: GenerationConfig,
    #[command(flatten)]
    settings: Settings<{ MODEL | DEVICE | LIMITS | LORA | SERVER }>,
}

impl Batch {
    pub fn run(self) -> Result<()> {
        let files = BatchFiles {
            input: self.input,
            output: self.output,
            errors: self.errors,
            retry_failed: self.retry_failed,
        };
        let inputs = Inputs::none().with(Some(&files.input));
        destination::check(&files.output, Contents::Answers, &inputs)?;
        if let Some(errors) = &files.errors {
            let inputs = inputs.with(Some(&files.output));
            destination::check(errors, Contents::Answers, &inputs)?;
        }
        run_batch(&files, || {
            // All requests are queued at some time.
            Models::load(
                &self.model,
                &self.settings,
                usize::MAX,
                self.generation_config,
            )
        })
    }
}
