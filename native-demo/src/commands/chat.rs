//! `wisp chat`.

use std::io::Write;

use anyhow::Result;
use clap::Args;
use rustyline::{DefaultEditor, error::ReadlineError};
use wisp_engine::{Event, Message, pipelines::GenerateOptions};

use super::ControlTokens;
use crate::{
    adapter::AdapterArgs,
    interrupt,
    open::load,
    sampling::SamplingArgs,
    settings::{DEVICE, GENERATION, LIMITS, LORA, MODEL, Settings},
};

/// Chat with a model in the terminal.
#[derive(Args)]
pub struct Chat {
    /// The system message at the start of the chat
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    #[command(flatten)]
    control_tokens: ControlTokens,
    #[command(flatten)]
    sampling: SamplingArgs,
    #[command(flatten)]
    adapter: AdapterArgs,
    #[command(flatten)]
    settings: Settings<{ MODEL | DEVICE | LIMITS | LORA | GENERATION }>,
}

impl Chat {
    pub fn run(self) -> Result<()> {
        let settings = self.settings.resolve()?;
        let sampling = self.sampling.params(&settings.config)?;
        let open = settings.open()?;
        // A model that cannot chat is refused before it is loaded.
        let question = [Message::new("user", "")];
        open.text()
            .chat_prompt(&question, self.control_tokens.policy())?;
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
        eprintln!(
            "{} on {}. /clear starts a new chat, /exit or Ctrl-D exits, Ctrl-C stops an answer.",
            settings.name(),
            settings.device_of(&model)
        );
        interrupt::catch();
        let mut editor = DefaultEditor::new()?;
        loop {
            let line = match editor.readline("> ") {
                Ok(line) => line.trim().to_string(),
                Err(ReadlineError::Interrupted) => continue,
                Err(ReadlineError::Eof) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            match line.as_str() {
                "" => continue,
                "/exit" | "/quit" => return Ok(()),
                "/clear" => {
                    chat.clear();
                    continue;
                }
                _ => {}
            }
            // A line that cannot be added to the history is no reason to stop.
            let _ = editor.add_history_entry(&line);
            if let Err(error) = answer(&mut chat, &line, &options) {
                eprintln!("error: {error:#}");
            }
            interrupt::forget();
        }
    }
}

/// Streams the model's answer to standard output.
fn answer(chat: &mut wisp_engine::Chat, line: &str, options: &GenerateOptions) -> Result<()> {
    let dropped = chat.dropped().len();
    let answer = chat.send_with(line, |answer| answer.options(options.clone()));
    interrupt::cancels(answer.events().canceller());
    let mut out = std::io::stdout().lock();
    for event in answer {
        if let Event::Text(piece) = event? {
            write!(out, "{piece}")?;
            out.flush()?;
        }
    }
    writeln!(out)?;
    if chat.dropped().len() > dropped {
        eprintln!("note: the oldest messages no longer fit the context and were dropped");
    }
    Ok(())
}
