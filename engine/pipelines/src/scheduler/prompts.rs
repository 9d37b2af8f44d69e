//! Which prompts a step computes, and what they share.

use super::Scheduler;
use crate::request::Sequence;

impl Scheduler {
    /// Looks up the prefixes of running sequences that have not run yet, because other sequences may have computed more
    /// of them since their admission. Cached pages replace the sequences' own, which are still empty.
    pub(super) fn share_prefixes(&mut self) {
        for sequence in &mut self.running {
            if sequence.has_run || sequence.scores_prompt() {
                continue;
            }
            let found = self.pool.reuse(&mut sequence.table, &sequence.tokens);
            if found == sequence.cached {
                continue;
            }
            (sequence.computed, sequence.cached) = (found, found);
            self.pool.release_snapshot(sequence.state.take());
            sequence.state = self.pool.hold_reused_snapshot(&sequence.table, found);
            let more = sequence.add_hits();
            self.pool.count_hits(0, more);
            self.waiting.refund(sequence.client, more);
        }
    }

    /// Returns the running sequences whose prompts the next batch computes, of those in `prefilling`, and the most
    /// tokens that each of them may take. The batch has room for `budget` tokens of prompts.
    ///
    /// The oldest prompt may always take half of the budget, so that it ends however many others there are. The rest
    /// goes first to the prompts with the fewest missing tokens, as many as end in this batch, so that they need not
    /// wait for a long one. What is left is for the oldest prompt too, and then for the others in the order of their
    /// admission. Prompts wait while another one in the batch computes tokens that they can share.
    pub(super) fn plan_prompts(&self, prefilling: &[usize], budget: usize) -> Vec<(usize, usize)> {
        let Some((oldest, others)) = prefilling.split_first() else {
            return Vec::new();
        };
        let missing = |at: &usize| self.running[*at].missing();
        let most = self.limits.max_prefill.max(1) as usize;
        let half = missing(oldest).min(budget.div_ceil(2));
        let mut left = budget - half;
        let mut planned = vec![*oldest];
        let mut by_length = others.to_vec();
        // How much of a prompt with log-probabilities fits depends on the rows of logits, too.
        by_length.retain(|at| !self.running[*at].scores_prompt());
        by_length.sort_by_key(missing);
        for at in by_length {
            let fits = planned.len() < most && missing(&at) <= left;
            if fits && !self.awaits_prefix(at, &planned) {
                left -= missing(&at);
                planned.push(at);
            }
        }
        planned[1..].sort_unstable();
        for at in others {
            let fits = planned.len() < most && !planned.contains(at);
            if fits && !self.awaits_prefix(*at, &planned) {
                planned.push(*at);
            }
        }
        let limited = |at: usize| match at == *oldest {
            true => (at, half + left),
            false => (at, budget),
        };
        planned.into_iter().map(limited).collect()
    }

    /// Returns whether a sequence that has not run should wait, because one of those planned for the next batch computes
    /// tokens that the sequence needs next and can share.
    fn awaits_prefix(&self, at: usize, planned: &[usize]) -> bool {
        let mut planned = planned.iter().map(|other| &self.running[*other]);
        planned.any(|other| self.shared_end(at, other).is_some())
    }

    /// Returns whether a sequence that has not run should wait, because a batch in flight computes tokens that the
    /// sequence needs next and can share.
    pub(super) fn awaits_prefix_in_flight(&self, at: usize) -> bool {
        let mut in_flight = self
            .running
            .iter()
            .filter(|other| other.computed < other.cached);
        in_flight.any(|other| {
            self.shared_end(at, other)
                .is_some_and(|end| end <= other.cached)
        })
    }

    /// Returns up to where another sequence must be computed so that a sequence which has not run can share more of it, if
    /// it can.
    fn shared_end(&self, at: usize, other: &Sequence) -> Option<usize> {
        let sequence = &self.running[at];
        if sequence.has_run || sequence.scores_prompt() {
            return None;
        }
        let end = self
            .pool
            .next_shared(&other.table, other.prompt_tokens, other.computed)?;
        let can_share = sequence.adapter == other.adapter
            && sequence.cached <= other.computed
            && end < sequence.tokens.len()
            && end <= other.tokens.len()
            // From the end, because prompts that differ often begin alike.
            && sequence.tokens[..end].iter().rev().eq(other.tokens[..end].iter().rev());
        can_share.then_some(end)
    }
}
