//! From the hidden states of a text's tokens to its embedding.

/// How the hidden states of a text's tokens become its embedding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// The mean over all tokens.
    Mean,
    /// The first token's.
    Cls,
    /// The last token's.
    Last,
}

impl Pooling {
    /// Returns the embedding of a text from its hidden states, `[tokens, width]`, at least one.
    pub fn apply(self, hidden: &[f32], width: usize) -> Vec<f32> {
        let rows = hidden.chunks_exact(width.max(1));
        match self {
            Pooling::Cls => return rows.take(1).flatten().copied().collect(),
            Pooling::Last => return rows.last().unwrap_or_default().to_vec(),
            Pooling::Mean => {}
        }
        let count = rows.len() as f64;
        let mut sums = vec![0.0; width];
        for row in rows {
            for (sum, value) in sums.iter_mut().zip(row) {
                *sum += f64::from(*value);
            }
        }
        sums.into_iter().map(|sum| (sum / count) as f32).collect()
    }
}

/// Scales an embedding to length 1; zeros stay as they are.
pub fn normalize(embedding: &mut [f32]) {
    let squares = embedding.iter().map(|x| f64::from(*x).powi(2));
    let length = squares.sum::<f64>().sqrt().max(1e-12);
    for x in embedding {
        *x = (f64::from(*x) / length) as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pooling_is_the_mean_the_first_or_the_last() {
        let hidden = [1.0, 2.0, 3.0, 6.0, 5.0, 1.0];
        assert_eq!(Pooling::Mean.apply(&hidden, 2), [3.0, 3.0]);
        assert_eq!(Pooling::Cls.apply(&hidden, 2), [1.0, 2.0]);
        assert_eq!(Pooling::Last.apply(&hidden, 2), [5.0, 1.0]);
    }

    #[test]
    fn normalisation_gives_length_1() {
        let mut embedding = [3.0, -4.0];
        normalize(&mut embedding);
        assert_eq!(embedding, [0.6, -0.8]);
        let mut zeros = [0.0; 3];
        normalize(&mut zeros);
        assert_eq!(zeros, [0.0; 3]);
    }
}
