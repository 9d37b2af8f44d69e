//! The pace of steps: how much work one step takes, so that cancelling a request takes effect soon.
//!
//! A step cannot be interrupted, so its duration is the longest wait of a caller who cancels. Fast
//! devices keep the chunks of [`ModelLimits`](crate::ModelLimits), slow ones get smaller chunks.

use super::batch::Batch;

/// The seconds that a step should take at most. On the host, whose matrix products unpack the weights in
/// each step, shorter steps would cost much of the speed of prefill.
const STEP_SECONDS: f64 = 1.0;

/// Prompt tokens that kernels multiply with a weight together: 17 take almost as long as 32. Steps take whole multiples
/// where they can, and the first step one, before anything has been measured.
const TILE: u64 = 32;

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
        Pace {
            prompt_tokens: match splits_prompts {
                true => TILE,
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

    /// Returns the pace of a batch that is submitted behind another one, so that together they take about as long as one
    /// may; `None` if the other one takes that long alone.
    pub fn behind(self, in_flight: &Batch) -> Option<Pace> {
        let (work, most) = match in_flight.decodes() {
            true => (in_flight.steps as u64, self.decode_steps),
            false => (in_flight.tokens() as u64, self.prompt_tokens),
        };
        let left = 1.0 - work as f64 / most.max(1) as f64;
        // A conversion of a float saturates.
        let part = |of: u64| (of as f64 * left) as u64;
        (left > 0.0).then(|| Pace {
            prompt_tokens: part(self.prompt_tokens) / TILE * TILE,
            decode_steps: part(self.decode_steps).max(1),
        })
    }

    /// Returns the number of prompt tokens that a step may take.
    pub fn prompt_tokens(self) -> usize {
        usize::try_from(self.prompt_tokens).unwrap_or(usize::MAX)
    }

    /// Returns the number of decode steps that one submission may take.
    pub fn decode_steps(self) -> usize {
        usize::try_from(self.decode_steps).unwrap_or(usize::MAX)
    }

    /// Adapts the pace to a batch that took `seconds`: 0 if that is less than the clock can tell, as in browsers that round
    /// their times.
    pub fn observe(&mut self, batch: &Batch, seconds: f64) {
        let tokens = batch.tokens() as u64;
        if batch.decodes() {
            self.decode_steps = next(batch.steps as u64, seconds).max(1);
        } else {
            self.observe_prompt(tokens, seconds);
        }
    }

    /// Adapts the pace to a step that computed only tokens of prompts, as [`Self::observe`] does.
    pub fn observe_prompt(&mut self, tokens: u64, seconds: f64) {
        // A step of few tokens takes longer for each of them.
        let counts = tokens >= self.prompt_tokens / 2 || seconds > STEP_SECONDS;
        if self.prompt_tokens < u64::MAX && counts {
            let tiles = (next(tokens, seconds) + TILE / 2) / TILE;
            self.prompt_tokens = (tiles * TILE).max(TILE);
        }
    }
}

/// Returns how many of the last `rest` tokens of a prompt the next step takes, which may take `most`. The steps of a prompt
/// take about as many, because few tokens take longer for each of them.
pub(crate) fn part_of_prompt(rest: usize, most: usize) -> usize {
    if rest <= most || most == 0 {
        return rest.min(most);
    }
    let part = rest.div_ceil(rest.div_ceil(most));
    part.next_multiple_of(TILE as usize).min(most)
}

/// Returns how much work the next step may take, after `work` took `seconds`.
fn next(work: u64, seconds: f64) -> u64 {
    let fitting = work as f64 / seconds * STEP_SECONDS;
    // A conversion of a float saturates, that of infinity too.
    (fitting as u64).min(work.saturating_mul(GROWTH))
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
        assert_eq!(steps(&mut Pace::new(true), 1e-5, 4), [32, 128, 512, 512]);
        // Faster than the clock can tell.
        assert_eq!(steps(&mut Pace::new(true), 0.0, 4), [32, 128, 512, 512]);
    }

    #[test]
    fn chunks_take_a_second_on_a_slow_device() {
        let mut pace = Pace::new(true);
        assert_eq!(steps(&mut pace, 2.1e-3, 4), [32, 128, 480, 480]);
        // It becomes slower still.
        assert_eq!(steps(&mut pace, 1e-2, 2), [480, 96]);
        assert_eq!(steps(&mut pace, 1.0, 2), [96, 32]);
    }

    #[test]
    fn the_few_tokens_at_the_end_of_a_prompt_do_not_slow_down_the_next_one() {
        let mut pace = Pace::of(96, 1);
        pace.observe(&batch(16, 1), 0.4);
        assert_eq!(pace.prompt_tokens(), 96);
        pace.observe(&batch(16, 1), 1.6);
        assert_eq!(pace.prompt_tokens(), 32);
    }

    #[test]
    fn the_steps_of_a_prompt_take_about_as_many_tokens() {
        let steps = |mut rest: usize, most: usize| {
            let mut steps = Vec::new();
            while rest > 0 {
                steps.push(part_of_prompt(rest, most));
                rest -= steps[steps.len() - 1];
            }
            steps
        };
        assert_eq!(steps(256, 96), [96, 96, 64]);
        assert_eq!(steps(520, 512), [288, 232]);
        assert_eq!(steps(100, 96), [64, 36]);
        assert_eq!(steps(96, 96), [96]);
        assert_eq!(steps(5, 2), [2, 2, 1]);
        assert_eq!(part_of_prompt(5, 0), 0);
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
        assert_eq!([0.0; 2].map(&mut decode), [1, 4]);
    }
}
