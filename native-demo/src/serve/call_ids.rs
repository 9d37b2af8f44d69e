//! The ids of calls of tools.

/// The ids of the calls of an answer.
#[derive(Debug)]
pub struct CallIds {
    /// What all ids begin with.
    prefix: &'static str,
    seed: u64,
}

impl CallIds {
    /// Draws ids with this beginning that differ from those of other answers.
    pub fn new(prefix: &'static str) -> CallIds {
        // Ids need only differ within a conversation: without random numbers, they may repeat.
        CallIds {
            prefix,
            seed: getrandom::u64().unwrap_or(0),
        }
    }

    /// Returns the id of a call by its number, in a text by its number.
    pub fn id(&self, text: usize, call: usize) -> String {
        let number = (text as u64) << 32 | call as u64;
        // A permutation of 64 bits (splitmix64): the last digits differ too, which some templates cut off.
        let mut mixed = self
            .seed
            .wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        format!(
            "{}{:08x}{mixed:016x}",
            self.prefix,
            (self.seed >> 32) as u32
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_in_their_last_digits() {
        let ids = CallIds::new("call_");
        let all = (0..4).flat_map(|text| (0..16).map(move |call| (text, call)));
        let tails = all.map(|(text, call)| ids.id(text, call)[20..].to_owned());
        let tails: std::collections::BTreeSet<String> = tails.collect();
        assert_eq!(tails.len(), 64);
        assert_eq!(ids.id(0, 0).len(), "call_".len() + 24);
    }
}
