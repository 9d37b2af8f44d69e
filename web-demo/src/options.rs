//! Options from JavaScript, as JSON.

use serde::Deserialize;
use wisp_engine::{
    Message, ModelBuilder, SamplingParams,
    chat::{ChatRequest, ReasoningEffort},
    device::{Api, DeviceClassChoice, DeviceOptions, DeviceSpec, FeatureLevel},
    grammar::Constraint,
    pipelines::{
        CacheStrategy, GenerateOptions, PipelineConfig, chat_template::ControlTokens,
        config::KvCacheFormat,
    },
    session::{Precision, tuning_file},
    tools::{ToolChoice, ToolError, Tools},
};

/// The limit of `max_batch`.
const MAX_BATCH: u64 = 64;

/// Where a model runs.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    #[default]
    WebGpu,
    Cpu,
}

impl Place {
    pub fn spec(self) -> DeviceSpec {
        let api = match self {
            Place::WebGpu => Api::WebGpu,
            Place::Cpu => Api::Host,
        };
        DeviceSpec::Adapter { api, index: 0 }
    }
}

/// The options of loading a model.
#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct LoadOptions {
    /// The name of the model.
    pub name: String,
    /// Maximum tokens of a sequence, prompt and answer; 0 for the limit of the model, at most 4096.
    max_length: u64,
    /// Maximum number of sequences in a batch.
    max_batch: u64,
    /// Maximum prompt tokens per step.
    max_step_tokens: u64,
    /// Tokens per sequence that one submission samples.
    max_steps: u64,
    /// The format of the KV cache; `None` for that of the device: `float16`, on the CPU `float32`.
    kv_cache_format: Option<KvCacheFormat>,
    /// Whether requests with a common prefix share its keys and values.
    prefix_caching: bool,
    /// Where the model runs.
    pub device: Place,
    /// Whether to use only features and limits that every browser guarantees.
    baseline: bool,
    /// The class of kernels.
    device_class: DeviceClassChoice,
    /// The precision of products.
    precision: Precision,
    /// The tuning of an earlier call of `tune`.
    tuning: Option<serde_json::Value>,
}

impl Default for LoadOptions {
    fn default() -> LoadOptions {
        LoadOptions {
            name: "model".into(),
            max_length: 0,
            max_batch: 1,
            max_step_tokens: 128,
            max_steps: 8,
            kv_cache_format: None,
            prefix_caching: true,
            device: Place::default(),
            baseline: false,
            device_class: DeviceClassChoice::Auto,
            precision: Precision::Exact,
            tuning: None,
        }
    }
}

impl LoadOptions {
    /// Returns the options with which the device is opened.
    pub fn device_options(&self) -> DeviceOptions {
        DeviceOptions {
            feature_level: feature_level(self.baseline),
            device_class: self.device_class,
            ..DeviceOptions::default()
        }
    }

    /// Returns the settings for a model with a context of `max_positions` tokens.
    pub fn builder(&self, max_positions: u64) -> ModelBuilder {
        let max_batch = self.max_batch.clamp(1, MAX_BATCH);
        let mut config = PipelineConfig::default();
        config.max_length = self.max_length.min(max_positions.max(1));
        config.max_cache_batch_size = max_batch;
        config.prefill_chunk_size = self.max_step_tokens.clamp(1, 4096);
        config.max_num_steps = Some(self.max_steps.clamp(1, 64));
        config.cache_strategy = CacheStrategy::Paged;
        config.kv_cache_page_size = 32;
        config.kv_cache_format = self.kv_cache_format;
        config.enable_prefix_caching = self.prefix_caching;
        config.precision = self.precision;
        let mut builder = ModelBuilder::from_config(config).cache_tokens(u64::MAX);
        // A page may keep the tuning of an earlier version, whose kernels were others.
        let tuning = self.tuning.as_ref().map(serde_json::Value::to_string);
        if let Some(Ok(tuning)) = tuning.map(|text| tuning_file::from_json(text.as_bytes())) {
            builder = builder.tuning(tuning);
        }
        match self.max_length {
            0 => builder.default_context_length(),
            _ => builder,
        }
    }
}

/// Returns the feature level of a device that is limited to what every browser guarantees, or not.
pub fn feature_level(baseline: bool) -> FeatureLevel {
    match baseline {
        true => FeatureLevel::Baseline,
        false => FeatureLevel::Full,
    }
}

/// The options of generation.
#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct RequestOptions {
    temperature: f32,
    top_k: u32,
    top_p: f32,
    min_p: f32,
    repetition_penalty: f32,
    presence_penalty: f32,
    frequency_penalty: f32,
    logit_bias: Vec<(u32, f32)>,
    seed: u32,
    log_probs: Option<u32>,
    max_tokens: Option<usize>,
    stop: Vec<String>,
    stop_tokens: Vec<u32>,
    ignore_eos: bool,
    constraint: Option<ConstraintOption>,
}

/// What a text must match.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum ConstraintOption {
    JsonSchema(serde_json::Value),
    JsonObject(bool),
    Regex(String),
    Grammar(String),
    Choices(Vec<String>),
}

impl RequestOptions {
    /// Returns what the text must match.
    pub fn constraint(&self) -> Option<Constraint> {
        match self.constraint.as_ref()? {
            ConstraintOption::JsonSchema(schema) => Some(Constraint::JsonSchema(schema.clone())),
            ConstraintOption::JsonObject(wanted) => wanted.then_some(Constraint::JsonObject),
            ConstraintOption::Regex(pattern) => Some(Constraint::Regex(pattern.clone())),
            ConstraintOption::Grammar(grammar) => Some(Constraint::Lark(grammar.clone())),
            ConstraintOption::Choices(choices) => Some(Constraint::Choices(choices.clone())),
        }
    }
}

impl Default for RequestOptions {
    fn default() -> RequestOptions {
        RequestOptions {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: Vec::new(),
            seed: 0,
            log_probs: None,
            max_tokens: None,
            stop: Vec::new(),
            stop_tokens: Vec::new(),
            ignore_eos: false,
            constraint: None,
        }
    }
}

impl From<RequestOptions> for GenerateOptions {
    fn from(options: RequestOptions) -> GenerateOptions {
        GenerateOptions {
            sampling: SamplingParams {
                temperature: options.temperature,
                top_k: options.top_k,
                top_p: options.top_p,
                min_p: options.min_p,
                repetition_penalty: options.repetition_penalty,
                presence_penalty: options.presence_penalty,
                frequency_penalty: options.frequency_penalty,
                logit_bias: options.logit_bias,
                seed: options.seed,
                log_probs: options.log_probs,
                ..SamplingParams::default()
            },
            max_new_tokens: options.max_tokens,
            stop: options.stop,
            stop_tokens: options.stop_tokens,
            ignore_eos: options.ignore_eos,
            ..GenerateOptions::default()
        }
    }
}

/// A chat, whose fields are those of OpenAI's interface.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChatOptions {
    messages: Vec<Message>,
    /// Whether control tokens in messages are parsed.
    #[serde(default)]
    control_tokens: bool,
    #[serde(default)]
    tools: serde_json::Value,
    #[serde(default)]
    tool_choice: serde_json::Value,
    parallel_tool_calls: Option<bool>,
    reasoning_effort: Option<ReasoningEffort>,
    /// Variables of the model's chat template.
    #[serde(default)]
    chat_template_kwargs: serde_json::Map<String, serde_json::Value>,
}

impl ChatOptions {
    /// Returns what the model is asked; its answer must match the constraint.
    pub fn request(self, answer: Option<Constraint>) -> Result<ChatRequest, ToolError> {
        let mut request = ChatRequest::new(self.messages);
        request.control_tokens = ControlTokens::allowed(self.control_tokens);
        request.answer = answer;
        request.set_variables(self.chat_template_kwargs);
        if let Some(effort) = self.reasoning_effort {
            request.set_effort(effort);
        }
        let tools = match self.tools.is_null() {
            true => Tools::default(),
            false => Tools::from_json(&self.tools)?,
        };
        let choice = ToolChoice::from_json(&self.tool_choice)?;
        request.with_tools(tools, choice, self.parallel_tool_calls.unwrap_or(true))
    }
}

/// The options of a benchmark.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BenchOptions {
    pub prompt_tokens: u32,
    pub new_tokens: u32,
    pub runs: u32,
}

/// The options of a tuning.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TuneOptions {
    pub seconds: f64,
}

/// Inputs to embed.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum EmbedInputs {
    Texts(Vec<String>),
    Tokens(Vec<Vec<u32>>),
}
