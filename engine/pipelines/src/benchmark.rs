//! Measures the speed of prefill and decode.

use std::time::Duration;

use super::{
    FinishReason, PipelineError, Request, RequestError, RequestId, SampledToken, TextGenerator,
};

/// Tokens per second over several runs.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Rate {
    /// Tokens per run.
    pub tokens: u32,
    /// The median in tokens per second.
    pub median: f64,
    /// The slowest run, in tokens per second.
    pub least: f64,
    /// The fastest run, in tokens per second.
    pub most: f64,
}

impl Rate {
    fn of(tokens: u32, mut seconds: Vec<f64>) -> Rate {
        seconds.sort_by(f64::total_cmp);
        let rate = |at: usize| f64::from(tokens) / seconds.get(at).map_or(1e-9, |s| s.max(1e-9));
        Rate {
            tokens,
            median: rate(seconds.len() / 2),
            least: rate(seconds.len().saturating_sub(1)),
            most: rate(0),
        }
    }
}

/// A model's speed.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Speed {
    /// Speed of the prompt, up to the first sampled token.
    pub prefill: Rate,
    /// Speed of the tokens after the first one.
    pub decode: Rate,
}

/// The workload of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Tokens of the prompt, at least one.
    pub prompt_tokens: u32,
    /// Tokens to generate.
    pub new_tokens: u32,
    /// The number of runs.
    pub runs: u32,
}

impl Workload {
    /// Refuses a workload without a prompt, and one that is longer than a model's limits.
    fn check(&self, generator: &TextGenerator) -> Result<(), PipelineError> {
        if self.prompt_tokens == 0 {
            return Err(RequestError::Empty.into());
        }
        let tokens = u64::from(self.prompt_tokens).saturating_add(self.new_tokens.into());
        let max_length = generator.limits().max_length;
        if tokens > max_length {
            let error = RequestError::TooLong {
                tokens: usize::try_from(tokens).unwrap_or(usize::MAX),
                max_length: usize::try_from(max_length).unwrap_or(usize::MAX),
            };
            return Err(error.into());
        }
        Ok(())
    }
}

/// Runs one prompt and its continuation and returns the seconds of each.
async fn run(
    generator: &mut TextGenerator,
    prompt_tokens: u32,
    new_tokens: u32,
    seed: u32,
    now: &(dyn Fn() -> Duration + Sync),
) -> Result<(f64, f64), PipelineError> {
    let vocab = (generator.model().vocab_size() as u32).max(1);
    // Any tokens will do; a multiplicative sequence has a long period.
    let tokens = (0..prompt_tokens)
        .map(|i| (i + seed).wrapping_mul(2_654_435_761) % vocab)
        .collect();
    // Prompts of earlier runs may begin alike.
    generator.forget_prefixes();
    let id = generator.add(Request {
        tokens,
        max_new_tokens: new_tokens as usize + 1,
        ..Request::default()
    })?;
    let running = Running { generator, id };
    let start = now();
    let mut first = None;
    while !running.generator.is_idle() {
        let tokens = running.generator.step().await?.tokens;
        let is_broken = |token: &SampledToken| token.finish == Some(FinishReason::NonFinite);
        if tokens.iter().any(is_broken) {
            let request = Some(id);
            return Err(PipelineError::NotFinite { request });
        }
        if !tokens.is_empty() {
            first.get_or_insert_with(|| (now() - start).as_secs_f64());
        }
    }
    let prefill = first.unwrap_or_default();
    Ok((prefill, (now() - start).as_secs_f64() - prefill))
}

/// A request that is cancelled when its run ends before it, as that of a future that is dropped.
struct Running<'g> {
    generator: &'g mut TextGenerator,
    id: RequestId,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.generator.cancel(self.id);
    }
}

/// Runs once briefly before measurements, because drivers finish compilation at first use.
///
/// # Errors
///
/// As [`speed`].
pub async fn warm_up(
    generator: &mut TextGenerator,
    workload: Workload,
    now: &(dyn Fn() -> Duration + Sync),
) -> Result<(), PipelineError> {
    let (prompt_tokens, new_tokens) = (workload.prompt_tokens.min(9), workload.new_tokens.min(2));
    run(generator, prompt_tokens, new_tokens, 1, now).await?;
    Ok(())
}

/// Like [`warm_up`], but blocks the thread.
///
/// # Errors
///
/// As [`speed`].
#[cfg(not(target_arch = "wasm32"))]
pub fn warm_up_blocking(
    generator: &mut TextGenerator,
    workload: Workload,
    now: &(dyn Fn() -> Duration + Sync),
) -> Result<(), PipelineError> {
    pollster::block_on(warm_up(generator, workload, now))
}

/// Like [`speed`], but blocks the thread.
///
/// # Errors
///
/// As [`speed`].
#[cfg(not(target_arch = "wasm32"))]
pub fn speed_blocking(
    generator: &mut TextGenerator,
    workload: Workload,
    now: &(dyn Fn() -> Duration + Sync),
) -> Result<Speed, PipelineError> {
    pollster::block_on(speed(generator, workload, now))
}

/// Like [`speeds`], but blocks the thread.
///
/// # Errors
///
/// As [`speed`].
#[cfg(not(target_arch = "wasm32"))]
pub fn speeds_blocking<const N: usize>(
    generators: [&mut TextGenerator; N],
    workload: Workload,
    now: &(dyn Fn() -> Duration + Sync),
) -> Result<[Speed; N], PipelineError> {
    pollster::block_on(speeds(generators, workload, now))
}

/// Measures an otherwise idle model, after [`warm_up`]. `now` reads a clock; browsers and native
/// programs have different ones.
///
/// # Errors
///
/// If the workload has no prompt or is longer than the model's limits, the model computes no finite logits, or the device
/// fails.
pub async fn speed(
    generator: &mut TextGenerator,
    workload: Workload,
    now: &(dyn Fn() -> Duration + Sync),
) -> Result<Speed, PipelineError> {
    let [speed] = speeds([generator], workload, now).await?;
    Ok(speed)
}

/// Measures several otherwise idle models as [`speed`] does, in turn: each run of one is followed by a run of the
/// next, so that what slows the device down meets all of them.
///
/// # Errors
///
/// As [`speed`].
pub async fn speeds<const N: usize>(
    mut generators: [&mut TextGenerator; N],
    workload: Workload,
    now: &(dyn Fn() -> Duration + Sync),
) -> Result<[Speed; N], PipelineError> {
    for generator in &generators {
        workload.check(generator)?;
    }
    let mut seconds = [const { (Vec::new(), Vec::new()) }; N];
    for seed in 0..workload.runs {
        for (generator, (prefill, decode)) in generators.iter_mut().zip(&mut seconds) {
            let (prompt_tokens, new_tokens) = (workload.prompt_tokens, workload.new_tokens);
            let times = run(generator, prompt_tokens, new_tokens, seed, now).await?;
            prefill.push(times.0);
            decode.push(times.1);
        }
    }
    Ok(seconds.map(|(prefill, decode)| Speed {
        prefill: Rate::of(workload.prompt_tokens, prefill),
        decode: Rate::of(workload.new_tokens, decode),
    }))
}
