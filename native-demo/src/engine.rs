//! What generates: Wisp's own engine, or Hugging Face's candle where `--engine huggingface` asks.

use std::ops::ControlFlow;
#[cfg(feature = "candle")]
use std::time::Instant;

use anyhow::Result;
#[cfg(feature = "candle")]
use wisp_engine::pipelines::{
    PipelineEngine,
    candle::{CandleFiles, CandleGenerator},
};
use wisp_engine::{
    pipelines::{
        ModelFiles, PipelineError,
        chat_template::Message,
        text_generation::{GenerateOptions, Generation},
        tokenizer::{Tokenizer, TokenizerError},
    },
    session::{GpuProfiling, StartTimes, TimingReport},
};

use crate::{
    adapter::AdapterArgs,
    settings::Resolved,
    setup::{Loaded, describe},
};

/// The files of a model to generate with.
pub enum Files {
    /// For Wisp's own engine.
    Max(Box<ModelFiles>),
    /// For candle.
    #[cfg(feature = "candle")]
    HuggingFace(Box<CandleFiles>),
}

/// A model that is ready to generate.
pub enum Engine {
    /// Through Wisp's own engine.
    Max(Box<Loaded>),
    /// Through candle, and the seconds of loading it.
    #[cfg(feature = "candle")]
    HuggingFace(Box<CandleGenerator>, f64),
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

    /// A conversation as the model reads it, up to where its answer begins.
    pub fn chat_prompt(&self, messages: &[Message]) -> Result<Vec<u32>, PipelineError> {
        match self {
            Files::Max(files) => files.chat_prompt(messages),
            #[cfg(feature = "candle")]
            Files::HuggingFace(files) => files.chat_prompt(messages),
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
                Ok(Engine::Max(Box::new(settings.load(files, limits)?)))
            }
            #[cfg(feature = "candle")]
            Files::HuggingFace(files) => {
                let start = Instant::now();
                let length = settings.length_is_set.then_some(settings.config.max_length);
                let generator = CandleGenerator::load(files, length)?;
                let seconds = start.elapsed().as_secs_f64();
                Ok(Engine::HuggingFace(Box::new(generator), seconds))
            }
        }
    }
}

impl Engine {
    /// Where the model runs, in a few words.
    pub fn device(&self) -> String {
        match self {
            Engine::Max(loaded) => describe(loaded.device.info()),
            #[cfg(feature = "candle")]
            Engine::HuggingFace(..) => "the CPU (candle)".into(),
        }
    }

    /// Tokens of a text, at the most.
    pub fn max_length(&self) -> u64 {
        match self {
            Engine::Max(loaded) => loaded.generator.model().limits().max_length,
            #[cfg(feature = "candle")]
            Engine::HuggingFace(generator, _) => generator.model().max_length(),
        }
    }

    /// Seconds of loading, and what of them Wisp's own engine went through.
    pub fn load_times(&self) -> (f64, StartTimes) {
        match self {
            Engine::Max(loaded) => (loaded.load_seconds, loaded.start),
            #[cfg(feature = "candle")]
            Engine::HuggingFace(_, seconds) => (*seconds, StartTimes::default()),
        }
    }

    /// The share of the prompts' tokens that were found in the cache.
    pub fn prefix_hit_rate(&self) -> Option<f64> {
        match self {
            Engine::Max(loaded) => Some(loaded.generator.prefix_hits().rate()),
            #[cfg(feature = "candle")]
            Engine::HuggingFace(..) => None,
        }
    }

    /// What was timed, if the environment asks for profiling; candle's models are not timed.
    pub fn profile(&self) -> Result<Option<TimingReport>> {
        match self {
            Engine::Max(loaded) => {
                let profiler = loaded.generator.model().decoder().profiler();
                match profiler.mode() {
                    GpuProfiling::Off => Ok(None),
                    _ => Ok(Some(pollster::block_on(profiler.take())?)),
                }
            }
            #[cfg(feature = "candle")]
            Engine::HuggingFace(..) => Ok(None),
        }
    }

    /// The name of the adapter that is asked for; candle refuses one when it generates.
    pub fn adapter(&self, wanted: &AdapterArgs) -> Result<Option<String>> {
        match self {
            Engine::Max(loaded) => wanted.choose(&loaded.generator),
            #[cfg(feature = "candle")]
            Engine::HuggingFace(..) => Ok(wanted.name().map(String::from)),
        }
    }

    /// Generates for one prompt; see `TextGenerator::generate`.
    pub fn generate(
        &mut self,
        files: &Files,
        prompt: &[u32],
        options: &GenerateOptions,
        on_text: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generation> {
        match (self, files) {
            (Engine::Max(loaded), Files::Max(files)) => {
                let generator = &mut loaded.generator;
                Ok(generator.generate_blocking(files, prompt, options, on_text)?)
            }
            #[cfg(feature = "candle")]
            (Engine::HuggingFace(generator, _), Files::HuggingFace(files)) => {
                Ok(generator.generate_blocking(files, prompt, options, on_text)?)
            }
            #[cfg(feature = "candle")]
            _ => anyhow::bail!("the files are another engine's"),
        }
    }
}
