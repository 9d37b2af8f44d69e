//! Who may use the server: the Host header against DNS rebinding, the Origin header against web pages that the user
//! happens to visit, and API keys.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use super::{
    client,
    error::ApiError,
    options::{Options, Origin},
    state::Server,
};

/// Paths without a key: the page, which asks for one, and what load balancers poll.
const OPEN_PATHS: &[&str] = &["/", "/health"];

/// The path that [`Options::open_metrics`] opens.
const METRICS: &str = "/metrics";

/// Names that mean this machine, whatever address the server listens on.
const LOCAL_HOSTS: &[&str] = &["localhost", "127.0.0.1", "[::1]"];

/// The headers of a request that a web page of another origin may set and read.
#[rustfmt::skip]
const CORS_HEADERS: &[(HeaderName, &str)] = &[
    (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST"),
    (header::ACCESS_CONTROL_ALLOW_HEADERS, "*, Authorization"),
    (header::ACCESS_CONTROL_EXPOSE_HEADERS, "x-request-id"),
    (header::ACCESS_CONTROL_MAX_AGE, "3600"),
];

/// Passes a request on if its sender may use the server.
pub async fn check(
    State(server): State<Arc<Server>>,
    mut request: Request,
    next: Next,
) -> Response {
    let options = &server.options;
    let origin = match check_origin(options, request.headers(), request.uri()) {
        Ok(origin) => origin,
        Err(error) => return error.into_response(),
    };
    let is_preflight = request.method() == Method::OPTIONS && origin.is_some();
    let path = request.uri().path();
    let is_open = OPEN_PATHS.contains(&path) || (options.open_metrics && path == METRICS);
    let mut response = match check_key(options, request.headers()) {
        _ if is_preflight => StatusCode::NO_CONTENT.into_response(),
        Err(error) if !is_open => error.into_response(),
        key => {
            let client = client::of(key.ok().flatten(), request.extensions());
            request.extensions_mut().insert(client);
            next.run(request).await
        }
    };
    if let Some(origin) = origin {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::VARY, HeaderValue::from_static("Origin"));
        for (name, value) in CORS_HEADERS {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
    response
}

/// Checks the host that the client called and the web page that it is, and returns the page's origin if it is one of
/// the allowed ones.
fn check_origin(
    options: &Options,
    headers: &HeaderMap,
    uri: &Uri,
) -> Result<Option<HeaderValue>, ApiError> {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let authority = uri.authority().map(|authority| authority.as_str());
    let authority = authority.or_else(|| text(header::HOST)).unwrap_or_default();
    if !allows_host(options, host_of(authority)) {
        let message = "the Host header names another host: --allow-host NAME lets clients use it";
        return Err(ApiError::new(StatusCode::MISDIRECTED_REQUEST, message));
    }
    let Some(value) = headers.get(header::ORIGIN) else {
        return Ok(None);
    };
    let origin = value.to_str().unwrap_or_default().to_ascii_lowercase();
    let is_listed = |allowed: &Origin| match allowed {
        Origin::Any => true,
        Origin::One(allowed) => *allowed == origin,
    };
    let own = origin
        .split_once("://")
        .is_some_and(|(_, host)| host.eq_ignore_ascii_case(authority));
    match options.allowed_origins.iter().any(is_listed) {
        true => Ok(Some(value.clone())),
        false if own => Ok(None),
        false => {
            let message =
                "web pages of this origin may not use the server: --allow-origin lets them";
            Err(ApiError::new(StatusCode::FORBIDDEN, message))
        }
    }
}

/// Returns the host of `host:port`, with the brackets of an IPv6 address.
fn host_of(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

/// Returns whether clients may call the server by this host.
fn allows_host(options: &Options, host: &str) -> bool {
    let address = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<IpAddr>();
    let listens_everywhere = options.address().is_some_and(|own| own.is_unspecified());
    let is_own = match (&address, options.address()) {
        // A page of another site cannot make its name an address.
        (Ok(_), _) if listens_everywhere => true,
        (Ok(address), Some(own)) => *address == own,
        _ => host.eq_ignore_ascii_case(&options.host),
    };
    let mut allowed = options
        .allowed_hosts
        .iter()
        .map(String::as_str)
        .chain(LOCAL_HOSTS.iter().copied());
    is_own || allowed.any(|allowed| host.eq_ignore_ascii_case(allowed))
}

/// Checks the key of a request in constant time, and returns its number; `None` if there are no keys.
fn check_key(options: &Options, headers: &HeaderMap) -> Result<Option<u32>, ApiError> {
    if options.api_keys.is_empty() {
        return Ok(None);
    }
    let value = headers
        .get(header::AUTHORIZATION)
        .map(HeaderValue::as_bytes);
    let bearer = value
        .and_then(|value| value.split_at_checked(7))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"bearer "))
        .map(|(_, key)| key);
    // Anthropic's clients send this header.
    let other = headers.get("x-api-key").map(HeaderValue::as_bytes);
    let given = bearer.or(other).unwrap_or_default();
    // All keys are compared, so that the time does not depend on which one is right.
    let keys = (0..).zip(&options.api_keys);
    let none = (Choice::from(0), 0);
    let (is_known, number) = keys.fold(none, |(is_known, number), (at, key)| {
        let is_given = key.as_bytes().ct_eq(given);
        let number = u32::conditional_select(&number, &at, is_given);
        (is_known | is_given, number)
    });
    match bool::from(is_known) {
        true => Ok(Some(number)),
        false => {
            let message = "the API key is missing or wrong: send it as Authorization: Bearer KEY";
            let error = ApiError::new(StatusCode::UNAUTHORIZED, message);
            Err(error.with_code("invalid_api_key"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(host: &str) -> Options {
        Options {
            host: host.into(),
            api_keys: vec!["first".into(), "second".into()],
            allowed_hosts: vec!["llm.example.org".into()],
            allowed_origins: vec![Origin::One("https://app.example.org".into())],
            ..Options::default()
        }
    }

    #[test]
    fn hosts_are_local_own_or_listed() {
        let local = options("127.0.0.1");
        for host in [
            "localhost",
            "LOCALHOST:8000",
            "127.0.0.1:1",
            "[::1]:8000",
            "llm.example.org",
        ] {
            assert!(allows_host(&local, host_of(host)), "{host}");
        }
        for host in [
            "",
            "evil.example.org",
            "192.168.0.1",
            "localhost.evil.example.org:8000",
            "::1",
        ] {
            assert!(!allows_host(&local, host_of(host)), "{host}");
        }
        let everywhere = options("0.0.0.0");
        assert!(allows_host(&everywhere, "192.168.0.1"));
        assert!(!allows_host(&everywhere, "evil.example.org"));
        assert!(allows_host(&options("gpu.local"), "gpu.local"));
    }

    fn origin(options: &Options, host: &'static str, origin: &'static str) -> Result<bool, u16> {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static(host));
        headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
        let result = check_origin(options, &headers, &Uri::from_static("/v1/models"));
        let allowed = result.map(|origin| origin.is_some());
        allowed.map_err(|error| error.into_response().status().as_u16())
    }

    #[test]
    fn pages_of_other_origins_are_refused_unless_listed() {
        let options = options("127.0.0.1");
        let host = "localhost:8000";
        assert_eq!(origin(&options, host, "http://localhost:8000"), Ok(false));
        assert_eq!(origin(&options, host, "https://app.example.org"), Ok(true));
        assert_eq!(origin(&options, host, "https://evil.example.org"), Err(403));
        assert_eq!(origin(&options, host, "http://localhost:3000"), Err(403));
        assert_eq!(origin(&options, host, "null"), Err(403));
        let evil = "evil.example.org:8000";
        assert_eq!(
            origin(&options, evil, "http://evil.example.org:8000"),
            Err(421)
        );
    }

    #[test]
    fn any_of_the_keys_is_accepted() {
        let check = |value: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            if let Some(value) = value {
                headers.insert(header::AUTHORIZATION, HeaderValue::from_static(value));
            }
            check_key(&options("127.0.0.1"), &headers).ok().flatten()
        };
        assert_eq!(check(Some("Bearer first")), Some(0));
        assert_eq!(check(Some("bearer second")), Some(1));
        for wrong in [
            "Bearer third",
            "Bearer firs",
            "Bearer first ",
            "first",
            "Basic first",
            "Bearer ",
            "",
        ] {
            assert_eq!(check(Some(wrong)), None, "{wrong}");
        }
        assert_eq!(check(None), None);
        let mut headers = HeaderMap::new();
        headers.insert("x-api-key", HeaderValue::from_static("second"));
        assert!(check_key(&options("127.0.0.1"), &headers).is_ok());
        headers.insert("x-api-key", HeaderValue::from_static("third"));
        assert!(check_key(&options("127.0.0.1"), &headers).is_err());
    }
}
