//! Tokens that are not in the vocabulary of `tokenizer.json`'s model.

use serde_json::Value;

use crate::tokenizer::error::TokenizerError;

/// Adds the tokens that older checkpoints list in other files than `tokenizer.json`, if their ids
/// follow those of the vocabulary, as `transformers` does.
pub fn add_tokens(
    tokenizer: &mut tokenizers::Tokenizer,
    config: &Value,
    added: &Value,
    warnings: &mut Vec<String>,
) -> Result<(), TokenizerError> {
    let decoder = config["added_tokens_decoder"]
        .as_object()
        .into_iter()
        .flatten();
    let decoder = decoder.filter_map(|(id, token)| {
        let text = token["content"].as_str()?.to_owned();
        let flag = |name: &str| token[name].as_bool();
        let added = tokenizers::AddedToken::from(text, flag("special").unwrap_or(false))
            .lstrip(flag("lstrip").unwrap_or(false))
            .rstrip(flag("rstrip").unwrap_or(false))
            .single_word(flag("single_word").unwrap_or(false))
            .normalized(flag("normalized").unwrap_or(true));
        Some((id.parse::<u64>().ok()?, added))
    });
    let listed = added.as_object().into_iter().flatten();
    let listed = listed.filter_map(|(text, id)| {
        Some((
            id.as_u64()?,
            tokenizers::AddedToken::from(text.clone(), false),
        ))
    });
    let mut tokens: Vec<_> = decoder.chain(listed).collect();
    tokens.retain(|(_, token)| tokenizer.token_to_id(&token.content).is_none());
    // The sort is stable: of two entries with the same id, the more detailed one stays.
    tokens.sort_by_key(|(id, _)| *id);
    tokens.dedup_by_key(|(id, _)| *id);
    for (id, token) in tokens {
        if id != vocab_size(tokenizer) as u64 {
            warnings.push(format!(
                "added token {:?} is ignored: its id {id} does not follow the vocabulary",
                token.content
            ));
            continue;
        }
        let result = tokenizer.add_tokens([token]);
        result.map_err(TokenizerError::library)?;
    }
    Ok(())
}

/// Returns one more than the largest id. If some ids have no token, this is more than the number of
/// tokens.
pub fn vocab_size(tokenizer: &tokenizers::Tokenizer) -> usize {
    let added = tokenizer.get_added_tokens_decoder();
    let largest = added.keys().max().map_or(0, |&id| id as usize + 1);
    tokenizer.get_vocab_size(true).max(largest)
}
