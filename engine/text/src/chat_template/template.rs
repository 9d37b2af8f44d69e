//! Compiling and rendering chat templates.

use std::io::{self, Write};

use minijinja::value::Serde;
use minijinja::{Environment, ErrorKind, UndefinedBehavior, Value};

use super::error::ChatTemplateError;
use super::message::Message;
use super::python;

/// The number of instructions that a template may execute. The longest conversations take some
/// hundred thousand.
const MAX_STEPS: u64 = 10_000_000;

/// The deepest recursion. A call of a macro takes several levels.
const MAX_RECURSION: usize = 200;

/// The output may have four times the size of the input and this many more bytes.
const SPARE_OUTPUT: usize = 1 << 20;

/// The name of the template in its environment.
const NAME: &str = "chat template";

/// A compiled chat template.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    bos: String,
    eos: String,
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
    /// If the source is not valid Jinja.
    pub fn new(source: &str, bos: &str, eos: &str) -> Result<Self, ChatTemplateError> {
        let mut environment = Environment::new();
        let mut syntax = environment.syntax().to_builder();
        let syntax = syntax.trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| syntax_error(&error))?);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.set_formatter(python::write);
        environment.set_fuel(Some(MAX_STEPS));
        environment.set_recursion_limit(MAX_RECURSION);
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

    /// Returns the template's source.
    pub(super) fn source(&self) -> String {
        let template = self.environment.get_template(NAME);
        template.map_or_else(|_| String::new(), |template| template.source().to_owned())
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
        extra: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<String, ChatTemplateError> {
        let mut context = serde_json::Map::new();
        // `transformers` always passes these two.
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
        let mut output = BoundedOutput {
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
struct BoundedOutput {
    bytes: Vec<u8>,
    limit: usize,
}

/// Why [`BoundedOutput`] or `raise_exception` stops a template. It is found again in the chain of
/// sources of minijinja's error.
#[derive(Debug, thiserror::Error)]
enum Stop {
    #[error("more than {0} bytes of output")]
    TooMuchOutput(usize),
    #[error("{0}")]
    Refused(String),
}

impl Write for BoundedOutput {
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

/// Formats the present time in UTC by a format of `strftime`.
fn strftime_now(format: &str) -> Result<String, minijinja::Error> {
    let now = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
    jiff::fmt::strtime::format(format, &now)
        .map_err(|error| minijinja::Error::new(ErrorKind::InvalidOperation, error.to_string()))
}

/// Replaces `{% generation %}`, which marks the assistant's text for training and renders as its
/// contents, by a block that is always rendered.
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

/// Describes an error in one line: what is wrong and in which line of the template.
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
            return ChatTemplateError::TooManySteps { limit: MAX_STEPS };
        }
        cause = source.source();
    }
    failed(describe(error))
}
