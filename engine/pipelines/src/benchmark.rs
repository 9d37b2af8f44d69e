//! How fast a model reads prompts and generates.

use std::time::Duration;

use super::{PipelineError, Request, TextGenerator};

/// Tokens a second over several runs.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Rate {
    /// Tokens of a run.
    pub tokens: u32,
    /// The median, tokens a second.
    pub median: f64,
    /// The slowest run.
    pub least: f64,
    /// The fastest run.
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
    /// Of the prompt, up to its first token.
    pub prefill: Rate,
    /// Of the tokens behind it.
    pub decode: Rate,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Tokens of the prompt, at least one.
    pub prompt_tokens: u32,
    /// Tokens to generate.
    pub new_tokens: u32,
    /// How many times.
    pub runs: u32,
}

/// Seconds of one prompt and of its continuation.
async fn run(
    generator: &mut TextGenerator,
    prompt_tokens: u32,
    new_tokens: u32,
    seed: u32,
    now: &(dyn Fn() -> Duration + Sync),
) -> Result<(f64, f64), PipelineError> {
    let vocab = (generator.model().vocab_size() as u32).max(1);
    // Any tokens will do; a multiplicative sequence repeats late.
    let tokens = (0..prompt_tokens)
        .map(|i| (i + seed).wrapping_mul(2_654_435_761) % vocab)
        .collect();
    generator.add(Request {
        tokens,
        max_new_tokens: new_tokens as usize + 1,
        ..Request::default()
    })?;
    let start = now();
    let mut first = None;
    while !generator.is_idle() {
        if !generator.step().await?.tokens.is_empty() {
            first.get_or_insert_with(|| (now() - start).as_secs_f64());
        }
    }
    let prefill = first.unwrap_or_default();
    Ok((prefill, (now() - start).as_secs_f64() - prefill))
}

/// A short run before those that are measured: drivers finish compiling at the first use.
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

/// Measures a model that does nothing else, after [`warm_up`]. `now` is a clock: a browser has another than a program.
///
/// # Errors
///
/// If the workload is longer than the model's limits, or the device fails.
pub async fn speed(
    generator: &mut TextGenerator,
    workload: Workload,
    now: &(dyn Fn() -> Duration + Sync),
) -> Result<Speed, PipelineError> {
    let Workload {
        prompt_tokens,
        new_tokens,
        runs,
    } = workload;
    let (mut prefill, mut decode) = (Vec::new(), Vec::new());
    for seed in 0..runs {
        let times = run(generator, prompt_tokens, new_tokens, seed, now).await?;
        prefill.push(times.0);
        decode.push(times.1);
    }
    Ok(Speed {
        prefill: Rate::of(prompt_tokens, prefill),
        decode: Rate::of(new_tokens, decode),
    })
}
