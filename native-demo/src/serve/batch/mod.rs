//! `wisp batch`: the requests of a file, in OpenAI's format of batches, through the endpoints of the server.
//!
//! A line of the input is a request, and every request becomes one line of the output, in the order in which they end.
//! The output grows line by line, so that a run that was killed goes on where it stopped: a line that was cut off is
//! dropped, and requests that have a line already are skipped. A retry first leaves out the lines of requests that
//! failed.

mod input;
mod output;
mod request;
mod run;

pub use run::{BatchFiles, run};
