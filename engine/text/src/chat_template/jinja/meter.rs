//! The bounds of a rendering: steps, time, and the memory of values.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use web_time::Instant;

use super::fault::{Fault, Reason, Result};

/// What a rendering may use.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Steps of work. One is about an evaluated operation, sixteen copied items or 64 read bytes.
    pub steps: u64,
    /// The time of the whole rendering.
    pub time: Duration,
    /// The bytes of one value, without the values that it contains.
    pub value: usize,
    /// The bytes of all values that exist at a time.
    pub memory: usize,
    /// The bytes of the output.
    pub output: usize,
}

/// The number of steps between two looks at the clock.
const STEPS_BETWEEN_CLOCKS: u64 = 1 << 12;

/// Counts what a rendering uses.
#[derive(Debug)]
pub struct Meter {
    limits: Limits,
    began: Instant,
    steps: Cell<u64>,
    next_clock: Cell<u64>,
    memory: Cell<usize>,
}

impl Meter {
    /// Starts to count.
    pub fn new(limits: Limits) -> Rc<Self> {
        Rc::new(Self {
            limits,
            began: Instant::now(),
            steps: Cell::new(0),
            next_clock: Cell::new(STEPS_BETWEEN_CLOCKS),
            memory: Cell::new(0),
        })
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Takes steps of work.
    pub fn steps(&self, count: usize) -> Result<()> {
        let steps = self.steps.get().saturating_add(count as u64);
        self.steps.set(steps);
        if steps < self.next_clock.get() {
            return Ok(());
        }
        self.next_clock.set(steps + STEPS_BETWEEN_CLOCKS);
        if steps > self.limits.steps {
            return Err(Fault::new(Reason::Steps(self.limits.steps)));
        }
        if self.began.elapsed() > self.limits.time {
            return Err(Fault::new(Reason::Time(self.limits.time)));
        }
        Ok(())
    }

    /// Takes the steps of searching or copying a text.
    pub fn scan(&self, bytes: usize) -> Result<()> {
        self.steps(bytes / 64 + 1)
    }

    /// Takes the steps of a text that is changed character by character.
    pub fn transform(&self, bytes: usize) -> Result<()> {
        self.steps(bytes / 8 + 1)
    }
}

/// Memory that a value occupies, returned to the meter when it is dropped.
#[derive(Debug)]
pub struct Allocation {
    meter: Rc<Meter>,
    bytes: usize,
}

impl Allocation {
    /// Counts the memory of a value before it is made.
    pub fn new(meter: &Rc<Meter>, bytes: usize) -> Result<Self> {
        let mut allocation = Self {
            meter: meter.clone(),
            bytes: 0,
        };
        allocation.resize(bytes)?;
        Ok(allocation)
    }

    /// Counts a changed size before the value grows.
    pub fn resize(&mut self, bytes: usize) -> Result<()> {
        let limits = &self.meter.limits;
        if bytes > limits.value {
            return Err(Fault::new(Reason::ValueSize(limits.value)));
        }
        let memory = (self.meter.memory.get() - self.bytes).saturating_add(bytes);
        if memory > limits.memory {
            return Err(Fault::new(Reason::Memory(limits.memory)));
        }
        self.meter.memory.set(memory);
        self.bytes = bytes;
        Ok(())
    }

    pub fn meter(&self) -> &Rc<Meter> {
        &self.meter
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let memory = self.meter.memory.get();
        self.meter.memory.set(memory - self.bytes);
    }
}

/// A vector whose memory is counted before it grows.
#[derive(Debug)]
pub struct Metered<T> {
    items: Vec<T>,
    allocation: Allocation,
}

impl<T> Metered<T> {
    /// What a value takes beside its items.
    const OVERHEAD: usize = 96;

    pub fn new(meter: &Rc<Meter>) -> Result<Self> {
        let allocation = Allocation::new(meter, Self::OVERHEAD)?;
        let items = Vec::new();
        Ok(Self { items, allocation })
    }

    pub fn push(&mut self, item: T) -> Result<()> {
        if self.items.len() == self.items.capacity() {
            self.reserve(self.items.len().max(4))?;
        }
        self.items.push(item);
        Ok(())
    }

    /// Makes room for more items.
    pub fn reserve(&mut self, more: usize) -> Result<()> {
        let capacity = self.items.len().saturating_add(more);
        if capacity <= self.items.capacity() {
            return Ok(());
        }
        let bytes = capacity.saturating_mul(size_of::<T>());
        let bytes = bytes.saturating_add(Self::OVERHEAD);
        self.allocation.resize(bytes)?;
        self.items.reserve_exact(more);
        Ok(())
    }

    pub fn items(&self) -> &[T] {
        &self.items
    }
}
