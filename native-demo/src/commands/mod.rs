//! The commands, one module each.

pub mod batch;
pub mod bench;
pub mod chat;
pub mod completions;
pub mod convert;
pub mod devices;
pub mod encode;
pub mod generate;
pub mod info;
mod length_limit;
pub mod licenses;
pub mod list;
pub mod logits;
pub mod man;
pub mod perplexity;
pub mod pull;
pub mod rerank;
pub mod serve;
pub mod tokenize;
pub mod tune;
pub mod warm_cache;

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use wisp_engine::{
    files::{FileKind, read_small_text, read_stream_text},
    pipelines::chat_template,
};

/// Rows of logits per run in commands that need the logits of all positions.
const LOGIT_ROWS: u64 = 64;

/// Whether a message may contain control tokens.
#[derive(Args)]
pub struct ControlTokens {
    /// Parse control tokens in chat messages, such as <|im_end|>; without this flag they are plain text
    #[arg(long)]
    pub allow_control_tokens: bool,
}

impl ControlTokens {
    pub fn policy(&self) -> chat_template::ControlTokens {
        chat_template::ControlTokens::allowed(self.allow_control_tokens)
    }
}

/// Token ids in the form of a flag, such as `1,2,3`.
#[derive(Clone, Debug)]
pub struct TokenList(pub Vec<u32>);

impl std::str::FromStr for TokenList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let token = |word: &str| {
            word.trim()
                .parse::<u32>()
                .map_err(|_| format!("{word:?} is not a token id; write token ids as 1,2,3"))
        };
        text.split(',')
            .map(token)
            .collect::<Result<_, _>>()
            .map(TokenList)
    }
}

/// What stands for standard input in the place of a file or a text.
pub const STDIN: &str = "-";

/// Whether standard input was read, after which it is empty.
static STDIN_WAS_READ: AtomicBool = AtomicBool::new(false);

/// Reads a text file, standard input for `-`, or what the shell has opened for `<(command)`.
pub fn read_text(path: &Path) -> Result<String> {
    let is_open = ["/dev/stdin", "/dev/fd", "/proc/self/fd"];
    let text = if path == Path::new(STDIN) {
        if STDIN_WAS_READ.swap(true, Ordering::Relaxed) {
            bail!("standard input is read twice: give one of the two as a file");
        }
        read_stream_text(std::io::stdin(), FileKind::Text)
    } else if is_open.iter().any(|open| path.starts_with(open)) {
        std::fs::File::open(path).and_then(|file| read_stream_text(file, FileKind::Text))
    } else {
        read_small_text(path, FileKind::Text)
    };
    text.with_context(|| format!("cannot read {}", shown(path)))
}

/// Returns a text of the command line, or what standard input has for `-`.
pub fn text_or_stdin(text: &str) -> Result<String> {
    match text {
        STDIN => read_text(Path::new(STDIN)),
        text => Ok(text.into()),
    }
}

/// Returns what messages call a text file that [`read_text`] reads.
pub fn shown(path: &Path) -> String {
    match path == Path::new(STDIN) {
        true => "standard input".into(),
        false => path.display().to_string(),
    }
}
