//! `wisp`: language models on any GPU from one command.
//!
//! What a program reads goes to standard output, everything else to standard error. Exit status: 0
//! done, 1 the input or the environment is at fault, 2 wrong usage, 130 interrupted.

mod adapter;
mod commands;

mod interrupt;
mod open;
mod sampling;
mod settings;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Language models on any GPU: Vulkan, Metal, DX12 or the host CPU.
///
/// Without --model, the small model inside the program answers.
#[derive(Parser)]
#[command(version, about, max_term_width = 100, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Continue a text, or answer a prompt with --chat
    Generate(commands::generate::Generate),
    /// Talk with a model in the terminal
    Chat(commands::chat::Chat),
    /// Write the logits of every position to a safetensors file
    Logits(commands::logits::Logits),
    /// Write a model as a GGUF file or in safetensors, in another encoding if asked
    Convert(commands::convert::Convert),
    /// Turn texts into embeddings, with an encoder such as BERT
    Encode(commands::encode::Encode),
    /// Show the tokens of a text
    Tokenize(commands::tokenize::Tokenize),
    /// Measure how well a model predicts a text
    Perplexity(commands::perplexity::Perplexity),
    /// Measure speed, next to what the device can do at most
    Bench(commands::bench::Bench),
    /// Compile a model ahead of its use, for this device or another
    WarmCache(commands::warm_cache::WarmCache),
    /// List the devices of this machine
    Devices(commands::devices::Devices),
    /// Describe a model, and the memory that it will need
    Info(commands::info::Info),
    /// List what can run: architectures, encodings, and the models that were downloaded
    List(commands::list::List),
}

/// Mesa complains on standard error where there is no runtime directory, as for root or in CI.
#[cfg(unix)]
fn silence_mesa() {
    if std::env::var_os("XDG_RUNTIME_DIR").is_none() {
        // SAFETY: no other thread runs yet that could read the environment.
        unsafe { std::env::set_var("XDG_RUNTIME_DIR", std::env::temp_dir()) };
    }
}

fn main() -> ExitCode {
    #[cfg(unix)]
    silence_mesa();
    let cli = Cli::parse();
    let done = match cli.command {
        Command::Generate(command) => command.run(),
        Command::Chat(command) => command.run(),
        Command::Logits(command) => command.run(),
        Command::Convert(command) => command.run(),
        Command::Encode(command) => command.run(),
        Command::Tokenize(command) => command.run(),
        Command::Perplexity(command) => command.run(),
        Command::Bench(command) => command.run(),
        Command::WarmCache(command) => command.run(),
        Command::Devices(command) => command.run(),
        Command::Info(command) => command.run(),
        Command::List(command) => command.run(),
    };
    match done {
        Ok(()) if interrupt::happened() => ExitCode::from(130),
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", told(&error));
            if interrupt::happened() {
                ExitCode::from(130)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

/// An error and its causes in one line. Some tell their causes themselves: none is told twice.
fn told(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if !text.contains(&cause) {
            text += if text.is_empty() { "" } else { ": " };
            text += &cause;
        }
    }
    text.replace('\n', " ")
}

/// True if whoever read standard output has left, as `head` does.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
