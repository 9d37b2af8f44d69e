//! What all parts of a translation share: the module, the options, and the declarations that they ask for.

use crate::lines::Lines;
use crate::prelude::Section;
use crate::{Error, Location, Options};
use naga::proc::Layouter;
use naga::valid::ModuleInfo;
use naga::{Constant, Handle, Module, Span, Type};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};

/// The state of one translation. Types and constants are declared when they are first named.
pub(crate) struct Context<'a> {
    pub(crate) module: &'a Module,
    pub(crate) info: &'a ModuleInfo,
    pub(crate) options: &'a Options<'a>,
    pub(crate) layouts: Layouter,
    pub(crate) lines: Option<Lines<'a>>,
    pub(crate) declarations: RefCell<String>,
    pub(crate) declared_types: RefCell<HashSet<Handle<Type>>>,
    pub(crate) declared_constants: RefCell<HashSet<Handle<Constant>>>,
    pub(crate) sections: RefCell<BTreeSet<Section>>,
}

impl<'a> Context<'a> {
    /// Prepares the translation of a module.
    pub(crate) fn new(
        module: &'a Module,
        info: &'a ModuleInfo,
        options: &'a Options<'a>,
    ) -> Result<Self, Error> {
        let mut layouts = Layouter::default();
        layouts.update(module.to_ctx())?;
        Ok(Self {
            module,
            info,
            options,
            layouts,
            lines: options.source.map(Lines::new),
            declarations: RefCell::default(),
            declared_types: RefCell::default(),
            declared_constants: RefCell::default(),
            sections: RefCell::default(),
        })
    }

    /// Includes a section of the prelude.
    pub(crate) fn include(&self, section: Section) {
        self.sections.borrow_mut().insert(section);
    }

    /// Adds a line to the declarations.
    pub(crate) fn declare(&self, line: &str) {
        let mut declarations = self.declarations.borrow_mut();
        declarations.push_str(line);
        declarations.push('\n');
    }

    /// Returns where a span begins in the WGSL.
    pub(crate) fn locate(&self, span: Span) -> Option<Location> {
        self.lines.as_ref()?.locate(span)
    }
}

/// Returns what C++ can have of a WGSL name: its ASCII letters and digits, joined by single underscores. With
/// `kind` and `index` the name is unique, whatever the WGSL calls it.
pub(crate) fn unique_name(name: Option<&str>, kind: &str, index: usize) -> String {
    let mut clean = String::new();
    for c in name.unwrap_or_default().chars() {
        match c {
            c if c.is_ascii_alphabetic() || c.is_ascii_digit() && !clean.is_empty() => {
                clean.push(c)
            }
            _ if clean.is_empty() || clean.ends_with('_') => {}
            _ => clean.push('_'),
        }
    }
    if !clean.is_empty() && !clean.ends_with('_') {
        clean.push('_');
    }
    format!("{clean}{kind}{index}")
}
