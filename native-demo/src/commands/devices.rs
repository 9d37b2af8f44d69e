//! `wisp devices`.

use anyhow::Result;
use clap::Args;
use comfy_table::Table;
use serde_json::json;
use wisp_engine::{
    device::{self, Api, DeviceInfo, DeviceSpec, SkipReason},
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
fn tuned_shapes(info: &DeviceInfo) -> usize {
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
                        "skipped_by_auto": SkipReason::of(info).map(|reason| reason.to_string()),
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
                (info.software && info.api != Api::Host, "software"),
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
        for line in about_auto(&devices) {
            message!("{line}");
        }
        Ok(())
    }
}

/// Returns lines that say which device `auto` is, and for each that it passes over why.
fn about_auto(devices: &[(DeviceSpec, DeviceInfo)]) -> Vec<String> {
    let mut all = devices.iter();
    let chosen = all.find(|(_, info)| SkipReason::of(info).is_none());
    let chosen = chosen.map(|(spec, info)| match info.api {
        Api::Host => "auto is host: there is no GPU that it chooses".to_string(),
        _ => format!("auto is {spec}: {}", escape::line(&info.name)),
    });
    let skipped = devices.iter().filter_map(|(spec, info)| {
        let (reason, name) = (SkipReason::of(info)?, escape::line(&info.name));
        Some(format!("auto passes over {spec} ({name}): {reason}"))
    });
    chosen.into_iter().chain(skipped).collect()
}

#[cfg(test)]
mod tests {
    use wisp_engine::device::Capabilities;

    use super::*;

    fn device(api: Api, index: usize, software: bool) -> (DeviceSpec, DeviceInfo) {
        let info = DeviceInfo {
            name: "Card\n1".into(),
            api,
            software,
            integrated: false,
            driver: String::new(),
            capabilities: Capabilities::BASELINE,
        };
        (DeviceSpec::Adapter { api, index }, info)
    }

    #[test]
    fn lines_name_the_device_of_auto_and_why_it_is_no_other() {
        let host = || device(Api::Host, 0, true);
        let all = [
            device(Api::Vulkan, 0, true),
            device(Api::Dx12, 0, false),
            host(),
        ];
        let expected = [
            "auto is host: there is no GPU that it chooses",
            "auto passes over vulkan (Card\\u{a}1): it is a software adapter, which runs on the CPU as the host does",
            "auto passes over dx12 (Card\\u{a}1): dxcompiler.dll is missing: put it beside the program or on PATH",
        ];
        assert_eq!(about_auto(&all), expected);
        let all = [
            device(Api::Vulkan, 0, false),
            device(Api::Vulkan, 1, false),
            device(Api::Cuda, 0, false),
            host(),
        ];
        let expected = [
            "auto is vulkan: Card\\u{a}1",
            "auto passes over cuda (Card\\u{a}1): CUDA is used only if it is named",
        ];
        assert_eq!(about_auto(&all), expected);
        assert_eq!(about_auto(&[host()]).len(), 1);
    }
}
