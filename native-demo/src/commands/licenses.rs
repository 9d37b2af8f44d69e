//! `wisp licenses`.

use anyhow::Result;
use clap::Args;

use crate::output;

/// The licences of the libraries in the program, collected by `tests/scripts/notices.sh`.
const NOTICES: &str = include_str!("../../THIRD-PARTY-NOTICES");

/// Print the licences of Wisp and of the libraries inside this program.
#[derive(Args)]
pub struct Licenses {}

impl Licenses {
    pub fn run(self) -> Result<()> {
        let own = "Wisp is licensed under either of the MIT license and the Apache License, Version 2.0, \
            at your option.";
        output::print(format_args!("{own}\n\n{NOTICES}"))
    }
}
