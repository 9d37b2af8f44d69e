//! Modules: several graphs that belong together.

use crate::graph::Graph;

/// Occurs when two graphs of a module have the same name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("two graphs are called {0:?}: give one of them another name")]
pub struct DuplicateGraph(pub String);

/// Several graphs with unique names that share their weights on a device.
///
/// ```
/// use wisp_graph::{Graph, Module};
///
/// let mut module = Module::default();
/// module.add(Graph::new("prefill"))?;
/// module.add(Graph::new("decode"))?;
/// assert!(module.add(Graph::new("decode")).is_err());
/// assert_eq!(module.graphs().len(), 2);
/// # Ok::<(), wisp_graph::DuplicateGraph>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Module {
    graphs: Vec<Graph>,
}

impl Module {
    /// Adds a graph.
    ///
    /// # Errors
    ///
    /// If the module already has a graph of this name.
    pub fn add(&mut self, graph: Graph) -> Result<(), DuplicateGraph> {
        if self.graph(&graph.name).is_some() {
            return Err(DuplicateGraph(graph.name));
        }
        self.graphs.push(graph);
        Ok(())
    }

    /// Returns the graphs in the order in which they were added.
    pub fn graphs(&self) -> &[Graph] {
        &self.graphs
    }

    /// Returns the graph of this name.
    pub fn graph(&self, name: &str) -> Option<&Graph> {
        self.graphs.iter().find(|graph| graph.name == name)
    }
}
