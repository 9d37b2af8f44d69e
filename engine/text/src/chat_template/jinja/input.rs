//! The values that a template gets from outside.

use std::rc::Rc;

use super::fault::{Fault, Result};
use super::meter::Meter;
use super::text::Text;
use super::value::{Key, ListBuilder, Map, Value};

/// Copies JSON. Its depth must be bounded.
pub fn from_json(meter: &Rc<Meter>, json: &serde_json::Value) -> Result<Value> {
    Ok(match json {
        serde_json::Value::Null => Value::None,
        serde_json::Value::Bool(bool) => Value::Bool(*bool),
        serde_json::Value::Number(number) => match (number.as_i128(), number.as_f64()) {
            (Some(int), _) => Value::Int(int),
            (None, Some(float)) => Value::Float(float),
            (None, None) => return Err(Fault::failed("a number is too large")),
        },
        serde_json::Value::String(text) => Value::text(meter, text)?,
        serde_json::Value::Array(items) => {
            list(meter, items.iter().map(|item| from_json(meter, item)))?
        }
        serde_json::Value::Object(entries) => {
            let entries = entries.iter();
            let entries = entries.map(|(key, value)| Ok((key.as_str(), from_json(meter, value)?)));
            object(meter, entries)?
        }
    })
}

/// Makes a list.
pub fn list(meter: &Rc<Meter>, items: impl Iterator<Item = Result<Value>>) -> Result<Value> {
    let mut list = ListBuilder::new(meter)?;
    for item in items {
        meter.steps(1)?;
        list.push(item?)?;
    }
    Ok(list.finish())
}

/// Makes a map.
pub fn object<'k>(
    meter: &Rc<Meter>,
    entries: impl Iterator<Item = Result<(&'k str, Value)>>,
) -> Result<Value> {
    let mut map = Map::new(meter)?;
    for entry in entries {
        meter.steps(1)?;
        let (key, value) = entry?;
        map.insert(Key::Text(Text::new(meter, key)?), value)?;
    }
    Ok(Value::Map(Rc::new(map)))
}
