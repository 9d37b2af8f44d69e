//! Filters of lists and maps.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::rc::Rc;

use crate::chat_template::jinja::access::{self, iterate, pair, pairs};
use crate::chat_template::jinja::arguments::Arguments;
use crate::chat_template::jinja::arithmetic::infix;
use crate::chat_template::jinja::ast::Infix;
use crate::chat_template::jinja::compare::{compare, equal, sort};
use crate::chat_template::jinja::fault::{Fault, Result};
use crate::chat_template::jinja::meter::Meter;
use crate::chat_template::jinja::text::Writer;
use crate::chat_template::jinja::value::{Key, ListBuilder, Map, Value};
use crate::chat_template::jinja::write;

/// Applies a filter of lists; `None` if the name is not one.
pub(super) fn apply(
    meter: &Rc<Meter>,
    name: &str,
    value: &Value,
    arguments: &mut Arguments,
) -> Option<Result<Value>> {
    Some(match name {
        "list" => list(meter, value),
        "first" | "last" => end(meter, name, value),
        "min" | "max" => extreme(meter, name, value, arguments),
        "sum" => sum(meter, value, arguments),
        "sort" => sorted(meter, value, arguments),
        "dictsort" => sorted_pairs(meter, value, arguments),
        "items" => items(meter, value),
        "unique" => unique(meter, value, arguments),
        "groupby" => groups(meter, value, arguments),
        "batch" => batch(meter, value, arguments),
        "slice" => slices(meter, value, arguments),
        "reverse" => reversed(meter, value),
        "join" => join(meter, value, arguments),
        "chain" => chain(meter, value, arguments),
        "zip" => zip(meter, value, arguments),
        _ => return None,
    })
}

fn list(meter: &Rc<Meter>, value: &Value) -> Result<Value> {
    iterate(meter, value).map(Value::List)
}

fn end(meter: &Rc<Meter>, name: &str, value: &Value) -> Result<Value> {
    let found = match value {
        Value::Text(text) => {
            let text = text.read();
            let found = match name {
                "first" => text.chars().next(),
                _ => text.chars().next_back(),
            };
            match found {
                Some(found) => Some(Value::text(meter, found.encode_utf8(&mut [0; 4]))?),
                None => None,
            }
        }
        Value::List(_) | Value::Map(_) => {
            let items = iterate(meter, value)?;
            let items = items.items();
            let found = if name == "first" {
                items.first()
            } else {
                items.last()
            };
            found.cloned()
        }
        Value::Undefined => None,
        _ => {
            return Err(Fault::failed(format!(
                "{} has no {name} item",
                value.kind()
            )));
        }
    };
    Ok(found.unwrap_or(Value::Undefined))
}

/// What items are compared by.
struct Order {
    attributes: Vec<String>,
    case_sensitive: bool,
}

impl Order {
    fn take(arguments: &mut Arguments) -> Result<Self> {
        let case_sensitive = arguments.flag("case_sensitive");
        let attributes = match arguments.take("attribute") {
            Some(Value::Text(text)) => {
                let text = text.read();
                text.split(',').map(|part| part.trim().to_owned()).collect()
            }
            _ => Vec::new(),
        };
        Ok(Self {
            attributes,
            case_sensitive,
        })
    }

    /// Returns what an item is compared by.
    fn key(&self, meter: &Rc<Meter>, item: &Value) -> Result<Value> {
        match self.attributes.as_slice() {
            [] => self.folded(meter, item.clone()),
            [only] => self.folded(meter, path_or_undefined(meter, item, only)?),
            several => {
                let mut keys = ListBuilder::new(meter)?;
                for path in several {
                    keys.push(self.folded(meter, path_or_undefined(meter, item, path)?)?)?;
                }
                Ok(keys.finish())
            }
        }
    }

    fn folded(&self, meter: &Rc<Meter>, value: Value) -> Result<Value> {
        match &value {
            Value::Text(text) if !self.case_sensitive => {
                meter.scan(text.len())?;
                let text = text.read();
                if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
                    return Value::text(meter, &text.to_ascii_lowercase());
                }
            }
            _ => return Ok(value),
        }
        Ok(value)
    }

    fn keyed(&self, meter: &Rc<Meter>, items: &[Value]) -> Result<Vec<(Value, Value)>> {
        let keyed = items.iter().map(|item| {
            meter.steps(1)?;
            Ok((self.key(meter, item)?, item.clone()))
        });
        keyed.collect()
    }
}

fn path_or_undefined(meter: &Rc<Meter>, item: &Value, path: &str) -> Result<Value> {
    match access::path(meter, item, path) {
        Err(fault) if fault.is_failure() => Ok(Value::Undefined),
        found => found,
    }
}

fn extreme(
    meter: &Rc<Meter>,
    name: &str,
    value: &Value,
    arguments: &mut Arguments,
) -> Result<Value> {
    let order = Order::take(arguments)?;
    let items = iterate(meter, value)?;
    let mut found: Option<(Value, Value)> = None;
    for (key, item) in order.keyed(meter, items.items())? {
        let replaces = match &found {
            None => true,
            Some((best, _)) => {
                let ordering = compare(meter, &key, best)?;
                (name == "min" && ordering == Ordering::Less)
                    || (name == "max" && ordering != Ordering::Less)
            }
        };
        if replaces {
            found = Some((key, item));
        }
    }
    Ok(found.map_or(Value::Undefined, |(_, item)| item))
}

fn sum(meter: &Rc<Meter>, value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let path = arguments.text("attribute")?;
    let mut total = arguments.take("start").unwrap_or(Value::Int(0));
    for item in iterate(meter, value)?.items() {
        meter.steps(1)?;
        let item = match &path {
            Some(path) => path_or_undefined(meter, item, &path.read())?,
            None => item.clone(),
        };
        if !matches!(item, Value::Undefined) {
            total = infix(meter, Infix::Add, &total, &item)?;
        }
    }
    Ok(total)
}

fn sorted(meter: &Rc<Meter>, value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let is_reverse = arguments.flag("reverse");
    let order = Order::take(arguments)?;
    let items = iterate(meter, value)?;
    let mut keyed = order.keyed(meter, items.items())?;
    sort(&mut keyed, &mut |a, b| {
        let ordering = compare(meter, &a.0, &b.0)?;
        Ok(if is_reverse {
            ordering.reverse()
        } else {
            ordering
        })
    })?;
    collected(meter, keyed.into_iter().map(|(_, item)| item))
}

fn collected(meter: &Rc<Meter>, items: impl Iterator<Item = Value>) -> Result<Value> {
    let mut list = ListBuilder::new(meter)?;
    for item in items {
        list.push(item)?;
    }
    Ok(list.finish())
}

fn sorted_pairs(meter: &Rc<Meter>, value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let order = Order {
        attributes: Vec::new(),
        case_sensitive: arguments.flag("case_sensitive"),
    };
    let by_value = match arguments.take("by") {
        Some(Value::Text(by)) => *by.read() == *"value",
        _ => false,
    };
    let is_reverse = arguments.flag("reverse");
    let mut keyed = Vec::new();
    for (key, value) in pairs(meter, value)? {
        let by = order.key(meter, if by_value { &value } else { &key })?;
        keyed.push((by, pair(meter, key, value)?));
    }
    sort(&mut keyed, &mut |a, b| {
        let ordering = compare(meter, &a.0, &b.0)?;
        Ok(if is_reverse {
            ordering.reverse()
        } else {
            ordering
        })
    })?;
    collected(meter, keyed.into_iter().map(|(_, item)| item))
}

/// Returns the pairs of a map as a list.
pub fn items(meter: &Rc<Meter>, value: &Value) -> Result<Value> {
    let mut list = ListBuilder::new(meter)?;
    for (key, value) in pairs(meter, value)? {
        list.push(pair(meter, key, value)?)?;
    }
    Ok(list.finish())
}

#[expect(
    clippy::mutable_key_type,
    reason = "the bytes of a string never change: its buffer only grows behind them"
)]
fn unique(meter: &Rc<Meter>, value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let order = Order::take(arguments)?;
    let items = iterate(meter, value)?;
    let mut seen: HashSet<Key> = HashSet::new();
    let mut others: Vec<Value> = Vec::new();
    let mut found = ListBuilder::new(meter)?;
    for (key, item) in order.keyed(meter, items.items())? {
        let is_new = match key.to_key() {
            Some(key) => {
                if let Key::Text(text) = &key {
                    meter.scan(text.len())?;
                }
                seen.insert(key)
            }
            None => {
                let mut is_new = true;
                for other in &others {
                    is_new = is_new && !equal(meter, other, &key)?;
                }
                others.push(key);
                is_new
            }
        };
        if is_new {
            found.push(item)?;
        }
    }
    Ok(found.finish())
}

/// Groups items by an attribute: lists of two, which also have the names `grouper` and `list`.
fn groups(meter: &Rc<Meter>, value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let path = arguments.required_text("attribute")?;
    let default = arguments.take("default");
    let order = Order {
        attributes: Vec::new(),
        case_sensitive: arguments.flag("case_sensitive"),
    };
    let mut keyed = Vec::new();
    for item in iterate(meter, value)?.items() {
        let found = path_or_undefined(meter, item, &path.read())?;
        let grouper = match (found, &default) {
            (Value::Undefined, Some(default)) => default.clone(),
            (found, _) => found,
        };
        keyed.push((order.key(meter, &grouper)?, grouper, item.clone()));
    }
    sort(&mut keyed, &mut |a, b| compare(meter, &a.0, &b.0))?;
    let mut groups = ListBuilder::new(meter)?;
    let mut rest = keyed.as_slice();
    while let [(first, ..), ..] = rest {
        let mut list = ListBuilder::new(meter)?;
        let mut count = 0;
        for (key, _, item) in rest {
            if compare(meter, first, key)? != Ordering::Equal {
                break;
            }
            list.push(item.clone())?;
            count += 1;
        }
        let (group, after) = rest.split_at(count);
        let grouper = group
            .last()
            .map_or(Value::Undefined, |(_, grouper, _)| grouper.clone());
        let mut group = ListBuilder::new(meter)?;
        group.push(grouper)?;
        group.push(list.finish())?;
        groups.push(group.finish_group())?;
        rest = after;
    }
    Ok(groups.finish())
}

fn batch(meter: &Rc<Meter>, value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let count = arguments.count("linecount")?.filter(|&count| count > 0);
    let count = count.ok_or_else(|| Fault::failed("`batch` needs a number of items"))?;
    let filler = arguments.take("fill_with");
    let items = iterate(meter, value)?;
    let mut batches = ListBuilder::new(meter)?;
    for items in items.items().chunks(count) {
        let mut batch = ListBuilder::new(meter)?;
        batch.extend(meter, items)?;
        if let Some(filler) = &filler {
            for _ in items.len()..count {
                batch.push(filler.clone())?;
            }
            meter.steps(batch.len())?;
        }
        batches.push(batch.finish())?;
    }
    Ok(batches.finish())
}

fn slices(meter: &Rc<Meter>, value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let count = arguments.count("slices")?.filter(|&count| count > 0);
    let count = count.ok_or_else(|| Fault::failed("`slice` needs a number of slices"))?;
    let filler = arguments.take("fill_with");
    let items = iterate(meter, value)?;
    let mut rest = items.items();
    let (length, longer) = (rest.len() / count, rest.len() % count);
    let mut slices = ListBuilder::new(meter)?;
    for index in 0..count {
        let (items, after) = rest.split_at(length + usize::from(index < longer));
        let mut slice = ListBuilder::new(meter)?;
        slice.extend(meter, items)?;
        if let Some(filler) = filler.as_ref().filter(|_| index >= longer) {
            slice.push(filler.clone())?;
        }
        slices.push(slice.finish())?;
        rest = after;
    }
    Ok(slices.finish())
}

fn reversed(meter: &Rc<Meter>, value: &Value) -> Result<Value> {
    match value {
        Value::Text(text) => {
            meter.transform(text.len())?;
            let mut out = Writer::new(meter)?;
            out.extend(text.read().chars().rev())?;
            Ok(Value::Text(out.finish()))
        }
        _ => {
            let items = iterate(meter, value)?;
            meter.steps(items.items().len() / 4 + 1)?;
            collected(meter, items.items().iter().rev().cloned())
        }
    }
}

fn join(meter: &Rc<Meter>, value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let separator = arguments.take("d").unwrap_or(Value::Undefined);
    let separator = write::to_text(meter, &separator)?;
    let path = arguments.text("attribute")?;
    let items = iterate(meter, value)?;
    let mut out = Writer::new(meter)?;
    for (index, item) in items.items().iter().enumerate() {
        if index > 0 {
            out.push(&separator.read())?;
        }
        match &path {
            Some(path) => {
                let item = path_or_undefined(meter, item, &path.read())?;
                write::display(meter, &item, &mut out)?;
            }
            None => write::display(meter, item, &mut out)?,
        }
    }
    Ok(Value::Text(out.finish()))
}

/// Joins lists, or merges maps; a later map replaces values of an earlier one.
fn chain(meter: &Rc<Meter>, value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let mut parts = vec![value.clone()];
    parts.append(&mut arguments.positional);
    if parts.iter().all(|part| matches!(part, Value::Map(_))) {
        let mut merged = Map::new(meter)?;
        for part in &parts {
            if let Value::Map(map) = part {
                meter.steps(map.entries().len())?;
                for (key, value) in map.entries() {
                    merged.insert(key.clone(), value.clone())?;
                }
            }
        }
        return Ok(Value::Map(Rc::new(merged)));
    }
    let mut list = ListBuilder::new(meter)?;
    for part in &parts {
        list.extend(meter, iterate(meter, part)?.items())?;
    }
    Ok(list.finish())
}

fn zip(meter: &Rc<Meter>, value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let mut lists = vec![iterate(meter, value)?];
    for other in arguments.positional.drain(..) {
        lists.push(iterate(meter, &other)?);
    }
    let length = lists.iter().map(|list| list.items().len()).min();
    let mut zipped = ListBuilder::new(meter)?;
    for index in 0..length.unwrap_or(0) {
        meter.steps(lists.len())?;
        let mut row = ListBuilder::new(meter)?;
        for list in &lists {
            row.push(list.items()[index].clone())?;
        }
        zipped.push(row.finish())?;
    }
    Ok(zipped.finish())
}
