//! A tiny BERT with random weights and a tokenizer of a few words.

use std::{collections::BTreeMap, path::Path};

use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde_json::{Value, json};

use crate::kernels::noise;

/// The words of the tokenizer, indexed by token id.
const WORDS: [&str; 13] = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "kitten", "sleep", "##s", "##ing",
    "runs", ".",
];

/// Hidden size: a multiple of the number of heads, but of few other numbers.
pub const HIDDEN: usize = 15;
const FEED_FORWARD: usize = 37;
/// The longest text in tokens.
pub const POSITIONS: usize = 24;

/// Tensors by name: their shape and values.
pub type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// Writes a checkpoint with a `config.json`.
pub fn write(directory: &Path, config: &Value, tensors: &Tensors) {
    let bytes = |values: &Vec<f32>| bytemuck::cast_slice::<f32, u8>(values).to_vec();
    let data: Vec<Vec<u8>> = tensors.values().map(|(_, values)| bytes(values)).collect();
    let views = tensors.iter().zip(&data).map(|((name, (shape, _)), data)| {
        let view = TensorView::new(Dtype::F32, shape.clone(), data);
        (name, view.expect("a tensor's bytes"))
    });
    safetensors::serialize_to_file(views, None, &directory.join("model.safetensors"))
        .expect("a file of tensors");
    write_json(directory, "config.json", config);
}

/// Writes a JSON file, and creates its folder.
pub fn write_json(directory: &Path, name: &str, json: &Value) {
    let path = directory.join(name);
    let folder = path.parent().expect("a file stands in a folder");
    std::fs::create_dir_all(folder).expect("a folder");
    std::fs::write(path, json.to_string()).expect("a file");
}

/// Reads the tensors of an F32 checkpoint.
pub fn read(directory: &Path) -> Tensors {
    let file = std::fs::read(directory.join("model.safetensors")).expect("the checkpoint");
    let file = SafeTensors::deserialize(&file).expect("a safetensors file");
    let tensor = |(name, view): (&str, TensorView<'_>)| {
        let values = bytemuck::pod_collect_to_vec(view.data());
        (name.to_string(), (view.shape().to_vec(), values))
    };
    file.iter().map(tensor).collect()
}

/// The configuration of [`bert`].
pub fn config() -> Value {
    json!({
        "architectures": ["BertModel"], "model_type": "bert", "vocab_size": WORDS.len(),
        "hidden_size": HIDDEN, "intermediate_size": FEED_FORWARD, "num_hidden_layers": 2,
        "num_attention_heads": 3, "hidden_act": "gelu", "max_position_embeddings": POSITIONS,
        "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0,
    })
}

/// Writes the model with its tokenizer.
pub fn bert(directory: &Path) {
    write(directory, &config(), &tensors());
    write_json(directory, "tokenizer.json", &tokenizer());
}

/// Writes the model with a head that scores pairs of texts, and its tokenizer.
pub fn cross_encoder(directory: &Path) {
    let named = |(name, tensor)| (format!("bert.{name}"), tensor);
    let mut all: Tensors = tensors().into_iter().map(named).collect();
    for (at, name, shape) in [
        (900, "bert.pooler.dense.weight", &[HIDDEN, HIDDEN][..]),
        (901, "bert.pooler.dense.bias", &[HIDDEN]),
        (902, "classifier.weight", &[1, HIDDEN]),
        (903, "classifier.bias", &[1]),
    ] {
        let values = noise(at, shape.iter().product());
        all.insert(name.into(), (shape.to_vec(), values));
    }
    let mut config = config();
    config["architectures"] = json!(["BertForSequenceClassification"]);
    config["id2label"] = json!({ "0": "LABEL_0" });
    write(directory, &config, &all);
    write_json(directory, "tokenizer.json", &tokenizer());
}

fn tensors() -> Tensors {
    let mut tensors = Tensors::new();
    let mut add = |name: String, shape: &[usize], norm: bool| {
        let len = shape.iter().product();
        let values = noise(tensors.len() as u32 + 1, len).into_iter();
        let value = |value: f32| if norm { 1.0 + 0.3 * value } else { 0.4 * value };
        tensors.insert(name, (shape.to_vec(), values.map(value).collect()));
    };
    let mut pair = |stem: &str, shape: &[usize]| {
        add(format!("{stem}.weight"), shape, shape.len() == 1);
        add(format!("{stem}.bias"), &shape[..1], false);
    };
    pair("embeddings.LayerNorm", &[HIDDEN]);
    for layer in 0..2 {
        let mut part = |name: &str, shape: &[usize]| {
            pair(&format!("encoder.layer.{layer}.{name}"), shape);
        };
        for name in ["self.query", "self.key", "self.value", "output.dense"] {
            part(&format!("attention.{name}"), &[HIDDEN, HIDDEN]);
        }
        part("attention.output.LayerNorm", &[HIDDEN]);
        part("intermediate.dense", &[FEED_FORWARD, HIDDEN]);
        part("output.dense", &[HIDDEN, FEED_FORWARD]);
        part("output.LayerNorm", &[HIDDEN]);
    }
    let tables = [
        ("word", WORDS.len()),
        ("position", POSITIONS),
        ("token_type", 2),
    ];
    for (name, rows) in tables {
        let name = format!("embeddings.{name}_embeddings.weight");
        add(name, &[rows, HIDDEN], false);
    }
    tensors
}

fn tokenizer() -> Value {
    let vocab: BTreeMap<&str, usize> = WORDS.iter().copied().zip(0..).collect();
    let special = |(id, content): (usize, &&str)| {
        json!({
            "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true,
        })
    };
    let added: Vec<Value> = WORDS[..5].iter().enumerate().map(special).collect();
    let token = |id: &str| json!({ "SpecialToken": { "id": id, "type_id": 0 } });
    let text = |id: &str| json!({ "Sequence": { "id": id, "type_id": 0 } });
    let known = |id: &str| json!({ "id": id, "ids": [vocab[id]], "tokens": [id] });
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": {
            "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true,
        },
        "pre_tokenizer": { "type": "BertPreTokenizer" },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [token("[CLS]"), text("A"), token("[SEP]")],
            "pair": [token("[CLS]"), text("A"), token("[SEP]"), text("B"), token("[SEP]")],
            "special_tokens": { "[CLS]": known("[CLS]"), "[SEP]": known("[SEP]") },
        },
        "decoder": { "type": "WordPiece", "prefix": "##", "cleanup": true },
        "model": {
            "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocab,
        },
    })
}
