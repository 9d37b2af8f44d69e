//! What all requests share.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use axum::body::Body;
use tokio::sync::{Mutex, Notify};

pub use super::clock::now;
use super::{
    error::ApiError,
    fields::Fields,
    metrics::Metrics,
    models::{Models, ServedModel},
    options::Options,
    unsupported::{self, Rule},
};

/// The state of the server.
#[derive(Debug)]
pub struct Server {
    /// The options.
    pub options: Options,
    /// The metrics.
    pub metrics: Metrics,
    /// When the server started, in seconds of Unix time.
    pub started: u64,
    /// Unset while they are loaded.
    models: OnceLock<Models>,
    /// Where traces go.
    #[cfg(feature = "otel")]
    pub telemetry: Option<super::telemetry::Telemetry>,
    /// Held while an adapter is loaded or unloaded.
    pub changing_adapters: Mutex<()>,
    /// Wakes what waits for the server's end: after a signal, and when no request is being answered any more.
    pub wake: Arc<Notify>,
    is_ending: AtomicBool,
    requests: AtomicUsize,
}

/// A request that is being answered, until it is dropped.
#[derive(Debug)]
pub struct ActiveRequest {
    server: Arc<Server>,
}

impl Server {
    /// Creates the state of a server whose models are not loaded yet.
    pub fn new(options: Options) -> Server {
        Server {
            metrics: Metrics::new(options.vllm_metrics),
            options,
            started: now(),
            models: OnceLock::new(),
            #[cfg(feature = "otel")]
            telemetry: None,
            changing_adapters: Mutex::new(()),
            wake: Arc::default(),
            is_ending: AtomicBool::new(false),
            requests: AtomicUsize::new(0),
        }
    }

    /// Begins to send traces, if the options or the environment say where to.
    ///
    /// # Errors
    ///
    /// If the address is invalid.
    #[cfg(feature = "otel")]
    pub fn with_telemetry(mut self) -> anyhow::Result<Server> {
        let endpoint = self.options.otlp_endpoint.as_deref();
        self.telemetry = super::telemetry::Telemetry::start(endpoint)?;
        Ok(self)
    }

    /// Sets the models, once.
    pub fn set_models(&self, models: Models) {
        let _ = self.models.set(models);
    }

    /// Returns the models for a new request.
    ///
    /// # Errors
    ///
    /// If they are not loaded yet, or the server is about to end.
    pub fn models(&self) -> Result<&Models, ApiError> {
        match self.loaded_models() {
            _ if self.is_ending.load(Ordering::Relaxed) => {
                Err(ApiError::unavailable("the server is shutting down"))
            }
            Some(models) => Ok(models),
            None => Err(ApiError::unavailable("the server is loading its models")),
        }
    }

    /// Reads a request and finds the model that it names. Parameters that these rules do not allow are refused.
    ///
    /// # Errors
    ///
    /// If the models are not loaded, the body is no object of JSON, there is no such model, or a parameter is not
    /// supported.
    pub async fn read(
        &self,
        body: Body,
        rules: &[&[Rule]],
    ) -> Result<(Fields, Arc<ServedModel>), ApiError> {
        let models = self.models()?;
        let fields = Fields::read(body, self.options.max_body_bytes).await?;
        let served = models.find(fields.get::<String>("model")?.as_deref())?;
        unsupported::check(&fields, rules)?;
        Ok((fields, served))
    }

    /// Returns the models if they are loaded.
    pub fn loaded_models(&self) -> Option<&Models> {
        self.models.get()
    }

    /// Returns whether the devices of all models were lost.
    pub fn has_lost_all(&self) -> bool {
        self.loaded_models().is_some_and(|models| {
            let all = models.all();
            all.iter().all(|served| served.health.is_lost())
        })
    }

    /// Refuses new requests from now on.
    pub fn end(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// Counts a request until the returned value is dropped.
    pub fn begin(self: &Arc<Server>) -> ActiveRequest {
        self.requests.fetch_add(1, Ordering::Relaxed);
        ActiveRequest {
            server: self.clone(),
        }
    }

    /// Returns the number of requests that are being answered.
    pub fn active_requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        if self.server.requests.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.server.wake.notify_one();
        }
    }
}
