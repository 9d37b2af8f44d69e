//! A loaded model: what JavaScript holds.
//!
//! Methods that run on the device take turns: JavaScript calls one at a time.

use std::{collections::HashMap, sync::Arc, time::Duration};

use js_sys::{Function, Object, Uint8Array};
use send_wrapper::SendWrapper;
use serde::{Deserialize, Serialize};
use wasm_bindgen::prelude::*;
use wisp_engine::{
    device::{Api, Device, DeviceInfo, DeviceSpec, FeatureLevel},
    pipelines::{
        CheckpointModel, EncodeOptions, FinishReason, ModelFiles, ModelLimits, RequestId,
        SamplingParams, TextEncoder,
        benchmark::{Workload, speed, warm_up},
        chat_template::Message,
        config::KvCacheFormat,
        text_generation::{GenerateOptions, TextGenerator},
    },
    session::InferenceSession,
    weights::{Checkpoint, RemoteFile},
};

use crate::{
    error::Failure,
    source::{JsFile, Source},
};

/// The longest context that is made unless a longer one is asked for, in tokens.
const LONGEST_BY_DEFAULT: u64 = 4096;

/// What a model is loaded with.
#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct LoadOptions {
    /// What the model is called.
    name: String,
    /// Tokens of a sequence, prompt and answer; 0: what the model can do, up to 4096.
    max_length: u64,
    /// Sequences at the same time.
    max_batch: u64,
    /// Tokens of prompts in one submission.
    max_step_tokens: u64,
    /// Tokens drawn in one submission.
    max_steps: u64,
    /// How the KV cache stores keys and values.
    kv_cache_format: KvCacheFormat,
    /// Only what every browser guarantees.
    baseline: bool,
}

impl Default for LoadOptions {
    fn default() -> LoadOptions {
        LoadOptions {
            name: "model".into(),
            max_length: 0,
            max_batch: 1,
            max_step_tokens: 128,
            max_steps: 8,
            kv_cache_format: KvCacheFormat::Float32,
            baseline: false,
        }
    }
}

/// How a request is generated.
#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct RequestOptions {
    temperature: f32,
    top_k: u32,
    top_p: f32,
    min_p: f32,
    repetition_penalty: f32,
    presence_penalty: f32,
    frequency_penalty: f32,
    logit_bias: Vec<(u32, f32)>,
    seed: u32,
    max_tokens: Option<usize>,
    stop: Vec<String>,
    ignore_eos: bool,
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
            max_tokens: None,
            stop: Vec::new(),
            ignore_eos: false,
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
                ..SamplingParams::default()
            },
            max_new_tokens: options.max_tokens,
            stop: options.stop,
            ignore_eos: options.ignore_eos,
            adapter: None,
        }
    }
}

/// What is measured.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct BenchOptions {
    prompt_tokens: u32,
    new_tokens: u32,
    runs: u32,
}

/// What is embedded.
#[derive(Deserialize)]
#[serde(untagged)]
enum EmbedInput {
    Text(String),
    Tokens(Vec<u32>),
}

/// Time since the page or the worker began.
fn clock() -> Duration {
    let performance = js_sys::Reflect::get(&js_sys::global(), &"performance".into());
    let now = performance.ok().and_then(|performance| {
        let now: Function = js_sys::Reflect::get(&performance, &"now".into())
            .ok()?
            .dyn_into()
            .ok()?;
        now.call0(&performance).ok()?.as_f64()
    });
    Duration::from_secs_f64(now.unwrap_or_default().max(0.0) / 1000.0)
}

/// What a step brought a request.
#[derive(Serialize)]
struct Event {
    id: u64,
    token: Option<u32>,
    text: String,
    finish: Option<FinishReason>,
}

/// What is known of a loaded model.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Info<'a> {
    name: &'a str,
    architecture: &'a str,
    /// "generate" or "embed".
    task: &'static str,
    chat: bool,
    vocab_size: u64,
    max_length: u64,
    weight_bytes: u64,
    device: &'a DeviceInfo,
}

enum Runner {
    Generator(Box<TextGenerator>),
    Encoder(Box<TextEncoder>),
}

/// A model on the browser's GPU.
#[wasm_bindgen]
pub struct Engine {
    files: ModelFiles,
    device: Device,
    runner: Runner,
}

/// The files that describe a model beside its weights: an object of names and `Uint8Array`s.
fn described(texts: &Object) -> HashMap<String, Vec<u8>> {
    let mut files = HashMap::new();
    for entry in Object::entries(texts).iter() {
        let entry: js_sys::Array = entry.unchecked_into();
        if let (Some(name), Ok(bytes)) = (entry.get(0).as_string(), entry.get(1).dyn_into()) {
            let bytes: Uint8Array = bytes;
            files.insert(name, bytes.to_vec());
        }
    }
    files
}

fn limits(options: &LoadOptions, files: &ModelFiles) -> ModelLimits {
    let most = files.model_spec.spec.max_positions.max(1);
    let max_length = match options.max_length {
        0 => most.min(LONGEST_BY_DEFAULT),
        length => length.min(most),
    };
    ModelLimits {
        max_length,
        max_batch: options.max_batch.clamp(1, 64),
        max_step_tokens: options.max_step_tokens.clamp(1, 4096).min(max_length),
        max_steps: options.max_steps.clamp(1, 64),
        cache_format: options.kv_cache_format.into(),
        ..ModelLimits::default()
    }
}

async fn open(
    files: Vec<JsFile>,
    texts: &Object,
    options: &str,
    progress: Function,
) -> Result<Engine, Failure> {
    let options: LoadOptions = serde_json::from_str(options)?;
    let profile = match options.baseline {
        true => FeatureLevel::Baseline,
        false => FeatureLevel::Full,
    };
    let spec = DeviceSpec::Adapter {
        api: Api::WebGpu,
        index: 0,
    };
    let device = Device::open(&spec, profile, 0).await?;
    let remote = |file| Arc::new(Source::new(file, device.clone())) as Arc<dyn RemoteFile>;
    let checkpoint = Checkpoint::open_remote(files.into_iter().map(remote).collect()).await?;
    let files = ModelFiles::from_files(&options.name, checkpoint, &described(texts))?;
    let session = InferenceSession::new(device.clone());
    let limits = limits(&options, &files);
    let progress = SendWrapper::new(progress);
    let tell = move |done: u64, total: u64| {
        // A page that fails to show progress is no reason to stop.
        let _ = progress.call2(
            &JsValue::NULL,
            &(done as f64).into(),
            &(total as f64).into(),
        );
    };
    let runner = match files.model_spec.spec.encoder {
        Some(_) => {
            let encoder = TextEncoder::load(&session, &files, limits, Some(&tell)).await?;
            Runner::Encoder(Box::new(encoder))
        }
        None => {
            let generator = TextGenerator::load(&session, &files, limits, Some(&tell)).await?;
            Runner::Generator(Box::new(generator))
        }
    };
    Ok(Engine {
        files,
        device,
        runner,
    })
}

impl Engine {
    fn generator(&mut self) -> Result<&mut TextGenerator, Failure> {
        match &mut self.runner {
            Runner::Generator(generator) => Ok(generator),
            Runner::Encoder(_) => Err(Failure::request(
                "this model makes embeddings; it cannot continue texts: load a decoder",
            )),
        }
    }
}

#[wasm_bindgen]
impl Engine {
    /// Loads a model. `files` are its weights, `texts` what describes it beside them, `options` JSON;
    /// `progress` is called with the bytes loaded and those of all weights.
    ///
    /// # Errors
    ///
    /// An `Error` whose name is its kind.
    pub async fn load(
        files: Vec<JsFile>,
        texts: Object,
        options: String,
        progress: Function,
    ) -> Result<Engine, JsValue> {
        Ok(open(files, &texts, &options, progress).await?)
    }

    /// What is known of the model and its device, as JSON.
    ///
    /// # Errors
    ///
    /// None that a caller can make.
    pub fn info(&self) -> Result<String, JsValue> {
        let (task, limits) = match &self.runner {
            Runner::Generator(generator) => ("generate", generator.model().limits()),
            Runner::Encoder(encoder) => ("embed", encoder.limits()),
        };
        let tokenizer = self.files.tokenizer.as_ref().ok();
        let info = Info {
            name: &self.files.name,
            architecture: self.files.model_spec.architecture,
            task,
            chat: tokenizer.is_some_and(|tokenizer| tokenizer.chat_template(None).is_some()),
            vocab_size: self.files.model_spec.spec.vocab_size,
            max_length: limits.max_length,
            weight_bytes: self.files.checkpoint.byte_len(),
            device: self.device.info(),
        };
        Ok(serde_json::to_string(&info).map_err(Failure::from)?)
    }

    /// The tokens of a text. `special`: as a prompt, with the tokens that begin one.
    ///
    /// # Errors
    ///
    /// If there is no tokenizer, or no token for a part of the text.
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, JsValue> {
        let tokenizer = self.files.tokenizer.as_ref();
        let tokenizer = tokenizer.map_err(|error| Failure::request(error.to_string()))?;
        let tokens = tokenizer.encode(text, special, special);
        Ok(tokens.map_err(|error| Failure::request(error.to_string()))?)
    }

    /// The text of tokens.
    ///
    /// # Errors
    ///
    /// If there is no tokenizer.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, JsValue> {
        let tokenizer = self.files.tokenizer.as_ref();
        let tokenizer = tokenizer.map_err(|error| Failure::request(error.to_string()))?;
        Ok(tokenizer.decode(tokens, true))
    }

    /// The tokens of a conversation: JSON, a list of messages.
    ///
    /// # Errors
    ///
    /// If the model cannot converse, or its template refuses the messages.
    pub fn chat(&self, messages: &str) -> Result<Vec<u32>, JsValue> {
        let messages: Vec<Message> = serde_json::from_str(messages).map_err(Failure::from)?;
        let tokens = self.files.chat_prompt(&messages);
        Ok(tokens.map_err(|error| Failure::request(error.to_string()))?)
    }

    /// Queues a prompt; `options` is JSON. Returns the number by which events name it.
    ///
    /// # Errors
    ///
    /// If it is too long, or an option is out of range.
    pub fn add(&mut self, prompt: &[u32], options: &str) -> Result<f64, JsValue> {
        let options: RequestOptions = serde_json::from_str(options).map_err(Failure::from)?;
        let Runner::Generator(generator) = &mut self.runner else {
            return self.generator().map(|_| 0.0).map_err(JsValue::from);
        };
        let id = generator.add_request(prompt, &options.into());
        Ok(id.map_err(Failure::from)?.0 as f64)
    }

    /// Ends a request. False if there is none.
    pub fn cancel(&mut self, id: f64) -> bool {
        match self.generator() {
            Ok(generator) => generator.cancel(RequestId(id as u64)),
            Err(_) => false,
        }
    }

    /// Runs one submission for all requests. Returns what it brought, as a JSON list; an empty one
    /// once all have ended.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub async fn step(&mut self) -> Result<String, JsValue> {
        let generator = self.generator()?;
        let mut events = Vec::new();
        while events.is_empty() && !generator.is_idle() {
            events = generator.next_events().await.map_err(Failure::from)?.texts;
        }
        let events = events.into_iter().map(|event| Event {
            id: event.id.0,
            token: event.token,
            text: event.text,
            finish: event.finish,
        });
        let events: Vec<Event> = events.collect();
        Ok(serde_json::to_string(&events).map_err(Failure::from)?)
    }

    /// An embedding of each input (a JSON list of texts and lists of tokens), one after the other; and
    /// how many tokens they have, first.
    ///
    /// # Errors
    ///
    /// If the model is no encoder, a text is too long, or the device fails.
    pub async fn embed(&mut self, inputs: &str) -> Result<Vec<f32>, JsValue> {
        let inputs: Vec<EmbedInput> = serde_json::from_str(inputs).map_err(Failure::from)?;
        let Runner::Encoder(encoder) = &mut self.runner else {
            return Err(Failure::request(
                "this model continues texts; it makes no embeddings: load an encoder such as \
                 sentence-transformers/all-MiniLM-L6-v2",
            )
            .into());
        };
        let mut tokens = Vec::with_capacity(inputs.len());
        for input in inputs {
            tokens.push(match input {
                EmbedInput::Tokens(tokens) => tokens,
                EmbedInput::Text(text) => {
                    let tokenized = encoder.tokenizer().tokenize(&text);
                    tokenized.map_err(Failure::from)?.tokens
                }
            });
        }
        let count: usize = tokens.iter().map(Vec::len).sum();
        let rows = encoder.embed(&tokens, EncodeOptions::default()).await;
        let mut out = vec![count as f32];
        out.extend(rows.map_err(Failure::from)?.concat());
        Ok(out)
    }

    /// Measures speed: `options` and what is returned are JSON.
    ///
    /// # Errors
    ///
    /// If it is longer than the model's limits, or the device fails.
    pub async fn bench(&mut self, options: &str) -> Result<String, JsValue> {
        let options: BenchOptions = serde_json::from_str(options).map_err(Failure::from)?;
        let workload = Workload {
            prompt_tokens: options.prompt_tokens.max(1),
            new_tokens: options.new_tokens.max(1),
            runs: options.runs.clamp(1, 1000),
        };
        let generator = self.generator()?;
        let warmed = warm_up(generator, workload, &clock).await;
        warmed.map_err(Failure::from)?;
        let measured = speed(generator, workload, &clock).await;
        let measured = measured.map_err(Failure::from)?;
        Ok(serde_json::to_string(&measured).map_err(Failure::from)?)
    }

    /// Bytes of GPU memory: now, and at most so far.
    pub fn memory(&self) -> Vec<f64> {
        let (now, peak) = self.device.allocated();
        vec![now as f64, peak as f64]
    }
}

/// Bytes of the module's own memory, which never shrinks.
#[wasm_bindgen(js_name = wasmMemory)]
pub fn wasm_memory() -> f64 {
    let memory: js_sys::WebAssembly::Memory = wasm_bindgen::memory().unchecked_into();
    let buffer: js_sys::ArrayBuffer = memory.buffer().unchecked_into();
    f64::from(buffer.byte_length())
}
