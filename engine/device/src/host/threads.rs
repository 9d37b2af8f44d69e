//! The threads that the host's kernels run on.

use std::{
    collections::BTreeMap,
    panic::resume_unwind,
    sync::{Arc, Mutex, PoisonError, Weak},
    thread,
};

/// A pool of threads, which all host devices with that many threads share: the pools of two models would
/// only take the cores from each other, between the many short tasks of a step.
#[derive(Debug)]
pub(super) struct Threads {
    pool: rayon::ThreadPool,
    /// Held by what runs: a twin holds the locks of its buffers, and a thread of the pool that waits for others within it
    /// would begin another one, which may need the same buffers.
    running: Mutex<()>,
}

impl Threads {
    /// Returns the pool with that many threads, which starts unless some device has it; an error is the system's message.
    pub fn shared(count: usize) -> Result<Arc<Threads>, String> {
        static STARTED: Mutex<BTreeMap<usize, Weak<Threads>>> = Mutex::new(BTreeMap::new());
        let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(threads) = started.get(&count).and_then(Weak::upgrade) {
            return Ok(threads);
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(count).build();
        let threads = Arc::new(Threads {
            pool: pool.map_err(|error| error.to_string())?,
            running: Mutex::default(),
        });
        started.insert(count, Arc::downgrade(&threads));
        Ok(threads)
    }

    /// Runs `work` on the threads, after what they run now; an error is the message of a system that starts no thread.
    pub fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> Result<R, String> {
        // Poisoning is harmless: it guards nothing by itself.
        let _alone = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if rayon::current_thread_index().is_none() {
            return Ok(self.pool.install(work));
        }
        // A thread of another pool that waited here would begin more work of its own, and whatever in it uses
        // this device would wait for this call, below on the same stack.
        thread::scope(|scope| {
            let waiting = thread::Builder::new().spawn_scoped(scope, || self.pool.install(work));
            let waiting = waiting.map_err(|error| error.to_string())?;
            Ok(waiting.join().unwrap_or_else(|panic| resume_unwind(panic)))
        })
    }
}

#[cfg(test)]
mod tests {
    use rayon::iter::{IntoParallelIterator, ParallelIterator};

    use super::*;

    #[test]
    fn devices_with_as_many_threads_share_them() {
        let threads = Threads::shared(3).unwrap();
        assert!(Arc::ptr_eq(&threads, &Threads::shared(3).unwrap()));
        assert!(!Arc::ptr_eq(&threads, &Threads::shared(2).unwrap()));
    }

    /// Each task of the other pool holds a lock while it runs something here, as an execution of a model does.
    #[test]
    fn tasks_of_another_pool_wait_for_each_other() {
        let threads = Threads::shared(1).unwrap();
        let other = rayon::ThreadPoolBuilder::new().num_threads(2);
        let execution = Mutex::new(());
        let task = |task: usize| {
            let _held = execution.lock().unwrap();
            threads.run(|| {
                thread::sleep(std::time::Duration::from_millis(1));
                task
            })
        };
        let all = || (0..64).into_par_iter().map(task).collect();
        let results: Result<Vec<usize>, String> = other.build().unwrap().install(all);
        assert_eq!(results, Ok((0..64).collect()));
    }
}
