//! Renders graphs in Graphviz's DOT language.

use std::fmt::{self, Write};

use crate::{
    graph::Graph,
    value::{ValueId, ValueKind},
};

/// Returns text as a quoted DOT string.
fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    // Other control characters would break the line.
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    format!("\"{}\"", plain.collect::<String>())
}

impl Graph {
    /// Returns the graph in Graphviz's DOT language: ops are boxes, inputs and buffers ovals, outputs
    /// double ovals; weights are listed in the boxes of the ops that read them. `dot -Tsvg` draws it.
    pub fn to_dot(&self) -> String {
        let mut text = String::new();
        // Writing to a `String` cannot fail.
        let _ = self.write_dot(&mut text);
        text
    }

    fn write_dot(&self, to: &mut String) -> fmt::Result {
        writeln!(to, "digraph {} {{", quoted(&self.name))?;
        writeln!(to, "  node [shape=box, fontname=\"monospace\"];")?;
        for (i, value) in self.values.iter().enumerate() {
            let style = match value.kind {
                ValueKind::Input => "",
                ValueKind::Buffer => ", style=dashed",
                ValueKind::Constant(_) => ", style=dotted",
                ValueKind::Weight(_) | ValueKind::Node | ValueKind::View(_) => continue,
            };
            let label = quoted(&format!("{}: {}{}", value.name, value.dtype, value.shape));
            writeln!(to, "  v{i} [label={label}, shape=oval{style}];")?;
        }
        for (i, node) in self.nodes.iter().enumerate() {
            let weights = node.inputs.iter().map(|id| self.value(self.storage(*id)));
            let weights = weights.filter_map(|value| match value.kind {
                ValueKind::Weight(encoding) => {
                    Some(format!(" / {} {encoding}{}", value.name, value.shape))
                }
                _ => None,
            });
            let label = quoted(&(self.op_name(node).to_string() + &weights.collect::<String>()));
            writeln!(to, "  n{i} [label={label}];")?;
            for id in &node.inputs {
                if !matches!(self.value(self.storage(*id)).kind, ValueKind::Weight(_)) {
                    let label = quoted(&self.value(*id).shape.to_string());
                    writeln!(to, "  {} -> n{i} [label={label}];", self.source(*id))?;
                }
            }
        }
        for (i, (name, id)) in self.outputs.iter().enumerate() {
            let label = quoted(name);
            writeln!(to, "  o{i} [label={label}, shape=oval, peripheries=2];")?;
            writeln!(to, "  {} -> o{i};", self.source(*id))?;
        }
        to.push_str("}\n");
        Ok(())
    }

    /// Returns the DOT node that a value comes from.
    fn source(&self, id: ValueId) -> String {
        let id = self.storage(id);
        match self
            .nodes
            .iter()
            .position(|node| node.outputs.contains(&id))
        {
            Some(node) => format!("n{node}"),
            None => format!("v{}", id.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Graph;
    use wisp_types::{DType, Encoding, shape};

    #[test]
    fn a_graph_is_drawn_whole() {
        let mut graph = Graph::new("a \"graph\"");
        let x = graph.input("x", DType::F32, shape!["n", 32u64]);
        let w = graph.weight("w\n", Encoding::Q8_0, shape![8u64, 32u64]);
        let y = graph.linear(x, w, None).unwrap();
        graph.output("y", y);
        let expected = r#"digraph "a \"graph\"" {
  node [shape=box, fontname="monospace"];
  v0 [label="x: f32[n, 32]", shape=oval];
  n0 [label="linear / w  Q8_0[8, 32]"];
  v0 -> n0 [label="[n, 32]"];
  o0 [label="y", shape=oval, peripheries=2];
  n0 -> o0;
}
"#;
        assert_eq!(graph.to_dot(), expected);
    }
}
