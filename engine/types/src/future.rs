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

/// `Send` everywhere but on wasm32, where every type has this trait: there is only one thread, and
/// JavaScript's values cannot leave it.
#[cfg(not(target_arch = "wasm32"))]
pub trait MaybeSend: Send {}
#[cfg(not(target_arch = "wasm32"))]
impl<T: Send + ?Sized> MaybeSend for T {}

/// `Send` everywhere but on wasm32, where every type has this trait: there is only one thread, and
/// JavaScript's values cannot leave it.
#[cfg(target_arch = "wasm32")]
pub trait MaybeSend {}
#[cfg(target_arch = "wasm32")]
impl<T: ?Sized> MaybeSend for T {}
