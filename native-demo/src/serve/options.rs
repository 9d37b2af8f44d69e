//! The options of the server.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use anyhow::{Result, bail};

/// The options of the server, as its command gives them.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address to listen on: an IP address or a name.
    pub host: String,
    /// The port; 0 is any free one.
    pub port: u16,
    /// The keys with which clients may authenticate; any client is let in without any.
    pub api_keys: Vec<String>,
    /// Whether a server without keys may listen on an address that other machines reach.
    pub no_auth: bool,
    /// Whether clients without a key may read the metrics.
    pub open_metrics: bool,
    /// Further names by which clients may call the server.
    pub allowed_hosts: Vec<String>,
    /// The origins of web pages that may use the server.
    pub allowed_origins: Vec<Origin>,
    /// The longest body of a request in bytes.
    pub max_body_bytes: usize,
    /// The time that running requests have to end after a signal.
    pub shutdown_time: Duration,
    /// Whether the metrics are written under vLLM's names too.
    pub vllm_metrics: bool,
    /// The folder from which clients may load adapters; none may without one.
    pub adapter_folder: Option<PathBuf>,
    /// The address of a collector of traces.
    #[cfg(feature = "otel")]
    pub otlp_endpoint: Option<String>,
}

impl Default for Options {
    /// Returns the options of a server that only this machine reaches, on any free port.
    fn default() -> Options {
        Options {
            host: "127.0.0.1".into(),
            port: 0,
            api_keys: Vec::new(),
            no_auth: false,
            open_metrics: false,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            max_body_bytes: 8 << 20,
            shutdown_time: Duration::ZERO,
            vllm_metrics: false,
            adapter_folder: None,
            #[cfg(feature = "otel")]
            otlp_endpoint: None,
        }
    }
}

/// The origin of a web page, such as `https://example.org`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// All pages.
    Any,
    /// The pages of this origin.
    One(String),
}

impl std::str::FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Origin, String> {
        let is_origin = text.split_once("://").is_some_and(|(scheme, host)| {
            !scheme.is_empty() && !host.is_empty() && !host.contains(['/', ' '])
        });
        match text {
            "*" => Ok(Origin::Any),
            _ if is_origin && text.is_ascii() => Ok(Origin::One(text.to_ascii_lowercase())),
            _ => Err("must be * or an origin such as https://example.org".into()),
        }
    }
}

impl Options {
    /// Checks that the server is safe to start.
    ///
    /// # Errors
    ///
    /// If other machines could reach a server without keys, or a key is empty or cannot be sent in a header.
    pub fn check(&self) -> Result<()> {
        let is_sent =
            |key: &String| !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic());
        if !self.api_keys.iter().all(is_sent) {
            bail!("an API key is empty or has characters other than visible ASCII");
        }
        if !self.is_loopback() && self.api_keys.is_empty() && !self.no_auth {
            bail!(
                "--host {} lets other machines use the server: set a key with --api-key or \
                 WISP_API_KEY, or let everyone in with --no-auth",
                self.host
            );
        }
        Ok(())
    }

    /// Returns whether only this machine reaches the server.
    fn is_loopback(&self) -> bool {
        match self.address() {
            Some(address) => address.is_loopback(),
            None => self.host.eq_ignore_ascii_case("localhost"),
        }
    }

    /// Returns the host as an IP address; `None` if it is a name.
    pub fn address(&self) -> Option<IpAddr> {
        let host = self
            .host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        host.unwrap_or(&self.host).parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(host: &str, keys: &[&str], no_auth: bool) -> Options {
        Options {
            host: host.into(),
            api_keys: keys.iter().map(ToString::to_string).collect(),
            no_auth,
            ..Options::default()
        }
    }

    #[test]
    fn servers_for_other_machines_need_a_key_or_consent() {
        for host in ["127.0.0.1", "127.0.0.2", "::1", "[::1]", "localhost"] {
            assert!(options(host, &[], false).check().is_ok(), "{host}");
        }
        for host in ["0.0.0.0", "::", "192.168.0.1", "example.org"] {
            assert!(options(host, &[], false).check().is_err(), "{host}");
            assert!(options(host, &["key"], false).check().is_ok(), "{host}");
            assert!(options(host, &[], true).check().is_ok(), "{host}");
        }
        for key in ["", "a b", "ä"] {
            let error = options("127.0.0.1", &[key], false).check().unwrap_err();
            assert!(key.is_empty() || !error.to_string().contains(key));
        }
    }

    #[test]
    fn origins_are_parsed() {
        assert_eq!("*".parse(), Ok(Origin::Any));
        let origin = Origin::One("https://example.org:8443".into());
        assert_eq!("https://Example.org:8443".parse(), Ok(origin));
        for text in ["", "example.org", "https://", "https://a/b", "://a"] {
            assert!(text.parse::<Origin>().is_err(), "{text}");
        }
    }
}
