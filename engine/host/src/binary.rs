//! `binary`: arithmetic, comparisons and logic.

use rayon::prelude::*;
use wisp_shaders::params::BinaryParams;

use super::args::Args;
use super::error::HostError;
use super::strided::Places;

type Function = fn(u32, u32) -> u32;

/// An operation on two floats that are passed as bits.
macro_rules! float {
    (|$x:ident, $y:ident| $value:expr) => {
        |$x, $y| {
            let ($x, $y) = (f32::from_bits($x), f32::from_bits($y));
            f32::to_bits($value)
        }
    };
}

/// A comparison of two floats that are passed as bits.
macro_rules! compare {
    (|$x:ident, $y:ident| $value:expr) => {
        |$x, $y| {
            let ($x, $y) = (f32::from_bits($x), f32::from_bits($y));
            u32::from($value)
        }
    };
}

/// `|x|^y`, with the sign of `x` where `y` is odd.
fn power(x: f32, y: f32) -> f32 {
    let odd = (y - 2.0 * (y * 0.5).floor()).abs() == 1.0;
    match x.abs().powf(y) {
        magnitude if x < 0.0 && odd => -magnitude,
        magnitude => magnitude,
    }
}

fn of_floats(kind: u32) -> Option<Function> {
    Some(match kind {
        0 => float!(|x, y| x + y),
        1 => float!(|x, y| x - y),
        2 => float!(|x, y| x * y),
        3 => float!(|x, y| x / y),
        4 => float!(|x, y| power(x, y)),
        5 => float!(|x, y| if y < x { y } else { x }),
        6 => float!(|x, y| if y > x { y } else { x }),
        7 => compare!(|x, y| x == y),
        8 => compare!(|x, y| x != y),
        9 => compare!(|x, y| x < y),
        10 => compare!(|x, y| x <= y),
        11 => compare!(|x, y| x > y),
        12 => compare!(|x, y| x >= y),
        _ => return None,
    })
}

fn of_wholes(kind: u32) -> Option<Function> {
    Some(match kind {
        0 => u32::wrapping_add,
        1 => u32::wrapping_sub,
        2 => u32::wrapping_mul,
        3 => |x, y| x / y.max(1),
        5 => |x, y| x.min(y),
        6 => |x, y| x.max(y),
        7 => |x, y| (x == y).into(),
        8 => |x, y| (x != y).into(),
        9 => |x, y| (x < y).into(),
        10 => |x, y| (x <= y).into(),
        11 => |x, y| (x > y).into(),
        12 => |x, y| (x >= y).into(),
        13 => |x, y| (x != 0 && y != 0).into(),
        14 => |x, y| (x != 0 || y != 0).into(),
        _ => return None,
    })
}

/// The twin of `binary.wgsl`.
pub(super) fn binary(args: &Args) -> Result<(), HostError> {
    let p: BinaryParams = args.params()?;
    let places = Places::new(args, p.rank, &p.dims)?;
    let a: &[u32] = args.read(1, places.end(0, &p.a_strides))?;
    let b: &[u32] = args.read(2, places.end(0, &p.b_strides))?;
    let out: &mut [u32] = args.write(3, places.len())?;
    let function = match p.is_u32 {
        0 => of_floats(p.kind),
        _ => of_wholes(p.kind),
    };
    let function =
        function.ok_or_else(|| args.value("kind", "an operation of its type", p.kind))?;
    out.par_iter_mut().enumerate().for_each(|(place, out)| {
        let x = a[places.at(place, &p.a_strides)];
        *out = function(x, b[places.at(place, &p.b_strides)]);
    });
    Ok(())
}
