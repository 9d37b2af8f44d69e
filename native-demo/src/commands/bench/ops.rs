//! The report of `wisp bench --ops`: each kind of call, timed alone.

use std::time::Instant;

use anyhow::Result;
use comfy_table::{Table, presets::UTF8_HORIZONTAL_ONLY};
use serde::Serialize;
use wisp_engine::{
    device::measure::Ceilings,
    session::{Dims, Model},
};

use crate::{output::print_json, output::print_line};

/// The calls of one op with one kernel, measured alone.
#[derive(Serialize)]
struct OpReport {
    op: String,
    kernel: &'static str,
    calls: usize,
    microseconds: f64,
    gigabytes_per_second: Option<f64>,
    gigaflops: Option<f64>,
}

/// Returns dimensions for a run over `tokens` tokens with one row of logits, otherwise the largest sizes.
pub(super) fn run_dims(model: &Model, tokens: u32) -> Result<Dims> {
    let max = model.max_dims();
    let size = |name, max| match name {
        "tokens" => tokens.into(),
        "logit_rows" => 1,
        _ => max,
    };
    let sizes = max.iter().map(|(name, max)| (*name, size(*name, *max)));
    let sizes: Vec<(&str, u64)> = sizes.collect();
    Ok(model.dims(&sizes)?)
}

/// Times each kind of call in decode and in prefill of up to `prompt_tokens`, and prints the reports.
pub(super) fn report(
    model: &Model,
    prompt_tokens: u32,
    runs: u32,
    ceilings: Ceilings,
    json: bool,
) -> Result<()> {
    let prefill = prompt_tokens.min(model.max_dims()["tokens"] as u32);
    let mut sizes = vec![1, prefill];
    sizes.dedup();
    let mut reports: Vec<(u32, OpReport)> = Vec::new();
    for tokens in sizes {
        let ops = measure(model, tokens, runs)?;
        reports.extend(ops.into_iter().map(|op| (tokens, op)));
    }
    if json {
        let ops: Vec<_> = reports
            .iter()
            .map(|(tokens, op)| serde_json::json!({ "tokens": tokens, "op": op }))
            .collect();
        return print_json(&serde_json::json!({ "ops": ops, "ceilings": ceilings }));
    }
    print_line!("{}", table(&reports))?;
    print_line!(
        "ceilings: {:.2} GB/s, {:.1} GFLOP/s",
        ceilings.read_bytes_per_second / 1e9,
        ceilings.f32_operations_per_second / 1e9
    )
}

/// Times each kind of call of a run over `tokens` tokens.
fn measure(model: &Model, tokens: u32, runs: u32) -> Result<Vec<OpReport>> {
    let program = model.program();
    let dims = run_dims(model, tokens)?;
    let mut reports: Vec<OpReport> = Vec::new();
    for (index, call) in program.calls.iter().enumerate() {
        let Some(kernel) = model.kernel_of(index, &dims) else {
            continue;
        };
        // Calls of different layers differ only in the numbers of their labels.
        let op = call.label.replace(|c: char| c.is_ascii_digit(), "N");
        let mut known = reports.iter_mut();
        if let Some(known) = known.find(|known| known.op == op && known.kernel == kernel) {
            known.calls += 1;
            continue;
        }
        let seconds = time_call(model, index, &dims, runs)?;
        let product = call.is_product();
        let mut row_dims = call.grid[1].dims.iter();
        let rows = match row_dims.any(|dim| program.dims[*dim as usize] == "tokens") {
            true => f64::from(tokens),
            false => 1.0,
        };
        let bytes = || program.matrix_bytes(call) as f64;
        let operations = || 2.0 * rows * program.matrix_weights(call) as f64;
        reports.push(OpReport {
            op,
            kernel,
            calls: 1,
            microseconds: seconds * 1e6,
            gigabytes_per_second: product.then(|| bytes() / seconds / 1e9),
            gigaflops: product.then(|| operations() / seconds / 1e9),
        });
    }
    Ok(reports)
}

fn table(reports: &[(u32, OpReport)]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY).set_header([
        "tokens",
        "op",
        "kernel",
        "calls",
        "µs a call",
        "GB/s",
        "GFLOP/s",
    ]);
    let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.2}"));
    for (tokens, op) in reports {
        table.add_row([
            tokens.to_string(),
            op.op.clone(),
            op.kernel.into(),
            op.calls.to_string(),
            format!("{:.1}", op.microseconds),
            number(op.gigabytes_per_second),
            number(op.gigaflops),
        ]);
    }
    table
}

/// Returns the seconds of one call, the median over `runs` submissions of many calls each.
fn time_call(model: &Model, index: usize, dims: &Dims, runs: u32) -> Result<f64> {
    let time = |times: usize| -> Result<f64> {
        let start = Instant::now();
        model.run_call(index, dims, times)?;
        pollster::block_on(model.device().finish())?;
        Ok(start.elapsed().as_secs_f64())
    };
    // Enough calls for about 20 ms, so that the cost of a submission is small beside theirs.
    let times = (0.02 / time(1)?.max(1e-6)).clamp(1.0, 256.0) as usize;
    let mut seconds = (0..runs)
        .map(|_| Ok(time(times)? / times as f64))
        .collect::<Result<Vec<f64>>>()?;
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[seconds.len() / 2])
}
