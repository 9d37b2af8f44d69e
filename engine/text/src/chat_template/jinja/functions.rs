//! The functions that every template can call, except those that need the rendering.

use std::rc::Rc;

use super::access::pairs;
use super::arguments::Arguments;
use super::fault::{Fault, Reason, Result};
use super::meter::Meter;
use super::text::{Text, Writer};
use super::value::{Function, Key, ListBuilder, Map, Value};
use super::write;

/// The most items of a range.
const MAX_RANGE: i128 = 100_000;

/// The longest message of a template in characters.
const MAX_MESSAGE: usize = 1000;

/// Returns the function of a name.
pub fn named(name: &str) -> Option<Function> {
    Some(match name {
        "range" => Function::Range,
        "dict" => Function::Dict,
        "namespace" => Function::Namespace,
        "raise_exception" => Function::RaiseException,
        "strftime_now" => Function::StrftimeNow,
        _ => return None,
    })
}

/// Returns the numbers of `range(start, stop, step)`.
pub fn range(meter: &Rc<Meter>, arguments: &mut Arguments) -> Result<Value> {
    let missing = || Fault::failed("`range` needs a number");
    let first = arguments.int("start")?.ok_or_else(missing)?;
    let (start, stop) = match arguments.int("stop")? {
        Some(stop) => (first, stop),
        None => (0, first),
    };
    let step = arguments.int("step")?.unwrap_or(1);
    let distance = match step {
        0 => return Err(Fault::failed("a range cannot have a step of 0")),
        1.. => stop.checked_sub(start),
        _ => start.checked_sub(stop),
    };
    let distance = u128::try_from(distance.unwrap_or(i128::MAX)).unwrap_or(0);
    let count = distance.div_ceil(step.unsigned_abs());
    if count > MAX_RANGE.unsigned_abs() {
        return Err(Fault::failed(format!(
            "a range has more than {MAX_RANGE} numbers"
        )));
    }
    let mut numbers = ListBuilder::new(meter)?;
    let mut number = start;
    for _ in 0..count {
        meter.steps(1)?;
        numbers.push(Value::Int(number))?;
        number = number.saturating_add(step);
    }
    Ok(numbers.finish())
}

/// Returns the map of `dict(map, key=value)`.
pub fn dict(meter: &Rc<Meter>, arguments: &mut Arguments) -> Result<Map> {
    let mut map = Map::new(meter)?;
    if !arguments.positional.is_empty() {
        let base = arguments.positional.remove(0);
        if !matches!(base, Value::Undefined) {
            for (key, value) in pairs(meter, &base)? {
                if let Some(key) = key.to_key() {
                    map.insert(key, value)?;
                }
            }
        }
    }
    for (name, value) in arguments.named.drain(..) {
        meter.steps(1)?;
        map.insert(Key::Text(Text::Literal(name)), value)?;
    }
    Ok(map)
}

/// Stops the template with a message.
pub fn raise_exception(meter: &Rc<Meter>, arguments: &mut Arguments) -> Result<Value> {
    let message = arguments.take("message").unwrap_or(Value::Undefined);
    let message = write::to_text(meter, &message)?;
    let message: String = message.read().chars().take(MAX_MESSAGE).collect();
    Err(Fault::new(Reason::Refused(message)))
}

/// Formats the present time in UTC by a format of `strftime`.
pub fn strftime_now(meter: &Rc<Meter>, arguments: &mut Arguments) -> Result<Value> {
    /// The longest format; a directive's width is bounded by its two digits.
    const LONGEST: usize = 1 << 12;
    let format = arguments.required_text("format")?;
    if format.len() > LONGEST {
        return Err(Fault::failed(format!(
            "a format of time has more than {LONGEST} bytes"
        )));
    }
    let now = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
    let text = jiff::fmt::strtime::format(&*format.read(), &now);
    let text = text.map_err(|error| Fault::failed(error.to_string()))?;
    let mut out = Writer::new(meter)?;
    out.push(&text)?;
    Ok(Value::Text(out.finish()))
}
