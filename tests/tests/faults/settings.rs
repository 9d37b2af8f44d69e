//! Settings of the environment and of TOML files.

use serde_json::Value;
use wisp_tests::{fault, program};

/// Runs `wisp generate --json` with the built-in model, some variables and a file of settings.
fn generate(variables: &[(&str, &str)], file: &str) -> program::Run {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("settings.toml");
    std::fs::write(&path, file).expect("a file");
    let mut command =
        program::command(["generate", "Once upon a time", "--device", "host", "--json"]);
    command
        .args(["-n", "12", "--config"])
        .arg(&path)
        .envs(variables.iter().copied());
    fault::run_command_limited(command)
}

fn tokens(run: program::Run) -> Value {
    run.json()["tokens"].take()
}

#[test]
fn sampling_comes_from_the_environment() {
    let greedy = tokens(generate(&[], ""));
    let hot = [("WISP_TEMPERATURE", "3"), ("WISP_SEED", "7")];
    assert_ne!(tokens(generate(&hot, "")), greedy);
    // The environment precedes the file.
    assert_eq!(
        tokens(generate(&[("WISP_TEMPERATURE", "0")], "temperature = 3")),
        greedy
    );
}

#[test]
fn sampling_and_model_come_from_toml() {
    let variables = [("WISP_TEMPERATURE", "3"), ("WISP_SEED", "7")];
    let by_variables = tokens(generate(&variables, ""));
    assert_eq!(
        tokens(generate(&[], "temperature = 3\nseed = 7\n")),
        by_variables
    );
    let message = generate(&[], "model = \"/nowhere/model.gguf\"").failed("a model in TOML");
    assert!(message.contains("/nowhere/model.gguf"), "{message}");
}

#[test]
fn misspelt_variable_is_told() {
    let run = generate(&[("WISP_TEMPRATURE", "1")], "").succeeded();
    let words = ["WISP_TEMPRATURE", "WISP_TEMPERATURE"];
    assert!(
        words.iter().all(|word| run.stderr.contains(word)),
        "{}",
        run.stderr
    );
}

#[test]
fn invalid_setting_names_its_origin() {
    for (variables, file, words) in [
        (&[("WISP_TOP_P", "most")][..], "", ["WISP_TOP_P", "most"]),
        (&[], "top_p = \"most\"", ["settings.toml: top_p", "most"]),
        (&[], "top_pp = 1", ["settings.toml: top_pp", "top_p?"]),
        (
            &[],
            "top_p = [0.5, 0.6]",
            ["settings.toml: top_p", "one value"],
        ),
        (
            &[("WISP_ECHO", "perhaps")],
            "",
            ["WISP_ECHO", "true or false"],
        ),
    ] {
        let message = generate(variables, file).failed(words[0]);
        for word in words {
            assert!(message.contains(word), "{word}: {message}");
        }
    }
}
