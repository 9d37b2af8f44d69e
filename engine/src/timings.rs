//! How long the parts of a request took, measured where its steps run.

use std::{
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use web_time::Instant;

/// How long the parts of a request took so far. The times are those at which the results of steps
/// were read back from the device, so that they do not depend on when the caller receives events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestTimings {
    /// From the start of the request to the beginning of the first step that computed something of it.
    pub queued: Option<Duration>,
    /// From the start of the request to its first token.
    pub first_token: Option<Duration>,
    /// From the first token to the last one so far.
    pub decode: Duration,
    /// Tokens that came after those of the first token's submission.
    pub decoded_tokens: usize,
    /// The submissions that these tokens took.
    pub decode_submissions: usize,
}

impl RequestTimings {
    /// Returns the tokens per second after the first token; `None` if fewer than two submissions were
    /// measured, which says too little.
    pub fn decode_tokens_per_second(&self) -> Option<f64> {
        let measured = self.decode_submissions >= 2 && !self.decode.is_zero();
        measured.then(|| self.decoded_tokens as f64 / self.decode.as_secs_f64())
    }

    /// Returns the tokens per second of a prompt of `tokens` tokens, including the first sampled one,
    /// from the first step that computed something of it; `None` before the first token.
    pub fn prefill_tokens_per_second(&self, tokens: usize) -> Option<f64> {
        let waited = self.queued.unwrap_or_default();
        let time = self.first_token?.saturating_sub(waited);
        (!time.is_zero()).then(|| tokens as f64 / time.as_secs_f64())
    }

    /// Adds a step that gave the request `tokens` tokens, `elapsed` after its start.
    fn add(&mut self, tokens: usize, elapsed: Duration) {
        match self.first_token {
            None => self.first_token = Some(elapsed),
            Some(first) => {
                self.decode = elapsed.saturating_sub(first);
                self.decoded_tokens += tokens;
                self.decode_submissions += 1;
            }
        }
    }
}

/// The timings of a request, which the worker writes and the receiver of its events reads.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    start: Instant,
    timings: Arc<Mutex<RequestTimings>>,
}

impl Clock {
    /// Starts the time of a request.
    pub fn start() -> Clock {
        Clock {
            start: Instant::now(),
            timings: Arc::default(),
        }
    }

    /// Notes the time of a step that computed something of the request and gave it `tokens` tokens, which may be none.
    pub fn note(&self, step: &Range<Instant>, tokens: usize) {
        let since = |moment: Instant| moment.saturating_duration_since(self.start);
        let mut timings = self.lock();
        timings.queued.get_or_insert(since(step.start));
        if tokens > 0 {
            timings.add(tokens, since(step.end));
        }
    }

    /// Returns the timings so far.
    pub fn timings(&self) -> RequestTimings {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, RequestTimings> {
        // Poisoning is harmless: nothing panics while it is held.
        self.timings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decode_rate_needs_two_submissions_after_the_first_token() {
        let mut timings = RequestTimings::default();
        assert_eq!(timings.prefill_tokens_per_second(8), None);
        timings.add(1, Duration::from_millis(400));
        timings.add(4, Duration::from_millis(401));
        assert_eq!(timings.decode_tokens_per_second(), None);
        timings.add(4, Duration::from_millis(900));
        assert_eq!(timings.decode_tokens_per_second(), Some(16.0));
        assert_eq!(timings.prefill_tokens_per_second(8), Some(20.0));
    }

    #[test]
    fn steps_without_tokens_only_begin_the_request() {
        let clock = Clock::start();
        let at = |millis| clock.start + Duration::from_millis(millis);
        clock.note(&(at(5)..at(20)), 0);
        let queued = Some(Duration::from_millis(5));
        let expected = RequestTimings {
            queued,
            ..RequestTimings::default()
        };
        assert_eq!(clock.timings(), expected);
        clock.note(&(at(20)..at(30)), 1);
        clock.note(&(at(30)..at(50)), 4);
        let timings = clock.timings();
        assert_eq!(timings.queued, queued);
        assert_eq!(timings.first_token, Some(Duration::from_millis(30)));
        assert_eq!(timings.decode, Duration::from_millis(20));
        assert_eq!((timings.decoded_tokens, timings.decode_submissions), (4, 1));
    }

    #[test]
    fn prefill_rate_is_without_the_time_in_the_queue() {
        let timings = RequestTimings {
            queued: Some(Duration::from_millis(500)),
            first_token: Some(Duration::from_millis(900)),
            ..RequestTimings::default()
        };
        assert_eq!(timings.prefill_tokens_per_second(8), Some(20.0));
    }
}
