//! Files that lie beside a model and are no models.

use std::path::Path;

use crate::{files::map_file, gguf::Gguf};

/// Returns whether a file of weights is an addition to a model, and none itself: a projector for images, an adapter, an
/// importance matrix, or the settings of a trainer. Its name says so, or else its metadata; a file that cannot be read
/// counts as a model.
pub fn is_auxiliary_file(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if is_auxiliary_name(&name) {
        return true;
    }
    let is_gguf = path
        .extension()
        .is_some_and(|extension| extension == "gguf");
    let Some(file) = map_file(path).ok().filter(|_| is_gguf) else {
        return false;
    };
    Gguf::parse(file.bytes.as_slice()).is_ok_and(|gguf| is_auxiliary(&gguf))
}

/// Returns whether the name of a file of weights is that of an addition to a model.
pub fn is_auxiliary_name(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    let parts = ["mmproj", "imatrix", "adapter_model."];
    name == "training_args.bin" || parts.iter().any(|part| name.contains(part))
}

fn is_auxiliary(gguf: &Gguf) -> bool {
    let is = |key: &str, names: &[&str]| {
        let text = gguf.get::<&str>(key).ok().flatten();
        text.is_some_and(|text| names.contains(&text))
    };
    is("general.type", &["adapter", "mmproj", "imatrix"]) || is("general.architecture", &["clip"])
}
