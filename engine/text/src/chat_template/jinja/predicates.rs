//! The tests: `value is name(arguments)`.

use std::cmp::Ordering;
use std::rc::Rc;

use super::arguments::Arguments;
use super::compare::{compare, contains, equal};
use super::fault::{Fault, Result, excerpt};
use super::meter::Meter;
use super::value::Value;

/// Returns whether a value passes a test.
pub fn apply(
    meter: &Rc<Meter>,
    name: &str,
    value: &Value,
    mut arguments: Arguments,
) -> Result<bool> {
    let passes = match kind_test(name, value) {
        Some(passes) => passes,
        None => compare_test(meter, name, value, &mut arguments)?,
    };
    arguments.finish()?;
    Ok(passes)
}

/// Applies a test of a value's type; `None` if the name is not one.
fn kind_test(name: &str, value: &Value) -> Option<bool> {
    Some(match name {
        "undefined" => matches!(value, Value::Undefined),
        "defined" => !matches!(value, Value::Undefined),
        "none" => matches!(value, Value::None),
        "boolean" => matches!(value, Value::Bool(_)),
        "true" => matches!(value, Value::Bool(true)),
        "false" => matches!(value, Value::Bool(false)),
        "number" => matches!(value, Value::Bool(_) | Value::Int(_) | Value::Float(_)),
        "integer" | "int" => matches!(value, Value::Int(_)),
        "float" => matches!(value, Value::Float(_)),
        "string" => matches!(value, Value::Text(_)),
        // Python's strings and dictionaries have a length and items.
        "sequence" | "iterable" => matches!(
            value,
            Value::Undefined | Value::Text(_) | Value::List(_) | Value::Map(_)
        ),
        "mapping" => matches!(value, Value::Map(_)),
        "callable" => matches!(value, Value::Macro(_) | Value::Function(_)),
        _ => return None,
    })
}

/// Applies a test of a value's content, which may compare it with an argument.
fn compare_test(
    meter: &Rc<Meter>,
    name: &str,
    value: &Value,
    arguments: &mut Arguments,
) -> Result<bool> {
    let mut other = || -> Result<Value> {
        match arguments.positional.is_empty() {
            true => Err(Fault::failed(format!("the test `{name}` needs a value"))),
            // As written: undefined is a value to compare with.
            false => Ok(arguments.positional.remove(0)),
        }
    };
    let order =
        |other: Value, wanted: &[Ordering]| Ok(wanted.contains(&compare(meter, value, &other)?));
    match name {
        "eq" | "equalto" | "==" => equal(meter, value, &other()?),
        "ne" | "!=" => Ok(!equal(meter, value, &other()?)?),
        "lt" | "lessthan" | "<" => order(other()?, &[Ordering::Less]),
        "le" | "<=" => order(other()?, &[Ordering::Less, Ordering::Equal]),
        "gt" | "greaterthan" | ">" => order(other()?, &[Ordering::Greater]),
        "ge" | ">=" => order(other()?, &[Ordering::Greater, Ordering::Equal]),
        "in" => contains(meter, &other()?, value),
        "sameas" => same(meter, value, &other()?),
        "odd" | "even" => {
            let is_odd = match value {
                Value::Int(int) => int % 2 != 0,
                Value::Bool(bool) => *bool,
                _ => return Ok(false),
            };
            Ok(is_odd == (name == "odd"))
        }
        "divisibleby" => Ok(match (value, other()?) {
            (Value::Int(a), Value::Int(b)) => a.checked_rem(b) == Some(0),
            _ => false,
        }),
        "startingwith" | "endingwith" => match (value, other()?) {
            (Value::Text(a), Value::Text(b)) => {
                meter.scan(b.len())?;
                let (a, b) = (a.read(), b.read());
                Ok(if name == "startingwith" {
                    a.starts_with(&*b)
                } else {
                    a.ends_with(&*b)
                })
            }
            _ => Err(Fault::failed(format!("`{name}` compares strings"))),
        },
        "lower" | "upper" => {
            let Value::Text(text) = value else {
                return Ok(false);
            };
            meter.transform(text.len())?;
            let text = text.read();
            let has = |case: fn(char) -> bool| text.chars().any(case);
            let (lower, upper) = (has(char::is_lowercase), has(char::is_uppercase));
            Ok(if name == "lower" {
                lower && !upper
            } else {
                upper && !lower
            })
        }
        _ => Err(Fault::failed(format!("unknown test `{}`", excerpt(name)))),
    }
}

/// Returns whether two values are the same object, or equal if they are not objects.
fn same(meter: &Meter, a: &Value, b: &Value) -> Result<bool> {
    match (a, b) {
        (Value::List(a), Value::List(b)) => Ok(Rc::ptr_eq(a, b)),
        (Value::Map(a), Value::Map(b)) => Ok(Rc::ptr_eq(a, b)),
        (a, b) if a.kind() == b.kind() => equal(meter, a, b),
        _ => Ok(false),
    }
}
