//! Mesa's driver for AMD GPUs, RADV, as a compiler: it opens GPUs that are not there, and reports what it makes of
//! a shader through `VK_KHR_pipeline_executable_properties`.

use std::{collections::BTreeMap, ffi::CStr};

use ash::{Device, Entry, Instance, khr::pipeline_executable_properties, vk};
use wisp_shaders::{Access, Kernel};

/// The environment variable that names the family of GPUs which RADV compiles for, without such a GPU.
pub const FAMILY_VARIABLE: &str = "RADV_FORCE_FAMILY";

/// An opened driver. Nothing of Vulkan is destroyed: a process compiles each kernel once and ends.
pub struct Driver {
    /// Such as `Mesa 25.0.7-2~bpo12+1`.
    pub version: String,
    device: Device,
    executables: pipeline_executable_properties::Device,
    // The functions above are the loader's.
    _entry: Entry,
}

/// What the driver says of a compiled kernel.
pub struct Compiled {
    /// Invocations of a subgroup.
    pub subgroup_size: u32,
    /// The driver's statistics by their names, such as `VGPRs`.
    pub statistics: BTreeMap<String, f64>,
    /// The machine code as text.
    pub assembly: String,
}

impl Driver {
    /// Opens RADV for the family that [`FAMILY_VARIABLE`] names.
    ///
    /// # Errors
    ///
    /// If there is no Vulkan loader or no RADV, or it knows no such family.
    pub fn open(family: &str) -> Result<Driver, String> {
        // SAFETY: the loader's library is trusted as every program's that uses Vulkan.
        let entry =
            unsafe { Entry::load() }.map_err(|error| format!("no Vulkan loader: {error}"))?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: `info` and what it points to outlive the call.
        let instance =
            unsafe { entry.create_instance(&info, None) }.map_err(failed("open Vulkan"))?;
        let (gpu, version) = find_radv(&instance, family)?;
        let device = open_device(&instance, gpu)?;
        let executables = pipeline_executable_properties::Device::new(&instance, &device);
        Ok(Driver {
            version,
            device,
            executables,
            _entry: entry,
        })
    }

    /// Compiles a kernel, given in SPIR-V as well.
    ///
    /// # Errors
    ///
    /// If the driver rejects it, or keeps its statistics to itself.
    pub fn compile(&self, kernel: &Kernel, words: &[u32]) -> Result<Compiled, String> {
        let pipeline = self
            .pipeline(kernel, words)
            .map_err(failed("compile the kernel"))?;
        let info = vk::PipelineInfoKHR::default().pipeline(pipeline);
        let executable = vk::PipelineExecutableInfoKHR::default().pipeline(pipeline);
        // SAFETY: the pipeline is this device's and keeps its statistics and representations.
        let (properties, statistics) = unsafe {
            (
                self.executables.get_pipeline_executable_properties(&info),
                self.executables
                    .get_pipeline_executable_statistics(&executable),
            )
        };
        let properties = properties.map_err(failed("read the kernel's properties"))?;
        let statistics = statistics.map_err(failed("read the kernel's statistics"))?;
        let statistics = statistics.iter();
        Ok(Compiled {
            subgroup_size: properties.first().map_or(0, |first| first.subgroup_size),
            statistics: statistics.map(|s| (text(&s.name), value(s))).collect(),
            assembly: self
                .assembly(&executable)
                .map_err(failed("read the kernel's assembly"))?,
        })
    }

    /// Creates the pipeline that wgpu would create, with its statistics and assembly.
    fn pipeline(&self, kernel: &Kernel, words: &[u32]) -> Result<vk::Pipeline, vk::Result> {
        let bindings = kernel.bindings.iter().zip(0..);
        let bindings: Vec<_> = bindings
            .map(|(access, number)| {
                vk::DescriptorSetLayoutBinding::default()
                    .binding(number)
                    .descriptor_count(1)
                    .stage_flags(vk::ShaderStageFlags::COMPUTE)
                    .descriptor_type(match access {
                        Access::Uniform => vk::DescriptorType::UNIFORM_BUFFER,
                        Access::Read | Access::Write => vk::DescriptorType::STORAGE_BUFFER,
                    })
            })
            .collect();
        let set = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        let code = vk::ShaderModuleCreateInfo::default().code(words);
        // SAFETY: naga validated the module, which uses these bindings and no other resources; every
        // structure outlives the call that reads it.
        unsafe {
            let sets = [self.device.create_descriptor_set_layout(&set, None)?];
            let layout = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets);
            let layout = self.device.create_pipeline_layout(&layout, None)?;
            let module = self.device.create_shader_module(&code, None)?;
            let stage = vk::PipelineShaderStageCreateInfo::default()
                .flags(vk::PipelineShaderStageCreateFlags::ALLOW_VARYING_SUBGROUP_SIZE)
                .stage(vk::ShaderStageFlags::COMPUTE)
                .module(module)
                .name(c"main");
            let info = vk::ComputePipelineCreateInfo::default()
                .flags(
                    vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR
                        | vk::PipelineCreateFlags::CAPTURE_INTERNAL_REPRESENTATIONS_KHR,
                )
                .stage(stage)
                .layout(layout);
            let cache = vk::PipelineCache::null();
            let pipelines = self.device.create_compute_pipelines(cache, &[info], None);
            pipelines
                .map(|pipelines| pipelines[0])
                .map_err(|(_, error)| error)
        }
    }

    /// Returns the last of the driver's representations of a kernel, which is the assembly.
    fn assembly(&self, executable: &vk::PipelineExecutableInfoKHR) -> Result<String, vk::Result> {
        // SAFETY: the pipeline is this device's and keeps its representations.
        let mut representations = unsafe {
            self.executables
                .get_pipeline_executable_internal_representations(executable)
        }?;
        let sizes = representations.iter().map(|one| one.data_size);
        let mut texts: Vec<Vec<u8>> = sizes.map(|size| vec![0; size]).collect();
        for (representation, text) in representations.iter_mut().zip(&mut texts) {
            representation.p_data = text.as_mut_ptr().cast();
        }
        let mut count = representations.len() as u32;
        // SAFETY: there are `count` structures, each with the memory for its text.
        unsafe {
            (self
                .executables
                .fp()
                .get_pipeline_executable_internal_representations_khr)(
                self.device.handle(),
                executable,
                &mut count,
                representations.as_mut_ptr(),
            )
        }
        .result()?;
        let assembly = texts.pop().unwrap_or_default();
        Ok(String::from_utf8_lossy(&assembly)
            .trim_end_matches('\0')
            .into())
    }
}

fn find_radv(instance: &Instance, family: &str) -> Result<(vk::PhysicalDevice, String), String> {
    // SAFETY: the instance is open.
    let gpus = unsafe { instance.enumerate_physical_devices() }.map_err(failed("list GPUs"))?;
    for gpu in gpus {
        let mut driver = vk::PhysicalDeviceDriverProperties::default();
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut driver);
        // SAFETY: the GPU is this instance's.
        unsafe { instance.get_physical_device_properties2(gpu, &mut properties) };
        let name = text(&properties.properties.device_name);
        if driver.driver_id == vk::DriverId::MESA_RADV && name.contains(&family.to_uppercase()) {
            return Ok((gpu, text(&driver.driver_info)));
        }
    }
    Err(format!(
        "no RADV for {family}: this needs Mesa's driver for AMD, with {FAMILY_VARIABLE}={family}; \
         `bash tests/scripts/gpu-statistics.sh` fetches and names it"
    ))
}

/// Opens a GPU with every feature of its own that kernels may use.
fn open_device(instance: &Instance, gpu: vk::PhysicalDevice) -> Result<Device, String> {
    let mut executables = vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR::default();
    let mut vulkan11 = vk::PhysicalDeviceVulkan11Features::default();
    let mut vulkan12 = vk::PhysicalDeviceVulkan12Features::default();
    let mut vulkan13 = vk::PhysicalDeviceVulkan13Features::default();
    let mut matrices = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default();
    let mut features = vk::PhysicalDeviceFeatures2::default()
        .push_next(&mut executables)
        .push_next(&mut vulkan11)
        .push_next(&mut vulkan12)
        .push_next(&mut vulkan13);
    // SAFETY: the GPU is this instance's.
    let known = unsafe { instance.enumerate_device_extension_properties(gpu) };
    let known = known.map_err(failed("list extensions"))?;
    let has = |name: &CStr| {
        known
            .iter()
            .any(|one| one.extension_name_as_c_str() == Ok(name))
    };
    let mut extensions = vec![pipeline_executable_properties::NAME.as_ptr()];
    if has(ash::khr::cooperative_matrix::NAME) {
        extensions.push(ash::khr::cooperative_matrix::NAME.as_ptr());
        features = features.push_next(&mut matrices);
    }
    // SAFETY: the GPU is this instance's; the structures are those that it knows.
    unsafe { instance.get_physical_device_features2(gpu, &mut features) };
    let queue = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
    let info = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queue)
        .enabled_extension_names(&extensions)
        .push_next(&mut features);
    // SAFETY: the features are those that the GPU reported; every structure outlives the call.
    unsafe { instance.create_device(gpu, &info, None) }.map_err(failed("open the GPU"))
}

fn value(statistic: &vk::PipelineExecutableStatisticKHR) -> f64 {
    // SAFETY: the format names the field that the driver has written.
    unsafe {
        match statistic.format {
            vk::PipelineExecutableStatisticFormatKHR::INT64 => statistic.value.i64 as f64,
            vk::PipelineExecutableStatisticFormatKHR::UINT64 => statistic.value.u64 as f64,
            vk::PipelineExecutableStatisticFormatKHR::FLOAT64 => statistic.value.f64,
            _ => f64::from(statistic.value.b32),
        }
    }
}

fn text(characters: &[std::ffi::c_char]) -> String {
    let bytes = characters.iter().map(|c| c.cast_unsigned());
    String::from_utf8_lossy(&bytes.take_while(|b| *b != 0).collect::<Vec<_>>()).into()
}

fn failed(doing: &str) -> impl FnOnce(vk::Result) -> String {
    move |error| format!("cannot {doing}: {error}")
}
