//! What generates: Wisp's own engine, or Hugging Face's candle where `--engine huggingface` asks.

#[cfg(feature = "candle")]
use std::time::Instant;

use anyhow::Result;
#[cfg(feature = "candle")]
use wisp_engine::{
    device::Device,
    pipelines::{
        PipelineEngine,
        candle::{CandleFiles, CandleModel},
    },
    session::InferenceSession,
};
use wisp_engine::{
    pipelines::{
        ModelFiles, TextGenerator, TextProcessor,
        tokenizer::{Tokenizer, TokenizerError},
    },
    session::{GpuProfiling, StartTimes, TimingReport},
};

use crate::{settings::Resolved, setup::describe};

/// The files of a model to generate with.
pub enum Files {
    /// For Wisp's own engine.
    Max(Box<ModelFiles>),
    /// For candle.
    #[cfg(feature = "candle")]
    HuggingFace(Box<CandleFiles>),
}

/// A model that is ready to generate.
pub struct Engine {
    /// The generator.
    pub generator: TextGenerator,
    /// Where the model runs, in a few words.
    pub device: String,
    /// Seconds of loading.
    load_seconds: f64,
    /// What Wisp's own engine spent of them.
    start: StartTimes,
}

impl Files {
    /// Opens the model's files, after downloading what is missing.
    pub fn open(settings: &Resolved) -> Result<Files> {
        #[cfg(feature = "candle")]
        if settings.config.engine == PipelineEngine::HuggingFace {
            return Ok(Files::HuggingFace(Box::new(settings.open_candle()?)));
        }
        Ok(Files::Max(Box::new(settings.open()?)))
    }

    /// What the user calls the model.
    pub fn name(&self) -> &str {
        match self {
            Files::Max(files) => &files.name,
            #[cfg(feature = "candle")]
            Files::HuggingFace(files) => &files.name,
        }
    }

    /// The tokenizer, or why there is none.
    pub fn tokenizer(&self) -> &Result<Tokenizer, TokenizerError> {
        match self {
            Files::Max(files) => &files.tokenizer,
            #[cfg(feature = "candle")]
            Files::HuggingFace(files) => &files.tokenizer,
        }
    }

    /// The text side of the model.
    pub fn text(&self) -> TextProcessor {
        match self {
            Files::Max(files) => TextProcessor::of(files),
            #[cfg(feature = "candle")]
            Files::HuggingFace(files) => files.text(),
        }
    }

    /// Loads the model for a conversation, or for one text: the tokens of its prompt, and the most
    /// that are wanted.
    pub fn load(
        &self,
        settings: &Resolved,
        text: Option<(usize, Option<usize>)>,
    ) -> Result<Engine> {
        match self {
            Files::Max(files) => {
                let limits = match text {
                    Some((prompt, new)) => settings.limits_for(files, prompt, new)?,
                    None => settings.limits(files)?,
                };
                let loaded = settings.load(files, limits)?;
                Ok(Engine {
                    device: describe(loaded.device.info()),
                    generator: loaded.generator,
                    load_seconds: loaded.load_seconds,
                    start: loaded.start,
                })
            }
            #[cfg(feature = "candle")]
            Files::HuggingFace(files) => {
                let start = Instant::now();
                let length = settings.length_is_set.then_some(settings.config.max_length);
                let model = CandleModel::load(files, length)?;
                let session = InferenceSession::new(Device::host(settings.config.threads)?);
                let generator = TextGenerator::new(&session, model, files.text());
                Ok(Engine {
                    generator: pollster::block_on(generator)?,
                    device: "the CPU (candle)".into(),
                    load_seconds: start.elapsed().as_secs_f64(),
                    start: StartTimes::default(),
                })
            }
        }
    }
}

impl Engine {
    /// Tokens of a text, at the most.
    pub fn max_length(&self) -> u64 {
        self.generator.limits().max_length
    }

    /// Seconds of loading, and what of them Wisp's own engine went through.
    pub fn load_times(&self) -> (f64, StartTimes) {
        (self.load_seconds, self.start)
    }

    /// What was timed, if the environment asks for profiling; candle's models are not timed.
    pub fn profile(&self) -> Result<Option<TimingReport>> {
        let Some(decoder) = self.generator.decoder() else {
            return Ok(None);
        };
        let profiler = decoder.decoder().profiler();
        match profiler.mode() {
            GpuProfiling::Off => Ok(None),
            _ => Ok(Some(pollster::block_on(profiler.take())?)),
        }
    }
}
