//! The index of a checkpoint in several files.

use std::collections::HashMap;

use serde::Deserialize;

use crate::error::WeightError;

/// `model.safetensors.index.json`: the file that holds each tensor of a checkpoint in several files.
#[derive(Debug)]
pub struct SafetensorsIndex {
    /// The files, sorted, each once. They are relative paths that stay inside the index's folder.
    pub files: Vec<String>,
    /// For each tensor, the position of its file in `files`.
    pub weight_map: HashMap<String, usize>,
}

impl SafetensorsIndex {
    /// Parses an index. `name` is the name of the index file, which messages use.
    ///
    /// # Errors
    ///
    /// If the file is not such an index, or names a file outside its folder.
    pub fn parse(name: &str, json: &[u8]) -> Result<SafetensorsIndex, WeightError> {
        #[derive(Deserialize)]
        struct Index {
            weight_map: HashMap<String, String>,
        }
        let error = |reason: String| WeightError::Index {
            file: name.into(),
            reason,
        };
        let index: Index = serde_json::from_slice(json).map_err(|reason| {
            error(format!(
                "not an index of a checkpoint's files ({})",
                reason.to_string().escape_debug()
            ))
        })?;
        if index.weight_map.is_empty() {
            return Err(error("the index names no tensor".into()));
        }
        let mut files: Vec<_> = index.weight_map.values().cloned().collect();
        files.sort_unstable();
        files.dedup();
        if let Some(file) = files.iter().find(|file| !stays_inside(file)) {
            return Err(error(format!(
                "the index names the file `{}`; expected a file inside the index's own folder",
                file.escape_debug()
            )));
        }
        // Every file of the map is in the list.
        let position = |file: &String| files.binary_search(file).unwrap_or_default();
        let weight_map = index.weight_map.iter();
        let weight_map = weight_map
            .map(|(tensor, file)| (tensor.clone(), position(file)))
            .collect();
        Ok(SafetensorsIndex { files, weight_map })
    }
}

/// Returns true for a relative path that stays inside its folder on every system: Windows takes `\` for a
/// separator and `:` for the end of a drive's name.
fn stays_inside(path: &str) -> bool {
    !path.contains(['\\', ':', '\0'])
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}
