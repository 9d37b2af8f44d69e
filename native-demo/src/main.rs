//! `wisp`: runs language models on any GPU from the command line.
//!
//! Results go to standard output, everything else to standard error. The exit status is 0 for success, 1
//! for an error in the input or the environment, 2 for invalid usage and 130 for an interrupt (for another signal, 128 and its
//! number).

// All output goes through `output`, where a failed write is an error and not a panic.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod adapter;
mod commands;
mod constraint;
mod destination;
mod error_line;
mod escape;
mod flags;
mod interrupt;
mod log;
mod logprobs;
mod open;
mod output;
mod progress;
mod sampling;
mod serve;
mod settings;
mod values;

use std::{ffi::OsString, process::ExitCode};

use anyhow::Context;
use clap::{CommandFactory, Parser, Subcommand};

/// Runs language models on any GPU (Vulkan, Metal, DX12) or the host CPU.
///
/// Without --model, the small model that is built into the program runs.
#[derive(Parser)]
#[command(
    name = "wisp",
    version,
    about,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = "WISP_LOG=debug (or any filter in the syntax of RUST_LOG) logs to standard error."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

// Without comments: the help of a command is the whole comment of its type, which one here would replace.
#[derive(Subcommand)]
enum Command {
    Generate(Box<commands::generate::Generate>),
    Chat(commands::chat::Chat),
    Logits(commands::logits::Logits),
    Convert(commands::convert::Convert),
    Encode(commands::encode::Encode),
    Rerank(commands::rerank::Rerank),
    Serve(commands::serve::Serve),
    Batch(commands::batch::Batch),
    Tokenize(commands::tokenize::Tokenize),
    Perplexity(commands::perplexity::Perplexity),
    Bench(commands::bench::Bench),
    Tune(commands::tune::Tune),
    WarmCache(commands::warm_cache::WarmCache),
    Devices(commands::devices::Devices),
    Pull(commands::pull::Pull),
    Info(commands::info::Info),
    List(commands::list::List),
    Completions(commands::completions::Completions),
    Man(commands::man::ManPages),
    Licenses(commands::licenses::Licenses),
}

/// Sets a runtime directory if there is none, as for root or in CI: Mesa would print warnings about it.
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
    // Without it, signals end the program as ever.
    let _ = interrupt::listen();
    let cli = log::init().and_then(|()| settings::sources::parse::<Cli>());
    exit_code(cli.and_then(|cli| run(cli.command)))
}

/// Prints the error of a result, and returns the exit status.
fn exit_code(result: anyhow::Result<()>) -> ExitCode {
    let status = match result.and_then(|()| output::flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => match error.downcast_ref() {
            Some(shown) => return print_usage(shown),
            None => {
                output::end_line();
                output::message!("error: {}", error_line::of(&error));
                ExitCode::FAILURE
            }
        },
    };
    interrupt::status().map_or(status, ExitCode::from)
}

/// Prints help, the version or what is wrong with the command line.
fn print_usage(shown: &clap::Error) -> ExitCode {
    if !shown.use_stderr() {
        return exit_code(shown.print().context(output::StdoutFailed));
    }
    let is_plain = |arg: OsString| escape::line(&arg.to_string_lossy()) == arg.to_string_lossy();
    match std::env::args_os().all(is_plain) {
        // With colours, on a terminal.
        true => _ = shown.print(),
        false => output::message!("{}", shown.render().to_string().trim_end()),
    }
    ExitCode::from(2)
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Generate(command) => command.run(),
        Command::Chat(command) => command.run(),
        Command::Logits(command) => command.run(),
        Command::Convert(command) => command.run(),
        Command::Encode(command) => command.run(),
        Command::Rerank(command) => command.run(),
        Command::Serve(command) => command.run(),
        Command::Batch(command) => command.run(),
        Command::Tokenize(command) => command.run(),
        Command::Perplexity(command) => command.run(),
        Command::Bench(command) => command.run(),
        Command::Tune(command) => command.run(),
        Command::WarmCache(command) => command.run(),
        Command::Devices(command) => command.run(),
        Command::Pull(command) => command.run(),
        Command::Info(command) => command.run(),
        Command::List(command) => command.run(),
        Command::Completions(command) => command.run(Cli::command()),
        Command::Man(command) => command.run(Cli::command()),
        Command::Licenses(command) => command.run(),
    }
}
