//! How GGUF has the models of each architecture, as data, and what it cannot express.

use super::ConvertError;
use crate::{DecoderSpec, rope::RopeScaling};
use wisp_weights::gguf::Value;

/// A metadata key, and its value where it is needed.
pub(super) type Key = (&'static str, fn(&DecoderSpec) -> Option<Value>);

/// How GGUF has an architecture's models.
pub(super) struct Form {
    /// Wisp's name of the architecture.
    pub architecture: &'static str,
    /// `general.architecture`.
    pub gguf: &'static str,
    /// Rows of queries and keys are permuted, for interleaved rotation.
    pub permuted: bool,
    /// Keys beside the common ones.
    pub keys: &'static [Key],
}

fn number(value: f32) -> Option<Value> {
    Some(Value::F32(value))
}

const WINDOW: Key = ("attention.sliding_window", |spec| {
    let window = spec.layers.iter().find_map(|layer| layer.window);
    window.map(Value::U32)
});
const LOGIT_CAP: Key = ("final_logit_softcapping", |spec| number(spec.logit_softcap));

const GRANITE: &[Key] = &[
    ("embedding_scale", |spec| number(spec.embedding_multiplier)),
    ("residual_scale", |spec| number(spec.residual_multiplier)),
    ("logit_scale", |spec| number(1.0 / spec.logit_multiplier)),
    ("attention.scale", |spec| {
        number(spec.layers.first()?.attention_scale)
    }),
];
const GEMMA2: &[Key] = &[
    WINDOW,
    LOGIT_CAP,
    ("attn_logit_softcapping", |spec| {
        number(spec.attention_softcap)
    }),
];
const GEMMA3: &[Key] = &[
    WINDOW,
    ("rope.freq_base_swa", |spec| {
        number(spec.ropes.get(1)?.theta)
    }),
];
const NEOX: &[Key] = &[("use_parallel_residual", |spec| {
    Some(Value::Bool(spec.parallel_residual))
})];

fn causal(_: &DecoderSpec) -> Option<Value> {
    Some(Value::Bool(false))
}

const BERT: &[Key] = &[("attention.causal", causal)];
/// A window counts half of what the model calls local attention, and the token itself; layers without one come
/// at equal distances.
const MODERNBERT: &[Key] = &[
    ("attention.causal", causal),
    ("attention.sliding_window", |spec| {
        let window = spec.layers.iter().find_map(|layer| layer.window)?;
        Some(Value::U32(window.checked_sub(1)?.checked_mul(2)?))
    }),
    ("attention.sliding_window_pattern", |spec| {
        let mut rest = spec.layers.iter().skip(1);
        let every = rest.position(|layer| layer.window.is_none());
        let every = every.map_or(spec.layers.len(), |between| between + 1);
        Some(Value::U32(u32::try_from(every).ok()?))
    }),
    ("rope.freq_base_swa", |spec| {
        number(spec.ropes.get(1)?.theta)
    }),
];

const fn form(
    architecture: &'static str,
    gguf: &'static str,
    permuted: bool,
    keys: &'static [Key],
) -> Form {
    Form {
        architecture,
        gguf,
        permuted,
        keys,
    }
}

#[rustfmt::skip]
const FORMS: [Form; 19] = [
    form("llama",      "llama",      true,  &[]),
    form("mistral",    "llama",      true,  &[WINDOW]),
    form("mixtral",    "llama",      true,  &[WINDOW]),
    form("qwen2",      "qwen2",      false, &[]),
    form("qwen3",      "qwen3",      false, &[]),
    form("qwen3_moe",  "qwen3moe",   false, &[]),
    form("gemma",      "gemma",      false, &[]),
    form("gemma2",     "gemma2",     false, GEMMA2),
    form("gemma3",     "gemma3",     false, GEMMA3),
    form("phi3",       "phi3",       false, &[WINDOW]),
    form("olmo2",      "olmo2",      false, &[]),
    form("granite",    "granite",    true,  GRANITE),
    form("smollm3",    "smollm3",    true,  &[]),
    form("starcoder2", "starcoder2", false, &[WINDOW]),
    form("gpt2",       "gpt2",       false, &[]),
    form("gpt_neox",   "gptneox",    false, NEOX),
    form("bert",        "bert",        false, BERT),
    form("xlm_roberta", "bert",        false, BERT),
    form("modernbert",  "modern-bert", false, MODERNBERT),
];

/// The form of an architecture.
pub(super) fn of(architecture: &str) -> Result<&'static Form, ConvertError> {
    let form = FORMS.iter().find(|form| form.architecture == architecture);
    form.ok_or_else(|| ConvertError::Architecture {
        architecture: architecture.into(),
        supported: FORMS.iter().map(|form| form.architecture).collect(),
    })
}

/// Tensors of numbers that stand for a part of the spec.
pub(super) type Factors = Vec<(String, Vec<f32>)>;

/// The spec as it will be read back, and the factors of its rotary frequencies as tensors.
pub(super) fn expressed(
    form: &Form,
    spec: &DecoderSpec,
) -> Result<(DecoderSpec, Factors), ConvertError> {
    let mut spec = spec.clone();
    let mut factors = Factors::new();
    // The 1 that norms add stands in the weights.
    spec.norm.weight_offset = 0.0;
    spec.rope_interleaved |= form.permuted;
    if let Some(encoder) = &mut spec.encoder {
        // Positions before the first are left out, and nobody asks for an output layer.
        encoder.padding = None;
        spec.tied = true;
    }
    let mut others = spec.ropes.iter().skip(1);
    if others.any(|rope| rope.scaling != RopeScaling::None) {
        return Err(ConvertError::Inexpressible {
            what: "scaling of a second rotary embedding",
        });
    }
    let (dim, length) = (spec.rotary_dim, spec.max_positions);
    let Some(rope) = spec.ropes.first_mut() else {
        return Ok((spec, factors));
    };
    match &rope.scaling {
        RopeScaling::Llama3 { .. } => {
            let plain = crate::rope::frequencies(rope.theta, dim, &RopeScaling::None, length);
            let scaled = crate::rope::frequencies(rope.theta, dim, &rope.scaling, length);
            let divisors = plain.0.iter().zip(&scaled.0);
            let divisors: Vec<f32> = divisors.map(|(plain, scaled)| plain / scaled).collect();
            factors.push(("rope_freqs.weight".into(), divisors.clone()));
            rope.scaling = RopeScaling::Factors(divisors);
        }
        RopeScaling::LongRope { short, long, .. } => {
            factors.push(("rope_factors_short.weight".into(), short.clone()));
            factors.push(("rope_factors_long.weight".into(), long.clone()));
        }
        RopeScaling::Dynamic { .. } => {
            return Err(ConvertError::Inexpressible {
                what: "dynamic rope scaling",
            });
        }
        RopeScaling::Yarn {
            truncate: false, ..
        } => {
            return Err(ConvertError::Inexpressible {
                what: "YaRN whose ramp ends between dimensions",
            });
        }
        _ => {}
    }
    Ok((spec, factors))
}

fn close(a: f32, b: f32) -> bool {
    (a - b).abs() <= 1e-6 * a.abs().max(b.abs())
}

/// A scaling's numbers.
fn numbers(scaling: &RopeScaling) -> Vec<f32> {
    let of = |numbers: &[f64]| numbers.iter().map(|number| *number as f32).collect();
    match scaling {
        RopeScaling::None => Vec::new(),
        RopeScaling::Linear { factor } => of(&[*factor]),
        RopeScaling::Dynamic { factor, original } => of(&[*factor, *original]),
        RopeScaling::Llama3 {
            factor,
            low,
            high,
            original,
        } => of(&[*factor, *low, *high, *original]),
        RopeScaling::Yarn {
            factor,
            original,
            beta_fast,
            beta_slow,
            attention_factor,
            truncate,
        } => {
            let truncate = f64::from(u8::from(*truncate));
            let ramp = [*beta_fast, *beta_slow, truncate];
            of(&[&[*factor, *original, *attention_factor], &ramp[..]].concat())
        }
        RopeScaling::LongRope {
            short,
            long,
            original,
            attention_factor,
        } => [&of(&[*original, *attention_factor]), &short[..], long].concat(),
        RopeScaling::Factors(factors) => factors.clone(),
    }
}

fn same_scaling(a: &RopeScaling, b: &RopeScaling) -> bool {
    let same_kind = std::mem::discriminant(a) == std::mem::discriminant(b);
    let (a, b) = (numbers(a), numbers(b));
    same_kind && a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| close(*a, *b))
}

/// What differs between two specs, beyond the rounding of numbers.
pub(super) fn difference(a: &DecoderSpec, b: &DecoderSpec) -> Option<&'static str> {
    let layers = |same: fn(&crate::spec::LayerSpec, &crate::spec::LayerSpec) -> bool| {
        a.layers.iter().zip(&b.layers).all(|(a, b)| same(a, b))
    };
    let ropes = a.ropes.len() == b.ropes.len()
        && a.ropes
            .iter()
            .zip(&b.ropes)
            .all(|(a, b)| close(a.theta, b.theta) && same_scaling(&a.scaling, &b.scaling));
    let same = [
        ("vocabulary", a.vocab_size == b.vocab_size),
        ("width", a.hidden_size == b.hidden_size),
        ("feed-forward", a.intermediate_size == b.intermediate_size),
        ("number of layers", a.layers.len() == b.layers.len()),
        (
            "heads",
            (a.heads, a.kv_heads, a.head_dim) == (b.heads, b.kv_heads, b.head_dim),
        ),
        (
            "norms",
            a.norm.kind == b.norm.kind && close(a.norm.eps, b.norm.eps),
        ),
        ("order of norms", a.norm_placement == b.norm_placement),
        ("norms of queries and keys", a.qk_norm == b.qk_norm),
        (
            "activation",
            a.activation == b.activation && a.gated == b.gated,
        ),
        ("experts", a.moe == b.moe && layers(|a, b| a.moe == b.moe)),
        ("sliding windows", layers(|a, b| a.window == b.window)),
        ("layers without positions", layers(|a, b| a.rope == b.rope)),
        (
            "scale of attention scores",
            layers(|a, b| close(a.attention_scale, b.attention_scale)),
        ),
        (
            "rotary embedding",
            a.rope_interleaved == b.rope_interleaved && ropes,
        ),
        (
            "rotated part of heads",
            a.ropes.is_empty() || a.rotary_dim == b.rotary_dim,
        ),
        ("context", a.max_positions == b.max_positions),
        (
            "learned positions",
            a.learned_positions == b.learned_positions,
        ),
        (
            "cap of attention scores",
            close(a.attention_softcap, b.attention_softcap),
        ),
        ("cap of logits", close(a.logit_softcap, b.logit_softcap)),
        (
            "factor on embeddings",
            close(a.embedding_multiplier, b.embedding_multiplier),
        ),
        (
            "factor on residuals",
            close(a.residual_multiplier, b.residual_multiplier),
        ),
        (
            "factor on logits",
            close(a.logit_multiplier, b.logit_multiplier),
        ),
        (
            "parallel residual",
            a.parallel_residual == b.parallel_residual,
        ),
        ("output layer", a.tied == b.tied),
        ("kinds of segments", a.encoder == b.encoder),
    ];
    same.into_iter()
        .find(|(_, same)| !same)
        .map(|(what, _)| what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalings_differ_by_their_kinds_and_numbers() {
        let yarn = |factor, beta_slow| RopeScaling::Yarn {
            factor,
            original: 4096.0,
            beta_fast: 32.0,
            beta_slow,
            attention_factor: 1.1,
            truncate: true,
        };
        let scalings = [
            RopeScaling::None,
            RopeScaling::Linear { factor: 2.0 },
            RopeScaling::Linear { factor: 4.0 },
            yarn(4.0, 1.0),
            yarn(4.0, 2.0),
            RopeScaling::Factors(vec![1.0, 2.0]),
            RopeScaling::Factors(vec![1.0, 2.0, 3.0]),
        ];
        for (i, a) in scalings.iter().enumerate() {
            for (j, b) in scalings.iter().enumerate() {
                assert_eq!(same_scaling(a, b), i == j, "{a:?} and {b:?}");
            }
        }
        // GGUF has numbers of 32 bits.
        let rounded = yarn(f64::from(4.1f32), 1.0);
        assert!(same_scaling(&yarn(4.1, 1.0), &rounded));
    }
}
