//! `wisp man`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use clap_mangen::Man;
use wisp_engine::files;

use crate::{
    destination::{self, Contents, Inputs},
    output,
};

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
        if folder.exists() && !folder.is_dir() {
            bail!(
                "cannot write man pages into {}: it is no folder",
                folder.display()
            );
        }
        let write = |page: Page| -> Result<()> {
            let path = folder.join(page.file_name);
            destination::check(&path, Contents::ManPage, &Inputs::none())?;
            Ok(files::write_atomic(&path, &page.text)?)
        };
        std::fs::create_dir_all(&folder)
            .map_err(Into::into)
            .and_then(|()| pages(program)?.into_iter().try_for_each(write))
            .with_context(|| format!("cannot write man pages into {}", folder.display()))
    }
}

/// A page of the manual.
struct Page {
    file_name: String,
    text: Vec<u8>,
}

/// Returns the page of a program and those of its commands.
fn pages(program: clap::Command) -> Result<Vec<Page>> {
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let commands = program.get_subcommands().cloned().collect::<Vec<_>>();
    let page = |command| {
        let (page, mut text) = (Man::new(command), Vec::new());
        page.render(&mut text)?;
        let file_name = page.get_filename();
        Ok(Page { file_name, text })
    };
    commands.into_iter().chain([program]).map(page).collect()
}
