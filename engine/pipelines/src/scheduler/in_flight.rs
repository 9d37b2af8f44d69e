//! Tests of batches that are scheduled behind one whose tokens are not known yet.

use super::{tests::*, *};
use crate::{ModelLimits, request::ClientId};

#[test]
fn steps_are_scheduled_ahead_while_a_request_waits_for_pages() {
    let mut scheduler = Scheduler::new(limits(2, 64, 5));
    let first = scheduler.add(request(vec![1; 20], 10)).unwrap();
    let second = scheduler.add(request(vec![2; 30], 10)).unwrap();
    let batch = scheduler.schedule();
    assert_eq!(batch.requests(), [first]);
    accept(&mut scheduler, &batch);
    let batch = scheduler.schedule();
    let next = scheduler.schedule_behind(&batch);
    assert_eq!(next.requests(), [first]);
    accept(&mut scheduler, &batch);
    // One of a client that was served less comes before it, and has enough pages.
    let mut other = request(vec![3; 4], 1);
    other.client = ClientId(1);
    let other = scheduler.add(other).unwrap();
    let batch = scheduler.schedule_behind(&next);
    assert_eq!(batch.requests(), [first, other]);
    accept(&mut scheduler, &next);
    assert_eq!(accept(&mut scheduler, &batch), [other]);
    // The pages of the first request suffice.
    assert!(scheduler.cancel(first));
    assert_eq!(scheduler.schedule().requests(), [second]);
}

/// Prompts in chunks, new requests and decode in one batch after the other, each behind one that is in flight.
#[test]
fn any_batch_may_be_scheduled_behind_another() {
    let mut scheduler = Scheduler::new(limits(3, 200, 100));
    scheduler.set_pace(Pace::of(1000, 1000));
    let add = |scheduler: &mut Scheduler, token, tokens| {
        scheduler.add(request(vec![token; tokens], 9)).unwrap()
    };
    let long = add(&mut scheduler, 1, 100);
    let mut in_flight = scheduler.schedule();
    let mut parts = Vec::new();
    let mut short = None;
    for _ in 0..4 {
        let next = scheduler.schedule_behind(&in_flight);
        accept(&mut scheduler, &in_flight);
        short.get_or_insert_with(|| add(&mut scheduler, 2, 10));
        parts.push(
            next.sequences
                .iter()
                .map(|part| (part.id, part.start, part.tokens.len(), part.awaits_token))
                .collect::<Vec<_>>(),
        );
        in_flight = next;
    }
    let short = short.unwrap();
    assert_eq!(
        parts,
        [
            vec![(long, 64, 36, false)],
            vec![(long, 100, 1, true), (short, 0, 10, false)],
            vec![(long, 101, 1, true), (short, 10, 1, true)],
            vec![(long, 102, 1, true), (short, 11, 1, true)],
        ]
    );
}

/// What one computes in flight, another one with the same beginning waits for.
#[test]
fn a_prefix_that_is_in_flight_is_not_computed_again() {
    let caching = ModelLimits {
        prefix_caching: true,
        ..limits(2, 64, 16)
    };
    let mut scheduler = Scheduler::new(caching);
    let first = scheduler.add(request(vec![1; 20], 9)).unwrap();
    let batch = scheduler.schedule();
    let second = scheduler.add(request(vec![1; 21], 9)).unwrap();
    let next = scheduler.schedule_behind(&batch);
    assert_eq!(next.requests(), [first]);
    accept(&mut scheduler, &batch);
    let last = scheduler.schedule_behind(&next);
    assert_eq!(last.requests(), [first, second]);
    // Two pages of eight are there.
    assert_eq!(last.sequences[1].start, 16);
}

#[test]
fn sequences_that_end_in_flight_are_left_out_of_the_next_batch() {
    let mut scheduler = Scheduler::new(limits(2, 64, 16));
    let mut add = |new_tokens| scheduler.add(request(vec![1; 4], new_tokens)).unwrap();
    let [short, long] = [2, 3].map(&mut add);
    let batch = scheduler.schedule();
    accept(&mut scheduler, &batch);
    let batch = scheduler.schedule();
    // The first sequence gets its last token in flight.
    let next = scheduler.schedule_behind(&batch);
    assert_eq!(next.requests(), [long]);
    assert_eq!(accept(&mut scheduler, &batch), [short]);
    assert_eq!(accept(&mut scheduler, &next), [long]);
    assert!(scheduler.is_idle());
    assert_eq!(scheduler.free_pages(), 16);
}

#[test]
fn nothing_is_scheduled_ahead_if_all_sequences_end() {
    let mut scheduler = Scheduler::new(limits(2, 64, 16));
    for _ in 0..2 {
        scheduler.add(request(vec![1; 4], 2)).unwrap();
    }
    let batch = scheduler.schedule();
    accept(&mut scheduler, &batch);
    let batch = scheduler.schedule();
    assert!(scheduler.schedule_behind(&batch).is_empty());
}

/// Chunks of prompts alone, before any decode step has been measured.
#[test]
fn prompts_alone_are_scheduled_ahead() {
    let mut scheduler = Scheduler::new(limits(2, 400, 100));
    scheduler.set_pace(Pace::of(128, 1));
    let id = scheduler.add(request(vec![1; 300], 1)).unwrap();
    let batch = scheduler.schedule();
    let next = scheduler.schedule_behind(&batch);
    assert_eq!(next.requests(), [id]);
    assert_eq!((batch.tokens(), next.sequences[0].start), (64, 64));
}

/// The batches in flight leave a slow device no time for a tile of a prompt.
#[test]
fn prompts_do_not_starve_behind_decode() {
    let mut scheduler = Scheduler::new(limits(2, 400, 100));
    scheduler.set_pace(Pace::of(32, 4));
    scheduler.add(request(vec![1; 4], 300)).unwrap();
    let mut in_flight = scheduler.schedule();
    accept(&mut scheduler, &in_flight);
    in_flight = scheduler.schedule();
    let waiting = scheduler.add(request(vec![2; 100], 1)).unwrap();
    for _ in 0..2 {
        let next = scheduler.schedule_behind(&in_flight);
        accept(&mut scheduler, &in_flight);
        in_flight = match next.is_empty() {
            true => scheduler.schedule(),
            false => next,
        };
    }
    assert!(in_flight.requests().contains(&waiting));
}

/// Both together would take longer than one may.
#[test]
fn slow_devices_get_nothing_ahead() {
    let mut scheduler = Scheduler::new(limits(2, 64, 16));
    scheduler.add(request(vec![1; 4], 20)).unwrap();
    let prompt = scheduler.schedule();
    accept(&mut scheduler, &prompt);
    for (decode_steps, is_ahead) in [(1, false), (2, true)] {
        scheduler.set_pace(Pace::of(32, decode_steps));
        let batch = scheduler.schedule();
        let next = scheduler.schedule_behind(&batch);
        assert_eq!(!next.is_empty(), is_ahead);
        accept(&mut scheduler, &batch);
        if is_ahead {
            accept(&mut scheduler, &next);
        }
    }
}
