//! Tests of prefixes that sequences share: what the cache finds of a prompt, with and without a recurrent state.

use std::collections::HashMap;

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
        World::with_pages(state_snapshots, 64)
    }

    fn with_pages(state_snapshots: u64, pages: u64) -> World {
        let limits = ModelLimits {
            max_batch: 4,
            max_step_tokens: 64,
            max_length: 128,
            max_steps: 1,
            max_logit_rows: 4,
            pages,
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

    fn add(&mut self, prompt: &[u32], max_new_tokens: usize) -> RequestId {
        let request = request(prompt.to_vec(), max_new_tokens);
        let id = self.scheduler.add(request).unwrap();
        self.model.texts.insert(id, prompt.to_vec());
        id
    }

    /// Runs a step; returns its batch and the events of its tokens.
    fn step(&mut self) -> Result<(Batch, Vec<SampledToken>), TestCaseError> {
        let (batch, outputs) = self.model.step(&mut self.scheduler, false)?;
        let events = self.scheduler.accept(&batch, outputs).tokens;
        Ok((batch, events))
    }

    /// Runs prompts to their ends, all at once; returns how many tokens of each the cache held, and how many were
    /// computed in total.
    fn run_together(&mut self, prompts: &[Vec<u32>]) -> Result<(Vec<usize>, usize), TestCaseError> {
        let ids: Vec<RequestId> = prompts.iter().map(|prompt| self.add(prompt, 1)).collect();
        let (mut cached, mut computed) = (HashMap::new(), 0);
        while !self.scheduler.is_idle() {
            let (batch, events) = self.step()?;
            computed += batch.tokens();
            cached.extend(events.iter().map(|event| (event.id, event.cached_tokens)));
        }
        Ok((ids.iter().map(|id| cached[id]).collect(), computed))
    }

    /// Runs a prompt to its end; returns how many of its tokens the cache held, and the number of steps.
    fn run(&mut self, prompt: &[u32]) -> Result<(usize, usize), TestCaseError> {
        self.add(prompt, 1);
        let (mut cached, mut steps) = (0, 0);
        while !self.scheduler.is_idle() {
            steps += 1;
            for event in self.step()?.1 {
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
fn a_prompt_of_many_chunks_leaves_one_snapshot() -> Result<(), TestCaseError> {
    let mut world = World::new(4);
    world.scheduler.set_pace(Pace::of(50, 1));
    world.add(&(0..120).collect::<Vec<u32>>(), 1);
    let mut chunks = Vec::new();
    while !world.scheduler.is_idle() {
        let (batch, _) = world.step()?;
        let part = &batch.sequences[0];
        let end = part.start as usize + part.tokens.len();
        chunks.push((end, part.state_written.is_some()));
    }
    // No other chunk is shortened to whole pages of 8.
    let expected = [(50, false), (100, false), (112, true), (120, false)];
    assert_eq!(chunks, expected);
    Ok(())
}

#[test]
fn equal_prompts_that_arrive_together_are_computed_once() -> Result<(), TestCaseError> {
    for state_snapshots in [0, 4] {
        let mut world = World::new(state_snapshots);
        let prompts = vec![prompt(1); 4];
        // The others compute what follows the last whole page.
        let expected = (vec![0, 40, 40, 40], 45 + 3 * 5);
        assert_eq!(world.run_together(&prompts)?, expected);
        let hits = world.scheduler.prefix_hits();
        assert_eq!((hits.tokens, hits.hits), (4 * 45, 3 * 40));
    }
    Ok(())
}

#[test]
fn prompts_that_arrive_together_share_a_beginning() -> Result<(), TestCaseError> {
    for (state_snapshots, first) in [(0, 32), (6, 0)] {
        let mut world = World::new(state_snapshots);
        // The snapshot of this prompt is not at the end of the common beginning.
        world.run(&prompt(1))?;
        let prompts = [2, 3, 4].map(prompt);
        let expected = (vec![first, 32, 32], 45 - first + 2 * 13);
        assert_eq!(world.run_together(&prompts)?, expected);
    }
    Ok(())
}

#[test]
fn a_prompt_waits_for_an_equal_one_only_while_that_runs() -> Result<(), TestCaseError> {
    let ends: [fn(&mut Scheduler, RequestId); 2] = [
        |scheduler, id| assert!(scheduler.cancel(id)),
        |scheduler, id| scheduler.start_over(&[id]),
    ];
    for end in ends {
        let mut world = World::new(0);
        let prompt: Vec<u32> = (0..120).collect();
        let [first, second] = [(); 2].map(|()| world.add(&prompt, 1));
        let (batch, _) = world.step()?;
        assert_eq!(batch.requests(), [first]);
        assert_eq!(batch.tokens(), 64);
        end(&mut world.scheduler, first);
        let (batch, _) = world.step()?;
        assert_eq!(
            (batch.sequences[0].id, batch.sequences[0].start),
            (second, 64)
        );
    }
    Ok(())
}

/// The pages suffice for both requests only if they share those of the prompt.
#[test]
fn a_request_that_waits_for_pages_is_admitted_once_its_prefix_is_cached()
-> Result<(), TestCaseError> {
    let mut world = World::with_pages(0, 8);
    let ids = [(); 2].map(|()| world.add(&prompt(1)[..40], 4));
    let (batch, _) = world.step()?;
    assert_eq!(batch.requests(), ids[..1]);
    let (batch, _) = world.step()?;
    assert_eq!(batch.requests(), ids);
    assert_eq!(batch.sequences[1].start, 32);
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
