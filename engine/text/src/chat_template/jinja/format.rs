//! Formats values by a template: `'%s'|format(x)` and `'{}'.format(x)`.

use std::rc::Rc;

use super::access;
use super::arguments::Arguments;
use super::fault::{Fault, Result, excerpt};
use super::meter::Meter;
use super::text::{Text, Writer};
use super::value::Value;
use super::write;

/// The most decimal places. A float has at most 1074 that are not 0.
const MAX_PRECISION: usize = 1100;

/// How a value is written.
#[derive(Debug, Default)]
struct Spec {
    fill: Option<char>,
    /// `<`, `>`, `^` or `=`.
    align: Option<char>,
    /// `+` or a space before positive numbers.
    sign: Option<char>,
    alternate: bool,
    width: usize,
    /// What separates groups of three digits.
    group: Option<char>,
    precision: Option<usize>,
    kind: Option<char>,
}

fn invalid<T>(what: &str) -> Result<T> {
    Err(Fault::failed(format!("invalid format: {what}")))
}

/// Takes a number from the beginning of a text.
fn number(rest: &mut &str) -> Result<Option<usize>> {
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (digits, after) = rest.split_at(end);
    *rest = after;
    if digits.is_empty() {
        return Ok(None);
    }
    match digits.parse() {
        Ok(number) => Ok(Some(number)),
        Err(_) => invalid("a number is too large"),
    }
}

/// Formats like Python's `%`.
pub fn printf(meter: &Rc<Meter>, template: &str, mut arguments: Arguments) -> Result<Text> {
    let mut out = Writer::new(meter)?;
    let mut positional = std::mem::take(&mut arguments.positional).into_iter();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('%') {
        out.push(before)?;
        rest = after;
        if let Some(after) = rest.strip_prefix('%') {
            out.push("%")?;
            rest = after;
            continue;
        }
        let mut named = None;
        if let Some((name, after)) = rest.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
            let Some(value) = arguments.named(name) else {
                return invalid(&format!("there is no `{}`", excerpt(name)));
            };
            // The same name may be used again.
            arguments.named.push((name.into(), value.clone()));
            named = Some(value);
            rest = after;
        }
        let mut spec = Spec::default();
        let flags = rest.find(|c| !"-+ #0".contains(c)).unwrap_or(rest.len());
        for flag in rest[..flags].chars() {
            match flag {
                '-' => spec.align = Some('<'),
                '0' if spec.align.is_none() => (spec.fill, spec.align) = (Some('0'), Some('=')),
                '#' => spec.alternate = true,
                '+' => spec.sign = Some('+'),
                ' ' => spec.sign = spec.sign.or(Some(' ')),
                _ => {}
            }
        }
        rest = &rest[flags..];
        spec.width = number(&mut rest)?.unwrap_or(0);
        if let Some(after) = rest.strip_prefix('.') {
            rest = after;
            spec.precision = Some(number(&mut rest)?.unwrap_or(0));
        }
        let Some(kind) = rest.chars().next() else {
            return invalid("it ends after `%`");
        };
        rest = &rest[kind.len_utf8()..];
        let Some(value) = named.or_else(|| positional.next()) else {
            return invalid("there are too few values");
        };
        spec.kind = Some(if matches!(kind, 'i' | 'u') { 'd' } else { kind });
        spec.align = spec.align.or(Some('>'));
        if kind == 'r' {
            let mut text = Writer::new(meter)?;
            write::repr(meter, &value, 0, &mut text)?;
            spec.kind = Some('s');
            spec.write(meter, &Value::Text(text.finish()), &mut out)?;
        } else {
            spec.write(meter, &value, &mut out)?;
        }
    }
    out.push(rest)?;
    match positional.next() {
        Some(_) => invalid("there are too many values"),
        None => Ok(out.finish()),
    }
}

/// Formats like Python's `str.format`.
pub fn str_format(meter: &Rc<Meter>, template: &str, arguments: &Arguments) -> Result<Text> {
    let mut out = Writer::new(meter)?;
    let mut next = 0;
    let mut rest = template;
    while let Some(at) = rest.find(['{', '}']) {
        out.push(&rest[..at])?;
        let bracket = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(bracket) {
            out.push(bracket)?;
            rest = after;
            continue;
        }
        let field = rest.split_once('}').filter(|_| bracket == "{");
        let Some((field, after)) = field else {
            return invalid("a brace is alone");
        };
        rest = after;
        let (field, spec) = field.split_once(':').unwrap_or((field, ""));
        let (field, conversion) = match field.split_once('!') {
            Some((field, conversion)) => (field, Some(conversion)),
            None => (field, None),
        };
        let mut value = str_format_value(meter, field, &mut next, arguments)?;
        if let Some(conversion) = conversion {
            let mut text = Writer::new(meter)?;
            match conversion {
                "r" => write::repr(meter, &value, 0, &mut text)?,
                _ => write::display(meter, &value, &mut text)?,
            }
            value = Value::Text(text.finish());
        }
        Spec::parse(spec)?.write(meter, &value, &mut out)?;
    }
    out.push(rest)?;
    Ok(out.finish())
}

/// Returns the value of a field: a number or a name, then attributes and items.
fn str_format_value(
    meter: &Rc<Meter>,
    field: &str,
    next: &mut usize,
    arguments: &Arguments,
) -> Result<Value> {
    let end = field.find(['.', '[']).unwrap_or(field.len());
    let (name, path) = field.split_at(end);
    let found = if name.is_empty() {
        *next += 1;
        arguments.positional.get(*next - 1)
    } else if let Ok(index) = name.parse::<usize>() {
        arguments.positional.get(index)
    } else {
        let found = arguments.named.iter().find(|(found, _)| **found == *name);
        found.map(|(_, value)| value)
    };
    let Some(found) = found else {
        return invalid(&format!("there is no value for `{{{}}}`", excerpt(field)));
    };
    let mut found = found.clone();
    for part in path.split(['.', '[']).skip(1) {
        let part = part.trim_end_matches(']');
        found = access::path(meter, &found, part)?;
    }
    Ok(found)
}

impl Spec {
    /// Parses what follows the colon of a field.
    fn parse(spec: &str) -> Result<Self> {
        let mut parsed = Self::default();
        let mut rest = spec;
        let is_align = |c: Option<char>| c.is_some_and(|c| "<>^=".contains(c));
        let (first, second) = (rest.chars().next(), rest.chars().nth(1));
        if let Some(fill) = first.filter(|_| is_align(second)) {
            parsed.fill = Some(fill);
            rest = &rest[fill.len_utf8()..];
        }
        if is_align(rest.chars().next()) {
            parsed.align = rest.chars().next();
            rest = &rest[1..];
        }
        if let Some(sign) = rest.chars().next().filter(|c| "+- ".contains(*c)) {
            parsed.sign = Some(sign);
            rest = &rest[1..];
        }
        if let Some(after) = rest.strip_prefix('#') {
            parsed.alternate = true;
            rest = after;
        }
        if let Some(after) = rest.strip_prefix('0') {
            if parsed.align.is_none() {
                (parsed.fill, parsed.align) = (Some('0'), Some('='));
            }
            rest = after;
        }
        parsed.width = number(&mut rest)?.unwrap_or(0);
        if let Some(group) = rest.chars().next().filter(|c| ",_".contains(*c)) {
            parsed.group = Some(group);
            rest = &rest[1..];
        }
        if let Some(after) = rest.strip_prefix('.') {
            rest = after;
            match number(&mut rest)? {
                Some(precision) => parsed.precision = Some(precision),
                None => return invalid("a precision is missing"),
            }
        }
        parsed.kind = rest.chars().next();
        match rest.chars().nth(1) {
            Some(_) => invalid(&format!("`{}`", excerpt(spec))),
            None => Ok(parsed),
        }
    }

    fn write(&self, meter: &Rc<Meter>, value: &Value, out: &mut Writer) -> Result<()> {
        let is_number_kind = self.kind.is_some_and(|kind| kind != 's');
        let (negative, body) = match value {
            Value::Bool(bool) if is_number_kind => self.int(i128::from(*bool))?,
            Value::Int(int) if self.kind != Some('s') => self.int(*int)?,
            Value::Float(float) if self.kind != Some('s') => self.float(*float)?,
            _ if is_number_kind => {
                return invalid(&format!("{} is not a number", value.kind()));
            }
            _ => return self.text(meter, value, out),
        };
        let sign = match (negative, self.sign) {
            (true, _) => "-",
            (false, Some('+')) => "+",
            (false, Some(' ')) => " ",
            _ => "",
        };
        let prefix = match (self.alternate, self.kind) {
            (true, Some('x')) => "0x",
            (true, Some('X')) => "0X",
            (true, Some('o')) => "0o",
            (true, Some('b')) => "0b",
            _ => "",
        };
        if self.align == Some('=') {
            let length = sign.len() + prefix.len() + body.len();
            out.push(sign)?;
            out.push(prefix)?;
            let fill = self.fill.unwrap_or(' ').to_string();
            out.repeat(&fill, self.width.saturating_sub(length))?;
            return out.push(&body);
        }
        self.padded(&format!("{sign}{prefix}{body}"), '>', out)
    }

    fn text(&self, meter: &Rc<Meter>, value: &Value, out: &mut Writer) -> Result<()> {
        let text = write::to_text(meter, value)?;
        let text = text.read();
        meter.scan(text.len())?;
        let end = self
            .precision
            .and_then(|precision| text.char_indices().nth(precision));
        self.padded(&text[..end.map_or(text.len(), |(end, _)| end)], '<', out)
    }

    /// Writes a text with what fills it up.
    fn padded(&self, text: &str, usual: char, out: &mut Writer) -> Result<()> {
        let missing = self.width.saturating_sub(text.chars().count());
        let before = match self.align.unwrap_or(usual) {
            '<' => 0,
            '^' => missing / 2,
            _ => missing,
        };
        let fill = self.fill.unwrap_or(' ').to_string();
        out.repeat(&fill, before)?;
        out.push(text)?;
        out.repeat(&fill, missing - before)
    }

    /// Returns whether an integer is negative, and its digits.
    fn int(&self, int: i128) -> Result<(bool, String)> {
        let magnitude = int.unsigned_abs();
        let digits = match self.kind {
            None | Some('d' | 'n') => self.grouped(&magnitude.to_string()),
            Some('x') => format!("{magnitude:x}"),
            Some('X') => format!("{magnitude:X}"),
            Some('o') => format!("{magnitude:o}"),
            Some('b') => format!("{magnitude:b}"),
            Some('c') => {
                let character = u32::try_from(int).ok().and_then(char::from_u32);
                match character {
                    Some(character) => return Ok((false, character.to_string())),
                    None => return invalid("a number is not a character"),
                }
            }
            Some(_) => return self.float(int as f64),
        };
        Ok((int < 0, digits))
    }

    /// Returns whether a float is negative, and its digits.
    fn float(&self, float: f64) -> Result<(bool, String)> {
        let negative = float.is_sign_negative() && !float.is_nan();
        let magnitude = float.abs();
        let precision = self.precision.unwrap_or(6);
        if precision > MAX_PRECISION {
            return invalid(&format!("more than {MAX_PRECISION} decimal places"));
        }
        if !magnitude.is_finite() {
            return Ok((negative, write::float_text(magnitude)));
        }
        let digits = match self.kind {
            None if self.precision.is_none() => write::float_text(magnitude),
            None | Some('g' | 'G' | 'n') => general(magnitude, precision.max(1)),
            Some('f' | 'F') => format!("{magnitude:.precision$}"),
            Some('%') => format!("{:.precision$}%", magnitude * 100.0),
            Some('e' | 'E') => scientific(magnitude, precision),
            // `%d` of a float drops its fraction.
            Some('d') => format!("{}", magnitude.trunc()),
            Some(kind) => return invalid(&format!("`{kind}` of a float")),
        };
        let digits = match self.kind {
            Some('E' | 'G') => digits.to_uppercase(),
            _ => digits,
        };
        Ok((negative, self.grouped(&digits)))
    }

    fn grouped(&self, digits: &str) -> String {
        let Some(separator) = self.group else {
            return digits.to_owned();
        };
        let end = digits
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(digits.len());
        let mut out = String::new();
        for (index, digit) in digits[..end].chars().enumerate() {
            if index > 0 && (end - index) % 3 == 0 {
                out.push(separator);
            }
            out.push(digit);
        }
        out + &digits[end..]
    }
}

fn scientific(magnitude: f64, precision: usize) -> String {
    let text = format!("{magnitude:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    format!("{mantissa}e{exponent:+03}")
}

/// Writes a number with significant digits, without zeros at the end.
fn general(magnitude: f64, precision: usize) -> String {
    let text = scientific(magnitude, precision - 1);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    let places = i32::try_from(precision).unwrap_or(i32::MAX) - 1 - exponent;
    match usize::try_from(places) {
        Ok(places) if exponent >= -4 => trim(&format!("{magnitude:.places$}")),
        _ => format!("{}e{exponent:+03}", trim(mantissa)),
    }
}
