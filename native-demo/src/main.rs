//! The `wisp` command.

fn main() {}
