//! The inputs and outputs of a model's step.

use wisp_device::Buffer;
use wisp_session::Tensor;
use wisp_shaders::params::NO_STATE;

use crate::{Batch, ModelLimits, PipelineError};

/// The inputs of one step. All tensors are `u32`, in host memory or, if an earlier step computed
/// them, on the device.
#[derive(Clone, Debug)]
pub struct ModelInputs {
    /// `[tokens]`: the token ids of all sequences, one sequence after the other.
    pub tokens: Tensor,
    /// `[tokens, 2]`: the slot and the position of each token.
    pub index: Tensor,
    /// `[logit_rows]`: the indices of the tokens that need logits.
    pub logit_rows: Tensor,
    /// `[slots, pages]`: the block table of each slot, as far as the batch needs it: at most
    /// `[max_batch, pages_per_sequence]`. Rows of slots that are not in the batch, and entries beyond a
    /// sequence's pages, are 0.
    pub page_table: Tensor,
    /// `[slots, 4]`: each slot's part of the batch and its rows of the recurrent state: the index of its
    /// first token, its number of tokens, the row that it continues
    /// ([`NO_STATE`](wisp_shaders::params::NO_STATE) at the beginning of a sequence), and the row that its
    /// new state is written to. Slots that are not in the batch have 0 tokens.
    pub spans: Tensor,
    /// `[slots]`: the number of each slot's adapter, counted from 1; 0 for no adapter.
    pub adapters: Tensor,
    /// `[sequences + 1]`: the index of each sequence's first token, then the number of tokens.
    pub row_offsets: Vec<u32>,
    /// `[sequences + 1]`: the index of each sequence's first logit row, then the number of rows.
    pub logit_offsets: Vec<u32>,
}

/// The tokens that follow a step: one for each sequence, in the order of the batch.
#[derive(Clone, Debug)]
pub struct NextTokens {
    /// The token ids, `u32 [sequences]`.
    pub tokens: Tensor,
    /// The slot and position of each token, `u32 [sequences, 2]`. `None` if each position is the
    /// one after the sequence's last position in the previous inputs, which must be in host memory.
    pub index: Option<Tensor>,
}

impl NextTokens {
    /// Makes next tokens from token ids in host memory.
    pub fn new(tokens: &[u32]) -> NextTokens {
        NextTokens {
            tokens: words(&[tokens.len()], tokens),
            index: None,
        }
    }
}

/// What a model computed for a batch. The tensors may refer to the model's memory, which its next
/// step overwrites.
#[derive(Clone, Debug)]
pub struct ModelOutputs {
    /// The logits, `f32 [logit_rows, vocab_size]`.
    pub logits: Tensor,
    /// `[sequences + 1]`: the index of each sequence's first row of logits, then the number of
    /// rows.
    pub logit_offsets: Vec<u32>,
    /// The hidden states that [`ReturnHiddenStates`](crate::ReturnHiddenStates) selects.
    pub hidden_states: Option<Tensor>,
}

/// Device memory that a model shares with the sampler, which then works in place. If a buffer is
/// `None`, its contents are copied between them.
#[derive(Clone, Debug, Default)]
pub struct SamplingBuffers {
    /// The buffer with [`ModelOutputs::logits`].
    pub logits: Option<Buffer>,
    /// The buffer from which the model reads [`ModelInputs::tokens`].
    pub tokens: Option<Buffer>,
    /// The buffer from which the model reads [`ModelInputs::index`].
    pub index: Option<Buffer>,
}

/// Makes a tensor of `u32` in host memory. The shape must have as many elements as there are words.
fn words(shape: &[usize], words: &[u32]) -> Tensor {
    let shape: Vec<u64> = shape.iter().map(|size| *size as u64).collect();
    // PROOF: every caller derives the shape from the number of words.
    Tensor::u32(&shape, words).expect("as many words as the shape has")
}

/// The positions for which a page table has room at least, if the model's context is that long.
const MIN_POSITIONS: usize = 128;

/// Returns the slots and pages for which the page table of a batch has room. They are powers of two, unless
/// the limits are less: runs of new sizes must be prepared, so sizes change rarely. Kernels derive from them
/// how long sequences can be.
fn page_table_shape(batch: &Batch, limits: &ModelLimits) -> [usize; 2] {
    let parts = || batch.sequences.iter();
    let slots = parts().map(|part| part.slot as usize + 1).max();
    let pages = parts().map(|part| part.pages.len()).max();
    let least = MIN_POSITIONS.div_ceil(limits.page_size.max(1) as usize);
    let fitting = |count: usize, max: u64| {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        count
            .checked_next_power_of_two()
            .map_or(max, |count| count.min(max))
    };
    [
        fitting(slots.unwrap_or(1), limits.max_batch),
        fitting(pages.unwrap_or(1).max(least), limits.pages_per_sequence()),
    ]
}

impl ModelInputs {
    /// Makes the inputs of a batch for a model with these limits.
    ///
    /// # Errors
    ///
    /// [`PipelineError::Batch`] if a sequence has a slot beyond `max_batch`, more pages than fit a row
    /// of the page table, no tokens, or positions beyond 32 bits.
    pub fn new(batch: &Batch, limits: &ModelLimits) -> Result<ModelInputs, PipelineError> {
        let [slots, stride] = page_table_shape(batch, limits);
        let mut page_table = vec![0; slots * stride];
        let (mut tokens, mut index, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        let (mut adapters, mut spans) = (vec![0; slots], vec![0; 4 * slots]);
        let (mut row_offsets, mut logit_offsets) = (vec![0], vec![0]);
        for part in &batch.sequences {
            let slot = part.slot as usize;
            let end = part.start as usize + part.tokens.len();
            let fits = slot < slots && part.pages.len() <= stride;
            if !fits || part.tokens.is_empty() || u32::try_from(end).is_err() {
                return Err(PipelineError::Batch);
            }
            page_table[slot * stride..][..part.pages.len()].copy_from_slice(&part.pages);
            let state = match part.start {
                0 => NO_STATE,
                _ => part.state_read.unwrap_or(part.slot),
            };
            let span = [
                tokens.len() as u32,
                part.tokens.len() as u32,
                state,
                part.state_written.unwrap_or(part.slot),
            ];
            spans[4 * slot..][..4].copy_from_slice(&span);
            tokens.extend(&part.tokens);
            index.extend((part.start..end as u32).flat_map(|at| [part.slot, at]));
            let logits = part.logit_rows.min(part.tokens.len());
            rows.extend((tokens.len() - logits..tokens.len()).map(|row| row as u32));
            adapters[slot] = part.adapter.map_or(0, |adapter| adapter.slot + 1);
            row_offsets.push(tokens.len() as u32);
            logit_offsets.push(rows.len() as u32);
        }
        Ok(ModelInputs {
            tokens: words(&[tokens.len()], &tokens),
            index: words(&[tokens.len(), 2], &index),
            logit_rows: words(&[rows.len()], &rows),
            page_table: words(&[slots, stride], &page_table),
            spans: words(&[slots, 4], &spans),
            adapters: words(&[slots], &adapters),
            row_offsets,
            logit_offsets,
        })
    }

    /// Returns the number of sequences in the batch.
    pub fn sequences(&self) -> usize {
        self.row_offsets.len().saturating_sub(1)
    }

    /// Returns the inputs of the next decode step: one token per sequence, with logits for each.
    ///
    /// # Errors
    ///
    /// [`PipelineError::Batch`] if there are more or fewer tokens than sequences, or the positions are
    /// neither given nor in host memory.
    pub fn followed_by(self, next: &NextTokens) -> Result<ModelInputs, PipelineError> {
        let sequences = self.sequences();
        if next.tokens.shape() != [sequences as u64] {
            return Err(PipelineError::Batch);
        }
        let index = match &next.index {
            Some(index) => index.clone(),
            None => self.positions_after()?,
        };
        let spans = self.spans_after()?;
        let rows: Vec<u32> = (0..sequences as u32).collect();
        let offsets: Vec<u32> = (0..=sequences as u32).collect();
        Ok(ModelInputs {
            tokens: next.tokens.clone(),
            index,
            spans,
            logit_rows: words(&[sequences], &rows),
            row_offsets: offsets.clone(),
            logit_offsets: offsets,
            ..self
        })
    }

    /// Returns the spans of a step with one token for each sequence, which continues the state that the
    /// last step wrote, in the sequence's own row.
    fn spans_after(&self) -> Result<Tensor, PipelineError> {
        let mut spans = self.spans.as_u32().ok_or(PipelineError::Batch)?.to_vec();
        let slots = (0..).zip(spans.chunks_exact_mut(4));
        for (slot, span) in slots.filter(|(_, span)| span[1] > 0) {
            let sequence = self.row_offsets.iter().position(|first| *first == span[0]);
            let sequence = sequence.ok_or(PipelineError::Batch)?;
            span.copy_from_slice(&[sequence as u32, 1, span[3], slot]);
        }
        Ok(words(&[spans.len() / 4, 4], &spans))
    }

    /// Returns the slot of each sequence and the position after its last token, `[sequences, 2]`.
    fn positions_after(&self) -> Result<Tensor, PipelineError> {
        let index = self.index.as_u32().ok_or(PipelineError::Batch)?;
        let mut after = Vec::with_capacity(2 * self.sequences());
        for end in &self.row_offsets[1..] {
            let last = (*end as usize).checked_sub(1).ok_or(PipelineError::Batch)?;
            let [slot, at] = [index[2 * last], index[2 * last + 1]];
            after.extend([slot, at.checked_add(1).ok_or(PipelineError::Batch)?]);
        }
        Ok(words(&[self.sequences(), 2], &after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BatchSequence;

    fn limits() -> ModelLimits {
        ModelLimits {
            max_batch: 3,
            max_length: 6,
            page_size: 3,
            ..ModelLimits::default()
        }
    }

    fn batch() -> Batch {
        let sequences = vec![
            BatchSequence::new(2, 3, &[7, 8, 9], &[4, 3]).with_logit_rows(2),
            BatchSequence::new(0, 0, &[1], &[5]).with_logit_rows(9),
        ];
        Batch {
            sequences,
            steps: 1,
        }
    }

    #[test]
    fn sequences_of_a_batch_follow_one_another() {
        let inputs = ModelInputs::new(&batch(), &limits()).unwrap();
        let of = |tensor: &Tensor| tensor.as_u32().unwrap().to_vec();
        assert_eq!(of(&inputs.tokens), [7, 8, 9, 1]);
        assert_eq!(of(&inputs.index), [2, 3, 2, 4, 2, 5, 0, 0]);
        assert_eq!(of(&inputs.logit_rows), [1, 2, 3]);
        assert_eq!(of(&inputs.page_table), [5, 0, 0, 0, 4, 3]);
        let spans = [[3, 1, NO_STATE, 0], [0; 4], [0, 3, 2, 2]];
        assert_eq!(of(&inputs.spans), spans.concat());
        assert_eq!(
            (inputs.row_offsets, inputs.logit_offsets),
            (vec![0, 3, 4], vec![0, 2, 3])
        );
    }

    #[test]
    fn next_inputs_have_one_token_a_sequence_at_the_position_after_it() {
        let inputs = ModelInputs::new(&batch(), &limits()).unwrap();
        let next = inputs
            .clone()
            .followed_by(&NextTokens::new(&[40, 50]))
            .unwrap();
        assert_eq!(next.index.as_u32(), Some(&[2, 6, 0, 1][..]));
        assert_eq!(next.logit_rows.as_u32(), Some(&[0, 1][..]));
        assert_eq!(next.page_table, inputs.page_table);
        let spans = [[1, 1, 0, 0], [0; 4], [0, 1, 2, 2]];
        assert_eq!(next.spans.as_u32(), Some(&spans.concat()[..]));
        let wrong = inputs.followed_by(&NextTokens::new(&[40]));
        assert!(matches!(wrong, Err(PipelineError::Batch)));
    }

    #[test]
    fn parts_that_do_not_fit_the_limits_are_refused() {
        let wrong = [
            BatchSequence::new(3, 0, &[1], &[0]),
            BatchSequence::new(0, 0, &[], &[0]),
            BatchSequence::new(0, 0, &[1], &[0, 1, 2]),
            BatchSequence::new(0, u32::MAX, &[1, 2], &[0]),
        ];
        for part in wrong {
            let sequences = vec![part];
            let made = ModelInputs::new(
                &Batch {
                    sequences,
                    steps: 1,
                },
                &limits(),
            );
            assert!(matches!(made, Err(PipelineError::Batch)));
        }
    }
}
