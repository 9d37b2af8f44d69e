//! BERT (Devlin et al. 2018) of any size, by the names of Hugging Face's `BertModel`.

use wisp_engine::{
    graph::{Activation, Binary, DType, Graph, GraphError, Map, Shape, Unary, ValueId},
    shape,
    weights::Encoding,
};

/// The sizes of a BERT.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Blocks of attention and feed-forward.
    pub layers: usize,
    /// Width of a token's state.
    pub hidden: u64,
    /// Parts of it that attend by themselves.
    pub heads: u64,
    /// Width inside the feed-forward.
    pub feed_forward: u64,
    /// Tokens in the vocabulary.
    pub vocabulary: u64,
    /// The longest text.
    pub positions: u64,
}

impl Config {
    /// A very small one of odd sizes.
    pub const SMALL: Config = Config {
        layers: 3,
        hidden: 60,
        heads: 4,
        feed_forward: 92,
        vocabulary: 71,
        positions: 40,
    };

    /// BERT-base: 110 million weights.
    pub const BASE: Config = Config {
        layers: 12,
        hidden: 768,
        heads: 12,
        feed_forward: 3072,
        vocabulary: 30522,
        positions: 512,
    };
}

fn weight(graph: &mut Graph, name: String, shape: Shape) -> ValueId {
    graph.weight(&name, Encoding::F32, shape)
}

fn linear(
    graph: &mut Graph,
    name: &str,
    x: ValueId,
    [from, to]: [u64; 2],
) -> Result<ValueId, GraphError> {
    let w = weight(graph, format!("{name}.weight"), shape![to, from]);
    let b = weight(graph, format!("{name}.bias"), shape![to]);
    graph.linear(x, w, Some(b))
}

/// The norm of a sum.
fn add_norm(
    graph: &mut Graph,
    name: &str,
    x: ValueId,
    y: ValueId,
    width: u64,
) -> Result<ValueId, GraphError> {
    let sum = graph.binary(Binary::Add, x, y)?;
    let w = weight(graph, format!("{name}.LayerNorm.weight"), shape![width]);
    let b = weight(graph, format!("{name}.LayerNorm.bias"), shape![width]);
    graph.layer_norm(sum, w, Some(b), 1e-12)
}

impl Config {
    /// Words, kinds of segments and positions, each by its table: `[batch, tokens, hidden]`.
    fn embed(
        &self,
        graph: &mut Graph,
        ids: ValueId,
        kinds: ValueId,
    ) -> Result<ValueId, GraphError> {
        let table = |graph: &mut Graph, what: &str, rows: u64| {
            weight(
                graph,
                format!("embeddings.{what}_embeddings.weight"),
                shape![rows, self.hidden],
            )
        };
        let words = table(graph, "word", self.vocabulary);
        let types = table(graph, "token_type", 2);
        let positions = table(graph, "position", self.positions);
        let words = graph.embed(words, ids)?;
        let types = graph.embed(types, kinds)?;
        // As many as the texts are long, the same for each text of the batch.
        let positions = graph.slice_like(positions, 0, ids, 1)?;
        let x = graph.binary(Binary::Add, words, types)?;
        add_norm(graph, "embeddings", x, positions, self.hidden)
    }

    /// What each token takes from the others of its text.
    fn attend(
        &self,
        graph: &mut Graph,
        name: &str,
        x: ValueId,
        mask: ValueId,
    ) -> Result<ValueId, GraphError> {
        let width = self.hidden / self.heads;
        let heads = |graph: &mut Graph, what: &str| {
            let y = linear(graph, &format!("{name}.self.{what}"), x, [self.hidden; 2])?;
            let y = graph.reshape(y, shape!["batch", "tokens", self.heads, width])?;
            graph.permute(y, &[0, 2, 1, 3])
        };
        let qkv = [
            heads(graph, "query")?,
            heads(graph, "key")?,
            heads(graph, "value")?,
        ];
        let y = graph.attention(qkv, Some(mask), 1.0 / (width as f32).sqrt())?;
        let y = graph.permute(y, &[0, 2, 1, 3])?;
        let y = graph.reshape(y, shape!["batch", "tokens", self.hidden])?;
        linear(graph, &format!("{name}.output.dense"), y, [self.hidden; 2])
    }

    fn layer(
        &self,
        graph: &mut Graph,
        name: &str,
        x: ValueId,
        mask: ValueId,
    ) -> Result<ValueId, GraphError> {
        let attended = self.attend(graph, &format!("{name}.attention"), x, mask)?;
        let x = add_norm(
            graph,
            &format!("{name}.attention.output"),
            attended,
            x,
            self.hidden,
        )?;
        let sizes = [self.hidden, self.feed_forward];
        let y = linear(graph, &format!("{name}.intermediate.dense"), x, sizes)?;
        let y = graph.map(y, Map::Activation(Activation::Gelu))?;
        let y = linear(
            graph,
            &format!("{name}.output.dense"),
            y,
            [sizes[1], sizes[0]],
        )?;
        add_norm(graph, &format!("{name}.output"), y, x, self.hidden)
    }

    /// The model: `ids`, `kinds` and `mask` (1 where a token counts), all `u32 [batch, tokens]`, to
    /// `hidden f32 [batch, tokens, hidden]` and `pooled [batch, hidden]`.
    ///
    /// # Errors
    ///
    /// If the heads do not divide the width.
    pub fn graph(&self) -> Result<Graph, GraphError> {
        let mut graph = Graph::new("bert");
        let mut input = |name| graph.input(name, DType::U32, shape!["batch", "tokens"]);
        let (ids, kinds, mask) = (input("ids"), input("kinds"), input("mask"));
        let mask = graph.reshape(mask, shape!["batch", 1u64, 1u64, "tokens"])?;
        let (seen, hidden) = (graph.scalar(0.0), graph.scalar(-1e9));
        let mask = graph.select(mask, seen, hidden)?;
        let mut x = self.embed(&mut graph, ids, kinds)?;
        for i in 0..self.layers {
            x = self.layer(&mut graph, &format!("encoder.layer.{i}"), x, mask)?;
        }
        graph.output("hidden", x);
        let first = graph.slice(x, 1, 0, 1, 1)?;
        let first = graph.reshape(first, shape!["batch", self.hidden])?;
        let pooled = linear(&mut graph, "pooler.dense", first, [self.hidden; 2])?;
        let pooled = graph.unary(Unary::Tanh, pooled)?;
        graph.output("pooled", pooled);
        Ok(graph)
    }
}
