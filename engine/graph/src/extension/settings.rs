//! Custom ops as nodes use them.

use serde::{Deserialize, Serialize};

use super::Param;

/// The custom op of a node, and the node's values of its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CustomSettings {
    /// Which of the graph's extensions.
    pub extension: String,
    /// A value for each of its parameters, in their order.
    pub params: Vec<Param>,
}
