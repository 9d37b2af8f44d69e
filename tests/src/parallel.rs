//! Checks that run at the same time.

use std::sync::Mutex;

/// Checks run at the same time: enough for programs that mostly wait.
const THREADS: usize = 4;

/// Runs a check on each item, four at a time. The items must not depend on each other.
///
/// # Panics
///
/// If a check does.
pub fn for_each<T: Send>(items: impl IntoIterator<Item = T>, check: impl Fn(T) + Sync) {
    let items: Vec<T> = items.into_iter().collect();
    let next = Mutex::new(items.into_iter());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    // The lock is free again before the check begins.
                    let item = next.lock().expect("nothing panics under the lock").next();
                    match item {
                        Some(item) => check(item),
                        None => break,
                    }
                }
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_checked_once() {
        let seen = Mutex::new(Vec::new());
        for_each(0..100, |item| seen.lock().unwrap().push(item));
        let mut seen = seen.into_inner().unwrap();
        seen.sort_unstable();
        assert_eq!(seen, Vec::from_iter(0..100));
    }

    #[test]
    #[should_panic(expected = "a scoped thread panicked")]
    fn a_failed_check_fails_the_caller() {
        for_each(0..3, |item| assert_ne!(item, 1));
    }
}
