//! Tests of prefixes that sequences share: what the cache finds of a prompt, with and without a recurrent state.

use proptest::prelude::TestCaseError;
use wisp_text::grammar::Constraint;

use super::{mock::*, tests::request, *};
use crate::{SequenceOutput, TextProcessor, constrained::tests::letters};

/// A scheduler with prefix caching, and a mock of a model with so many snapshots.
struct World {
    scheduler: Scheduler,
    model: MockModel,
}

impl World {
    fn new(state_snapshots: u64) -> World {
        let limits = ModelLimits {
            max_batch: 2,
            max_step_tokens: 64,
            max_length: 128,
            max_steps: 1,
            max_logit_rows: 2,
            pages: 64,
            page_size: 8,
            prefix_caching: true,
            state_snapshots,
            ..ModelLimits::default()
        };
        World {
            scheduler: Scheduler::new(limits),
            model: MockModel::new(Cache::new(&limits, None)),
        }
    }

    /// Runs a prompt to its end; returns how many of its tokens the cache held, and the number of steps.
    fn run(&mut self, prompt: &[u32]) -> Result<(usize, usize), TestCaseError> {
        let id = self.scheduler.add(request(prompt.to_vec(), 1)).unwrap();
        self.model.texts.insert(id, prompt.to_vec());
        let (mut cached, mut steps) = (0, 0);
        while !self.scheduler.is_idle() {
            let (batch, outputs) = self.model.step(&mut self.scheduler, false)?;
            steps += 1;
            for event in self.scheduler.accept(&batch, outputs).tokens {
                cached = event.cached_tokens;
            }
        }
        Ok((cached, steps))
    }
}

/// A common beginning of 32 tokens, and 13 tokens of its own.
fn prompt(own: u32) -> Vec<u32> {
    (0..32).chain((0..13).map(|at| 100 * own + at)).collect()
}

#[test]
fn the_third_prompt_continues_from_what_the_first_two_have_in_common() -> Result<(), TestCaseError>
{
    let mut world = World::new(4);
    // The first prompt leaves a snapshot at its last whole page, after 40 tokens.
    assert_eq!(world.run(&prompt(1))?, (0, 2));
    // The second one knows 32 of them, stops there, and leaves a snapshot.
    assert_eq!(world.run(&prompt(2))?, (0, 3));
    for own in 3..9 {
        assert_eq!(world.run(&prompt(own))?, (32, 2), "prompt {own}");
    }
    // Whole prompts are found too, while their snapshots are there.
    assert_eq!(world.run(&prompt(8))?, (40, 1));
    Ok(())
}

#[test]
fn a_page_whose_snapshot_was_dropped_gets_another_one() -> Result<(), TestCaseError> {
    let mut world = World::new(1);
    assert_eq!(world.run(&prompt(1))?.0, 0);
    assert_eq!(world.run(&prompt(1))?.0, 40);
    // Takes the only row.
    assert_eq!(world.run(&[7; 20])?.0, 0);
    assert_eq!(world.run(&prompt(1))?.0, 0);
    assert_eq!(world.run(&prompt(1))?.0, 40);
    Ok(())
}

#[test]
fn tokens_that_a_constraint_forces_are_no_hits_of_the_prompt() {
    let text = TextProcessor::new("letters", letters(), [3]);

    let mut world = World::new(0);
    let mut first = |request: Request| {
        world.scheduler.add(request).unwrap();
        let batch = world.scheduler.schedule();
        let output = SequenceOutput {
            tokens: vec![0],
            ..SequenceOutput::default()
        };
        let events = world.scheduler.accept(&batch, vec![output]).tokens;
        world.scheduler.cancel(batch.sequences[0].id);
        (batch.sequences[0].start, events[0].cached_tokens)
    };
    let prompt = vec![1, 2];
    let forced = [0; 30];
    assert_eq!(first(request([&prompt[..], &forced].concat(), 1)), (0, 0));
    let (start, cached) = first(Request {
        constraint: Some(
            text.grammar(&Constraint::Regex("a{30}(b|c)".into()))
                .unwrap(),
        ),
        ..request(prompt, 40)
    });
    // Their keys and values were found, but they are no part of the prompt.
    assert!(start > 2, "{start}");
    assert_eq!(cached, 2);
    let hits = world.scheduler.prefix_hits();
    assert_eq!((hits.tokens, hits.hits), (32 + 2, 2));
}
