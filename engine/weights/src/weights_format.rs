//! The formats of checkpoints, by the names of their files.

use wisp_types::choices;

choices! {
    /// The format of a model's weights.
    WeightsFormat, "weights format" {
        /// One `.gguf` file, or one in several parts.
        Gguf = "gguf",
        /// `.safetensors` files.
        Safetensors = "safetensors",
        /// `.bin`, `.pt` or `.pth` files of PyTorch's.
        PyTorch = "pytorch",
    }
}

impl WeightsFormat {
    /// The format that a file's name promises; `None` for what are no weights.
    pub fn of(file: &str) -> Option<WeightsFormat> {
        match file.rsplit_once('.')?.1 {
            "gguf" => Some(WeightsFormat::Gguf),
            "safetensors" => Some(WeightsFormat::Safetensors),
            "bin" | "pt" | "pth" => Some(WeightsFormat::PyTorch),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_by_name() {
        for (file, format) in [
            ("a/b.gguf", Some(WeightsFormat::Gguf)),
            (
                "model-00001-of-00002.safetensors",
                Some(WeightsFormat::Safetensors),
            ),
            ("pytorch_model.bin", Some(WeightsFormat::PyTorch)),
            ("consolidated.00.pth", Some(WeightsFormat::PyTorch)),
            ("model.safetensors.index.json", None),
            ("README", None),
        ] {
            assert_eq!(WeightsFormat::of(file), format, "{file}");
        }
    }
}
