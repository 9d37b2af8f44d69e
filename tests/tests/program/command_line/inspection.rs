//! Commands about devices, models and texts.

use wisp_tests::sample;

use super::*;

#[test]
fn devices_and_info_describe_devices_and_the_model() {
    let devices = run(["devices", "--json"]).json();
    let last = devices["devices"]
        .as_array()
        .and_then(|devices| devices.last())
        .expect("a device")
        .clone();
    assert_eq!(last["device"], "host");
    assert_eq!(last.get("skipped_by_auto"), Some(&Value::Null));
    let shown = run(["devices"]).succeeded();
    assert!(shown.stdout.contains("host"));
    assert!(shown.stderr.contains("auto is "), "{}", shown.stderr);
    let (text, json) = (
        run(["info"]).succeeded().stdout,
        run(["info", "--json"]).json(),
    );
    assert_eq!(json["architecture"], "llama");
    for field in [
        "parameters",
        "vocab_size",
        "hidden_size",
        "layers",
        "heads",
        "kv_heads",
        "context",
    ] {
        assert!(json[field].as_u64() > Some(0), "{field}: {json}");
    }
    assert!(
        text.contains("llama") && text.contains(&json["vocab_size"].to_string()),
        "{text}"
    );
}

/// Some of llama.cpp's pairs through files: of each vocabulary every seventh, so that all vocabularies together have
/// them all. The tokenizer's own tests take all pairs of all vocabularies.
#[test]
fn tokenize_works_on_every_vocabulary() {
    let Some(folder) = shared_data("vocab") else {
        return;
    };
    let text = tempfile::NamedTempFile::new().unwrap();
    let (mut models, mut pairs) = (0, 0);
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for model in paths {
        if model
            .extension()
            .is_none_or(|extension| extension != "gguf")
        {
            continue;
        }
        let beside = |suffix: &str| PathBuf::from(format!("{}.{suffix}", model.display()));
        let inputs = std::fs::read_to_string(beside("inp")).unwrap();
        let outputs = std::fs::read_to_string(beside("out")).unwrap();
        let all = inputs.split("\n__ggml_vocab_test__\n").zip(outputs.lines());
        // Others for each vocabulary, and in each turn.
        let step = if sample::takes_all() { 7 } else { 21 };
        for (input, output) in all.skip((models + sample::turn()) % step).step_by(step) {
            std::fs::write(text.path(), input).unwrap();
            let files = [
                "--model",
                model.to_str().unwrap(),
                "--file",
                text.path().to_str().unwrap(),
            ];
            let got = run([&["tokenize", "--no-special", "--json"], &files[..]].concat()).json();
            let expected: Vec<u32> = output
                .split_whitespace()
                .map(|id| id.parse().unwrap())
                .collect();
            assert_eq!(tokens(&got), expected, "{}: {input:?}", model.display());
            pairs += 1;
        }
        models += 1;
    }
    let each = if sample::takes_all() { 5 } else { 1 };
    assert!(models >= 7 && pairs >= each * models, "only {pairs} pairs");
}

/// exp of the mean negative log-probability, from what `wisp logits` writes.
#[test]
fn perplexity_is_that_of_the_logits() {
    let text = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        text.path(),
        "Once upon a time there was a funny sailor named Leo. One day he heard a cry for help.",
    )
    .unwrap();
    let path = text.path().to_str().unwrap();
    let ids = tokens(&run(["tokenize", "--no-special", "--json", "--file", path]).json());
    let bos = tokens(&run(["tokenize", "--json", "--text", ""]).json());
    for context in [8usize, 512] {
        let (mut sum, mut count) = (0f64, 0u64);
        for window in ids.chunks(context - bos.len()) {
            let window = [&bos[..], window].concat();
            for (row, target) in logits(None, TestDevice::Host, &window, &[])
                .iter()
                .zip(&window[1..])
            {
                let total: f64 = row.iter().map(|logit| f64::from(*logit).exp()).sum();
                sum += total.ln() - f64::from(row[*target as usize]);
                count += 1;
            }
        }
        let got = run([
            "perplexity",
            "--json",
            "--device",
            "host",
            "--file",
            path,
            "--context",
            &context.to_string(),
        ])
        .json();
        let (value, expected) = (
            got["perplexity"].as_f64().expect("a number"),
            (sum / count as f64).exp(),
        );
        assert_eq!(got["tokens"], count);
        assert!(
            (value / expected - 1.0).abs() < 1e-4,
            "{value} with windows of {context}, expected {expected}"
        );
    }
}

#[test]
fn empty_text_has_no_perplexity() {
    for flag in ["--file", "--prompt-file"] {
        let args = [&["perplexity", flag, "-"], &HOST[..]].concat();
        let line = run_with_input(args, "").failed("an empty text");
        let words = "standard input has no token to score";
        assert!(line.contains(words), "{line}");
    }
}
