//! Adapters of the sequences in a batch, which the tests of `lora_shrink` and `lora_expand` share.

use wisp_tests::guarded::invalid_indices;

/// Sequences in the batch.
pub(crate) const BATCH: usize = 5;

/// The sequence and position of each token.
pub(crate) fn index(tokens: usize) -> Vec<[u32; 2]> {
    (0..tokens as u32)
        .map(|t| [t * 7 % BATCH as u32, t])
        .collect()
}

/// The adapter of each sequence; some have none.
pub(crate) fn adapters(slots: usize) -> Vec<u32> {
    (0..BATCH).map(|i| (i % (slots + 1)) as u32).collect()
}

/// Tokens and adapters of which every second one is invalid, and those that they stand for.
pub(crate) struct Invalid {
    pub index: Vec<[u32; 2]>,
    pub adapters: Vec<u32>,
    pub reference_index: Vec<[u32; 2]>,
    pub reference_adapters: Vec<u32>,
}

/// Sequences outside of `adapters`: their tokens have no adapter, as those of sequence 0 here.
pub(crate) fn invalid_sequences(slots: usize) -> Invalid {
    let valid = adapters(slots);
    let invalid = invalid_indices(BATCH as u32);
    let of = |other: &dyn Fn(usize) -> u32| -> Vec<[u32; 2]> {
        let sequence = |t: usize| match t % 2 {
            0 => (t * 7 % BATCH) as u32,
            _ => other(t / 2),
        };
        (0..2 * invalid.len()).map(|t| [sequence(t), 3]).collect()
    };
    assert_eq!(valid[0], 0);
    Invalid {
        index: of(&|i| invalid[i]),
        adapters: valid.clone(),
        reference_index: of(&|_| 0),
        reference_adapters: valid,
    }
}

/// Adapter numbers past the last slot: such a sequence has no adapter.
pub(crate) fn invalid_adapters(slots: usize) -> Invalid {
    let invalid = invalid_indices(slots as u32 + 1);
    let valid = adapters(slots);
    let of = |other: &dyn Fn(usize) -> u32| -> Vec<u32> {
        let adapter = |i: usize| match i % 2 {
            0 => valid[i / 2 % BATCH],
            _ => other(i / 2),
        };
        (0..2 * invalid.len()).map(adapter).collect()
    };
    let index: Vec<[u32; 2]> = (0..2 * invalid.len() as u32).map(|t| [t, t]).collect();
    Invalid {
        index: index.clone(),
        adapters: of(&|i| invalid[i]),
        reference_index: index,
        reference_adapters: of(&|_| 0),
    }
}
