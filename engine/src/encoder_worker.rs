//! The worker of a loaded encoder, which runs the texts of several callers together.

use futures_channel::{
    mpsc::{UnboundedReceiver, UnboundedSender, unbounded},
    oneshot,
};
use wisp_pipelines::{EncodeRequest, PipelineError, TextEncoder};

use crate::{
    error::Error,
    worker::{Ended, next, spawn_until},
};

/// Texts for an encoder, and where their results go.
pub(crate) struct EncoderJob {
    pub request: EncodeRequest,
    /// The number of the caller's texts before these, for errors.
    pub before: usize,
    pub sender: oneshot::Sender<Result<Vec<Vec<f32>>, Error>>,
}

/// The jobs of an encoder.
struct EncoderQueue {
    receiver: UnboundedReceiver<EncoderJob>,
    /// The job that did not fit the last group.
    held: Option<EncoderJob>,
    max_texts: u64,
}

impl EncoderQueue {
    /// Waits for a job, and returns it with those behind it that fit the same batch of `max_tokens` tokens. Jobs whose
    /// callers have gone are dropped. Returns `None` when all senders are dropped.
    async fn next_group(&mut self, max_tokens: u64) -> Option<Vec<EncoderJob>> {
        let first = loop {
            let job = match self.held.take() {
                Some(job) => job,
                None => next(&mut self.receiver).await?,
            };
            if !job.sender.is_canceled() {
                break job;
            }
        };
        let size = |request: &EncodeRequest| {
            let texts = request.texts();
            let tokens = texts.iter().map(|text| text.len() as u64);
            [texts.len() as u64, tokens.sum()]
        };
        let [mut texts, mut tokens] = size(&first.request);
        let is_scored = first.request.is_scored();
        let mut group = vec![first];
        while let Ok(job) = self.receiver.try_recv() {
            if job.sender.is_canceled() {
                continue;
            }
            let [more_texts, more_tokens] = size(&job.request);
            texts += more_texts;
            tokens += more_tokens;
            let fits = texts <= self.max_texts && tokens <= max_tokens;
            if !fits || job.request.is_scored() != is_scored {
                self.held = Some(job);
                break;
            }
            group.push(job);
        }
        Some(group)
    }
}

/// Starts the worker of an encoder, which runs the texts of its callers together where a batch has room for them.
///
/// # Errors
///
/// If no thread can be started.
pub(crate) fn start_encoder(
    mut encoder: TextEncoder,
) -> Result<(UnboundedSender<EncoderJob>, Ended), Error> {
    let (sender, receiver) = unbounded();
    let mut queue = EncoderQueue {
        receiver,
        held: None,
        max_texts: encoder.limits().max_batch,
    };
    let ended = spawn_until(async move {
        while let Some(group) = queue.next_group(encoder.batch_tokens()).await {
            let parts = group
                .into_iter()
                .map(|job| (job.request, (job.before, job.sender)));
            let (requests, callers): (Vec<EncodeRequest>, Vec<_>) = parts.unzip();
            let results = encoder.run_requests(&requests).await;
            for ((before, sender), result) in callers.into_iter().zip(results) {
                let result = result.map_err(|error| match &*error {
                    PipelineError::Encode(error) => Error::from(error.clone().behind(before)),
                    _ => Error::shared(error),
                });
                // The caller may have gone.
                let _ = sender.send(result);
            }
        }
    })?;
    Ok((sender, ended))
}

#[cfg(test)]
mod tests {
    use wisp_pipelines::tokenizer::PairTokens;

    use super::*;

    #[test]
    fn texts_of_several_callers_that_fit_a_batch_are_encoded_together() {
        let (sender, receiver) = unbounded();
        let mut queue = EncoderQueue {
            receiver,
            held: None,
            max_texts: 4,
        };
        let states = |lengths: &[usize]| {
            let texts = lengths.iter().map(|length| vec![0; *length]);
            EncodeRequest::HiddenStates(texts.collect())
        };
        let send = |request| {
            let (reply, receiver) = oneshot::channel();
            let job = EncoderJob {
                request,
                before: 0,
                sender: reply,
            };
            assert!(sender.unbounded_send(job).is_ok());
            receiver
        };
        let gone = send(states(&[1]));
        let _waiting = [
            states(&[1, 2]),
            states(&[3]),
            // More texts than a batch takes with those before.
            states(&[1, 1]),
            EncodeRequest::Scores(vec![PairTokens::default()]),
            // More tokens than a batch takes.
            states(&[11]),
            states(&[1]),
        ]
        .map(send);
        drop(gone);
        drop(sender);
        let mut groups = Vec::new();
        while let Some(group) = pollster::block_on(queue.next_group(10)) {
            groups.push(group.len());
        }
        assert_eq!(groups, [2, 1, 1, 1, 1]);
    }
}
