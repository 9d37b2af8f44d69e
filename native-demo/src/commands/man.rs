//! `wisp man`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use clap_mangen::Man;

use crate::output;

/// Print the man page of wisp, or write one for every command.
#[derive(Args)]
pub struct ManPages {
    /// Write a page for wisp and for each of its commands into DIR, as wisp.1, wisp-generate.1, …
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl ManPages {
    /// Renders the pages of `program`, the whole command line of `wisp`.
    pub fn run(self, program: clap::Command) -> Result<()> {
        let Some(folder) = self.out else {
            let mut page = Vec::new();
            Man::new(program.disable_help_subcommand(true)).render(&mut page)?;
            return output::write_raw(&page);
        };
        std::fs::create_dir_all(&folder)
            .and_then(|()| clap_mangen::generate_to(program, &folder))
            .with_context(|| format!("cannot write man pages into {}", folder.display()))
    }
}
