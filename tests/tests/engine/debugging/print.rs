//! Values that graphs print: as text and as files.

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use safetensors::SafeTensors;
use wisp_engine::{
    graph::{DType, Graph, Unary},
    session::{InferenceSession, Model, PrintStyle, Tensor},
    shape,
};
use wisp_tests::{bundled::session, on_every_device, program::TestDevice};

use super::{captured_lines, execute, load};

/// `-x`, printed as "negative", then negated five times and printed as "the/end" and "the end".
fn printing() -> Graph {
    let mut graph = Graph::new("printing");
    let x = graph.input("x", DType::F32, shape!["n", 2u64]);
    let negative = graph.unary(Unary::Neg, x).unwrap();
    let mut end = graph.print(negative, "negative").unwrap();
    for _ in 0..5 {
        end = graph.unary(Unary::Neg, end).unwrap();
    }
    let end = graph.print(end, "the/end").unwrap();
    // Another label, which becomes the same file name.
    let end = graph.print(end, "the end").unwrap();
    graph.output("end", end);
    graph
}

/// A model of [`printing`], and the lines that it prints.
struct Printing {
    session: InferenceSession,
    model: Model,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Printing {
    fn new(place: TestDevice) -> Printing {
        let session = session(place);
        let model = load(&session, &printing());
        let lines = captured_lines(&session);
        Printing {
            session,
            model,
            lines,
        }
    }

    /// Runs the model, which passes its input through, and returns the lines.
    fn run(&self) -> Vec<String> {
        let values: Vec<f32> = (0..16).map(|i| i as f32 + 0.5).collect();
        let x = Tensor::f32(&[8, 2], &values).unwrap();
        let out = execute(&self.model, &[&x]).unwrap();
        assert_eq!(out[0].as_f32().unwrap(), values);
        std::mem::take(&mut *self.lines.lock().unwrap())
    }

    fn set(&self, style: PrintStyle, precision: usize, folder: Option<&Path>) {
        let folder = folder.map(Path::to_path_buf);
        let set = self
            .session
            .set_debug_print_options(style, precision, folder);
        set.unwrap();
    }

    /// Runs the model with a style that writes files; returns their names, sorted, and contents.
    fn files(&self, style: PrintStyle) -> (Vec<String>, Vec<Vec<u8>>) {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("new");
        self.set(style, 6, Some(&folder));
        assert!(self.run().is_empty());
        let mut files: Vec<_> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|file| file.unwrap().path())
            .collect();
        files.sort();
        let read = |path: &std::path::PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            (name.to_string(), std::fs::read(path).unwrap())
        };
        files.iter().map(read).unzip()
    }
}

/// Values are printed as they were when they were computed, and pass through unchanged.
fn values_are_printed_as_text(place: TestDevice) {
    let printing = Printing::new(place);
    assert_eq!(
        printing.run()[0],
        "negative = f32[8, 2] [[-0.500000, -1.500000],\n  [-2.500000, -3.500000],\n  [-4.500000, -5.500000], ...,\n  [-10.500000, -11.500000],\n  [-12.500000, -13.500000],\n  [-14.500000, -15.500000]]"
    );
    printing.set(PrintStyle::Full, 1, None);
    let full = printing.run();
    assert_eq!(full.len(), 3);
    assert!(
        full[1].starts_with("the/end = f32[8, 2] [[0.5, 1.5],\n  [2.5, 3.5],"),
        "{}",
        full[1]
    );
    assert_eq!(full[1].lines().count(), 8);
    printing.set(PrintStyle::None, 6, None);
    assert!(printing.run().is_empty());
}

/// The names of files have the label, with a number if an earlier value has the same name, and the run.
fn values_are_written_to_files(place: TestDevice) {
    let printing = Printing::new(place);
    let (names, bytes) = printing.files(PrintStyle::Binary);
    assert_eq!(
        names,
        ["negative.0.bin", "the_end.0.bin", "the_end~2.0.bin"]
    );
    let negative: Vec<f32> = bytemuck::pod_collect_to_vec(&bytes[0]);
    assert_eq!(
        negative,
        (0..16).map(|i| -(i as f32) - 0.5).collect::<Vec<_>>()
    );
    let (names, bytes) = printing.files(PrintStyle::BinaryCheckpoint);
    assert_eq!(
        names,
        ["negative.1", "the_end.1", "the_end~2.1"].map(|name| name.to_string() + ".safetensors")
    );
    let end = SafeTensors::deserialize(&bytes[1]).unwrap();
    assert!(
        SafeTensors::deserialize(&bytes[2])
            .unwrap()
            .tensor("the end")
            .is_ok()
    );
    let end = end.tensor("the/end").unwrap();
    assert_eq!(
        (end.shape(), end.dtype()),
        (&[8, 2][..], safetensors::Dtype::F32)
    );
}

/// A file in the place of the folder is an error of the run that prints.
fn a_file_in_the_place_of_the_folder_is_an_error(place: TestDevice) {
    let printing = Printing::new(place);
    printing.run();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    printing.set(PrintStyle::Binary, 6, Some(&file));
    let x = Tensor::f32(&[1, 2], &[1.0; 2]).unwrap();
    let error = execute(&printing.model, &[&x]).unwrap_err();
    assert!(error.contains("negative.1.bin: "), "{error}");
}

on_every_device!(
    values_are_printed_as_text,
    values_are_written_to_files,
    a_file_in_the_place_of_the_folder_is_an_error,
);

#[test]
fn a_label_is_printed_once_in_a_graph() {
    let mut graph = Graph::new("printing");
    let x = graph.input("x", DType::F32, shape!["n", 2u64]);
    let shown = graph.print(x, "negative").unwrap();
    let twice = graph.print(shown, "negative").unwrap_err().to_string();
    assert_eq!(
        twice,
        "print: another value is printed as \"negative\": choose another label (print.0: f32[n, 2])"
    );
}

#[test]
fn a_style_that_writes_files_needs_a_folder() {
    let session = session(TestDevice::Host);
    let error = session
        .set_debug_print_options(PrintStyle::Binary, 6, None)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the print style binary writes files: name a folder for them"
    );
}
