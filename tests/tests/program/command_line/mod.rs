//! The command line: its flags, its JSON, its exit status.

mod constraints;
mod inspection;
mod reasoning;
mod sampling;
mod streams;
mod usage;

use std::{
    io::{Read, Write},
    path::PathBuf,
    process::{Command, Stdio},
};

use serde_json::Value;
use wisp_tests::{
    program::{TestDevice, command, logits, run, run_command, run_with_input},
    shared::shared_data,
};

const HOST: [&str; 2] = ["--device", "host"];

fn generate(flags: &[&str]) -> Value {
    run([&["generate", "--json"], flags, &HOST].concat()).json()
}

fn tokens(json: &Value) -> Vec<u32> {
    let ids = json["tokens"].as_array().expect("tokens").iter();
    ids.map(|id| id.as_u64().expect("an id") as u32).collect()
}
