//! Nanoseconds a row of the expressions that analytical queries are made of, beside Arrow's kernels where there are
//! any.
//!
//! ```text
//! cargo run --release -p saki-vector --example expr_rate
//! ```

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Int32Array, Int64Array, Scalar, StringArray, StringViewArray,
    UInt16Array,
};
use arrow_buffer::BooleanBuffer;
use arrow_schema::DataType;
use saki_base::value::Value;
use saki_vector::expr::{ArithmeticOp, CompareOp, DatePart, LikePattern, ValueSet};
use saki_vector::form::TextDictionary;
use saki_vector::{BATCH_ROWS, Batch, Bounds, Column, Expr};

/// Times that a batch is gone through: it is in the second-level cache.
const REPETITIONS: usize = 1000;

const PRICE: DataType = DataType::Decimal128(15, 2);

fn main() {
    let batch = lineitem();
    let mut report = Report { filter: std::env::args().nth(1).unwrap_or_default() };
    filters(&batch, &mut report);
    arithmetic(&batch, &mut report);
    text(&batch, &mut report);
    gathering(&batch, &mut report);
}

struct Report {
    /// Only lines that contain this.
    filter: String,
}

impl Report {
    fn time<T>(&mut self, name: &str, mut work: impl FnMut() -> T) {
        if !name.contains(&self.filter) {
            return;
        }
        // The fastest batch: others may have been interrupted.
        let times = (0..REPETITIONS).map(|_| {
            let start = Instant::now();
            black_box(work());
            start.elapsed().as_secs_f64()
        });
        println!("{name:<58} {:>8.3} ns/row", times.fold(f64::MAX, f64::min) * 1e9 / BATCH_ROWS as f64);
    }
}

/// A generator of numbers that look random (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit) as i64
    }
}

/// Columns of `lineitem` (SF 1) and `orders`.
fn lineitem() -> Batch {
    let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15);
    let mut integers =
        |limit: u64, first: i64| (0..BATCH_ROWS).map(|_| numbers.below(limit) + first).collect::<Vec<_>>();
    let decimal =
        |values: Vec<i64>, max: i64| Column::with_bounds(Arc::new(Int64Array::from(values)), Bounds { min: 0, max });
    let quantity = decimal(integers(50, 1).into_iter().map(|v| v * 100).collect(), 5_000);
    let price = decimal(integers(10_000_000, 90_000), 10_494_950);
    let discount = decimal(integers(11, 0), 10);
    let tax = decimal(integers(9, 0), 8);
    let days: Vec<i32> = integers(2526, 8036).into_iter().map(|v| v as i32).collect();
    let shipdate = Column::with_bounds(Arc::new(Date32Array::from(days)), Bounds { min: 8036, max: 10_561 });
    let modes = StringViewArray::from_iter_values(["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"]);
    let codes: Vec<u16> = integers(7, 0).into_iter().map(|v| v as u16).collect();
    let mode = Column::new(Arc::new(TextDictionary::new(UInt16Array::from(codes), Arc::new(modes))));
    let words = ["furiously", "special", "packages", "requests", "carefully", "final", "deposits", "sleep", "quickly"];
    let picks = integers(9, 0);
    let comments = (0..BATCH_ROWS).map(|row| {
        let words: Vec<&str> =
            (0..4 + row % 4).map(|word| words[picks[(row * 7 + word * 31) % BATCH_ROWS] as usize]).collect();
        words.join(" ")
    });
    // As a decoder leaves them: one after the other in one buffer.
    let comments = StringViewArray::from(&StringArray::from_iter_values(comments));
    let keys: Vec<i32> = integers(200_000, 1).into_iter().map(|v| v as i32).collect();
    let columns = vec![
        quantity,
        price,
        discount,
        tax,
        shipdate,
        mode,
        Column::new(Arc::new(comments)),
        Column::new(Arc::new(Int32Array::from(keys))),
    ];
    Batch::new(columns, BATCH_ROWS)
}

fn column(index: usize) -> Box<Expr> {
    let data_type = match index {
        0..=3 => PRICE,
        4 => DataType::Date32,
        5 | 6 => DataType::Utf8View,
        _ => DataType::Int32,
    };
    Box::new(Expr::Column { index, data_type })
}

fn literal(value: Value, data_type: DataType) -> Box<Expr> {
    Box::new(Expr::Literal { value, data_type })
}

fn price(value: i128) -> Box<Expr> {
    literal(Value::Decimal(value), PRICE)
}

fn date(days: i32) -> Box<Expr> {
    literal(Value::Date(days), DataType::Date32)
}

fn compare(left: Box<Expr>, op: CompareOp, right: Box<Expr>) -> Expr {
    Expr::Compare { op, left, right }
}

fn calculate(left: Box<Expr>, op: ArithmeticOp, right: Box<Expr>, scale: i8) -> Box<Expr> {
    Box::new(Expr::Arithmetic { op, left, right, data_type: DataType::Decimal128(38, scale) })
}

fn filters(batch: &Batch, report: &mut Report) {
    let (first, last) = (8766, 9131);
    let q6 = Expr::And(vec![
        compare(column(4), CompareOp::GreaterOrEqual, date(first)),
        compare(column(4), CompareOp::Less, date(last)),
        compare(column(2), CompareOp::GreaterOrEqual, price(5)),
        compare(column(2), CompareOp::LessOrEqual, price(7)),
        compare(column(0), CompareOp::Less, price(2_400)),
    ]);
    report.time("Q6 filter, 5 comparisons", || q6.select(batch));
    let array = |index: usize| batch.columns[index].array();
    let wide: Vec<ArrayRef> =
        [0, 2].iter().map(|index| saki_vector::form::to_surface(&batch.columns[*index], &PRICE).unwrap()).collect();
    let scalar = |value: i64| Scalar::new(Int64Array::from(vec![value]));
    let days = |value: i32| Scalar::new(Date32Array::from(vec![value]));
    let and = |masks: &[BooleanArray]| -> Option<BooleanBuffer> {
        masks.iter().map(|mask| mask.values().clone()).reduce(|left, right| &left & &right)
    };
    use arrow_ord::cmp;
    report.time("Q6 filter, 5 comparisons: arrow, i64", || {
        and(&[
            cmp::gt_eq(array(4), &days(first)).unwrap(),
            cmp::lt(array(4), &days(last)).unwrap(),
            cmp::gt_eq(array(2), &scalar(5)).unwrap(),
            cmp::lt_eq(array(2), &scalar(7)).unwrap(),
            cmp::lt(array(0), &scalar(2_400)).unwrap(),
        ])
    });
    let wide_scalar =
        |value: i128| Scalar::new(Decimal128Array::from(vec![value]).with_precision_and_scale(15, 2).unwrap());
    report.time("Q6 filter, 5 comparisons: arrow, Decimal128", || {
        and(&[
            cmp::gt_eq(array(4), &days(first)).unwrap(),
            cmp::lt(array(4), &days(last)).unwrap(),
            cmp::gt_eq(&wide[1], &wide_scalar(5)).unwrap(),
            cmp::lt_eq(&wide[1], &wide_scalar(7)).unwrap(),
            cmp::lt(&wide[0], &wide_scalar(2_400)).unwrap(),
        ])
    });
    let one = compare(column(4), CompareOp::Less, date(first));
    report.time("date < constant", || one.select(batch));
    report.time("date < constant: arrow", || cmp::lt(array(4), &days(first)));
    let one = compare(column(0), CompareOp::Less, price(2_400));
    report.time("decimal < constant", || one.select(batch));
    report.time("decimal < constant: arrow, i64", || cmp::lt(array(0), &scalar(2_400)));
    let two = compare(column(2), CompareOp::Less, column(3));
    report.time("decimal < decimal", || two.select(batch));
    report.time("decimal < decimal: arrow, i64", || cmp::lt(array(2), array(3)));
    for count in [3, 30, 3000] {
        let values = Arc::new(ValueSet::new((0..count).map(|value| Value::Int4(value * 61))));
        let list = Expr::InList { expr: column(7), values, negated: false };
        report.time(&format!("integer IN ({count} values)"), || list.select(batch));
    }
}

fn arithmetic(batch: &Batch, report: &mut Report) {
    use ArithmeticOp::{Add, Multiply, Subtract};
    let revenue = calculate(column(1), Multiply, calculate(price(100), Subtract, column(2), 2), 4);
    let charge = calculate(revenue.clone(), Multiply, calculate(price(100), Add, column(3), 2), 6);
    report.time("price * (1 - discount)", || revenue.evaluate(batch));
    report.time("price * (1 - discount) * (1 + tax)", || charge.evaluate(batch));
    let unknown =
        Batch::new(batch.columns.iter().map(|column| Column::new(column.array().clone())).collect(), batch.rows);
    report.time("price * (1 - discount) * (1 + tax), bounds unknown", || charge.evaluate(&unknown));
    let wide = Batch::new(
        batch
            .columns
            .iter()
            .enumerate()
            .map(|(index, column)| match index {
                0..=3 => Column::new(saki_vector::form::to_surface(column, &PRICE).unwrap()),
                _ => column.clone(),
            })
            .collect(),
        batch.rows,
    );
    report.time("price * (1 - discount) * (1 + tax), 16 bytes", || charge.evaluate(&wide));
    let year = Expr::DatePart { part: DatePart::Year, expr: column(4) };
    report.time("year of date", || year.evaluate(batch));
    let month = Expr::DatePart { part: DatePart::Month, expr: column(4) };
    report.time("month of date", || month.evaluate(batch));
    let case = Expr::Case {
        branches: vec![(compare(column(4), CompareOp::Less, date(9131)), *revenue)],
        otherwise: Some(literal(Value::Decimal(0), DataType::Decimal128(38, 4))),
        data_type: DataType::Decimal128(38, 4),
    };
    report.time("CASE WHEN date < c THEN price * (1 - discount) ELSE 0", || case.evaluate(batch));
}

fn text(batch: &Batch, report: &mut Report) {
    let like = |index: usize, pattern: &str, negated: bool| Expr::Like {
        expr: column(index),
        pattern: Arc::new(LikePattern::new(pattern, false)),
        negated,
    };
    for pattern in ["%special%requests%", "%requests%", "special%", "%quickly", "%s_ecial%"] {
        let expr = like(6, pattern, true);
        report.time(&format!("NOT LIKE '{pattern}'"), || expr.select(batch));
        let scalar = StringViewArray::new_scalar(pattern);
        let comments = batch.columns[6].array();
        report.time(&format!("NOT LIKE '{pattern}': arrow"), || arrow_string::like::nlike(comments, &scalar));
    }
    let dictionary = like(5, "%AIL%", false);
    report.time("dictionary LIKE '%AIL%'", || dictionary.select(batch));
    let in_list = |index: usize, values: &[&str]| Expr::InList {
        expr: column(index),
        values: Arc::new(ValueSet::new(values.iter().map(|value| Value::Text((*value).into())))),
        negated: false,
    };
    let modes = in_list(5, &["MAIL", "SHIP"]);
    report.time("dictionary IN (2 values)", || modes.select(batch));
    let equal = compare(column(5), CompareOp::Equal, literal(Value::Text("MAIL".into()), DataType::Utf8View));
    report.time("dictionary = constant", || equal.select(batch));
    let equal =
        compare(column(6), CompareOp::Equal, literal(Value::Text("special deposits sleep".into()), DataType::Utf8View));
    report.time("views = constant", || equal.select(batch));
    let less = compare(column(6), CompareOp::Less, literal(Value::Text("final".into()), DataType::Utf8View));
    report.time("views < constant", || less.select(batch));
    let start = Expr::Substring { expr: column(6), start: 1, length: Some(2) };
    report.time("substring(views from 1 for 2)", || start.evaluate(batch));
}

fn gathering(batch: &Batch, report: &mut Report) {
    for percent in [2, 15, 50, 85, 98] {
        let mut numbers = Numbers(77);
        let keep: BooleanArray = (0..BATCH_ROWS).map(|_| Some(numbers.below(100) < percent)).collect();
        for (index, name) in [(1, "i64"), (4, "i32"), (5, "dictionary"), (6, "views")] {
            let column = &batch.columns[index];
            report.time(&format!("filter {name}, {percent} % kept"), || column.filter(&keep));
            report.time(&format!("filter {name}, {percent} % kept: arrow"), || {
                arrow_select::filter::filter(column.array(), &keep)
            });
        }
        report.time(&format!("filter 8 columns, {percent} % kept"), || batch.filter(&keep));
    }
}
