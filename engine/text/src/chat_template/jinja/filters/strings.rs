//! Filters of strings. Other values are written first.

use std::rc::Rc;

use crate::chat_template::jinja::arguments::Arguments;
use crate::chat_template::jinja::fault::Result;
use crate::chat_template::jinja::meter::Meter;
use crate::chat_template::jinja::strings::{self, Ends, Indentation};
use crate::chat_template::jinja::text::Writer;
use crate::chat_template::jinja::value::Value;
use crate::chat_template::jinja::write::to_text;

/// Applies a filter of strings; `None` if the name is not one.
pub(super) fn apply(
    meter: &Rc<Meter>,
    name: &str,
    value: &Value,
    arguments: &mut Arguments,
) -> Option<Result<Value>> {
    let filter: fn(&Rc<Meter>, &str, &mut Arguments) -> Result<Value> = match name {
        "upper" => |meter, text, _| strings::upper(meter, text),
        "lower" => |meter, text, _| strings::lower(meter, text),
        "title" => |meter, text, _| {
            let ends_word = |c: char| "-({[<".contains(c) || c.is_whitespace();
            strings::title(meter, text, ends_word)
        },
        "capitalize" => |meter, text, _| strings::capitalize(meter, text),
        "escape" | "e" => |meter, text, _| strings::escape(meter, text).map(Value::Text),
        "lines" => |meter, text, _| strings::parts(meter, text.lines()),
        "trim" => trim,
        "replace" => replace,
        "split" => split,
        "indent" => indent,
        "center" => |meter, text, arguments| {
            let width = arguments.count("width")?.unwrap_or(80);
            strings::justify(meter, text, width, " ", Ends::Both)
        },
        "truncate" => truncate,
        "wordcount" => |meter, text, _| {
            meter.transform(text.len())?;
            let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
            Ok(Value::int(words.filter(|word| !word.is_empty()).count()))
        },
        _ => return None,
    };
    Some(to_text(meter, value).and_then(|text| filter(meter, &text.read(), arguments)))
}

fn trim(meter: &Rc<Meter>, text: &str, arguments: &mut Arguments) -> Result<Value> {
    let characters = arguments.text("chars")?;
    let characters = characters.as_ref().map(|text| text.read());
    strings::strip(meter, text, characters.as_deref(), Ends::Both)
}

fn replace(meter: &Rc<Meter>, text: &str, arguments: &mut Arguments) -> Result<Value> {
    let from = to_text(meter, &arguments.required("old")?)?;
    let to = to_text(meter, &arguments.required("new")?)?;
    let count = arguments.count("count")?;
    strings::replace(meter, text, &from.read(), &to.read(), count)
}

fn split(meter: &Rc<Meter>, text: &str, arguments: &mut Arguments) -> Result<Value> {
    let separator = arguments.text("sep")?;
    let separator = separator.as_ref().map(|text| text.read());
    let count = arguments.int("maxsplit")?;
    let count = count.and_then(|count| usize::try_from(count).ok());
    strings::split(meter, text, separator.as_deref(), count)
}

fn indent(meter: &Rc<Meter>, text: &str, arguments: &mut Arguments) -> Result<Value> {
    let (with, count) = match arguments.take("width") {
        Some(Value::Text(text)) => (Some(text), 1),
        Some(width) => {
            arguments.positional.insert(0, width);
            (None, arguments.count("width")?.unwrap_or(4))
        }
        None => (None, 4),
    };
    let first_line = arguments.flag("first");
    let blank_lines = arguments.flag("blank");
    let with = with.as_ref().map(|text| text.read());
    strings::indent(
        meter,
        text,
        &Indentation {
            with: with.as_deref().unwrap_or(" "),
            count,
            first_line,
            blank_lines,
        },
    )
}

fn truncate(meter: &Rc<Meter>, text: &str, arguments: &mut Arguments) -> Result<Value> {
    let length = arguments.count("length")?.unwrap_or(255);
    let cuts_words = arguments.flag("killwords");
    let end = arguments.text("end")?;
    let end = end.as_ref().map(|text| text.read());
    let end = end.as_deref().unwrap_or("...");
    let leeway = arguments.count("leeway")?.unwrap_or(5);
    meter.transform(text.len())?;
    if text.chars().count() <= length.saturating_add(leeway) {
        return Value::text(meter, text);
    }
    let kept = strings::first(text, length.saturating_sub(end.chars().count()));
    let kept = match kept.rsplit_once(' ') {
        Some((words, _)) if !cuts_words => words,
        _ => kept,
    };
    let mut out = Writer::new(meter)?;
    out.push(kept)?;
    out.push(end)?;
    Ok(Value::Text(out.finish()))
}
