//! Two texts as one input: the special tokens around them, and their segment types.

/// The tokens of two texts as one input, such as a query and a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairTokens {
    /// The tokens of both texts, with special tokens.
    pub tokens: Vec<u32>,
    /// The segment type of each token.
    pub types: Vec<u32>,
    /// The number of tokens cut from the ends of both texts.
    pub cut: usize,
}

/// A part of a [`PairTemplate`], with the segment type of its tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PairPart {
    /// Special tokens.
    Special(Vec<u32>, u32),
    /// The first text.
    First(u32),
    /// The second text.
    Second(u32),
}

/// The order of special tokens and both texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PairTemplate(pub Vec<PairPart>);

impl PairTemplate {
    /// Returns the template of BERT: `[CLS] A [SEP] B [SEP]`, the second text with type 1.
    pub fn bert(before: &[u32], after: &[u32]) -> PairTemplate {
        PairTemplate(vec![
            PairPart::Special(before.to_vec(), 0),
            PairPart::First(0),
            PairPart::Special(after.to_vec(), 0),
            PairPart::Second(1),
            PairPart::Special(after.to_vec(), 1),
        ])
    }

    /// Returns the template of RoBERTa: `<s> A </s> </s> B </s>`.
    pub fn roberta(before: &[u32], after: &[u32]) -> PairTemplate {
        PairTemplate(vec![
            PairPart::Special(before.to_vec(), 0),
            PairPart::First(0),
            PairPart::Special([after, after].concat(), 0),
            PairPart::Second(0),
            PairPart::Special(after.to_vec(), 0),
        ])
    }

    /// Joins the tokens of two texts, of which the longer one is cut first if there are more than
    /// `most` tokens, as Hugging Face's tokenizers do.
    pub fn join(&self, first: &[u32], second: &[u32], most: Option<usize>) -> PairTokens {
        let special = self.0.iter().map(|part| match part {
            PairPart::Special(ids, _) => ids.len(),
            _ => 0,
        });
        let room = most.map_or(usize::MAX, |most| most.saturating_sub(special.sum()));
        let kept = shares([first.len(), second.len()], room);
        let mut pair = PairTokens {
            cut: first.len() + second.len() - kept[0] - kept[1],
            ..PairTokens::default()
        };
        let [first, second] = [&first[..kept[0]], &second[..kept[1]]];
        for part in &self.0 {
            let (ids, segment) = match part {
                PairPart::Special(ids, segment) => (ids.as_slice(), segment),
                PairPart::First(segment) => (first, segment),
                PairPart::Second(segment) => (second, segment),
            };
            pair.tokens.extend_from_slice(ids);
            pair.types.resize(pair.tokens.len(), *segment);
        }
        pair
    }
}

/// Returns how many tokens of two texts are kept of at most `room`.
fn shares([first, second]: [usize; 2], room: usize) -> [usize; 2] {
    if first.saturating_add(second) <= room {
        return [first, second];
    }
    let half = room / 2;
    match (first <= half, second <= half) {
        (true, _) => [first, room - first],
        (_, true) => [room - second, second],
        _ if first > second => [room - half, half],
        _ => [half, room - half],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_text_is_cut_first() {
        let cases = [
            ([3, 4], 7, [3, 4]),
            ([3, 9], 8, [3, 5]),
            ([9, 3], 8, [5, 3]),
            ([9, 8], 7, [4, 3]),
            ([8, 8], 7, [3, 4]),
            ([8, 8], 0, [0, 0]),
        ];
        for (lengths, room, expected) in cases {
            assert_eq!(shares(lengths, room), expected, "{lengths:?} in {room}");
        }
    }

    #[test]
    fn templates_place_special_tokens_and_types() {
        let pair = PairTemplate::bert(&[7], &[8]).join(&[1, 2], &[3, 4, 5], Some(7));
        assert_eq!(pair.tokens, [7, 1, 2, 8, 3, 4, 8]);
        assert_eq!(pair.types, [0, 0, 0, 0, 1, 1, 1]);
        assert_eq!(pair.cut, 1);
        let pair = PairTemplate::roberta(&[7], &[8]).join(&[1], &[3], None);
        assert_eq!(pair.tokens, [7, 1, 8, 8, 3, 8]);
        assert_eq!(pair.types, [0; 6]);
    }
}
