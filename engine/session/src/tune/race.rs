//! The comparison of kernels by time: who runs next, and who has won.

/// Rounds in which all variants run.
const SCREENING_ROUNDS: usize = 4;

/// Rounds after the screening, in which the default and the variants that may beat it run.
const FINAL_ROUNDS: usize = 12;

/// Final rounds that suffice if the time limit allows no more.
const LEAST_FINAL_ROUNDS: usize = 5;

/// The part of the default's time that a variant must save, however little noise there is: a smaller gain
/// is worth no deviation from the kernels that everybody runs.
const LEAST_GAIN: f64 = 0.03;

/// Variants that take this many times as long as the default in the screening run no further rounds.
const HOPELESS: f64 = 1.05;

/// The time of a variant relative to the default's.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Ratio {
    /// The median over rounds of the variant's time divided by the default's in the same round.
    pub ratio: f64,
    /// Twice the standard error of that median, estimated from the spread over rounds.
    pub noise: f64,
}

impl Ratio {
    /// Compares times of the same rounds; `None` if there are none.
    pub(super) fn of(variant: &[f64], default: &[f64]) -> Option<Ratio> {
        let pairs = variant.iter().zip(default);
        let mut ratios: Vec<f64> = pairs.map(|(one, other)| one / other.max(1e-12)).collect();
        if ratios.is_empty() {
            return None;
        }
        let ratio = median(&mut ratios);
        let mut off: Vec<f64> = ratios.iter().map(|one| (one - ratio).abs()).collect();
        // 1.4826 makes the median deviation that of a normal distribution, whose median has 1.2533 times
        // the standard error of the mean.
        let deviation = 1.4826 * median(&mut off);
        let noise = 2.0 * 1.2533 * deviation / (ratios.len() as f64).sqrt();
        Some(Ratio { ratio, noise })
    }

    /// Returns whether the variant is faster by more than the noise and by a gain that is worth it.
    pub fn is_faster(self) -> bool {
        self.ratio + self.noise.max(LEAST_GAIN) < 1.0
    }

    /// Returns whether the variant is slower by more than the noise.
    pub fn is_slower(self) -> bool {
        self.ratio - self.noise > 1.0
    }
}

/// Returns the median, and sorts the values.
pub(super) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A comparison of variants, of which the first is the default.
///
/// Variants run in turn, one after the other in each round, so that a device that slows down slows all of
/// them. The rounds of the screening, in which chance decides which of many variants looks best, do not
/// count for those that go on.
#[derive(Debug)]
pub(super) struct Race {
    /// The times of each variant, one a round.
    times: Vec<Vec<f64>>,
    /// The variants that run in the final rounds, once the screening is over.
    finalists: Option<Vec<usize>>,
}

impl Race {
    pub fn new(variants: usize) -> Race {
        Race {
            times: vec![Vec::new(); variants],
            finalists: None,
        }
    }

    /// Returns the variant to run next and the number of its round; `None` at the end.
    pub fn next(&mut self) -> Option<(usize, usize)> {
        let all: Vec<usize> = (0..self.times.len()).collect();
        if self.finalists.is_none() {
            if let Some(next) = self.least_often(&all, SCREENING_ROUNDS) {
                return Some(next);
            }
            let hopeful = |variant: &usize| {
                *variant == 0 || self.ratio(*variant).is_some_and(|it| it.ratio < HOPELESS)
            };
            self.finalists = Some(all.into_iter().filter(hopeful).collect());
        }
        let finalists = self
            .finalists
            .as_deref()
            .filter(|variants| variants.len() > 1)?;
        self.least_often(finalists, SCREENING_ROUNDS + FINAL_ROUNDS)
    }

    /// Returns the variant that ran in the fewest rounds, if that are fewer than `rounds`. Every other round
    /// is in reverse, so that no variant always follows the same one.
    fn least_often(&self, variants: &[usize], rounds: usize) -> Option<(usize, usize)> {
        let round = variants
            .iter()
            .map(|variant| self.times[*variant].len())
            .min()?;
        let mut missing = variants
            .iter()
            .filter(|variant| self.times[**variant].len() == round);
        let next = match round % 2 {
            0 => missing.next(),
            _ => missing.next_back(),
        };
        next.filter(|_| round < rounds)
            .map(|variant| (*variant, round))
    }

    /// Adds the time of the variant that [`Self::next`] named.
    pub fn add(&mut self, variant: usize, seconds: f64) {
        self.times[variant].push(seconds);
    }

    /// Compares a variant with the default: by the final rounds if it took part in one, otherwise by the
    /// screening.
    pub fn ratio(&self, variant: usize) -> Option<Ratio> {
        let (times, default) = (&self.times[variant], &self.times[0]);
        let first = if times.len() > SCREENING_ROUNDS {
            SCREENING_ROUNDS
        } else {
            0
        };
        Ratio::of(times.get(first..)?, default.get(first..)?)
    }

    /// Returns whether enough rounds were run to choose a variant other than the default.
    pub fn is_conclusive(&mut self) -> bool {
        let enough = SCREENING_ROUNDS + LEAST_FINAL_ROUNDS;
        self.next().is_none_or(|(_, round)| round >= enough)
    }

    /// Returns the median time of the default in seconds.
    pub fn default_seconds(&self) -> f64 {
        median(&mut self.times[0].clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a race with times that a function of the variant and the round returns.
    fn run(variants: usize, time: impl Fn(usize, usize) -> f64) -> Race {
        let mut race = Race::new(variants);
        while let Some((variant, round)) = race.next() {
            race.add(variant, time(variant, round));
        }
        race
    }

    /// A number from -1 to 1 that looks random.
    fn noise(variant: usize, round: usize) -> f64 {
        let mixed = ((variant * 31 + round + 1) as u32).wrapping_mul(2_654_435_761);
        f64::from(mixed >> 8) / f64::from(1u32 << 23) - 1.0
    }

    #[test]
    fn a_faster_variant_wins_and_a_slow_one_ends_with_the_screening() {
        let mut race = run(3, |variant, round| {
            [1.0, 0.8, 2.0][variant] * (1.0 + 0.02 * noise(variant, round))
        });
        let [faster, slower] = [1, 2].map(|variant| race.ratio(variant).unwrap());
        assert!(
            faster.is_faster() && (faster.ratio - 0.8).abs() < 0.03,
            "{faster:?}"
        );
        assert!(slower.is_slower() && !slower.is_faster());
        assert_eq!(race.times.each_len(), [16, 16, 4]);
        assert!(race.is_conclusive() && (race.default_seconds() - 1.0).abs() < 0.03);
    }

    #[test]
    fn a_variant_within_the_noise_does_not_win() {
        // Faster by 5% on average, but times vary by half.
        let race = run(2, |variant, round| {
            [1.0, 0.95][variant] * (1.0 + 0.5 * noise(variant, round))
        });
        let ratio = race.ratio(1).unwrap();
        assert!(!ratio.is_faster() && ratio.noise > 0.05, "{ratio:?}");
        // Faster by 2% without any noise: not worth it.
        let race = run(2, |variant, _| [1.0, 0.98][variant]);
        let ratio = race.ratio(1).unwrap();
        assert!(!ratio.is_faster() && ratio.noise < 1e-9, "{ratio:?}");
    }

    #[test]
    fn a_device_that_slows_down_slows_all_variants_alike() {
        let race = run(2, |variant, round| {
            [1.0, 0.9][variant] * (1.0 + round as f64)
        });
        let ratio = race.ratio(1).unwrap();
        assert!(
            (ratio.ratio - 0.9).abs() < 1e-9 && ratio.noise < 1e-9,
            "{ratio:?}"
        );
    }

    #[test]
    fn luck_in_the_screening_does_not_count() {
        let race = run(2, |variant, round| match (variant, round) {
            (1, 0..SCREENING_ROUNDS) => 0.5,
            _ => 1.0,
        });
        assert!(!race.ratio(1).unwrap().is_faster());
    }

    trait EachLen {
        fn each_len(&self) -> Vec<usize>;
    }

    impl EachLen for Vec<Vec<f64>> {
        fn each_len(&self) -> Vec<usize> {
            self.iter().map(Vec::len).collect()
        }
    }
}
