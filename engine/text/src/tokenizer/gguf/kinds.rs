//! The kinds of tokenizers that GGUF files name in `tokenizer.ggml.model`.

/// A kind of tokenizer, and what holds for it unless the file says otherwise.
pub struct Kind {
    /// The value of `tokenizer.ggml.model`.
    pub model: &'static str,
    /// The id of the token that begins a text.
    pub bos: Option<u64>,
    /// The id of the token that ends a text.
    pub eos: Option<u64>,
    /// The id of the token that replaces text without tokens.
    pub unknown: Option<u64>,
    /// The id of the token between the two texts of a pair.
    pub separator: Option<u64>,
    /// Whether encoding adds BOS.
    pub add_bos: bool,
    /// Whether encoding adds EOS.
    pub add_eos: bool,
    /// Whether encoding adds the separator.
    pub add_separator: bool,
    /// Whether encoding puts a space before the text.
    pub space_prefix: bool,
}

/// Returns the kind that a file names, if it is supported.
pub fn find(model: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.model == model)
}

const KINDS: &[Kind] = &[
    Kind {
        model: "llama",
        bos: Some(1),
        eos: Some(2),
        unknown: Some(0),
        separator: None,
        add_bos: true,
        add_eos: false,
        add_separator: false,
        space_prefix: true,
    },
    Kind {
        model: "gpt2",
        bos: Some(11),
        eos: Some(11),
        unknown: None,
        separator: None,
        add_bos: false,
        add_eos: false,
        add_separator: false,
        space_prefix: false,
    },
    Kind {
        model: "gemma4",
        bos: None,
        eos: None,
        unknown: None,
        separator: None,
        add_bos: true,
        add_eos: false,
        add_separator: false,
        space_prefix: false,
    },
    Kind {
        model: "bert",
        bos: Some(101),
        eos: None,
        unknown: Some(100),
        separator: Some(102),
        add_bos: true,
        add_eos: false,
        add_separator: true,
        space_prefix: false,
    },
    Kind {
        model: "t5",
        bos: None,
        eos: Some(1),
        unknown: Some(2),
        separator: None,
        add_bos: false,
        add_eos: true,
        add_separator: false,
        space_prefix: false,
    },
];
