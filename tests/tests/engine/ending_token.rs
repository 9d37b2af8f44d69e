//! The token that ends a text.

use wisp_engine::{FinishReason, Model, pipelines::GenerateOptions};
use wisp_tests::bundled;

#[test]
fn token_that_ends_a_text_is_counted_and_scored_but_no_part_of_it() {
    let path = bundled::folder().join("wisp-tiny.gguf");
    let builder = Model::builder(path.to_str().unwrap());
    let model = builder.device("host").unwrap().load().unwrap();
    let request = || model.generate("Once upon a time");
    let whole = request().max_tokens(8).ignore_end().complete().unwrap();
    assert_eq!(whole.ending, None);
    let last = *whole.tokens.last().unwrap();
    let first = whole.tokens.iter().position(|token| *token == last);
    let before = &whole.tokens[..first.unwrap()];
    let options = GenerateOptions {
        stop_tokens: vec![last],
        ignore_eos: true,
        ..GenerateOptions::default()
    };
    let ended = request().options(options).log_probabilities(0).complete();
    let ended = ended.unwrap();
    assert_eq!(ended.finish_reason, FinishReason::Stop);
    assert_eq!(ended.tokens, before);
    assert_eq!(ended.usage.completion_tokens, before.len() + 1);
    let scored: Vec<u32> = ended.scored_tokens().map(|(token, _)| token).collect();
    assert_eq!(scored, [before, &[last]].concat());
    assert_eq!(ended.text, model.detokenize(before).unwrap());
}
