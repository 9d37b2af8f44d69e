//! The pace of steps: how much work one step takes, so that cancelling a request takes effect soon.
//!
//! A step cannot be interrupted, so its duration is the longest wait of a caller who cancels. Fast
//! devices keep the chunks of [`ModelLimits`](crate::ModelLimits), slow ones get smaller chunks.

use super::batch::Batch;

/// The seconds that a step should take at most. On the host, whose matrix products unpack the weights in
/// each step, shorter steps would cost much of the speed of prefill.
const STEP_SECONDS: f64 = 1.0;

/// Prompt tokens of the first step, before anything has been measured, and the least that a step
/// takes together.
const FEWEST_TOKENS: u64 = 16;

/// By how much the work of a step grows at most from one step to the next.
const GROWTH: u64 = 4;

/// How much work one step may take, adapted to the measured duration of the steps before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    prompt_tokens: u64,
    decode_steps: u64,
}

impl Pace {
    /// Creates the pace of a device that has not been measured. `splits_prompts` is false for models
    /// that compute whole prompts.
    pub fn new(splits_prompts: bool) -> Pace {
        if cfg!(target_arch = "wasm32") {
            // There is no clock.
            return Pace::unlimited();
        }
        Pace {
            prompt_tokens: match splits_prompts {
                true => FEWEST_TOKENS,
                false => u64::MAX,
            },
            decode_steps: 1,
        }
    }

    /// Creates the pace of steps that nobody waits for.
    pub fn unlimited() -> Pace {
        Pace {
            prompt_tokens: u64::MAX,
            decode_steps: u64::MAX,
        }
    }

    /// Creates a pace of so much work.
    #[cfg(test)]
    pub fn of(prompt_tokens: usize, decode_steps: usize) -> Pace {
        let (prompt_tokens, decode_steps) = (prompt_tokens as u64, decode_steps as u64);
        Pace {
            prompt_tokens,
            decode_steps,
        }
    }

    /// Returns the number of prompt tokens that a step may take.
    pub fn prompt_tokens(self) -> usize {
        usize::try_from(self.prompt_tokens).unwrap_or(usize::MAX)
    }

    /// Returns the number of decode steps that one submission may take.
    pub fn decode_steps(self) -> usize {
        usize::try_from(self.decode_steps).unwrap_or(usize::MAX)
    }

    /// Adapts the pace to a batch that took `seconds`.
    pub fn observe(&mut self, batch: &Batch, seconds: f64) {
        if seconds <= 0.0 {
            return;
        }
        let tokens = batch.tokens() as u64;
        if batch.sequences.iter().all(|part| part.tokens.len() == 1) {
            self.decode_steps = next(batch.steps as u64, seconds).max(1);
        } else if self.prompt_tokens < u64::MAX && tokens >= FEWEST_TOKENS {
            let tokens = next(tokens, seconds);
            self.prompt_tokens = (tokens - tokens % FEWEST_TOKENS).max(FEWEST_TOKENS);
        }
    }
}

/// Returns how much work the next step may take, after `work` took `seconds`.
fn next(work: u64, seconds: f64) -> u64 {
    let fitting = work as f64 / seconds * STEP_SECONDS;
    // A conversion of a float saturates.
    (fitting as u64).min(work.saturating_mul(GROWTH))
}

/// Measures the seconds of a step; none in a browser, which has no such clock.
pub(crate) struct Timer {
    #[cfg(not(target_arch = "wasm32"))]
    since: std::time::Instant,
}

impl Timer {
    pub fn start() -> Timer {
        Timer {
            #[cfg(not(target_arch = "wasm32"))]
            since: std::time::Instant::now(),
        }
    }

    pub fn seconds(&self) -> f64 {
        #[cfg(not(target_arch = "wasm32"))]
        return self.since.elapsed().as_secs_f64();
        #[cfg(target_arch = "wasm32")]
        return 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::BatchSequence;

    fn batch(tokens: usize, steps: usize) -> Batch {
        let sequences = vec![BatchSequence::new(0, 0, &vec![1; tokens], &[])];
        Batch { sequences, steps }
    }

    /// Runs a long prompt on a device that takes `per_token` seconds for each token; returns the
    /// tokens of each step.
    fn steps(pace: &mut Pace, per_token: f64, count: usize) -> Vec<usize> {
        let step = |_| {
            let tokens = pace.prompt_tokens().min(512);
            pace.observe(&batch(tokens, 1), tokens as f64 * per_token);
            tokens
        };
        (0..count).map(step).collect()
    }

    #[test]
    fn chunks_grow_to_the_limit_on_a_fast_device() {
        assert_eq!(
            steps(&mut Pace::new(true), 1e-5, 5),
            [16, 64, 256, 512, 512]
        );
    }

    #[test]
    fn chunks_take_a_second_on_a_slow_device() {
        let mut pace = Pace::new(true);
        assert_eq!(steps(&mut pace, 2e-3, 4), [16, 64, 256, 496]);
        // It becomes slower still.
        assert_eq!(steps(&mut pace, 1e-2, 2), [496, 96]);
        assert_eq!(steps(&mut pace, 1.0, 2), [96, 16]);
    }

    #[test]
    fn decode_steps_follow_the_duration_of_one() {
        let mut pace = Pace::new(true);
        let mut decode = |seconds: f64| {
            let steps = pace.decode_steps();
            pace.observe(&batch(1, steps), steps as f64 * seconds);
            steps
        };
        assert_eq!([0.01; 3].map(&mut decode), [1, 4, 16]);
        assert_eq!([0.1; 3].map(&mut decode), [64, 10, 10]);
        assert_eq!([1.0; 2].map(&mut decode), [10, 1]);
    }
}
