//! Log messages of Wisp and its dependencies, on standard error.

use anyhow::{Context, Result, anyhow};
use tracing_subscriber::{EnvFilter, fmt};

use crate::output::LogWriter;

/// The variable that filters messages, in the syntax of `RUST_LOG`.
const VARIABLE: &str = "WISP_LOG";

/// What is shown without the variable: warnings and errors of Wisp itself.
const DEFAULT: &str = "wisp=warn";

/// What is shown in no case: the bytes of requests to hubs, which hold the token.
const HIDDEN: &str = "ureq_proto::util=off";

/// Installs a subscriber for the process; messages of the `log` crate (wgpu's, ureq's) reach it too.
///
/// # Errors
///
/// If the variable is not a filter.
pub fn init() -> Result<()> {
    let text = std::env::var(VARIABLE).unwrap_or_default();
    let filter = match text.trim() {
        "" => DEFAULT,
        text => text,
    };
    let filter = EnvFilter::try_new(filter).with_context(|| {
        format!("{VARIABLE}={text}: use a level (warn, info, debug, trace) or target=level pairs")
    })?;
    let filter = filter.add_directive(HIDDEN.parse()?);
    let subscriber = fmt().with_env_filter(filter).with_writer(|| LogWriter);
    let subscriber = subscriber.with_timer(fmt::time::uptime()).with_ansi(false);
    subscriber.try_init().map_err(|error| anyhow!("{error}"))
}
