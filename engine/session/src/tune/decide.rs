//! From measurements to a tuning: which kernels serve which numbers of rows.

use std::collections::BTreeSet;

use wisp_compiler::{CallShape, KernelChoice, TunedCall, Tuning};
use wisp_shaders::Kernel;

use super::{
    race::Ratio,
    report::{TunePoint, TuneVariant},
};

/// Decides for each shape and number of rows, writes the choices into the points, and returns the tuning.
pub(super) fn decide(points: &mut [TunePoint]) -> Tuning {
    let shapes: BTreeSet<CallShape> = points.iter().map(|point| point.shape.clone()).collect();
    let mut calls = Vec::new();
    for shape in shapes {
        let of_shape = |point: &&TunePoint| point.shape == shape;
        let rows: BTreeSet<u32> = points
            .iter()
            .filter(of_shape)
            .map(|point| point.rows)
            .collect();
        let mut chosen = Vec::new();
        for rows in rows {
            let same = points.iter().filter(of_shape);
            let same: Vec<&TunePoint> = same.filter(|point| point.rows == rows).collect();
            let kernel = best(&same);
            chosen.push((rows, kernel));
            let decided = points.iter_mut();
            for point in decided.filter(|point| point.shape == shape && point.rows == rows) {
                point.chosen = kernel;
            }
        }
        let default = points.iter().find(of_shape);
        let default = default.map_or(&[][..], |point| &point.default_kernels);
        let kernels = kernels(default, &chosen);
        if kernels != default {
            calls.push(TunedCall { shape, kernels });
        }
    }
    Tuning::new(calls)
}

/// Returns the kernel for points of one shape and number of rows, which may differ in their other sizes: one
/// that is faster than the default for at least one of them and slower for none, or else the default. One with
/// wrong results is never chosen, not even the default if another one is right.
fn best(points: &[&TunePoint]) -> &'static str {
    let Some(first) = points.first() else {
        return "";
    };
    let variant = |point: &TunePoint, kernel: &str| -> Option<TuneVariant> {
        let mut variants = point.variants.iter();
        let variant = variants.find(|variant| variant.kernel == kernel)?;
        Some(variant.clone()).filter(|variant| variant.problem.is_none())
    };
    // A measurement that the time limit cut short speaks neither for a kernel nor against it.
    let ratios = |kernel: &str| -> Option<Vec<Ratio>> {
        let found: Option<Vec<_>> = points.iter().map(|point| variant(point, kernel)).collect();
        let complete = found?
            .into_iter()
            .zip(points)
            .filter(|(_, point)| point.is_complete);
        complete.map(|(variant, _)| variant.ratio).collect()
    };
    let default_is_wrong = points.iter().any(|point| point.problem.is_some());
    let gain = |variant: &TuneVariant| {
        let ratios = ratios(variant.kernel)?;
        let is_faster = ratios.iter().any(|it| it.is_faster());
        let wins = (default_is_wrong && !ratios.is_empty())
            || (is_faster && !ratios.iter().any(|it| it.is_slower()));
        let product: f64 = ratios.iter().map(|it| it.ratio).product();
        wins.then_some((variant.kernel, product))
    };
    let gains = first.variants.iter().filter_map(gain);
    let best = gains.min_by(|one, other| one.1.total_cmp(&other.1));
    best.map_or(first.default, |(kernel, _)| kernel)
}

/// Returns the kernels of a shape: each measured choice serves the rows for which the default's kernel was
/// the same, up to the next measured number; what was not measured stays as it is.
fn kernels(default: &[KernelChoice], chosen: &[(u32, &'static str)]) -> Vec<KernelChoice> {
    let mut kernels: Vec<KernelChoice> = Vec::new();
    let mut serve = |name: &str, upto: u32| {
        let served = kernels.last().map_or(0, |last| last.max_rows);
        match kernels.last_mut() {
            _ if upto <= served => {}
            Some(last) if last.name == name => last.max_rows = upto,
            _ => kernels.push(KernelChoice {
                name: name.into(),
                max_rows: upto,
            }),
        }
    };
    let limit =
        |name: &str| wisp_shaders::kernel(name).map_or(0, |kernel: &Kernel| kernel.max_grid_y);
    let mut served = 0;
    for segment in default {
        let within = |(rows, _): &&(u32, &str)| served < *rows && *rows <= segment.max_rows;
        let mut within = chosen.iter().filter(within).peekable();
        while let Some((rows, name)) = within.next() {
            let upto = match within.peek() {
                Some(_) => *rows,
                None => segment.max_rows,
            };
            serve(name, upto.min(limit(name)));
        }
        serve(&segment.name, segment.max_rows);
        served = segment.max_rows;
    }
    kernels
}

#[cfg(test)]
mod tests {
    use super::*;

    const OP: &str = "matmul.q4_0";
    const DEFAULT: [&str; 2] = ["matmul.q4_0.matvec8", "matmul.q4_0.tile64x64"];
    const OTHER: &str = "matmul.q4_0.baseline";

    fn default_kernels() -> Vec<KernelChoice> {
        let limits = [8, u32::MAX];
        let kernels = DEFAULT.iter().zip(limits);
        kernels
            .map(|(name, max_rows)| KernelChoice {
                name: name.to_string(),
                max_rows,
            })
            .collect()
    }

    fn point(rows: u32, sizes: &str, others: &[(&'static str, f64)]) -> TunePoint {
        let default = DEFAULT[usize::from(rows > 8)];
        let variants = others.iter().map(|(kernel, ratio)| TuneVariant {
            kernel,
            ratio: Some(Ratio {
                ratio: *ratio,
                noise: 0.01,
            }),
            error: Some(0.0),
            problem: None,
        });
        TunePoint {
            shape: CallShape {
                op: OP.into(),
                cols: 64,
                width: 64,
            },
            label: "linear w".into(),
            sizes: sizes.into(),
            rows,
            calls: 1,
            default,
            chosen: default,
            default_kernels: default_kernels(),
            problem: None,
            seconds: 1.0,
            variants: variants.collect(),
            is_complete: true,
        }
    }

    fn choices(tuning: &Tuning) -> Vec<(String, u32)> {
        let kernels = tuning.calls().iter().flat_map(|call| &call.kernels);
        kernels
            .map(|choice| (choice.name.clone(), choice.max_rows))
            .collect()
    }

    #[test]
    fn defaults_that_nothing_beats_make_no_entry() {
        let mut points = [
            point(1, "tokens=1", &[(OTHER, 0.99)]),
            point(128, "tokens=128", &[(OTHER, 1.2)]),
        ];
        assert!(decide(&mut points).is_empty());
        assert_eq!(points[0].chosen, DEFAULT[0]);
    }

    #[test]
    fn a_winner_serves_rows_up_to_the_next_measured_number() {
        let mut points = [
            point(1, "tokens=1", &[(OTHER, 0.5)]),
            point(4, "tokens=4", &[(OTHER, 1.5)]),
            point(128, "tokens=128", &[(OTHER, 1.5)]),
        ];
        let expected = [(OTHER, 1), (DEFAULT[0], 8), (DEFAULT[1], u32::MAX)];
        let expected = expected.map(|(name, rows)| (name.to_string(), rows));
        assert_eq!(choices(&decide(&mut points)), expected);
        assert_eq!(
            points.map(|point| point.chosen),
            [OTHER, DEFAULT[0], DEFAULT[1]]
        );
    }

    #[test]
    fn rows_that_were_not_measured_keep_their_kernels() {
        let mut points = [point(128, "tokens=128", &[(OTHER, 0.5)])];
        let expected = [(DEFAULT[0].to_string(), 8), (OTHER.to_string(), u32::MAX)];
        assert_eq!(choices(&decide(&mut points)), expected);
        // A kernel for few rows wins within its limit only.
        let few = wisp_shaders::kernel(DEFAULT[0]).unwrap().max_grid_y;
        let expected = [
            (DEFAULT[0].to_string(), few),
            (DEFAULT[1].to_string(), u32::MAX),
        ];
        assert_eq!(
            kernels(&default_kernels()[1..], &[(4, DEFAULT[0])]).len(),
            2
        );
        let kernels = kernels(&default_kernels(), &[(1, DEFAULT[0])]);
        let kernels = kernels
            .into_iter()
            .map(|choice| (choice.name, choice.max_rows));
        assert_eq!(kernels.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_winner_must_not_lose_for_other_sizes_with_the_same_rows() {
        let mut points = [
            point(1, "context=128", &[(OTHER, 0.5)]),
            point(1, "context=4096", &[(OTHER, 1.5)]),
        ];
        assert!(decide(&mut points).is_empty());
    }

    #[test]
    fn variants_with_wrong_results_or_too_few_rounds_are_never_chosen() {
        let mut wrong = [point(1, "tokens=1", &[(OTHER, 0.1)])];
        wrong[0].variants[0].problem = Some("off by 0.5".into());
        assert!(decide(&mut wrong).is_empty());
        let mut cut_short = [point(1, "tokens=1", &[(OTHER, 0.1)])];
        cut_short[0].is_complete = false;
        assert!(decide(&mut cut_short).is_empty());
        let mut default = [point(1, "tokens=1", &[(OTHER, 1.5)])];
        default[0].problem = Some("off by 0.5".into());
        assert_eq!(
            decide(&mut default).calls().len(),
            1,
            "a wrong default is replaced"
        );
    }
}
