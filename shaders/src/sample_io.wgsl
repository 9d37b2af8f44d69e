// Shared by the kernels that sample: settings, the layout of their scratch memory, and the weight of a token.

/// Sampling one token for each row of logits takes three calls, because a vocabulary has up to hundreds of
/// thousands of tokens, more than one workgroup should read again and again. They pass on a buffer `scratch`,
/// of [`SAMPLE_CHUNK_WORDS`] words for each chunk of [`SAMPLE_CHUNK`] tokens of a row, then two words for each
/// token of the row.
///
/// `sample_scan` applies biases, penalties, the temperature and masks, stores the resulting value of each token, and
/// summarises each chunk. Grid: `[vocab, rows]`.
///
/// `sample_compact` drops the tokens that top-k, top-p and min-p certainly exclude: it moves the values of the
/// others, and their ids, to the beginning of their chunk. Where a row has neither top-k nor top-p, it draws
/// the best token of each chunk instead. Grid: `[vocab, rows]`.
///
/// `sample` selects one of the remaining tokens, writes it and its log-probability, and prepares the inputs of
/// the next step. `tokens` and `index` receive the sampled token and its `(sequence, position)`, the inputs of
/// the next step; in `settings`, `step` and `position` grow by one. Where no logit is finite, or one is
/// infinite, or the mask forbids all tokens, `u32::MAX` is written to `out` instead of the token. Grid: `[rows]`,
/// one workgroup each.
///
/// Out-of-range numbers in the settings of a row have these effects; for those marked with * the host's
/// twin returns an error:
///
/// - `sequence`*: no penalties, biases and masks apply, and the sampled token is not counted;
/// - `step`*: nothing is written to `out` and `logprobs`;
/// - `biases`*: only the first `max_biases` apply;
/// - `forced_token` and [`LogitBias::token`]: they are clamped to the last token of the vocabulary.
struct SampleParams {
    /// Rows of logits.
    rows: u32,
    /// Tokens in the vocabulary, at most [`SAMPLE_MAX_CHUNKS`] chunks of [`SAMPLE_CHUNK`].
    vocab: u32,
    /// The number of biases that `biases` can hold for each sequence.
    max_biases: u32,
    /// Words in a row of `logprobs`: the log-probability of the token, then pairs of a token and its
    /// log-probability in descending order, with token `u32::MAX` where there are no more tokens.
    logprob_words: u32,
}

/// A number added to one token's logit.
struct LogitBias {
    /// The id of the token in the vocabulary.
    token: u32,
    /// Added to the token's logit.
    value: f32,
    /// Padding.
    pad: array<u32, 2>,
}

/// The sampling settings of one row. Applied in this order: biases, repetition penalty, frequency and
/// presence penalty, temperature, mask, top-k, top-p, min-p, then the Gumbel-max draw.
struct SampleSettings {
    /// Divides the logits; 0 selects the token with the largest logit (greedy).
    temperature: f32,
    /// Keeps the k most probable tokens; 0 keeps all.
    top_k: u32,
    /// Keeps the smallest set of tokens with at least this probability (Holtzman et al. 2020); 1 keeps
    /// all.
    top_p: f32,
    /// Keeps tokens whose probability is at least this fraction of the largest one (Nguyen et al. 2024);
    /// 0 keeps all.
    min_p: f32,
    /// Divides positive and multiplies negative logits of tokens in the prompt or sampled before (Keskar
    /// et al. 2019); 1 leaves them unchanged.
    repetition_penalty: f32,
    /// Subtracted from the logits of tokens sampled before, as in OpenAI's API.
    presence_penalty: f32,
    /// Subtracted from the logits of tokens for each time that they were sampled, as in OpenAI's API.
    frequency_penalty: f32,
    /// Seed of the random noise.
    seed: u32,
    /// Row of `out` and `logprobs` to write: the number of earlier steps in this submission.
    step: u32,
    /// Row of the sequence in `counts`, `biases` and the page table.
    sequence: u32,
    /// Position of the sampled token in its sequence.
    position: u32,
    /// A token that is given rather than sampled, or [`NOT_FORCED`].
    forced_token: u32,
    /// Number of biases of the sequence.
    biases: u32,
    /// 0, or 1 plus the number of most probable tokens to write to `logprobs`.
    logprobs: u32,
    /// 1 if only the tokens of the sequence's mask may be sampled, 0 if all may. Log-probabilities are those of all
    /// tokens either way.
    masked: u32,
}

/// The bit of a token's count that is set if the token is in the prompt. The lower bits count how often
/// it was sampled.
const IN_PROMPT: u32 = 0x80000000u;

/// The [`SampleSettings::forced_token`] of a row whose token is to be sampled.
const NOT_FORCED: u32 = 0xffffffffu;

// The least value of a token that a mask allows: above that of all that it forbids, the lowest finite float.
const LEAST_ALLOWED: f32 = -1.70141173e38;

/// Tokens of a chunk of a row of logits, which one workgroup of `sample_scan` and `sample_compact` handles.
const SAMPLE_CHUNK: u32 = 512u;

/// Words of `scratch` that describe a chunk: the largest value and its token, the sum of the weights relative
/// to that value, the largest logit and the sum of the weights of the logits relative to it, the number of
/// tokens that remain, and the largest value plus noise among them with its token.
const SAMPLE_CHUNK_WORDS: u32 = 8u;

/// The largest number of chunks in a row.
const SAMPLE_MAX_CHUNKS: u32 = 1024u;

// Words of a chunk's description.
const CHUNK_MAX: u32 = 0u;
const CHUNK_MAX_TOKEN: u32 = 1u;
const CHUNK_WEIGHT: u32 = 2u;
const CHUNK_LOGIT_MAX: u32 = 3u;
const CHUNK_LOGIT_WEIGHT: u32 = 4u;
const CHUNK_COUNT: u32 = 5u;
const CHUNK_DRAWN: u32 = 6u;
const CHUNK_DRAWN_TOKEN: u32 = 7u;

// The number of chunks in a row of `vocab` logits.
fn chunk_count(vocab: u32) -> u32 {
    return min((vocab + SAMPLE_CHUNK - 1u) / SAMPLE_CHUNK, SAMPLE_MAX_CHUNKS);
}

// The index in `scratch` of a row's first word.
fn scratch_row(row: u32, vocab: u32) -> u32 {
    return row * (chunk_count(vocab) * SAMPLE_CHUNK_WORDS + 2u * vocab);
}

// The index in `scratch` of a row's values, which its tokens' ids follow.
fn scratch_values(row: u32, vocab: u32) -> u32 {
    return scratch_row(row, vocab) + chunk_count(vocab) * SAMPLE_CHUNK_WORDS;
}

// The weight of a value, relative to the largest one.
fn weight_of(z: f32, row_max: f32) -> f32 {
    return exp(max(z - row_max, -1000.0));
}

fn has_penalties(s: SampleSettings) -> bool {
    return s.repetition_penalty != 1.0 || s.presence_penalty != 0.0 || s.frequency_penalty != 0.0;
}

// Whether top-k or top-p exclude tokens.
fn has_top_k(s: SampleSettings, vocab: u32) -> bool {
    return s.top_k != 0u && s.top_k < vocab;
}

fn has_top_p(s: SampleSettings) -> bool {
    return s.top_p < 1.0;
}

// Whether a token is drawn at random, rather than forced or the one with the largest value.
fn is_random(s: SampleSettings) -> bool {
    return s.forced_token == NOT_FORCED && s.temperature > 0.0;
}
