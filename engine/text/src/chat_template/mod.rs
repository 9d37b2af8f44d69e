//! Chat templates: the Jinja programs that checkpoints carry to turn a conversation into a prompt.
//!
//! They are written for `transformers`, that is for Jinja2 in Python: a sandboxed environment with
//! `trim_blocks` and `lstrip_blocks`, loop controls, methods of Python's strings and dictionaries,
//! `raise_exception`, `strftime_now`, a `tojson` that writes like `json.dumps` with
//! `ensure_ascii=False`, and `{% generation %}` blocks. This gives them the same on minijinja.
//!
//! A template comes with a download, so it is not trusted: the number of steps, the depth of
//! recursion and the length of the output are bounded. What is not: one step may still join two
//! strings of any length, so a template made for it can use up memory.

mod python;

use std::io::{self, Write};

use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, UndefinedBehavior, Value};
use serde::{Deserialize, Serialize};

/// The most instructions a template may run: the longest conversations take some hundred thousand.
const FUEL: u64 = 10_000_000;

/// The deepest recursion; a call of a macro costs several levels.
const RECURSION: usize = 200;

/// Output may be four times the input and this much more, in bytes.
const SPARE_OUTPUT: usize = 1 << 20;

const NAME: &str = "chat template";

/// A turn of a conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks: `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// What is said.
    pub content: String,
    /// What else a template may look at, such as `tool_calls` or `name`.
    #[serde(flatten)]
    pub extra: serde_json::Map<String, serde_json::Value>,
}

impl Message {
    /// A turn with nothing but a role and a text.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            role: role.into(),
            content: content.into(),
            extra: serde_json::Map::new(),
        }
    }
}

/// An error of compiling or rendering a chat template.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChatTemplateError {
    /// Occurs when the template is no Jinja.
    #[error("the chat template does not compile: {message}")]
    Syntax {
        /// What and where.
        message: String,
    },
    /// Occurs when the template refuses the conversation (`raise_exception`).
    #[error("the chat template refuses the conversation: {message}")]
    Refused {
        /// The template's own words.
        message: String,
    },
    /// Occurs when the template runs for too long.
    #[error("the chat template takes more than {limit} steps")]
    TooManySteps {
        /// The number of instructions allowed.
        limit: u64,
    },
    /// Occurs when the template writes far more than it was given.
    #[error("the chat template writes more than {limit} bytes")]
    TooMuchOutput {
        /// The number of bytes allowed.
        limit: usize,
    },
    /// Occurs when the template fails otherwise: an unknown name, a wrong type, endless recursion.
    #[error("the chat template fails: {message}")]
    Failed {
        /// What and where.
        message: String,
    },
}

/// A compiled chat template.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    bos: String,
    eos: String,
}

impl ChatTemplate {
    /// Compiles `source`; `bos` and `eos` are the texts of the tokens, empty if there are none.
    ///
    /// ```
    /// use wisp_engine::pipelines::chat_template::{ChatTemplate, Message};
    ///
    /// let source = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}{% endfor %}";
    /// let template = ChatTemplate::new(source, "", "</s>")?;
    /// let prompt = template.render(&[Message::new("user", "Hello")], true, &Default::default())?;
    /// assert_eq!(prompt, "<user>Hello</s>");
    /// # Ok::<(), wisp_engine::pipelines::chat_template::ChatTemplateError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When the source is no Jinja.
    pub fn new(source: &str, bos: &str, eos: &str) -> Result<Self, ChatTemplateError> {
        let mut environment = Environment::new();
        let syntax = environment.syntax().to_builder();
        let mut syntax = syntax;
        let syntax = syntax.trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| syntax_error(&error))?);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.set_formatter(python::write);
        environment.set_fuel(Some(FUEL));
        environment.set_recursion_limit(RECURSION);
        environment.add_filter("tojson", python::to_json);
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", strftime_now);
        environment
            .add_template_owned(NAME, without_generation_blocks(source))
            .map_err(|error| syntax_error(&error))?;
        Ok(Self {
            environment,
            bos: bos.to_owned(),
            eos: eos.to_owned(),
        })
    }

    /// The prompt of a conversation.
    ///
    /// `add_generation_prompt` ends it where the assistant's answer begins. `extra` holds further
    /// names that the template may use: `tools`, `documents`, `enable_thinking`, `unk_token`.
    ///
    /// # Errors
    ///
    /// When the template refuses the conversation, fails, or goes beyond its bounds.
    pub fn render(
        &self,
        messages: &[Message],
        add_generation_prompt: bool,
        extra: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<String, ChatTemplateError> {
        let mut context = serde_json::Map::new();
        // transformers always passes these two.
        for name in ["tools", "documents"] {
            context.insert(name.to_owned(), serde_json::Value::Null);
        }
        context.insert("bos_token".to_owned(), self.bos.clone().into());
        context.insert("eos_token".to_owned(), self.eos.clone().into());
        context.extend(extra.clone());
        context.insert(
            "add_generation_prompt".to_owned(),
            add_generation_prompt.into(),
        );
        let messages = serde_json::to_value(messages);
        let messages = messages.map_err(|error| failed(error.to_string()))?;
        context.insert("messages".to_owned(), messages);
        let context = serde_json::Value::Object(context);
        let limit = context.to_string().len().saturating_mul(4) + SPARE_OUTPUT;
        let mut output = Bounded {
            bytes: Vec::new(),
            limit,
        };
        let template = self.environment.get_template(NAME);
        let template = template.map_err(|error| failed(describe(&error)))?;
        let rendered = template.render_captured_to(Value::from(Serde(context)), &mut output);
        rendered.map_err(|error| render_error(&error))?;
        String::from_utf8(output.bytes).map_err(|error| failed(error.to_string()))
    }
}

/// Collects output up to a limit.
struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
}

/// What [`Bounded`] and `raise_exception` fail with, found again in the chain of sources.
#[derive(Debug, thiserror::Error)]
enum Stop {
    #[error("more than {0} bytes of output")]
    TooMuchOutput(usize),
    #[error("{0}")]
    Refused(String),
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len().saturating_add(bytes.len()) > self.limit {
            return Err(io::Error::other(Stop::TooMuchOutput(self.limit)));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn raise_exception(message: String) -> Result<Value, minijinja::Error> {
    let error = minijinja::Error::new(ErrorKind::InvalidOperation, message.clone());
    Err(error.with_source(Stop::Refused(message)))
}

/// Today's date by `strftime`, in UTC.
fn strftime_now(format: &str) -> Result<String, minijinja::Error> {
    let now = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
    jiff::fmt::strtime::format(format, &now)
        .map_err(|error| minijinja::Error::new(ErrorKind::InvalidOperation, error.to_string()))
}

/// `{% generation %}` marks the assistant's words for training and renders as what it holds; here it
/// becomes a block that is always taken.
fn without_generation_blocks(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some((before, after)) = rest.split_once("{%") {
        let Some((tag, behind)) = after.split_once("%}") else {
            break;
        };
        let sign = |c: char| matches!(c, '-' | '+');
        let word = tag.trim_matches(sign).trim();
        let instead = match word {
            "generation" => "if true",
            "endgeneration" => "endif",
            _ => {
                out.extend([before, "{%"]);
                rest = after;
                continue;
            }
        };
        let left = tag.chars().next().filter(|&c| sign(c));
        let right = tag.chars().next_back().filter(|&c| sign(c));
        out.extend([before, "{%"]);
        out.extend(left);
        out.extend([" ", instead, " "]);
        out.extend(right);
        out.push_str("%}");
        rest = behind;
    }
    out.push_str(rest);
    out
}

fn failed(message: String) -> ChatTemplateError {
    ChatTemplateError::Failed { message }
}

fn syntax_error(error: &minijinja::Error) -> ChatTemplateError {
    ChatTemplateError::Syntax {
        message: describe(error),
    }
}

/// One line: what went wrong and where, without the template around it.
fn describe(error: &minijinja::Error) -> String {
    let what = error
        .detail()
        .map_or_else(|| error.kind().to_string(), str::to_owned);
    match error.line() {
        Some(line) => format!("{what} (line {line})"),
        None => what,
    }
}

fn render_error(error: &minijinja::Error) -> ChatTemplateError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(source) = cause {
        let stop = source.downcast_ref::<Stop>().or_else(|| {
            let error = source.downcast_ref::<io::Error>()?;
            error.get_ref()?.downcast_ref::<Stop>()
        });
        match stop {
            Some(Stop::TooMuchOutput(limit)) => {
                return ChatTemplateError::TooMuchOutput { limit: *limit };
            }
            Some(Stop::Refused(message)) => {
                return ChatTemplateError::Refused {
                    message: message.clone(),
                };
            }
            None => {}
        }
        let out_of_fuel = source
            .downcast_ref::<minijinja::Error>()
            .is_some_and(|error| error.kind() == ErrorKind::OutOfFuel);
        if out_of_fuel {
            return ChatTemplateError::TooManySteps { limit: FUEL };
        }
        cause = source.source();
    }
    failed(describe(error))
}

#[cfg(test)]
mod tests;
