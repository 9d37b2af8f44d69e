//! `wisp serve`.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use crate::{
    sampling::GenerationConfig,
    serve::{ModelArg, Models, Options, Origin, serve},
    settings::{DEVICE, LIMITS, LORA, MODEL, SERVER, Settings},
    values::whole,
};

/// Serve models over HTTP with OpenAI's interface.
///
/// The address is printed first, on standard output. /health answers 503 until the models are loaded. A chat page is
/// at /. WISP_LOG=wisp=info logs every request.
#[derive(Args)]
pub struct Serve {
    /// A model: a .gguf file, a directory in Hugging Face's layout, or a repository of a hub, under the name NAME; may be
    /// given several times [default: the model inside the program]
    #[arg(long, short, value_name = "[NAME=]MODEL", help_heading = "Model")]
    model: Vec<ModelArg>,
    /// The address to listen on; other machines reach addresses that are not this machine's own, so that those need
    /// --api-key or --no-auth
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    host: String,
    /// The port to listen on; 0 is any free one
    #[arg(long, value_name = "PORT", default_value_t = 8000)]
    port: u16,
    /// A key that clients must send, as in Authorization: Bearer KEY; may be given several times, and is better given in
    /// WISP_API_KEY, which other users of this machine do not see; there, a comma separates keys and is a part of none
    #[arg(long, value_name = "KEY")]
    api_key: Vec<String>,
    /// Let everyone who reaches the address use the server
    #[arg(long, conflicts_with = "api_key")]
    no_auth: bool,
    /// Let clients without a key read /metrics, as Prometheus and the endpoint pickers of Kubernetes do
    #[arg(long)]
    open_metrics: bool,
    /// Accept requests to this host name too; may be given several times
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Let web pages of this origin use the server, such as https://example.org, or * for all; may be given several
    /// times
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<Origin>,
    /// The longest body of a request in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 8 << 20, value_parser = whole(1, u32::MAX))]
    max_body_bytes: u32,
    /// The texts of a model that may wait for others to end; further requests are answered with status 429
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = whole(0, u32::MAX))]
    max_queue: u32,
    /// How tokens are sampled where a request does not say it: as the model's files recommend, or with OpenAI's defaults
    #[arg(long, value_enum, value_name = "WHICH", default_value_t = GenerationConfig::Auto)]
    generation_config: GenerationConfig,
    /// The seconds that running requests have to end after Ctrl-C or SIGTERM
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = whole(0, 86400))]
    shutdown_timeout: u32,
    /// Write the metrics under the names of another server too
    #[arg(long, value_name = "SERVER")]
    metrics_compat: Option<MetricsCompat>,
    /// Let clients load and unload adapters in this folder (/v1/load_lora_adapter, /v1/unload_lora_adapter); reserves
    /// memory for --max-num-loras of them
    #[arg(long, value_name = "DIR")]
    allow_adapter_loading: Option<PathBuf>,
    /// Send a span of each request to a collector of OpenTelemetry by OTLP over HTTP, such as http://localhost:4318
    /// [default: the address in OTEL_EXPORTER_OTLP_ENDPOINT, if there is one]
    #[cfg(feature = "otel")]
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,
    #[command(flatten)]
    settings: Settings<{ MODEL | DEVICE | LIMITS | LORA | SERVER }>,
}

/// A server whose metrics others read.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MetricsCompat {
    /// The names of vLLM, such as vllm:num_requests_waiting
    Vllm,
}

impl Serve {
    pub fn run(mut self) -> Result<()> {
        if let Some(folder) = &mut self.allow_adapter_loading {
            let found = folder.canonicalize();
            *folder =
                found.with_context(|| format!("--allow-adapter-loading {}", folder.display()))?;
            self.settings.reserve_adapters()?;
        }
        let max_queue = self.max_queue as usize;
        let options = Options {
            host: self.host,
            port: self.port,
            api_keys: self.api_key,
            no_auth: self.no_auth,
            open_metrics: self.open_metrics,
            allowed_hosts: self.allow_host,
            allowed_origins: self.allow_origin,
            max_body_bytes: self.max_body_bytes as usize,
            shutdown_time: Duration::from_secs(self.shutdown_timeout.into()),
            vllm_metrics: self.metrics_compat == Some(MetricsCompat::Vllm),
            adapter_folder: self.allow_adapter_loading,
            #[cfg(feature = "otel")]
            otlp_endpoint: self.otlp_endpoint,
        };
        serve(options, || {
            Models::load(
                &self.model,
                &self.settings,
                max_queue,
                self.generation_config,
            )
        })
    }
}
