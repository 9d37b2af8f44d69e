//! The filters: `value|name(arguments)`.

mod lists;
mod numbers;
mod strings;

use std::rc::Rc;

use super::access::{attribute, iterate};
use super::arguments::Arguments;
use super::fault::{Fault, Result, excerpt};
use super::meter::Meter;
use super::predicates;
use super::value::{ListBuilder, Value};
use super::write::{self, JsonStyle};
use super::{access, format};

pub use lists::items;

/// Applies a filter.
pub fn apply(
    meter: &Rc<Meter>,
    name: &str,
    value: &Value,
    mut arguments: Arguments,
) -> Result<Value> {
    if let "map" | "select" | "reject" | "selectattr" | "rejectattr" = name {
        return match name {
            "map" => map(meter, value, arguments),
            _ => select(meter, name, value, arguments),
        };
    }
    let result = match name {
        "default" | "d" => default(value, &mut arguments),
        "safe" | "string" => write::to_text(meter, value).map(Value::Text),
        "length" | "count" => length(meter, value),
        "bool" => Ok(Value::Bool(value.is_true())),
        "attr" => {
            let name = arguments.required_text("name")?;
            let name = name.read();
            attribute(value, &name)
        }
        "tojson" => to_json(meter, value, &mut arguments),
        "pprint" => {
            let mut out = super::text::Writer::new(meter)?;
            write::repr(meter, value, 0, &mut out)?;
            Ok(Value::Text(out.finish()))
        }
        "format" => {
            let template = write::to_text(meter, value)?;
            let text = format::printf(meter, &template.read(), std::mem::take(&mut arguments));
            text.map(Value::Text)
        }
        _ => match lists::apply(meter, name, value, &mut arguments) {
            Some(result) => result,
            None => match strings::apply(meter, name, value, &mut arguments) {
                Some(result) => result,
                None => match numbers::apply(name, value, &mut arguments) {
                    Some(result) => result,
                    None => return unknown(name),
                },
            },
        },
    }?;
    arguments.finish()?;
    Ok(result)
}

fn unknown<T>(name: &str) -> Result<T> {
    let name = excerpt(name);
    Err(Fault::failed(format!("unknown filter `{name}`")))
}

fn default(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let other = match arguments
        .named
        .iter()
        .position(|(name, _)| &**name == "default_value")
    {
        Some(index) => Some(arguments.named.swap_remove(index).1),
        None if arguments.positional.is_empty() => None,
        None => Some(arguments.positional.remove(0)),
    };
    let falsy = arguments.flag("boolean");
    let is_missing = matches!(value, Value::Undefined) || (falsy && !value.is_true());
    Ok(match (is_missing, other) {
        (false, _) => value.clone(),
        (true, Some(other)) => other,
        (true, None) => Value::Text(super::text::Text::Literal("".into())),
    })
}

fn length(meter: &Meter, value: &Value) -> Result<Value> {
    let length = match value {
        Value::Undefined => 0,
        Value::Text(text) => {
            meter.scan(text.len())?;
            text.read().chars().count()
        }
        Value::List(list) => list.items().len(),
        Value::Map(map) => map.entries().len(),
        Value::Namespace(namespace) => namespace.variables.borrow().entries().len(),
        other => return Err(Fault::failed(format!("{} has no length", other.kind()))),
    };
    Ok(Value::int(length))
}

/// `json.dumps(value, ensure_ascii=False)`, with its other arguments, as in `transformers`.
fn to_json(meter: &Rc<Meter>, value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let mut style = JsonStyle {
        ensure_ascii: arguments.flag("ensure_ascii"),
        indent: arguments.count("indent")?,
        ..JsonStyle::default()
    };
    let separators = arguments.take("separators");
    style.sort_keys = arguments.flag("sort_keys");
    if let Some(separators) = separators.filter(Value::is_true) {
        let separators = iterate(meter, &separators)?;
        let [Value::Text(item), Value::Text(key)] = separators.items() else {
            return Err(Fault::failed("`separators` are not two strings"));
        };
        style.separators = Some((item.read().to_owned(), key.read().to_owned()));
    }
    write::json(meter, value, &style).map(Value::Text)
}

/// Applies a filter to each item, or takes an attribute of each.
fn map(meter: &Rc<Meter>, value: &Value, mut arguments: Arguments) -> Result<Value> {
    let items = iterate(meter, value)?;
    let mut mapped = ListBuilder::new(meter)?;
    if let Some(attribute) = arguments.named("attribute") {
        let default = arguments.named("default");
        arguments.finish()?;
        for item in items.items() {
            let found = match &attribute {
                Value::Text(path) => access::path(meter, item, &path.read()),
                key => access::item(meter, item, key),
            };
            mapped.push(match (found, &default) {
                (Ok(Value::Undefined), Some(default)) => default.clone(),
                (Err(fault), Some(default)) if fault.is_failure() => default.clone(),
                (found, _) => found?,
            })?;
        }
        return Ok(mapped.finish());
    }
    if arguments.positional.is_empty() {
        return Err(Fault::failed("`map` needs a filter or an attribute"));
    }
    let Value::Text(name) = arguments.positional.remove(0) else {
        return Err(Fault::failed("the name of a filter is not a string"));
    };
    let name = name.read().to_owned();
    if matches!(
        &*name,
        "map" | "select" | "reject" | "selectattr" | "rejectattr"
    ) {
        return Err(Fault::failed(format!("`map` cannot apply `{name}`")));
    }
    for item in items.items() {
        meter.steps(1 + arguments.positional.len())?;
        mapped.push(apply(meter, &name, item, arguments.copy())?)?;
    }
    Ok(mapped.finish())
}

/// Keeps or drops the items that pass a test, or whose attribute does.
fn select(meter: &Rc<Meter>, name: &str, value: &Value, mut arguments: Arguments) -> Result<Value> {
    let keeps = name.starts_with("select");
    let path = match name.ends_with("attr") {
        true => Some(arguments.required_text("attribute")?),
        false => None,
    };
    let test = arguments.text("test")?;
    let test = test.as_ref().map(|test| test.read().to_owned());
    let items = iterate(meter, value)?;
    let mut selected = ListBuilder::new(meter)?;
    for item in items.items() {
        meter.steps(1 + arguments.positional.len())?;
        let tested = match &path {
            Some(path) => access::path(meter, item, &path.read())?,
            None => item.clone(),
        };
        let passes = match &test {
            Some(test) => predicates::apply(meter, test, &tested, arguments.copy())?,
            None => tested.is_true(),
        };
        if passes == keeps {
            selected.push(item.clone())?;
        }
    }
    Ok(selected.finish())
}
