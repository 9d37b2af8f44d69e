//! Compiling and rendering chat templates.

use std::rc::Rc;
use std::time::Duration;

use serde_json::Value as Json;

use super::error::ChatTemplateError;
use super::jinja::{self, Fault, Limits, Meter, Program, Reason, Value};
use super::message::Message;
use crate::json_depth::depth;

/// The steps of work that a rendering may take. The longest conversations take some million.
const MAX_STEPS: u64 = 20_000_000;

/// The time that a rendering may take.
const MAX_TIME: Duration = Duration::from_secs(3);

/// The output may have four times the size of the input and this many more bytes.
const SPARE_OUTPUT: usize = 1 << 20;

/// A value may have this many more bytes than the output.
const SPARE_VALUE: usize = 16 << 20;

/// All values together may have eight times the size of the input and this many more bytes.
const SPARE_MEMORY: usize = 256 << 20;

/// The deepest nesting of a message's fields and of other variables.
const MAX_DEPTH: usize = 130;

/// How templates name the content of a message.
const CONTENT: [&str; 3] = ["['content']", "[\"content\"]", ".content"];

/// How they ask whether it has one.
const TESTS_FOR_NONE: [&str; 2] = [" is none", " is not none"];

/// A text that is looked for in a prompt, to find out whether the template writes messages.
const PROBE: &str = "ProbeOfContent";

/// The steps that a rendering of the probe may take.
const MAX_PROBE_STEPS: u64 = 100_000;

/// A compiled chat template.
#[derive(Debug)]
pub struct ChatTemplate {
    program: Program,
    source: String,
    bos: String,
    eos: String,
    /// Whether the template asks if a message has no content, as DeepSeek's do before they write its calls.
    tests_for_none: bool,
    /// Whether the template writes a message only if its content is a list of parts, as Llama Guard's does.
    takes_parts: bool,
}

impl ChatTemplate {
    /// Compiles a template. `bos` and `eos` are the texts of the tokens that begin and end a text,
    /// empty if the model has none.
    ///
    /// ```
    /// use wisp_text::chat_template::{ChatTemplate, Message};
    ///
    /// let source = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}{% endfor %}";
    /// let template = ChatTemplate::new(source, "", "</s>")?;
    /// let prompt = template.render(&[Message::new("user", "Hello")], true, &Default::default())?;
    /// assert_eq!(prompt, "<user>Hello</s>");
    /// # Ok::<(), wisp_text::chat_template::ChatTemplateError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the source is not valid Jinja, or is longer than a mebibyte.
    pub fn new(source: &str, bos: &str, eos: &str) -> Result<Self, ChatTemplateError> {
        let program = Program::new(source).map_err(|fault| error(*fault))?;
        let is_tested = |test: &str| {
            let mut tests = CONTENT.iter().map(|field| format!("{field}{test}"));
            tests.any(|test| source.contains(&test))
        };
        let mut template = Self {
            program,
            source: source.to_owned(),
            bos: bos.to_owned(),
            eos: eos.to_owned(),
            tests_for_none: TESTS_FOR_NONE.into_iter().any(is_tested),
            takes_parts: false,
        };
        template.takes_parts = template.needs_parts();
        Ok(template)
    }

    /// Returns whether the template writes the text of a message if its content is a list of parts, and not otherwise.
    fn needs_parts(&self) -> bool {
        self.source.contains("type") && !self.writes_probe(false) && self.writes_probe(true)
    }

    /// Returns whether the template writes the text of a message, which is a list of parts or not.
    fn writes_probe(&self, takes_parts: bool) -> bool {
        let messages = [Message::new("user", PROBE)];
        let limits = Limits {
            steps: MAX_PROBE_STEPS,
            time: MAX_TIME,
            value: SPARE_OUTPUT,
            memory: SPARE_VALUE,
            output: SPARE_OUTPUT,
        };
        let prompt = self.program.render(limits, |meter| {
            self.variables(meter, &messages, takes_parts, true, &Default::default())
        });
        prompt.is_ok_and(|prompt| prompt.contains(PROBE))
    }

    /// Returns the template's source.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the prompt of a conversation as text.
    ///
    /// With `add_generation_prompt` it ends where the assistant's answer begins. `extra` has further
    /// variables for the template: `tools`, `documents`, `enable_thinking`, `unk_token`.
    ///
    /// # Errors
    ///
    /// If the template refuses the conversation, fails or exceeds its limits.
    pub fn render(
        &self,
        messages: &[Message],
        add_generation_prompt: bool,
        extra: &serde_json::Map<String, Json>,
    ) -> Result<String, ChatTemplateError> {
        check_depth(messages, extra)?;
        let input = input_size(messages, extra);
        let output = input.saturating_mul(4).saturating_add(SPARE_OUTPUT);
        let limits = Limits {
            steps: MAX_STEPS,
            time: MAX_TIME,
            value: output.saturating_add(SPARE_VALUE),
            memory: input.saturating_mul(8).saturating_add(SPARE_MEMORY),
            output,
        };
        let rendered = self.program.render(limits, |meter| {
            self.variables(
                meter,
                messages,
                self.takes_parts,
                add_generation_prompt,
                extra,
            )
        });
        rendered.map_err(|fault| error(*fault))
    }

    fn variables(
        &self,
        meter: &Rc<Meter>,
        messages: &[Message],
        takes_parts: bool,
        add_generation_prompt: bool,
        extra: &serde_json::Map<String, Json>,
    ) -> jinja::Result<Vec<(String, Value)>> {
        // `transformers` always passes these two.
        let mut variables = vec![
            ("tools".to_owned(), Value::None),
            ("documents".to_owned(), Value::None),
            ("bos_token".to_owned(), Value::text(meter, &self.bos)?),
            ("eos_token".to_owned(), Value::text(meter, &self.eos)?),
        ];
        for (name, value) in extra {
            variables.push((name.clone(), jinja::from_json(meter, value)?));
        }
        let add_generation_prompt = Value::Bool(add_generation_prompt);
        variables.push(("add_generation_prompt".to_owned(), add_generation_prompt));
        let messages = messages.iter().map(|message| {
            let content = match self.tests_for_none && has_only_calls(message) {
                true => Value::None,
                false if takes_parts => parts(meter, &message.content)?,
                false => Value::text(meter, &message.content)?,
            };
            let role = Value::text(meter, &message.role)?;
            let texts = [("role", role), ("content", content)].map(Ok);
            let fields = message.extra.iter();
            let fields = fields.map(|(key, json)| Ok((&**key, jinja::from_json(meter, json)?)));
            jinja::object(meter, texts.into_iter().chain(fields))
        });
        variables.push(("messages".to_owned(), jinja::list(meter, messages)?));
        Ok(variables)
    }
}

/// Returns a text as a list of one part.
fn parts(meter: &Rc<Meter>, text: &str) -> jinja::Result<Value> {
    let fields = [("type", "text"), ("text", text)];
    let fields = fields.map(|(name, text)| Ok((name, Value::text(meter, text)?)));
    let part = jinja::object(meter, fields.into_iter());
    jinja::list(meter, std::iter::once(part))
}

/// Returns whether a message has calls and no text.
fn has_only_calls(message: &Message) -> bool {
    let calls = message.extra.get("tool_calls").and_then(Json::as_array);
    message.content.is_empty() && calls.is_some_and(|calls| !calls.is_empty())
}

/// Checks that no variable is nested deeper than [`MAX_DEPTH`], so that recursion is safe.
pub(super) fn check_depth(
    messages: &[Message],
    extra: &serde_json::Map<String, Json>,
) -> Result<(), ChatTemplateError> {
    let fields = messages.iter().flat_map(|message| message.extra.values());
    match fields
        .chain(extra.values())
        .all(|json| depth(json) <= MAX_DEPTH)
    {
        true => Ok(()),
        false => Err(ChatTemplateError::Failed {
            message: format!("the conversation is nested more than {MAX_DEPTH} levels deep"),
        }),
    }
}

/// Returns the size of the variables, about as JSON.
fn input_size(messages: &[Message], extra: &serde_json::Map<String, Json>) -> usize {
    fn size(json: &Json) -> usize {
        match json {
            Json::Null | Json::Bool(_) | Json::Number(_) => 8,
            Json::String(text) => text.len() + 4,
            Json::Array(items) => items.iter().map(size).sum::<usize>() + 4,
            Json::Object(entries) => entries_size(entries),
        }
    }
    fn entries_size(entries: &serde_json::Map<String, Json>) -> usize {
        let entries = entries.iter();
        entries
            .map(|(key, value)| key.len() + 8 + size(value))
            .sum::<usize>()
            + 4
    }
    let messages = messages.iter().map(|message| {
        message.role.len() + message.content.len() + 32 + entries_size(&message.extra)
    });
    messages.sum::<usize>() + entries_size(extra)
}

/// Describes why a template stopped, in one line.
fn error(fault: Fault) -> ChatTemplateError {
    let line = fault.line.unwrap_or(1);
    let located = |message: String| match fault.line {
        Some(line) => format!("{} (line {line})", message.replace(['\n', '\r'], " ")),
        None => message.replace(['\n', '\r'], " "),
    };
    match fault.reason {
        Reason::Syntax(message) => ChatTemplateError::Syntax {
            message: located(message),
        },
        Reason::Failed(message) => ChatTemplateError::Failed {
            message: located(message),
        },
        Reason::Refused(message) => ChatTemplateError::Refused { message },
        Reason::Steps(limit) => ChatTemplateError::TooManySteps { limit, line },
        Reason::Time(limit) => ChatTemplateError::TooSlow { limit, line },
        Reason::ValueSize(limit) => ChatTemplateError::ValueTooLarge { limit, line },
        Reason::Memory(limit) => ChatTemplateError::TooMuchMemory { limit, line },
        Reason::Output(limit) => ChatTemplateError::TooMuchOutput { limit },
    }
}
