//! Stop strings, seeds, log-probabilities, penalties and biases.

use wisp_engine::weights::gguf;
use wisp_tests::bundled;

use super::*;

#[test]
fn stop_strings_end_the_text_across_token_borders() {
    let whole = generate(&["Once upon a time", "--max-new-tokens", "24"]);
    let text = whole["text"].as_str().expect("a text");
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    for window in places.windows(19).step_by(5) {
        // 18 characters: no token of a vocabulary of 1024 words is that long.
        let stop = &text[window[0]..window[18]];
        let got = generate(&[
            "Once upon a time",
            "--max-new-tokens",
            "24",
            "--stop",
            "not in the text",
            "--stop",
            stop,
        ]);
        assert_eq!(
            got["text"],
            text[..text.find(stop).expect("a part of it")],
            "{stop:?}"
        );
        assert_eq!(got["finish_reason"], "stop");
    }
}

#[test]
fn the_same_seed_samples_the_same_tokens() {
    let draw = |seed: &str| {
        tokens(&generate(&[
            "Once",
            "--max-new-tokens",
            "24",
            "--ignore-eos",
            "--temperature",
            "1.2",
            "--seed",
            seed,
        ]))
    };
    assert_eq!(draw("5"), draw("5"));
    assert_ne!(draw("5"), draw("6"));
}

/// `--logprobs` as OpenAI's completions have them; with `--echo`, of the prompt, too.
#[test]
fn log_probabilities_match_the_logits() {
    let plain = ["Once upon a time", "--max-new-tokens", "6"];
    let with = |flags: &[&str]| generate(&[&plain[..], flags].concat());
    let (json, echoed) = (
        with(&["--logprobs", "2"]),
        with(&["--logprobs", "2", "--echo", "--max-num-steps", "1"]),
    );
    assert!(with(&[]).get("logprobs").is_none());
    let prompt = json["prompt_tokens"].as_array().expect("tokens").clone();
    let text = [
        prompt.clone(),
        json["tokens"].as_array().expect("tokens").clone(),
    ]
    .concat();
    let ids: Vec<u32> = text
        .iter()
        .map(|id| id.as_u64().expect("an id") as u32)
        .collect();
    let rows = logits(None, TestDevice::Host, &ids, &[]);
    let numbers = |json: &Value| -> Vec<Option<f64>> {
        let list = json["logprobs"]["token_logprobs"]
            .as_array()
            .expect("a list");
        list.iter().map(Value::as_f64).collect()
    };
    assert_eq!(echoed["tokens"], json["tokens"]);
    let (drawn, all) = (numbers(&json), numbers(&echoed));
    assert_eq!((drawn.len(), all.len(), all[0]), (6, ids.len(), None));
    for (at, row) in rows.iter().enumerate().take(ids.len() - 1) {
        let total: f64 = row.iter().map(|logit| f64::from(*logit).exp()).sum();
        let expected = f64::from(row[ids[at + 1] as usize]) - total.ln();
        let close = |got: Option<f64>| (got.expect("a number") - expected).abs() < 1e-3;
        assert!(
            close(all[at + 1]),
            "{at}: {:?}, not {expected}",
            all[at + 1]
        );
        if at + 1 >= prompt.len() {
            assert!(close(drawn[at + 1 - prompt.len()]));
            // Greedy: the token is the most probable.
            let top = &json["logprobs"]["top_logprobs"][at + 1 - prompt.len()];
            let token = json["logprobs"]["tokens"][at + 1 - prompt.len()]
                .as_str()
                .expect("a text");
            assert!(close(top[token].as_f64()), "{top}");
            assert!(top.as_object().expect("an object").len() <= 2);
        }
    }
    let words = |json: &Value| -> String {
        let list = json["logprobs"]["tokens"].as_array().expect("a list");
        list.iter().filter_map(Value::as_str).collect()
    };
    let text = json["text"].as_str().expect("a text");
    assert_eq!(words(&json), text);
    assert!(words(&echoed).ends_with(&format!("Once upon a time{text}")));
    assert_eq!(echoed["text"], format!("Once upon a time{text}"));
    assert_eq!(json["logprobs"]["text_offset"][0], 0);
}

#[test]
fn penalties_and_biases_change_the_sampled_tokens() {
    let with = |flags: &[&str]| {
        let plain = ["Once upon a time", "--max-new-tokens", "12", "--ignore-eos"];
        tokens(&generate(&[&plain[..], flags].concat()))
    };
    let plain = with(&[]);
    assert_eq!(with(&["--logit-bias", "65=100"]), [65; 12]);
    let ban = format!("{}=-100", plain[0]);
    assert!(!with(&["--logit-bias", &ban]).contains(&plain[0]));
    let flags = [
        "--logit-bias",
        "65=30",
        "--logit-bias",
        "66=30",
        "--frequency-penalty",
        "2",
    ];
    let both = with(&flags);
    assert!(both.contains(&65) && both.contains(&66), "{both:?}");
    // 100 for each of the two once, and then neither.
    let flags = [
        "--logit-bias",
        "65=100",
        "--logit-bias",
        "66=100",
        "--presence-penalty",
        "200",
    ];
    let once = with(&flags);
    assert_eq!(
        once.iter()
            .filter(|token| [65, 66].contains(*token))
            .count(),
        2,
        "{once:?}"
    );
    assert_ne!(with(&["--presence-penalty", "-1.5"]), Vec::<u32>::new());
}

#[test]
fn sampling_that_the_file_recommends_applies_if_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("warm.gguf");
    let warm = [("general.sampling.temp", Some(gguf::Value::F32(1.0)))];
    std::fs::write(&path, bundled::with_metadata(&warm)).unwrap();
    let path = path.to_str().expect("a path in UTF-8");
    let with = |more: &[&str]| {
        let flags = ["Once", "--max-new-tokens", "24", "--model", path];
        generate(&[&flags[..], more].concat())
    };
    let greedy = with(&[]);
    assert!(greedy.get("seed").is_none());
    let sampled = with(&["--temperature", "1", "--seed", "7"]);
    assert_ne!(tokens(&sampled), tokens(&greedy));
    let recommended = ["--generation-config", "auto"];
    let auto = with(&[&recommended[..], &["--seed", "7"]].concat());
    assert_eq!(tokens(&auto), tokens(&sampled));
    let set = with(&[&recommended[..], &["--temperature", "0"]].concat());
    assert_eq!(tokens(&set), tokens(&greedy));
}

#[test]
fn numbers_beyond_single_precision_are_told_to_be_finite() {
    for flag in [
        "--temperature",
        "--repetition-penalty",
        "--presence-penalty",
    ] {
        let line = run(["generate", "a", flag, "1e40"]).failed("an infinite number");
        assert!(line.contains("must be a finite number"), "{line}");
    }
}
