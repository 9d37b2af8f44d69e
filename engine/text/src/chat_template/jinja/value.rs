//! The values of a template.
//!
//! A list or map knows how deep it is nested, and none is deeper than [`MAX_DEPTH`]: so a value can be
//! compared, written and dropped by recursion. A namespace can contain itself, but is kept alive by
//! the rendering (see [`Namespace`]).

use std::cell::{Cell, RefCell};
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;

use indexmap::{Equivalent, IndexMap};

use super::ast::{For, Macro, Name};
use super::fault::{Fault, Result};
use super::meter::{Allocation, Meter, Metered};
use super::text::Text;

/// The deepest nesting of a value. JSON that was parsed has at most 128 levels.
pub const MAX_DEPTH: usize = 150;

/// A value of an expression. Composite values are shared, as in Python.
#[derive(Debug, Clone)]
pub enum Value {
    Undefined,
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(Text),
    List(Rc<List>),
    Map(Rc<Map>),
    Namespace(Rc<Namespace>),
    Macro(Rc<Closure>),
    Loop(Rc<Loop>),
    Function(Function),
}

/// The functions that every template can call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    Range,
    Dict,
    Namespace,
    RaiseException,
    StrftimeNow,
}

/// A list or tuple; nothing changes one once it is made.
#[derive(Debug)]
pub struct List {
    items: Metered<Value>,
    depth: usize,
    /// Whether this is a group of `groupby`, whose two items also have names.
    is_group: bool,
}

/// Collects the items of a list.
#[derive(Debug)]
pub struct ListBuilder {
    list: List,
}

impl ListBuilder {
    pub fn new(meter: &Rc<Meter>) -> Result<Self> {
        let items = Metered::new(meter)?;
        let list = List {
            items,
            depth: 1,
            is_group: false,
        };
        Ok(Self { list })
    }

    pub fn push(&mut self, item: Value) -> Result<()> {
        self.list.depth = deepened(self.list.depth, &item)?;
        self.list.items.push(item)
    }

    /// Appends items of a list, sixteen for a step.
    pub fn extend(&mut self, meter: &Meter, items: &[Value]) -> Result<()> {
        meter.steps(items.len() / 16 + 1)?;
        self.list.items.reserve(items.len())?;
        items.iter().try_for_each(|item| self.push(item.clone()))
    }

    pub fn len(&self) -> usize {
        self.list.items.items().len()
    }

    pub fn finish(self) -> Value {
        Value::List(Rc::new(self.list))
    }

    /// Finishes a group of `groupby`.
    pub fn finish_group(mut self) -> Value {
        self.list.is_group = true;
        self.finish()
    }

    pub fn into_list(self) -> Rc<List> {
        Rc::new(self.list)
    }
}

impl List {
    pub fn items(&self) -> &[Value] {
        self.items.items()
    }

    /// Returns an item by its name, which only a group has.
    pub fn named(&self, name: &str) -> Option<&Value> {
        match name {
            "grouper" if self.is_group => self.items().first(),
            "list" if self.is_group => self.items().get(1),
            _ => None,
        }
    }
}

/// A key of a map.
#[derive(Debug, Clone)]
pub enum Key {
    None,
    Bool(bool),
    Int(i128),
    Text(Text),
}

/// A key that is not made into a [`Key`] only to look it up.
pub enum KeyRef<'k> {
    None,
    Bool(bool),
    Int(i128),
    Text(&'k str),
}

impl KeyRef<'_> {
    fn is(&self, key: &Key) -> bool {
        match (self, key) {
            (Self::None, Key::None) => true,
            (Self::Bool(a), Key::Bool(b)) => a == b,
            (Self::Int(a), Key::Int(b)) => a == b,
            (Self::Text(a), Key::Text(b)) => **a == *b.read(),
            _ => false,
        }
    }
}

impl Hash for KeyRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::None => 0_u8.hash(state),
            Self::Bool(bool) => bool.hash(state),
            Self::Int(int) => int.hash(state),
            Self::Text(text) => text.hash(state),
        }
    }
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.is(key)
    }
}

impl Key {
    fn with<T>(&self, read: impl FnOnce(KeyRef<'_>) -> T) -> T {
        match self {
            Self::None => read(KeyRef::None),
            Self::Bool(bool) => read(KeyRef::Bool(*bool)),
            Self::Int(int) => read(KeyRef::Int(*int)),
            Self::Text(text) => read(KeyRef::Text(&text.read())),
        }
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.with(|key| key.hash(state));
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.with(|key| key.is(other))
    }
}

impl Eq for Key {}

impl From<Key> for Value {
    fn from(key: Key) -> Self {
        match key {
            Key::None => Self::None,
            Key::Bool(bool) => Self::Bool(bool),
            Key::Int(int) => Self::Int(int),
            Key::Text(text) => Self::Text(text),
        }
    }
}

/// A map, in the order of insertion.
#[derive(Debug)]
pub struct Map {
    entries: IndexMap<Key, Value>,
    depth: usize,
    allocation: Allocation,
}

impl Map {
    /// What an entry takes, with the table that finds it.
    const ENTRY: usize = 160;

    pub fn new(meter: &Rc<Meter>) -> Result<Self> {
        Ok(Self {
            entries: IndexMap::new(),
            depth: 1,
            allocation: Allocation::new(meter, Self::ENTRY)?,
        })
    }

    pub fn insert(&mut self, key: Key, value: Value) -> Result<()> {
        if let Key::Text(text) = &key {
            self.allocation.meter().scan(text.len())?;
        }
        self.depth = deepened(self.depth, &value)?;
        if self.entries.len() == self.entries.capacity() {
            let capacity = (self.entries.len() * 2).max(4);
            self.allocation
                .resize((capacity + 1).saturating_mul(Self::ENTRY))?;
            self.entries.reserve(capacity - self.entries.len());
        }
        self.entries.insert(key, value);
        Ok(())
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    pub fn get(&self, key: &KeyRef<'_>) -> Option<&Value> {
        self.entries.get(key)
    }

    pub fn get_text(&self, key: &str) -> Option<&Value> {
        self.entries.get(&KeyRef::Text(key))
    }

    pub fn entries(&self) -> &IndexMap<Key, Value> {
        &self.entries
    }
}

/// The variables of a `namespace()`, the only values that change.
///
/// It may contain itself or be the last of a long chain. The rendering keeps all namespaces and empties
/// them in the end, so that no cycle stays and none is dropped from within another one.
#[derive(Debug)]
pub struct Namespace {
    pub variables: RefCell<Map>,
}

/// A macro and the local variables of the place where it was defined.
#[derive(Debug)]
pub struct Closure {
    pub definition: Arc<Macro>,
    variables: Metered<(Name, Value)>,
    depth: usize,
}

impl Closure {
    pub fn new(
        meter: &Rc<Meter>,
        definition: Arc<Macro>,
        captured: impl Iterator<Item = (Name, Value)>,
    ) -> Result<Self> {
        let mut variables = Metered::new(meter)?;
        let mut depth = 1;
        for (name, value) in captured {
            depth = deepened(depth, &value)?;
            variables.push((name, value))?;
        }
        Ok(Self {
            definition,
            variables,
            depth,
        })
    }

    pub fn variables(&self) -> &[(Name, Value)] {
        self.variables.items()
    }
}

/// The variable `loop`.
#[derive(Debug)]
pub struct Loop {
    pub items: Rc<List>,
    pub index: Cell<usize>,
    /// How many loops of the same recursion are around this one.
    pub recursion: usize,
    /// The loop itself if it is recursive.
    pub recursive: Option<Arc<For>>,
    /// Identifies what `loop.changed` remembers.
    pub id: u64,
}

/// Returns the depth of a container of some depth that gets another item.
fn deepened(depth: usize, item: &Value) -> Result<usize> {
    let depth = depth.max(item.depth() + 1);
    if depth > MAX_DEPTH {
        return Err(Fault::failed(format!(
            "a value is nested more than {MAX_DEPTH} levels deep"
        )));
    }
    Ok(depth)
}

impl Value {
    /// Returns the levels of values that are dropped with this one.
    fn depth(&self) -> usize {
        match self {
            Self::List(list) => list.depth,
            Self::Map(map) => map.depth,
            Self::Macro(closure) => closure.depth,
            Self::Loop(state) => state.items.depth + 1,
            _ => 0,
        }
    }

    pub fn text(meter: &Rc<Meter>, text: &str) -> Result<Self> {
        Text::new(meter, text).map(Self::Text)
    }

    pub fn int(int: usize) -> Self {
        Self::Int(i128::try_from(int).unwrap_or(i128::MAX))
    }

    /// Returns the type for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Undefined => "undefined",
            Self::None => "none",
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::Float(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
            Self::Namespace(_) => "a namespace",
            Self::Macro(_) => "a macro",
            Self::Loop(_) => "a loop",
            Self::Function(_) => "a function",
        }
    }

    pub fn is_true(&self) -> bool {
        match self {
            Self::Undefined | Self::None => false,
            Self::Bool(bool) => *bool,
            Self::Int(int) => *int != 0,
            Self::Float(float) => *float != 0.0,
            Self::Text(text) => text.len() > 0,
            Self::List(list) => !list.items().is_empty(),
            Self::Map(map) => !map.entries().is_empty(),
            Self::Namespace(namespace) => !namespace.variables.borrow().entries().is_empty(),
            Self::Macro(_) | Self::Loop(_) | Self::Function(_) => true,
        }
    }

    /// Returns the value as a key of a map.
    pub fn to_key(&self) -> Option<Key> {
        match self {
            Self::None => Some(Key::None),
            Self::Bool(bool) => Some(Key::Bool(*bool)),
            Self::Int(int) => Some(Key::Int(*int)),
            Self::Text(text) => Some(Key::Text(text.clone())),
            _ => None,
        }
    }
}
