//! Attributes, items, slices and iteration of values.

use std::rc::Rc;

use super::fault::{Fault, Result, excerpt};
use super::meter::Meter;
use super::text::{Text, Writer};
use super::value::{KeyRef, List, ListBuilder, Loop, Map, Value};

/// Returns an attribute, or the item with this key. An unknown one is undefined.
pub fn attribute(value: &Value, name: &str) -> Result<Value> {
    let found = match value {
        Value::Undefined => {
            let name = excerpt(name);
            return Err(Fault::failed(format!(
                "undefined value: it has no `{name}`"
            )));
        }
        Value::Map(map) => map.get_text(name).cloned(),
        Value::Namespace(namespace) => namespace.variables.borrow().get_text(name).cloned(),
        Value::List(list) => list.named(name).cloned(),
        Value::Loop(state) => Some(loop_attribute(state, name)),
        Value::Macro(closure) if name == "name" => {
            Some(Value::Text(Text::Literal(closure.definition.name.clone())))
        }
        _ => None,
    };
    Ok(found.unwrap_or(Value::Undefined))
}

fn loop_attribute(state: &Loop, name: &str) -> Value {
    let (index, items) = (state.index.get(), state.items.items());
    let remaining = items.len().saturating_sub(index);
    let item = |index: Option<usize>| {
        let item = index.and_then(|index| items.get(index));
        item.cloned().unwrap_or(Value::Undefined)
    };
    match name {
        "index" => Value::int(index + 1),
        "index0" => Value::int(index),
        "revindex" => Value::int(remaining),
        "revindex0" => Value::int(remaining.saturating_sub(1)),
        "length" => Value::int(items.len()),
        "first" => Value::Bool(index == 0),
        "last" => Value::Bool(remaining <= 1),
        "depth" => Value::int(state.recursion + 1),
        "depth0" => Value::int(state.recursion),
        "previtem" => item(index.checked_sub(1)),
        "nextitem" => item(index.checked_add(1)),
        _ => Value::Undefined,
    }
}

/// Returns an item of a list, a map or a string. An unknown one is undefined.
pub fn item(meter: &Rc<Meter>, value: &Value, key: &Value) -> Result<Value> {
    if let Value::Text(name) = key {
        if !matches!(value, Value::List(_) | Value::Text(_)) {
            meter.scan(name.len())?;
            return attribute(value, &name.read());
        }
        return Ok(Value::Undefined);
    }
    let found = match value {
        Value::Undefined => return Err(Fault::failed("undefined value: it has no items")),
        Value::List(list) => {
            let index = position(key, || list.items().len());
            index.and_then(|index| list.items().get(index).cloned())
        }
        Value::Text(text) => {
            meter.transform(text.len())?;
            let text = text.read();
            let index = position(key, || text.chars().count());
            let found = index.and_then(|index| text.chars().nth(index));
            match found {
                Some(found) => Some(Value::text(meter, found.encode_utf8(&mut [0; 4]))?),
                None => None,
            }
        }
        Value::Map(map) => match key {
            Value::None => map.get(&KeyRef::None).cloned(),
            Value::Bool(bool) => map.get(&KeyRef::Bool(*bool)).cloned(),
            Value::Int(int) => map.get(&KeyRef::Int(*int)).cloned(),
            _ => None,
        },
        _ => None,
    };
    Ok(found.unwrap_or(Value::Undefined))
}

/// Returns the position that an index means. A negative one counts from the end.
fn position(index: &Value, length: impl Fn() -> usize) -> Option<usize> {
    let Value::Int(index) = index else {
        return None;
    };
    match usize::try_from(*index) {
        Ok(index) => Some(index),
        Err(_) => length().checked_sub(usize::try_from(index.unsigned_abs()).ok()?),
    }
}

/// Returns the value that a path of names and numbers leads to, as in `map(attribute='a.0')`.
pub fn path(meter: &Rc<Meter>, value: &Value, path: &str) -> Result<Value> {
    let mut found = value.clone();
    for part in path.split('.') {
        meter.steps(1)?;
        found = match part.parse::<usize>() {
            Ok(index) => item(meter, &found, &Value::int(index))?,
            Err(_) => attribute(&found, part)?,
        };
    }
    Ok(found)
}

/// Returns the items that a loop goes through: those of a list, the keys of a map, the characters of a
/// string.
pub fn iterate(meter: &Rc<Meter>, value: &Value) -> Result<Rc<List>> {
    let mut items = match value {
        Value::List(list) => return Ok(list.clone()),
        _ => ListBuilder::new(meter)?,
    };
    match value {
        Value::Undefined | Value::None => {}
        Value::Map(map) => {
            meter.steps(map.entries().len())?;
            for key in map.entries().keys() {
                items.push(key.clone().into())?;
            }
        }
        Value::Namespace(namespace) => {
            for key in namespace.variables.borrow().entries().keys() {
                meter.steps(1)?;
                items.push(key.clone().into())?;
            }
        }
        Value::Text(text) => {
            for character in text.read().chars() {
                meter.steps(1)?;
                items.push(Value::text(meter, character.encode_utf8(&mut [0; 4]))?)?;
            }
        }
        _ => return Err(Fault::failed(format!("{} is not iterable", value.kind()))),
    }
    Ok(items.into_list())
}

/// Returns the pairs of a map as lists of two.
pub fn pairs(meter: &Rc<Meter>, value: &Value) -> Result<Vec<(Value, Value)>> {
    let copy = |map: &Map| {
        meter.steps(map.entries().len() + 1)?;
        let entries = map.entries().iter();
        Ok(entries
            .map(|(key, value)| (key.clone().into(), value.clone()))
            .collect())
    };
    match value {
        Value::Map(map) => copy(map),
        Value::Namespace(namespace) => copy(&namespace.variables.borrow()),
        Value::Undefined => Ok(Vec::new()),
        _ => Err(Fault::failed(format!("{} has no pairs", value.kind()))),
    }
}

/// Returns a list of two.
pub fn pair(meter: &Rc<Meter>, first: Value, second: Value) -> Result<Value> {
    let mut pair = ListBuilder::new(meter)?;
    pair.push(first)?;
    pair.push(second)?;
    Ok(pair.finish())
}

/// Returns `value[start:stop:step]`.
pub fn slice(meter: &Rc<Meter>, value: &Value, bounds: [Value; 3]) -> Result<Value> {
    let [start, stop, step] = bounds.map(|bound| match bound {
        Value::None | Value::Undefined => Ok(None),
        Value::Int(int) => Ok(Some(int)),
        Value::Bool(bool) => Ok(Some(i128::from(bool))),
        other => Err(Fault::failed(format!(
            "{} is no bound of a slice",
            other.kind()
        ))),
    });
    let (start, stop, step) = (start?, stop?, step?.unwrap_or(1));
    match value {
        Value::List(list) => {
            let positions = positions(list.items().len(), start, stop, step)?;
            let mut items = ListBuilder::new(meter)?;
            for position in positions {
                meter.steps(usize::from(items.len() % 4 == 0))?;
                items.push(list.items()[position].clone())?;
            }
            Ok(items.finish())
        }
        Value::Text(text) => {
            meter.transform(text.len())?;
            let text = text.read();
            let mut out = Writer::new(meter)?;
            if step == 1 {
                let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
                let ends: Vec<usize> = match text.is_ascii() {
                    true => Vec::new(),
                    false => ends.collect(),
                };
                let count = if ends.is_empty() {
                    text.len()
                } else {
                    ends.len() - 1
                };
                let positions = positions(count, start, stop, step)?;
                let byte = |position: usize| ends.get(position).copied().unwrap_or(position);
                out.push(&text[byte(positions.start)..byte(positions.end())])?;
            } else {
                let characters: Vec<char> = text.chars().collect();
                let positions = positions(characters.len(), start, stop, step)?;
                out.extend(positions.map(|position| characters[position]))?;
            }
            Ok(Value::Text(out.finish()))
        }
        Value::Undefined | Value::None => Ok(ListBuilder::new(meter)?.finish()),
        _ => Err(Fault::failed(format!("{} cannot be sliced", value.kind()))),
    }
}

/// The positions of a slice, all of them inside of what is sliced.
struct Positions {
    start: usize,
    count: usize,
    step: i128,
}

impl Positions {
    /// Returns the position behind the last one, for a step of 1.
    fn end(&self) -> usize {
        self.start + self.count
    }
}

impl Iterator for Positions {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.count = self.count.checked_sub(1)?;
        let position = self.start;
        let next = i128::try_from(position).ok()?.checked_add(self.step);
        self.start = next
            .and_then(|next| usize::try_from(next).ok())
            .unwrap_or(0);
        Some(position)
    }
}

/// Returns the positions of a slice, by Python's rules.
fn positions(
    length: usize,
    start: Option<i128>,
    stop: Option<i128>,
    step: i128,
) -> Result<Positions> {
    if step == 0 {
        return Err(Fault::failed("a slice cannot have a step of 0"));
    }
    let length = i128::try_from(length).unwrap_or(i128::MAX);
    let (lowest, highest) = if step > 0 {
        (0, length)
    } else {
        (-1, length - 1)
    };
    let clamp = |bound: i128| {
        let bound = if bound < 0 {
            bound.saturating_add(length)
        } else {
            bound
        };
        bound.clamp(lowest, highest)
    };
    let (first, last) = if step > 0 {
        (lowest, highest)
    } else {
        (highest, lowest)
    };
    let (start, stop) = (start.map_or(first, clamp), stop.map_or(last, clamp));
    let distance = if step > 0 { stop - start } else { start - stop };
    let count = match u128::try_from(distance) {
        Ok(distance) => distance.div_ceil(step.unsigned_abs()),
        Err(_) => 0,
    };
    Ok(Positions {
        start: usize::try_from(start).unwrap_or(0),
        count: usize::try_from(count).unwrap_or(0),
        step,
    })
}
