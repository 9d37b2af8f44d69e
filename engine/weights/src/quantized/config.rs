//! The `quantization_config` of a `config.json`.

use serde_json::Value;

use crate::{
    error::WeightError,
    tensor::{StoredEncoding, TensorInfo},
};

/// How a checkpoint in Hugging Face's layout quantises its weights: the `quantization_config` of its `config.json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuantizationConfig {
    pub(super) method: Method,
}

/// The methods, with what their tensors do not tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// 8-bit floats, with the rows and columns of a block that shares a scale.
    Fp8 { block: Option<[u64; 2]> },
    /// Codes in words along the columns of a transposed matrix.
    Gptq {
        bits: u64,
        /// Whether the file has zero points less one.
        zeros_less_one: bool,
    },
    /// Codes of 4 bits in words along the rows of a transposed matrix.
    Awq,
    /// Integers or 8-bit floats, as compressed-tensors stores them.
    CompressedTensors {
        /// The bits of packed codes; `None` if no group has such.
        bits: Option<u64>,
        block: Option<[u64; 2]>,
    },
    /// Codes of 4 bits of bitsandbytes.
    Nf4,
    /// NVFP4 and 8-bit floats, as NVIDIA's ModelOpt stores them.
    ModelOpt,
}

/// The endings of the tensors of a linear layer that belong to a quantised weight.
const PARTS: [&str; 23] = [
    "weight",
    "weight_scale",
    "weight_scale_2",
    "weight_scale_inv",
    "weight_global_scale",
    "weight_zero_point",
    "weight_packed",
    "weight_shape",
    "weight_g_idx",
    "input_scale",
    "input_global_scale",
    // Those of a quantised cache of keys and values.
    "k_scale",
    "v_scale",
    "activation_scale",
    "qweight",
    "qzeros",
    "scales",
    "g_idx",
    "weight.absmax",
    "weight.quant_map",
    "weight.nested_absmax",
    "weight.nested_quant_map",
    "weight.quant_state.bitsandbytes__nf4",
];

fn error(problem: String) -> WeightError {
    WeightError::QuantizationConfig { problem }
}

impl QuantizationConfig {
    /// Reads the quantisation of a `config.json`; `None` if it has none, or one whose tensors architectures read by
    /// themselves (gpt-oss in MXFP4).
    ///
    /// # Errors
    ///
    /// If Wisp does not support the method or a setting of it.
    pub fn from_config(config: &Value) -> Result<Option<QuantizationConfig>, WeightError> {
        let of = |config: &Value| {
            let keys = ["quantization_config", "compression_config"];
            let mut found = keys.iter().filter_map(|key| config.get(key)).cloned();
            found.find(|value| !value.is_null())
        };
        let inner = ["text_config", "llm_config"];
        let mut nested = inner.iter().filter_map(|key| of(config.get(key)?));
        let Some(settings) = of(config).or_else(|| nested.next()) else {
            return Ok(None);
        };
        let method = match text(&settings, "quant_method").unwrap_or_default() {
            "mxfp4" => return Ok(None),
            "fp8" | "fbgemm_fp8" => fp8(&settings)?,
            "gptq" => gptq(&settings)?,
            "awq" => awq(&settings)?,
            "compressed-tensors" => compressed_tensors(&settings)?,
            "bitsandbytes" => bitsandbytes(&settings)?,
            "modelopt" | "modelopt_fp4" => modelopt(&settings)?,
            other => {
                let other = other.escape_debug();
                return Err(error(format!(
                    "the method `{other}` is not supported; supported are fp8, fbgemm_fp8, gptq, awq, \
                     compressed-tensors, bitsandbytes (NF4), modelopt and gpt-oss' mxfp4"
                )));
            }
        };
        Ok(Some(QuantizationConfig { method }))
    }

    /// Reads the quantisation of a `hf_quant_config.json`, where ModelOpt describes it if `config.json` does not; `None`
    /// if the weights are not quantised.
    ///
    /// # Errors
    ///
    /// If Wisp does not support the method or a setting of it.
    pub fn from_modelopt_config(config: &Value) -> Result<Option<QuantizationConfig>, WeightError> {
        let settings = config.get("quantization").unwrap_or(&Value::Null);
        match settings.get("quant_algo") {
            None | Some(Value::Null) => Ok(None),
            Some(_) => modelopt(settings).map(|method| Some(QuantizationConfig { method })),
        }
    }

    /// Returns the name of a linear layer, if this tensor has the codes of its weight.
    pub(super) fn base<'t>(&self, tensor: &'t TensorInfo) -> Option<&'t str> {
        let name = tensor.name.as_str();
        let weight = |types: &[&str]| {
            let is_code =
                matches!(tensor.stored, StoredEncoding::Unsupported(name) if types.contains(&name));
            name.strip_suffix(".weight").filter(|_| is_code)
        };
        match &self.method {
            Method::Fp8 { .. } => weight(&["F8_E4M3"]),
            Method::Gptq { .. } | Method::Awq => name.strip_suffix(".qweight"),
            Method::CompressedTensors { .. } => {
                let packed = name.strip_suffix(".weight_packed");
                packed.or_else(|| weight(&["F8_E4M3", "I8"]))
            }
            Method::Nf4 => weight(&["U8"]),
            Method::ModelOpt => weight(&["U8", "F8_E4M3"]),
        }
    }

    /// Returns the names of the tensors of a layer that a quantised weight replaces.
    pub(super) fn part_names(&self, base: &str) -> impl Iterator<Item = String> {
        PARTS.iter().map(move |part| format!("{base}.{part}"))
    }
}

fn text<'v>(settings: &'v Value, key: &str) -> Option<&'v str> {
    settings.get(key).and_then(Value::as_str)
}

/// Refuses a text that is present and none of those supported.
fn expect(settings: &Value, key: &str, supported: &[&str]) -> Result<(), WeightError> {
    match text(settings, key) {
        Some(found) if !supported.contains(&found) => Err(error(format!(
            "`{key}` is {}, supported is {}",
            found.escape_debug(),
            supported.join(" or ")
        ))),
        _ => Ok(()),
    }
}

fn bits(settings: &Value, key: &str, supported: &[u64]) -> Result<u64, WeightError> {
    let found = settings.get(key).and_then(Value::as_u64);
    found
        .filter(|bits| supported.contains(bits))
        .ok_or_else(|| {
            let found = settings.get(key).unwrap_or(&Value::Null);
            let supported: Vec<_> = supported.iter().map(u64::to_string).collect();
            error(format!(
                "`{key}` is {found}, supported is {}",
                supported.join(" or ")
            ))
        })
}

/// Reads the rows and columns of a block.
fn block(settings: &Value, key: &str) -> Result<Option<[u64; 2]>, WeightError> {
    let value = match settings.get(key) {
        None | Some(Value::Null) => return Ok(None),
        Some(value) => value,
    };
    let sizes = value.as_array().map(Vec::as_slice);
    if let Some([rows, cols]) = sizes
        && let (Some(rows @ 1..), Some(cols @ 1..)) = (rows.as_u64(), cols.as_u64())
    {
        return Ok(Some([rows, cols]));
    }
    Err(error(format!(
        "`{key}` is {value}, expected the rows and columns of a block"
    )))
}

fn fp8(settings: &Value) -> Result<Method, WeightError> {
    expect(settings, "fmt", &["e4m3", "float8_e4m3fn"])?;
    Ok(Method::Fp8 {
        block: block(settings, "weight_block_size")?,
    })
}

fn gptq(settings: &Value) -> Result<Method, WeightError> {
    expect(settings, "checkpoint_format", &["gptq", "gptq_v2"])?;
    Ok(Method::Gptq {
        bits: bits(settings, "bits", &[4, 8])?,
        zeros_less_one: text(settings, "checkpoint_format") != Some("gptq_v2"),
    })
}

fn awq(settings: &Value) -> Result<Method, WeightError> {
    // Some write the name of the layout in capitals.
    let version = text(settings, "version").map(str::to_ascii_lowercase);
    let version = serde_json::json!({ "version": version });
    expect(&version, "version", &["gemm"])?;
    bits(settings, "bits", &[4])?;
    Ok(Method::Awq)
}

fn bitsandbytes(settings: &Value) -> Result<Method, WeightError> {
    if settings.get("load_in_8bit") == Some(&Value::Bool(true)) {
        return Err(error(
            "bitsandbytes' 8-bit weights are not supported, NF4 is".into(),
        ));
    }
    expect(settings, "bnb_4bit_quant_type", &["nf4"])?;
    Ok(Method::Nf4)
}

/// Reads the algorithm of ModelOpt; which one a layer has, its tensors tell.
fn modelopt(settings: &Value) -> Result<Method, WeightError> {
    let algorithms = [
        "NVFP4",
        "W4A16_NVFP4",
        "W4A8_NVFP4_FP8",
        "NVFP4_AWQ",
        "FP8",
        "FP8_PER_CHANNEL_PER_TOKEN",
        "MIXED_PRECISION",
    ];
    expect(settings, "quant_algo", &algorithms)?;
    Ok(Method::ModelOpt)
}

fn compressed_tensors(settings: &Value) -> Result<Method, WeightError> {
    let formats = [
        "pack-quantized",
        "nvfp4-pack-quantized",
        "int-quantized",
        "float-quantized",
        "naive-quantized",
        "mixed-precision",
        "dense",
    ];
    expect(settings, "format", &formats)?;
    let sparsity = settings.get("sparsity_config");
    expect(sparsity.unwrap_or(&Value::Null), "format", &["dense"])?;
    let transforms = settings.get("transform_config").and_then(Value::as_object);
    if transforms.is_some_and(|transforms| !transforms.is_empty()) {
        return Err(error(
            "transforms (`transform_config`) are not supported".into(),
        ));
    }
    let groups = settings.get("config_groups").and_then(Value::as_object);
    let (mut packed, mut blocks) = (None, None);
    for group in groups.into_iter().flat_map(|groups| groups.values()) {
        expect(group, "format", &formats)?;
        let weights = group.get("weights").unwrap_or(&Value::Null);
        let format = text(group, "format").or(text(settings, "format"));
        if format == Some("pack-quantized") {
            expect(weights, "type", &["int"])?;
            let bits = bits(weights, "num_bits", &[4, 8])?;
            if *packed.get_or_insert(bits) != bits {
                return Err(error(
                    "packed weights of several widths are not supported".into(),
                ));
            }
        } else if format == Some("nvfp4-pack-quantized") {
            expect(weights, "type", &["float"])?;
            bits(weights, "num_bits", &[4])?;
        } else if !weights.is_null() {
            bits(weights, "num_bits", &[8])?;
        }
        let found = block(weights, "block_structure")?;
        if let (Some(one), Some(other)) = (blocks, found)
            && one != other
        {
            return Err(error("blocks of several sizes are not supported".into()));
        }
        blocks = blocks.or(found);
    }
    Ok(Method::CompressedTensors {
        bits: packed,
        block: blocks,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn method(settings: Value) -> Result<Option<Method>, String> {
        let config = json!({ "quantization_config": settings });
        let found = QuantizationConfig::from_config(&config);
        let found = found.map_err(|error| error.to_string())?;
        Ok(found.map(|config| config.method))
    }

    #[test]
    fn settings_of_published_checkpoints_are_read() {
        let deepseek = json!({"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
            "weight_block_size": [128, 128]});
        let block = Some([128, 128]);
        assert_eq!(method(deepseek), Ok(Some(Method::Fp8 { block })));
        let gptq = json!({"bits": 4, "group_size": 128, "desc_act": true, "quant_method": "gptq",
            "sym": true});
        let (bits, zeros_less_one) = (4, true);
        assert_eq!(
            method(gptq),
            Ok(Some(Method::Gptq {
                bits,
                zeros_less_one
            }))
        );
        let awq = json!({"bits": 4, "group_size": 128, "quant_method": "awq", "version": "GEMM",
            "zero_point": true});
        assert_eq!(method(awq), Ok(Some(Method::Awq)));
        let packed = json!({"quant_method": "compressed-tensors", "format": "pack-quantized",
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4,
                "type": "int", "symmetric": true, "strategy": "group", "group_size": 128}}}});
        let (bits, block) = (Some(4), None);
        assert_eq!(
            method(packed),
            Ok(Some(Method::CompressedTensors { bits, block }))
        );
        let nf4 = json!({"quant_method": "bitsandbytes", "load_in_4bit": true,
            "bnb_4bit_quant_type": "nf4"});
        assert_eq!(method(nf4), Ok(Some(Method::Nf4)));
        let nvfp4 = json!({"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized",
            "config_groups": {"group_0": {"targets": ["Linear"], "format": "nvfp4-pack-quantized",
                "weights": {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16},
                "input_activations": {"num_bits": 4, "type": "float", "dynamic": "local"}}}});
        let (bits, block) = (None, None);
        assert_eq!(
            method(nvfp4),
            Ok(Some(Method::CompressedTensors { bits, block }))
        );
        let modelopt = json!({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"],
            "config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": 16}}}});
        assert_eq!(method(modelopt), Ok(Some(Method::ModelOpt)));
        assert_eq!(method(json!({"quant_method": "mxfp4"})), Ok(None));
        assert_eq!(method(Value::Null), Ok(None));
    }

    #[test]
    fn settings_of_modelopts_own_file_are_read() {
        let read = |algorithm: Value| {
            let config = json!({"producer": {"name": "modelopt"}, "quantization":
                {"quant_algo": algorithm, "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}});
            QuantizationConfig::from_modelopt_config(&config)
        };
        let method = |algorithm| read(algorithm).unwrap().map(|config| config.method);
        assert_eq!(method(json!("NVFP4")), Some(Method::ModelOpt));
        assert_eq!(method(Value::Null), None);
        let error = read(json!("W4A16_AWQ")).unwrap_err().to_string();
        assert!(error.contains("`quant_algo` is W4A16_AWQ"), "{error}");
        let empty = QuantizationConfig::from_modelopt_config(&Value::Null);
        assert_eq!(empty.unwrap(), None);
    }

    #[test]
    fn unsupported_settings_are_refused_by_name() {
        for (settings, words) in [
            (json!({"quant_method": "eetq"}), "`eetq`"),
            (json!({"quant_method": "gptq", "bits": 3}), "`bits` is 3"),
            (json!({"quant_method": "gptq"}), "`bits` is null"),
            (
                json!({"quant_method": "awq", "bits": 4, "version": "gemv"}),
                "gemv",
            ),
            (json!({"quant_method": "fp8", "fmt": "e5m2"}), "e5m2"),
            (
                json!({"quant_method": "fp8", "weight_block_size": [0, 8]}),
                "weight_block_size",
            ),
            (
                json!({"quant_method": "bitsandbytes", "load_in_8bit": true}),
                "8-bit",
            ),
            (
                json!({"quant_method": "bitsandbytes", "bnb_4bit_quant_type": "fp4"}),
                "fp4",
            ),
            (
                json!({"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized"}),
                "mxfp4",
            ),
            (
                json!({"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized",
                    "config_groups": {"a": {"weights": {"num_bits": 8, "type": "float"}}}}),
                "num_bits",
            ),
            (
                json!({"quant_method": "modelopt", "quant_algo": "NVFP4_SVD"}),
                "NVFP4_SVD",
            ),
            (
                json!({"quant_method": "compressed-tensors", "transform_config": {"a": 1}}),
                "transform",
            ),
            (
                json!({"quant_method": "compressed-tensors", "format": "pack-quantized",
                    "config_groups": {"a": {"weights": {"num_bits": 2}}}}),
                "num_bits",
            ),
        ] {
            let problem = method(settings.clone()).unwrap_err();
            assert!(problem.contains(words), "{settings}: {problem}");
        }
    }
}
