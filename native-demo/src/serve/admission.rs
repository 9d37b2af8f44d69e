//! The bound on the texts that run and wait at the same time.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::http::StatusCode;
use wisp_engine::pipelines::ClientId;

use super::error::ApiError;

/// The texts of one model that run or wait.
#[derive(Debug)]
pub struct Admission {
    /// Texts that may run or wait. A client that has none is let in until there are twice as many, so that others
    /// cannot keep it out with a full queue.
    capacity: usize,
    active: Mutex<Active>,
}

/// The texts that run or wait.
#[derive(Debug, Default)]
struct Active {
    total: usize,
    /// The texts of each client that has any.
    of_client: HashMap<ClientId, usize>,
}

/// The right to run some texts, which ends when it is dropped.
#[derive(Debug)]
pub struct Slots {
    admission: Arc<Admission>,
    client: ClientId,
    count: usize,
}

impl Admission {
    /// Creates the bound of a model that runs `parallel` texts at the same time, behind which `queue` may wait.
    pub fn new(parallel: usize, queue: usize) -> Arc<Admission> {
        Arc::new(Admission {
            capacity: parallel.saturating_add(queue),
            active: Mutex::default(),
        })
    }

    /// Takes a client's right to run `choices` texts for each of `prompts` prompts.
    ///
    /// # Errors
    ///
    /// If these are too many, or too many run and wait already.
    pub fn enter(
        self: &Arc<Admission>,
        client: ClientId,
        prompts: usize,
        choices: usize,
    ) -> Result<Slots, ApiError> {
        let count = prompts.saturating_mul(choices);
        if count > self.capacity {
            let capacity = self.capacity;
            let message = format!(
                "the request asks for {count} texts, but at most {capacity} can run and wait"
            );
            let param = if prompts > capacity { "prompt" } else { "n" };
            return Err(ApiError::parameter(param, message));
        }
        let mut active = self.active();
        let capacity = match active.of_client.contains_key(&client) {
            true => self.capacity,
            false => self.capacity.saturating_mul(2),
        };
        let total = active.total.saturating_add(count);
        if total > capacity {
            let message = format!("the queue is full: {} texts run or wait", active.total);
            let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, message);
            return Err(error.with_code("queue_full").with_retry_after(1));
        }
        active.total = total;
        *active.of_client.entry(client).or_default() += count;
        Ok(Slots {
            admission: self.clone(),
            client,
            count,
        })
    }

    /// Poisoning is harmless: nothing panics while the counts differ.
    fn active(&self) -> MutexGuard<'_, Active> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        let mut active = self.admission.active();
        active.total = active.total.saturating_sub(self.count);
        if let Some(own) = active.of_client.get_mut(&self.client) {
            *own = own.saturating_sub(self.count);
            if *own == 0 {
                active.of_client.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: ClientId = ClientId(1);

    #[test]
    fn texts_beyond_the_queue_are_refused_until_others_end() {
        let admission = Admission::new(2, 1);
        let first = admission.enter(CLIENT, 1, 2).unwrap();
        let second = admission.enter(CLIENT, 1, 1).unwrap();
        assert!(admission.enter(CLIENT, 1, 1).is_err());
        drop(first);
        assert!(admission.enter(CLIENT, 1, 3).is_err());
        drop(admission.enter(CLIENT, 1, 2).unwrap());
        drop(second);
        drop(admission.enter(CLIENT, 1, 3).unwrap());
        assert!(admission.enter(CLIENT, 1, 4).is_err());
    }

    #[test]
    fn too_many_prompts_are_told_apart_from_too_many_choices() {
        let admission = Admission::new(2, 1);
        for (prompts, choices, param) in [(4, 1, "prompt"), (4, 2, "prompt"), (2, 2, "n")] {
            let error = admission.enter(CLIENT, prompts, choices).unwrap_err();
            assert_eq!(error.body()["error"]["param"], param);
        }
        drop(admission.enter(CLIENT, 3, 1).unwrap());
    }

    #[test]
    fn a_client_without_texts_is_let_in_behind_a_full_queue() {
        let admission = Admission::new(2, 1);
        let full = admission.enter(CLIENT, 1, 3).unwrap();
        let other = admission.enter(ClientId(2), 1, 2).unwrap();
        assert!(admission.enter(ClientId(2), 1, 1).is_err());
        assert!(admission.enter(ClientId(3), 1, 2).is_err());
        let third = admission.enter(ClientId(3), 1, 1).unwrap();
        drop((full, other, third));
        assert_eq!(admission.active().total, 0);
        assert!(admission.active().of_client.is_empty());
    }
}
