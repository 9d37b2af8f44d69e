//! Embeddings of texts and their similarity:
//! `cargo run -p wisp-engine --features hub --example embeddings -- MODEL TEXT TEXT…`, where MODEL is an
//! encoder such as sentence-transformers/all-MiniLM-L6-v2.

use wisp_engine::{Error, Model};

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let Some(name) = arguments.next() else {
        println!("usage: embeddings MODEL TEXT TEXT…");
        return Ok(());
    };
    let texts: Vec<String> = arguments.collect();
    let embeddings = Model::load(name)?.embedder().truncate(true).embed(&texts)?;
    for (text, cut) in texts
        .iter()
        .zip(&embeddings.cut)
        .filter(|(_, cut)| **cut > 0)
    {
        println!("{cut} tokens were cut from the end of {text:?}");
    }
    // Embeddings have length 1, so their dot product is the cosine of the angle between them.
    let Some((first, rest)) = embeddings.vectors.split_first() else {
        return Ok(());
    };
    for (text, other) in texts[1..].iter().zip(rest) {
        let cosine: f32 = first.iter().zip(other).map(|(a, b)| a * b).sum();
        println!("{cosine:.4} {text}");
    }
    Ok(())
}
