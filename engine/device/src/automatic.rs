//! Which device `auto` is, and why it is none of the others.

use std::{
    fmt,
    sync::{Arc, Once},
};

use wisp_types::{Api, DeviceInfo};

use crate::{backend::Backend, spec::DeviceSpec};

/// Why [`DeviceSpec::Auto`] passes over a device, which can still be opened by its interface. The text form is a clause
/// that says so, with what the user can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SkipReason {
    /// The adapter runs kernels on the CPU, such as lavapipe.
    Software,
    /// The adapter is reached through OpenGL, which is slow and hides software adapters behind names of their own.
    OpenGl,
    /// DX12 has no `dxcompiler.dll`: FXC, Direct3D's old compiler, is slow and rejects some kernels.
    NoDxCompiler,
    /// The device is reached through CUDA.
    Cuda,
}

impl SkipReason {
    /// Returns why `auto` passes over a device; `None` if it may choose it. `info` describes the device with all its
    /// features, as [`list`](crate::list) does.
    pub fn of(info: &DeviceInfo) -> Option<SkipReason> {
        match info.api {
            Api::Host => None,
            _ if info.software => Some(SkipReason::Software),
            Api::Gl => Some(SkipReason::OpenGl),
            Api::Dx12 if lacks_compiler(info) => Some(SkipReason::NoDxCompiler),
            Api::Cuda => Some(SkipReason::Cuda),
            Api::Dx12 | Api::Vulkan | Api::Metal | Api::WebGpu => None,
        }
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SkipReason::Software => "it is a software adapter, which runs on the CPU as the host does",
            SkipReason::OpenGl => {
                "OpenGL is slow: use the GPU through Vulkan, and install its driver if that is missing"
            }
            SkipReason::NoDxCompiler => {
                "dxcompiler.dll is missing: put it beside the program or on PATH"
            }
            SkipReason::Cuda => "CUDA is used only if it is named",
        })
    }
}

/// Returns whether an adapter's kernels are compiled by FXC because wgpu has not found `dxcompiler.dll`: then the
/// adapter, described with all its features, has no subgroups.
pub(crate) fn lacks_compiler(info: &DeviceInfo) -> bool {
    info.api == Api::Dx12 && !info.capabilities.subgroups
}

/// The search for a GPU that `auto` may choose.
#[derive(Default)]
pub(crate) struct Search {
    /// The first such GPU, opened.
    pub found: Option<Arc<dyn Backend>>,
    /// The adapters before it that were passed over.
    pub skipped: Vec<(DeviceSpec, DeviceInfo)>,
}

/// Logs a warning, once in a process, that `auto` is the host although there are GPUs among the devices that it passed
/// over.
pub(crate) fn warn_of_host(skipped: &[(DeviceSpec, DeviceInfo)]) {
    static WARNED: Once = Once::new();
    if let Some(warning) = host_warning(skipped) {
        WARNED.call_once(|| tracing::warn!("{warning}"));
    }
}

/// Returns what to tell a user whose device is the host; `None` if no GPU was passed over.
fn host_warning(skipped: &[(DeviceSpec, DeviceInfo)]) -> Option<String> {
    let gpus = skipped.iter().filter_map(|(spec, info)| {
        let reason = SkipReason::of(info).filter(|reason| *reason != SkipReason::Software)?;
        Some(format!("{spec} = {} ({reason})", info.name))
    });
    let gpus: Vec<String> = gpus.collect();
    (!gpus.is_empty()).then(|| {
        format!(
            "the device is the host CPU, because auto passes over {}",
            gpus.join(" and ")
        )
    })
}

#[cfg(test)]
mod tests {
    use wisp_types::Capabilities;

    use super::*;

    fn device(api: Api, software: bool, subgroups: bool) -> (DeviceSpec, DeviceInfo) {
        let info = DeviceInfo {
            name: format!("a card of {api}"),
            api,
            software,
            integrated: false,
            driver: String::new(),
            capabilities: Capabilities {
                subgroups,
                ..Capabilities::BASELINE
            },
        };
        (DeviceSpec::Adapter { api, index: 0 }, info)
    }

    #[test]
    fn only_real_gpus_that_compile_every_kernel_are_chosen() {
        use SkipReason::{Cuda, NoDxCompiler, OpenGl, Software};
        for (api, software, subgroups, expected) in [
            (Api::Vulkan, false, false, None),
            (Api::Metal, false, true, None),
            (Api::WebGpu, false, false, None),
            (Api::Dx12, false, true, None),
            (Api::Dx12, false, false, Some(NoDxCompiler)),
            (Api::Dx12, true, false, Some(Software)),
            (Api::Vulkan, true, true, Some(Software)),
            (Api::WebGpu, true, true, Some(Software)),
            (Api::Gl, false, true, Some(OpenGl)),
            (Api::Gl, true, false, Some(Software)),
            (Api::Cuda, false, true, Some(Cuda)),
            // It is what `auto` is without a GPU.
            (Api::Host, true, false, None),
        ] {
            let (_, info) = device(api, software, subgroups);
            assert_eq!(
                SkipReason::of(&info),
                expected,
                "{api} {software} {subgroups}"
            );
        }
    }

    #[test]
    fn host_is_explained_by_the_gpus_that_were_passed_over() {
        let warning = host_warning(&[
            device(Api::Vulkan, true, true),
            device(Api::Dx12, false, false),
            device(Api::Gl, false, false),
            device(Api::Gl, true, false),
        ]);
        let expected = "the device is the host CPU, because auto passes over dx12 = a card of dx12 \
                        (dxcompiler.dll is missing: put it beside the program or on PATH) and gl = a card of gl \
                        (OpenGL is slow: use the GPU through Vulkan, and install its driver if that is missing)";
        assert_eq!(warning.as_deref(), Some(expected));
    }

    #[test]
    fn host_needs_no_explanation_without_a_gpu() {
        assert_eq!(host_warning(&[]), None);
        let software = [
            device(Api::Vulkan, true, true),
            device(Api::Dx12, true, false),
        ];
        assert_eq!(host_warning(&software), None);
    }
}
