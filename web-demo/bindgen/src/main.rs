//! Generates the JavaScript of a wasm module, like the command line of wasm-bindgen.

use anyhow::{Context, Result};
use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let input = arguments.next().context("usage: bindgen INPUT.wasm FOLDER")?;
    let folder = arguments.next().context("usage: bindgen INPUT.wasm FOLDER")?;
    Bindgen::new()
        .input_path(input)
        .out_name("wisp_web")
        .web(true)?
        .omit_default_module_path(false)
        .typescript(true)
        .generate(folder)
}
