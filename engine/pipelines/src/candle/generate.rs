//! Text generation with a model of candle's.

use std::{collections::HashMap, ops::ControlFlow};

use super::{CandleFiles, CandleModel, files::NO_ADAPTERS};
use crate::{
    FinishReason, PipelineError, RequestError, SamplingParams, TokenScore, sampler,
    stoppable_text::StoppableText,
    text_generation::{GenerateOptions, Generation},
};
use wisp_device::Device;
use wisp_session::{InferenceSession, InitOptions, Model, SessionError};
use wisp_weights::MemoryWeights;

/// Generates with a model of candle's, one prompt at a time; tokens are drawn by Wisp's own sampler,
/// on the host.
#[derive(Debug)]
pub struct CandleGenerator {
    model: CandleModel,
    sampler: Model,
}

impl CandleGenerator {
    /// Loads a model's files; see [`CandleModel::load`].
    ///
    /// # Errors
    ///
    /// As [`CandleModel::load`].
    pub fn load(
        files: &CandleFiles,
        max_length: Option<u64>,
    ) -> Result<CandleGenerator, PipelineError> {
        let model = CandleModel::load(files, max_length)?;
        let session = InferenceSession::new(Device::host(0).map_err(SessionError::from)?);
        let graph = sampler::build(model.vocab_size())?;
        let sizes = ["logit_rows", "batch", "draws"].map(|name| (name.to_string(), 1));
        let options = InitOptions {
            max_dims: HashMap::from(sizes),
            ..InitOptions::default()
        };
        let compiled = session.compile(&graph)?;
        let sampler = session.init_blocking(&compiled, &MemoryWeights::default(), options)?;
        Ok(CandleGenerator { model, sampler })
    }

    /// The model.
    pub fn model(&self) -> &CandleModel {
        &self.model
    }

    /// Generates for a prompt and hands out its text as it comes: one piece a token, which is empty
    /// while a character or a stop string is incomplete. `on_text` may break off.
    ///
    /// # Errors
    ///
    /// If the prompt does not fit, an option is out of range or asks for an adapter, or candle fails.
    pub async fn generate(
        &mut self,
        files: &CandleFiles,
        prompt: &[u32],
        options: &GenerateOptions,
        mut on_text: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generation, PipelineError> {
        self.check(prompt, options)?;
        let mut generation = Generation::default();
        let sampling = &options.sampling;
        if options.max_new_tokens == Some(0) && !sampling.scores_prompt() {
            return Ok(generation);
        }
        let detokenizer = files.tokenizer.as_ref().ok().map(|tokenizer| {
            let mut detokenizer = tokenizer.detokenizer(true);
            detokenizer.skip(prompt);
            detokenizer
        });
        let mut text = StoppableText::new(detokenizer, options.stop.clone());
        self.model.reset()?;
        let vocab_size = self.model.vocab_size();
        sampler::begin(
            &self.sampler,
            vocab_size,
            0,
            (prompt, prompt.len()),
            sampling,
        )?;
        let mut logits = self.run_prompt(prompt, sampling, &mut generation).await?;
        // The last token drawn needs no place in the context.
        let room = self.model.max_length() as usize + 1 - prompt.len();
        let most = options.max_new_tokens.unwrap_or(room).min(room);
        while generation.tokens.len() < most {
            let at = prompt.len() + generation.tokens.len();
            let (token, score) = self.draw(&logits, sampling, at, None).await?;
            if !options.ignore_eos && files.stop_tokens.contains(&token) {
                generation.finish_reason = FinishReason::Stop;
                break;
            }
            generation.tokens.push(token);
            generation.scores.extend(score);
            let mut piece = text.push(token);
            let full = generation.tokens.len() == most;
            if text.stopped || full {
                piece.push_str(&text.finish());
            }
            generation.text.push_str(&piece);
            if on_text(&piece).is_break() {
                generation.finish_reason = FinishReason::Cancelled;
                break;
            }
            if text.stopped {
                generation.finish_reason = FinishReason::Stop;
                return Ok(generation);
            }
            if !full {
                logits = self.model.forward(&[token], at)?;
            }
        }
        let rest = text.finish();
        generation.text.push_str(&rest);
        if generation.finish_reason == FinishReason::Stop && !rest.is_empty() {
            // It ends all the same.
            let _ = on_text(&rest);
        }
        Ok(generation)
    }

    /// [`Self::generate`], blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`Self::generate`].
    pub fn generate_blocking(
        &mut self,
        files: &CandleFiles,
        prompt: &[u32],
        options: &GenerateOptions,
        on_text: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generation, PipelineError> {
        pollster::block_on(self.generate(files, prompt, options, on_text))
    }

    /// What a request that can never run lacks.
    fn check(&self, prompt: &[u32], options: &GenerateOptions) -> Result<(), PipelineError> {
        options.sampling.check()?;
        if options.adapter.is_some() {
            return Err(NO_ADAPTERS.into());
        }
        let vocab_size = self.model.vocab_size();
        let biased = options.sampling.logit_bias.iter().map(|(token, _)| token);
        let mut named = prompt.iter().chain(biased);
        if let Some(token) = named
            .find(|token| u64::from(**token) >= vocab_size)
            .copied()
        {
            return Err(PipelineError::UnknownToken { token, vocab_size });
        }
        let (tokens, max_length) = (prompt.len(), self.model.max_length() as usize);
        match tokens {
            0 => Err(RequestError::Empty.into()),
            _ if tokens > max_length => Err(RequestError::TooLong { tokens, max_length }.into()),
            _ => Ok(()),
        }
    }

    /// The logits behind the prompt, and the scores of its tokens if they are wanted.
    async fn run_prompt(
        &mut self,
        prompt: &[u32],
        sampling: &SamplingParams,
        generation: &mut Generation,
    ) -> Result<Vec<f32>, PipelineError> {
        if !sampling.scores_prompt() {
            return self.model.forward(prompt, 0);
        }
        let mut logits = Vec::new();
        for (at, token) in prompt.iter().enumerate() {
            logits = self.model.forward(&[*token], at)?;
            if let Some(known) = prompt.get(at + 1) {
                let (_, score) = self.draw(&logits, sampling, at + 1, Some(*known)).await?;
                generation.prompt_scores.extend(score);
            }
        }
        Ok(logits)
    }

    /// Draws the token at a position, or scores the one that is known.
    async fn draw(
        &self,
        logits: &[f32],
        sampling: &SamplingParams,
        position: usize,
        known: Option<u32>,
    ) -> Result<(u32, Option<TokenScore>), PipelineError> {
        let settings = [sampling.settings(0, position as u32, known)];
        self.sampler.write("logits", logits)?;
        self.sampler.write("settings", &settings)?;
        let sizes = [("logit_rows", 1), ("batch", 1), ("draws", 1)];
        self.sampler.run(&self.sampler.dims(&sizes)?)?;
        let token: Vec<u32> = self.sampler.read("out", 1).await?;
        let scores = sampler::read_scores(&self.sampler, &settings, 1).await?;
        match token.first() {
            Some(token) if *token != sampler::NO_TOKEN => {
                Ok((*token, scores.into_iter().next().flatten()))
            }
            _ => Err(PipelineError::NotFinite),
        }
    }
}
