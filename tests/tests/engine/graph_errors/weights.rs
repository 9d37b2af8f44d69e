//! Embeddings, products with weights, norms and mixtures of experts.

use wisp_engine::{
    graph::{
        Binary, NormKind, NormSpec, Op,
        ops::{CombineExperts, Embed, Linear, LinearExperts, Route},
    },
    shape,
};

use super::{LAYER_NORM, TestGraph, assert_error};

/// The end of the message where an op needs a weight.
const NOT_A_WEIGHT: &str = "must be a weight of fixed size (use matmul or gather with other values), but $1 is an input of shape [9, 6]";

#[test]
fn embed_operands_must_be_ids_and_a_weight() {
    let mut b = TestGraph::new();
    let (ids, flat, x) = (
        b.u32(shape!["n", "m"]),
        b.u32(shape!["n"]),
        b.f32(shape!["n", 6u64]),
    );
    let table = b.weight(shape![9u64, 6u64]);
    let row = b.weight(shape![5u64]);
    let input = b.f32(shape![9u64, 6u64]);
    let embed = Embed { scale: 1.0 };
    b.assert_refused(
        embed,
        &[x, table],
        "embed: ids must be u32 with at least 1 dimension, but $0 is f32[n, 6]",
    );
    b.assert_refused(
        embed,
        &[flat, row],
        "embed: the table must be f32 with 2 dimensions, but $1 is f32[5]",
    );
    b.assert_refused(
        embed,
        &[ids, table],
        "embed: ids must be u32 [tokens], or [.., n] with a fixed n of at least 1, but $0 is [n, m]",
    );
    b.assert_refused(
        embed,
        &[flat, input],
        &format!("embed: the table {NOT_A_WEIGHT}"),
    );
    b.assert_refused(
        embed,
        &[flat],
        "embed: expected ids and table, got 1 operand",
    );
}

#[test]
fn linear_operands_must_have_matching_columns() {
    let mut b = TestGraph::new();
    let x = b.f32(shape!["n", 6u64]);
    let ids = b.u32(shape!["n", "m"]);
    let table = b.weight(shape![9u64, 6u64]);
    let cube = b.weight(shape![4u64, 9u64, 6u64]);
    let row = b.weight(shape![5u64]);
    let input = b.f32(shape![9u64, 6u64]);
    b.assert_refused(
        Linear,
        &[x, input],
        &format!("linear: the weight {NOT_A_WEIGHT}"),
    );
    b.assert_refused(
        Linear,
        &[ids, table],
        "linear: x must be f32 with at least 1 dimension, but $0 is u32[n, m]",
    );
    b.assert_refused(
        Linear,
        &[x, cube],
        "linear: the weight must be f32 with 2 dimensions, but $1 is f32[4, 9, 6]",
    );
    let other = b.weight(shape![9u64, 8u64]);
    b.assert_refused(
        Linear,
        &[x, other],
        "linear: x [n, 6] and the weight [9, 8] must have the same number of columns",
    );
    b.assert_refused(
        Linear,
        &[x, table, table],
        "linear: the bias must be f32 with 1 dimension, but $2 is f32[9, 6]",
    );
    b.assert_refused(
        Linear,
        &[x, table, row],
        "linear: the bias must have an element for each of the weight's 9 rows, but is [5]",
    );
    b.assert_refused(
        Linear,
        &[x, table, row, row],
        "linear: expected x, weight and optionally bias, got 4 operands",
    );
}

#[test]
fn norm_weights_must_have_the_columns_of_x() {
    let mut b = TestGraph::new();
    let x = b.f32(shape!["n", 6u64]);
    let table = b.weight(shape![9u64, 6u64]);
    let row = b.weight(shape![5u64]);
    let seven = b.weight(shape![7u64]);
    let norm = Op::Norm(LAYER_NORM);
    b.assert_refused(
        norm,
        &[x, row],
        "layer_norm: the weight [5] does not fit the last dimension of x [n, 6]",
    );
    b.assert_refused(
        norm,
        &[x, table],
        "layer_norm: the weight must be f32 with 1 dimension, but $1 is f32[9, 6]",
    );
    let six = b.weight(shape![6u64]);
    b.assert_refused(
        norm,
        &[x, six, seven],
        "layer_norm: the bias [7] does not fit the last dimension of x [n, 6]",
    );
    let rms = Op::Norm(NormSpec {
        kind: NormKind::Rms,
        ..LAYER_NORM
    });
    b.assert_refused(
        rms,
        &[x, six, six],
        "rms_norm: an RMS norm has no bias: use a layer norm or add the bias",
    );
    let wide = b.f32(shape![6u64, "n"]);
    b.assert_refused(
        rms,
        &[wide, six],
        "rms_norm: the last dimension of x must be a fixed size, but is n",
    );
}

#[test]
fn experts_operands_must_match_the_ids() {
    let mut b = TestGraph::new();
    let x = b.f32(shape!["n", 6u64]);
    let table = b.weight(shape![9u64, 6u64]);
    let cube = b.weight(shape![4u64, 9u64, 6u64]);
    let experts = b.u32(shape!["n", 2u64]);
    b.assert_refused(
        LinearExperts,
        &[x, table, experts],
        "linear_experts: the weight must be f32 with 3 dimensions, but $1 is f32[9, 6]",
    );
    let narrow = b.f32(shape!["n", 4u64]);
    b.assert_refused(
        LinearExperts,
        &[narrow, cube, experts],
        "linear_experts: x [n, 4] must have the columns of the weight [4, 9, 6] and the outer dimensions of the ids [n, 2]",
    );
    b.assert_refused(
        CombineExperts,
        &[x, narrow],
        "combine_experts: x must be f32 with 3 dimensions, but $0 is f32[n, 6]",
    );
    let parts = b.f32(shape!["n", 2u64, 6u64]);
    b.assert_refused(
        CombineExperts,
        &[parts, narrow],
        "combine_experts: the weights [n, 4] must have the first two dimensions of x [n, 2, 6]",
    );
    for chosen in [0, 7] {
        let route = Route {
            experts_per_token: chosen,
            normalise: true,
        };
        b.assert_refused(
            route,
            &[x],
            &format!("route: cannot choose {chosen} of 6 experts"),
        );
    }
}

#[test]
fn weights_have_a_fixed_size() {
    let mut b = TestGraph::new();
    let x = b.f32(shape!["n", 4u64]);
    let weight = b.weight(shape!["n", 4u64]);
    b.assert_refused(
        Binary::Add,
        &[x, weight],
        "add: a weight must be of fixed size, but $1 is [n, 4]",
    );
    assert_error!(
        b,
        reshape(weight, shape!["n", 2u64, 2u64]),
        [weight],
        "reshape: a weight must be of fixed size, but $0 is [n, 4]"
    );
}

#[test]
fn weights_of_products_have_elements() {
    let mut b = TestGraph::new();
    for [rows, cols] in [[4u64, 0], [0, 4]] {
        let x = b.f32(shape!["n", cols]);
        let weight = b.weight(shape![rows, cols]);
        b.assert_refused(
            Linear,
            &[x, weight],
            &format!(
                "linear: the weight must be at least 1 element large in each dimension, but $1 is of shape \
                 [{rows}, {cols}]"
            ),
        );
    }
}

/// The bias is read from the checkpoint by its name.
#[test]
fn a_bias_is_a_weight() {
    let mut b = TestGraph::new();
    let x = b.f32(shape!["n", 6u64]);
    let weight = b.weight(shape![9u64, 6u64]);
    let bias = b.f32(shape![9u64]);
    b.assert_refused(
        Linear,
        &[x, weight, bias],
        "linear: the bias must be a weight (use add with other values), but $2 is an input",
    );
}

#[test]
fn tokens_have_a_fixed_number_of_experts() {
    let mut b = TestGraph::new();
    let x = b.f32(shape!["n", 6u64]);
    let weight = b.weight(shape![4u64, 9u64, 6u64]);
    let ids = b.u32(shape!["n", "chosen"]);
    b.assert_refused(
        LinearExperts,
        &[x, weight, ids],
        "linear_experts: the number of a token's experts must be a fixed size, but is chosen",
    );
}
