//! Values that a graph prints: as text, or as files.

use std::{fmt::Write, path::Path};

use super::{
    config::{PrintOptions, PrintStyle},
    debugger::Debugger,
    error::DebugError,
    steps::elements,
};
use crate::{dims::Dims, error::SessionError, model::Model};
use wisp_compiler::Port;
use wisp_types::DType;

/// The number of elements at each end of a dimension that the compact style shows.
const ENDS: u64 = 3;

/// The folder of a style that writes files; `None` for other styles.
pub(super) fn folder(options: &PrintOptions) -> Result<Option<&Path>, DebugError> {
    match (options.style, &options.output_directory) {
        (PrintStyle::Binary | PrintStyle::BinaryCheckpoint, None) => Err(DebugError::NoDirectory {
            style: options.style.name(),
        }),
        (PrintStyle::Binary | PrintStyle::BinaryCheckpoint, Some(folder)) => Ok(Some(folder)),
        _ => Ok(None),
    }
}

/// Prints the values that a model's graph prints, after a run.
pub(super) async fn all(
    debugger: &Debugger,
    options: &PrintOptions,
    model: &Model,
    dims: &Dims,
    run: u64,
) -> Result<(), SessionError> {
    if options.style == PrintStyle::None {
        return Ok(());
    }
    let prints = &model.program().prints;
    for (i, port) in prints.iter().enumerate() {
        let shape = shape(port, model, dims);
        let elements = elements(&port.elements, dims);
        let words: Vec<u32> = match model.memory.buffer(port.buffer) {
            Some(buffer) if elements > 0 => {
                let bytes = model.device().read(buffer, 0..elements as u64 * 4).await?;
                bytemuck::pod_collect_to_vec(&bytes)
            }
            _ => Vec::new(),
        };
        match folder(options)? {
            Some(folder) => {
                let name = plain(&port.name);
                let same = prints[..i].iter().filter(|p| plain(&p.name) == name);
                let path = folder.join(file_name(&name, same.count(), run, options.style));
                let wrong = |problem: String| DebugError::File {
                    path: path.clone(),
                    problem,
                };
                let bytes = match options.style {
                    PrintStyle::Binary => bytemuck::cast_slice(&words).to_vec(),
                    _ => checkpoint(port, &shape, &words).map_err(wrong)?,
                };
                std::fs::create_dir_all(folder)
                    .and_then(|()| std::fs::write(&path, bytes))
                    .map_err(|error| wrong(error.to_string()))?;
            }
            None => debugger.write_line(&text(port, &shape, &words, options)),
        }
    }
    Ok(())
}

fn shape(port: &Port, model: &Model, dims: &Dims) -> Vec<u64> {
    let size = |dim| model.size_of(dim, dims).unwrap_or(0);
    port.shape.0.iter().map(size).collect()
}

/// A label as part of a file name: characters other than letters, digits and `-` become `_`.
fn plain(label: &str) -> String {
    let plain = |c: char| match c.is_ascii_alphanumeric() || c == '-' {
        true => c,
        false => '_',
    };
    label.chars().take(100).map(plain).collect()
}

/// The file name for a plain label; `before` counts earlier values with the same one.
fn file_name(label: &str, before: usize, run: u64, style: PrintStyle) -> String {
    let ending = match style {
        PrintStyle::Binary => "bin",
        _ => "safetensors",
    };
    match before {
        0 => format!("{label}.{run}.{ending}"),
        _ => format!("{label}~{}.{run}.{ending}", before + 1),
    }
}

/// One tensor as a safetensors file.
fn checkpoint(port: &Port, shape: &[u64], words: &[u32]) -> Result<Vec<u8>, String> {
    use safetensors::{Dtype, tensor::TensorView};

    let dtype = match port.dtype {
        DType::F32 => Dtype::F32,
        DType::U32 => Dtype::U32,
    };
    let shape: Vec<usize> = shape.iter().map(|size| *size as usize).collect();
    let view = TensorView::new(dtype, shape, bytemuck::cast_slice(words));
    let view = view.map_err(|error| error.to_string())?;
    safetensors::serialize([(&port.name, view)], None).map_err(|error| error.to_string())
}

fn text(port: &Port, shape: &[u64], words: &[u32], options: &PrintOptions) -> String {
    let whole = options.style == PrintStyle::Full;
    let mut text = format!("{} = {}{shape:?} ", port.name, port.dtype);
    let element = |text: &mut String, word: u32| {
        // Writing to a `String` cannot fail.
        let _ = match port.dtype {
            DType::F32 => write!(
                text,
                "{:.*}",
                options.precision.min(64),
                f32::from_bits(word)
            ),
            DType::U32 => write!(text, "{word}"),
        };
    };
    write_part(&mut text, shape, words, whole, &element);
    text
}

/// Writes a tensor in brackets, with each row on its own line.
fn write_part(
    text: &mut String,
    shape: &[u64],
    words: &[u32],
    whole: bool,
    element: &dyn Fn(&mut String, u32),
) {
    let Some((outer, inner)) = shape.split_first() else {
        if let Some(word) = words.first() {
            element(text, *word);
        }
        return;
    };
    let step = inner.iter().product::<u64>() as usize;
    *text += "[";
    for i in 0..*outer {
        if !whole && *outer > 2 * ENDS && (ENDS..*outer - ENDS).contains(&i) {
            if i == ENDS {
                *text += ", ...";
            }
            continue;
        }
        match (i > 0, inner.is_empty()) {
            (true, true) => *text += ", ",
            (true, false) => *text += ",\n  ",
            _ => {}
        }
        let part = words.get(i as usize * step..).unwrap_or_default();
        write_part(text, inner, part, whole, element);
    }
    *text += "]";
}

#[cfg(test)]
mod tests {
    use super::*;
    use wisp_compiler::{BufferRef, Size};
    use wisp_types::shape as dims;

    #[test]
    fn compact_prints_elide_the_middle_and_full_prints_do_not() {
        let port = Port {
            name: "x".into(),
            dtype: DType::U32,
            shape: dims![2u64, 8u64],
            elements: Size::fixed(16),
            buffer: BufferRef::Slot(0),
        };
        let words: Vec<u32> = (0..16).collect();
        let options = |style| PrintOptions {
            style,
            ..Default::default()
        };
        let show = |shape: &[u64], style| text(&port, shape, &words, &options(style));
        assert_eq!(
            show(&[2, 8], PrintStyle::Compact),
            "x = u32[2, 8] [[0, 1, 2, ..., 5, 6, 7],\n  [8, 9, 10, ..., 13, 14, 15]]"
        );
        assert_eq!(
            show(&[1, 8], PrintStyle::Full),
            "x = u32[1, 8] [[0, 1, 2, 3, 4, 5, 6, 7]]"
        );
        assert_eq!(show(&[], PrintStyle::Full), "x = u32[] 0");
        assert_eq!(show(&[0, 3], PrintStyle::Full), "x = u32[0, 3] []");
    }

    #[test]
    fn labels_become_plain_file_names() {
        assert_eq!(
            file_name(&plain("../a b/ß"), 0, 3, PrintStyle::Binary),
            "___a_b__.3.bin"
        );
    }
}
