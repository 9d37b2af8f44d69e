//! The table of kernel variants: read by the build script, which makes a kernel of every line, and
//! for an op on weights or the KV cache one of every line and encoding. Best first within an op and a kind of adapter.

/// What kind of adapter a kernel was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceClass {
    /// Every kind.
    Any,
    /// Adapters with workgroup memory and wide loads in hardware.
    Gpu,
    /// Adapters that run on the CPU, where loads, barriers and workgroup memory are slow.
    Software,
}

/// One line of the table.
pub(crate) struct Variant {
    /// The op: without a dot at its end or, if it has a kernel for each encoding, with one.
    pub op: &'static str,
    /// The last part of the kernel's name.
    pub name: &'static str,
    /// The `.wgsl` file.
    pub file: &'static str,
    /// Conditions (`@if`) that hold, what the kernel needs (`subgroups`, `f16`), and the switches
    /// ([`SWITCHES`]) that it waits for.
    pub features: &'static [&'static str],
    /// Values of the module `constants`.
    pub constants: &'static [(&'static str, u32)],
    /// What kind of adapter it was made for.
    pub suits: DeviceClass,
    /// The largest second dimension of the grid that it is meant for.
    pub max_rows_y: u32,
}

/// Any second dimension.
const ANY: u32 = u32::MAX;

const fn variant(
    op: &'static str,
    name: &'static str,
    file: &'static str,
    features: &'static [&'static str],
    constants: &'static [(&'static str, u32)],
    suits: DeviceClass,
    max_rows_y: u32,
) -> Variant {
    Variant {
        op,
        name,
        file,
        features,
        constants,
        suits,
        max_rows_y,
    }
}

/// The encodings of weights: the files of `encodings/`.
pub(crate) const ENCODINGS: &[&str] = &[
    "f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k",
    "q6_k", "iq4_nl", "mxfp4", "f8_e4m3",
];

/// Encodings whose rows may have any number of columns; the others' are multiples of 32.
pub(crate) const ANY_COLS: &[&str] = &["f32", "f16", "bf16"];

/// Conditions of variants that are only chosen where a session's switch of that name is on.
pub(crate) const SWITCHES: &[&str] = &["half_sums", "plain_top_k"];

/// The formats of the KV cache: the files of `caches/`.
pub(crate) const CACHES: &[&str] = &["f32", "f16", "q8_0"];

impl Variant {
    /// The formats that there is a kernel for each of; none of an op without a dot at its end.
    pub(crate) fn formats(&self) -> &'static [&'static str] {
        let has = |name| self.constants.iter().any(|(constant, _)| *constant == name);
        match (has("PLANES"), has("CACHE")) {
            (true, _) => ENCODINGS,
            (_, true) => CACHES,
            _ => &[],
        }
    }
}

#[rustfmt::skip]
pub(crate) const VARIANTS: &[Variant] = &[
    variant("embed.",         "baseline", "embed",         &[],         &[("WG", 64), ("PLANES", 3)], DeviceClass::Any, ANY),
    // Software: loads cost most, so rows share those of x, and subgroups spread them.
    variant("matmul.",        "lanes_rows3",   "matmul",  &["subgroups"],           &[("WG", 16), ("PLANES", 4), ("ROWS", 3), ("TOKENS", 1)], DeviceClass::Software, 1),
    variant("matmul.",        "lanes_tile",    "matmul",  &["subgroups"],           &[("WG", 16), ("PLANES", 4), ("ROWS", 4), ("TOKENS", 4)], DeviceClass::Software, ANY),
    variant("matmul.",        "lanes_scalar",  "matmul",  &["subgroups", "scalar"], &[("WG", 16), ("PLANES", 4), ("ROWS", 4), ("TOKENS", 4)], DeviceClass::Software, ANY),
    variant("matmul.",        "rows8",         "matmul",  &[],         &[("WG", 16), ("PLANES", 4), ("ROWS", 8), ("TOKENS", 1)], DeviceClass::Software, 1),
    variant("matmul.",        "tile8x4",       "matmul",  &[],         &[("WG", 16), ("PLANES", 4), ("ROWS", 8), ("TOKENS", 4)], DeviceClass::Software, ANY),
    // GPUs: coalesced loads for few tokens, a tile in workgroup memory for many.
    variant("matmul.",        "split_half",        "matmul_split",  &["half_sums"],           &[("WG", 64), ("PLANES", 4), ("ROWS", 4)], DeviceClass::Gpu, 8),
    variant("matmul.",        "split_half_scalar", "matmul_split",  &["half_sums", "scalar"], &[("WG", 64), ("PLANES", 4), ("ROWS", 4)], DeviceClass::Gpu, 8),
    variant("matmul.",        "split",         "matmul_split",  &[],         &[("WG", 64), ("PLANES", 4), ("ROWS", 4)], DeviceClass::Gpu, 8),
    variant("matmul.",        "split_scalar",  "matmul_split",  &["scalar"], &[("WG", 64), ("PLANES", 4), ("ROWS", 4)], DeviceClass::Gpu, 8),
    variant("matmul.",        "tiled",         "matmul_tiled",  &[],         &[("PLANES", 4)], DeviceClass::Gpu, ANY),
    variant("matmul.",        "tiled_scalar",  "matmul_tiled",  &["scalar"], &[("PLANES", 4)], DeviceClass::Gpu, ANY),
    variant("matmul.",        "baseline",      "matmul",  &[],         &[("WG", 64), ("PLANES", 4), ("ROWS", 4), ("TOKENS", 1)], DeviceClass::Any, ANY),
    variant("matmul.",        "scalar",        "matmul",  &["scalar"], &[("WG", 64), ("PLANES", 4), ("ROWS", 4), ("TOKENS", 1)], DeviceClass::Any, ANY),
    // A token is one of those that an expert multiplies: none share its weight.
    variant("matmul_experts.", "split_half",        "matmul_split", &["half_sums", "experts"],           &[("WG", 64), ("PLANES", 4), ("ROWS", 4)], DeviceClass::Gpu, ANY),
    variant("matmul_experts.", "split_half_scalar", "matmul_split", &["half_sums", "experts", "scalar"], &[("WG", 64), ("PLANES", 4), ("ROWS", 4)], DeviceClass::Gpu, ANY),
    variant("matmul_experts.", "split",        "matmul_split", &["experts"],           &[("WG", 64), ("PLANES", 4), ("ROWS", 4)], DeviceClass::Gpu, ANY),
    variant("matmul_experts.", "split_scalar", "matmul_split", &["experts", "scalar"], &[("WG", 64), ("PLANES", 4), ("ROWS", 4)], DeviceClass::Gpu, ANY),
    variant("matmul_experts.", "baseline",     "matmul",       &["experts"],           &[("WG", 64), ("PLANES", 4), ("ROWS", 4), ("TOKENS", 1)], DeviceClass::Any, ANY),
    variant("matmul_experts.", "scalar",       "matmul",       &["experts", "scalar"], &[("WG", 64), ("PLANES", 4), ("ROWS", 4), ("TOKENS", 1)], DeviceClass::Any, ANY),
    // Barriers are what costs there: fewer invocations wait.
    variant("rms_norm",       "small",    "norm",          &[],                &[("WG", 32)],  DeviceClass::Software, ANY),
    variant("add_rms_norm",   "small",    "norm",          &["add"],           &[("WG", 32)],  DeviceClass::Software, ANY),
    variant("layer_norm",     "small",    "norm",          &["layer"],         &[("WG", 32)],  DeviceClass::Software, ANY),
    variant("add_layer_norm", "small",    "norm",          &["layer", "add"],  &[("WG", 32)],  DeviceClass::Software, ANY),
    variant("rms_norm",       "baseline", "norm",          &[],                &[("WG", 256)], DeviceClass::Any, ANY),
    variant("add_rms_norm",   "baseline", "norm",          &["add"],           &[("WG", 256)], DeviceClass::Any, ANY),
    variant("layer_norm",     "baseline", "norm",          &["layer"],         &[("WG", 256)], DeviceClass::Any, ANY),
    variant("add_layer_norm", "baseline", "norm",          &["layer", "add"],  &[("WG", 256)], DeviceClass::Any, ANY),
    variant("rope",           "baseline", "rope",          &[],         &[("WG", 64)],  DeviceClass::Any, ANY),
    variant("kv_write.",      "baseline", "kv_write",      &["write"],   &[("WG", 64), ("CACHE", 5)], DeviceClass::Any, ANY),
    variant("rope_kv_write.", "baseline", "rope_kv_write", &["write"],   &[("WG", 64), ("CACHE", 6)], DeviceClass::Any, ANY),
    variant("norm_rope_kv_write.", "baseline", "rope_kv_write", &["norm", "write"], &[("WG", 64), ("CACHE", 6)], DeviceClass::Any, ANY),
    // Software: no barriers; few invocations, so that the heads of one token keep several cores busy.
    variant("attention.",     "serial",   "attention_serial", &["serial"],              &[("WG", 4), ("CACHE", 2)], DeviceClass::Software, ANY),
    variant("full_attention.", "serial",  "attention_serial", &["serial", "both_ways"], &[("WG", 4), ("CACHE", 2)], DeviceClass::Software, ANY),
    variant("attention.",     "baseline", "attention",     &[],            &[("WG", 64), ("CACHE", 2)], DeviceClass::Any, ANY),
    variant("full_attention.", "baseline", "attention",    &["both_ways"], &[("WG", 64), ("CACHE", 2)], DeviceClass::Any, ANY),
    variant("gated",          "baseline", "gated",         &[],         &[("WG", 256)], DeviceClass::Any, ANY),
    variant("elementwise",    "baseline", "elementwise",   &[],         &[("WG", 256)], DeviceClass::Any, ANY),
    variant("map",            "baseline", "map",           &[],         &[("WG", 256)], DeviceClass::Any, ANY),
    variant("route",          "baseline", "route",         &[],         &[("WG", 64)],  DeviceClass::Any, ANY),
    variant("combine_experts", "baseline", "combine_experts", &[],      &[("WG", 256)], DeviceClass::Any, ANY),
    variant("lora_shrink",    "baseline", "lora_shrink",   &[],         &[("WG", 64), ("ROWS", 4)], DeviceClass::Any, ANY),
    variant("lora_expand",    "baseline", "lora_expand",   &[],         &[("WG", 64)],  DeviceClass::Any, ANY),
    variant("softmax",        "baseline", "softmax",       &[],         &[("WG", 256)], DeviceClass::Any, ANY),
    variant("argmax",         "baseline", "argmax",        &[],         &[("WG", 256)], DeviceClass::Any, ANY),
    variant("gather",         "baseline", "gather",        &[],         &[("WG", 256)], DeviceClass::Any, ANY),
    variant("scatter",        "baseline", "scatter",       &[],         &[("WG", 256)], DeviceClass::Any, ANY),
    variant("copy",           "baseline", "copy",          &[],         &[("WG", 256)], DeviceClass::Any, ANY),
    variant("binary",         "baseline", "binary",        &[],         &[("WG", 256)], DeviceClass::Any, ANY),
    variant("choose",         "baseline", "choose",        &[],         &[("WG", 256)], DeviceClass::Any, ANY),
    variant("reduction",      "baseline", "reduction",     &[],         &[("WG", 64)],  DeviceClass::Any, ANY),
    variant("batch_matmul",   "baseline", "batch_matmul",  &[],         &[("WG", 64)],  DeviceClass::Any, ANY),
    variant("conv2d",         "baseline", "conv2d",        &[],         &[("WG", 64)],  DeviceClass::Any, ANY),
    variant("top_k",          "baseline", "top_k",         &[],         &[("WG", 256)], DeviceClass::Any, ANY),
    variant("measure_read",   "baseline", "measure_read",  &[],         &[("WG", 64)],  DeviceClass::Any, ANY),
    variant("measure_fma",    "baseline", "measure_fma",   &[],         &[("WG", 64)],  DeviceClass::Any, ANY),
    variant("sample",         "small_plain_top_k", "sample", &["plain_top_k"], &[("WG", 32)], DeviceClass::Software, ANY),
    variant("sample",         "small",    "sample",        &[],         &[("WG", 32)],  DeviceClass::Software, ANY),
    variant("sample",         "plain_top_k", "sample",     &["plain_top_k"], &[("WG", 256)], DeviceClass::Any, ANY),
    variant("sample",         "baseline", "sample",        &[],         &[("WG", 256)], DeviceClass::Any, ANY),
];
