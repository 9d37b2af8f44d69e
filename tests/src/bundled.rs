//! The built-in model, opened by the library.

use std::path::{Path, PathBuf};

use wisp_engine::{
    device::Device,
    pipelines::ModelFiles,
    session::InferenceSession,
    weights::{
        StoredEncoding,
        gguf::{Gguf, Value},
    },
};

use crate::{gguf_writer::GgufWriter, test_device::TestDevice};

/// Returns the folder of the model and its reference results.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../native-demo/model")
}

/// Opens the model's files.
pub fn files() -> ModelFiles {
    ModelFiles::open(&folder().join("wisp-tiny.gguf")).expect("the built-in model")
}

/// Opens a session on a test device that is opened for it alone.
pub fn session(place: TestDevice) -> InferenceSession {
    let (spec, options) = place.open();
    InferenceSession::new(Device::open_blocking(&spec, options).expect("the device"))
}

/// Opens a session on the [shared](TestDevice::shared) device, so that sessions after the first one compile no kernel
/// again; on the host, which compiles none, on a device of its own.
pub fn shared_session(place: TestDevice) -> InferenceSession {
    match place {
        TestDevice::Host => session(place),
        _ => InferenceSession::new(place.shared()),
    }
}

/// Returns the number of programs with which a model generates on a test device: its own and the sampler's, and on a GPU
/// one that fills in the tokens of batches that are ahead.
pub fn programs(place: TestDevice) -> usize {
    let session = shared_session(place);
    let target = &session.device().info().capabilities;
    2 + usize::from(!target.is_host && !target.software_kernels)
}

/// The built-in model's token that [`damaged`] damages: no reference text has it.
pub const DAMAGED_TOKEN: u32 = 700;

/// Returns the built-in model's file with an embedding of NaN for [`DAMAGED_TOKEN`].
pub fn damaged() -> Vec<u8> {
    let mut file = std::fs::read(folder().join("wisp-tiny.gguf")).expect("the built-in model");
    let gguf = Gguf::parse(&file).expect("the built-in model");
    let embedding = gguf.tensors.iter();
    let mut embedding = embedding.filter(|tensor| tensor.name == "token_embd.weight");
    let embedding = embedding.next().expect("an embedding");
    let row = embedding.len / embedding.shape[0];
    let start = (embedding.offset + u64::from(DAMAGED_TOKEN) * row) as usize;
    let nan = half::f16::NAN.to_le_bytes();
    for element in file[start..start + row as usize].chunks_exact_mut(2) {
        element.copy_from_slice(&nan);
    }
    file
}

/// Returns the model's file with some metadata replaced (or, with `None`, removed). Its tensors stay.
pub fn with_metadata(changes: &[(&str, Option<Value>)]) -> Vec<u8> {
    let file = std::fs::read(folder().join("wisp-tiny.gguf")).expect("the built-in model");
    let gguf = Gguf::parse(&file).expect("a valid file");
    let mut metadata = gguf.metadata;
    for (key, value) in changes {
        match value {
            Some(value) => metadata.insert(key.to_string(), value.clone()),
            None => metadata.remove(*key),
        };
    }
    let mut writer = GgufWriter::new(gguf.version, gguf.big_endian);
    for (key, value) in metadata {
        writer = writer.key(&key, value);
    }
    for tensor in gguf.tensors {
        let data = &file[tensor.offset as usize..][..tensor.len as usize];
        let StoredEncoding::Supported(encoding) = tensor.stored else {
            panic!("{} is not stored in an encoding of Wisp", tensor.name);
        };
        writer = writer.tensor(&tensor.name, encoding, &tensor.shape, data);
    }
    writer.write()
}
