//! The memory plan: which intermediate results share a slot of the arena.

use wisp_graph::lowering::Size;

/// An intermediate result: its size, and the first and last call that uses it.
#[derive(Clone, Debug)]
pub(super) struct Lifetime {
    pub size: Size,
    pub first: usize,
    pub last: usize,
}

/// A slot while results are placed in it.
struct Slot {
    /// The sizes that the slot must hold.
    sizes: Vec<Size>,
    /// The last call that uses what is in it.
    busy_until: usize,
}

/// Assigns a slot to each result, such that no two results share one while both are needed. Returns the slot
/// of each result, and for each slot the sizes that it must hold.
pub(super) fn plan(lifetimes: &[Lifetime]) -> (Vec<u32>, Vec<Vec<Size>>) {
    let mut order: Vec<usize> = (0..lifetimes.len()).collect();
    order.sort_by_key(|i| lifetimes[*i].first);
    let mut slots: Vec<Slot> = Vec::new();
    let mut assigned = vec![0; lifetimes.len()];
    for i in order {
        let Lifetime { size, first, last } = &lifetimes[i];
        // Of the free slots that grow with the same dimensions, the one closest in size.
        let best = slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| slot.busy_until < *first && slot.sizes[0].dims == size.dims)
            .min_by_key(|(_, slot)| {
                let largest = slot.sizes.iter().map(|size| size.factor).max();
                largest.unwrap_or(0).abs_diff(size.factor)
            });
        let slot = best.map(|(slot, _)| slot).unwrap_or_else(|| {
            slots.push(Slot {
                sizes: Vec::new(),
                busy_until: 0,
            });
            slots.len() - 1
        });
        slots[slot].sizes.push(size.clone());
        slots[slot].busy_until = *last;
        assigned[i] = slot as u32;
    }
    let sizes = slots.into_iter().map(|slot| slot.sizes).collect();
    (assigned, sizes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn results_that_live_at_the_same_time_have_different_slots(
            spans in prop::collection::vec((0usize..40, 0usize..10, 1u64..5, 0u32..2), 1..60)
        ) {
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
