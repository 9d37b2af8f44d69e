//! Reading small files that anyone may have written.
//!
//! A configuration may be a link to a device without an end, a pipe that nobody writes to, or a file of a terabyte
//! without contents. So only regular files are read, and no more of each than its kind may have.

use std::{
    fs::{File, Metadata, OpenOptions},
    io::{self, Read},
    path::Path,
};

/// A kind of small file, which says how long it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileKind {
    /// A model's configuration in JSON, such as `config.json`. Published ones have less than 2 MiB.
    Config,
    /// A tokenizer's `tokenizer.json`. Published ones have up to 34 MB.
    Tokenizer,
    /// The index of a checkpoint in several files: a million tensors with a hundred bytes each.
    Index,
    /// Settings in TOML, or the declaration of a custom op.
    Settings,
    /// The source of a kernel in WGSL.
    Kernel,
    /// A prompt or a text to measure a model on.
    Text,
    /// One line, such as a commit or an access token.
    Line,
}

impl FileKind {
    /// Returns what a file of the kind is, as a part of a sentence.
    fn description(self) -> &'static str {
        match self {
            FileKind::Config => "a configuration",
            FileKind::Tokenizer => "a tokenizer",
            FileKind::Index => "an index of weights",
            FileKind::Settings => "a file of settings",
            FileKind::Kernel => "a kernel",
            FileKind::Text => "a text",
            FileKind::Line => "a file of one line",
        }
    }

    /// Returns the largest length of a file of the kind, in bytes.
    pub const fn max_bytes(self) -> u64 {
        match self {
            FileKind::Config => 4 << 20,
            FileKind::Tokenizer => 64 << 20,
            FileKind::Index => 100 << 20,
            FileKind::Settings | FileKind::Kernel => 1 << 20,
            FileKind::Text => 64 << 20,
            FileKind::Line => 64 << 10,
        }
    }
}

/// Opens a file for reading if it is a regular one, after following links. Never waits, as the opening of a pipe
/// does.
///
/// # Errors
///
/// If the file cannot be opened, or is a folder, pipe, socket or device.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Opening a device may have effects of its own.
    require_regular(&std::fs::metadata(path)?)?;
    let mut options = OpenOptions::new();
    options.read(true);
    // Another file may have taken the name since. Opening a pipe must not wait for its writer.
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    let file = options.open(path)?;
    require_regular(&file.metadata()?)?;
    Ok(file)
}

/// Reads a whole file of a kind.
///
/// # Errors
///
/// If the file cannot be read, is not a regular file, or is longer than its kind allows. The message does not name
/// the file.
pub fn read_small(path: &Path, kind: FileKind) -> io::Result<Vec<u8>> {
    let file = open_regular(path)?;
    let length = file.metadata()?.len();
    if length > kind.max_bytes() {
        return Err(too_long(&format!("it has {} bytes", grouped(length)), kind));
    }
    read_limited(file, kind)
}

/// Reads a whole text file of a kind.
///
/// # Errors
///
/// As [`read_small`], and if the contents are not UTF-8.
pub fn read_small_text(path: &Path, kind: FileKind) -> io::Result<String> {
    text(read_small(path, kind)?)
}

/// Reads a stream, such as standard input, to its end.
///
/// # Errors
///
/// If reading fails, the contents are not UTF-8, or they are longer than the kind allows.
pub fn read_stream_text(stream: impl Read, kind: FileKind) -> io::Result<String> {
    text(read_limited(stream, kind)?)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let problem = format!(
            "it is not text in UTF-8: byte {} is invalid",
            grouped(at as u64)
        );
        io::Error::new(io::ErrorKind::InvalidData, problem)
    })
}

/// Reads at most one byte more than the kind allows: the length of a file may be wrong or change.
fn read_limited(stream: impl Read, kind: FileKind) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.take(kind.max_bytes() + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > kind.max_bytes() {
        return Err(too_long("it is longer", kind));
    }
    Ok(bytes)
}

fn too_long(found: &str, kind: FileKind) -> io::Error {
    let problem = format!(
        "{found}; {} has at most {} bytes",
        kind.description(),
        grouped(kind.max_bytes())
    );
    io::Error::new(io::ErrorKind::FileTooLarge, problem)
}

fn require_regular(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    let problem = format!("it is {}; expected a regular file", kind_of(metadata));
    Err(io::Error::new(io::ErrorKind::InvalidInput, problem))
}

/// Returns what a file is that is not regular.
fn kind_of(metadata: &Metadata) -> &'static str {
    if metadata.is_dir() {
        return "a folder";
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        let file_type = metadata.file_type();
        if file_type.is_fifo() {
            return "a pipe";
        }
        if file_type.is_socket() {
            return "a socket";
        }
    }
    "a device"
}

/// Formats a number with its digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_up_to_the_bound_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let max = FileKind::Line.max_bytes() as usize;
        std::fs::write(&path, vec![b'x'; max]).unwrap();
        assert_eq!(read_small(&path, FileKind::Line).unwrap().len(), max);
        std::fs::write(&path, vec![b'x'; max + 1]).unwrap();
        let error = read_small(&path, FileKind::Line).unwrap_err();
        assert_eq!(
            error.to_string(),
            "it has 65,537 bytes; a file of one line has at most 65,536 bytes"
        );
        let error = read_stream_text(io::repeat(b'x'), FileKind::Line).unwrap_err();
        assert!(error.to_string().starts_with("it is longer;"), "{error}");
    }

    #[test]
    fn invalid_text_is_reported_with_its_offset() {
        let error = read_stream_text(&b"ab\xff"[..], FileKind::Line).unwrap_err();
        assert!(error.to_string().contains("byte 2"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn only_regular_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        for (path, expected) in [
            (folder.path(), "a folder"),
            (&pipe, "a pipe"),
            (&socket, "a socket"),
            (&link, "a device"),
        ] {
            let error = open_regular(path).unwrap_err().to_string();
            assert_eq!(error, format!("it is {expected}; expected a regular file"));
        }
        let missing = open_regular(&folder.path().join("absent")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
