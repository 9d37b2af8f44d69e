//! The scheduler against a simple model under random histories: requests arrive, are cancelled and
//! preempted, share prefixes and adapters, and steps fail, while invariants hold after every change.
//!
//! The model is a list of requests, each with the tokens that it gets when it runs alone, and a cache
//! whose positions name what they were computed from.

use proptest::{prelude::*, sample::Index};

use super::{mock::*, tests::*, *};
use crate::{Adapter, ModelLimits, RequestId, SequenceOutput, sampler::NO_TOKEN};

/// One event of a history.
#[derive(Clone, Debug)]
enum Act {
    /// A request arrives.
    Submit(RequestCase),
    /// A request is cancelled.
    Cancel(Index),
    /// A step runs, and perhaps the next one before its outputs are accepted.
    Step(bool),
    /// The device fails in the middle of a step, perhaps with another one behind it, which leaves anything in the cache.
    FailingStep(bool),
    /// The caller drops a step whose batch, or the one that follows it, runs in part: that leaves anything in the
    /// cache.
    DroppedStep(bool),
    /// The logits of a sequence are not finite, in one of the step's decode steps.
    NonFinite(Index, Index),
    /// Another adapter takes a slot.
    Reload(usize),
    /// Other code writes to the pages without an owner.
    Forget,
    /// The device becomes slower or faster.
    Pace(usize, usize),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => request_case().prop_map(Act::Submit),
        1 => any::<Index>().prop_map(Act::Cancel),
        8 => any::<bool>().prop_map(Act::Step),
        1 => any::<bool>().prop_map(Act::FailingStep),
        1 => any::<bool>().prop_map(Act::DroppedStep),
        1 => any::<(Index, Index)>().prop_map(|(part, step)| Act::NonFinite(part, step)),
        1 => (0usize..2).prop_map(Act::Reload),
        1 => Just(Act::Forget),
        1 => (1usize..40, 1usize..5).prop_map(|(tokens, steps)| Act::Pace(tokens, steps)),
    ]
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Finished,
    Cancelled,
    Failed,
    NonFinite,
}

/// A request of the simple model.
struct Expected {
    id: RequestId,
    /// The tokens that it gets when it runs alone.
    alone: Vec<u32>,
    got: Vec<u32>,
    end: Option<End>,
}

struct World {
    scheduler: Scheduler,
    limits: ModelLimits,
    model: MockModel,
    requests: Vec<Expected>,
    /// The adapters in the slots.
    adapters: [Adapter; 2],
}

impl World {
    fn new(limits: ModelLimits) -> World {
        let mut scheduler = Scheduler::new(limits);
        let adapters = [0, 1].map(|slot| Adapter {
            slot,
            cache_salt: scheduler.new_cache_salt(),
        });
        World {
            scheduler,
            limits,
            model: MockModel::new(Cache::new(&limits, None)),
            requests: Vec::new(),
            adapters,
        }
    }

    fn act(&mut self, act: Act) -> Result<(), TestCaseError> {
        match act {
            Act::Submit(case) => self.submit(&case),
            Act::Cancel(index) => self.cancel(index)?,
            Act::Step(ahead) => self.step(ahead, None)?,
            Act::FailingStep(ahead) => self.failing_step(ahead)?,
            // Behind a batch that is ahead, nothing is submitted.
            Act::DroppedStep(_) if self.model.is_ahead() => {}
            Act::DroppedStep(after) => self.dropped_step(after)?,
            Act::NonFinite(part, step) => self.step(true, Some((part, step)))?,
            // An adapter that a request uses keeps its slot.
            Act::Reload(slot) if self.scheduler.uses_adapter(slot as u32) => {}
            Act::Reload(slot) => {
                self.adapters[slot].cache_salt = self.scheduler.new_cache_salt();
            }
            Act::Forget => self.scheduler.forget_prefixes(),
            Act::Pace(tokens, steps) => self.scheduler.set_pace(Pace::of(tokens, steps)),
        }
        self.check()
    }

    fn submit(&mut self, case: &RequestCase) {
        let adapter = case.adapter.checked_sub(1);
        let adapter = adapter.and_then(|slot| self.adapters.get(slot).copied());
        let Ok(id) = self.scheduler.add(case.request(adapter)) else {
            return;
        };
        self.requests.push(Expected {
            id,
            alone: case.expected(adapter, &self.limits),
            got: Vec::new(),
            end: None,
        });
        self.model.texts.insert(id, case.prompt());
    }

    fn cancel(&mut self, index: Index) -> Result<(), TestCaseError> {
        if self.requests.is_empty() {
            return Ok(());
        }
        let at = index.index(self.requests.len());
        let request = &mut self.requests[at];
        prop_assert_eq!(self.scheduler.cancel(request.id), request.end.is_none());
        request.end.get_or_insert(End::Cancelled);
        Ok(())
    }

    /// Runs a step; `fault` selects a sequence and the decode step at which its logits are not finite.
    fn step(&mut self, ahead: bool, fault: Option<(Index, Index)>) -> Result<(), TestCaseError> {
        let (batch, mut outputs) = self.model.step(&mut self.scheduler, ahead)?;
        self.check()?;
        if let Some((part, step)) = fault.filter(|_| !outputs.is_empty()) {
            let tokens = &mut outputs[part.index(batch.sequences.len())].tokens;
            if !tokens.is_empty() {
                let at = step.index(tokens.len());
                tokens[at] = NO_TOKEN;
            }
        }
        self.accept(&batch, outputs)
    }

    fn accept(&mut self, batch: &Batch, outputs: Vec<SequenceOutput>) -> Result<(), TestCaseError> {
        for event in self.scheduler.accept(batch, outputs).tokens {
            let mut requests = self.requests.iter_mut();
            let request = requests.find(|request| request.id == event.id).unwrap();
            prop_assert_eq!(request.end, None);
            match event.finish {
                Some(FinishReason::NonFinite) => request.end = Some(End::NonFinite),
                finish => {
                    request.got.push(event.token);
                    request.end = finish.map(|_| End::Finished);
                }
            }
        }
        Ok(())
    }

    fn failing_step(&mut self, ahead: bool) -> Result<(), TestCaseError> {
        let batch = self.model.next_batch(&mut self.scheduler);
        let next = match ahead {
            true => self.scheduler.schedule_behind(&batch),
            false => Batch::default(),
        };
        self.spoil(&batch);
        self.spoil(&next);
        for id in self
            .scheduler
            .fail(&[batch.requests(), next.requests()].concat())
        {
            let mut requests = self.requests.iter_mut();
            let request = requests.find(|request| request.id == id).unwrap();
            prop_assert_eq!(request.end, None);
            request.end = Some(End::Failed);
        }
        Ok(())
    }

    /// Drops a step in the middle of its submission or, with `after`, in the middle of the submission of the one
    /// after it.
    fn dropped_step(&mut self, after: bool) -> Result<(), TestCaseError> {
        let dropped = if after {
            let (batch, outputs) = self.model.step(&mut self.scheduler, false)?;
            let next = self.scheduler.schedule_behind(&batch);
            self.spoil(&next);
            self.accept(&batch, outputs)?;
            next
        } else {
            let batch = self.model.next_batch(&mut self.scheduler);
            self.spoil(&batch);
            batch
        };
        self.check()?;
        self.scheduler.start_over(&dropped.requests());
        Ok(())
    }

    /// Leaves anything where a batch writes.
    fn spoil(&mut self, batch: &Batch) {
        for part in &batch.sequences {
            self.model.cache.spoil(part, batch.steps);
        }
    }

    /// Checks what holds after every change.
    fn check(&self) -> Result<(), TestCaseError> {
        let Scheduler {
            running, waiting, ..
        } = &self.scheduler;
        let tables = running.iter().map(|sequence| &sequence.table);
        self.scheduler
            .pool
            .check(tables)
            .map_err(TestCaseError::fail)?;
        let held = running
            .iter()
            .flat_map(|sequence| sequence.state.iter().chain(&sequence.snapshots).copied());
        let pool = &self.scheduler.pool;
        pool.check_snapshots(held).map_err(TestCaseError::fail)?;
        let is_bare = |sequence: &Sequence| {
            let has_state = sequence.state.is_some() || !sequence.snapshots.is_empty();
            sequence.table.pages().is_empty()
                && !has_state
                && sequence.length() == sequence.tokens.len()
        };
        prop_assert!(waiting.iter().all(is_bare));
        let used = running.iter().map(|sequence| sequence.slot);
        let mut slots: Vec<u32> = used
            .chain(self.scheduler.free_slots.iter().copied())
            .collect();
        slots.sort_unstable();
        prop_assert!(slots.into_iter().eq(0..self.limits.max_batch as u32));
        let mut ids: Vec<RequestId> = running.iter().chain(waiting.iter()).map(|s| s.id).collect();
        ids.sort_unstable();
        let open = self.requests.iter().filter(|request| request.end.is_none());
        prop_assert!(ids.into_iter().eq(open.map(|request| request.id)));
        for sequence in running {
            prop_assert!(sequence.computed <= sequence.cached);
            prop_assert!(sequence.cached < sequence.length());
        }
        Ok(())
    }

    /// Runs steps until every request has ended, and compares their tokens with those alone.
    fn finish(mut self) -> Result<(), TestCaseError> {
        for _ in 0..5000 {
            if self.scheduler.is_idle() {
                break;
            }
            self.act(Act::Step(true))?;
        }
        prop_assert!(self.scheduler.is_idle());
        prop_assert_eq!(
            self.scheduler.free_pages() as u64,
            self.limits.total_pages()
        );
        for request in &self.requests {
            match request.end {
                Some(End::Finished) => prop_assert_eq!(&request.got, &request.alone),
                Some(_) => prop_assert!(request.alone.starts_with(&request.got)),
                None => prop_assert!(false, "{:?} did not end", request.id),
            }
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn every_history_ends_with_the_tokens_of_running_alone_and_without_a_lost_page(
        limits in model_limits(),
        history in prop::collection::vec(act(), 0..90),
    ) {
        let mut world = World::new(limits);
        for act in history {
            world.act(act)?;
        }
        world.finish()?;
    }
}
