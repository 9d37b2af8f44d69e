//! The stack machine that runs a pickle, as far as a state dict needs it.
//!
//! Every value is created once and referred to by its index. An instruction creates at most one value, so
//! neither deep nesting nor sharing can take more memory than the length of the pickle explains.

use std::collections::HashMap;

use super::{
    globals::Global,
    little_endian::{signed, unsigned},
    opcodes::{Argument, Op, decode},
    rebuild::{self, Returned},
    values::{Id, Unpickled, Value},
};
use crate::error::PytorchError;

/// The most values of a pickle. A state dict has about twenty for each tensor.
const MAX_VALUES: usize = 4 << 20;
/// The most values on the stack. Python's pickler writes the items of a dict in batches of a thousand.
const MAX_STACK: usize = 1 << 20;
/// The deepest nesting of collections that are being put together.
const MAX_MARKS: usize = 1 << 10;

/// The indices of values that exist once.
const NONE: Id = 0;
const BOOL: Id = 1;
const EMPTY_TUPLE: Id = 2;
const NUMBER: Id = 3;
const BYTES: Id = 4;

/// Runs a pickle to its stop instruction. Returns the values, and the length of the pickle in bytes.
///
/// # Errors
///
/// If the pickle is truncated or malformed, or has or names anything that no state dict needs.
pub(super) fn load(pickle: &[u8]) -> Result<(Unpickled, usize), PytorchError> {
    let mut interpreter = Interpreter {
        pickle,
        at: 0,
        instruction: 0,
        stack: Vec::new(),
        marks: Vec::new(),
        memo: HashMap::new(),
        storages: HashMap::new(),
        unpickled: Unpickled {
            values: vec![
                Value::None,
                Value::Bool,
                Value::Tuple(Box::default()),
                Value::Number,
                Value::Bytes,
            ],
            storages: Vec::new(),
            tensors: Vec::new(),
            root: NONE,
        },
    };
    while !interpreter.step()? {}
    Ok((interpreter.unpickled, interpreter.at))
}

struct Interpreter<'p> {
    pickle: &'p [u8],
    /// The offset of the next byte.
    at: usize,
    /// The offset of the current instruction.
    instruction: usize,
    stack: Vec<Id>,
    /// The heights of the stack at which collections begin.
    marks: Vec<usize>,
    memo: HashMap<u64, Id>,
    /// The index of each storage, by its key.
    storages: HashMap<String, u32>,
    unpickled: Unpickled,
}

impl<'p> Interpreter<'p> {
    /// The error for the current instruction. `problem` ends a sentence that begins with "the pickle".
    fn forbidden(&self, problem: &'static str) -> PytorchError {
        PytorchError::Forbidden {
            at: self.instruction as u64,
            problem,
        }
    }

    fn truncated(&self, inside: &'static str) -> PytorchError {
        PytorchError::Truncated {
            at: self.pickle.len() as u64,
            inside,
        }
    }

    fn take(&mut self, len: usize) -> Result<&'p [u8], PytorchError> {
        let end = self.at.checked_add(len);
        let bytes = end.and_then(|end| self.pickle.get(self.at..end));
        let bytes = bytes.ok_or_else(|| self.truncated("an instruction of the pickle"))?;
        self.at += len;
        Ok(bytes)
    }

    fn line(&mut self) -> Result<&'p [u8], PytorchError> {
        let rest = self.pickle.get(self.at..).unwrap_or_default();
        let end = rest.iter().position(|&byte| byte == b'\n');
        let end = end.ok_or_else(|| self.truncated("a line of the pickle"))?;
        self.at += end + 1;
        Ok(&rest[..end])
    }

    /// Takes the argument of an instruction, which has one part, or two lines.
    fn argument(&mut self, argument: Argument) -> Result<[&'p [u8]; 2], PytorchError> {
        Ok(match argument {
            Argument::None => [&[], &[]],
            Argument::Fixed(len) => [self.take(len)?, &[]],
            Argument::Counted(size) => {
                let len = usize::try_from(unsigned(self.take(size)?)).unwrap_or(usize::MAX);
                [self.take(len)?, &[]]
            }
            Argument::Lines(1) => [self.line()?, &[]],
            Argument::Lines(_) => [self.line()?, self.line()?],
        })
    }

    fn push(&mut self, id: Id) -> Result<(), PytorchError> {
        if self.stack.len() >= MAX_STACK {
            return Err(self.forbidden("keeps more values on the stack than any state dict"));
        }
        self.stack.push(id);
        Ok(())
    }

    /// Creates a value and pushes it.
    fn create(&mut self, value: Value) -> Result<(), PytorchError> {
        if self.unpickled.values.len() >= MAX_VALUES {
            return Err(PytorchError::TooLarge {
                what: "the pickle",
                found: MAX_VALUES as u64 + 1,
                most: MAX_VALUES as u64,
            });
        }
        let id = self.unpickled.values.len() as Id;
        self.unpickled.values.push(value);
        self.push(id)
    }

    fn pop(&mut self) -> Result<Id, PytorchError> {
        // Instructions above a mark may not take values from below it.
        let floor = self.marks.last().copied().unwrap_or(0);
        match self.stack.pop() {
            Some(id) if self.stack.len() >= floor => Ok(id),
            _ => Err(self.forbidden("takes a value from an empty stack")),
        }
    }

    fn top(&self) -> Result<Id, PytorchError> {
        let top = self.stack.last().copied();
        top.ok_or_else(|| self.forbidden("uses a value of an empty stack"))
    }

    fn pop_mark(&mut self) -> Result<Vec<Id>, PytorchError> {
        match self.marks.pop() {
            Some(mark) if mark <= self.stack.len() => Ok(self.stack.split_off(mark)),
            _ => Err(self.forbidden("ends a collection that it did not begin")),
        }
    }

    /// Runs one instruction; returns true if it was the stop instruction.
    fn step(&mut self) -> Result<bool, PytorchError> {
        self.instruction = self.at;
        let opcode = self.pickle.get(self.at).copied();
        let opcode = opcode.ok_or_else(|| self.truncated("the instructions of the pickle"))?;
        self.at += 1;
        let (op, argument) = decode(opcode).ok_or(PytorchError::Opcode {
            at: self.instruction as u64,
            opcode,
        })?;
        let [bytes, second_line] = self.argument(argument)?;
        match op {
            Op::Skip => {}
            Op::Stop => {
                self.unpickled.root = self.pop()?;
                return Ok(true);
            }
            Op::Pop => {
                self.pop()?;
            }
            Op::None => self.push(NONE)?,
            Op::Bool => self.push(BOOL)?,
            Op::Float => self.push(NUMBER)?,
            Op::Bytes => self.push(BYTES)?,
            Op::Int if bytes.len() == 4 => self.int(signed(bytes))?,
            Op::Int => self.int(Some(unsigned(bytes) as i64))?,
            Op::Long => self.int(signed(bytes))?,
            Op::IntText => self.int_text(bytes)?,
            Op::Text => self.text(bytes)?,
            Op::Put | Op::Memoize => {
                let key = self.memo_key(op, argument, bytes)?;
                self.memoize(key)?;
            }
            Op::Get => {
                let key = self.memo_key(op, argument, bytes)?;
                let id = self.memo.get(&key).copied();
                self.push(
                    id.ok_or_else(|| self.forbidden("reads a value that it did not memoize"))?,
                )?;
            }
            Op::Global => {
                let [module, name] = [bytes, second_line].map(String::from_utf8_lossy);
                self.global(&module, &name)?;
            }
            Op::StackGlobal => self.stack_global()?,
            Op::Reduce => self.reduce()?,
            Op::Build => self.build()?,
            Op::PersistentId => self.persistent_id()?,
            Op::Mark
            | Op::PopMark
            | Op::EmptyTuple
            | Op::TupleOf(_)
            | Op::Tuple
            | Op::EmptyList
            | Op::List
            | Op::Append
            | Op::Appends
            | Op::EmptyDict
            | Op::Dict
            | Op::SetItem
            | Op::SetItems => self.collection(op)?,
        }
        Ok(false)
    }

    /// Runs an instruction that puts collections together.
    fn collection(&mut self, op: Op) -> Result<(), PytorchError> {
        match op {
            Op::Mark => {
                if self.marks.len() >= MAX_MARKS {
                    return Err(self.forbidden("nests collections deeper than any state dict"));
                }
                self.marks.push(self.stack.len());
                Ok(())
            }
            Op::PopMark => self.pop_mark().map(drop),
            Op::EmptyTuple => self.push(EMPTY_TUPLE),
            Op::TupleOf(count) => {
                let mut items = Vec::with_capacity(count);
                for _ in 0..count {
                    items.push(self.pop()?);
                }
                items.reverse();
                self.create(Value::Tuple(items.into()))
            }
            Op::Tuple => {
                let items = self.pop_mark()?;
                self.create(Value::Tuple(items.into()))
            }
            Op::EmptyList => self.create(Value::List(Vec::new())),
            Op::List => {
                let items = self.pop_mark()?;
                self.create(Value::List(items))
            }
            Op::Append => {
                let item = self.pop()?;
                self.append(vec![item])
            }
            Op::Appends => {
                let items = self.pop_mark()?;
                self.append(items)
            }
            Op::EmptyDict => self.create(Value::Dict(Vec::new())),
            Op::Dict => {
                let items = self.pop_mark()?;
                self.create(Value::Dict(Vec::new()))?;
                self.set_items(items)
            }
            Op::SetItem => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.set_items(vec![key, value])
            }
            Op::SetItems => {
                let items = self.pop_mark()?;
                self.set_items(items)
            }
            _ => Ok(()),
        }
    }

    fn int(&mut self, int: Option<i64>) -> Result<(), PytorchError> {
        match int {
            Some(int) => self.create(Value::Int(int)),
            None => self.push(NUMBER),
        }
    }

    fn int_text(&mut self, digits: &[u8]) -> Result<(), PytorchError> {
        match digits {
            // False and True in protocol 0.
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
            Ok(text) => self.create(Value::Text(text.into())),
            // Python 2's strings are bytes; those that matter are ASCII.
            Err(_) => self.push(BYTES),
        }
    }

    /// The key of the memo that an instruction names.
    fn memo_key(&self, op: Op, argument: Argument, bytes: &[u8]) -> Result<u64, PytorchError> {
        match (op, argument) {
            (Op::Memoize, _) => Ok(self.memo.len() as u64),
            (_, Argument::Lines(_)) => std::str::from_utf8(bytes)
                .ok()
                .and_then(|text| text.parse().ok())
                .ok_or_else(|| self.forbidden("memoizes a value without a number")),
            _ => Ok(unsigned(bytes)),
        }
    }

    fn memoize(&mut self, key: u64) -> Result<(), PytorchError> {
        let id = self.top()?;
        if self.memo.len() >= MAX_VALUES {
            return Err(self.forbidden("memoizes more values than any state dict"));
        }
        self.memo.insert(key, id);
        Ok(())
    }

    fn append(&mut self, items: Vec<Id>) -> Result<(), PytorchError> {
        let list = self.top()?;
        match self.unpickled.values.get_mut(list as usize) {
            Some(Value::List(list)) => {
                list.extend(items);
                Ok(())
            }
            _ => Err(self.forbidden("appends to something that is not a list")),
        }
    }

    fn set_items(&mut self, items: Vec<Id>) -> Result<(), PytorchError> {
        let dict = self.top()?;
        let (pairs, rest) = items.as_chunks::<2>();
        match self.unpickled.values.get_mut(dict as usize) {
            Some(Value::Dict(dict)) if rest.is_empty() => {
                dict.extend(pairs.iter().map(|&[key, value]| (key, value)));
                Ok(())
            }
            _ => Err(self.forbidden("sets items of something that is not a dict")),
        }
    }

    fn global(&mut self, module: &str, name: &str) -> Result<(), PytorchError> {
        match Global::named(module, name) {
            Some(global) => self.create(Value::Global(global)),
            None => Err(PytorchError::Global {
                name: format!("{module}.{name}").chars().take(120).collect(),
            }),
        }
    }

    fn stack_global(&mut self) -> Result<(), PytorchError> {
        let (name, module) = (self.pop()?, self.pop()?);
        let text = |id| self.unpickled.text(id).map(str::to_string);
        match (text(module), text(name)) {
            (Some(module), Some(name)) => self.global(&module, &name),
            _ => Err(self.forbidden("names a function by something that is not a text")),
        }
    }

    /// Calls a function, all of which only put values together.
    fn reduce(&mut self) -> Result<(), PytorchError> {
        let (arguments, function) = (self.pop()?, self.pop()?);
        match rebuild::call(&mut self.unpickled, function, arguments) {
            Ok(Returned::New(value)) => self.create(value),
            Ok(Returned::Argument(id)) => self.push(id),
            Err(problem) => Err(self.forbidden(problem)),
        }
    }

    /// Sets the attributes of an object. A state dict has one, `_metadata`, which is ignored.
    fn build(&mut self) -> Result<(), PytorchError> {
        self.pop()?;
        match self.unpickled.get(self.top()?) {
            Value::Dict(_) => Ok(()),
            _ => Err(self.forbidden("sets attributes of something that is not a dict")),
        }
    }

    /// Pushes the storage that a persistent id describes.
    fn persistent_id(&mut self) -> Result<(), PytorchError> {
        let id = self.pop()?;
        let storage = rebuild::storage(&self.unpickled, id, NONE);
        let storage = storage.map_err(|problem| self.forbidden(problem))?;
        let index = match self.storages.get(&storage.key) {
            None => {
                let index = self.unpickled.storages.len() as u32;
                self.storages.insert(storage.key.clone(), index);
                self.unpickled.storages.push(storage);
                index
            }
            Some(&index) => {
                let first = &self.unpickled.storages[index as usize];
                if (first.dtype, first.len) != (storage.dtype, storage.len) {
                    return Err(self.forbidden("has one storage with two types or sizes"));
                }
                index
            }
        };
        self.create(Value::Storage(index))
    }
}
