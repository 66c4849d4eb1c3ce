//! Batches of all forms, and expressions over them.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int16Array, Int32Array, Int64Array,
    StringViewArray, TimestampMicrosecondArray, UInt16Array,
};
use arrow_schema::{DataType, TimeUnit};
use proptest::prelude::*;
use saki_base::value::Value;

use crate::expr::{ArithmeticOp, CompareOp, DatePart, Expr, LikePattern, ValueSet};
use crate::form::TextDictionary;
use crate::{Batch, Column};

/// Of the columns of a sample.
pub const TYPES: [DataType; 12] = [
    DataType::Boolean,
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::Float64,
    DataType::Decimal128(15, 2),
    DataType::Decimal128(12, 3),
    DataType::Date32,
    DataType::Timestamp(TimeUnit::Microsecond, None),
    DataType::Utf8View,
    DataType::Utf8View,
    DataType::Int32,
];

const TEXTS: [&str; 10] = [
    "",
    "a",
    "ab",
    "abc",
    "MAIL",
    "SHIP",
    "a text that is not inline",
    "a text that is not inliné",
    "äöü",
    "special deposits, requests",
];

/// One row: a number for each column; NULL where it is `None`.
type Row = [Option<i32>; TYPES.len()];

/// Which form each column has, and what is cut off.
#[derive(Clone, Debug)]
struct Shape {
    dictionaries: [bool; 2],
    wide: [bool; 2],
    bounded: bool,
    before: usize,
    after: usize,
}

pub fn sample_batch() -> impl Strategy<Value = Batch> {
    let number = prop::option::weighted(0.9, prop_oneof![-4..12i32, -400_000..400_000i32]);
    let rows = prop::collection::vec(prop::array::uniform12(number), 0..180);
    let shape = (any::<[bool; 2]>(), any::<[bool; 2]>(), any::<bool>(), 0..70usize, 0..5usize)
        .prop_map(|(dictionaries, wide, bounded, before, after)| Shape { dictionaries, wide, bounded, before, after });
    (rows, shape).prop_map(|(rows, shape)| batch(&rows, &shape))
}

fn batch(rows: &[Row], shape: &Shape) -> Batch {
    let start = shape.before.min(rows.len());
    let length = (rows.len() - start).saturating_sub(shape.after);
    let columns = (0..TYPES.len()).map(|index| {
        let numbers: Vec<Option<i32>> = rows.iter().map(|row| row[index]).collect();
        let array = array(index, &numbers, shape).slice(start, length);
        let column = Column::new(Arc::clone(&array));
        match column.bounds().filter(|_| shape.bounded) {
            Some(bounds) => Column::with_bounds(array, bounds),
            None => column,
        }
    });
    Batch::new(columns.collect(), length)
}

fn array(index: usize, numbers: &[Option<i32>], shape: &Shape) -> ArrayRef {
    let numbers = || numbers.iter().copied();
    let text = |number: i32| TEXTS[number.rem_euclid(TEXTS.len() as i32) as usize];
    match index {
        0 => Arc::new(BooleanArray::from_iter(numbers().map(|n| n.map(|n| n % 2 == 0)))),
        1 => Arc::new(Int16Array::from_iter(numbers().map(|n| n.map(|n| n as i16)))),
        3 => Arc::new(Int64Array::from_iter(numbers().map(|n| n.map(|n| i64::from(n) * 1_000)))),
        4 => Arc::new(Float64Array::from_iter(numbers().map(|n| n.map(float)))),
        5 | 6 if shape.wide[index - 5] => Arc::new(Decimal128Array::from_iter(numbers().map(|n| n.map(i128::from)))),
        5 | 6 => Arc::new(Int64Array::from_iter(numbers().map(|n| n.map(i64::from)))),
        7 => Arc::new(Date32Array::from_iter(numbers().map(|n| n.map(|n| n % 20_000)))),
        8 => {
            Arc::new(TimestampMicrosecondArray::from_iter(numbers().map(|n| n.map(|n| i64::from(n) * 86_399_999_999))))
        }
        9 | 10 if shape.dictionaries[index - 9] => {
            let codes = UInt16Array::from_iter(numbers().map(|n| n.map(|n| n.rem_euclid(TEXTS.len() as i32) as u16)));
            let values = StringViewArray::from_iter_values(TEXTS.iter().chain(&["no row has this", ""]));
            Arc::new(TextDictionary::new(codes, Arc::new(values)))
        }
        9 | 10 => Arc::new(StringViewArray::from_iter(numbers().map(|n| n.map(text)))),
        _ => Arc::new(Int32Array::from_iter(numbers())),
    }
}

fn float(number: i32) -> f64 {
    match number {
        -1 => -0.0,
        1 => f64::NAN,
        2 => f64::INFINITY,
        3 => f64::NEG_INFINITY,
        4 => f64::MAX,
        5 => f64::MIN_POSITIVE,
        number => f64::from(number) / 8.0,
    }
}

/// What an expression is made from: each choice takes a number, and the first choice if there is none left.
pub struct Tape<'a> {
    numbers: &'a [u32],
}

impl<'a> Tape<'a> {
    pub fn new(numbers: &'a [u32]) -> Self {
        Self { numbers }
    }

    fn pick(&mut self, choices: usize) -> usize {
        match self.numbers {
            [first, rest @ ..] => {
                self.numbers = rest;
                *first as usize % choices
            }
            [] => 0,
        }
    }

    fn flag(&mut self) -> bool {
        self.pick(2) == 1
    }

    fn number(&mut self) -> i32 {
        let number = self.pick(usize::MAX) as i32;
        if number % 3 == 0 { number % 400_000 } else { number % 12 }
    }
}

fn column(data_type: &DataType, tape: &mut Tape<'_>) -> Expr {
    let indexes: Vec<usize> = (0..TYPES.len()).filter(|index| TYPES[*index] == *data_type).collect();
    Expr::Column { index: indexes[tape.pick(indexes.len())], data_type: data_type.clone() }
}

fn constant(data_type: &DataType, tape: &mut Tape<'_>) -> Value {
    let number = tape.number();
    match data_type {
        DataType::Boolean => Value::Bool(number % 2 == 0),
        DataType::Int16 => Value::Int2(number as i16),
        DataType::Int32 => Value::Int4(number),
        DataType::Int64 => Value::Int8(i64::from(number) * 1_000),
        DataType::Float64 => Value::Float8(float(number)),
        DataType::Decimal128(..) if number % 7 == 0 => Value::Decimal(i128::from(number) << 70),
        DataType::Decimal128(..) => Value::Decimal(i128::from(number)),
        DataType::Date32 => Value::Date(number % 20_000),
        DataType::Timestamp(..) => Value::Timestamp(i64::from(number) * 86_399_999_999),
        DataType::Utf8View => Value::Text(TEXTS[number.rem_euclid(TEXTS.len() as i32) as usize].to_owned()),
        other => panic!("no constant of {other}"),
    }
}

fn literal(data_type: &DataType, tape: &mut Tape<'_>) -> Expr {
    let value = if tape.pick(12) == 11 { Value::Null } else { constant(data_type, tape) };
    Expr::Literal { value, data_type: data_type.clone() }
}

fn boxed(data_type: &DataType, tape: &mut Tape<'_>, depth: u32) -> Box<Expr> {
    Box::new(value(data_type, tape, depth))
}

fn case(data_type: &DataType, tape: &mut Tape<'_>, depth: u32) -> Expr {
    let branches =
        (0..=tape.pick(3)).map(|_| (condition(tape, depth), value(data_type, tape, depth))).collect::<Vec<_>>();
    let otherwise = tape.flag().then(|| boxed(data_type, tape, depth));
    Expr::Case { branches, otherwise, data_type: data_type.clone() }
}

const OPERATIONS: [ArithmeticOp; 5] =
    [ArithmeticOp::Add, ArithmeticOp::Subtract, ArithmeticOp::Multiply, ArithmeticOp::Divide, ArithmeticOp::Remainder];

/// An expression of a type.
pub fn value(data_type: &DataType, tape: &mut Tape<'_>, depth: u32) -> Expr {
    let choice = tape.pick(6);
    if depth == 0 || choice < 2 {
        return if tape.flag() { literal(data_type, tape) } else { column(data_type, tape) };
    }
    let depth = depth - 1;
    match data_type {
        DataType::Boolean => condition(tape, depth),
        DataType::Utf8View => text(tape, depth),
        _ if choice == 2 => case(data_type, tape, depth),
        DataType::Date32 => column(data_type, tape),
        DataType::Timestamp(..) => {
            Expr::Cast { expr: boxed(&DataType::Date32, tape, depth), data_type: data_type.clone() }
        }
        _ if choice == 3 => converted(data_type, tape, depth),
        DataType::Decimal128(..) => {
            let computed = decimal_arithmetic(tape, depth);
            Expr::Cast { expr: Box::new(computed), data_type: data_type.clone() }
        }
        _ if choice == 4 => Expr::Negate(boxed(data_type, tape, depth)),
        _ => Expr::Arithmetic {
            op: OPERATIONS[tape.pick(5)],
            left: boxed(data_type, tape, depth),
            right: boxed(data_type, tape, depth),
            data_type: data_type.clone(),
        },
    }
}

/// From another type.
fn converted(data_type: &DataType, tape: &mut Tape<'_>, depth: u32) -> Expr {
    let from = match data_type {
        DataType::Int16 => return Expr::Negate(boxed(data_type, tape, depth)),
        DataType::Int32 if tape.flag() => {
            let part = [DatePart::Year, DatePart::Month, DatePart::Day][tape.pick(3)];
            let from = if tape.flag() { DataType::Date32 } else { TYPES[8].clone() };
            return Expr::DatePart { part, expr: boxed(&from, tape, depth) };
        }
        DataType::Int32 => DataType::Int16,
        DataType::Int64 => [DataType::Int16, DataType::Int32][tape.pick(2)].clone(),
        DataType::Decimal128(15, 2) => [DataType::Int32, DataType::Int64, TYPES[6].clone()][tape.pick(3)].clone(),
        DataType::Decimal128(..) => [DataType::Int16, DataType::Int64, TYPES[5].clone()][tape.pick(3)].clone(),
        DataType::Float64 => TYPES[5 + tape.pick(2)].clone(),
        other => panic!("no conversion to {other}"),
    };
    Expr::Cast { expr: boxed(&from, tape, depth), data_type: data_type.clone() }
}

fn decimal_arithmetic(tape: &mut Tape<'_>, depth: u32) -> Expr {
    let mut side = || boxed(&TYPES[5 + tape.pick(2)].clone(), tape, depth);
    let (left, right) = (side(), side());
    let scale = |expr: &Expr| if let DataType::Decimal128(_, scale) = expr.data_type() { scale } else { 0 };
    let op = OPERATIONS[tape.pick(5)];
    let scale = match op {
        ArithmeticOp::Multiply => scale(&left) + scale(&right),
        ArithmeticOp::Divide => scale(&left) + 4,
        _ => scale(&left).max(scale(&right)),
    };
    Expr::Arithmetic { op, left, right, data_type: DataType::Decimal128(38, scale) }
}

pub fn text(tape: &mut Tape<'_>, depth: u32) -> Expr {
    let choice = tape.pick(3);
    if depth == 0 || choice == 0 {
        return if tape.pick(3) == 0 { literal(&DataType::Utf8View, tape) } else { column(&DataType::Utf8View, tape) };
    }
    if choice == 1 {
        return case(&DataType::Utf8View, tape, depth - 1);
    }
    let expr = Box::new(text(tape, depth - 1));
    let length = tape.flag().then(|| tape.pick(20) as i64);
    Expr::Substring { expr, start: tape.pick(20) as i64 - 3, length }
}

const PATTERNS: [&str; 12] =
    ["%", "", "ab", "a%", "%é", "%ab%", "%special%requests%", "a%inline", "_b%", "%_", "MAIL", "a text that%not%"];

pub fn condition(tape: &mut Tape<'_>, depth: u32) -> Expr {
    let choice = tape.pick(10);
    let below = depth.saturating_sub(1);
    if depth == 0 || choice < 3 {
        let data_type = TYPES[tape.pick(TYPES.len())].clone();
        let ops = [
            CompareOp::Equal,
            CompareOp::NotEqual,
            CompareOp::Less,
            CompareOp::LessOrEqual,
            CompareOp::Greater,
            CompareOp::GreaterOrEqual,
        ];
        let (left, right) = (boxed(&data_type, tape, below), boxed(&data_type, tape, below));
        return Expr::Compare { op: ops[tape.pick(6)], left, right };
    }
    let parts = |tape: &mut Tape<'_>| (0..=tape.pick(4)).map(|_| condition(tape, below)).collect::<Vec<_>>();
    match choice {
        3 => Expr::And(parts(tape)),
        4 => Expr::Or(parts(tape)),
        5 => Expr::Not(Box::new(condition(tape, below))),
        6 => {
            let expr = boxed(&TYPES[tape.pick(TYPES.len())], tape, below);
            if tape.flag() { Expr::IsNull(expr) } else { Expr::IsNotNull(expr) }
        }
        7 => Expr::Like {
            expr: Box::new(text(tape, below)),
            pattern: Arc::new(LikePattern::new(PATTERNS[tape.pick(PATTERNS.len())], false)),
            negated: tape.flag(),
        },
        8 => {
            let data_type = TYPES[tape.pick(TYPES.len())].clone();
            let values: Vec<Value> = (0..tape.pick(14)).map(|_| constant(&data_type, tape)).collect();
            let expr = boxed(&data_type, tape, below);
            Expr::InList { expr, values: Arc::new(ValueSet::new(values)), negated: tape.flag() }
        }
        _ => case(&DataType::Boolean, tape, below),
    }
}
