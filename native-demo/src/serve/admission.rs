//! The bound on the texts that run and wait at the same time.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::http::StatusCode;

use super::error::ApiError;

/// The texts of one model that run or wait.
#[derive(Debug)]
pub struct Admission {
    /// Texts that may run or wait.
    capacity: usize,
    active: AtomicUsize,
}

/// The right to run some texts, which ends when it is dropped.
#[derive(Debug)]
pub struct Slots {
    admission: Arc<Admission>,
    count: usize,
}

impl Admission {
    /// Creates the bound of a model that runs `parallel` texts at the same time, behind which `queue` may wait.
    pub fn new(parallel: usize, queue: usize) -> Arc<Admission> {
        Arc::new(Admission {
            capacity: parallel.saturating_add(queue),
            active: AtomicUsize::new(0),
        })
    }

    /// Takes the right to run `count` texts.
    ///
    /// # Errors
    ///
    /// If too many run and wait already.
    pub fn enter(self: &Arc<Admission>, count: usize) -> Result<Slots, ApiError> {
        if count > self.capacity {
            let capacity = self.capacity;
            let message = format!(
                "the request asks for {count} texts, but at most {capacity} can run and wait"
            );
            return Err(ApiError::parameter("n", message));
        }
        let enter = |active: usize| {
            active
                .checked_add(count)
                .filter(|sum| *sum <= self.capacity)
        };
        let entered = self
            .active
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, enter);
        match entered {
            Ok(_) => Ok(Slots {
                admission: self.clone(),
                count,
            }),
            Err(active) => {
                let message = format!("the queue is full: {active} texts run or wait");
                let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, message);
                Err(error.with_code("queue_full").with_retry_after(1))
            }
        }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        self.admission
            .active
            .fetch_sub(self.count, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_beyond_the_queue_are_refused_until_others_end() {
        let admission = Admission::new(2, 1);
        let first = admission.enter(2).unwrap();
        let second = admission.enter(1).unwrap();
        assert!(admission.enter(1).is_err());
        drop(first);
        assert!(admission.enter(3).is_err());
        drop(admission.enter(2).unwrap());
        drop(second);
        drop(admission.enter(3).unwrap());
        assert!(admission.enter(4).is_err());
    }
}
