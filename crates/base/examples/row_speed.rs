//! How long it takes to write a row and a key and to read their columns.
//!
//! ```text
//! cargo run --release -p saki-base --example row_speed
//! ```

use std::hint::black_box;
use std::time::Instant;

use saki_base::{DataType, KeyColumn, KeyLayout, RowColumn, RowLayout, ValueRef};

const ROUNDS: usize = 10;
const CALLS: usize = 200_000;

fn main() {
    // The columns of TPC-H lineitem that are not in its key.
    let money = DataType::Decimal { precision: 15, scale: 2 };
    let columns = [
        (DataType::Int8, ValueRef::Int8(155_190)),
        (DataType::Int8, ValueRef::Int8(7_706)),
        (money, ValueRef::Decimal(1_700)),
        (money, ValueRef::Decimal(2_116_823)),
        (money, ValueRef::Decimal(4)),
        (money, ValueRef::Decimal(2)),
        (DataType::Char(1), ValueRef::Text("N")),
        (DataType::Char(1), ValueRef::Text("O")),
        (DataType::Date, ValueRef::Date(9_568)),
        (DataType::Date, ValueRef::Date(9_538)),
        (DataType::Date, ValueRef::Date(9_577)),
        (DataType::Char(25), ValueRef::Text("DELIVER IN PERSON")),
        (DataType::Char(10), ValueRef::Text("TRUCK")),
        (DataType::Varchar(44), ValueRef::Text("egular courts above the")),
    ];
    let values = columns.map(|(_, value)| value);
    let (fixed, variable) = (3, 13);
    for nullable in [false, true] {
        let layout = RowLayout::new(columns.map(|(data_type, _)| RowColumn { data_type, nullable }));
        let mut row = Vec::new();
        layout.encode(&values, &mut row).expect("the values fit");
        println!("lineitem row, nullable: {nullable}: {} bytes", row.len());
        time("  write", || {
            row.clear();
            layout.encode(black_box(&values), &mut row).expect("the values fit");
        });
        let row = black_box(row.as_slice());
        time("  read a fixed column", || drop(black_box(layout.view(row).bytes_of(black_box(fixed)))));
        time("  read a variable column", || drop(black_box(layout.view(row).bytes_of(black_box(variable)))));
        time("  read all values", || {
            (0..values.len()).for_each(|column| drop(black_box(layout.view(row).value(column))))
        });
    }

    let key_of = |data_type| KeyColumn { data_type, nullable: false, descending: false };
    let layout = KeyLayout::new([DataType::Int8, DataType::Text].map(key_of));
    let (mut key, mut scratch) = (Vec::new(), Vec::new());
    println!("key of bigint and text");
    time("  write", || {
        key.clear();
        layout
            .encode(black_box(&[ValueRef::Int8(7), ValueRef::Text("Customer#000000001")]), &mut key)
            .expect("they fit");
    });
    time("  read the text", || drop(black_box(layout.decode(black_box(&key), 1, &mut scratch))));
}

/// Prints nanoseconds of a call: the best of some rounds, since other work on the machine can only add to it.
fn time(what: &str, mut call: impl FnMut()) {
    let round = |_| {
        let begun = Instant::now();
        (0..CALLS).for_each(|_| call());
        begun.elapsed().as_nanos() as f64 / CALLS as f64
    };
    println!("{what:<28} {:6.1} ns", (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min));
}
