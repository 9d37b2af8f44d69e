//! Prints graphs as text, one line per value and node.

use std::fmt;

use crate::{
    graph::Graph,
    value::{ValueId, ValueKind},
};

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |ids: &[ValueId]| {
            let names = ids.iter().map(|id| self.value(*id).name.as_str());
            names.collect::<Vec<_>>().join(", ")
        };
        writeln!(f, "graph {} {{", self.name)?;
        for value in &self.values {
            let kind = match &value.kind {
                ValueKind::Input => "input".to_string(),
                ValueKind::Buffer => "buffer".to_string(),
                ValueKind::Weight(encoding) => format!("weight {encoding}"),
                ValueKind::Constant(_) => "constant".to_string(),
                ValueKind::View(of) => format!("view of {}", self.value(*of).name),
                ValueKind::Node => continue,
            };
            writeln!(f, "  {kind} {}: {}", value.name, value.tensor_type())?;
        }
        for node in &self.nodes {
            f.write_str("  ")?;
            for id in &node.outputs {
                let value = self.value(*id);
                write!(f, "{}: {} = ", value.name, value.tensor_type())?;
            }
            writeln!(f, "{}({})", self.op_name(node), names(&node.inputs))?;
        }
        for (name, id) in &self.outputs {
            writeln!(f, "  output {name} = {}", self.value(*id).name)?;
        }
        f.write_str("}")
    }
}
