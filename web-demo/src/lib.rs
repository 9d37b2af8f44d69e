//! Wisp for the browser: the functions of the engine that the JavaScript of the package calls.
//!
//! OpenAI's objects, workers and storage are implemented in `web-demo/package`. Only numbers, JSON strings and
//! parts of files pass between JavaScript and this module.

mod error;
mod events;
mod kernels;
mod model;
mod options;
mod source;

pub use kernels::Kernels;
pub use model::{JsCanceller, JsModel};
