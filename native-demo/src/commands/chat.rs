//! `wisp chat`.

use std::io::{self, ErrorKind, IsTerminal};

use anyhow::{Result, bail};
use clap::Args;
use rustyline::{Behavior, Config, DefaultEditor, error::ReadlineError};
use wisp_engine::{
    Event, FinishReason, Message, Model, chat::ReasoningEffort, pipelines::GenerateOptions,
};

use super::{ControlTokens, length_limit::LengthLimit};
use crate::{
    adapter::AdapterArgs,
    error_line, interrupt,
    open::load,
    output::{self, counted, message, print_generated},
    sampling::{GenerationConfig, SamplingArgs},
    settings::{CHAT, DEVICE, GENERATION, LIMITS, LORA, MODEL, Settings},
};

/// What `/help` prints.
const HELP: &str = "\
/help    lists these commands
/clear   starts a new chat
/exit    exits, as Ctrl-D does; also /quit
//TEXT   sends a text that begins with a slash
Ctrl-C   stops an answer";

/// Chat with a model in the terminal.
///
/// Without a terminal, each line of standard input is a message, and the exit status is 1 if a line failed.
#[derive(Args)]
pub struct Chat {
    /// The system message at the start of the chat
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// How much the model thinks before it answers, if its chat template can tell it: none, minimal, low, medium,
    /// high, xhigh or max [default: the template's own]
    #[arg(long, value_name = "EFFORT")]
    reasoning_effort: Option<ReasoningEffort>,
    #[command(flatten)]
    control_tokens: ControlTokens,
    #[command(flatten, next_help_heading = "Sampling")]
    sampling: SamplingArgs,
    /// How tokens are sampled where no flag says it: as the model's files recommend, or with the program's defaults
    #[arg(long, help_heading = "Sampling", value_enum, value_name = "WHICH", default_value_t = GenerationConfig::Auto)]
    generation_config: GenerationConfig,
    #[command(flatten, next_help_heading = "Adapters")]
    adapter: AdapterArgs,
    #[command(flatten)]
    settings: Settings<{ MODEL | DEVICE | LIMITS | LORA | GENERATION | CHAT }>,
}

/// A line that the user typed.
#[derive(Debug, PartialEq)]
enum Line<'a> {
    Nothing,
    Help,
    Clear,
    Exit,
    Unknown(&'a str),
    /// A command with something behind it.
    WithArgument(&'a str),
    Text(&'a str),
}

impl Line<'_> {
    fn parse(line: &str) -> Line<'_> {
        let line = line.trim();
        let name = line.split_whitespace().next().unwrap_or(line);
        let command = match name {
            "" => Line::Nothing,
            "/help" | "/?" => Line::Help,
            "/clear" | "/reset" => Line::Clear,
            "/exit" | "/quit" => Line::Exit,
            _ => {
                return match line.strip_prefix('/') {
                    Some(text) if text.starts_with('/') => Line::Text(text),
                    Some(_) => Line::Unknown(name),
                    None => Line::Text(line),
                };
            }
        };
        match name == line {
            true => command,
            false => Line::WithArgument(name),
        }
    }
}

impl Chat {
    pub fn run(self) -> Result<()> {
        let settings = self.settings.resolve()?;
        let mut sampling = self.sampling.params(&settings)?;
        let open = settings.open()?;
        let recommended = self.generation_config.defaults(open.text());
        self.sampling
            .complete(&mut sampling, &settings, recommended)?;
        // A model that cannot chat is refused before it is loaded.
        let question = [Message::new("user", "")];
        open.text()
            .chat_prompt(&question, self.control_tokens.policy())?;
        let limit = LengthLimit::new(&open, settings.config.new_tokens());
        let model = load(open)?;
        let options = GenerateOptions {
            sampling,
            max_new_tokens: settings.config.new_tokens(),
            adapter: self.adapter.choose(&model)?,
            ..GenerateOptions::default()
        };
        let mut chat = model
            .chat()
            .allow_control_tokens(self.control_tokens.allow_control_tokens);
        if let Some(text) = &self.system {
            chat = chat.system(text);
        }
        if let Some(effort) = self.reasoning_effort {
            chat = chat.reasoning_effort(effort);
        }
        message!(
            "{} on {}. /clear starts a new chat, /exit or Ctrl-D exits, Ctrl-C stops an answer, /help lists all.",
            settings.name(),
            settings.device_of(&model)
        );
        if options.sampling.temperature > 0.0 {
            message!("seed {}", options.sampling.seed);
        }
        Conversation {
            model,
            chat,
            options,
            limit,
        }
        .run()
    }
}

/// Returns the editor of the lines that a user types, which stays on the terminal if answers go elsewhere.
fn editor() -> Result<DefaultEditor> {
    let behavior = match io::stdin().is_terminal() && !io::stdout().is_terminal() {
        true => Behavior::PreferTerm,
        false => Behavior::Stdio,
    };
    let config = Config::builder().behavior(behavior).build();
    Ok(DefaultEditor::with_config(config)?)
}

/// A conversation in the terminal.
struct Conversation {
    model: Model,
    chat: wisp_engine::Chat,
    options: GenerateOptions,
    limit: LengthLimit,
}

impl Conversation {
    /// Reads lines and answers them until the input ends.
    ///
    /// # Errors
    ///
    /// If standard input or output fails, or a line that no person typed had no answer.
    fn run(mut self) -> Result<()> {
        interrupt::keep_terminal();
        let mut editor = editor()?;
        let mut failures = 0;
        for number in 1u64.. {
            let line = match editor.readline("> ") {
                Ok(line) => line,
                Err(ReadlineError::Interrupted) => continue,
                Err(ReadlineError::Eof) => break,
                Err(ReadlineError::Io(error)) if error.kind() == ErrorKind::InvalidData => {
                    bail!("standard input is not text in UTF-8: line {number} is invalid")
                }
                Err(error) => return Err(error.into()),
            };
            match Line::parse(&line) {
                Line::Nothing => continue,
                Line::Help => message!("{HELP}"),
                Line::Exit => break,
                Line::Clear => self.chat.clear(),
                Line::Unknown(name) => {
                    failures += 1;
                    message!(
                        "error: there is no command {name}; //TEXT sends a text that begins with a slash\n{HELP}"
                    );
                }
                Line::WithArgument(name) => {
                    failures += 1;
                    message!(
                        "error: {name} takes no argument; //TEXT sends a text that begins with a slash"
                    );
                }
                Line::Text(text) => failures += u64::from(!self.answer(text)?),
            }
            // A line that cannot be added to the history is no reason to stop.
            let _ = editor.add_history_entry(line.trim());
            if !interrupt::forget() {
                // A signal ends the program, with its own exit status.
                return Ok(());
            }
        }
        if failures > 0 && !io::stdin().is_terminal() {
            bail!("{} failed", counted(failures, "line"));
        }
        Ok(())
    }

    /// Prints the model's answer, or why there is none. Returns whether there is one.
    ///
    /// # Errors
    ///
    /// If standard output fails.
    fn answer(&mut self, text: &str) -> Result<bool> {
        let answered = self.stream(text);
        interrupt::end();
        // Another seed for each answer, so that the same question has another answer.
        let seed = &mut self.options.sampling.seed;
        *seed = seed.wrapping_add(1);
        match answered {
            Err(error) if error.is::<output::StdoutFailed>() => Err(error),
            Err(error) => {
                output::end_line();
                message!("error: {}", error_line::of(&error));
                Ok(false)
            }
            Ok(()) => Ok(true),
        }
    }

    /// Streams the model's answer to standard output.
    fn stream(&mut self, text: &str) -> Result<()> {
        let dropped = self.chat.dropped().len();
        let options = self.options.clone();
        let answer = self
            .chat
            .send_with(text, |answer| answer.options(options.clone()));
        interrupt::begin(answer.events().canceller());
        let (mut note, mut has_thought) = (None, false);
        for event in answer {
            match event? {
                Event::Reasoning(piece) => {
                    has_thought = true;
                    print_generated(&piece)?;
                }
                Event::Text(piece) => {
                    if std::mem::take(&mut has_thought) {
                        print_generated("\n\n")?;
                    }
                    print_generated(&piece)?;
                }
                Event::End {
                    reason: FinishReason::Length,
                    usage,
                } => note = Some(self.limit.note(&self.model, usage)),
                _ => {}
            }
        }
        print_generated("\n")?;
        if let Some(note) = note {
            message!("note: {note}; /clear starts a new chat");
        }
        let dropped = self.chat.dropped().len().saturating_sub(dropped);
        if dropped > 0 {
            message!(
                "note: the {dropped} oldest messages were left out, because the {}; /clear starts a new chat",
                self.limit.full_context(self.model.context_length())
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_begin_with_a_slash_are_commands_unless_doubled() {
        for (line, expected) in [
            ("  ", Line::Nothing),
            ("/help", Line::Help),
            (" /clear ", Line::Clear),
            ("/quit", Line::Exit),
            ("/exit now", Line::WithArgument("/exit")),
            ("/clear\t all", Line::WithArgument("/clear")),
            ("/Clear", Line::Unknown("/Clear")),
            ("/save it here", Line::Unknown("/save")),
            ("/", Line::Unknown("/")),
            (
                "//etc/hosts: what is it?",
                Line::Text("/etc/hosts: what is it?"),
            ),
            ("a / b", Line::Text("a / b")),
        ] {
            assert_eq!(Line::parse(line), expected, "{line:?}");
        }
    }
}
