//! The threads that the host's kernels run on.

use std::{
    collections::BTreeMap,
    panic::resume_unwind,
    sync::{Arc, Condvar, Mutex, PoisonError, Weak},
    thread,
    time::{Duration, Instant},
};

/// How long somebody has a turn while others wait: much longer than it takes to change turns.
const TURN: Duration = Duration::from_millis(5);

/// A pool of threads, which all host devices with that many threads share: the pools of two models would
/// only take the cores from each other, between the many short tasks of a step.
#[derive(Debug)]
pub(super) struct Threads {
    pool: rayon::ThreadPool,
    /// What runs has its turn: a twin holds the locks of its buffers, and a thread of the pool that waits for others within it
    /// would begin another one, which may need the same buffers.
    turns: Turns,
}

/// Turns, given in the order in which they are asked for.
#[derive(Debug, Default)]
struct Turns {
    /// The numbers of the next turn to be asked for and of the current one.
    numbers: Mutex<[u64; 2]>,
    changed: Condvar,
}

/// A turn, which ends when it is dropped.
struct Turn<'t>(&'t Turns);

impl Turns {
    fn wait(&self) -> Turn<'_> {
        // Poisoning is harmless: nothing panics between two changes.
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let own = numbers[0];
        numbers[0] += 1;
        while numbers[1] != own {
            numbers = self
                .changed
                .wait(numbers)
                .unwrap_or_else(PoisonError::into_inner);
        }
        Turn(self)
    }

    /// Returns whether somebody waits for the current turn to end.
    fn are_wanted(&self) -> bool {
        let numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        numbers[0] > numbers[1] + 1
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut numbers = self
            .0
            .numbers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        numbers[1] += 1;
        drop(numbers);
        self.0.changed.notify_all();
    }
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
            turns: Turns::default(),
        });
        started.insert(count, Arc::downgrade(&threads));
        Ok(threads)
    }

    /// Runs tasks in order on the threads, in turns with others who do; an error is the message of a system that starts no
    /// thread.
    pub fn run<T: Sync, E: Send>(
        &self,
        tasks: &[T],
        run: impl Fn(&T) -> Result<(), E> + Sync,
    ) -> Result<Result<(), E>, String> {
        let mut rest = tasks;
        while !rest.is_empty() {
            let _turn = self.turns.wait();
            let end = Instant::now() + TURN;
            let done = self.install(|| {
                for (at, task) in rest.iter().enumerate() {
                    run(task)?;
                    if Instant::now() >= end && self.turns.are_wanted() {
                        return Ok(at + 1);
                    }
                }
                Ok(rest.len())
            })?;
            match done {
                Ok(count) => rest = &rest[count..],
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(()))
    }

    /// Runs `work` on the threads, and waits for it.
    fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> Result<R, String> {
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
    use std::sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    };

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
            threads.run(&[task], |_| {
                thread::sleep(Duration::from_millis(1));
                Ok::<_, ()>(())
            })
        };
        let all = || (0..64).into_par_iter().map(task).collect();
        let results: Vec<_> = other.build().unwrap().install(all);
        assert_eq!(results, vec![Ok(Ok(())); 64]);
    }

    #[test]
    fn a_short_run_does_not_wait_for_the_end_of_a_long_one() {
        let threads = Threads::shared(1).unwrap();
        let done = AtomicUsize::new(0);
        let (begun, begin) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                let task = |_: &usize| {
                    let _ = begun.send(());
                    thread::sleep(Duration::from_millis(2));
                    done.fetch_add(1, Ordering::Relaxed);
                    Ok::<_, ()>(())
                };
                threads.run(&[0; 500], task).unwrap().unwrap();
            });
            begin.recv().unwrap();
            let before = threads.run(&[0], |_| Err::<(), _>(done.load(Ordering::Relaxed)));
            // Half a second would have passed.
            assert!(before.unwrap().unwrap_err() < 250);
        });
        assert_eq!(done.into_inner(), 500);
    }
}
