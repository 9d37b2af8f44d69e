//! Which kernels GPUs select, by the rules of [`wisp_shaders`].

use wisp_shaders::{DeviceClass, Kernel, Needs};

/// True if some GPU selects a kernel for some call, perhaps after tuning. Kernels with cooperative matrices stand behind
/// others, because they wait for one.
pub fn is_selected(kernel: &Kernel) -> bool {
    let candidates = wisp_shaders::candidates(kernel.op);
    let mut better = candidates.take_while(|other| other.name != kernel.name);
    let waits = kernel.needs.matrix_size > 0;
    kernel.device_class != DeviceClass::Software
        && (waits || !better.any(|other| replaces(other, kernel)))
}

/// True if every GPU that could select `kernel` for a call could select `other` for it.
fn replaces(other: &Kernel, kernel: &Kernel) -> bool {
    other.device_class != DeviceClass::Software
        && other.needs == Needs::default()
        && other
            .switches
            .iter()
            .all(|switch| kernel.switches.contains(switch))
        && kernel.cols_multiple.is_multiple_of(other.cols_multiple)
        && other.max_cols >= kernel.max_cols
        && other.max_grid_y >= kernel.max_grid_y
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel() -> Kernel {
        Kernel {
            device_class: DeviceClass::Gpu,
            needs: Needs::default(),
            switches: &[],
            cols_multiple: 4,
            max_cols: 64,
            max_grid_y: 8,
            ..*wisp_shaders::kernels().first().unwrap()
        }
    }

    #[test]
    fn kernels_with_wider_use_replace_others() {
        assert!(replaces(&kernel(), &kernel()));
        let any_rows = Kernel {
            max_grid_y: u32::MAX,
            ..kernel()
        };
        assert!(replaces(&any_rows, &kernel()));
        assert!(!replaces(&kernel(), &any_rows));
        let any_columns = Kernel {
            cols_multiple: 1,
            ..kernel()
        };
        assert!(replaces(&any_columns, &kernel()));
        assert!(!replaces(&kernel(), &any_columns));
        let wider_rows = Kernel {
            max_cols: u32::MAX,
            ..kernel()
        };
        assert!(replaces(&wider_rows, &kernel()));
        assert!(!replaces(&kernel(), &wider_rows));
    }

    #[test]
    fn kernels_that_some_gpus_lack_replace_nothing() {
        let subgroups = Needs {
            subgroups: true,
            ..Needs::default()
        };
        let some = [
            Kernel {
                needs: subgroups,
                ..kernel()
            },
            Kernel {
                switches: &["a_switch"],
                ..kernel()
            },
            Kernel {
                device_class: DeviceClass::Software,
                ..kernel()
            },
        ];
        for other in some {
            assert!(!replaces(&other, &kernel()), "{other:?}");
        }
    }

    #[test]
    fn every_op_has_a_kernel_that_gpus_select() {
        for kernel in wisp_shaders::kernels() {
            let selected = |other| is_selected(other);
            assert!(
                wisp_shaders::candidates(kernel.op).any(selected),
                "{}",
                kernel.op
            );
        }
    }
}
