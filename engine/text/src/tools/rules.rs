//! Rules in llguidance's dialect of Lark.

use serde_json::Value;

use super::format::ToolFormat;

/// The rules of a grammar.
pub(super) struct Rules<'a> {
    pub format: &'a ToolFormat,
    pub control_token: &'a dyn Fn(&str) -> Option<u32>,
    pub text: String,
    /// What the names of all rules begin with.
    prefix: String,
    count: usize,
}

impl<'a> Rules<'a> {
    pub fn new(
        format: &'a ToolFormat,
        control_token: &'a dyn Fn(&str) -> Option<u32>,
        prefix: &str,
    ) -> Rules<'a> {
        Rules {
            format,
            control_token,
            text: String::new(),
            prefix: prefix.to_owned(),
            count: 0,
        }
    }

    /// Adds a rule and returns its name.
    pub fn add(&mut self, body: &str) -> String {
        self.add_with("", body)
    }

    /// Adds a rule with options such as `[lazy]` and returns its name.
    pub fn add_with(&mut self, options: &str, body: &str) -> String {
        let name = format!("{}{}", self.prefix, self.count);
        self.count += 1;
        self.text.push_str(&format!("{name}{options}: {body}\n"));
        name
    }

    /// Returns a text of which control tokens are tokens.
    pub fn literal(&self, text: &str) -> String {
        let quoted = |text: &str| match text {
            "" => String::new(),
            text => format!("{} ", Value::from(text)),
        };
        let markers = self.format.markers();
        let tokens = markers.filter_map(|marker| Some((marker, (self.control_token)(marker)?)));
        let tokens: Vec<(&str, u32)> = tokens.collect();
        let (mut out, mut rest) = (String::new(), text);
        loop {
            let found = tokens
                .iter()
                .filter_map(|(marker, id)| Some((rest.find(marker)?, *marker, id)));
            let Some((at, marker, id)) = found.min_by_key(|(at, ..)| *at) else {
                return out + &quoted(rest);
            };
            out += &format!("{}<[{id}]> ", quoted(&rest[..at]));
            rest = &rest[at + marker.len()..];
        }
    }
}
