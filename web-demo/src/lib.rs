//! Wisp for the browser.

pub use wisp_engine;
