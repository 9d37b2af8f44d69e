//! Calls as JSON: `{"name": …, "arguments": {…}}`, or a list of such objects.

use serde_json::Value;

use super::calls::{Calls, Payload, Step};
use super::json_scanner::{JsonScanner, Scan, push_json};

/// The keys of the name in the formats of several models.
pub(super) const NAME: [&str; 3] = ["name", "tool_name", "function"];

/// The keys of the arguments.
pub(super) const ARGUMENTS: [&str; 3] = ["arguments", "parameters", "args"];

/// A parser of one object or of a list of objects.
#[derive(Debug, Default)]
pub(super) struct JsonCalls {
    expected: Expected,
    in_list: bool,
    object: Object,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum Expected {
    /// An object or a list.
    #[default]
    Start,
    /// An object of a list, or its end.
    Item,
    CommaOrEnd,
    /// An object that must follow a comma.
    NextItem,
    Key,
    KeyOrEnd,
    InKey,
    Colon,
    Value,
    InValue,
    NextKeyOrEnd,
}

/// The object that is being read.
#[derive(Debug, Default)]
struct Object {
    key: String,
    value: String,
    scanner: JsonScanner,
    name: Option<String>,
    /// Arguments that came before the name.
    arguments: Option<String>,
    has_begun: bool,
    /// Whether the value in progress is passed on as arguments.
    streams: bool,
}

impl Payload for JsonCalls {
    fn push(&mut self, character: char, calls: &mut Calls) -> Step {
        match self.take(character, calls) {
            Some(step) => step,
            None => Step::Malformed,
        }
    }
}

impl JsonCalls {
    fn take(&mut self, character: char, calls: &mut Calls) -> Option<Step> {
        let expected = self.expected;
        if matches!(expected, Expected::InKey | Expected::InValue) {
            return self.inside(character, calls);
        }
        if character.is_whitespace() {
            return Some(Step::More);
        }
        self.expected = match (expected, character) {
            (Expected::Start, '[') => {
                self.in_list = true;
                Expected::Item
            }
            (Expected::Start | Expected::Item | Expected::NextItem, '{') => {
                self.object = Object::default();
                Expected::KeyOrEnd
            }
            // A list without objects is no call.
            (Expected::CommaOrEnd, ']') => return Some(Step::Last),
            (Expected::CommaOrEnd, ',') => Expected::NextItem,
            (Expected::Key | Expected::KeyOrEnd, '"') => {
                self.object.key.clear();
                return self.start(Expected::InKey, character, calls);
            }
            (Expected::Colon, ':') => Expected::Value,
            (Expected::Value, _) => {
                self.object.value.clear();
                self.object.streams = self.object.begin(character, calls);
                return self.start(Expected::InValue, character, calls);
            }
            (Expected::NextKeyOrEnd, ',') => Expected::Key,
            (Expected::NextKeyOrEnd | Expected::KeyOrEnd, '}') => return self.end(calls),
            _ => return None,
        };
        Some(Step::More)
    }

    /// Starts a key or a value.
    fn start(&mut self, expected: Expected, first: char, calls: &mut Calls) -> Option<Step> {
        self.expected = expected;
        self.object.scanner = JsonScanner::default();
        self.inside(first, calls)
    }

    /// Takes a character of a key or a value.
    fn inside(&mut self, character: char, calls: &mut Calls) -> Option<Step> {
        let object = &mut self.object;
        let in_string = object.scanner.is_in_string();
        let scan = object.scanner.push(character).ok()?;
        if scan != Scan::After {
            let mut text = String::new();
            push_json(character, in_string, &mut text);
            match self.expected {
                Expected::InKey => object.key.push_str(&text),
                _ if object.streams => calls.arguments(&text),
                _ => object.value.push_str(&text),
            }
        }
        if scan == Scan::Inside {
            return Some(Step::More);
        }
        if self.expected == Expected::InKey {
            object.key = serde_json::from_str(&object.key).ok()?;
            self.expected = Expected::Colon;
            return Some(Step::More);
        }
        object.end_value(calls)?;
        self.expected = Expected::NextKeyOrEnd;
        match scan {
            Scan::After => self.take(character, calls),
            _ => Some(Step::More),
        }
    }

    /// Ends the object.
    fn end(&mut self, calls: &mut Calls) -> Option<Step> {
        let object = &mut self.object;
        if !object.has_begun {
            let name = object.name.as_deref()?;
            calls.begin(name);
            calls.arguments(object.arguments.as_deref().unwrap_or("{}"));
        }
        self.expected = Expected::CommaOrEnd;
        Some(match self.in_list {
            true => Step::More,
            false => Step::Last,
        })
    }
}

impl Object {
    /// Begins the call if the value that begins is its arguments and its name is known. Returns whether
    /// it does.
    fn begin(&mut self, first: char, calls: &mut Calls) -> bool {
        let is_arguments = ARGUMENTS.contains(&&*self.key) && first == '{';
        let begins = is_arguments && !self.has_begun && self.arguments.is_none();
        match &self.name {
            Some(name) if begins => {
                calls.begin(name);
                self.has_begun = true;
                true
            }
            _ => false,
        }
    }

    /// Ends a value; `None` if it makes the object no call.
    fn end_value(&mut self, calls: &mut Calls) -> Option<()> {
        if std::mem::take(&mut self.streams) || self.has_begun {
            return Some(());
        }
        let (is_name, is_arguments) = (NAME.contains(&&*self.key), ARGUMENTS.contains(&&*self.key));
        if !is_name && !is_arguments {
            return Some(());
        }
        let value: Value = serde_json::from_str(&self.value).ok()?;
        match value {
            Value::String(name) if is_name && self.name.is_none() => {
                // A call of a tool that is not offered stays text.
                self.name = Some(calls.tools.get(&name)?.name().into());
            }
            _ if is_name => {}
            Value::Null => self.arguments = Some("{}".into()),
            Value::Object(_) => self.arguments = Some(std::mem::take(&mut self.value)),
            // Some models write the arguments as a string of JSON.
            Value::String(text) => {
                let inner: Value = serde_json::from_str(&text).ok()?;
                inner.as_object()?;
                self.arguments = Some(text);
            }
            _ => return None,
        }
        Some(())
    }
}
