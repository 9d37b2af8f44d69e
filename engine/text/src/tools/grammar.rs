//! Grammars of answers that are calls, in llguidance's dialect of Lark.

use serde_json::{Value, json};

use super::format::{GENERIC, Syntax, ToolFormat};
use super::tagged::Tags;
use super::tool::{Tool, ToolChoice, Tools};

/// Strings of Python without line breaks.
const PYTHON_STRING: &str = r#"/"([^"\\\n\r]|\\["'\\nrt])*"|'([^'\\\n\r]|\\["'\\nrt])*'/"#;

/// What else the grammar of an answer depends on.
pub struct AnswerSyntax<'a> {
    /// Whether and which tools must be called.
    pub choice: &'a ToolChoice,
    /// Whether several calls are allowed.
    pub parallel: bool,
    /// Whether the prompt ends in a thought, or the model may begin one, and the markers of thoughts.
    pub thought: Option<Thought>,
    /// Returns the id of a text that is a control token.
    pub control_token: &'a dyn Fn(&str) -> Option<u32>,
}

/// The thought before an answer.
#[derive(Debug, Clone, Copy)]
pub struct Thought {
    /// What begins a thought; `None` if the prompt has begun it.
    pub open: Option<&'static str>,
    /// What ends it.
    pub close: &'static str,
    /// Its most characters.
    pub limit: Option<usize>,
}

/// Returns the grammar of any answer behind a thought of limited length.
pub fn thought_grammar(thought: Thought, control_token: &dyn Fn(&str) -> Option<u32>) -> String {
    let mut rules = Rules {
        format: &GENERIC,
        control_token,
        text: String::new(),
        count: 0,
    };
    // Without a thought, the answer does not begin like one.
    let other = match thought.open {
        Some(open) if control_token(open).is_none() => {
            let first = open.chars().next().unwrap_or('<');
            format!(" | /[^\\s\\x{{{:x}}}](.|\\n)*/", u32::from(first))
        }
        Some(_) => " | ANY_TEXT".to_owned(),
        None => String::new(),
    };
    let head = rules.required_thought(thought);
    format!(
        "start: {head} ANY_TEXT{other}\nANY_TEXT: /(.|\\n)*/\n{}",
        rules.text
    )
}

impl ToolFormat {
    /// Returns the grammar of answers that call the tools, or with [`ToolChoice::Auto`] are any other text:
    /// then only what follows the marker of a call is constrained.
    pub fn grammar(&self, tools: &Tools, syntax: &AnswerSyntax<'_>) -> String {
        let mut rules = Rules {
            format: self,
            control_token: syntax.control_token,
            text: String::new(),
            count: 0,
        };
        let chosen = tools.iter().filter(|tool| match syntax.choice {
            ToolChoice::Function(name) => tool.name() == name,
            _ => true,
        });
        let items: Vec<String> = chosen.map(|tool| rules.call(tool)).collect();
        let item = rules.add(&items.join(" | "));
        let [open, between, close] = self.around.map(|text| text.to_owned());
        let more = match syntax.parallel {
            true => format!("({} {item})*", rules.literal(&between)),
            false => String::new(),
        };
        let rest = |rules: &Rules<'_>, open: &str| {
            format!(
                "{} {item} {more} {}",
                rules.literal(open),
                rules.literal(&close)
            )
        };
        let thought = rules.thought(syntax.thought);
        let start = match syntax.choice {
            ToolChoice::Auto => {
                let marker = self.begins.iter().find(|marker| open.starts_with(**marker));
                match marker {
                    Some(marker) => {
                        let head = rules.until(marker, None);
                        let calls = rest(&rules, &open[marker.len()..]);
                        let thought = rules.any_thought(syntax.thought);
                        format!("{thought} (ANY_TEXT | {head} {calls})")
                    }
                    None => {
                        let calls = rest(&rules, &open);
                        format!("{thought} (/[^{{](.|\\n)*/ | {calls})?")
                    }
                }
            }
            _ => format!("{thought} {}", rest(&rules, &open)),
        };
        format!("start: {start}\nANY_TEXT: /(.|\\n)*/\n{}", rules.text)
    }
}

/// The rules of a grammar.
struct Rules<'a> {
    format: &'a ToolFormat,
    control_token: &'a dyn Fn(&str) -> Option<u32>,
    text: String,
    count: usize,
}

impl Rules<'_> {
    /// Adds a rule and returns its name.
    fn add(&mut self, body: &str) -> String {
        self.add_with("", body)
    }

    fn add_with(&mut self, options: &str, body: &str) -> String {
        let name = format!("r{}", self.count);
        self.count += 1;
        self.text.push_str(&format!("{name}{options}: {body}\n"));
        name
    }

    /// Returns a text of which control tokens are tokens.
    fn literal(&self, text: &str) -> String {
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

    /// Returns any text up to a marker, of at most `limit` characters, and the marker.
    fn until(&mut self, marker: &str, limit: Option<usize>) -> String {
        let text = match limit {
            Some(limit) => format!("/(.|\\n){{0,{limit}}}/"),
            None => "ANY_TEXT".to_owned(),
        };
        match (self.control_token)(marker) {
            Some(id) => format!("{text} <[{id}]>"),
            None => self.add_with("[lazy]", &format!("{text} {}", Value::from(marker))),
        }
    }

    /// Returns the thought that precedes calls.
    fn thought(&mut self, thought: Option<Thought>) -> String {
        match thought {
            None => String::new(),
            Some(thought) if thought.open.is_none() => self.required_thought(thought),
            Some(thought) => format!("({})?", self.required_thought(thought)),
        }
    }

    fn required_thought(&mut self, thought: Thought) -> String {
        let close = self.until(thought.close, thought.limit);
        let open = match thought.open {
            None => String::new(),
            Some(open) => match (self.control_token)(open) {
                Some(id) => format!("/[ \\n]*/ <[{id}]> "),
                None => format!("/[ \\n]*/ {} ", Value::from(open)),
            },
        };
        format!("{open}{close} /[ \\n]*/")
    }

    /// Returns the thought that precedes any text: nothing, where the text may contain it.
    fn any_thought(&mut self, thought: Option<Thought>) -> String {
        match thought {
            Some(Thought {
                open: Some(open),
                close,
                limit: None,
            }) if (self.control_token)(open).is_none() && (self.control_token)(close).is_none() => {
                String::new()
            }
            thought => self.thought(thought),
        }
    }

    /// Adds the rule of a call of a tool.
    fn call(&mut self, tool: &Tool) -> String {
        let (name, schema) = (tool.name(), tool.parameters());
        let body = match &self.format.syntax {
            Syntax::Json {
                name: name_key,
                arguments,
            } => {
                let head = format!("{{\"{name_key}\": \"{name}\", \"{arguments}\": ");
                let schema = tool.closed_parameters();
                format!("{} %json {schema} \"}}\"", Value::from(head))
            }
            Syntax::Headed { separator, .. } => {
                let head = self.literal(&format!("{name}{separator}"));
                format!("{head} %json {}", tool.closed_parameters())
            }
            Syntax::Pythonic => {
                let parts = parameters(schema).map(|parameter| {
                    let head = Value::from(format!("{}=", parameter.key));
                    let value = self.python_value(&parameter);
                    (parameter.is_required, format!("{head} {value}"))
                });
                let arguments = comma_separated(&parts.collect::<Vec<_>>());
                format!("\"{name}(\" {arguments} \")\"")
            }
            Syntax::Tagged(tags) => self.tagged(tags, name, schema),
        };
        self.add(&body)
    }

    fn python_value(&mut self, parameter: &Parameter) -> String {
        if let Some(values) = parameter.schema["enum"].as_array()
            && values.iter().all(Value::is_string)
            && !values.is_empty()
        {
            let each = values
                .iter()
                .map(|text| Value::from(text.to_string()).to_string());
            return format!("({})", each.collect::<Vec<_>>().join(" | "));
        }
        match parameter.schema["type"].as_str() {
            Some("string") => PYTHON_STRING.into(),
            Some("boolean") => "(\"True\" | \"False\")".into(),
            _ => format!("%json {}", parameter.schema),
        }
    }

    fn tagged(&mut self, tags: &Tags, name: &str, schema: &Value) -> String {
        let line = "\n";
        // GLM's tags have no line breaks within.
        let (inner, after_name) = match tags.after_name {
            "" => ("", line.to_owned()),
            end => (line, format!("{end}{line}")),
        };
        let mut body = Value::from(format!("{}{name}{after_name}", tags.before_name)).to_string();
        for parameter in parameters(schema) {
            let between = if tags.before_value.is_empty() {
                ""
            } else {
                line
            };
            let head = format!(
                "{}{}{}{between}{}{inner}",
                tags.before_key, parameter.key, tags.after_key, tags.before_value
            );
            let end = Value::from(format!("{inner}{}{line}", tags.after_value));
            let value = match parameter.schema["type"].as_str() {
                Some("string") => self.add_with("[lazy]", &format!("ANY_TEXT {end}")),
                _ => format!("%json {} {end}", parameter.schema),
            };
            let part = format!("{} {value}", Value::from(head));
            body += &match parameter.is_required {
                true => format!(" {part}"),
                false => format!(" ({part})?"),
            };
        }
        // The end of GLM's calls is that of the format.
        if !tags.before_name.is_empty() {
            body += &format!(" {}", Value::from(tags.end));
        }
        body
    }
}

/// A parameter of a tool.
struct Parameter {
    key: String,
    /// Its schema, with the definitions of the whole.
    schema: Value,
    is_required: bool,
}

/// Returns the parameters of a schema.
fn parameters(schema: &Value) -> impl Iterator<Item = Parameter> {
    let required = schema["required"].as_array();
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties.map(move |(key, value)| {
        let mut value = match value {
            Value::Object(_) => value.clone(),
            _ => json!({}),
        };
        for definitions in ["$defs", "definitions"] {
            if let Some(found) = schema.get(definitions) {
                value[definitions] = found.clone();
            }
        }
        Parameter {
            key: key.clone(),
            schema: value,
            is_required: required.is_some_and(|names| names.iter().any(|name| name == key)),
        }
    })
}

/// Returns the grammar of a list with commas, whose items are required or not: first the required ones.
fn comma_separated(items: &[(bool, String)]) -> String {
    let of = |required: bool| {
        let items = items
            .iter()
            .filter(move |(is_required, _)| *is_required == required);
        items.map(|(_, item)| item.as_str()).collect::<Vec<_>>()
    };
    let (required, optional) = (of(true), of(false));
    let more = |items: &[&str]| {
        let each = items.iter().map(|item| format!(" (\", \" {item})?"));
        each.collect::<String>()
    };
    if !required.is_empty() {
        return required.join(" \", \" ") + &more(&optional);
    }
    let each = (0..optional.len()).map(|at| optional[at].to_owned() + &more(&optional[at + 1..]));
    match optional.is_empty() {
        true => String::new(),
        false => format!("({})?", each.collect::<Vec<_>>().join(" | ")),
    }
}
