//! The machine that runs a pickle, or as much of one as a state dict needs.
//!
//! Every value is made once and named by its place, so that neither depth nor sharing can take more
//! than the pickle's own length explains: an instruction makes at most one value.

use std::collections::HashMap;

use super::objects::{Global, Id, Object, Pickled, Storage, Tensor};
use super::opcodes::{Argument, Op, decode};
use super::{PytorchError, little_endian};

/// Values of one pickle; a state dict has about twenty a tensor.
const MAX_VALUES: usize = 4 << 20;
/// Values that wait on the stack; Python's pickler sends a dict's items a thousand at a time.
const MAX_STACK: usize = 1 << 20;
/// Collections that are being put together inside one another.
const MAX_MARKS: usize = 1 << 10;
/// Dimensions of a tensor.
const MAX_DIMENSIONS: usize = 8;
/// Bytes of a storage's name, which is a number in practice.
const MAX_KEY_BYTES: usize = 256;

/// Values that are the same each time, at their places.
const NONE: Id = 0;
const BOOL: Id = 1;
const EMPTY_TUPLE: Id = 2;
const NUMBER: Id = 3;
const BYTES: Id = 4;

/// Runs a pickle to its end mark: what it makes, and how many bytes it takes.
///
/// # Errors
///
/// If it is cut off, or has or names anything that no state dict needs.
pub(super) fn load(pickle: &[u8]) -> Result<(Pickled, usize), PytorchError> {
    let mut machine = Machine {
        pickle,
        at: 0,
        start: 0,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        storages: HashMap::new(),
        made: Pickled {
            values: vec![
                Object::None,
                Object::Bool,
                Object::Tuple(Box::default()),
                Object::Number,
                Object::Bytes,
            ],
            storages: Vec::new(),
            tensors: Vec::new(),
            root: NONE,
        },
    };
    while !machine.step()? {}
    Ok((machine.made, machine.at))
}

struct Machine<'p> {
    pickle: &'p [u8],
    at: usize,
    /// Where the current instruction begins.
    start: usize,
    stack: Vec<Id>,
    /// Heights of the stack.
    marks: Vec<usize>,
    memo: HashMap<u64, Id>,
    /// Places of storages by their names.
    storages: HashMap<String, u32>,
    made: Pickled,
}

impl<'p> Machine<'p> {
    fn forbidden(&self, problem: &'static str) -> PytorchError {
        PytorchError::Forbidden {
            at: self.start as u64,
            problem,
        }
    }

    fn take(&mut self, len: usize) -> Result<&'p [u8], PytorchError> {
        let end = self.at.checked_add(len);
        let bytes = end.and_then(|end| self.pickle.get(self.at..end));
        let bytes = bytes.ok_or(PytorchError::Truncated {
            at: self.pickle.len() as u64,
            inside: "an instruction",
        })?;
        self.at += len;
        Ok(bytes)
    }

    fn line(&mut self) -> Result<&'p [u8], PytorchError> {
        let rest = self.pickle.get(self.at..).unwrap_or_default();
        let end = rest.iter().position(|&byte| byte == b'\n');
        let end = end.ok_or(PytorchError::Truncated {
            at: self.pickle.len() as u64,
            inside: "a line",
        })?;
        self.at += end + 1;
        Ok(&rest[..end])
    }

    /// What stands behind an instruction: one part, or two lines.
    fn argument(&mut self, argument: Argument) -> Result<[&'p [u8]; 2], PytorchError> {
        Ok(match argument {
            Argument::Nothing => [&[], &[]],
            Argument::Fixed(len) => [self.take(len)?, &[]],
            Argument::Counted(size) => {
                let len = usize::try_from(little_endian(self.take(size)?)).unwrap_or(usize::MAX);
                [self.take(len)?, &[]]
            }
            Argument::Lines(1) => [self.line()?, &[]],
            Argument::Lines(_) => [self.line()?, self.line()?],
        })
    }

    fn push(&mut self, id: Id) -> Result<(), PytorchError> {
        if self.stack.len() >= MAX_STACK {
            return Err(self.forbidden("it keeps more values waiting than any state dict"));
        }
        self.stack.push(id);
        Ok(())
    }

    fn make(&mut self, object: Object) -> Result<(), PytorchError> {
        if self.made.values.len() >= MAX_VALUES {
            return Err(PytorchError::TooLarge {
                what: "the pickle",
                found: MAX_VALUES as u64 + 1,
                most: MAX_VALUES as u64,
            });
        }
        let id = self.made.values.len() as Id;
        self.made.values.push(object);
        self.push(id)
    }

    fn pop(&mut self) -> Result<Id, PytorchError> {
        // What lies under a mark is not for the instructions above it.
        let floor = self.marks.last().copied().unwrap_or(0);
        match self.stack.pop() {
            Some(id) if self.stack.len() >= floor => Ok(id),
            _ => Err(self.forbidden("it takes a value that is not there")),
        }
    }

    fn top(&self) -> Result<Id, PytorchError> {
        let top = self.stack.last().copied();
        top.ok_or_else(|| self.forbidden("it uses a value that is not there"))
    }

    fn pop_mark(&mut self) -> Result<Vec<Id>, PytorchError> {
        match self.marks.pop() {
            Some(mark) if mark <= self.stack.len() => Ok(self.stack.split_off(mark)),
            _ => Err(self.forbidden("it ends a collection that was not begun")),
        }
    }

    /// Runs one instruction; true if it was the end mark.
    fn step(&mut self) -> Result<bool, PytorchError> {
        self.start = self.at;
        let opcode = *self.pickle.get(self.at).ok_or(PytorchError::Truncated {
            at: self.pickle.len() as u64,
            inside: "the list of instructions",
        })?;
        self.at += 1;
        let (op, argument) = decode(opcode).ok_or(PytorchError::Opcode {
            at: self.start as u64,
            opcode,
        })?;
        let [bytes, second] = self.argument(argument)?;
        match op {
            Op::Skip => {}
            Op::Stop => {
                self.made.root = self.pop()?;
                return Ok(true);
            }
            Op::Mark => {
                if self.marks.len() >= MAX_MARKS {
                    return Err(self.forbidden("it nests collections deeper than any state dict"));
                }
                self.marks.push(self.stack.len());
            }
            Op::Pop => {
                self.pop()?;
            }
            Op::PopMark => {
                self.pop_mark()?;
            }
            Op::None => self.push(NONE)?,
            Op::Bool => self.push(BOOL)?,
            Op::Float => self.push(NUMBER)?,
            Op::Bytes => self.push(BYTES)?,
            Op::Int if bytes.len() == 4 => self.int(signed(bytes))?,
            Op::Int => self.int(Some(little_endian(bytes) as i64))?,
            Op::Long => self.int(signed(bytes))?,
            Op::IntText => self.int_text(bytes)?,
            Op::Text => self.text(bytes)?,
            Op::EmptyTuple => self.push(EMPTY_TUPLE)?,
            Op::TupleOf(count) => {
                let mut items = Vec::with_capacity(count);
                for _ in 0..count {
                    items.push(self.pop()?);
                }
                items.reverse();
                self.make(Object::Tuple(items.into()))?;
            }
            Op::Tuple => {
                let items = self.pop_mark()?;
                self.make(Object::Tuple(items.into()))?;
            }
            Op::EmptyList => self.make(Object::List(Vec::new()))?,
            Op::EmptyDict => self.make(Object::Dict(Vec::new()))?,
            Op::List => {
                let items = self.pop_mark()?;
                self.make(Object::List(items))?;
            }
            Op::Dict => {
                let items = self.pop_mark()?;
                self.make(Object::Dict(Vec::new()))?;
                self.set_items(items)?;
            }
            Op::Append => {
                let item = self.pop()?;
                self.append(vec![item])?;
            }
            Op::Appends => {
                let items = self.pop_mark()?;
                self.append(items)?;
            }
            Op::SetItem => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.set_items(vec![key, value])?;
            }
            Op::SetItems => {
                let items = self.pop_mark()?;
                self.set_items(items)?;
            }
            Op::Put | Op::Memoize | Op::Get => self.remember(op, argument, bytes)?,
            Op::Global => {
                let [module, name] = [bytes, second].map(String::from_utf8_lossy);
                self.global(&module, &name)?;
            }
            Op::StackGlobal => {
                let (name, module) = (self.pop()?, self.pop()?);
                let text = |id| self.made.text(id).map(str::to_string);
                match (text(module), text(name)) {
                    (Some(module), Some(name)) => self.global(&module, &name)?,
                    _ => return Err(self.forbidden("it names something by no text")),
                }
            }
            Op::Reduce => self.reduce()?,
            Op::Build => self.build()?,
            Op::PersistentId => self.persistent_id()?,
        }
        Ok(false)
    }

    fn int(&mut self, int: Option<i64>) -> Result<(), PytorchError> {
        match int {
            Some(int) => self.make(Object::Int(int)),
            None => self.push(NUMBER),
        }
    }

    fn int_text(&mut self, digits: &[u8]) -> Result<(), PytorchError> {
        match digits {
            // How protocol 0 writes False and True.
            b"00" | b"01" => self.push(BOOL),
            _ => {
                let digits = digits.strip_suffix(b"L").unwrap_or(digits);
                let text = std::str::from_utf8(digits).ok();
                let int = text.and_then(|text| text.parse().ok());
                self.int(int)
            }
        }
    }

    fn text(&mut self, bytes: &[u8]) -> Result<(), PytorchError> {
        match std::str::from_utf8(bytes) {
            Ok(text) => self.make(Object::Text(text.into())),
            // Python 2's strings are bytes; those that matter are ASCII.
            Err(_) => self.push(BYTES),
        }
    }

    fn remember(&mut self, op: Op, argument: Argument, bytes: &[u8]) -> Result<(), PytorchError> {
        let number = match (op, argument) {
            (Op::Memoize, _) => self.memo.len() as u64,
            (_, Argument::Lines(_)) => std::str::from_utf8(bytes)
                .ok()
                .and_then(|text| text.parse().ok())
                .ok_or_else(|| self.forbidden("it keeps a value under no number"))?,
            _ => little_endian(bytes),
        };
        if op == Op::Get {
            let id = self.memo.get(&number).copied();
            let id = id.ok_or_else(|| self.forbidden("it asks for a value that was not kept"))?;
            return self.push(id);
        }
        let id = self.top()?;
        if self.memo.len() >= MAX_VALUES {
            return Err(self.forbidden("it keeps more values than any state dict"));
        }
        self.memo.insert(number, id);
        Ok(())
    }

    fn append(&mut self, items: Vec<Id>) -> Result<(), PytorchError> {
        let list = self.top()?;
        match self.made.values.get_mut(list as usize) {
            Some(Object::List(list)) => {
                list.extend(items);
                Ok(())
            }
            _ => Err(self.forbidden("it appends to what is no list")),
        }
    }

    fn set_items(&mut self, items: Vec<Id>) -> Result<(), PytorchError> {
        let dict = self.top()?;
        let (pairs, rest) = items.as_chunks::<2>();
        match self.made.values.get_mut(dict as usize) {
            Some(Object::Dict(dict)) if rest.is_empty() => {
                dict.extend(pairs.iter().map(|&[key, value]| (key, value)));
                Ok(())
            }
            _ => Err(self.forbidden("it sets items of what is no dict")),
        }
    }

    fn global(&mut self, module: &str, name: &str) -> Result<(), PytorchError> {
        match Global::named(module, name) {
            Some(global) => self.make(Object::Global(global)),
            None => Err(PytorchError::Global {
                name: format!("{module}.{name}").chars().take(120).collect(),
            }),
        }
    }

    /// Calls one of the few functions, all of which only put values together.
    fn reduce(&mut self) -> Result<(), PytorchError> {
        let (arguments, function) = (self.pop()?, self.pop()?);
        let Object::Tuple(arguments) = self.made.get(arguments) else {
            return Err(self.forbidden("it calls something without a tuple of arguments"));
        };
        let &Object::Global(function) = self.made.get(function) else {
            return Err(self.forbidden("it calls what is no function"));
        };
        match (function, &arguments[..]) {
            (Global::OrderedDict, []) => self.make(Object::Dict(Vec::new())),
            (Global::Size, &[sizes]) => self.push(sizes),
            (Global::Parameter, &[tensor, ..]) => self.push(tensor),
            (Global::Tensor, &[storage, offset, shape, strides, ..]) => {
                self.tensor(storage, [offset, shape, strides], None)
            }
            (Global::TypedTensor, &[storage, offset, shape, strides, _, _, dtype, ..]) => {
                self.tensor(storage, [offset, shape, strides], Some(dtype))
            }
            _ => Err(self.forbidden("it calls a function with the wrong arguments")),
        }
    }

    fn tensor(
        &mut self,
        storage: Id,
        [offset, shape, strides]: [Id; 3],
        dtype: Option<Id>,
    ) -> Result<(), PytorchError> {
        let &Object::Storage(storage) = self.made.get(storage) else {
            return Err(self.forbidden("it makes a tensor of what is no storage"));
        };
        let dtype = match dtype.map(|dtype| self.made.get(dtype)) {
            Some(&Object::Global(Global::Dtype(dtype))) => Some(dtype),
            Some(_) => None,
            None => self.made.storages[storage as usize].dtype,
        };
        let sizes = |id| self.made.sizes(id, MAX_DIMENSIONS);
        let parts = (sizes(shape), sizes(strides), self.made.size(offset));
        let (Some(dtype), (Some(shape), Some(strides), Some(offset))) = (dtype, parts) else {
            return Err(self.forbidden("it makes a tensor without type, shape or place"));
        };
        let place = self.made.tensors.len() as u32;
        self.made.tensors.push(Tensor {
            storage,
            dtype,
            offset,
            shape,
            strides,
        });
        self.make(Object::Tensor(place))
    }

    /// Sets an object's attributes. A state dict has one, `_metadata`, which nothing here reads.
    fn build(&mut self) -> Result<(), PytorchError> {
        self.pop()?;
        match self.made.get(self.top()?) {
            Object::Dict(_) => Ok(()),
            _ => Err(self.forbidden("it sets attributes of what is no dict")),
        }
    }

    /// A storage: `("storage", type, key, device, elements)`; in older files a view of another one
    /// or `None` follows.
    fn persistent_id(&mut self) -> Result<(), PytorchError> {
        let id = self.pop()?;
        let wrong = "it refers to something outside that is no storage";
        let Object::Tuple(parts) = self.made.get(id) else {
            return Err(self.forbidden(wrong));
        };
        let (&[tag, kind, key, _, len], rest) = match parts.split_first_chunk() {
            Some(parts) => parts,
            None => return Err(self.forbidden(wrong)),
        };
        let is_view = rest.iter().any(|&view| view != NONE);
        let key = self.made.text(key).filter(|key| key.len() <= MAX_KEY_BYTES);
        let parts = (self.made.text(tag), self.made.get(kind), key);
        let (Some("storage"), &Object::Global(Global::Storage(dtype)), Some(key)) = parts else {
            return Err(self.forbidden(wrong));
        };
        let Some(len) = self.made.size(len).filter(|_| !is_view) else {
            return Err(self.forbidden("it has a storage that is a view, or of no size"));
        };
        let storage = Storage {
            key: key.into(),
            dtype,
            len,
        };
        let place = match self.storages.get(&storage.key) {
            None => {
                let place = self.made.storages.len() as u32;
                self.storages.insert(storage.key.clone(), place);
                self.made.storages.push(storage);
                place
            }
            Some(&place) => {
                let first = &self.made.storages[place as usize];
                if (first.dtype, first.len) != (storage.dtype, storage.len) {
                    return Err(self.forbidden("it has one storage with two types or sizes"));
                }
                place
            }
        };
        self.make(Object::Storage(place))
    }
}

/// A little-endian two's complement number; `None` if it may need more than 64 bits.
fn signed(bytes: &[u8]) -> Option<i64> {
    let negative = bytes.last().is_some_and(|&byte| byte >= 0x80);
    let mut padded = [if negative { 0xff } else { 0 }; 8];
    padded.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(i64::from_le_bytes(padded))
}
