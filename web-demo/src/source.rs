//! Weights that the engine reads through JavaScript.

use std::ops::Range;

use js_sys::Uint8Array;
use send_wrapper::SendWrapper;
use wasm_bindgen::prelude::*;
use wisp_engine::{
    device::{BoxFuture, Device},
    weights::{RemoteFile, WeightError},
};

#[wasm_bindgen]
extern "C" {
    /// `{ name: string, size: number, read(start: number, end: number): Promise<Uint8Array> }`
    pub type JsFile;

    #[wasm_bindgen(method, getter)]
    fn name(this: &JsFile) -> String;

    #[wasm_bindgen(method, getter)]
    fn size(this: &JsFile) -> f64;

    #[wasm_bindgen(method, catch)]
    async fn read(this: &JsFile, start: f64, end: f64) -> Result<JsValue, JsValue>;
}

/// Maximum bytes of uploads in flight, because browsers do not limit their queue.
const UPLOAD_WINDOW: u64 = 32 << 20;

/// A file in JavaScript, and the device that its contents are uploaded to.
pub struct Source {
    file: SendWrapper<JsFile>,
    device: Device,
    /// Bytes read since the last wait for the device.
    pending: SendWrapper<std::cell::Cell<u64>>,
}

impl Source {
    pub fn new(file: JsFile, device: Device) -> Source {
        Source {
            file: SendWrapper::new(file),
            device,
            pending: SendWrapper::new(std::cell::Cell::new(0)),
        }
    }

    fn failed(&self, problem: String) -> WeightError {
        WeightError::Io {
            doing: "read",
            path: self.name(),
            source: std::io::Error::other(problem),
        }
    }

    async fn fetch(&self, range: Range<u64>) -> Result<Vec<u8>, WeightError> {
        let pending = self.pending.get() + (range.end - range.start);
        self.pending.set(pending % UPLOAD_WINDOW);
        if pending >= UPLOAD_WINDOW {
            let finished = self.device.finish().await;
            finished.map_err(|error| self.failed(error.to_string()))?;
        }
        let bytes = self.file.read(range.start as f64, range.end as f64).await;
        let bytes = bytes.map_err(|error| {
            let message = js_sys::Reflect::get(&error, &"message".into()).ok();
            self.failed(
                message
                    .and_then(|text| text.as_string())
                    .unwrap_or_default(),
            )
        })?;
        let bytes: Uint8Array = bytes
            .dyn_into()
            .map_err(|_| self.failed("no bytes".into()))?;
        Ok(bytes.to_vec())
    }
}

impl RemoteFile for Source {
    fn name(&self) -> String {
        self.file.name()
    }

    fn byte_len(&self) -> u64 {
        // The number is an integer below 2^53.
        self.file.size() as u64
    }

    fn read(&self, range: Range<u64>) -> BoxFuture<'_, Result<Vec<u8>, WeightError>> {
        Box::pin(SendWrapper::new(self.fetch(range)))
    }
}
