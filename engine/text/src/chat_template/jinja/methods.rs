//! Python's methods of strings, maps and lists.

use std::rc::Rc;

use super::access::{iterate, pairs};
use super::arguments::Arguments;
use super::compare::equal;
use super::fault::{Fault, Result};
use super::filters;
use super::format;
use super::meter::Meter;
use super::strings::{self, Ends};
use super::text::{Text, Writer};
use super::value::{ListBuilder, Map, Value};
use super::write;

/// A method of strings.
type StringMethod = fn(&Rc<Meter>, &str, &mut Arguments) -> Result<Value>;

/// Calls a method; `None` if the value has none of this name.
pub fn call(
    meter: &Rc<Meter>,
    value: &Value,
    name: &str,
    arguments: &mut Arguments,
) -> Option<Result<Value>> {
    match value {
        Value::Text(text) => string_method(meter, text, name, arguments),
        Value::Map(_) | Value::Namespace(_) => map_method(meter, value, name, arguments),
        Value::List(list) if name == "count" || name == "index" => {
            Some(list_method(meter, list.items(), name, arguments))
        }
        _ => None,
    }
}

fn list_method(
    meter: &Rc<Meter>,
    items: &[Value],
    name: &str,
    arguments: &mut Arguments,
) -> Result<Value> {
    let wanted = arguments.required("value")?;
    let mut count = 0;
    for (index, item) in items.iter().enumerate() {
        if equal(meter, item, &wanted)? {
            if name == "index" {
                return Ok(Value::int(index));
            }
            count += 1;
        }
    }
    match name {
        "index" => Err(Fault::failed("the list has no such item")),
        _ => Ok(Value::int(count)),
    }
}

fn map_method(
    meter: &Rc<Meter>,
    value: &Value,
    name: &str,
    arguments: &mut Arguments,
) -> Option<Result<Value>> {
    Some(match name {
        "keys" => iterate(meter, value).map(Value::List),
        "values" => values(meter, value),
        "items" => filters::items(meter, value),
        "get" => get(value, arguments),
        "copy" => Ok(value.clone()),
        _ => return None,
    })
}

fn values(meter: &Rc<Meter>, value: &Value) -> Result<Value> {
    let mut list = ListBuilder::new(meter)?;
    for (_, value) in pairs(meter, value)? {
        list.push(value)?;
    }
    Ok(list.finish())
}

fn get(value: &Value, arguments: &mut Arguments) -> Result<Value> {
    let key = arguments.required("key")?;
    let find = |map: &Map| {
        let key = key.to_key()?;
        map.entries().get(&key).cloned()
    };
    let found = match value {
        Value::Map(map) => find(map),
        Value::Namespace(namespace) => find(&namespace.variables.borrow()),
        _ => None,
    };
    let default = arguments.take("default");
    Ok(found.or(default).unwrap_or(Value::None))
}

fn string_method(
    meter: &Rc<Meter>,
    text: &Text,
    name: &str,
    arguments: &mut Arguments,
) -> Option<Result<Value>> {
    if name == "format" {
        let arguments = std::mem::take(arguments);
        let formatted = format::str_format(meter, &text.read(), &arguments);
        return Some(formatted.map(Value::Text));
    }
    let method: StringMethod = match name {
        "upper" => |meter, text, _| strings::upper(meter, text),
        "lower" => |meter, text, _| strings::lower(meter, text),
        "title" => {
            |meter, text, _| strings::title(meter, text, |c| !c.is_lowercase() && !c.is_uppercase())
        }
        // Python's also replaces letters such as ß.
        "casefold" => |meter, text, _| strings::lower(meter, text),
        "capitalize" => |meter, text, _| strings::capitalize(meter, text),
        "strip" => |meter, text, arguments| strip(meter, text, arguments, Ends::Both),
        "lstrip" => |meter, text, arguments| strip(meter, text, arguments, Ends::Start),
        "rstrip" => |meter, text, arguments| strip(meter, text, arguments, Ends::End),
        "removeprefix" => |meter, text, arguments| {
            let prefix = arguments.required_text("prefix")?;
            Value::text(meter, text.strip_prefix(&*prefix.read()).unwrap_or(text))
        },
        "removesuffix" => |meter, text, arguments| {
            let suffix = arguments.required_text("suffix")?;
            Value::text(meter, text.strip_suffix(&*suffix.read()).unwrap_or(text))
        },
        "replace" => replace,
        "split" => split,
        "rsplit" => split_right,
        "splitlines" => split_lines,
        "partition" => |meter, text, arguments| partition(meter, text, arguments, Ends::Start),
        "rpartition" => |meter, text, arguments| partition(meter, text, arguments, Ends::End),
        "join" => join,
        "count" => count,
        "find" => |meter, text, arguments| find(meter, text, arguments, |a, b| a.find(b)),
        "rfind" => |meter, text, arguments| find(meter, text, arguments, |a, b| a.rfind(b)),
        "index" => |meter, text, arguments| index(meter, text, arguments, |a, b| a.find(b)),
        "rindex" => |meter, text, arguments| index(meter, text, arguments, |a, b| a.rfind(b)),
        "startswith" => {
            |meter, text, arguments| affix(meter, text, arguments, |a, b| a.starts_with(b))
        }
        "endswith" => |meter, text, arguments| affix(meter, text, arguments, |a, b| a.ends_with(b)),
        "zfill" => fill_zeros,
        "ljust" => |meter, text, arguments| justify(meter, text, arguments, Ends::End),
        "rjust" => |meter, text, arguments| justify(meter, text, arguments, Ends::Start),
        "center" => |meter, text, arguments| justify(meter, text, arguments, Ends::Both),
        _ => character_class(name)?,
    };
    Some(method(meter, &text.read(), arguments))
}

/// Returns the method that asks whether all characters are of some class.
fn character_class(name: &str) -> Option<StringMethod> {
    fn all(meter: &Meter, text: &str, class: fn(char) -> bool) -> Result<Value> {
        meter.transform(text.len())?;
        Ok(Value::Bool(!text.is_empty() && text.chars().all(class)))
    }
    fn cased(
        meter: &Meter,
        text: &str,
        wanted: fn(char) -> bool,
        other: fn(char) -> bool,
    ) -> Result<Value> {
        meter.transform(text.len())?;
        Ok(Value::Bool(
            text.chars().any(wanted) && !text.chars().any(other),
        ))
    }
    Some(match name {
        "islower" => |meter, text, _| cased(meter, text, char::is_lowercase, char::is_uppercase),
        "isupper" => |meter, text, _| cased(meter, text, char::is_uppercase, char::is_lowercase),
        "isspace" => |meter, text, _| all(meter, text, char::is_whitespace),
        "isdigit" | "isnumeric" | "isdecimal" => {
            |meter, text, _| all(meter, text, char::is_numeric)
        }
        "isalnum" => |meter, text, _| all(meter, text, char::is_alphanumeric),
        "isalpha" => |meter, text, _| all(meter, text, char::is_alphabetic),
        "isascii" => |meter, text, _| {
            meter.scan(text.len())?;
            Ok(Value::Bool(text.is_ascii()))
        },
        _ => return None,
    })
}

fn strip(meter: &Rc<Meter>, text: &str, arguments: &mut Arguments, ends: Ends) -> Result<Value> {
    let characters = arguments.text("chars")?;
    let characters = characters.as_ref().map(Text::read);
    strings::strip(meter, text, characters.as_deref(), ends)
}

/// Takes a number of times; a negative one is no limit.
fn limit(arguments: &mut Arguments, name: &str) -> Result<Option<usize>> {
    let count = arguments.int(name)?;
    Ok(count.and_then(|count| usize::try_from(count).ok()))
}

fn replace(meter: &Rc<Meter>, text: &str, arguments: &mut Arguments) -> Result<Value> {
    let from = arguments.required_text("old")?;
    let to = arguments.required_text("new")?;
    let count = limit(arguments, "count")?;
    strings::replace(meter, text, &from.read(), &to.read(), count)
}

fn split(meter: &Rc<Meter>, text: &str, arguments: &mut Arguments) -> Result<Value> {
    let separator = arguments.text("sep")?;
    let separator = separator.as_ref().map(Text::read);
    let count = limit(arguments, "maxsplit")?;
    strings::split(meter, text, separator.as_deref(), count)
}

fn split_right(meter: &Rc<Meter>, text: &str, arguments: &mut Arguments) -> Result<Value> {
    let separator = arguments.text("sep")?;
    let separator = separator.as_ref().map(Text::read);
    match (separator.as_deref(), limit(arguments, "maxsplit")?) {
        (Some(separator), count) => strings::split_right(meter, text, separator, count),
        (None, None) => strings::split(meter, text, None, None),
        (None, Some(_)) => Err(Fault::failed("`rsplit` with a limit needs a separator")),
    }
}

fn split_lines(meter: &Rc<Meter>, text: &str, arguments: &mut Arguments) -> Result<Value> {
    match arguments.flag("keepends") {
        true => strings::parts(meter, text.split_inclusive('\n')),
        false => strings::parts(meter, text.lines()),
    }
}

fn join(meter: &Rc<Meter>, separator: &str, arguments: &mut Arguments) -> Result<Value> {
    let items = iterate(meter, &arguments.required("iterable")?)?;
    let mut out = Writer::new(meter)?;
    for (index, item) in items.items().iter().enumerate() {
        if index > 0 {
            out.push(separator)?;
        }
        write::display(meter, item, &mut out)?;
    }
    Ok(Value::Text(out.finish()))
}

fn count(meter: &Rc<Meter>, text: &str, arguments: &mut Arguments) -> Result<Value> {
    let wanted = arguments.required_text("sub")?;
    meter.transform(text.len())?;
    let (_, part) = part(text, arguments)?;
    Ok(Value::int(part.matches(&*wanted.read()).count()))
}

fn find(
    meter: &Rc<Meter>,
    text: &str,
    arguments: &mut Arguments,
    search: fn(&str, &str) -> Option<usize>,
) -> Result<Value> {
    let wanted = arguments.required_text("sub")?;
    meter.transform(text.len())?;
    let (before, part) = part(text, arguments)?;
    let wanted = wanted.read();
    Ok(match search(part, &wanted) {
        Some(at) => Value::int(before + part[..at].chars().count()),
        None => Value::Int(-1),
    })
}

/// Takes the numbers of the first character of a part and of the one behind it, which count from the end of the text if
/// they are negative. Returns the number of characters before the part, and the part.
fn part<'t>(text: &'t str, arguments: &mut Arguments) -> Result<(usize, &'t str)> {
    let (start, end) = (arguments.int("start")?, arguments.int("end")?);
    if start.is_none() && end.is_none() {
        return Ok((0, text));
    }
    let count = text.chars().count();
    let index = |at: i128| {
        let from_end = if at < 0 { count as i128 } else { 0 };
        usize::try_from(at.saturating_add(from_end).max(0)).unwrap_or(count)
    };
    let start = start.map_or(0, index).min(count);
    let end = end.map_or(count, index);
    let part = strings::first(text, end);
    let before = strings::first(text, start);
    Ok((start, part.strip_prefix(before).unwrap_or_default()))
}

fn index(
    meter: &Rc<Meter>,
    text: &str,
    arguments: &mut Arguments,
    search: fn(&str, &str) -> Option<usize>,
) -> Result<Value> {
    match find(meter, text, arguments, search)? {
        Value::Int(-1) => Err(Fault::failed("the string has no such part")),
        found => Ok(found),
    }
}

/// Splits a text at the first or last separator, into what is before it, the separator and what is behind it.
fn partition(
    meter: &Rc<Meter>,
    text: &str,
    arguments: &mut Arguments,
    from: Ends,
) -> Result<Value> {
    let separator = arguments.required_text("sep")?;
    let separator = separator.read();
    if separator.is_empty() {
        return Err(Fault::failed("the separator is empty"));
    }
    meter.transform(text.len())?;
    let parts = match from {
        Ends::End => match text.rsplit_once(&*separator) {
            Some((before, after)) => [before, &separator, after],
            None => ["", "", text],
        },
        _ => match text.split_once(&*separator) {
            Some((before, after)) => [before, &separator, after],
            None => [text, "", ""],
        },
    };
    let mut list = ListBuilder::new(meter)?;
    for part in parts {
        list.push(Value::text(meter, part)?)?;
    }
    Ok(list.finish())
}

/// Returns whether a text has a prefix or suffix, or one of several.
fn affix(
    meter: &Rc<Meter>,
    text: &str,
    arguments: &mut Arguments,
    has: fn(&str, &str) -> bool,
) -> Result<Value> {
    let affix = arguments.required("prefix")?;
    let candidates = match &affix {
        Value::Text(_) => std::slice::from_ref(&affix),
        Value::List(list) => list.items(),
        other => return Err(Fault::failed(format!("{} is not a string", other.kind()))),
    };
    for candidate in candidates {
        let Value::Text(candidate) = candidate else {
            return Err(Fault::failed(format!(
                "{} is not a string",
                candidate.kind()
            )));
        };
        meter.scan(candidate.len())?;
        if has(text, &candidate.read()) {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

fn fill_zeros(meter: &Rc<Meter>, text: &str, arguments: &mut Arguments) -> Result<Value> {
    let width = arguments.count("width")?.unwrap_or(0);
    let sign = usize::from(text.starts_with(['+', '-']));
    let mut out = Writer::new(meter)?;
    out.push(&text[..sign])?;
    out.repeat("0", width.saturating_sub(text.chars().count()))?;
    out.push(&text[sign..])?;
    Ok(Value::Text(out.finish()))
}

/// Fills a text up at an end, or at both.
fn justify(meter: &Rc<Meter>, text: &str, arguments: &mut Arguments, ends: Ends) -> Result<Value> {
    let width = arguments.count("width")?.unwrap_or(0);
    let fill = arguments.text("fillchar")?;
    let fill = fill.as_ref().map(Text::read);
    let fill = fill.as_deref().unwrap_or(" ");
    strings::justify(meter, text, width, fill, ends)
}
