//! `wisp convert`.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use comfy_table::{Table, presets::NOTHING};
use serde_json::json;
use wisp_engine::{
    Canceller,
    pipelines::{
        WeightsFormat,
        convert::{self, ConvertOptions, ConvertReport, TensorStats},
        format_bytes,
    },
    weights::{Encoding, encodings::QUANTIZABLE},
};

use crate::{
    destination::{self, Contents, Inputs},
    escape,
    flags::with_flags,
    interrupt,
    open::files,
    output::{message, print_json, print_line},
    progress::progress_bar,
    settings::{MODEL, Settings},
};

/// Convert a model to GGUF or safetensors, optionally in another encoding.
#[derive(Args)]
pub struct Convert {
    /// The GGUF file to write, or the directory for safetensors
    #[arg(long, value_name = "FILE.gguf|DIRECTORY")]
    out: PathBuf,
    /// The encoding of matrices: f32, f16, bf16, and in GGUF q8_0, q6_k, q5_k, q5_1, q5_0, q4_k, q4_1 or q4_0; rows that
    /// are not a multiple of 256 weights become q8_0, q5_1 or q5_0 in the place of q6_k, q5_k or q4_k, or stay as they are if
    /// that would be larger [default: the model's]
    #[arg(long, value_name = "ENCODING", value_parser = encoding)]
    encoding: Option<Encoding>,
    /// Replace the output if it exists and is a file; never a file of the model, and never a directory
    #[arg(long)]
    force: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    settings: Settings<{ MODEL }>,
}

/// Parses the name of an encoding, in lower or upper case.
fn encoding(text: &str) -> Result<Encoding, String> {
    let known = QUANTIZABLE.into_iter();
    let mut known = known.filter(|encoding| encoding.name().eq_ignore_ascii_case(text));
    known.next().ok_or_else(|| {
        let names = QUANTIZABLE.map(|encoding| encoding.name()).join(", ");
        format!("expected one of {names}")
    })
}

impl Convert {
    pub fn run(self) -> Result<()> {
        destination::check_name(&self.out)?;
        let to_gguf = match WeightsFormat::of(&self.out.to_string_lossy()) {
            Some(WeightsFormat::Gguf) => true,
            None => false,
            Some(_) => bail!(
                "{} is neither a .gguf file nor a directory for safetensors",
                self.out.display()
            ),
        };
        let settings = self.settings.resolve()?;
        if settings.config.rope_type.is_some() {
            bail!(
                "--rope-type applies only to running a model: a conversion keeps the type of the model"
            );
        }
        let open = settings.open()?;
        let files = files(&open)?;
        if to_gguf && (self.force || !self.out.exists()) {
            let inputs = Inputs::of(&settings.config, &open);
            destination::check(&self.out, Contents::Model, &inputs)?;
        }
        interrupt::begin(Canceller::new());
        let bar = progress_bar("converting {bar:32} {percent}% {eta}");
        let options = ConvertOptions::default()
            .encoding(self.encoding)
            .force(self.force);
        let on_progress = &mut |done, total| {
            bar.set_length(total);
            bar.set_position(done);
            interrupt::or_continue()
        };
        let result = match to_gguf {
            true => convert::to_gguf(files, &self.out, options, on_progress),
            false => convert::to_safetensors(files, &self.out, options, on_progress),
        };
        interrupt::end();
        bar.finish_and_clear();
        let report = result?;
        for note in &report.notes {
            message!("note: {}", with_flags(note));
        }
        if self.json {
            let out = self.out.display().to_string();
            return print_json(&json!({"model": files.name, "out": out, "report": report}));
        }
        print_report(&report)
    }
}

/// Prints a table with a row for each kind of tensor and one for all tensors.
fn print_report(report: &ConvertReport) -> Result<()> {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header([
        "",
        "tensors",
        "encoding",
        "size",
        "bits",
        "relative error",
        "max error",
    ]);
    let mut row = |name: &str, stats: &TensorStats| {
        let encodings: Vec<&str> = stats.encodings.iter().map(|e| e.name()).collect();
        table.add_row([
            escape::line(name).into_owned(),
            stats.tensors.to_string(),
            encodings.join(", "),
            format_bytes(stats.bytes),
            format!("{:.2}", stats.bits_per_weight()),
            format!("{:.6}", stats.relative_error()),
            format!("{:.6}", stats.max_error),
        ]);
    };
    for (kind, stats) in &report.kinds {
        row(kind, stats);
    }
    row("all", &report.total);
    print_line!("{}", table.trim_fmt())
}
