//! The interface of a loaded model for JavaScript.

use std::{
    collections::HashMap, future::poll_fn, ops::ControlFlow, pin::pin, sync::Arc, task::Poll,
    time::Duration,
};

use js_sys::{Array, Float32Array, Function, Object, Promise, Reflect, Uint8Array};
use send_wrapper::SendWrapper;
use serde::Serialize;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::future_to_promise;
use wisp_engine::{
    Canceller, Error, Events, LoadProgress, Model,
    device::{Device, DeviceInfo},
    pipelines::{
        ModelFiles,
        benchmark::{Workload, speed, warm_up},
        tokenizer::Tokenizer,
    },
    session::tuning_file,
    weights::{Checkpoint, RemoteFile},
};

use crate::{
    error::{Failure, warning_kind},
    events::RequestEvent,
    options::{BenchOptions, ChatOptions, EmbedInputs, LoadOptions, RequestOptions, TuneOptions},
    source::{JsFile, Source},
};

/// The description of a loaded model.
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

/// Cancels a request or the loading of a model.
#[wasm_bindgen(js_name = Canceller)]
#[derive(Default)]
pub struct JsCanceller {
    canceller: Canceller,
}

#[wasm_bindgen(js_class = Canceller)]
impl JsCanceller {
    /// Creates a canceller that is not used yet.
    #[wasm_bindgen(constructor)]
    pub fn new() -> JsCanceller {
        JsCanceller::default()
    }

    /// Cancels the operations that use this canceller.
    pub fn cancel(&self) {
        self.canceller.cancel();
    }
}

/// Awaits work that is dropped once it is cancelled, when it wakes the next time: after a step of the device.
async fn until<T, E>(
    canceller: &Canceller,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, Error>
where
    Error: From<E>,
{
    let mut work = pin!(work);
    let next = poll_fn(|context| match canceller.is_cancelled() {
        true => Poll::Ready(Err(Error::Cancelled)),
        false => work.as_mut().poll(context).map_err(Error::from),
    });
    next.await
}

/// A model on the browser's GPU or on the CPU. Concurrent requests run as one batch.
#[wasm_bindgen(js_name = Model)]
pub struct JsModel {
    model: Model,
    device: Device,
}

/// Reads the configuration files of a model from an object that maps names to `Uint8Array`s.
fn described(texts: &Object) -> HashMap<String, Vec<u8>> {
    let mut files = HashMap::new();
    for entry in Object::entries(texts).iter() {
        let entry: Array = entry.unchecked_into();
        if let (Some(name), Ok(bytes)) = (entry.get(0).as_string(), entry.get(1).dyn_into()) {
            let bytes: Uint8Array = bytes;
            files.insert(name, bytes.to_vec());
        }
    }
    files
}

async fn open(
    files: Vec<JsFile>,
    texts: &Object,
    options: &str,
    canceller: Canceller,
    progress: Function,
    note: Function,
) -> Result<JsModel, Failure> {
    let options: LoadOptions = serde_json::from_str(options)?;
    let device = Device::open(&options.device.spec(), options.device_options()).await?;
    let remote = |file| Arc::new(Source::new(file, device.clone())) as Arc<dyn RemoteFile>;
    let checkpoint = Checkpoint::open_remote(files.into_iter().map(remote).collect()).await?;
    let files = ModelFiles::from_files(&options.name, checkpoint, &described(texts))?;
    let spec = &files.model_spec.spec;
    let (progress, note) = (SendWrapper::new(progress), SendWrapper::new(note));
    let model = options
        .builder(spec.max_positions)
        .opened_device(device.clone())
        .canceller(&canceller)
        .on_progress(move |news| {
            // Errors of the callbacks do not stop the load.
            match news {
                LoadProgress::Weights { done, total } => {
                    let (done, total) = ((done as f64).into(), (total as f64).into());
                    let _ = progress.call2(&JsValue::NULL, &done, &total);
                }
                LoadProgress::Note { kind, text } => {
                    let _ = note.call2(&JsValue::NULL, &warning_kind(kind).into(), &text.into());
                }
                _ => {}
            }
        })
        .with_files(files)?
        .load_async()
        .await?;
    Ok(JsModel { model, device })
}

/// Returns the time since the page or the worker started.
fn clock() -> Duration {
    let performance = Reflect::get(&js_sys::global(), &"performance".into());
    let now = performance.ok().and_then(|performance| {
        let now: Function = Reflect::get(&performance, &"now".into())
            .ok()?
            .dyn_into()
            .ok()?;
        now.call0(&performance).ok()?.as_f64()
    });
    Duration::from_secs_f64(now.unwrap_or_default().max(0.0) / 1000.0)
}

/// Calls a function of the page with each event as JSON, up to the end.
async fn forward(
    mut events: Events,
    tokenizer: Option<Tokenizer>,
    event: Function,
) -> Result<JsValue, Failure> {
    while let Some(news) = events.next().await {
        if let Some(news) = RequestEvent::of(news?, tokenizer.as_ref()) {
            send(&news, &event)?;
        }
    }
    Ok(JsValue::UNDEFINED)
}

/// Calls a function of the page with an event as JSON. Errors of the function do not stop the request.
fn send(news: &RequestEvent, event: &Function) -> Result<(), Failure> {
    let news = serde_json::to_string(news)?;
    let _ = event.call1(&JsValue::NULL, &news.into());
    Ok(())
}

/// Returns a promise of a future. It borrows nothing from the model, which may be freed meanwhile.
fn promise<T: Into<JsValue>>(work: impl Future<Output = Result<T, Failure>> + 'static) -> Promise {
    future_to_promise(async move { Ok(work.await?.into()) })
}

/// Returns `{ tokens, vectors }` of embeddings. It is a plain object, which a worker can send to its page.
fn embedded(tokens: usize, rows: &[Vec<f32>]) -> Object {
    let vectors = rows.iter().map(|row| Float32Array::from(row.as_slice()));
    let vectors: Array = vectors.collect();
    let result = Object::new();
    for (name, value) in [
        ("tokens", JsValue::from(tokens as f64)),
        ("vectors", vectors.into()),
    ] {
        // A property of a new object can always be set.
        let _ = Reflect::set(&result, &name.into(), &value);
    }
    result
}

#[wasm_bindgen(js_class = Model)]
impl JsModel {
    /// Loads a model. `files` are its weights, `texts` its configuration files, and `options` is JSON.
    /// `progress` is called with the loaded bytes and the bytes of all weights, and `note` with the kind and the text of each
    /// warning.
    ///
    /// # Errors
    ///
    /// Rejects with an `Error` whose name is the kind of the error.
    pub async fn load(
        files: Vec<JsFile>,
        texts: Object,
        options: String,
        canceller: &JsCanceller,
        progress: Function,
        note: Function,
    ) -> Result<JsModel, JsValue> {
        let canceller = canceller.canceller.clone();
        Ok(open(files, &texts, &options, canceller, progress, note).await?)
    }

    /// Returns the description of the model and its device as JSON.
    ///
    /// # Errors
    ///
    /// Only if the description cannot be serialised, which does not happen.
    pub fn info(&self) -> Result<String, JsValue> {
        let known = self.model.info();
        let info = Info {
            name: &known.name,
            architecture: &known.architecture,
            task: match known.is_encoder {
                true => "embed",
                false => "generate",
            },
            chat: known.has_chat_template,
            vocab_size: known.vocab_size,
            max_length: known.context_length,
            weight_bytes: known.weight_bytes,
            device: self.model.device(),
        };
        Ok(serde_json::to_string(&info).map_err(Failure::from)?)
    }

    /// Tokenizes a text. `special` adds special tokens such as BOS, as in a prompt.
    ///
    /// # Errors
    ///
    /// If the model has no tokenizer, or no token for a part of the text.
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, JsValue> {
        let tokenizer = self.model.text().tokenizer().map_err(Failure::from)?;
        let tokens = tokenizer.encode(text, special, special);
        Ok(tokens.map_err(|error| Failure::request(error.to_string()))?)
    }

    /// Returns the text of tokens.
    ///
    /// # Errors
    ///
    /// If the model has no tokenizer.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, JsValue> {
        Ok(self.model.detokenize(tokens).map_err(Failure::from)?)
    }

    /// Continues a prompt; `options` is JSON. `event` is called with each event as JSON. The promise resolves
    /// after the last event.
    ///
    /// Rejects if the prompt is too long, an option is out of range, or the device fails.
    pub fn generate(
        &self,
        prompt: Vec<u32>,
        options: String,
        canceller: &JsCanceller,
        event: Function,
    ) -> Promise {
        let model = self.model.clone();
        let canceller = canceller.canceller.clone();
        promise(async move {
            let options: RequestOptions = serde_json::from_str(&options)?;
            let constraint = options.constraint();
            let mut request = model.generate_tokens(prompt).options(options.into());
            if let Some(constraint) = constraint {
                request = request.constraint(constraint);
            }
            let tokenizer = model.text().tokenizer().ok().cloned();
            // A running request does not prevent unloading the model.
            drop(model);
            forward(request.canceller(&canceller).events(), tokenizer, event).await
        })
    }

    /// Answers a chat; `chat` and `options` are JSON. `event` is called with each event as JSON, the first of which
    /// has the number of the prompt's tokens. The promise resolves after the last event.
    ///
    /// Rejects if the model has no chat template, the template refuses the messages, the tools are invalid, an
    /// option is out of range, or the device fails.
    pub fn answer(
        &self,
        chat: String,
        options: String,
        canceller: &JsCanceller,
        event: Function,
    ) -> Promise {
        let model = self.model.clone();
        let canceller = canceller.canceller.clone();
        promise(async move {
            let chat: ChatOptions = serde_json::from_str(&chat)?;
            let options: RequestOptions = serde_json::from_str(&options)?;
            let request = chat.request(options.constraint());
            let request = request.map_err(|error| Failure::request(error.to_string()))?;
            let prompt = model.prepare_chat(&request);
            let prompt = prompt.map_err(|error| Failure::request(error.to_string()))?;
            let tokens = prompt.tokens.len();
            send(&RequestEvent::Prompt { tokens }, &event)?;
            let request = model.answer(&prompt).options(options.into());
            let tokenizer = model.text().tokenizer().ok().cloned();
            drop(model);
            forward(request.canceller(&canceller).events(), tokenizer, event).await
        })
    }

    /// Embeds inputs, a JSON list of texts or of lists of tokens. Resolves to `{ tokens, vectors }`: the number of tokens of
    /// all inputs, and a `Float32Array` for each input.
    ///
    /// Rejects if the model is no encoder, a text is too long, it is cancelled, or the device fails.
    pub fn embed(&self, inputs: String, canceller: &JsCanceller) -> Promise {
        let embedder = self.model.embedder();
        let canceller = canceller.canceller.clone();
        promise(async move {
            let inputs: EmbedInputs = serde_json::from_str(&inputs)?;
            let (tokens, rows) = match inputs {
                EmbedInputs::Texts(texts) => {
                    let embeddings = until(&canceller, embedder.embed_async(&texts)).await?;
                    (embeddings.tokens, embeddings.vectors)
                }
                EmbedInputs::Tokens(texts) => {
                    let tokens: usize = texts.iter().map(Vec::len).sum();
                    let rows = until(&canceller, embedder.embed_tokens_async(texts)).await?;
                    (tokens, rows)
                }
            };
            Ok(embedded(tokens, &rows))
        })
    }

    /// Measures the speed after all running requests end. `options` and the result are JSON.
    ///
    /// Rejects if the workload exceeds the limits of the model, the measurement is cancelled, or the device fails.
    pub fn bench(&self, options: String, canceller: &JsCanceller) -> Promise {
        let (model, canceller) = (self.model.clone(), canceller.canceller.clone());
        promise(async move {
            let options: BenchOptions = serde_json::from_str(&options)?;
            let workload = Workload {
                prompt_tokens: options.prompt_tokens.max(1),
                new_tokens: options.new_tokens.max(1),
                runs: options.runs.clamp(1, 1000),
            };
            let measured = model.exclusive(move |generator| {
                Box::pin(async move {
                    warm_up(generator, workload, &clock).await?;
                    until(&canceller, speed(generator, workload, &clock)).await
                })
            });
            Ok(serde_json::to_string(&measured.await?)?)
        })
    }

    /// Measures which kernels are fastest, after all running requests end. `options` is JSON; the result has the
    /// measurements, a table of them, and the tuning to load models with.
    ///
    /// Rejects if the measurement is cancelled, or the device fails.
    pub fn tune(&self, options: String, canceller: &JsCanceller) -> Promise {
        let (model, canceller) = (self.model.clone(), canceller.canceller.clone());
        promise(async move {
            let options: TuneOptions = serde_json::from_str(&options)?;
            let limit = Duration::from_secs_f64(options.seconds.clamp(1.0, 3600.0));
            let session = SendWrapper::new(model.session().clone());
            let measured = model.exclusive(move |generator| {
                Box::pin(async move {
                    let go_on = |_: &str| match canceller.is_cancelled() {
                        true => ControlFlow::Break(()),
                        false => ControlFlow::Continue(()),
                    };
                    Ok(generator.tune(&session, limit, &clock, &go_on).await?)
                })
            });
            let report = measured.await?;
            let tuning: serde_json::Value =
                serde_json::from_str(&tuning_file::to_json(&report.tuning))?;
            let result = serde_json::json!({
                "table": report.table(),
                "changed": report.changed().count(),
                "leftOut": report.left_out,
                "points": report.points,
                "tuning": tuning,
            });
            Ok(serde_json::to_string(&result)?)
        })
    }

    /// Returns the bytes of GPU memory in use, and the peak.
    pub fn memory(&self) -> Vec<f64> {
        let (now, peak) = self.device.allocated();
        vec![now as f64, peak as f64]
    }
}

/// Returns the bytes of the module's memory, which never shrinks.
#[wasm_bindgen(js_name = wasmMemory)]
pub fn wasm_memory() -> f64 {
    let memory: js_sys::WebAssembly::Memory = wasm_bindgen::memory().unchecked_into();
    let buffer: js_sys::ArrayBuffer = memory.buffer().unchecked_into();
    f64::from(buffer.byte_length())
}
