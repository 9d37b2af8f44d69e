//! The formats of checkpoints, and how a file's name tells its format.

use wisp_types::choices;

choices! {
    /// The file format of a checkpoint.
    WeightsFormat, "weights format" {
        /// One `.gguf` file, or one checkpoint in several parts.
        Gguf = "gguf",
        /// One or several `.safetensors` files.
        Safetensors = "safetensors",
        /// One or several `.bin`, `.pt` or `.pth` files that PyTorch wrote.
        PyTorch = "pytorch",
    }
}

impl WeightsFormat {
    /// Returns the format that the extension of a file's name stands for, in lower or upper case; `None` if the file
    /// does not hold weights.
    pub fn of(file: &str) -> Option<WeightsFormat> {
        match file.rsplit_once('.')?.1.to_ascii_lowercase().as_str() {
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
    fn format_follows_from_the_extension() {
        for (file, format) in [
            ("a/b.gguf", Some(WeightsFormat::Gguf)),
            ("a/B.GGUF", Some(WeightsFormat::Gguf)),
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
