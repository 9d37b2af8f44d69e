//! The environment variables that Hugging Face's tools share: where the hub is, where the cache is,
//! and which token to send.

use std::{env, fs, path::PathBuf, time::Duration};

use hf_hub::Cache;
use ureq::http::Uri;

use crate::error::RepoError;

const DEFAULT_ENDPOINT: &str = "https://huggingface.co";

/// Seconds without a byte after which a transfer is given up, unless `HF_HUB_DOWNLOAD_TIMEOUT` says
/// otherwise.
const DEFAULT_TIMEOUT: f64 = 30.0;

/// The settings of one hub client.
#[derive(Clone)]
pub(super) struct Settings {
    /// The hub's address without a slash at its end (`HF_ENDPOINT`).
    pub endpoint: String,
    /// The access token, if there is one (`HF_TOKEN`, or the file that `hf auth login` writes).
    pub token: Option<String>,
    /// The folder of the cache, and the functions of `hf-hub` that know its layout.
    pub cache: Cache,
    /// Whether the network must not be used (`HF_HUB_OFFLINE`).
    pub offline: bool,
    /// How long a server may stay silent (`HF_HUB_DOWNLOAD_TIMEOUT`).
    pub timeout: Duration,
}

impl Settings {
    /// Reads the environment.
    ///
    /// # Errors
    ///
    /// If `HF_ENDPOINT` is not an address, or no variable and no home directory says where the cache is.
    pub fn from_environment() -> Result<Self, RepoError> {
        Ok(Self {
            endpoint: endpoint()?,
            token: token(),
            cache: Cache::new(cache_directory()?),
            offline: is_enabled("HF_HUB_OFFLINE"),
            timeout: timeout(),
        })
    }

    /// Returns the hub's scheme and host, without the path that a mirror may have.
    pub fn origin(&self) -> &str {
        let host = self.endpoint.find("://").map_or(0, |at| at + 3);
        let path = self.endpoint[host..].find('/');
        path.map_or(&self.endpoint, |path| &self.endpoint[..host + path])
    }
}

/// Returns a variable's value, unless it is unset, empty or not Unicode.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn is_enabled(name: &str) -> bool {
    let value = variable(name).unwrap_or_default();
    ["1", "true", "yes", "on"].contains(&value.trim().to_ascii_lowercase().as_str())
}

fn endpoint() -> Result<String, RepoError> {
    let Some(endpoint) = variable("HF_ENDPOINT") else {
        return Ok(DEFAULT_ENDPOINT.into());
    };
    let address = endpoint.parse::<Uri>().ok();
    let is_http = address.is_some_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.authority().is_some()
    });
    if !is_http {
        return Err(RepoError::InvalidSetting {
            variable: "HF_ENDPOINT",
            problem: format!("{endpoint:?} is not an address such as {DEFAULT_ENDPOINT}"),
        });
    }
    Ok(endpoint.trim_end_matches('/').into())
}

fn timeout() -> Duration {
    let seconds = variable("HF_HUB_DOWNLOAD_TIMEOUT");
    let seconds = seconds.and_then(|seconds| seconds.trim().parse::<f64>().ok());
    let seconds = seconds.filter(|&seconds| seconds > 0.0 && seconds < 1e6);
    Duration::from_secs_f64(seconds.unwrap_or(DEFAULT_TIMEOUT))
}

/// Hugging Face's home: `HF_HOME`, else `huggingface` in the user's cache folder.
fn home() -> Option<PathBuf> {
    let caches = || {
        let xdg = variable("XDG_CACHE_HOME").map(PathBuf::from);
        xdg.or_else(|| Some(env::home_dir()?.join(".cache")))
    };
    let home = variable("HF_HOME").map(PathBuf::from);
    home.or_else(|| Some(caches()?.join("huggingface")))
}

/// Returns the folder of the cache: `HF_HUB_CACHE`, else `hub` in Hugging Face's home.
pub(super) fn cache_directory() -> Result<PathBuf, RepoError> {
    let named = variable("HF_HUB_CACHE").or_else(|| variable("HUGGINGFACE_HUB_CACHE"));
    let folder = named.map(PathBuf::from);
    let folder = folder.or_else(|| Some(home()?.join("hub")));
    folder.ok_or(RepoError::InvalidSetting {
        variable: "HF_HOME",
        problem: "it is not set, and this user has no home directory to keep the cache in".into(),
    })
}

/// Returns the token of `HF_TOKEN`, else that of the file `HF_TOKEN_PATH` or `token` in Hugging
/// Face's home. A token that no header can carry is left out.
fn token() -> Option<String> {
    if variable("HF_HUB_DISABLE_IMPLICIT_TOKEN").is_some() {
        return None;
    }
    let file = |path: PathBuf| fs::read_to_string(path).ok();
    let candidates: [&dyn Fn() -> Option<String>; 3] = [
        &|| variable("HF_TOKEN"),
        &|| file(variable("HF_TOKEN_PATH")?.into()),
        &|| file(home()?.join("token")),
    ];
    let mut tokens = candidates.iter().filter_map(|read| {
        let token = read()?.trim().to_owned();
        let is_header = token.bytes().all(|byte| byte.is_ascii_graphic());
        (!token.is_empty() && is_header).then_some(token)
    });
    tokens.next()
}
