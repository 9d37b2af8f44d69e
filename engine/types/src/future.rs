//! Boxed futures that are `Send` on targets with threads.

use std::{future::Future, pin::Pin};

/// A boxed future. It is `Send` everywhere but on wasm32, where JavaScript's values cannot leave their
/// thread.
#[cfg(not(target_arch = "wasm32"))]
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
/// A boxed future. It is `Send` everywhere but on wasm32, where JavaScript's values cannot leave their
/// thread.
#[cfg(target_arch = "wasm32")]
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;
