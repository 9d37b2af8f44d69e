//! The pre-tokenizers that GGUF files name in `tokenizer.ggml.pre`.
//!
//! The regular expressions are those of the models' own `tokenizer.json` files; llama.cpp's
//! `llama-vocab.cpp` lists them under these names. Where llama.cpp approximates an expression
//! (`\p{Lu}` and its kin, class intersections, possessive quantifiers), the model's own is used.
//! `(?i:'s|…)` is written out as there. Characters outside ASCII are escaped, so that no editor can
//! normalize them.

/// The rules of one pre-tokenizer.
pub struct PreTokenizerRules {
    /// The values of `tokenizer.ggml.pre` that mean it, the preferred one for new files first.
    pub names: &'static [&'static str],
    /// The splits, applied one after the other.
    pub splits: &'static [Split],
    /// Whether a word that is a token is not split by merges.
    pub ignore_merges: bool,
    /// Whether BOS is added when the file does not say.
    pub add_bos: bool,
    /// Whether tokens are spelled in the byte alphabet, not in plain text with `▁` for a space.
    pub byte_level: bool,
}

/// A way to split text.
pub enum Split {
    /// Every match is a piece, and so is the text between matches.
    Regex(&'static str),
    /// As `Regex`, but white space is split into runs of 512, 256, ... 1 characters.
    RegexHalvingSpaces(&'static str),
    /// Numbers are pieces, with their digits grouped by three from the right.
    DigitGroups,
    /// As `DigitGroups`, but only for numbers that no letter follows.
    DigitGroupsAtWordEnd,
}

use Split::{DigitGroups, DigitGroupsAtWordEnd, Regex, RegexHalvingSpaces};

/// The fields that most pre-tokenizers share.
const DEFAULTS: PreTokenizerRules = PreTokenizerRules {
    names: &[],
    splits: &[],
    ignore_merges: false,
    add_bos: false,
    byte_level: true,
};

/// Returns the rules of a name.
pub fn find(name: &str) -> Option<&'static PreTokenizerRules> {
    PRE_TOKENIZERS
        .iter()
        .find(|rules| rules.names.contains(&name))
}

const GPT2: Split =
    Regex(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)");
const DIGIT: Split = Regex(r"\p{N}");
const DIGITS_1_3: Split = Regex(r"\p{N}{1,3}");
const THREE_DIGITS: Split = Regex("[0-9][0-9][0-9]");
const NEWLINE: Split = Regex(r"[\r\n]");
const LINES: Split = Regex(r"[^\n]+|[\n]+");
/// CJK ideographs and kana.
const CJK_KANA: Split = Regex(r"[\u{4E00}-\u{9FA5}\u{3040}-\u{309F}\u{30A0}-\u{30FF}]+");
/// DeepSeek's first class of ideographs, Indic to CJK, and Hangul.
const CJK_HANGUL: Split = Regex(r"[\u{4E00}-\u{9FA5}\u{0800}-\u{4E00}\u{AC00}-\u{D7FF}]+");

const LLAMA3: Split = Regex(
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const JAIS2: Split = RegexHalvingSpaces(
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const QWEN2: Split = Regex(
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const QWEN35: Split = Regex(
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const MINICPM5: Split = Regex(
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const UFAKZEKA: Split =
    Regex(r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+");
const SEED_CODER: Split = Regex(
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+",
);
/// The model's own expression has the possessive quantifiers `?+` and `++`, which make no difference
/// here.
const BAILINGMOE: Split = Regex(
    r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
);
const EXAONE_MOE: Split = Regex(
    r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+",
);
const TEKKEN: Split = Regex(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const GPT4O: Split = Regex(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const YOUTU: Split = Regex(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const KIMI_K2: Split = Regex(
    r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const DEEPSEEK_V3: Split = Regex(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
);
const SPARK: Split = Regex(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+"##,
);
/// Every cased letter of the Unicode version that DeepSeek used.
const DEEPSEEK_LETTERS: Split = Regex(concat!(
    r"\s?[A-Za-z\u{B5}\u{C0}-\u{D6}\u{D8}-\u{F6}\u{F8}-\u{1BA}\u{1BC}-\u{1BF}\u{1C4}-\u{293}",
    r"\u{295}-\u{2AF}\u{370}-\u{373}\u{376}\u{377}\u{37B}-\u{37D}\u{37F}\u{386}\u{388}-\u{38A}",
    r"\u{38C}\u{38E}-\u{3A1}\u{3A3}-\u{3F5}\u{3F7}-\u{481}\u{48A}-\u{52F}\u{531}-\u{556}",
    r"\u{10A0}-\u{10C5}\u{13A0}-\u{13F5}\u{13F8}-\u{13FD}\u{1C90}-\u{1CBA}\u{1CBD}-\u{1CBF}",
    r"\u{1D00}-\u{1D2B}\u{1D6B}-\u{1D77}\u{1D79}-\u{1D9A}\u{1E00}-\u{1F15}\u{1F18}-\u{1F1D}",
    r"\u{1F20}-\u{1F45}\u{1F48}-\u{1F4D}\u{1F50}-\u{1F57}\u{1F59}\u{1F5B}\u{1F5D}",
    r"\u{1F5F}-\u{1F7D}\u{1F80}-\u{1FB4}\u{1FB6}-\u{1FBC}\u{1FBE}\u{1FC2}-\u{1FC4}",
    r"\u{1FC6}-\u{1FCC}\u{1FD0}-\u{1FD3}\u{1FD6}-\u{1FDB}\u{1FE0}-\u{1FEC}\u{1FF2}-\u{1FF4}",
    r"\u{1FF6}-\u{1FFC}\u{2102}\u{2107}\u{210A}-\u{2113}\u{2115}\u{2119}-\u{211D}\u{2124}",
    r"\u{2126}\u{2128}\u{212A}-\u{212D}\u{212F}-\u{2134}\u{2139}\u{213C}-\u{213F}",
    r"\u{2145}-\u{2149}\u{214E}\u{2183}\u{2184}\u{2C00}-\u{2C7B}\u{2C7E}-\u{2CE4}",
    r"\u{2CEB}-\u{2CEE}\u{2CF2}\u{2CF3}\u{A640}-\u{A66D}\u{A680}-\u{A69B}\u{A722}-\u{A76F}",
    r"\u{A771}-\u{A787}\u{A78B}-\u{A78E}\u{AB70}-\u{ABBF}\u{FB00}-\u{FB06}\u{FB13}-\u{FB17}",
    r"\u{FF21}-\u{FF3A}\u{FF41}-\u{FF5A}\u{10400}-\u{1044F}\u{104B0}-\u{104D3}",
    r"\u{104D8}-\u{104FB}\u{10C80}-\u{10CB2}\u{10CC0}-\u{10CF2}\u{118A0}-\u{118DF}",
    r"\u{1E900}-\u{1E943}]+",
));
const DEEPSEEK_PUNCTUATION: Split =
    Regex(r"\s?[!-/:-~\u{FF01}-\u{FF0F}\u{FF1A}-\u{FF5E}\u{2018}-\u{201F}\u{3000}-\u{3002}]+");
const FALCON_PUNCTUATION: Split = Regex(r"[\p{P}\$\+<=>\^~\|`]+");
const DEFAULT_PUNCTUATION: Split = Regex(r"[\p{P}\$\+<=>\^~\|]+");
const BLOOM: Split =
    Regex(r" ?[^(\s|.,!?\u{2026}\u{3002}\u{FF0C}\u{3001}\u{0964}\u{06D4}\u{060C})]+");
const YOUTU_SCRIPTS: Split = Regex(concat!(
    r"[\u{AC00}-\u{D7A3}\u{3131}-\u{318E}]+",
    r"|[\u{FF01}\u{2026}\u{201C}\u{201D}\u{2018}\u{2019}\u{2014}\u{FF1A}\u{FF1B}\u{FF0C}",
    r"\u{3001}-\u{303F}\u{FE30}-\u{FE4F}]+",
    r"|[\u{3105}-\u{312F}]+|[\u{4E00}-\u{9FA5}\u{3040}-\u{309F}\u{30A0}-\u{30FF}]+",
));
const AFMOE_SCRIPTS: Split = Regex(concat!(
    r"[\u{4E00}-\u{9FFF}\u{3400}-\u{4DBF}\u{F900}-\u{FAFF}\u{3040}-\u{309F}\u{30A0}-\u{30FF}",
    r"\u{FF65}-\u{FF9F}\u{2F00}-\u{2FDF}\u{0E40}-\u{0E7F}\u{0E80}-\u{0EFF}\u{1780}-\u{17FF}",
    r"\u{1000}-\u{109F}\u{AA60}-\u{AA7F}\u{A9E0}-\u{A9FF}\u{AC00}-\u{D7AF}\u{1100}-\u{11FF}]+",
));

/// All known pre-tokenizers.
pub const PRE_TOKENIZERS: &[PreTokenizerRules] = &[
    PreTokenizerRules {
        names: &["default"],
        splits: &[DEFAULT_PUNCTUATION, GPT2, Regex(r"\p{N}+"), THREE_DIGITS],
        ..DEFAULTS
    },
    PreTokenizerRules {
        names: &[
            "gpt-2",
            "phi-2",
            "jina-es",
            "jina-de",
            "jina-v1-en",
            "jina-v2-es",
            "jina-v2-de",
            "jina-v2-code",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "modern-bert",
            "roberta-bpe",
            "mpt",
            "olmo",
            "jais",
            "trillion",
            "granite-docling",
            "exaone4",
        ],
        splits: &[GPT2],
        ..DEFAULTS
    },
    PreTokenizerRules {
        names: &[
            "starcoder",
            "refact",
            "command-r",
            "smollm",
            "codeshell",
            "exaone",
            "minerva-7b",
            "mellum2",
        ],
        splits: &[DIGIT, GPT2],
        ..DEFAULTS
    },
    PreTokenizerRules {
        names: &[
            "llama-bpe",
            "llama3",
            "llama-v3",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "midm-2.0",
            "lfm2",
            "jina-v5-nano",
        ],
        splits: &[LLAMA3],
        ignore_merges: true,
        add_bos: true,
        ..DEFAULTS
    },
    PreTokenizerRules {
        names: &["dbrx", "smaug-bpe", "glm4", "chatglm-bpe"],
        splits: &[LLAMA3],
        ..DEFAULTS
    },
    PreTokenizerRules {
        names: &["jais-2"],
        splits: &[JAIS2],
        ..DEFAULTS
    },
    PreTokenizerRules {
        names: &[
            "qwen2",
            "deepseek-r1-qwen",
            "kormo",
            "f2llmv2",
            "megrez",
            "stablelm2",
            "hunyuan",
            "solar-open",
            "grok-2",
        ],
        splits: &[QWEN2],
        ..DEFAULTS
    },
    PreTokenizerRules {
        names: &["qwen35"],
        splits: &[QWEN35],
        ..DEFAULTS
    },
    PreTokenizerRules {
        names: &["minicpm5"],
        splits: &[DIGITS_1_3, MINICPM5],
        ignore_merges: true,
        ..DEFAULTS
    },
    PreTokenizerRules {
        names: &["ufakzeka"],
        splits: &[UFAKZEKA],
        ..DEFAULTS
    },
    PreTokenizerRules {
        names: &["seed-coder"],
        splits: &[SEED_CODER],
        ..DEFAULTS
    },
    PreTokenizerRules {
        names: &["bailingmoe", "bailingmoe2", "llada-moe"],
        splits: &[BAILINGMOE],
        ..DEFAULTS
    },
    PreTokenizerRules {
        names: &["exaone-moe"],
        splits: &[EXAONE_MOE],
        ..DEFAULTS
    },
    PreTokenizerRules {
        names: &["laguna"],
        splits: &[LINES, QWEN2],
        ..DEFAULTS
    },
    PreTokenizerRules {
        names: &["deepseek-llm"],
        splits: &[
            NEWLINE,
            DEEPSEEK_LETTERS,
            DEEPSEEK_PUNCTUATION,
            Regex(r"\s+$"),
            CJK_HANGUL,
            Regex(r"\p{N}+"),
        ],
        ..DEFAULTS
    },
    PreTokenizerRules {
        names: &["deepseek-coder"],
        splits: &[
            NEWLINE,
            Regex(r"\s?\p{L}+"),
            Regex(r"\s?\p{P}+"),
            CJK_HANGUL,
            DIGIT,
        ],
        ..DEFAULTS
    },
    PreTokenizerRules {
        names: &["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"],
        splits: &[DIGITS_1_3, CJK_KANA, DEEPSEEK_V3],
        ..DEFAULTS
    },
    PreTokenizerRules {
        names: &["spark2_5"],
        splits: &[DIGITS_1_3, CJK_KANA, SPARK, DIGIT],
        ..DEFAULTS
    },
    PreTokenizerRules {
        names: &["youtu"],
        splits: &[YOUTU_SCRIPTS, YOUTU],
        ignore_merges: true,
        ..DEFAULTS
    },
    PreTokenizerRules {
        names: &["falcon"],
        splits: &[FALCON_PUNCTUATION, GPT2, THREE_DIGITS],
        ..DEFAULTS
    },
    PreTokenizerRules {
        names: &["poro-chat", "bloom", "gpt3-finnish"],
        splits: &[BLOOM],
        ..DEFAULTS
    },
    PreTokenizerRules {
        names: &["viking"],
        splits: &[BLOOM, DIGIT],
        ..DEFAULTS
    },
    PreTokenizerRules {
        names: &["tekken"],
        splits: &[TEKKEN],
        ignore_merges: true,
        add_bos: true,
        ..DEFAULTS
    },
    PreTokenizerRules {
        names: &["chameleon"],
        splits: &[
            Regex("<sentinel:[0-9]+>"),
            Regex("(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"),
            Regex(r"([\t\n]|    |  )"),
            DIGIT,
            Regex(r"[\p{P}!-/:-@\[-`{-~]"),
            GPT2,
        ],
        add_bos: true,
        ..DEFAULTS
    },
    PreTokenizerRules {
        names: &["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"],
        splits: &[GPT4O],
        ..DEFAULTS
    },
    PreTokenizerRules {
        names: &["granite-embed-multi-97m"],
        splits: &[GPT4O],
        ignore_merges: true,
        ..DEFAULTS
    },
    PreTokenizerRules {
        names: &["tiny_aya", "cohere2moe"],
        splits: &[DigitGroupsAtWordEnd, GPT4O],
        ..DEFAULTS
    },
    PreTokenizerRules {
        names: &["kimi-k2"],
        splits: &[KIMI_K2],
        ..DEFAULTS
    },
    PreTokenizerRules {
        names: &["superbpe"],
        splits: &[DigitGroups],
        ..DEFAULTS
    },
    PreTokenizerRules {
        names: &["afmoe"],
        splits: &[DigitGroups, AFMOE_SCRIPTS, DEEPSEEK_V3],
        ..DEFAULTS
    },
    PreTokenizerRules {
        names: &["gemma4", "granite-embed-multi-311m"],
        splits: &[LINES],
        add_bos: true,
        byte_level: false,
        ..DEFAULTS
    },
    PreTokenizerRules {
        names: &["sarvam-moe"],
        splits: &[LINES],
        byte_level: false,
        ..DEFAULTS
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_name_occurs_once() {
        let mut seen = HashSet::new();
        for name in PRE_TOKENIZERS.iter().flat_map(|rules| rules.names) {
            assert!(seen.insert(name), "{name} occurs twice");
        }
        assert!(find("no such pre-tokenizer").is_none());
    }
}
