//! The result of a translation.

/// An argument of a translated kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parameter {
    /// A pointer to the memory that is bound to a variable.
    Pointer {
        /// The variable's group.
        group: u32,
        /// The variable's binding in the group.
        binding: u32,
        /// Whether the kernel may write to the memory.
        writable: bool,
        /// The fewest bytes that may be bound, as in WebGPU: the size of the variable's type, in which a runtime-sized
        /// array has one element.
        min_bytes: u32,
    },
    /// The bytes that are bound to a variable whose last member is a runtime-sized array, as an `unsigned`.
    Bytes {
        /// The variable's group.
        group: u32,
        /// The variable's binding in the group.
        binding: u32,
    },
}

/// A kernel in CUDA C++.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translation {
    /// The complete source: a prelude, declarations, functions and the kernel.
    pub source: String,
    /// The name of the kernel in the source, which has C linkage.
    pub entry_point: String,
    /// Threads of a block in x, y and z.
    pub workgroup_size: [u32; 3],
    /// The arguments of the kernel: pointers by group and binding, then lengths in the same order. Variables that
    /// the entry point does not use are left out, and lengths that it does not need.
    pub parameters: Vec<Parameter>,
}
