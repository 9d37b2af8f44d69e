//! Equality, order and containment of values. Each compared item is a step.

use std::cmp::Ordering;
use std::rc::Rc;

use super::fault::{Fault, Result};
use super::meter::Meter;
use super::value::{Map, Value};
use super::write;

/// Returns whether two values are equal.
pub fn equal(meter: &Meter, a: &Value, b: &Value) -> Result<bool> {
    meter.steps(1)?;
    Ok(match (a, b) {
        (Value::Undefined, Value::Undefined) | (Value::None, Value::None) => true,
        (Value::Text(a), Value::Text(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            meter.scan(a.len())?;
            *a.read() == *b.read()
        }
        (Value::List(a), Value::List(b)) => {
            let (a, b) = (a.items(), b.items());
            if a.len() != b.len() {
                return Ok(false);
            }
            for (a, b) in a.iter().zip(b) {
                if !equal(meter, a, b)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Map(a), Value::Map(b)) => equal_maps(meter, a, b)?,
        (Value::Namespace(a), Value::Namespace(b)) => Rc::ptr_eq(a, b),
        (Value::Macro(a), Value::Macro(b)) => Rc::ptr_eq(a, b),
        (Value::Loop(a), Value::Loop(b)) => Rc::ptr_eq(a, b),
        (Value::Function(a), Value::Function(b)) => a == b,
        _ => numbers(a, b) == Some(Ordering::Equal),
    })
}

fn equal_maps(meter: &Meter, a: &Map, b: &Map) -> Result<bool> {
    if a.entries().len() != b.entries().len() {
        return Ok(false);
    }
    for (key, value) in a.entries() {
        match b.entries().get(key) {
            Some(other) if equal(meter, value, other)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// Compares two numbers; `None` if one is not a number.
fn numbers(a: &Value, b: &Value) -> Option<Ordering> {
    let int = |value: &Value| match value {
        Value::Bool(bool) => Some(i128::from(*bool)),
        Value::Int(int) => Some(*int),
        _ => None,
    };
    let float = |value: &Value| match value {
        Value::Float(float) => Some(*float),
        // Comparisons with floats are as exact as floats.
        other => int(other).map(|int| int as f64),
    };
    match (int(a), int(b)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => {
            let (a, b) = (float(a)?, float(b)?);
            Some(a.partial_cmp(&b).unwrap_or_else(|| a.total_cmp(&b)))
        }
    }
}

/// Compares two values. Values of different types have the order of their types.
pub fn compare(meter: &Meter, a: &Value, b: &Value) -> Result<Ordering> {
    meter.steps(1)?;
    if let Some(ordering) = numbers(a, b) {
        return Ok(ordering);
    }
    match (a, b) {
        (Value::Text(a), Value::Text(b)) => {
            meter.scan(a.len().min(b.len()))?;
            Ok(a.read().cmp(&b.read()))
        }
        (Value::List(a), Value::List(b)) => compare_all(meter, a.items().iter(), b.items().iter()),
        (Value::Map(a), Value::Map(b)) => {
            let keys = |map: &Map| -> Vec<Value> {
                let keys = map.entries().keys().cloned();
                keys.map(Value::from).collect()
            };
            meter.steps(a.entries().len() + b.entries().len())?;
            let (a_keys, b_keys) = (keys(a), keys(b));
            let ordering = compare_all(meter, a_keys.iter(), b_keys.iter())?;
            match ordering {
                Ordering::Equal => compare_all(meter, a.entries().values(), b.entries().values()),
                ordering => Ok(ordering),
            }
        }
        _ => Ok(rank(a).cmp(&rank(b))),
    }
}

fn compare_all<'v>(
    meter: &Meter,
    mut a: impl Iterator<Item = &'v Value>,
    mut b: impl Iterator<Item = &'v Value>,
) -> Result<Ordering> {
    loop {
        let ordering = match (a.next(), b.next()) {
            (None, None) => return Ok(Ordering::Equal),
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(a), Some(b)) => compare(meter, a, b)?,
        };
        if ordering != Ordering::Equal {
            return Ok(ordering);
        }
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Undefined => 0,
        Value::None => 1,
        Value::Bool(_) => 2,
        Value::Int(_) | Value::Float(_) => 3,
        Value::Text(_) => 4,
        Value::List(_) => 5,
        Value::Map(_) => 6,
        Value::Namespace(_) | Value::Macro(_) | Value::Loop(_) | Value::Function(_) => 7,
    }
}

/// Returns whether a container has an item, a map a key, or a string another one.
pub fn contains(meter: &Rc<Meter>, container: &Value, item: &Value) -> Result<bool> {
    match container {
        Value::Undefined => Ok(false),
        Value::Text(text) => {
            meter.scan(text.len())?;
            match item {
                Value::Text(item) => Ok(text.read().contains(&*item.read())),
                _ => {
                    let item = write::to_text(meter, item)?;
                    Ok(text.read().contains(&*item.read()))
                }
            }
        }
        Value::List(list) => {
            for candidate in list.items() {
                if equal(meter, candidate, item)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::Map(map) => Ok(contains_key(map, item)),
        Value::Namespace(namespace) => Ok(contains_key(&namespace.variables.borrow(), item)),
        _ => Err(Fault::failed(format!(
            "{} contains nothing",
            container.kind()
        ))),
    }
}

fn contains_key(map: &Map, item: &Value) -> bool {
    item.to_key()
        .is_some_and(|key| map.entries().contains_key(&key))
}

/// Sorts by an order that may fail. Equal items keep their order.
///
/// The standard library's sort may panic for an inconsistent order, which values can have.
pub fn sort<T: Clone>(
    items: &mut Vec<T>,
    compare: &mut impl FnMut(&T, &T) -> Result<Ordering>,
) -> Result<()> {
    let mut width = 1;
    while width < items.len() {
        let mut sorted = Vec::with_capacity(items.len());
        for block in items.chunks(width * 2) {
            let (left, right) = block.split_at(width.min(block.len()));
            merge(left, right, &mut sorted, compare)?;
        }
        *items = sorted;
        width *= 2;
    }
    Ok(())
}

fn merge<T: Clone>(
    mut left: &[T],
    mut right: &[T],
    out: &mut Vec<T>,
    compare: &mut impl FnMut(&T, &T) -> Result<Ordering>,
) -> Result<()> {
    while let ([a, rest_left @ ..], [b, rest_right @ ..]) = (left, right) {
        if compare(a, b)? == Ordering::Greater {
            out.push(b.clone());
            right = rest_right;
        } else {
            out.push(a.clone());
            left = rest_left;
        }
    }
    out.extend_from_slice(left);
    out.extend_from_slice(right);
    Ok(())
}
