//! Formats values as Python does.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Output, State, Value};
use serde::Serialize as _;
use serde_json::ser::{Formatter, Serializer};

/// Writes a value like Python's `str`: `True`, `None`, `['a', 1]`.
pub(super) fn write(output: &mut Output, _: &mut State, value: &Value) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Bool | ValueKind::None | ValueKind::Seq | ValueKind::Map => {
            let mut text = String::new();
            repr(value, 0, &mut text)?;
            output.write_str(&text)?;
        }
        ValueKind::Undefined => {}
        _ => output.write_fmt(format_args!("{value}"))?,
    }
    Ok(())
}

/// The deepest nesting of a value.
const MAX_DEPTH: usize = 64;

/// Appends an approximation of Python's `repr`. Strings have single quotes unless they contain one.
fn repr(value: &Value, depth: usize, out: &mut String) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "a value is nested too deeply",
        ));
    }
    match value.kind() {
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::None | ValueKind::Undefined => out.push_str("None"),
        ValueKind::String => quote(value.as_str().unwrap_or_default(), out),
        ValueKind::Seq => {
            out.push('[');
            for (index, item) in value.try_iter()?.enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                repr(&item, depth + 1, out)?;
            }
            out.push(']');
        }
        ValueKind::Map => {
            out.push('{');
            for (index, key) in value.try_iter()?.enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                repr(&key, depth + 1, out)?;
                out.push_str(": ");
                repr(&value.get_item(&key)?, depth + 1, out)?;
            }
            out.push('}');
        }
        _ => out.push_str(&value.to_string()),
    }
    Ok(())
}

fn quote(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    out.push(quote);
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out.push(quote);
}

/// The filter `tojson` of `transformers`: `json.dumps(value, ensure_ascii=False)`, with its other
/// arguments.
pub(super) fn to_json(value: &Value, options: Kwargs) -> Result<Value, Error> {
    let invalid = |error: String| Error::new(ErrorKind::InvalidOperation, error);
    let indent: Option<usize> = options.get("indent")?;
    let ascii: Option<bool> = options.get("ensure_ascii")?;
    let sort: Option<bool> = options.get("sort_keys")?;
    let separators: Option<Vec<String>> = options.get("separators")?;
    options.assert_all_used()?;
    let mut json = serde_json::to_value(value).map_err(|error| invalid(error.to_string()))?;
    if sort == Some(true) {
        json.sort_all_objects();
    }
    let (item, key) = match separators.as_deref() {
        Some([item, key]) => (item.as_str(), key.as_str()),
        _ if indent.is_some() => (",", ": "),
        _ => (", ", ": "),
    };
    let formatter = PythonFormatter {
        item,
        key,
        indent,
        depth: 0,
        empty: true,
    };
    let mut bytes = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut bytes, formatter);
    let written = json.serialize(&mut serializer);
    written.map_err(|error| invalid(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|error| invalid(error.to_string()))?;
    Ok(match ascii {
        Some(true) => Value::from_safe_string(escape_non_ascii(&text)),
        _ => Value::from_safe_string(text),
    })
}

fn escape_non_ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii() {
            out.push(character);
        } else {
            let units = character.encode_utf16(&mut [0; 2]).to_vec();
            out.extend(units.iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    out
}

/// Writes the spaces and line breaks of `json.dumps`.
struct PythonFormatter<'s> {
    item: &'s str,
    key: &'s str,
    indent: Option<usize>,
    depth: usize,
    empty: bool,
}

impl PythonFormatter<'_> {
    fn new_line<W: ?Sized + std::io::Write>(&self, writer: &mut W) -> std::io::Result<()> {
        let Some(indent) = self.indent else {
            return Ok(());
        };
        writer.write_all(b"\n")?;
        for _ in 0..indent.saturating_mul(self.depth).min(1 << 16) {
            writer.write_all(b" ")?;
        }
        Ok(())
    }

    fn open(&mut self) {
        self.depth += 1;
        self.empty = true;
    }

    fn close<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        self.depth = self.depth.saturating_sub(1);
        if !self.empty {
            self.new_line(writer)?;
        }
        self.empty = false;
        Ok(())
    }

    fn begin<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        if !first {
            writer.write_all(self.item.as_bytes())?;
        }
        self.empty = false;
        self.new_line(writer)
    }
}

impl Formatter for PythonFormatter<'_> {
    fn begin_array<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        self.open();
        writer.write_all(b"[")
    }

    fn end_array<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        self.close(writer)?;
        writer.write_all(b"]")
    }

    fn begin_array_value<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        self.begin(writer, first)
    }

    fn begin_object<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        self.open();
        writer.write_all(b"{")
    }

    fn end_object<W: ?Sized + std::io::Write>(&mut self, writer: &mut W) -> std::io::Result<()> {
        self.close(writer)?;
        writer.write_all(b"}")
    }

    fn begin_object_key<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        self.begin(writer, first)
    }

    fn begin_object_value<W: ?Sized + std::io::Write>(
        &mut self,
        writer: &mut W,
    ) -> std::io::Result<()> {
        writer.write_all(self.key.as_bytes())
    }
}
