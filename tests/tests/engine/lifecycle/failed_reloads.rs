//! Reloads that fail after they have overwritten some weights.

use std::{borrow::Cow, ops::Range};

use wisp_engine::{
    device::BoxFuture,
    graph::{Binary, DType, Graph, Module},
    session::{InitOptions, Model, SessionError, Tensor},
    shape,
    weights::{Encoding, MemoryWeights, TensorInfo, WeightError, WeightSource},
};
use wisp_tests::{bundled::session, kernels::noise, program::TestDevice};

use super::{load_product, of_product, product};

/// Weights that fail to read from some point on.
struct Broken(MemoryWeights);

impl WeightSource for Broken {
    fn tensors(&self) -> &[TensorInfo] {
        self.0.tensors()
    }

    fn find(&self, name: &str) -> Option<&TensorInfo> {
        self.0.find(name)
    }

    fn read<'a>(
        &'a self,
        name: &'a str,
        range: Range<u64>,
    ) -> BoxFuture<'a, Result<Cow<'a, [u8]>, WeightError>> {
        let range = if name == "b" { 100..200 } else { range };
        self.0.read(name, range)
    }
}

#[test]
fn a_reload_that_fails_midway_releases_the_model() {
    let session = session(TestDevice::Host);
    let mut model = load_product(&session, "product");
    let whole = session.device().allocated().0;
    let error = model.reload_blocking(&Broken(of_product(1.0))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "bytes 100..200 of tensor `b` were requested, but it has 64 bytes"
    );
    assert!(session.device().allocated().0 < whole);
    let x = Tensor::f32(&[1, 64], &noise(1, 64)).unwrap();
    let error = model.execute_blocking(&[&x]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the weights of product were released: reload them before it runs"
    );
    model.reload_blocking(&of_product(0.25)).unwrap();
    model.execute_blocking(&[&x]).unwrap();
}

/// A model does not run on weights of which a sibling's failed reload left some old and some new.
#[test]
fn a_reload_that_fails_midway_stops_models_that_share_the_weights() {
    let mut module = Module::default();
    for rows in [1, 3] {
        module.add(product(&format!("by {rows}"), rows)).unwrap();
    }
    let session = session(TestDevice::Host);
    let mut models = session
        .load_all_blocking(&module, &of_product(0.25), InitOptions::default())
        .unwrap();
    let whole = session.device().allocated().0;
    let [mut one, mut three] = ["by 1", "by 3"].map(|name| models.remove(name).unwrap());
    let value = |model: &Model, rows: u64| {
        let x = Tensor::f32(&[rows, 64], &vec![1.0; 64 * rows as usize]).unwrap();
        let y = model.execute_blocking(&[&x])?;
        Ok::<f32, SessionError>(y[0].as_f32().unwrap()[0])
    };
    one.reload_blocking(&Broken(of_product(1.0))).unwrap_err();
    assert_eq!(
        value(&three, 3).unwrap_err().to_string(),
        "the weights of by 3 are partly overwritten, because a model that shares them is being reloaded or failed to: reload by 3 too"
    );
    three.reload_blocking(&of_product(0.5)).unwrap();
    assert_eq!(value(&three, 3).unwrap(), 33.0);
    // The failed model has memory of its own when it is reloaded, and the old memory is free.
    one.reload_blocking(&of_product(0.25)).unwrap();
    assert_eq!(
        (value(&one, 1).unwrap(), value(&three, 3).unwrap()),
        (17.0, 33.0)
    );
    let weights = three.program().footprint(&Default::default(), &[]).weights;
    assert_eq!(session.device().allocated().0, whole + weights);
}

/// Models that were loaded together without common weights reload independently of each other.
#[test]
fn a_reload_that_fails_midway_leaves_models_with_other_weights_alone() {
    let mut sum = Graph::new("sum");
    let x = sum.input("x", DType::F32, shape![16u64]);
    let c = sum.weight("c", Encoding::F32, shape![16u64]);
    let y = sum.binary(Binary::Add, x, c).unwrap();
    sum.output("y", y);
    let mut module = Module::default();
    module.add(product("product", 1)).unwrap();
    module.add(sum).unwrap();
    let weights = |w: f32, c: f32| {
        let mut weights = of_product(w);
        weights.insert("c", &[16], &[c; 16]).unwrap();
        weights
    };
    let session = session(TestDevice::Host);
    let mut models = session
        .load_all_blocking(&module, &weights(0.25, 2.0), InitOptions::default())
        .unwrap();
    let [mut product, mut sum] = ["product", "sum"].map(|name| models.remove(name).unwrap());
    let values = |model: &Model| {
        let x = Tensor::f32(&[16], &[1.0; 16]).unwrap();
        model.execute_blocking(&[&x]).unwrap().remove(0)
    };
    let expected = |value| Tensor::f32(&[16], &[value; 16]).unwrap();
    product
        .reload_blocking(&Broken(weights(1.0, 3.0)))
        .unwrap_err();
    assert_eq!(values(&sum), expected(3.0));
    // It has its memory for itself, and keeps it.
    let allocated = session.device().allocated();
    sum.reload_blocking(&weights(1.0, 4.0)).unwrap();
    assert_eq!(values(&sum), expected(5.0));
    assert_eq!(session.device().allocated(), allocated);
}
