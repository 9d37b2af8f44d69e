//! The errors of devices.

use wisp_host::HostError;

/// An error of a device: a device that is not there, a request that is refused, or a device that fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// Occurs when no adapter matches a [`DeviceSpec`](crate::DeviceSpec).
    #[error("no {wanted} device found{}. {remedy}", listed(.found))]
    NoAdapter {
        /// The device specification that no adapter matches, such as `vulkan:1`.
        wanted: String,
        /// The devices of this machine, each as `specification = name`.
        found: Vec<String>,
        /// What the user can do.
        remedy: &'static str,
    },
    /// Occurs when a text is no [`DeviceSpec`](crate::DeviceSpec).
    #[error(
        "unknown device {0:?}: use auto, host, vulkan, metal, dx12, gl or cuda, with :INDEX to choose one of several"
    )]
    UnknownDevice(String),
    /// Occurs when the host's threads cannot be started.
    #[error("{device} cannot start {threads}: {message}")]
    Threads {
        /// The name of the host device.
        device: String,
        /// How many threads, as "3 threads".
        threads: String,
        /// The system's message.
        message: String,
    },
    /// Occurs when a buffer is larger than any that the device allocates.
    #[error("{label} needs {bytes} bytes in one buffer, but {device} allocates at most {limit}")]
    BufferTooLarge {
        /// The label that the buffer was to have.
        label: String,
        /// Its size in bytes.
        bytes: u64,
        /// The name of the device.
        device: String,
        /// The device's limit in bytes.
        limit: u64,
    },
    /// Occurs when more of a buffer is bound to a kernel than the device allows in one binding.
    #[error("{kernel}: {bytes} bytes of {label} are bound, but {device} binds at most {limit}")]
    BindingTooLarge {
        /// The name of the kernel, such as `matmul.q4_k.tile64x64`.
        kernel: String,
        /// The label of the bound buffer.
        label: String,
        /// Bytes that are bound.
        bytes: u64,
        /// The name of the device.
        device: String,
        /// The device's limit in bytes.
        limit: u64,
    },
    /// Occurs when a kernel runs with fewer bytes of a buffer than the type of its binding has.
    #[error(
        "{kernel}: {bytes} bytes of {label} are bound, but binding {binding} takes at least {min_bytes}"
    )]
    BindingTooSmall {
        /// The name of the kernel, such as `matmul.q4_k.tile64x64`.
        kernel: String,
        /// The binding's number.
        binding: u32,
        /// The label of the bound buffer.
        label: String,
        /// Bytes that are bound.
        bytes: u32,
        /// The size of the binding's type, in which a runtime-sized array has one element.
        min_bytes: u32,
    },
    /// Occurs when memory is bound both where a kernel only reads and where it writes.
    #[error(
        "{kernel}: {label} is bound both where the kernel only reads and where it writes: bind a copy of it for reading"
    )]
    ReadAndWritten {
        /// The name of the kernel, such as `matmul.q4_k.tile64x64`.
        kernel: String,
        /// The label of the bound buffer.
        label: String,
    },
    /// Occurs when the device's memory is exhausted.
    #[error(
        "{device} is out of memory allocating {bytes} bytes for {label}: use a smaller model, context or batch"
    )]
    OutOfMemory {
        /// The label of the buffer, or what else was being allocated.
        label: String,
        /// Its size in bytes.
        bytes: u64,
        /// The name of the device.
        device: String,
    },
    /// Occurs when bytes outside a buffer are read, written, copied or bound.
    #[error("{label}: bytes {start}..{end} are out of range, the buffer has {bytes}")]
    OutOfBounds {
        /// The label of the buffer.
        label: String,
        /// First byte.
        start: u64,
        /// Past the last byte.
        end: u64,
        /// The buffer's size in bytes.
        bytes: u64,
    },
    /// Occurs when a range of bytes does not begin or end where devices can access it.
    #[error("{label}: bytes {start}..{end} are not aligned to {alignment} bytes")]
    Misaligned {
        /// The label of the buffer.
        label: String,
        /// First byte.
        start: u64,
        /// Past the last byte.
        end: u64,
        /// The alignment in bytes.
        alignment: u64,
    },
    /// Occurs when a buffer is copied to itself.
    #[error("{label} cannot be copied to itself: copy it to another buffer first")]
    CopyWithin {
        /// The label of the buffer.
        label: String,
    },
    /// Occurs when a buffer, kernel or bind group of one device is used on another.
    #[error("{0} belongs to another device")]
    ForeignObject(String),
    /// Occurs when a kernel is given more or fewer buffers than it has bindings.
    #[error("{kernel} has {expected} bindings, but {given} buffers are given")]
    BindingCount {
        /// The name of the kernel, such as `matmul.q4_k.tile64x64`.
        kernel: String,
        /// The number of buffers that the kernel binds.
        expected: usize,
        /// Buffers that are given.
        given: usize,
    },
    /// Occurs when an empty range of a buffer is bound to a kernel.
    #[error("{kernel}: an empty range of {label} is bound")]
    EmptyBinding {
        /// The name of the kernel, such as `matmul.q4_k.tile64x64`.
        kernel: String,
        /// The label of the bound buffer.
        label: String,
    },
    /// Occurs when memory for parameters is bound where a kernel expects a tensor, or the other way
    /// round.
    #[error(
        "{kernel}: binding {binding} is {expected} memory, but {label} was allocated for another use"
    )]
    WrongUsage {
        /// The name of the kernel, such as `matmul.q4_k.tile64x64`.
        kernel: String,
        /// The binding's number.
        binding: usize,
        /// `uniform` or `storage`.
        expected: &'static str,
        /// The label of the bound buffer.
        label: String,
    },
    /// Occurs when a bind group that was made for one kernel is used with a kernel that has other
    /// bindings.
    #[error("{kernel} cannot use memory that is bound for {bound_for}: their bindings differ")]
    OtherBindings {
        /// The name of the kernel that the dispatch runs.
        kernel: String,
        /// The kernel that the bind group was made for.
        bound_for: String,
    },
    /// Occurs when a dispatch has more workgroups in one dimension than the device allows.
    #[error(
        "{kernel}: {workgroups:?} workgroups, but {device} runs at most {limit} in each dimension"
    )]
    TooManyWorkgroups {
        /// The name of the kernel, such as `matmul.q4_k.tile64x64`.
        kernel: String,
        /// Workgroups in x, y and z.
        workgroups: [u32; 3],
        /// The name of the device.
        device: String,
        /// The device's limit.
        limit: u32,
    },
    /// Occurs when the host has no twin of a kernel.
    #[error("{kernel} does not run on the host: it has no twin there")]
    NoTwin {
        /// The name of the kernel, such as `matmul.q4_k.tile64x64`.
        kernel: String,
    },
    /// Occurs when the driver rejects something, which is a defect of Wisp or of the driver.
    #[error("{device} refused {what}: {message}")]
    Validation {
        /// What was rejected: a kernel, a buffer or a submission.
        what: String,
        /// The name of the device.
        device: String,
        /// The driver's message.
        message: String,
    },
    /// Occurs when kernels are to be compiled for NVIDIA's GPUs where their compiler is not installed.
    #[error(
        "NVRTC, which compiles kernels for NVIDIA's GPUs, is not installed where the system finds libraries (the CUDA toolkit has it, and so have the Python packages nvidia-cuda-nvrtc-cu12, for drivers for CUDA 12, and nvidia-cuda-nvrtc, for CUDA 13; LD_LIBRARY_PATH, on Windows PATH, must name their folder)"
    )]
    NoCompiler,
    /// Occurs when the compiler for NVIDIA's GPUs does not know an architecture.
    #[error("{compiler} does not compile for {architecture}: use that of another CUDA toolkit")]
    UnknownArchitecture {
        /// The name and version of the compiler, such as `NVRTC 13.0`.
        compiler: String,
        /// The architecture, such as `sm_90`.
        architecture: String,
    },
    /// Occurs when the device is gone: it was reset or unplugged, or its driver was updated.
    #[error("{device} was lost: {message}")]
    Lost {
        /// The name of the device.
        device: String,
        /// The driver's message.
        message: String,
    },
    /// Occurs when a kernel fails on the host.
    #[error(transparent)]
    Host(#[from] HostError),
}

/// The devices that were found, as an addition to a sentence; empty if there are none.
fn listed(found: &[String]) -> String {
    match found {
        [] => String::new(),
        found => format!(" (available: {})", found.join(", ")),
    }
}
