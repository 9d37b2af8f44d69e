//! The operators of numbers, strings and lists.

use std::rc::Rc;

use super::arguments::Arguments;
use super::ast::Infix;
use super::fault::{Fault, Result};
use super::format;
use super::meter::Meter;
use super::text::Writer;
use super::value::{ListBuilder, Value};
use super::write;

/// Applies an operator.
pub fn infix(meter: &Rc<Meter>, operator: Infix, a: &Value, b: &Value) -> Result<Value> {
    match (operator, a, b) {
        (Infix::Concat, a, b) => {
            let (a, b) = (write::to_text(meter, a)?, write::to_text(meter, b)?);
            Ok(Value::Text(a.concat(meter, &b)?))
        }
        (Infix::Add, Value::Text(a), Value::Text(b)) => Ok(Value::Text(a.concat(meter, b)?)),
        (Infix::Add, Value::List(a), Value::List(b)) => {
            let mut list = ListBuilder::new(meter)?;
            list.extend(meter, a.items())?;
            list.extend(meter, b.items())?;
            Ok(list.finish())
        }
        (Infix::Multiply, Value::Text(text), count)
        | (Infix::Multiply, count, Value::Text(text)) => {
            let mut out = Writer::new(meter)?;
            out.repeat(&text.read(), repetitions(count)?)?;
            Ok(Value::Text(out.finish()))
        }
        (Infix::Multiply, Value::List(list), count)
        | (Infix::Multiply, count, Value::List(list)) => {
            let mut out = ListBuilder::new(meter)?;
            if !list.items().is_empty() {
                for _ in 0..repetitions(count)? {
                    out.extend(meter, list.items())?;
                }
            }
            Ok(out.finish())
        }
        (Infix::Remainder, Value::Text(template), values) => {
            // Python's tuples and lists are one type here.
            let positional = match values {
                Value::List(list) => list.items().to_vec(),
                value => vec![value.clone()],
            };
            let arguments = Arguments {
                positional,
                ..Arguments::default()
            };
            format::printf(meter, &template.read(), arguments).map(Value::Text)
        }
        _ => numeric(operator, a, b),
    }
}

fn repetitions(count: &Value) -> Result<usize> {
    match count {
        Value::Int(count) if *count <= 0 => Ok(0),
        Value::Int(count) => Ok(usize::try_from(*count).unwrap_or(usize::MAX)),
        Value::Bool(bool) => Ok(usize::from(*bool)),
        _ => Err(Fault::failed(format!("cannot repeat by {}", count.kind()))),
    }
}

/// Two numbers of one type.
enum Pair {
    Ints(i128, i128),
    Floats(f64, f64),
}

fn numeric(operator: Infix, a: &Value, b: &Value) -> Result<Value> {
    let int = |value: &Value| match value {
        Value::Bool(bool) => Some(i128::from(*bool)),
        Value::Int(int) => Some(*int),
        _ => None,
    };
    let float = |value: &Value| match value {
        Value::Float(float) => Some(*float),
        other => int(other).map(|int| int as f64),
    };
    let pair = match (int(a), int(b), float(a), float(b)) {
        (Some(a), Some(b), ..) => Pair::Ints(a, b),
        (_, _, Some(a), Some(b)) => Pair::Floats(a, b),
        _ => {
            let (symbol, a, b) = (symbol(operator), a.kind(), b.kind());
            return Err(Fault::failed(format!(
                "unsupported operands of {symbol}: {a} and {b}"
            )));
        }
    };
    let result = match pair {
        Pair::Ints(a, b) => ints(operator, a, b),
        Pair::Floats(a, b) => floats(operator, a, b),
    };
    result.ok_or_else(|| {
        let symbol = symbol(operator);
        Fault::failed(format!(
            "the result of {symbol} is not a number, or too large"
        ))
    })
}

fn ints(operator: Infix, a: i128, b: i128) -> Option<Value> {
    let int = match operator {
        Infix::Add => a.checked_add(b),
        Infix::Subtract => a.checked_sub(b),
        Infix::Multiply => a.checked_mul(b),
        Infix::Divide => return floats(operator, a as f64, b as f64),
        Infix::FloorDivide => {
            let quotient = a.checked_div(b)?;
            let is_below = a.checked_rem(b)? != 0 && (a < 0) != (b < 0);
            quotient.checked_sub(i128::from(is_below))
        }
        Infix::Remainder => {
            let remainder = a.checked_rem(b)?;
            match remainder != 0 && (remainder < 0) != (b < 0) {
                true => remainder.checked_add(b),
                false => Some(remainder),
            }
        }
        Infix::Power if b < 0 => return floats(operator, a as f64, b as f64),
        Infix::Power => a.checked_pow(u32::try_from(b).ok()?),
        Infix::Concat => None,
    };
    int.map(Value::Int)
}

fn floats(operator: Infix, a: f64, b: f64) -> Option<Value> {
    let divides = matches!(
        operator,
        Infix::Divide | Infix::FloorDivide | Infix::Remainder
    );
    if (divides && b == 0.0) || (operator == Infix::Power && a == 0.0 && b < 0.0) {
        return None;
    }
    Some(Value::Float(match operator {
        Infix::Add => a + b,
        Infix::Subtract => a - b,
        Infix::Multiply => a * b,
        Infix::Divide => a / b,
        Infix::FloorDivide => (a / b).floor(),
        Infix::Remainder => {
            let remainder = a % b;
            match remainder != 0.0 && (remainder < 0.0) != (b < 0.0) {
                true => remainder + b,
                false => remainder,
            }
        }
        Infix::Power => a.powf(b),
        Infix::Concat => return None,
    }))
}

fn symbol(operator: Infix) -> &'static str {
    match operator {
        Infix::Add => "+",
        Infix::Subtract => "-",
        Infix::Concat => "~",
        Infix::Multiply => "*",
        Infix::Divide => "/",
        Infix::FloorDivide => "//",
        Infix::Remainder => "%",
        Infix::Power => "**",
    }
}

/// Returns a number with the other sign.
pub fn negate(value: &Value) -> Result<Value> {
    let negated = match value {
        Value::Int(int) => int.checked_neg().map(Value::Int),
        Value::Bool(bool) => Some(Value::Int(-i128::from(*bool))),
        Value::Float(float) => Some(Value::Float(-float)),
        _ => None,
    };
    negated.ok_or_else(|| Fault::failed(format!("{} has no sign", value.kind())))
}
