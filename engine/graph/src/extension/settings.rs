//! The settings of custom ops in nodes.

use serde::{Deserialize, Serialize};

use super::Param;

/// The custom op of a node, with the node's parameter values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CustomSettings {
    /// Name of the op among the graph's extensions.
    pub extension: String,
    /// A value for each of the op's parameters, in declaration order.
    pub params: Vec<Param>,
}
