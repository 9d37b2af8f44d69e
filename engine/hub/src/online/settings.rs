//! The environment variables that Hugging Face's tools share: where the hub is, where the cache is,
//! and which token to send.

use std::{env, path::PathBuf, time::Duration};

use hf_hub::Cache;
use ureq::http::Uri;
use wisp_files::{FileKind, read_small_text};

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
    /// If a variable has a value that cannot be used, or no variable and no home directory says where the cache is.
    pub fn from_environment() -> Result<Self, RepoError> {
        Ok(Self {
            endpoint: endpoint()?,
            token: token()?,
            cache: Cache::new(cache_directory()?),
            offline: is_enabled("HF_HUB_OFFLINE"),
            timeout: timeout()?,
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

/// Returns a path that a variable names. As in Hugging Face's tools, `~` at its beginning is the user's home: files of
/// variables are read without a shell.
fn path_variable(name: &str) -> Option<PathBuf> {
    Some(expanded(PathBuf::from(variable(name)?), env::home_dir()))
}

fn expanded(path: PathBuf, home: Option<PathBuf>) -> PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(below), Some(home)) => home.join(below),
        _ => path,
    }
}

fn is_enabled(name: &str) -> bool {
    let value = variable(name).unwrap_or_default();
    ["1", "true", "yes", "on"].contains(&value.trim().to_ascii_lowercase().as_str())
}

fn endpoint() -> Result<String, RepoError> {
    let Some(endpoint) = variable("HF_ENDPOINT") else {
        return Ok(DEFAULT_ENDPOINT.into());
    };
    let endpoint = endpoint.trim();
    match problem_of(endpoint) {
        None => Ok(endpoint.trim_end_matches('/').into()),
        Some(problem) => Err(invalid("HF_ENDPOINT", problem)),
    }
}

/// Returns what is wrong with the address of a hub; `None` if nothing is.
fn problem_of(endpoint: &str) -> Option<String> {
    let expected = format!("set it to the address of a hub, such as {DEFAULT_ENDPOINT}");
    let Some(authority) = endpoint
        .parse::<Uri>()
        .ok()
        .filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")))
        .and_then(|uri| uri.into_parts().authority)
    else {
        return Some(format!(
            "{endpoint:?} is no address of http or https; {expected}"
        ));
    };
    if authority.as_str().contains('@') {
        // The value may hold a password, which must not reach a log.
        return Some(
            "it holds a user name or a password, which is not sent; set HF_TOKEN instead".into(),
        );
    }
    if endpoint.contains(['?', '#']) {
        return Some(format!(
            "{endpoint:?} has a query or a fragment; {expected}"
        ));
    }
    let after_host = authority.as_str().strip_prefix(authority.host());
    let has_port = after_host.is_some_and(|port| !port.is_empty());
    (has_port && authority.port_u16().is_none_or(|port| port == 0))
        .then(|| format!("{endpoint:?} has no valid port; {expected}"))
}

fn timeout() -> Result<Duration, RepoError> {
    const NAME: &str = "HF_HUB_DOWNLOAD_TIMEOUT";
    let Some(text) = variable(NAME) else {
        return Ok(Duration::from_secs_f64(DEFAULT_TIMEOUT));
    };
    let seconds = text.trim().parse::<f64>().ok();
    let seconds = seconds.filter(|&seconds| seconds > 0.0 && seconds < 1e6);
    let problem = || invalid(NAME, format!("{text:?} is no number of seconds above 0"));
    seconds.map(Duration::from_secs_f64).ok_or_else(problem)
}

fn invalid(variable: &'static str, problem: String) -> RepoError {
    RepoError::InvalidSetting { variable, problem }
}

/// Hugging Face's home: `HF_HOME`, else `huggingface` in the user's cache folder.
fn home() -> Option<PathBuf> {
    let caches = || {
        let xdg = path_variable("XDG_CACHE_HOME");
        xdg.or_else(|| Some(env::home_dir()?.join(".cache")))
    };
    let home = path_variable("HF_HOME");
    home.or_else(|| Some(caches()?.join("huggingface")))
}

/// Returns the folder of the cache: `HF_HUB_CACHE`, else `hub` in Hugging Face's home.
pub(super) fn cache_directory() -> Result<PathBuf, RepoError> {
    for name in ["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"] {
        if let Some(folder) = path_variable(name) {
            return require_folder(name, folder);
        }
    }
    let home = home().ok_or_else(|| {
        let problem = "it is not set, and this user has no home directory to keep the cache in";
        invalid("HF_HOME", problem.into())
    })?;
    Ok(require_folder("HF_HOME", home)?.join("hub"))
}

/// Refuses a path that exists and is no folder.
fn require_folder(variable: &'static str, path: PathBuf) -> Result<PathBuf, RepoError> {
    match path.exists() && !path.is_dir() {
        true => Err(invalid(
            variable,
            format!(
                "{} is not a folder, so that nothing can be kept in it",
                path.display()
            ),
        )),
        false => Ok(path),
    }
}

/// Returns the token of `HF_TOKEN`, else that of the file `HF_TOKEN_PATH` or `token` in Hugging
/// Face's home, without line breaks, as Hugging Face's tools read it.
///
/// # Errors
///
/// If no header can carry the token.
fn token() -> Result<Option<String>, RepoError> {
    if is_enabled("HF_HUB_DISABLE_IMPLICIT_TOKEN") {
        return Ok(None);
    }
    let file = |path: PathBuf| read_small_text(&path, FileKind::Line).ok();
    let candidates: [(_, &dyn Fn() -> Option<String>); 3] = [
        ("HF_TOKEN", &|| variable("HF_TOKEN")),
        ("HF_TOKEN_PATH", &|| file(path_variable("HF_TOKEN_PATH")?)),
        ("HF_HOME", &|| file(home()?.join("token"))),
    ];
    let mut tokens = candidates.iter().filter_map(|(name, read)| {
        let token = read()?.replace(['\r', '\n'], "").trim().to_owned();
        (!token.is_empty()).then_some((*name, token))
    });
    let Some((name, token)) = tokens.next() else {
        return Ok(None);
    };
    match token.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(Some(token)),
        false => {
            let problem = "the token has a space or another character that no token has";
            Err(invalid(name, problem.into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{expanded, problem_of};

    #[test]
    fn a_tilde_is_the_home_of_the_user() {
        for (path, expected) in [
            ("~/models", "/home/u/models"),
            ("~", "/home/u"),
            ("/a/~", "/a/~"),
            ("~other/models", "~other/models"),
        ] {
            let home = Some(PathBuf::from("/home/u"));
            assert_eq!(expanded(path.into(), home), PathBuf::from(expected));
        }
        assert_eq!(expanded("~/a".into(), None), PathBuf::from("~/a"));
    }

    #[test]
    fn addresses_that_are_no_hub_are_refused() {
        for good in [
            "https://huggingface.co",
            "http://127.0.0.1:8000/",
            "http://[::1]:8000",
            "https://mirror.example/hub",
        ] {
            assert_eq!(problem_of(good), None, "{good}");
        }
        for (bad, expected) in [
            ("notaurl", "no address"),
            ("localhost:8000", "no address"),
            ("ftp://x", "no address"),
            ("file:///etc", "no address"),
            ("http://", "no address"),
            ("http://a b", "no address"),
            ("http://u:secret@host", "HF_TOKEN"),
            ("http://host:99999", "port"),
            ("http://host:", "port"),
            ("http://host?x=1", "query"),
        ] {
            let problem = problem_of(bad).expect(bad);
            assert!(problem.contains(expected), "{bad}: {problem}");
            assert!(!problem.contains("secret"), "{problem}");
        }
    }
}
