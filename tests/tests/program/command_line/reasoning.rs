//! How much models think.

use wisp_engine::weights::gguf;
use wisp_tests::bundled;

use super::*;

#[test]
fn effort_reaches_the_chat_template() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("thinks.gguf");
    let template = "{{ enable_thinking }}|{{ reasoning_effort }}| Once upon a time";
    let template = gguf::Value::String(template.into());
    let file = bundled::with_metadata(&[("tokenizer.chat_template", Some(template))]);
    std::fs::write(&path, file).expect("a file");
    let path = path.to_str().expect("a path");
    let model = ["--model", path, "--max-new-tokens", "6"];
    let answer = |flags: &[&str]| generate(&[&["Hi", "--chat"], flags, &model].concat());
    for (flags, prompt) in [
        (&[][..], "|| Once upon a time"),
        (&["--reasoning-effort", "none"], "False|| Once upon a time"),
        (&["--reasoning-effort=low"], "True|low| Once upon a time"),
    ] {
        let continued = generate(&[&[prompt][..], &model].concat());
        let answered = answer(flags);
        assert_eq!(answered["prompt_tokens"], continued["prompt_tokens"]);
        assert_eq!(answered["text"], continued["text"], "{flags:?}");
        let chat = [&["chat"], flags, &model, &HOST].concat();
        let shown = run_with_input(chat, "Hi\n").succeeded().stdout;
        let text = continued["text"].as_str().expect("a text");
        assert!(shown.contains(text.trim()), "{flags:?}: {shown}");
    }
    for (flags, words) in [
        (&["--chat", "--reasoning-effort", "huge"][..], "`minimal`"),
        (&["--reasoning-effort", "low"], "--chat"),
    ] {
        let failed = run([&["generate", "Hi"], flags, &HOST].concat());
        assert_eq!(failed.status, Some(2), "{flags:?}");
        assert!(failed.stderr.contains(words), "{}", failed.stderr);
    }
}
