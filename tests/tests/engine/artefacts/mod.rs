//! Compiled models as files, the cache of compiled programs, and other targets.

mod cache;
mod corruption;
mod damage;
mod errors;
mod pipelines;
mod round_trip;
mod targets;

use std::collections::HashMap;

use sha2::{Digest, Sha256};
use wisp_engine::{
    device::{BoxFuture, Capabilities},
    graph::{
        Binary, DType, Graph, NormKind, NormSpec, Op,
        ops::{Argmax, Embed, Linear},
    },
    session::{CompiledModel, InferenceSession, InitOptions, SessionError},
    shape,
    weights::{Encoding, TensorInfo, WeightError, WeightSource},
};
use wisp_tests::program::{Run, TestDevice, run};

/// A small graph with every kind of operand: an input, matrices, a vector and two outputs.
fn graph() -> Graph {
    let mut graph = Graph::new("small");
    let ids = graph.input("ids", DType::U32, shape!["tokens"]);
    let table = graph.weight("table", Encoding::Q8_0, shape![12u64, 32u64]);
    let norm = graph.weight("norm", Encoding::F32, shape![32u64]);
    let w = graph.weight("w", Encoding::F16, shape![8u64, 32u64]);
    let x = graph.add(Embed { scale: 2.0 }, &[ids, table]).unwrap();
    let rms = NormSpec {
        kind: NormKind::Rms,
        eps: 1e-5,
        weight_offset: 0.0,
    };
    let normed = graph.add(Op::Norm(rms), &[x, norm]).unwrap();
    let sum = graph.add(Binary::Add, &[x, normed]).unwrap();
    let y = graph.add(Linear, &[sum, w]).unwrap();
    let argmax = graph.add(Argmax, &[y]).unwrap();
    graph.output("y", y);
    graph.output("argmax", argmax);
    graph
}

/// The weights of [`graph`].
struct Weights(HashMap<&'static str, (TensorInfo, Vec<u8>)>);

impl Weights {
    fn new() -> Weights {
        let tensors: [(_, _, &[u64]); 3] = [
            ("table", Encoding::Q8_0, &[12, 32]),
            ("norm", Encoding::F32, &[32]),
            ("w", Encoding::F16, &[8, 32]),
        ];
        let tensor = |(name, encoding, shape): (&'static str, _, &[u64])| {
            let info = TensorInfo::new(name, encoding, shape).unwrap();
            // Small numbers in each of the encodings.
            let bytes = [3, 0x2c].repeat(info.len as usize / 2);
            (name, (info, bytes))
        };
        Weights(tensors.map(tensor).into())
    }
}

impl WeightSource for Weights {
    fn tensors(&self) -> &[TensorInfo] {
        &[]
    }

    fn find(&self, name: &str) -> Option<&TensorInfo> {
        self.0.get(name).map(|(info, _)| info)
    }

    fn read<'a>(
        &'a self,
        name: &'a str,
        range: std::ops::Range<u64>,
    ) -> BoxFuture<'a, Result<std::borrow::Cow<'a, [u8]>, WeightError>> {
        let bytes = self.0.get(name).and_then(|(_, bytes)| {
            bytes.get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
        });
        let missing = || WeightError::MissingTensor { name: name.into() };
        Box::pin(std::future::ready(
            bytes.map(Into::into).ok_or_else(missing),
        ))
    }
}

/// The graph, compiled for the host.
fn compiled() -> CompiledModel {
    InferenceSession::compile_for(&graph(), &Capabilities::HOST).unwrap()
}

/// Runs a compiled model and returns its first output.
fn run_on(session: &InferenceSession, compiled: &CompiledModel) -> Result<Vec<f32>, SessionError> {
    let options = InitOptions {
        max_dims: compiled
            .program()
            .dims
            .iter()
            .map(|dim| (dim.clone(), 3))
            .collect(),
        ..Default::default()
    };
    let model = session.init_blocking(compiled, &Weights::new(), options)?;
    model.write("ids", &[1u32, 5, 11])?;
    let sizes: Vec<(&str, u64)> = model.max_dims().into_iter().collect();
    model.run(&model.dims(&sizes)?)?;
    model.read_blocking("y", 24)
}

/// The same bytes with a right checksum at their end.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let contents = bytes.len().saturating_sub(32);
    let checksum = Sha256::digest(&bytes[..contents]);
    bytes.truncate(contents);
    bytes.extend(checksum);
    bytes
}

/// Generates 8 tokens with the program.
fn generate(place: TestDevice, flags: &[&str]) -> Run {
    let common = ["generate", "--json", "--tokens", "0,517,557", "-n", "8"];
    run([&common[..], &place.args(), flags].concat())
}
