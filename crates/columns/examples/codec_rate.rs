//! What the codec makes of TPC-H's lineitem: bytes and time for each column.
//!
//! ```text
//! cargo run --release -p saki-columns --example codec_rate [scale factor]
//! ```
//!
//! Times are of one thread's processor, for blobs and columns in memory; decoding gives fresh arrays each time.

use std::hint::black_box;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Decimal128Type;
use arrow_buffer::Buffer;
use arrow_schema::DataType as ArrowType;
use mimalloc::MiMalloc;
use saki_base::{DataType, Value};
use saki_columns::{Codec, Test, VortexCodec};
use saki_vector::expr::CompareOp;
use saki_vector::{Column, form};
use tpchgen::generators::LineItemGenerator;
use tpchgen_arrow::LineItemArrow;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const SEGMENT_ROWS: usize = 128 * 1024;

fn main() {
    let scale: f64 = std::env::args().nth(1).map_or(0.2, |scale| scale.parse().expect("a scale factor"));
    let generator = LineItemArrow::new(LineItemGenerator::new(scale, 1, 1)).with_batch_size(SEGMENT_ROWS);
    let schema = LineItemArrow::schema_ref();
    let batches: Vec<RecordBatch> = generator.collect::<Result<_, _>>().expect("generated rows");
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    println!("lineitem, scale {scale}: {rows} rows in {} segments; ns are per row", batches.len());
    println!(
        "{:<16} {:>12} {:>9} {:>8} {:>8} {:>8} {:>8}  encodings",
        "column", "bytes", "bits/row", "encode", "decode", "select", "passing"
    );
    let mut total = Line::default();
    for (index, field) in schema.fields().iter().enumerate() {
        let segments: Vec<Column> = batches.iter().map(|batch| native(batch, index)).collect();
        let line = measure(&segments, data_type(field.data_type()));
        line.print(field.name(), rows);
        total.bytes += line.bytes;
        total.encode += line.encode;
        total.decode += line.decode;
    }
    total.print("all", rows);
}

#[derive(Default)]
struct Line {
    bytes: usize,
    encode: Duration,
    decode: Duration,
    /// Of the first segment.
    encodings: String,
    /// Time of a test in the middle of the values, and the rows that pass, if the codec decides it.
    select: Option<(Duration, usize)>,
}

impl Line {
    fn print(&self, name: &str, rows: usize) {
        let rows = rows as f64;
        let per_row = |time: Duration| format!("{:.2}", time.as_secs_f64() * 1e9 / rows);
        let (select, passing) = match self.select {
            Some((time, passing)) => (per_row(time), format!("{:.1}%", passing as f64 * 100.0 / rows)),
            None => ("-".to_owned(), String::new()),
        };
        println!(
            "{name:<16} {:>12} {:>9.2} {:>8} {:>8} {select:>8} {passing:>8}  {}",
            self.bytes,
            self.bytes as f64 * 8.0 / rows,
            per_row(self.encode),
            per_row(self.decode),
            self.encodings
        );
    }
}

fn measure(segments: &[Column], data_type: DataType) -> Line {
    let codec = VortexCodec::default();
    let start = processor_time();
    let blobs: Vec<(Buffer, usize)> = segments
        .iter()
        .map(|column| (Buffer::from_slice_ref(codec.encode(column, data_type).expect("a column")), column.len()))
        .collect();
    let encode = processor_time() - start;
    let decode = average(|| {
        for (blob, rows) in &blobs {
            black_box(codec.decode(blob, data_type, *rows).expect("what was encoded"));
        }
    });
    let test = Test::Compare(CompareOp::Less, middle(&segments[0], data_type));
    let passing = || {
        let selected = blobs.iter().map(|(blob, rows)| codec.select(blob, data_type, *rows, &test));
        let passing: Option<Vec<usize>> =
            selected.map(|selected| Some(selected.expect("a test")?.true_count())).collect();
        passing.map(|passing| passing.iter().sum())
    };
    let select = passing().map(|count| (average(|| _ = black_box(passing())), count));
    let encodings = blobs.first().map_or(Ok(String::new()), |(blob, rows)| VortexCodec::describe(blob, *rows));
    let encodings = encodings.expect("what was encoded");
    Line { encodings, bytes: blobs.iter().map(|(blob, _)| blob.len()).sum(), encode, decode, select }
}

/// Time that this thread has run: others may want the processor too.
fn processor_time() -> Duration {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    Duration::from_nanos(statistics.split_whitespace().next().and_then(|time| time.parse().ok()).expect("a time"))
}

/// The time of a run, on average over enough of them: the clock of [`processor_time`] ticks.
fn average(mut run: impl FnMut()) -> Duration {
    const ENOUGH: Duration = Duration::from_millis(100);
    let start = processor_time();
    let mut runs = 0;
    loop {
        run();
        runs += 1;
        let time = processor_time() - start;
        if time > ENOUGH {
            return time / runs;
        }
    }
}

/// A column of a generated batch in its native form.
fn native(batch: &RecordBatch, index: usize) -> Column {
    let column = form::from_surface(batch.column(index)).expect("a surface array");
    match column.array().data_type() {
        ArrowType::Decimal128(..) => {
            let wide = column.array().as_primitive::<Decimal128Type>();
            Column::new(std::sync::Arc::new(form::narrow_decimals(wide).expect("15 digits")))
        }
        _ => column,
    }
}

fn data_type(surface: &ArrowType) -> DataType {
    match surface {
        ArrowType::Int32 => DataType::Int4,
        ArrowType::Int64 => DataType::Int8,
        ArrowType::Date32 => DataType::Date,
        ArrowType::Decimal128(precision, scale) => DataType::Decimal { precision: *precision, scale: *scale as u8 },
        _ => DataType::Text,
    }
}

/// A value that about half of the values are less than, if it is one of a number.
fn middle(column: &Column, data_type: DataType) -> Value {
    let number = |bounds: saki_vector::Bounds| bounds.min.midpoint(bounds.max);
    match (data_type, column.bounds()) {
        (DataType::Int4, Some(bounds)) => Value::Int4(number(bounds) as i32),
        (DataType::Date, Some(bounds)) => Value::Date(number(bounds) as i32),
        (DataType::Int8, Some(bounds)) => Value::Int8(number(bounds)),
        (_, Some(bounds)) => Value::Decimal(i128::from(number(bounds))),
        (_, None) => Value::Text("N".to_owned()),
    }
}
