//! A call whose name stands before the object of its arguments, as in `name[ARGS]{…}`.

use super::calls::{Calls, Payload, Step};
use super::json_calls::JsonCalls;
use super::json_scanner::{JsonScanner, Scan, push_json};

/// The longest text before the arguments in bytes.
const MAX_HEAD: usize = 512;

/// Returns the name in what stands before the arguments.
pub(super) type NameOf = fn(head: &str) -> Option<&str>;

/// A parser of one call.
#[derive(Debug)]
pub(super) struct HeadedJson {
    name_of: NameOf,
    head: String,
    /// The arguments, once they have begun.
    scanner: Option<JsonScanner>,
    /// Calls as plain JSON, which some of these models write too.
    plain: Option<JsonCalls>,
}

impl HeadedJson {
    pub fn new(name_of: NameOf) -> HeadedJson {
        HeadedJson {
            name_of,
            head: String::new(),
            scanner: None,
            plain: None,
        }
    }
}

impl Payload for HeadedJson {
    fn push(&mut self, character: char, calls: &mut Calls) -> Step {
        if let Some(plain) = &mut self.plain {
            return plain.push(character, calls);
        }
        if self.scanner.is_none() {
            let is_first = self.head.trim_start().is_empty();
            if is_first && "[{".contains(character) {
                return self
                    .plain
                    .insert(JsonCalls::default())
                    .push(character, calls);
            }
            if character != '{' {
                self.head.push(character);
                return match self.head.len() <= MAX_HEAD {
                    true => Step::More,
                    false => Step::Malformed,
                };
            }
            let name = (self.name_of)(self.head.trim());
            let Some(tool) = name.and_then(|name| calls.tools.get(name)) else {
                return Step::Malformed;
            };
            let name = tool.name().to_owned();
            calls.begin(&name);
        }
        let scanner = self.scanner.get_or_insert_default();
        let in_string = scanner.is_in_string();
        let Ok(scan) = scanner.push(character) else {
            return Step::Malformed;
        };
        let mut text = String::new();
        push_json(character, in_string, &mut text);
        calls.arguments(&text);
        match scan {
            Scan::Inside => Step::More,
            _ => Step::Last,
        }
    }
}

/// `name`, `name[ARGS]` or `name[CALL_ID]…[ARGS]`, as Mistral's newer models write.
pub(super) fn mistral(head: &str) -> Option<&str> {
    match head.split_once('[') {
        None => Some(head),
        Some((name, rest)) => rest.ends_with("ARGS]").then(|| name.trim_end()),
    }
}

/// `function<｜tool▁sep｜>name` and a fence, or `name<｜tool▁sep｜>`, as DeepSeek's models write.
pub(super) fn deepseek(head: &str) -> Option<&str> {
    let head = head.rsplit("<｜tool▁call▁begin｜>").next()?.trim();
    let (before, after) = head.split_once("<｜tool▁sep｜>")?;
    let after = after.trim_end_matches("```json").trim();
    Some(if after.is_empty() { before } else { after })
}
