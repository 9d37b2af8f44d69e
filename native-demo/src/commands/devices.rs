//! `wisp devices`.

use anyhow::Result;
use clap::Args;
use comfy_table::Table;
use serde_json::json;
use wisp_engine::{
    device,
    session::{Precision, tuning_file},
};

use crate::{
    escape,
    open::cache,
    output::{message, print_json, print_line},
};

/// List the devices of this machine.
#[derive(Args)]
pub struct Devices {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn mebibytes(bytes: u64) -> String {
    if bytes == u64::MAX {
        "any".into()
    } else {
        format!("{} MiB", bytes >> 20)
    }
}

/// Returns the number of shapes of calls for which `wisp tune` chose other kernels than the default, at the
/// default precision.
fn tuned_shapes(info: &device::DeviceInfo) -> usize {
    let tuning = cache().and_then(|cache| tuning_file::load(&cache, info, Precision::Exact));
    tuning.map_or(0, |tuning| tuning.calls().len())
}

impl Devices {
    pub fn run(self) -> Result<()> {
        let devices = pollster::block_on(device::list());
        if self.json {
            let devices: Vec<_> = devices
                .iter()
                .map(|(spec, info)| {
                    json!({
                        "device": spec.to_string(),
                        "info": info,
                        "tuned_shapes": tuned_shapes(info),
                    })
                })
                .collect();
            return print_json(&json!({ "devices": devices }));
        }
        let mut table = Table::new();
        table
            .load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY)
            .set_header(["--device", "name", "driver", "one binding", "features"]);
        for (spec, info) in &devices {
            let capabilities = &info.capabilities;
            let features = [
                (capabilities.subgroups, "subgroups"),
                (capabilities.f16, "f16"),
                (info.software && info.api != device::Api::Host, "software"),
                (tuned_shapes(info) > 0, "tuned"),
            ];
            let features: Vec<&str> = features
                .into_iter()
                .filter(|(has, _)| *has)
                .map(|(_, name)| name)
                .collect();
            let binding = mebibytes(capabilities.max_binding_bytes);
            table.add_row([
                spec.to_string(),
                escape::line(&info.name).into_owned(),
                escape::line(&info.driver).into_owned(),
                binding,
                features.join(", "),
            ]);
        }
        print_line!("{}", table.trim_fmt())?;
        let is_chosen = |info: &device::DeviceInfo| !info.software && info.api != device::Api::Cuda;
        match devices.iter().find(|(_, info)| is_chosen(info)) {
            Some((spec, info)) => message!("auto is {spec}: {}", info.name),
            None => message!(
                "auto is host: no hardware GPU was found (software adapters and CUDA are used only when named)"
            ),
        }
        Ok(())
    }
}
