//! Who may use the server: keys, hosts and origins.

use serde_json::json;
use wisp_tests::server::Server;

use super::completion;

#[test]
fn keys_are_required_where_they_are_set() {
    let server = Server::start(&["--api-key", "first-key", "--api-key", "second-key"]);
    let body = completion(&json!({ "max_tokens": 1 })).to_string();
    let post = |headers: &[&str]| server.request("POST /v1/completions", headers, &body);
    for key in ["first-key", "second-key"] {
        let header = format!("Authorization: Bearer {key}");
        assert_eq!(post(&[&header]).status, 200, "{key}");
    }
    for headers in [
        &[][..],
        &["Authorization: Bearer third-key"],
        &["Authorization: Bearer first-ke"],
        &["Authorization: first-key"],
        &["Authorization: Basic first-key"],
    ] {
        let response = post(headers);
        assert_eq!(response.status, 401, "{headers:?}");
        assert_eq!(response.json()["error"]["code"], "invalid_api_key");
    }
    for path in ["/v1/models", "/metrics", "/version"] {
        assert_eq!(server.get(path).status, 401, "{path}");
    }
    for path in ["/", "/health"] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
}

#[test]
fn metrics_are_open_to_all_with_a_flag() {
    let server = Server::start(&["--api-key", "key", "--open-metrics"]);
    assert_eq!(server.get("/metrics").status, 200);
    for path in ["/v1/models", "/metrics/", "/version"] {
        assert_eq!(server.get(path).status, 401, "{path}");
    }
}

#[test]
fn keys_are_never_logged() {
    let variables = [("WISP_API_KEY", "very-secret"), ("WISP_LOG", "trace")];
    let server = Server::start_with(&[], |command| _ = command.envs(variables));
    server.wait_until_ready();
    let wrong = server.request(
        "GET /v1/models",
        &["Authorization: Bearer other-secret"],
        "",
    );
    assert_eq!(wrong.status, 401);
    let right = server.request("GET /v1/models", &["Authorization: Bearer very-secret"], "");
    assert_eq!(right.status, 200);
    let log = server.kill();
    assert!(log.contains("/v1/models"), "requests are logged: {log}");
    assert!(
        !log.contains("very-secret") && !log.contains("other-secret"),
        "{log}"
    );
}

#[test]
fn hosts_and_origins_of_others_are_refused() {
    let server = Server::start(&[
        "--allow-host",
        "llm.test",
        "--allow-origin",
        "https://app.test",
    ]);
    let get = |headers: &[&str]| server.request("GET /v1/models", headers, "");
    let port = server.address.rsplit_once(':').expect("a port").1;
    for host in [
        format!("localhost:{port}"),
        "127.0.0.1".into(),
        "LLM.test:80".into(),
    ] {
        assert_eq!(get(&[&format!("Host: {host}")]).status, 200, "{host}");
    }
    for host in ["evil.test", "127.0.0.1.evil.test", "192.0.2.1", ""] {
        let response = get(&[&format!("Host: {host}")]);
        assert_eq!(response.status, 421, "{host}");
        assert_eq!(response.json()["error"]["type"], "permission_error");
    }
    let own = format!("Origin: http://{}", server.address);
    let response = get(&[&own]);
    assert_eq!(response.status, 200);
    assert_eq!(response.header("access-control-allow-origin"), None);
    let response = get(&["Origin: https://app.test"]);
    assert_eq!(response.status, 200);
    assert_eq!(
        response.header("access-control-allow-origin"),
        Some("https://app.test")
    );
    for origin in ["Origin: https://evil.test", "Origin: null"] {
        let response = get(&[origin]);
        assert_eq!(response.status, 403, "{origin}");
        assert_eq!(response.header("access-control-allow-origin"), None);
    }
    let preflight = [
        "Origin: https://app.test",
        "Access-Control-Request-Method: POST",
    ];
    let response = server.request("OPTIONS /v1/completions", &preflight, "");
    assert_eq!(response.status, 204);
    assert!(response.header("access-control-allow-methods").is_some());
}
