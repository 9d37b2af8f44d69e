//! Clients that others wrote, which `tests/scripts/serve-clients.sh` installs: OpenAI's for Python and Node, Anthropic's,
//! LangChain's and LiteLLM's for Python, and async-openai.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use wisp_tests::{bundled, encoder, server::Server};

/// Returns a file of the folder that the script fills; prints that the test is skipped if it is absent.
fn installed(path: &str) -> Option<PathBuf> {
    let test = std::env::current_exe().expect("the path of this test");
    let target = test
        .ancestors()
        .nth(3)
        .expect("tests lie in <target>/<profile>/deps");
    let path = target.join("serve-clients").join(path);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: no client: bash tests/scripts/serve-clients.sh installs it");
    None
}

/// Runs a client against a server with a model that generates (`tiny`), an encoder (`bert`) and a key.
fn runs_against_a_server(client: Command) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    encoder::bert(folder.path());
    let tiny = bundled::folder().join("wisp-tiny.gguf");
    runs_against(client, &[("tiny", &tiny), ("bert", folder.path())]);
}

/// Runs a client against a server with these models and a key.
fn runs_against(mut client: Command, models: &[(&str, &Path)]) {
    let model = |(name, path): &(&str, &Path)| {
        [
            String::from("--model"),
            format!("{name}={}", path.display()),
        ]
    };
    let models: Vec<String> = models.iter().flat_map(model).collect();
    let mut flags = vec!["--api-key", "test-key"];
    flags.extend(models.iter().map(String::as_str));
    let server = Server::start(&flags);
    let output = client
        .env("WISP_TEST_SERVER", format!("http://{}", server.address))
        .output()
        .expect("the client runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    println!("{}", text(&output.stdout));
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("scripts")
        .join(name)
}

#[test]
fn python_client_of_openai_works() {
    if let Some(python) = installed("venv/bin/python") {
        let mut client = Command::new(python);
        client.arg(script("serve_clients.py"));
        runs_against_a_server(client);
    }
}

#[test]
fn clients_of_langchain_and_litellm_work() {
    if let Some(python) = installed("frameworks/bin/python") {
        let mut client = Command::new(python);
        client.arg(script("serve_frameworks.py"));
        runs_against_a_server(client);
    }
}

#[test]
fn async_openai_works() {
    if let Some(client) = installed("rust/debug/wisp-clients") {
        runs_against_a_server(Command::new(client));
    }
}

/// A model that people use, with the template that it was trained with.
#[test]
fn smollm2_calls_tools_and_follows_schemas() {
    let python = installed("venv/bin/python");
    let Some((python, model)) = python.zip(installed("smollm2.gguf")) else {
        return;
    };
    let mut client = Command::new(python);
    client.arg(script("serve_smollm2.py"));
    runs_against(client, &[("smollm2", &model)]);
}

#[test]
fn node_client_of_openai_works() {
    let Some(package) = installed("node_modules/openai") else {
        return;
    };
    // Node looks for packages in the folders above the file.
    let folder = package.ancestors().nth(2).expect("the folder of packages");
    let copy = folder.join("serve_clients.mjs");
    std::fs::copy(script("serve_clients.mjs"), &copy).expect("a copy");
    let mut client = Command::new("node");
    client.arg(copy);
    runs_against_a_server(client);
}
