//! One worker's operations.

use std::ops::{Bound, ControlFlow};

use saki_base::{Random, ValueRef};
use saki_mvcc::{Direction, Error, Isolation, KeyRange, Runner, Table, Transaction};

use crate::codec::{Key, int8_of_key, template};
use crate::driver::{End, Work};
use crate::zipf::{Zipf, below, scatter};

/// Bytes of a value.
pub const VALUE_BYTES: usize = 100;
/// Bytes at its start that its key determines.
const MARK_BYTES: usize = 8;
/// The longest scan, in rows.
const SCAN_MAX: u64 = 100;

type RowKey = Key<8>;

/// A workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Letter {
    A,
    B,
    C,
    D,
    E,
    F,
}

impl Letter {
    /// # Errors
    /// That there is no such workload.
    pub fn of(letter: char) -> Result<Self, String> {
        Ok(match letter.to_ascii_lowercase() {
            'a' => Self::A,
            'b' => Self::B,
            'c' => Self::C,
            'd' => Self::D,
            'e' => Self::E,
            'f' => Self::F,
            _ => return Err(format!("there are workloads a to f, but not {letter}")),
        })
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
            Self::C => "c",
            Self::D => "d",
            Self::E => "e",
            Self::F => "f",
        }
    }

    /// How many of a hundred operations are not reads or scans.
    const fn writes_percent(self) -> u64 {
        match self {
            Self::A | Self::F => 50,
            Self::B | Self::D | Self::E => 5,
            Self::C => 0,
        }
    }
}

/// Which rows.
#[derive(Clone, Copy, Debug)]
pub enum Choice<'a> {
    Uniform,
    Skewed(&'a Zipf),
    /// The later inserted, the likelier.
    Latest(&'a Zipf),
}

/// How values lie in the bodies of the table.
#[derive(Clone, Debug)]
pub struct Values {
    template: Vec<u8>,
    at: usize,
}

impl Values {
    pub fn of(table: &Table) -> Self {
        let template = template(table, &[ValueRef::Bytea(&[0; VALUE_BYTES])]);
        let at = template.len() - VALUE_BYTES;
        Self { template, at }
    }

    /// The body of a new value of a key, into `body`.
    pub fn write(&self, key: u64, random: &mut Random, body: &mut Vec<u8>) {
        body.clear();
        body.extend_from_slice(&self.template);
        self.replace(key, random, body);
    }

    /// Another value of the same key.
    #[inline]
    pub fn replace(&self, key: u64, random: &mut Random, body: &mut [u8]) {
        let value = &mut body[self.at..];
        value[..MARK_BYTES].copy_from_slice(&mark(key));
        random.fill(&mut value[MARK_BYTES..]);
    }

    /// Whether a body may be of that key.
    #[inline]
    pub fn is_of(&self, key: u64, body: &[u8]) -> bool {
        body.len() == self.template.len() && body[self.at..][..MARK_BYTES] == mark(key)
    }
}

#[inline]
fn mark(key: u64) -> [u8; MARK_BYTES] {
    key.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
}

/// What a worker is to do.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    pub letter: Letter,
    pub choice: Choice<'a>,
    /// Of a transaction.
    pub operations: usize,
    /// Reads of a transaction all at once.
    pub batched: bool,
    /// Rows there are from the beginning.
    pub rows: u64,
    pub workers: usize,
}

/// What should not happen.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Faults {
    /// Rows of the load that were not found.
    pub absent: u64,
    /// Values that are not of their keys.
    pub wrong: u64,
}

impl Faults {
    pub fn sum(faults: impl Iterator<Item = Self>) -> Self {
        faults.fold(Self::default(), |sum, faults| Self {
            absent: sum.absent + faults.absent,
            wrong: sum.wrong + faults.wrong,
        })
    }
}

#[derive(Clone, Copy, Debug)]
struct Operation {
    /// The row, or where a scan begins.
    row: u64,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Read,
    Update,
    ReadModifyWrite,
    Insert,
    Scan { rows: u64 },
}

/// The transactions of one worker.
pub struct YcsbWork<'a> {
    table: &'a Table,
    values: &'a Values,
    shape: Shape<'a>,
    worker: u64,
    random: Random,
    operations: Vec<Operation>,
    keys: Vec<RowKey>,
    body: Vec<u8>,
    /// Rows that this worker has inserted: the numbers after the load are dealt to the workers in turn.
    steps: u64,
    faults: Faults,
    seen: u64,
}

impl<'a> YcsbWork<'a> {
    /// Those of a worker that has inserted `steps` rows before.
    pub fn new(table: &'a Table, values: &'a Values, shape: Shape<'a>, worker: usize, steps: u64, seed: u64) -> Self {
        Self {
            table,
            values,
            shape,
            worker: worker as u64,
            random: Random::new(seed ^ (worker as u64 + 1) << 16),
            operations: Vec::with_capacity(shape.operations),
            keys: vec![RowKey::new().int8(0); shape.operations],
            body: Vec::new(),
            steps,
            faults: Faults::default(),
            seen: 0,
        }
    }

    /// Inserts so far, those of earlier measurements included.
    pub const fn insert_steps(&self) -> u64 {
        self.steps
    }

    pub const fn faults(&self) -> Faults {
        self.faults
    }

    /// The number of this worker's insert number `step`.
    const fn inserted_row(&self, step: u64) -> u64 {
        self.shape.rows + step * self.shape.workers as u64 + self.worker
    }

    fn draw_operation(&mut self) -> Operation {
        let letter = self.shape.letter;
        let writes = letter.writes_percent();
        if writes > 0 && below(&mut self.random, 100) < writes {
            return match letter {
                Letter::A | Letter::B => Operation { row: self.draw_row(), kind: Kind::Update },
                Letter::F => Operation { row: self.draw_row(), kind: Kind::ReadModifyWrite },
                Letter::C | Letter::D | Letter::E => Operation { row: 0, kind: Kind::Insert },
            };
        }
        let kind = match letter {
            Letter::E => Kind::Scan { rows: 1 + below(&mut self.random, SCAN_MAX) },
            _ => Kind::Read,
        };
        Operation { row: self.draw_row(), kind }
    }

    #[inline]
    fn draw_row(&mut self) -> u64 {
        let rows = self.shape.rows;
        match self.shape.choice {
            Choice::Uniform => below(&mut self.random, rows),
            Choice::Skewed(zipf) => scatter(zipf.next(&mut self.random), rows),
            Choice::Latest(zipf) => match (zipf.next(&mut self.random), self.steps) {
                // Its own latest: what others have inserted it does not know.
                (age, steps) if age < steps => self.inserted_row(steps - 1 - age),
                (age, steps) => rows - 1 - (age - steps).min(rows - 1),
            },
        }
    }
}

impl Work for YcsbWork<'_> {
    fn draw(&mut self) -> usize {
        self.operations.clear();
        for number in 0..self.shape.operations {
            let operation = self.draw_operation();
            self.operations.push(operation);
            self.keys[number] = RowKey::new().int8(operation.row as i64);
        }
        0
    }

    fn run(&mut self, runner: &mut Runner) -> Result<End, Error> {
        let mut transaction = runner.begin(Isolation::Serializable);
        let steps = self.steps;
        let outcome = if self.shape.batched { self.read_all(&transaction) } else { self.run_each(&mut transaction) };
        match outcome.and_then(|()| transaction.commit_early()) {
            Ok(receipt) => Ok(End::Committed(receipt)),
            Err(error) => {
                self.steps = steps;
                Err(error)
            }
        }
    }
}

impl YcsbWork<'_> {
    fn read_all(&mut self, transaction: &Transaction<'_>) -> Result<(), Error> {
        let Self { table, values, operations, keys, faults, seen, .. } = self;
        transaction.get_many(table, keys, |number, found| match found {
            Some(found) => {
                *seen += u64::from(found.body[found.body.len() - 1]);
                faults.wrong += u64::from(!values.is_of(operations[number].row, found.body));
            }
            None => faults.absent += 1,
        });
        Ok(())
    }

    fn run_each(&mut self, transaction: &mut Transaction<'_>) -> Result<(), Error> {
        for number in 0..self.operations.len() {
            let Operation { row, kind } = self.operations[number];
            let key = &self.keys[number];
            match kind {
                Kind::Read => {
                    let found = transaction.get(self.table, key.as_ref());
                    look(self.values, row, found.map(|found| found.body), &mut self.faults, &mut self.seen);
                }
                Kind::Update | Kind::ReadModifyWrite => {
                    let found = transaction.get(self.table, key.as_ref());
                    if let Kind::ReadModifyWrite = kind {
                        look(self.values, row, found.map(|found| found.body), &mut self.faults, &mut self.seen);
                    }
                    let Some(id) = found.map(|found| found.id) else {
                        self.faults.absent += 1;
                        continue;
                    };
                    let (values, random) = (self.values, &mut self.random);
                    transaction.modify(self.table, id, |body| values.replace(row, random, body))?;
                }
                Kind::Insert => {
                    let row = self.inserted_row(self.steps);
                    self.values.write(row, &mut self.random, &mut self.body);
                    transaction.insert(self.table, RowKey::new().int8(row as i64).as_ref(), &self.body)?;
                    self.steps += 1;
                }
                Kind::Scan { rows } => {
                    let mut left = rows;
                    let range = KeyRange::between(Bound::Included(key.as_ref()), Bound::Unbounded);
                    let (faults, seen, values) = (&mut self.faults, &mut self.seen, self.values);
                    transaction.scan(self.table, &range, Direction::Forward, |found| {
                        let row = int8_of_key(found.key, 0) as u64;
                        look(values, row, Some(found.body), faults, seen);
                        left -= 1;
                        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                    });
                }
            }
        }
        Ok(())
    }
}

/// What a client would do with a value: look at it.
#[inline]
fn look(values: &Values, row: u64, body: Option<&[u8]>, faults: &mut Faults, seen: &mut u64) {
    match body {
        Some(body) => {
            *seen += u64::from(body[body.len() - 1]);
            faults.wrong += u64::from(!values.is_of(row, body));
        }
        None => faults.absent += 1,
    }
}
