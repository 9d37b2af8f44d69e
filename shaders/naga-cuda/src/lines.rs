//! Places in the WGSL, and output whose lines lead back to them.

use crate::{Location, Source};
use naga::Span;
use std::fmt::Write;

/// Finds lines and columns in the WGSL.
pub(crate) struct Lines<'a> {
    name: &'a str,
    /// Where each line begins.
    starts: Vec<usize>,
    len: usize,
}

impl<'a> Lines<'a> {
    /// Finds the lines of a source.
    pub(crate) fn new(source: Source<'a>) -> Self {
        let starts = std::iter::once(0)
            .chain(source.text.match_indices('\n').map(|(at, _)| at + 1))
            .collect();
        Self {
            name: source.name,
            starts,
            len: source.text.len(),
        }
    }

    /// Returns the place where a span begins, if it lies in the source.
    pub(crate) fn locate(&self, span: Span) -> Option<Location> {
        let start = span.to_range()?.start;
        if start > self.len {
            return None;
        }
        let line = self
            .starts
            .partition_point(|&line_start| line_start <= start);
        let column = start - self.starts.get(line.checked_sub(1)?)? + 1;
        Some(Location {
            name: self.name.to_owned(),
            line: u32::try_from(line).ok()?,
            column: u32::try_from(column).ok()?,
        })
    }
}

/// CUDA C++ in the making: indented lines, with `#line` directives where the source is known.
pub(crate) struct Output<'a> {
    text: String,
    depth: usize,
    lines: Option<&'a Lines<'a>>,
    /// The line that the compiler counts, once a directive has said so.
    counted: Option<u32>,
    /// The line of the WGSL that the next lines translate.
    wanted: Option<u32>,
}

impl<'a> Output<'a> {
    /// Begins output at a depth of indentation.
    pub(crate) fn new(lines: Option<&'a Lines<'a>>) -> Self {
        Self {
            text: String::new(),
            depth: 0,
            lines,
            counted: None,
            wanted: None,
        }
    }

    /// The next lines translate what a span begins with.
    pub(crate) fn at(&mut self, span: Span) {
        if let Some(location) = self.lines.and_then(|lines| lines.locate(span)) {
            self.wanted = Some(location.line);
        }
    }

    /// Writes one line.
    pub(crate) fn line(&mut self, line: impl AsRef<str>) {
        let line = line.as_ref();
        if let (Some(lines), Some(wanted)) = (self.lines, self.wanted) {
            if self.counted != Some(wanted) {
                let name = lines
                    .name
                    .replace('\\', "/")
                    .replace(['"', '\n', '\r'], "_");
                // Writing to a String does not fail.
                let _ = writeln!(self.text, "#line {wanted} \"{name}\"");
            }
            self.counted = Some(wanted + 1);
        }
        self.text.extend(std::iter::repeat_n("  ", self.depth));
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Writes a line that opens a block.
    pub(crate) fn open(&mut self, line: impl AsRef<str>) {
        self.line(line);
        self.depth += 1;
    }

    /// Writes a line that ends a block.
    pub(crate) fn close(&mut self, line: impl AsRef<str>) {
        self.depth = self.depth.saturating_sub(1);
        self.line(line);
    }

    /// Indents again, after a line that both ended a block and opened another.
    pub(crate) fn open_again(&mut self) {
        self.depth += 1;
    }

    /// Returns the text.
    pub(crate) fn finish(self) -> String {
        self.text
    }
}
