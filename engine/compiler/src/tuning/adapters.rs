//! Defaults by class of adapter: what a [`Tuning`] says for all adapters of a kind.
//!
//! Rows get here from the tables of `wisp tune` that users send in: a choice that wins by more than the
//! noise on two cards of a class, for several shapes, becomes a row. [`wisp_shaders::candidates`] has the
//! order that suits most devices; a class needs a row only where it differs.

use wisp_types::{Api, DeviceInfo};

use super::{CallShape, TunedCall, Tuning};
use crate::program::KernelChoice;

/// The adapters that a row is for.
struct AdapterClass {
    /// A part of the adapter's or the driver's name, in lower case, that identifies the vendor.
    vendor: &'static str,
    /// The interface; `None` for any.
    api: Option<Api>,
    /// Whether the GPU shares the host's memory; `None` for either.
    integrated: Option<bool>,
    /// Whether kernels may use `f16`; `None` for either.
    f16: Option<bool>,
    /// The smallest and the largest subgroup size, in invocations.
    subgroup_sizes: [u32; 2],
}

/// The kernels of an op on a class of adapters.
struct Row {
    class: AdapterClass,
    /// The op in the names of its kernels, such as `matmul.q4_0`.
    op: &'static str,
    /// The width of the rows that the kernel reads; 0 for any.
    cols: u64,
    /// The variants, each with the most rows (tokens) that it serves.
    variants: &'static [(&'static str, u32)],
}

/// The table, special rows before general ones.
const ROWS: &[Row] = &[];

impl AdapterClass {
    fn contains(&self, device: &DeviceInfo) -> bool {
        let capabilities = &device.capabilities;
        let [least, most] = self.subgroup_sizes;
        let names = [&device.name, &device.driver];
        let has_name = |name: &&String| name.to_lowercase().contains(self.vendor);
        names.iter().any(has_name)
            && self.api.is_none_or(|api| api == device.api)
            && self
                .integrated
                .is_none_or(|integrated| integrated == device.integrated)
            && self.f16.is_none_or(|f16| f16 == capabilities.f16)
            && (least..=most).contains(&capabilities.min_subgroup_size)
    }
}

fn tuning(rows: &[Row], device: &DeviceInfo) -> Tuning {
    let rows = rows.iter().filter(|row| row.class.contains(device));
    let call = |row: &Row| TunedCall {
        shape: CallShape {
            op: row.op.into(),
            cols: row.cols,
            width: 0,
        },
        kernels: row
            .variants
            .iter()
            .map(|(variant, max_rows)| KernelChoice {
                name: format!("{}.{variant}", row.op),
                max_rows: *max_rows,
            })
            .collect(),
    };
    Tuning::new(rows.map(call).collect())
}

impl Tuning {
    /// Returns what is known of the class of adapters that a device belongs to.
    pub fn of_adapter(device: &DeviceInfo) -> Tuning {
        tuning(ROWS, device)
    }
}

#[cfg(test)]
mod tests {
    use wisp_types::Capabilities;

    use super::*;

    const ANY: AdapterClass = AdapterClass {
        vendor: "",
        api: None,
        integrated: None,
        f16: None,
        subgroup_sizes: [0, 128],
    };

    fn row(class: AdapterClass) -> Row {
        Row {
            class,
            op: "matmul.q4_0",
            cols: 0,
            variants: &[("scalar", u32::MAX)],
        }
    }

    #[test]
    fn rows_apply_to_the_adapters_of_their_class() {
        let device = DeviceInfo {
            name: "AMD Radeon RX 7900 XTX (RADV NAVI31)".into(),
            api: Api::Vulkan,
            software: false,
            integrated: false,
            driver: "radv".into(),
            capabilities: Capabilities {
                subgroups: true,
                min_subgroup_size: 32,
                f16: true,
                ..Capabilities::BASELINE
            },
        };
        let applies = |class| !tuning(&[row(class)], &device).is_empty();
        assert!(
            applies(ANY)
                && applies(AdapterClass {
                    vendor: "radv",
                    ..ANY
                })
        );
        assert!(!applies(AdapterClass {
            vendor: "nvidia",
            ..ANY
        }));
        assert!(!applies(AdapterClass {
            api: Some(Api::Metal),
            ..ANY
        }));
        assert!(!applies(AdapterClass {
            integrated: Some(true),
            ..ANY
        }));
        assert!(!applies(AdapterClass {
            f16: Some(false),
            ..ANY
        }));
        assert!(!applies(AdapterClass {
            subgroup_sizes: [64, 64],
            ..ANY
        }));
        assert!(tuning(&[row(ANY)], &device).is_current());
    }

    #[test]
    fn every_row_names_kernels_of_its_op() {
        for row in ROWS {
            for (variant, max_rows) in row.variants {
                let kernel = wisp_shaders::kernel(&format!("{}.{variant}", row.op));
                let kernel = kernel.unwrap_or_else(|| panic!("{}.{variant}", row.op));
                assert!(*max_rows <= kernel.max_grid_y, "{}", kernel.name);
            }
            assert!(
                row.variants
                    .last()
                    .is_some_and(|(_, rows)| *rows == u32::MAX)
            );
        }
    }
}
