//! `wisp bench`.
use anyhow::Result;
use clap::Args;
/// x
#[derive(Args)]
pub struct Bench {}
impl Bench { pub fn run(self) -> Result<()> { Ok(()) } }
