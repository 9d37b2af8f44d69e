//! `/v1/load_lora_adapter` and `/v1/unload_lora_adapter`.

use std::path::Path;

use serde_json::{Value, json};
use wisp_tests::{
    lora,
    server::{Response, Server},
};

use super::{completion, joined, long, merged};

const LOAD: &str = "/v1/load_lora_adapter";
const UNLOAD: &str = "/v1/unload_lora_adapter";

/// Writes an adapter of the built-in model.
pub fn write(folder: &Path, seed: u32) {
    let modules = [("model.layers.0.self_attn.q_proj".to_string(), [256, 256])];
    lora::Adapter::plain(seed, &modules, 8, 64.0).write(folder);
}

fn text_of(server: &Server, model: &str) -> Value {
    let answer = server.json("/v1/completions", &completion(&json!({ "model": model })));
    answer["choices"][0]["text"].clone()
}

fn names(server: &Server) -> Vec<String> {
    let list = server.get("/v1/models").json();
    let models = list["data"].as_array().expect("models");
    models
        .iter()
        .filter_map(|model| Some(model["id"].as_str()?.to_string()))
        .collect()
}

#[test]
fn adapters_come_and_go_while_the_server_runs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let adapters = folder.path().join("adapters");
    write(&adapters.join("poet"), 1);
    write(&adapters.join("other"), 2);
    write(&folder.path().join("outside"), 3);
    std::fs::create_dir(adapters.join("empty")).expect("a folder");
    std::fs::create_dir(adapters.join("broken")).expect("a folder");
    for file in ["adapter_config.json", "adapter_model.safetensors"] {
        std::fs::write(adapters.join("broken").join(file), "{").expect("a file");
    }
    let path = adapters.to_str().expect("UTF-8");
    let server = Server::start(&["--allow-adapter-loading", path, "--max-num-loras", "1"]);
    let plain = text_of(&server, "wisp-tiny");
    let load = |name: &str, path: &str| {
        server.post(LOAD, &json!({ "lora_name": name, "lora_path": path }))
    };
    let loaded = load("poet", "poet");
    assert_eq!(loaded.status, 200, "{}", loaded.body);
    assert_eq!(
        loaded.body,
        "Success: LoRA adapter 'poet' added successfully."
    );
    assert_eq!(names(&server), ["wisp-tiny", "poet"]);
    let changed = text_of(&server, "poet");
    assert_ne!(changed, plain);
    assert_eq!(text_of(&server, "wisp-tiny"), plain);
    let outside = folder.path().join("outside").display().to_string();
    for (name, path, param) in [
        ("poet", "other", "lora_name"),
        ("wisp-tiny", "other", "lora_name"),
        ("", "other", "lora_name"),
        ("a\nb", "other", "lora_name"),
        ("second", "other", "lora_path"),
        ("x", "../outside", "lora_path"),
        ("x", &outside, "lora_path"),
        ("x", "absent", "lora_path"),
        ("x", "empty", "lora_path"),
        ("x", "broken", "lora_path"),
    ] {
        let response = load(name, path);
        assert_eq!(response.status, 400, "{name} {path}: {}", response.body);
        assert_eq!(
            response.json()["error"]["param"],
            param,
            "{}",
            response.body
        );
        let shown = folder.path().to_str().expect("UTF-8");
        assert!(
            path == outside || !response.body.contains(shown),
            "{}",
            response.body
        );
    }
    for (path, body, status, param) in [
        (LOAD, json!({ "lora_path": "other" }), 400, "lora_name"),
        (LOAD, json!({ "lora_name": "x" }), 400, "lora_path"),
        (
            LOAD,
            json!({ "lora_name": "x", "lora_path": "other", "base_model_name": "none" }),
            404,
            "base_model_name",
        ),
        (
            LOAD,
            json!({ "lora_name": "x", "lora_path": "other", "base_model_name": "poet" }),
            400,
            "base_model_name",
        ),
        (UNLOAD, json!({ "lora_name": "x" }), 404, "lora_name"),
        (
            UNLOAD,
            json!({ "lora_name": "wisp-tiny" }),
            404,
            "lora_name",
        ),
        (UNLOAD, json!({}), 400, "lora_name"),
    ] {
        let response = server.post(path, &body);
        assert_eq!(response.status, status, "{body}: {}", response.body);
        assert_eq!(
            response.json()["error"]["param"],
            param,
            "{}",
            response.body
        );
    }
    let unloaded = server.post(UNLOAD, &json!({ "lora_name": "poet" }));
    assert_eq!(unloaded.status, 200, "{}", unloaded.body);
    assert_eq!(names(&server), ["wisp-tiny"]);
    let gone = server.post("/v1/completions", &completion(&json!({ "model": "poet" })));
    assert_eq!(gone.status, 404);
    // The name is free again, also for other weights, and the path may be absolute.
    let other = adapters.join("other").display().to_string();
    assert_eq!(load("poet", &other).status, 200);
    let again = text_of(&server, "poet");
    assert!(again != plain && again != changed, "{again}");
}

#[test]
fn running_texts_go_on_while_adapters_change() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, seed) in [("poet", 1), ("other", 2), ("third", 3)] {
        write(&folder.path().join(name), seed);
    }
    let path = folder.path().to_str().expect("UTF-8");
    let server = Server::start(&["--allow-adapter-loading", path, "--max-num-loras", "2"]);
    let load = |name: &str| {
        let loaded = server.post(LOAD, &json!({ "lora_name": name, "lora_path": name }));
        assert_eq!(loaded.status, 200, "{}", loaded.body);
    };
    let running = || server.metric("wisp_texts_running{model=\"wisp-tiny\"}");
    load("poet");
    let body = merged(long(4), &json!({ "model": "poet", "max_tokens": 256 }));
    let texts = server.send("POST /v1/completions", &[], &body.to_string());
    server.wait_until("the texts run", || running() == 4.0);
    // Another adapter is loaded, and the one in use unloaded, at once.
    load("other");
    let unloaded = server.post(UNLOAD, &json!({ "lora_name": "poet" }));
    assert_eq!(unloaded.status, 200, "{}", unloaded.body);
    assert_eq!(names(&server), ["wisp-tiny", "other"]);
    let gone = server.post("/v1/completions", &completion(&json!({ "model": "poet" })));
    assert_eq!(gone.status, 404, "{}", gone.body);
    let changed = text_of(&server, "other");
    // The text that was just answered may still be counted for a moment.
    server.wait_until("the four texts still run", || running() == 4.0);
    // A third one waits for the room of the one that the texts use.
    load("third");
    assert_eq!(running(), 0.0, "the texts have ended");
    assert_ne!(text_of(&server, "third"), changed);
    let events = Response::read(texts).events();
    load_again_and_compare(&server, &events);
}

/// Asserts that the texts of a stream are those of its adapter alone.
fn load_again_and_compare(server: &Server, events: &[Value]) {
    let unloaded = server.post(UNLOAD, &json!({ "lora_name": "other" }));
    assert_eq!(unloaded.status, 200, "{}", unloaded.body);
    let loaded = server.post(LOAD, &json!({ "lora_name": "poet", "lora_path": "poet" }));
    assert_eq!(loaded.status, 200, "{}", loaded.body);
    let alone = merged(long(1), &json!({ "model": "poet", "max_tokens": 256 }));
    let alone = server.stream("/v1/completions", &alone);
    let (expected, _) = joined(&alone, 0, |choice| &choice["text"]);
    for index in 0..4 {
        let (text, reason) = joined(events, index, |choice| &choice["text"]);
        assert_eq!(
            (text, &*reason),
            (expected.clone(), "length"),
            "text {index}"
        );
    }
}

#[test]
fn adapters_stay_as_they_are_without_the_flag() {
    let server = Server::start(&[]);
    for path in [LOAD, UNLOAD] {
        let response = server.post(path, &json!({ "lora_name": "a", "lora_path": "a" }));
        assert_eq!(response.status, 403, "{}", response.body);
        assert!(
            response.body.contains("--allow-adapter-loading"),
            "{}",
            response.body
        );
    }
}
