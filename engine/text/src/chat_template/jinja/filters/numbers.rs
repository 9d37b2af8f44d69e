//! Filters of numbers.

use crate::chat_template::jinja::arguments::Arguments;
use crate::chat_template::jinja::fault::{Fault, Result};
use crate::chat_template::jinja::value::Value;

/// The longest string that is read as a number.
const MAX_DIGITS: usize = 512;

/// Applies a filter of numbers; `None` if the name is not one.
pub(super) fn apply(name: &str, value: &Value, arguments: &mut Arguments) -> Option<Result<Value>> {
    Some(match name {
        "abs" => absolute(value),
        "int" => int(value, arguments),
        "float" => float(value, arguments),
        "round" => round(value, arguments),
        _ => return None,
    })
}

fn absolute(value: &Value) -> Result<Value> {
    let absolute = match value {
        Value::Int(int) => int.checked_abs().map(Value::Int),
        Value::Float(float) => Some(Value::Float(float.abs())),
        _ => None,
    };
    absolute.ok_or_else(|| Fault::failed(format!("{} has no absolute value", value.kind())))
}

fn int(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let default = arguments.take("default");
    let base = arguments.int("base")?.unwrap_or(10);
    let base = u32::try_from(base)
        .ok()
        .filter(|base| (2..=36).contains(base));
    let base = base.ok_or_else(|| Fault::failed("the base of a number is not from 2 to 36"))?;
    // A cast of a float saturates.
    let parsed = match value {
        Value::Bool(bool) => Some(i128::from(*bool)),
        Value::Int(int) => Some(*int),
        Value::Float(float) => Some(*float as i128),
        Value::Text(text) if text.len() <= MAX_DIGITS => {
            let text = text.read();
            let digits = text.trim().replace('_', "");
            let prefix = match base {
                2 => "0b",
                8 => "0o",
                16 => "0x",
                _ => "",
            };
            let digits = digits.strip_prefix(prefix).unwrap_or(&digits);
            let int = i128::from_str_radix(digits, base).ok();
            int.or_else(|| digits.parse::<f64>().ok().map(|float| float as i128))
        }
        _ => None,
    };
    let default = default.unwrap_or(Value::Int(0));
    Ok(parsed.map_or(default, Value::Int))
}

fn float(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let default = arguments.take("default");
    let parsed = match value {
        Value::Bool(bool) => Some(f64::from(u8::from(*bool))),
        Value::Int(int) => Some(*int as f64),
        Value::Float(float) => Some(*float),
        Value::Text(text) if text.len() <= MAX_DIGITS => text.read().trim().parse().ok(),
        _ => None,
    };
    let default = default.unwrap_or(Value::Float(0.0));
    Ok(parsed.map_or(default, Value::Float))
}

fn round(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let precision = arguments.int("precision")?.unwrap_or(0);
    let method = arguments.text("method")?;
    let method = method.as_ref().map(|method| method.read().to_owned());
    let float = match value {
        Value::Int(int) if precision >= 0 => return Ok(Value::Int(*int)),
        Value::Bool(bool) => return Ok(Value::Int(i128::from(*bool))),
        Value::Int(int) => *int as f64,
        Value::Float(float) => *float,
        _ => return Err(Fault::failed(format!("{} cannot be rounded", value.kind()))),
    };
    let precision = i32::try_from(precision).unwrap_or(400).clamp(-400, 400);
    let factor = 10_f64.powi(precision);
    let rounded = match method.as_deref() {
        None | Some("common") => match usize::try_from(precision) {
            // The decimal text rounds the exact value.
            Ok(places) => format!("{float:.places$}").parse().unwrap_or(float),
            Err(_) => (float * factor).round_ties_even() / factor,
        },
        Some("ceil") => (float * factor).ceil() / factor,
        Some("floor") => (float * factor).floor() / factor,
        Some(_) => return Err(Fault::failed("the method is not common, ceil or floor")),
    };
    let rounded = if rounded.is_finite() { rounded } else { float };
    Ok(match value {
        Value::Int(_) => Value::Int(rounded as i128),
        _ => Value::Float(rounded),
    })
}
