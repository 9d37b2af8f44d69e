//! Added tokens that older checkpoints list in other files than `tokenizer.json`.

use std::collections::HashSet;

use serde_json::Value;

use super::added_tokens::AddedToken;

/// Returns the tokens whose ids follow those of a vocabulary of `size` ids, as `transformers` does.
pub fn older_tokens(
    config: &Value,
    added: &Value,
    size: usize,
    is_known: impl Fn(&str) -> bool,
    warnings: &mut Vec<String>,
) -> Vec<AddedToken> {
    let decoder = config["added_tokens_decoder"].as_object();
    let decoder = decoder.into_iter().flatten().filter_map(|(id, token)| {
        let flag = |name: &str| token[name].as_bool();
        let token = AddedToken {
            content: token["content"].as_str()?.to_owned(),
            special: flag("special").unwrap_or(false),
            lstrip: flag("lstrip").unwrap_or(false),
            rstrip: flag("rstrip").unwrap_or(false),
            single_word: flag("single_word").unwrap_or(false),
            normalized: flag("normalized").unwrap_or(true),
        };
        Some((id.parse::<u64>().ok()?, token))
    });
    let listed = added.as_object().into_iter().flatten();
    let listed = listed.filter_map(|(text, id)| {
        let token = AddedToken {
            content: text.clone(),
            normalized: true,
            ..AddedToken::default()
        };
        Some((id.as_u64()?, token))
    });
    let mut tokens: Vec<(u64, AddedToken)> = decoder.chain(listed).collect();
    tokens.retain(|(_, token)| !token.content.is_empty() && !is_known(&token.content));
    // The sort is stable: of two entries with the same id, the more detailed one stays.
    tokens.sort_by_key(|(id, _)| *id);
    tokens.dedup_by_key(|(id, _)| *id);
    let mut following = Vec::new();
    let mut contents = HashSet::new();
    for (id, token) in tokens {
        if id == (size + following.len()) as u64 && contents.insert(token.content.clone()) {
            following.push(token);
        } else {
            warnings.push(format!(
                "added token {:.100?} is ignored: its id {id} does not follow the vocabulary",
                token.content
            ));
        }
    }
    following
}
