//! Tests of how clients share the model.

use std::collections::HashMap;

use proptest::prelude::*;

use super::{mock::*, tests::*, *};
use crate::request::ClientId;

/// A request of a client that was sent.
struct Sent {
    client: u64,
    prompt: usize,
    has_begun: bool,
}

/// Requests of several clients, and the tokens that each was served.
struct World {
    scheduler: Scheduler,
    model: MockModel,
    sent: HashMap<RequestId, Sent>,
    /// Prompt tokens that were computed and generated tokens, by client.
    served: HashMap<u64, u64>,
    /// The clients whose requests began, in this order.
    begun: Vec<u64>,
}

impl World {
    fn new(limits: ModelLimits) -> World {
        World {
            model: MockModel::new(Cache::new(&limits, None)),
            scheduler: Scheduler::new(limits),
            sent: HashMap::new(),
            served: HashMap::new(),
            begun: Vec::new(),
        }
    }

    fn send(&mut self, client: u64, prompt: usize, max_new_tokens: usize) -> RequestId {
        let tokens: Vec<u32> = (0..prompt as u32).map(|at| at / 4).collect();
        let mut request = request(tokens.clone(), max_new_tokens);
        request.client = ClientId(client);
        let id = self.scheduler.add(request).unwrap();
        self.model.texts.insert(id, tokens);
        let has_begun = false;
        self.sent.insert(
            id,
            Sent {
                client,
                prompt,
                has_begun,
            },
        );
        id
    }

    /// Returns how many requests of a client wait or run.
    fn open(&self, client: u64) -> usize {
        let sent = self.sent.values();
        sent.filter(|sent| sent.client == client).count()
    }

    fn step(&mut self, ahead: bool) -> Result<(), TestCaseError> {
        let (batch, outputs) = self.model.step(&mut self.scheduler, ahead)?;
        for part in &batch.sequences {
            // The row of a sequence that has ended meanwhile is nobody's.
            if let Some(sent) = self.sent.get_mut(&part.id)
                && !std::mem::replace(&mut sent.has_begun, true)
            {
                self.begun.push(sent.client);
            }
        }
        for event in self.scheduler.accept(&batch, outputs).tokens {
            let sent = self.sent.get_mut(&event.id).unwrap();
            let prompt = std::mem::take(&mut sent.prompt);
            let computed = prompt.saturating_sub(event.cached_tokens);
            *self.served.entry(sent.client).or_default() += computed as u64 + 1;
            if event.finish.is_some() {
                self.sent.remove(&event.id);
            }
        }
        Ok(())
    }

    fn served(&self, client: u64) -> u64 {
        self.served.get(&client).copied().unwrap_or_default()
    }
}

proptest! {
    /// Two clients that always have waiting requests are served about as many tokens, however long their requests
    /// are and whoever else comes and goes: the difference is at most what one batch of requests takes.
    #[test]
    fn clients_with_waiting_requests_are_served_alike(
        limits in model_limits(),
        lengths in prop::collection::vec((1usize..30, 1usize..12), 2..40),
        guests in prop::collection::vec(prop::option::of(3u64..6), 20..120),
        ahead: bool,
    ) {
        let longest = limits.max_length as usize;
        let mut world = World::new(limits);
        let mut lengths = lengths.into_iter().cycle();
        let mut send = |world: &mut World, client| {
            let (prompt, new_tokens) = lengths.next().unwrap();
            world.send(client, prompt.min(longest), new_tokens);
        };
        let most = (29 + 11) * (limits.max_batch + 1);
        for guest in guests {
            for client in [1, 2] {
                while world.open(client) <= limits.max_batch as usize {
                    send(&mut world, client);
                }
            }
            if let Some(guest) = guest {
                send(&mut world, guest);
            }
            world.step(ahead)?;
            let difference = world.served(1).abs_diff(world.served(2));
            prop_assert!(difference <= most, "{} and {}", world.served(1), world.served(2));
        }
    }
}

/// Returns the limits of a model that runs one request at a time.
fn one_at_a_time() -> ModelLimits {
    ModelLimits {
        max_batch: 1,
        max_step_tokens: 64,
        max_length: 64,
        max_steps: 1,
        max_prefill: 1,
        max_logit_rows: 1,
        pages: 16,
        page_size: 8,
        ..ModelLimits::default()
    }
}

#[test]
fn a_single_request_waits_for_the_running_one_only() -> Result<(), TestCaseError> {
    let mut world = World::new(one_at_a_time());
    for _ in 0..100 {
        world.send(1, 5, 4);
    }
    world.step(false)?;
    let id = world.send(2, 5, 4);
    while world.sent.contains_key(&id) {
        world.step(false)?;
    }
    assert_eq!(world.begun, [1, 2]);
    Ok(())
}

#[test]
fn a_client_that_returns_has_no_claim_to_the_time_of_its_absence() -> Result<(), TestCaseError> {
    let mut world = World::new(one_at_a_time());
    world.send(2, 5, 4);
    for _ in 0..60 {
        world.send(1, 5, 4);
    }
    for _ in 0..100 {
        world.step(false)?;
    }
    for _ in 0..10 {
        world.send(2, 5, 4);
    }
    world.begun.clear();
    for _ in 0..40 {
        world.step(false)?;
    }
    let turns = world.begun.iter().filter(|client| **client == 1).count();
    assert_eq!((turns, world.begun.len()), (5, 10));
    Ok(())
}

/// Admitted prompts are charged for, but most of what they share is never computed.
#[test]
fn a_client_does_not_wait_for_prompts_that_others_share() -> Result<(), TestCaseError> {
    let limits = ModelLimits {
        max_batch: 4,
        max_step_tokens: 16,
        max_prefill: 4,
        max_logit_rows: 4,
        pages: 64,
        prefix_caching: true,
        ..one_at_a_time()
    };
    let mut world = World::new(limits);
    for _ in 0..60 {
        world.send(1, 60, 1);
    }
    world.step(false)?;
    let id = world.send(2, 60, 1);
    while world.sent.contains_key(&id) {
        world.step(false)?;
    }
    assert!(world.begun.len() <= 6, "{:?}", world.begun);
    Ok(())
}

#[test]
fn clients_that_left_are_forgotten() -> Result<(), TestCaseError> {
    let mut world = World::new(one_at_a_time());
    for client in 0..50 {
        let id = world.send(client, 5, 4);
        world.send(100, 5, 4);
        if client % 2 == 0 {
            world.scheduler.cancel(id);
            world.sent.remove(&id);
        }
        for _ in 0..8 {
            world.step(false)?;
        }
    }
    assert!(world.scheduler.waiting.clients() <= 3);
    while !world.scheduler.is_idle() {
        world.step(false)?;
    }
    assert_eq!(world.scheduler.waiting.clients(), 0);
    Ok(())
}
