//! The memory plan: which intermediate results share a slot of the arena.

use super::Size;

/// An intermediate result: its size, and the first and last call that touches it.
#[derive(Clone, Debug)]
pub(super) struct Lifetime {
    pub size: Size,
    pub first: usize,
    pub last: usize,
}

/// Gives each result a slot, such that no two that live at the same time share one. Returns the
/// slot of each result, and for each slot the sizes it must hold.
pub(super) fn plan(lifetimes: &[Lifetime]) -> (Vec<u32>, Vec<Vec<Size>>) {
    let mut order: Vec<usize> = (0..lifetimes.len()).collect();
    order.sort_by_key(|i| lifetimes[*i].first);
    let mut slots: Vec<(Vec<Size>, usize)> = Vec::new();
    let mut assigned = vec![0; lifetimes.len()];
    for i in order {
        let Lifetime { size, first, last } = &lifetimes[i];
        // Of the free slots that grow with the same dimensions, the one closest in size.
        let best = slots
            .iter()
            .enumerate()
            .filter(|(_, (sizes, busy_until))| busy_until < first && sizes[0].dims == size.dims)
            .min_by_key(|(_, (sizes, _))| {
                sizes
                    .iter()
                    .map(|s| s.factor)
                    .max()
                    .unwrap_or(0)
                    .abs_diff(size.factor)
            })
            .map(|(slot, _)| slot);
        let slot = best.unwrap_or_else(|| {
            slots.push((Vec::new(), 0));
            slots.len() - 1
        });
        slots[slot].0.push(size.clone());
        slots[slot].1 = *last;
        assigned[i] = slot as u32;
    }
    (
        assigned,
        slots.into_iter().map(|(sizes, _)| sizes).collect(),
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_two_living_results_share_a_slot(spans in prop::collection::vec((0usize..40, 0usize..10, 1u64..5, 0u32..2), 1..60)) {
            let lifetimes: Vec<Lifetime> = spans
                .iter()
                .map(|(first, length, factor, dim)| Lifetime {
                    size: Size { factor: *factor, dims: vec![*dim] },
                    first: *first,
                    last: first + length,
                })
                .collect();
            let (assigned, slots) = plan(&lifetimes);
            for (i, a) in lifetimes.iter().enumerate() {
                prop_assert!(slots[assigned[i] as usize].contains(&a.size));
                for (j, b) in lifetimes.iter().enumerate().skip(i + 1) {
                    let overlap = a.first <= b.last && b.first <= a.last;
                    prop_assert!(!overlap || assigned[i] != assigned[j], "{a:?} {b:?}");
                }
            }
        }
    }
}
