//! A file that is read in pieces, as over a network.

use std::{ops::Range, sync::Arc};

use wisp_engine::{
    types::BoxFuture,
    weights::{Checkpoint, RemoteFile, WeightError},
};

struct Remote(Vec<u8>);

impl RemoteFile for Remote {
    fn name(&self) -> String {
        "remote.gguf".into()
    }

    fn byte_len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&self, range: Range<u64>) -> BoxFuture<'_, Result<Vec<u8>, WeightError>> {
        let bytes = self.0[range.start as usize..range.end as usize].to_vec();
        Box::pin(std::future::ready(Ok(bytes)))
    }
}

/// Opens a GGUF file as a remote one.
///
/// # Panics
///
/// If it is damaged.
pub fn open(bytes: Vec<u8>) -> Checkpoint {
    let file = Arc::new(Remote(bytes)) as Arc<dyn RemoteFile>;
    pollster::block_on(Checkpoint::open_remote(vec![file])).expect("a sound file")
}
