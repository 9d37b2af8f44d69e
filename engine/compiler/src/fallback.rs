//! Calls that cannot run the best kernels of their op.

use std::fmt;

use wisp_shaders::Kernel;

use crate::{
    program::{Call, Program},
    select::kernels_of,
    tuning::{CallShape, Tuning},
};

/// A call that runs a slower kernel than others of its op, because its rows are not as wide as the best kernel
/// needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// The call's label: the op, and the weight if it has one.
    pub label: String,
    /// The kernel that the call runs.
    pub kernel: &'static str,
    /// The kernel that it would run if its rows were wider.
    pub best: &'static str,
    /// The number of columns that `best` needs a multiple of.
    pub cols_multiple: u32,
}

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} runs {} instead of {}, which needs rows of a multiple of {} elements",
            self.label, self.kernel, self.best, self.cols_multiple
        )
    }
}

impl Fallback {
    /// Returns why a call of a program runs a kernel rather than a better one; `None` if there is no better one
    /// on the program's target.
    fn of(program: &Program, call: &Call, kernel: &Kernel) -> Option<Fallback> {
        // A width of 0 is a multiple of everything.
        let shape = CallShape {
            op: kernel.op.into(),
            cols: 0,
            width: 0,
        };
        let switches = program.switches;
        let best = kernels_of(&shape, &program.target, switches, &Tuning::default());
        let best = best
            .iter()
            .find(|best| best.max_rows >= kernel.max_grid_y)?;
        let best = wisp_shaders::kernel(&best.name)?;
        // A tuning may prefer a kernel to one that fits.
        let fits = call.cols.is_multiple_of(best.cols_multiple.into());
        (best.cols_multiple > kernel.cols_multiple && !fits).then(|| Fallback {
            label: call.label.clone(),
            kernel: kernel.name,
            best: best.name,
            cols_multiple: best.cols_multiple,
        })
    }
}

impl Program {
    /// Returns the calls that cannot run the best kernels that the target has for their op, one entry for each
    /// of their kernels. Custom ops have one kernel each and are not among them.
    pub fn fallbacks(&self) -> Vec<Fallback> {
        let kernels = self.calls.iter().flat_map(|call| {
            let kernels = call.kernels.iter();
            kernels.filter_map(move |choice| Some((call, wisp_shaders::kernel(&choice.name)?)))
        });
        kernels
            .filter_map(|(call, kernel)| Fallback::of(self, call, kernel))
            .collect()
    }

    /// Returns why a run of a call dispatches this kernel rather than a better one, if there is one.
    pub fn fallback(&self, call: usize, kernel: &Kernel) -> Option<Fallback> {
        Fallback::of(self, self.calls.get(call)?, kernel)
    }
}

#[cfg(test)]
mod tests {
    use wisp_graph::Graph;
    use wisp_types::{Capabilities, DType, Encoding, shape};

    use crate::{Precision, Switches, Tuning, compile_with};

    fn fallbacks(cols: u64, target: &Capabilities, precision: Precision) -> Vec<String> {
        let mut graph = Graph::new("products");
        let x = graph.input("x", DType::F32, shape!["tokens", cols]);
        let weight = graph.weight("w", Encoding::F32, shape![8u64, cols]);
        let y = graph.linear(x, weight, None).unwrap();
        graph.output("y", y);
        let switches = Switches {
            precision,
            ..Switches::default()
        };
        let program = compile_with(&graph, target, switches, &Tuning::default()).unwrap();
        let fallbacks = program.fallbacks();
        fallbacks.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rows_of_an_odd_width_are_reported_with_the_kernel_that_they_miss() {
        let baseline = |cols| fallbacks(cols, &Capabilities::BASELINE, Precision::Exact);
        assert_eq!(baseline(64), Vec::<String>::new());
        let odd = baseline(63);
        assert!(!odd.is_empty());
        for text in odd {
            assert!(text.starts_with("linear w runs matmul.f32."), "{text}");
            assert!(text.contains("instead of matmul.f32."), "{text}");
            assert!(text.contains("multiple of 4 elements"), "{text}");
        }
    }

    #[test]
    fn the_best_kernel_is_one_of_the_program_s_precision() {
        let target = Capabilities {
            f16: true,
            ..Capabilities::BASELINE
        };
        assert_eq!(fallbacks(64, &target, Precision::F16), Vec::<String>::new());
        let odd = fallbacks(63, &target, Precision::F16);
        let expected =
            "runs matmul.f32.f16_tile128x64_scalar instead of matmul.f32.f16_tile128x64,";
        assert!(odd.iter().any(|text| text.contains(expected)), "{odd:?}");
    }
}
