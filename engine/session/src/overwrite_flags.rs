//! Flags that stop models from running on weights that a reload has overwritten in part.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// A flag for the weights that one model was the first to load. It is true while a model that uses some of them overwrites
/// its weights, and from then on if that fails: then some are of one checkpoint, and some of another.
pub(crate) type OverwriteFlag = Arc<AtomicBool>;

/// The flags of all weights that a model uses: its own flag, and those of the models whose weights it shares.
#[derive(Debug)]
pub(crate) struct OverwriteFlags(Vec<OverwriteFlag>);

impl OverwriteFlags {
    /// The flags of a model that shares no weights so far.
    pub fn new(own: OverwriteFlag) -> OverwriteFlags {
        OverwriteFlags(vec![own])
    }

    /// Adds the flag of weights that the model shares, unless it has it.
    pub fn add(&mut self, flag: &OverwriteFlag) {
        if !self.0.iter().any(|known| Arc::ptr_eq(known, flag)) {
            self.0.push(flag.clone());
        }
    }

    /// Returns whether any flag is set.
    pub fn any_set(&self) -> bool {
        self.0.iter().any(|flag| flag.load(Ordering::Acquire))
    }

    /// Sets all flags; returns false, with all flags as they were, if another model has set one of them.
    #[must_use]
    pub fn try_set(&self) -> bool {
        let taken = self
            .0
            .iter()
            .position(|flag| flag.swap(true, Ordering::AcqRel));
        if let Some(taken) = taken {
            clear(&self.0[..taken]);
        }
        taken.is_none()
    }

    /// Clears all flags, which this model has set.
    pub fn clear(&self) {
        clear(&self.0);
    }
}

fn clear(flags: &[OverwriteFlag]) {
    for flag in flags {
        flag.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_that_share_weights_through_a_third_one_stop_each_other() {
        let third = OverwriteFlag::default();
        let [left, right] = [(); 2].map(|()| {
            let mut flags = OverwriteFlags::new(OverwriteFlag::default());
            flags.add(&third);
            flags
        });
        assert!(left.try_set());
        assert!(right.any_set() && !right.try_set());
        // Its own flag is as it was.
        left.clear();
        assert!(!right.any_set() && right.try_set());
    }

    #[test]
    fn models_that_share_weights_cannot_set_their_flags_at_once() {
        let [first, second] = [OverwriteFlag::default(), OverwriteFlag::default()];
        let one = OverwriteFlags::new(first.clone());
        let mut two = OverwriteFlags::new(second.clone());
        for _ in 0..2 {
            two.add(&first);
            two.add(&second);
        }
        assert_eq!(two.0.len(), 2);
        assert!(one.try_set());
        assert!(two.any_set());
        assert!(!two.try_set());
        let is_set = |flag: &OverwriteFlag| flag.load(Ordering::Acquire);
        assert!(is_set(&first) && !is_set(&second));
        one.clear();
        assert!(two.try_set());
        assert!(!one.try_set() && one.any_set());
        two.clear();
        assert!(!one.any_set() && !two.any_set());
    }

    #[test]
    fn models_without_common_weights_have_flags_of_their_own() {
        let [one, two] = [(); 2].map(|()| OverwriteFlags::new(OverwriteFlag::default()));
        assert!(one.try_set());
        assert!(!two.any_set() && two.try_set());
    }
}
