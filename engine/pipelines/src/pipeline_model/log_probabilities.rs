//! Log-probabilities from a model's logits, on the host.

use super::{ModelInputs, ModelOutputs};
use crate::{LogProbabilities, PipelineError, TokenScore, log_probabilities::MAX_TOP};

/// Implements
/// [`PipelineModel::compute_log_probabilities`](super::PipelineModel::compute_log_probabilities).
pub(super) async fn compute(
    inputs: &ModelInputs,
    outputs: &ModelOutputs,
    next_tokens: &[u32],
    top_n: &[u32],
    echo: &[bool],
) -> Result<Vec<Option<LogProbabilities>>, PipelineError> {
    let sequences = inputs.sequences();
    let &[rows, vocab] = outputs.logits.shape() else {
        return Err(PipelineError::Batch);
    };
    let same = [next_tokens.len(), top_n.len(), echo.len()] == [sequences; 3]
        && outputs.logit_offsets.len() == sequences + 1
        && outputs
            .logit_offsets
            .last()
            .is_none_or(|end| u64::from(*end) <= rows);
    let known = next_tokens.iter().all(|token| u64::from(*token) < vocab);
    if !same || !known || top_n.iter().any(|top| *top > MAX_TOP) {
        return Err(PipelineError::Batch);
    }
    let tokens = inputs.tokens.to_host().await?;
    let logits = outputs.logits.to_host().await?;
    let (Some(tokens), Some(logits)) = (tokens.as_u32(), logits.as_f32()) else {
        return Err(PipelineError::Batch);
    };
    let part = |offsets: &[u32], at: usize| offsets[at] as usize..offsets[at + 1] as usize;
    let mut all = Vec::with_capacity(sequences);
    for at in 0..sequences {
        if top_n[at] == 0 {
            all.push(None);
            continue;
        }
        let own = tokens
            .get(part(&inputs.row_offsets, at))
            .unwrap_or_default();
        let rows = part(&outputs.logit_offsets, at);
        let following = own.iter().skip(1).chain([&next_tokens[at]]);
        let wanted = if echo[at] { own.len() } else { 1 };
        if rows.len().min(own.len()) < wanted {
            return Err(PipelineError::Batch);
        }
        // The last logit rows belong to the last tokens.
        let rows = logits
            .chunks(vocab as usize)
            .take(rows.end)
            .skip(rows.end - wanted);
        let scored = rows.zip(following.skip(own.len() - wanted));
        let scores: Vec<TokenScore> = scored
            .map(|(row, token)| score(row, *token, top_n[at]))
            .collect();
        if scores.iter().any(|score| score.log_probability.is_nan()) {
            return Err(PipelineError::NotFinite { request: None });
        }
        all.push(Some(scores.into_iter().collect()));
    }
    Ok(all)
}

/// Returns the log-softmax of a token's logit and of the `top` largest logits, the lowest token id
/// first among equals.
fn score(logits: &[f32], token: u32, top: u32) -> TokenScore {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits
        .iter()
        .map(|logit| f64::from(logit - max).exp())
        .sum();
    let of = |token: u32| {
        let logit = logits.get(token as usize).copied().unwrap_or(f32::NAN);
        (f64::from(logit - max) - sum.ln()) as f32
    };
    let mut order: Vec<u32> = (0..logits.len() as u32).collect();
    let top = (top as usize).min(order.len());
    let by_logit = |a: &u32, b: &u32| {
        let (x, y) = (logits[*a as usize], logits[*b as usize]);
        y.total_cmp(&x).then(a.cmp(b))
    };
    if top > 0 && top < order.len() {
        order.select_nth_unstable_by(top - 1, by_logit);
    }
    order.truncate(top);
    order.sort_unstable_by(by_logit);
    TokenScore {
        log_probability: of(token),
        top: order.into_iter().map(|token| (token, of(token))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_the_log_softmax() {
        let logits = [1.0, 3.0, 3.0, -2.0];
        let sum: f64 = logits.iter().map(|x: &f32| f64::from(*x).exp()).sum();
        let expected = |x: f64| (x - sum.ln()) as f32;
        let score = score(&logits, 3, 3);
        assert_eq!(score.log_probability, expected(-2.0));
        assert_eq!(
            score.top,
            [(1, expected(3.0)), (2, expected(3.0)), (0, expected(1.0))]
        );
    }
}
