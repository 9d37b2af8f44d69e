//! Compiled models as bytes, to save, ship and load elsewhere.
//!
//! | bytes | |
//! |---|---|
//! | 8 | `wispmodl` |
//! | 4 | the format's version, as the other numbers little-endian |
//! | 16 | the version of Wisp that wrote it: text, padded with zeros |
//! | 32 | the fingerprint of the kernels that it was compiled for |
//! | 8 | length of the contents |
//! | … | the contents: metadata and programs, in postcard's encoding |
//! | 32 | SHA-256 of all preceding bytes |
//!
//! The same programs give the same bytes. Rejected: a self-describing encoding, so that other versions
//! could read them. Kernels and their parameters change with versions, and compiling takes milliseconds.

use std::{collections::BTreeMap, io};

use sha2::{Digest, Sha256};

use wisp_compiler::{Program, ProgramError, ProgramParts};

/// The version of the format; raised when the header or a type within [`Program`] changes.
const FORMAT: u32 = 8;

/// The first bytes of each compiled model.
pub(crate) const MAGIC: &[u8; 8] = b"wispmodl";

const HEADER_BYTES: usize = 8 + 4 + 16 + 32 + 8;

const CHECKSUM_BYTES: usize = 32;

/// The largest file that is read; programs are much smaller.
const MOST_BYTES: u64 = 1 << 30;

/// An error of reading or writing a compiled model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArtefactError {
    /// Occurs when the bytes do not begin with the format's signature.
    #[error("this is no compiled model of Wisp's")]
    Foreign,
    /// Occurs when the number of bytes is not the one in the header.
    #[error("the compiled model is damaged: it has {actual} bytes instead of {expected}")]
    Length {
        /// Bytes that it should have.
        expected: u64,
        /// Bytes that it has.
        actual: u64,
    },
    /// Occurs when the checksum does not match the bytes.
    #[error("the compiled model is damaged: its checksum is wrong")]
    Damaged,
    /// Occurs when another version of Wisp wrote it.
    #[error(
        "the compiled model was made by Wisp {version} (format {format}), this is {} (format {FORMAT}): compile it again",
        env!("CARGO_PKG_VERSION")
    )]
    Version {
        /// The version that wrote it.
        version: String,
        /// The version of its format.
        format: u32,
    },
    /// Occurs when it was compiled for other kernels than those of this build.
    #[error(
        "the compiled model was made for other kernels than this build of Wisp has: compile it again"
    )]
    Kernels,
    /// Occurs when the contents cannot be read, although the checksum is right.
    #[error("the compiled model's contents cannot be read: {0}: compile it again")]
    Contents(String),
    /// Occurs when a program in it is inconsistent.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Occurs when one program is expected and it has none or several.
    #[error("one compiled graph was expected, but there are {}: {}", .graphs.len(), .graphs.join(", "))]
    NotOne {
        /// The graphs' names.
        graphs: Vec<String>,
    },
    /// Occurs when two graphs of a module have the same name.
    #[error("two graphs are called {name:?}: give one of them another name")]
    Duplicate {
        /// The name that both graphs have.
        name: String,
    },
    /// Occurs when its size exceeds the limit of 1 GiB.
    #[error("a compiled model cannot have {bytes} bytes")]
    TooLarge {
        /// The size of the compiled model in bytes.
        bytes: u64,
    },
    /// Occurs when reading or writing fails.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Occurs when saving would overwrite a file that is no compiled model.
    #[error("a file that is no compiled model is there: remove it, or name another")]
    Taken,
    /// Occurs when a file cannot be read or written.
    #[cfg(not(target_arch = "wasm32"))]
    #[error("{}: {source}", path.display())]
    File {
        /// The path of the compiled model's file.
        path: std::path::PathBuf,
        /// What is wrong with it.
        source: Box<ArtefactError>,
    },
}

/// A module's metadata, by key.
pub(crate) type Metadata = BTreeMap<String, String>;

/// Wisp's version as it stands in the header.
fn version() -> [u8; 16] {
    let mut padded = [0; 16];
    let version = env!("CARGO_PKG_VERSION").as_bytes();
    let len = version.len().min(padded.len());
    padded[..len].copy_from_slice(&version[..len]);
    padded
}

/// The parts of a cache key that identify the compiler: format, version, kernels, and the build of the
/// running executable, because two builds of one version may have different compilers.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn identity() -> [Vec<u8>; 4] {
    [
        running_build().into_bytes(),
        FORMAT.to_le_bytes().to_vec(),
        version().to_vec(),
        wisp_shaders::fingerprint().to_vec(),
    ]
}

/// The size and modification time of the running executable; empty where the system has neither.
#[cfg(not(target_arch = "wasm32"))]
fn running_build() -> String {
    let stamp = || {
        let file = std::fs::metadata(std::env::current_exe().ok()?).ok()?;
        let modified = file.modified().ok()?;
        let age = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(format!("{}.{}", file.len(), age.as_nanos()))
    };
    stamp().unwrap_or_default()
}

pub(crate) fn write(metadata: &Metadata, programs: &[&Program]) -> Result<Vec<u8>, ArtefactError> {
    let contents = postcard::to_stdvec(&(metadata, programs)).map_err(unreadable)?;
    let mut bytes = Vec::with_capacity(HEADER_BYTES + contents.len() + CHECKSUM_BYTES);
    bytes.extend(MAGIC);
    bytes.extend(FORMAT.to_le_bytes());
    bytes.extend(version());
    bytes.extend(wisp_shaders::fingerprint());
    bytes.extend((contents.len() as u64).to_le_bytes());
    bytes.extend(contents);
    let checksum = Sha256::digest(&bytes);
    bytes.extend(checksum);
    Ok(bytes)
}

/// Checks a header and returns the length of the contents.
fn header(header: &[u8; HEADER_BYTES]) -> Result<u64, ArtefactError> {
    let Some(rest) = header.strip_prefix(MAGIC) else {
        return Err(ArtefactError::Foreign);
    };
    let (format, rest) = rest.split_at(4);
    let (by, rest) = rest.split_at(16);
    let (kernels, len) = rest.split_at(32);
    let format = little_endian(format) as u32;
    if format != FORMAT || by != version() {
        let version = String::from_utf8_lossy(by);
        return Err(ArtefactError::Version {
            version: version.trim_end_matches('\0').escape_debug().to_string(),
            format,
        });
    }
    if kernels != wisp_shaders::fingerprint() {
        return Err(ArtefactError::Kernels);
    }
    Ok(little_endian(len))
}

/// Returns the little-endian number of at most eight bytes.
fn little_endian(bytes: &[u8]) -> u64 {
    let mut number = [0; 8];
    number[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(number)
}

/// The length of a compiled model whose contents have this length.
fn whole(contents: u64) -> Result<u64, ArtefactError> {
    let bytes = contents.saturating_add((HEADER_BYTES + CHECKSUM_BYTES) as u64);
    match bytes <= MOST_BYTES {
        true => Ok(bytes),
        false => Err(ArtefactError::TooLarge { bytes }),
    }
}

pub(crate) fn read(bytes: &[u8]) -> Result<(Metadata, Vec<Program>), ArtefactError> {
    let Some((start, _)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Err(match bytes.starts_with(MAGIC) {
            true => length(HEADER_BYTES as u64, bytes),
            false => ArtefactError::Foreign,
        });
    };
    let expected = whole(header(start)?)?;
    if bytes.len() as u64 != expected {
        return Err(length(expected, bytes));
    }
    let (signed, checksum) = bytes.split_at(bytes.len() - CHECKSUM_BYTES);
    if Sha256::digest(signed)[..] != *checksum {
        return Err(ArtefactError::Damaged);
    }
    let ((metadata, programs), rest): ((Metadata, Vec<ProgramParts>), _) =
        postcard::take_from_bytes(&signed[HEADER_BYTES..]).map_err(unreadable)?;
    if !rest.is_empty() {
        let problem = format!("{} bytes follow them", rest.len());
        return Err(ArtefactError::Contents(problem));
    }
    let programs = programs.into_iter().map(Program::try_from);
    Ok((metadata, programs.collect::<Result<_, _>>()?))
}

fn unreadable(error: postcard::Error) -> ArtefactError {
    ArtefactError::Contents(error.to_string())
}

fn length(expected: u64, bytes: &[u8]) -> ArtefactError {
    ArtefactError::Length {
        expected,
        actual: bytes.len() as u64,
    }
}

/// Reads the bytes of a compiled model, and one more if the reader has more.
pub(crate) fn bytes_of(from: &mut dyn io::Read) -> Result<Vec<u8>, ArtefactError> {
    let mut bytes = Vec::new();
    let mut take = |bytes: &mut Vec<u8>, upto: u64| {
        let missing = upto.saturating_sub(bytes.len() as u64);
        io::Read::read_to_end(&mut io::Read::take(&mut *from, missing), bytes)
    };
    take(&mut bytes, HEADER_BYTES as u64)?;
    if let Some((start, _)) = bytes.split_first_chunk::<HEADER_BYTES>() {
        let expected = whole(header(start)?)?;
        take(&mut bytes, expected + 1)?;
    }
    Ok(bytes)
}
