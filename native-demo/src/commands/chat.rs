//! `wisp chat`.

use std::{io::Write, ops::ControlFlow};

use anyhow::Result;
use clap::Args;
use rustyline::{DefaultEditor, error::ReadlineError};
use wisp_engine::pipelines::{chat_template::Message, text_generation::GenerateOptions};

use crate::{
    adapter::AdapterArgs,
    engine::{Engine, Files},
    interrupt,
    settings::{DEVICE, GENERATION, LIMITS, LORA, MODEL, Settings},
    setup::SamplingArgs,
};

/// Talk with a model in the terminal.
#[derive(Args)]
pub struct Chat {
    /// What the model is told beforehand
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
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
        let mut options = GenerateOptions {
            sampling: self.sampling.params(&settings.config)?,
            max_new_tokens: settings.config.new_tokens(),
            stop: Vec::new(),
            ignore_eos: false,
            adapter: None,
        };
        let files = Files::open(&settings)?;
        let mut messages: Vec<Message> = self
            .system
            .iter()
            .map(|text| Message::new("system", text))
            .collect();
        files
            .text()
            .chat_prompt(&[Message::new("user", "")], true)?;
        let mut engine = files.load(&settings, None)?;
        options.adapter = self.adapter.choose(&engine.generator)?;
        eprintln!(
            "{} on {}. /clear starts anew, /exit or Ctrl-D leaves, Ctrl-C ends an answer.",
            settings.name(),
            engine.device
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
                    messages.retain(|message| message.role == "system");
                    continue;
                }
                _ => {}
            }
            // History is a convenience; a line that cannot be kept is no reason to stop.
            let _ = editor.add_history_entry(&line);
            messages.push(Message::new("user", &line));
            match self.answer(&mut engine, &options, &mut messages) {
                Ok(()) => {}
                Err(error) => {
                    messages.pop();
                    eprintln!("error: {error:#}");
                }
            }
            interrupt::forget();
        }
    }

    /// Generates the next message, forgetting the oldest ones if the context is full.
    fn answer(
        &self,
        engine: &mut Engine,
        options: &GenerateOptions,
        messages: &mut Vec<Message>,
    ) -> Result<()> {
        let max_length = engine.max_length() as usize;
        let mut prompt = engine.generator.text().chat_prompt(messages, true)?;
        let first_turn = usize::from(
            messages
                .first()
                .is_some_and(|message| message.role == "system"),
        );
        while prompt.len() + 64.min(max_length / 2) > max_length && messages.len() > first_turn + 2
        {
            messages.drain(first_turn..first_turn + 2);
            prompt = engine.generator.text().chat_prompt(messages, true)?;
        }
        let mut out = std::io::stdout().lock();
        let mut written = Ok(());
        let generation = engine
            .generator
            .generate_blocking(&prompt, options, |piece| {
                written = write!(out, "{piece}").and_then(|()| out.flush());
                if interrupt::happened() || written.is_err() {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })?;
        written?;
        writeln!(out)?;
        messages.push(Message::new("assistant", generation.text.trim()));
        Ok(())
    }
}
