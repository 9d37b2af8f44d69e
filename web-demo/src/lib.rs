//! Wisp for the browser: the engine behind a handful of functions that the package's JavaScript calls.
//!
//! Nothing here knows of OpenAI's objects, of workers or of storage: `web-demo/package` does. What
//! crosses the border is numbers, strings of JSON, and pieces of files.

mod error;
mod kernels;
mod model;
mod options;
mod source;

pub use kernels::Kernels;
pub use model::{JsCanceller, JsModel};
