//! Writes values as Python does: `str`, `repr` and `json.dumps`.

use std::rc::Rc;

use super::fault::{Fault, Result};
use super::meter::Meter;
use super::text::{Text, Writer};
use super::value::{Key, MAX_DEPTH, Map, Value};

/// Returns a value as Python's `str` does, except that an undefined one is empty.
pub fn to_text(meter: &Rc<Meter>, value: &Value) -> Result<Text> {
    if let Value::Text(text) = value {
        return Ok(text.clone());
    }
    let mut out = Writer::new(meter)?;
    display(meter, value, &mut out)?;
    Ok(out.finish())
}

/// Writes a value like Python's `str`, except that an undefined one is empty.
pub fn display(meter: &Meter, value: &Value, out: &mut Writer) -> Result<()> {
    match value {
        Value::Undefined => Ok(()),
        Value::Text(text) => out.push(&text.read()),
        _ => repr(meter, value, 0, out),
    }
}

/// Writes a value like Python's `repr`.
pub fn repr(meter: &Meter, value: &Value, depth: usize, out: &mut Writer) -> Result<()> {
    meter.steps(1)?;
    check_depth(depth)?;
    match value {
        Value::Undefined | Value::None => out.push("None"),
        Value::Bool(true) => out.push("True"),
        Value::Bool(false) => out.push("False"),
        Value::Int(int) => out.push(&int.to_string()),
        Value::Float(float) => out.push(&float_text(*float)),
        Value::Text(text) => quote(&text.read(), out),
        Value::List(list) => {
            out.push("[")?;
            for (index, item) in list.items().iter().enumerate() {
                out.push(if index > 0 { ", " } else { "" })?;
                repr(meter, item, depth + 1, out)?;
            }
            out.push("]")
        }
        Value::Map(map) => repr_map(meter, map, depth, out),
        Value::Namespace(namespace) => repr_map(meter, &namespace.variables.borrow(), depth, out),
        Value::Macro(closure) => {
            out.push("<macro ")?;
            out.push(&closure.definition.name)?;
            out.push(">")
        }
        Value::Loop(state) => {
            let (index, length) = (state.index.get(), state.items.items().len());
            out.push(&format!("<loop {index}/{length}>"))
        }
        Value::Function(_) => out.push("<function>"),
    }
}

fn repr_map(meter: &Meter, map: &Map, depth: usize, out: &mut Writer) -> Result<()> {
    out.push("{")?;
    for (index, (key, value)) in map.entries().iter().enumerate() {
        out.push(if index > 0 { ", " } else { "" })?;
        repr(meter, &key.clone().into(), depth + 1, out)?;
        out.push(": ")?;
        repr(meter, value, depth + 1, out)?;
    }
    out.push("}")
}

/// Namespaces can be nested without end.
fn check_depth(depth: usize) -> Result<()> {
    match depth > MAX_DEPTH {
        true => Err(Fault::failed("a value is nested too deeply to be written")),
        false => Ok(()),
    }
}

/// Writes a string in single quotes, unless it contains one.
fn quote(text: &str, out: &mut Writer) -> Result<()> {
    let quote = match text.contains('\'') && !text.contains('"') {
        true => "\"",
        false => "'",
    };
    out.push(quote)?;
    for part in text.split_inclusive(['\n', '\r', '\t', '\\', '\'', '"']) {
        let last = part.chars().next_back().unwrap_or_default();
        let escape = match last {
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\\' => "\\\\",
            '\'' if quote == "'" => "\\'",
            _ => {
                out.push(part)?;
                continue;
            }
        };
        out.push(&part[..part.len() - 1])?;
        out.push(escape)?;
    }
    out.push(quote)
}

/// Returns a float as Python's `repr` writes it.
pub fn float_text(float: f64) -> String {
    if float.is_nan() {
        return "nan".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let text = format!("{float:?}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let (sign, digits) = match exponent.strip_prefix('-') {
                Some(digits) => ('-', digits),
                None => ('+', exponent),
            };
            format!("{mantissa}e{sign}{digits:0>2}")
        }
        None => text,
    }
}

/// How JSON is written.
#[derive(Debug, Default)]
pub struct JsonStyle {
    /// The spaces of a level, which also puts each item on a line.
    pub indent: Option<usize>,
    pub sort_keys: bool,
    pub ensure_ascii: bool,
    /// What separates items, and keys from values.
    pub separators: Option<(String, String)>,
}

/// Writes a value like Python's `json.dumps`.
pub struct JsonWriter<'w> {
    meter: &'w Rc<Meter>,
    style: &'w JsonStyle,
    out: Writer,
}

/// Returns a value as JSON.
pub fn json(meter: &Rc<Meter>, value: &Value, style: &JsonStyle) -> Result<Text> {
    let out = Writer::new(meter)?;
    let mut writer = JsonWriter { meter, style, out };
    writer.value(value, 0)?;
    Ok(writer.out.finish())
}

impl JsonWriter<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<()> {
        self.meter.steps(1)?;
        check_depth(depth)?;
        match value {
            Value::Undefined | Value::None => self.out.push("null"),
            Value::Bool(true) => self.out.push("true"),
            Value::Bool(false) => self.out.push("false"),
            Value::Int(int) => self.out.push(&int.to_string()),
            Value::Float(float) if !float.is_finite() => self.out.push("null"),
            Value::Float(float) => self.out.push(&float_text(*float)),
            Value::Text(text) => self.string(&text.read()),
            Value::List(list) => {
                self.out.push("[")?;
                for (index, item) in list.items().iter().enumerate() {
                    self.before_item(index, depth + 1)?;
                    self.value(item, depth + 1)?;
                }
                self.after_items(list.items().len(), depth)?;
                self.out.push("]")
            }
            Value::Map(map) => self.map(map, depth),
            Value::Namespace(namespace) => self.map(&namespace.variables.borrow(), depth),
            Value::Macro(_) | Value::Loop(_) | Value::Function(_) => {
                Err(Fault::failed(format!("{} cannot be JSON", value.kind())))
            }
        }
    }

    fn map(&mut self, map: &Map, depth: usize) -> Result<()> {
        let mut entries: Vec<(&Key, &Value)> = map.entries().iter().collect();
        if self.style.sort_keys {
            self.meter.steps(entries.len().saturating_mul(4))?;
            entries.sort_by(|(a, _), (b, _)| match (a, b) {
                (Key::Text(a), Key::Text(b)) => a.read().cmp(&b.read()),
                (a, b) => matches!(a, Key::Text(_)).cmp(&matches!(b, Key::Text(_))),
            });
        }
        self.out.push("{")?;
        for (index, (key, value)) in entries.iter().enumerate() {
            self.before_item(index, depth + 1)?;
            match key {
                Key::Text(text) => self.string(&text.read())?,
                Key::Int(int) => self.string(&int.to_string())?,
                Key::Bool(bool) => self.string(&bool.to_string())?,
                Key::None => self.string("null")?,
            }
            let style = self.style.separators.as_ref();
            self.out.push(style.map_or(": ", |(_, key)| key))?;
            self.value(value, depth + 1)?;
        }
        self.after_items(entries.len(), depth)?;
        self.out.push("}")
    }

    fn before_item(&mut self, index: usize, depth: usize) -> Result<()> {
        if index > 0 {
            let separators = self.style.separators.as_ref();
            let usual = if self.style.indent.is_some() {
                ","
            } else {
                ", "
            };
            self.out.push(separators.map_or(usual, |(item, _)| item))?;
        }
        self.new_line(depth)
    }

    fn after_items(&mut self, count: usize, depth: usize) -> Result<()> {
        match count {
            0 => Ok(()),
            _ => self.new_line(depth),
        }
    }

    fn new_line(&mut self, depth: usize) -> Result<()> {
        let Some(indent) = self.style.indent else {
            return Ok(());
        };
        self.out.push("\n")?;
        self.out.repeat(" ", indent.saturating_mul(depth))
    }

    fn string(&mut self, text: &str) -> Result<()> {
        self.out.push("\"")?;
        let mut plain = 0;
        for (at, character) in text.char_indices() {
            let escape = match character {
                '"' => "\\\"".to_owned(),
                '\\' => "\\\\".to_owned(),
                '\n' => "\\n".to_owned(),
                '\r' => "\\r".to_owned(),
                '\t' => "\\t".to_owned(),
                '\u{8}' => "\\b".to_owned(),
                '\u{c}' => "\\f".to_owned(),
                c if u32::from(c) < 0x20 || (self.style.ensure_ascii && !c.is_ascii()) => {
                    let mut units = [0; 2];
                    let units = c.encode_utf16(&mut units).iter();
                    units.map(|unit| format!("\\u{unit:04x}")).collect()
                }
                _ => continue,
            };
            self.out.push(&text[plain..at])?;
            self.out.push(&escape)?;
            plain = at + character.len_utf8();
        }
        self.out.push(&text[plain..])?;
        self.out.push("\"")
    }
}
