//! `wisp completions`.

use anyhow::Result;
use clap::Args;
use clap_complete::Shell;

use crate::output;

/// Print a script that teaches a shell to complete wisp's commands and flags.
///
/// For bash: `wisp completions bash > ~/.local/share/bash-completion/completions/wisp`.
#[derive(Args)]
pub struct Completions {
    /// The shell to print the script for
    shell: Shell,
}

impl Completions {
    /// Prints the script for `program`, the whole command line of `wisp`.
    pub fn run(self, mut program: clap::Command) -> Result<()> {
        let name = program.get_name().to_string();
        let mut script = Vec::new();
        // Not straight to standard output: the generator panics when a write fails.
        clap_complete::generate(self.shell, &mut program, name, &mut script);
        output::write_raw(&script)
    }
}
